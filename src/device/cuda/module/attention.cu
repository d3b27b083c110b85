/* Attention, forward and backward, in tiles of 32 queries by 32 keys: the softmax goes along the
   keys in ascending order (Dao et al., FlashAttention, 2022), and the gradient computes the
   probabilities again from the log-sum-exp. Each sum has one owner: a block for the gradient of its
   queries, another one for that of its keys and values. */
#include "attention.h"

enum { TILE = WARP, TIMES = TILE / ROWS, CHUNKS = RENGA_CUDA_ATTENTION_WIDTH / TILE };
typedef float AttentionTile[TILE][TILE + 1];

/* A head's rows of an operand, which begin at element `first` and are `pitch` apart. */
struct TileRows {
  const RengaCudaOperand &x;
  int64_t first, pitch, rows, width;
};

static __device__ inline TileRows TileRowsOf(const RengaCudaAttention &s, const RengaCudaOperand &x,
                                             const RengaCudaHeads &heads, int64_t number,
                                             int64_t rows, int64_t width)
{
  return {x, FirstOf(s, heads, number), heads.row, rows, width};
}

/* 32 x 32 elements from (row, column) on; 0 where there are none. */
template <class T>
static __device__ inline void LoadTile(AttentionTile tile, const TileRows &of, int64_t row,
                                       int64_t column)
{
  const Values<T> x(of.x);
  const int64_t c = column + threadIdx.x;
  for (int t = 0; t < TIMES; t++) {
    const int64_t r = row + threadIdx.y + t * ROWS;
    tile[threadIdx.y + t * ROWS][threadIdx.x] =
        r < of.rows && c < of.width ? x[of.first + r * of.pitch + c] : 0;
  }
}

/* dot[t] of rows first + y + 8 t of a with row second + x of b, over their width. */
template <class T>
static __device__ inline void DotTiles(const TileRows &a, int64_t first, const TileRows &b,
                                       int64_t second, AttentionTile left, AttentionTile right,
                                       float dot[TIMES])
{
  for (int t = 0; t < TIMES; t++) dot[t] = 0;
  for (int64_t column = 0; column < a.width; column += TILE) {
    __syncthreads(); /* the tiles before were read */
    LoadTile<T>(left, a, first, column);
    LoadTile<T>(right, b, second, column);
    __syncthreads();
    for (int w = 0; w < TILE; w++)
      for (int t = 0; t < TIMES; t++)
        dot[t] += left[threadIdx.y + t * ROWS][w] * right[threadIdx.x][w];
  }
}

/* sum[t][c] += weights[y + 8 t][i] x[i][x + 32 c], over the tile's rows i of x; turned: weights[i]
   [y + 8 t]. */
template <class T>
static __device__ inline void AddProducts(const AttentionTile weights, bool turned,
                                          const TileRows &x, int64_t row, AttentionTile right,
                                          float sum[TIMES][CHUNKS])
{
#pragma unroll
  for (int c = 0; c < CHUNKS; c++) {
    if (c * TILE >= x.width) break;
    __syncthreads(); /* the tile before was read, the weights are written */
    LoadTile<T>(right, x, row, c * TILE);
    __syncthreads();
    for (int i = 0; i < TILE; i++)
      for (int t = 0; t < TIMES; t++) {
        const int own = threadIdx.y + t * ROWS;
        sum[t][c] += (turned ? weights[i][own] : weights[own][i]) * right[i][threadIdx.x];
      }
  }
}

template <class T>
static __device__ inline void StoreSums(const TileRows &to, int64_t row,
                                        const float sum[TIMES][CHUNKS], const float factor[TIMES])
{
  const Values<T> y(to.x);
  for (int t = 0; t < TIMES; t++) {
    const int64_t r = row + threadIdx.y + t * ROWS;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
      const int64_t column = c * TILE + threadIdx.x;
      if (r < to.rows && column < to.width)
        y.Put(to.first + r * to.pitch + column, sum[t][c] * factor[t]);
    }
  }
}

