/* Normalisations, softmax, dropout. */
#include "../reverse.h"
#include <string.h>

/* Outputs 1 … n are read by the gradient and have none themselves. */
static RengaErrorCode CheckStatistics(RengaReverse *reverse, int n)
{
  if (reverse->node->n_out <= n) RengaReverseRefuse(reverse, "it lacks output %d, a statistic", n);
  for (int i = 1; i < reverse->node->n_out; i++)
    if (reverse->dy[i] >= 0)
      RengaReverseRefuse(reverse, "the loss depends on output %d, a statistic", i);
  return RENGA_SUCCESS;
}

/* dx, dscale and dbias come together. */
static RengaErrorCode ReverseFusedNorm(RengaReverse *reverse, const char *op, int n_in,
                                       const RengaValue in[])
{
  RengaValue out[3];
  int n_out = reverse->node->n_in > 2 && reverse->node->in[2] >= 0 ? 3 : 2;
  RengaCall(RengaReverseApplyLike(reverse, op, n_in, in, NULL, n_out, out));
  for (int i = 0; i < n_out; i++) reverse->dx[i] = out[i];
  return RENGA_SUCCESS;
}

static void AddToBefore(RengaReverse *reverse, RengaValue *in)
{
  *in = reverse->before;
  reverse->added = reverse->before >= 0;
}

static RengaErrorCode WithMean(RengaReverse *reverse)
{
  char name[64];
  const RengaGraphNode *node = reverse->node;
  RengaCall(CheckStatistics(reverse, 2));
  snprintf(name, sizeof name, "%sGrad", node->op->name);
  RengaValue in[6] = {reverse->dy[0], node->in[0],  node->in[1],
                      node->out[1],   node->out[2], RENGA_VALUE_NONE};
  if (strcmp(node->op->name, "LayerNormalization") == 0) AddToBefore(reverse, &in[5]);
  RengaCall(ReverseFusedNorm(reverse, name, in[5] < 0 ? 5 : 6, in));
  return RENGA_SUCCESS;
}

static RengaErrorCode RmsNormalization(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaCall(CheckStatistics(reverse, 1));
  RengaValue in[5] = {reverse->dy[0], node->in[0], node->in[1], node->out[1], RENGA_VALUE_NONE};
  AddToBefore(reverse, &in[4]);
  RengaCall(ReverseFusedNorm(reverse, "RMSNormalizationGrad", in[4] < 0 ? 4 : 5, in));
  return RENGA_SUCCESS;
}

/* s = x + more, y = norm(s): both terms have the gradient of s, to which the norm adds its own. */
static RengaErrorCode ReverseAddNorm(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const bool centred = strcmp(node->op->name, "AddLayerNormalization") == 0;
  const int more = centred ? 5 : 4, n_out = node->n_in > 3 && node->in[3] >= 0 ? 3 : 2;
  RengaValue out[3] = {reverse->dy[0], RENGA_VALUE_NONE, RENGA_VALUE_NONE};
  RengaValue in[6] = {reverse->dy[1], node->out[0], node->in[2], node->out[2]};
  if (node->n_out <= more - 2)
    RengaReverseRefuse(reverse, "it lacks output %d, a statistic", more - 2);
  if (centred) in[4] = node->out[3];
  in[more] = reverse->dy[0];
  if (reverse->dy[1] >= 0)
    RengaCall(RengaReverseApplyLike(reverse,
                                    centred ? "LayerNormalizationGrad" : "RMSNormalizationGrad",
                                    reverse->dy[0] < 0 ? more : more + 1, in, NULL, n_out, out));
  reverse->dx[0] = reverse->dx[1] = out[0];
  for (int i = 2; i < node->n_in && i < 4; i++) {
    reverse->dx[i] = out[i - 1];
    if (out[i - 1] < 0 && RengaReverseWants(reverse, i))
      RengaCall(RengaReverseZeros(reverse, node->in[i], &reverse->dx[i]));
  }
  return RENGA_SUCCESS;
}

/* y = (x - m) s / sqrt(v + e) + b with given m and v: dm = -db s / sqrt(v + e) and
   dv = -ds s / (2 (v + e)), where ds and db are the gradients of s and b */
