/* Elementwise functions: of one float and their gradients, of two numbers that broadcast, of a
   condition and two values, and conversions of types. */
#include "kernel.h"
#include <string.h>
#include <type_traits>

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

static __host__ __device__ inline float PowerOf(float base, float exponent)
{
  if (exponent == 2) return base * base;
  if (exponent == 3) return base * base * base;
  return powf(base, exponent);
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
  X(LeakyReluGrad, v > 0 ? d : a * d)
/* name, type of the inputs and of the output, expression */
#define BINARY_FUNCTIONS(X)                                                                        \
  X(Add, float, float, p + q)                                                                      \
  X(Sub, float, float, p - q)                                                                      \
  X(Mul, float, float, p *q)                                                                       \
  X(Div, float, float, p / q)                                                                      \
  X(Min, float, float, p != p || p < q ? p : q)                                                    \
  X(Max, float, float, p != p || p > q ? p : q)                                                    \
  X(Pow, float, float, PowerOf(p, q))                                                              \
  X(Equal, float, bool, p == q)                                                                    \
  X(Less, float, bool, p < q)                                                                      \
  X(Greater, float, bool, p > q)                                                                   \
  X(LessOrEqual, float, bool, p <= q)                                                              \
  X(GreaterOrEqual, float, bool, p >= q)                                                           \
  X(Add, uint64_t, uint64_t, p + q)                                                                \
  X(Sub, uint64_t, uint64_t, p - q)                                                                \
  X(Mul, uint64_t, uint64_t, p *q)                                                                 \
  X(Equal, int64_t, bool, p == q)                                                                  \
  X(Less, int64_t, bool, p < q)                                                                    \
  X(Greater, int64_t, bool, p > q)                                                                 \
  X(LessOrEqual, int64_t, bool, p <= q)                                                            \
  X(GreaterOrEqual, int64_t, bool, p >= q)                                                         \
  X(And, bool, bool, p &&q)                                                                        \
  X(Or, bool, bool, p || q)                                                                        \
  X(Xor, bool, bool, p != q)                                                                       \
  X(Equal, bool, bool, p == q)
/* name, type of the input and of the output, expression */
#define CONVERSIONS(X)                                                                             \
  X(Cast, float, float, v)                                                                         \
  X(Cast, float, bool, v != 0)                                                                     \
  X(Cast, bool, float, v)                                                                          \
  X(Cast, int64_t, float, v)                                                                       \
  X(Cast, int32_t, float, v)                                                                       \
  X(Cast, int64_t, bool, v != 0)                                                                   \
  X(Cast, bool, int64_t, v)                                                                        \
  X(Cast, int64_t, int32_t, v)                                                                     \
  X(Cast, int32_t, int64_t, v)                                                                     \
  X(Not, bool, bool, !v)

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
#define DEFINE(name, type, result, expression)                                                     \
  struct name##Of_##type {                                                                         \
    typedef type Input;                                                                            \
    typedef result Output;                                                                         \
    static __host__ __device__ result Value(type p, type q)                                        \
    {                                                                                              \
      return (result)(expression);                                                                 \
    }                                                                                              \
  };
BINARY_FUNCTIONS(DEFINE)
#undef DEFINE
#define DEFINE(name, type, result, expression)                                                     \
  struct name##From_##type##_##result {                                                            \
    typedef type Input;                                                                            \
    typedef result Output;                                                                         \
    static __host__ __device__ result Value(type v)                                                \
    {                                                                                              \
      return (result)(expression);                                                                 \
    }                                                                                              \
  };
CONVERSIONS(DEFINE)
#undef DEFINE

/* What a function's number is in memory: T where it is a float. */
template <class Number> struct Memory {
  template <class T> struct Of {
    Number *data;
    __device__ explicit Of(const RengaCudaOperand &operand) : data((Number *)operand.data)
    {
    }
    __device__ Number operator[](int64_t i) const
    {
      return data[i];
    }
    __device__ void Put(int64_t i, Number value) const
    {
      data[i] = value;
    }
  };
};
template <> struct Memory<float> {
  template <class T> using Of = Values<T>;
};

/* y may be one of the inputs. */
template <class F, class T>
__global__ void UnaryKernel(int64_t count, RengaCudaOperand dy_, RengaCudaOperand x_,
                            RengaCudaOperand y_, float a, float b)
{
  const Values<T> dy(dy_), x(x_), y(y_);
  RENGA_EACH_FOUR(i, count)
  {
    Four<float> v = x.Get(i, count - i), d = {};
    if (dy.data) d = dy.Get(i, count - i);
    for (int k = 0; k < FOUR; k++) v.at[k] = F::Value(d.at[k], v.at[k], a, b);
    y.Put(i, count - i, v);
  }
}

