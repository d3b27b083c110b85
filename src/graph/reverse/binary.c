/* Elementwise operators of several inputs that broadcast. */
#include "../fuse.h"
#include "../reverse.h"

/* dx of an input is g, with what broadcasting has repeated added up. */
static RengaErrorCode GiveBroadcast(RengaReverse *reverse, int input, RengaValue g)
{
  RengaCall(RengaReverseReduceTo(reverse, g, reverse->node->in[input], &reverse->dx[input]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseAdd(RengaReverse *reverse)
{
  for (int i = 0; i < 2; i++)
    if (reverse->wanted[i]) RengaCall(GiveBroadcast(reverse, i, reverse->dy[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Sub(RengaReverse *reverse)
{
  RengaCall(ReverseAdd(reverse));
  if (reverse->wanted[1])
    RengaCall(RengaReverseUnaryOp(reverse, "Neg", reverse->dx[1], &reverse->dx[1]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseMul(RengaReverse *reverse)
{
  for (int i = 0; i < 2; i++) {
    RengaValue g;
    if (!reverse->wanted[i]) continue;
    RengaCall(RengaReverseBinaryOp(reverse, "Mul", reverse->dy[0], reverse->node->in[1 - i], &g));
    RengaCall(GiveBroadcast(reverse, i, g));
  }
  return RENGA_SUCCESS;
}

/* y = a / b: da = dy / b, db = -da y */
static RengaErrorCode Div(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue quotient, g;
  RengaCall(RengaReverseBinaryOp(reverse, "Div", reverse->dy[0], node->in[1], &quotient));
  if (reverse->wanted[0]) RengaCall(GiveBroadcast(reverse, 0, quotient));
  if (!reverse->wanted[1]) return RENGA_SUCCESS;
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", quotient, node->out[0], &g));
  RengaCall(GiveBroadcast(reverse, 1, g));
  RengaCall(RengaReverseUnaryOp(reverse, "Neg", reverse->dx[1], &reverse->dx[1]));
  return RENGA_SUCCESS;
}

static bool MayBeZero(const RengaReverse *reverse, RengaValue value)
{
  double number;
  return !RengaFuseScalar(reverse->graph, value, &number) || number == 0;
}

/* da = dy b a^(b-1), and 0 where b is 0. flat: and where a is 0, then the sum of a norm. */
static RengaErrorCode BaseOfPower(RengaReverse *reverse, RengaValue a, RengaValue b)
{
  RengaValue g;
  RengaCall(RengaReverseWithScalar(reverse, "Sub", b, 1, &g));
  RengaCall(RengaReverseBinaryOp(reverse, "Pow", a, g, &g));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", g, b, &g));
  if (MayBeZero(reverse, reverse->node->in[1]))
    RengaCall(RengaReverseWithoutZero(reverse, b, g, &g));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", reverse->dy[0], g, &g));
  if (RengaAttributesInt(&reverse->node->attributes, "flat", 0))
    RengaCall(RengaReverseWithoutZero(reverse, a, g, &g));
  RengaCall(GiveBroadcast(reverse, 0, g));
  return RENGA_SUCCESS;
}

/* db = dy y log a, and 0 where y is a power of 0 that is no quotient */
static RengaErrorCode ExponentOfPower(RengaReverse *reverse, RengaValue a, RengaValue b)
{
  RengaValue g, zero, least, flat;
  RengaCall(RengaReverseWithScalar(reverse, "Equal", a, 0, &zero));
  RengaCall(RengaReverseWithScalar(reverse, "GreaterOrEqual", b, 0, &least));
  RengaCall(RengaReverseBinaryOp(reverse, "And", zero, least, &flat));
  RengaCall(RengaReverseUnaryOp(reverse, "Log", a, &g));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", reverse->node->out[0], g, &g));
  RengaCall(RengaReverseChoose(reverse, flat, RENGA_VALUE_NONE, g, &g));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", reverse->dy[0], g, &g));
  RengaCall(GiveBroadcast(reverse, 1, g));
  return RENGA_SUCCESS;
}

/* y = a^b */
static RengaErrorCode Pow(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue a = node->in[0], b = node->in[1];
  RengaDataType type = RengaReverseSpec(reverse, a)->type;
  if (RengaReverseSpec(reverse, b)->type != type) {
    RengaAttributes attributes = {0};
    RengaCall(RengaAttributesSetInt(&attributes, "to", (int64_t)type));
    RengaCall(RengaReverseApply(reverse, "Cast", &attributes, 1, &node->in[1], NULL, &b));
  }
  if (reverse->wanted[0]) RengaCall(BaseOfPower(reverse, a, b));
  if (!reverse->wanted[1]) return RENGA_SUCCESS;
  if (b != node->in[1]) RengaReverseRefuse(reverse, "the exponent has another type than the base");
  RengaCall(ExponentOfPower(reverse, a, b));
  return RENGA_SUCCESS;
}

/* The one that is taken gets the gradient; equal ones get half of it each. flat: as of Clip
   (unary.c). */
static RengaErrorCode ReverseExtreme(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const RengaValue dy = reverse->dy[0];
  RengaValue first, equal, half, g;
  if (RengaAttributesInt(&node->attributes, "flat", 0)) {
    for (int i = 0; i < 2; i++)
      if (reverse->wanted[i]) RengaCall(GiveBroadcast(reverse, i, dy));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaReverseBinaryOp(reverse, reverse->with, node->in[0], node->in[1], &first));
  RengaCall(RengaReverseBinaryOp(reverse, "Equal", node->in[0], node->in[1], &equal));
  RengaCall(RengaReverseWithScalar(reverse, "Mul", dy, 0.5, &half));
  for (int i = 0; i < 2; i++) {
    if (!reverse->wanted[i]) continue;
    RengaCall(RengaReverseChoose(reverse, first, i == 0 ? dy : RENGA_VALUE_NONE,
                                 i == 1 ? dy : RENGA_VALUE_NONE, &g));
    RengaCall(RengaReverseChoose(reverse, equal, half, g, &g));
    RengaCall(GiveBroadcast(reverse, i, g));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Where(RengaReverse *reverse)
{
  RengaValue condition = reverse->node->in[0], g;
  for (int i = 1; i < 3; i++) {
    if (!reverse->wanted[i]) continue;
    RengaCall(RengaReverseChoose(reverse, condition, i == 1 ? reverse->dy[0] : RENGA_VALUE_NONE,
                                 i == 2 ? reverse->dy[0] : RENGA_VALUE_NONE, &g));
    RengaCall(GiveBroadcast(reverse, i, g));
  }
  return RENGA_SUCCESS;
}

/* y = x where x > 0, else slope x */
static RengaErrorCode ReversePRelu(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue zero, positive, g;
  RengaCall(RengaReverseScalar(reverse, RengaReverseSpec(reverse, node->in[0])->type, 0, &zero));
  RengaCall(RengaReverseBinaryOp(reverse, "Greater", node->in[0], zero, &positive));
  if (reverse->wanted[0]) {
    RengaCall(RengaReverseBinaryOp(reverse, "Mul", reverse->dy[0], node->in[1], &g));
    RengaCall(RengaReverseChoose(reverse, positive, reverse->dy[0], g, &reverse->dx[0]));
  }
  if (!reverse->wanted[1]) return RENGA_SUCCESS;
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", reverse->dy[0], node->in[0], &g));
  RengaCall(RengaReverseChoose(reverse, positive, RENGA_VALUE_NONE, g, &g));
  RengaCall(GiveBroadcast(reverse, 1, g));
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseBinary[] = {
    {"Add", ReverseAdd, NULL},
    {"Sub", Sub, NULL},
    {"Mul", ReverseMul, NULL},
    {"Div", Div, NULL},
    {"Pow", Pow, NULL},
    {"Max", ReverseExtreme, "GreaterOrEqual"},
    {"Min", ReverseExtreme, "LessOrEqual"},
    {"Where", Where, NULL},
    {"PRelu", ReversePRelu, NULL},
    {NULL, NULL, NULL},
};
