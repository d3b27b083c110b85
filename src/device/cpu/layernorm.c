/* LayerNormalization and RMSNormalization (y = (x - mean) / deviation * scale + bias over the last
   dimensions), forward and backward. Gradients of scale and bias are summed over fixed pieces of
   rows, then over the pieces in order. */
#include "cpu.h"
#include "renga/private/op.h"
#include <math.h>
#include <string.h>

typedef struct {
  int64_t rows, n, pieces, rows_per_piece;
  float epsilon;
  bool centred; /* LayerNormalization; else root mean square */
} LayerNorm_Cpu;

static double SumOfRow_Cpu(int64_t n, const float *x)
{
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum;
}

static double SquaresOf(int64_t n, const float *x, float mean)
{
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

static void ForwardRow(const LayerNorm_Cpu *s, const float *restrict x, const float *restrict scale,
                       const float *restrict bias, float *restrict y, float *mean_of,
                       float *inverse_of)
{
  float mean = s->centred ? (float)(SumOfRow_Cpu(s->n, x) / (double)s->n) : 0;
  float inverse = (float)(1 / sqrt(SquaresOf(s->n, x, mean) / (double)s->n + s->epsilon));
  if (bias) {
#pragma omp simd
    for (int64_t i = 0; i < s->n; i++) y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < s->n; i++) y[i] = (x[i] - mean) * inverse * scale[i];
  }
  if (mean_of) *mean_of = mean;
  if (inverse_of) *inverse_of = inverse;
}

/* Output or input number i, NULL where it is absent. */
static float *OutputOf(RengaKernel kernel, void *const out[], int i)
{
  return i < kernel->call.n_out ? out[i] : NULL;
}

static RengaErrorCode LayerNormForwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                              const RengaKernelContext *context,
                                              const void *const in[], void *const out[],
                                              void *workspace)
{
  (void)stream;
  (void)context;
  (void)workspace;
  const LayerNorm_Cpu *s = kernel->data;
  const float *x = in[0], *bias = kernel->call.n_in > 2 ? in[2] : NULL;
  float *y = out[0], *mean = s->centred ? OutputOf(kernel, out, 1) : NULL;
  float *inverse = OutputOf(kernel, out, s->centred ? 2 : 1);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    for (int64_t r = piece * s->rows_per_piece; r < end; r++)
      ForwardRow(s, x + r * s->n, in[1], bias, y + r * s->n, mean ? mean + r : NULL,
                 inverse ? inverse + r : NULL);
  }
  return RENGA_SUCCESS;
}

/* With g = dy scale and h = (x - mean) inverse: dx = inverse (g - mean(g) - h mean(g h)). */
static void LayerNormBackwardRow(const LayerNorm_Cpu *s, const float *restrict dy,
                                 const float *restrict x, const float *restrict scale, float mean,
                                 float inverse, float *restrict dx, float *restrict dscale,
                                 float *restrict dbias)
{
  float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (int64_t i = 0; i < s->n; i++) {
    float h = (x[i] - mean) * inverse, g = dy[i] * scale[i];
    sum += g;
    product += g * h;
    dscale[i] += dy[i] * h;
    dbias[i] += dy[i];
  }
  float mean_g = s->centred ? sum / (float)s->n : 0, mean_gh = product / (float)s->n;
#pragma omp simd
  for (int64_t i = 0; i < s->n; i++) {
    float h = (x[i] - mean) * inverse;
    dx[i] = inverse * (dy[i] * scale[i] - mean_g - h * mean_gh);
  }
}

/* sum[i] = parts[0][i] + parts[1][i] + ...; the parts are stride apart. */
static void SumParts(int threads, int64_t n, int64_t count, int64_t stride, const float *parts,
                     float *sum)
{
  enum { COLUMNS = 1024 };
  int64_t pieces = RengaCpuPieces(n, COLUMNS);
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * COLUMNS, here = RengaCpuSmaller(n - first, COLUMNS);
    memset(sum + first, 0, (size_t)here * sizeof *sum);
    for (int64_t p = 0; p < count; p++) {
      const float *part = parts + p * stride + first;
#pragma omp simd
      for (int64_t i = 0; i < here; i++) sum[first + i] += part[i];
    }
  }
}

/* parts is [pieces, 2, n]: sums for scale and bias */
static RengaErrorCode LayerNormBackwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                               const RengaKernelContext *context,
                                               const void *const in[], void *const out[],
                                               void *workspace)
{
  (void)stream;
  (void)context;
  const LayerNorm_Cpu *s = kernel->data;
  const float *dy = in[0], *x = in[1], *mean = s->centred ? in[3] : NULL;
  const float *inverse = in[s->centred ? 4 : 3];
  float *dx = out[0], *parts = workspace;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    float *dscale = parts + 2 * piece * s->n, *dbias = dscale + s->n;
    memset(dscale, 0, 2 * (size_t)s->n * sizeof *dscale);
    for (int64_t r = piece * s->rows_per_piece; r < end; r++)
      LayerNormBackwardRow(s, dy + r * s->n, x + r * s->n, in[2], mean ? mean[r] : 0, inverse[r],
                           dx + r * s->n, dscale, dbias);
  }
  int threads = kernel->device->threads;
  float *dscale = OutputOf(kernel, out, 1), *dbias = s->centred ? OutputOf(kernel, out, 2) : NULL;
  if (dscale) SumParts(threads, s->n, s->pieces, 2 * s->n, parts, dscale);
  if (dbias) SumParts(threads, s->n, s->pieces, 2 * s->n, parts + s->n, dbias);
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateLayerNorm_Cpu(RengaKernel kernel, const RengaTensorSpec *x,
                                          bool centred, bool backward)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllOf(call, 0, RENGA_FLOAT32)) return RENGA_SUCCESS;
  int axis = 0;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  LayerNorm_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->rows = RengaOpProduct(x, 0, axis);
  s->n = RengaOpProduct(x, axis, x->ndim);
  s->centred = centred;
  s->epsilon = (float)RengaAttributesReal(call->attributes, "epsilon", 1e-5);
  enum { PIECES = 64, LEAST = 16 };
  s->rows_per_piece = RengaCpuPieces(s->rows, PIECES);
  if (s->rows_per_piece < LEAST) s->rows_per_piece = LEAST;
  s->pieces = RengaCpuPieces(s->rows, s->rows_per_piece);
  if (backward) kernel->workspace = (size_t)(2 * s->pieces * s->n) * sizeof(float);
  kernel->run = backward ? LayerNormBackwardRun_Cpu : LayerNormForwardRun_Cpu;
  return RENGA_SUCCESS;
}

static RengaErrorCode LayerNormalizationCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLayerNorm_Cpu(kernel, &kernel->call.in[0], true, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode LayerNormalizationGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLayerNorm_Cpu(kernel, &kernel->call.in[1], true, true));
  return RENGA_SUCCESS;
}

static RengaErrorCode RMSNormalizationCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLayerNorm_Cpu(kernel, &kernel->call.in[0], false, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode RMSNormalizationGradCreate_Cpu(RengaKernel kernel)
{
  RengaCall(CreateLayerNorm_Cpu(kernel, &kernel->call.in[1], false, true));
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuLayerNorm)[] = {
    {"LayerNormalization", LayerNormalizationCreate_Cpu},
    {"LayerNormalizationGrad", LayerNormalizationGradCreate_Cpu},
    {"RMSNormalization", RMSNormalizationCreate_Cpu},
    {"RMSNormalizationGrad", RMSNormalizationGradCreate_Cpu},
    {NULL, NULL},
};
