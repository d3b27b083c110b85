/* LayerNormalization and RMSNormalization, y = (x - mean) inverse scale + bias along rows, and
   their gradients. Gradients of scale and bias are sums over fixed pieces of rows, then over the
   pieces, in fixed orders. */
#include "kernel.h"

enum { LONG_ROW = 1024 };

/* Where there is more, x + more is stored first, and is x. T: of x, y, more and their sum. */
template <bool WIDE, class T>
__global__ void NormKernel(RengaCudaNormalize s, RengaCudaOperand x_, RengaCudaOperand scale_,
                           RengaCudaOperand bias_, RengaCudaOperand more_, RengaCudaOperand y_,
                           RengaCudaOperand means_, RengaCudaOperand inverses_,
                           RengaCudaOperand sum_)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const Values<T> x(more_.data ? sum_ : x_), y(y_);
  const Values<void> scale(scale_), bias(bias_), means(means_), inverses(inverses_);
  const int64_t row = Team<WIDE>::Line(), first = row * s.n;
  if (row >= s.rows) return;
  float sum = 0, squares = 0;
  RENGA_ALONG(WIDE, i, more_.data ? s.n : 0) /* each thread reads what it has written */
  {
    Four<float> v = Values<T>(x_).Get(first + i, s.n - i);
    const Four<float> added = Values<T>(more_).Get(first + i, s.n - i);
    for (int k = 0; k < FOUR; k++) v.at[k] += added.at[k];
    x.Put(first + i, s.n - i, v);
  }
  RENGA_ALONG(WIDE, i, s.centred ? s.n : 0)
  {
    const Four<float> v = x.Get(first + i, s.n - i);
    for (int k = 0; k < FOUR; k++) sum += v.at[k];
  }
  const float mean = Team<WIDE>::template Together<AddUp>(sum, part) / (float)s.n;
  RENGA_ALONG(WIDE, i, s.n)
  {
    const Four<float> v = x.Get(first + i, s.n - i, mean);
    for (int k = 0; k < FOUR; k++) squares += (v.at[k] - mean) * (v.at[k] - mean);
  }
  squares = Team<WIDE>::template Together<AddUp>(squares, part);
  const float inverse = 1 / sqrtf(squares / (float)s.n + s.epsilon);
  RENGA_ALONG(WIDE, i, s.n)
  {
    Four<float> v = x.Get(first + i, s.n - i);
    const Four<float> factor = scale.Get(i, s.n - i);
    Four<float> added = {};
    if (bias.data) added = bias.Get(i, s.n - i);
    for (int k = 0; k < FOUR; k++)
      v.at[k] = (v.at[k] - mean) * inverse * factor.at[k] + added.at[k];
    y.Put(first + i, s.n - i, v);
  }
  if (Team<WIDE>::Lane() == 0 && means.data) means.Put(row, mean);
  if (Team<WIDE>::Lane() == 0 && inverses.data) inverses.Put(row, inverse);
}

/* With g = dy scale and h = (x - mean) inverse: dx = inverse (g - mean(g) - h mean(g h)), as it
   would be stored, and more, which dx may be. T: of dy, x, dx and more. */
