/* One layout on trial: its simulated step under every schedule that may be chosen and on every
   placement that no other beats, with what it has to recompute.

   A layout on a placement is left alone where what it takes at the least (floor.c) is no less than
   the best, and a schedule where the stages that must recompute make it so. A layout is first taken
   to recompute nothing, which is slower only where a longer backward hides more of an exchange; the
   runtime is asked for its memory only if it is then faster than the best, and the stages that do
   not fit recompute, but for what they have room for. What a stage needs does not depend on what
   others recompute, so that fewer never do. */
#include "kept.h"
#include "renga/private/schedule.h"
#include "rengaschedule.h"
#include <math.h>
#include <string.h>

static const double gain = 1e-9; /* share of the step by which another is faster */

static bool IsFaster(const SearchTrial *trial, double step)
{
  return step < trial->best->simulated * (1 - gain);
}

RengaErrorCode RengaSearchTrialCreate_Private(const SearchTask *task, const SearchChain *chain,
                                              SearchLayout *best, SearchTrial *trial)
{
  SearchTask free_task = *task;
  *trial = (SearchTrial){.task = task, .chain = chain, .best = best, .least = HUGE_VAL};
  free_task.memory = 0;
  RengaCall(RengaSearchModelOf_Private(&free_task, chain, 0, false, &trial->model));
  RengaCall(RengaSearchModelOf_Private(task, chain, 0, false, &trial->bounded));
  return RENGA_SUCCESS;
}

void RengaSearchTrialFree_Private(SearchTrial *trial)
{
  RengaSearchModelFree_Private(&trial->model);
  RengaSearchModelFree_Private(&trial->bounded);
  RengaFree(&trial->places.rank);
  RengaFree(&trial->replicas);
}

/* Placements are kept for the next layout: most have the same numbers of replicas. */
static RengaErrorCode FindTrialPlaces(SearchTrial *trial, const SearchLayout *layout)
{
  int *replicas = NULL;
  RengaCall(RengaMalloc(layout->count, &replicas));
  for (int s = 0; s < layout->count; s++) replicas[s] = layout->stage[s].shape.replicas;
  if (trial->replicas && trial->count == layout->count &&
      !memcmp(replicas, trial->replicas, (size_t)trial->count * sizeof *replicas)) {
    RengaFree(&replicas);
    return RENGA_SUCCESS;
  }
  RengaFree(&trial->replicas);
  RengaFree(&trial->places.rank);
  trial->replicas = replicas;
  trial->count = layout->count;
  RengaCall(RengaSearchPlaces_Private(trial->task, trial->simply, trial->count, replicas,
                                      &trial->places));
  return RENGA_SUCCESS;
}

/* Seconds under the schedule of the layout and on its placement. */
static RengaErrorCode PredictStep(const SearchTrial *trial, const SearchLayout *layout,
                                  const SearchDraft *draft, bool nearest, double *step)
{
  RengaPlanPrediction prediction;
  RengaCall(RengaSearchSetSchedule_Private(&layout->schedule, draft->plan));
  RengaCall(RengaSearchPredictDraft_Private(trial->task, &trial->model, layout, draft, nearest,
                                            &prediction));
  *step = prediction.step;
  return RENGA_SUCCESS;
}

/* Stages that do not fit take the next policy of saved tensors. *fits: all have one. temporary:
   [stages] bytes of those that keep all. What replicas give each other is known from then on. */
