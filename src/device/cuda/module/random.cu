/* Dropout and random numbers: those of the cpu device. */
#include "kernel.h"

/* A thread takes four neighbours, which mostly have one draw between them. y may be x. */
__global__ void DrawKernel(RengaCudaDraw s, Randoms randoms, int64_t first_sample, const float *x,
                           float *y)
{
  const int64_t run = s.factor * s.after, samples = s.batch / s.factor;
  const float factor = 1 / (1 - s.ratio);
  RENGA_EACH(four, (s.count + 3) / 4)
  {
    const int64_t end = 4 * four + 4 < s.count ? 4 * four + 4 : s.count;
    float u[4];
    int64_t drawn_sample = -1, drawn_block = -1;
    for (int64_t i = 4 * four; i < end; i++) {
      const int64_t row = i / run, sample = first_sample + row % samples;
      const int64_t element = row / samples * run + i % run;
      if (sample != drawn_sample || element / 4 != drawn_block)
        DrawFour(randoms, drawn_sample = sample, drawn_block = element / 4, u);
      const float v = PickOne(u, (int)(element % 4));
      y[i] = !x ? v : v < s.ratio ? 0 : x[i] * factor;
    }
  }
}

/* Outside training, and with ratio 0, it is a copy. */
RENGA_CUDA_RUN(RengaCudaDropout)
{
  const RengaCudaDraw *s = (const RengaCudaDraw *)shape;
  const int draws = !in[0] || (context->training && s->ratio > 0);
  cudaError_t code = cudaSuccess;
  (void)workspace;
  if (s->count == 0) return 0;
  if (draws)
    code = RENGA_LAUNCH(DrawKernel, BlocksFor((s->count + 3) / 4), THREADS, 0, (cudaStream_t)stream,
                        *s, RandomsOf(context, s->key), context->sample, (const float *)in[0],
                        (float *)out[0]);
  else if (in[0] != out[0])
    code = cudaMemcpyAsync(out[0], in[0], (size_t)s->count * sizeof(float),
                           cudaMemcpyDeviceToDevice, (cudaStream_t)stream);
  return RengaCudaSayError("DrawKernel", code);
}
