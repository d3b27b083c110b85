/* Matrix products, convolutions and pooling. */
#include "onnx.h"
#include <string.h>

/* Is the batch a dimension of which there is one product each? */
static bool IsOverBatch(const RengaTensorSpec *spec)
{
  const int batch = RengaOnnxBatchDimension(spec);
  return batch >= 0 && batch < spec->ndim - 2;
}

RengaErrorCode RengaOnnxConvertMatMul(RengaOnnxNode *node)
{
  RengaValue in[2], y;
  for (int i = 0; i < 2; i++) RengaCall(RengaOnnxInputValue(node, i, &in[i]));
  RengaOnnxCheck(in[0] != RENGA_VALUE_NONE && in[1] != RENGA_VALUE_NONE, node,
                 RENGA_ERR_FILE_FORMAT, "it needs two inputs");
  if (IsOverBatch(RengaOnnxSpec(node, in[0])) || IsOverBatch(RengaOnnxSpec(node, in[1])))
    RengaCall(RengaOnnxOpenOperands(node, true, 2, in));
  RengaCall(RengaOnnxApply(node, "MatMul", in[0], in[1], &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* A layer: x [N,K], w a parameter, bias a vector of the width of y. */
static RengaErrorCode IsLinear(RengaOnnxNode *node, bool *linear)
{
  RengaValue b, c;
  RengaCall(RengaOnnxInputValue(node, 1, &b));
  RengaCall(RengaOnnxInputValue(node, 2, &c));
  const RengaTensorSpec *w = RengaOnnxSpec(node, b);
  bool plain = RengaOnnxReal(node, "alpha", 1) == 1 && RengaOnnxReal(node, "beta", 1) == 1 &&
               RengaOnnxInt(node, "transA", 0) == 0 && w->ndim == 2 && w->type == RENGA_FLOAT32;
  *linear = plain && RengaGraphGetValue(node->importer->graph, b)->kind == RENGA_VALUE_PARAMETER;
  if (!*linear || c == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  const RengaTensorSpec *bias = RengaOnnxSpec(node, c);
  *linear = bias->ndim == 1 && bias->dim[0] == w->dim[RengaOnnxInt(node, "transB", 0) ? 0 : 1];
  return RENGA_SUCCESS;
}

/* alpha * A' * B' + beta * C */
RengaErrorCode RengaOnnxConvertGemm(RengaOnnxNode *node)
{
  RengaAttributes *to = &node->importer->attributes;
  RengaValue in[3], y;
  bool linear = false;
  for (int i = 0; i < 3; i++) RengaCall(RengaOnnxInputValue(node, i, &in[i]));
  RengaOnnxCheck(in[0] != RENGA_VALUE_NONE && in[1] != RENGA_VALUE_NONE, node,
                 RENGA_ERR_FILE_FORMAT, "inputs A and B are needed");
  RengaCall(IsLinear(node, &linear));
  RengaCall(RengaAttributesSetInt(to, "transB", RengaOnnxInt(node, "transB", 0) != 0));
  if (linear) {
    RengaCall(RengaOnnxEmit(node, "Linear", in[2] == RENGA_VALUE_NONE ? 2 : 3, in, 1, NULL, &y));
  } else {
    RengaCall(RengaAttributesSetInt(to, "transA", RengaOnnxInt(node, "transA", 0) != 0));
    RengaCall(RengaAttributesSetReal(to, "alpha", RengaOnnxReal(node, "alpha", 1)));
    RengaCall(RengaOnnxApply(node, "MatMul", in[0], in[1], &y));
    double beta = RengaOnnxReal(node, "beta", 1);
    if (in[2] != RENGA_VALUE_NONE && beta != 1)
      RengaCall(RengaOnnxApplyReal(node, "Mul", in[2], beta, &in[2]));
    if (in[2] != RENGA_VALUE_NONE) RengaCall(RengaOnnxApply(node, "Add", y, in[2], &y));
  }
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* The window of a convolution or pooling: all of its attributes, with their defaults. */
typedef struct {
  int n; /* spatial dimensions */
  int64_t size[RENGA_MAX_DIM], kernel[RENGA_MAX_DIM], stride[RENGA_MAX_DIM],
      dilation[RENGA_MAX_DIM];
  int64_t pad[2 * RENGA_MAX_DIM], more[RENGA_MAX_DIM]; /* more: output_padding */
} Window;

static RengaErrorCode ReadInts(RengaOnnxNode *node, const char *name, int n, int64_t otherwise,
                               int64_t numbers[])
{
  int64_t given[2 * RENGA_MAX_DIM];
  int count;
  RengaCall(RengaOnnxInts(node, name, &count, given));
  RengaOnnxCheck(count < 0 || count == n, node, RENGA_ERR_FILE_FORMAT, "%s has %d numbers, not %d",
                 name, count, n);
  for (int i = 0; i < n; i++) {
    numbers[i] = count < 0 ? otherwise : given[i];
    RengaOnnxCheck(numbers[i] > -(1 << 30) && numbers[i] < (1 << 30), node, RENGA_ERR_FILE_FORMAT,
                   "%s is %lld", name, (long long)numbers[i]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadWindow(RengaOnnxNode *node, const RengaTensorSpec *x,
                                 const RengaTensorSpec *weight, Window *window)
{
  int n = x->ndim - 2;
  RengaOnnxCheck(n >= 1, node, RENGA_ERR_SHAPE, "input 0 has %d dimensions", x->ndim);
  RengaOnnxCheck(!weight || weight->ndim == x->ndim, node, RENGA_ERR_SHAPE,
                 "the weight has %d dimensions, the input %d", weight ? weight->ndim : 0, x->ndim);
  window->n = n;
  for (int i = 0; i < n; i++) window->size[i] = x->dim[2 + i];
  RengaCall(ReadInts(node, "kernel_shape", n, 0, window->kernel));
  RengaCall(ReadInts(node, "strides", n, 1, window->stride));
  RengaCall(ReadInts(node, "dilations", n, 1, window->dilation));
  RengaCall(ReadInts(node, "pads", 2 * n, 0, window->pad));
  RengaCall(ReadInts(node, "output_padding", n, 0, window->more));
  for (int i = 0; i < n; i++) {
    if (weight && window->kernel[i] == 0) window->kernel[i] = weight->dim[2 + i];
    RengaOnnxCheck(window->kernel[i] > 0 && window->stride[i] > 0 && window->dilation[i] > 0, node,
                   RENGA_ERR_FILE_FORMAT, "kernel %lld, stride %lld, dilation %lld",
                   (long long)window->kernel[i], (long long)window->stride[i],
                   (long long)window->dilation[i]);
  }
  return RENGA_SUCCESS;
}

static void SetPads(Window *window, int i, int64_t total, bool more_at_end)
{
  if (total < 0) total = 0;
  window->pad[i] = more_at_end ? total / 2 : total - total / 2;
  window->pad[window->n + i] = total - window->pad[i];
}

/* auto_pad SAME: an output of size / stride, rounded up; of a transposed one size * stride. */
static RengaErrorCode AutoPad(RengaOnnxNode *node, bool transposed, Window *window)
{
  bool upper = RengaOnnxString(node, "auto_pad", "SAME_UPPER", "NOTSET");
  bool lower = RengaOnnxString(node, "auto_pad", "SAME_LOWER", "NOTSET");
  bool given = RengaOnnxString(node, "auto_pad", "NOTSET", "NOTSET") ||
               RengaOnnxString(node, "auto_pad", "VALID", "NOTSET");
  int64_t shape[RENGA_MAX_DIM] = {0};
  RengaOnnxCheck(upper || lower || given, node, RENGA_ERR_FILE_FORMAT,
                 "auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  if (transposed) RengaCall(ReadInts(node, "output_shape", window->n, 0, shape));
  for (int i = 0; i < window->n; i++) {
    int64_t size = window->size[i], stride = window->stride[i];
    int64_t reach = (window->kernel[i] - 1) * window->dilation[i] + 1;
    int64_t wanted = shape[i] ? shape[i] : transposed && (upper || lower) ? size * stride : 0;
    RengaOnnxCheckApart(size >= 0 || !(upper || lower || wanted), node,
                        "the padding depends on the batch size");
    int64_t total = stride * (size - 1) + window->more[i] + reach - wanted;
    if (transposed && wanted) SetPads(window, i, total, !lower);
    if (transposed && wanted && total < 0) window->more[i] -= total;
    if (!transposed && (upper || lower))
      SetPads(window, i, ((size + stride - 1) / stride - 1) * stride + reach - size, upper);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SetWindow(RengaOnnxNode *node, const Window *window)
{
  RengaAttributes *to = &node->importer->attributes;
  RengaCall(RengaAttributesSetInts(to, "kernel_shape", window->n, window->kernel));
  RengaCall(RengaAttributesSetInts(to, "strides", window->n, window->stride));
  RengaCall(RengaAttributesSetInts(to, "dilations", window->n, window->dilation));
  RengaCall(RengaAttributesSetInts(to, "pads", 2 * window->n, window->pad));
  return RENGA_SUCCESS;
}

/* Conv and ConvTranspose */
RengaErrorCode RengaOnnxConvertWindow(RengaOnnxNode *node)
{
  Window window;
  RengaValue in[3], y;
  const char *op = node->proto->op_type;
  bool transposed = strcmp(op, "ConvTranspose") == 0;
  for (int i = 0; i < 3; i++) RengaCall(RengaOnnxInputValue(node, i, &in[i]));
  RengaOnnxCheck(in[0] != RENGA_VALUE_NONE && in[1] != RENGA_VALUE_NONE, node,
                 RENGA_ERR_FILE_FORMAT, "the input and the weight are needed");
  RengaCall(ReadWindow(node, RengaOnnxSpec(node, in[0]), RengaOnnxSpec(node, in[1]), &window));
  RengaCall(AutoPad(node, transposed, &window));
  RengaCall(SetWindow(node, &window));
  RengaAttributes *to = &node->importer->attributes;
  RengaCall(RengaAttributesSetInt(to, "group", RengaOnnxInt(node, "group", 1)));
  if (transposed) RengaCall(RengaAttributesSetInts(to, "output_padding", window.n, window.more));
  RengaCall(RengaOnnxEmit(node, op, in[2] == RENGA_VALUE_NONE ? 2 : 3, in, 1, NULL, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* Renga's index is within an image and channel [H,W]; ONNX's within the whole tensor, and along
   columns first with storage_order 1. */
static RengaErrorCode WholeIndex(RengaOnnxNode *node, RengaValue x, RengaValue index, RengaValue *y)
{
  const RengaTensorSpec *spec = RengaOnnxSpec(node, x);
  RengaOnnxCheckApart(RengaOnnxBatchDimension(spec) < 0, node,
                      "indices of the maxima depend on the batch size");
  int64_t plane = 1, columns = spec->dim[spec->ndim - 1];
  for (int d = 2; d < spec->ndim; d++) plane *= spec->dim[d];
  *y = index;
  if (RengaOnnxInt(node, "storage_order", 0) != 0) {
    RengaValue row, column;
    RengaOnnxCheck(spec->ndim == 4, node, RENGA_ERR_SUPPORT, "storage_order 1 for %d dimensions",
                   spec->ndim);
    RengaCall(RengaOnnxApplyReal(node, "Mod", index, (double)columns, &column));
    RengaCall(RengaOnnxApplyReal(node, "Mul", column, (double)spec->dim[2], &column));
    RengaCall(RengaOnnxApplyReal(node, "Div", index, (double)columns, &row));
    RengaCall(RengaOnnxApply(node, "Add", column, row, y));
  }
  RengaOnnxHost *host;
  void *data;
  RengaValue offset;
  int64_t dim[RENGA_MAX_DIM] = {spec->dim[0], spec->dim[1], 1, 1, 1, 1, 1, 1};
  RengaCall(RengaOnnxHostCreate(node->importer, RENGA_INT64, spec->ndim, dim, &host));
  for (int64_t i = 0; i < host->count; i++) host->number[i].whole = i * plane;
  RengaCall(RengaOnnxHostToData(node, host, &data));
  RengaCall(RengaOnnxConstant(node, &host->spec, data, &offset));
  RengaCall(RengaOnnxApply(node, "Add", *y, offset, y));
  return RENGA_SUCCESS;
}

/* The p-th root of the sum of p-th powers: elements in a window times their mean. */
RengaErrorCode RengaOnnxConvertLpPool(RengaOnnxNode *node)
{
  Window window;
  RengaValue x;
  RengaAttributes *to = &node->importer->attributes;
  const double p = (double)RengaOnnxInt(node, "p", 2);
  int64_t taps = 1;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  RengaOnnxCheck(RengaOnnxInt(node, "ceil_mode", 0) == 0 && p >= 1, node, RENGA_ERR_SUPPORT,
                 "ceil_mode, or p = %g", p);
  RengaCall(ReadWindow(node, RengaOnnxSpec(node, x), NULL, &window));
  RengaCall(AutoPad(node, false, &window));
  for (int d = 0; d < window.n; d++) taps *= window.kernel[d];
  RengaCall(RengaOnnxApply(node, "Abs", x, RENGA_VALUE_NONE, &x));
  RengaCall(RengaOnnxApplyReal(node, "Pow", x, p, &x));
  RengaCall(SetWindow(node, &window));
  RengaCall(RengaAttributesSetInt(to, "count_include_pad", 1));
  RengaCall(RengaOnnxApply(node, "AveragePool", x, RENGA_VALUE_NONE, &x));
  RengaCall(RengaOnnxApplyReal(node, "Mul", x, (double)taps, &x));
  RengaCall(RengaOnnxApplyReal(node, "Pow", x, 1 / p, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}

/* MaxPool and AveragePool */
RengaErrorCode RengaOnnxConvertPool(RengaOnnxNode *node)
{
  Window window;
  RengaValue x, out[2];
  bool average = strcmp(node->proto->op_type, "AveragePool") == 0;
  int n_out = !average && RengaOnnxIsUsed(node, 1) ? 2 : 1;
  RengaAttributes *to = &node->importer->attributes;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  RengaCall(ReadWindow(node, RengaOnnxSpec(node, x), NULL, &window));
  RengaCall(AutoPad(node, false, &window));
  RengaCall(SetWindow(node, &window));
  RengaCall(RengaAttributesSetInt(to, "ceil_mode", RengaOnnxInt(node, "ceil_mode", 0) != 0));
  if (average)
    RengaCall(RengaAttributesSetInt(to, "count_include_pad",
                                    RengaOnnxInt(node, "count_include_pad", 0) != 0));
  RengaCall(RengaOnnxEmit(node, node->proto->op_type, 1, &x, n_out, NULL, out));
  RengaCall(RengaOnnxBindValue(node, 0, out[0]));
  if (n_out == 2) {
    RengaCall(WholeIndex(node, x, out[1], &out[1]));
    RengaCall(RengaOnnxBindValue(node, 1, out[1]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Global(RengaOnnxNode *node, const char *op)
{
  RengaValue x, y;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE && RengaOnnxSpec(node, x)->ndim >= 2, node, RENGA_ERR_SHAPE,
                 "an input [N, C, ...] is needed");
  int64_t axes[RENGA_MAX_DIM];
  int n = RengaOnnxSpec(node, x)->ndim - 2;
  for (int i = 0; i < n; i++) axes[i] = 2 + i;
  RengaCall(RengaOnnxReduce(node, op, x, n, axes, true, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertGlobalAveragePool(RengaOnnxNode *node)
{
  RengaCall(Global(node, "ReduceMean"));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertGlobalMaxPool(RengaOnnxNode *node)
{
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "first", 1));
  RengaCall(Global(node, "ReduceMax"));
  return RENGA_SUCCESS;
}