/* Scores of the tile, -infinity where a query does not see a key. */
template <class T>
static __device__ inline void
FindScores(const RengaCudaAttention &s, const AttentionCall &call, const AttentionHead &head,
           int64_t query, int64_t key, AttentionTile left, AttentionTile right, float score[TIMES])
{
  const Values<void> mask(call.mask);
  DotTiles<T>(TileRowsOf(s, call.q, s.q, head.number, s.queries, s.width), query,
              TileRowsOf(s, call.k, s.k, head.number, s.keys, s.width), key, left, right, score);
  const int64_t j = key + threadIdx.x;
  for (int t = 0; t < TIMES; t++) {
    const int64_t i = query + threadIdx.y + t * ROWS;
    const bool seen = SeesKey(s, i, j);
    const int64_t at = head.mask + i * s.mask_row + j * s.mask_column;
    score[t] = seen ? s.scale * score[t] + (mask.data ? mask[at] : 0) : -INFINITY;
  }
}

/* A block takes 32 queries of a head. T, here and below: of all that is 32 x 32. */
template <class T>
__global__ void AttentionKernel(RengaCudaAttention s, AttentionCall call, RengaCudaOperand y,
                                RengaCudaOperand whole_of)
{
  __shared__ AttentionTile left, right, weights;
  const int64_t blocks = (s.queries + TILE - 1) / TILE, query = blockIdx.x % blocks * TILE;
  const AttentionHead head = HeadOf(s, blockIdx.x / blocks, call.sample);
  const int64_t last = query + TILE, end = s.causal && last < s.keys ? last : s.keys;
  const TileRows values = TileRowsOf(s, call.v, s.v, head.number, s.keys, s.values);
  float sum[TIMES][CHUNKS] = {{0}}, most[TIMES], whole[TIMES] = {0}, score[TIMES];
  for (int t = 0; t < TIMES; t++) most[t] = -INFINITY;
  for (int64_t key = 0; key < end; key += TILE) {
    FindScores<T>(s, call, head, query, key, left, right, score);
    for (int t = 0; t < TIMES; t++) {
      const int row = threadIdx.y + t * ROWS;
      const float now = TakeMost::Join(most[t], JoinWarp<TakeMost>(score[t]));
      const float faded = most[t] > -INFINITY ? expf(ShiftOf(most[t]) - ShiftOf(now)) : 0;
      const float p = expf(score[t] - ShiftOf(now));
      whole[t] = whole[t] * faded + JoinWarp<AddUp>(p);
      most[t] = now;
      weights[row][threadIdx.x] =
          p > 0 ? p * KeepFactor(s, call, head, query + row, key + threadIdx.x) : p;
      for (int c = 0; c < CHUNKS; c++) sum[t][c] *= faded;
    }
    AddProducts<T>(weights, false, values, key, right, sum);
  }
  float inverse[TIMES];
  for (int t = 0; t < TIMES; t++) {
    const int64_t i = query + threadIdx.y + t * ROWS;
    inverse[t] = whole[t] > 0 ? 1 / whole[t] : 0; /* 0: every key is masked */
    if (whole_of.data && threadIdx.x == 0 && i < s.queries)
      Values<void>(whole_of).Put(head.number * s.queries + i, ShiftOf(most[t]) + logf(whole[t]));
  }
  StoreSums<T>(TileRowsOf(s, y, s.o, head.number, s.queries, s.values), query, sum, inverse);
}

static __device__ inline float Raised(bool powers, float x)
{
  return powers ? exp2f(x) : expf(x);
}

/* The largest score of query i, and the sum of exp(score - largest), by a warp. powers: the largest
   dot instead, as kernels on tensor cores have it. */
