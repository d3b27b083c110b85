/* CrossEntropy and LogLikelihood from scores, their gradients, and the count of labels. Sums over
   labels are in double: each of 1024 threads adds every 1024th, a tree adds the threads. */
#include "kernel.h"
#include "renga/private/logsum.h"

enum { MANY_CLASSES = 1024, SUMMERS = 1024 };

static __device__ inline int64_t ScoreAt(const RengaCudaLoss &s, int64_t row, int64_t class_)
{
  return (row / s.inner * s.extent + class_) * s.inner + row % s.inner;
}

/* Labels outside were found before (RengaCudaCheckIndices); here they count as ignored. */
static __device__ inline bool Counts(const RengaCudaLoss &s, int64_t label)
{
  return label != s.ignore && label >= s.first && label < s.first + s.classes;
}

/* The log-sum-exp of a row from `first` on is the number returned plus the logarithm of sum. The
   scores are read once: a thread's sum fades where it meets a larger score, and fades again to the
   largest one of all. */
template <bool WIDE, class T>
static __device__ inline float SumScores(const RengaCudaLoss &s, const Values<T> &scores,
                                         int64_t first, float *part, float *sum)
{
  float most = -INFINITY, mine = 0;
  RENGA_ALONG(WIDE, c, s.classes)
  {
    const Four<float> v = GetAlong(scores, first, s.inner, c, s.classes, -INFINITY);
    const float here = fmaxf(fmaxf(v.at[0], v.at[1]), fmaxf(v.at[2], v.at[3]));
    if (here > most) {
      mine *= PowerOfTwo((most - ShiftOf(here)) * LOG2_E);
      most = here;
    }
    for (int k = 0; k < FOUR; k++) mine += PowerOfTwo((v.at[k] - ShiftOf(most)) * LOG2_E);
  }
  const float shift = ShiftOf(Team<WIDE>::template Together<TakeMost>(most, part));
  if (most > -INFINITY) mine *= PowerOfTwo((ShiftOf(most) - shift) * LOG2_E);
  *sum = Team<WIDE>::template Together<AddUp>(mine, part);
  return shift;
}

/* T: of the scores. */
template <bool WIDE, class T>
__global__ void LossKernel(RengaCudaLoss s, RengaCudaOperand scores_, const void *labels,
                           RengaCudaOperand weights_, RengaCudaOperand whole_,
                           RengaCudaOperand picked, double *losses)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const Values<T> scores(scores_);
  const Values<void> weights(weights_), whole_of(whole_);
  const int64_t row = Team<WIDE>::Line();
  if (row >= s.outer * s.inner) return;
  const int64_t first = ScoreAt(s, row, 0);
  float shift = 0, sum = 1;
  if (!s.scored) shift = SumScores<WIDE>(s, scores, first, part, &sum);
  const float rest = s.scored ? 0 : logf(sum), whole = shift + rest;
  if (Team<WIDE>::Lane() != 0) return;
  const int64_t label = IntegerAt(s.wide, labels, row);
  if (whole_of.data) whole_of.Put(row, whole);
  if (s.lane) {
    const bool own = Counts(s, label);
    Values<void>(picked).Put(row, own ? (float)scores[ScoreAt(s, row, label - s.first)] : 0);
    return;
  }
  losses[row] = 0;
  if (!Counts(s, label)) return;
  const float score = scores[ScoreAt(s, row, label)], weight = weights.data ? weights[label] : 1;
  losses[row] = RENGA_LOGSUM_IS_LARGE(whole) ? ((double)shift - score + rest) * weight
                                             : ((double)whole - score) * weight;
}

/* The sum of a block's threads, for thread 0. */
static __device__ double SumOfBlock(double mine, double *sum)
{
  sum[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned step = SUMMERS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) sum[threadIdx.x] += sum[threadIdx.x + step];
    __syncthreads();
  }
  return sum[0];
}

/* What one thread adds of count numbers: every 1024th, in order. EIGHT are looked up at a time,
   none of which waits for another. */
template <class F> static __device__ inline double AddEvery(int64_t count, F number)
{
  enum { EIGHT = 8 };
  double mine = 0;
  int64_t row = threadIdx.x;
  for (; row + (EIGHT - 1) * SUMMERS < count; row += EIGHT * SUMMERS) {
    double term[EIGHT];
#pragma unroll
    for (int k = 0; k < EIGHT; k++) term[k] = number(row + k * SUMMERS);
    for (int k = 0; k < EIGHT; k++) mine += term[k];
  }
  for (; row < count; row += SUMMERS) mine += number(row);
  return mine;
}

__global__ void SumLossesKernel(int64_t rows, const double *__restrict__ losses,
                                RengaCudaOperand total)
{
  __shared__ double sum[SUMMERS];
  const double mine = SumOfBlock(AddEvery(rows, [=](int64_t row) { return losses[row]; }), sum);
  if (threadIdx.x == 0) Values<void>(total).Put(0, (float)mine);
}

