/* Attention of 16-bit floats on tensor cores, forward and backward. A warp has 16 rows of its own,
   queries or keys; the block goes through the others in tiles, in ascending order (Dao,
   FlashAttention-2, 2023). Scores and sums are float32; weights, and gradients of scores, are
   rounded to the type before they are multiplied. Each sum has one owner. */
#include "attention.h"
#include "matrix.h"

/* What a block works in for heads of one width, at most: rows of shared memory are 16 bytes longer,
   so that matrices are read without conflicts. Others are there twice: while one tile is multiplied
   the next one comes. */
template <int WIDE> struct Sizes {
  enum { PITCH = WIDE + 8, CHUNKS = WIDE / 16, STRIPS = WIDE / 8, OTHERS = WIDE > 64 ? 32 : 64 };
  /* Gradients: more sums. */
  enum { GRAD_WARPS = WIDE > 64 ? 2 : 4, GRAD_OWN = 16 * GRAD_WARPS, GRAD_OTHERS = OTHERS / 2 };
};
enum { WARPS = 4, OWN = 16 * WARPS, EIGHT = 8 };

/* Rows row … row + N - 1 of head `number` of x [rows, width] to shared memory, 0 where there are
   none. The block has T threads. */
template <int WIDE, int N, int T>
static __device__ inline void LoadRows(uint16_t *tile, const RengaCudaOperand &x, int64_t number,
                                       int64_t rows, int64_t width, int64_t row)
{
  const uint16_t *from = (const uint16_t *)x.data + (number * rows + row) * width;
  const int left = rows - row < N ? (int)(rows - row) : N, w = (int)width;
  const int thread = threadIdx.y * WARP + threadIdx.x;
  static_assert(N * WIDE / EIGHT % T == 0, "each thread has as many");
  if (w % EIGHT == 0 && (uintptr_t)from % 16 == 0) {
#pragma unroll
    for (int k = 0; k < N * WIDE / EIGHT / T; k++) {
      const int i = thread + k * T, r = i / (WIDE / EIGHT), c = i % (WIDE / EIGHT) * EIGHT;
      const bool there = r < left && c < w;
      CopySixteen(tile + r * Sizes<WIDE>::PITCH + c, there ? from + r * w + c : from, there);
    }
    return;
  }
  for (int i = thread; i < N * WIDE; i += T) {
    const int r = i / WIDE, c = i % WIDE;
    tile[r * Sizes<WIDE>::PITCH + c] = r < left && c < w ? from[r * w + c] : 0;
  }
}

/* Where sum e of strip c of a warp's is. */
static __device__ inline int RowOf(int e)
{
  return threadIdx.x / 4 + e / 2 * 8;
}

static __device__ inline int ColumnOf(int c, int e)
{
  return 8 * c + threadIdx.x % 4 * 2 + e % 2;
}

/* 16 rows as left factors. */
template <int WIDE> static __device__ inline void LoadOwn(uint32_t own[][4], const uint16_t *rows)
{
  const int lane = threadIdx.x;
#pragma unroll
  for (int k = 0; k < Sizes<WIDE>::CHUNKS; k++)
    LoadMatrices<false>(own[k], rows + lane % 16 * Sizes<WIDE>::PITCH + 16 * k + lane / 16 * EIGHT);
}

/* dot: own rows with N others, over their width. */
template <class T, int WIDE, int N>
static __device__ inline void DotRows(float dot[][4], const uint32_t own[][4],
                                      const uint16_t *others)
{
  const int lane = threadIdx.x;
#pragma unroll
  for (int j = 0; j < N / 8; j++)
    for (int e = 0; e < 4; e++) dot[j][e] = 0;
#pragma unroll
  for (int k = 0; k < Sizes<WIDE>::CHUNKS; k++)
#pragma unroll
    for (int j = 0; j < N / 16; j++) {
      const int other = 16 * j + lane / 16 * 8 + lane % 8, column = 16 * k + lane / 8 % 2 * 8;
      uint32_t right[4];
      LoadMatrices<false>(right, others + other * Sizes<WIDE>::PITCH + column);
      Multiply<T>(dot[2 * j], own[k], right);
      Multiply<T>(dot[2 * j + 1], own[k], right + 2);
    }
}

/* The same of the warp's own rows of a block's. */
template <class T, int WIDE, int N>
static __device__ inline void DotOwn(float dot[][4], const uint16_t *rows, const uint16_t *others)
{
  uint32_t own[Sizes<WIDE>::CHUNKS][4];
  LoadOwn<WIDE>(own, rows + threadIdx.y * 16 * Sizes<WIDE>::PITCH);
  DotRows<T, WIDE, N>(dot, own, others);
}

