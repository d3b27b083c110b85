/* Other types whose plans the search must not be worse than, as finders. */
#include "../partitionimpl.h"
#include "search.h"

/* A type that only cuts, on this process alone. */
static RengaErrorCode AddCutter(RengaProfile profile, RengaErrorCode (*create)(void *partition),
                                SearchTask *task, RengaPartition *cutter)
{
  RengaCall(RengaPartitionCreatePlain_Private(task->self, cutter));
  RengaCall(create(*cutter));
  RengaCall(RengaPartitionSetGraph(*cutter, task->graph));
  RengaCall(RengaPartitionSetProfile(*cutter, profile));
  task->rival[task->n_rivals++] =
      (SearchFinder){.find = RengaSearchCutsFind_Private, .context = *cutter, .quick = true};
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchRivals_Private(RengaProfile profile, SearchTask *task,
                                         RengaPartition cutters[SEARCH_CUTTERS])
{
  static const int any_blocks = 0;
  RengaCall(AddCutter(profile, RengaPartitionCreate_Even, task, &cutters[0]));
  RengaCall(AddCutter(profile, RengaPartitionCreate_Tree, task, &cutters[1]));
  task->rival[task->n_rivals++] =
      (SearchFinder){.find = RengaRanncFind_Private, .context = &any_blocks};
  return RENGA_SUCCESS;
}
