/* Products with weights. */
#include "../fuse.h"

/* Does this Transpose exchange the last two dimensions and nothing else? */
static bool ExchangesLast(RengaGraph graph, const RengaGraphNode *node)
{
  int count, ndim = RengaGraphSpec(graph, node->in[0])->ndim;
  const int64_t *perm = RengaAttributesInts(&node->attributes, "perm", &count);
  if (ndim < 2) return false;
  if (count == 0) return ndim == 2;
  for (int d = 0; d < ndim - 2; d++)
    if (perm[d] != d) return false;
  return perm[ndim - 2] == ndim - 1;
}

static bool IsWeight(RengaGraph graph, RengaValue value)
{
  const RengaTensorSpec *spec = RengaGraphSpec(graph, value);
  return spec->ndim == 2 && RengaGraphBatchDimension(spec) < 0;
}

/*
   MatMul(Transpose(a), b) and MatMul(a, Transpose(b)): the product reads its factors either
   way. Not a where b is a weight: that becomes Linear, which takes rows.
*/
static RengaErrorCode FuseTransposed(RengaGraph graph, int root, bool *done)
{
  static const char *const flags[2] = {"transA", "transB"};
  RengaGraphNode *node = RengaGraphEntryNode(graph, root);
  for (int i = 0; i < 2; i++) {
    const RengaGraphNode *transpose = RengaFuseProducer(graph, node->in[i], "Transpose");
    if (transpose == NULL || !ExchangesLast(graph, transpose)) continue;
    if (i == 0 && IsWeight(graph, node->in[1])) continue;
    RengaAttributes attributes = {0};
    RengaValue in[2] = {node->in[0], node->in[1]};
    in[i] = transpose->in[0];
    RengaCall(RengaAttributesCopy(&node->attributes, &attributes));
    int64_t flag = RengaAttributesInt(&node->attributes, flags[i], 0);
    RengaCall(RengaAttributesSetInt(&attributes, flags[i], !flag));
    RengaErrorCode code = RengaFuseReplace(graph, root, "MatMul", &attributes, 2, in);
    RengaAttributesFree(&attributes);
    RengaCall(code);
    *done = true;
    return RENGA_SUCCESS;
  }
  return RENGA_SUCCESS;
}

/* MatMul(x, w) with a matrix w that is the same for all samples */
static RengaErrorCode FuseMatMul(RengaGraph graph, int root, bool *done)
{
  const RengaGraphNode *node = &graph->entry[root]->node;
  const RengaTensorSpec *x = RengaGraphSpec(graph, node->in[0]);
  if (!IsWeight(graph, node->in[1]) || x->ndim < 2) return RENGA_SUCCESS;
  if (!RengaDataTypeIsFloating(x->type)) return RENGA_SUCCESS;
  if (RengaAttributesInt(&node->attributes, "transA", 0)) return RENGA_SUCCESS;
  if (RengaAttributesReal(&node->attributes, "alpha", 1) != 1) return RENGA_SUCCESS;
  RengaAttributes attributes = {0};
  int64_t flip = RengaAttributesInt(&node->attributes, "transB", 0);
  RengaCall(RengaAttributesSetInt(&attributes, "transB", flip));
  RengaErrorCode code = RengaFuseReplace(graph, root, "Linear", &attributes, 2,
                                         (const RengaValue[]){node->in[0], node->in[1]});
  RengaAttributesFree(&attributes);
  RengaCall(code);
  *done = true;
  return RENGA_SUCCESS;
}

/* Add(Linear(x, w), bias), either way round */
static RengaErrorCode FuseLinearBias(RengaGraph graph, int root, bool *done)
{
  const RengaGraphNode *node = &graph->entry[root]->node;
  for (int i = 0; i < 2; i++) {
    const RengaGraphNode *linear = RengaFuseInner(graph, node->in[i], "Linear");
    RengaValue bias = node->in[1 - i];
    if (linear == NULL || linear->n_in != 2) continue;
    const RengaTensorSpec *y = RengaGraphSpec(graph, linear->out[0]);
    if (!RengaFuseIsTail(RengaGraphSpec(graph, bias), y, y->ndim - 1)) continue;
    if (!RengaTensorSpecEqual(y, RengaGraphSpec(graph, node->out[0]))) continue;
    RengaCall(RengaFuseReplace(graph, root, "Linear", &linear->attributes, 3,
                               (const RengaValue[]){linear->in[0], linear->in[1], bias}));
    *done = true;
    return RENGA_SUCCESS;
  }
  return RENGA_SUCCESS;
}

const RengaFuseRow RengaFuseLinear[] = {
    {"MatMul", FuseTransposed},
    {"MatMul", FuseMatMul},
    {"Add", FuseLinearBias},
    {NULL, NULL},
};
