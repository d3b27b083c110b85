/* MaxPool and AveragePool over one or two dimensions, and their gradients; one plane of one image
   and channel per piece. */
#include "low.h"
#include "renga/private/op.h"
#include <math.h>
#include <string.h>

typedef struct {
  int64_t planes, in[2], out[2], kernel[2], stride[2], dilation[2], before[2], after[2];
  bool count_pad;
  int64_t x, y; /* elements of a plane of the input, and of the output, of the kernel */
  bool low;     /* not all is float32 */
} Pool_Cpu;

/* Plane p of the input and where the output's is made: in place, or in buffers of the thread. */
static const float *PlaneIn(const RengaKernel kernel, const void *const in[], void *workspace,
                            int64_t p)
{
  const Pool_Cpu *s = kernel->data;
  float *buffer = s->low ? (float *)workspace + RengaCpuThread() * (s->x + s->y) : NULL;
  return RengaCpuRead(kernel->call.in[0].type, in[0], p * s->x, s->x, buffer);
}

static float *PlaneOut(const RengaKernel kernel, void *const out[], void *workspace, int64_t p)
{
  const Pool_Cpu *s = kernel->data;
  float *buffer = s->low ? (float *)workspace + RengaCpuThread() * (s->x + s->y) + s->x : NULL;
  return RengaCpuPlace(kernel->call.out[0].type, out[0], p * s->y, buffer);
}

static void WritePlane(const RengaKernel kernel, void *const out[], int64_t p, const float *made)
{
  const Pool_Cpu *s = kernel->data;
  RengaCpuWrite(kernel->call.out[0].type, out[0], p * s->y, s->y, made);
}

static void SetPlanes(RengaKernel kernel)
{
  Pool_Cpu *s = kernel->data;
  const RengaTensorSpec *x = &kernel->call.in[0], *y = &kernel->call.out[0];
  s->x = RengaOpProduct(x, 2, x->ndim);
  s->y = RengaOpProduct(y, 2, y->ndim);
  s->low = RengaOpCallIsLow_Private(&kernel->call);
  if (s->low) kernel->workspace = (size_t)((s->x + s->y) * kernel->device->threads) * sizeof(float);
}

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
  const Pool_Cpu *s = kernel->data;
  int64_t *places = kernel->call.n_out > 1 ? out[1] : NULL;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->planes))
  for (int64_t p = 0; p < s->planes; p++) {
    float *y = PlaneOut(kernel, out, workspace, p);
    MaxPlane(s, PlaneIn(kernel, in, workspace, p), y, places ? places + p * s->y : NULL);
    WritePlane(kernel, out, p, y);
  }
  return RENGA_SUCCESS;
}

/* in: dy, places; adds in ascending place of dy. */
static RengaErrorCode MaxGradRun_Cpu(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  const Pool_Cpu *s = kernel->data;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->planes))
  for (int64_t p = 0; p < s->planes; p++) {
    const float *dy = PlaneIn(kernel, in, workspace, p);
    const int64_t *place = (const int64_t *)in[1] + p * s->x;
    float *dx = PlaneOut(kernel, out, workspace, p);
    memset(dx, 0, (size_t)s->y * sizeof *dx);
    for (int64_t i = 0; i < s->x; i++) dx[place[i]] += dy[i];
    WritePlane(kernel, out, p, dx);
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
  const Pool_Cpu *s = kernel->data;
  bool gradient = strcmp(kernel->call.op->name, "AveragePoolGrad") == 0;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->planes))
  for (int64_t p = 0; p < s->planes; p++) {
    const float *x = PlaneIn(kernel, in, workspace, p);
    float *y = PlaneOut(kernel, out, workspace, p);
    if (gradient)
      AverageGradPlane(s, x, y);
    else
      AveragePlane(s, x, y);
    WritePlane(kernel, out, p, y);
  }
  return RENGA_SUCCESS;
}

/* Places, the second input or output, are integers. */
static bool FloatsOnly(const RengaOpCall *call)
{
  return RengaCpuIsFloat(call->in[0].type) && RengaCpuIsFloat(call->out[0].type);
}

/* x: what the window moves over; y: what it makes. */
static RengaErrorCode CreatePool_Cpu(RengaKernel kernel, RengaKernelRunFunction run,
                                     const RengaTensorSpec *x, const RengaTensorSpec *y)
{
  const RengaOpCall *call = &kernel->call;
  RengaOpWindow window;
  if (!FloatsOnly(call) || x->ndim < 3 || x->ndim > 4) return RENGA_SUCCESS;
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
  SetPlanes(kernel);
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
  const RengaTensorSpec *dx = &kernel->call.out[0];
  if (!FloatsOnly(&kernel->call)) return RENGA_SUCCESS;
  Pool_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->planes = RengaOpProduct(dx, 0, 2);
  SetPlanes(kernel);
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
