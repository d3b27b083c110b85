/* Recurrent layers in one direction. */
#include "../reverse.h"

static RengaErrorCode CheckHidden(RengaReverse *reverse, int first)
{
  for (int i = first; i < reverse->node->n_out; i++)
    if (reverse->dy[i] >= 0)
      RengaReverseRefuse(reverse, "the loss depends on output %d, inner gates", i);
  return RENGA_SUCCESS;
}

static RengaErrorCode Plain(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaValue in[4] = {node->in[1], node->in[2], node->out[0], reverse->dy[0]};
  RengaCall(RengaReverseApplyLike(reverse, "RNNCellsGrad", 4, in, NULL, 3, reverse->dx));
  return RENGA_SUCCESS;
}

static RengaErrorCode LongShort(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaCall(CheckHidden(reverse, 2));
  RengaValue in[8] = {node->in[1],  node->in[2],  node->in[3],    node->out[0],
                      node->out[1], node->out[2], reverse->dy[0], reverse->dy[1]};
  RengaCall(RengaReverseApplyLike(reverse, "LSTMCellsGrad", 8, in, NULL, 4, reverse->dx));
  return RENGA_SUCCESS;
}

static RengaErrorCode Gated(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  RengaCall(CheckHidden(reverse, 1));
  RengaValue in[6] = {node->in[1],  node->in[3],  node->out[0],
                      node->out[1], node->out[2], reverse->dy[0]};
  RengaCall(RengaReverseApplyLike(reverse, "GRUCellsGrad", 6, in, NULL, 4, reverse->dx));
  return RENGA_SUCCESS;
}

const RengaReverseRow RengaReverseRecurrent[] = {
    {"RNNCells", Plain, NULL},
    {"LSTMCells", LongShort, NULL},
    {"GRUCells", Gated, NULL},
    {NULL, NULL, NULL},
};
