/* Softmax and LogSoftmax along one dimension, and their gradients. A warp takes a line, or a block
   where lines are long; which of both, and so the order of sums, follows from the length alone. */
#include "kernel.h"

enum { LONG_LINE = 1024 };

/* y may be x, or the gradient's dy: a lane writes what it alone has read, after all sums. */
template <bool WIDE>
__global__ void SoftmaxKernel(RengaCudaRows s, const float *x, float *y, int logarithm)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const int64_t line = Team<WIDE>::Line();
  if (line >= s.outer * s.inner) return;
  const int64_t base = line / s.inner * s.n * s.inner + line % s.inner;
  float most = -INFINITY, sum = 0;
  for (int64_t i = Team<WIDE>::Lane(); i < s.n; i += Team<WIDE>::Lanes())
    most = fmaxf(most, x[base + i * s.inner]);
  const float shift = ShiftOf(Team<WIDE>::template Together<TakeMost>(most, part));
  for (int64_t i = Team<WIDE>::Lane(); i < s.n; i += Team<WIDE>::Lanes())
    sum += expf(x[base + i * s.inner] - shift);
  sum = Team<WIDE>::template Together<AddUp>(sum, part);
  const float whole = logarithm ? shift + logf(sum) : 0, inverse = 1 / sum;
  for (int64_t i = Team<WIDE>::Lane(); i < s.n; i += Team<WIDE>::Lanes()) {
    const float v = x[base + i * s.inner];
    y[base + i * s.inner] = logarithm ? v - whole : expf(v - shift) * inverse;
  }
}

/* dx = y (dy - sum(dy y)), or for the logarithm dy - exp(y) sum(dy) */
template <bool WIDE>
__global__ void SoftmaxGradKernel(RengaCudaRows s, const float *dy, const float *y, float *dx,
                                  int logarithm)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const int64_t line = Team<WIDE>::Line();
  if (line >= s.outer * s.inner) return;
  const int64_t base = line / s.inner * s.n * s.inner + line % s.inner;
  float sum = 0;
  for (int64_t i = Team<WIDE>::Lane(); i < s.n; i += Team<WIDE>::Lanes()) {
    const float d = dy[base + i * s.inner];
    sum += logarithm ? d : d * y[base + i * s.inner];
  }
  sum = Team<WIDE>::template Together<AddUp>(sum, part);
  for (int64_t i = Team<WIDE>::Lane(); i < s.n; i += Team<WIDE>::Lanes()) {
    const float d = dy[base + i * s.inner], v = y[base + i * s.inner];
    dx[base + i * s.inner] = logarithm ? d - expf(v) * sum : v * (d - sum);
  }
}

RENGA_CUDA_RUN(RengaCudaSoftmax)
{
  const RengaCudaRows *s = (const RengaCudaRows *)shape;
  const int64_t lines = s->outer * s->inner;
  const bool wide = s->n > LONG_LINE, gradient = s->function >= RENGA_CUDA_SOFTMAX_GRAD;
  const int logarithm =
      s->function == RENGA_CUDA_LOG_SOFTMAX || s->function == RENGA_CUDA_LOG_SOFTMAX_GRAD;
  const unsigned grid = TeamGrid(wide, lines);
  const size_t shared = wide ? ROWS * sizeof(float) : 0;
  cudaError_t code;
  (void)context, (void)workspace;
  if (lines * s->n == 0) return 0;
  if (gradient)
    code = RENGA_LAUNCH((wide ? SoftmaxGradKernel<true> : SoftmaxGradKernel<false>), grid,
                        TeamBlock(), shared, (cudaStream_t)stream, *s, (const float *)in[0],
                        (const float *)in[1], (float *)out[0], logarithm);
  else
    code =
        RENGA_LAUNCH((wide ? SoftmaxKernel<true> : SoftmaxKernel<false>), grid, TeamBlock(), shared,
                     (cudaStream_t)stream, *s, (const float *)in[0], (float *)out[0], logarithm);
  return RengaCudaSayError("SoftmaxKernel", code);
}
