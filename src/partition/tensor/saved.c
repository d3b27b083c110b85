/* What backward reads of what forward makes: found in the network's own derivative. */
#include "tensorimpl.h"

/* The node of the network that makes what lies in this memory; slot: which of its outputs. */
static const RengaGraphNode *FindMaker(RengaGraph whole, RengaValue value, int *slot)
{
  for (;;) {
    const int producer = RengaGraphGetValue(whole, value)->producer;
    if (producer < 0) return NULL;
    const RengaGraphNode *node = RengaGraphGetNode(whole, producer);
    if (!(node->op->flags & RENGA_OP_RESHAPE)) {
      for (int o = 0; o < node->n_out; o++)
        if (node->out[o] == value) *slot = o;
      return node;
    }
    value = node->in[0];
  }
}

static void MarkReads(RengaGraph graph, RengaGraph whole, const RengaGraphNode *node, bool saved[])
{
  for (int i = 0; i < node->n_in; i++) {
    int slot = 0;
    if (node->in[i] < 0) continue;
    const RengaGraphNode *maker = FindMaker(whole, node->in[i], &slot);
    if (!maker || maker->phase != RENGA_PHASE_FORWARD) continue;
    const RengaValue value = RengaGraphGetNode(graph, maker->id)->out[slot];
    if (value >= 0) saved[value] = true;
  }
}

RengaErrorCode RengaTensorFindSaved_Private(RengaGraph graph, bool saved[])
{
  RengaGraph whole = NULL;
  RengaCall(RengaGraphGetSubgraph(graph, 0, RengaGraphGetNodeCount(graph), &whole));
  const RengaErrorCode code = RengaGraphDifferentiate(whole, 0, NULL, NULL, 0, NULL, NULL);
  for (int n = 0; !code && n < RengaGraphGetNodeCount(whole); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(whole, n);
    if (node->phase != RENGA_PHASE_FORWARD) MarkReads(graph, whole, node, saved);
  }
  RengaCall(RengaGraphDestroy(&whole));
  RengaCall(code);
  return RENGA_SUCCESS;
}
