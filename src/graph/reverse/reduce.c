/* Reductions: the gradient is spread over what was reduced. */
#include "../reverse.h"
#include <string.h>

static void ReducedAxes(const RengaReverse *reverse, bool over[RENGA_MAX_DIM])
{
  const RengaAttributes *attributes = &reverse->node->attributes;
  int count, ndim = RengaReverseSpec(reverse, reverse->node->in[0])->ndim;
  const int64_t *axes = RengaAttributesInts(attributes, "axes", &count);
  bool all = count == 0 && !RengaAttributesInt(attributes, "noop_with_empty_axes", 0);
  for (int d = 0; d < ndim; d++) over[d] = all;
  for (int i = 0; i < count; i++) over[axes[i] < 0 ? axes[i] + ndim : axes[i]] = true;
}

/* A value shaped like the output, with the reduced dimensions as 1. */
static RengaErrorCode KeepReduced(RengaReverse *reverse, RengaValue value, RengaValue *kept)
{
  RengaTensorSpec shape = *RengaReverseSpec(reverse, reverse->node->in[0]);
  bool over[RENGA_MAX_DIM] = {false};
  ReducedAxes(reverse, over);
  for (int d = 0; d < shape.ndim; d++)
    if (over[d]) shape.dim[d] = 1;
  RengaCall(RengaReverseReshape(reverse, value, &shape, kept));
  return RENGA_SUCCESS;
}