template <class T>
static __device__ inline float FindMost(const RengaCudaAttention &s, const AttentionCall &call,
                                        const AttentionHead &head, int64_t i, bool powers,
                                        float *sum)
{
  const Values<T> q(call.q), k(call.k);
  const Values<void> mask(call.mask);
  const float factor = powers ? s.scale * LOG2_E : 1;
  const int64_t query = FirstOf(s, s.q, head.number) + i * s.q.row;
  const int64_t keys = FirstOf(s, s.k, head.number);
  float most = -INFINITY, mine = 0;
  for (int64_t j = threadIdx.x; j < s.keys && SeesKey(s, i, j); j += WARP) {
    const int64_t key = keys + j * s.k.row;
    const int64_t at = head.mask + i * s.mask_row + j * s.mask_column;
    float dot = 0;
    for (int64_t w = 0; w < s.width; w++) dot += q[query + w] * k[key + w];
    const float more = mask.data ? mask[at] : 0;
    const float score = powers ? dot + MaskOfDot(s, more) : s.scale * dot + more;
    const float now = TakeMost::Join(most, score), shift = ShiftOf(now);
    const float faded =
        most > -INFINITY ? mine * Raised(powers, factor * (ShiftOf(most) - shift)) : 0;
    mine = faded + Raised(powers, factor * (score - shift));
    most = now;
  }
  const float all = JoinWarp<TakeMost>(most), shift = ShiftOf(all);
  const float faded =
      most > -INFINITY ? mine * Raised(powers, factor * (ShiftOf(most) - shift)) : 0;
  *sum = JoinWarp<AddUp>(faded);
  return all;
}

/* Of each row: delta is dy . o, and shift and rest together the log-sum-exp; a row whose
   log-sum-exp has lost the logarithm has its keys gone through once more, for its maximum and the
   logarithm of its sum. powers: for tensor cores. */
template <class T>
__global__ void QueriesKernel(RengaCudaAttention s, AttentionCall call, RengaCudaOperand o_,
                              int powers, float *__restrict__ delta, float *__restrict__ shift,
                              float *__restrict__ rest)
{
  const Values<T> dy(call.dy), o(o_);
  const int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.y;
  if (row >= s.heads * s.queries) return;
  const float whole = Values<void>(call.whole)[row];
  float dot = 0, most = powers ? 0 : whole, less = powers ? whole * LOG2_E : 0;
  const int64_t at = FirstOf(s, s.o, row / s.queries) + row % s.queries * s.o.row;
  for (int64_t i = threadIdx.x; i < s.values; i += WARP) dot += dy[at + i] * o[at + i];
  dot = JoinWarp<AddUp>(dot);
  if (RENGA_LOGSUM_IS_LARGE(whole)) {
    const AttentionHead head = HeadOf(s, row / s.queries, call.sample);
    float sum;
    most = ShiftOf(FindMost<T>(s, call, head, row % s.queries, powers, &sum));
    less = powers ? log2f(sum) : logf(sum);
  }
  if (threadIdx.x > 0) return;
  delta[row] = powers ? dot * s.scale : dot;
  shift[row] = most;
  rest[row] = less;
}

/* p becomes the probability after dropout, ds the gradient of the score: p (m dp - delta), where m
   is the factor of dropout. */
template <class T>
static __device__ inline void FindGradients(const RengaCudaAttention &s, const AttentionCall &call,
                                            const AttentionHead &head, int64_t query, int64_t key,
                                            AttentionTile left, AttentionTile right, float p[TIMES],
                                            float ds[TIMES])
{
  FindScores<T>(s, call, head, query, key, left, right, p);
  DotTiles<T>(TileRowsOf(s, call.dy, s.o, head.number, s.queries, s.values), query,
              TileRowsOf(s, call.v, s.v, head.number, s.keys, s.values), key, left, right, ds);
  for (int t = 0; t < TIMES; t++) {
    const int64_t i = query + threadIdx.y + t * ROWS, row = head.number * s.queries + i;
    if (p[t] == -INFINITY) {
      p[t] = ds[t] = 0;
      continue;
    }
    const float keep = KeepFactor(s, call, head, i, key + threadIdx.x);
    p[t] = expf(p[t] - call.shift[row] - call.rest[row]);
    ds[t] = p[t] * (ds[t] * keep - call.delta[row]);
    p[t] *= keep;
  }
}

/* Masks as cuDNN takes them: less the most of each row, so that no row is -infinity throughout, nor
   so low that scores are lost beside it; what is left of -infinity is as good as it, and finite. */
static __device__ const float NO_KEY = -1e30f;

