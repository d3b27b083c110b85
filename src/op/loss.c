/* Attention, cross-entropy and sums over the batch. */
#include "renga/private/op.h"

/* q[...,T,d], k[...,S,d], v[...,S,e]; the mask broadcasts to [...,T,S]. first: which input q is. */
static RengaErrorCode CheckAttention(const RengaOpCall *call, int first, int mask)
{
  const RengaTensorSpec *q = &call->in[first], *k = q + 1, *v = q + 2;
  int n = q->ndim;
  RengaOpCheck(n >= 2 && k->ndim == n && v->ndim == n, call,
               "queries, keys and values must have one number of dimensions, two or more");
  for (int d = 0; d < n - 2; d++)
    RengaOpCheck(q->dim[d] == k->dim[d] && q->dim[d] == v->dim[d], call,
                 "queries, keys and values differ in dimension %d", d);
  RengaOpCheck(q->dim[n - 1] == k->dim[n - 1], call, "queries and keys differ in width");
  RengaOpCheck(k->dim[n - 2] == v->dim[n - 2], call, "keys and values differ in number");
  double ratio = RengaOpCallReal(call, "ratio");
  RengaOpCheckValue(ratio >= 0 && ratio < 1, call, "ratio is %g, must be in [0,1)", ratio);
  RengaOpCheckValue(RengaOpCallInt(call, "batch_factor") > 0, call, "batch_factor is %lld",
                    (long long)RengaOpCallInt(call, "batch_factor"));
  if (!RengaOpCallHasInput(call, mask)) return RENGA_SUCCESS;
  RengaTensorSpec scores = *q, wide;
  scores.dim[n - 1] = k->dim[n - 2];
  wide = scores;
  RengaCall(RengaOpBroadcast(call, &call->in[mask], &wide));
  RengaOpCheck(RengaOpSameShape(&scores, &wide), call, "the mask is wider than the scores");
  return RENGA_SUCCESS;
}

/* -> o[…,T,e], log-sum-exp […,T] */
static RengaErrorCode ShapeAttention(RengaOpCall *call)
{
  RengaCall(CheckAttention(call, 0, 3));
  const RengaTensorSpec *q = &call->in[0], *v = &call->in[2];
  RengaOpCopyShape(&call->out[0], q);
  call->out[0].dim[q->ndim - 1] = v->dim[v->ndim - 1];
  if (call->n_out < 2) return RENGA_SUCCESS;
  RengaOpCopyShape(&call->out[1], q);
  call->out[1].ndim--;
  return RENGA_SUCCESS;
}

/* do, q, k, v, o, log-sum-exp, (mask) -> dq, dk, dv, (dmask) */
static RengaErrorCode AttentionGrad(RengaOpCall *call)
{
  RengaCall(CheckAttention(call, 1, 6));
  const RengaTensorSpec *q = &call->in[1], *v = &call->in[3];
  RengaTensorSpec o = *q, lse = *q;
  o.dim[q->ndim - 1] = v->dim[v->ndim - 1];
  lse.ndim--;
  RengaOpCheck(RengaOpSameShape(&call->in[0], &o) && RengaOpSameShape(&call->in[4], &o), call,
               "the gradient or the output does not fit queries and values");
  RengaOpCheck(RengaOpSameShape(&call->in[5], &lse), call,
               "the log-sum-exp does not fit the queries");
  RengaOpCheck(call->n_out < 4 || RengaOpCallHasInput(call, 6), call,
               "the gradient of a mask needs the mask");
  for (int i = 0; i < call->n_out; i++)
    RengaOpCopyShape(&call->out[i], &call->in[i < 3 ? 1 + i : 6]);
  return RENGA_SUCCESS;
}

/* k[N,G,1,d], v[N,G,1,e] for caches [G,S,L,d], [G,S,L,e] */
static RengaErrorCode CheckCached(const RengaOpCall *call)
{
  for (int i = 0; i < 2; i++) {
    const RengaTensorSpec *row = &call->in[5 + i], *cache = &call->in[3 + i];
    RengaOpCheck(row->ndim == 4 && row->dim[0] == call->in[0].dim[0] && row->dim[2] == 1 &&
                     row->dim[1] == cache->dim[0] && row->dim[3] == cache->dim[3],
                 call, "input %d does not fit its cache", 5 + i);
  }
  return RENGA_SUCCESS;
}

