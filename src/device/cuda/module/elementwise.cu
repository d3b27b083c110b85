/* Elementwise functions of float32: of one input and their gradients, and of two that broadcast. */
#include "cuda.h"
#include "../launch.h"
#include <math.h>
#include <string.h>

enum { THREADS = 256 };
static const int64_t MOST_BLOCKS = 4096;

static unsigned BlocksFor(int64_t count)
{
  const int64_t blocks = (count + THREADS - 1) / THREADS;
  return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

#define ROOT_HALF 0.70710678118654752f
#define GELU_SCALE 1.5957691216057308f /* 2 sqrt(2 / pi) */
#define GELU_CUBE 0.044715f

static __host__ __device__ inline float LogisticOf(float x)
{
  return 1 / (1 + expf(-x));
}

static __host__ __device__ inline float GeluTanhSlopeOf(float x)
{
  const float s = LogisticOf(GELU_SCALE * (x + GELU_CUBE * x * x * x));
  return s + x * s * (1 - s) * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);
}

static __host__ __device__ inline float SwishSlopeOf(float x, float a)
{
  const float s = LogisticOf(a * x);
  return s + a * x * s * (1 - s);
}

/* v: the input, or what the gradient's operator says; d: the gradient of the output. */
#define UNARY_FUNCTIONS(X)                                                                         \
  X(Neg, -v)                                                                                       \
  X(Abs, fabsf(v))                                                                                 \
  X(Relu, v < 0 ? 0 : v)                                                                           \
  X(Clip, (v < a ? a : v) > b ? b : (v < a ? a : v))                                               \
  X(Reciprocal, 1 / v)                                                                             \
  X(Sqrt, sqrtf(v))                                                                                \
  X(Exp, expf(v))                                                                                  \
  X(Log, logf(v))                                                                                  \
  X(Erf, erff(v))                                                                                  \
  X(Tanh, tanhf(v))                                                                                \
  X(Sigmoid, LogisticOf(v))                                                                        \
  X(Softplus, (v > 0 ? v : 0) + log1pf(expf(-fabsf(v))))                                           \
  X(Softsign, v / (1 + fabsf(v)))                                                                  \
  X(Gelu, 0.5f * v * (1 + erff(v * ROOT_HALF)))                                                    \
  X(GeluTanh, v *LogisticOf(GELU_SCALE *(v + GELU_CUBE * v * v * v)))                              \
  X(Swish, v *LogisticOf(a *v))                                                                    \
  X(LeakyRelu, v < 0 ? a * v : v)                                                                  \
  X(ThresholdedRelu, v > a ? v : 0)                                                                \
  X(ReluGrad, v > 0 ? d : 0)                                                                       \
  X(SigmoidGrad, d *v *(1 - v))                                                                    \
  X(TanhGrad, d *(1 - v * v))                                                                      \
  X(SqrtGrad, d * 0.5f / v)                                                                        \
  X(ReciprocalGrad, -d *v *v)                                                                      \
  X(AbsGrad, v > 0 ? d : v < 0 ? -d : 0)                                                           \
  X(ErfGrad, d * 1.1283791670955126f * expf(-v * v))                                               \
  X(SoftplusGrad, d *LogisticOf(v))                                                                \
  X(GeluGrad, d *(0.5f * (1 + erff(v * ROOT_HALF)) + v * 0.39894228f * expf(-0.5f * v * v)))       \
  X(GeluTanhGrad, d *GeluTanhSlopeOf(v))                                                           \
  X(SwishGrad, d *SwishSlopeOf(v, a))                                                              \
  X(LeakyReluGrad, v < 0 ? a * d : d)
#define BINARY_FUNCTIONS(X)                                                                        \
  X(Add, p + q)                                                                                    \
  X(Sub, p - q)                                                                                    \
  X(Mul, p *q)                                                                                     \
  X(Div, p / q)                                                                                    \
  X(Min, p != p || p < q ? p : q)                                                                  \
  X(Max, p != p || p > q ? p : q)

#define DEFINE(name, expression)                                                                   \
  struct name##Of {                                                                                \
    static __host__ __device__ float Value(float d, float v, float a, float b)                     \
    {                                                                                              \
      (void)d, (void)a, (void)b;                                                                   \
      return expression;                                                                           \
    }                                                                                              \
  };
UNARY_FUNCTIONS(DEFINE)
#undef DEFINE
#define DEFINE(name, expression)                                                                   \
  struct name##Of {                                                                                \
    static __host__ __device__ float Value(float p, float q)                                       \
    {                                                                                              \
      return expression;                                                                           \
    }                                                                                              \
  };
BINARY_FUNCTIONS(DEFINE)
#undef DEFINE

/* y may be one of the inputs. */
template <class F>
__global__ void UnaryKernel(int64_t count, const float *dy, const float *x, float *y, float a,
                            float b)
{
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += step)
    y[i] = F::Value(dy ? dy[i] : 0, x[i], a, b);
}

template <class F>
__global__ void BinaryKernel(RengaCudaBroadcast shape, const float *a, const float *b, float *y)
{
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < shape.count; i += step) {
    int64_t rest = i, at[2] = {0, 0};
    for (int d = shape.dimensions - 1; d >= 0; d--) {
      const int64_t index = rest % shape.extent[d];
      rest /= shape.extent[d];
      at[0] += index * shape.stride[0][d];
      at[1] += index * shape.stride[1][d];
    }
    y[i] = F::Value(a[at[0]], b[at[1]]);
  }
}

typedef void (*UnaryFunction)(int64_t, const float *, const float *, float *, float, float);
typedef void (*BinaryFunction)(RengaCudaBroadcast, const float *, const float *, float *);
template <class F> struct FunctionRow {
  const char *name;
  F kernel;
};
#define ROW(name, expression) {#name, UnaryKernel<name##Of>},
static const FunctionRow<UnaryFunction> unary[] = {UNARY_FUNCTIONS(ROW)};
#undef ROW
#define ROW(name, expression) {#name, BinaryKernel<name##Of>},
static const FunctionRow<BinaryFunction> binary[] = {BINARY_FUNCTIONS(ROW)};
#undef ROW

template <class Row, int N> static int FindFunction(const Row (&rows)[N], const char *name)
{
  for (int i = 0; i < N; i++)
    if (strcmp(rows[i].name, name) == 0) return i;
  return -1;
}

int RengaCudaFindUnary(const char *name)
{
  return FindFunction(unary, name);
}

int RengaCudaFindBinary(const char *name)
{
  return FindFunction(binary, name);
}

int RengaCudaUnary(void *stream, int function, int64_t count, const float *dy, const float *x,
                   float *y, float a, float b)
{
  const UnaryFunction kernel = unary[function].kernel;
  if (count == 0) return 0;
  return RengaCudaSayError(unary[function].name,
                           RENGA_LAUNCH(kernel, BlocksFor(count), THREADS, 0, (cudaStream_t)stream,
                                        count, dy, x, y, a, b));
}

int RengaCudaBinary(void *stream, int function, const RengaCudaBroadcast *shape, const float *a,
                    const float *b, float *y)
{
  const BinaryFunction kernel = binary[function].kernel;
  if (shape->count == 0) return 0;
  return RengaCudaSayError(binary[function].name,
                           RENGA_LAUNCH(kernel, BlocksFor(shape->count), THREADS, 0,
                                        (cudaStream_t)stream, *shape, a, b, y));
}
