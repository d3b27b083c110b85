/* BatchNormalization over images [N,C,...], one channel per piece, forward and backward. */
#include "cpu.h"
#include "renga/private/op.h"
#include "rows.h"

/* x is [images, channels, pixels] */
typedef struct {
  int64_t images, channels, pixels;
  double epsilon;
  bool training;
} BatchNorm_Cpu;

static const float *PlaneOf_Cpu(const BatchNorm_Cpu *s, const void *x, int64_t image,
                                int64_t channel)
{
  return (const float *)x + (image * s->channels + channel) * s->pixels;
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
static void Statistics_Cpu(const BatchNorm_Cpu *s, const void *x, int64_t channel, double *mean,
                           double *variance)
{
  double count = (double)(s->images * s->pixels), sum = 0, squares = 0;
  for (int64_t n = 0; n < s->images; n++)
    sum += PlaneSum_Cpu(s->pixels, PlaneOf_Cpu(s, x, n, channel));
  *mean = sum / count;
  for (int64_t n = 0; n < s->images; n++)
    squares += SquaresFrom(s->pixels, PlaneOf_Cpu(s, x, n, channel), *mean);
  *variance = squares / count;
}

/* y = a (x - mean) + b */
static void ForwardChannel(const BatchNorm_Cpu *s, const float *x, int64_t channel, float mean,
                           float a, float b, float *y)
{
  for (int64_t n = 0; n < s->images; n++) {
    const float *from = PlaneOf_Cpu(s, x, n, channel);
    float *to = y + (from - x);
#pragma omp simd
    for (int64_t i = 0; i < s->pixels; i++) to[i] = (from[i] - mean) * a + b;
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
  const float *scale = in[1], *bias = in[2], *running_mean = in[3], *running_variance = in[4];
  float *means = kernel->call.n_out > 1 ? out[1] : NULL;
  float *variances = kernel->call.n_out > 2 ? out[2] : NULL;
  bool batch = context->training && s->training;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->channels))
  for (int64_t c = 0; c < s->channels; c++) {
    double mean = running_mean[c], variance = running_variance[c];
    if (batch) Statistics_Cpu(s, in[0], c, &mean, &variance);
    float a = (float)(scale[c] / sqrt(variance + s->epsilon));
    ForwardChannel(s, in[0], c, (float)mean, a, bias[c], out[0]);
    if (means) means[c] = (float)mean;
    if (variances) variances[c] = (float)variance;
  }
  return RENGA_SUCCESS;
}

/* sum of dy and of dy (x - mean) over a channel */
static void GradientSums(const BatchNorm_Cpu *s, const void *dy, const void *x, int64_t channel,
                         float mean, double *sum, double *product)
{
  *sum = *product = 0;
  for (int64_t n = 0; n < s->images; n++) {
    const float *d = PlaneOf_Cpu(s, dy, n, channel), *v = PlaneOf_Cpu(s, x, n, channel);
    double plane = 0, plane_product = 0;
#pragma omp simd reduction(+ : plane, plane_product)
    for (int64_t i = 0; i < s->pixels; i++) {
      plane += d[i];
      plane_product += (double)d[i] * (v[i] - mean);
    }
    *sum += plane;
    *product += plane_product;
  }
}

/* dx = a (dy - m - (x - mean) k) */
static void BackwardChannel(const BatchNorm_Cpu *s, const float *dy, const float *x,
                            int64_t channel, float mean, float a, float m, float k, float *dx)
{
  for (int64_t n = 0; n < s->images; n++) {
    const float *d = PlaneOf_Cpu(s, dy, n, channel), *v = PlaneOf_Cpu(s, x, n, channel);
    float *to = dx + (d - dy);
#pragma omp simd
    for (int64_t i = 0; i < s->pixels; i++) to[i] = a * (d[i] - m - (v[i] - mean) * k);
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
  bool batch = context->training && s->training;
  const float *scale = in[2], *means = in[3], *variances = in[4];
  float *dscale = kernel->call.n_out > 1 ? out[1] : NULL;
  float *dbias = kernel->call.n_out > 2 ? out[2] : NULL;
  double count = (double)(s->images * s->pixels);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->channels))
  for (int64_t c = 0; c < s->channels; c++) {
    double inverse = 1 / sqrt((double)variances[c] + s->epsilon), sum = 0, product = 0;
    GradientSums(s, in[0], in[1], c, means[c], &sum, &product);
    if (dscale) dscale[c] = (float)(product * inverse);
    if (dbias) dbias[c] = (float)sum;
    double m = batch ? sum / count : 0;
    double k = batch ? product * inverse * inverse / count : 0;
    if (out[0])
      BackwardChannel(s, in[0], in[1], c, means[c], (float)(scale[c] * inverse), (float)m, (float)k,
                      out[0]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateBatchNorm_Cpu(RengaKernel kernel, const RengaTensorSpec *x,
                                          RengaKernelRunFunction run)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllOf(call, 0, RENGA_FLOAT32) || x->ndim < 2 || RengaTensorSpecCount(x) == 0)
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
  kernel->alias = RENGA_KERNEL_ALIAS(0, 0);
  kernel->run = run;
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

const RengaKernelRow RENGA_ISA_NAME(RengaCpuBatchNorm)[] = {
    {"BatchNormalization", BatchNormalizationCreate_Cpu},
    {"BatchNormalizationGrad", BatchNormalizationGradCreate_Cpu},
    {NULL, NULL},
};
