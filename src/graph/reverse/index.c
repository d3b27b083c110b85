/* Gathers and scatters. */
#include "../reverse.h"
#include <string.h>

/* d data = NAMEGrad(dy, indices) in the shape of the data */
static RengaErrorCode ReverseGather(RengaReverse *reverse)
{
  char name[64];
  const RengaGraphNode *node = reverse->node;
  RengaTensorSpec given = *RengaReverseSpec(reverse, node->in[0]);
  RengaValue in[2] = {reverse->dy[0], node->in[1]};
  snprintf(name, sizeof name, "%sGrad", node->op->name);
  RengaCall(RengaReverseApplyLike(reverse, name, 2, in, &given, 1, &reverse->dx[0]));
  return RENGA_SUCCESS;
}

/* 1 where x is equal to y, else 0, in the type of the data */
static RengaErrorCode CountEqual(RengaReverse *reverse, RengaValue x, RengaValue y,
                                 RengaValue *ones)
{
  RengaAttributes attributes = {0};
  RengaValue equal;
  RengaCall(RengaReverseBinaryOp(reverse, "Equal", x, y, &equal));
  RengaCall(RengaAttributesSetInt(&attributes, "to",
                                  (int64_t)RengaReverseSpec(reverse, reverse->node->in[0])->type));
  RengaCall(RengaReverseApply(reverse, "Cast", &attributes, 1, &equal, NULL, ones));
  return RENGA_SUCCESS;
}

/* data and updates that are the extreme of their place share its gradient evenly, as in torch. */
static RengaErrorCode ScatterExtreme(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const char *gather = reverse->with;
  const bool has_axis = strcmp(gather, "GatherElements") == 0;
  RengaAttributes attributes = {0};
  RengaValue in[2] = {node->out[0], node->in[1]}, most, data, count[3] = {0, node->in[1]}, share;
  RengaCall(RengaReverseApplyLike(reverse, gather, 2, in, NULL, 1, &most));
  RengaCall(CountEqual(reverse, node->in[0], node->out[0], &data));
  RengaCall(CountEqual(reverse, node->in[2], most, &count[2]));
  count[0] = data;
  if (has_axis)
    RengaCall(RengaAttributesSetInt(&attributes, "axis",
                                    RengaAttributesInt(&node->attributes, "axis", 0)));
  RengaCall(RengaAttributesSetString(&attributes, "reduction", "add"));
  RengaCall(RengaReverseApply(reverse, node->op->name, &attributes, 3, count, NULL, &share));
  RengaCall(RengaReverseBinaryOp(reverse, "Div", reverse->dy[0], share, &share));
  if (reverse->wanted[0]) RengaCall(RengaReverseWithoutZero(reverse, data, share, &reverse->dx[0]));
  if (!reverse->wanted[2]) return RENGA_SUCCESS;
  in[0] = share;
  RengaCall(RengaReverseApplyLike(reverse, gather, 2, in, NULL, 1, &share));
  RengaCall(RengaReverseWithoutZero(reverse, count[2], share, &reverse->dx[2]));
  return RENGA_SUCCESS;
}

/* What was written over gets zero, what was added to gets the gradient; the updates gather
   theirs. */
static RengaErrorCode ReverseScatter(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const char *reduction = RengaAttributesString(&node->attributes, "reduction", "none");
  bool add = strcmp(reduction, "add") == 0;
  if (!strcmp(reduction, "max") || !strcmp(reduction, "min")) {
    RengaCall(ScatterExtreme(reverse));
    return RENGA_SUCCESS;
  }
  if (!add && strcmp(reduction, "none") != 0)
    RengaReverseRefuse(reverse, "reduction %s", reduction);
  if (reverse->wanted[0] && add) reverse->dx[0] = reverse->dy[0];
  if (reverse->wanted[0] && !add) {
    RengaValue in[3] = {reverse->dy[0], node->in[1], RENGA_VALUE_NONE};
    RengaCall(RengaReverseZeros(reverse, node->in[2], &in[2]));
    RengaCall(RengaReverseApplyLike(reverse, node->op->name, 3, in, NULL, 1, &reverse->dx[0]));
  }
  if (reverse->wanted[2]) {
    RengaValue in[2] = {reverse->dy[0], node->in[1]};
    RengaCall(RengaReverseApplyLike(reverse, reverse->with, 2, in, NULL, 1, &reverse->dx[2]));
  }
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseIndex[] = {
    {"Gather", ReverseGather, NULL},
    {"GatherElements", ReverseGather, NULL},
    {"GatherND", ReverseGather, NULL},
    {"ScatterElements", ReverseScatter, "GatherElements"},
    {"ScatterND", ReverseScatter, "GatherND"},
    {NULL, NULL, NULL},
};
