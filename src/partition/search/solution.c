/* A layout as a plan: what it needs, what it can do without, and the schedule that suits it. */
#include "kept.h"
#include "kinds.h"
#include "solution.h"
#include "rengaschedule.h"
#include <math.h>

enum {
  ASKED_MOST = 500000, /* nodes whose memory was asked for, half a second */
  ASKED_SMALL = 8,     /* times as many, of a small problem in all ways of looking */
  ORDER_TURNS = 4096   /* of stages with micro-batches, in a step that is ordered within seconds */
};

static const double SCHEDULE_GAIN = 1e-9; /* share of the step */
static const double order_gain = 1e-3;    /* for which the bound is given up */

void RengaSolutionFree_Private(Solution *solution)
{
  RengaSearchModelFree_Private(&solution->model);
  RengaSearchLayoutFree_Private(&solution->layout);
  if (solution->plan) RengaPlanDestroy(&solution->plan);
  RengaFree(&solution->memory);
}

static RengaErrorCode FindMemory(Solution *solution)
{
  RengaFree(&solution->memory);
  RengaCall(RengaMalloc(solution->layout.count, &solution->memory));
  RengaCall(RengaSearchMemory_Private(solution->task, &solution->model, &solution->layout,
                                      solution->plan, solution->memory, &solution->most));
  RengaSearchTakeExchanges_Private(solution->memory, &solution->layout);
  return RENGA_SUCCESS;
}

static RengaErrorCode MixSolution(Solution *solution)
{
  RengaCall(RengaSearchMix_Private(solution->task, solution->chain, &solution->model,
                                   &solution->layout, &solution->plan, solution->memory,
                                   &solution->most));
  RengaSearchTakeExchanges_Private(solution->memory, &solution->layout);
  return RENGA_SUCCESS;
}