static RengaErrorCode SpreadReduced(RengaReverse *reverse, RengaValue value, RengaValue *wide)
{
  const RengaTensorSpec *x = RengaReverseSpec(reverse, reverse->node->in[0]);
  RengaValue kept;
  RengaCall(KeepReduced(reverse, value, &kept));
  RengaTensorSpec given = *x;
  given.type = RengaReverseSpec(reverse, value)->type;
  *wide = kept;
  if (!RengaTensorSpecEqual(&given, RengaReverseSpec(reverse, kept)))
    RengaCall(RengaReverseApply(reverse, "Expand", NULL, 1, &kept, &given, wide));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseSum(RengaReverse *reverse)
{
  RengaCall(SpreadReduced(reverse, reverse->dy[0], &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseMean(RengaReverse *reverse)
{
  const RengaTensorSpec *x = RengaReverseSpec(reverse, reverse->node->in[0]);
  bool over[RENGA_MAX_DIM];
  double count = 1;
  RengaValue g;
  ReducedAxes(reverse, over);
  for (int d = 0; d < x->ndim; d++) {
    if (over[d] && x->dim[d] < 0)
      RengaReverseRefuse(reverse, "a mean over the batch is not rewritten");
    if (over[d]) count *= (double)x->dim[d];
  }
  RengaCall(RengaReverseWithScalar(reverse, "Mul", reverse->dy[0], 1.0 / count, &g));
  RengaCall(SpreadReduced(reverse, g, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* What is reduced as one dimension of [before …, reduced, after …]; -1: its dimensions do not stand
   side by side. */
static int ReducedAsOne(const RengaReverse *reverse, RengaTensorSpec *flat)
{
  const RengaTensorSpec *x = RengaReverseSpec(reverse, reverse->node->in[0]);
  bool over[RENGA_MAX_DIM];
  int axis = -1;
  ReducedAxes(reverse, over);
  *flat = (RengaTensorSpec){.type = x->type};
  for (int d = 0; d < x->ndim; d++) {
    if (over[d] && axis >= 0 && (!over[d - 1] || x->dim[d] < 0)) return -1;
    if (over[d] && axis >= 0) {
      flat->dim[axis] *= x->dim[d];
      continue;
    }
    if (over[d]) axis = flat->ndim;
    flat->dim[flat->ndim++] = x->dim[d];
  }
  return axis;
}

/* Of equal extremes the first gets the gradient. */
static RengaErrorCode FirstExtreme(RengaReverse *reverse, int axis, const RengaTensorSpec *flat)
{
  const RengaGraphNode *node = reverse->node;
  const bool most = strcmp(node->op->name, "ReduceMax") == 0;
  RengaTensorSpec one = *flat;
  RengaAttributes attributes = {0};
  RengaValue x, in[2];
  one.dim[axis] = 1;
  RengaCall(RengaReverseReshape(reverse, node->in[0], flat, &x));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", axis));
  RengaCall(
      RengaReverseApply(reverse, most ? "ArgMax" : "ArgMin", &attributes, 1, &x, NULL, &in[1]));
  RengaCall(RengaReverseReshape(reverse, reverse->dy[0], &one, &in[0]));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", axis));
  RengaCall(RengaReverseApply(reverse, "GatherElementsGrad", &attributes, 2, in, flat, &x));
  RengaCall(
      RengaReverseReshape(reverse, x, RengaReverseSpec(reverse, node->in[0]), &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* Equal extremes share the gradient, unless it is the first's. */
static RengaErrorCode ReverseReduceExtreme(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaTensorSpec flat;
  const int axis = ReducedAsOne(reverse, &flat);
  if (RengaAttributesInt(&node->attributes, "first", 0) && axis >= 0) {
    RengaCall(FirstExtreme(reverse, axis, &flat));
    return RENGA_SUCCESS;
  }
  RengaAttributes attributes = {0};
  RengaValue kept, equal, ones, count, share, wide;
  RengaCall(KeepReduced(reverse, node->out[0], &kept));
  RengaCall(RengaReverseBinaryOp(reverse, "Equal", node->in[0], kept, &equal));
  RengaDataType type = RengaReverseSpec(reverse, node->in[0])->type;
  RengaCall(RengaAttributesSetInt(&attributes, "to", (int64_t)type));
  RengaCall(RengaReverseApply(reverse, "Cast", &attributes, 1, &equal, NULL, &ones));
  RengaCall(RengaReverseApplyLike(reverse, "ReduceSum", 1, &ones, NULL, 1, &count));
  RengaCall(RengaReverseBinaryOp(reverse, "Div", reverse->dy[0], count, &share));
  RengaCall(SpreadReduced(reverse, share, &wide));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", wide, ones, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseProduct(RengaReverse *reverse)
{
  RengaValue in[2] = {RENGA_VALUE_NONE, reverse->node->in[0]};
  RengaCall(KeepReduced(reverse, reverse->dy[0], &in[0]));
  RengaCall(RengaReverseApplyLike(reverse, "ReduceProdGrad", 2, in, NULL, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode AbsoluteSum(RengaReverse *reverse)
{
  RengaValue wide, sign;
  RengaCall(SpreadReduced(reverse, reverse->dy[0], &wide));
  RengaCall(RengaReverseUnaryOp(reverse, "Sign", reverse->node->in[0], &sign));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", wide, sign, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* dx = x dy / y, and 0 where y is 0 */
static RengaErrorCode ReverseNorm(RengaReverse *reverse)
{
  RengaValue y = reverse->node->out[0], g, wide;
  RengaCall(RengaReverseBinaryOp(reverse, "Div", reverse->dy[0], y, &g));
  RengaCall(RengaReverseWithoutZero(reverse, y, g, &g));
  RengaCall(SpreadReduced(reverse, g, &wide));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", wide, reverse->node->in[0], &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode SquareSum(RengaReverse *reverse)
{
  RengaValue g, wide;
  RengaCall(RengaReverseWithScalar(reverse, "Mul", reverse->dy[0], 2, &g));
  RengaCall(SpreadReduced(reverse, g, &wide));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", wide, reverse->node->in[0], &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* y = log sum x: dx = dy / exp(y) */
static RengaErrorCode ReverseLogSum(RengaReverse *reverse)
{
  RengaValue sum, g;
  RengaCall(RengaReverseUnaryOp(reverse, "Exp", reverse->node->out[0], &sum));
  RengaCall(RengaReverseBinaryOp(reverse, "Div", reverse->dy[0], sum, &g));
  RengaCall(SpreadReduced(reverse, g, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* y = log sum exp x: dx = dy exp(x - y) */
static RengaErrorCode ReverseLogSumExp(RengaReverse *reverse)
{
  RengaValue kept, wide, g;
  RengaCall(KeepReduced(reverse, reverse->node->out[0], &kept));
  RengaCall(RengaReverseBinaryOp(reverse, "Sub", reverse->node->in[0], kept, &g));
  RengaCall(RengaReverseUnaryOp(reverse, "Exp", g, &g));
  RengaCall(SpreadReduced(reverse, reverse->dy[0], &wide));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", wide, g, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* The same from the other end. */
static RengaErrorCode CumSum(RengaReverse *reverse)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesCopy(&reverse->node->attributes, &attributes));
  int64_t flipped = !RengaAttributesInt(&attributes, "reverse", 0);
  RengaCall(RengaAttributesSetInt(&attributes, "reverse", flipped));
  RengaCall(
      RengaReverseApply(reverse, "CumSum", &attributes, 1, &reverse->dy[0], NULL, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReverseTopK(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaAttributes attributes = {0};
  RengaTensorSpec given = *RengaReverseSpec(reverse, node->in[0]);
  RengaValue in[2] = {reverse->dy[0], node->out[1]};
  RengaCall(RengaAttributesSetInt(&attributes, "axis",
                                  RengaAttributesInt(&node->attributes, "axis", -1)));
  RengaCall(RengaReverseApply(reverse, "GatherElementsGrad", &attributes, 2, in, &given,
                              &reverse->dx[0]));
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseReduce[] = {
    {"ReduceSum", ReverseSum, NULL},
    {"ReduceMean", ReverseMean, NULL},
    {"ReduceMax", ReverseReduceExtreme, NULL},
    {"ReduceMin", ReverseReduceExtreme, NULL},
    {"ReduceProd", ReverseProduct, NULL},
    {"ReduceL1", AbsoluteSum, NULL},
    {"ReduceL2", ReverseNorm, NULL},
    {"ReduceSumSquare", SquareSum, NULL},
    {"ReduceLogSum", ReverseLogSum, NULL},
    {"CumSum", CumSum, NULL},
    {"ReduceLogSumExp", ReverseLogSumExp, NULL},
    {"TopK", ReverseTopK, NULL},
    {"ArgMax", NULL, NULL},
    {"ArgMin", NULL, NULL},
    {"Hardmax", NULL, NULL},
    {NULL, NULL, NULL},
};
