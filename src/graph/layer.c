/* The usual layers of a network, each one or a few nodes. */
#include "graphimpl.h"
#include <math.h>

enum { NAME_SIZE = 512 };

/* One node with one output, which may be stored where an input was. */
static RengaErrorCode ApplyLayer(RengaGraph graph, const char *op, const char *name,
                                 RengaAttributes *attributes, int n_in, const RengaValue in[],
                                 const RengaTensorSpec *given, RengaValue *y)
{
  RengaValue made;
  RengaErrorCode code = RENGA_SUCCESS;
  if (y) code = RengaGraphAddNode(graph, op, name, attributes, n_in, in, 1, given, &made);
  if (attributes) RengaAttributesFree(attributes);
  RengaCheck(y, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s: the pointer to the value that it makes is null", op ? op : "an operator");
  RengaCall(code);
  *y = made;
  return RENGA_SUCCESS;
}

/* NAME.part, or a name made from the operator where the layer has none. */
static const char *PartName(const char *name, const char *part, char text[NAME_SIZE])
{
  if (name == NULL) return NULL;
  snprintf(text, NAME_SIZE, "%s.%s", name, part);
  return text;
}

static RengaErrorCode CheckFloatingInput(RengaGraph graph, RengaValue x, const char *layer,
                                         int least, const char *function)
{
  char text[160];
  RengaCheckPointerOf(function, graph);
  RengaCall(RengaGraphCheckValue(graph, x));
  const RengaTensorSpec *spec = RengaGraphSpec(graph, x);
  RengaTensorSpecFormat(spec, sizeof text, text);
  RengaCheck(RengaDataTypeIsFloating(spec->type) && spec->ndim >= least, MPI_COMM_SELF,
             RENGA_ERR_SHAPE, "%s of \"%s\": %s must be floating with %d dimensions or more", layer,
             graph->value[x]->name, text, least);
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddMatMul - matrix product; leading dimensions are broadcast

   Input:
   . a, b - […, m, k] and […, k, n]

   Output:
   . y - […, m, n]

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphAddLinear(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddMatMul(RengaGraph graph, RengaValue a, RengaValue b, RengaValue *y)
{
  RengaCall(ApplyLayer(graph, "MatMul", NULL, NULL, 2, (const RengaValue[]){a, b}, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddLinear - y = x w' + b with new parameters NAME.weight [width, k] and NAME.bias

   Input:
   . name - the layer's name, or NULL
   . x - […, k]
   . width - the last dimension of y, at least 1
   . bias - whether there is one; it begins at zero
   . deviation - the standard deviation of the normal numbers that the weight begins with, at least
     0

   Output:
   . y - […, width]

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphAddMatMul(), RengaGraphAddParameter()
@*/
RengaErrorCode RengaGraphAddLinear(RengaGraph graph, const char *name, RengaValue x, int64_t width,
                                   bool bias, double deviation, RengaValue *y)
{
  char text[NAME_SIZE];
  RengaCall(CheckFloatingInput(graph, x, "Linear", 1, __func__));
  const RengaTensorSpec *spec = RengaGraphSpec(graph, x);
  int64_t k = spec->dim[spec->ndim - 1];
  RengaCheck(k >= 0 && width > 0, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "layer \"%s\": a weight of [%lld, %lld]", name ? name : "Linear", (long long)width,
             (long long)k);
  RengaTensorSpec w = {.type = spec->type, .ndim = 2, .dim = {width, k}};
  RengaTensorSpec b = {.type = spec->type, .ndim = 1, .dim = {width}};
  RengaInit normal = {.kind = RENGA_INIT_NORMAL, .a = 0, .b = deviation};
  RengaValue in[3] = {x, RENGA_VALUE_NONE, RENGA_VALUE_NONE};
  RengaCall(RengaGraphAddParameter(graph, PartName(name, "weight", text), &w, &normal, &in[1]));
  if (bias)
    RengaCall(RengaGraphAddParameter(graph, PartName(name, "bias", text), &b, NULL, &in[2]));
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "transB", 1));
  RengaCall(ApplyLayer(graph, "Linear", name, &attributes, 3, in, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddAdd - elementwise sum with broadcasting

   Input:
   . a, b - shapes that broadcast

   Output:
   . y - the sum

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphAddUnary(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddAdd(RengaGraph graph, RengaValue a, RengaValue b, RengaValue *y)
{
  RengaCall(ApplyLayer(graph, "Add", NULL, NULL, 2, (const RengaValue[]){a, b}, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddUnary - an operator of one input and no attributes: "Relu", "Gelu", "Tanh", …

   Input:
   . op - the operator
   . x - any shape

   Output:
   . y - the same shape

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes; RENGA_ERR_SUPPORT for an
   operator that there is not.

   See also: RengaGraphAddAdd(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddUnary(RengaGraph graph, const char *op, RengaValue x, RengaValue *y)
{
  RengaCall(ApplyLayer(graph, op, NULL, NULL, 1, &x, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddReshape - the same elements in another shape

   Input:
   . x - any shape
   . ndim, dim - the number of dimensions, at least 0, and the shape; -c is c times the batch

   Output:
   . y - x in that shape

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphAddTranspose(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddReshape(RengaGraph graph, RengaValue x, int ndim, const int64_t dim[],
                                    RengaValue *y)
{
  RengaCheckPointer(graph);
  RengaCall(RengaGraphCheckValue(graph, x));
  RengaCheck(ndim >= 0 && ndim <= RENGA_MAX_DIM, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "a reshape to %d dimensions, 0 to %d are allowed", ndim, RENGA_MAX_DIM);
  RengaTensorSpec given = {.type = RengaGraphSpec(graph, x)->type, .ndim = ndim};
  for (int d = 0; d < ndim; d++) given.dim[d] = dim[d];
  RengaCall(ApplyLayer(graph, "Reshape", NULL, NULL, 1, &x, &given, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddTranspose - dimensions in another order

   Input:
   . x - any shape
   . permutation - dimension d of y is dimension permutation[d] of x

   Output:
   . y - the result

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphAddReshape(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddTranspose(RengaGraph graph, RengaValue x, const int64_t permutation[],
                                      RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaCheckPointer(graph);
  RengaCall(RengaGraphCheckValue(graph, x));
  RengaCall(
      RengaAttributesSetInts(&attributes, "perm", RengaGraphSpec(graph, x)->ndim, permutation));
  RengaCall(ApplyLayer(graph, "Transpose", NULL, &attributes, 1, &x, NULL, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddScaleAndShift(RengaGraph graph, const char *name, RengaDataType type,
                                       int64_t count, RengaValue in[2])
{
  char text[NAME_SIZE];
  RengaTensorSpec spec = {.type = type, .ndim = 1, .dim = {count}};
  RengaInit one = {.kind = RENGA_INIT_CONSTANT, .a = 1};
  RengaCall(RengaGraphAddParameter(graph, PartName(name, "weight", text), &spec, &one, &in[0]));
  RengaCall(RengaGraphAddParameter(graph, PartName(name, "bias", text), &spec, NULL, &in[1]));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddLayerNormalization - over the last dimension, with new NAME.weight and NAME.bias

   Input:
   . name - the layer's name, or NULL
   . x - […, width]
   . epsilon - a number above 0 that is added to the variance

   Output:
   . y - the shape of x

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphAddBatchNormalization(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddLayerNormalization(RengaGraph graph, const char *name, RengaValue x,
                                               double epsilon, RengaValue *y)
{
  RengaCall(CheckFloatingInput(graph, x, "LayerNormalization", 1, __func__));
  const RengaTensorSpec *spec = RengaGraphSpec(graph, x);
  RengaValue in[3] = {x};
  RengaCall(AddScaleAndShift(graph, name, spec->type, spec->dim[spec->ndim - 1], &in[1]));
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "axis", -1));
  RengaCall(RengaAttributesSetReal(&attributes, "epsilon", epsilon));
  RengaCall(ApplyLayer(graph, "LayerNormalization", name, &attributes, 3, in, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddBatchNormalization - per channel over batch and space

   Input:
   . name - the layer's name, or NULL
   . x - [batch, channels, …]
   . epsilon - a number above 0 that is added to the variance
   . momentum - running = momentum * running + (1 - momentum) * batch's, as in ONNX (PyTorch counts
     the other way)

   Output:
   . y - the shape of x

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   Notes: makes parameters NAME.weight, NAME.bias and states NAME.running_mean,
   NAME.running_var. A micro-batch of n values per channel is divided by its biased
   variance, and adds n / (n - 1) times it to the running one, as in PyTorch.

   See also: RengaGraphAddLayerNormalization(), RengaGraphAddState()
@*/
RengaErrorCode RengaGraphAddBatchNormalization(RengaGraph graph, const char *name, RengaValue x,
                                               double epsilon, double momentum, RengaValue *y)
{
  char text[NAME_SIZE];
  RengaCall(CheckFloatingInput(graph, x, "BatchNormalization", 2, __func__));
  const RengaTensorSpec *spec = RengaGraphSpec(graph, x);
  RengaTensorSpec channels = {.type = spec->type, .ndim = 1, .dim = {spec->dim[1]}};
  RengaInit one = {.kind = RENGA_INIT_CONSTANT, .a = 1};
  RengaValue in[5] = {x};
  RengaCall(AddScaleAndShift(graph, name, channels.type, channels.dim[0], &in[1]));
  RengaCall(
      RengaGraphAddState(graph, PartName(name, "running_mean", text), &channels, NULL, &in[3]));
  RengaCall(
      RengaGraphAddState(graph, PartName(name, "running_var", text), &channels, &one, &in[4]));
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetReal(&attributes, "epsilon", epsilon));
  RengaCall(RengaAttributesSetReal(&attributes, "momentum", momentum));
  RengaCall(ApplyLayer(graph, "BatchNormalization", name, &attributes, 5, in, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddConvolution - a square convolution with new NAME.weight and NAME.bias

   Input:
   . name - the layer's name, or NULL
   . x - [batch, channels, space…]
   . channels, kernel, stride, pad - channels of the output, at least 1; extent and step, at least
     1, and padding, at least 0, in each dimension
   . bias - whether there is one

   Output:
   . y - [batch, channels, space…]

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   Notes: the weight begins normal with deviation sqrt(2 / (channels * kernel^d)) (He et al. 2015,
   fan out).

   See also: RengaGraphAddBatchNormalization(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddConvolution(RengaGraph graph, const char *name, RengaValue x,
                                        int64_t channels, int64_t kernel, int64_t stride,
                                        int64_t pad, bool bias, RengaValue *y)
{
  char text[NAME_SIZE];
  int64_t strides[RENGA_MAX_DIM], pads[2 * RENGA_MAX_DIM];
  RengaCall(CheckFloatingInput(graph, x, "Conv", 3, __func__));
  const RengaTensorSpec *spec = RengaGraphSpec(graph, x);
  int n = spec->ndim - 2;
  RengaTensorSpec w = {.type = spec->type, .ndim = spec->ndim, .dim = {channels, spec->dim[1]}};
  RengaTensorSpec b = {.type = spec->type, .ndim = 1, .dim = {channels}};
  RengaInit normal = {.kind = RENGA_INIT_NORMAL};
  double fan = (double)channels;
  for (int d = 0; d < n; d++) {
    w.dim[2 + d] = kernel;
    strides[d] = stride;
    pads[d] = pads[n + d] = pad;
    fan *= (double)kernel;
  }
  normal.b = fan > 0 ? sqrt(2.0 / fan) : 0;
  RengaValue in[3] = {x, RENGA_VALUE_NONE, RENGA_VALUE_NONE};
  RengaCall(RengaGraphAddParameter(graph, PartName(name, "weight", text), &w, &normal, &in[1]));
  if (bias)
    RengaCall(RengaGraphAddParameter(graph, PartName(name, "bias", text), &b, NULL, &in[2]));
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "strides", n, strides));
  RengaCall(RengaAttributesSetInts(&attributes, "pads", 2 * n, pads));
  RengaCall(ApplyLayer(graph, "Conv", name, &attributes, 3, in, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddEmbedding - rows of a table

   Input:
   . table - [rows, width]
   . indices - integers

   Output:
   . y - [shape of indices, width]

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphAddParameter(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddEmbedding(RengaGraph graph, RengaValue table, RengaValue indices,
                                      RengaValue *y)
{
  RengaCall(
      ApplyLayer(graph, "Gather", NULL, NULL, 2, (const RengaValue[]){table, indices}, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddDropout - in training, set elements to zero at random and scale up the others

   Input:
   . x - any shape
   . ratio - share of the elements that become zero, in [0, 1)

   Output:
   . y - the shape of x; x itself where the ratio is 0

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphAddAttention(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddDropout(RengaGraph graph, RengaValue x, double ratio, RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaCheckPointers(graph, y);
  RengaCall(RengaGraphCheckValue(graph, x));
  *y = x;
  if (ratio == 0) return RENGA_SUCCESS;
  RengaCall(RengaAttributesSetReal(&attributes, "ratio", ratio));
  RengaCall(ApplyLayer(graph, "Dropout", NULL, &attributes, 1, &x, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddAttention - softmax(q k' / sqrt(width)) v (Vaswani et al. 2017)

   Input:
   . q, k, v - [batch, heads, sequence, width per head]
   . causal - each place sees only itself and those before it
   . dropout - the share of the weights after the softmax that is dropped, in [0, 1)

   Output:
   . y - the shape of q

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphAddLinear(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddAttention(RengaGraph graph, RengaValue q, RengaValue k, RengaValue v,
                                      bool causal, double dropout, RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaCall(CheckFloatingInput(graph, q, "Attention", 2, __func__));
  const RengaTensorSpec *spec = RengaGraphSpec(graph, q);
  double width = (double)spec->dim[spec->ndim - 1];
  RengaCheck(width > 0, MPI_COMM_SELF, RENGA_ERR_SHAPE, "attention with heads of width %g", width);
  RengaCall(RengaAttributesSetReal(&attributes, "scale", 1.0 / sqrt(width)));
  RengaCall(RengaAttributesSetInt(&attributes, "causal", causal));
  RengaCall(RengaAttributesSetReal(&attributes, "ratio", dropout));
  RengaCall(
      ApplyLayer(graph, "Attention", NULL, &attributes, 3, (const RengaValue[]){q, k, v}, NULL, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddCrossEntropy - mean of -log softmax(scores)[label] over the labels of the batch

   Input:
   . scores - […, classes]
   . labels - […], integers
   . ignore_index - a label that does not count; INT64_MIN: none

   Output:
   . loss - a scalar: in a micro-batch its share of the mean over the whole batch

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT for a value that there is
   not; RENGA_ERR_SHAPE where the operator does not take the shapes.

   See also: RengaGraphSetLoss(), RengaGraphAddNode()
@*/
RengaErrorCode RengaGraphAddCrossEntropy(RengaGraph graph, RengaValue scores, RengaValue labels,
                                         int64_t ignore_index, RengaValue *loss)
{
  RengaAttributes attributes = {0};
  char name[NAME_SIZE];
  RengaValue sum = RENGA_VALUE_NONE, count = RENGA_VALUE_NONE;
  RengaCall(CheckFloatingInput(graph, scores, "CrossEntropy", 1, __func__));
  RengaCall(RengaAttributesSetInt(&attributes, "ignore_index", ignore_index));
  RengaErrorCode code =
      RengaGraphAddNode(graph, "CrossEntropyCount", NULL, &attributes, 1, &labels, 1, NULL, &count);
  if (code != RENGA_SUCCESS) RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(ApplyLayer(graph, "CrossEntropy", NULL, &attributes, 2,
                       (const RengaValue[]){scores, labels}, NULL, &sum));
  RengaCall(ApplyLayer(graph, "BatchSum", NULL, NULL, 1, &count, NULL, &count));
  RengaDataType type = RengaGraphSpec(graph, sum)->type;
  if (type != RENGA_FLOAT32) {
    RengaCall(RengaAttributesSetInt(&attributes, "to", (int64_t)type));
    RengaCall(ApplyLayer(graph, "Cast", NULL, &attributes, 1, &count, NULL, &count));
  }
  RengaCall(RengaGraphUniqueName(graph, "loss", sizeof name, name));
  RengaCall(ApplyLayer(graph, "Div", name, NULL, 2, (const RengaValue[]){sum, count}, NULL, loss));
  return RENGA_SUCCESS;
}
