/* Attention of 16-bit floats on tensor cores, forward and backward. A warp has 16 rows of its own,
   queries or keys; the block goes through the others in tiles, in ascending order (Dao,
   FlashAttention-2, 2023), but not those that no row of it sees. Scores and sums are float32;
   weights, and gradients of scores, are rounded to the type before they are multiplied. Each sum
   has one owner. Rows and columns are 32-bit numbers: HasTensorAttention says of what. */
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
/* What a kernel knows of masks. PLAIN: there is none; ROW: one of one row, of all queries, or none;
   DROPS: there may be dropout, too; EACH: all that there is. */
enum Masking { PLAIN, ROW, DROPS, EACH };
/* Blocks that an SM shall have at a time, of heads of a width: what registers they leave. */
#define RENGA_BLOCKS(WIDE, MASK) (WIDE > 64 ? 2 : MASK >= DROPS ? 3 : 4)
#define RENGA_GRAD_BLOCKS(WIDE, MASK, SHARED)                                                      \
  (WIDE > 64 ? 4 : 4 - (MASK >= DROPS ? 1 : 0) - (SHARED ? 1 : 0))
enum { WARPS = 4, OWN = 16 * WARPS, EIGHT = 8, MOST_ROWS = 1 << 30 };

static __device__ inline int ThreadOfBlock()
{
  return (int)(threadIdx.y * WARP + threadIdx.x);
}

/* A head's rows of an operand. mine: what this thread copies of the first ones, in tiles of WIDE
   columns; sixteen: each row begins at a multiple of 16 bytes. */
struct HeadRows {
  const uint16_t *mine;
  int rows, width, pitch;
  bool sixteen;
};

template <int WIDE>
static __device__ inline HeadRows RowsOf(const RengaCudaAttention &s, const RengaCudaOperand &x,
                                         const RengaCudaHeads &heads, int64_t number, int64_t rows,
                                         int64_t width)
{
  enum { ACROSS = WIDE / EIGHT };
  const uint16_t *at = (const uint16_t *)x.data + FirstOf(s, heads, number);
  const int pitch = (int)heads.row, thread = ThreadOfBlock();
  return {at + thread / ACROSS * pitch + thread % ACROSS * EIGHT, (int)rows, (int)width, pitch,
          (width | pitch) % EIGHT == 0 && (uintptr_t)at % 16 == 0};
}

/* Rows row … row + N - 1 of x to shared memory, 0 where there are none. The block has T threads. */
template <int WIDE, int N, int T>
static __device__ inline void LoadRows(uint16_t *tile, const HeadRows &x, int row)
{
  enum { ACROSS = WIDE / EIGHT };
  static_assert(N * ACROSS % T == 0 && T % ACROSS == 0, "each thread has as many, of one column");
  const uint16_t *from = x.mine + (int64_t)row * x.pitch;
  const int left = x.rows - row, thread = ThreadOfBlock();
  const int first_row = thread / ACROSS, first_column = thread % ACROSS * EIGHT;
  if (x.sixteen) {
    const int mine = first_column < x.width ? left - first_row : 0;
    tile += first_row * Sizes<WIDE>::PITCH + first_column;
#pragma unroll
    for (int k = 0; k < N; k += T / ACROSS)
      CopySixteen(tile + k * Sizes<WIDE>::PITCH, from + k * x.pitch, k < mine);
    return;
  }
  from -= first_row * x.pitch + first_column;
#pragma unroll 1
  for (int i = thread; i < N * WIDE; i += T) {
    const int r = i / WIDE, c = i % WIDE;
    tile[r * Sizes<WIDE>::PITCH + c] = r < left && c < x.width ? from[r * x.pitch + c] : 0;
  }
}

/* Of queries and output gradients, or of keys and values. */
struct RowPair {
  HeadRows x, y;
};

template <int WIDE>
static __device__ inline RowPair QueryRowsOf(const RengaCudaAttention &s, const AttentionCall &call,
                                             int64_t number)
{
  return {RowsOf<WIDE>(s, call.q, s.q, number, s.queries, s.width),
          RowsOf<WIDE>(s, call.dy, s.o, number, s.queries, s.values)};
}

