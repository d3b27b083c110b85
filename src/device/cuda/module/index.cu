/* Indices that are outside, Gather, and its gradient: the embedding of tokens. */
#include "kernel.h"

/* One block; of the numbers outside the first one is told, unless one was before. */
enum { CHECKERS = 1024 };

/* No look at a number waits for the one before. */
__global__ void CheckKernel(RengaCudaIndices s, const void *values, RengaCudaFault *fault)
{
  __shared__ long long first[CHECKERS / WARP];
  long long mine = INT64_MAX;
  for (int64_t i = threadIdx.x; i < s.count; i += CHECKERS) {
    const int64_t value = IntegerAt(s.wide, values, i);
    if (value != s.ignore && (value < s.low || value >= s.high) && i < mine) mine = i;
  }
  mine = JoinWarp<TakeLeast>(mine);
  if (threadIdx.x % WARP == 0) first[threadIdx.x / WARP] = mine;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < CHECKERS / WARP; w++) mine = first[w] < mine ? first[w] : mine;
  if (mine == INT64_MAX || fault->found) return;
  fault->what = s.what;
  fault->value = IntegerAt(s.wide, values, mine);
  fault->place = mine;
  fault->high = s.high;
  __threadfence_system();
  fault->found = 1;
}

/* The row of the data, -1: it is another lane's. Indices outside of all were found before. */
static __device__ inline int64_t RowAt(const RengaCudaGather &s, const void *indices, int64_t i)
{
  const int64_t index = IntegerAt(s.wide, indices, i);
  const int64_t row = (index < 0 ? index + s.rows : index) - s.first;
  return row >= 0 && row < s.length ? row : -1;
}

template <class T>
__global__ void GatherKernel(RengaCudaGather s, const void *data_, const void *indices, void *y_)
{
  const T *data = (const T *)data_;
  T *y = (T *)y_;
  RENGA_EACH(i, s.outer * s.count * s.inner)
  {
    const int64_t place = i / s.inner, outer = place / s.count;
    const int64_t row = RowAt(s, indices, place % s.count);
    y[i] = row < 0 ? (T)0 : data[(outer * s.length + row) * s.inner + i % s.inner];
  }
}

/* Of each row that indices name: its first place, and how many it has. */
__global__ void FindPlacesKernel(RengaCudaGather s, const void *indices, int *first, int *places)
{
  RENGA_EACH(i, s.count)
  {
    const int64_t row = RowAt(s, indices, i);
    if (row < 0) continue;
    atomicMin(&first[row], (int)i);
    atomicAdd(&places[row], 1);
  }
}

/* What the gradient's kernels know of rows: their first places, how many these are, and of rows
   with runs the number of the first one; of a run the row's first place, and its number there. */
struct GatherRuns {
  int *first, *places, *base, *row, *number, *count;
  float *sums; /* [outer, runs, inner] */
};

static inline GatherRuns RunsOf(const RengaCudaGather *s, void *workspace)
{
  int *at = (int *)workspace;
  int *row = at + 3 * s->length, *number = row + s->runs;
  float *sums = (float *)((char *)workspace + RengaCudaRunTables(s));
  return {at, at + s->length, at + 2 * s->length, row, number, number + s->runs, sums};
}

/* The runs of the row that place is the first one of; 0: it is none, or the row is added up in one
   go. */
static __device__ inline int CountRuns(const RengaCudaGather &s, const void *indices,
                                       const GatherRuns &of, int64_t place)
{
  const int64_t row = place < s.count ? RowAt(s, indices, place) : -1;
  if (row < 0 || row == s.padding || of.first[row] != place ||
      of.places[row] <= RENGA_CUDA_RUN_LENGTH)
    return 0;
  return (of.places[row] + RENGA_CUDA_RUN_LENGTH - 1) / RENGA_CUDA_RUN_LENGTH;
}

