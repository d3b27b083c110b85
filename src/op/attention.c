/* Attention: queries, keys and values one after the other, or as a product leaves them. */
#include "renga/private/op.h"
#include <string.h>

/* Tensors of rows of a network, [N,T,…], have the heads of a place one after the other, and where
   queries, keys and values are in one product these, too; [N,H,T,d] is a tensor of one of them.
   Keys and values may have fewer heads, which as many neighbours of the queries' share each. */
static RengaErrorCode GetPackedRows(const RengaOpCall *call, int first, int which,
                                    const int tensor[3], RengaOpHeads *heads, RengaOpRows *rows,
                                    int64_t *count, int64_t *width)
{
  const RengaTensorSpec *x = &call->in[first + tensor[which]];
  const int64_t groups = RengaOpCallInt(call, "groups");
  const int64_t own = which > 0 && groups > 0 ? groups : heads->heads;
  int64_t parts = 0, before = 0;
  RengaOpCheckValue(groups >= 0 && heads->heads % own == 0, call, "%lld heads in %lld groups",
                    (long long)heads->heads, (long long)groups);
  RengaOpCheck(own == heads->heads || tensor[which] > 0, call,
               "queries are in one tensor with keys of fewer heads");
  rows->share = heads->heads / own;
  for (int i = 0; i < 3; i++) parts += tensor[i] == tensor[which];
  for (int i = 0; i < which; i++) before += tensor[i] == tensor[which];
  RengaOpCheck(x->dim[0] == heads->samples, call, "input %d is of other samples",
               first + tensor[which]);
  rows->tensor = tensor[which];
  if (x->ndim == 4) {
    RengaOpCheck(parts == 1 && x->dim[1] == own, call, "input %d has %lld heads, not %lld",
                 first + tensor[which], (long long)x->dim[1], (long long)own);
    *count = x->dim[2];
    *width = rows->row = x->dim[3];
    rows->head = *count * *width;
    rows->sample = own * rows->head;
    return RENGA_SUCCESS;
  }
  RengaOpCheck(x->ndim == 3 && x->dim[2] % (parts * own) == 0, call,
               "input %d does not have %lld times %lld heads", first + tensor[which],
               (long long)parts, (long long)own);
  *count = x->dim[1];
  *width = rows->head = x->dim[2] / parts / own;
  rows->row = x->dim[2];
  rows->first = before * own * *width;
  rows->sample = *count * rows->row;
  return RENGA_SUCCESS;
}

static RengaErrorCode GetPackedHeads(const RengaOpCall *call, int first, RengaOpHeads *heads)
{
  int tensor[3] = {0};
  int64_t again;
  for (int i = 1; i < 3; i++) tensor[i] = RengaOpCallHasInput(call, first + i) ? i : tensor[i - 1];
  *heads = (RengaOpHeads){.heads = RengaOpCallInt(call, "heads"), .dimensions = 2};
  RengaOpCheckValue(heads->heads > 0, call, "%lld heads", (long long)heads->heads);
  RengaOpCheck(call->in[first].ndim > 2, call, "input %d has %d dimensions", first,
               call->in[first].ndim);
  heads->samples = call->in[first].dim[0];
  RengaCall(
      GetPackedRows(call, first, 0, tensor, heads, &heads->q, &heads->queries, &heads->width));
  RengaCall(GetPackedRows(call, first, 1, tensor, heads, &heads->k, &heads->keys, &again));
  RengaOpCheck(again == heads->width, call, "queries and keys differ in width");
  RengaCall(GetPackedRows(call, first, 2, tensor, heads, &heads->v, &again, &heads->values));
  RengaOpCheck(again == heads->keys, call, "keys and values differ in number");
  heads->extent[0] = heads->samples;
  heads->extent[1] = heads->heads;
  heads->o = (RengaOpRows){.head = heads->values, .row = heads->heads * heads->values, .share = 1};
  heads->o.sample = heads->queries * heads->o.row;
  return RENGA_SUCCESS;
}

