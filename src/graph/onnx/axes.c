/* Attributes or inputs, by opset, that say how a shape changes: folding and conversion share
   them. */
#include "onnx.h"
#include <string.h>

/* Axes: an attribute before input_since, then input 1. Absent: count -1. */
RengaErrorCode RengaOnnxAxes(RengaOnnxNode *node, int64_t input_since, int *count, int64_t axes[])
{
  int64_t numbers[2 * RENGA_MAX_DIM];
  if (node->opset < input_since)
    RengaCall(RengaOnnxInts(node, "axes", count, numbers));
  else
    RengaCall(RengaOnnxInputInts(node, 1, count, numbers));
  RengaOnnxCheck(*count <= RENGA_MAX_DIM, node, RENGA_ERR_FILE_FORMAT, "%d axes", *count);
  for (int i = 0; i < *count; i++) axes[i] = numbers[i];
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxSqueezed(RengaOnnxNode *node, const RengaTensorSpec *x, bool gone[])
{
  int count;
  int64_t axes[RENGA_MAX_DIM];
  RengaCall(RengaOnnxAxes(node, 13, &count, axes));
  for (int d = 0; d < x->ndim; d++) gone[d] = count < 0 && x->dim[d] == 1;
  for (int i = 0; i < count; i++) {
    int axis;
    RengaCall(RengaOnnxAxis(node, axes[i], x->ndim, &axis));
    RengaOnnxCheck(x->dim[axis] == 1, node, RENGA_ERR_SHAPE, "dimension %d is %lld, not 1", axis,
                   (long long)x->dim[axis]);
    gone[axis] = true;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxUnsqueezed(RengaOnnxNode *node, const RengaTensorSpec *x,
                                   RengaTensorSpec *y)
{
  int count, axis;
  int64_t axes[RENGA_MAX_DIM];
  bool added[RENGA_MAX_DIM] = {false};
  RengaCall(RengaOnnxAxes(node, 13, &count, axes));
  RengaOnnxCheck(count >= 0, node, RENGA_ERR_FILE_FORMAT, "it has no axes");
  RengaOnnxCheck(x->ndim + count <= RENGA_MAX_DIM, node, RENGA_ERR_SUPPORT,
                 "a result of %d dimensions; at most %d are supported", x->ndim + count,
                 RENGA_MAX_DIM);
  *y = (RengaTensorSpec){.type = x->type, .ndim = x->ndim + count};
  for (int i = 0; i < count; i++) {
    RengaCall(RengaOnnxAxis(node, axes[i], y->ndim, &axis));
    RengaOnnxCheck(!added[axis], node, RENGA_ERR_FILE_FORMAT, "axis %d is given twice", axis);
    added[axis] = true;
  }
  for (int d = 0, from = 0; d < y->ndim; d++) y->dim[d] = added[d] ? 1 : x->dim[from++];
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxOrder(RengaOnnxNode *node, int ndim, int64_t order[])
{
  int64_t perm[2 * RENGA_MAX_DIM];
  int count;
  bool seen[RENGA_MAX_DIM] = {false};
  RengaCall(RengaOnnxInts(node, "perm", &count, perm));
  RengaOnnxCheck(count == -1 || count == ndim, node, RENGA_ERR_FILE_FORMAT,
                 "a permutation of %d numbers for %d dimensions", count, ndim);
  for (int d = 0; d < ndim; d++) {
    order[d] = count == -1 ? ndim - 1 - d : perm[d];
    RengaOnnxCheck(order[d] >= 0 && order[d] < ndim && !seen[order[d]], node, RENGA_ERR_FILE_FORMAT,
                   "perm is no permutation");
    seen[order[d]] = true;
  }
  return RENGA_SUCCESS;
}

/* Numbers of a Slice; a bound that is a multiple of the batch stands for the end of a dimension. */
static RengaErrorCode SliceNumbers(RengaOnnxNode *node, int input, const char *attribute,
                                   int *count, int64_t numbers[])
{
  int64_t all[2 * RENGA_MAX_DIM];
  const RengaOnnxHost *host = NULL;
  *count = -1;
  if (node->opset < 10)
    RengaCall(RengaOnnxInts(node, attribute, count, all));
  else if (RengaOnnxHasInput(node, input)) {
    RengaCall(RengaOnnxInputHost(node, input, &host));
    RengaOnnxCheck(host->count <= RENGA_MAX_DIM, node, RENGA_ERR_FILE_FORMAT, "%lld axes",
                   (long long)host->count);
    *count = (int)host->count;
  }
  RengaOnnxCheck(*count <= RENGA_MAX_DIM, node, RENGA_ERR_FILE_FORMAT, "%d axes", *count);
  for (int i = 0; i < *count; i++) {
    RengaOnnxNumber number = host ? host->number[i] : (RengaOnnxNumber){.whole = all[i]};
    bool end = number.batch > 0 && number.whole == 0 && strcmp(attribute, "ends") == 0;
    RengaOnnxCheckApart(number.batch == 0 || end, node, "its %s depend on the batch size",
                        attribute);
    numbers[i] = end ? INT64_MAX : number.whole;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxReadSlice(RengaOnnxNode *node, int ndim, RengaOnnxSlice *slice)
{
  int n_ends, n_axes, n_steps = -1, axis;
  RengaCall(SliceNumbers(node, 1, "starts", &slice->count, slice->start));
  RengaCall(SliceNumbers(node, 2, "ends", &n_ends, slice->end));
  RengaCall(SliceNumbers(node, 3, "axes", &n_axes, slice->axis));
  if (node->opset >= 10) RengaCall(SliceNumbers(node, 4, "steps", &n_steps, slice->step));
  bool fits = slice->count >= 0 && n_ends == slice->count &&
              (n_axes < 0 || n_axes == slice->count) && (n_steps < 0 || n_steps == slice->count);
  RengaOnnxCheck(fits, node, RENGA_ERR_FILE_FORMAT, "%d starts, %d ends, %d axes, %d steps",
                 slice->count, n_ends, n_axes, n_steps);
  for (int i = 0; i < slice->count; i++) {
    RengaCall(RengaOnnxAxis(node, n_axes < 0 ? i : slice->axis[i], ndim, &axis));
    slice->axis[i] = axis;
    if (n_steps < 0) slice->step[i] = 1;
    RengaOnnxCheck(slice->step[i] != 0 && slice->step[i] > -INT64_MAX, node, RENGA_ERR_FILE_FORMAT,
                   "step %lld", (long long)slice->step[i]);
  }
  return RENGA_SUCCESS;
}
