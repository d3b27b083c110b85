/* BatchNormalization over images [N,C,...], one channel per piece, forward and backward. */
#include "low.h"
#include "renga/private/op.h"
#include "rows.h"

/* x is [images, channels, pixels] */
typedef struct {
  int64_t images, channels, pixels, run; /* pixels that are worked on together */
  double epsilon;
  bool training;
} BatchNorm_Cpu;

/* A tensor of images, float32 or in runs by way of a buffer. */
typedef struct {
  RengaDataType type;
  void *data;
} ImagesOf;

static ImagesOf ImagesAt(const RengaTensorSpec *spec, const void *data)
{
  return (ImagesOf){spec->type, (void *)(uintptr_t)data};
}

/* The runs of a channel, by number: their first element and how many they are. */
static int64_t RunsOfChannel(const BatchNorm_Cpu *s)
{
  return s->pixels > 0 ? s->images * RengaCpuPieces(s->pixels, s->run) : 0;
}

static int64_t FindRun(const BatchNorm_Cpu *s, int64_t channel, int64_t run, int64_t *count)
{
  const int64_t runs = RengaCpuPieces(s->pixels, s->run), first = run % runs * s->run;
  *count = RengaCpuSmaller(s->pixels - first, s->run);
  return (run / runs * s->channels + channel) * s->pixels + first;
}

static double PlaneSum_Cpu(int64_t n, const float *x)
{
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum;
}

static double SquaresFrom(int64_t n, const float *x, double mean)
{
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

/* Mean and biased variance of a channel in the micro-batch. In double: networks of ReLU after
   BatchNormalization are chaotic, a wrong last bit of the mean turns units on and off. */
static void Statistics_Cpu(const BatchNorm_Cpu *s, const ImagesOf *x, int64_t channel, double *mean,
                           double *variance)
{
  double total = (double)(s->images * s->pixels), sum = 0, squares = 0;
  float buffer[RENGA_CPU_RUN];
  int64_t count;
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    sum += PlaneSum_Cpu(count, RengaCpuRead(x->type, x->data, at, count, buffer));
  }
  *mean = sum / total;
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    squares += SquaresFrom(count, RengaCpuRead(x->type, x->data, at, count, buffer), *mean);
  }
  *variance = squares / total;
}

/* y = a (x - mean) + b */
static void ForwardChannel(const BatchNorm_Cpu *s, const ImagesOf *x, int64_t channel, float mean,
                           float a, float b, const ImagesOf *y)
{
  float buffer[2][RENGA_CPU_RUN];
  int64_t count;
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    const float *from = RengaCpuRead(x->type, x->data, at, count, buffer[0]);
    float *to = RengaCpuPlace(y->type, y->data, at, buffer[1]);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = (from[i] - mean) * a + b;
    RengaCpuWrite(y->type, y->data, at, count, to);
  }
}

/* in: x, scale, bias, running mean, running variance; out: y, batch mean, batch variance */
static RengaErrorCode BatchNormForwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                              const RengaKernelContext *context,
                                              const void *const in[], void *const out[],
                                              void *workspace)
{
  (void)stream;
  (void)workspace;
  const BatchNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  bool batch = context->training && s->training;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->channels))
  for (int64_t c = 0; c < s->channels; c++) {
    double mean = RengaCpuGetOf(call, in, 3, c), variance = RengaCpuGetOf(call, in, 4, c);
    const ImagesOf x = ImagesAt(&call->in[0], in[0]);
    const ImagesOf y = ImagesAt(&call->out[0], out[0]);
    if (batch) Statistics_Cpu(s, &x, c, &mean, &variance);
    float a = (float)(RengaCpuGetOf(call, in, 1, c) / sqrt(variance + s->epsilon));
    ForwardChannel(s, &x, c, (float)mean, a, RengaCpuGetOf(call, in, 2, c), &y);
    RengaCpuPutOf(call, out, 1, c, mean);
    RengaCpuPutOf(call, out, 2, c, variance);
  }
  return RENGA_SUCCESS;
}

/* sum of dy and of dy (x - mean) over a channel */
static void GradientSums(const BatchNorm_Cpu *s, const ImagesOf *dy, const ImagesOf *x,
                         int64_t channel, float mean, double *sum, double *product)
{
  float buffer[2][RENGA_CPU_RUN];
  int64_t count;
  *sum = *product = 0;
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    const float *d = RengaCpuRead(dy->type, dy->data, at, count, buffer[0]);
    const float *v = RengaCpuRead(x->type, x->data, at, count, buffer[1]);
    double plane = 0, plane_product = 0;
#pragma omp simd reduction(+ : plane, plane_product)
    for (int64_t i = 0; i < count; i++) {
      plane += d[i];
      plane_product += (double)d[i] * (v[i] - mean);
    }
    *sum += plane;
    *product += plane_product;
  }
}

/* dx = a (dy - m - (x - mean) k) */
static void BackwardChannel(const BatchNorm_Cpu *s, const ImagesOf *dy, const ImagesOf *x,
                            int64_t channel, float mean, float a, float m, float k,
                            const ImagesOf *dx)
{
  float buffer[3][RENGA_CPU_RUN];
  int64_t count;
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    const float *d = RengaCpuRead(dy->type, dy->data, at, count, buffer[0]);
    const float *v = RengaCpuRead(x->type, x->data, at, count, buffer[1]);
    float *to = RengaCpuPlace(dx->type, dx->data, at, buffer[2]);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = a * (d[i] - m - (v[i] - mean) * k);
    RengaCpuWrite(dx->type, dx->data, at, count, to);
  }
}

