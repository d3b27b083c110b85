/* A file that was exported with a fixed batch may hold constants with one copy for each sample:
   types of tokens, positions, masks. Where such a value meets one whose batch is open, its copies
   are compared, and where they are equal, one of them takes their place and is broadcast. */
#include "onnx.h"
#include <string.h>

enum { DEPTH_MAX = 16 };

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

/* Sets found where all copies along the axis are sure to be equal. */
static void FindCopies(RengaOnnxNode *node, int depth, RengaValue x, int axis, bool *found)
{
  RengaGraph graph = node->importer->graph;
  const RengaGraphValue *value = RengaGraphGetValue(graph, x);
  const RengaGraphNode *made = RengaGraphGetNode(graph, value->producer);
  *found = value->kind == RENGA_VALUE_CONSTANT && AreEqual(&value->spec, axis, value->data);
  if (!made || depth > DEPTH_MAX) return;
  if (strcmp(made->op->name, "ConstantOfShape") == 0) *found = true;
  if (strcmp(made->op->name, "Gather") == 0) { /* rows of a table: as equal as the indices */
    const RengaTensorSpec *indices = &RengaGraphGetValue(graph, made->in[1])->spec;
    int64_t along = RengaAttributesInt(&made->attributes, "axis", 0);
    if (along == 0 && axis < indices->ndim) FindCopies(node, depth + 1, made->in[1], axis, found);
  }
  if (!(made->op->flags & RENGA_OP_ELEMENTWISE)) return;
  *found = true;
  for (int i = 0; i < made->n_in && *found; i++) {
    const RengaTensorSpec *spec = &RengaGraphGetValue(graph, made->in[i])->spec;
    int own = axis - (value->spec.ndim - spec->ndim);
    if (own >= 0 && spec->dim[own] != 1) FindCopies(node, depth + 1, made->in[i], own, found);
  }
}

/* Inputs of an elementwise operator: a dimension c * B of one that meets -c of another. */
RengaErrorCode RengaOnnxOpenOperands(RengaOnnxNode *node, int n, RengaValue in[])
{
  int64_t batch = node->importer->open ? node->importer->file_batch : 0;
  for (int i = 0; i < n && batch > 1; i++)
    for (int k = 0; k < n; k++) {
      if (in[i] == RENGA_VALUE_NONE || in[k] == RENGA_VALUE_NONE) continue;
      const RengaTensorSpec *x = RengaOnnxSpec(node, in[i]), *other = RengaOnnxSpec(node, in[k]);
      int from = RengaOnnxBatchDimension(other), axis = from - other->ndim + x->ndim;
      bool found = false;
      if (from < 0 || axis < 0 || x->dim[axis] != -other->dim[from] * batch) continue;
      FindCopies(node, 0, in[i], axis, &found);
      if (found) RengaCall(OneCopy(node, axis, &in[i]));
    }
  return RENGA_SUCCESS;
}
