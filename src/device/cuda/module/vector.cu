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

/* The sum of numbers in their order, on all lanes of a warp: 256 come at a time. */
template <class T> static __device__ double AddInOrder(const T *number, int64_t count)
{
  enum { AHEAD = 8 };
  double sum = 0;
  for (int64_t first = 0; first < count; first += AHEAD * WARP) {
    double own[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      const int64_t i = first + k * WARP + threadIdx.x;
      own[k] = i < count ? (double)number[i] : 0;
    }
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      for (int lane = 0; lane < WARP; lane++) sum += __shfl_sync(EVERY_LANE, own[k], lane);
  }
  return sum;
}

/* One block of warps, each of which takes gradients in turn. The numbers and their order are the
   host's (RengaPipelineJudge), so that both find the same. */
enum { JUDGES = 32 };
__global__ void GateKernel(RengaGate gate, const RengaCudaFault *fault, RengaGateFound *place)
{
  RENGA_DYNAMIC_SHARED(double, square);
  for (int row = (int)threadIdx.y; row < gate.count; row += (int)blockDim.y) {
    const double sum = AddInOrder(gate.row[row].square, gate.row[row].pieces);
    if (threadIdx.x == 0) square[row] = sum;
  }
  __syncthreads();
  if (threadIdx.y > 0) return;
  const double loss = AddInOrder(gate.loss, gate.losses);
  const double norm = sqrt(AddInOrder(square, gate.count)) / gate.loss_scale;
  if (threadIdx.x > 0) return;
  const bool clips = gate.clip > 0 && norm > gate.clip;
  const RengaGateFound found = {isfinite(loss) && isfinite(norm) && !fault->found,
                                (float)((clips ? gate.clip / norm : 1) / gate.loss_scale)};
  *place = found;
  *gate.found = found;
}

__global__ void SgdKernel(Table<RengaCudaSgd> table, const RengaGateFound *gate)
{
  if (gate && !gate->go) return;
  const RengaCudaSgd &s = table.row[blockIdx.y];
  const RengaSgdFactors &by = s.by;
  const float scale = gate ? gate->scale : by.scale;
  RENGA_EACH(i, s.count)
  {
    const float p = s.parameter[i], g = scale * s.gradient[i] + by.decay * p;
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

__global__ void AdamKernel(Table<RengaCudaAdam> table, const RengaGateFound *gate)
{
  if (gate && !gate->go) return;
  const RengaCudaAdam &s = table.row[blockIdx.y];
  const RengaAdamFactors &by = s.by;
  const float scale = gate ? gate->scale : by.scale;
  RENGA_EACH(i, s.count)
  {
    const float p = s.parameter[i], g = scale * s.gradient[i] + by.decay * p;
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

int RengaCudaJudge(void *stream, const RengaGate *gate, const RengaCudaFault *fault,
                   RengaGateFound *place)
{
  const unsigned warps = gate->count < 1 ? 1 : gate->count < JUDGES ? gate->count : JUDGES;
  return RengaCudaSayError("GateKernel", RENGA_LAUNCH(GateKernel, 1, dim3(WARP, warps),
                                                      ((size_t)gate->count + 1) * sizeof(double),
                                                      (cudaStream_t)stream, *gate, fault, place));
}

int RengaCudaUpdateSgd(void *stream, const RengaGateFound *gate, int count,
                       const RengaCudaSgd rows[])
{
  return RengaCudaSayError("SgdKernel",
                           RENGA_LAUNCH(SgdKernel, GridOf(count, rows), THREADS, 0,
                                        (cudaStream_t)stream, TableOf(count, rows), gate));
}

int RengaCudaUpdateAdam(void *stream, const RengaGateFound *gate, int count,
                        const RengaCudaAdam rows[])
{
  return RengaCudaSayError("AdamKernel",
                           RENGA_LAUNCH(AdamKernel, GridOf(count, rows), THREADS, 0,
                                        (cudaStream_t)stream, TableOf(count, rows), gate));
}