/* sum[own rows, width] += weights[own rows, N others] x others[N, width] */
template <class T, int WIDE, int N>
static __device__ inline void AddRows(float sum[][4], const float weight[][4],
                                      const uint16_t *others)
{
  const int lane = threadIdx.x;
#pragma unroll
  for (int k = 0; k < N / 16; k++) {
    const float *one = weight[2 * k], *next = weight[2 * k + 1];
    const uint32_t left[4] = {PackTwo<T>(one[0], one[1]), PackTwo<T>(one[2], one[3]),
                              PackTwo<T>(next[0], next[1]), PackTwo<T>(next[2], next[3])};
#pragma unroll
    for (int j = 0; j < WIDE / 16; j++) {
      uint32_t right[4];
      LoadMatrices<true>(right, others + (16 * k + lane % 16) * Sizes<WIDE>::PITCH + 16 * j +
                                    lane / 16 * 8);
      Multiply<T>(sum[2 * j], left, right);
      Multiply<T>(sum[2 * j + 1], left, right + 2);
    }
  }
}

/* y[own rows, width] = factor[half] sum */
template <class T, int WIDE>
static __device__ inline void StoreRows(const RengaCudaOperand &y_, int64_t number, int64_t rows,
                                        int64_t width, int64_t row, const float sum[][4],
                                        const float factor[2])
{
  T *y = (T *)y_.data + number * rows * width;
  const bool pairs = width % 2 == 0;
  for (int h = 0; h < 2; h++) {
    const int64_t r = row + RowOf(2 * h);
    if (r >= rows) continue;
#pragma unroll
    for (int j = 0; j < Sizes<WIDE>::STRIPS; j++) {
      const int c = ColumnOf(j, 0);
      const float one = sum[j][2 * h] * factor[h], next = sum[j][2 * h + 1] * factor[h];
      T *to = y + r * width + c;
      if (pairs && c < width)
        *(uint32_t *)to = PackTwo<T>(one, next);
      else if (c < width) {
        to[0] = Rounded<T>(one);
        if (c + 1 < width) to[1] = Rounded<T>(next);
      }
    }
  }
}

/* The score of a dot product, in powers of 2, -infinity where the query does not see the key. */
static __device__ inline float ScoreOf(const RengaCudaAttention &s, const AttentionCall &call,
                                       const AttentionHead &head, int64_t i, int64_t j, float dot)
{
  if (!SeesKey(s, i, j)) return -INFINITY;
  const Values<void> mask(call.mask);
  const int64_t at = head.mask + i * s.mask_row + j * s.mask_column;
  return ScoreInPowers(s.scale * dot + (mask.data ? mask[at] : 0));
}

/* Do all of these queries see all of these keys, and does no mask say more? */
static __device__ inline bool IsPlain(const RengaCudaAttention &s, const AttentionCall &call,
                                      int64_t query, int queries, int64_t key, int keys)
{
  return !call.mask.data && query + queries <= s.queries && key + keys <= s.keys &&
         (!s.causal || key + keys - 1 <= query);
}

/* Dots of the warp's own rows, from mine on, with N others become scores. */
template <int N, bool KEYS>
static __device__ inline void FindScores(const RengaCudaAttention &s, const AttentionCall &call,
                                         const AttentionHead &head, int64_t mine, int64_t other,
                                         float dot[][4])
{
  const bool plain =
      KEYS ? IsPlain(s, call, other, N, mine, 16) : IsPlain(s, call, mine, 16, other, N);
  const float scale = s.scale * LOG2_E;
  if (plain) {
#pragma unroll
    for (int c = 0; c < N / 8; c++)
#pragma unroll
      for (int e = 0; e < 4; e++) dot[c][e] *= scale;
    return;
  }
#pragma unroll
  for (int c = 0; c < N / 8; c++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int64_t row = mine + RowOf(e), column = other + ColumnOf(c, e);
      dot[c][e] = ScoreOf(s, call, head, KEYS ? column : row, KEYS ? row : column, dot[c][e]);
    }
}

template <class J> static __device__ inline float JoinFour(float value)
{
  value = J::Join(value, __shfl_xor_sync(EVERY_LANE, value, 1));
  return J::Join(value, __shfl_xor_sync(EVERY_LANE, value, 2));
}

