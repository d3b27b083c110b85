/* CrossEntropy from scores, its gradient, and the count of labels; the same of a lane. */
#include "low.h"
#include "renga/private/logsum.h"
#include "renga/private/op.h"
#include "rows.h"

/* scores are [outer, classes, inner], labels [outer, inner]; of a lane they are those of classes
   from first on, of all */
typedef struct {
  int64_t outer, classes, inner, rows, rows_per_piece, pieces, ignore, first, all;
  bool wide; /* labels are int64, else int32 */
} Loss_Cpu;

/* A row's log-sum-exp in two parts: shift + log(sum). */
typedef struct {
  float shift, sum;
} WholeRow;

static int64_t LabelAt_Cpu(const Loss_Cpu *s, const void *labels, int64_t row)
{
  return s->wide ? ((const int64_t *)labels)[row] : ((const int32_t *)labels)[row];
}

static RengaErrorCode CheckLabels_Cpu(const Loss_Cpu *s, const void *labels)
{
  for (int64_t row = 0; row < s->rows; row++) {
    int64_t label = LabelAt_Cpu(s, labels, row);
    RengaCheck(label == s->ignore || (label >= 0 && label < s->all), MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "label %lld at position %lld is outside [0, %lld)",
               (long long)label, (long long)row, (long long)s->all);
  }
  return RENGA_SUCCESS;
}

/* The label's place among the scores; -1: it is ignored, or another lane's. */
static int64_t PlaceOfLabel_Cpu(const Loss_Cpu *s, const void *labels, int64_t row)
{
  const int64_t label = LabelAt_Cpu(s, labels, row), at = label - s->first;
  return label != s->ignore && at >= 0 && at < s->classes ? at : -1;
}

static int64_t FirstScore_Cpu(const Loss_Cpu *s, int64_t row)
{
  return row / s->inner * s->classes * s->inner + row % s->inner;
}

/* Scores at, at + inner, ... of 16 bits, run after run. */
static WholeRow SumLowRow(const Loss_Cpu *s, RengaDataType type, const void *x, int64_t at)
{
  float most = -INFINITY, sum = 0, shift = 0, buffer[RENGA_CPU_RUN];
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t c = 0; c < s->classes; c += RENGA_CPU_RUN) {
      const int64_t here = RengaCpuSmaller(s->classes - c, RENGA_CPU_RUN);
      if (s->inner == 1)
        RengaCpuWiden(type, here, (const uint16_t *)x + at + c, buffer);
      else
        for (int64_t i = 0; i < here; i++)
          buffer[i] = RengaCpuGet(type, x, at + (c + i) * s->inner);
      if (pass == 1) {
        sum += RengaRowSumExp(here, buffer, shift);
        continue;
      }
      const float here_most = RengaRowMax(here, buffer);
      most = here_most > most ? here_most : most;
    }
    shift = RengaRowShift(most);
  }
  return (WholeRow){shift, sum};
}

static WholeRow SumFullRow(const Loss_Cpu *s, const float *x)
{
  if (s->inner == 1) {
    float shift = RengaRowShift(RengaRowMax(s->classes, x));
    return (WholeRow){shift, RengaRowSumExp(s->classes, x, shift)};
  }
  float most = -INFINITY, sum = 0;
  for (int64_t c = 0; c < s->classes; c++) most = x[c * s->inner] > most ? x[c * s->inner] : most;
  float shift = RengaRowShift(most);
  for (int64_t c = 0; c < s->classes; c++) sum += RengaExp(x[c * s->inner] - shift);
  return (WholeRow){shift, sum};
}

static WholeRow SumRow(const Loss_Cpu *s, RengaDataType type, const void *x, int64_t at)
{
  return type == RENGA_FLOAT32 ? SumFullRow(s, (const float *)x + at) : SumLowRow(s, type, x, at);
}

/* Less the label's score. */
static double LossOfRow(WholeRow row, float score)
{
  const float rest = logf(row.sum), whole = row.shift + rest;
  if (RENGA_LOGSUM_IS_LARGE(whole)) return (double)row.shift - score + rest;
  return (double)whole - score;
}

/* Of a label's class; 1 without weights, input i. */
static float WeightOf(const RengaOpCall *call, const void *const in[], int i, int64_t label)
{
  return i < call->n_in && in[i] ? RengaCpuGet(call->in[i].type, in[i], label) : 1;
}

/* part[piece]: the sum of a piece's rows, in order */
static RengaErrorCode LossForwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                         const RengaKernelContext *context, const void *const in[],
                                         void *const out[], void *workspace)
{
  const Loss_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const RengaDataType type = call->in[0].type;
  void *whole_of = call->n_out > 1 ? out[1] : NULL;
  double *part = workspace, total = 0;
  RengaCall(CheckLabels_Cpu(s, in[1]));
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    part[piece] = 0;
    for (int64_t row = piece * s->rows_per_piece; row < end; row++) {
      int64_t at = row / s->inner * s->classes * s->inner + row % s->inner;
      WholeRow whole = SumRow(s, type, in[0], at);
      int64_t label = LabelAt_Cpu(s, in[1], row);
      if (whole_of) RengaCpuPut(call->out[1].type, whole_of, row, whole.shift + logf(whole.sum));
      if (label != s->ignore)
        part[piece] += LossOfRow(whole, RengaCpuGet(type, in[0], at + label * s->inner)) *
                       WeightOf(call, in, 2, label);
    }
  }
  for (int64_t piece = 0; piece < s->pieces; piece++) total += part[piece];
  RengaCpuPut(call->out[0].type, out[0], 0, (float)total);
  return RENGA_SUCCESS;
}

