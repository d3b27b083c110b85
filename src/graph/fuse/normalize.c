/* Normalisation over the last dimensions, as exporters write it in parts. */
#include "../fuse.h"

/* The first of the trailing dimensions that a mean with kept dimensions is over; -1: not so. */
static int TrailingAxis(RengaGraph graph, const RengaGraphNode *mean)
{
  int count, ndim = RengaGraphSpec(graph, mean->in[0])->ndim;
  const int64_t *axes = RengaAttributesInts(&mean->attributes, "axes", &count);
  bool over[RENGA_MAX_DIM] = {false};
  if (!RengaAttributesInt(&mean->attributes, "keepdims", 1)) return -1;
  if (count == 0 || count > ndim) return -1;
  for (int i = 0; i < count; i++) over[axes[i] < 0 ? axes[i] + ndim : axes[i]] = true;
  for (int d = ndim - count; d < ndim; d++)
    if (!over[d]) return -1;
  return ndim - count;
}

typedef struct {
  RengaValue x;
  bool centered; /* LayerNormalization; else RMSNormalization */
  int axis;
  double epsilon;
} FoundNorm;

/* value = sqrt(mean(c * c) + epsilon) of what is normalised, c */
static bool MatchDeviation(RengaGraph graph, RengaValue value, RengaValue c, FoundNorm *found)
{
  RengaValue inside;
  double two;
  const RengaGraphNode *root = RengaFuseInner(graph, value, "Sqrt");
  const RengaGraphNode *add = root ? RengaFuseInner(graph, root->in[0], "Add") : NULL;
  if (!add || !RengaFuseWithScalar(graph, add, true, &found->epsilon, &inside)) return false;
  const RengaGraphNode *mean = RengaFuseInner(graph, inside, "ReduceMean");
  if (!mean || (found->axis = TrailingAxis(graph, mean)) < 0) return false;
  const RengaGraphNode *square = RengaFuseInner(graph, mean->in[0], "Pow");
  if (square) return square->in[0] == c && RengaFuseScalar(graph, square->in[1], &two) && two == 2;
  square = RengaFuseInner(graph, mean->in[0], "Mul");
  return square && square->in[0] == c && square->in[1] == c;
}

/* 1 / deviation */
static bool MatchInverse(RengaGraph graph, RengaValue value, RengaValue c, FoundNorm *found)
{
  double one;
  const RengaGraphNode *node = RengaFuseInner(graph, value, "Reciprocal");
  if (node) return MatchDeviation(graph, node->in[0], c, found);
  node = RengaFuseInner(graph, value, "Div");
  return node && RengaFuseScalar(graph, node->in[0], &one) && one == 1 &&
         MatchDeviation(graph, node->in[1], c, found);
}

/* value = c / deviation or c * (1 / deviation) */
static bool MatchNormalized(RengaGraph graph, RengaValue value, FoundNorm *found, RengaValue *c)
{
  const RengaGraphNode *node = RengaFuseInner(graph, value, "Div");
  if (node) {
    *c = node->in[0];
    return MatchDeviation(graph, node->in[1], *c, found);
  }
  node = RengaFuseInner(graph, value, "Mul");
  for (int i = 0; node && i < 2; i++) {
    *c = node->in[i];
    if (MatchInverse(graph, node->in[1 - i], *c, found)) return true;
  }
  return false;
}

/* Where c = x - mean(x), which only the pattern reads: the normalisation is of x. */
static void MatchCenter(RengaGraph graph, RengaValue c, FoundNorm *found)
{
  const RengaGraphNode *sub = RengaFuseProducer(graph, c, "Sub");
  const RengaGraphNode *mean = sub ? RengaFuseInner(graph, sub->in[1], "ReduceMean") : NULL;
  found->x = c;
  found->centered = mean && mean->in[0] == sub->in[0] && graph->readers[c] <= 3 &&
                    TrailingAxis(graph, mean) == found->axis;
  if (found->centered) found->x = sub->in[0];
}

/* Mul(normalised, scale), either way round */
static RengaErrorCode FuseScale(RengaGraph graph, int root, bool *done)
{
  const RengaGraphNode *node = &graph->entry[root]->node;
  for (int i = 0; i < 2; i++) {
    FoundNorm found = {.axis = -1};
    RengaValue c, scale = node->in[1 - i];
    if (!MatchNormalized(graph, node->in[i], &found, &c)) continue;
    if (!RengaFuseIsTail(RengaGraphSpec(graph, scale), RengaGraphSpec(graph, c), found.axis))
      continue;
    MatchCenter(graph, c, &found);
    RengaAttributes attributes = {0};
    RengaCall(RengaAttributesSetInt(&attributes, "axis", found.axis));
    RengaCall(RengaAttributesSetReal(&attributes, "epsilon", found.epsilon));
    const char *op = found.centered ? "LayerNormalization" : "RMSNormalization";
    RengaErrorCode code =
        RengaFuseReplace(graph, root, op, &attributes, 2, (const RengaValue[]){found.x, scale});
    RengaAttributesFree(&attributes);
    RengaCall(code);
    *done = true;
    return RENGA_SUCCESS;
  }
  return RENGA_SUCCESS;
}

/* Add(LayerNormalization(x, scale), bias), either way round */
static RengaErrorCode FuseNormBias(RengaGraph graph, int root, bool *done)
{
  const RengaGraphNode *node = &graph->entry[root]->node;
  for (int i = 0; i < 2; i++) {
    const RengaGraphNode *normal = RengaFuseInner(graph, node->in[i], "LayerNormalization");
    RengaValue bias = node->in[1 - i];
    if (normal == NULL || normal->n_in != 2 || normal->n_out != 1) continue;
    if (!RengaTensorSpecEqual(RengaGraphSpec(graph, bias), RengaGraphSpec(graph, normal->in[1])))
      continue;
    RengaCall(RengaFuseReplace(graph, root, "LayerNormalization", &normal->attributes, 3,
                               (const RengaValue[]){normal->in[0], normal->in[1], bias}));
    *done = true;
    return RENGA_SUCCESS;
  }
  return RENGA_SUCCESS;
}

const RengaFuseRow RengaFuseNormalize[] = {
    {"Mul", FuseScale},
    {"Add", FuseNormBias},
    {NULL, NULL},
};
