/* CrossEntropy from scores, its gradient, and the count of labels. */
#include "cpu.h"
#include "renga/private/op.h"
#include "rows.h"

/* scores are [outer, classes, inner], labels [outer, inner] */
typedef struct {
  int64_t outer, classes, inner, rows, rows_per_piece, pieces, ignore;
  bool wide; /* labels are int64, else int32 */
} Loss_Cpu;

static int64_t LabelAt_Cpu(const Loss_Cpu *s, const void *labels, int64_t row)
{
  return s->wide ? ((const int64_t *)labels)[row] : ((const int32_t *)labels)[row];
}

static RengaErrorCode CheckLabels_Cpu(const Loss_Cpu *s, const void *labels)
{
  for (int64_t row = 0; row < s->rows; row++) {
    int64_t label = LabelAt_Cpu(s, labels, row);
    RengaCheck(label == s->ignore || (label >= 0 && label < s->classes), MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "label %lld at position %lld is outside [0, %lld)",
               (long long)label, (long long)row, (long long)s->classes);
  }
  return RENGA_SUCCESS;
}

static float LogSumExp_Cpu(const Loss_Cpu *s, const float *x)
{
  if (s->inner == 1) {
    float shift = RengaRowShift(RengaRowMax(s->classes, x));
    return shift + logf(RengaRowSumExp(s->classes, x, shift));
  }
  float most = -INFINITY, sum = 0;
  for (int64_t c = 0; c < s->classes; c++) most = x[c * s->inner] > most ? x[c * s->inner] : most;
  float shift = RengaRowShift(most);
  for (int64_t c = 0; c < s->classes; c++) sum += RengaExp(x[c * s->inner] - shift);
  return shift + logf(sum);
}

/* part[piece]: the sum of a piece's rows, in order */
static RengaErrorCode LossForwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                         const RengaKernelContext *context, const void *const in[],
                                         void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  const Loss_Cpu *s = kernel->data;
  const float *weights = kernel->call.n_in > 2 ? in[2] : NULL;
  float *whole_of = kernel->call.n_out > 1 ? out[1] : NULL;
  double *part = workspace, total = 0;
  RengaCall(CheckLabels_Cpu(s, in[1]));
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    part[piece] = 0;
    for (int64_t row = piece * s->rows_per_piece; row < end; row++) {
      const float *x =
          (const float *)in[0] + row / s->inner * s->classes * s->inner + row % s->inner;
      float whole = LogSumExp_Cpu(s, x);
      int64_t label = LabelAt_Cpu(s, in[1], row);
      if (whole_of) whole_of[row] = whole;
      if (label != s->ignore)
        part[piece] += ((double)whole - x[label * s->inner]) * (weights ? weights[label] : 1);
    }
  }
  for (int64_t piece = 0; piece < s->pieces; piece++) total += part[piece];
  *(float *)out[0] = (float)total;
  return RENGA_SUCCESS;
}

/* factor (exp(x - whole) - [class is label]) */
static void LossBackwardRow(const Loss_Cpu *s, const float *x, float whole, float factor,
                            int64_t label, float *dx)
{
  if (s->inner == 1) {
#pragma omp simd
    for (int64_t c = 0; c < s->classes; c++) dx[c] = factor * RengaExp(x[c] - whole);
  } else {
    for (int64_t c = 0; c < s->classes; c++)
      dx[c * s->inner] = factor * RengaExp(x[c * s->inner] - whole);
  }
  if (factor != 0) dx[label * s->inner] -= factor;
}

static RengaErrorCode LossBackwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const Loss_Cpu *s = kernel->data;
  const float *whole = in[3], *weights = kernel->call.n_in > 4 ? in[4] : NULL;
  float gradient = *(const float *)in[0];
  RengaCall(CheckLabels_Cpu(s, in[2]));
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    for (int64_t row = piece * s->rows_per_piece; row < end; row++) {
      int64_t at = row / s->inner * s->classes * s->inner + row % s->inner;
      int64_t label = LabelAt_Cpu(s, in[2], row);
      float factor = label == s->ignore ? 0 : gradient * (weights ? weights[label] : 1);
      LossBackwardRow(s, (const float *)in[1] + at, whole[row], factor, label,
                      (float *)out[0] + at);
    }
  }
  return RENGA_SUCCESS;
}

/* Input number labels may be int64 or int32; the others are float32. */
static RengaErrorCode CreateLoss_Cpu(RengaKernel kernel, const RengaTensorSpec *scores, int labels)
{
  const RengaOpCall *call = &kernel->call;
  RengaDataType type = call->in[labels].type;
  if (scores->type != RENGA_FLOAT32 || (type != RENGA_INT64 && type != RENGA_INT32) ||
      RengaOpCallIsLow_Private(call))
    return RENGA_SUCCESS;
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
  kernel->run = labels == 1 ? LossForwardRun_Cpu : LossBackwardRun_Cpu;
  if (labels == 1)
    kernel->workspace = (size_t)s->pieces * sizeof(double);
  else
    kernel->alias = RENGA_KERNEL_ALIAS(0, 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cpu(kernel, &kernel->call.in[0], 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLoss_Cpu(kernel, &kernel->call.in[1], 2));
  return RENGA_SUCCESS;
}

static RengaErrorCode CountRun_Cpu(RengaKernel kernel, RengaStream stream,
                                   const RengaKernelContext *context, const void *const in[],
                                   void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const Loss_Cpu *s = kernel->data;
  const float *weights = kernel->call.n_in > 1 ? in[1] : NULL;
  double total = 0;
  for (int64_t row = 0; row < s->rows; row++) {
    int64_t label = LabelAt_Cpu(s, in[0], row);
    if (label == s->ignore) continue;
    RengaCheck(!weights || (label >= 0 && label < s->classes), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "label %lld at position %lld is outside [0, %lld)", (long long)label, (long long)row,
               (long long)s->classes);
    total += weights ? weights[label] : 1;
  }
  *(float *)out[0] = (float)total;
  return RENGA_SUCCESS;
}

static RengaErrorCode CrossEntropyCountCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  RengaDataType type = call->in[0].type;
  if ((type != RENGA_INT64 && type != RENGA_INT32) || RengaOpCallIsLow_Private(call))
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
    {NULL, NULL},
};
