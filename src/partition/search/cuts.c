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

/* What partitions have made of the network, by the number of stages: they are asked for the same
   again and again, under other bounds and for other micro-batches. */
typedef struct {
  RengaPartition partition;
  int count;
  RengaPlanStage *stage; /* [count] */
} CutMade;
struct SearchCuts {
  int count;
  CutMade *row;
};

RengaErrorCode RengaSearchCutsCreate_Private(struct SearchCuts **cuts)
{
  RengaCall(RengaMalloc(1, cuts));
  return RENGA_SUCCESS;
}

void RengaSearchCutsFree_Private(struct SearchCuts **cuts)
{
  for (int i = 0; *cuts && i < (*cuts)->count; i++) RengaFree(&(*cuts)->row[i].stage);
  if (*cuts) RengaFree(&(*cuts)->row);
  RengaFree(cuts);
}

/* The stages, lent until the next call. */
static RengaErrorCode CutInto(RengaPartition partition, int count, struct SearchCuts *cuts,
                              const RengaPlanStage **stages)
{
  RengaPlanStage *made = NULL;
  for (int i = 0; i < cuts->count; i++) {
    *stages = cuts->row[i].stage;
    if (cuts->row[i].partition == partition && cuts->row[i].count == count) return RENGA_SUCCESS;
  }
  RengaCall(RengaRealloc(cuts->count + 1, &cuts->row));
  RengaCall(RengaMalloc(count, &made));
  const RengaErrorCode code = partition->ops->solve(partition, count, made);
  if (code) RengaFree(&made);
  RengaCall(code);
  cuts->row[cuts->count++] = (CutMade){.partition = partition, .count = count, .stage = made};
  *stages = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode TryCount(RengaPartition partition, const SearchModel *model, int count,
                               const RengaStageShape *shape, struct SearchCuts *cuts,
                               SearchLayout *best)
{
  SearchLayout layout = {.count = count};
  const RengaPlanStage *stages = NULL;
  RengaCall(CutInto(partition, count, cuts, &stages));
  RengaCall(RengaMalloc(count, &layout.stage));
  for (int s = 0; s < count; s++)
    layout.stage[s] = (SearchStage){.begin = s ? PlaceOfNode(model, stages[s].first) : 0,
                                    .end = PlaceOfNode(model, stages[s].last),
                                    .shape = *shape};
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
    RengaCall(TryCount(partition, model, count, &model->candidate[o].shape, task->cuts, best));
  }
  return RENGA_SUCCESS;
}