/* Of floats none of which is broadcast. */
template <class F, class T>
__global__ void FlatKernel(int64_t count, RengaCudaOperand a_, RengaCudaOperand b_,
                           RengaCudaOperand y_)
{
  const Values<T> a(a_), b(b_), y(y_);
  RENGA_EACH_FOUR(i, count)
  {
    Four<float> p = a.Get(i, count - i), q = b.Get(i, count - i);
    for (int k = 0; k < FOUR; k++) p.at[k] = F::Value(p.at[k], q.at[k]);
    y.Put(i, count - i, p);
  }
}

/* Places of N inputs for element i of the output. */
template <int N, class Index>
static __device__ inline void FindPlaces(const RengaCudaBroadcast &shape, int64_t i, int64_t at[])
{
  Index rest = (Index)i;
  for (int n = 0; n < N; n++) at[n] = 0;
  for (int d = shape.dimensions - 1; d >= 0; d--) {
    const Index extent = (Index)shape.extent[d];
    const int64_t index = (int64_t)(d > 0 ? rest % extent : rest);
    if (d > 0) rest /= extent;
    for (int n = 0; n < N; n++) at[n] += index * shape.stride[n][d];
  }
}

template <class F, class Index>
__global__ void BinaryKernel(RengaCudaBroadcast shape, RengaCudaOperand a_, RengaCudaOperand b_,
                             RengaCudaOperand y_)
{
  const typename Memory<typename F::Input>::template Of<void> a(a_), b(b_);
  const typename Memory<typename F::Output>::template Of<void> y(y_);
  RENGA_EACH(i, shape.count)
  {
    int64_t at[2];
    FindPlaces<2, Index>(shape, i, at);
    y.Put(i, F::Value(a[at[0]], b[at[1]]));
  }
}

template <class T>
__global__ void ChooseKernel(RengaCudaBroadcast shape, const unsigned char *condition,
                             const void *a, const void *b, void *y)
{
  RENGA_EACH(i, shape.count)
  {
    int64_t at[3];
    FindPlaces<3, uint64_t>(shape, i, at);
    ((T *)y)[i] = condition[at[0]] ? ((const T *)a)[at[1]] : ((const T *)b)[at[2]];
  }
}

template <class F>
__global__ void CastKernel(int64_t count, RengaCudaOperand x_, RengaCudaOperand y_)
{
  const typename Memory<typename F::Input>::template Of<void> x(x_);
  const typename Memory<typename F::Output>::template Of<void> y(y_);
  RENGA_EACH(i, count) y.Put(i, F::Value(x[i]));
}

/* Types in C++ and in the table of the module. */
template <class T> struct CudaTypeOf;
template <> struct CudaTypeOf<float> {
  static const RengaCudaType value = RENGA_CUDA_FLOAT32;
};
template <> struct CudaTypeOf<int64_t> {
  static const RengaCudaType value = RENGA_CUDA_INT64;
};
template <> struct CudaTypeOf<uint64_t> {
  static const RengaCudaType value = RENGA_CUDA_INT64;
};
template <> struct CudaTypeOf<int32_t> {
  static const RengaCudaType value = RENGA_CUDA_INT32;
};
template <> struct CudaTypeOf<bool> {
  static const RengaCudaType value = RENGA_CUDA_BOOL;
};

typedef void (*UnaryFunction)(int64_t, RengaCudaOperand, RengaCudaOperand, RengaCudaOperand, float,
                              float);
typedef void (*FlatFunction)(int64_t, RengaCudaOperand, RengaCudaOperand, RengaCudaOperand);
typedef void (*BinaryFunction)(RengaCudaBroadcast, RengaCudaOperand, RengaCudaOperand,
                               RengaCudaOperand);
typedef void (*ConvertFunction)(int64_t, RengaCudaOperand, RengaCudaOperand);
static const struct {
  const char *name;
  UnaryFunction form[VALUE_FORMS];
} unary[] = {
#define ROW(name, expression) {#name, RENGA_FORMS_OF(UnaryKernel, name##Of)},
    UNARY_FUNCTIONS(ROW)
#undef ROW
};

