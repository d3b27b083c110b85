/* Reductions, softmax and normalisations. */
#include "onnx.h"
#include <string.h>

/* Axes of a reduction in order; none given: all, or with noop_with_empty_axes no one. */
static RengaErrorCode ReadReducedAxes(RengaOnnxNode *node, int ndim, int *n, int64_t axes[])
{
  int64_t since = strcmp(node->proto->op_type, "ReduceSum") == 0 ? 13 : 18, given[RENGA_MAX_DIM];
  int count, axis;
  bool reduced[RENGA_MAX_DIM] = {false};
  RengaCall(RengaOnnxAxes(node, since, &count, given));
  for (int d = 0; d < ndim && count <= 0; d++)
    reduced[d] = RengaOnnxInt(node, "noop_with_empty_axes", 0) == 0;
  for (int i = 0; i < count; i++) {
    RengaCall(RengaOnnxAxis(node, given[i], ndim, &axis));
    reduced[axis] = true;
  }
  *n = 0;
  for (int d = 0; d < ndim; d++)
    if (reduced[d]) axes[(*n)++] = d;
  return RENGA_SUCCESS;
}

/* Over no axis, as of a scalar, each element is a whole sum, of which the root, square or logarithm
   remains. */
static RengaErrorCode ReduceNothing(RengaOnnxNode *node, const char *op, RengaValue x,
                                    RengaValue *y)
{
  static const char *const remains[][2] = {
      {"ReduceL1", "Abs"}, {"ReduceL2", "Abs"}, {"ReduceLogSum", "Log"}};
  *y = x;
  if (strcmp(op, "ReduceSumSquare") == 0) RengaCall(RengaOnnxApply(node, "Mul", x, x, y));
  for (size_t i = 0; i < sizeof remains / sizeof *remains; i++)
    if (strcmp(op, remains[i][0]) == 0)
      RengaCall(RengaOnnxApply(node, remains[i][1], x, RENGA_VALUE_NONE, y));
  return RENGA_SUCCESS;
}

/* Sums over samples add up to those of the batch, and the graph makes means of them; a maximum of
   one micro-batch says nothing of the batch. */
