/* Elementwise operators of one input, and their gradients, for float32. */
#include "low.h"
#include "math.h"
#include <string.h>

/* x is the input; a gradient has also dy, and x is the forward input or output, as the operator
   says. a and b are the attributes. y may be x or dy. */
typedef void (*UnaryLoop_Cpu)(int64_t count, const float *dy, const float *x, float *y, float a,
                              float b);

#define UNARY(name, expression)                                                                    \
  static void name(int64_t count, const float *dy, const float *x, float *y, float a, float b)     \
  {                                                                                                \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                                        \
    {                                                                                              \
      float v = x[i];                                                                              \
      y[i] = (expression);                                                                         \
    }                                                                                              \
  }
#define GRADIENT(name, expression)                                                                 \
  static void name(int64_t count, const float *dy, const float *x, float *y, float a, float b)     \
  {                                                                                                \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                                        \
    {                                                                                              \
      float d = dy[i], v = x[i];                                                                   \
      y[i] = (expression);                                                                         \
    }                                                                                              \
  }

#define ROOT_HALF 0.70710678118654752f
#define GELU_SCALE 1.5957691216057308f /* 2 sqrt(2 / pi) */
#define GELU_CUBE 0.044715f

/* x (1 + tanh u) / 2 = x / (1 + exp(-2 u)) */
static inline float GeluTanhOf(float x)
{
  return x * RengaSigmoid(GELU_SCALE * (x + GELU_CUBE * x * x * x));
}

static inline float GeluTanhSlope(float x)
{
  float s = RengaSigmoid(GELU_SCALE * (x + GELU_CUBE * x * x * x));
  return s + x * s * (1 - s) * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);
}

static inline float GeluSlope_Cpu(float x)
{
  return 0.5f * (1 + RengaErf(x * ROOT_HALF)) + x * 0.39894228040143268f * RengaExp(-0.5f * x * x);
}

static inline float SwishSlope_Cpu(float x, float a)
{
  float s = RengaSigmoid(a * x);
  return s + a * x * s * (1 - s);
}

/* log(1 + exp(x)), exact also where exp(x) is small. */
static inline float SoftplusOf(float x)
{
  float t = RengaExp(-fabsf(x)), u = 1 + t;
  float log1p = u == 1 ? t : RengaLog(u) * t / (u - 1);
  return (x > 0 ? x : 0) + log1p;
}

UNARY(Neg, -v)
UNARY(Abs, fabsf(v))
UNARY(Relu, v < 0 ? 0 : v)
UNARY(Clip, (v < a ? a : v) > b ? b : (v < a ? a : v))
UNARY(Reciprocal, 1 / v)
UNARY(Sqrt, sqrtf(v))
UNARY(Exp, RengaExp(v))
UNARY(Log, RengaLog(v))
UNARY(Erf, RengaErf(v))
UNARY(Tanh, RengaTanh(v))
UNARY(Sigmoid, RengaSigmoid(v))
UNARY(Softplus, SoftplusOf(v))
UNARY(Softsign, v / (1 + fabsf(v)))
UNARY(Gelu, 0.5f * v * (1 + RengaErf(v * ROOT_HALF)))
UNARY(GeluTanh, GeluTanhOf(v))
UNARY(Swish, v *RengaSigmoid(a *v))
UNARY(LeakyRelu, v < 0 ? a * v : v)
UNARY(ThresholdedRelu, v > a ? v : 0)
GRADIENT(ReluGrad, v > 0 ? d : 0)
GRADIENT(SigmoidGrad, d *v *(1 - v))
GRADIENT(TanhGrad, d *(1 - v * v))
GRADIENT(SqrtGrad, d * 0.5f / v)
GRADIENT(ReciprocalGrad, -d *v *v)
GRADIENT(AbsGrad, v > 0 ? d : v < 0 ? -d : 0)
GRADIENT(ErfGrad, d * 1.1283791670955126f * RengaExp(-v * v))
GRADIENT(SoftplusGrad, d *RengaSigmoid(v))
GRADIENT(GeluGrad, d *GeluSlope_Cpu(v))
GRADIENT(GeluTanhGrad, d *GeluTanhSlope(v))
GRADIENT(SwishGrad, d *SwishSlope_Cpu(v, a))
GRADIENT(LeakyReluGrad, v > 0 ? d : a * d)