__global__ void CountLabelsKernel(RengaCudaLoss s, const void *labels, RengaCudaOperand weights_,
                                  RengaCudaOperand total)
{
  const Values<void> weights(weights_);
  __shared__ double sum[SUMMERS];
  const auto counted = [&](int64_t row) -> double {
    const int64_t label = IntegerAt(s.wide, labels, row);
    if (!weights.data) return label != s.ignore;
    return Counts(s, label) ? (float)weights[label] : 0;
  };
  const double mine = SumOfBlock(AddEvery(s.outer, counted), sum);
  if (threadIdx.x == 0) Values<void>(total).Put(0, (float)mine);
}

/* A team takes a label. dx = factor (exp(x - whole) - [class is label]); dx may be the scores. T:
   of both. Of a lane factor is the gradient of its log-sum-exp, and weights that of the label's
   score. */
template <bool WIDE, class T>
__global__ void LossGradKernel(RengaCudaLoss s, RengaCudaOperand gradient, RengaCudaOperand scores_,
                               const void *labels, RengaCudaOperand whole_,
                               RengaCudaOperand weights_, RengaCudaOperand dx_)
{
  RENGA_DYNAMIC_SHARED(float, part);
  const Values<T> scores(scores_), dx(dx_);
  const Values<void> whole_of(whole_), weights(weights_);
  const int64_t row = Team<WIDE>::Line();
  if (row >= s.outer * s.inner) return;
  const int64_t label = IntegerAt(s.wide, labels, row), first = ScoreAt(s, row, 0);
  float factor = 0, more = 0;
  if (s.lane)
    factor = Values<void>(gradient)[row];
  else if (Counts(s, label))
    factor = Values<void>(gradient)[0] * (weights.data ? weights[label] : 1);
  if (Counts(s, label)) more = s.lane ? (float)weights[row] : -factor;
  float whole = s.scored ? 0 : whole_of[row], share = factor;
  if (factor != 0 && RENGA_LOGSUM_IS_LARGE(whole)) { /* it has lost the logarithm */
    float sum;
    whole = SumScores<WIDE>(s, scores, first, part, &sum);
    share = factor / sum;
  }
  RENGA_ALONG(WIDE, c, s.classes)
  {
    Four<float> d = {};
    if (factor != 0 && !s.scored) d = GetAlong(scores, first, s.inner, c, s.classes, -INFINITY);
    for (int k = 0; k < FOUR; k++) {
      d.at[k] = factor != 0 && !s.scored ? share * PowerOfTwo((d.at[k] - whole) * LOG2_E) : 0;
      if (label - s.first == c + k) d.at[k] += more;
    }
    PutAlong(dx, first, s.inner, c, s.classes, d);
  }
  for (int64_t c = s.classes + Team<WIDE>::Lane(); c < s.extent; c += Team<WIDE>::Lanes())
    dx.Put(first + c, 0);
}

static void (*const losses[2][VALUE_FORMS])(RengaCudaLoss, RengaCudaOperand, const void *,
                                            RengaCudaOperand, RengaCudaOperand, RengaCudaOperand,
                                            double *) = {RENGA_FORMS_OF(LossKernel, false),
                                                         RENGA_FORMS_OF(LossKernel, true)};
static void (*const gradients[2][VALUE_FORMS])(RengaCudaLoss, RengaCudaOperand, RengaCudaOperand,
                                               const void *, RengaCudaOperand, RengaCudaOperand,
                                               RengaCudaOperand) = {
    RENGA_FORMS_OF(LossGradKernel, false), RENGA_FORMS_OF(LossGradKernel, true)};

RENGA_CUDA_RUN(RengaCudaCrossEntropy)
{
  const RengaCudaLoss *s = (const RengaCudaLoss *)shape;
  const RengaCudaOperand absent = {NULL, RENGA_CUDA_FLOAT32};
  const int64_t rows = s->outer * s->inner;
  const bool wide = s->classes > MANY_CLASSES && !s->scored;
  cudaError_t code = cudaSuccess;
  (void)context;
  if (rows > 0)
    code = RENGA_LAUNCH(losses[wide][FormFor(in[0])], TeamGrid(wide, rows), TeamBlock(),
                        wide ? ROWS * sizeof(float) : 0, (cudaStream_t)stream, *s, in[0],
                        in[1].data, in[2], s->scored ? absent : out[s->lane ? 0 : 1],
                        s->lane ? out[1] : absent, (double *)workspace);
  if (!code && !s->lane)
    code = RENGA_LAUNCH(SumLossesKernel, 1, SUMMERS, 0, (cudaStream_t)stream, rows,
                        (const double *)workspace, out[0]);
  return RengaCudaSayError("LossKernel", code);
}

