/* Attention, forward and backward. Queries go in blocks; the scores of a block stay in a scratch
   buffer of the thread, and backward computes them again from the log-sum-exp (Dao et al.,
   FlashAttention, 2022, with whole rows in the cache). Causal blocks leave out the keys that none
   of their queries sees. */
#include "product.h"
#include "random.h"
#include "renga/private/op.h"
#include "rows.h"
#include <string.h>

enum { BLOCK = 64 };

/* A head is one place of the leading dimensions. Dimensions along which the gradient of one mask is
   summed are shared: one thread takes all their heads, in order. */
typedef struct {
  int64_t queries, keys, width, value_width, pieces, shared;
  int64_t row; /* floats per row of scores */
  float scale, ratio;
  bool causal, mask, mask_gradient;
  int n; /* leading dimensions */
  int64_t extent[RENGA_MAX_DIM], head_stride[RENGA_MAX_DIM], mask_stride[RENGA_MAX_DIM];
  bool is_shared[RENGA_MAX_DIM];
  int64_t mask_row, mask_column;
  int batch_dim;
  int64_t batch_factor, key;
} Attention_Cpu;

/* One head's share of the tensors. */
typedef struct {
  const float *q, *k, *v, *o, *dy, *whole, *mask;
  float *y, *whole_out, *dq, *dk, *dv, *dmask;
  RengaDropout dropout;
  bool drop;
  int64_t sample, element; /* of dropout: number of the first probability in its sample */
} Head;

/* Piece and shared index -> head, offset of its mask, its place along the batch. */
static void FindHead(const Attention_Cpu *s, const RengaKernelContext *context, int64_t piece,
                     int64_t shared, int64_t *head, int64_t *mask, Head *h)
{
  int64_t index[RENGA_MAX_DIM], place = 0;
  *head = *mask = 0;
  for (int d = s->n - 1; d >= 0; d--) {
    int64_t *from = s->is_shared[d] ? &shared : &piece;
    index[d] = *from % s->extent[d];
    *from /= s->extent[d];
    *head += index[d] * s->head_stride[d];
    *mask += index[d] * s->mask_stride[d];
  }
  h->sample = context->sample;
  for (int d = 0; d < s->n; d++) {
    bool batch = d == s->batch_dim;
    place = place * (batch ? s->batch_factor : s->extent[d]) +
            (batch ? index[d] % s->batch_factor : index[d]);
    if (batch) h->sample += index[d] / s->batch_factor;
  }
  h->element = place * s->queries * s->keys;
  h->drop = context->training && s->ratio > 0;
  h->dropout = RengaDropoutStart(context->seed, context->step, s->key);
}

/* Keys that query i sees. */
static int64_t Seen(const Attention_Cpu *s, int64_t i)
{
  return s->causal ? RengaCpuSmaller(s->keys, i + 1) : s->keys;
}

static void AddMask(const Attention_Cpu *s, const Head *h, int64_t i, int64_t n, float *scores)
{
  const float *mask = h->mask + i * s->mask_row;
  if (s->mask_column) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) scores[j] += mask[j];
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) scores[j] += mask[0];
  }
}

/* scores[rows, limit] of queries from first on, masks added. */
static int64_t Scores(const Attention_Cpu *s, const Head *h, int64_t first, int64_t rows,
                      float *scores)
{
  int64_t limit = Seen(s, first + rows - 1);
  RengaCpuGemm(false, true, rows, limit, s->width, s->scale, h->q + first * s->width, s->width,
               h->k, s->width, 0, scores, s->row);
  if (h->mask)
    for (int64_t i = 0; i < rows; i++)
      AddMask(s, h, first + i, Seen(s, first + i), scores + i * s->row);
  return limit;
}

static void ForwardBlock(const Attention_Cpu *s, const Head *h, int64_t first, float *scores)
{
  int64_t rows = RengaCpuSmaller(s->queries - first, BLOCK);
  int64_t limit = Scores(s, h, first, rows, scores);
  float inverse[BLOCK];
  for (int64_t i = 0; i < rows; i++) {
    float *row = scores + i * s->row;
    int64_t seen = Seen(s, first + i);
    float shift = RengaRowShift(RengaRowMax(seen, row));
    float sum = RengaRowExp(seen, row, shift, row);
    inverse[i] = sum > 0 ? 1 / sum : 0; /* 0: every key is masked */
    if (h->whole_out) h->whole_out[first + i] = shift + logf(sum);
    if (h->drop)
      RengaCpuDropoutRun(&h->dropout, s->ratio, h->sample, h->element + (first + i) * s->keys, seen,
                         row, row);
    memset(row + seen, 0, (size_t)(limit - seen) * sizeof *row);
  }
  float *y = h->y + first * s->value_width;
  RengaCpuGemm(false, false, rows, s->value_width, limit, 1, scores, s->row, h->v, s->value_width,
               0, y, s->value_width);
  for (int64_t i = 0; i < rows; i++)
    RengaRowScale(s->value_width, inverse[i], y + i * s->value_width);
}