/* One block numbers the runs, in the order of the places. */
__global__ void FindRunsKernel(RengaCudaGather s, const void *indices, GatherRuns of)
{
  __shared__ int before[CHECKERS];
  const int64_t each = (s.count + CHECKERS - 1) / CHECKERS, begin = threadIdx.x * each;
  int mine = 0;
  for (int64_t i = begin; i < begin + each; i++) mine += CountRuns(s, indices, of, i);
  before[threadIdx.x] = mine;
  for (unsigned step = 1; step < CHECKERS; step *= 2) {
    __syncthreads();
    const int more = threadIdx.x >= step ? before[threadIdx.x - step] : 0;
    __syncthreads();
    before[threadIdx.x] += more;
  }
  if (threadIdx.x == CHECKERS - 1) *of.count = before[threadIdx.x];
  int next = before[threadIdx.x] - mine;
  for (int64_t i = begin; i < begin + each; i++) {
    const int runs = CountRuns(s, indices, of, i);
    if (runs > 0) of.base[RowAt(s, indices, i)] = next;
    for (int r = 0; r < runs; r++, next++) {
      of.row[next] = (int)i;
      of.number[next] = r;
    }
  }
}

/* Places of a row that are added up: from number `skip` of them on, `left` at the most. start: not
   behind the first one. */
struct RowPlaces {
  int64_t row, start;
  int skip, left;
};

/* In ascending order, of this thread's column, whose first place is at `from`; below 0: it has
   none. same: a bit for each of 256 places that are looked at together. All threads of the block
   come. */
static __device__ inline float AddPlaces(const RengaCudaGather &s, const Values<void> &dy,
                                         const void *indices, const RowPlaces &of, int64_t from,
                                         unsigned *same)
{
  float sum = 0;
  bool begun = false;
  int skip = of.skip, left = of.left;
  for (int64_t start = of.start; left > 0; start += THREADS) {
    const int64_t look = start + threadIdx.x;
    const unsigned found =
        __ballot_sync(EVERY_LANE, look < s.count && RowAt(s, indices, look) == of.row);
    __syncthreads(); /* the bits before were read */
    if (threadIdx.x % WARP == 0) same[threadIdx.x / WARP] = found;
    __syncthreads();
    for (int w = 0; w < ROWS; w++) {
      const int here = __popc(same[w]);
      if (here <= skip) {
        skip -= here;
        continue;
      }
      for (unsigned bits = same[w]; bits && left > 0; bits &= bits - 1) {
        if (skip-- > 0) continue;
        skip = 0;
        left--;
        const int64_t i = start + w * WARP + __ffs((int)bits) - 1;
        const float term = from >= 0 ? dy[from + i * s.inner] : 0;
        sum = begun ? sum + term : term;
        begun = true;
      }
    }
  }
  return sum;
}

/* Blocks of 256 columns. */
static __host__ __device__ inline int64_t ColumnBlocks(const RengaCudaGather &s)
{
  return (s.inner + THREADS - 1) / THREADS;
}

/* A block takes a run, and 256 columns. */
__global__ void RunsKernel(RengaCudaGather s, RengaCudaOperand dy, const void *indices,
                           GatherRuns of)
{
  __shared__ unsigned same[ROWS];
  const int64_t blocks = ColumnBlocks(s), run = blockIdx.x / blocks % s.runs;
  const int64_t outer = blockIdx.x / blocks / s.runs;
  const int64_t column = blockIdx.x % blocks * THREADS + threadIdx.x;
  if (run >= *of.count) return; /* the whole block */
  const int64_t place = of.row[run], row = RowAt(s, indices, place);
  const int skip = of.number[run] * RENGA_CUDA_RUN_LENGTH, rest = of.places[row] - skip;
  const RowPlaces places = {row, place, skip,
                            rest < RENGA_CUDA_RUN_LENGTH ? rest : RENGA_CUDA_RUN_LENGTH};
  const float sum = AddPlaces(s, Values<void>(dy), indices, places,
                              column < s.inner ? outer * s.count * s.inner + column : -1, same);
  if (column < s.inner) of.sums[(outer * s.runs + run) * s.inner + column] = sum;
}

/* A block per place: that of the first place with its index writes the gradient, 256 columns at a
   time; those of later ones have nothing to do. */