/* factor exp(x - whole), and more for the label; -1: there is none */
static void LossBackwardRow(const Loss_Cpu *s, const float *x, float whole, float factor,
                            int64_t label, float more, float *dx)
{
  if (s->inner == 1) {
#pragma omp simd
    for (int64_t c = 0; c < s->classes; c++) dx[c] = factor * RengaExp(x[c] - whole);
  } else {
    for (int64_t c = 0; c < s->classes; c++)
      dx[c * s->inner] = factor * RengaExp(x[c * s->inner] - whole);
  }
  if (label >= 0) dx[label * s->inner] += more;
}

/* The same where not both have float32, by runs that end at the label. */
static void LossBackwardLow(const Loss_Cpu *s, RengaDataType from, const void *x, float whole,
                            float factor, int64_t label, float more, int64_t at, RengaDataType to,
                            void *dx)
{
  float buffer[2][RENGA_CPU_RUN];
  for (int64_t c = 0; c < s->classes; c += RENGA_CPU_RUN) {
    const int64_t here = RengaCpuSmaller(s->classes - c, RENGA_CPU_RUN);
    const bool has_label = label >= c && label < c + here;
    if (s->inner == 1) {
      const float *v = RengaCpuRead(from, x, at + c, here, buffer[0]);
      float *made = RengaCpuPlace(to, dx, at + c, buffer[1]);
#pragma omp simd
      for (int64_t i = 0; i < here; i++) made[i] = factor * RengaExp(v[i] - whole);
      if (has_label) made[label - c] += more;
      RengaCpuWrite(to, dx, at + c, here, made);
      continue;
    }
    for (int64_t i = 0; i < here; i++) {
      const int64_t place = at + (c + i) * s->inner;
      const float share = factor * RengaExp(RengaCpuGet(from, x, place) - whole);
      RengaCpuPut(to, dx, place, has_label && c + i == label ? share + more : share);
    }
  }
}

/* factor exp(x - whole), and more for the label, of a row that begins at an element; where whole
   has lost the logarithm, its two parts are found again. Without a factor it may be infinite. x:
   which input the scores are */
static void LossBackward(const RengaKernel kernel, const void *const in[], int x, float whole,
                         float factor, int64_t label, float more, int64_t at, void *dx)
{
  const Loss_Cpu *s = kernel->data;
  const RengaDataType from = kernel->call.in[x].type, to = kernel->call.out[0].type;
  if (factor == 0) {
    whole = INFINITY;
  } else if (RENGA_LOGSUM_IS_LARGE(whole)) {
    const WholeRow row = SumRow(s, from, in[x], at);
    whole = row.shift;
    factor /= row.sum;
  }
  if (from != RENGA_FLOAT32 || to != RENGA_FLOAT32)
    LossBackwardLow(s, from, in[x], whole, factor, label, more, at, to, dx);
  else
    LossBackwardRow(s, (const float *)in[x] + at, whole, factor, label, more, (float *)dx + at);
}

static RengaErrorCode LossBackwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[], void *workspace)
{
  const Loss_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const float gradient = RengaCpuGet(call->in[0].type, in[0], 0);
  RengaCall(CheckLabels_Cpu(s, in[2]));
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    for (int64_t row = piece * s->rows_per_piece; row < end; row++) {
      int64_t at = FirstScore_Cpu(s, row), label = PlaceOfLabel_Cpu(s, in[2], row);
      float factor = label < 0 ? 0 : gradient * WeightOf(call, in, 4, label);
      float whole = RengaCpuGet(call->in[3].type, in[3], row);
      if (factor == 0) label = -1;
      LossBackward(kernel, in, 1, whole, factor, label, -factor, at, out[0]);
    }
  }
  return RENGA_SUCCESS;
}

/* scores, labels -> log-sum-exp of the lane, the label's score */
static RengaErrorCode LaneForwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                         const RengaKernelContext *context, const void *const in[],
                                         void *const out[], void *workspace)
{
  const Loss_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const RengaDataType type = call->in[0].type;
  RengaCall(CheckLabels_Cpu(s, in[1]));
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    for (int64_t row = piece * s->rows_per_piece; row < end; row++) {
      int64_t at = FirstScore_Cpu(s, row), label = PlaceOfLabel_Cpu(s, in[1], row);
      WholeRow whole = SumRow(s, type, in[0], at);
      RengaCpuPut(call->out[0].type, out[0], row, whole.shift + logf(whole.sum));
      RengaCpuPut(call->out[1].type, out[1], row,
                  label < 0 ? 0 : RengaCpuGet(type, in[0], at + label * s->inner));
    }
  }
  return RENGA_SUCCESS;
}