/* Dots become weights, before they are divided by their sum; sums so far fade. */
template <int N, int STRIPS>
static __device__ inline void Weigh(float dot[][4], float most[2], float whole[2], float sum[][4])
{
  for (int h = 0; h < 2; h++) {
    float now = -INFINITY;
#pragma unroll
    for (int j = 0; j < N / 8; j++)
      for (int e = 2 * h; e < 2 * h + 2; e++) now = TakeMost::Join(now, dot[j][e]);
    now = TakeMost::Join(most[h], JoinFour<TakeMost>(now));
    const float shift = ShiftOf(now);
    const float faded = most[h] > -INFINITY ? exp2f(ShiftOf(most[h]) - shift) : 0;
    most[h] = now;
    whole[h] *= faded;
#pragma unroll
    for (int j = 0; j < N / 8; j++)
      for (int e = 2 * h; e < 2 * h + 2; e++) {
        dot[j][e] = exp2f(dot[j][e] - shift);
        whole[h] += dot[j][e];
      }
#pragma unroll
    for (int j = 0; j < STRIPS; j++)
      for (int e = 2 * h; e < 2 * h + 2; e++) sum[j][e] *= faded;
  }
}

/* What sums are multiplied with at the end, and the log-sum-exp of the own rows. */
static __device__ inline void FinishSums(const RengaCudaAttention &s, const Values<void> &whole_of,
                                         int64_t number, int64_t query, const float most[2],
                                         float whole[2], float inverse[2])
{
  for (int h = 0; h < 2; h++) {
    const int64_t i = query + RowOf(2 * h);
    whole[h] = JoinFour<AddUp>(whole[h]);
    inverse[h] = whole[h] > 0 ? 1 / whole[h] : 0; /* 0: every key is masked */
    if (whole_of.data && threadIdx.x % 4 == 0 && i < s.queries)
      whole_of.Put(number * s.queries + i, NaturalOf(most[h]) + logf(whole[h]));
  }
}