template <int WIDE>
static __device__ inline RowPair KeyRowsOf(const RengaCudaAttention &s, const AttentionCall &call,
                                           int64_t number)
{
  return {RowsOf<WIDE>(s, call.k, s.k, number, s.keys, s.width),
          RowsOf<WIDE>(s, call.v, s.v, number, s.keys, s.values)};
}

template <int WIDE, int N, int T>
static __device__ inline void LoadPair(uint16_t *x, uint16_t *y, const RowPair &pair, int row)
{
  LoadRows<WIDE, N, T>(x, pair.x, row);
  LoadRows<WIDE, N, T>(y, pair.y, row);
}

/* Where sum e of strip c of a warp's is. */
static __device__ inline int RowOf(int e)
{
  return (int)threadIdx.x / 4 + e / 2 * 8;
}

static __device__ inline int ColumnOf(int c, int e)
{
  return 8 * c + (int)threadIdx.x % 4 * 2 + e % 2;
}

/* 16 columns, from 16 k on, of 16 rows as left factors. */
template <int WIDE>
static __device__ inline void LoadOwn(uint32_t own[4], const uint16_t *rows, int k)
{
  const int lane = threadIdx.x;
  LoadMatrices<false>(own, rows + lane % 16 * Sizes<WIDE>::PITCH + 16 * k + lane / 16 * EIGHT);
}

/* dot += own with these columns of N others. */
template <class T, int WIDE, int N>
static __device__ inline void AddDots(float dot[][4], const uint32_t own[4], const uint16_t *others,
                                      int k)
{
  const int lane = threadIdx.x;
#pragma unroll
  for (int j = 0; j < N / 16; j++) {
    const int other = 16 * j + lane / 16 * 8 + lane % 8, column = 16 * k + lane / 8 % 2 * 8;
    uint32_t right[4];
    LoadMatrices<false>(right, others + other * Sizes<WIDE>::PITCH + column);
    Multiply<T>(dot[2 * j], own, right);
    Multiply<T>(dot[2 * j + 1], own, right + 2);
  }
}

/* dot += the warp's own rows of a block's, or what was loaded of them, with N others, over their
   width. */
