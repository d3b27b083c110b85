/* Replicas that share gradients, or parameters too (ZeRO 2 and 3): each stage has as many of them,
   and their gradients, and values, travel with each micro-batch. That is mostly slower where
   memory is not short, so that such layouts are a search of their own, after the others. In a large
   problem it is made for what fits where those do not or may be faster: where memory is short or
   keeps a long chain in many stages, or what comes behind the pipeline takes long. */
#include "solution.h"
#include "renga/private/settings.h"
#include <math.h>

static const double memory_matters = 0.8; /* share of a device's memory from which on */
static const double ends_matter = 0.02;   /* share of a step */

/* What the pipeline refuses together with them is left alone. */
RengaErrorCode RengaSearchMayFold_Private(const SearchTask *task, RengaSettings settings, bool *may)
{
  RengaSparse sparse;
  RengaOptimizer optimizer;
  RengaCall(RengaSettingsGetOptimizer(settings, &optimizer));
  RengaCall(RengaOptimizerGetSparse(optimizer, &sparse));
  *may = task->shards.least == RENGA_SHARD_NOTHING && task->shards.most == RENGA_SHARD_OPTIMIZER &&
         !task->unordered && sparse == RENGA_SPARSE_OFF;
  return RENGA_SUCCESS;
}

bool RengaSolutionIsShort_Private(const Solution *solution)
{
  const double memory = solution->task->memory;
  bool recomputes = false;
  for (int s = 0; s < solution->layout.count; s++)
    recomputes = recomputes || solution->layout.stage[s].shape.saved != RENGA_SAVED_KEEP;
  return memory > 0 && (recomputes || solution->most > memory_matters * memory);
}

bool RengaSolutionWantsShares_Private(const Solution *solution)
{
  const SearchTask *task = solution->task;
  const bool cut = solution->chain->count > SEARCH_LONG && solution->layout.count > 1 &&
                   !task->wanted.stages && !task->wanted.replicas &&
                   2 * solution->most > task->memory;
  /* sums and updates that replicas which share them do in part, or under the pipeline */
  const bool ends =
      solution->pipeline > 0 && solution->step - solution->pipeline > ends_matter * solution->step;
  const bool looks = ends || !RengaSearchIsLarge_Private(task, solution->chain);
  return cut || (task->ranks > 1 && looks) || RengaSolutionIsShort_Private(solution);
}

SearchTask RengaSearchFoldingTask_Private(const SearchTask *task)
{
  SearchTask folding = *task;
  folding.shards = (SearchShards){.least = RENGA_SHARD_GRADIENTS, .most = RENGA_SHARD_PARAMETERS};
  folding.wanted.equal = folding.wanted.several = true;
  return folding;
}

SearchTask RengaSearchOpenTask_Private(const SearchTask *folding)
{
  SearchTask task = *folding;
  task.shards = (SearchShards){.least = RENGA_SHARD_NOTHING, .most = RENGA_SHARD_OPTIMIZER};
  task.wanted.equal = task.wanted.several = false;
  return task;
}

RengaErrorCode RengaSolutionTakeFolding_Private(Solution *solution, bool *fits, Solution *other,
                                                bool other_fits)
{
  const SearchTask *task = other->task;
  double least = solution->bound;
  solution->tried_folds = true;
  const bool unknown = !task->machine; /* what they give each other takes */
  if (!other_fits || (*fits && (unknown || other->step >= solution->step))) {
    RengaSolutionFree_Private(other);
    return RENGA_SUCCESS;
  }
  if (!*fits) RengaCall(RengaSolutionLeastBound_Private(solution->task, solution->chain, &least));
  least = fmin(least, other->bound);
  RengaSolutionTakeFaster_Private(solution, *fits, other, true);
  solution->task = task;
  *fits = true;
  solution->bound = fmin(least, solution->step);
  solution->proved = least >= solution->step * (1 - 1e-9);
  solution->shards_too = solution->folds_too = true;
  return RENGA_SUCCESS;
}