/* in: dy, x, scale, mean, variance; out: dx, dscale, dbias */
static RengaErrorCode BatchNormBackwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                               const RengaKernelContext *context,
                                               const void *const in[], void *const out[],
                                               void *workspace)
{
  (void)stream;
  (void)workspace;
  const BatchNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  bool batch = context->training && s->training;
  double count = (double)(s->images * s->pixels);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->channels))
  for (int64_t c = 0; c < s->channels; c++) {
    const float mean = RengaCpuGetOf(call, in, 3, c);
    double inverse = 1 / sqrt((double)RengaCpuGetOf(call, in, 4, c) + s->epsilon), sum = 0,
           product = 0;
    const ImagesOf dy = ImagesAt(&call->in[0], in[0]);
    const ImagesOf x = ImagesAt(&call->in[1], in[1]);
    const ImagesOf dx = ImagesAt(&call->out[0], out[0]);
    GradientSums(s, &dy, &x, c, mean, &sum, &product);
    RengaCpuPutOf(call, out, 1, c, product * inverse);
    RengaCpuPutOf(call, out, 2, c, sum);
    double m = batch ? sum / count : 0;
    double k = batch ? product * inverse * inverse / count : 0;
    if (out[0])
      BackwardChannel(s, &dy, &x, c, mean, (float)(RengaCpuGetOf(call, in, 2, c) * inverse),
                      (float)m, (float)k, &dx);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateBatchNorm_Cpu(RengaKernel kernel, const RengaTensorSpec *x,
                                          RengaKernelRunFunction run)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllFloats(call, 0) || x->ndim < 2 || RengaTensorSpecCount(x) == 0)
    return RENGA_SUCCESS;
  BatchNorm_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->images = x->dim[0];
  s->channels = x->dim[1];
  s->pixels = RengaOpProduct(x, 2, x->ndim);
  s->epsilon = RengaAttributesReal(call->attributes, "epsilon", 1e-5);
  s->training = RengaAttributesInt(call->attributes, "training", 1) != 0;
  s->run = RengaOpCallIsLow_Private(call) ? RENGA_CPU_RUN : s->pixels;
  kernel->alias = RENGA_KERNEL_ALIAS(0, 0);
  kernel->run = run;
  return RENGA_SUCCESS;
}

/* in: x, rows of an image; out: their mean, their variance */
static RengaErrorCode BatchLaneRun_Cpu(RengaKernel kernel, RengaStream stream,
                                       const RengaKernelContext *context, const void *const in[],
                                       void *const out[], void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const BatchNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->channels))
  for (int64_t c = 0; c < s->channels; c++) {
    const ImagesOf x = ImagesAt(&call->in[0], in[0]);
    double mean, variance;
    Statistics_Cpu(s, &x, c, &mean, &variance);
    RengaCpuPutOf(call, out, 0, c, mean);
    RengaCpuPutOf(call, out, 1, c, variance);
  }
  return RENGA_SUCCESS;
}

/* dx = m + (x - mean) k */
static void BackwardLane(const BatchNorm_Cpu *s, const ImagesOf *x, int64_t channel, float mean,
                         float m, float k, const ImagesOf *dx)
{
  float buffer[2][RENGA_CPU_RUN];
  int64_t count;
  for (int64_t r = 0; r < RunsOfChannel(s); r++) {
    const int64_t at = FindRun(s, channel, r, &count);
    const float *v = RengaCpuRead(x->type, x->data, at, count, buffer[0]);
    float *to = RengaCpuPlace(dx->type, dx->data, at, buffer[1]);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = m + (v[i] - mean) * k;
    RengaCpuWrite(dx->type, dx->data, at, count, to);
  }
}

/* in: dmean, dvariance, x, mean; out: dx */
static RengaErrorCode BatchLaneGradRun_Cpu(RengaKernel kernel, RengaStream stream,
                                           const RengaKernelContext *context,
                                           const void *const in[], void *const out[],
                                           void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const BatchNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const double count = (double)(s->images * s->pixels);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->channels))
  for (int64_t c = 0; c < s->channels; c++) {
    const ImagesOf x = ImagesAt(&call->in[2], in[2]);
    const ImagesOf dx = ImagesAt(&call->out[0], out[0]);
    const double m = RengaCpuGetOf(call, in, 0, c) / count,
                 k = 2 * RengaCpuGetOf(call, in, 1, c) / count;
    BackwardLane(s, &x, c, RengaCpuGetOf(call, in, 3, c), (float)m, (float)k, &dx);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cpu(kernel, &kernel->call.in[0], BatchNormForwardRun_Cpu));
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cpu(kernel, &kernel->call.in[1], BatchNormBackwardRun_Cpu));
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationLaneCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cpu(kernel, &kernel->call.in[0], BatchLaneRun_Cpu));
  kernel->alias = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode BatchNormalizationLaneGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateBatchNorm_Cpu(kernel, &kernel->call.in[2], BatchLaneGradRun_Cpu));
  kernel->alias = RENGA_KERNEL_ALIAS(0, 2);
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuBatchNorm)[] = {
    {"BatchNormalizationLane", BatchNormalizationLaneCreate_Cpu},
    {"BatchNormalizationLaneGrad", BatchNormalizationLaneGradCreate_Cpu},
    {"BatchNormalization", BatchNormalizationCreate_Cpu},
    {"BatchNormalizationGrad", BatchNormalizationGradCreate_Cpu},
    {NULL, NULL},
};