/* d log-sum-exp, d label's score, scores, labels, log-sum-exp -> d scores. Where nothing of the
   sum comes back, the log-sum-exp of a lane may be -infinity. */
static RengaErrorCode LaneBackwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[], void *workspace)
{
  const Loss_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  RengaCall(CheckLabels_Cpu(s, in[3]));
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    for (int64_t row = piece * s->rows_per_piece; row < end; row++) {
      int64_t at = FirstScore_Cpu(s, row), label = PlaceOfLabel_Cpu(s, in[3], row);
      float factor = RengaCpuGet(call->in[0].type, in[0], row);
      float more = RengaCpuGet(call->in[1].type, in[1], row);
      float whole = RengaCpuGet(call->in[4].type, in[4], row);
      LossBackward(kernel, in, 2, whole, factor, label, more, at, out[0]);
    }
  }
  return RENGA_SUCCESS;
}

/* Input number labels, behind the scores, may be int64 or int32; the others are floats. */
static RengaErrorCode CreateLoss_Cpu(RengaKernel kernel, int labels, RengaKernelRunFunction run)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *scores = &call->in[labels - 1];
  RengaDataType type = call->in[labels].type;
  if ((type != RENGA_INT64 && type != RENGA_INT32) || !RengaCpuAllFloats(call, labels + 1))
    return RENGA_SUCCESS;
  for (int i = 0; i < labels; i++)
    if (!RengaCpuIsFloat(call->in[i].type)) return RENGA_SUCCESS;
  if (RengaOpCallInt(call, "padding") > 0) return RENGA_SUCCESS;
  int axis = 0;
  RengaCall(RengaOpAxis(call, "axis", scores->ndim, &axis));
  Loss_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->outer = RengaOpProduct(scores, 0, axis);
  s->classes = scores->dim[axis];
  s->inner = RengaOpProduct(scores, axis + 1, scores->ndim);
  s->rows = s->outer * s->inner;
  s->rows_per_piece = RENGA_CPU_PIECE / (s->classes + 1) + 1;
  s->pieces = RengaCpuPieces(s->rows, s->rows_per_piece);
  s->ignore = RengaAttributesInt(call->attributes, "ignore_index", INT64_MIN);
  s->wide = type == RENGA_INT64;
  s->first = RengaAttributesInt(call->attributes, "first", 0);
  s->all = RengaAttributesInt(call->attributes, "classes", s->classes);
  kernel->run = run;
  if (run == LossForwardRun_Cpu) kernel->workspace = (size_t)s->pieces * sizeof(double);
  if (labels > 1) kernel->alias = RENGA_KERNEL_ALIAS(0, labels - 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cpu(kernel, 1, LossForwardRun_Cpu));
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cpu(kernel, 2, LossBackwardRun_Cpu));
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyLaneCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cpu(kernel, 1, LaneForwardRun_Cpu));
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyLaneGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cpu(kernel, 3, LaneBackwardRun_Cpu));
  return RENGA_SUCCESS;
}

static RengaErrorCode CountRun_Cpu(RengaKernel kernel, RengaStream stream,
                                   const RengaKernelContext *context, const void *const in[],
                                   void *const out[], void *workspace)
{
  const Loss_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const bool weighted = call->n_in > 1 && in[1];
  double total = 0;
  for (int64_t row = 0; row < s->rows; row++) {
    int64_t label = LabelAt_Cpu(s, in[0], row);
    if (label == s->ignore) continue;
    RengaCheck(!weighted || (label >= 0 && label < s->classes), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "label %lld at position %lld is outside [0, %lld)", (long long)label, (long long)row,
               (long long)s->classes);
    total += WeightOf(call, in, 1, label);
  }
  RengaCpuPut(call->out[0].type, out[0], 0, (float)total);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyCountCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaDataType type = call->in[0].type;
  if ((type != RENGA_INT64 && type != RENGA_INT32) || !RengaCpuAllFloats(call, 1))
    return RENGA_SUCCESS;
  Loss_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->rows = RengaTensorSpecCount(&call->in[0]);
  s->classes = call->n_in > 1 && call->in[1].ndim == 1 ? call->in[1].dim[0] : 0;
  s->ignore = RengaAttributesInt(call->attributes, "ignore_index", INT64_MIN);
  s->wide = type == RENGA_INT64;
  kernel->run = CountRun_Cpu;
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuLoss)[] = {
    {"CrossEntropy", CrossEntropyCreate_Cpu},
    {"CrossEntropyGrad", CrossEntropyGradCreate_Cpu},
    {"CrossEntropyCount", CrossEntropyCountCreate_Cpu},
    {"CrossEntropyLane", CrossEntropyLaneCreate_Cpu},
    {"CrossEntropyLaneGrad", CrossEntropyLaneGradCreate_Cpu},
    {NULL, NULL},
};
