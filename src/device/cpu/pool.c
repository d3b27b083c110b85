/* MaxPool and AveragePool over one or two dimensions, and their gradients; one plane of one image
   and channel per piece. */
#include "cpu.h"
#include "renga/private/op.h"
#include <math.h>
#include <string.h>

typedef struct {
  int64_t planes, in[2], out[2], kernel[2], stride[2], dilation[2], before[2], after[2];
  bool count_pad;
} Pool_Cpu;

/* Taps of output o along dimension d that lie inside the input: [first, last). */
static void Taps(const Pool_Cpu *s, int d, int64_t o, int64_t *first, int64_t *last)
{
  int64_t start = o * s->stride[d] - s->before[d];
  *first = start < 0 ? (-start + s->dilation[d] - 1) / s->dilation[d] : 0;
  int64_t room = s->in[d] - start;
  *last =
      room <= 0 ? 0 : RengaCpuSmaller(s->kernel[d], (room + s->dilation[d] - 1) / s->dilation[d]);
}

/* Outputs [first, last) of a row that tap t along it reaches. */
static void Columns(const Pool_Cpu *s, int64_t t, int64_t *first, int64_t *last)
{
  int64_t shift = s->before[1] - t * s->dilation[1]; /* input = j * stride - shift */
  *first = shift > 0 ? (shift + s->stride[1] - 1) / s->stride[1] : 0;
  int64_t room = s->in[1] + shift;
  *last = room <= 0 ? 0 : RengaCpuSmaller(s->out[1], (room + s->stride[1] - 1) / s->stride[1]);
}

/* One row of outputs, at most BLOCK of its columns from start on; tap by tap, so that the first of
   equal ones stays. Places fit in 32 bits. */
enum { BLOCK = 256 };
static void MaxRow(const Pool_Cpu *s, const float *x, int64_t i, int64_t start, int64_t count,
                   float *y, int64_t *place)
{
  float best[BLOCK];
  int32_t at[BLOCK];
  int64_t row_first, row_last, first, last;
  for (int64_t j = 0; j < count; j++) best[j] = -INFINITY;
  for (int64_t j = 0; j < count; j++) at[j] = -1;
  Taps(s, 0, i, &row_first, &row_last);
  for (int64_t r = row_first; r < row_last; r++)
    for (int64_t t = 0; t < s->kernel[1]; t++) {
      Columns(s, t, &first, &last);
      first = first < start ? 0 : first - start;
      last = RengaCpuSmaller(count, last - start);
      int64_t row = (i * s->stride[0] - s->before[0] + r * s->dilation[0]) * s->in[1];
      int32_t from = (int32_t)(row + start * s->stride[1] - s->before[1] + t * s->dilation[1]);
      int32_t stride = (int32_t)s->stride[1];
#pragma omp simd
      for (int32_t j = (int32_t)first; j < (int32_t)last; j++) {
        float v = x[from + j * stride];
        bool better = v > best[j] || v != v || at[j] < 0;
        best[j] = better ? v : best[j];
        at[j] = better ? from + j * stride : at[j];
      }
    }
  memcpy(y, best, (size_t)count * sizeof *y);
  for (int64_t j = 0; place && j < count; j++) place[j] = at[j];
}

static void MaxPlane(const Pool_Cpu *s, const float *x, float *y, int64_t *place)
{
  for (int64_t i = 0; i < s->out[0]; i++)
    for (int64_t start = 0; start < s->out[1]; start += BLOCK) {
      int64_t to = i * s->out[1] + start;
      MaxRow(s, x, i, start, RengaCpuSmaller(s->out[1] - start, BLOCK), y + to,
             place ? place + to : NULL);
    }
}

static RengaErrorCode MaxRun_Cpu(RengaKernel kernel, RengaStream stream,
                                 const RengaKernelContext *context, const void *const in[],
                                 void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const Pool_Cpu *s = kernel->data;
  int64_t in_plane = s->in[0] * s->in[1], out_plane = s->out[0] * s->out[1];
  int64_t *places = kernel->call.n_out > 1 ? out[1] : NULL;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->planes))
  for (int64_t p = 0; p < s->planes; p++)
    MaxPlane(s, (const float *)in[0] + p * in_plane, (float *)out[0] + p * out_plane,
             places ? places + p * out_plane : NULL);
  return RENGA_SUCCESS;
}

/* in: dy, places; adds in ascending place of dy. */
static RengaErrorCode MaxGradRun_Cpu(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const Pool_Cpu *s = kernel->data;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->planes))
  for (int64_t p = 0; p < s->planes; p++) {
    const float *dy = (const float *)in[0] + p * s->out[0];
    const int64_t *place = (const int64_t *)in[1] + p * s->out[0];
    float *dx = (float *)out[0] + p * s->in[0];
    memset(dx, 0, (size_t)s->in[0] * sizeof *dx);
    for (int64_t i = 0; i < s->out[0]; i++) dx[place[i]] += dy[i];
  }
  return RENGA_SUCCESS;
}

/* 1 / the number of elements that the mean of output (i, j) is over. */
static float ShareOf_Cpu(const Pool_Cpu *s, int64_t i, int64_t j)
{
  int64_t count = 1, o[2] = {i, j};
  for (int d = 0; d < 2; d++) {
    int64_t first, last;
    Taps(s, d, o[d], &first, &last);
    int64_t start = o[d] * s->stride[d] - s->before[d];
    int64_t room = s->in[d] + s->after[d] - start;
    int64_t padded = RengaCpuSmaller(s->kernel[d], (room + s->dilation[d] - 1) / s->dilation[d]);
    count *= s->count_pad ? padded : last - first;
  }
  return 1 / (float)count;
}

