/* Attention, forward and backward. Queries go in blocks; the scores of a block stay in a scratch
   buffer of the thread, and backward computes them again from the log-sum-exp (Dao et al.,
   FlashAttention, 2022, with whole rows in the cache). Causal blocks leave out the keys that none
   of their queries sees. With AMX factors of bfloat16 are multiplied as such, and probabilities and
   gradients of scores are rounded to it for that. */
#include "amx.h"
#include "low.h"
#include "product.h"
#include "random.h"
#include "renga/private/logsum.h"
#include "renga/private/op.h"
#include "rows.h"
#include <string.h>

/* Queries of a block; more are worth it where keys and values are packed for each. */
enum { BLOCK = 64, AMX_BLOCK = 128 };

/* A head is one place of the leading dimensions. Dimensions along which the gradient of one mask is
   summed are shared: one thread takes all their heads, in order. */
typedef struct {
  int64_t queries, keys, width, value_width, pieces, shared;
  int64_t block;  /* queries that are worked on together */
  int64_t row;    /* floats per row of scores */
  int64_t buffer; /* floats of each thread's workspace */
  int64_t packed; /* of them for AMX */
  bool low;       /* not all is float32 */
  bool amx;       /* all but the log-sum-exp and the mask is bfloat16, multiplied by amx.c */
  float scale, ratio;
  bool causal, mask, mask_gradient;
  int64_t place; /* of the first query among the keys, where it is causal */
  int n;         /* leading dimensions */
  int64_t extent[RENGA_MAX_DIM], head_stride[RENGA_MAX_DIM], mask_stride[RENGA_MAX_DIM];
  bool is_shared[RENGA_MAX_DIM];
  int64_t mask_row, mask_column;
  int batch_dim;
  int64_t batch_factor, key;
} Attention_Cpu;

/* One head, or a block of its queries, with float32 in place or in buffers of the thread. */
typedef struct {
  const void *q, *k, *v, *o, *dy; /* q, o, dy: of a block; bfloat16 in place for AMX */
  uint16_t *low[2];               /* probabilities and gradients of scores of a block, rounded */
  void *packed;                   /* workspace of AMX */
  float *dk, *dv, *dmask;
  RengaDataType mask_type;
  const void *mask;          /* NULL: none */
  int64_t mask_at;           /* element that the head's mask begins at */
  float *mask_buffer, *rows; /* rows: two of values, for AMX */
  RengaDropout dropout;
  bool drop;
  int64_t sample, element; /* of dropout: number of the first probability in its sample */
} Head;

/* A buffer in a thread's workspace, behind the scores; NULL where all is float32 in place. */
static float *TakeBuffer(const Attention_Cpu *s, float **free, int64_t count)
{
  if (!s->low) return NULL;
  float *taken = *free;
  *free += (count + 15) / 16 * 16;
  return taken;
}

/* Factors of products are widened, but for AMX. */
static float *TakeHeadFactor(const Attention_Cpu *s, float **free, int64_t count)
{
  return s->amx ? NULL : TakeBuffer(s, free, count);
}

static const void *ReadHeadFactor(const Attention_Cpu *s, RengaDataType type, const void *x,
                                  int64_t first, int64_t count, float *buffer)
{
  if (s->amx) return (const uint16_t *)x + first;
  return RengaCpuRead(type, x, first, count, buffer);
}

/* A product of a head as far as all are alike. */
static RengaCpuLowShape HeadShape(int64_t m, int64_t n, int64_t k, float alpha)
{
  return (RengaCpuLowShape){.m = m,
                            .n = n,
                            .k = k,
                            .lda = k,
                            .ldb = n,
                            .ldc = n,
                            .alpha = alpha,
                            .a = RENGA_BFLOAT16,
                            .b = RENGA_BFLOAT16,
                            .c = RENGA_FLOAT32};
}

static void MultiplyHead(const Attention_Cpu *s, const Head *h, const RengaCpuLowShape *p,
                         const void *a, const void *b, float *c)
{
  if (s->amx)
    RengaAmxMultiply(p, p->m, p->n, a, b, NULL, c, h->packed);
  else
    RengaCpuGemm(p->trans_a, p->trans_b, p->m, p->n, p->k, p->alpha, a, p->lda, b, p->ldb, p->adds,
                 c, p->ldc);
}

