/* A file that was exported with a fixed batch may hold constants with one copy for each sample:
   types of tokens, positions, masks. Where such a value meets one whose batch is open, its copies
   are compared, and where they are equal, one of them takes their place and is broadcast. */
#include "onnx.h"
#include <string.h>

enum { DEPTH_MAX = 8 };

/* [outer, copies, inner]: are all copies the same bytes? */
static bool AreEqual(const RengaTensorSpec *spec, int axis, const unsigned char *data)
{
  size_t inner = RengaDataTypeSize(spec->type);
  int64_t outer = 1;
  for (int d = 0; d < axis; d++) outer *= spec->dim[d];
  for (int d = axis + 1; d < spec->ndim; d++) inner *= (size_t)spec->dim[d];
  for (int64_t i = 0; i < outer; i++) {
    const unsigned char *first = data + (size_t)(i * spec->dim[axis]) * inner;
    for (int64_t k = 1; k < spec->dim[axis]; k++)
      if (memcmp(first, first + (size_t)k * inner, inner) != 0) return false;
  }
  return true;
}

static RengaErrorCode OneCopy(RengaOnnxNode *node, int axis, RengaValue *x)
{
  const int64_t start = 0, end = 1, step = 1, along = axis;
  RengaAttributes *to = &node->importer->attributes;
  RengaCall(RengaAttributesSetInts(to, "starts", 1, &start));
  RengaCall(RengaAttributesSetInts(to, "ends", 1, &end));
  RengaCall(RengaAttributesSetInts(to, "axes", 1, &along));
  RengaCall(RengaAttributesSetInts(to, "steps", 1, &step));
  RengaCall(RengaOnnxApply(node, "Slice", *x, RENGA_VALUE_NONE, x));
  return RENGA_SUCCESS;
}

/* The dimension of x that a Reshape makes dimension axis of y: as large, and as much before it. */
static int ReshapedFrom(const RengaTensorSpec *x, const RengaTensorSpec *y, int axis)
{
  int64_t before = 1, own = 1;
  for (int d = 0; d < axis; d++) before *= y->dim[d];
  for (int d = 0; d < x->ndim; d++) {
    if (own == before && x->dim[d] == y->dim[axis]) return d;
    own *= x->dim[d];
  }
  return -1;
}

/* The dimension of input i of a node whose copies are those of dimension axis of its output.
   -1: the node makes copies there of one; -2: not known. */
static int CopiedFrom(RengaGraph graph, const RengaGraphNode *node, int i, int axis)
{
  enum { MAKES = -1, UNKNOWN = -2 };
  const char *op = node->op->name;
  const RengaTensorSpec *y = &RengaGraphGetValue(graph, node->out[0])->spec;
  const RengaTensorSpec *x = &RengaGraphGetValue(graph, node->in[i])->spec;
  int own = axis - (y->ndim - x->ndim), count;
  if (node->op->flags & RENGA_OP_ELEMENTWISE || strcmp(op, "Expand") == 0)
    return own < 0 || x->dim[own] == 1 ? MAKES : own;
  if (strcmp(op, "Gather") == 0) { /* rows of a table are as equal as their indices */
    bool rows = RengaAttributesInt(&node->attributes, "axis", 0) == 0;
    const RengaTensorSpec *indices = &RengaGraphGetValue(graph, node->in[1])->spec;
    return !rows || axis >= indices->ndim ? UNKNOWN : i == 0 ? MAKES : axis;
  }
  if (strcmp(op, "Reshape") == 0) {
    int from = ReshapedFrom(x, y, axis);
    return from < 0 ? UNKNOWN : from;
  }
  if (strcmp(op, "Slice") == 0) { /* another axis than those that are cut */
    const int64_t *axes = RengaAttributesInts(&node->attributes, "axes", &count);
    bool cut = count == 0;
    for (int k = 0; k < count; k++) cut = cut || axes[k] == axis || axes[k] + y->ndim == axis;
    return cut ? UNKNOWN : axis;
  }
  if (strcmp(op, "MatMul") == 0 || strcmp(op, "Linear") == 0) { /* rows of the first */
    bool turned = RengaAttributesInt(&node->attributes, "transA", 0) != 0;
    if (axis == y->ndim - 1 || turned || y->ndim < 2) return UNKNOWN;
    if (i > 0 && (*op == 'L' || axis == y->ndim - 2)) return MAKES;
    return own < 0 || (axis < y->ndim - 2 && x->dim[own] == 1) ? MAKES : own;
  }
  if (strcmp(op, "Concat") == 0 || strcmp(op, "Split") == 0) {
    int64_t along = RengaAttributesInt(&node->attributes, "axis", 0);
    return (along < 0 ? along + y->ndim : along) == axis ? UNKNOWN : axis;
  }
  if (strcmp(op, "Transpose") == 0) {
    const int64_t *order = RengaAttributesInts(&node->attributes, "perm", &count);
    return order ? (int)order[axis] : UNKNOWN;
  }
  return UNKNOWN;
}