static void AveragePlane(const Pool_Cpu *s, const float *x, float *y)
{
  for (int64_t i = 0; i < s->out[0]; i++)
    for (int64_t j = 0; j < s->out[1]; j++) {
      int64_t row_first, row_last, first, last;
      Taps(s, 0, i, &row_first, &row_last);
      Taps(s, 1, j, &first, &last);
      double sum = 0;
      for (int64_t r = row_first; r < row_last; r++) {
        int64_t row = (i * s->stride[0] - s->before[0] + r * s->dilation[0]) * s->in[1];
        for (int64_t t = first; t < last; t++)
          sum += x[row + j * s->stride[1] - s->before[1] + t * s->dilation[1]];
      }
      y[i * s->out[1] + j] = (float)(sum * ShareOf_Cpu(s, i, j));
    }
}

static void AverageGradPlane(const Pool_Cpu *s, const float *dy, float *dx)
{
  memset(dx, 0, (size_t)(s->in[0] * s->in[1]) * sizeof *dx);
  for (int64_t i = 0; i < s->out[0]; i++)
    for (int64_t j = 0; j < s->out[1]; j++) {
      int64_t row_first, row_last, first, last;
      Taps(s, 0, i, &row_first, &row_last);
      Taps(s, 1, j, &first, &last);
      float d = dy[i * s->out[1] + j] * ShareOf_Cpu(s, i, j);
      for (int64_t r = row_first; r < row_last; r++) {
        int64_t row = (i * s->stride[0] - s->before[0] + r * s->dilation[0]) * s->in[1];
        for (int64_t t = first; t < last; t++)
          dx[row + j * s->stride[1] - s->before[1] + t * s->dilation[1]] += d;
      }
    }
}

static RengaErrorCode AverageRun_Cpu(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const Pool_Cpu *s = kernel->data;
  int64_t in_plane = s->in[0] * s->in[1], out_plane = s->out[0] * s->out[1];
  bool gradient = strcmp(kernel->call.op->name, "AveragePoolGrad") == 0;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->planes))
  for (int64_t p = 0; p < s->planes; p++) {
    if (gradient)
      AverageGradPlane(s, (const float *)in[0] + p * out_plane, (float *)out[0] + p * in_plane);
    else
      AveragePlane(s, (const float *)in[0] + p * in_plane, (float *)out[0] + p * out_plane);
  }
  return RENGA_SUCCESS;
}

/* x: what the window moves over; y: what it makes. */
static RengaErrorCode CreatePool_Cpu(RengaKernel kernel, RengaKernelRunFunction run,
                                     const RengaTensorSpec *x, const RengaTensorSpec *y)
{
  const RengaOpCall *call = &kernel->call;
  RengaOpWindow window;
  if (x->type != RENGA_FLOAT32 || x->ndim < 3 || x->ndim > 4 || RengaOpCallIsLow_Private(call))
    return RENGA_SUCCESS;
  if (RengaOpProduct(x, 2, x->ndim) > INT32_MAX / 2) return RENGA_SUCCESS;
  RengaCall(RengaOpGetWindow(call, x, NULL, &window));
  Pool_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->planes = x->dim[0] * x->dim[1];
  s->count_pad = RengaAttributesInt(call->attributes, "count_include_pad", 0) != 0;
  for (int d = 0; d < 2; d++)
    s->in[d] = s->out[d] = s->kernel[d] = s->stride[d] = s->dilation[d] = 1;
  for (int d = 0; d < window.n; d++) {
    int to = d + 2 - window.n;
    s->in[to] = x->dim[2 + d];
    s->out[to] = y->dim[2 + d];
    s->kernel[to] = window.kernel[d];
    s->stride[to] = window.stride[d];
    s->dilation[to] = window.dilation[d];
    s->before[to] = window.before[d];
    s->after[to] = window.after[d];
  }
  kernel->run = run;
  return RENGA_SUCCESS;
}

static RengaErrorCode MaxPoolCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreatePool_Cpu(kernel, MaxRun_Cpu, &kernel->call.in[0], &kernel->call.out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode MaxPoolGradCreate_Cpu(RengaKernel kernel)
{
  const RengaTensorSpec *dy = &kernel->call.in[0], *dx = &kernel->call.out[0];
  if (dy->type != RENGA_FLOAT32 || dx->type != RENGA_FLOAT32) return RENGA_SUCCESS;
  Pool_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->planes = RengaOpProduct(dx, 0, 2);
  s->in[0] = RengaOpProduct(dx, 2, dx->ndim);
  s->out[0] = RengaOpProduct(dy, 2, dy->ndim);
  kernel->run = MaxGradRun_Cpu;
  return RENGA_SUCCESS;
}

static RengaErrorCode AveragePoolCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreatePool_Cpu(kernel, AverageRun_Cpu, &kernel->call.in[0], &kernel->call.out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode AveragePoolGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreatePool_Cpu(kernel, AverageRun_Cpu, &kernel->call.out[0], &kernel->call.in[0]));
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuPool)[] = {
    {"MaxPool", MaxPoolCreate_Cpu},
    {"MaxPoolGrad", MaxPoolGradCreate_Cpu},
    {"AveragePool", AveragePoolCreate_Cpu},
    {"AveragePoolGrad", AveragePoolGradCreate_Cpu},
    {NULL, NULL},
};
