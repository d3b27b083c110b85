/* Patterns of nodes that are one operator. The tables of the families are tried at each node. */
#include "fuse.h"
#include <string.h>

static const RengaFuseRow *const families[] = {RengaFuseLinear, RengaFuseNormalize,
                                               RengaFuseGelu,   RengaFuseAttention,
                                               RengaFuseLoss,   RengaFuseFlat};
enum { N_FAMILIES = sizeof families / sizeof families[0], MAX_ROUNDS = 8 };

static RengaErrorCode FuseNode(RengaGraph graph, int root, bool *done)
{
  for (int f = 0; f < N_FAMILIES; f++)
    for (const RengaFuseRow *row = families[f]; row->root; row++) {
      if (strcmp(row->root, graph->entry[root]->node.op->name) != 0) continue;
      RengaCall(row->fuse(graph, root, done));
      if (*done) return RENGA_SUCCESS;
    }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphFuse(RengaGraph graph)
{
  bool again = true;
  RengaCall(RengaGraphCountReaders(graph));
  for (int round = 0; round < MAX_ROUNDS && again; round++) {
    again = false;
    for (int i = 0; i < graph->n_nodes; i++) {
      bool done = false;
      if (!graph->entry[i]->dead) RengaCall(FuseNode(graph, i, &done));
      again = again || done;
    }
  }
  RengaFree(&graph->readers);
  return RENGA_SUCCESS;
}