static RengaErrorCode GetPlainHeads(const RengaOpCall *call, int first, RengaOpHeads *heads)
{
  const RengaTensorSpec *q = &call->in[first], *k = q + 1, *v = q + 2;
  const int n = q->ndim;
  RengaOpCheck(n >= 2 && k->ndim == n && v->ndim == n, call,
               "queries, keys and values must have one number of dimensions, two or more");
  for (int d = 0; d < n - 2; d++)
    RengaOpCheck(q->dim[d] == k->dim[d] && q->dim[d] == v->dim[d], call,
                 "queries, keys and values differ in dimension %d", d);
  RengaOpCheck(q->dim[n - 1] == k->dim[n - 1], call, "queries and keys differ in width");
  RengaOpCheck(k->dim[n - 2] == v->dim[n - 2], call, "keys and values differ in number");
  *heads = (RengaOpHeads){.samples = RengaOpProduct(q, 0, n - 2),
                          .heads = 1,
                          .queries = q->dim[n - 2],
                          .keys = k->dim[n - 2],
                          .width = q->dim[n - 1],
                          .values = v->dim[n - 1],
                          .dimensions = n - 2};
  for (int d = 0; d < n - 2; d++) heads->extent[d] = q->dim[d];
  heads->q = (RengaOpRows){0, 0, heads->queries * heads->width, 0, heads->width, 1};
  heads->k = (RengaOpRows){1, 0, heads->keys * heads->width, 0, heads->width, 1};
  heads->v = (RengaOpRows){2, 0, heads->keys * heads->values, 0, heads->values, 1};
  heads->o = (RengaOpRows){0, 0, heads->queries * heads->values, 0, heads->values, 1};
  return RENGA_SUCCESS;
}

static bool IsPacked(const RengaOpCall *call)
{
  return strncmp(call->op->name, "Packed", strlen("Packed")) == 0;
}

RengaErrorCode RengaOpGetHeads(const RengaOpCall *call, int first, RengaOpHeads *heads)
{
  if (IsPacked(call))
    RengaCall(GetPackedHeads(call, first, heads));
  else
    RengaCall(GetPlainHeads(call, first, heads));
  return RENGA_SUCCESS;
}

/* The mask broadcasts to [...,T,S]. first: which input q is. */
static RengaErrorCode CheckAttention(const RengaOpCall *call, int first, int mask,
                                     RengaOpHeads *heads)
{
  RengaCall(RengaOpGetHeads(call, first, heads));
  double ratio = RengaOpCallReal(call, "ratio");
  RengaOpCheckValue(ratio >= 0 && ratio < 1, call, "ratio is %g, must be in [0,1)", ratio);
  RengaOpCheckValue(RengaOpCallInt(call, "batch_factor") > 0, call, "batch_factor is %lld",
                    (long long)RengaOpCallInt(call, "batch_factor"));
  if (!RengaOpCallHasInput(call, mask)) return RENGA_SUCCESS;
  const RengaTensorSpec scores = RengaOpScoresOf(heads);
  RengaTensorSpec wide = scores;
  RengaCall(RengaOpBroadcast(call, &call->in[mask], &wide));
  RengaOpCheck(RengaOpSameShape(&scores, &wide), call, "the mask is wider than the scores");
  return RENGA_SUCCESS;
}

/* o[...,T,e], or packed [N,T,H e], and the log-sum-exp [...,T] */
static void ShapeOutputs(const RengaOpCall *call, const RengaOpHeads *heads, RengaTensorSpec *o,
                         RengaTensorSpec *whole)
{
  *whole = RengaOpScoresOf(heads);
  *o = *whole;
  o->dim[--whole->ndim] = heads->values;
  if (IsPacked(call))
    *o = (RengaTensorSpec){.ndim = 3, .dim = {heads->samples, heads->queries, heads->o.row}};
}

/* q, k, v, (mask) -> o, log-sum-exp. Packed: k or v may be absent, as they are in what is before
   them. */
static RengaErrorCode ShapeAttention(RengaOpCall *call)
{
  RengaOpHeads heads;
  RengaTensorSpec o, whole;
  RengaCall(CheckAttention(call, 0, 3, &heads));
  ShapeOutputs(call, &heads, &o, &whole);
  RengaOpCopyShape(&call->out[0], &o);
  if (call->n_out > 1) RengaOpCopyShape(&call->out[1], &whole);
  return RENGA_SUCCESS;
}

