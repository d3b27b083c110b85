/* Stages that are told to recompute all (-layout_recompute full): they keep what crosses narrow
   places, which cut them into parts that are made again one at a time, as many parts as need the
   least memory. With n layers alike, of which one is as large as what crosses for all micro-batches
   in flight, these are about the square root of n (Chen et al., arXiv 1604.06174). */
#include "kept.h"

enum { PARTS_MOST = 64, WORSE_MOST = 2 }; /* numbers in turn that are worse than one before */

typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  const SearchModel *model;
  SearchLayout *layout;
  RengaPlan plan;
  SearchKept *best; /* [stages] */
  int64_t *least;   /* [stages] bytes with it */
} Segmenting;

static bool IsSegmented(const SearchStage *stage)
{
  return stage->shape.saved == RENGA_SAVED_RECOMPUTE;
}

/* What the stages of the layout keep, as the plan's. */
static RengaErrorCode TellPlan(const Segmenting *segmenting)
{
  for (int s = 0; s < segmenting->layout->count; s++) {
    const RengaValue *value;
    int count;
    if (!IsSegmented(&segmenting->layout->stage[s])) continue;
    RengaSearchGetKept_Private(segmenting->chain, &segmenting->layout->stage[s], &count, &value);
    RengaCall(RengaPlanSetKept(segmenting->plan, s, 0, NULL));
    RengaCall(
        RengaSearchSetKept_Private(segmenting->task->graph, segmenting->plan, s, count, value));
  }
  return RENGA_SUCCESS;
}

/* *better: some stage takes less memory so. */
static RengaErrorCode TryParts(const Segmenting *segmenting, int parts,
                               RengaForecastMemory memory[], double *most, bool *better)
{
  const SearchTask *task = segmenting->task;
  SearchLayout *layout = segmenting->layout;
  const RengaProfileCost *costs = task->costs[RengaSearchRowOf_Private(task, layout)];
  for (int s = 0; s < layout->count; s++)
    if (IsSegmented(&layout->stage[s]))
      RengaCall(RengaSearchCutKept_Private(segmenting->chain, costs, segmenting->model, parts,
                                           &layout->stage[s]));
  RengaCall(TellPlan(segmenting));
  RengaCall(
      RengaSearchMemory_Private(task, segmenting->model, layout, segmenting->plan, memory, most));
  *better = false;
  for (int s = 0; s < layout->count; s++) {
    if (!IsSegmented(&layout->stage[s]) || memory[s].total >= segmenting->least[s]) continue;
    segmenting->least[s] = memory[s].total;
    segmenting->best[s] = layout->stage[s].kept;
    *better = true;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SegmentAll(const Segmenting *segmenting, RengaForecastMemory memory[],
                                 double *most)
{
  SearchLayout *layout = segmenting->layout;
  for (int s = 0; s < layout->count; s++) {
    segmenting->least[s] = memory[s].total;
    segmenting->best[s] = (SearchKept){0};
  }
  for (int parts = 2, worse = 0; parts <= PARTS_MOST && worse < WORSE_MOST;) {
    bool better;
    RengaCall(TryParts(segmenting, parts, memory, most, &better));
    worse = better ? 0 : worse + 1; /* as 4 parts of 6 layers are, but 6 need least */
    parts = parts & (parts - 1) ? parts / 3 * 4 : parts / 2 * 3; /* 2, 3, 4, 6, 8, 12, … */
  }
  for (int s = 0; s < layout->count; s++)
    if (IsSegmented(&layout->stage[s])) layout->stage[s].kept = segmenting->best[s];
  RengaCall(TellPlan(segmenting));
  RengaCall(RengaSearchMemory_Private(segmenting->task, segmenting->model, layout, segmenting->plan,
                                      memory, most));
  return RENGA_SUCCESS;
}

bool RengaSearchSegments_Private(const SearchTask *task)
{
  return task->session && task->fixes_saved && task->saved == RENGA_SAVED_RECOMPUTE;
}

RengaErrorCode RengaSearchSegment_Private(const SearchTask *task, const SearchChain *chain,
                                          const SearchModel *model, SearchLayout *layout,
                                          RengaPlan plan, RengaForecastMemory memory[],
                                          double *most)
{
  Segmenting segmenting = {
      .task = task, .chain = chain, .model = model, .layout = layout, .plan = plan};
  RengaErrorCode code = RengaMalloc(layout->count, &segmenting.best);
  if (!code) code = RengaMalloc(layout->count, &segmenting.least);
  if (!code) code = SegmentAll(&segmenting, memory, most);
  RengaFree(&segmenting.best);
  RengaFree(&segmenting.least);
  RengaCall(code);
  return RENGA_SUCCESS;
}
