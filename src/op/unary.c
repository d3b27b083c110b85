/* Elementwise operators of one input, and their fused gradients. */
#include "renga/private/op.h"

static RengaErrorCode Same(RengaOpCall *call)
{
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

/* dy and the input or output of the forward operator have one shape. */
static RengaErrorCode ShapeGradient(RengaOpCall *call)
{
  RengaOpCheck(RengaOpSameShape(&call->in[0], &call->in[1]), call,
               "the gradient and the value it is of differ in shape");
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeGelu(RengaOpCall *call)
{
  const char *form = RengaOpCallString(call, "approximate");
  bool known = form[0] == '\0' || form[0] == 'n' || form[0] == 't';
  RengaOpCheckValue(known, call, "approximate is %s, must be none or tanh", form);
  return call->n_in == 2 ? ShapeGradient(call) : Same(call);
}

static double NoUnaryFlops(const RengaOpCall *call)
{
  (void)call;
  return 0;
}

/* A transcendental function is counted as eight operations. */
static double EightUnaryFlops(const RengaOpCall *call)
{
  return 8.0 * (double)RengaTensorSpecCount(&call->out[0]);
}

#define EACH RENGA_OP_ELEMENTWISE
#define OWN (RENGA_OP_ELEMENTWISE | RENGA_OP_INTERNAL)
#define UNARY(name, types, flops, attributes)                                                      \
  {                                                                                                \
    name, 1, 1, 1, 1, EACH, Same, flops, attributes, types, NULL                                   \
  }
#define GRADIENT(name, attributes)                                                                 \
  {                                                                                                \
    name, 2, 2, 1, 1, OWN, ShapeGradient, EightUnaryFlops, attributes, "FF>F", NULL                \
  }

const RengaOperator RengaOperatorsUnary[] = {
    {"Identity", 1, 1, 1, 1, EACH | RENGA_OP_RESHAPE, Same, NoUnaryFlops, NULL, "T>T", NULL},
    {"StopGradient", 1, 1, 1, 1, OWN | RENGA_OP_RESHAPE, Same, NoUnaryFlops, NULL, "T>T", NULL},
    UNARY("Neg", "N>N", NULL, NULL),
    UNARY("Abs", "N>N", NULL, NULL),
    UNARY("Sign", "N>N", NULL, NULL),
    UNARY("Relu", "N>N", NULL, NULL),
    UNARY("Clip", "N>N", NULL, "min:real=-inf max:real=inf flat:int=0"),
    UNARY("Reciprocal", "F>F", NULL, NULL),
    UNARY("Sqrt", "F>F", NULL, "flat:int=0"),
    UNARY("Exp", "F>F", EightUnaryFlops, NULL),
    UNARY("Log", "F>F", EightUnaryFlops, "flat:int=0"),
    UNARY("Erf", "F>F", EightUnaryFlops, NULL),
    UNARY("Tanh", "F>F", EightUnaryFlops, NULL),
    UNARY("Sigmoid", "F>F", EightUnaryFlops, NULL),
    UNARY("Softplus", "F>F", EightUnaryFlops, NULL),
    UNARY("Softsign", "F>F", EightUnaryFlops, NULL),
    {"Gelu", 1, 1, 1, 1, EACH, ShapeGelu, EightUnaryFlops, "approximate:string=none", "F>F", NULL},
    UNARY("Swish", "F>F", EightUnaryFlops, "alpha:real=1"),
    UNARY("Mish", "F>F", EightUnaryFlops, NULL),
    UNARY("HardSwish", "F>F", NULL, NULL),
    UNARY("HardSigmoid", "F>F", NULL, "alpha:real=0.2 beta:real=0.5"),
    UNARY("LeakyRelu", "F>F", NULL, "alpha:real=0.01"),
    UNARY("ThresholdedRelu", "F>F", NULL, "alpha:real=1"),
    UNARY("Shrink", "N>N", NULL, "bias:real=0 lambd:real=0.5"),
    UNARY("Elu", "F>F", EightUnaryFlops, "alpha:real=1"),
    UNARY("Celu", "F>F", EightUnaryFlops, "alpha:real=1"),
    UNARY("Selu", "F>F", EightUnaryFlops,
          "alpha:real=1.67326319217681884765625 gamma:real=1.05070102214813232421875"),
    UNARY("Sin", "F>F", EightUnaryFlops, NULL),
    UNARY("Cos", "F>F", EightUnaryFlops, NULL),
    UNARY("Tan", "F>F", EightUnaryFlops, NULL),
    UNARY("Asin", "F>F", EightUnaryFlops, NULL),
    UNARY("Acos", "F>F", EightUnaryFlops, NULL),
    UNARY("Atan", "F>F", EightUnaryFlops, NULL),
    UNARY("Sinh", "F>F", EightUnaryFlops, NULL),
    UNARY("Cosh", "F>F", EightUnaryFlops, NULL),
    UNARY("Asinh", "F>F", EightUnaryFlops, NULL),
    UNARY("Acosh", "F>F", EightUnaryFlops, NULL),
    UNARY("Atanh", "F>F", EightUnaryFlops, NULL),
    UNARY("Floor", "F>F", NULL, NULL),
    UNARY("Ceil", "F>F", NULL, NULL),
    UNARY("Round", "F>F", NULL, NULL),
    UNARY("IsNaN", "F>B", NULL, NULL),
    UNARY("IsInf", "F>B", NULL, "detect_negative:int=1 detect_positive:int=1"),
    UNARY("Not", "B>B", NULL, NULL),
    UNARY("BitwiseNot", "Z>Z", NULL, NULL),
    UNARY("Cast", "T>?", NULL, "to:int=0"),

    /* Gradients of (dy, y): the forward output says enough. */
    GRADIENT("ReluGrad", NULL),
    GRADIENT("SigmoidGrad", NULL),
    GRADIENT("TanhGrad", NULL),
    GRADIENT("SqrtGrad", NULL),
    GRADIENT("ReciprocalGrad", NULL),

    /* Gradients of (dy, x). */
    GRADIENT("AbsGrad", NULL),
    GRADIENT("ClipGrad", "min:real=-inf max:real=inf"),
    GRADIENT("ErfGrad", NULL),
    GRADIENT("SoftplusGrad", NULL),
    GRADIENT("SoftsignGrad", NULL),
    {"GeluGrad", 2, 2, 1, 1, OWN, ShapeGelu, EightUnaryFlops, "approximate:string=none", "FF>F",
     NULL},
    GRADIENT("SwishGrad", "alpha:real=1"),
    GRADIENT("MishGrad", NULL),
    GRADIENT("HardSwishGrad", NULL),
    GRADIENT("HardSigmoidGrad", "alpha:real=0.2 beta:real=0.5"),
    GRADIENT("LeakyReluGrad", "alpha:real=0.01"),
    GRADIENT("ThresholdedReluGrad", "alpha:real=1"),
    GRADIENT("ShrinkGrad", "bias:real=0 lambd:real=0.5"),
    GRADIENT("EluGrad", "alpha:real=1"),
    GRADIENT("CeluGrad", "alpha:real=1"),
    GRADIENT("SeluGrad",
             "alpha:real=1.67326319217681884765625 gamma:real=1.05070102214813232421875"),
    GRADIENT("SinGrad", NULL),
    GRADIENT("CosGrad", NULL),
    GRADIENT("TanGrad", NULL),
    GRADIENT("AsinGrad", NULL),
    GRADIENT("AcosGrad", NULL),
    GRADIENT("AtanGrad", NULL),
    GRADIENT("SinhGrad", NULL),
    GRADIENT("CoshGrad", NULL),
    GRADIENT("AsinhGrad", NULL),
    GRADIENT("AcoshGrad", NULL),
    GRADIENT("AtanhGrad", NULL),
    {0},
};
