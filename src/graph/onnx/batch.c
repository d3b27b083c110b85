/* Where the batch is in a shape.
   A file may have been exported with a fixed batch B; its inputs are given the dimension -1 (the
   batch) instead, and the constant shapes in the file still hold B. Reshape keeps the order of the
   elements, so the distance between two samples in memory tells which factor of the target is the
   batch: in x, samples are `stride` elements apart; in the target, the batch is in the dimension
   whose elements are at most `stride` and whose whole is at least B * stride apart. */
#include "onnx.h"

static int64_t Width(int64_t dimension)
{
  return dimension < 0 ? -dimension : dimension;
}

/* Elements after dimension d; for a symbolic shape without the batch. */
static int64_t CountBehind(int ndim, const int64_t dim[], int d)
{
  int64_t product = 1;
  for (int i = d + 1; i < ndim; i++) product *= Width(dim[i]);
  return product;
}

/* Elements between samples of a value; 0: not known. */
static int64_t SampleStride(RengaOnnxNode *node, RengaValue x)
{
  const RengaTensorSpec *spec = RengaOnnxSpec(node, x);
  int d = RengaOnnxBatchDimension(spec);
  int64_t inner = spec->dim[d] == -1 ? 1 : RengaOnnxGetInner(node->importer, x);
  return inner * CountBehind(spec->ndim, spec->dim, d);
}

RengaErrorCode RengaOnnxReshape(RengaOnnxNode *node, RengaValue x, const RengaTensorSpec *shape,
                                RengaValue *y)
{
  RengaTensorSpec given = *shape;
  given.type = RengaOnnxSpec(node, x)->type;
  int from = RengaOnnxBatchDimension(RengaOnnxSpec(node, x)), to = RengaOnnxBatchDimension(shape);
  int64_t stride = from < 0 ? 0 : SampleStride(node, x), inner = 0;
  int64_t suffix = to < 0 ? 1 : CountBehind(shape->ndim, shape->dim, to);
  RengaCall(RengaOnnxEmit(node, "Reshape", 1, &x, 1, &given, y));
  if (stride > 0 && suffix > 0 && stride % suffix == 0) inner = stride / suffix;
  if (to >= 0 && shape->dim[to] == -1) inner = 1;
  RengaCall(RengaOnnxSetInner(node->importer, *y, inner));
  return RENGA_SUCCESS;
}

/* Of the concrete target, the dimension that holds the batch: see the top of this file. */
static int FindBatchPlace(const RengaTensorSpec *target, int64_t stride, int64_t batch)
{
  int found = -1;
  for (int d = 0; d < target->ndim; d++) {
    int64_t suffix = CountBehind(target->ndim, target->dim, d), whole = suffix * target->dim[d];
    if (suffix == 0 || stride % suffix != 0 || whole % (stride * batch) != 0) continue;
    if (found < 0 || target->dim[d] < target->dim[found]) found = d;
  }
  return found;
}

/* The batch stays in a dimension that the reshape does not touch. */
static int FindSame(const RengaTensorSpec *x, const RengaTensorSpec *target, int64_t batch)
{
  int from = RengaOnnxBatchDimension(x);
  for (int d = 0; d < target->ndim; d++)
    if (target->dim[d] == -x->dim[from] * batch &&
        CountBehind(target->ndim, target->dim, d) == CountBehind(x->ndim, x->dim, from))
      return d;
  return -1;
}

static RengaErrorCode OpenTarget(RengaOnnxNode *node, RengaValue x, RengaTensorSpec *target)
{
  const RengaTensorSpec *spec = RengaOnnxSpec(node, x);
  int64_t batch = node->importer->file_batch, stride = SampleStride(node, x);
  int d = stride > 0 ? FindBatchPlace(target, stride, batch) : FindSame(spec, target, batch);
  char from[128], to[128];
  RengaTensorSpecFormat(spec, sizeof from, from);
  RengaTensorSpecFormat(target, sizeof to, to);
  RengaOnnxCheckApart(d >= 0, node,
                      "it mixes the samples of a batch (%lld in the file): %s becomes %s",
                      (long long)batch, from, to);
  target->dim[d] = -(target->dim[d] / batch);
  return RENGA_SUCCESS;
}

/* Entries as dimensions: -c for c * batch, as shapes have it. The one that is to be found is
   marked and set to 1. */