__global__ void MaskKernel(int64_t rows, int64_t keys, RengaCudaOperand mask_, float *out,
                           float *most_of)
{
  const Values<void> mask(mask_);
  const int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.y;
  if (row >= rows) return;
  float most = -INFINITY;
  for (int64_t j = threadIdx.x; j < keys; j += WARP)
    most = TakeMost::Join(most, mask[row * keys + j]);
  most = JoinWarp<TakeMost>(most);
  for (int64_t j = threadIdx.x; j < keys; j += WARP) {
    const float less = most == -INFINITY ? 0 : mask[row * keys + j] - most;
    out[row * keys + j] = less < NO_KEY ? NO_KEY : less; /* no number stays none */
  }
  if (threadIdx.x == 0) most_of[row] = most;
}

static __device__ inline float MostOfMask(const RengaCudaAttention &s, const AttentionHead &head,
                                          int64_t i, const float *most_of)
{
  return most_of[(head.mask + i * s.mask_row) / s.keys];
}

/* Behind cuDNN, a warp for each query: the log-sum-exp with its mask's most; a query that sees no
   key attends to nothing. */
__global__ void MaskedKernel(RengaCudaAttention s, const float *most_of, RengaCudaOperand o,
                             RengaCudaOperand whole)
{
  const int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.y;
  if (row >= s.heads * s.queries) return;
  const int64_t number = row / s.queries, i = row % s.queries;
  const float most = MostOfMask(s, HeadOf(s, number, 0), i, most_of);
  const int64_t first = FirstOf(s, s.o, number) + i * s.o.row;
  if (most == -INFINITY)
    for (int64_t e = threadIdx.x; e < s.values; e += WARP) Values<void>(o).Put(first + e, 0);
  if (threadIdx.x == 0 && whole.data) Values<void>(whole).Put(row, Values<void>(whole)[row] + most);
}

/* Before cuDNN's gradient: log-sum-exps of scores with such a mask, those that have lost the
   logarithm made again; of a query that sees no key a number that makes all probabilities 0. */
__global__ void MaskedSumsKernel(RengaCudaAttention s, AttentionCall call, const float *most_of,
                                 float *out)
{
  const int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.y;
  if (row >= s.heads * s.queries) return;
  const AttentionHead head = HeadOf(s, row / s.queries, 0);
  const float most = MostOfMask(s, head, row % s.queries, most_of);
  const float whole = Values<void>(call.whole)[row];
  float now = whole - most, sum = 1;
  if (most == -INFINITY)
    now = -NO_KEY;
  else if (most != 0 && RENGA_LOGSUM_IS_LARGE(whole)) {
    now = ShiftOf(FindMost<void>(s, call, head, row % s.queries, false, &sum));
    now += logf(sum);
  }
  if (threadIdx.x == 0) out[row] = now;
}

/* A block takes 32 queries of a head. */
template <class T>
__global__ void QueryGradKernel(RengaCudaAttention s, AttentionCall call, RengaCudaOperand dq)
{
  __shared__ AttentionTile left, right, weights;
  const int64_t blocks = (s.queries + TILE - 1) / TILE, query = blockIdx.x % blocks * TILE;
  const AttentionHead head = HeadOf(s, blockIdx.x / blocks, call.sample);
  const int64_t last = query + TILE, end = s.causal && last < s.keys ? last : s.keys;
  const TileRows keys = TileRowsOf(s, call.k, s.k, head.number, s.keys, s.width);
  float sum[TIMES][CHUNKS] = {{0}}, p[TIMES], ds[TIMES], scale[TIMES];
  for (int t = 0; t < TIMES; t++) scale[t] = s.scale;
  for (int64_t key = 0; key < end; key += TILE) {
    FindGradients<T>(s, call, head, query, key, left, right, p, ds);
    for (int t = 0; t < TIMES; t++) weights[threadIdx.y + t * ROWS][threadIdx.x] = ds[t];
    AddProducts<T>(weights, false, keys, key, right, sum);
  }
  StoreSums<T>(TileRowsOf(s, dq, s.q, head.number, s.queries, s.width), query, sum, scale);
}

