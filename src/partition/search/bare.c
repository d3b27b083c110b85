/* The bound of a search for plans with tensor ranks. It is of all plans whose stages cost at least
   what a rank's nodes cost that give each other nothing: of one rank, the same in all stages. A
   stage of a plan takes forward, for gradients of inputs and for those of parameters no less than
   any of its ranks (lanes.c), be it cut within lanes or not, and its exchanges come on top. Nor
   does memory say anything: what it takes is an estimate. */
#include "solution.h"
#include <math.h>
#include <string.h>

RengaErrorCode RengaSearchKeepCosts_Private(const SearchTask *task, RengaProfileCost ***kept)
{
  const int n_nodes = RengaGraphGetNodeCount(task->graph);
  RengaCall(RengaMalloc(task->n_sizes, kept));
  for (int row = 0; row < task->n_sizes; row++) {
    int same = 0;
    while (task->costs[same] != task->costs[row]) same++;
    (*kept)[row] = (*kept)[same];
    if (same < row) continue;
    RengaCall(RengaMalloc(n_nodes + 1, &(*kept)[row]));
    memcpy((*kept)[row], task->costs[row], (size_t)n_nodes * sizeof ***kept);
  }
  return RENGA_SUCCESS;
}

void RengaSearchFreeCosts_Private(const SearchTask *task, RengaProfileCost ***kept)
{
  for (int row = task->n_sizes - 1; *kept && row >= 0; row--) {
    int same = 0;
    while (task->costs[same] != task->costs[row]) same++;
    if (same == row) RengaFree(&(*kept)[row]);
  }
  RengaFree(kept);
}

static RengaErrorCode BoundOnBareChain(SearchTask *task, double *least)
{
  SearchChain chain = {0};
  RengaErrorCode code = RengaSearchChainCreate_Private(task->graph, task->all, &chain);
  if (!code) code = RengaSearchSpareTables_Private(task, &chain);
  if (!code) code = RengaSearchShareLanes_Private(task, &chain);
  if (!code) code = RengaSolutionLeastBound_Private(task, &chain, least);
  RengaSearchChainFree_Private(&chain);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionBoundBare_Private(Solution *solution, RengaProfileCost *const *costs,
                                              RengaShard most)
{
  SearchTask task = *solution->task;
  double least = 0;
  solution->bound = 0;
  solution->proved = false;
  if (solution->folds_too || RengaSearchFolds_Private(&task, &solution->layout))
    return RENGA_SUCCESS;
  task.costs = costs;
  task.bare = true;
  task.kinds = NULL; /* costs are the least of all of them */
  task.memory = 0;
  if (solution->shards_too) task.shards.most = most;
  RengaCall(BoundOnBareChain(&task, &least));
  if (isfinite(least)) solution->bound = least;
  return RENGA_SUCCESS;
}
