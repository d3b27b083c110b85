/* Softmax and LogSoftmax along one axis, and their gradients. */
#include "low.h"
#include "renga/private/op.h"
#include "renga/private/logsum.h"
#include "rows.h"

/* A row has n elements, step apart. Along the last axis step is 1. Rows along another axis are
   brought together in a buffer of n elements of the thread's own. */
typedef void (*SoftmaxRow_Cpu)(int64_t n, const float *dy, const float *x, float *y);
typedef struct {
  SoftmaxRow_Cpu row;
  int64_t outer, n, inner, pieces, rows_per_piece;
} Softmax_Cpu;

static void SoftmaxRow(int64_t n, const float *dy, const float *x, float *y)
{
  float sum = RengaRowExp(n, x, RengaRowShift(RengaRowMax(n, x)), y);
  RengaRowScale(n, 1 / sum, y);
}

static void LogSoftmaxRow(int64_t n, const float *dy, const float *x, float *y)
{
  float shift = RengaRowShift(RengaRowMax(n, x)), rest = logf(RengaRowSumExp(n, x, shift));
  float whole = shift + rest;
  if (RENGA_LOGSUM_IS_LARGE(whole))
    whole = shift; /* the logarithm would be lost */
  else
    rest = 0;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) y[i] = x[i] - whole - rest;
}

/* dx = y (dy - sum(dy y)) */
static void SoftmaxGradRow(int64_t n, const float *dy, const float *y, float *dx)
{
  float dot = RengaRowDot(n, dy, y);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - dot);
}

/* dx = dy - exp(y) sum(dy) */
static void LogSoftmaxGradRow(int64_t n, const float *dy, const float *y, float *dx)
{
  float sum = RengaRowSum(n, dy);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) dx[i] = dy[i] - RengaExp(y[i]) * sum;
}

/* A row that begins at an element, by way of a buffer: of dy, x and y. */
static void RowInBuffer(const RengaKernel kernel, const void *dy, const void *x, void *y,
                        int64_t at, float *buffer)
{
  const Softmax_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const RengaDataType types[2] = {call->in[0].type, call->in[call->n_in - 1].type};
  float *from = buffer + s->n, *to = buffer + 2 * s->n;
  if (s->inner == 1) {
    const float *d = RengaCpuRead(types[0], dy, at, s->n, buffer);
    const float *v = RengaCpuRead(types[1], x, at, s->n, from);
    float *made = RengaCpuPlace(call->out[0].type, y, at, to);
    s->row(s->n, d, v, made);
    RengaCpuWrite(call->out[0].type, y, at, s->n, made);
    return;
  }
  for (int64_t i = 0; i < s->n; i++) {
    buffer[i] = RengaCpuGet(types[0], dy, at + i * s->inner);
    from[i] = RengaCpuGet(types[1], x, at + i * s->inner);
  }
  s->row(s->n, buffer, from, to);
  for (int64_t i = 0; i < s->n; i++) RengaCpuPut(call->out[0].type, y, at + i * s->inner, to[i]);
}

static RengaErrorCode SoftmaxRun_Cpu(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  const Softmax_Cpu *s = kernel->data;
  const float *dy = in[0], *x = in[kernel->call.n_in - 1];
  const bool buffered = kernel->workspace > 0;
  int64_t rows = s->outer * s->inner;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(rows, (piece + 1) * s->rows_per_piece);
    float *buffer = (float *)workspace + 3 * s->n * RengaCpuThread();
    for (int64_t r = piece * s->rows_per_piece; r < end; r++) {
      int64_t at = r / s->inner * s->n * s->inner + r % s->inner;
      if (buffered)
        RowInBuffer(kernel, dy, x, out[0], at, buffer);
      else
        s->row(s->n, dy + at, x + at, (float *)out[0] + at);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateSoftmax_Cpu(RengaKernel kernel, SoftmaxRow_Cpu row)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *x = &call->in[0];
  if (!RengaCpuAllFloats(call, 0)) return RENGA_SUCCESS;
  int axis = 0;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  Softmax_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->row = row;
  s->outer = RengaOpProduct(x, 0, axis);
  s->n = x->dim[axis];
  s->inner = RengaOpProduct(x, axis + 1, x->ndim);
  s->rows_per_piece = RENGA_CPU_PIECE / 2 / (s->n + 1) + 1;
  s->pieces = s->n > 0 ? RengaCpuPieces(s->outer * s->inner, s->rows_per_piece) : 0;
  if (s->inner > 1 || RengaOpCallIsLow_Private(call))
    kernel->workspace = 3 * (size_t)s->n * sizeof(float) * (size_t)kernel->device->threads;
  kernel->alias = RENGA_KERNEL_ALIAS(0, 0);
  if (call->n_in > 1) kernel->alias |= RENGA_KERNEL_ALIAS(0, 1);
  kernel->run = SoftmaxRun_Cpu;
  return RENGA_SUCCESS;
}

static RengaErrorCode SoftmaxCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateSoftmax_Cpu(kernel, SoftmaxRow));
  return RENGA_SUCCESS;
}

static RengaErrorCode LogSoftmaxCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateSoftmax_Cpu(kernel, LogSoftmaxRow));
  return RENGA_SUCCESS;
}

static RengaErrorCode SoftmaxGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateSoftmax_Cpu(kernel, SoftmaxGradRow));
  return RENGA_SUCCESS;
}

static RengaErrorCode LogSoftmaxGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateSoftmax_Cpu(kernel, LogSoftmaxGradRow));
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuSoftmax)[] = {
    {"Softmax", SoftmaxCreate_Cpu},
    {"LogSoftmax", LogSoftmaxCreate_Cpu},
    {"SoftmaxGrad", SoftmaxGradCreate_Cpu},
    {"LogSoftmaxGrad", LogSoftmaxGradCreate_Cpu},
    {NULL, NULL},
};