/* A block takes 32 keys of the heads that share them, one head after the other. */
template <class T>
__global__ void KeyGradKernel(RengaCudaAttention s, AttentionCall call, RengaCudaOperand dk,
                              RengaCudaOperand dv)
{
  __shared__ AttentionTile left, right, weights, slopes;
  const int64_t blocks = (s.keys + TILE - 1) / TILE, key = blockIdx.x % blocks * TILE;
  const int64_t number = blockIdx.x / blocks * s.k.share;
  float of_keys[TIMES][CHUNKS] = {{0}}, of_values[TIMES][CHUNKS] = {{0}};
  float p[TIMES], ds[TIMES], scale[TIMES], one[TIMES];
  for (int t = 0; t < TIMES; t++) scale[t] = s.scale;
  for (int t = 0; t < TIMES; t++) one[t] = 1;
  for (int64_t n = number; n < number + s.k.share; n++) {
    const AttentionHead head = HeadOf(s, n, call.sample);
    const TileRows dy = TileRowsOf(s, call.dy, s.o, n, s.queries, s.values);
    const TileRows queries = TileRowsOf(s, call.q, s.q, n, s.queries, s.width);
    for (int64_t query = s.causal ? key : 0; query < s.queries; query += TILE) {
      FindGradients<T>(s, call, head, query, key, left, right, p, ds);
      for (int t = 0; t < TIMES; t++) {
        weights[threadIdx.y + t * ROWS][threadIdx.x] = p[t];
        slopes[threadIdx.y + t * ROWS][threadIdx.x] = ds[t];
      }
      AddProducts<T>(weights, true, dy, query, right, of_values);
      AddProducts<T>(slopes, true, queries, query, right, of_keys);
    }
  }
  StoreSums<T>(TileRowsOf(s, dk, s.k, number, s.keys, s.width), key, of_keys, scale);
  StoreSums<T>(TileRowsOf(s, dv, s.v, number, s.keys, s.values), key, of_values, one);
}

/* The head at this place among those that share no mask, and at that one among those that do. */
static __device__ int64_t HeadAt(const RengaCudaAttention &s, int64_t place, int64_t shared)
{
  int64_t number = 0, size = 1;
  for (int d = s.dimensions - 1; d >= 0; d--) {
    int64_t *from = s.mask_stride[d] == 0 ? &shared : &place;
    number += *from % s.extent[d] * size;
    *from /= s.extent[d];
    size *= s.extent[d];
  }
  return number;
}

/* dmask[place, queries, keys]: a block takes a tile of all heads that share a mask, in order. */
template <class T>
__global__ void MaskGradKernel(RengaCudaAttention s, AttentionCall call, int64_t shared,
                               RengaCudaOperand dmask)
{
  __shared__ AttentionTile left, right;
  const int64_t across = (s.keys + TILE - 1) / TILE, down = (s.queries + TILE - 1) / TILE;
  const int64_t key = blockIdx.x % across * TILE, query = blockIdx.x / across % down * TILE;
  const int64_t place = blockIdx.x / across / down;
  float sum[TIMES] = {0}, p[TIMES], ds[TIMES];
  for (int64_t h = 0; h < shared; h++) {
    const AttentionHead head = HeadOf(s, HeadAt(s, place, h), call.sample);
    FindGradients<T>(s, call, head, query, key, left, right, p, ds);
    for (int t = 0; t < TIMES; t++) sum[t] += ds[t];
  }
  for (int t = 0; t < TIMES; t++) {
    const int64_t i = query + threadIdx.y + t * ROWS, j = key + threadIdx.x;
    if (i < s.queries && j < s.keys)
      Values<void>(dmask).Put((place * s.queries + i) * s.keys + j, sum[t]);
  }
}

typedef void (*AttentionForm)(RengaCudaAttention, AttentionCall, RengaCudaOperand,
                              RengaCudaOperand);
static const AttentionForm attentions[VALUE_FORMS] = RENGA_FORMS(AttentionKernel);
static const AttentionForm key_grads[VALUE_FORMS] = RENGA_FORMS(KeyGradKernel);
static void (*const query_grads[VALUE_FORMS])(RengaCudaAttention, AttentionCall,
                                              RengaCudaOperand) = RENGA_FORMS(QueryGradKernel);
static void (*const mask_grads[VALUE_FORMS])(RengaCudaAttention, AttentionCall, int64_t,
                                             RengaCudaOperand) = RENGA_FORMS(MaskGradKernel);