static RengaErrorCode AttentionForwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                              const RengaKernelContext *context,
                                              const void *const in[], void *const out[],
                                              void *workspace)
{
  (void)stream;
  const Attention_Cpu *s = kernel->data;
  int64_t blocks = RengaCpuPieces(s->queries, BLOCK), pieces = s->pieces * s->shared * blocks;
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    Head h = {.mask = NULL};
    int64_t head = 0, mask = 0;
    FindHead(s, context, piece / blocks, 0, &head, &mask, &h);
    h.q = (const float *)in[0] + head * s->queries * s->width;
    h.k = (const float *)in[1] + head * s->keys * s->width;
    h.v = (const float *)in[2] + head * s->keys * s->value_width;
    if (s->mask) h.mask = (const float *)in[3] + mask;
    h.y = (float *)out[0] + head * s->queries * s->value_width;
    if (kernel->call.n_out > 1 && out[1]) h.whole_out = (float *)out[1] + head * s->queries;
    ForwardBlock(s, &h, piece % blocks * BLOCK,
                 (float *)workspace + RengaCpuThread() * BLOCK * s->row);
  }
  return RENGA_SUCCESS;
}

static void AddMaskGradient(const Attention_Cpu *s, const Head *h, int64_t i, int64_t n,
                            const float *ds)
{
  float *mask = h->dmask + i * s->mask_row;
  if (s->mask_column) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) mask[j] += ds[j];
  } else {
    mask[0] += RengaRowSum(n, ds);
  }
}

/* p becomes the probability after dropout, dp the gradient of the score: ds = p (m dp - dy . o),
   where m is the factor of dropout. */
static void AttentionBackwardRow(const Attention_Cpu *s, const Head *h, int64_t i, int64_t limit,
                                 float *p, float *dp)
{
  int64_t seen = Seen(s, i);
  float whole = h->whole[i] == -INFINITY ? 0 : h->whole[i];
  float dot = RengaRowDot(s->value_width, h->dy + i * s->value_width, h->o + i * s->value_width);
#pragma omp simd
  for (int64_t j = 0; j < seen; j++) p[j] = RengaExp(p[j] - whole);
  int64_t element = h->element + i * s->keys;
  if (h->drop) RengaCpuDropoutRun(&h->dropout, s->ratio, h->sample, element, seen, dp, dp);
#pragma omp simd
  for (int64_t j = 0; j < seen; j++) dp[j] = p[j] * (dp[j] - dot);
  if (h->dmask) AddMaskGradient(s, h, i, seen, dp);
  if (h->drop) RengaCpuDropoutRun(&h->dropout, s->ratio, h->sample, element, seen, p, p);
  memset(p + seen, 0, (size_t)(limit - seen) * sizeof *p);
  memset(dp + seen, 0, (size_t)(limit - seen) * sizeof *dp);
}

static void BackwardHead(const Attention_Cpu *s, const Head *h, float *p, float *dp)
{
  memset(h->dk, 0, (size_t)(s->keys * s->width) * sizeof *h->dk);
  memset(h->dv, 0, (size_t)(s->keys * s->value_width) * sizeof *h->dv);
  for (int64_t first = 0; first < s->queries; first += BLOCK) {
    int64_t rows = RengaCpuSmaller(s->queries - first, BLOCK);
    int64_t limit = Scores(s, h, first, rows, p);
    const float *dy = h->dy + first * s->value_width, *q = h->q + first * s->width;
    RengaCpuGemm(false, true, rows, limit, s->value_width, 1, dy, s->value_width, h->v,
                 s->value_width, 0, dp, s->row);
    for (int64_t i = 0; i < rows; i++)
      AttentionBackwardRow(s, h, first + i, limit, p + i * s->row, dp + i * s->row);
    RengaCpuGemm(true, false, limit, s->value_width, rows, 1, p, s->row, dy, s->value_width, 1,
                 h->dv, s->value_width);
    RengaCpuGemm(false, false, rows, s->width, limit, s->scale, dp, s->row, h->k, s->width, 0,
                 h->dq + first * s->width, s->width);
    RengaCpuGemm(true, false, limit, s->width, rows, s->scale, dp, s->row, q, s->width, 1, h->dk,
                 s->width);
  }
}

/* in: dy, q, k, v, o, log-sum-exp, (mask) */
static Head HeadOfGradient(const Attention_Cpu *s, const Head *found, int64_t head, int64_t mask,
                           const void *const in[], void *const out[])
{
  Head h = *found;
  int64_t q = head * s->queries * s->width, k = head * s->keys * s->width;
  int64_t v = head * s->keys * s->value_width, o = head * s->queries * s->value_width;
  h.dy = (const float *)in[0] + o;
  h.q = (const float *)in[1] + q;
  h.k = (const float *)in[2] + k;
  h.v = (const float *)in[3] + v;
  h.o = (const float *)in[4] + o;
  h.whole = (const float *)in[5] + head * s->queries;
  h.mask = s->mask ? (const float *)in[6] + mask : NULL;
  h.dq = (float *)out[0] + q;
  h.dk = (float *)out[1] + k;
  h.dv = (float *)out[2] + v;
  h.dmask = s->mask_gradient ? (float *)out[3] + mask : NULL;
  return h;
}