template <bool WIDE, class T>
__global__ void NormGradKernel(RengaCudaNormalize s, RengaCudaOperand dy_, RengaCudaOperand x_,
                               RengaCudaOperand scale_, RengaCudaOperand means_,
                               RengaCudaOperand inverses_, RengaCudaOperand more_,
                               RengaCudaOperand dx_)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const Values<T> dy(dy_), x(x_), more(more_), dx(dx_);
  const Values<void> scale(scale_), means(means_), inverses(inverses_);
  const int64_t row = Team<WIDE>::Line(), first = row * s.n;
  if (row >= s.rows) return;
  const float mean = s.centred ? means[row] : 0, inverse = inverses[row];
  float sum = 0, product = 0;
  RENGA_ALONG(WIDE, i, s.n)
  {
    const Four<float> d = dy.Get(first + i, s.n - i), factor = scale.Get(i, s.n - i);
    const Four<float> v = x.Get(first + i, s.n - i);
    for (int k = 0; k < FOUR; k++) {
      const float g = d.at[k] * factor.at[k];
      sum += g;
      product += g * ((v.at[k] - mean) * inverse);
    }
  }
  sum = Team<WIDE>::template Together<AddUp>(sum, part);
  product = Team<WIDE>::template Together<AddUp>(product, part) / (float)s.n;
  const float mean_g = s.centred ? sum / (float)s.n : 0;
  RENGA_ALONG(WIDE, i, s.n)
  {
    Four<float> d = dy.Get(first + i, s.n - i);
    const Four<float> v = x.Get(first + i, s.n - i), factor = scale.Get(i, s.n - i);
    for (int k = 0; k < FOUR; k++) {
      const float h = (v.at[k] - mean) * inverse;
      d.at[k] = inverse * (d.at[k] * factor.at[k] - mean_g - h * product);
    }
    if (more_.data) {
      const Four<float> before = more.Get(first + i, s.n - i);
      for (int k = 0; k < FOUR; k++) d.at[k] = before.at[k] + dx.Stored(d.at[k]);
    }
    dx.Put(first + i, s.n - i, d);
  }
}

/* parts [pieces, 2, n]: a block takes 128 columns of a piece, its 8 warps every eighth row. T: of
   dy and x. */
enum { COLUMNS = FOUR * WARP };
template <class T>
__global__ void NormPartsKernel(RengaCudaNormalize s, RengaCudaOperand dy_, RengaCudaOperand x_,
                                RengaCudaOperand means_, RengaCudaOperand inverses_,
                                float *__restrict__ parts)
{
  __shared__ float sums[2][ROWS][COLUMNS];
  const Values<T> dy(dy_), x(x_);
  const Values<void> means(means_), inverses(inverses_);
  const int64_t blocks = (s.n + COLUMNS - 1) / COLUMNS, piece = blockIdx.x / blocks;
  const int own = FOUR * (int)threadIdx.x;
  const int64_t column = blockIdx.x % blocks * COLUMNS + own;
  int64_t end = (piece + 1) * s.rows_per_piece;
  if (end > s.rows) end = s.rows;
  float dscale[FOUR] = {}, dbias[FOUR] = {};
  for (int64_t row = piece * s.rows_per_piece + threadIdx.y; row < end && column < s.n;
       row += ROWS) {
    const float mean = s.centred ? means[row] : 0, inverse = inverses[row];
    const Four<float> d = dy.Get(row * s.n + column, s.n - column);
    const Four<float> v = x.Get(row * s.n + column, s.n - column);
    for (int k = 0; k < FOUR; k++) {
      dscale[k] += d.at[k] * ((v.at[k] - mean) * inverse);
      dbias[k] += d.at[k];
    }
  }
  for (int k = 0; k < FOUR; k++) {
    sums[0][threadIdx.y][own + k] = dscale[k];
    sums[1][threadIdx.y][own + k] = dbias[k];
  }
  __syncthreads();
  for (int k = 0; k < FOUR && threadIdx.y < 2 && column + k < s.n; k++) {
    float sum = sums[threadIdx.y][0][own + k];
    for (int w = 1; w < ROWS; w++) sum += sums[threadIdx.y][w][own + k];
    parts[(2 * piece + threadIdx.y) * s.n + column + k] = sum;
  }
}

/* A block takes 32 columns of scale and bias; each row of its threads adds every eighth piece. */
__global__ void NormSumsKernel(RengaCudaNormalize s, const float *__restrict__ parts,
                               RengaCudaOperand dscale, RengaCudaOperand dbias)
{
  __shared__ float sums[ROWS][WARP];
  const int64_t i = (int64_t)blockIdx.x * WARP + threadIdx.x;
  float sum = 0;
  for (int64_t p = threadIdx.y; p < s.pieces && i < 2 * s.n; p += ROWS)
    sum += parts[2 * p * s.n + i];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || i >= 2 * s.n) return;
  for (int w = 1; w < ROWS; w++) sum += sums[w][threadIdx.x];
  const bool scale = i < s.n;
  if (scale ? dscale.data : dbias.data)
    Values<void>(scale ? dscale : dbias).Put(scale ? i : i - s.n, sum);
}

