/* Elementwise operators of one input. */
#include "../reverse.h"

/* One fused operator NAMEGrad of the gradient and the output, or the input. */
static RengaErrorCode ReverseFusedUnary(RengaReverse *reverse, RengaValue value)
{
  char name[64];
  snprintf(name, sizeof name, "%sGrad", reverse->node->op->name);
  RengaValue in[2] = {reverse->dy[0], value};
  RengaCall(RengaReverseApplyLike(reverse, name, 2, in, NULL, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseOfOutput(RengaReverse *reverse)
{
  RengaCall(ReverseFusedUnary(reverse, reverse->node->out[0]));
  return RENGA_SUCCESS;
}

/* flat: y is a deviation, whose gradient is 0 where all numbers are equal. */
static RengaErrorCode ReverseSqrt(RengaReverse *reverse)
{
  RengaCall(RengaReverseOfOutput(reverse));
  if (RengaAttributesInt(&reverse->node->attributes, "flat", 0))
    RengaCall(
        RengaReverseWithoutZero(reverse, reverse->node->out[0], reverse->dx[0], &reverse->dx[0]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseOfInput(RengaReverse *reverse)
{
  RengaCall(ReverseFusedUnary(reverse, reverse->node->in[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Identity(RengaReverse *reverse)
{
  reverse->dx[0] = reverse->dy[0];
  return RENGA_SUCCESS;
}

/* flat: the bound of a logarithm in a binary cross-entropy, beside which the gradient goes. */
static RengaErrorCode Clip(RengaReverse *reverse)
{
  const bool flat = RengaAttributesInt(&reverse->node->attributes, "flat", 0) != 0;
  RengaCall(flat ? Identity(reverse) : RengaReverseOfInput(reverse));
  return RENGA_SUCCESS;
}

static RengaErrorCode Neg(RengaReverse *reverse)
{
  RengaCall(RengaReverseUnaryOp(reverse, "Neg", reverse->dy[0], &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Exp(RengaReverse *reverse)
{
  RengaValue y = reverse->node->out[0];
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", reverse->dy[0], y, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* flat: of a binary cross-entropy, that divides by 1e-12 at least. */
static RengaErrorCode Log(RengaReverse *reverse)
{
  RengaValue x = reverse->node->in[0];
  if (RengaAttributesInt(&reverse->node->attributes, "flat", 0))
    RengaCall(RengaReverseWithScalar(reverse, "Max", x, 1e-12, &x));
  RengaCall(RengaReverseBinaryOp(reverse, "Div", reverse->dy[0], x, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Cast(RengaReverse *reverse)
{
  RengaAttributes attributes = {0};
  RengaDataType type = RengaReverseSpec(reverse, reverse->node->in[0])->type;
  RengaCall(RengaAttributesSetInt(&attributes, "to", (int64_t)type));
  RengaCall(
      RengaReverseApply(reverse, "Cast", &attributes, 1, &reverse->dy[0], NULL, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseUnary[] = {
    {"Identity", Identity, NULL},
    {"Neg", Neg, NULL},
    {"Exp", Exp, NULL},
    {"Log", Log, NULL},
    {"Cast", Cast, NULL},
    {"Relu", RengaReverseOfOutput, NULL},
    {"Sigmoid", RengaReverseOfOutput, NULL},
    {"Tanh", RengaReverseOfOutput, NULL},
    {"Sqrt", ReverseSqrt, NULL},
    {"Reciprocal", RengaReverseOfOutput, NULL},
    {"Abs", RengaReverseOfInput, NULL},
    {"Clip", Clip, NULL},
    {"Erf", RengaReverseOfInput, NULL},
    {"Softplus", RengaReverseOfInput, NULL},
    {"Softsign", RengaReverseOfInput, NULL},
    {"Gelu", RengaReverseOfInput, NULL},
    {"Swish", RengaReverseOfInput, NULL},
    {"Mish", RengaReverseOfInput, NULL},
    {"HardSwish", RengaReverseOfInput, NULL},
    {"HardSigmoid", RengaReverseOfInput, NULL},
    {"LeakyRelu", RengaReverseOfInput, NULL},
    {"ThresholdedRelu", RengaReverseOfInput, NULL},
    {"Shrink", RengaReverseOfInput, NULL},
    {"Elu", RengaReverseOfInput, NULL},
    {"Celu", RengaReverseOfInput, NULL},
    {"Selu", RengaReverseOfInput, NULL},
    {"Sin", RengaReverseOfInput, NULL},
    {"Cos", RengaReverseOfInput, NULL},
    {"Tan", RengaReverseOfInput, NULL},
    {"Asin", RengaReverseOfInput, NULL},
    {"Acos", RengaReverseOfInput, NULL},
    {"Atan", RengaReverseOfInput, NULL},
    {"Sinh", RengaReverseOfInput, NULL},
    {"Cosh", RengaReverseOfInput, NULL},
    {"Asinh", RengaReverseOfInput, NULL},
    {"Acosh", RengaReverseOfInput, NULL},
    {"Atanh", RengaReverseOfInput, NULL},
    {"Sign", NULL, NULL},
    {"Floor", NULL, NULL},
    {"Ceil", NULL, NULL},
    {"Round", NULL, NULL},
    {"StopGradient", NULL, NULL},
    {NULL, NULL, NULL},
};