static RengaErrorCode FitMemory(const SearchTrial *trial, SearchLayout *layout, RengaPlan plan,
                                double temporary[], bool *changed, bool *fits)
{
  RengaForecastMemory *memory = NULL;
  double most;
  *changed = false;
  *fits = true;
  if (trial->task->memory <= 0 && !RengaSearchFolds_Private(trial->task, layout))
    return RENGA_SUCCESS;
  RengaCall(RengaMalloc(layout->count, &memory));
  const RengaErrorCode code =
      RengaSearchMemory_Private(trial->task, &trial->model, layout, plan, memory, &most);
  for (int s = 0; s < layout->count && !code; s++) {
    temporary[s] = (double)memory[s].temporary;
    if (trial->task->memory <= 0 || (double)memory[s].total <= trial->task->memory) continue;
    const bool may = RengaSearchNextPolicy_Private(&trial->model, &layout->stage[s].shape.saved);
    *changed = *changed || may;
    *fits = *fits && may;
  }
  if (!code) RengaSearchTakeExchanges_Private(memory, layout);
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of stages that recompute all, in memory: whether they may be faster with what there is room for
   at best. In a climb, which proves nothing, a stage that recomputes has no fewer temporary tensors
   than one that keeps all. */
static RengaErrorCode MixesMayBeFaster(const SearchTrial *trial, SearchLayout *layout,
                                       const SearchDraft *draft, const RengaForecastMemory memory[],
                                       const double temporary[], bool *may)
{
  double step = 0;
  RengaCall(RengaSearchMixAtBest_Private(trial->task, trial->chain, &trial->model, layout,
                                         draft->plan, memory, trial->climbs ? temporary : NULL));
  RengaCall(PredictStep(trial, layout, draft, false, &step));
  for (int s = 0; s < layout->count; s++) layout->stage[s].kept = (SearchKept){0};
  *may = IsFaster(trial, step);
  return RENGA_SUCCESS;
}

/* Stages that recompute keep what there is room for; *fits: all have room for what they must, and
   the layout may be faster. */
static RengaErrorCode MixStages(const SearchTrial *trial, SearchLayout *layout, SearchDraft *draft,
                                const double temporary[], bool *fits)
{
  const SearchTask *task = trial->task;
  RengaForecastMemory *memory = NULL;
  double most = 0;
  *fits = false;
  RengaCall(RengaMalloc(layout->count, &memory));
  RengaErrorCode code =
      RengaSearchMemory_Private(task, &trial->model, layout, draft->plan, memory, &most);
  if (!code) RengaSearchTakeExchanges_Private(memory, layout);
  if (!code) code = MixesMayBeFaster(trial, layout, draft, memory, temporary, fits);
  if (!code && *fits) {
    code = RengaSearchMix_Private(task, trial->chain, &trial->model, layout, &draft->plan, memory,
                                  &most);
    *fits = !code && most <= task->memory;
    if (*fits) RengaSearchTakeExchanges_Private(memory, layout);
  }
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PredictMixed(const SearchTrial *trial, const SearchLayout *layout,
                                   double *step)
{
  SearchDraft draft;
  RengaCall(
      RengaSearchDraftCreate_Private(trial->task, trial->chain, &trial->model, layout, &draft));
  const RengaErrorCode code = PredictStep(trial, layout, &draft, false, step);
  RengaSearchDraftFree_Private(&draft);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The step with what has to recompute; HUGE_VAL: it does not fit, or is not faster. */
static RengaErrorCode PredictRecomputing(const SearchTrial *trial, SearchLayout *layout,
                                         const double temporary[], double *step)
{
  SearchDraft draft;
  bool fits = false;
  *step = HUGE_VAL;
  RengaCall(
      RengaSearchDraftCreate_Private(trial->task, trial->chain, &trial->model, layout, &draft));
  RengaErrorCode code = MixStages(trial, layout, &draft, temporary, &fits);
  RengaSearchDraftFree_Private(&draft); /* its messages are of the plan that was mixed */
  if (!code && fits) code = PredictMixed(trial, layout, step);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeTrial(const SearchTrial *trial, const SearchLayout *layout,
                                const int rank[])
{
  SearchLayout taken = {0};
  RengaCall(RengaSearchLayoutCopy_Private(layout, &taken));
  RengaFree(&taken.rank);
  taken.n_ranks = trial->places.ranks;
  const RengaErrorCode code = RengaMalloc(taken.n_ranks, &taken.rank);
  if (code) RengaSearchLayoutFree_Private(&taken);
  RengaCall(code);
  memcpy(taken.rank, rank, (size_t)taken.n_ranks * sizeof *rank);
  RengaSearchLayoutFree_Private(trial->best);
  *trial->best = taken;
  return RENGA_SUCCESS;
}

/* Stages leave the first policy of saved tensors where they cannot fit with it, whatever the
   runtime says; false: one fits under none. */
static bool MarkForced(const SearchTrial *trial, SearchLayout *layout, const int64_t in_flight[])
{
  const SearchModel *model = &trial->bounded;
  for (int s = 0; s < layout->count; s++) {
    SearchStage *stage = &layout->stage[s];
    const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &stage->shape);
    const double received = model->received[stage->begin], depth = (double)in_flight[s];
    while (RengaSearchDeepest_Private(model, &candidate, stage->shape.saved, stage->begin,
                                      stage->end, received) < depth)
      if (!RengaSearchNextPolicy_Private(model, &stage->shape.saved)) return false;
    if (!model->policies.mixed || stage->shape.saved != RENGA_SAVED_RECOMPUTE) continue;
    const double bytes =
        RengaSearchNotKept_Private(model, &candidate, stage->begin, stage->end, received, depth);
    stage->kept.set = -1;
    stage->kept.again =
        RengaSearchAgainAtLeast_Private(model, &candidate, stage->begin, stage->end, bytes);
  }
  return true;
}

/* Before it is known what recomputes. Of whole backwards that is not needed: their lists are the
   same then, so that the step is no shorter. */
static bool MustPredictFirst(const SearchTrial *trial, const SearchLayout *layout,
                             const SearchDraft *draft)
{
  return trial->bounded.memory <= 0 || layout->schedule.type ||
         !RengaSearchMaySimulate_Private(&trial->model, layout, draft->n_messages);
}

RengaErrorCode RengaSearchPredictForced_Private(const SearchTrial *trial, SearchLayout *layout,
                                                const SearchDraft *draft, bool nearest,
                                                double *step)
{
  int64_t *in_flight = NULL;
  bool fits = true, first = MustPredictFirst(trial, layout, draft);
  if (first) RengaCall(PredictStep(trial, layout, draft, nearest, step));
  if (first && (trial->bounded.memory <= 0 || !IsFaster(trial, *step))) return RENGA_SUCCESS;
  RengaCall(RengaSearchSetSchedule_Private(&layout->schedule, draft->plan));
  RengaCall(RengaMalloc(layout->count, &in_flight));
  RengaErrorCode code =
      RengaSearchInFlight_Private(trial->task, &trial->model, layout, draft, in_flight);
  if (!code) fits = MarkForced(trial, layout, in_flight);
  if (!code && fits) code = PredictStep(trial, layout, draft, nearest, step);
  if (!fits) *step = HUGE_VAL;
  RengaSearchTakeFirstPolicy_Private(&trial->model, layout);
  RengaFree(&in_flight);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What may be faster by what it has to recompute, on ranks that are tried. */
static RengaErrorCode TryToFit(const SearchTrial *trial, SearchLayout *layout,
                               const SearchDraft *draft, const int rank[], double temporary[])
{
  bool changed = false, fits = false;
  RengaCall(FitMemory(trial, layout, draft->plan, temporary, &changed, &fits));
  if (!fits) return RENGA_SUCCESS;
  if (changed) {
    layout->rank = (int *)rank; /* lent for the plan that is made of it */
    layout->n_ranks = trial->places.ranks;
    const RengaErrorCode code = PredictRecomputing(trial, layout, temporary, &layout->simulated);
    layout->rank = NULL;
    RengaCall(code);
  } else if (RengaSearchFolds_Private(trial->task, layout)) {
    RengaCall(PredictStep(trial, layout, draft, false, &layout->simulated));
  }
  if (IsFaster(trial, layout->simulated)) RengaCall(TakeTrial(trial, layout, rank));
  return RENGA_SUCCESS;
}

/* Under one schedule on one placement; rank NULL: as if all stages lay side by side, for those that
   are not tried. */
static RengaErrorCode TrySchedule(SearchTrial *trial, SearchLayout *layout,
                                  const SearchDraft *draft, const int rank[])
{
  double *temporary = NULL;
  trial->actions += trial->model.microbatches * layout->count;
  RengaCall(RengaSearchPredictForced_Private(trial, layout, draft, !rank, &layout->simulated));
  if (!IsFaster(trial, layout->simulated)) return RENGA_SUCCESS;
  if (!rank) {
    trial->least = fmin(trial->least, layout->simulated);
    return RENGA_SUCCESS;
  }
  RengaCall(RengaMalloc(layout->count, &temporary));
  const RengaErrorCode code = TryToFit(trial, layout, draft, rank, temporary);
  RengaFree(&temporary);
  RengaSearchTakeExchanges_Private(NULL, layout);
  RengaSearchTakeFirstPolicy_Private(&trial->model, layout);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The next larger number begun early, for each stage that follows, that changes a list; with two
   digits where they say the same. HUGE_VAL: all are begun. */
static double NextEager(double eager, int stages, int64_t rounds)
{
  double next = HUGE_VAL, least = 0;
  for (int following = 1; following < stages; following++) {
    const int64_t early = RengaScheduleEarly(eager, following);
    if (early < rounds) next = fmin(next, (double)(early + 1) / following);
  }
  if (isinf(next)) return next;
  for (int following = 1; following < stages; following++)
    least = fmax(least, (double)(RengaScheduleEarly(next, following) - 1) / following);
  const double shorter = floor(100 * next) / 100;
  return shorter > least + 1e-6 ? shorter : next;
}

/* Those of the list from one to before another. */
static RengaErrorCode TryOfList(SearchTrial *trial, SearchLayout *layout, const SearchDraft *draft,
                                const int rank[], int from, int to)
{
  for (int i = from; i < to; i++) {
    layout->schedule = RengaSearchScheduleList[i];
    RengaCall(TrySchedule(trial, layout, draft, rank));
  }
  return RENGA_SUCCESS;
}

/* With whole backwards, for each of which gradients wait. */
static RengaErrorCode WholeMayBeFaster(const SearchTrial *trial, const SearchLayout *layout,
                                       const SearchDraft *draft, bool nearest, bool *may)
{
  SearchModel whole = trial->bounded;
  double least = 0;
  whole.halves.open = false;
  RengaCall(RengaSearchDraftAtLeast_Private(trial->task, &whole, layout, draft, nearest, &least));
  *may = IsFaster(trial, least);
  return RENGA_SUCCESS;
}

static RengaErrorCode TryEager(SearchTrial *trial, SearchLayout *layout, const SearchDraft *draft,
                               const int rank[], int64_t rounds)
{
  layout->schedule = (SearchSchedule){0};
  for (; layout->schedule.eager < HUGE_VAL;
       layout->schedule.eager = NextEager(layout->schedule.eager, layout->count, rounds))
    RengaCall(TrySchedule(trial, layout, draft, rank));
  RengaCall(TryOfList(trial, layout, draft, rank, SEARCH_WHOLE - 1, SEARCH_WHOLE));
  return RENGA_SUCCESS;
}

static RengaErrorCode TrySchedules(SearchTrial *trial, SearchLayout *layout,
                                   const SearchDraft *draft, const int rank[])
{
  int64_t rounds = 0;
  bool may = false;
  for (int s = 0; s < layout->count; s++) {
    const int64_t own =
        RengaSearchCandidateOf_Private(&trial->model, &layout->stage[s].shape).rounds;
    if (own > rounds) rounds = own;
  }
  if (!trial->task->any_schedule || layout->count == 1) {
    layout->schedule = trial->task->schedule;
    RengaCall(TrySchedule(trial, layout, draft, rank));
    return RENGA_SUCCESS;
  }
  if (trial->bounded.halves.open)
    RengaCall(TryOfList(trial, layout, draft, rank, SEARCH_WHOLE,
                        rounds == 1 ? SEARCH_WHOLE + 1 : SEARCH_SCHEDULES));
  RengaCall(WholeMayBeFaster(trial, layout, draft, !rank, &may));
  if (!may) return RENGA_SUCCESS;
  if (rounds == 1) /* they come in one order */
    RengaCall(TryOfList(trial, layout, draft, rank, 0, 1));
  else if (trial->eager_most > 0 && (layout->count - 1) * rounds > trial->eager_most)
    RengaCall(TryOfList(trial, layout, draft, rank, 0, SEARCH_WHOLE)); /* of a long step a few */
  else
    RengaCall(TryEager(trial, layout, draft, rank, rounds));
  return RENGA_SUCCESS;
}

/* What its slowest stage takes at the least; HUGE_VAL: one does not fit. */
static double LeastOf(const SearchModel *model, const SearchLayout *layout)
{
  double least = 0;
  int behind = 0;
  for (int s = layout->count - 1; s >= 0; s--) {
    const SearchStage *stage = &layout->stage[s];
    const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &stage->shape);
    least = fmax(least, RengaSearchStageAtLeast_Private(model, &candidate, stage->begin, stage->end,
                                                        behind));
    behind += candidate.devices;
  }
  return least;
}

/* On the draft's placement, or as if all stages lay side by side. */
static RengaErrorCode TrialMayBeFaster(const SearchTrial *trial, const SearchLayout *layout,
                                       const SearchDraft *draft, bool nearest, bool *may)
{
  double least = 0;
  RengaCall(RengaSearchDraftAtLeast_Private(trial->task, &trial->bounded, layout, draft, nearest,
                                            &least));
  *may = IsFaster(trial, least);
  return RENGA_SUCCESS;
}

static RengaErrorCode TryPlaces(SearchTrial *trial, SearchLayout *layout, const SearchDraft *draft)
{
  bool may = false;
  RengaCall(TrialMayBeFaster(trial, layout, draft, true, &may));
  if (!may) return RENGA_SUCCESS;
  RengaCall(FindTrialPlaces(trial, layout));
  for (int p = 0; p < trial->places.count; p++) {
    const int *rank = trial->places.rank + (int64_t)p * trial->places.ranks;
    RengaCall(RengaPlanSetRanks(draft->plan, rank));
    RengaCall(TrialMayBeFaster(trial, layout, draft, false, &may));
    if (may) RengaCall(TrySchedules(trial, layout, draft, rank));
  }
  if (!trial->places.all && !trial->simply) RengaCall(TrySchedules(trial, layout, draft, NULL));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchTry_Private(SearchTrial *trial, SearchLayout *layout)
{
  SearchDraft draft;
  RengaSearchTakeFirstPolicy_Private(&trial->model, layout);
  RengaSearchTakeExchanges_Private(NULL, layout);
  SearchModel best = trial->model; /* wherever stages lie */
  best.kinds = NULL;
  if (!RengaSearchEvaluate_Private(&best, layout)) return RENGA_SUCCESS;
  if (!IsFaster(trial, LeastOf(&trial->bounded, layout))) return RENGA_SUCCESS;
  RengaCall(
      RengaSearchDraftCreate_Private(trial->task, trial->chain, &trial->model, layout, &draft));
  const RengaErrorCode code = TryPlaces(trial, layout, &draft);
  RengaSearchDraftFree_Private(&draft);
  RengaCall(code);
  return RENGA_SUCCESS;
}