/* q[N,H,1,d], cache and place of each sample [N], keys[G,S,L,d], values[G,S,L,e], (k[N,G,1,d],
   v[N,G,1,e], which are written there, (mask, which broadcasts to [N,H,1,L])) -> o[N,H,1,e] */
static RengaErrorCode ShapeCachedAttention(RengaOpCall *call)
{
  const RengaTensorSpec *q = &call->in[0], *keys = q + 3, *values = q + 4;
  for (int i = 0; i < 5; i++)
    RengaOpCheck(call->in[i].ndim == (i == 1 || i == 2 ? 1 : 4), call, "input %d has %d dimensions",
                 i, call->in[i].ndim);
  RengaOpCheck(q[1].dim[0] == q->dim[0] && q[2].dim[0] == q->dim[0], call,
               "caches and places are of other samples");
  RengaOpCheck(q->dim[2] == 1, call, "a sample has more than one token");
  RengaOpCheck(keys->dim[0] > 0 && values->dim[0] == keys->dim[0] && q->dim[1] % keys->dim[0] == 0,
               call, "heads of queries are no multiple of those of keys and values");
  RengaOpCheck(q->dim[3] == keys->dim[3] && keys->dim[1] == values->dim[1] &&
                   keys->dim[2] == values->dim[2],
               call, "the caches do not fit the queries");
  RengaOpCheckValue(RengaOpCallReal(call, "cap") >= 0, call, "cap is %g",
                    RengaOpCallReal(call, "cap"));
  RengaOpCheckValue(call->n_in != 6, call, "keys without values");
  if (call->n_in > 5) RengaCall(CheckCached(call));
  RengaOpCopyShape(&call->out[0], q);
  call->out[0].dim[3] = values->dim[3];
  if (!RengaOpCallHasInput(call, 7)) return RENGA_SUCCESS;
  RengaTensorSpec scores = *q, wide;
  scores.dim[3] = keys->dim[2];
  wide = scores;
  RengaCall(RengaOpBroadcast(call, &call->in[7], &wide));
  RengaOpCheck(RengaOpSameShape(&scores, &wide), call, "the mask is wider than the scores");
  return RENGA_SUCCESS;
}

/* Labels have the shape of the scores without the axis of the classes. */
static RengaErrorCode CheckLabelShape(const RengaOpCall *call, int scores, int labels, int weights)
{
  const RengaTensorSpec *x = &call->in[scores];
  RengaTensorSpec expected = {0};
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  for (int d = 0; d < x->ndim; d++)
    if (d != axis) expected.dim[expected.ndim++] = x->dim[d];
  RengaOpCheck(RengaOpSameShape(&expected, &call->in[labels]), call,
               "the labels must have the shape of the scores without axis %d", axis);
  if (RengaOpCallHasInput(call, weights))
    RengaOpCheck(call->in[weights].ndim == 1 && call->in[weights].dim[0] == x->dim[axis], call,
                 "there must be a weight for each of %lld classes", (long long)x->dim[axis]);
  return RENGA_SUCCESS;
}

/* scores, labels, (weights) -> sum, log-sum-exp */
static RengaErrorCode ShapeCrossEntropy(RengaOpCall *call)
{
  RengaCall(CheckLabelShape(call, 0, 1, 2));
  call->out[0].ndim = 0;
  if (call->n_out > 1) RengaOpCopyShape(&call->out[1], &call->in[1]);
  return RENGA_SUCCESS;
}