/* a [rows, width] by the transposed of b [limit, width], into rows of scores */
static void MultiplyByKeys(const Attention_Cpu *s, const Head *h, int64_t rows, int64_t limit,
                           const void *a, bool values, float *scores)
{
  const int64_t width = values ? s->value_width : s->width;
  RengaCpuLowShape p = HeadShape(rows, limit, width, values ? 1 : s->scale);
  p.trans_b = true;
  p.ldb = width;
  p.ldc = s->row;
  MultiplyHead(s, h, &p, a, values ? h->v : h->k, scores);
}

/* Scores [rows, limit] as a factor. */
static const void *FactorOfScores(const Attention_Cpu *s, int64_t rows, int64_t limit,
                                  const float *scores, uint16_t *low)
{
  for (int64_t i = 0; i < rows && s->amx; i++)
    RengaCpuNarrow(RENGA_BFLOAT16, limit, scores + i * s->row, low + i * s->row);
  return s->amx ? (const void *)low : scores;
}

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
  return s->causal ? RengaCpuSmaller(s->keys, s->place + i + 1) : s->keys;
}

static void AddMask(const Attention_Cpu *s, const Head *h, int64_t i, int64_t n, float *scores)
{
  const float *mask = RengaCpuRead(h->mask_type, h->mask, h->mask_at + i * s->mask_row,
                                   s->mask_column ? n : 1, h->mask_buffer);
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
  MultiplyByKeys(s, h, rows, limit, h->q, false, scores);
  if (h->mask)
    for (int64_t i = 0; i < rows; i++)
      AddMask(s, h, first + i, Seen(s, first + i), scores + i * s->row);
  return limit;
}

/* y: [rows, value_width]; whole: the log-sum-exp of each */
static void ForwardBlock(const Attention_Cpu *s, const Head *h, int64_t first, int64_t rows,
                         float *scores, float *y, float *whole)
{
  int64_t limit = Scores(s, h, first, rows, scores);
  float inverse[AMX_BLOCK];
  for (int64_t i = 0; i < rows; i++) {
    float *row = scores + i * s->row;
    int64_t seen = Seen(s, first + i);
    float shift = RengaRowShift(RengaRowMax(seen, row));
    float sum = RengaRowExp(seen, row, shift, row);
    inverse[i] = sum > 0 ? 1 / sum : 0; /* 0: every key is masked */
    whole[i] = shift + logf(sum);
    if (h->drop)
      RengaCpuDropoutRun(&h->dropout, s->ratio, h->sample, h->element + (first + i) * s->keys, seen,
                         row, row);
    memset(row + seen, 0, (size_t)(limit - seen) * sizeof *row);
  }
  RengaCpuLowShape p = HeadShape(rows, s->value_width, limit, 1);
  p.lda = s->row;
  MultiplyHead(s, h, &p, FactorOfScores(s, rows, limit, scores, h->low[0]), h->v, y);
  for (int64_t i = 0; i < rows; i++)
    RengaRowScale(s->value_width, inverse[i], y + i * s->value_width);
}

/* Buffers for so many rounded factors, and for what is packed. */
static void TakeForAmx(const Attention_Cpu *s, Head *h, int count, float **free)
{
  if (!s->amx) return;
  for (int i = 0; i < count; i++, *free += s->block * s->row / 2)
    h->low[i] = (uint16_t *)(void *)*free;
  h->packed = *free;
  *free += s->packed;
}

/* The queries of a head from first on. */
static void ForwardQueries(const RengaKernel kernel, Head *h, int64_t head, int64_t first,
                           const void *const in[], void *const out[], float *free)
{
  const Attention_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int64_t rows = RengaCpuSmaller(s->queries - first, s->block);
  const int64_t limit = Seen(s, first + rows - 1), query = head * s->queries + first;
  const RengaDataType type = call->out[0].type;
  float whole[AMX_BLOCK], *scores = free;
  free += s->block * s->row;
  TakeForAmx(s, h, 1, &free);
  h->q = ReadHeadFactor(s, call->in[0].type, in[0], query * s->width, rows * s->width,
                        TakeHeadFactor(s, &free, s->block * s->width));
  h->k = ReadHeadFactor(s, call->in[1].type, in[1], head * s->keys * s->width, limit * s->width,
                        TakeHeadFactor(s, &free, s->keys * s->width));
  h->v = ReadHeadFactor(s, call->in[2].type, in[2], head * s->keys * s->value_width,
                        limit * s->value_width, TakeHeadFactor(s, &free, s->keys * s->value_width));
  h->mask_buffer = TakeBuffer(s, &free, s->row);
  float *y = RengaCpuPlace(type, out[0], query * s->value_width,
                           TakeBuffer(s, &free, s->block * s->value_width));
  ForwardBlock(s, h, first, rows, scores, y, whole);
  RengaCpuWrite(type, out[0], query * s->value_width, rows * s->value_width, y);
  for (int64_t i = 0; i < rows && call->n_out > 1 && out[1]; i++)
    RengaCpuPut(call->out[1].type, out[1], query + i, whole[i]);
}

