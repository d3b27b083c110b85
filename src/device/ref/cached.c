/* Attention of single tokens to all tokens of their text so far, whose keys and values are kept in
   caches: each sample writes its own at its place, then reads all up to there. */
#include "ref.h"
#include <math.h>

/* q [samples, groups * heads, width], of which heads share one of the groups of keys and values;
   caches [groups, slots, places, width] */
typedef struct {
  int64_t samples, groups, heads, slots, places, width, values;
  RefIn q, k, v, slot, place, mask;
  RefOut key, value; /* the caches */
  RefWalk mask_walk;
  double scale, cap;
} CachedCall_Ref;

/* A sample without a cache (slot -1) attends to nothing. */
static int64_t SlotOf(const CachedCall_Ref *c, int64_t n)
{
  const int64_t slot = RefGetInt(c->slot, n), place = RefGetInt(c->place, n);
  return slot >= 0 && slot < c->slots && place >= 0 && place < c->places ? slot : -1;
}

/* Where the rows of a sample's cache begin. */
static int64_t CacheRow(const CachedCall_Ref *c, int64_t group, int64_t slot)
{
  return (group * c->slots + slot) * c->places;
}

static void KeepSample(const CachedCall_Ref *c, int64_t n)
{
  const int64_t slot = SlotOf(c, n), place = RefGetInt(c->place, n);
  for (int64_t g = 0; g < c->groups && slot >= 0; g++) {
    const int64_t row = CacheRow(c, g, slot) + place, from = n * c->groups + g;
    for (int64_t e = 0; e < c->width; e++)
      RefSet(c->key, row * c->width + e, RefGet(c->k, from * c->width + e));
    for (int64_t e = 0; e < c->values; e++)
      RefSet(c->value, row * c->values + e, RefGet(c->v, from * c->values + e));
  }
}

/* head: of all that the queries have; j: a place */
static double CachedScore(const CachedCall_Ref *c, int64_t n, int64_t head, int64_t row, int64_t j)
{
  const RefIn keys = {c->key.data, c->key.type};
  const int64_t all = c->groups * c->heads, step = c->mask_walk.step[0][3];
  double score = c->scale * RefDot(c->q, (n * all + head) * c->width, 1, keys, (row + j) * c->width,
                                   1, c->width);
  if (c->cap > 0) score = c->cap * tanh(score / c->cap);
  if (c->mask.data)
    score +=
        RefGet(c->mask, n * c->mask_walk.step[0][0] + head * c->mask_walk.step[0][1] + j * step);
  return score;
}

static void AttendToCache(const CachedCall_Ref *c, int64_t n, int64_t head, RefOut o)
{
  const RefIn values = {c->value.data, c->value.type};
  const int64_t slot = SlotOf(c, n), seen = slot < 0 ? 0 : RefGetInt(c->place, n) + 1;
  const int64_t row = CacheRow(c, head / c->heads, slot);
  const int64_t at = (n * c->groups * c->heads + head) * c->values;
  double most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < seen; j++) most = fmax(most, CachedScore(c, n, head, row, j));
  for (int64_t j = 0; j < seen && !isinf(most); j++)
    sum += exp(CachedScore(c, n, head, row, j) - most);
  for (int64_t e = 0; e < c->values; e++) {
    double y = 0;
    for (int64_t j = 0; j < seen && sum > 0; j++)
      y += exp(CachedScore(c, n, head, row, j) - most) / sum *
           RefGet(values, (row + j) * c->values + e);
    RefSet(o, at + e, y);
  }
}

static void DescribeCached(const RengaOpCall *call, const void *const in[], CachedCall_Ref *c)
{
  const RengaTensorSpec *q = &call->in[0], *keys = &call->in[3];
  *c = (CachedCall_Ref){.samples = q->dim[0],
                        .groups = keys->dim[0],
                        .heads = q->dim[1] / keys->dim[0],
                        .slots = keys->dim[1],
                        .places = keys->dim[2],
                        .width = q->dim[3],
                        .values = call->in[4].dim[3],
                        .q = RefInput(call, in, 0),
                        .k = RefInput(call, in, 5),
                        .v = RefInput(call, in, 6),
                        .slot = RefInput(call, in, 1),
                        .place = RefInput(call, in, 2),
                        .mask = RefInput(call, in, 7),
                        .key = {(void *)(uintptr_t)in[3], keys->type},
                        .value = {(void *)(uintptr_t)in[4], call->in[4].type},
                        .scale = RengaOpCallReal(call, "scale"),
                        .cap = RengaOpCallReal(call, "cap")};
  if (c->scale == 0) c->scale = 1 / sqrt((double)c->width);
  if (!c->mask.data) return;
  RefWalkStart(&c->mask_walk, 4, (const int64_t[]){q->dim[0], q->dim[1], 1, keys->dim[2]});
  RefWalkAddBroadcast(&c->mask_walk, &call->in[7]);
}

static RengaErrorCode CachedAttention_Ref(const RengaOpCall *call,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[])
{
  CachedCall_Ref c;
  DescribeCached(call, in, &c);
  for (int64_t n = 0; n < c.samples && call->n_in > 5; n++) KeepSample(&c, n);
  for (int64_t n = 0; n < c.samples; n++)
    for (int64_t head = 0; head < c.groups * c.heads; head++)
      AttendToCache(&c, n, head, RefOutput(call, out, 0));
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindCached(const char *name)
{
  static const RefRow rows[] = {{"CachedAttention", CachedAttention_Ref}, {NULL, NULL}};
  return RefFindRow(rows, name);
}
