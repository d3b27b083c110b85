/* Softmax and LogSoftmax along one axis, and their gradients. */
#include "cpu.h"
#include "renga/private/op.h"
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
  (void)dy;
  float sum = RengaRowExp(n, x, RengaRowShift(RengaRowMax(n, x)), y);
  RengaRowScale(n, 1 / sum, y);
}

static void LogSoftmaxRow(int64_t n, const float *dy, const float *x, float *y)
{
  (void)dy;
  float shift = RengaRowShift(RengaRowMax(n, x));
  float whole = shift + logf(RengaRowSumExp(n, x, shift));
#pragma omp simd
  for (int64_t i = 0; i < n; i++) y[i] = x[i] - whole;
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

static void StridedRow(const Softmax_Cpu *s, const float *dy, const float *x, float *y,
                       float *buffer)
{
  for (int64_t i = 0; i < s->n; i++) {
    buffer[i] = x[i * s->inner];
    buffer[s->n + i] = dy[i * s->inner];
  }
  s->row(s->n, buffer + s->n, buffer, buffer + 2 * s->n);
  for (int64_t i = 0; i < s->n; i++) y[i * s->inner] = buffer[2 * s->n + i];
}

static RengaErrorCode SoftmaxRun_Cpu(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  const Softmax_Cpu *s = kernel->data;
  const float *dy = in[0], *x = in[kernel->call.n_in - 1];
  int64_t rows = s->outer * s->inner;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(rows, (piece + 1) * s->rows_per_piece);
    float *buffer = (float *)workspace + 3 * s->n * RengaCpuThread();
    for (int64_t r = piece * s->rows_per_piece; r < end; r++) {
      int64_t at = r / s->inner * s->n * s->inner + r % s->inner;
      if (s->inner == 1)
        s->row(s->n, dy + at, x + at, (float *)out[0] + at);
      else
        StridedRow(s, dy + at, x + at, (float *)out[0] + at, buffer);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateSoftmax_Cpu(RengaKernel kernel, SoftmaxRow_Cpu row)
{
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *x = &call->in[0];
  if (!RengaCpuAllOf(call, 0, RENGA_FLOAT32)) return RENGA_SUCCESS;
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
  if (s->inner > 1)
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
