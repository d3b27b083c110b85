/* Elements that a mask selects, as in scores[mask]. How many they are depends on data, so all are
   kept: a tensor of all rows goes on, of which those that the mask leaves out are void. What works
   on each row by itself may follow; sums and means over the rows, and losses, leave the void ones
   out. */
#include "onnx.h"
#include <string.h>

/* Positions of what is not zero: they only serve to select. */
RengaErrorCode RengaOnnxConvertNonZero(RengaOnnxNode *node)
{
  RengaOnnxBinding *made;
  RengaValue mask;
  RengaCall(RengaOnnxInputValue(node, 0, &mask));
  RengaOnnxCheck(mask != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  RengaOnnxCheck(RengaOnnxBatchDimension(RengaOnnxSpec(node, mask)) >= 0 &&
                     RengaOnnxMaskOf(node->importer, mask) == RENGA_VALUE_NONE,
                 node, RENGA_ERR_SUPPORT, "%s", RengaOnnxSelectAdvice);
  if (RengaOnnxSpec(node, mask)->type != RENGA_BOOL)
    RengaCall(RengaOnnxCast(node, mask, RENGA_BOOL, &mask));
  RengaCall(RengaOnnxAllocate(node->importer, 1, sizeof *made, &made));
  *made = (RengaOnnxBinding){.name = node->name, .kind = RENGA_ONNX_POSITIONS, .value = mask};
  RengaCall(RengaOnnxBindAlias(node, 0, made));
  return RENGA_SUCCESS;
}

/* [rank, found] to [found, rank] */
RengaErrorCode RengaOnnxTurnPositions(RengaOnnxNode *node, RengaOnnxBinding *positions)
{
  RengaOnnxBinding *made;
  int64_t order[RENGA_MAX_DIM];
  RengaCall(RengaOnnxOrder(node, 2, order));
  RengaOnnxCheck(!positions->is_turned && order[0] == 1, node, RENGA_ERR_SUPPORT, "%s",
                 RengaOnnxSelectAdvice);
  RengaCall(RengaOnnxAllocate(node->importer, 1, sizeof *made, &made));
  *made = *positions;
  made->is_turned = true;
  RengaCall(RengaOnnxBindAlias(node, 0, made));
  return RENGA_SUCCESS;
}

/* Is input i of the node a list of positions? */
bool RengaOnnxArePositions(RengaOnnxNode *node, int input, RengaOnnxBinding **positions)
{
  *positions = RengaOnnxHasInput(node, input)
                   ? RengaOnnxScopeFind(node->scope, node->proto->input[input])
                   : NULL;
  return *positions && (*positions)->kind == RENGA_ONNX_POSITIONS;
}

/* Of a mask with one dimension the newer exporter makes the positions [found, 1] to [found] and
   back, and expands them to their own shape: the same positions. */
RengaErrorCode RengaOnnxPassPositions(RengaOnnxNode *node, bool *passed)
{
  const char *op = node->proto->op_type;
  RengaOnnxBinding *positions, *shape, *made;
  *passed = false;
  if (!RengaOnnxArePositions(node, 0, &positions) || !positions->is_turned ||
      RengaOnnxSpec(node, positions->value)->ndim != 1)
    return RENGA_SUCCESS;
  if (strcmp(op, "Shape") == 0) {
    RengaCall(RengaOnnxAllocate(node->importer, 1, sizeof *made, &made));
    *made = *positions;
    made->is_turned = false; /* nothing is selected by it */
    positions = made;
  } else if (strcmp(op, "Expand") == 0) {
    if (!RengaOnnxArePositions(node, 1, &shape) || shape->value != positions->value)
      return RENGA_SUCCESS;
  } else if (!RengaOnnxHasWord("Squeeze Unsqueeze", op) &&
             (!RengaOnnxHasWord("Max Concat", op) || RengaOnnxInputCount(node) != 1)) {
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOnnxBindAlias(node, 0, positions));
  *passed = true;
  return RENGA_SUCCESS;
}

/* The mask as [rows, 1 …], for a tensor of rows with ndim dimensions. */
static RengaErrorCode RowsOfMask(RengaOnnxNode *node, RengaValue mask, int ndim, RengaValue *rows)
{
  const RengaTensorSpec *spec = RengaOnnxSpec(node, mask);
  RengaTensorSpec flat = {.ndim = ndim, .dim = {1, 1, 1, 1, 1, 1, 1, 1}};
  for (int d = 0; d < spec->ndim; d++) flat.dim[0] *= spec->dim[d];
  RengaCall(RengaOnnxReshape(node, mask, &flat, rows));
  return RENGA_SUCCESS;
}

/* Void rows become the number. */
static RengaErrorCode FillVoid(RengaOnnxNode *node, RengaValue mask, double number, RengaValue *x)
{
  const RengaTensorSpec spec = *RengaOnnxSpec(node, *x);
  RengaOnnxHost *fill;
  RengaValue in[3];
  RengaOnnxCheck(RengaOnnxHostHasType(spec.type), node, RENGA_ERR_SUPPORT, "type %s",
                 RengaDataTypeName(spec.type));
  RengaCall(RengaOnnxHostCreate(node->importer, spec.type, 0, NULL, &fill));
  *fill->number = (RengaOnnxNumber){.whole = (int64_t)number, .real = number};
  RengaCall(RowsOfMask(node, mask, spec.ndim, &in[0]));
  in[1] = *x;
  RengaCall(RengaOnnxHostValue(node, fill, &in[2]));
  RengaCall(RengaOnnxEmit(node, "Where", 3, in, 1, NULL, x));
  return RENGA_SUCCESS;
}

/* x [mask's dimensions, rest …] to rows [all of the mask, rest …]. What void rows hold has no part
   in results, but 0 times the slope of what follows is no number where that is infinite: they
   become what logarithms, roots and quotients are harmless at. */
RengaErrorCode RengaOnnxSelect(RengaOnnxNode *node, const RengaOnnxBinding *positions)
{
  RengaValue x, y;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE && positions->is_turned &&
                     RengaOnnxInt(node, "batch_dims", 0) == 0 &&
                     RengaOnnxMaskOf(node->importer, x) == RENGA_VALUE_NONE,
                 node, RENGA_ERR_SUPPORT, "%s", RengaOnnxSelectAdvice);
  const RengaTensorSpec spec = *RengaOnnxSpec(node, x);
  const RengaTensorSpec mask = *RengaOnnxSpec(node, positions->value);
  bool fits = spec.ndim >= mask.ndim;
  RengaTensorSpec rows = {.ndim = spec.ndim - mask.ndim + 1, .dim = {1}};
  for (int d = 0; d < mask.ndim && fits; d++) {
    fits = spec.dim[d] == mask.dim[d];
    rows.dim[0] *= spec.dim[d];
  }
  RengaOnnxCheck(fits, node, RENGA_ERR_SUPPORT,
                 "the mask and what it selects from differ in their first dimensions");
  for (int d = mask.ndim; d < spec.ndim; d++) rows.dim[d - mask.ndim + 1] = spec.dim[d];
  RengaCall(RengaOnnxReshape(node, x, &rows, &y));
  if (RengaDataTypeIsFloating(spec.type) && RengaOnnxHostHasType(spec.type))
    RengaCall(FillVoid(node, positions->value, 0.5, &y));
  node->importer->mask[y] = positions->value;
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* The rows without what says that some are void: the caller sees to these. */
static RengaErrorCode ForgetMask(RengaOnnxNode *node, RengaValue *x)
{
  RengaValue *mask = node->importer->mask;
  const RengaValue kept = mask[*x], rows = *x;
  mask[rows] = RENGA_VALUE_NONE;
  RengaErrorCode code = RengaOnnxApply(node, "Identity", rows, RENGA_VALUE_NONE, x);
  node->importer->mask[rows] = kept;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A sum or mean over the rows that the mask selects, in all micro-batches. */
RengaErrorCode RengaOnnxReduceRows(RengaOnnxNode *node, const char *op, RengaValue x, int n,
                                   const int64_t axes[], bool keep, RengaValue *y)
{
  const RengaValue mask = RengaOnnxMaskOf(node->importer, x);
  const RengaTensorSpec spec = *RengaOnnxSpec(node, x);
  const bool mean = strcmp(op, "ReduceMean") == 0;
  const int64_t first = 0;
  double others = 1;
  RengaValue count;
  RengaOnnxCheck(mean || strcmp(op, "ReduceSum") == 0, node, RENGA_ERR_SUPPORT, "%s",
                 RengaOnnxSelectAdvice);
  RengaCall(ForgetMask(node, &x));
  RengaCall(FillVoid(node, mask, 0, &x));
  RengaCall(RengaOnnxReduce(node, "ReduceSum", x, n, axes, keep, y));
  if (!mean) return RENGA_SUCCESS;
  for (int i = 0; i < n; i++) others *= spec.dim[axes[i]] > 0 ? (double)spec.dim[axes[i]] : 1;
  RengaCall(RowsOfMask(node, mask, 1, &count));
  RengaCall(RengaOnnxCast(node, count, RENGA_FLOAT32, &count));
  RengaCall(RengaOnnxReduce(node, "ReduceSum", count, 1, &first, false, &count));
  RengaCall(RengaOnnxApply(node, "BatchSum", count, RENGA_VALUE_NONE, &count));
  if (others != 1) RengaCall(RengaOnnxApplyReal(node, "Mul", count, others, &count));
  RengaCall(RengaOnnxCast(node, count, spec.type, &count));
  RengaCall(RengaOnnxApply(node, "Div", *y, count, y));
  return RENGA_SUCCESS;
}

/* Scores and labels of a loss: labels of void rows are ones that do not count. */
RengaErrorCode RengaOnnxIgnoreVoid(RengaOnnxNode *node, int64_t ignored, RengaValue *scores,
                                   RengaValue *labels)
{
  const RengaValue mask = RengaOnnxMaskOf(node->importer, *scores);
  RengaOnnxCheck(mask == RengaOnnxMaskOf(node->importer, *labels), node, RENGA_ERR_SUPPORT, "%s",
                 RengaOnnxSelectAdvice);
  RengaCall(ForgetMask(node, scores));
  RengaCall(ForgetMask(node, labels));
  RengaCall(FillVoid(node, mask, (double)ignored, labels));
  return RENGA_SUCCESS;
}
