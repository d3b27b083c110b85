/* Each kernel uses another part of what the emulator has: threads alone, shuffles, static and
   dynamic shared memory, several dimensions. */
#include "kernels.h"
#include "launch.h"

static unsigned Blocks(int64_t count, int each)
{
  return (unsigned)((count + each - 1) / each);
}

__global__ void Add(int64_t count, float *__restrict__ y, const float *__restrict__ x)
{
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < count) y[i] += x[i];
}

__global__ void Fill(int64_t count, float *y, float value)
{
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < count) y[i] = value;
}

__global__ void Centre(int64_t rows, int columns, const float *__restrict__ x,
                       float *__restrict__ y)
{
  const int lane = threadIdx.x & 31;
  const int64_t row = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return; /* the whole warp */
  float sum = 0;
  for (int c = lane; c < columns; c += 32) sum += x[row * columns + c];
  for (int bit = 16; bit > 0; bit /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, bit);
  for (int c = lane; c < columns; c += 32)
    y[row * columns + c] = x[row * columns + c] - sum / (float)columns;
}

enum { TILE = 16 };
__global__ void Transpose(int rows, int columns, const float *__restrict__ x, float *__restrict__ y)
{
  __shared__ float tile[TILE][TILE + 1];
  const int r = blockIdx.y * TILE + threadIdx.y, c = blockIdx.x * TILE + threadIdx.x;
  if (r < rows && c < columns) tile[threadIdx.y][threadIdx.x] = x[r * columns + c];
  __syncthreads();
  const int to = blockIdx.x * TILE + threadIdx.y, from = blockIdx.y * TILE + threadIdx.x;
  if (to < columns && from < rows) y[to * rows + from] = tile[threadIdx.x][threadIdx.y];
}

__global__ void SumParts(int64_t rows, int columns, const float *__restrict__ x,
                         float *__restrict__ work)
{
  RENGA_DYNAMIC_SHARED(float, sums);
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sums[c] = 0;
  for (int64_t r = blockIdx.x; r < rows; r += KERNEL_PARTS)
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sums[c] += x[r * columns + c];
  __syncthreads();
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    work[(int64_t)blockIdx.x * columns + c] = sums[c];
}

__global__ void AddParts(int columns, const float *__restrict__ work, float *__restrict__ sums)
{
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  float part[KERNEL_PARTS];
  if (c >= columns) return;
  for (int p = 0; p < KERNEL_PARTS; p++) part[p] = work[(int64_t)p * columns + c];
  for (int step = 1; step < KERNEL_PARTS; step *= 2)
    for (int p = 0; p + step < KERNEL_PARTS; p += 2 * step) part[p] += part[p + step];
  sums[c] = part[0];
}

cudaError_t KernelAdd(cudaStream_t stream, int64_t count, float *y, const float *x)
{
  return RENGA_LAUNCH(Add, Blocks(count, 256), 256, 0, stream, count, y, x);
}

cudaError_t KernelFill(cudaStream_t stream, int64_t count, float *y, float value)
{
  return RENGA_LAUNCH(Fill, Blocks(count, 256), 256, 0, stream, count, y, value);
}

cudaError_t KernelCentre(cudaStream_t stream, int64_t rows, int columns, const float *x, float *y)
{
  return RENGA_LAUNCH(Centre, Blocks(rows, 4), 128, 0, stream, rows, columns, x, y);
}

cudaError_t KernelTranspose(cudaStream_t stream, int rows, int columns, const float *x, float *y)
{
  const dim3 grid(Blocks(columns, TILE), Blocks(rows, TILE)), block(TILE, TILE);
  return RENGA_LAUNCH(Transpose, grid, block, 0, stream, rows, columns, x, y);
}

cudaError_t KernelSumRows(cudaStream_t stream, int64_t rows, int columns, const float *x,
                          float *work, float *sums)
{
  const size_t shared = (size_t)columns * sizeof(float);
  const cudaError_t code =
      RENGA_LAUNCH(SumParts, KERNEL_PARTS, 64, shared, stream, rows, columns, x, work);
  if (code) return code;
  return RENGA_LAUNCH(AddParts, Blocks(columns, 64), 64, 0, stream, columns, work, sums);
}