static RengaErrorCode ReadTarget(RengaOnnxNode *node, const RengaTensorSpec *x, int n,
                                 const RengaOnnxNumber target[], bool zero_copies,
                                 RengaTensorSpec *shape, int *unknown)
{
  RengaOnnxCheck(n <= RENGA_MAX_DIM, node, RENGA_ERR_SUPPORT, "a shape of %d dimensions", n);
  *shape = (RengaTensorSpec){.type = x->type, .ndim = n};
  *unknown = -1;
  for (int d = 0; d < n; d++) {
    int64_t whole = target[d].whole, batch = target[d].batch;
    RengaOnnxCheckApart(batch == 0 || (whole == 0 && batch > 0), node,
                        "dimension %d of a shape is %lld + %lld * batch", d, (long long)whole,
                        (long long)batch);
    shape->dim[d] = batch > 0 ? -batch : whole;
    if (batch > 0) continue;
    RengaOnnxCheck(whole >= -1, node, RENGA_ERR_FILE_FORMAT, "dimension %d of a shape is %lld", d,
                   (long long)whole);
    if (whole == 0 && zero_copies) {
      RengaOnnxCheck(d < x->ndim, node, RENGA_ERR_FILE_FORMAT,
                     "dimension %d of the input is to be copied, but it has %d", d, x->ndim);
      shape->dim[d] = x->dim[d];
    }
    if (whole != -1) continue;
    RengaOnnxCheck(*unknown < 0, node, RENGA_ERR_FILE_FORMAT, "two dimensions of a shape are -1");
    *unknown = d;
    shape->dim[d] = 1;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxTargetShape(RengaOnnxNode *node, RengaValue x, int n,
                                    const RengaOnnxNumber target[], bool zero_copies,
                                    RengaTensorSpec *shape)
{
  const RengaTensorSpec spec = *RengaOnnxSpec(node, x);
  int unknown, from = RengaOnnxBatchDimension(&spec);
  RengaCall(ReadTarget(node, &spec, n, target, zero_copies, shape, &unknown));
  bool named = RengaOnnxBatchDimension(shape) >= 0;
  bool opened = from >= 0 && !named && node->importer->file_batch > 0;
  int64_t total = 0, known = 0, batch = opened ? node->importer->file_batch : 1;
  RengaTensorSpec widths = *shape, all = spec;
  for (int d = 0; d < n; d++) widths.dim[d] = Width(widths.dim[d]);
  for (int d = 0; d < all.ndim; d++) all.dim[d] = Width(all.dim[d]);
  bool counted = RengaOnnxCount(n, widths.dim, &known) && RengaOnnxCount(all.ndim, all.dim, &total);
  char text[128];
  RengaTensorSpecFormat(&spec, sizeof text, text);
  RengaOnnxCheck(counted, node, RENGA_ERR_SHAPE,
                 "%s is to be reshaped to a shape of more than 2^40 elements", text);
  if (unknown >= 0 && known > 0) {
    const bool whole = total * batch % known == 0;
    RengaOnnxCheckApart(whole || from < 0 || named || opened, node,
                        "it mixes the samples of the batch: %s, of %lld numbers a sample, becomes "
                        "rows of %lld",
                        text, (long long)total, (long long)known);
    RengaOnnxCheck(whole, node, RENGA_ERR_SHAPE,
                   "%s cannot be reshaped: %lld elements are no multiple of %lld", text,
                   (long long)(total * batch), (long long)known);
    shape->dim[unknown] = total * batch / known;
    known *= shape->dim[unknown];
    /* nothing else says where the batch is */
    if (from >= 0 && !named && !opened) shape->dim[unknown] *= -1;
  }
  RengaOnnxCheck(known == total * batch, node, RENGA_ERR_SHAPE,
                 "%s cannot be reshaped to the %lld elements that the node asks for", text,
                 (long long)known);
  if (opened) RengaCall(OpenTarget(node, x, shape));
  RengaOnnxCheck(RengaOnnxBatchDimension(shape) >= 0 || from < 0, node, RENGA_ERR_SUPPORT,
                 "%s is reshaped to a shape without the batch", text);
  return RENGA_SUCCESS;
}

/* A parameter, or what a few nodes make of one. */
bool RengaOnnxIsOfParameter(RengaGraph graph, RengaValue value)
{
  enum { NODES_MAX = 16 };
  for (int i = 0; i < NODES_MAX; i++) {
    const RengaGraphValue *x = RengaGraphGetValue(graph, value);
    if (x->kind == RENGA_VALUE_PARAMETER) return true;
    const RengaGraphNode *node = RengaGraphGetNode(graph, x->producer);
    if (!node || node->n_in == 0) return false;
    value = node->in[0];
  }
  return false;
}

/* What the file learns once and copies to each sample of its batch: the first dimension. Copies of
   constants are left until they meet an open batch (open.c). */
static int64_t OpenFirst(const RengaOnnxNode *node, RengaValue x, int d, int64_t dimension)
{
  int64_t batch = node->importer->open ? node->importer->file_batch : 0;
  if (d > 0 || batch <= 1 || dimension != batch) return dimension;
  return RengaOnnxIsOfParameter(node->importer->graph, x) ? -1 : dimension;
}

RengaErrorCode RengaOnnxExpandShape(RengaOnnxNode *node, RengaValue x, const RengaOnnxHost *target,
                                    RengaTensorSpec *shape)
{
  const RengaTensorSpec *spec = RengaOnnxSpec(node, x);
  RengaTensorSpec wanted;
  int unknown, n = (int)target->count;
  RengaOnnxCheck(target->count <= RENGA_MAX_DIM, node, RENGA_ERR_SUPPORT, "too many dimensions");
  RengaCall(ReadTarget(node, spec, n, target->number, false, &wanted, &unknown));
  bool fixed = RengaOnnxBatchDimension(spec) < 0 && RengaOnnxBatchDimension(&wanted) < 0;
  *shape = (RengaTensorSpec){.type = spec->type, .ndim = n > spec->ndim ? n : spec->ndim};
  for (int d = 0; d < shape->ndim; d++) {
    int ix = d - (shape->ndim - spec->ndim), it = d - (shape->ndim - n);
    int64_t from = ix < 0 ? 1 : spec->dim[ix], to = it < 0 ? 1 : wanted.dim[it];
    bool batch = from < 0 && to == -from * node->importer->file_batch;
    RengaOnnxCheck(from == 1 || to == 1 || from == to || batch, node, RENGA_ERR_SHAPE,
                   "dimension %d is %lld and cannot be expanded to %lld", d, (long long)from,
                   (long long)to);
    shape->dim[d] = from != 1 ? from : fixed ? OpenFirst(node, x, d, to) : to;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxFilledShape(RengaOnnxNode *node, const RengaOnnxHost *target,
                                    RengaTensorSpec *shape)
{
  int unknown, n = (int)target->count;
  RengaTensorSpec none = {.ndim = 0};
  int64_t count;
  RengaOnnxCheck(target->count <= RENGA_MAX_DIM, node, RENGA_ERR_SUPPORT, "too many dimensions");
  RengaCall(ReadTarget(node, &none, n, target->number, false, shape, &unknown));
  RengaOnnxCheck(unknown < 0, node, RENGA_ERR_FILE_FORMAT, "a dimension of a shape is -1");
  RengaTensorSpec widths = *shape;
  for (int d = 0; d < n; d++) widths.dim[d] = Width(widths.dim[d]);
  RengaOnnxCheck(RengaOnnxCount(n, widths.dim, &count), node, RENGA_ERR_FILE_FORMAT,
                 "a tensor of more than 2^40 elements");
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxBatchSize(RengaOnnxNode *node, RengaValue *value)
{
  RengaOnnxImporter *importer = node->importer;
  if (importer->batch_size == RENGA_VALUE_NONE) {
    RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {-1}};
    RengaValue ones, count;
    int64_t axis = 0;
    RengaCall(RengaAttributesSetReal(&importer->attributes, "value", 1));
    RengaCall(RengaAttributesSetInt(&importer->attributes, "to", RENGA_FLOAT32));
    RengaCall(RengaOnnxEmit(node, "ConstantOfShape", 0, NULL, 1, &spec, &ones));
    RengaCall(RengaOnnxReduce(node, "ReduceSum", ones, 1, &axis, false, &count));
    RengaCall(RengaOnnxApply(node, "BatchSum", count, RENGA_VALUE_NONE, &importer->batch_size));
  }
  *value = importer->batch_size;
  return RENGA_SUCCESS;
}
