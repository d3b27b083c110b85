/* What replicas have a share of, stage by stage: no more than they have to, and what that saves. */
#include "solution.h"

static const double gain = 1e-9; /* share of the update by which another is faster */

/* Stages whose replicas share something. */
static int CountSharing(const SearchLayout *layout)
{
  int count = 0;
  for (int s = 0; s < layout->count; s++)
    count += layout->stage[s].shape.shard && layout->stage[s].shape.replicas > 1;
  return count;
}

/* What each stage would take, were nothing sharded. */
static RengaErrorCode FindUnsharded(const Solution *solution, RengaForecastMemory memory[])
{
  SearchLayout layout = {0};
  RengaPlan plan = NULL;
  double most;
  RengaCall(RengaSearchLayoutCopy_Private(&solution->layout, &layout));
  for (int s = 0; s < layout.count; s++) layout.stage[s].shape.shard = RENGA_SHARD_NOTHING;
  RengaErrorCode code = RengaSearchPlan_Private(solution->task, solution->chain, &layout, &plan);
  if (!code)
    code =
        RengaSearchMemory_Private(solution->task, &solution->model, &layout, plan, memory, &most);
  if (plan) RengaPlanDestroy(&plan);
  RengaSearchLayoutFree_Private(&layout);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Stages that fit without a share, and whose update is no longer than the longest, share nothing,
   unless that makes the step longer: sums that go to all are longer than those of shares. */
static int ShareLess(const Solution *solution, const RengaForecastMemory without[],
                     SearchLayout *layout)
{
  const SearchTask *task = solution->task;
  int changed = 0;
  for (int s = 0; s < layout->count; s++) {
    SearchStage plain = layout->stage[s];
    plain.shape.shard = task->shards.least;
    if (plain.shape.shard == layout->stage[s].shape.shard) continue;
    if (task->memory > 0 && (double)without[s].total > task->memory) continue;
    const SearchCost cost = RengaSearchCostOf_Private(&solution->model, &plain, layout->count - s);
    if (cost.update > solution->layout.update * (1 + gain)) continue;
    layout->stage[s] = plain;
    changed++;
  }
  return changed;
}

/* The other layout, with what the runtime says of it, instead of the solution's. */
static RengaErrorCode TakeSharingLess(Solution *solution, Solution *other)
{
  SearchTask task = *solution->task;
  const Solution old = *solution;
  RengaPlanPrediction prediction;
  task.schedule = solution->layout.schedule;
  RengaCall(RengaSolutionWeigh_Private(&task, other));
  if (!RengaSolutionFits_Private(other)) return RENGA_SUCCESS;
  RengaCall(RengaSearchPredict_Private(&task, &other->model, &other->layout,
                                       solution->chain->schedules, other->plan, &prediction));
  if (prediction.step > solution->step * (1 + gain)) return RENGA_SUCCESS;
  other->step = prediction.step;
  other->pipeline = prediction.pipeline;
  *solution = *other;
  *other = old;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionShareLess_Private(Solution *solution)
{
  const SearchShards shards = solution->task->shards;
  RengaForecastMemory *without = NULL;
  Solution other = RengaSolutionBeside_Private(solution);
  if (shards.least || shards.least == shards.most || !CountSharing(&solution->layout))
    return RENGA_SUCCESS;
  RengaCall(RengaMalloc(solution->layout.count, &without));
  RengaErrorCode code = FindUnsharded(solution, without);
  if (!code) code = RengaSearchLayoutCopy_Private(&solution->layout, &other.layout);
  if (!code && ShareLess(solution, without, &other.layout))
    code = TakeSharingLess(solution, &other);
  RengaSolutionFree_Private(&other);
  RengaFree(&without);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Stages whose replicas share as much. */
static int CountSharingAs(const SearchLayout *layout, RengaShard shard)
{
  int count = 0;
  for (int s = 0; s < layout->count; s++) count += layout->stage[s].shape.shard == shard;
  return count;
}

static RengaErrorCode SayShards(const Solution *solution, const RengaForecastMemory without[],
                                SearchAnswer *answer)
{
  static const char *const words[] = {
      [RENGA_SHARD_NOTHING] = "nothing",
      [RENGA_SHARD_OPTIMIZER] = "masters and moments of the optimizer",
      [RENGA_SHARD_GRADIENTS] = "gradients, masters and moments",
      [RENGA_SHARD_PARAMETERS] = "parameters, gradients, masters and moments"};
  const int count = solution->layout.count;
  char own[32], other[32], some[48] = "";
  int best = 0; /* the stage that saves most */
  for (int s = 0; s < count; s++)
    if (without[s].total - solution->memory[s].total >
        without[best].total - solution->memory[best].total)
      best = s;
  const RengaShard shard = solution->layout.stage[best].shape.shard;
  const int sharing = CountSharingAs(&solution->layout, shard);
  RengaFormatBytes((double)solution->memory[best].total, sizeof own, own);
  RengaFormatBytes((double)without[best].total, sizeof other, other);
  if (sharing < count) snprintf(some, sizeof some, "in %d of %d stages ", sharing, count);
  RengaCall(RengaRealloc(answer->n_reasons + 1, &answer->reason));
  SearchReason *reason = &answer->reason[answer->n_reasons++];
  snprintf(reason->topic, sizeof reason->topic, "shards");
  snprintf(reason->sentence, sizeof reason->sentence,
           "%sreplicas shard %s: stage %d needs %s of a device, and would need %s without "
           "(-layout_zero 0)",
           some, words[shard], best, own, other);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionExplainShards_Private(const Solution *solution, SearchAnswer *answer)
{
  RengaForecastMemory *without = NULL;
  if (!solution->shards_too || !CountSharing(&solution->layout)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(solution->layout.count, &without));
  RengaErrorCode code = FindUnsharded(solution, without);
  if (!code) code = SayShards(solution, without, answer);
  RengaFree(&without);
  RengaCall(code);
  return RENGA_SUCCESS;
}
