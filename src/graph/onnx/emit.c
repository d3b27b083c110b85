/* Nodes of the graph that conversions make. */
#include "onnx.h"
#include "renga/private/quiet.h"
#include <string.h>

/* A dimension -c with c > 1 holds samples at some stride; what does not move elements keeps it. */
static RengaErrorCode KeepInner(RengaOnnxNode *node, int n_in, const RengaValue in[], RengaValue y)
{
  const RengaTensorSpec *spec = RengaOnnxSpec(node, y);
  int64_t inner = 0;
  for (int d = 0; d < spec->ndim; d++) {
    if (spec->dim[d] >= 0) continue;
    if (spec->dim[d] == -1) inner = 1;
    for (int i = 0; i < n_in && inner == 0; i++) {
      if (in[i] == RENGA_VALUE_NONE) continue;
      const RengaTensorSpec *from = RengaOnnxSpec(node, in[i]);
      for (int k = 0; k < from->ndim; k++)
        if (from->dim[k] == spec->dim[d]) inner = RengaOnnxGetInner(node->importer, in[i]);
    }
  }
  RengaCall(RengaOnnxSetInner(node->importer, y, inner));
  return RENGA_SUCCESS;
}

/* An error of the graph is told once, with its place in the file; one of this rank alone, by it. */
static RengaErrorCode AddNode(RengaOnnxNode *node, const char *op, const char *name, int n_in,
                              const RengaValue in[], int n_out, const RengaTensorSpec given[],
                              RengaValue out[])
{
  const RengaOnnxImporter *importer = node->importer;
  RengaQuiet quiet;
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code = RengaGraphAddNode(importer->graph, op, name, &importer->attributes,
                                                n_in, in, n_out, given, out);
  RengaQuietEnd_Private(&quiet);
  const char *opened =
      importer->open && importer->file_batch > 0
          ? "; the batch that the file fixes was made open: if this is why, export it "
            "with a dynamic batch"
          : "";
  const bool alone = code == RENGA_ERR_MEMORY || code == RENGA_ERR_INTERNAL;
  RengaCheck(!alone, MPI_COMM_SELF, code, "%s", RengaErrorGetMessage());
  RengaOnnxCheck(code == RENGA_SUCCESS, node, code, "%s%s", RengaErrorGetMessage(), opened);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxEmit(RengaOnnxNode *node, const char *op, int n_in, const RengaValue in[],
                             int n_out, const RengaTensorSpec given[], RengaValue out[])
{
  RengaOnnxImporter *importer = node->importer;
  char *name = NULL;
  RengaCall(RengaOnnxNewName(node, op, &name));
  RengaErrorCode code = AddNode(node, op, name, n_in, in, n_out, given, out);
  RengaAttributesFree(&importer->attributes);
  RengaCall(code);
  for (int i = 0; i < n_out; i++) {
    RengaCall(KeepInner(node, n_in, in, out[i]));
    RengaCall(RengaOnnxKeepMask(node, op, n_in, in, out[i]));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxApply(RengaOnnxNode *node, const char *op, RengaValue a, RengaValue b,
                              RengaValue *y)
{
  const RengaValue in[] = {a, b};
  RengaCall(RengaOnnxEmit(node, op, b == RENGA_VALUE_NONE ? 1 : 2, in, 1, NULL, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConstant(RengaOnnxNode *node, const RengaTensorSpec *spec, const void *data,
                                 RengaValue *value)
{
  char *name;
  RengaCall(RengaOnnxNewName(node, "constant", &name));
  RengaCall(RengaGraphAddConstant(node->importer->graph, name, spec, data, value));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxScalar(RengaOnnxNode *node, RengaDataType type, double number,
                               RengaValue *value)
{
  RengaOnnxHost *host;
  void *data;
  RengaOnnxCheck(RengaOnnxHostHasType(type), node, RENGA_ERR_SUPPORT,
                 "type %s is not supported here", RengaDataTypeName(type));
  RengaCall(RengaOnnxHostCreate(node->importer, type, 0, NULL, &host));
  *host->number = (RengaOnnxNumber){.whole = (int64_t)number, .real = number};
  RengaCall(RengaOnnxHostToData(node, host, &data));
  RengaCall(RengaOnnxConstant(node, &host->spec, data, value));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxApplyReal(RengaOnnxNode *node, const char *op, RengaValue a, double b,
                                  RengaValue *y)
{
  RengaValue constant;
  RengaCall(RengaOnnxScalar(node, RengaOnnxSpec(node, a)->type, b, &constant));
  RengaCall(RengaOnnxApply(node, op, a, constant, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxTranspose(RengaOnnxNode *node, RengaValue x, int n, const int64_t order[],
                                  RengaValue *y)
{
  RengaCall(RengaAttributesSetInts(&node->importer->attributes, "perm", n, order));
  RengaCall(RengaOnnxApply(node, "Transpose", x, RENGA_VALUE_NONE, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxReduce(RengaOnnxNode *node, const char *op, RengaValue x, int n_axes,
                               const int64_t axes[], bool keep, RengaValue *y)
{
  RengaCall(RengaAttributesSetInts(&node->importer->attributes, "axes", n_axes, axes));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "keepdims", keep));
  RengaCall(RengaOnnxApply(node, op, x, RENGA_VALUE_NONE, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxCast(RengaOnnxNode *node, RengaValue x, RengaDataType type, RengaValue *y)
{
  *y = x;
  if (RengaOnnxSpec(node, x)->type == type) return RENGA_SUCCESS;
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "to", (int64_t)type));
  RengaCall(RengaOnnxApply(node, "Cast", x, RENGA_VALUE_NONE, y));
  return RENGA_SUCCESS;
}

static bool IsFileOutput(const RengaOnnxImporter *importer, const char *name)
{
  const Onnx__GraphProto *graph = importer->model->graph;
  for (size_t i = 0; i < graph->n_output; i++)
    if (graph->output[i]->name && strcmp(graph->output[i]->name, name) == 0) return true;
  return false;
}

/* A name that no value of the graph has or, as an initializer or output of the file, will have. */
static bool IsNameFree(const RengaOnnxImporter *importer, const char *name)
{
  if (RengaGraphFindValue(importer->graph, name) != RENGA_VALUE_NONE ||
      IsFileOutput(importer, name))
    return false;
  const RengaOnnxBinding *binding = RengaOnnxScopeFind(importer->model_scope, name);
  return !binding || binding->kind != RENGA_ONNX_TENSOR;
}

/* Counts the nodes that have the same name in the file. */
static RengaErrorCode LastOfName(RengaOnnxImporter *importer, const char *name,
                                 RengaOnnxBinding **last)
{
  if (!importer->named) RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->named));
  *last = RengaOnnxScopeFind(importer->named, name);
  if (*last) return RENGA_SUCCESS;
  RengaCall(RengaOnnxScopeAdd(importer, importer->named, name, last));
  (*last)->n_items = 1;
  return RENGA_SUCCESS;
}

/* The node's name in the file for its first node in the graph, then NAME/Op. */
RengaErrorCode RengaOnnxNewName(RengaOnnxNode *node, const char *op, char **name)
{
  RengaOnnxImporter *importer = node->importer;
  char *made, number[24];
  RengaCall(RengaOnnxJoin(importer, node->scope->prefix, node->name, &made));
  if (node->emitted > 0 || strcmp(op, "constant") == 0) {
    RengaCall(RengaOnnxJoin(importer, made, "/", &made));
    RengaCall(RengaOnnxJoin(importer, made, op, &made));
  }
  node->emitted += strcmp(op, "constant") != 0;
  RengaOnnxBinding *last = NULL;
  char *base = made;
  while (!IsNameFree(importer, made)) { /* the numbers go on from the last one of this name */
    if (!last) RengaCall(LastOfName(importer, base, &last));
    snprintf(number, sizeof number, "_%d", ++last->n_items);
    RengaCall(RengaOnnxJoin(importer, base, number, &made));
  }
  *name = made;
  return RENGA_SUCCESS;
}

/* An output is found in the graph by its name in the file; by the first one, where it has two. */
RengaErrorCode RengaOnnxNameOutput(RengaOnnxNode *node, const char *name, RengaValue value)
{
  const RengaGraphValue *made = RengaGraphGetValue(node->importer->graph, value);
  if (made->kind == RENGA_VALUE_ACTIVATION && !IsFileOutput(node->importer, made->name))
    RengaCall(RengaGraphRenameValue_Private(node->importer->graph, value, name));
  return RENGA_SUCCESS;
}
