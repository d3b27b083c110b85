/* Attention (Vaswani et al. 2017) in parts: scores, scale, mask, softmax, dropout, weighted sum. */
#include "../fuse.h"

typedef struct {
  RengaValue q, k, v, mask;
  bool k_flipped; /* k is [..., d, S] */
  bool causal;
  double scale, ratio;
} FoundAttention;

/* Through factors and divisors that are scalar constants. */
static RengaValue PeelScale(RengaGraph graph, RengaValue value, double *scale)
{
  for (;;) {
    double number;
    RengaValue other;
    const RengaGraphNode *mul = RengaFuseInner(graph, value, "Mul");
    const RengaGraphNode *div = RengaFuseInner(graph, value, "Div");
    if (mul && RengaFuseWithScalar(graph, mul, true, &number, &other))
      *scale *= number;
    else if (div && RengaFuseWithScalar(graph, div, false, &number, &other) && number != 0)
      *scale /= number;
    else
      return value;
    value = other;
  }
}

/* value = scale * q k' */
static bool MatchScores(RengaGraph graph, RengaValue value, FoundAttention *found)
{
  found->scale = 1;
  const RengaGraphNode *node =
      RengaFuseInner(graph, PeelScale(graph, value, &found->scale), "MatMul");
  if (node == NULL || RengaAttributesInt(&node->attributes, "transA", 0)) return false;
  found->scale *= RengaAttributesReal(&node->attributes, "alpha", 1);
  found->k_flipped = RengaAttributesInt(&node->attributes, "transB", 0) == 0;
  found->q = PeelScale(graph, node->in[0], &found->scale);
  found->k = PeelScale(graph, node->in[1], &found->scale);
  return found->scale != 0;
}

/* Zero on and below the diagonal, as good as minus infinity above; leading dimensions are 1. */
static bool IsCausalMask(RengaGraph graph, RengaValue value)
{
  const RengaGraphValue *mask = graph->value[value];
  const RengaTensorSpec *spec = &mask->spec;
  if (mask->kind != RENGA_VALUE_CONSTANT || spec->type != RENGA_FLOAT32 || spec->ndim < 2)
    return false;
  int64_t n = spec->dim[spec->ndim - 1];
  if (n != spec->dim[spec->ndim - 2] || RengaTensorSpecCount(spec) != n * n) return false;
  const float *data = mask->data;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++)
      if (j <= i ? data[i * n + j] != 0 : data[i * n + j] > -1e4f) return false;
  return true;
}

/* The same as booleans: true where a place is seen. */
static bool IsCausalChoice(RengaGraph graph, RengaValue value)
{
  const RengaGraphValue *mask = graph->value[value];
  const RengaTensorSpec *spec = &mask->spec;
  if (mask->kind != RENGA_VALUE_CONSTANT || spec->type != RENGA_BOOL || spec->ndim < 2)
    return false;
  int64_t n = spec->dim[spec->ndim - 1];
  if (n != spec->dim[spec->ndim - 2] || RengaTensorSpecCount(spec) != n * n) return false;
  const unsigned char *data = mask->data;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++)
      if ((data[i * n + j] != 0) != (j <= i)) return false;
  return true;
}

/* Where(causal, scores, very negative) */
static bool MatchChoice(RengaGraph graph, RengaValue value, FoundAttention *found)
{
  double number;
  const RengaGraphNode *node = RengaFuseInner(graph, value, "Where");
  found->causal = node && IsCausalChoice(graph, node->in[0]) &&
                  RengaFuseScalar(graph, node->in[2], &number) && number <= -1e4 &&
                  MatchScores(graph, node->in[1], found);
  return found->causal;
}

static bool MatchMasked(RengaGraph graph, RengaValue value, FoundAttention *found)
{
  const RengaGraphNode *add = RengaFuseInner(graph, value, "Add");
  found->mask = RENGA_VALUE_NONE;
  for (int i = 0; add && i < 2; i++) {
    if (!MatchScores(graph, add->in[i], found)) continue;
    found->causal = IsCausalMask(graph, add->in[1 - i]);
    if (!found->causal) found->mask = add->in[1 - i];
    return true;
  }
  return MatchChoice(graph, value, found) || MatchScores(graph, value, found);
}

/* softmax(...), or the same with rows of nothing, which are no numbers, as 0 */
static const RengaGraphNode *InnerSoftmax(RengaGraph graph, RengaValue value)
{
  const RengaGraphNode *where = RengaFuseInner(graph, value, "Where");
  if (where == NULL) return RengaFuseInner(graph, value, "Softmax");
  const RengaValue p = RengaFuseDefined(graph, graph->value[value]->producer);
  return p >= 0 && graph->readers[p] == 2 ? RengaFuseProducer(graph, p, "Softmax") : NULL;
}

