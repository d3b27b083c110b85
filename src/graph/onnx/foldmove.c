/* Shape arithmetic: operators that move elements without changing them. */
#include "fold.h"
#include <stdlib.h>
#include <string.h>

typedef const RengaOnnxHost *Known;

static RengaErrorCode CreateLike(RengaOnnxNode *node, Known like, int ndim, const int64_t dim[],
                                 RengaOnnxHost **made)
{
  int64_t count;
  *made = NULL;
  if (ndim > RENGA_MAX_DIM || !RengaOnnxCount(ndim, dim, &count) || count > RENGA_ONNX_HOST_MAX)
    return RENGA_SUCCESS;
  RengaCall(RengaOnnxHostCreate(node->importer, like->spec.type, ndim, dim, made));
  return RENGA_SUCCESS;
}

/* The same elements in another shape. */
static RengaErrorCode Reshaped(RengaOnnxNode *node, Known x, int ndim, const int64_t dim[],
                               RengaOnnxHost **out)
{
  RengaOnnxHost *made;
  RengaCall(CreateLike(node, x, ndim, dim, &made));
  if (!made) return RENGA_SUCCESS;
  RengaOnnxCheck(made->count == x->count, node, RENGA_ERR_SHAPE,
                 "%lld elements are reshaped to %lld", (long long)x->count, (long long)made->count);
  memcpy(made->number, x->number, (size_t)x->count * sizeof *x->number);
  *out = made;
  return RENGA_SUCCESS;
}

/* Position in x of element at of a tensor whose index d moves x by step[d] from start. */
static RengaErrorCode Strided(RengaOnnxNode *node, Known x, int ndim, const int64_t dim[],
                              int64_t start, const int64_t step[], RengaOnnxHost **out)
{
  RengaOnnxHost *made;
  RengaCall(CreateLike(node, x, ndim, dim, &made));
  for (int64_t i = 0; made && i < made->count; i++) {
    int64_t at = start, rest = i;
    for (int d = ndim; d-- > 0;) {
      at += rest % made->spec.dim[d] * step[d];
      rest /= made->spec.dim[d];
    }
    made->number[i] = x->number[at];
  }
  *out = made;
  return RENGA_SUCCESS;
}

static void Strides(const RengaTensorSpec *spec, int64_t stride[])
{
  int64_t product = 1;
  for (int d = spec->ndim - 1; d >= 0; d--) {
    stride[d] = product;
    product *= spec->dim[d];
  }
}

static int64_t CountBefore(const int64_t dim[], int d)
{
  int64_t product = 1;
  for (int i = 0; i < d; i++) product *= dim[i];
  return product;
}

/* The dimension of the new shape that is the batch: the elements before it stay as many. */
static bool OpenAfter(Known x, const RengaOnnxHost *target, const int64_t dim[], int *open)
{
  *open = -1;
  for (int d = 0; d < target->count; d++)
    if (target->number[d].batch != 0) *open = *open < 0 ? d : -2;
  if (x->open < 0) return *open == -1;
  for (int d = 0; d < target->count && *open == -1; d++)
    if (target->number[d].whole == -1 && dim[d] == 1) *open = d;
  return *open >= 0 && dim[*open] == 1 &&
         CountBefore(dim, *open) == CountBefore(x->spec.dim, x->open);
}