/* d sum, scores, labels, (log-sum-exp), (weights) -> d scores */
static RengaErrorCode LossGradient(RengaOpCall *call, int labels, int weights)
{
  RengaOpCheck(RengaTensorSpecCount(&call->in[0]) == 1, call,
               "the gradient of the sum is no scalar");
  RengaCall(CheckLabelShape(call, 1, labels, weights));
  RengaOpCopyShape(&call->out[0], &call->in[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyGrad(RengaOpCall *call)
{
  RengaCall(LossGradient(call, 2, 4));
  RengaOpCheck(RengaOpSameShape(&call->in[2], &call->in[3]), call,
               "labels and log-sum-exp differ in shape");
  return RENGA_SUCCESS;
}

static RengaErrorCode LikelihoodGrad(RengaOpCall *call)
{
  RengaCall(LossGradient(call, 2, 3));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeCount(RengaOpCall *call)
{
  if (RengaOpCallHasInput(call, 1))
    RengaOpCheck(call->in[1].ndim == 1, call, "the class weights have %d dimensions, must have 1",
                 call->in[1].ndim);
  call->out[0].ndim = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeBatchSum(RengaOpCall *call)
{
  RengaOpCheck(RengaTensorSpecCount(&call->in[0]) == 1, call, "sums scalars only");
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

/* Products of two matrices [T,S] x width per head, and the softmax. Causal: still all of them. */
static double AttentionCost(const RengaOpCall *call, int first, double products)
{
  const RengaTensorSpec *q = &call->in[first], *k = q + 1, *v = q + 2;
  int n = q->ndim;
  double scores = (double)RengaOpProduct(q, 0, n - 1) * (double)k->dim[n - 2];
  return scores * (products * (double)(q->dim[n - 1] + v->dim[n - 1]) + 12.0);
}

static double AttentionFlops(const RengaOpCall *call)
{
  return AttentionCost(call, 0, 2.0);
}

/* As if all places were taken. */
static double CachedAttentionFlops(const RengaOpCall *call)
{
  const RengaTensorSpec *q = &call->in[0], *values = &call->in[4];
  const double scores = (double)(q->dim[0] * q->dim[1]) * (double)values->dim[2];
  return scores * (2.0 * (double)(q->dim[3] + values->dim[3]) + 12.0);
}

/* Scores again, then the gradients of both factors of both products. */
static double AttentionGradFlops(const RengaOpCall *call)
{
  return AttentionCost(call, 1, 5.0);
}

/* Scores of some of the classes, [first, first + n) of them: a lane's. */
static RengaErrorCode CheckLaneOfClasses(const RengaOpCall *call, int scores)
{
  const RengaTensorSpec *x = &call->in[scores];
  const int64_t first = RengaOpCallInt(call, "first"), classes = RengaOpCallInt(call, "classes");
  int axis;
  RengaCall(CheckLabelShape(call, scores, scores + 1, call->n_in));
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  RengaOpCheckValue(first >= 0 && first + x->dim[axis] <= classes, call,
                    "classes %lld to %lld are not among %lld", (long long)first,
                    (long long)(first + x->dim[axis] - 1), (long long)classes);
  return RENGA_SUCCESS;
}

/* scores, labels -> log-sum-exp of the lane, the label's score or 0 */
static RengaErrorCode ShapeEntropyLane(RengaOpCall *call)
{
  RengaCall(CheckLaneOfClasses(call, 0));
  for (int o = 0; o < call->n_out; o++) RengaOpCopyShape(&call->out[o], &call->in[1]);
  return RENGA_SUCCESS;
}

/* d log-sum-exp, d label's score, scores, labels, log-sum-exp -> d scores */
static RengaErrorCode EntropyLaneGrad(RengaOpCall *call)
{
  RengaCall(CheckLaneOfClasses(call, 2));
  for (int i = 0; i < call->n_in; i++)
    RengaOpCheck(i == 2 || RengaOpSameShape(&call->in[i], &call->in[3]), call,
                 "input %d and the labels differ in shape", i);
  RengaOpCopyShape(&call->out[0], &call->in[2]);
  return RENGA_SUCCESS;
}

/* labels, (weights), each lane's log-sum-exp, each lane's score -> sum, log-sum-exp, score */
static RengaErrorCode ShapeEntropyJoin(RengaOpCall *call)
{
  RengaOpCheck(call->n_in > 3 && call->n_in % 2 == 0, call,
               "lanes have %d log-sum-exps and scores, of each as many", call->n_in - 2);
  for (int i = 2; i < call->n_in; i++)
    RengaOpCheck(RengaOpSameShape(&call->in[i], &call->in[0]), call,
                 "input %d and the labels differ in shape", i);
  call->out[0].ndim = 0;
  for (int o = 1; o < call->n_out; o++) RengaOpCopyShape(&call->out[o], &call->in[0]);
  return RENGA_SUCCESS;
}

/* d sum, labels, log-sum-exp, (weights), each lane's log-sum-exp -> d score, d log-sum-exp of each
   lane */
static RengaErrorCode EntropyJoinGrad(RengaOpCall *call)
{
  RengaOpCheck(RengaTensorSpecCount(&call->in[0]) == 1, call,
               "the gradient of the sum is no scalar");
  RengaOpCheck(call->n_in > 4 && call->n_out == call->n_in - 3, call, "%d lanes get %d gradients",
               call->n_in - 4, call->n_out - 1);
  for (int i = 2; i < call->n_in; i++)
    RengaOpCheck(i == 3 || RengaOpSameShape(&call->in[i], &call->in[1]), call,
                 "input %d and the labels differ in shape", i);
  for (int o = 0; o < call->n_out; o++) RengaOpCopyShape(&call->out[o], &call->in[1]);
  return RENGA_SUCCESS;
}

static double ScoreFlops(const RengaOpCall *call)
{
  return 12.0 * (double)RengaTensorSpecCount(&call->in[0]);
}

static double ScoreGradFlops(const RengaOpCall *call)
{
  return 12.0 * (double)RengaTensorSpecCount(&call->in[1]);
}

static double EntropyLaneGradFlops(const RengaOpCall *call)
{
  return 12.0 * (double)RengaTensorSpecCount(&call->in[2]);
}

/* An exponential for each lane. */
static double EntropyJoinFlops(const RengaOpCall *call)
{
  return 6.0 * call->n_in * (double)RengaTensorSpecCount(&call->in[call->n_in - 1]);
}

static double LabelFlops(const RengaOpCall *call)
{
  return (double)RengaTensorSpecCount(&call->in[0]);
}

#define OWN RENGA_OP_INTERNAL
#define IGNORE "ignore_index:int=-9223372036854775808"
#define CLASSES "axis:int=-1 " IGNORE
#define LANE CLASSES " first:int=0 classes:int=0" /* of all lanes */
#define HEADS                                                                                      \
  "scale:real=0 causal:int=0 first:int=0 ratio:real=0 key:int=0 batch_dim:int=0 "                  \
  "batch_factor:int=1"
/* scale 0 stands for 1 / sqrt(width); no label is as small as the default of ignore_index. */

const RengaOperator RengaOperatorsLoss[] = {
    {"Attention", 3, 4, 1, 2, OWN | RENGA_OP_RANDOM | RENGA_OP_PRODUCT, ShapeAttention,
     AttentionFlops, HEADS, "F>F", NULL},
    {"AttentionGrad", 6, 7, 3, 4, OWN | RENGA_OP_RANDOM, AttentionGrad, AttentionGradFlops, HEADS,
     "F>F", NULL},
    {"CachedAttention", 5, 8, 1, 1, OWN | RENGA_OP_PRODUCT | RENGA_OP_WRITES_STATE,
     ShapeCachedAttention, CachedAttentionFlops, "scale:real=0 cap:real=0", "FLLF>F", NULL},
    {"CrossEntropy", 2, 3, 1, 2, OWN, ShapeCrossEntropy, ScoreFlops, CLASSES, "FIF>F", NULL},
    {"CrossEntropyGrad", 4, 5, 1, 1, OWN, CrossEntropyGrad, ScoreGradFlops, CLASSES, "FFIFF>F",
     NULL},
    {"CrossEntropyCount", 1, 2, 1, 1, OWN, ShapeCount, LabelFlops, IGNORE, "IF>S", NULL},
    {"CrossEntropyLane", 2, 2, 2, 2, OWN, ShapeEntropyLane, ScoreFlops, LANE, "FI>F", NULL},
    {"CrossEntropyLaneGrad", 5, 5, 1, 1, OWN, EntropyLaneGrad, EntropyLaneGradFlops, LANE,
     "FFFIF>F", NULL},
    {"CrossEntropyJoin", 1, -1, 1, 3, OWN, ShapeEntropyJoin, EntropyJoinFlops, IGNORE, "IFF>F",
     NULL},
    {"CrossEntropyJoinGrad", 3, -1, 2, -1, OWN, EntropyJoinGrad, EntropyJoinFlops, IGNORE,
     "FIFFF>F", NULL},
    {"LogLikelihood", 2, 3, 1, 1, OWN, ShapeCrossEntropy, LabelFlops, CLASSES, "FIF>F", NULL},
    {"LogLikelihoodGrad", 3, 4, 1, 1, OWN, LikelihoodGrad, LabelFlops, CLASSES, "FFIF>F", NULL},
    {"BatchSum", 1, 1, 1, 1, OWN | RENGA_OP_BATCH_SUM, ShapeBatchSum, NULL, NULL, "F>F", NULL},
    {0},
};
