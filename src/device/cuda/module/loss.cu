/* CrossEntropy and LogLikelihood from scores, their gradients, and the count of labels. Sums over
   labels are in double: each of 256 threads adds every 256th, a tree adds the threads. */
#include "kernel.h"

enum { MANY_CLASSES = 1024 };

static __device__ inline int64_t ScoreAt(const RengaCudaLoss &s, int64_t row, int64_t class_)
{
  return (row / s.inner * s.classes + class_) * s.inner + row % s.inner;
}

/* Labels outside were found before (RengaCudaCheckIndices); here they count as ignored. */
static __device__ inline bool Counts(const RengaCudaLoss &s, int64_t label)
{
  return label != s.ignore && label >= 0 && label < s.classes;
}

template <bool WIDE>
__global__ void LossKernel(RengaCudaLoss s, const float *__restrict__ scores, const void *labels,
                           const float *__restrict__ weights, float *whole_of, double *losses)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const int64_t row = Team<WIDE>::Line();
  if (row >= s.outer * s.inner) return;
  float most = -INFINITY, sum = 0, whole = 0;
  if (!s.scored) {
    for (int64_t c = Team<WIDE>::Lane(); c < s.classes; c += Team<WIDE>::Lanes())
      most = fmaxf(most, scores[ScoreAt(s, row, c)]);
    const float shift = ShiftOf(Team<WIDE>::template Together<TakeMost>(most, part));
    for (int64_t c = Team<WIDE>::Lane(); c < s.classes; c += Team<WIDE>::Lanes())
      sum += expf(scores[ScoreAt(s, row, c)] - shift);
    whole = shift + logf(Team<WIDE>::template Together<AddUp>(sum, part));
  }
  if (Team<WIDE>::Lane() != 0) return;
  const int64_t label = IntegerAt(s.wide, labels, row);
  if (whole_of) whole_of[row] = whole;
  losses[row] = 0;
  if (Counts(s, label))
    losses[row] = ((double)whole - scores[ScoreAt(s, row, label)]) * (weights ? weights[label] : 1);
}

/* The sum of a block's threads, for thread 0. */
static __device__ double SumOfBlock(double mine, double *sum)
{
  sum[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned step = THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sum[threadIdx.x] += sum[threadIdx.x + step];
    __syncthreads();
  }
  return sum[0];
}

__global__ void SumLossesKernel(int64_t rows, const double *__restrict__ losses, float *total)
{
  __shared__ double sum[THREADS];
  double mine = 0;
  for (int64_t row = threadIdx.x; row < rows; row += THREADS) mine += losses[row];
  mine = SumOfBlock(mine, sum);
  if (threadIdx.x == 0) *total = (float)mine;
}

__global__ void CountLabelsKernel(RengaCudaLoss s, const void *labels,
                                  const float *__restrict__ weights, float *total)
{
  __shared__ double sum[THREADS];
  double mine = 0;
  for (int64_t row = threadIdx.x; row < s.outer; row += THREADS) {
    const int64_t label = IntegerAt(s.wide, labels, row);
    if (weights)
      mine += Counts(s, label) ? weights[label] : 0;
    else
      mine += label != s.ignore;
  }
  mine = SumOfBlock(mine, sum);
  if (threadIdx.x == 0) *total = (float)mine;
}

/* A team takes a label. dx = factor (exp(x - whole) - [class is label]); dx may be the scores. */
template <bool WIDE>
__global__ void LossGradKernel(RengaCudaLoss s, const float *gradient, const float *scores,
                               const void *labels, const float *whole_of, const float *weights,
                               float *dx)
{
  const int64_t row = Team<WIDE>::Line();
  if (row >= s.outer * s.inner) return;
  const int64_t label = IntegerAt(s.wide, labels, row), first = ScoreAt(s, row, 0);
  const float factor = Counts(s, label) ? *gradient * (weights ? weights[label] : 1) : 0;
  const float whole = s.scored ? 0 : whole_of[row];
  for (int64_t c = Team<WIDE>::Lane(); c < s.classes; c += Team<WIDE>::Lanes()) {
    const int64_t at = first + c * s.inner;
    float d = factor != 0 && !s.scored ? factor * expf(scores[at] - whole) : 0;
    if (label == c) d -= factor;
    dx[at] = d;
  }
}

RENGA_CUDA_RUN(RengaCudaCrossEntropy)
{
  const RengaCudaLoss *s = (const RengaCudaLoss *)shape;
  const int64_t rows = s->outer * s->inner;
  const bool wide = s->classes > MANY_CLASSES && !s->scored;
  cudaError_t code = cudaSuccess;
  (void)context;
  if (rows > 0)
    code = RENGA_LAUNCH((wide ? LossKernel<true> : LossKernel<false>), TeamGrid(wide, rows),
                        TeamBlock(), wide ? ROWS * sizeof(float) : 0, (cudaStream_t)stream, *s,
                        (const float *)in[0], in[1], (const float *)in[2],
                        s->scored ? NULL : (float *)out[1], (double *)workspace);
  if (!code)
    code = RENGA_LAUNCH(SumLossesKernel, 1, THREADS, 0, (cudaStream_t)stream, rows,
                        (const double *)workspace, (float *)out[0]);
  return RengaCudaSayError("LossKernel", code);
}

RENGA_CUDA_RUN(RengaCudaCrossEntropyGrad)
{
  const RengaCudaLoss *s = (const RengaCudaLoss *)shape;
  const int64_t rows = s->outer * s->inner;
  const bool wide = s->classes > MANY_CLASSES;
  (void)context, (void)workspace;
  if (rows * s->classes == 0) return 0;
  return RengaCudaSayError(
      "LossGradKernel", RENGA_LAUNCH((wide ? LossGradKernel<true> : LossGradKernel<false>),
                                     TeamGrid(wide, rows), TeamBlock(), 0, (cudaStream_t)stream, *s,
                                     (const float *)in[0], (const float *)in[1], in[2],
                                     (const float *)in[3], (const float *)in[4], (float *)out[0]));
}

/* labels are [outer] */
RENGA_CUDA_RUN(RengaCudaCountLabels)
{
  (void)context, (void)workspace;
  return RengaCudaSayError("CountLabelsKernel",
                           RENGA_LAUNCH(CountLabelsKernel, 1, THREADS, 0, (cudaStream_t)stream,
                                        *(const RengaCudaLoss *)shape, in[0], (const float *)in[1],
                                        (float *)out[0]));
}