template <int N>
static __device__ inline void DropSome(const RengaCudaAttention &s, const AttentionCall &call,
                                       const AttentionHead &head, int64_t query, int64_t key,
                                       float weight[][4])
{
#pragma unroll
  for (int c = 0; c < N / 8; c++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (weight[c][e] > 0)
        weight[c][e] *= KeepFactor(s, call, head, query + RowOf(e), key + ColumnOf(c, e));
}

/* A block takes 64 queries of a head, the last ones, which see most, first. */
template <class T, int WIDE>
__global__ void __launch_bounds__(WARP *WARPS)
    TensorAttentionKernel(RengaCudaAttention s, AttentionCall call, RengaCudaOperand y,
                          RengaCudaOperand whole_of)
{
  typedef Sizes<WIDE> Z;
  enum { N = Z::OTHERS, BLOCK = WARP * WARPS };
  __shared__ __align__(16) uint16_t keys[(N + OWN) * Z::PITCH], values[2 * N * Z::PITCH];
  uint16_t *const queries = keys + N * Z::PITCH; /* until the second tile comes */
  const int64_t blocks = (s.queries + OWN - 1) / OWN;
  const int64_t first = (blocks - 1 - blockIdx.x % blocks) * OWN;
  const int64_t query = first + threadIdx.y * 16, last = first + OWN;
  const AttentionHead head = HeadOf(s, blockIdx.x / blocks, call.sample);
  const int64_t end = s.causal && last < s.keys ? last : s.keys;
  uint32_t own[Z::CHUNKS][4];
  float sum[Z::STRIPS][4] = {}, most[2] = {-INFINITY, -INFINITY}, whole[2] = {}, inverse[2];
  LoadRows<WIDE, OWN, BLOCK>(queries, call.q, head.number, s.queries, s.width, first);
  LoadRows<WIDE, N, BLOCK>(keys, call.k, head.number, s.keys, s.width, 0);
  LoadRows<WIDE, N, BLOCK>(values, call.v, head.number, s.keys, s.values, 0);
  WaitForCopies();
  __syncthreads();
  LoadOwn<WIDE>(own, queries + threadIdx.y * 16 * Z::PITCH);
  int side = 0;
  for (int64_t key = 0; key < end; key += N, side = N * Z::PITCH - side) {
    float dot[N / 8][4];
    WaitForCopies();
    __syncthreads(); /* this tile is there, and the one before was read */
    if (key + N < end) {
      const int next = N * Z::PITCH - side;
      LoadRows<WIDE, N, BLOCK>(keys + next, call.k, head.number, s.keys, s.width, key + N);
      LoadRows<WIDE, N, BLOCK>(values + next, call.v, head.number, s.keys, s.values, key + N);
    }
    DotRows<T, WIDE, N>(dot, own, keys + side);
    FindScores<N, false>(s, call, head, query, key, dot);
    Weigh<N, Z::STRIPS>(dot, most, whole, sum);
    if (call.drops) DropSome<N>(s, call, head, query, key, dot);
    AddRows<T, WIDE, N>(sum, dot, values + side);
  }
  FinishSums(s, Values<void>(whole_of), head.number, query, most, whole, inverse);
  StoreRows<T, WIDE>(y, head.number, s.queries, s.values, query, sum, inverse);
}

/* p is 2^(score - shift - rest); its gradients are lessened by delta. */
struct QueryOfGrad {
  float shift, rest, delta;
};

/* p: scores of own and other rows, ds: dot products of output gradients and values. They become the
   probability after dropout and the gradient of the dot product, scale p (m dp - delta), where m is
   the factor of dropout. of: queries, for each half of the own rows, or each of the others. */
template <int N, bool KEYS>
static __device__ inline void FindGradients(const RengaCudaAttention &s, const AttentionCall &call,
                                            const AttentionHead &head, int64_t mine, int64_t other,
                                            const QueryOfGrad of[], float p[][4], float ds[][4])
{
#pragma unroll
  for (int c = 0; c < N / 8; c++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int64_t row = mine + RowOf(e), column = other + ColumnOf(c, e);
      const int query = KEYS ? ColumnOf(c, e) : e / 2;
      const float keep =
          call.drops ? KeepFactor(s, call, head, KEYS ? column : row, KEYS ? row : column) : 1;
      const bool seen = p[c][e] > -INFINITY;
      const float weight = seen ? exp2f(p[c][e] - of[query].shift - of[query].rest) : 0;
      ds[c][e] = seen ? s.scale * weight * (ds[c][e] * keep - of[query].delta) : 0;
      p[c][e] = weight * keep;
    }
}

/* Queries and the gradients of their outputs, or keys and values. */
template <int WIDE, int N, int T, bool QUERIES>
static __device__ inline void LoadPair(uint16_t tile[2][N * Sizes<WIDE>::PITCH],
                                       const RengaCudaAttention &s, const AttentionCall &call,
                                       int64_t number, int64_t row)
{
  const int64_t rows = QUERIES ? s.queries : s.keys;
  LoadRows<WIDE, N, T>(tile[0], QUERIES ? call.q : call.k, number, rows, s.width, row);
  LoadRows<WIDE, N, T>(tile[1], QUERIES ? call.dy : call.v, number, rows, s.values, row);
}

static __device__ inline QueryOfGrad LoadQuery(const RengaCudaAttention &s,
                                               const AttentionCall &call, int64_t number, int64_t i)
{
  if (i >= s.queries) return QueryOfGrad();
  const int64_t row = number * s.queries + i;
  return {call.shift[row], call.rest[row], call.delta[row]};
}

/* A block takes keys of a head, for the gradients of keys and values, or else queries. */
template <class T, int WIDE, bool KEYS>
__global__ void __launch_bounds__(WARP *Sizes<WIDE>::GRAD_WARPS)
    TensorGradKernel(RengaCudaAttention s, AttentionCall call, RengaCudaOperand dx,
                     RengaCudaOperand dv)
{
  typedef Sizes<WIDE> Z;
  enum { N = Z::GRAD_OTHERS, STRIPS = KEYS ? Z::STRIPS : 1, BLOCK = WARP * Z::GRAD_WARPS };
  __shared__ __align__(16) uint16_t own[2][Z::GRAD_OWN * Z::PITCH], others[2][2][N * Z::PITCH];
  __shared__ QueryOfGrad others_of[2][N]; /* the queries, where they are the others */
  const int64_t n_own = KEYS ? s.keys : s.queries, n_others = KEYS ? s.queries : s.keys;
  const int64_t blocks = (n_own + Z::GRAD_OWN - 1) / Z::GRAD_OWN, place = blockIdx.x % blocks;
  const int64_t first = (KEYS ? place : blocks - 1 - place) * Z::GRAD_OWN;
  const AttentionHead head = HeadOf(s, blockIdx.x / blocks, call.sample);
  const int64_t mine = first + threadIdx.y * 16, last = first + Z::GRAD_OWN;
  const int64_t begin = KEYS && s.causal ? first : 0;
  const int64_t end = !KEYS && s.causal && last < n_others ? last : n_others;
  float sum[Z::STRIPS][4] = {}, of_values[STRIPS][4] = {};
  QueryOfGrad own_of[2] = {};
  const auto load = [&](int64_t other, int side) {
    const int t = threadIdx.y * WARP + threadIdx.x;
    LoadPair<WIDE, N, BLOCK, KEYS>(others[side], s, call, head.number, other);
    if (KEYS && t < N) others_of[side][t] = LoadQuery(s, call, head.number, other + t);
  };
  LoadPair<WIDE, Z::GRAD_OWN, BLOCK, !KEYS>(own, s, call, head.number, first);
  for (int h = 0; h < 2 && !KEYS; h++)
    own_of[h] = LoadQuery(s, call, head.number, mine + RowOf(2 * h));
  if (begin < end) load(begin, 0);
  int side = 0;
  for (int64_t other = begin; other < end; other += N, side = 1 - side) {
    float p[N / 8][4], ds[N / 8][4];
    WaitForCopies();
    __syncthreads(); /* this tile is there, and the one before was read */
    if (other + N < end) load(other + N, 1 - side);
    DotOwn<T, WIDE, N>(p, own[0], others[side][0]);
    DotOwn<T, WIDE, N>(ds, own[1], others[side][1]);
    FindScores<N, KEYS>(s, call, head, mine, other, p);
    FindGradients<N, KEYS>(s, call, head, mine, other, KEYS ? others_of[side] : own_of, p, ds);
    if (KEYS) AddRows<T, WIDE, N>(of_values, p, others[side][1]);
    AddRows<T, WIDE, N>(sum, ds, others[side][0]);
  }
  const float one[2] = {1, 1};
  StoreRows<T, WIDE>(dx, head.number, n_own, s.width, mine, sum, one);
  if (KEYS) StoreRows<T, WIDE>(dv, head.number, n_own, s.values, mine, of_values, one);
}

bool RengaCudaHasTensorAttention(const RengaCudaAttention *s, int form)
{
  return RengaCudaCapability >= MATRIX_CAPABILITY &&
         (form == RENGA_CUDA_BFLOAT16 || form == RENGA_CUDA_FLOAT16) && s->width <= 128 &&
         s->values <= 128;
}

static bool IsWide(const RengaCudaAttention *s)
{
  return s->width > 64 || s->values > 64;
}

static unsigned BlocksOf(const RengaCudaAttention *s, int64_t rows, int own)
{
  return (unsigned)(s->heads * ((rows + own - 1) / own));
}

cudaError_t RengaCudaTensorAttend(cudaStream_t stream, const RengaCudaAttention *s,
                                  const AttentionCall *call, int form, RengaCudaOperand y,
                                  RengaCudaOperand whole_of)
{
  typedef void (*Kernel)(RengaCudaAttention, AttentionCall, RengaCudaOperand, RengaCudaOperand);
  static const Kernel kernels[2][2] = {
      {TensorAttentionKernel<__nv_bfloat16, 64>, TensorAttentionKernel<__nv_bfloat16, 128>},
      {TensorAttentionKernel<__half, 64>, TensorAttentionKernel<__half, 128>}};
  const Kernel kernel = kernels[form == RENGA_CUDA_FLOAT16][IsWide(s)];
  return RENGA_LAUNCH(kernel, BlocksOf(s, s->queries, OWN), dim3(WARP, WARPS), 0, stream, *s, *call,
                      y, whole_of);
}

template <class T, int WIDE>
static cudaError_t LaunchGradients(cudaStream_t stream, const RengaCudaAttention *s,
                                   const AttentionCall *call, RengaCudaOperand dq,
                                   RengaCudaOperand dk, RengaCudaOperand dv)
{
  const dim3 block(WARP, Sizes<WIDE>::GRAD_WARPS);
  const int own = Sizes<WIDE>::GRAD_OWN;
  const RengaCudaOperand none = {NULL, RENGA_CUDA_FLOAT32};
  cudaError_t code = cudaSuccess;
  if (dq.data)
    code = RENGA_LAUNCH((TensorGradKernel<T, WIDE, false>), BlocksOf(s, s->queries, own), block, 0,
                        stream, *s, *call, dq, none);
  if (!code)
    code = RENGA_LAUNCH((TensorGradKernel<T, WIDE, true>), BlocksOf(s, s->keys, own), block, 0,
                        stream, *s, *call, dk, dv);
  return code;
}

cudaError_t RengaCudaTensorAttendGrad(cudaStream_t stream, const RengaCudaAttention *s,
                                      const AttentionCall *call, int form, RengaCudaOperand dq,
                                      RengaCudaOperand dk, RengaCudaOperand dv)
{
  if (form == RENGA_CUDA_BFLOAT16)
    return IsWide(s) ? LaunchGradients<__nv_bfloat16, 128>(stream, s, call, dq, dk, dv)
                     : LaunchGradients<__nv_bfloat16, 64>(stream, s, call, dq, dk, dv);
  return IsWide(s) ? LaunchGradients<__half, 128>(stream, s, call, dq, dk, dv)
                   : LaunchGradients<__half, 64>(stream, s, call, dq, dk, dv);
}
