/* Flat vectors: sums of squares in pieces of a fixed size, and updates by tables, which are the
   kernels' arguments. Only + - * / and sqrt, so that a host has the same bits. */
#include "kernel.h"
#include "../../low.h"

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

__global__ void ConvertKernel(int64_t count, RengaCudaType from, const void *x, RengaCudaType to,
                              void *y)
{
  const float *wide = (const float *)x;
  const uint16_t *low = (const uint16_t *)x;
  RENGA_EACH(i, count)
  {
    if (to == RENGA_CUDA_BFLOAT16) ((uint16_t *)y)[i] = RengaLowToBrain(wide[i]);
    if (to == RENGA_CUDA_FLOAT16) ((uint16_t *)y)[i] = RengaLowToHalf(wide[i]);
    if (from == RENGA_CUDA_BFLOAT16) ((float *)y)[i] = RengaLowFromBrain(low[i]);
    if (from == RENGA_CUDA_FLOAT16) ((float *)y)[i] = RengaLowFromHalf(low[i]);
  }
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

/* Pieces of a row in ascending order. */
__global__ void SumPiecesKernel(Table<RengaCudaNorm> table, int count, int64_t pieces,
                                const double *__restrict__ parts, double *__restrict__ sums)
{
  const int row = threadIdx.x;
  if (row >= count) return;
  const int64_t end = row + 1 < count ? table.row[row + 1].first : pieces;
  double sum = 0;
  for (int64_t p = table.row[row].first; p < end; p++) sum += parts[p];
  sums[row] = sum;
}

__global__ void SgdKernel(Table<RengaCudaSgd> table)
{
  const RengaCudaSgd &s = table.row[blockIdx.y];
  RENGA_EACH(i, s.count)
  {
    const float p = s.parameter[i], g = s.scale * s.gradient[i] + s.decay * p;
    float v = g;
    if (s.momentum) {
      v = s.keep * s.momentum[i] + s.take * g;
      s.momentum[i] = v;
    }
    s.parameter[i] = p - s.rate * (s.momentum ? s.a * g + s.b * v : g);
  }
}

__global__ void AdamKernel(Table<RengaCudaAdam> table)
{
  const RengaCudaAdam &s = table.row[blockIdx.y];
  RENGA_EACH(i, s.count)
  {
    const float p = s.parameter[i], g = s.scale * s.gradient[i] + s.decay * p;
    const float m = s.keep1 * s.first[i] + s.take1 * g;
    const float v = s.keep2 * s.second[i] + s.take2 * (g * g);
    s.first[i] = m;
    s.second[i] = v;
    s.parameter[i] = s.shrink * p - s.rate * m / (sqrtf(v) * s.root + s.epsilon);
  }
}

int RengaCudaConvert(void *stream, int64_t count, RengaCudaType from, const void *x,
                     RengaCudaType to, void *y)
{
  return RengaCudaSayError("ConvertKernel",
                           RENGA_LAUNCH(ConvertKernel, BlocksFor(count), THREADS, 0,
                                        (cudaStream_t)stream, count, from, x, to, y));
}

int RengaCudaAdd(void *stream, int64_t count, float *y, const float *x)
{
  return RengaCudaSayError("AddKernel", RENGA_LAUNCH(AddKernel, BlocksFor(count), THREADS, 0,
                                                     (cudaStream_t)stream, count, y, x));
}

int RengaCudaNorms(void *stream, int count, const RengaCudaNorm rows[], int64_t pieces,
                   double *parts, double *sums)
{
  const Table<RengaCudaNorm> table = TableOf(count, rows);
  cudaError_t code = cudaSuccess;
  if (pieces > 0)
    code = RENGA_LAUNCH(SquaresKernel, (unsigned)pieces, THREADS, 0, (cudaStream_t)stream, table,
                        count, parts);
  if (!code)
    code = RENGA_LAUNCH(SumPiecesKernel, 1, RENGA_CUDA_TABLE, 0, (cudaStream_t)stream, table, count,
                        pieces, parts, sums);
  return RengaCudaSayError("SquaresKernel", code);
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