/* The same of bfloat16 without widening: what is narrowed of a NaN is quiet. */
typedef void (*BrainLoop_Cpu)(int64_t count, const uint16_t *dy, const uint16_t *x, uint16_t *y);

static inline uint16_t QuietBrain(uint16_t x)
{
  return (uint16_t)((x & 0x7fff) > 0x7f80 ? x | 0x40 : x);
}

static void ReluBrain(int64_t count, const uint16_t *dy, const uint16_t *x, uint16_t *y)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] = x[i] > 0x8000 && x[i] <= 0xff80 ? 0 : QuietBrain(x[i]);
}

static void ReluGradBrain(int64_t count, const uint16_t *dy, const uint16_t *x, uint16_t *y)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] = x[i] > 0 && x[i] <= 0x7f80 ? QuietBrain(dy[i]) : 0;
}

/* Attributes by name, with the operator's defaults. */
typedef struct {
  const char *name;
  UnaryLoop_Cpu loop;
  const char *a, *b;
  double a_default, b_default;
} UnaryRow_Cpu;

static const UnaryRow_Cpu rows[] = {
    {"Neg", Neg, NULL, NULL, 0, 0},
    {"Abs", Abs, NULL, NULL, 0, 0},
    {"Relu", Relu, NULL, NULL, 0, 0},
    {"Clip", Clip, "min", "max", -INFINITY, INFINITY},
    {"Reciprocal", Reciprocal, NULL, NULL, 0, 0},
    {"Sqrt", Sqrt, NULL, NULL, 0, 0},
    {"Exp", Exp, NULL, NULL, 0, 0},
    {"Log", Log, NULL, NULL, 0, 0},
    {"Erf", Erf, NULL, NULL, 0, 0},
    {"Tanh", Tanh, NULL, NULL, 0, 0},
    {"Sigmoid", Sigmoid, NULL, NULL, 0, 0},
    {"Softplus", Softplus, NULL, NULL, 0, 0},
    {"Softsign", Softsign, NULL, NULL, 0, 0},
    {"Gelu", Gelu, NULL, NULL, 0, 0},
    {"Swish", Swish, "alpha", NULL, 1, 0},
    {"LeakyRelu", LeakyRelu, "alpha", NULL, 0.01, 0},
    {"ThresholdedRelu", ThresholdedRelu, "alpha", NULL, 1, 0},
    {"ReluGrad", ReluGrad, NULL, NULL, 0, 0},
    {"SigmoidGrad", SigmoidGrad, NULL, NULL, 0, 0},
    {"TanhGrad", TanhGrad, NULL, NULL, 0, 0},
    {"SqrtGrad", SqrtGrad, NULL, NULL, 0, 0},
    {"ReciprocalGrad", ReciprocalGrad, NULL, NULL, 0, 0},
    {"AbsGrad", AbsGrad, NULL, NULL, 0, 0},
    {"ErfGrad", ErfGrad, NULL, NULL, 0, 0},
    {"SoftplusGrad", SoftplusGrad, NULL, NULL, 0, 0},
    {"GeluGrad", GeluGrad, NULL, NULL, 0, 0},
    {"SwishGrad", SwishGrad, "alpha", NULL, 1, 0},
    {"LeakyReluGrad", LeakyReluGrad, "alpha", NULL, 0.01, 0},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

typedef struct {
  UnaryLoop_Cpu loop;
  int64_t count;
  float a, b;
  bool low;
  BrainLoop_Cpu brain; /* where all is bfloat16; NULL: widened */
} Unary_Cpu;

/* A piece of which not all is float32. */
static void UnaryLow_Cpu(const RengaKernel kernel, int64_t first, int64_t last,
                         const void *const in[], void *y)
{
  const Unary_Cpu *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const int x = call->n_in - 1;
  const RengaDataType type = call->out[0].type;
  float buffer[3][RENGA_CPU_RUN];
  for (int64_t at = first; at < last; at += RENGA_CPU_RUN) {
    const int64_t here = RengaCpuSmaller(last - at, RENGA_CPU_RUN);
    const float *v = RengaCpuRead(call->in[x].type, in[x], at, here, buffer[0]);
    const float *d = x > 0 ? RengaCpuRead(call->in[0].type, in[0], at, here, buffer[1]) : v;
    float *to = RengaCpuPlace(type, y, at, buffer[2]);
    s->loop(here, d, v, to, s->a, s->b);
    RengaCpuWrite(type, y, at, here, to);
  }
}

static RengaErrorCode UnaryRun_Cpu(RengaKernel kernel, RengaStream stream,
                                   const RengaKernelContext *context, const void *const in[],
                                   void *const out[], void *workspace)
{
  const Unary_Cpu *s = kernel->data;
  const float *dy = in[0], *x = in[kernel->call.n_in - 1];
  float *y = out[0];
  int64_t pieces = RengaCpuPieces(s->count, RENGA_CPU_PIECE);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * RENGA_CPU_PIECE;
    int64_t here = RengaCpuSmaller(s->count - first, RENGA_CPU_PIECE);
    if (s->brain)
      s->brain(here, (const uint16_t *)in[0] + first,
               (const uint16_t *)in[kernel->call.n_in - 1] + first, (uint16_t *)out[0] + first);
    else if (s->low)
      UnaryLow_Cpu(kernel, first, first + here, in, out[0]);
    else
      s->loop(here, dy + first, x + first, y + first, s->a, s->b);
  }
  return RENGA_SUCCESS;
}

