/* Flat vectors: sums of squares in pieces of a fixed size, and updates by tables, which are the
   kernels' arguments. Only + - * / and sqrt, so that a host has the same bits. */
#include "kernel.h"

template <class Row> struct Table {
  Row row[RENGA_CUDA_TABLE];
};

/* Rows of a table are the y of the grid. */
template <class Row> static dim3 GridOf(int count, const Row rows[])
{
  int64_t most = 1;
  for (int i = 0; i < count; i++) most = rows[i].count > most ? rows[i].count : most;
  return dim3(BlocksFor(most), (unsigned)count);
}

template <class Row> static Table<Row> TableOf(int count, const Row rows[])
{
  Table<Row> table = {};
  for (int i = 0; i < count; i++) table.row[i] = rows[i];
  return table;
}

__global__ void ConvertKernel(int64_t count, RengaCudaOperand x, RengaCudaOperand y)
{
  RENGA_EACH_FOUR(i, count)
  Values<void>(y).Put(i, count - i, Values<void>(x).Get(i, count - i));
}

__global__ void AddKernel(int64_t count, float *__restrict__ y, const float *__restrict__ x)
{
  RENGA_EACH(i, count) y[i] += x[i];
}

/* One block per piece: its threads add every 256th element, then a tree adds the threads. */
__global__ void SquaresKernel(Table<RengaCudaNorm> table, int count, double *__restrict__ parts)
{
  __shared__ double sum[THREADS];
  int row = 0;
  while (row + 1 < count && table.row[row + 1].first <= blockIdx.x) row++;
  const RengaCudaNorm &r = table.row[row];
  const int64_t begin = (blockIdx.x - r.first) * RENGA_CUDA_PIECE;
  const int64_t end = begin + RENGA_CUDA_PIECE < r.count ? begin + RENGA_CUDA_PIECE : r.count;
  double mine = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += THREADS) mine += (double)r.x[i] * r.x[i];
  sum[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned step = THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sum[threadIdx.x] += sum[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = sum[0];
}

__global__ void SgdKernel(Table<RengaCudaSgd> table)
{
  const RengaCudaSgd &s = table.row[blockIdx.y];
  const RengaSgdFactors &by = s.by;
  RENGA_EACH(i, s.count)
  {
    const float p = s.parameter[i], g = by.scale * s.gradient[i] + by.decay * p;
    float v = g;
    if (s.momentum) {
      v = by.keep * s.momentum[i] + by.take * g;
      s.momentum[i] = v;
    }
    const float made = p - by.rate * (s.momentum ? by.a * g + by.b * v : g);
    s.parameter[i] = made;
    if (s.value.data) Values<void>(s.value).Put(i, made);
  }
}

__global__ void AdamKernel(Table<RengaCudaAdam> table)
{
  const RengaCudaAdam &s = table.row[blockIdx.y];
  const RengaAdamFactors &by = s.by;
  RENGA_EACH(i, s.count)
  {
    const float p = s.parameter[i], g = by.scale * s.gradient[i] + by.decay * p;
    const float m = by.keep1 * s.first[i] + by.take1 * g;
    const float v = by.keep2 * s.second[i] + by.take2 * (g * g);
    s.first[i] = m;
    s.second[i] = v;
    const float made = by.shrink * p - by.rate * m / (sqrtf(v) * by.root + by.epsilon);
    s.parameter[i] = made;
    if (s.value.data) Values<void>(s.value).Put(i, made);
  }
}

int RengaCudaConvert(void *stream, int64_t count, RengaCudaOperand x, RengaCudaOperand y)
{
  return RengaCudaSayError("ConvertKernel",
                           RENGA_LAUNCH(ConvertKernel, BlocksForFours(count), THREADS, 0,
                                        (cudaStream_t)stream, count, x, y));
}

int RengaCudaAdd(void *stream, int64_t count, float *y, const float *x)
{
  return RengaCudaSayError("AddKernel", RENGA_LAUNCH(AddKernel, BlocksFor(count), THREADS, 0,
                                                     (cudaStream_t)stream, count, y, x));
}

int RengaCudaNorms(void *stream, int count, const RengaCudaNorm rows[], int64_t pieces,
                   double *parts)
{
  return RengaCudaSayError("SquaresKernel",
                           RENGA_LAUNCH(SquaresKernel, (unsigned)pieces, THREADS, 0,
                                        (cudaStream_t)stream, TableOf(count, rows), count, parts));
}

int RengaCudaUpdateSgd(void *stream, int count, const RengaCudaSgd rows[])
{
  return RengaCudaSayError("SgdKernel", RENGA_LAUNCH(SgdKernel, GridOf(count, rows), THREADS, 0,
                                                     (cudaStream_t)stream, TableOf(count, rows)));
}

int RengaCudaUpdateAdam(void *stream, int count, const RengaCudaAdam rows[])
{
  return RengaCudaSayError("AdamKernel", RENGA_LAUNCH(AdamKernel, GridOf(count, rows), THREADS, 0,
                                                      (cudaStream_t)stream, TableOf(count, rows)));
}
