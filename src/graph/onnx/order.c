/* Elements that are left out, and elements in another order. */
#include "onnx.h"

/* Elements of an axis, or of the flat tensor, where the condition says so. */
RengaErrorCode RengaOnnxConvertCompress(RengaOnnxNode *node)
{
  RengaValue x, index;
  RengaOnnxHost *kept;
  const RengaOnnxHost *condition;
  int axis = 0;
  int64_t count = 0;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  RengaCall(RengaOnnxInputHost(node, 1, &condition));
  const RengaTensorSpec *spec = RengaOnnxSpec(node, x);
  if (RengaOnnxAttribute(node, "axis"))
    RengaCall(RengaOnnxAxis(node, RengaOnnxInt(node, "axis", 0), spec->ndim, &axis));
  else {
    RengaTensorSpec flat = {.ndim = 1, .dim = {1}};
    for (int d = 0; d < spec->ndim; d++) flat.dim[0] *= spec->dim[d];
    RengaCall(RengaOnnxReshape(node, x, &flat, &x));
  }
  for (int64_t i = 0; i < condition->count; i++) count += condition->number[i].whole != 0;
  RengaCall(RengaOnnxHostCreate(node->importer, RENGA_INT64, 1, &count, &kept));
  for (int64_t i = 0, k = 0; i < condition->count; i++)
    if (condition->number[i].whole) kept->number[k++].whole = i;
  RengaCall(RengaOnnxHostValue(node, kept, &index));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", axis));
  RengaCall(RengaOnnxApply(node, "Gather", x, index, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}

/* [N, time, 1]: place t of a sequence of `length` reads place length - 1 - t; behind its end, t. */
static RengaErrorCode ReversedPlaces(RengaOnnxNode *node, RengaValue length, int64_t time,
                                     RengaValue *place)
{
  RengaOnnxHost *line;
  RengaValue t, back, in[3];
  RengaTensorSpec column = *RengaOnnxSpec(node, length), index;
  column.ndim = 2;
  column.dim[1] = 1;
  index = column;
  index.ndim = 3;
  index.dim[1] = time;
  index.dim[2] = 1;
  RengaCall(RengaOnnxHostCreate(node->importer, RENGA_INT64, 1, &time, &line));
  for (int64_t i = 0; i < time; i++) line->number[i].whole = i;
  RengaCall(RengaOnnxHostValue(node, line, &t));
  RengaCall(RengaOnnxReshape(node, length, &column, &length));
  RengaCall(RengaOnnxApply(node, "Less", t, length, &in[0]));
  RengaCall(RengaOnnxApplyReal(node, "Sub", length, 1, &back));
  RengaCall(RengaOnnxApply(node, "Sub", back, t, &in[1]));
  in[2] = t;
  RengaCall(RengaOnnxEmit(node, "Where", 3, in, 1, NULL, place));
  RengaCall(RengaOnnxReshape(node, *place, &index, place));
  return RENGA_SUCCESS;
}

/* x and the lengths of its sequences. Batch and time are the first two dimensions. */
RengaErrorCode RengaOnnxConvertReverseSequence(RengaOnnxNode *node)
{
  RengaValue x, length, place;
  const int64_t batch = RengaOnnxInt(node, "batch_axis", 1),
                time = RengaOnnxInt(node, "time_axis", 0);
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaCall(RengaOnnxInputValue(node, 1, &length));
  RengaOnnxCheck(x != RENGA_VALUE_NONE && length != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT,
                 "it needs two inputs");
  const RengaTensorSpec spec = *RengaOnnxSpec(node, x);
  RengaOnnxCheck(spec.ndim >= 2 && batch + time == 1 && batch * time == 0, node,
                 RENGA_ERR_FILE_FORMAT, "batch_axis and time_axis must be 0 and 1");
  RengaOnnxCheck(spec.dim[time] > 0, node, RENGA_ERR_SUPPORT, "it works along the batch");
  int64_t order[RENGA_MAX_DIM] = {1, 0, 2, 3, 4, 5, 6, 7};
  if (batch == 1) RengaCall(RengaOnnxTranspose(node, x, spec.ndim, order, &x));
  RengaCall(RengaOnnxCast(node, length, RENGA_INT64, &length));
  RengaCall(ReversedPlaces(node, length, spec.dim[time], &place));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "batch_dims", 1));
  RengaCall(RengaOnnxApply(node, "GatherND", x, place, &x));
  if (batch == 1) RengaCall(RengaOnnxTranspose(node, x, spec.ndim, order, &x));
  RengaCall(RengaOnnxBindValue(node, 0, x));
  return RENGA_SUCCESS;
}