RENGA_CUDA_RUN(RengaCudaCrossEntropyGrad)
{
  const RengaCudaLoss *s = (const RengaCudaLoss *)shape;
  const int64_t rows = s->outer * s->inner;
  const bool wide = s->classes > MANY_CLASSES;
  (void)context, (void)workspace;
  if (rows * s->classes == 0) return 0;
  return RengaCudaSayError("LossGradKernel",
                           RENGA_LAUNCH(gradients[wide][FormFor(in[1], out[0])],
                                        TeamGrid(wide, rows), TeamBlock(),
                                        wide ? ROWS * sizeof(float) : 0, (cudaStream_t)stream, *s,
                                        in[0], in[1], in[2].data, in[3], in[4], out[0]));
}

/* The operands of a call, as kernels are told them. */
struct JoinOperands {
  RengaCudaOperand of[RENGA_CUDA_ARGUMENTS];
};

static __device__ inline double JoinWeight(const RengaCudaJoin &s, const void *labels,
                                           RengaCudaOperand weights, int64_t row)
{
  const int64_t label = IntegerAt(s.wide, labels, row);
  if (label == s.ignore) return 0;
  if (!weights.data) return 1;
  return label >= 0 && label < s.classes ? (double)Values<void>(weights)[label] : 0;
}

__global__ void JoinKernel(RengaCudaJoin s, JoinOperands in, RengaCudaOperand whole_,
                           RengaCudaOperand score_, double *terms)
{
  RENGA_EACH(row, s.rows)
  {
    double most = -INFINITY, sum = 0, score = 0, undefined = 0, whole;
    for (int l = 0; l < s.lanes; l++) most = fmax(most, (double)Values<void>(in.of[2 + l])[row]);
    for (int l = 0; l < s.lanes; l++) {
      const double own = Values<void>(in.of[2 + l])[row];
      if (isnan(own)) undefined = own;
      sum += isinf(most) ? 0 : exp(own - most);
    }
    for (int l = 0; l < s.lanes; l++) score += (double)Values<void>(in.of[2 + s.lanes + l])[row];
    whole = isnan(undefined) ? undefined : isinf(most) ? most : most + log(sum);
    const double weight = JoinWeight(s, in.of[0].data, in.of[1], row);
    if (whole_.data) Values<void>(whole_).Put(row, (float)whole);
    if (score_.data) Values<void>(score_).Put(row, (float)score);
    terms[row] = weight != 0 ? weight * (whole - score) : 0;
  }
}

__global__ void JoinGradKernel(RengaCudaJoin s, JoinOperands in, JoinOperands out)
{
  RENGA_EACH(row, s.rows)
  {
    const double gradient = Values<void>(in.of[0])[0];
    const double factor = gradient * JoinWeight(s, in.of[1].data, in.of[3], row);
    const double whole = Values<void>(in.of[2])[row];
    if (out.of[0].data) Values<void>(out.of[0]).Put(row, (float)-factor);
    for (int l = 0; l < s.lanes; l++) {
      const double own = Values<void>(in.of[4 + l])[row];
      if (out.of[1 + l].data)
        Values<void>(out.of[1 + l]).Put(row, factor == 0 ? 0 : (float)(factor * exp(own - whole)));
    }
  }
}

static JoinOperands OperandsOf(const RengaCudaOperand operands[])
{
  JoinOperands all;
  for (int i = 0; i < RENGA_CUDA_ARGUMENTS; i++) all.of[i] = operands[i];
  return all;
}

RENGA_CUDA_RUN(RengaCudaJoinLanes)
{
  const RengaCudaJoin *s = (const RengaCudaJoin *)shape;
  cudaError_t code = cudaSuccess;
  (void)context;
  if (s->rows > 0)
    code = RENGA_LAUNCH(JoinKernel, BlocksFor(s->rows), THREADS, 0, (cudaStream_t)stream, *s,
                        OperandsOf(in), out[1], out[2], (double *)workspace);
  if (!code)
    code = RENGA_LAUNCH(SumLossesKernel, 1, SUMMERS, 0, (cudaStream_t)stream, s->rows,
                        (const double *)workspace, out[0]);
  return RengaCudaSayError("JoinKernel", code);
}

RENGA_CUDA_RUN(RengaCudaJoinLanesGrad)
{
  const RengaCudaJoin *s = (const RengaCudaJoin *)shape;
  (void)context, (void)workspace;
  if (s->rows == 0) return 0;
  return RengaCudaSayError("JoinGradKernel",
                           RENGA_LAUNCH(JoinGradKernel, BlocksFor(s->rows), THREADS, 0,
                                        (cudaStream_t)stream, *s, OperandsOf(in), OperandsOf(out)));
}

/* labels are [outer] */
RENGA_CUDA_RUN(RengaCudaCountLabels)
{
  (void)context, (void)workspace;
  return RengaCudaSayError("CountLabelsKernel",
                           RENGA_LAUNCH(CountLabelsKernel, 1, SUMMERS, 0, (cudaStream_t)stream,
                                        *(const RengaCudaLoss *)shape, in[0].data, in[1], out[0]));
}