template <class T, int WIDE, int N>
static __device__ inline void DotRows(float dot[][4], const uint16_t *rows,
                                      const uint32_t loaded[][4], const uint16_t *others)
{
#pragma unroll
  for (int k = 0; k < Sizes<WIDE>::CHUNKS; k++) {
    uint32_t own[4];
    if (!loaded) LoadOwn<WIDE>(own, rows + threadIdx.y * 16 * Sizes<WIDE>::PITCH, k);
    AddDots<T, WIDE, N>(dot, loaded ? loaded[k] : own, others, k);
  }
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
static __device__ inline void
StoreRows(const RengaCudaAttention &s, const RengaCudaOperand &y, const RengaCudaHeads &heads,
          int64_t number, int rows, int width, int row, const float sum[][4], const float factor[2])
{
  T *const at = (T *)y.data + FirstOf(s, heads, number);
  const int pitch = (int)heads.row;
  const bool pairs = (width | pitch) % 2 == 0 && (uintptr_t)at % 4 == 0;
  for (int h = 0; h < 2; h++) {
    const int r = row + RowOf(2 * h);
    if (r >= rows) continue;
    T *to = at + (int64_t)r * pitch;
#pragma unroll
    for (int j = 0; j < Sizes<WIDE>::STRIPS; j++) {
      const int c = ColumnOf(j, 0);
      const float one = sum[j][2 * h] * factor[h], next = sum[j][2 * h + 1] * factor[h];
      if (pairs && c < width)
        *(uint32_t *)(to + c) = PackTwo<T>(one, next);
      else if (c < width) {
        to[c] = Rounded<T>(one);
        if (c + 1 < width) to[c + 1] = Rounded<T>(next);
      }
    }
  }
}

/* Own rows see others: queries the keys below `to`, keys the queries from `from` on. */
template <bool KEYS>
static __device__ inline bool SeesAll(const RengaCudaAttention &s, int mine, int other, int n)
{
  if (KEYS) return !s.causal || other >= mine + 15;
  return other + n <= (int)s.keys && (!s.causal || other + n - 1 <= mine);
}

template <bool KEYS>
static __device__ inline bool SeesSome(const RengaCudaAttention &s, int mine, int other, int n)
{
  if (mine >= (int)(KEYS ? s.keys : s.queries)) return false;
  return !s.causal || (KEYS ? other + n > mine : other <= mine + 15);
}

/* What own rows do not see is -infinity. */
template <int N, bool KEYS>
static __device__ inline void HideUnseen(const RengaCudaAttention &s, int mine, int other,
                                         float dot[][4])
{
  for (int h = 0; h < 2; h++) {
    const int own = mine + RowOf(2 * h) - other, end = (int)s.keys - other;
    const int edge = KEYS ? own : s.causal && own + 1 < end ? own + 1 : end;
#pragma unroll
    for (int c = 0; c < N / 8; c++)
      for (int e = 2 * h; e < 2 * h + 2; e++)
        if (KEYS == (ColumnOf(c, e) < edge)) dot[c][e] = -INFINITY;
  }
}

/* dot: the numbers of a mask of which own rows and others have places of their own, for rows that
   are there. */
template <class M, int N, bool KEYS>
static __device__ inline void LoadMask(const RengaCudaAttention &s, const AttentionCall &call,
                                       const AttentionHead &head, int mine, int other,
                                       float dot[][4])
{
  const int64_t by_own = KEYS ? s.mask_column : s.mask_row;
  const int64_t by_other = KEYS ? s.mask_row : s.mask_column;
  const M *mask = (const M *)call.mask.data + head.mask + other * by_other;
  const int others = (int)(KEYS ? s.queries : s.keys) - other;
  for (int h = 0; h < 2; h++) {
    const int own = mine + RowOf(2 * h);
    const bool there = own < (int)(KEYS ? s.keys : s.queries);
    const M *row = mask + own * by_own;
#pragma unroll
    for (int c = 0; c < N / 8; c++)
      for (int e = 2 * h; e < 2 * h + 2; e++) {
        const int column = ColumnOf(c, e);
        dot[c][e] = there && column < others ? MaskOfDot(s, Widened(row[column * by_other])) : 0;
      }
  }
}

/* The number of a mask of one row for a key. */
static __device__ inline float MaskRowAt(const RengaCudaAttention &s, const AttentionCall &call,
                                         const AttentionHead &head, int key)
{
  if (!call.mask.data || key >= (int)s.keys) return 0;
  return MaskOfDot(s, Values<void>(call.mask)[head.mask + key * s.mask_column]);
}

/* What dots of the warp's own rows, from mine on, with N others begin with. row: the mask's one
   row, of the others, or where own rows are KEYS of these. */
template <int N, bool KEYS, int MASK>
static __device__ inline void BeginDots(const RengaCudaAttention &s, const AttentionCall &call,
                                        const AttentionHead &head, int mine, int other,
                                        const float row[], float dot[][4])
{
  if (MASK != EACH || !call.mask.data) {
#pragma unroll
    for (int c = 0; c < N / 8; c++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        dot[c][e] = MASK == ROW || MASK == DROPS ? row[KEYS ? RowOf(e) : ColumnOf(c, e)] : 0;
  } else if (call.mask.type == RENGA_CUDA_FLOAT32) {
    LoadMask<float, N, KEYS>(s, call, head, mine, other, dot);
  } else if (call.mask.type == RENGA_CUDA_BFLOAT16) {
    LoadMask<__nv_bfloat16, N, KEYS>(s, call, head, mine, other, dot);
  } else {
    LoadMask<__half, N, KEYS>(s, call, head, mine, other, dot);
  }
}

static __device__ inline float MostOfFour(float value)
{
  value = fmaxf(value, __shfl_xor_sync(EVERY_LANE, value, 1));
  return fmaxf(value, __shfl_xor_sync(EVERY_LANE, value, 2));
}

static __device__ inline float SumOfFour(float value)
{
  value += __shfl_xor_sync(EVERY_LANE, value, 1);
  return value + __shfl_xor_sync(EVERY_LANE, value, 2);
}

/* Dots, whose scores in powers of 2 are factor times as large, become weights, before they are
   divided by their sum; sums so far fade. A maximum passes over what is no number, which the sums
   then are. A mask's large numbers would not cancel in one operation. */
template <int N, int STRIPS, bool MASKED>
static __device__ inline void Weigh(float factor, float dot[][4], float most[2], float whole[2],
                                    float sum[][4])
{
  for (int h = 0; h < 2; h++) {
    float now = -INFINITY;
#pragma unroll
    for (int j = 0; j < N / 8; j++) now = fmaxf(now, fmaxf(dot[j][2 * h], dot[j][2 * h + 1]));
    now = fmaxf(most[h], MostOfFour(now));
    const float shift = ShiftOf(now), score = shift * factor;
    const float faded = PowerOfTwo((most[h] - shift) * factor);
    most[h] = now;
    whole[h] *= faded;
#pragma unroll
    for (int j = 0; j < N / 8; j++)
      for (int e = 2 * h; e < 2 * h + 2; e++) {
        dot[j][e] =
            PowerOfTwo(MASKED ? (dot[j][e] - shift) * factor : fmaf(dot[j][e], factor, -score));
        whole[h] += dot[j][e];
      }
#pragma unroll
    for (int j = 0; j < STRIPS; j++)
      for (int e = 2 * h; e < 2 * h + 2; e++) sum[j][e] *= faded;
  }
}

/* What sums are multiplied with at the end, and the log-sum-exp of the own rows. */
static __device__ inline void FinishSums(const RengaCudaAttention &s, const Values<void> &whole_of,
                                         int64_t number, int query, const float most[2],
                                         float whole[2], float inverse[2])
{
  for (int h = 0; h < 2; h++) {
    const int i = query + RowOf(2 * h);
    whole[h] = SumOfFour(whole[h]);
    inverse[h] = whole[h] > 0 ? 1 / whole[h] : 0; /* 0: every key is masked */
    if (whole_of.data && threadIdx.x % 4 == 0 && i < (int)s.queries)
      whole_of.Put(number * s.queries + i, ScoreOfMost(s, most[h]) + logf(whole[h]));
  }
}

/* Which weights dropout keeps, of own rows and N others: bit 4 c + e is of sum e of strip c. A
   loop, so that its numbers take few registers. */
template <int N, bool KEYS>
static __device__ inline uint32_t FindKept(const RengaCudaAttention &s, const AttentionCall &call,
                                           const AttentionHead &head, int mine, int other)
{
  uint32_t kept = 0;
#pragma unroll 1
  for (int k = 0; k < N / 2; k++) {
    const int row = mine + RowOf(k % 4), column = other + ColumnOf(k / 4, k % 4);
    const float keep = KeepFactor(s, call, head, KEYS ? column : row, KEYS ? row : column);
    kept |= (uint32_t)(keep > 0) << k;
  }
  return kept;
}

/* 0 or 1 / (1 - ratio) */
static __device__ inline float KeepOf(const RengaCudaAttention &s, uint32_t kept, int c, int e)
{
  return kept >> (4 * c + e) & 1 ? 1 / (1 - s.ratio) : 0;
}

template <int N>
static __device__ inline void DropSome(const RengaCudaAttention &s, uint32_t kept,
                                       float weight[][4])
{
#pragma unroll
  for (int c = 0; c < N / 8; c++)
#pragma unroll
    for (int e = 0; e < 4; e++) weight[c][e] *= KeepOf(s, kept, c, e);
}

/* Which heads this block has, of which it is block `place`. */
static __device__ inline unsigned HeadsOfBlock(int blocks, int *place)
{
  const unsigned number = blockIdx.x / (unsigned)blocks;
  *place = (int)(blockIdx.x - number * (unsigned)blocks);
  return number;
}

/* head: of shared memory, so that it takes no registers, where a mask or dropout needs it. */
template <int MASK>
static __device__ inline void TakeHead(const RengaCudaAttention &s, int64_t number, int64_t sample,
                                       AttentionHead *head)
{
  if (MASK == PLAIN) return;
  if (ThreadOfBlock() == 0) *head = HeadOf(s, number, sample);
  __syncthreads();
}

/* A block takes 64 queries of a head, the last ones, which see most, first. */
template <class T, int WIDE, int MASK>
__global__ void __launch_bounds__(WARP *WARPS, RENGA_BLOCKS(WIDE, MASK))
    TensorAttentionKernel(RengaCudaAttention s, AttentionCall call, RengaCudaOperand y,
                          RengaCudaOperand whole_of)
{
  typedef Sizes<WIDE> Z;
  enum { N = Z::OTHERS, BLOCK = WARP * WARPS, HAS_ROW = MASK == ROW || MASK == DROPS };
  enum { KEPT = WIDE <= 64, ROOM = KEPT ? 2 * N + OWN : N + OWN };
  __shared__ __align__(16) uint16_t keys[ROOM * Z::PITCH], values[2 * N * Z::PITCH];
  __shared__ float mask_row[2][HAS_ROW ? (int)N : 1];
  /* Queries stay there, or registers have them before the second tile comes. */
  uint16_t *const queries = keys + (KEPT ? 2 * N : N) * Z::PITCH;
  __shared__ AttentionHead head;
  int place;
  const int blocks = ((int)s.queries + OWN - 1) / OWN;
  const int64_t number = HeadsOfBlock(blocks, &place);
  TakeHead<MASK>(s, number, call.sample, &head);
  const int first = (blocks - 1 - place) * OWN, query = first + (int)threadIdx.y * 16;
  const int end = s.causal && first + OWN < (int)s.keys ? first + OWN : (int)s.keys;
  const HeadRows k = RowsOf<WIDE>(s, call.k, s.k, number, s.keys, s.width);
  const HeadRows v = RowsOf<WIDE>(s, call.v, s.v, number, s.keys, s.values);
  const float factor = s.scale * LOG2_E;
  const int thread = ThreadOfBlock();
  const bool takes_mask = HAS_ROW && thread < N;
  uint32_t own[Z::CHUNKS][4];
  float sum[Z::STRIPS][4] = {}, most[2] = {-INFINITY, -INFINITY}, whole[2] = {}, inverse[2];
  LoadRows<WIDE, OWN, BLOCK>(queries, RowsOf<WIDE>(s, call.q, s.q, number, s.queries, s.width),
                             first);
  LoadRows<WIDE, N, BLOCK>(keys, k, 0);
  LoadRows<WIDE, N, BLOCK>(values, v, 0);
  if (takes_mask) mask_row[0][thread] = MaskRowAt(s, call, head, thread);
  if (!KEPT) {
    WaitForCopies();
    __syncthreads();
    for (int c = 0; c < Z::CHUNKS; c++)
      LoadOwn<WIDE>(own[c], queries + threadIdx.y * 16 * Z::PITCH, c);
  }
  int side = 0;
  for (int key = 0; key < end; key += N, side = 1 - side) {
    float dot[N / 8][4];
    WaitForCopies();
    __syncthreads(); /* this tile is there, and the one before was read */
    if (key + N < end) {
      const int next = (1 - side) * N * Z::PITCH;
      LoadRows<WIDE, N, BLOCK>(keys + next, k, key + N);
      LoadRows<WIDE, N, BLOCK>(values + next, v, key + N);
    }
    if (SeesSome<false>(s, query, key, N)) {
      const bool drops = MASK >= DROPS && call.drops;
      const uint32_t kept = drops ? FindKept<N, false>(s, call, head, query, key) : 0;
      BeginDots<N, false, MASK>(s, call, head, query, key, mask_row[side], dot);
      DotRows<T, WIDE, N>(dot, queries, KEPT ? NULL : own, keys + side * N * Z::PITCH);
      if (!SeesAll<false>(s, query, key, N)) HideUnseen<N, false>(s, query, key, dot);
      Weigh<N, Z::STRIPS, MASK != PLAIN>(factor, dot, most, whole, sum);
      if (drops) DropSome<N>(s, kept, dot);
      AddRows<T, WIDE, N>(sum, dot, values + side * N * Z::PITCH);
    }
    if (takes_mask) mask_row[1 - side][thread] = MaskRowAt(s, call, head, key + N + thread);
  }
  const int64_t mine = MASK == PLAIN ? number : head.number;
  FinishSums(s, Values<void>(whole_of), mine, query, most, whole, inverse);
  StoreRows<T, WIDE>(s, y, s.o, mine, (int)s.queries, (int)s.values, query, sum, inverse);
}

/* What gradients know of queries: p is 2^(factor (dot - shift) - rest); its gradients are lessened
   by delta. */
enum { SHIFT, REST, DELTA, OF_QUERY };

/* p: dot products of queries and keys, ds: those of output gradients and values. They become the
   probability after dropout and the gradient of the dot product, p (scale m dp - delta), where m is
   the factor of dropout. of[]: queries, both of the own rows, or the others. */
template <int N, bool KEYS, int MASK>
static __device__ inline void FindGradients(const RengaCudaAttention &s, bool drops, uint32_t kept,
                                            const float of[], float p[][4], float ds[][4])
{
  enum { QUERIES = KEYS ? N : 2 };
  const float factor = s.scale * LOG2_E;
#pragma unroll
  for (int c = 0; c < N / 8; c++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int query = KEYS ? ColumnOf(c, e) : e / 2;
      const float keep = drops ? KeepOf(s, kept, c, e) : 1;
      float weight = PowerOfTwo(fmaf(p[c][e] - of[query], factor, -of[REST * QUERIES + query]));
      if (MASK != PLAIN && p[c][e] == -INFINITY)
        weight = 0; /* of a query that sees no key rest is, too */
      p[c][e] = weight * keep;
      ds[c][e] = weight * fmaf(ds[c][e], s.scale * keep, -of[DELTA * QUERIES + query]);
    }
}

/* Of queries there is room for N where they are the others; of masks for the keys, which are the
   others or the own ones. */
template <int WIDE, bool KEYS, int MASK> struct GradSizes : Sizes<WIDE> {
  enum { HAS_ROW = MASK == ROW || MASK == DROPS, OF = KEYS ? Sizes<WIDE>::GRAD_OTHERS : 1 };
  enum { ACROSS = HAS_ROW && !KEYS ? Sizes<WIDE>::GRAD_OTHERS : 1 };
  enum { OWN_MASK = HAS_ROW && KEYS ? (int)Sizes<WIDE>::GRAD_OWN : 1 };
};

static __device__ inline const float *OfQueries(const AttentionCall &call, int which)
{
  return which == SHIFT ? call.shift : which == REST ? call.rest : call.delta;
}

/* Of the own rows, which are queries. */
static __device__ inline void LoadOfQueries(const RengaCudaAttention &s, const AttentionCall &call,
                                            int64_t number, int mine, float of[])
{
  for (int h = 0; h < 2; h++) {
    const int row = mine + RowOf(2 * h);
    for (int i = 0; i < OF_QUERY && row < (int)s.queries; i++)
      of[2 * i + h] = OfQueries(call, i)[number * s.queries + row];
  }
}

/* A block takes keys, for their gradients and those of values, of the heads that share them, where
   these are several, one head after the other; or else queries of a head. */
template <class T, int WIDE, bool KEYS, int MASK, bool SHARED>
__global__ void __launch_bounds__(WARP *Sizes<WIDE>::GRAD_WARPS,
                                  RENGA_GRAD_BLOCKS(WIDE, MASK, SHARED))
    TensorGradKernel(RengaCudaAttention s, AttentionCall call, RengaCudaOperand dx,
                     RengaCudaOperand dv)
{
  typedef GradSizes<WIDE, KEYS, MASK> Z;
  enum { N = Z::GRAD_OTHERS, BLOCK = WARP * Z::GRAD_WARPS };
  __shared__ __align__(16) uint16_t own[2][Z::GRAD_OWN * Z::PITCH], others[2][2][N * Z::PITCH];
  __shared__ float others_of[2][OF_QUERY * Z::OF], mask_row[2][Z::ACROSS], own_mask[Z::OWN_MASK];
  const int n_own = (int)(KEYS ? s.keys : s.queries), n_others = (int)(KEYS ? s.queries : s.keys);
  __shared__ AttentionHead head;
  int place;
  const int blocks = (n_own + Z::GRAD_OWN - 1) / Z::GRAD_OWN, thread = ThreadOfBlock();
  const int64_t own_head = (int64_t)HeadsOfBlock(blocks, &place) * (SHARED ? s.k.share : 1);
  const int first = (KEYS ? place : blocks - 1 - place) * Z::GRAD_OWN;
  const int mine = first + (int)threadIdx.y * 16, last = first + Z::GRAD_OWN;
  const int begin = KEYS && s.causal ? first : 0;
  const int end = !KEYS && s.causal && last < n_others ? last : n_others;
  const RowPair keys = KeyRowsOf<WIDE>(s, call, own_head);
  const bool takes_mask = Z::HAS_ROW && !KEYS && thread < N;
  float sum[Z::STRIPS][4] = {}, of_values[KEYS ? Z::STRIPS : 1][4] = {}, own_of[OF_QUERY * 2] = {};
  for (int turn = 0; turn < (SHARED ? (int)s.k.share : 1); turn++) {
    const int64_t number = own_head + turn;
    const RowPair queries = QueryRowsOf<WIDE>(s, call, number);
    const float *of_mine = OfQueries(call, thread / N) + number * s.queries;
    const auto load = [&](int other, int side) {
      LoadPair<WIDE, N, BLOCK>(others[side][0], others[side][1], KEYS ? queries : keys, other);
      if (KEYS && thread < OF_QUERY * N) {
        const int i = other + thread % N;
        CopyFour(&others_of[side][thread % (OF_QUERY * Z::OF)], of_mine + i, i < n_others);
      }
    };
    if (turn > 0) __syncthreads(); /* the last tile of the head before was read */
    TakeHead<MASK>(s, number, call.sample, &head);
    if (turn == 0) LoadPair<WIDE, Z::GRAD_OWN, BLOCK>(own[0], own[1], KEYS ? keys : queries, first);
    if (!KEYS) LoadOfQueries(s, call, number, mine, own_of);
    if (takes_mask) mask_row[0][thread % Z::ACROSS] = MaskRowAt(s, call, head, thread);
    if (Z::HAS_ROW && KEYS && thread < Z::GRAD_OWN)
      own_mask[thread % Z::OWN_MASK] = MaskRowAt(s, call, head, first + thread);
    if (begin < end) load(begin, 0);
    for (int other = begin, side = 0; other < end; other += N, side = 1 - side) {
      float p[N / 8][4], ds[N / 8][4];
      WaitForCopies();
      __syncthreads(); /* this tile is there, and the one before was read */
      if (other + N < end) load(other + N, 1 - side);
      if (SeesSome<KEYS>(s, mine, other, N)) {
        const bool drops = MASK >= DROPS && call.drops;
        const uint32_t kept = drops ? FindKept<N, KEYS>(s, call, head, mine, other) : 0;
        BeginDots<N, KEYS, MASK>(s, call, head, mine, other,
                                 KEYS ? own_mask + mine - first : mask_row[side], p);
        BeginDots<N, KEYS, PLAIN>(s, call, head, mine, other, NULL, ds);
        DotRows<T, WIDE, N>(p, own[0], NULL, others[side][0]);
        DotRows<T, WIDE, N>(ds, own[1], NULL, others[side][1]);
        if (!SeesAll<KEYS>(s, mine, other, N)) HideUnseen<N, KEYS>(s, mine, other, p);
        FindGradients<N, KEYS, MASK>(s, drops, kept, KEYS ? others_of[side] : own_of, p, ds);
        if (KEYS) AddRows<T, WIDE, N>(of_values, p, others[side][1]);
        AddRows<T, WIDE, N>(sum, ds, others[side][0]);
      }
      if (takes_mask)
        mask_row[1 - side][thread % Z::ACROSS] = MaskRowAt(s, call, head, other + N + thread);
    }
  }
  const float one[2] = {1, 1};
  StoreRows<T, WIDE>(s, dx, KEYS ? s.k : s.q, own_head, n_own, (int)s.width, mine, sum, one);
  if (KEYS) StoreRows<T, WIDE>(s, dv, s.v, own_head, n_own, (int)s.values, mine, of_values, one);
}

bool RengaCudaHasTensorAttention(const RengaCudaAttention *s, int form)
{
  return RengaCudaCapability >= MATRIX_CAPABILITY &&
         (form == RENGA_CUDA_BFLOAT16 || form == RENGA_CUDA_FLOAT16) && s->width <= 128 &&
         s->values <= 128 && s->scale > 0 && s->queries <= MOST_ROWS && s->keys <= MOST_ROWS;
}

static unsigned BlocksOf(const RengaCudaAttention *s, int64_t rows, int own)
{
  return (unsigned)(s->heads * ((rows + own - 1) / own));
}

/* Calls f<T, WIDE, MASK>(...) of the call's type, width and mask. */
#define RENGA_CHOOSE_MASK(f, T, WIDE, ...)                                                         \
  (call->mask.data && s->mask_row != 0 ? f<T, WIDE, EACH>(__VA_ARGS__)                             \
   : call->drops                       ? f<T, WIDE, DROPS>(__VA_ARGS__)                            \
   : call->mask.data                   ? f<T, WIDE, ROW>(__VA_ARGS__)                              \
                                       : f<T, WIDE, PLAIN>(__VA_ARGS__))
#define RENGA_CHOOSE_WIDTH(f, T, ...)                                                              \
  (s->width > 64 || s->values > 64 ? RENGA_CHOOSE_MASK(f, T, 128, __VA_ARGS__)                     \
                                   : RENGA_CHOOSE_MASK(f, T, 64, __VA_ARGS__))
#define RENGA_CHOOSE(f, ...)                                                                       \
  (form == RENGA_CUDA_FLOAT16 ? RENGA_CHOOSE_WIDTH(f, __half, __VA_ARGS__)                         \
                              : RENGA_CHOOSE_WIDTH(f, __nv_bfloat16, __VA_ARGS__))

template <class T, int WIDE, int MASK>
static cudaError_t LaunchAttention(cudaStream_t stream, const RengaCudaAttention *s,
                                   const AttentionCall *call, RengaCudaOperand y,
                                   RengaCudaOperand whole_of)
{
  return RENGA_LAUNCH((TensorAttentionKernel<T, WIDE, MASK>), BlocksOf(s, s->queries, OWN),
                      dim3(WARP, WARPS), 0, stream, *s, *call, y, whole_of);
}

cudaError_t RengaCudaTensorAttend(cudaStream_t stream, const RengaCudaAttention *s,
                                  const AttentionCall *call, int form, RengaCudaOperand y,
                                  RengaCudaOperand whole_of)
{
  return RENGA_CHOOSE(LaunchAttention, stream, s, call, y, whole_of);
}

template <class T, int WIDE, int MASK>
static cudaError_t LaunchGradients(cudaStream_t stream, const RengaCudaAttention *s,
                                   const AttentionCall *call, RengaCudaOperand dq,
                                   RengaCudaOperand dk, RengaCudaOperand dv)
{
  const dim3 block(WARP, Sizes<WIDE>::GRAD_WARPS);
  const int own = Sizes<WIDE>::GRAD_OWN;
  const RengaCudaOperand none = {NULL, RENGA_CUDA_FLOAT32};
  cudaError_t code = cudaSuccess;
  if (dq.data)
    code = RENGA_LAUNCH((TensorGradKernel<T, WIDE, false, MASK, false>),
                        BlocksOf(s, s->queries, own), block, 0, stream, *s, *call, dq, none);
  if (!code && s->k.share > 1)
    code = RENGA_LAUNCH((TensorGradKernel<T, WIDE, true, MASK, true>),
                        BlocksOf(s, s->keys, own) / (unsigned)s->k.share, block, 0, stream, *s,
                        *call, dk, dv);
  else if (!code)
    code = RENGA_LAUNCH((TensorGradKernel<T, WIDE, true, MASK, false>), BlocksOf(s, s->keys, own),
                        block, 0, stream, *s, *call, dk, dv);
  return code;
}

cudaError_t RengaCudaTensorAttendGrad(cudaStream_t stream, const RengaCudaAttention *s,
                                      const AttentionCall *call, int form, RengaCudaOperand dq,
                                      RengaCudaOperand dk, RengaCudaOperand dv)
{
  return RENGA_CHOOSE(LaunchGradients, stream, s, call, dq, dk, dv);
}