/* value = dropout(softmax(...)) */
static bool MatchWeights(RengaGraph graph, RengaValue value, FoundAttention *found)
{
  const RengaGraphNode *dropout = RengaFuseInner(graph, value, "Dropout");
  if (dropout && dropout->n_out != 1) return false;
  if (dropout) found->ratio = RengaAttributesReal(&dropout->attributes, "ratio", 0.5);
  const RengaGraphNode *softmax = InnerSoftmax(graph, dropout ? dropout->in[0] : value);
  if (softmax == NULL) return false;
  int64_t axis = RengaAttributesInt(&softmax->attributes, "axis", -1);
  if (axis != -1 && axis != RengaGraphSpec(graph, softmax->in[0])->ndim - 1) return false;
  return MatchMasked(graph, softmax->in[0], found);
}

/* Same leading dimensions, no broadcasting; a causal mask needs as many keys as queries. */
static bool FitsAttention(RengaGraph graph, const FoundAttention *found)
{
  const RengaTensorSpec *q = RengaGraphSpec(graph, found->q), *k = RengaGraphSpec(graph, found->k);
  const RengaTensorSpec *v = RengaGraphSpec(graph, found->v);
  int n = q->ndim;
  if (n < 3 || k->ndim != n || v->ndim != n || !RengaDataTypeIsFloating(q->type)) return false;
  for (int d = 0; d < n - 2; d++)
    if (q->dim[d] != k->dim[d] || q->dim[d] != v->dim[d]) return false;
  int64_t keys = k->dim[found->k_flipped ? n - 1 : n - 2];
  if (v->dim[n - 2] != keys || (found->causal && keys != q->dim[n - 2])) return false;
  if (found->mask < 0) return true;
  const RengaTensorSpec *mask = RengaGraphSpec(graph, found->mask);
  for (int d = 1; d <= mask->ndim; d++) { /* counted from the end */
    int64_t wide = d == 1 ? keys : d <= n ? q->dim[n - d] : 1;
    if (d > n || (mask->dim[mask->ndim - d] != 1 && mask->dim[mask->ndim - d] != wide))
      return false;
  }
  return true;
}

/* k as [..., S, d]: the Transpose that flipped it is changed or undone. */
static RengaErrorCode Unflip(RengaGraph graph, int root, RengaValue *k)
{
  int count, n = RengaGraphSpec(graph, *k)->ndim;
  int64_t order[RENGA_MAX_DIM];
  const RengaGraphNode *before = RengaFuseProducer(graph, *k, "Transpose");
  const int64_t *perm = before ? RengaAttributesInts(&before->attributes, "perm", &count) : NULL;
  for (int d = 0; d < n; d++) {
    const int from = d == n - 1 ? n - 2 : d == n - 2 ? n - 1 : d; /* the last two exchanged */
    order[d] = perm ? perm[from] : from;
  }
  RengaValue from = perm ? before->in[0] : *k;
  bool idle = true;
  for (int d = 0; d < n; d++) idle = idle && order[d] == d;
  *k = from;
  if (idle) return RENGA_SUCCESS;
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "perm", n, order));
  RengaErrorCode code = RengaFuseBefore(graph, root, "Transpose", &attributes, 1, &from, k);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetAttributes(const FoundAttention *found, RengaAttributes *attributes)
{
  RengaCall(RengaAttributesSetReal(attributes, "scale", found->scale));
  RengaCall(RengaAttributesSetInt(attributes, "causal", found->causal));
  RengaCall(RengaAttributesSetReal(attributes, "ratio", found->ratio));
  return RENGA_SUCCESS;
}

/* MatMul(weights, v) */
static RengaErrorCode FuseAttention(RengaGraph graph, int root, bool *done)
{
  const RengaGraphNode *node = &graph->entry[root]->node;
  FoundAttention found = {.mask = RENGA_VALUE_NONE};
  if (RengaAttributesInt(&node->attributes, "transA", 0) ||
      RengaAttributesInt(&node->attributes, "transB", 0) ||
      RengaAttributesReal(&node->attributes, "alpha", 1) != 1)
    return RENGA_SUCCESS;
  found.v = node->in[1];
  if (!MatchWeights(graph, node->in[0], &found) || !FitsAttention(graph, &found))
    return RENGA_SUCCESS;
  if (found.k_flipped) RengaCall(Unflip(graph, root, &found.k));
  RengaAttributes attributes = {0};
  RengaCall(SetAttributes(&found, &attributes));
  RengaErrorCode code =
      RengaFuseReplace(graph, root, "Attention", &attributes, 4,
                       (const RengaValue[]){found.q, found.k, found.v, found.mask});
  RengaAttributesFree(&attributes);
  RengaCall(code);
  *done = true;
  return RENGA_SUCCESS;
}

const RengaFuseRow RengaFuseAttention[] = {
    {"MatMul", FuseAttention},
    {NULL, NULL},
};