static RengaErrorCode GivenStatistics(RengaReverse *reverse, RengaValue ds, RengaValue db)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue scale = node->in[1], deviation, g;
  double epsilon = RengaAttributesReal(&node->attributes, "epsilon", 1e-5);
  RengaCall(RengaReverseWithScalar(reverse, "Add", node->in[4], epsilon, &deviation));
  if (reverse->wanted[4]) {
    RengaCall(RengaReverseBinaryOp(reverse, "Mul", ds, scale, &g));
    RengaCall(RengaReverseBinaryOp(reverse, "Div", g, deviation, &g));
    RengaCall(RengaReverseWithScalar(reverse, "Mul", g, -0.5, &reverse->dx[4]));
  }
  if (!reverse->wanted[3]) return RENGA_SUCCESS;
  RengaCall(RengaReverseUnaryOp(reverse, "Sqrt", deviation, &deviation));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", db, scale, &g));
  RengaCall(RengaReverseBinaryOp(reverse, "Div", g, deviation, &g));
  RengaCall(RengaReverseUnaryOp(reverse, "Neg", g, &reverse->dx[3]));
  return RENGA_SUCCESS;
}

/* x is normalised by the statistics of the batch, or by the given ones, which may have been
   computed. In training y does not depend on the given ones. */
static RengaErrorCode ReverseBatchNormalization(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  bool training = RengaAttributesInt(&node->attributes, "training", 1) != 0;
  RengaCall(CheckStatistics(reverse, training ? 2 : 0));
  RengaValue in[5] = {reverse->dy[0], node->in[0], node->in[1],
                      training ? node->out[1] : node->in[3], training ? node->out[2] : node->in[4]};
  RengaCall(ReverseFusedNorm(reverse, "BatchNormalizationGrad", 5, in));
  for (int i = 3; i < 5 && training; i++)
    if (reverse->wanted[i]) RengaCall(RengaReverseZeros(reverse, node->in[i], &reverse->dx[i]));
  if (!training && (reverse->wanted[3] || reverse->wanted[4]))
    RengaCall(GivenStatistics(reverse, reverse->dx[1], reverse->dx[2]));
  return RENGA_SUCCESS;
}

/* y = relu(norm(x) + more), by the statistics of the batch */
static RengaErrorCode ReverseBatchRelu(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaCall(CheckStatistics(reverse, 2));
  const RengaValue in[6] = {reverse->dy[0], node->out[0], node->in[0],
                            node->in[1],    node->out[1], node->out[2]};
  RengaValue out[4] = {RENGA_VALUE_NONE, RENGA_VALUE_NONE, RENGA_VALUE_NONE, RENGA_VALUE_NONE};
  RengaCall(RengaReverseApplyLike(reverse, "BatchNormalizationReluGrad", 6, in, NULL,
                                  node->n_in > 5 ? 4 : 3, out));
  for (int i = 0; i < 3; i++) reverse->dx[i] = out[i];
  for (int i = 3; i < 5; i++)
    if (reverse->wanted[i]) RengaCall(RengaReverseZeros(reverse, node->in[i], &reverse->dx[i]));
  if (node->n_in > 5) reverse->dx[5] = out[3];
  return RENGA_SUCCESS;
}

