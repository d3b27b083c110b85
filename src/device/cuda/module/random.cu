/* Dropout and random numbers: those of the cpu device. */
#include "kernel.h"

/* A thread takes four neighbours, which mostly have one draw between them. y may be x. */
template <class T>
__global__ void DrawKernel(RengaCudaDraw s, Randoms randoms, int64_t first_sample,
                           RengaCudaOperand x_, RengaCudaOperand y_)
{
  const Values<T> x(x_), y(y_);
  const int64_t run = s.factor * s.after, samples = s.batch / s.factor;
  const float factor = 1 / (1 - s.ratio);
  RENGA_EACH_FOUR(i, s.count)
  {
    Four<float> v = {};
    float u[FOUR];
    int64_t drawn_sample = -1, drawn_block = -1;
    if (x.data) v = x.Get(i, s.count - i);
    for (int k = 0; k < FOUR; k++) {
      const int64_t row = (i + k) / run, sample = first_sample + row % samples;
      const int64_t element = row / samples * run + (i + k) % run;
      if (sample != drawn_sample || element / 4 != drawn_block)
        DrawFour(randoms, drawn_sample = sample, drawn_block = element / 4, u);
      const float drawn = PickOne(u, (int)(element % 4));
      v.at[k] = !x.data ? drawn : drawn < s.ratio ? 0 : v.at[k] * factor;
    }
    y.Put(i, s.count - i, v);
  }
}

/* Kernels that are launched again and again as a graph find it there. */
__global__ void MomentKernel(RengaCudaMoment moment, RengaCudaMoment *place)
{
  if (threadIdx.x == 0) *place = moment;
}

int RengaCudaSetMoment(void *stream, const RengaCudaMoment *moment, RengaCudaMoment *place)
{
  return RengaCudaSayError(
      "MomentKernel", RENGA_LAUNCH(MomentKernel, 1, WARP, 0, (cudaStream_t)stream, *moment, place));
}

static void (*const draws[VALUE_FORMS])(RengaCudaDraw, Randoms, int64_t, RengaCudaOperand,
                                        RengaCudaOperand) = RENGA_FORMS(DrawKernel);

/* Outside training, and with ratio 0, it is a copy. */
RENGA_CUDA_RUN(RengaCudaDropout)
{
  const RengaCudaDraw *s = (const RengaCudaDraw *)shape;
  const bool drawn = !in[0].data || (context->training && s->ratio > 0);
  cudaError_t code = cudaSuccess;
  (void)workspace;
  if (s->count == 0) return 0;
  if (drawn)
    code = RENGA_LAUNCH(draws[FormFor(in[0], out[0])], BlocksForFours(s->count), THREADS, 0,
                        (cudaStream_t)stream, *s, RandomsOf(context, s->key), context->sample,
                        in[0], out[0]);
  else if (in[0].data != out[0].data)
    return RengaCudaConvert(stream, s->count, in[0], out[0]);
  return RengaCudaSayError("DrawKernel", code);
}