/* Where it does not fit, stages that recompute make a part of themselves again at a time. */
static RengaErrorCode FindLeastMemory(Solution *solution)
{
  RengaCall(FindMemory(solution));
  if (!RengaSolutionFits_Private(solution)) RengaCall(MixSolution(solution));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeSolutionPlan(const SearchTask *task, Solution *solution)
{
  SearchLayout *layout = &solution->layout;
  layout->schedule = task->schedule;
  RengaCall(RengaSearchModelFor_Private(task, solution->chain, layout, &solution->model));
  RengaCall(RengaSearchPlan_Private(task, solution->chain, layout, &solution->plan));
  RengaSearchTakeKinds_Private(&solution->model, solution->plan, layout);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionWeigh_Private(const SearchTask *task, Solution *solution)
{
  RengaCall(MakeSolutionPlan(task, solution));
  RengaCall(FindLeastMemory(solution));
  return RENGA_SUCCESS;
}

bool RengaSearchIsTired_Private(const SearchTask *task)
{
  return !task->exact && task->session && task->session->asked > ASKED_MOST;
}

bool RengaSearchIsSpent_Private(const SearchTask *task)
{
  return RengaSearchIsTired_Private(task) &&
         task->session->asked + task->session->before > (int64_t)ASKED_SMALL * ASKED_MOST;
}

bool RengaSolutionFits_Private(const Solution *solution)
{
  return solution->task->memory <= 0 || solution->most <= solution->task->memory;
}

RengaErrorCode RengaSolutionFindStep_Private(Solution *solution)
{
  RengaPlanPrediction prediction;
  RengaCall(RengaSearchPredict_Private(solution->task, &solution->model, &solution->layout,
                                       solution->chain->schedules, solution->plan, &prediction));
  solution->step = prediction.step;
  solution->pipeline = prediction.pipeline;
  return RENGA_SUCCESS;
}

/* Some stage does not keep its saved tensors. */
static bool SavesMemory(const SearchLayout *layout)
{
  for (int s = 0; s < layout->count; s++)
    if (layout->stage[s].shape.saved != RENGA_SAVED_KEEP) return true;
  return false;
}

/* The plan of the layout as it is now, and its memory, under the schedule of the model. */
static RengaErrorCode Replan(Solution *solution)
{
  solution->layout.schedule = solution->model.schedule;
  if (solution->plan) RengaCall(RengaPlanDestroy(&solution->plan));
  RengaCall(
      RengaSearchPlan_Private(solution->task, solution->chain, &solution->layout, &solution->plan));
  RengaCall(FindMemory(solution));
  return RENGA_SUCCESS;
}

/* The estimate, which makes stages recompute, may be too high: those that fit without do without,
   as it costs a forward pass. What a stage needs does not depend on others' recomputation. */
static RengaErrorCode DropRecomputation(Solution *solution)
{
  SearchLayout *layout = &solution->layout;
  RengaSaved *was = NULL;
  if (!SavesMemory(layout)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(layout->count, &was));
  for (int s = 0; s < layout->count; s++) {
    was[s] = layout->stage[s].shape.saved;
    layout->stage[s].shape.saved = solution->model.policies.saved[0];
    layout->stage[s].kept = (SearchKept){0};
  }
  RengaErrorCode code = Replan(solution);
  for (int s = 0; s < layout->count && !code; s++)
    if ((double)solution->memory[s].total > solution->task->memory)
      layout->stage[s].shape.saved = was[s];
  RengaFree(&was);
  RengaCall(code);
  if (SavesMemory(layout)) RengaCall(Replan(solution));
  return RENGA_SUCCESS;
}

/* Stages recompute only where they must, and then only what they must. */
static RengaErrorCode SettleSaved(Solution *solution)
{
  RengaCall(DropRecomputation(solution));
  RengaCall(MixSolution(solution));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionSpare_Private(Solution *solution)
{
  const SearchTask *task = solution->task;
  const bool open = !task->fixes_saved && solution->layout.chunks <= 1;
  if (RengaSearchSegments_Private(task)) RengaCall(MixSolution(solution));
  if (!open || RengaSolutionFits_Private(solution)) return RENGA_SUCCESS;
  for (int s = 0; s < solution->layout.count; s++)
    if ((double)solution->memory[s].total > task->memory)
      solution->layout.stage[s].shape.saved = RENGA_SAVED_RECOMPUTE;
  RengaCall(Replan(solution));
  RengaCall(MixSolution(solution));
  return RENGA_SUCCESS;
}

Solution RengaSolutionBeside_Private(const Solution *solution)
{
  return (Solution){.task = solution->task,
                    .chain = solution->chain,
                    .allowed = solution->allowed,
                    .wanted = solution->wanted,
                    .shards_too = solution->shards_too,
                    .folds_too = solution->folds_too,
                    .tried_folds = solution->tried_folds,
                    .proved = solution->proved,
                    .bound = solution->bound};
}

/* The same stages under another schedule, with a plan where it may fit. */
static RengaErrorCode PlanUnder(const Solution *solution, const SearchSchedule *schedule,
                                Solution *other)
{
  SearchTask task = *solution->task;
  SearchLayout *layout = &other->layout;
  task.schedule = *schedule;
  task.memory = solution->model.memory;
  RengaCall(RengaSearchLayoutCopy_Private(&solution->layout, layout));
  RengaCall(RengaSearchModelFor_Private(&task, other->chain, layout, &other->model));
  if (!RengaSearchEvaluate_Private(&other->model, layout)) return RENGA_SUCCESS;
  RengaCall(RengaSearchPlan_Private(&task, other->chain, layout, &other->plan));
  return RENGA_SUCCESS;
}

/* With its step, unless stages recompute: then that is not looked at before it is settled what. */
static RengaErrorCode Reschedule(const Solution *solution, const SearchSchedule *schedule,
                                 Solution *other)
{
  RengaCall(PlanUnder(solution, schedule, other));
  if (other->plan && !SavesMemory(&other->layout)) RengaCall(RengaSolutionFindStep_Private(other));
  return RENGA_SUCCESS;
}

static bool IsFasterThan(double step, const Solution *solution)
{
  return step < (1 - SCHEDULE_GAIN) * solution->step;
}

/* The other one as it is at best: recomputing is only what cannot be helped, where that may be
   faster than so many seconds. */
static RengaErrorCode FindLeastStep(double known, const Solution *other, double *step)
{
  SearchLayout layout = {0}, best = {.simulated = known};
  SearchTrial trial = {.task = other->task,
                       .chain = other->chain,
                       .model = other->model,
                       .bounded = other->model,
                       .best = &best};
  SearchDraft draft;
  trial.model.memory = 0;
  trial.bounded.memory = other->task->memory;
  RengaCall(RengaSearchLayoutCopy_Private(&other->layout, &layout));
  RengaSearchTakeFirstPolicy_Private(&trial.model, &layout);
  RengaSearchEvaluate_Private(&trial.model, &layout);
  RengaErrorCode code =
      RengaSearchDraftCreate_Private(trial.task, trial.chain, &trial.model, &layout, &draft);
  if (!code) {
    code = RengaSearchPredictForced_Private(&trial, &layout, &draft, false, step);
    RengaSearchDraftFree_Private(&draft);
  }
  RengaSearchLayoutFree_Private(&layout);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* To settle what recomputes takes long: it is done where it may lead to what is faster. Where all
   has to recompute how much of it is not known before. */
static RengaErrorCode MaySettleFaster(const Solution *solution, const Solution *other, bool *may)
{
  double least = other->step;
  *may = false;
  if (!other->plan) return RENGA_SUCCESS;
  if (SavesMemory(&other->layout) && other->task->fixes_saved) least = 0;
  if (SavesMemory(&other->layout) && !other->task->fixes_saved)
    RengaCall(FindLeastStep(solution->step, other, &least));
  *may = IsFasterThan(least, solution);
  return RENGA_SUCCESS;
}

/* Stages that recompute keep what there is room for at best, to find out what they do keep takes
   long; with the step. */
static RengaErrorCode MixAtBest(Solution *solution)
{
  RengaCall(RengaSearchMixAtBest_Private(solution->task, solution->chain, &solution->model,
                                         &solution->layout, solution->plan, solution->memory,
                                         NULL));
  RengaCall(RengaSolutionFindStep_Private(solution));
  return RENGA_SUCCESS;
}

static void KeepNone(SearchLayout *layout)
{
  for (int s = 0; s < layout->count; s++) layout->stage[s].kept = (SearchKept){0};
}

static bool MayMixSolution(const Solution *solution)
{
  return SavesMemory(&solution->layout) && solution->model.policies.mixed;
}

/* The same stages keep what there is room for on all ranks: taken where it costs hardly any time. */
static RengaErrorCode KeepForAll(Solution *solution, const SearchTask *task, bool *over)
{
  const Solution found = *solution;
  Solution other = RengaSolutionBeside_Private(solution);
  if (!MayMixSolution(solution)) return RENGA_SUCCESS;
  other.task = task;
  RengaErrorCode code = RengaSearchLayoutCopy_Private(&found.layout, &other.layout);
  KeepNone(&other.layout);
  if (!code) code = RengaSolutionWeigh_Private(task, &other);
  if (!code && RengaSolutionFits_Private(&other)) code = RengaSolutionFindStep_Private(&other);
  *over = code || other.step <= 0 || other.step > (1 + order_gain) * found.step;
  if (!*over) {
    *solution = other;
    solution->task = found.task;
    solution->proved = found.proved && other.step <= found.step;
    other = found;
  }
  RengaSolutionFree_Private(&other);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionAskAll_Private(Solution *solution, bool *over)
{
  SearchTask task = *solution->task;
  *over = false;
  if (!task.run.fullest) return RENGA_SUCCESS;
  task.run.fullest = false;
  RengaCall(RengaSearchMemory_Private(&task, &solution->model, &solution->layout, solution->plan,
                                      solution->memory, &solution->most));
  RengaSearchTakeExchanges_Private(solution->memory, &solution->layout);
  *over = !RengaSolutionFits_Private(solution);
  if (*over) RengaCall(KeepForAll(solution, &task, over));
  return RENGA_SUCCESS;
}

static RengaErrorCode MayMixFaster(const Solution *solution, Solution *other, bool *may)
{
  *may = true;
  if (!MayMixSolution(other)) return RENGA_SUCCESS;
  RengaCall(MixAtBest(other));
  KeepNone(&other->layout);
  *may = IsFasterThan(other->step, solution);
  return RENGA_SUCCESS;
}

/* The other one where it is faster by what its memory, and caches, are worth. */
static RengaErrorCode TakeFastestSchedule(Solution *solution, Solution *other)
{
  bool may = false;
  RengaCall(MaySettleFaster(solution, other, &may));
  if (!may) return RENGA_SUCCESS;
  RengaCall(FindLeastMemory(other));
  if (!RengaSolutionFits_Private(other)) return RENGA_SUCCESS;
  RengaCall(DropRecomputation(other));
  RengaCall(MayMixFaster(solution, other, &may));
  if (!may) return RENGA_SUCCESS;
  RengaCall(MixSolution(other));
  RengaCall(RengaSolutionFindStep_Private(other));
  if (!IsFasterThan(other->step, solution)) return RENGA_SUCCESS;
  const Solution old = *solution;
  *solution = *other;
  *other = old;
  return RENGA_SUCCESS;
}

/* Schedule number i is open, and messages, or waiting, leave something to gain by it. Those of a
   long chain that recomputes are left alone: to weigh one takes seconds, and it holds more
   micro-batches, for which more stages would recompute. */
static bool MayReschedule(const Solution *solution, int i)
{
  const bool halves = i >= SEARCH_WHOLE;
  const SearchLayout *layout = &solution->layout;
  if (solution->chain->count > SEARCH_LONG && SavesMemory(layout)) return false;
  if (!solution->task->any_schedule || layout->count == 1) return false;
  if (halves && !solution->model.halves.open) return false;
  if (!RengaSearchMaySimulate_Private(&solution->model, layout, 0)) return false;
  const double least = RengaSearchLeastPipeline_Private(&solution->model, layout, halves);
  return solution->pipeline - least > SCHEDULE_GAIN * solution->step;
}

/* Results are the same under any schedule, so that the fastest that fits is taken. What backwards
   in two parts win is mostly more than others can, which then need not be simulated. */
static RengaErrorCode ChooseSchedule(Solution *solution)
{
  for (int i = SEARCH_SCHEDULES - 1; i > 0; i--) {
    if (!MayReschedule(solution, i)) continue;
    Solution other = RengaSolutionBeside_Private(solution);
    RengaErrorCode code = Reschedule(solution, &RengaSearchScheduleList[i], &other);
    if (!code) code = TakeFastestSchedule(solution, &other);
    RengaSolutionFree_Private(&other);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionHalve_Private(Solution *solution, bool *taken)
{
  const double before = solution->step;
  solution->model.halves.open = true;
  for (int i = SEARCH_WHOLE; i < SEARCH_SCHEDULES; i++) {
    if (!MayReschedule(solution, i)) continue;
    Solution other = RengaSolutionBeside_Private(solution);
    RengaErrorCode code = Reschedule(solution, &RengaSearchScheduleList[i], &other);
    if (!code) code = TakeFastestSchedule(solution, &other);
    RengaSolutionFree_Private(&other);
    RengaCall(code);
    solution->model.halves.open = true;
  }
  *taken = solution->step < before;
  return RENGA_SUCCESS;
}

bool RengaSolutionMayOrder_Private(const Solution *solution)
{
  const SearchTask *task = solution->task;
  const int count = solution->layout.count;
  return task->any_schedule && !task->exact && !task->given && !task->finder.find &&
         !task->wanted.stages && !task->wanted.replicas && task->ranks > 1 && task->unit <= 1 &&
         task->lanes.ranks <= 1 && (double)solution->model.microbatches * count <= ORDER_TURNS;
}

void RengaSolutionTakeOrder_Private(Solution *solution, Solution *other)
{
  if (!other->plan || other->step >= (1 - order_gain) * solution->step) return;
  const Solution old = *solution;
  *solution = *other;
  *other = old;
  solution->bound = 0; /* it is one of other orders */
  solution->proved = false;
}

RengaErrorCode RengaSolutionOrder_Private(Solution *solution)
{
  static const SearchSchedule automatic = {.type = RENGA_SCHEDULE_AUTO};
  Solution other = RengaSolutionBeside_Private(solution), found = *solution;
  if (!RengaSolutionMayOrder_Private(solution) || solution->layout.count == 1) return RENGA_SUCCESS;
  RengaErrorCode code = Reschedule(solution, &automatic, &other);
  if (!code) code = TakeFastestSchedule(&found, &other);
  if (found.plan == solution->plan) {
    RengaSolutionFree_Private(&other);
  } else { /* the other one is the solution now */
    RengaSolutionTakeOrder_Private(solution, &found);
    RengaSolutionFree_Private(&found);
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What no schedule is faster than, were there memory enough: by the model where a step is too long
   to be simulated. */
static RengaErrorCode FreeStep(const Solution *solution, bool simulated, double *step)
{
  SearchModel model = solution->model;
  SearchLayout layout = {0};
  model.memory = 0;
  RengaCall(RengaSearchLayoutCopy_Private(&solution->layout, &layout));
  RengaSearchTakeFirstPolicy_Private(&model, &layout);
  RengaSearchEvaluate_Private(&model, &layout);
  *step = layout.step;
  if (simulated) {
    *step = RengaSearchLeastPipeline_Private(&model, &layout, false);
    if (model.halves.open)
      *step = fmin(*step, RengaSearchLeastPipeline_Private(&model, &layout, true));
  }
  RengaSearchLayoutFree_Private(&layout);
  return RENGA_SUCCESS;
}

/* Under its schedule; where stages recompute, at best. */
static RengaErrorCode StepAtBest(Solution *one, double known, double *step)
{
  *step = HUGE_VAL;
  if (!one->plan) return RENGA_SUCCESS;
  if (SavesMemory(&one->layout)) {
    RengaCall(FindLeastStep(known, one, step));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSolutionFindStep_Private(one));
  *step = one->step;
  return RENGA_SUCCESS;
}

/* Under any schedule that may be taken for it as it is: as many are looked at as it takes. */
static RengaErrorCode IsSlowUnderAll(Solution *solution, bool *slow)
{
  double step = HUGE_VAL;
  solution->pipeline = HUGE_VAL; /* of stages that recompute it is not known yet */
  RengaCall(StepAtBest(solution, solution->beat, &step));
  for (int i = SEARCH_SCHEDULES - 1; i > 0 && step >= solution->beat; i--) {
    double own = HUGE_VAL;
    if (!MayReschedule(solution, i)) continue;
    Solution other = RengaSolutionBeside_Private(solution);
    RengaErrorCode code = PlanUnder(solution, &RengaSearchScheduleList[i], &other);
    if (!code) code = StepAtBest(&other, solution->beat, &own);
    RengaSolutionFree_Private(&other);
    RengaCall(code);
    step = fmin(step, own);
  }
  *slow = step >= solution->beat;
  return RENGA_SUCCESS;
}

/* No schedule makes it as fast as it should be, were stages to recompute no more than they must. */
static RengaErrorCode IsSolutionHopeless(Solution *solution, bool *hopeless)
{
  const SearchLayout *layout = &solution->layout;
  const bool simulated = RengaSearchMaySimulate_Private(&solution->model, layout, 0);
  double step = 0;
  *hopeless = false;
  if (solution->beat <= 0) return RENGA_SUCCESS;
  if (!simulated || layout->chunks <= 1) RengaCall(FreeStep(solution, simulated, &step));
  *hopeless = step >= solution->beat;
  if (*hopeless || !simulated) return RENGA_SUCCESS;
  if (SavesMemory(layout) && solution->task->fixes_saved) return RENGA_SUCCESS;
  RengaCall(IsSlowUnderAll(solution, hopeless));
  return RENGA_SUCCESS;
}

/* With what stages have room for at best no schedule makes it as fast as it should be. */
static RengaErrorCode IsMixHopeless(Solution *solution, bool *hopeless)
{
  if (solution->beat <= 0 || !MayMixSolution(solution)) return RENGA_SUCCESS;
  RengaCall(MixAtBest(solution));
  double least = solution->pipeline;
  for (int i = 1; i < SEARCH_SCHEDULES; i++)
    if (MayReschedule(solution, i))
      least = fmin(least, RengaSearchLeastPipeline_Private(&solution->model, &solution->layout,
                                                           i >= SEARCH_WHOLE));
  KeepNone(&solution->layout);
  *hopeless = solution->step - solution->pipeline + least >= solution->beat;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionTry_Private(const SearchTask *task, Solution *solution)
{
  RengaCall(MakeSolutionPlan(task, solution));
  RengaCall(IsSolutionHopeless(solution, &solution->hopeless));
  if (solution->hopeless) return RENGA_SUCCESS;
  RengaCall(FindMemory(solution));
  if (RengaSolutionFits_Private(solution)) return RENGA_SUCCESS;
  RengaCall(IsMixHopeless(solution, &solution->hopeless));
  if (!solution->hopeless) RengaCall(MixSolution(solution));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionSettle_Private(Solution *solution)
{
  RengaCall(SettleSaved(solution));
  RengaCall(RengaSolutionFindStep_Private(solution));
  RengaCall(ChooseSchedule(solution));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionLeastBound_Private(const SearchTask *task, const SearchChain *chain,
                                               double *least)
{
  *least = HUGE_VAL;
  for (int r = 0; r < task->n_sizes; r++) {
    RengaCall(RengaSearchBoundOf_Private(task, chain, r, least));
  }
  return RENGA_SUCCESS;
}
