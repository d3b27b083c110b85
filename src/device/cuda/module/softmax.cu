/* Softmax and LogSoftmax along one dimension, and their gradients. A warp takes a line, or a block
   where lines are long; which of both, and so the order of sums, follows from the length alone. */
#include "kernel.h"
#include "renga/private/logsum.h"

enum { LONG_LINE = 1024 };

/* y may be x, or the gradient's dy: a lane writes what it alone has read, after all sums. */
template <bool WIDE, class T>
__global__ void SoftmaxKernel(RengaCudaRows s, RengaCudaOperand x_, RengaCudaOperand y_,
                              int logarithm)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const Values<T> x(x_), y(y_);
  const int64_t line = Team<WIDE>::Line();
  if (line >= s.outer * s.inner) return;
  const int64_t base = line / s.inner * s.n * s.inner + line % s.inner;
  float most = -INFINITY, sum = 0;
  RENGA_ALONG(WIDE, i, s.n)
  {
    const Four<float> v = GetAlong(x, base, s.inner, i, s.n, -INFINITY);
    for (int k = 0; k < FOUR; k++) most = fmaxf(most, v.at[k]);
  }
  const float shift = ShiftOf(Team<WIDE>::template Together<TakeMost>(most, part));
  RENGA_ALONG(WIDE, i, s.n)
  {
    const Four<float> v = GetAlong(x, base, s.inner, i, s.n, -INFINITY);
    for (int k = 0; k < FOUR; k++) sum += expf(v.at[k] - shift);
  }
  sum = Team<WIDE>::template Together<AddUp>(sum, part);
  const float inverse = 1 / sum;
  float whole = logarithm ? shift + logf(sum) : 0, rest = 0;
  if (RENGA_LOGSUM_IS_LARGE(whole)) { /* the logarithm would be lost */
    whole = shift;
    rest = logf(sum);
  }
  RENGA_ALONG(WIDE, i, s.n)
  {
    Four<float> v = GetAlong(x, base, s.inner, i, s.n, 0);
    for (int k = 0; k < FOUR; k++)
      v.at[k] = logarithm ? v.at[k] - whole - rest : expf(v.at[k] - shift) * inverse;
    PutAlong(y, base, s.inner, i, s.n, v);
  }
}

/* dx = y (dy - sum(dy y)), or for the logarithm dy - exp(y) sum(dy) */
template <bool WIDE, class T>
__global__ void SoftmaxGradKernel(RengaCudaRows s, RengaCudaOperand dy_, RengaCudaOperand y_,
                                  RengaCudaOperand dx_, int logarithm)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const Values<T> dy(dy_), y(y_), dx(dx_);
  const int64_t line = Team<WIDE>::Line();
  if (line >= s.outer * s.inner) return;
  const int64_t base = line / s.inner * s.n * s.inner + line % s.inner;
  float sum = 0;
  RENGA_ALONG(WIDE, i, s.n)
  {
    const Four<float> d = GetAlong(dy, base, s.inner, i, s.n, 0);
    const Four<float> v = GetAlong(y, base, s.inner, i, s.n, 0);
    for (int k = 0; k < FOUR; k++) sum += logarithm ? d.at[k] : d.at[k] * v.at[k];
  }
  sum = Team<WIDE>::template Together<AddUp>(sum, part);
  RENGA_ALONG(WIDE, i, s.n)
  {
    Four<float> d = GetAlong(dy, base, s.inner, i, s.n, 0);
    const Four<float> v = GetAlong(y, base, s.inner, i, s.n, 0);
    for (int k = 0; k < FOUR; k++)
      d.at[k] = logarithm ? d.at[k] - expf(v.at[k]) * sum : v.at[k] * (d.at[k] - sum);
    PutAlong(dx, base, s.inner, i, s.n, d);
  }
}

typedef void (*SoftmaxForm)(RengaCudaRows, RengaCudaOperand, RengaCudaOperand, int);
typedef void (*SoftmaxGradForm)(RengaCudaRows, RengaCudaOperand, RengaCudaOperand, RengaCudaOperand,
                                int);
static const SoftmaxForm softmax[2][VALUE_FORMS] = {RENGA_FORMS_OF(SoftmaxKernel, false),
                                                    RENGA_FORMS_OF(SoftmaxKernel, true)};
static const SoftmaxGradForm gradients[2][VALUE_FORMS] = {RENGA_FORMS_OF(SoftmaxGradKernel, false),
                                                          RENGA_FORMS_OF(SoftmaxGradKernel, true)};

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
    code = RENGA_LAUNCH(gradients[wide][FormFor(in[0], in[1], out[0])], grid, TeamBlock(), shared,
                        (cudaStream_t)stream, *s, in[0], in[1], out[0], logarithm);
  else
    code = RENGA_LAUNCH(softmax[wide][FormFor(in[0], out[0])], grid, TeamBlock(), shared,
                        (cudaStream_t)stream, *s, in[0], out[0], logarithm);
  return RengaCudaSayError("SoftmaxKernel", code);
}
