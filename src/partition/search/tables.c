/* Tables that are updated by rows, in the chain: they have values and moments in full on each
   replica, as states have, and nothing of them is added up, summed over replicas or updated but
   the few rows of a step, whose memory and time count as nothing: what is said of stages stays the
   least that they take. The backward of the node that gathers is its forward again: it copies as
   much. Where all rows are updated a table takes as long as one without rows. */
#include "renga/private/optimizer.h"
#include "renga/private/settings.h"
#include "search.h"
#include <math.h>

static void MoveTable(SearchChain *chain, RengaValue v, int moments)
{
  const double elements = (double)RengaTensorSpecCount(&RengaGraphGetValue(chain->graph, v)->spec);
  for (int c = chain->last[v] + 1; c <= chain->count; c++) {
    chain->elements[c] -= elements;
    chain->states[c] += (1 + moments) * elements;
  }
}

RengaErrorCode RengaSearchSpareTables_Private(const SearchTask *task, SearchChain *chain)
{
  int *tables = NULL;
  RengaOptimizer optimizer;
  RengaSparse sparse;
  if (!task->run.settings) return RENGA_SUCCESS;
  RengaCall(RengaSettingsGetOptimizer(task->run.settings, &optimizer));
  RengaCall(RengaOptimizerGetSparse(optimizer, &sparse));
  if (sparse == RENGA_SPARSE_EXACT) return RENGA_SUCCESS;
  RengaCall(RengaSettingsFindTables_Private(task->run.settings, task->graph, task->batch, &tables));
  for (RengaValue v = 0; tables && v < RengaGraphGetValueCount(task->graph); v++) {
    if (!tables[v]) continue;
    MoveTable(chain, v, task->moments);
    for (int s = 0; s < task->n_sizes; s++) {
      RengaProfileCost *cost = &task->costs[s][tables[v] - 1];
      cost->backward = fmin(cost->backward, cost->forward);
    }
  }
  RengaFree(&tables);
  return RENGA_SUCCESS;
}