/* The mask, input i. */
static void SetMask(const RengaOpCall *call, const void *const in[], int i, int64_t at, Head *h)
{
  h->mask = in[i];
  h->mask_type = call->in[i].type;
  h->mask_at = at;
}

static RengaErrorCode AttentionForwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                              const RengaKernelContext *context,
                                              const void *const in[], void *const out[],
                                              void *workspace)
{
  const Attention_Cpu *s = kernel->data;
  int64_t blocks = RengaCpuPieces(s->queries, s->block), pieces = s->pieces * s->shared * blocks;
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    Head h = {.mask = NULL};
    int64_t head = 0, mask = 0;
    FindHead(s, context, piece / blocks, 0, &head, &mask, &h);
    if (s->mask) SetMask(&kernel->call, in, 3, mask, &h);
    ForwardQueries(kernel, &h, head, piece % blocks * s->block, in, out,
                   (float *)workspace + RengaCpuThread() * s->buffer);
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

/* Scores become probabilities: by the log-sum-exp, or by maximum and sum as in forward where it has
   lost the logarithm. */
static void ProbabilitiesAgain(int64_t n, float whole, float *p)
{
  if (RENGA_LOGSUM_IS_LARGE(whole)) {
    float sum = RengaRowExp(n, p, RengaRowShift(RengaRowMax(n, p)), p);
    RengaRowScale(n, sum > 0 ? 1 / sum : 0, p); /* 0: every key is masked */
    return;
  }
#pragma omp simd
  for (int64_t j = 0; j < n; j++) p[j] = RengaExp(p[j] - whole);
}

/* p becomes the probability after dropout, dp the gradient of the score: ds = p (m dp - dy . o),
   where m is the factor of dropout. whole: log-sum-exp of query i; dot: dy . o */
static void AttentionBackwardRow(const Attention_Cpu *s, const Head *h, int64_t i, int64_t limit,
                                 float whole, float dot, float *p, float *dp)
{
  int64_t seen = Seen(s, i);
  ProbabilitiesAgain(seen, whole, p);
  int64_t element = h->element + i * s->keys;
  if (h->drop) RengaCpuDropoutRun(&h->dropout, s->ratio, h->sample, element, seen, dp, dp);
#pragma omp simd
  for (int64_t j = 0; j < seen; j++) dp[j] = p[j] * (dp[j] - dot);
  if (h->dmask) AddMaskGradient(s, h, i, seen, dp);
  if (h->drop) RengaCpuDropoutRun(&h->dropout, s->ratio, h->sample, element, seen, p, p);
  memset(p + seen, 0, (size_t)(limit - seen) * sizeof *p);
  memset(dp + seen, 0, (size_t)(limit - seen) * sizeof *dp);
}

/* dv += p^T dy; dq = scale ds k; dk += scale ds^T q. p, ds: [rows, limit] in rows of scores */
static void MultiplyGradients(const Attention_Cpu *s, const Head *h, int64_t rows, int64_t limit,
                              const float *p, float *dq)
{
  const void *probabilities = FactorOfScores(s, rows, limit, p, h->low[0]);
  const void *ds = FactorOfScores(s, rows, limit, p + s->block * s->row, h->low[1]);
  RengaCpuLowShape of_values = HeadShape(limit, s->value_width, rows, 1);
  RengaCpuLowShape of_keys = HeadShape(limit, s->width, rows, s->scale);
  RengaCpuLowShape of_queries = HeadShape(rows, s->width, limit, s->scale);
  of_values.trans_a = of_keys.trans_a = of_values.adds = of_keys.adds = true;
  of_values.lda = of_keys.lda = of_queries.lda = s->row;
  MultiplyHead(s, h, &of_values, probabilities, h->dy, h->dv);
  MultiplyHead(s, h, &of_queries, ds, h->k, dq);
  MultiplyHead(s, h, &of_keys, ds, h->q, h->dk);
}

/* dy . o of a query of the block. */
static float DotOfOutput(const Attention_Cpu *s, const Head *h, int64_t i)
{
  const int64_t n = s->value_width, at = i * n;
  if (!s->amx) return RengaRowDot(n, (const float *)h->dy + at, (const float *)h->o + at);
  const float *dy = RengaCpuRead(RENGA_BFLOAT16, h->dy, at, n, h->rows);
  return RengaRowDot(n, dy, RengaCpuRead(RENGA_BFLOAT16, h->o, at, n, h->rows + n));
}

/* in: dy, q, k, v, o, log-sum-exp, (mask); p: scores, and behind them gradients of scores, both
   [rows, row]; dq: [rows, width] */
static void BackwardBlock(const RengaKernel kernel, const Head *h, int64_t query, int64_t first,
                          int64_t rows, const void *wholes, float *p, float *dq)
{
  const Attention_Cpu *s = kernel->data;
  float *dp = p + s->block * s->row;
  int64_t limit = Scores(s, h, first, rows, p);
  MultiplyByKeys(s, h, rows, limit, h->dy, true, dp);
  for (int64_t i = 0; i < rows; i++) {
    float whole = RengaCpuGet(kernel->call.in[5].type, wholes, query + i);
    float dot = DotOfOutput(s, h, i);
    AttentionBackwardRow(s, h, first + i, limit, whole, dot, p + i * s->row, dp + i * s->row);
  }
  MultiplyGradients(s, h, rows, limit, p, dq);
}

/* Block after block of a head's queries. */
static void BackwardQueries(const RengaKernel kernel, Head *h, int64_t head, const void *const in[],
                            void *const out[], float *scores, float *free)
{
  const Attention_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int64_t width = s->width, value = s->value_width;
  float *q = TakeHeadFactor(s, &free, s->block * width),
        *dq = TakeBuffer(s, &free, s->block * width);
  float *o = TakeHeadFactor(s, &free, s->block * value),
        *dy = TakeHeadFactor(s, &free, s->block * value);
  h->rows = s->amx ? TakeBuffer(s, &free, 2 * value) : NULL;
  for (int64_t first = 0; first < s->queries; first += s->block) {
    const int64_t rows = RengaCpuSmaller(s->queries - first, s->block);
    const int64_t query = head * s->queries + first;
    h->dy = ReadHeadFactor(s, call->in[0].type, in[0], query * value, rows * value, dy);
    h->q = ReadHeadFactor(s, call->in[1].type, in[1], query * width, rows * width, q);
    h->o = ReadHeadFactor(s, call->in[4].type, in[4], query * value, rows * value, o);
    float *made = RengaCpuPlace(call->out[0].type, out[0], query * width, dq);
    BackwardBlock(kernel, h, query, first, rows, in[5], scores, made);
    RengaCpuWrite(call->out[0].type, out[0], query * width, rows * width, made);
  }
}

static void BackwardHead(const RengaKernel kernel, Head *h, int64_t head, const void *const in[],
                         void *const out[], float *free)
{
  const Attention_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int64_t key = head * s->keys * s->width, value = head * s->keys * s->value_width;
  const int64_t keys = s->keys * s->width, values = s->keys * s->value_width;
  float *scores = free;
  free += 2 * s->block * s->row;
  TakeForAmx(s, h, 2, &free);
  h->k = ReadHeadFactor(s, call->in[2].type, in[2], key, keys, TakeHeadFactor(s, &free, keys));
  h->v =
      ReadHeadFactor(s, call->in[3].type, in[3], value, values, TakeHeadFactor(s, &free, values));
  h->dk = RengaCpuPlace(call->out[1].type, out[1], key, TakeBuffer(s, &free, keys));
  h->dv = RengaCpuPlace(call->out[2].type, out[2], value, TakeBuffer(s, &free, values));
  h->mask_buffer = TakeBuffer(s, &free, s->row);
  memset(h->dk, 0, (size_t)keys * sizeof *h->dk);
  memset(h->dv, 0, (size_t)values * sizeof *h->dv);
  BackwardQueries(kernel, h, head, in, out, scores, free);
  RengaCpuWrite(call->out[1].type, out[1], key, keys, h->dk);
  RengaCpuWrite(call->out[2].type, out[2], value, values, h->dv);
}

static RengaErrorCode AttentionBackwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                               const RengaKernelContext *context,
                                               const void *const in[], void *const out[],
                                               void *workspace)
{
  const Attention_Cpu *s = kernel->data;
  if (s->mask_gradient) memset(out[3], 0, RengaTensorSpecBytes(&kernel->call.out[3]));
#pragma omp parallel for schedule(dynamic)                                                         \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++)
    for (int64_t shared = 0; shared < s->shared; shared++) {
      Head h = {.mask = NULL};
      int64_t head = 0, mask = 0;
      FindHead(s, context, piece, shared, &head, &mask, &h);
      if (s->mask) SetMask(&kernel->call, in, 6, mask, &h);
      if (s->mask_gradient) h.dmask = (float *)out[3] + mask;
      BackwardHead(kernel, &h, head, in, out, (float *)workspace + RengaCpuThread() * s->buffer);
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

/* Whether products are those of amx.c: of all tensors but the log-sum-exp and the mask. */
static bool IsForAmx(const RengaOpCall *call, int first)
{
  bool low = call->out[0].type == RENGA_BFLOAT16;
  for (int i = 0; i < first + 3 + (first > 0); i++) low = low && call->in[i].type == RENGA_BFLOAT16;
  for (int o = 1; o < 3 && first > 0; o++) low = low && call->out[o].type == RENGA_BFLOAT16;
  return low && RengaAmxIsHere();
}

/* What the products of a block pack at the most. */
static int64_t FloatsPacked(const Attention_Cpu *s)
{
  const int64_t widest = s->width > s->value_width ? s->width : s->value_width;
  RengaCpuLowShape shape[] = {HeadShape(s->block, s->keys, widest, 1),
                              HeadShape(s->block, widest, s->keys, 1),
                              HeadShape(s->keys, widest, s->block, 1)};
  size_t most = 0;
  shape[2].trans_a = true;
  for (int i = 0; i < 3; i++) {
    const size_t bytes = RengaAmxBytes(&shape[i], shape[i].m, shape[i].n);
    if (bytes > most) most = bytes;
  }
  return (int64_t)(most / sizeof(float));
}

/* Floats of a thread's workspace: scores, and where not all is float32 what is taken besides. */
static int64_t FloatsOfThread(const Attention_Cpu *s, bool backward)
{
  const int64_t scores = (backward ? 2 : 1) * s->block * s->row, both = s->width + s->value_width;
  const int64_t widths = (both + 32) * (backward ? 2 : 1);
  if (!s->low) return scores;
  if (!s->amx) return scores + (s->keys + s->block) * widths + s->row;
  const int64_t made = (backward ? s->keys : 0) + s->block + 2; /* rows of results; two for a dot */
  return scores + scores / 2 + s->packed + s->row + made * ((both + 15) / 16 * 16 + 32);
}

static RengaErrorCode CreateAttention_Cpu(RengaKernel kernel, int first, int mask)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *q = &call->in[first];
  if (!RengaCpuAllFloats(call, 0) || RengaTensorSpecCount(q) == 0 ||
      RengaTensorSpecCount(&call->in[first + 2]) == 0)
    return RENGA_SUCCESS;
  if (first == 1 && call->n_out > 3 && RengaDeviceIsLow(call->out[3].type))
    return RENGA_SUCCESS; /* heads add to it */
  Attention_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  SetShape(s, q);
  const RengaAttributes *attributes = call->attributes;
  s->scale = (float)RengaAttributesReal(attributes, "scale", 0);
  if (s->scale == 0) s->scale = (float)(1 / sqrt((double)s->width));
  s->causal = RengaAttributesInt(attributes, "causal", 0) != 0;
  s->place = RengaAttributesInt(attributes, "first", 0);
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
  s->low = RengaOpCallIsLow_Private(call);
  s->amx = IsForAmx(call, first);
  s->block = s->amx ? AMX_BLOCK : BLOCK;
  s->packed = s->amx ? FloatsPacked(s) : 0;
  s->buffer = FloatsOfThread(s, first == 1);
  kernel->workspace = (size_t)(s->buffer * kernel->device->threads) * sizeof(float);
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