static RengaErrorCode FoldReshape(RengaOnnxNode *node, int n, Known const in[], RengaOnnxHost **out)
{
  int64_t dim[RENGA_MAX_DIM], known = 1;
  int unknown = -1;
  if (n != 2 || !in[1] || in[1]->count > RENGA_MAX_DIM || in[1]->open >= 0) return RENGA_SUCCESS;
  int count = (int)in[1]->count, open;
  for (int d = 0; d < count; d++) {
    const RengaOnnxNumber *number = &in[1]->number[d];
    dim[d] = number->batch == 1 && number->whole == 0 ? 1 : number->whole;
    if (number->batch != 0 && dim[d] != 1) return RENGA_SUCCESS;
    if (dim[d] == 0 && d < in[0]->spec.ndim && !RengaOnnxInt(node, "allowzero", 0))
      dim[d] = in[0]->spec.dim[d];
    if (dim[d] == -1)
      unknown = d;
    else if (dim[d] < 0 || dim[d] > RENGA_ONNX_HOST_MAX || known > RENGA_ONNX_HOST_MAX)
      return RENGA_SUCCESS;
    else
      known *= dim[d];
  }
  if (unknown >= 0 && known > 0) dim[unknown] = in[0]->count / known;
  if (!OpenAfter(in[0], in[1], dim, &open)) return RENGA_SUCCESS;
  RengaCall(Reshaped(node, in[0], count, dim, out));
  if (*out) (*out)->open = open;
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldSqueeze(RengaOnnxNode *node, int n, Known const in[], RengaOnnxHost **out)
{
  (void)n;
  bool gone[RENGA_MAX_DIM];
  int64_t dim[RENGA_MAX_DIM];
  int kept = 0;
  RengaCall(RengaOnnxSqueezed(node, &in[0]->spec, gone));
  for (int d = 0; d < in[0]->spec.ndim; d++)
    if (!gone[d]) dim[kept++] = in[0]->spec.dim[d];
  if (in[0]->open >= 0 && gone[in[0]->open]) return RENGA_SUCCESS;
  RengaCall(Reshaped(node, in[0], kept, dim, out));
  for (int d = 0, k = 0; d <= in[0]->open && *out; d++) {
    (*out)->open = k;
    k += !gone[d];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldUnsqueeze(RengaOnnxNode *node, int n, Known const in[],
                                    RengaOnnxHost **out)
{
  (void)n;
  RengaTensorSpec spec;
  RengaCall(RengaOnnxUnsqueezed(node, &in[0]->spec, &spec));
  RengaTensorSpec marked = in[0]->spec, to;
  if (in[0]->open >= 0) marked.dim[in[0]->open] = -1;
  RengaCall(RengaOnnxUnsqueezed(node, &marked, &to));
  RengaCall(Reshaped(node, in[0], spec.ndim, spec.dim, out));
  if (*out) (*out)->open = RengaOnnxBatchDimension(&to);
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldIdentity(RengaOnnxNode *node, int n, Known const in[],
                                   RengaOnnxHost **out)
{
  (void)n;
  RengaCall(Reshaped(node, in[0], in[0]->spec.ndim, in[0]->spec.dim, out));
  if (*out) (*out)->open = in[0]->open;
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldTranspose(RengaOnnxNode *node, int n, Known const in[],
                                    RengaOnnxHost **out)
{
  (void)n;
  int64_t order[RENGA_MAX_DIM], stride[RENGA_MAX_DIM], dim[RENGA_MAX_DIM], step[RENGA_MAX_DIM];
  RengaCall(RengaOnnxOrder(node, in[0]->spec.ndim, order));
  Strides(&in[0]->spec, stride);
  for (int d = 0; d < in[0]->spec.ndim; d++) {
    dim[d] = in[0]->spec.dim[order[d]];
    step[d] = stride[order[d]];
  }
  RengaCall(Strided(node, in[0], in[0]->spec.ndim, dim, 0, step, out));
  for (int d = 0; d < in[0]->spec.ndim && *out; d++)
    if (order[d] == in[0]->open) (*out)->open = d;
  return RENGA_SUCCESS;
}

/* Numbers of all samples of the file's batch, where the batch itself is wanted. */
static RengaErrorCode OpenWhereWanted(RengaOnnxNode *node, Known target, Known *x)
{
  const int64_t batch = node->importer->open ? node->importer->file_batch : 0;
  const int ndim = (*x)->spec.ndim, first = (int)target->count - ndim;
  RengaOnnxHost *open;
  if ((*x)->open >= 0 || RengaOnnxIsReal((*x)->spec.type) || !RengaOnnxHostIsBatchFree(*x))
    return RENGA_SUCCESS;
  for (int d = 0; d < ndim && batch > 1; d++) {
    if (first + d < 0 || target->number[first + d].batch != 1 || (*x)->spec.dim[d] != batch)
      continue;
    RengaCall(RengaOnnxOpenHost(node, *x, d, &open));
    if (open) *x = open;
    break;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldExpand(RengaOnnxNode *node, int n, Known const given[],
                                 RengaOnnxHost **out)
{
  Known in[] = {given[0], n > 1 ? given[1] : NULL};
  if (n != 2 || !in[1] || in[1]->count > RENGA_MAX_DIM || in[1]->open >= 0) return RENGA_SUCCESS;
  RengaCall(OpenWhereWanted(node, in[1], &in[0]));
  const RengaTensorSpec *x = &in[0]->spec;
  bool whole = x->type != RENGA_FLOAT32 && x->type != RENGA_FLOAT64;
  int open = -1, count = (int)in[1]->count, ndim = count > x->ndim ? count : x->ndim;
  int64_t dim[RENGA_MAX_DIM], stride[RENGA_MAX_DIM], step[RENGA_MAX_DIM];
  Strides(x, stride);
  for (int d = 0; d < ndim; d++) {
    int ix = d - (ndim - x->ndim), it = d - (ndim - count);
    const RengaOnnxNumber wanted = it < 0 ? (RengaOnnxNumber){.whole = 1} : in[1]->number[it];
    int64_t dx = ix < 0 ? 1 : x->dim[ix], dt = wanted.batch == 0 ? wanted.whole : 1;
    bool batch = wanted.batch == 1 && wanted.whole == 0, mine = ix >= 0 && ix == in[0]->open;
    if (wanted.batch != 0 && (!batch || !whole || dx != 1 || open >= 0)) return RENGA_SUCCESS;
    if (mine && dt != 1) return RENGA_SUCCESS; /* more than one of a batch that is open */
    if (batch || mine) open = d;
    if (dt < 0 || (dx != 1 && dt != 1 && dx != dt)) return RENGA_SUCCESS;
    dim[d] = dt == 1 ? dx : dt;
    step[d] = dx == 1 ? 0 : stride[ix];
  }
  if (in[0]->open >= 0 && open != in[0]->open + ndim - x->ndim) return RENGA_SUCCESS;
  RengaCall(Strided(node, in[0], ndim, dim, 0, step, out));
  if (*out) (*out)->open = open;
  return RENGA_SUCCESS;
}

/* Copies of one along the batch, as an Expand makes them. */
static RengaErrorCode FoldTile(RengaOnnxNode *node, int n, Known const in[], RengaOnnxHost **out)
{
  if (n != 2 || !in[1] || in[1]->open >= 0 || in[1]->count != in[0]->spec.ndim)
    return RENGA_SUCCESS;
  for (int d = 0; d < in[0]->spec.ndim; d++)
    if (in[0]->spec.dim[d] != 1 && (in[1]->number[d].batch != 0 || in[1]->number[d].whole != 1))
      return RENGA_SUCCESS;
  RengaCall(FoldExpand(node, n, in, out));
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldSlice(RengaOnnxNode *node, int n, Known const in[], RengaOnnxHost **out)
{
  for (int i = 1; i < n; i++)
    if (in[i] && !RengaOnnxHostIsBatchFree(in[i]) && in[0]->open < 0) return RENGA_SUCCESS;
  RengaOnnxSlice slice;
  const RengaTensorSpec *x = &in[0]->spec;
  const int ndim = x->ndim;
  int64_t dim[RENGA_MAX_DIM], stride[RENGA_MAX_DIM], step[RENGA_MAX_DIM], start = 0;
  RengaCall(RengaOnnxReadSlice(node, ndim, &slice));
  Strides(x, stride);
  for (int d = 0; d < ndim; d++) {
    dim[d] = x->dim[d];
    step[d] = stride[d];
  }
  for (int i = 0; i < slice.count; i++) {
    int d = (int)slice.axis[i];
    if (d == in[0]->open) { /* all samples, or it is left to the graph */
      if (slice.start[i] != 0 || slice.step[i] != 1 || slice.end[i] < INT32_MAX)
        return RENGA_SUCCESS;
      continue;
    }
    int64_t size = x->dim[d], by = slice.step[i], low = by < 0 ? -1 : 0,
            high = by < 0 ? size - 1 : size;
    int64_t first = slice.start[i] < 0 ? slice.start[i] + size : slice.start[i];
    int64_t last = slice.end[i] < 0 ? slice.end[i] + size : slice.end[i];
    if (first < (by < 0 ? 0 : low)) first = by < 0 ? -1 : 0;
    if (first > high) first = high;
    if (last < low) last = low;
    if (last > size) last = size;
    int64_t length = by > 0 ? last - first : first - last;
    dim[d] = length > 0 ? (length - 1) / llabs(by) + 1 : 0;
    if (dim[d] > 0) start += first * stride[d];
    step[d] = dim[d] > 1 ? by * stride[d] : 0;
  }
  RengaCall(Strided(node, in[0], ndim, dim, start, step, out));
  if (*out) (*out)->open = in[0]->open;
  return RENGA_SUCCESS;
}

/* data [outer, size, inner] and any indices: [outer, indices, inner] */
static RengaErrorCode FoldGather(RengaOnnxNode *node, int n, Known const in[], RengaOnnxHost **out)
{
  if (n != 2 || !in[1] || !RengaOnnxHostIsBatchFree(in[1])) return RENGA_SUCCESS;
  const RengaTensorSpec *x = &in[0]->spec, *index = &in[1]->spec;
  int axis, ndim = x->ndim - 1 + index->ndim;
  int64_t dim[2 * RENGA_MAX_DIM], inner = 1;
  RengaCall(RengaOnnxAxis(node, RengaOnnxInt(node, "axis", 0), x->ndim, &axis));
  for (int d = 0; d < ndim; d++)
    dim[d] = d < axis                 ? x->dim[d]
             : d < axis + index->ndim ? index->dim[d - axis]
                                      : x->dim[d - index->ndim + 1];
  for (int d = axis + 1; d < x->ndim; d++) inner *= x->dim[d];
  if (in[0]->open == axis) return RENGA_SUCCESS;
  RengaOnnxHost *made;
  RengaCall(CreateLike(node, in[0], ndim, dim, &made));
  for (int64_t i = 0; made && i < made->count; i++) {
    int64_t outer = i / inner / in[1]->count, k = in[1]->number[i / inner % in[1]->count].whole;
    if (k < 0) k += x->dim[axis];
    RengaOnnxCheck(k >= 0 && k < x->dim[axis], node, RENGA_ERR_FILE_FORMAT,
                   "index %lld of a dimension of %lld", (long long)k, (long long)x->dim[axis]);
    made->number[i] = in[0]->number[(outer * x->dim[axis] + k) * inner + i % inner];
  }
  if (made && in[0]->open >= 0)
    made->open = in[0]->open < axis ? in[0]->open : in[0]->open + index->ndim - 1;
  *out = made;
  return RENGA_SUCCESS;
}

/* Parts of the same shape but for the axis; do they number the samples in one dimension? */
static bool MayJoin(int n, Known const in[], int axis)
{
  for (int i = 0; i < n; i++) {
    if (!in[i] || in[i]->spec.ndim != in[0]->spec.ndim || in[i]->spec.type != in[0]->spec.type ||
        in[i]->open != in[0]->open || in[i]->open == axis)
      return false;
    for (int d = 0; d < in[i]->spec.ndim; d++)
      if (d != axis && in[i]->spec.dim[d] != in[0]->spec.dim[d]) return false;
  }
  return true;
}

static RengaErrorCode FoldConcat(RengaOnnxNode *node, int n, Known const in[], RengaOnnxHost **out)
{
  int64_t dim[RENGA_MAX_DIM], inner = 1, offset = 0, total = 0;
  int ndim = in[0]->spec.ndim, axis;
  RengaCall(RengaOnnxAxis(node, RengaOnnxInt(node, "axis", 0), ndim, &axis));
  if (!MayJoin(n, in, axis)) return RENGA_SUCCESS;
  for (int i = 0; i < n; i++) total += in[i]->spec.dim[axis];
  for (int d = 0; d < ndim; d++) dim[d] = d == axis ? total : in[0]->spec.dim[d];
  for (int d = axis + 1; d < ndim; d++) inner *= in[0]->spec.dim[d];
  RengaOnnxHost *made;
  RengaCall(CreateLike(node, in[0], ndim, dim, &made));
  if (!made) return RENGA_SUCCESS;
  for (int i = 0; i < n; i++) {
    int64_t run = in[i]->spec.dim[axis] * inner;
    for (int64_t k = 0; k < in[i]->count; k++)
      made->number[k / run * total * inner + offset + k % run] = in[i]->number[k];
    offset += run;
  }
  made->open = in[0]->open;
  *out = made;
  return RENGA_SUCCESS;
}

/* Sums of the elements up to each one of an axis, of whole numbers. */
static RengaErrorCode FoldCumSum(RengaOnnxNode *node, int n, Known const in[], RengaOnnxHost **out)
{
  int axis;
  int64_t stride[RENGA_MAX_DIM];
  if (n != 2 || !in[1] || in[1]->count != 1 || RengaOnnxIsReal(in[0]->spec.type) ||
      !RengaOnnxHostIsBatchFree(in[0]) || !RengaOnnxHostIsBatchFree(in[1]) ||
      RengaOnnxInt(node, "exclusive", 0) || RengaOnnxInt(node, "reverse", 0))
    return RENGA_SUCCESS;
  RengaCall(RengaOnnxAxis(node, in[1]->number->whole, in[0]->spec.ndim, &axis));
  RengaCall(FoldIdentity(node, 1, in, out));
  Strides(&in[0]->spec, stride);
  for (int64_t i = 0; *out && i < (*out)->count; i++)
    if (i / stride[axis] % in[0]->spec.dim[axis] > 0)
      (*out)->number[i].whole += (*out)->number[i - stride[axis]].whole;
  return RENGA_SUCCESS;
}

/* index [..., depth] names the first dimensions of x. */
static RengaErrorCode FoldGatherND(RengaOnnxNode *node, int n, Known const in[],
                                   RengaOnnxHost **out)
{
  if (n != 2 || !in[1] || !RengaOnnxHostIsBatchFree(in[1]) || in[0]->open >= 0 ||
      in[1]->spec.ndim == 0 || RengaOnnxInt(node, "batch_dims", 0) != 0)
    return RENGA_SUCCESS;
  const RengaTensorSpec *x = &in[0]->spec, *index = &in[1]->spec;
  const int depth = (int)index->dim[index->ndim - 1], kept = index->ndim - 1;
  int64_t dim[2 * RENGA_MAX_DIM], stride[RENGA_MAX_DIM];
  if (depth < 1 || depth > x->ndim) return RENGA_SUCCESS;
  for (int d = 0; d < kept + x->ndim - depth; d++)
    dim[d] = d < kept ? index->dim[d] : x->dim[d - kept + depth];
  Strides(x, stride);
  RengaOnnxHost *made;
  RengaCall(CreateLike(node, in[0], kept + x->ndim - depth, dim, &made));
  for (int64_t i = 0, run = stride[depth - 1]; made && i < made->count; i++) {
    int64_t at = i % run;
    for (int k = 0; k < depth; k++) {
      int64_t place = in[1]->number[i / run * depth + k].whole;
      if (place < 0) place += x->dim[k];
      RengaOnnxCheck(place >= 0 && place < x->dim[k], node, RENGA_ERR_FILE_FORMAT,
                     "index %lld of a dimension of %lld", (long long)place, (long long)x->dim[k]);
      at += place * stride[k];
    }
    made->number[i] = in[0]->number[at];
  }
  *out = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldNonZero(RengaOnnxNode *node, int n, Known const in[], RengaOnnxHost **out)
{
  (void)n;
  const RengaOnnxHost *x = in[0];
  int64_t found = 0, stride[RENGA_MAX_DIM];
  if (!RengaOnnxHostIsBatchFree(x)) return RENGA_SUCCESS;
  for (int64_t i = 0; i < x->count; i++) found += x->number[i].whole != 0 || x->number[i].real != 0;
  Strides(&x->spec, stride);
  RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 2, .dim = {x->spec.ndim, found}};
  if (found * x->spec.ndim > RENGA_ONNX_HOST_MAX) return RENGA_SUCCESS;
  RengaOnnxHost *made;
  RengaCall(RengaOnnxHostCreate(node->importer, RENGA_INT64, 2, spec.dim, &made));
  for (int64_t i = 0, k = 0; i < x->count; i++) {
    if (x->number[i].whole == 0 && x->number[i].real == 0) continue;
    for (int d = 0; d < x->spec.ndim; d++)
      made->number[d * found + k].whole = i / stride[d] % x->spec.dim[d];
    k++;
  }
  *out = made;
  return RENGA_SUCCESS;
}

static const RengaOnnxFoldRow rows[] = {
    {"Reshape", FoldReshape},   {"Squeeze", FoldSqueeze},     {"Unsqueeze", FoldUnsqueeze},
    {"Identity", FoldIdentity}, {"Transpose", FoldTranspose}, {"Expand", FoldExpand},
    {"Slice", FoldSlice},       {"Gather", FoldGather},       {"Concat", FoldConcat},
    {"NonZero", FoldNonZero},   {"Tile", FoldTile},           {"CumSum", FoldCumSum},
    {"GatherND", FoldGatherND},
};

const RengaOnnxFoldRow *RengaOnnxFindMove(const char *op)
{
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].op, op) == 0) return &rows[i];
  return NULL;
}