/* The statistics that a lane has of its rows. */
static RengaErrorCode ReverseBatchLane(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue in[4] = {reverse->dy[0], reverse->dy[1], node->in[0], node->out[0]};
  for (int o = 0; o < 2; o++)
    if (in[o] < 0) RengaCall(RengaReverseZeros(reverse, node->out[o], &in[o]));
  RengaCall(RengaReverseApplyLike(reverse, "BatchNormalizationLaneGrad", 4, in, NULL, 1,
                                  &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* In training those of the batch, which the running ones (inputs 0 and 1) are no part of. */
static RengaErrorCode ReverseBatchJoin(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const int lanes = (node->n_in - 2) / 2;
  RengaValue *in;
  RengaCall(RengaGraphScratch(reverse->graph, 3 + lanes, &in));
  for (int o = 0; o < 2; o++) {
    in[o] = reverse->dy[o];
    if (in[o] < 0) RengaCall(RengaReverseZeros(reverse, node->out[o], &in[o]));
    if (RengaReverseWants(reverse, o))
      RengaCall(RengaReverseZeros(reverse, node->in[o], &reverse->dx[o]));
  }
  in[2] = node->out[0];
  for (int l = 0; l < lanes; l++) in[3 + l] = node->in[2 + l];
  RengaCall(RengaReverseApplyLike(reverse, "BatchNormalizationJoinGrad", 3 + lanes, in, NULL,
                                  2 * lanes, &reverse->dx[2]));
  return RENGA_SUCCESS;
}

/* flat: rows that are no numbers have no gradient; those of an output of 0 have none. */
static RengaErrorCode ReverseSoftmax(RengaReverse *reverse)
{
  RengaValue nothing, in[2] = {reverse->dy[0], reverse->node->out[0]};
  if (RengaAttributesInt(&reverse->node->attributes, "flat", 0)) {
    RengaCall(RengaReverseUnaryOp(reverse, "IsNaN", in[1], &nothing));
    RengaCall(RengaReverseChoose(reverse, nothing, RENGA_VALUE_NONE, in[1], &in[1]));
  }
  RengaCall(RengaReverseApplyLike(reverse, "SoftmaxGrad", 2, in, NULL, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* The norm along the axis, 1 where it is 0. */
static RengaErrorCode NormOf(RengaReverse *reverse, bool absolute, const int64_t *axis,
                             RengaValue *norm)
{
  RengaAttributes attributes = {0};
  RengaValue zero, one, in[3];
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, axis));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 1));
  RengaCall(RengaReverseApply(reverse, absolute ? "ReduceL1" : "ReduceL2", &attributes, 1,
                              &reverse->node->in[0], NULL, norm));
  RengaDataType type = RengaReverseSpec(reverse, *norm)->type;
  RengaCall(RengaReverseScalar(reverse, type, 0, &zero));
  RengaCall(RengaReverseScalar(reverse, type, 1, &one));
  RengaCall(RengaReverseBinaryOp(reverse, "Equal", *norm, zero, &in[0]));
  in[1] = one;
  in[2] = *norm;
  RengaCall(RengaReverseApply(reverse, "Where", NULL, 3, in, NULL, norm));
  return RENGA_SUCCESS;
}

/* y = x / n: dx = (dy - z sum(dy y)) / n, where z is the derivative of n: y, or the sign of x */
static RengaErrorCode ReverseLpNormalization(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const bool absolute = RengaAttributesInt(&node->attributes, "p", 2) == 1;
  const int64_t axis = RengaAttributesInt(&node->attributes, "axis", -1);
  RengaValue norm, slope = node->out[0], sum;
  RengaCall(NormOf(reverse, absolute, &axis, &norm));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", reverse->dy[0], node->out[0], &sum));
  RengaCall(RengaReverseSum(reverse, sum, 1, &axis, true, &sum));
  if (absolute) RengaCall(RengaReverseUnaryOp(reverse, "Sign", node->in[0], &slope));
  RengaCall(RengaReverseBinaryOp(reverse, "Mul", slope, sum, &sum));
  RengaCall(RengaReverseBinaryOp(reverse, "Sub", reverse->dy[0], sum, &sum));
  RengaCall(RengaReverseBinaryOp(reverse, "Div", sum, norm, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseNormalize[] = {
    {"LayerNormalization", WithMean, NULL},
    {"RMSNormalization", RmsNormalization, NULL},
    {"AddLayerNormalization", ReverseAddNorm, NULL},
    {"AddRMSNormalization", ReverseAddNorm, NULL},
    {"GroupNormalization", WithMean, NULL},
    {"InstanceNormalization", WithMean, NULL},
    {"BatchNormalization", ReverseBatchNormalization, NULL},
    {"BatchNormalizationRelu", ReverseBatchRelu, NULL},
    {"BatchNormalizationLane", ReverseBatchLane, NULL},
    {"BatchNormalizationJoin", ReverseBatchJoin, NULL},
    {"Softmax", ReverseSoftmax, NULL},
    {"LogSoftmax", RengaReverseOfOutput, NULL},
    {"LRN", RengaReverseOfInput, NULL},
    {"LpNormalization", ReverseLpNormalization, NULL},
    /* The same elements are kept: the random numbers are drawn again by the same key. */
    {"Dropout", RengaReverseBack, "Dropout"},
    {NULL, NULL, NULL},
};