static void (*const of_queries[VALUE_FORMS])(RengaCudaAttention, AttentionCall, RengaCudaOperand,
                                             int, float *, float *,
                                             float *) = RENGA_FORMS(QueriesKernel);

static unsigned TilesOf(const RengaCudaAttention *s, int64_t rows)
{
  return (unsigned)(s->heads * ((rows + TILE - 1) / TILE));
}

RENGA_CUDA_RUN(RengaCudaAttend)
{
  const RengaCudaAttention *s = (const RengaCudaAttention *)shape;
  const int form = FormFor(in[0], in[1], in[2], out[0]);
  const AttentionCall call = CallOf(s, context, in, in[3]);
  cudaStream_t queue = (cudaStream_t)stream;
  (void)workspace;
  if (RengaCudaHasTensorAttention(s, form))
    return RengaCudaSayError("TensorAttentionKernel",
                             RengaCudaTensorAttend(queue, s, &call, form, out[0], out[1]));
  return RengaCudaSayError("AttentionKernel",
                           RENGA_LAUNCH(attentions[form], TilesOf(s, s->queries), TeamBlock(), 0,
                                        queue, *s, call, out[0], out[1]));
}

/* Sums of full [places, queries, keys] along what the mask has once. */
static int SumMask(void *stream, const RengaCudaAttention *s, int64_t places, RengaCudaOperand full,
                   void *parts, RengaCudaOperand dmask)
{
  RengaCudaReduce sum = {};
  const int64_t extent[3] = {places, s->queries, s->keys};
  const int64_t stride[3] = {s->queries * s->keys, s->keys, 1};
  const bool kept[3] = {true, s->mask_row != 0, s->mask_column != 0};
  sum.results = sum.terms = 1;
  for (int d = 0; d < 3; d++) {
    int *n = kept[d] ? &sum.n_kept : &sum.n_reduced;
    (kept[d] ? sum.kept : sum.reduced)[*n] = extent[d];
    (kept[d] ? sum.kept_stride : sum.reduced_stride)[*n] = stride[d];
    ++*n;
    *(kept[d] ? &sum.results : &sum.terms) *= extent[d];
  }
  sum.across = kept[2];
  sum.per_piece = RENGA_CUDA_TERMS_ACROSS;
  sum.pieces = (sum.terms + sum.per_piece - 1) / sum.per_piece;
  const RengaCudaOperand in[RENGA_CUDA_ARGUMENTS] = {full}, out[RENGA_CUDA_ARGUMENTS] = {dmask};
  return RengaCudaReduction(stream, &sum, NULL, in, out, parts);
}

static int FindMaskGrad(void *stream, const RengaCudaAttention *s, const AttentionCall *call,
                        int form, float *workspace, RengaCudaOperand dmask)
{
  const bool whole = s->mask_row != 0 && s->mask_column != 0;
  const int64_t tiles = ((s->keys + TILE - 1) / TILE) * ((s->queries + TILE - 1) / TILE);
  int64_t places = 1;
  for (int d = 0; d < s->dimensions; d++) places *= s->mask_stride[d] ? s->extent[d] : 1;
  const RengaCudaOperand room = {workspace, RENGA_CUDA_FLOAT32}, full = whole ? dmask : room;
  const int code = RengaCudaSayError(
      "MaskGradKernel", RENGA_LAUNCH(mask_grads[form], (unsigned)(places * tiles), TeamBlock(), 0,
                                     (cudaStream_t)stream, *s, *call, s->heads / places, full));
  if (code || whole) return code;
  const int64_t count = (places * s->queries * s->keys + 15) / 16 * 16;
  return SumMask(stream, s, places, full, workspace + count, dmask);
}

/* The gradients of queries, keys and values. */
static cudaError_t FindTensorGrads(cudaStream_t stream, const RengaCudaAttention *s,
                                   const AttentionCall *call, int form,
                                   const RengaCudaOperand out[])
{
  if (RengaCudaHasTensorAttention(s, form))
    return RengaCudaTensorAttendGrad(stream, s, call, form, out[0], out[1], out[2]);
  cudaError_t code = cudaSuccess;
  if (out[0].data)
    code = RENGA_LAUNCH(query_grads[form], TilesOf(s, s->queries), TeamBlock(), 0, stream, *s,
                        *call, out[0]);
  if (!code)
    code = RENGA_LAUNCH(key_grads[form], TilesOf(s, s->keys) / (unsigned)s->k.share, TeamBlock(), 0,
                        stream, *s, *call, out[1], out[2]);
  return code;
}