static UnaryLoop_Cpu TanhForm(const RengaOpCall *call, UnaryLoop_Cpu loop)
{
  bool tanh_form =
      strcmp(RengaAttributesString(call->attributes, "approximate", "none"), "tanh") == 0;
  if (loop == Gelu && tanh_form) return GeluTanh;
  if (loop == GeluGrad && tanh_form) return GeluTanhGrad;
  return loop;
}

static RengaErrorCode UnaryCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllFloats(call, 0)) return RENGA_SUCCESS;
  int r = 0;
  while (r < N_ROWS && strcmp(rows[r].name, call->op->name) != 0) r++;
  if (r == N_ROWS) return RENGA_SUCCESS;
  Unary_Cpu *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->loop = TanhForm(call, rows[r].loop);
  s->count = RengaTensorSpecCount(&call->out[0]);
  s->low = RengaOpCallIsLow_Private(call);
  if (RengaCpuAllOf(call, 0, RENGA_BFLOAT16))
    s->brain = s->loop == Relu ? ReluBrain : s->loop == ReluGrad ? ReluGradBrain : NULL;
  if (rows[r].a) s->a = (float)RengaAttributesReal(call->attributes, rows[r].a, rows[r].a_default);
  if (rows[r].b) s->b = (float)RengaAttributesReal(call->attributes, rows[r].b, rows[r].b_default);
  kernel->run = UnaryRun_Cpu;
  kernel->alias = RENGA_KERNEL_ALIAS(0, 0);
  if (call->n_in > 1) kernel->alias |= RENGA_KERNEL_ALIAS(0, 1);
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuUnary)[] = {
    {"Neg", UnaryCreate_Cpu},
    {"Abs", UnaryCreate_Cpu},
    {"Relu", UnaryCreate_Cpu},
    {"Clip", UnaryCreate_Cpu},
    {"Reciprocal", UnaryCreate_Cpu},
    {"Sqrt", UnaryCreate_Cpu},
    {"Exp", UnaryCreate_Cpu},
    {"Log", UnaryCreate_Cpu},
    {"Erf", UnaryCreate_Cpu},
    {"Tanh", UnaryCreate_Cpu},
    {"Sigmoid", UnaryCreate_Cpu},
    {"Softplus", UnaryCreate_Cpu},
    {"Softsign", UnaryCreate_Cpu},
    {"Gelu", UnaryCreate_Cpu},
    {"Swish", UnaryCreate_Cpu},
    {"LeakyRelu", UnaryCreate_Cpu},
    {"ThresholdedRelu", UnaryCreate_Cpu},
    {"ReluGrad", UnaryCreate_Cpu},
    {"SigmoidGrad", UnaryCreate_Cpu},
    {"TanhGrad", UnaryCreate_Cpu},
    {"SqrtGrad", UnaryCreate_Cpu},
    {"ReciprocalGrad", UnaryCreate_Cpu},
    {"AbsGrad", UnaryCreate_Cpu},
    {"ErfGrad", UnaryCreate_Cpu},
    {"SoftplusGrad", UnaryCreate_Cpu},
    {"GeluGrad", UnaryCreate_Cpu},
    {"SwishGrad", UnaryCreate_Cpu},
    {"LeakyReluGrad", UnaryCreate_Cpu},
    {NULL, NULL},
};
