/* Parameters of which lanes have parts, in the chain. Each use of one has a node that would make
   them, which is not run. */
#include "parts.h"
#include "renga/private/graph.h"

/* The node cuts a parameter into the parts that are there of it. */
bool RengaSearchCutsIntoParts_Private(RengaGraph graph, int n, const int parts[])
{
  const RengaGraphNode *node = RengaGraphGetNode(graph, n);
  return node->n_in == 1 && node->in[0] != RENGA_VALUE_NONE && parts[node->in[0]] > 0;
}

/* Elements of parameters stand at the places of the nodes that read them, here Splits; frozen ones
   at the first alone. */
void RengaSearchLeavePartsOut_Private(SearchChain *chain, const int parts[],
                                      SearchElsewhere *elsewhere, const void *user)
{
  double *less[2] = {chain->elements, chain->states}, sum[2] = {0, 0};
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    if (RengaSearchCutsIntoParts_Private(chain->graph, node->id, parts)) {
      chain->others[c] = true;
      const bool frozen = RengaGraphGetValue(chain->graph, node->in[0])->frozen;
      if (!frozen || parts[node->in[0]] == node->id + 1) sum[frozen] += elsewhere(user, node);
    }
    for (int k = 0; k < 2; k++) less[k][c + 1] -= sum[k];
  }
  for (int t = 0; t < chain->n_ties; t++) {
    const int n = chain->node[chain->tie[t].after];
    if (RengaSearchCutsIntoParts_Private(chain->graph, n, parts))
      chain->tie[t].elements -= elsewhere(user, RengaGraphGetNode(chain->graph, n));
  }
}

/* The copies that would make them are not run. */
void RengaSearchLeaveCopiesOut_Private(const SearchTask *task, const int parts[])
{
  for (int n = 0; n < RengaGraphGetNodeCount(task->graph); n++) {
    const bool copies = RengaSearchCutsIntoParts_Private(task->graph, n, parts);
    for (int row = 0; row < task->n_sizes; row++) {
      RengaProfileCost *cost = &task->costs[row][n];
      if (copies) cost->forward = 0;
      if (copies || RengaGraphIsOfPieces_Private(task->graph, n)) cost->backward = 0;
    }
  }
}

/* Of a replica of a stage. */
RengaLaneGroup RengaSearchGroupOf_Private(const SearchTask *task)
{
  const int context = task->context > 1 ? task->context : 1;
  const RengaStageShape shape = {.tensor = task->unit > 1 ? task->unit / context : 1,
                                 .sequence = context};
  return RengaPlanGetLaneGroup_Private(
      task->given ? &RengaPlanGetStage(task->given, 0)->shape : &shape, task->graph);
}

const char *RengaSearchKindOfRanks_Private(const SearchTask *task)
{
  const RengaLaneGroup group = RengaSearchGroupOf_Private(task);
  if (group.ranks[RENGA_LANES_OF_TOKENS] == 1) return "tensor-parallel";
  return group.ranks[RENGA_LANES_OF_HEADS] == 1 ? "context-parallel"
                                                : "tensor- and context-parallel";
}