static RengaErrorCode AttentionBackwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                               const RengaKernelContext *context,
                                               const void *const in[], void *const out[],
                                               void *workspace)
{
  (void)stream;
  const Attention_Cpu *s = kernel->data;
  if (s->mask_gradient) memset(out[3], 0, RengaTensorSpecBytes(&kernel->call.out[3]));
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    float *p = (float *)workspace + 2 * RengaCpuThread() * BLOCK * s->row;
    for (int64_t shared = 0; shared < s->shared; shared++) {
      Head found = {.mask = NULL};
      int64_t head = 0, mask = 0;
      FindHead(s, context, piece, shared, &head, &mask, &found);
      Head h = HeadOfGradient(s, &found, head, mask, in, out);
      BackwardHead(s, &h, p, p + BLOCK * s->row);
    }
  }
  return RENGA_SUCCESS;
}

/* Strides of the mask over the leading dimensions, queries and keys; 0 where it is broadcast. */
static void MaskStrides(Attention_Cpu *s, const RengaTensorSpec *mask)
{
  int64_t stride = 1, step[RENGA_MAX_DIM] = {0};
  for (int d = s->n + 1; d >= 0; d--) {
    int own = d - (s->n + 2 - mask->ndim);
    int64_t extent = own >= 0 ? mask->dim[own] : 1;
    step[d] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  memcpy(s->mask_stride, step, (size_t)s->n * sizeof *step);
  s->mask_row = step[s->n];
  s->mask_column = step[s->n + 1];
}

static void SetShape(Attention_Cpu *s, const RengaTensorSpec in[])
{
  const RengaTensorSpec *q = &in[0], *k = &in[1], *v = &in[2];
  s->n = q->ndim - 2;
  s->queries = q->dim[s->n];
  s->width = q->dim[s->n + 1];
  s->keys = k->dim[s->n];
  s->value_width = v->dim[s->n + 1];
  s->row = (s->keys + 15) / 16 * 16;
  int64_t stride = 1;
  for (int d = s->n - 1; d >= 0; d--) {
    s->extent[d] = q->dim[d];
    s->head_stride[d] = stride;
    stride *= q->dim[d];
  }
}

static RengaErrorCode CreateAttention_Cpu(RengaKernel kernel, int first, int mask)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *q = &call->in[first];
  if (!RengaCpuAllOf(call, 0, RENGA_FLOAT32) || RengaTensorSpecCount(q) == 0 ||
      RengaTensorSpecCount(&call->in[first + 2]) == 0)
    return RENGA_SUCCESS;
  Attention_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  SetShape(s, q);
  const RengaAttributes *attributes = call->attributes;
  s->scale = (float)RengaAttributesReal(attributes, "scale", 0);
  if (s->scale == 0) s->scale = (float)(1 / sqrt((double)s->width));
  s->causal = RengaAttributesInt(attributes, "causal", 0) != 0;
  s->ratio = (float)RengaAttributesReal(attributes, "ratio", 0);
  s->key = RengaAttributesInt(attributes, "key", 0);
  s->batch_dim = (int)RengaAttributesInt(attributes, "batch_dim", 0);
  s->batch_factor = RengaAttributesInt(attributes, "batch_factor", 1);
  s->mask = call->n_in > mask && call->in[mask].ndim >= 0;
  s->mask_gradient = first == 1 && call->n_out > 3 && call->out[3].ndim >= 0;
  if (s->mask) MaskStrides(s, &call->in[mask]);
  s->pieces = s->shared = 1;
  for (int d = 0; d < s->n; d++) {
    s->is_shared[d] = s->mask_gradient && s->mask_stride[d] == 0;
    *(s->is_shared[d] ? &s->shared : &s->pieces) *= s->extent[d];
  }
  size_t buffers = first == 1 ? 2 : 1;
  kernel->workspace =
      buffers * BLOCK * (size_t)s->row * sizeof(float) * (size_t)kernel->device->threads;
  kernel->run = first == 1 ? AttentionBackwardRun_Cpu : AttentionForwardRun_Cpu;
  return RENGA_SUCCESS;
}

static RengaErrorCode AttentionCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateAttention_Cpu(kernel, 0, 3));
  return RENGA_SUCCESS;
}

static RengaErrorCode AttentionGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateAttention_Cpu(kernel, 1, 6));
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuAttention)[] = {
    {"Attention", AttentionCreate_Cpu},
    {"AttentionGrad", AttentionGradCreate_Cpu},
    {NULL, NULL},
};
