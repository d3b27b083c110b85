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

/* What was written over gets zero, what was added to gets the gradient; the updates gather
   theirs. */
static RengaErrorCode ReverseScatter(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const char *reduction = RengaAttributesString(&node->attributes, "reduction", "none");
  bool add = strcmp(reduction, "add") == 0;
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