/* Fills the call's delta, shift and rest. powers: for kernels on tensor cores. */
static cudaError_t FindOfQueries(cudaStream_t stream, const RengaCudaAttention *s,
                                 const AttentionCall *call, RengaCudaOperand o, int form,
                                 bool powers)
{
  return RENGA_LAUNCH(of_queries[form], TeamGrid(false, s->heads * s->queries), TeamBlock(), 0,
                      stream, *s, *call, o, powers, (float *)call->delta, (float *)call->shift,
                      (float *)call->rest);
}

/* in: dy, q, k, v, o, log-sum-exp, (mask) */
RENGA_CUDA_RUN(RengaCudaAttendGrad)
{
  const RengaCudaAttention *s = (const RengaCudaAttention *)shape;
  const int form = FormFor(in[0], in[1], in[2], in[3], in[4], out[0], out[1], out[2]);
  const int64_t rows = s->heads * s->queries, room = (rows + 15) / 16 * 16;
  float *delta = (float *)workspace;
  cudaStream_t queue = (cudaStream_t)stream;
  const bool tensor = RengaCudaHasTensorAttention(s, form);
  AttentionCall call = CallOf(s, context, in + 1, in[6]);
  call.dy = in[0];
  call.whole = in[5];
  call.delta = delta;
  call.shift = delta + room;
  call.rest = delta + 2 * room;
  cudaError_t code = FindOfQueries(queue, s, &call, in[4], form, tensor);
  if (!code) code = FindTensorGrads(queue, s, &call, form, out);
  if (!code && out[3].data && tensor) code = FindOfQueries(queue, s, &call, in[4], form, false);
  if (code || !out[3].data) return RengaCudaSayError("QueryGradKernel", code);
  return FindMaskGrad(stream, s, &call, form, delta + 3 * room, out[3]);
}

/* in: mask; out: as cuDNN takes it, most of its rows */
RENGA_CUDA_RUN(RengaCudaPrepareMask)
{
  const RengaCudaAttention *s = (const RengaCudaAttention *)shape;
  int64_t rows = s->mask_row ? s->queries : 1;
  (void)context, (void)workspace;
  for (int d = 0; d < s->dimensions; d++) rows *= s->mask_stride[d] ? s->extent[d] : 1;
  return RengaCudaSayError("MaskKernel",
                           RENGA_LAUNCH(MaskKernel, TeamGrid(false, rows), TeamBlock(), 0,
                                        (cudaStream_t)stream, rows, s->keys, in[0],
                                        (float *)out[0].data, (float *)out[1].data));
}

/* in: most of the mask's rows; out: o, (log-sum-exp), both there */
RENGA_CUDA_RUN(RengaCudaFinishMasked)
{
  const RengaCudaAttention *s = (const RengaCudaAttention *)shape;
  (void)context, (void)workspace;
  return RengaCudaSayError("MaskedKernel",
                           RENGA_LAUNCH(MaskedKernel, TeamGrid(false, s->heads * s->queries),
                                        TeamBlock(), 0, (cudaStream_t)stream, *s,
                                        (const float *)in[0].data, out[0], out[1]));
}

/* in: q, k, v, mask as cuDNN takes it, most of its rows, log-sum-exp; out: that without the most */
RENGA_CUDA_RUN(RengaCudaPrepareSums)
{
  const RengaCudaAttention *s = (const RengaCudaAttention *)shape;
  AttentionCall call = CallOf(s, context, in, in[3]);
  (void)workspace;
  call.whole = in[5];
  return RengaCudaSayError("MaskedSumsKernel",
                           RENGA_LAUNCH(MaskedSumsKernel, TeamGrid(false, s->heads * s->queries),
                                        TeamBlock(), 0, (cudaStream_t)stream, *s, call,
                                        (const float *)in[4].data, (float *)out[0].data));
}