RengaErrorCode RengaOnnxConvertReduce(RengaOnnxNode *node)
{
  RengaValue x, y;
  int64_t axes[RENGA_MAX_DIM];
  int n = 0;
  bool over_batch = false, keep = RengaOnnxInt(node, "keepdims", 1) != 0;
  const char *op = node->proto->op_type;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  const RengaTensorSpec *spec = RengaOnnxSpec(node, x);
  RengaCall(ReadReducedAxes(node, spec->ndim, &n, axes));
  for (int i = 0; i < n; i++) over_batch |= spec->dim[axes[i]] < 0;
  bool adds_up = RengaOnnxHasWord("ReduceSum ReduceMean ReduceSumSquare ReduceL1", op);
  RengaOnnxCheckApart(!over_batch || adds_up, node,
                      "it reduces over the samples of the batch, which micro-batches cut");
  if (over_batch && RengaOnnxMaskOf(node->importer, x) != RENGA_VALUE_NONE)
    RengaCall(RengaOnnxReduceRows(node, op, x, n, axes, keep, &y));
  else if (n == 0)
    RengaCall(ReduceNothing(node, op, x, &y));
  else {
    if (RengaOnnxIsCallOf(node, "aten.max.dim") || RengaOnnxIsCallOf(node, "aten.min.dim"))
      RengaCall(RengaAttributesSetInt(&node->importer->attributes, "first", 1));
    RengaCall(RengaOnnxReduce(node, op, x, n, axes, keep, &y));
  }
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* Softmax, LogSoftmax, Hardmax. Until opset 12 all dimensions from axis on are one row. */
RengaErrorCode RengaOnnxConvertSoftmax(RengaOnnxNode *node)
{
  RengaValue x, y;
  int axis;
  bool rows = node->opset < 13;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  RengaTensorSpec spec = *RengaOnnxSpec(node, x), matrix = {.ndim = 2, .dim = {1, 1}};
  RengaCall(RengaOnnxAxis(node, RengaOnnxInt(node, "axis", rows ? 1 : -1), spec.ndim, &axis));
  bool flatten = rows && axis != spec.ndim - 1;
  for (int d = 0; d < spec.ndim; d++) matrix.dim[d < axis ? 0 : 1] *= spec.dim[d];
  if (flatten) RengaCall(RengaOnnxReshape(node, x, &matrix, &x));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", flatten ? 1 : axis));
  RengaCall(RengaOnnxApply(node, node->proto->op_type, x, RENGA_VALUE_NONE, &y));
  if (flatten) RengaCall(RengaOnnxReshape(node, y, &spec, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* Scale and bias of one number per group (opset 18 to 20) become one per channel. */
static RengaErrorCode PerChannel(RengaOnnxNode *node, int64_t groups, int64_t channels,
                                 RengaValue *x)
{
  RengaTensorSpec spec = *RengaOnnxSpec(node, *x);
  if (spec.ndim != 1 || spec.dim[0] != groups || groups == channels) return RENGA_SUCCESS;
  RengaOnnxCheck(groups > 0 && channels % groups == 0, node, RENGA_ERR_SHAPE,
                 "%lld channels in %lld groups", (long long)channels, (long long)groups);
  RengaTensorSpec column = {.type = spec.type, .ndim = 2, .dim = {groups, 1}};
  RengaTensorSpec matrix = {.type = spec.type, .ndim = 2, .dim = {groups, channels / groups}};
  RengaTensorSpec flat = {.type = spec.type, .ndim = 1, .dim = {channels}};
  RengaCall(RengaOnnxReshape(node, *x, &column, x));
  const RengaValue narrow = *x;
  RengaCall(RengaOnnxEmit(node, "Expand", 1, &narrow, 1, &matrix, x));
  RengaCall(RengaOnnxReshape(node, *x, &flat, x));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertGroupNormalization(RengaOnnxNode *node)
{
  RengaValue in[3], y;
  for (int i = 0; i < 3; i++) {
    RengaCall(RengaOnnxInputValue(node, i, &in[i]));
    RengaOnnxCheck(in[i] != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input %d is missing",
                   i);
  }
  const RengaTensorSpec *spec = RengaOnnxSpec(node, in[0]);
  int64_t groups = RengaOnnxInt(node, "num_groups", 1),
          channels = spec->ndim > 1 ? spec->dim[1] : 1;
  RengaOnnxCheck(groups > 0, node, RENGA_ERR_FILE_FORMAT, "num_groups is %lld", (long long)groups);
  for (int i = 1; i < 3 && node->opset < 21; i++)
    RengaCall(PerChannel(node, groups, channels, &in[i]));
  RengaCall(RengaOnnxCopyAttributes(node, ""));
  RengaCall(RengaOnnxEmit(node, "GroupNormalization", 3, in, 1, NULL, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* running * momentum + batch * (1 - momentum): only where a file asks for it as data. */
static RengaErrorCode UpdatedStatistic(RengaOnnxNode *node, int output, double momentum,
                                       RengaValue running, RengaValue batch)
{
  RengaValue kept, added;
  RengaCall(RengaOnnxApplyReal(node, "Mul", running, momentum, &kept));
  RengaCall(RengaOnnxApplyReal(node, "Mul", batch, 1 - momentum, &added));
  RengaCall(RengaOnnxApply(node, "Add", kept, added, &kept));
  RengaCall(RengaOnnxBindValue(node, output, kept));
  return RENGA_SUCCESS;
}

/* Opset 14 says training_mode; before, the training form has more than one output. */
static bool IsTraining(const RengaOnnxNode *node)
{
  const bool evaluated = node->importer->options->evaluate;
  if (node->opset >= 14)
    return RengaOnnxInt(node, "training_mode", 0) != 0 ||
           (!evaluated && RengaOnnxIsTrainingNorm(node->call));
  return RengaOnnxHasOutput(node, 1) || RengaOnnxHasOutput(node, 2);
}

RengaErrorCode RengaOnnxConvertBatchNormalization(RengaOnnxNode *node)
{
  RengaValue in[5], out[3];
  bool training = IsTraining(node), state = training && !node->importer->options->evaluate;
  double momentum = RengaOnnxReal(node, "momentum", 0.9f);
  RengaOnnxBinding *mean;
  RengaAttributes *to = &node->importer->attributes;
  RengaOnnxCheck(RengaOnnxInt(node, "spatial", 1) == 1, node, RENGA_ERR_SUPPORT,
                 "spatial is not 1");
  for (int i = 0; i < 5; i++) {
    if (i < 3)
      RengaCall(RengaOnnxInputValue(node, i, &in[i]));
    else
      RengaCall(RengaOnnxInputState(node, i, &in[i]));
    RengaOnnxCheck(in[i] != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input %d is missing",
                   i);
  }
  RengaCall(RengaOnnxInputBinding(node, 3, &mean));
  node->importer->noted.n_inference += !training && mean->kind == RENGA_ONNX_TENSOR;
  RengaCall(RengaAttributesSetReal(to, "epsilon", RengaOnnxReal(node, "epsilon", 1e-5f)));
  RengaCall(RengaAttributesSetReal(to, "momentum", momentum));
  RengaCall(RengaAttributesSetInt(to, "training", training));
  RengaCall(RengaOnnxEmit(node, "BatchNormalization", 5, in, training ? 3 : 1, NULL, out));
  RengaCall(RengaOnnxBindValue(node, 0, out[0]));
  for (int i = 1; i < 3 && training; i++) {
    if (state)
      RengaCall(RengaOnnxDrop(node, i, "running statistics are states, updated after each step"));
    else
      RengaCall(UpdatedStatistic(node, i, momentum, in[2 + i], out[i]));
    RengaCall(RengaOnnxBindValue(node, 2 + i, out[i]));
  }
  return RENGA_SUCCESS;
}

/* (x - mean) / (sqrt(E x² - mean²) + 1e-9), ONNX's own definition */
RengaErrorCode RengaOnnxConvertMeanVarianceNormalization(RengaOnnxNode *node)
{
  RengaValue x, mean, square, deviation;
  int64_t axes[2 * RENGA_MAX_DIM];
  int n, axis;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  RengaCall(RengaOnnxInts(node, "axes", &n, axes));
  if (n < 0) {
    n = 3;
    axes[0] = 0, axes[1] = 2, axes[2] = 3;
  }
  for (int i = 0; i < n; i++) {
    RengaCall(RengaOnnxAxis(node, axes[i], RengaOnnxSpec(node, x)->ndim, &axis));
    RengaOnnxCheckApart(RengaOnnxSpec(node, x)->dim[axis] >= 0, node,
                        "it normalises over the samples of the batch, which micro-batches cut");
  }
  RengaCall(RengaOnnxReduce(node, "ReduceMean", x, n, axes, true, &mean));
  RengaCall(RengaOnnxApply(node, "Mul", x, x, &square));
  RengaCall(RengaOnnxReduce(node, "ReduceMean", square, n, axes, true, &square));
  RengaCall(RengaOnnxApply(node, "Mul", mean, mean, &deviation));
  RengaCall(RengaOnnxApply(node, "Sub", square, deviation, &deviation));
  RengaCall(RengaOnnxApply(node, "Sqrt", deviation, RENGA_VALUE_NONE, &deviation));
  RengaCall(RengaOnnxApplyReal(node, "Add", deviation, 1e-9, &deviation));
  RengaCall(RengaOnnxApply(node, "Sub", x, mean, &x));
  RengaCall(RengaOnnxApply(node, "Div", x, deviation, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}

/* Ratio and mode: an attribute and the run until opset 11, then inputs. */
RengaErrorCode RengaOnnxConvertDropout(RengaOnnxNode *node)
{
  double ratio = node->opset < 12 ? RengaOnnxReal(node, "ratio", 0.5) : 0.5;
  double training = node->opset < 12 && !node->importer->options->evaluate;
  RengaValue out[2];
  if (node->opset >= 12) {
    RengaCall(RengaOnnxInputReal(node, 1, &ratio));
    RengaCall(RengaOnnxInputReal(node, 2, &training));
  }
  RengaCall(RengaOnnxInputValue(node, 0, &out[0]));
  RengaOnnxCheck(out[0] != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  bool mask = RengaOnnxIsUsed(node, 1);
  if (training != 0 && ratio != 0) {
    RengaValue x = out[0];
    RengaCall(RengaAttributesSetReal(&node->importer->attributes, "ratio", ratio));
    RengaCall(RengaOnnxEmit(node, "Dropout", 1, &x, mask ? 2 : 1, NULL, out));
  } else if (mask) {
    RengaTensorSpec spec = *RengaOnnxSpec(node, out[0]);
    spec.type = RENGA_BOOL;
    RengaCall(RengaAttributesSetReal(&node->importer->attributes, "value", 1));
    RengaCall(RengaAttributesSetInt(&node->importer->attributes, "to", RENGA_BOOL));
    RengaCall(RengaOnnxEmit(node, "ConstantOfShape", 0, NULL, 1, &spec, &out[1]));
  }
  RengaCall(RengaOnnxBindValue(node, 0, out[0]));
  if (mask) RengaCall(RengaOnnxBindValue(node, 1, out[1]));
  return RENGA_SUCCESS;
}
