/* Types that only cut: their stages are weighed as those of the search are, so that they get the
   same prediction and bound. Where the number of stages is open, each that leaves equal replicas is
   tried and the fastest is taken. */
#include "../partitionimpl.h"
#include "search.h"

/* Place of the first node at or after this one. */
static int PlaceOfNode(const SearchModel *model, int node)
{
  int low = 0, high = model->count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (model->node[middle] < node)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static RengaErrorCode TryCount(RengaPartition partition, const SearchModel *model, int count,
                               const RengaStageShape *shape, SearchLayout *best)
{
  SearchLayout layout = {.count = count};
  RengaPlanStage *stages = NULL;
  RengaErrorCode code = RengaMalloc(count, &stages);
  if (!code) code = RengaMalloc(count, &layout.stage);
  if (!code) code = partition->ops->solve(partition, count, stages);
  for (int s = 0; s < count && !code; s++)
    layout.stage[s] = (SearchStage){.begin = s ? PlaceOfNode(model, stages[s].first) : 0,
                                    .end = PlaceOfNode(model, stages[s].last),
                                    .shape = *shape};
  RengaFree(&stages);
  if (code) RengaFree(&layout.stage);
  RengaCall(code);
  RengaSearchLayoutKeep_Private(model, &layout, best);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchCutsFind_Private(const void *context, const SearchTask *task,
                                           const SearchModel *model, SearchLayout *best)
{
  RengaPartition partition = (RengaPartition)context;
  int own = 0;
  RengaCall(partition->ops->count(partition, &own));
  if (!own) own = task->wanted.stages;
  for (int o = 0; o < model->n_candidates; o++) {
    int count = own ? own : model->devices / model->candidate[o].devices;
    if (count > model->count) count = model->count;
    if ((int64_t)count * model->candidate[o].devices > model->devices) continue;
    RengaCall(TryCount(partition, model, count, &model->candidate[o].shape, best));
  }
  return RENGA_SUCCESS;
}