typedef void (*NormForm)(RengaCudaNormalize, RengaCudaOperand, RengaCudaOperand, RengaCudaOperand,
                         RengaCudaOperand, RengaCudaOperand, RengaCudaOperand, RengaCudaOperand,
                         RengaCudaOperand);
static const NormForm norms[2][VALUE_FORMS] = {RENGA_FORMS_OF(NormKernel, false),
                                               RENGA_FORMS_OF(NormKernel, true)};
static void (*const gradients[2][VALUE_FORMS])(RengaCudaNormalize, RengaCudaOperand,
                                               RengaCudaOperand, RengaCudaOperand, RengaCudaOperand,
                                               RengaCudaOperand, RengaCudaOperand,
                                               RengaCudaOperand) = {
    RENGA_FORMS_OF(NormGradKernel, false), RENGA_FORMS_OF(NormGradKernel, true)};
static void (*const part_forms[VALUE_FORMS])(RengaCudaNormalize, RengaCudaOperand, RengaCudaOperand,
                                             RengaCudaOperand, RengaCudaOperand,
                                             float *) = RENGA_FORMS(NormPartsKernel);
static const RengaCudaOperand absent = {NULL, RENGA_CUDA_FLOAT32};

RENGA_CUDA_RUN(RengaCudaNormalization)
{
  const RengaCudaNormalize *s = (const RengaCudaNormalize *)shape;
  const bool wide = s->n > LONG_ROW;
  (void)context, (void)workspace;
  if (s->rows * s->n == 0) return 0;
  return RengaCudaSayError(
      "NormKernel",
      RENGA_LAUNCH(norms[wide][FormFor(in[0], in[3], out[0], out[3])], TeamGrid(wide, s->rows),
                   TeamBlock(), wide ? ROWS * sizeof(float) : 0, (cudaStream_t)stream, *s, in[0],
                   in[1], in[2], in[3], out[0], s->centred ? out[1] : absent,
                   out[s->centred ? 2 : 1], out[3]));
}

RENGA_CUDA_RUN(RengaCudaNormalizationGrad)
{
  const RengaCudaNormalize *s = (const RengaCudaNormalize *)shape;
  const bool wide = s->n > LONG_ROW;
  const RengaCudaOperand dy = in[0], x = in[1], means = s->centred ? in[3] : absent;
  const RengaCudaOperand inverses = in[s->centred ? 4 : 3], more = in[s->centred ? 5 : 4];
  const RengaCudaOperand dscale = out[1], dbias = s->centred ? out[2] : absent;
  cudaError_t code = cudaSuccess;
  (void)context;
  if (s->rows * s->n > 0)
    code = RENGA_LAUNCH(gradients[wide][FormFor(dy, x, more, out[0])], TeamGrid(wide, s->rows),
                        TeamBlock(), wide ? ROWS * sizeof(float) : 0, (cudaStream_t)stream, *s, dy,
                        x, in[2], means, inverses, more, out[0]);
  if (code || s->n == 0 || (!dscale.data && !dbias.data))
    return RengaCudaSayError("NormGradKernel", code);
  if (s->pieces > 0)
    code = RENGA_LAUNCH(part_forms[FormFor(dy, x)],
                        (unsigned)(s->pieces * ((s->n + COLUMNS - 1) / COLUMNS)), TeamBlock(), 0,
                        (cudaStream_t)stream, *s, dy, x, means, inverses, (float *)workspace);
  if (!code)
    code = RENGA_LAUNCH(NormSumsKernel, (unsigned)((2 * s->n + WARP - 1) / WARP), TeamBlock(), 0,
                        (cudaStream_t)stream, *s, (const float *)workspace, dscale, dbias);
  return RengaCudaSayError("NormPartsKernel", code);
}
