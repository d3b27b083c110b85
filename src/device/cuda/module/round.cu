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

int RengaCudaRoundFactor(void *stream, const RengaCudaRounding *r)
{
  const cudaStream_t queue = (cudaStream_t)stream;
  const unsigned blocks = BlocksForFours(r->count);
  const cudaError_t code = cudaMemsetAsync(r->most, 0, sizeof *r->most, queue);
  if (code) return RengaCudaSayError("cudaMemsetAsync", code);
  const int failed =
      RengaCudaSayError("LargestKernel", RENGA_LAUNCH(LargestKernel, blocks, THREADS, 0, queue,
                                                      r->count, r->x, r->most));
  return failed ? failed
                : RengaCudaSayError("RoundKernel",
                                    RENGA_LAUNCH(RoundKernel, blocks, THREADS, 0, queue, r->format,
                                                 r->count, r->x, r->y, r->most));
}
