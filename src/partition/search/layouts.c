/* The layouts of a task: all searches of one model, then the best over sizes of micro-batches and
   ways to lay replicas on the machine, and the bound of a size. */
#include "kinds.h"
#include "search.h"
#include <math.h>

enum {
  LABEL_WORK = 4000000,
  LABEL_WORK_BLIND = 400000,
  CHAIN_SMALL = 500,   /* of a small problem, on so many devices */
  CHAIN_TINY = 40,     /* which even quick searches look at in all ways, */
  WORK_TINY = 1000,    /* and places times micro-batches of the first size of such */
  CHAIN_MIDDLE = 1000, /* of a longer one labels are no use */
  DEVICES_SMALL = 8,
  PROBLEM_LARGE = 200000 /* places times devices */
};

/* In longer chains labels, as many as there is time for, reach none but the last places. */
bool RengaSearchHasLabels_Private(const SearchTask *task, int places)
{
  return task->exact || places <= CHAIN_MIDDLE;
}

RengaErrorCode RengaSearchLayouts_Private(const SearchTask *task, const SearchModel *model,
                                          SearchLayout *best, bool *proved)
{
  *proved = false;
  if (!model->n_candidates || !model->count) return RENGA_SUCCESS;
  if (task->finder.find) {
    RengaCall(task->finder.find(task->finder.context, task, model, best));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSearchQuickly_Private(model, best));
  if (!task->thorough && (best->count || model->beat > 0)) return RENGA_SUCCESS;
  const bool exact = task->exact && task->thorough;
  if (!RengaSearchHasLabels_Private(task, model->count)) return RENGA_SUCCESS;
  const int64_t work = task->thorough ? LABEL_WORK : LABEL_WORK_BLIND;
  RengaCall(RengaSearchLabels_Private(model, task->until, exact ? 0 : work, best, proved));
  return RENGA_SUCCESS;
}

static void KeepBetter(SearchLayout *layout, SearchLayout *best, bool *better)
{
  *better = layout->count && (!best->count || layout->step < best->step);
  if (*better) {
    RengaSearchLayoutFree_Private(best);
    *best = *layout;
  } else {
    RengaSearchLayoutFree_Private(layout);
  }
}

/* Replicas spread over groups are a way of their own only where there are groups. */
RengaErrorCode RengaSearchHasGroups_Private(const SearchTask *task, bool *groups)
{
  const RengaMachineLevel *levels;
  int count = 0;
  *groups = false;
  if (!task->machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetLevels(task->machine, &count, &levels));
  const int64_t own = levels[0].devices / (task->unit > 1 ? task->unit : 1);
  *groups = count > 1 && own < task->ranks && own > 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode TrySize(const SearchTask *task, const SearchChain *chain, int size,
                              bool spread, SearchLayout *best, bool *proved)
{
  SearchModel model = {0};
  SearchLayout layout = {0};
  bool better, one_proved = false;
  RengaCall(RengaSearchModelOf_Private(task, chain, size, spread, &model));
  if (spread && best->count && !task->thorough && chain->count <= SEARCH_LONG)
    model.beat = best->step; /* of the others, which are mostly as fast */
  RengaErrorCode code = RengaSearchLayouts_Private(task, &model, &layout, &one_proved);
  if (!code && model.kinds && !task->finder.find) {
    code = RengaSearchKindLayouts_Private(task, chain, size, spread, &layout);
    one_proved = false;
  }
  RengaSearchModelFree_Private(&model);
  if (code) RengaSearchLayoutFree_Private(&layout);
  RengaCall(code);
  KeepBetter(&layout, best, &better);
  if (better) *proved = one_proved;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchBest_Private(const SearchTask *task, const SearchChain *chain,
                                       SearchLayout *best, bool *proved)
{
  bool groups = false;
  *best = (SearchLayout){0};
  *proved = false;
  RengaCall(RengaSearchHasGroups_Private(task, &groups));
  for (int i = 0; i < task->n_sizes; i++) {
    if (i >= task->n_first && best->count) break;
    RengaCall(TrySize(task, chain, i, false, best, proved));
    if (groups) RengaCall(TrySize(task, chain, i, true, best, proved));
  }
  return RENGA_SUCCESS;
}

/* Replicas of a stage side by side reduce fastest: spread ones need no bound of their own. */
RengaErrorCode RengaSearchBoundOf_Private(const SearchTask *task, const SearchChain *chain,
                                          int size, double *bound)
{
  SearchModel model = {0};
  RengaCall(RengaSearchModelOf_Private(task, chain, size, false, &model));
  RengaErrorCode code = RENGA_SUCCESS;
  if (model.n_candidates && model.count)
    code = RengaSearchFindBound_Private(chain->bounds, &model, task->costs[size],
                                        task->wanted.stages > 1 ? task->wanted.stages : 1, bound);
  RengaSearchModelFree_Private(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

bool RengaSearchIsSmall_Private(const SearchTask *task, const SearchChain *chain)
{
  const int64_t rounds = (task->batch + task->size[0] - 1) / task->size[0];
  const bool tiny = chain->count <= CHAIN_TINY || rounds * chain->count <= WORK_TINY;
  const bool all = !task->finder.find && (!task->quick || tiny);
  return all && task->ranks <= DEVICES_SMALL && chain->count <= CHAIN_SMALL;
}

bool RengaSearchIsLarge_Private(const SearchTask *task, const SearchChain *chain)
{
  return (int64_t)task->ranks * chain->count > PROBLEM_LARGE;
}

bool RengaSearchIsLong_Private(const SearchTask *task, const SearchChain *chain)
{
  return chain->count > SEARCH_LONG && RengaSearchIsLarge_Private(task, chain);
}
