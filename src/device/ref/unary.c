/* Elementwise kernels of one input: y = f(x), and their gradients dx = dy * f'(x or y). */
#include "ref.h"
#include <math.h>
#include <string.h>

/* x and the operator's two parameters. */
typedef double Function(double x, double a, double b);

#define FUNCTION(name, expression)                                                                 \
  static double name(double x, double a, double b)                                                 \
  {                                                                                                \
    return expression;                                                                             \
  }

static double Logistic(double x)
{
  return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double Rectified(double x)
{
  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double Bounded(double x, double low, double high)
{
  double y = x < low ? low : x;
  return y > high ? high : y;
}

static const double root_half = 0.70710678118654752440, root_two_over_pi = 0.79788456080286535588;
static const double one_over_root_two_pi = 0.39894228040143267794;
static const double two_over_root_pi = 1.12837916709551257390;

/* Hendrycks, Gimpel: Gaussian error linear units, arXiv 1606.08415; a: the tanh form. */
static double Gelu_Ref(double x, double a, double b)
{
  if (a == 0) return 0.5 * x * (1 + erf(x * root_half));
  return 0.5 * x * (1 + tanh(root_two_over_pi * (x + 0.044715 * x * x * x)));
}

static double GeluSlope_Ref(double x, double a, double b)
{
  if (a == 0) return 0.5 * (1 + erf(x * root_half)) + x * one_over_root_two_pi * exp(-x * x / 2);
  double t = tanh(root_two_over_pi * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root_two_over_pi * (1 + 3 * 0.044715 * x * x);
}

static double MishSlope(double x, double a, double b)
{
  double t = tanh(Rectified(x));
  return t + x * (1 - t * t) * Logistic(x);
}

static double SwishSlope_Ref(double x, double a, double b)
{
  double s = Logistic(a * x);
  return s + a * x * s * (1 - s);
}

FUNCTION(Identity, x)
FUNCTION(Neg, -x)
FUNCTION(Abs, fabs(x))
FUNCTION(Sign, x > 0 ? 1 : x < 0 ? -1 : x)
FUNCTION(Relu, x < 0 ? 0 : x)
FUNCTION(Clip, Bounded(x, a, b))
FUNCTION(Reciprocal, 1 / x)
FUNCTION(Sqrt, sqrt(x))
FUNCTION(Exp, exp(x))
FUNCTION(Log, log(x))
FUNCTION(Erf, erf(x))
FUNCTION(Tanh, tanh(x))
FUNCTION(Sigmoid, Logistic(x))
FUNCTION(Softplus, Rectified(x))
FUNCTION(Softsign, x / (1 + fabs(x)))
FUNCTION(Swish, (x * Logistic(a * x)))
FUNCTION(Mish, (x * tanh(Rectified(x))))
FUNCTION(HardSwish, (x * Bounded(x / 6 + 0.5, 0, 1)))
FUNCTION(HardSigmoid, (Bounded(a * x + b, 0, 1)))
FUNCTION(LeakyRelu, x < 0 ? a * x : x)
FUNCTION(ThresholdedRelu, x > a ? x : 0)
FUNCTION(Shrink, x<-b ? x + a : x> b ? x - a : 0)
FUNCTION(Elu, (x < 0 ? a * expm1(x) : x))
FUNCTION(Celu, (x < 0 ? a * expm1(x / a) : x))
FUNCTION(Selu, b *(x < 0 ? a * expm1(x) : x))
FUNCTION(Sin, sin(x))
FUNCTION(Cos, cos(x))
FUNCTION(Tan, tan(x))
FUNCTION(Asin, asin(x))
FUNCTION(Acos, acos(x))
FUNCTION(Atan, atan(x))
FUNCTION(Sinh, sinh(x))
FUNCTION(Cosh, cosh(x))
FUNCTION(Asinh, asinh(x))
FUNCTION(Acosh, acosh(x))
FUNCTION(Atanh, atanh(x))
FUNCTION(Floor, floor(x))
FUNCTION(Ceil, ceil(x))
FUNCTION(Round, nearbyint(x))
FUNCTION(IsNaN, isnan(x))
FUNCTION(IsInf, isinf(x) && (x < 0 ? a : b) != 0)
FUNCTION(Not, x == 0)

/* Slopes from the output y (here x). */
FUNCTION(ReluSlope, x > 0)
FUNCTION(SigmoidSlope, x *(1 - x))
FUNCTION(TanhSlope, 1 - x * x)
FUNCTION(SqrtSlope, 0.5 / x)
FUNCTION(ReciprocalSlope, (-x * x))

/* Slopes from the input x. */
FUNCTION(AbsSlope, x > 0 ? 1 : x < 0 ? -1 : 0)
FUNCTION(ClipSlope, x > a && x < b)
FUNCTION(ErfSlope, (two_over_root_pi * exp(-x * x)))
FUNCTION(SoftplusSlope, Logistic(x))
FUNCTION(SoftsignSlope, 1 / ((1 + fabs(x)) * (1 + fabs(x))))
FUNCTION(HardSwishSlope, x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5)
FUNCTION(HardSigmoidSlope, (a * x + b > 0 && a * x + b < 1 ? a : 0))
FUNCTION(LeakyReluSlope, x > 0 ? 1 : a)
FUNCTION(ThresholdedReluSlope, x > a)
FUNCTION(ShrinkSlope, x<-b || x> b)
FUNCTION(EluSlope, x > 0 ? 1 : a * exp(x))
FUNCTION(CeluSlope, x > 0 ? 1 : exp(x / a))
FUNCTION(SeluSlope, b *(x > 0 ? 1 : a * exp(x)))
FUNCTION(SinSlope, cos(x))
FUNCTION(CosSlope, -sin(x))
FUNCTION(TanSlope, 1 + tan(x) * tan(x))
FUNCTION(AsinSlope, 1 / sqrt(1 - x * x))
FUNCTION(AcosSlope, -1 / sqrt(1 - x * x))
FUNCTION(AtanSlope, 1 / (1 + x * x))
FUNCTION(SinhSlope, cosh(x))
FUNCTION(CoshSlope, sinh(x))
FUNCTION(AsinhSlope, 1 / sqrt(x * x + 1))
FUNCTION(AcoshSlope, 1 / sqrt(x * x - 1))
FUNCTION(AtanhSlope, 1 / (1 - x * x))

/* Integers as int64_t; natural: the type has no sign. */
typedef int64_t Integer(int64_t x, bool natural);

static int64_t IntegerNeg(int64_t x, bool natural)
{
  return (int64_t)(0 - (uint64_t)x);
}

static int64_t IntegerAbs(int64_t x, bool natural)
{
  return x < 0 && !natural ? IntegerNeg(x, natural) : x;
}

static int64_t IntegerSign(int64_t x, bool natural)
{
  return x == 0 ? 0 : x > 0 || natural ? 1 : -1;
}

static int64_t IntegerRelu(int64_t x, bool natural)
{
  return x < 0 && !natural ? 0 : x;
}

static int64_t IntegerNot(int64_t x, bool natural)
{
  return ~x;
}

static const struct {
  const char *name;
  Function *real, *slope; /* of the operator, or of the one that it is the gradient of */
  const char *a, *b;      /* attributes */
  Integer *integer;
} rows[] = {
    {"Neg", Neg, NULL, NULL, NULL, IntegerNeg},
    {"Abs", Abs, NULL, NULL, NULL, IntegerAbs},
    {"Sign", Sign, NULL, NULL, NULL, IntegerSign},
    {"Relu", Relu, NULL, NULL, NULL, IntegerRelu},
    {"BitwiseNot", NULL, NULL, NULL, NULL, IntegerNot},
    {"Clip", Clip, NULL, "min", "max", NULL},
    {"Shrink", Shrink, NULL, "bias", "lambd", NULL},
    {"Reciprocal", Reciprocal, NULL, NULL, NULL, NULL},
    {"Sqrt", Sqrt, NULL, NULL, NULL, NULL},
    {"Exp", Exp, NULL, NULL, NULL, NULL},
    {"Log", Log, NULL, NULL, NULL, NULL},
    {"Erf", Erf, NULL, NULL, NULL, NULL},
    {"Tanh", Tanh, NULL, NULL, NULL, NULL},
    {"Sigmoid", Sigmoid, NULL, NULL, NULL, NULL},
    {"Softplus", Softplus, NULL, NULL, NULL, NULL},
    {"Softsign", Softsign, NULL, NULL, NULL, NULL},
    {"Gelu", Gelu_Ref, NULL, "approximate", NULL, NULL},
    {"Swish", Swish, NULL, "alpha", NULL, NULL},
    {"Mish", Mish, NULL, NULL, NULL, NULL},
    {"HardSwish", HardSwish, NULL, NULL, NULL, NULL},
    {"HardSigmoid", HardSigmoid, NULL, "alpha", "beta", NULL},
    {"LeakyRelu", LeakyRelu, NULL, "alpha", NULL, NULL},
    {"ThresholdedRelu", ThresholdedRelu, NULL, "alpha", NULL, NULL},
    {"Elu", Elu, NULL, "alpha", NULL, NULL},
    {"Celu", Celu, NULL, "alpha", NULL, NULL},
    {"Selu", Selu, NULL, "alpha", "gamma", NULL},
    {"Sin", Sin, NULL, NULL, NULL, NULL},
    {"Cos", Cos, NULL, NULL, NULL, NULL},
    {"Tan", Tan, NULL, NULL, NULL, NULL},
    {"Asin", Asin, NULL, NULL, NULL, NULL},
    {"Acos", Acos, NULL, NULL, NULL, NULL},
    {"Atan", Atan, NULL, NULL, NULL, NULL},
    {"Sinh", Sinh, NULL, NULL, NULL, NULL},
    {"Cosh", Cosh, NULL, NULL, NULL, NULL},
    {"Asinh", Asinh, NULL, NULL, NULL, NULL},
    {"Acosh", Acosh, NULL, NULL, NULL, NULL},
    {"Atanh", Atanh, NULL, NULL, NULL, NULL},
    {"Floor", Floor, NULL, NULL, NULL, NULL},
    {"Ceil", Ceil, NULL, NULL, NULL, NULL},
    {"Round", Round, NULL, NULL, NULL, NULL},
    {"IsNaN", IsNaN, NULL, NULL, NULL, NULL},
    {"IsInf", IsInf, NULL, "detect_negative", "detect_positive", NULL},
    {"Not", Not, NULL, NULL, NULL, NULL},
    {"Cast", Identity, NULL, NULL, NULL, NULL},
    {"ReluGrad", NULL, ReluSlope, NULL, NULL, NULL},
    {"SigmoidGrad", NULL, SigmoidSlope, NULL, NULL, NULL},
    {"TanhGrad", NULL, TanhSlope, NULL, NULL, NULL},
    {"SqrtGrad", NULL, SqrtSlope, NULL, NULL, NULL},
    {"ReciprocalGrad", NULL, ReciprocalSlope, NULL, NULL, NULL},
    {"AbsGrad", NULL, AbsSlope, NULL, NULL, NULL},
    {"ClipGrad", NULL, ClipSlope, "min", "max", NULL},
    {"ErfGrad", NULL, ErfSlope, NULL, NULL, NULL},
    {"SoftplusGrad", NULL, SoftplusSlope, NULL, NULL, NULL},
    {"SoftsignGrad", NULL, SoftsignSlope, NULL, NULL, NULL},
    {"GeluGrad", NULL, GeluSlope_Ref, "approximate", NULL, NULL},
    {"SwishGrad", NULL, SwishSlope_Ref, "alpha", NULL, NULL},
    {"MishGrad", NULL, MishSlope, NULL, NULL, NULL},
    {"HardSwishGrad", NULL, HardSwishSlope, NULL, NULL, NULL},
    {"HardSigmoidGrad", NULL, HardSigmoidSlope, "alpha", "beta", NULL},
    {"LeakyReluGrad", NULL, LeakyReluSlope, "alpha", NULL, NULL},
    {"ThresholdedReluGrad", NULL, ThresholdedReluSlope, "alpha", NULL, NULL},
    {"ShrinkGrad", NULL, ShrinkSlope, "bias", "lambd", NULL},
    {"EluGrad", NULL, EluSlope, "alpha", NULL, NULL},
    {"CeluGrad", NULL, CeluSlope, "alpha", NULL, NULL},
    {"SeluGrad", NULL, SeluSlope, "alpha", "gamma", NULL},
    {"SinGrad", NULL, SinSlope, NULL, NULL, NULL},
    {"CosGrad", NULL, CosSlope, NULL, NULL, NULL},
    {"TanGrad", NULL, TanSlope, NULL, NULL, NULL},
    {"AsinGrad", NULL, AsinSlope, NULL, NULL, NULL},
    {"AcosGrad", NULL, AcosSlope, NULL, NULL, NULL},
    {"AtanGrad", NULL, AtanSlope, NULL, NULL, NULL},
    {"SinhGrad", NULL, SinhSlope, NULL, NULL, NULL},
    {"CoshGrad", NULL, CoshSlope, NULL, NULL, NULL},
    {"AsinhGrad", NULL, AsinhSlope, NULL, NULL, NULL},
    {"AcoshGrad", NULL, AcoshSlope, NULL, NULL, NULL},
    {"AtanhGrad", NULL, AtanhSlope, NULL, NULL, NULL},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static int FindUnary_Ref(const char *name)
{
  int i = 0;
  while (i < N_ROWS && strcmp(rows[i].name, name) != 0) i++;
  return i;
}

/* An attribute as a number: real, int, or for Gelu whether it is the tanh form. */
static double UnaryParameter_Ref(const RengaOpCall *call, const char *name)
{
  if (!name) return 0;
  if (strcmp(name, "approximate") == 0) return RengaOpCallString(call, name)[0] == 't';
  const RengaAttribute *row = RengaAttributesFind(call->attributes, name);
  bool integer = row && row->kind == RENGA_ATTRIBUTE_INT;
  return integer ? (double)RengaOpCallInt(call, name) : RengaOpCallReal(call, name);
}

static RengaErrorCode Forward_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  int row = FindUnary_Ref(call->op->name);
  double a = UnaryParameter_Ref(call, rows[row].a), b = UnaryParameter_Ref(call, rows[row].b);
  int64_t count = RengaTensorSpecCount(&call->in[0]);
  for (int64_t i = 0; i < count; i++) RefSet(y, i, rows[row].real(RefGet(x, i), a, b));
  return RENGA_SUCCESS;
}

static RengaErrorCode Slope_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                const void *const in[], void *const out[])
{
  RefIn dy = RefInput(call, in, 0), x = RefInput(call, in, 1);
  RefOut dx = RefOutput(call, out, 0);
  int row = FindUnary_Ref(call->op->name);
  double a = UnaryParameter_Ref(call, rows[row].a), b = UnaryParameter_Ref(call, rows[row].b);
  int64_t count = RengaTensorSpecCount(&call->in[0]);
  for (int64_t i = 0; i < count; i++)
    RefSet(dx, i, RefGet(dy, i) * rows[row].slope(RefGet(x, i), a, b));
  return RENGA_SUCCESS;
}

static RengaErrorCode Unary_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                const void *const in[], void *const out[])
{
  int row = FindUnary_Ref(call->op->name);
  RengaDataType type = call->in[0].type;
  if (rows[row].slope) return Slope_Ref(call, context, in, out);
  if (!rows[row].integer || RengaDataTypeIsFloating(type))
    return Forward_Ref(call, context, in, out);
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  int64_t count = RengaTensorSpecCount(&call->in[0]);
  for (int64_t i = 0; i < count; i++)
    RefSetInt(y, i, rows[row].integer(RefGetInt(x, i), RefIsNatural(type)));
  return RENGA_SUCCESS;
}

/* Between integers a cast keeps the low bits; anything else goes through double. */
static RengaErrorCode Cast_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                               const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  if (RengaDataTypeIsFloating(x.type) || RengaDataTypeIsFloating(y.type))
    return Forward_Ref(call, context, in, out);
  int64_t count = RengaTensorSpecCount(&call->in[0]);
  for (int64_t i = 0; i < count; i++) RefSetInt(y, i, RefGetInt(x, i));
  return RENGA_SUCCESS;
}

/* Reals that are bounds of integers are taken toward the inside. */
static RengaErrorCode Clip_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                               const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  if (RengaDataTypeIsFloating(x.type)) return Forward_Ref(call, context, in, out);
  double low = ceil(RengaOpCallReal(call, "min")), high = floor(RengaOpCallReal(call, "max"));
  int64_t count = RengaTensorSpecCount(&call->in[0]);
  for (int64_t i = 0; i < count; i++) {
    double value = RefGet(x, i);
    if (value < low || value > high)
      RefSet(y, i, Bounded(value, low, high));
    else
      RefCopy(y.data, i, x.data, i, 1, RengaDataTypeSize(x.type));
  }
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindUnary(const char *name)
{
  static const RefRow own[] = {{"Cast", Cast_Ref}, {"Clip", Clip_Ref}, {NULL, NULL}};
  RengaRefKernel run = RefFindRow(own, name);
  return run ? run : FindUnary_Ref(name) < N_ROWS ? Unary_Ref : NULL;
}