/* do, q, k, v, o, log-sum-exp, (mask) -> dq, dk, dv, (dmask). Packed: of those that are there. */
static RengaErrorCode AttentionGrad(RengaOpCall *call)
{
  RengaOpHeads heads;
  RengaTensorSpec o, whole;
  int n = 0;
  RengaCall(CheckAttention(call, 1, 6, &heads));
  ShapeOutputs(call, &heads, &o, &whole);
  RengaOpCheck(RengaOpSameShape(&call->in[0], &o) && RengaOpSameShape(&call->in[4], &o), call,
               "the gradient or the output does not fit queries and values");
  RengaOpCheck(RengaOpSameShape(&call->in[5], &whole), call,
               "the log-sum-exp does not fit the queries");
  for (int i = 1; i < 4; i++)
    if (RengaOpCallHasInput(call, i) && n < call->n_out)
      RengaOpCopyShape(&call->out[n++], &call->in[i]);
  RengaOpCheck(n == call->n_out || RengaOpCallHasInput(call, 6), call,
               "the gradient of a mask needs the mask");
  if (n < call->n_out) RengaOpCopyShape(&call->out[n++], &call->in[6]);
  RengaOpCheck(n == call->n_out, call, "%d gradients of %d tensors", call->n_out, n);
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
/* Products of two matrices [T,S] x width per head, and the softmax. Causal: still all of them. */
static double AttentionCost(const RengaOpCall *call, int first, double products)
{
  RengaOpHeads heads;
  if (RengaOpGetHeads(call, first, &heads)) return 0;
  const double scores = (double)(heads.samples * heads.heads * heads.queries) * (double)heads.keys;
  return scores * (products * (double)(heads.width + heads.values) + 12.0);
}

static double AttentionFlops(const RengaOpCall *call)
{
  return AttentionCost(call, 0, 2.0);
}

/* Scores again, then the gradients of both factors of both products. */
static double AttentionGradFlops(const RengaOpCall *call)
{
  return AttentionCost(call, 1, 5.0);
}

/* As if all places were taken. */
static double CachedAttentionFlops(const RengaOpCall *call)
{
  const RengaTensorSpec *q = &call->in[0], *values = &call->in[4];
  const double scores = (double)(q->dim[0] * q->dim[1]) * (double)values->dim[2];
  return scores * (2.0 * (double)(q->dim[3] + values->dim[3]) + 12.0);
}
#define OWN RENGA_OP_INTERNAL
#define HEADS                                                                                      \
  "scale:real=0 causal:int=0 first:int=0 ratio:real=0 key:int=0 batch_dim:int=0 "                  \
  "batch_factor:int=1"
/* scale 0 stands for 1 / sqrt(width), groups 0 for as many as there are heads. */

const RengaOperator RengaOperatorsAttention[] = {
    {"Attention", 3, 4, 1, 2, OWN | RENGA_OP_RANDOM | RENGA_OP_PRODUCT, ShapeAttention,
     AttentionFlops, HEADS, "F>F", NULL},
    {"AttentionGrad", 6, 7, 3, 4, OWN | RENGA_OP_RANDOM, AttentionGrad, AttentionGradFlops, HEADS,
     "F>F", NULL},
    {"CachedAttention", 5, 8, 1, 1, OWN | RENGA_OP_PRODUCT | RENGA_OP_WRITES_STATE,
     ShapeCachedAttention, CachedAttentionFlops, "scale:real=0 cap:real=0", "FLLF>F", NULL},
    {"PackedAttention", 1, 4, 1, 2, OWN | RENGA_OP_RANDOM | RENGA_OP_PRODUCT, ShapeAttention,
     AttentionFlops, HEADS " heads:int=1 groups:int=0", "F>F", NULL},
    {"PackedAttentionGrad", 2, 7, 1, 4, OWN | RENGA_OP_RANDOM, AttentionGrad, AttentionGradFlops,
     HEADS " heads:int=1 groups:int=0", "F>F", NULL},
    {0},
};
