/* Factors of products, rounded to 8 bits as include/renga/private/fp8.h says: one kernel finds the
   largest number of a tensor, which no order changes, another one its scale, and copies. */
#include "kernel.h"
#include "renga/private/fp8.h"

__global__ void LargestKernel(int64_t count, RengaCudaOperand x, uint32_t *most)
{
  uint32_t mine = 0;
  RENGA_EACH_FOUR(i, count)
  {
    const Four<float> values = Values<void>(x).Get(i, count - i);
    for (int k = 0; k < FOUR; k++) mine = TakeMost::Join(mine, RengaFp8Size(values.at[k]));
  }
  mine = JoinWarp<TakeMost>(mine);
  if (threadIdx.x % WARP == 0 && mine > 0) atomicMax(most, mine);
}

__global__ void RoundKernel(RengaFp8 format, int64_t count, RengaCudaOperand x, RengaCudaOperand y,
                            const uint32_t *most)
{
  const int exponent = RengaFp8Exponent(format, *most);
  const float scale = RengaFp8Power(exponent), unscale = RengaFp8Power(-exponent);
  RENGA_EACH_FOUR(i, count)
  {
    Four<float> values = Values<void>(x).Get(i, count - i);
    for (int k = 0; k < FOUR; k++)
      values.at[k] = unscale * RengaFp8Round(format, scale * values.at[k]);
    Values<void>(y).Put(i, count - i, values);
  }
}

/* Numbers times their scale, as bytes; the product takes 1 / scale behind the largest number. */
__global__ void BytesKernel(RengaFp8 format, int64_t count, RengaCudaOperand x, uint8_t *y,
                            uint32_t *most)
{
  const int exponent = RengaFp8Exponent(format, *most);
  const float scale = RengaFp8Power(exponent);
  RENGA_EACH_FOUR(i, count)
  {
    const Four<float> values = Values<void>(x).Get(i, count - i);
    Four<uint8_t> bytes;
    for (int k = 0; k < FOUR; k++)
      bytes.at[k] = RengaFp8Byte(format, RengaFp8Round(format, scale * values.at[k]));
    *(Four<uint8_t> *)(y + i) = bytes;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *(float *)(most + 1) = RengaFp8Power(-exponent);
}

/* The same of x [rows, columns] as y [columns, rows], a tile of 32 x 32 at a time. */
__global__ void TurnedBytesKernel(RengaFp8 format, int64_t rows, int64_t columns,
                                  RengaCudaOperand x, uint8_t *y, uint32_t *most)
{
  __shared__ uint8_t tile[WARP][WARP + 1];
  const int exponent = RengaFp8Exponent(format, *most);
  const float scale = RengaFp8Power(exponent);
  const int64_t across = (columns + WARP - 1) / WARP, tiles = (rows + WARP - 1) / WARP * across;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t row = t / across * WARP, column = t % across * WARP;
    for (int r = threadIdx.y; r < WARP; r += ROWS) {
      const bool there = row + r < rows && column + threadIdx.x < columns;
      const float value = there ? Values<void>(x)[(row + r) * columns + column + threadIdx.x] : 0;
      tile[r][threadIdx.x] = RengaFp8Byte(format, RengaFp8Round(format, scale * value));
    }
    __syncthreads();
    for (int c = threadIdx.y; c < WARP; c += ROWS)
      if (column + c < columns && row + threadIdx.x < rows)
        y[(column + c) * rows + row + threadIdx.x] = tile[threadIdx.x][c];
    __syncthreads();
  }
  if (blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0)
    *(float *)(most + 1) = RengaFp8Power(-exponent);
}

static cudaError_t LaunchRounding(cudaStream_t queue, const RengaCudaRounding *r)
{
  const int64_t count = r->rows * r->columns;
  const int64_t tiles = (r->rows + WARP - 1) / WARP * ((r->columns + WARP - 1) / WARP);
  const unsigned grid = (unsigned)(tiles < 65536 ? tiles : 65536);
  uint8_t *bytes = (uint8_t *)r->y.data;
  if (r->y.type == RENGA_CUDA_BFLOAT16)
    return RENGA_LAUNCH(RoundKernel, BlocksForFours(count), THREADS, 0, queue, r->format, count,
                        r->x, r->y, r->most);
  if (r->turned)
    return RENGA_LAUNCH(TurnedBytesKernel, grid, TeamBlock(), 0, queue, r->format, r->rows,
                        r->columns, r->x, bytes, r->most);
  return RENGA_LAUNCH(BytesKernel, BlocksForFours(count), THREADS, 0, queue, r->format, count, r->x,
                      bytes, r->most);
}

int RengaCudaRoundFactor(void *stream, const RengaCudaRounding *r)
{
  const cudaStream_t queue = (cudaStream_t)stream;
  const int64_t count = r->rows * r->columns;
  const cudaError_t code = cudaMemsetAsync(r->most, 0, sizeof *r->most, queue);
  if (code) return RengaCudaSayError("cudaMemsetAsync", code);
  const int failed =
      RengaCudaSayError("LargestKernel", RENGA_LAUNCH(LargestKernel, BlocksForFours(count), THREADS,
                                                      0, queue, count, r->x, r->most));
  return failed ? failed : RengaCudaSayError("rounding to 8 bits", LaunchRounding(queue, r));
}
