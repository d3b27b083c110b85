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

/* What this rank knows, into values that are 0: each warp takes rows in turn. */
enum { JUDGES = 32 };
__global__ void GateShareKernel(RengaGate gate, const RengaCudaFault *fault)
{
  double *loss = gate.values + 1 + gate.gradients + gate.pieces;
  const int64_t warps = (int64_t)gridDim.x * blockDim.y;
  for (int64_t r = blockIdx.x * blockDim.y + threadIdx.y; r < gate.rows; r += warps) {
    const RengaSquares row = gate.row[r];
    double *value = gate.values + row.place;
    for (int64_t i = threadIdx.x; i < row.pieces && !row.whole; i += WARP) value[i] = row.square[i];
    const double sum = row.whole ? AddInOrder(row.square, row.pieces) : 0;
    if (threadIdx.x == 0 && row.whole) *value = sum;
  }
  if (blockIdx.x > 0 || threadIdx.y > 0) return;
  for (int64_t i = threadIdx.x; i < gate.own; i += WARP) loss[gate.turn[i]] = (double)gate.loss[i];
  if (threadIdx.x == 0) gate.values[0] = gate.failed || fault->found;
}

/* One block. The numbers and their order are the host's (RengaPipelineJudge), so that both find the
   same. */
__global__ void GateKernel(RengaGate gate, RengaGateFound *place)
{
  for (int64_t s = threadIdx.y; s < gate.splits; s += blockDim.y) {
    const RengaSplitSquares split = gate.split[s];
    const double sum = AddInOrder(gate.values + split.first, split.pieces);
    if (threadIdx.x == 0) gate.values[split.place] = sum;
  }
  __syncthreads();
  if (threadIdx.y > 0) return;
  const double *square = gate.values + 1;
  const double loss = AddInOrder(square + gate.gradients + gate.pieces, gate.losses);
  const double norm = sqrt(AddInOrder(square, gate.gradients)) / gate.loss_scale;
  if (threadIdx.x > 0) return;
  const bool clips = gate.clip > 0 && norm > gate.clip;
  const RengaGateFound found = {isfinite(loss) && isfinite(norm) && gate.values[0] == 0,
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

static unsigned WarpsFor(int64_t rows)
{
  return rows < 1 ? 1 : rows < JUDGES ? (unsigned)rows : (unsigned)JUDGES;
}

int RengaCudaShareGate(void *stream, const RengaGate *gate, const RengaCudaFault *fault)
{
  enum { BLOCKS = 16 };
  const int64_t blocks = (gate->rows + JUDGES - 1) / JUDGES;
  const unsigned grid = blocks < 1 ? 1 : blocks < BLOCKS ? (unsigned)blocks : (unsigned)BLOCKS;
  return RengaCudaSayError("GateShareKernel",
                           RENGA_LAUNCH(GateShareKernel, grid, dim3(WARP, WarpsFor(gate->rows)), 0,
                                        (cudaStream_t)stream, *gate, fault));
}

int RengaCudaJudge(void *stream, const RengaGate *gate, RengaGateFound *place)
{
  return RengaCudaSayError("GateKernel",
                           RENGA_LAUNCH(GateKernel, 1, dim3(WARP, WarpsFor(gate->splits)), 0,
                                        (cudaStream_t)stream, *gate, place));
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
