/* Attention of single tokens to the caches of keys and values of their texts. A head of a sample is
   a piece of work: a dot product for each place, and a sum of values weighted by what the softmax
   makes of these. Time goes by reading the caches, so that heads that share keys follow each
   other. */
#include "low.h"
#include "renga/private/op.h"
#include "rows.h"
#include <string.h>

typedef struct {
  int64_t samples, groups, heads, slots, places, width, values;
  int64_t buffer;       /* floats of each thread: scores, and what is not in place */
  int64_t mask_step[4]; /* over samples, heads, queries and places; 0 where it is broadcast */
  float scale, cap;
  bool mask, writes; /* writes: the samples' own keys and values */
} Cached_Cpu;

/* A sample without a cache (slot -1) attends to nothing. */
static int64_t SlotOfSample(const Cached_Cpu *s, const void *const in[], int64_t n)
{
  const int64_t slot = ((const int64_t *)in[1])[n], place = ((const int64_t *)in[2])[n];
  return slot >= 0 && slot < s->slots && place >= 0 && place < s->places ? slot : -1;
}

static int64_t CacheRowOf(const Cached_Cpu *s, int64_t group, int64_t slot)
{
  return (group * s->slots + slot) * s->places;
}

/* The sample's keys and values of a group. */
static void KeepHeadRows(const RengaKernel kernel, const void *const in[], int64_t n, int64_t group)
{
  const Cached_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int64_t slot = SlotOfSample(s, in, n), from = n * s->groups + group;
  if (slot < 0) return;
  const int64_t row = CacheRowOf(s, group, slot) + ((const int64_t *)in[2])[n];
  float *key = (float *)(uintptr_t)in[3] + row * s->width;
  float *value = (float *)(uintptr_t)in[4] + row * s->values;
  const float *k = RengaCpuRead(call->in[5].type, in[5], from * s->width, s->width, key);
  const float *v = RengaCpuRead(call->in[6].type, in[6], from * s->values, s->values, value);
  if (k != key) memcpy(key, k, (size_t)s->width * sizeof *key);
  if (v != value) memcpy(value, v, (size_t)s->values * sizeof *value);
}

/* scores[seen] of a query */
static void CachedScores(const Cached_Cpu *s, const float *q, const float *keys, int64_t seen,
                         float *scores)
{
  for (int64_t j = 0; j < seen; j++)
    scores[j] = s->scale * RengaRowDot(s->width, q, keys + j * s->width);
  for (int64_t j = 0; j < seen && s->cap > 0; j++) scores[j] = s->cap * tanhf(scores[j] / s->cap);
}

static void AddCachedMask(const RengaKernel kernel, const void *mask, int64_t n, int64_t head,
                          int64_t seen, float *scores)
{
  const Cached_Cpu *s = kernel->data;
  const RengaDataType type = kernel->call.in[7].type;
  const int64_t at = n * s->mask_step[0] + head * s->mask_step[1];
  for (int64_t j = 0; j < seen; j++) scores[j] += RengaCpuGet(type, mask, at + j * s->mask_step[3]);
}

/* y = sum of p[j] * values[j], in the order of the places */
static void SumWeighted(int64_t seen, int64_t width, const float *p, const float *values, float *y)
{
  memset(y, 0, (size_t)width * sizeof *y);
  for (int64_t j = 0; j < seen; j++) {
    const float *value = values + j * width;
#pragma omp simd
    for (int64_t e = 0; e < width; e++) y[e] += p[j] * value[e];
  }
}

static void AttendHead(const RengaKernel kernel, const void *const in[], void *out, int64_t n,
                       int64_t head, float *free)
{
  const Cached_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int64_t slot = SlotOfSample(s, in, n), at = n * s->groups * s->heads + head;
  const int64_t seen = slot < 0 ? 0 : ((const int64_t *)in[2])[n] + 1;
  const int64_t row = slot < 0 ? 0 : CacheRowOf(s, head / s->heads, slot);
  float *scores = free, *buffer = scores + s->places, sum = 0;
  const float *q = RengaCpuRead(call->in[0].type, in[0], at * s->width, s->width, buffer);
  float *y = RengaCpuPlace(call->out[0].type, out, at * s->values, buffer + s->width);
  CachedScores(s, q, (const float *)in[3] + row * s->width, seen, scores);
  if (s->mask) AddCachedMask(kernel, in[7], n, head, seen, scores);
  if (seen > 0) sum = RengaRowExp(seen, scores, RengaRowShift(RengaRowMax(seen, scores)), scores);
  SumWeighted(seen, s->values, scores, (const float *)in[4] + row * s->values, y);
  RengaRowScale(s->values, sum > 0 ? 1 / sum : 0, y); /* 0: every place is masked */
  RengaCpuWrite(call->out[0].type, out, at * s->values, s->values, y);
}

static RengaErrorCode CachedRun_Cpu(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const Cached_Cpu *s = kernel->data;
  const int64_t all = s->groups * s->heads, pieces = s->samples * all;
  /* In the order of samples: of two with one place the later one stays. */
  for (int64_t n = 0; n < s->samples && s->writes; n++)
    for (int64_t g = 0; g < s->groups; g++) KeepHeadRows(kernel, in, n, g);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++)
    AttendHead(kernel, in, out[0], piece / all, piece % all,
               (float *)workspace + RengaCpuThread() * s->buffer);
  return RENGA_SUCCESS;
}

/* Steps of the mask, which broadcasts to [samples, heads, 1, places]. */
static void SetMaskSteps(Cached_Cpu *s, const RengaTensorSpec *mask)
{
  int64_t step = 1;
  for (int d = 3; d >= 0; d--) {
    const int own = d - (4 - mask->ndim);
    const int64_t extent = own >= 0 ? mask->dim[own] : 1;
    s->mask_step[d] = extent == 1 ? 0 : step;
    step *= extent;
  }
}

static RengaErrorCode CachedCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *q = &call->in[0], *keys = &call->in[3];
  for (int i = 0; i < call->n_in; i++)
    if (i != 1 && i != 2 && call->in[i].ndim >= 0 && !RengaCpuIsFloat(call->in[i].type))
      return RENGA_SUCCESS;
  if (!RengaCpuIsFloat(call->out[0].type) || keys->type != RENGA_FLOAT32 ||
      call->in[4].type != RENGA_FLOAT32)
    return RENGA_SUCCESS;
  Cached_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  *s = (Cached_Cpu){.samples = q->dim[0],
                    .groups = keys->dim[0],
                    .heads = q->dim[1] / keys->dim[0],
                    .slots = keys->dim[1],
                    .places = keys->dim[2],
                    .width = q->dim[3],
                    .values = call->in[4].dim[3],
                    .scale = (float)RengaAttributesReal(call->attributes, "scale", 0),
                    .cap = (float)RengaAttributesReal(call->attributes, "cap", 0),
                    .mask = RengaOpCallHasInput(call, 7),
                    .writes = call->n_in > 5};
  if (s->scale == 0) s->scale = (float)(1 / sqrt((double)s->width));
  if (s->mask) SetMaskSteps(s, &call->in[7]);
  s->buffer = (s->places + s->width + s->values + 15) / 16 * 16;
  kernel->workspace = (size_t)(s->buffer * kernel->device->threads) * sizeof(float);
  kernel->run = CachedRun_Cpu;
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuCached)[] = {
    {"CachedAttention", CachedCreate_Cpu},
    {NULL, NULL},
};