/* Are all copies along the axis sure to be equal? */
static bool HasCopies(RengaGraph graph, int depth, RengaValue x, int axis)
{
  const RengaGraphValue *value = RengaGraphGetValue(graph, x);
  const RengaGraphNode *made = RengaGraphGetNode(graph, value->producer);
  if (value->kind == RENGA_VALUE_CONSTANT) return AreEqual(&value->spec, axis, value->data);
  if (!made || depth > DEPTH_MAX) return false;
  for (int i = 0; i < made->n_in; i++) {
    if (made->in[i] == RENGA_VALUE_NONE) continue;
    int from = CopiedFrom(graph, made, i, axis);
    if (from < -1 || (from >= 0 && !HasCopies(graph, depth + 1, made->in[i], from))) return false;
  }
  return made->n_in > 0 || strcmp(made->op->name, "ConstantOfShape") == 0;
}

/* c * B copies along the axis, where -c is wanted: one of them. */
RengaErrorCode RengaOnnxOpenDimension(RengaOnnxNode *node, int axis, int64_t wanted, RengaValue *x)
{
  const RengaOnnxImporter *importer = node->importer;
  const RengaTensorSpec *spec = RengaOnnxSpec(node, *x);
  bool copies = importer->open && wanted < 0 && axis < spec->ndim && spec->dim[axis] > 1 &&
                spec->dim[axis] == -wanted * importer->file_batch;
  RengaValue numbers = RENGA_VALUE_NONE;
  if (!copies) return RENGA_SUCCESS;
  if (HasCopies(importer->graph, 0, *x, axis))
    RengaCall(OneCopy(node, axis, x));
  else if (wanted == -1)
    RengaCall(RengaOnnxOpenNumbers(node, *x, axis, &numbers));
  if (numbers != RENGA_VALUE_NONE) *x = numbers;
  return RENGA_SUCCESS;
}

/* Input i, of which dimension axis holds c * B samples, against one that has -c there. */
static RengaErrorCode OpenOperand(RengaOnnxNode *node, bool broadcasts, int axis, int64_t dimension,
                                  RengaValue *x)
{
  RengaTensorSpec opened = *RengaOnnxSpec(node, *x);
  if (!HasCopies(node->importer->graph, 0, *x, axis)) {
    RengaValue numbers = RENGA_VALUE_NONE;
    if (dimension == -1) RengaCall(RengaOnnxOpenNumbers(node, *x, axis, &numbers));
    if (numbers != RENGA_VALUE_NONE) *x = numbers;
    return RENGA_SUCCESS;
  }
  opened.dim[axis] = dimension;
  RengaCall(OneCopy(node, axis, x));
  const RengaValue one = *x;
  if (!broadcasts) RengaCall(RengaOnnxEmit(node, "Expand", 1, &one, 1, &opened, x));
  return RENGA_SUCCESS;
}

/* Inputs of an operator that broadcasts or needs equal dimensions: c * B samples of one meet -c of
   another. */
RengaErrorCode RengaOnnxOpenOperands(RengaOnnxNode *node, bool broadcasts, int n, RengaValue in[])
{
  int64_t batch = node->importer->open ? node->importer->file_batch : 0;
  for (int i = 0; i < n && batch > 1; i++)
    for (int k = 0; k < n; k++) {
      if (in[i] == RENGA_VALUE_NONE || in[k] == RENGA_VALUE_NONE) continue;
      const RengaTensorSpec *x = RengaOnnxSpec(node, in[i]), *other = RengaOnnxSpec(node, in[k]);
      int from = RengaOnnxBatchDimension(other), axis = from - other->ndim + x->ndim;
      if (from < 0 || axis < 0 || x->dim[axis] != -other->dim[from] * batch) continue;
      RengaCall(OpenOperand(node, broadcasts, axis, other->dim[from], &in[i]));
    }
  return RENGA_SUCCESS;
}
