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

/* A block per place. That of the first place with its index adds up the gradients of all places
   with it, in ascending order, 256 columns at a time; those of later ones have nothing to do. same:
   a bit for each of 256 places that are looked at together. */
__global__ void GatherGradKernel(RengaCudaGather s, RengaCudaOperand dy_, const void *indices,
                                 const int *first, const int *places, RengaCudaOperand dx_)
{
  __shared__ unsigned same[ROWS];
  const Values<void> dy(dy_), dx(dx_);
  const int64_t place = blockIdx.x % s.count, outer = blockIdx.x / s.count;
  const int64_t mine = RowAt(s, indices, place), warp = threadIdx.x / WARP;
  if (mine < 0 || first[mine] != place || mine == s.padding) return; /* the whole block */
  for (int64_t column = threadIdx.x; column - threadIdx.x < s.inner; column += THREADS) {
    const int64_t from = outer * s.count * s.inner + column;
    float sum = column < s.inner ? dy[from + place * s.inner] : 0;
    int left = places[mine] - 1;
    for (int64_t start = place + 1; left > 0; start += THREADS) {
      const int64_t look = start + threadIdx.x;
      const unsigned found =
          __ballot_sync(EVERY_LANE, look < s.count && RowAt(s, indices, look) == mine);
      __syncthreads(); /* the bits before were read */
      if (threadIdx.x % WARP == 0) same[warp] = found;
      __syncthreads();
      for (int w = 0; w < ROWS; w++)
        for (unsigned bits = same[w]; bits; bits &= bits - 1, left--) {
          const int64_t i = start + w * WARP + __ffs((int)bits) - 1;
          if (column < s.inner) sum += dy[from + i * s.inner];
        }
    }
    if (column < s.inner) dx.Put((outer * s.length + mine) * s.inner + column, sum);
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

RENGA_CUDA_RUN(RengaCudaTakeRowsGrad)
{
  const RengaCudaGather *s = (const RengaCudaGather *)shape;
  cudaStream_t queue = (cudaStream_t)stream;
  const size_t bytes = (size_t)(s->outer * s->length * s->inner) * SizeOfFloat(out[0].type);
  const size_t table = (size_t)s->length * sizeof(int);
  int *first = (int *)workspace, *places = first + s->length;
  (void)context;
  if (bytes == 0) return 0;
  cudaError_t code = cudaMemsetAsync(out[0].data, 0, bytes, queue);
  if (code || s->count == 0) return RengaCudaSayError("GatherGradKernel", code);
  code = cudaMemsetAsync(first, 0x7f, table, queue); /* behind every place */
  if (!code) code = cudaMemsetAsync(places, 0, table, queue);
  if (!code)
    code = RENGA_LAUNCH(FindPlacesKernel, BlocksFor(s->count), THREADS, 0, queue, *s, in[1].data,
                        first, places);
  if (!code)
    code = RENGA_LAUNCH(GatherGradKernel, (unsigned)(s->outer * s->count), THREADS, 0, queue, *s,
                        in[0], in[1].data, first, places, out[0]);
  return RengaCudaSayError("GatherGradKernel", code);
}