/* Functions of floats whose result is one have forms for operands that are not broadcast. */
template <class F, bool FLOATS> struct FlatForms {
  static FlatFunction At(int form)
  {
    static const FlatFunction forms[VALUE_FORMS] = RENGA_FORMS_OF(FlatKernel, F);
    return forms[form];
  }
};
template <class F> struct FlatForms<F, false> {
  static FlatFunction At(int)
  {
    return NULL;
  }
};
template <class F>
struct FlatFormsOf : FlatForms<F, std::is_same<typename F::Input, float>::value &&
                                      std::is_same<typename F::Output, float>::value> {
};
static const struct {
  const char *name;
  RengaCudaType type;
  FlatFunction (*flat)(int form);
  BinaryFunction small, large; /* of fewer than 2^31 elements, and of more */
} binary[] = {
#define ROW(name, type, result, expression)                                                        \
  {#name, CudaTypeOf<type>::value, FlatFormsOf<name##Of_##type>::At,                               \
   BinaryKernel<name##Of_##type, uint32_t>, BinaryKernel<name##Of_##type, uint64_t>},
    BINARY_FUNCTIONS(ROW)
#undef ROW
};
static const struct {
  const char *name;
  RengaCudaType from, to;
  ConvertFunction kernel;
} conversions[] = {
#define ROW(name, type, result, expression)                                                        \
  {#name, CudaTypeOf<type>::value, CudaTypeOf<result>::value,                                      \
   CastKernel<name##From_##type##_##result>},
    CONVERSIONS(ROW)
#undef ROW
};

static int FindUnary(const char *name)
{
  for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
    if (strcmp(unary[i].name, name) == 0) return (int)i;
  return -1;
}

static int FindBinary(const char *name, RengaCudaType type)
{
  for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
    if (strcmp(binary[i].name, name) == 0 && binary[i].type == type) return (int)i;
  return -1;
}

static int FindConversion(const char *name, RengaCudaType from, RengaCudaType to)
{
  for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++)
    if (strcmp(conversions[i].name, name) == 0 && conversions[i].from == from &&
        conversions[i].to == to)
      return (int)i;
  return -1;
}

static int RunUnary(void *stream, int function, int64_t count, RengaCudaOperand dy,
                    RengaCudaOperand x, RengaCudaOperand y, float a, float b)
{
  const UnaryFunction kernel = unary[function].form[FormFor(dy, x, y)];
  if (count == 0) return 0;
  return RengaCudaSayError(unary[function].name,
                           RENGA_LAUNCH(kernel, BlocksForFours(count), THREADS, 0,
                                        (cudaStream_t)stream, count, dy, x, y, a, b));
}

static bool IsFlat(const RengaCudaBroadcast *shape)
{
  return shape->dimensions == 0 ||
         (shape->dimensions == 1 && shape->stride[0][0] == 1 && shape->stride[1][0] == 1);
}

static int RunBinary(void *stream, int function, const RengaCudaBroadcast *shape,
                     RengaCudaOperand a, RengaCudaOperand b, RengaCudaOperand y)
{
  const FlatFunction flat =
      IsFlat(shape) ? binary[function].flat(FormFor(a, b, y)) : (FlatFunction)NULL;
  const BinaryFunction kernel =
      shape->count <= INT32_MAX ? binary[function].small : binary[function].large;
  cudaError_t code;
  if (shape->count == 0) return 0;
  if (flat)
    code = RENGA_LAUNCH(flat, BlocksForFours(shape->count), THREADS, 0, (cudaStream_t)stream,
                        shape->count, a, b, y);
  else
    code = RENGA_LAUNCH(kernel, BlocksFor(shape->count), THREADS, 0, (cudaStream_t)stream, *shape,
                        a, b, y);
  return RengaCudaSayError(binary[function].name, code);
}

static int RunConversion(void *stream, int function, int64_t count, RengaCudaOperand x,
                         RengaCudaOperand y)
{
  const ConvertFunction kernel = conversions[function].kernel;
  if (count == 0) return 0;
  return RengaCudaSayError(
      conversions[function].name,
      RENGA_LAUNCH(kernel, BlocksFor(count), THREADS, 0, (cudaStream_t)stream, count, x, y));
}

static int RunChoose(void *stream, int size, const RengaCudaBroadcast *shape,
                     const unsigned char *condition, const void *a, const void *b, void *y)
{
  typedef void (*Kernel)(RengaCudaBroadcast, const unsigned char *, const void *, const void *,
                         void *);
  const Kernel kernel = size == 1   ? ChooseKernel<uint8_t>
                        : size == 2 ? ChooseKernel<uint16_t>
                        : size == 4 ? ChooseKernel<uint32_t>
                                    : ChooseKernel<uint64_t>;
  if (shape->count == 0) return 0;
  return RengaCudaSayError("ChooseKernel",
                           RENGA_LAUNCH(kernel, BlocksFor(shape->count), THREADS, 0,
                                        (cudaStream_t)stream, *shape, condition, a, b, y));
}

extern const RengaCudaElementwise RengaCudaEach = {
    FindUnary,     FindBinary, FindConversion,        RunUnary,      RunBinary,
    RunConversion, RunChoose,  RengaCudaMoveElements, RengaCudaFill, RengaCudaCheckIndices,
};
