/* LayerNormalization and RMSNormalization (y = (x - mean) / deviation * scale + bias over the last
   dimensions), forward and backward. Gradients of scale and bias are summed over fixed pieces of
   rows, then over the pieces in order. */
#include "low.h"
#include "renga/private/op.h"
#include <math.h>
#include <string.h>

typedef struct {
  int64_t rows, n, pieces, rows_per_piece;
  float epsilon;
  bool centred;   /* LayerNormalization; else root mean square */
  int64_t parts;  /* floats of the workspace that sums over pieces take */
  int64_t buffer; /* floats behind them for each thread: rows in float32; 0: all is float32 */
} LayerNorm_Cpu;
enum { BUFFER_ROWS = 4 };

static float *BufferOf_Cpu(const LayerNorm_Cpu *s, void *workspace)
{
  return s->buffer ? (float *)workspace + s->parts + s->buffer * RengaCpuThread() : NULL;
}

/* Row number k of the buffer. */
static float *BufferRow(const LayerNorm_Cpu *s, float *buffer, int k)
{
  return buffer ? buffer + k * s->n : NULL;
}

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
  *mean_of = mean;
  *inverse_of = inverse;
}

/* One number for each row: output i, if somebody wants it. */
static void PutStatistic(const RengaOpCall *call, void *const out[], int i, int64_t row,
                         float value)
{
  if (i < call->n_out && out[i]) RengaCpuPut(call->out[i].type, out[i], row, value);
}

/* Rows [first, last). */
static void ForwardRows(const RengaKernel kernel, int64_t first, int64_t last,
                        const void *const in[], void *const out[], float *buffer)
{
  const LayerNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const RengaDataType type = call->out[0].type;
  const float *scale = RengaCpuRead(call->in[1].type, in[1], 0, s->n, BufferRow(s, buffer, 0));
  const float *bias = NULL;
  if (call->n_in > 2 && in[2])
    bias = RengaCpuRead(call->in[2].type, in[2], 0, s->n, BufferRow(s, buffer, 1));
  for (int64_t r = first; r < last; r++) {
    float mean, inverse;
    const float *x = RengaCpuRead(call->in[0].type, in[0], r * s->n, s->n, BufferRow(s, buffer, 2));
    float *y = RengaCpuPlace(type, out[0], r * s->n, BufferRow(s, buffer, 3));
    ForwardRow(s, x, scale, bias, y, &mean, &inverse);
    RengaCpuWrite(type, out[0], r * s->n, s->n, y);
    if (s->centred) PutStatistic(call, out, 1, r, mean);
    PutStatistic(call, out, s->centred ? 2 : 1, r, inverse);
  }
}

static RengaErrorCode LayerNormForwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                              const RengaKernelContext *context,
                                              const void *const in[], void *const out[],
                                              void *workspace)
{
  const LayerNorm_Cpu *s = kernel->data;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    ForwardRows(kernel, piece * s->rows_per_piece, end, in, out, BufferOf_Cpu(s, workspace));
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

/* sums[i] = parts[0][i] + parts[1][i] + ...; the parts are stride apart. */
static void SumParts(int threads, int64_t n, int64_t count, int64_t stride, const float *parts,
                     RengaDataType type, void *sums)
{
  enum { COLUMNS = RENGA_CPU_RUN };
  int64_t pieces = RengaCpuPieces(n, COLUMNS);
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * COLUMNS, here = RengaCpuSmaller(n - first, COLUMNS);
    float buffer[COLUMNS], *sum = RengaCpuPlace(type, sums, first, buffer);
    memset(sum, 0, (size_t)here * sizeof *sum);
    for (int64_t p = 0; p < count; p++) {
      const float *part = parts + p * stride + first;
#pragma omp simd
      for (int64_t i = 0; i < here; i++) sum[i] += part[i];
    }
    RengaCpuWrite(type, sums, first, here, sum);
  }
}

/* Rows [first, last); in: dy, x, scale, (mean), inverse. */
static void BackwardRows(const RengaKernel kernel, int64_t first, int64_t last,
                         const void *const in[], void *dx, float *dscale, float *dbias,
                         float *buffer)
{
  const LayerNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const RengaDataType type = call->out[0].type;
  const int inverse = s->centred ? 4 : 3;
  const float *scale = RengaCpuRead(call->in[2].type, in[2], 0, s->n, BufferRow(s, buffer, 0));
  for (int64_t r = first; r < last; r++) {
    const int64_t at = r * s->n;
    const float *dy = RengaCpuRead(call->in[0].type, in[0], at, s->n, BufferRow(s, buffer, 1));
    const float *x = RengaCpuRead(call->in[1].type, in[1], at, s->n, BufferRow(s, buffer, 2));
    float *made = RengaCpuPlace(type, dx, at, BufferRow(s, buffer, 3));
    LayerNormBackwardRow(s, dy, x, scale, s->centred ? RengaCpuGet(call->in[3].type, in[3], r) : 0,
                         RengaCpuGet(call->in[inverse].type, in[inverse], r), made, dscale, dbias);
    RengaCpuWrite(type, dx, at, s->n, made);
  }
}

/* parts is [pieces, 2, n]: sums for scale and bias */
static RengaErrorCode LayerNormBackwardRun_Cpu(RengaKernel kernel, RengaStream stream,
                                               const RengaKernelContext *context,
                                               const void *const in[], void *const out[],
                                               void *workspace)
{
  const LayerNorm_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  float *parts = workspace;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, s->pieces))
  for (int64_t piece = 0; piece < s->pieces; piece++) {
    int64_t end = RengaCpuSmaller(s->rows, (piece + 1) * s->rows_per_piece);
    float *dscale = parts + 2 * piece * s->n, *dbias = dscale + s->n;
    memset(dscale, 0, 2 * (size_t)s->n * sizeof *dscale);
    BackwardRows(kernel, piece * s->rows_per_piece, end, in, out[0], dscale, dbias,
                 BufferOf_Cpu(s, workspace));
  }
  for (int o = 1; o < call->n_out && o < (s->centred ? 3 : 2); o++)
    if (out[o])
      SumParts(kernel->device->threads, s->n, s->pieces, 2 * s->n, parts + (o - 1) * s->n,
               call->out[o].type, out[o]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateLayerNorm_Cpu(RengaKernel kernel, const RengaTensorSpec *x,
                                          bool centred, bool backward)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllFloats(call, 0)) return RENGA_SUCCESS;
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
  s->parts = backward ? 2 * s->pieces * s->n : 0;
  s->buffer = RengaOpCallIsLow_Private(call) ? BUFFER_ROWS * s->n : 0;
  kernel->workspace = (size_t)(s->parts + s->buffer * kernel->device->threads) * sizeof(float);
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
  if (RengaOpCallHasInput(&kernel->call, 5)) return RENGA_SUCCESS;
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
  if (RengaOpCallHasInput(&kernel->call, 4)) return RENGA_SUCCESS;
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