__global__ void GatherGradKernel(RengaCudaGather s, RengaCudaOperand dy_, const void *indices,
                                 GatherRuns of, RengaCudaOperand dx_)
{
  __shared__ unsigned same[ROWS];
  const Values<void> dy(dy_), dx(dx_);
  const int64_t place = blockIdx.x % s.count, outer = blockIdx.x / s.count;
  const int64_t mine = RowAt(s, indices, place);
  if (mine < 0 || of.first[mine] != place || mine == s.padding) return; /* the whole block */
  const int runs = CountRuns(s, indices, of, place);
  for (int64_t column = threadIdx.x; column - threadIdx.x < s.inner; column += THREADS) {
    const bool there = column < s.inner;
    float sum = 0;
    if (runs == 0)
      sum = AddPlaces(s, dy, indices, {mine, place, 0, of.places[mine]},
                      there ? outer * s.count * s.inner + column : -1, same);
    for (int r = 0; r < runs && there; r++) {
      const float more = of.sums[(outer * s.runs + of.base[mine] + r) * s.inner + column];
      sum = r == 0 ? more : sum + more;
    }
    if (there) dx.Put((outer * s.length + mine) * s.inner + column, sum);
  }
}

int RengaCudaCheckIndices(void *stream, const RengaCudaIndices *indices, const void *values,
                          RengaCudaFault *fault)
{
  if (indices->count == 0) return 0;
  return RengaCudaSayError(
      "CheckKernel",
      RENGA_LAUNCH(CheckKernel, 1, CHECKERS, 0, (cudaStream_t)stream, *indices, values, fault));
}

RENGA_CUDA_RUN(RengaCudaTakeRows)
{
  typedef void (*Kernel)(RengaCudaGather, const void *, const void *, void *);
  const RengaCudaGather *s = (const RengaCudaGather *)shape;
  const int64_t count = s->outer * s->count * s->inner;
  const Kernel kernel = s->size == 1   ? GatherKernel<uint8_t>
                        : s->size == 2 ? GatherKernel<uint16_t>
                        : s->size == 4 ? GatherKernel<uint32_t>
                                       : GatherKernel<uint64_t>;
  (void)context, (void)workspace;
  if (count == 0) return 0;
  return RengaCudaSayError("GatherKernel",
                           RENGA_LAUNCH(kernel, BlocksFor(count), THREADS, 0, (cudaStream_t)stream,
                                        *s, in[0].data, in[1].data, out[0].data));
}

static cudaError_t AddRuns(cudaStream_t stream, const RengaCudaGather *s, RengaCudaOperand dy,
                           const void *indices, GatherRuns of)
{
  const unsigned blocks = (unsigned)(s->outer * s->runs * ColumnBlocks(*s));
  if (s->runs == 0) return cudaSuccess;
  cudaError_t code = RENGA_LAUNCH(FindRunsKernel, 1, CHECKERS, 0, stream, *s, indices, of);
  if (!code) code = RENGA_LAUNCH(RunsKernel, blocks, THREADS, 0, stream, *s, dy, indices, of);
  return code;
}

RENGA_CUDA_RUN(RengaCudaTakeRowsGrad)
{
  const RengaCudaGather *s = (const RengaCudaGather *)shape;
  cudaStream_t queue = (cudaStream_t)stream;
  const size_t bytes = (size_t)(s->outer * s->length * s->inner) * SizeOfFloat(out[0].type);
  const size_t table = (size_t)s->length * sizeof(int);
  const GatherRuns of = RunsOf(s, workspace);
  (void)context;
  if (bytes == 0) return 0;
  cudaError_t code = cudaMemsetAsync(out[0].data, 0, bytes, queue);
  if (code || s->count == 0) return RengaCudaSayError("GatherGradKernel", code);
  code = cudaMemsetAsync(of.first, 0x7f, table, queue); /* behind every place */
  if (!code) code = cudaMemsetAsync(of.places, 0, table, queue);
  if (!code)
    code = RENGA_LAUNCH(FindPlacesKernel, BlocksFor(s->count), THREADS, 0, queue, *s, in[1].data,
                        of.first, of.places);
  if (!code) code = AddRuns(queue, s, in[0], in[1].data, of);
  if (!code)
    code = RENGA_LAUNCH(GatherGradKernel, (unsigned)(s->outer * s->count), THREADS, 0, queue, *s,
                        in[0], in[1].data, of, out[0]);
  return RengaCudaSayError("GatherGradKernel", code);
}
