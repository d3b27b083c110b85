/* LayerNormalization and RMSNormalization, y = (x - mean) inverse scale + bias along rows, and
   their gradients. Gradients of scale and bias are sums over fixed pieces of rows, then over the
   pieces in order. */
#include "kernel.h"

enum { LONG_ROW = 1024 };

template <bool WIDE>
__global__ void NormKernel(RengaCudaNormalize s, const float *__restrict__ x,
                           const float *__restrict__ scale, const float *__restrict__ bias,
                           float *__restrict__ y, float *means, float *inverses)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const int64_t row = Team<WIDE>::Line();
  if (row >= s.rows) return;
  const float *from = x + row * s.n;
  float sum = 0, squares = 0;
  for (int64_t i = Team<WIDE>::Lane(); i < s.n && s.centred; i += Team<WIDE>::Lanes())
    sum += from[i];
  const float mean = Team<WIDE>::template Together<AddUp>(sum, part) / (float)s.n;
  for (int64_t i = Team<WIDE>::Lane(); i < s.n; i += Team<WIDE>::Lanes())
    squares += (from[i] - mean) * (from[i] - mean);
  squares = Team<WIDE>::template Together<AddUp>(squares, part);
  const float inverse = 1 / sqrtf(squares / (float)s.n + s.epsilon);
  for (int64_t i = Team<WIDE>::Lane(); i < s.n; i += Team<WIDE>::Lanes())
    y[row * s.n + i] = (from[i] - mean) * inverse * scale[i] + (bias ? bias[i] : 0);
  if (Team<WIDE>::Lane() == 0 && means) means[row] = mean;
  if (Team<WIDE>::Lane() == 0 && inverses) inverses[row] = inverse;
}

/* With g = dy scale and h = (x - mean) inverse: dx = inverse (g - mean(g) - h mean(g h)). */
template <bool WIDE>
__global__ void NormGradKernel(RengaCudaNormalize s, const float *__restrict__ dy,
                               const float *__restrict__ x, const float *__restrict__ scale,
                               const float *__restrict__ means, const float *__restrict__ inverses,
                               float *__restrict__ dx)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const int64_t row = Team<WIDE>::Line();
  if (row >= s.rows) return;
  const float mean = s.centred ? means[row] : 0, inverse = inverses[row];
  float sum = 0, product = 0;
  for (int64_t i = Team<WIDE>::Lane(); i < s.n; i += Team<WIDE>::Lanes()) {
    const float g = dy[row * s.n + i] * scale[i];
    sum += g;
    product += g * ((x[row * s.n + i] - mean) * inverse);
  }
  sum = Team<WIDE>::template Together<AddUp>(sum, part);
  product = Team<WIDE>::template Together<AddUp>(product, part) / (float)s.n;
  const float mean_g = s.centred ? sum / (float)s.n : 0;
  for (int64_t i = Team<WIDE>::Lane(); i < s.n; i += Team<WIDE>::Lanes()) {
    const float h = (x[row * s.n + i] - mean) * inverse;
    dx[row * s.n + i] = inverse * (dy[row * s.n + i] * scale[i] - mean_g - h * product);
  }
}

/* parts [pieces, 2, n]: a block takes 32 columns of a piece, its 8 warps every eighth row. */
__global__ void NormPartsKernel(RengaCudaNormalize s, const float *__restrict__ dy,
                                const float *__restrict__ x, const float *__restrict__ means,
                                const float *__restrict__ inverses, float *__restrict__ parts)
{
  __shared__ float sums[2][ROWS][WARP];
  const int64_t blocks = (s.n + WARP - 1) / WARP, piece = blockIdx.x / blocks;
  const int64_t column = blockIdx.x % blocks * WARP + threadIdx.x;
  int64_t end = (piece + 1) * s.rows_per_piece;
  if (end > s.rows) end = s.rows;
  float dscale = 0, dbias = 0;
  for (int64_t row = piece * s.rows_per_piece + threadIdx.y; row < end && column < s.n;
       row += ROWS) {
    const float d = dy[row * s.n + column], mean = s.centred ? means[row] : 0;
    dscale += d * ((x[row * s.n + column] - mean) * inverses[row]);
    dbias += d;
  }
  sums[0][threadIdx.y][threadIdx.x] = dscale;
  sums[1][threadIdx.y][threadIdx.x] = dbias;
  __syncthreads();
  if (threadIdx.y > 1 || column >= s.n) return;
  float sum = sums[threadIdx.y][0][threadIdx.x];
  for (int w = 1; w < ROWS; w++) sum += sums[threadIdx.y][w][threadIdx.x];
  parts[(2 * piece + threadIdx.y) * s.n + column] = sum;
}

__global__ void NormSumsKernel(RengaCudaNormalize s, const float *__restrict__ parts, float *dscale,
                               float *dbias)
{
  RENGA_EACH(i, 2 * s.n)
  {
    float *to = i < s.n ? dscale : dbias;
    if (!to) continue;
    float sum = 0;
    for (int64_t p = 0; p < s.pieces; p++) sum += parts[2 * p * s.n + i];
    to[i < s.n ? i : i - s.n] = sum;
  }
}

RENGA_CUDA_RUN(RengaCudaNormalization)
{
  const RengaCudaNormalize *s = (const RengaCudaNormalize *)shape;
  const bool wide = s->n > LONG_ROW;
  (void)context, (void)workspace;
  if (s->rows * s->n == 0) return 0;
  return RengaCudaSayError(
      "NormKernel",
      RENGA_LAUNCH((wide ? NormKernel<true> : NormKernel<false>), TeamGrid(wide, s->rows),
                   TeamBlock(), wide ? ROWS * sizeof(float) : 0, (cudaStream_t)stream, *s,
                   (const float *)in[0], (const float *)in[1], (const float *)in[2],
                   (float *)out[0], s->centred ? (float *)out[1] : NULL,
                   (float *)out[s->centred ? 2 : 1]));
}

RENGA_CUDA_RUN(RengaCudaNormalizationGrad)
{
  const RengaCudaNormalize *s = (const RengaCudaNormalize *)shape;
  const bool wide = s->n > LONG_ROW;
  const float *dy = (const float *)in[0], *x = (const float *)in[1];
  const float *means = s->centred ? (const float *)in[3] : NULL;
  const float *inverses = (const float *)in[s->centred ? 4 : 3];
  float *dscale = (float *)out[1], *dbias = s->centred ? (float *)out[2] : NULL;
  cudaError_t code = cudaSuccess;
  (void)context;
  if (s->rows * s->n > 0)
    code =
        RENGA_LAUNCH((wide ? NormGradKernel<true> : NormGradKernel<false>), TeamGrid(wide, s->rows),
                     TeamBlock(), wide ? ROWS * sizeof(float) : 0, (cudaStream_t)stream, *s, dy, x,
                     (const float *)in[2], means, inverses, (float *)out[0]);
  if (code || s->n == 0 || (!dscale && !dbias)) return RengaCudaSayError("NormGradKernel", code);
  if (s->pieces > 0)
    code = RENGA_LAUNCH(NormPartsKernel, (unsigned)(s->pieces * ((s->n + WARP - 1) / WARP)),
                        TeamBlock(), 0, (cudaStream_t)stream, *s, dy, x, means, inverses,
                        (float *)workspace);
  if (!code)
    code = RENGA_LAUNCH(NormSumsKernel, BlocksFor(2 * s->n), THREADS, 0, (cudaStream_t)stream, *s,
                        (const float *)workspace, dscale, dbias);
  return RengaCudaSayError("NormPartsKernel", code);
}
