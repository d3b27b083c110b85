/* The best layout that the runtime's memory forecast lets pass: the bound on estimates is made
   stricter or looser until what is found under it fits, then the layouts around it are searched. */
#include "solution.h"
#include <math.h>
#include <stdlib.h>

enum { FITTING_ROUNDS = 8 };

/* The best layout under a bound on what the search estimates. */
static RengaErrorCode SolveUnder(Solution *solution, double memory)
{
  SearchTask task = *solution->task;
  task.memory = memory;
  RengaSolutionFree_Private(solution);
  solution->allowed = memory;
  solution->wanted = task.wanted;
  RengaCall(RengaSearchBest_Private(&task, solution->chain, &solution->layout, &solution->proved));
  if (solution->layout.count) RengaCall(RengaSolutionTry_Private(&task, solution));
  return RENGA_SUCCESS;
}

/* The estimate is made stricter until what the runtime needs fits, or looser if nothing is found:
   it may be too high as well. */
RengaErrorCode RengaSolutionTryFit_Private(Solution *solution, bool *fits)
{
  const double bound = solution->task->memory;
  double allowed = bound;
  *fits = false;
  for (int round = 0; round < FITTING_ROUNDS; round++) {
    RengaCall(SolveUnder(solution, allowed));
    if (solution->hopeless && round == 0) return RENGA_SUCCESS;
    if (solution->hopeless) break; /* what is allowed now is stricter than what is estimated */
    const bool found = solution->layout.count > 0;
    if (allowed < bound) solution->proved = false;
    *fits = found && (bound <= 0 || solution->most <= bound);
    if (found && !*fits && solution->give_up > 0 &&
        (solution->layout.step >= solution->give_up || solution->most > 2 * bound))
      break;
    if (*fits) RengaCall(RengaSolutionSettle_Private(solution));
    if (bound <= 0 || *fits) return RENGA_SUCCESS;
    if (found)
      allowed *= fmin(0.999, fmax(0.5, bound / solution->most));
    else if (allowed >= bound && allowed < 1.5 * bound)
      allowed *= 1.2;
    else
      break;
  }
  solution->hopeless = false;
  return RENGA_SUCCESS;
}

/* The faster of two that fit, in simulated seconds; the other is freed. */
void RengaSolutionTakeFaster_Private(Solution *solution, bool fits, Solution *other,
                                     bool other_fits)
{
  if (other_fits && (!fits || other->step < solution->step)) {
    const Solution old = *solution;
    *solution = *other;
    solution->task = old.task;
    solution->proved = false; /* of a part of all layouts at the most */
    *other = old;
  }
  RengaSolutionFree_Private(other);
}

/* All layouts, as far as time goes, under the bound and for the replicas that led to what was
   found; the bound is made stricter while what that leads to does not fit. */
static RengaErrorCode LookAtAll(const Solution *solution, double bound, Solution *other, bool *fits)
{
  double allowed = solution->allowed;
  const int rounds = solution->task->exact ? FITTING_ROUNDS : 1;
  *fits = false;
  for (int round = 0; round < rounds && !*fits; round++) {
    RengaCall(SolveUnder(other, allowed));
    if (!other->layout.count) return RENGA_SUCCESS;
    if (allowed < bound) other->proved = false;
    *fits = RengaSolutionFits_Private(other);
    allowed *= fmin(0.999, fmax(0.5, bound / other->most));
  }
  if (!*fits) return RENGA_SUCCESS;
  RengaCall(RengaSolutionSettle_Private(other));
  return RENGA_SUCCESS;
}

/* After the quick searches have led to what fits. */
static RengaErrorCode RefineSolution(Solution *solution)
{
  SearchTask task = *solution->task;
  Solution other = {.task = &task, .chain = solution->chain};
  bool fits = false;
  if (task.finder.find || !RengaSearchHasLabels_Private(&task, solution->chain->count))
    return RENGA_SUCCESS;
  task.thorough = true;
  task.wanted = solution->wanted;
  const RengaErrorCode code = LookAtAll(solution, task.memory, &other, &fits);
  const bool best = fits && other.step <= solution->step;
  const bool proved = best && other.proved &&
                      task.wanted.replicas == solution->task->wanted.replicas &&
                      task.wanted.equal == solution->task->wanted.equal;
  RengaSolutionTakeFaster_Private(solution, !best, &other, fits && !code);
  solution->proved = proved;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The model does not see that stages of different replicas may run out of micro-batches in flight;
   the simulation does. Where it says so, the best of equal replicas is taken; also where unequal
   ones made the bound on memory stricter than equal ones need, which ChallengeNeighbours would see
   to if the searches were not a type's own. */
static RengaErrorCode CompareEqual(Solution *solution)
{
  SearchTask task = *solution->task;
  Solution equal = {.task = &task, .chain = solution->chain};
  bool fits = false;
  const bool stricter = task.finder.find && solution->model.memory < task.memory;
  if (RengaSearchIsEqual_Private(&solution->layout) && !stricter) return RENGA_SUCCESS;
  task.wanted.equal = true;
  RengaErrorCode code = RengaSolutionTryFit_Private(&equal, &fits);
  if (!code && fits) code = RefineSolution(&equal);
  RengaSolutionTakeFaster_Private(solution, true, &equal, fits && !code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* So many replicas that each stage may have. */
typedef struct {
  int replicas;
  double bound; /* no plan of them is faster; 0: nobody knows */
} ReplicasRow;

static int CompareReplicasRows(const void *a, const void *b)
{
  const ReplicasRow *x = a, *y = b;
  if (x->bound != y->bound) return x->bound > y->bound ? 1 : -1;
  return x->replicas - y->replicas;
}

/* Powers of two, or where all are wanted also what divides the ranks; in a large problem the
   smallest bounds first, else the fewest replicas: if these do not fit, none do. */
static RengaErrorCode ListReplicas(const Solution *solution, bool all, int *count,
                                   ReplicasRow row[])
{
  const int ranks = solution->task->ranks;
  const bool sorts = RengaSearchIsLarge_Private(solution->task, solution->chain) &&
                     RengaSearchIsBounded_Private(&solution->task->schedule);
  *count = 0;
  for (int replicas = 1; replicas <= ranks; replicas++) {
    const bool power = !(replicas & (replicas - 1));
    SearchTask task = *solution->task;
    ReplicasRow *own = &row[*count];
    if (!power && !(all && ranks % replicas == 0)) continue;
    own->replicas = task.wanted.replicas = replicas;
    own->bound = 0;
    if (sorts) RengaCall(RengaSolutionLeastBound_Private(&task, solution->chain, &own->bound));
    if (isfinite(own->bound)) ++*count; /* some of them may fit */
  }
  qsort(row, (size_t)*count, sizeof *row, CompareReplicasRows);
  return RENGA_SUCCESS;
}

/* *one_fits: some plan of them does, or may. */
static RengaErrorCode FitRowOfReplicas(Solution *solution, const ReplicasRow *row, bool *fits,
                                       bool *one_fits)
{
  SearchTask task = *solution->task;
  Solution one = {.task = &task, .chain = solution->chain, .beat = solution->beat};
  task.wanted.replicas = row->replicas;
  if (*fits) one.beat = solution->step;
  const RengaErrorCode code = RengaSolutionTryFit_Private(&one, one_fits);
  const bool slow = one.hopeless, taken = *one_fits;
  RengaSolutionTakeFaster_Private(solution, *fits, &one, taken && !code);
  RengaCall(code);
  *fits = *fits || taken;
  *one_fits = taken || slow;
  return RENGA_SUCCESS;
}

static RengaErrorCode FitRowsOfReplicas(Solution *solution, bool all, ReplicasRow row[], bool *fits)
{
  int count = 0, most = solution->task->ranks;
  RengaCall(ListReplicas(solution, all, &count, row));
  for (int i = 0; i < count; i++) {
    bool one_fits = false;
    const double beat = *fits ? solution->step : solution->beat;
    if (beat > 0 && row[i].bound >= beat * (1 - 1e-9)) break;
    if (row[i].replicas > most) continue;
    RengaCall(FitRowOfReplicas(solution, &row[i], fits, &one_fits));
    if (!one_fits && !all) most = row[i].replicas - 1;
  }
  return RENGA_SUCCESS;
}

/* Estimates err differently with the replicas: one strict bound for all may leave nothing, where
   each number by itself is brought to fit. More replicas take more memory: than those that do not
   fit more need not be tried, unless they share gradients. */
RengaErrorCode RengaSolutionFitReplicas_Private(Solution *solution, bool *fits)
{
  const bool all = solution->task->shards.most >= RENGA_SHARD_GRADIENTS;
  ReplicasRow *row = NULL;
  RengaCall(RengaMalloc(solution->task->ranks + 1, &row));
  const RengaErrorCode code = FitRowsOfReplicas(solution, all, row, fits);
  RengaFree(&row);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Long chains: equal replicas first, whose memory is estimated well; then any, as long as the model
   says that they are faster, and the runtime that they are not far from fitting. */
static RengaErrorCode FitLong(Solution *solution, bool *fits)
{
  SearchTask task = *solution->task;
  const double beat = solution->beat;
  Solution equal = {.task = &task, .chain = solution->chain, .beat = beat};
  Solution any = {.task = solution->task, .chain = solution->chain, .beat = beat};
  bool any_fits = false;
  task.wanted.equal = true;
  RengaErrorCode code = RengaSolutionTryFit_Private(&equal, fits);
  RengaSolutionTakeFaster_Private(solution, false, &equal, *fits && !code);
  RengaCall(code);
  if (*fits) any.give_up = solution->layout.step;
  code = RengaSolutionTryFit_Private(&any, &any_fits);
  const bool any_slow = any.hopeless;
  RengaSolutionTakeFaster_Private(solution, *fits, &any, any_fits && !code);
  RengaCall(code);
  *fits = *fits || any_fits;
  solution->hopeless = !*fits && any_slow; /* among these are equal ones */
  return RENGA_SUCCESS;
}

static bool IsLong(const Solution *solution)
{
  return solution->chain->count > SEARCH_LONG && !solution->task->exact &&
         !solution->task->finder.find;
}

/* Nor do estimates err alike with the number of stages: of a small problem the first that fits,
   from which it is gone on. */
static RengaErrorCode FitStages(Solution *solution, bool *fits)
{
  const int ranks = solution->task->ranks, places = solution->chain->count;
  for (int stages = 1; stages <= ranks && stages <= places && !*fits; stages++) {
    SearchTask task = *solution->task;
    Solution one = {.task = &task, .chain = solution->chain, .beat = solution->beat};
    task.wanted.stages = stages;
    const RengaErrorCode code = RengaSolutionTryFit_Private(&one, fits);
    RengaSolutionTakeFaster_Private(solution, false, &one, *fits && !code);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FitAny(Solution *solution, bool *fits)
{
  const SearchTask *task = solution->task;
  RengaCall(IsLong(solution) ? FitLong(solution, fits)
                             : RengaSolutionTryFit_Private(solution, fits));
  const bool small = RengaSearchIsSmall_Private(task, solution->chain);
  const bool folds = task->shards.least >= RENGA_SHARD_GRADIENTS && !task->finder.find && !small;
  if ((folds || (!*fits && !solution->hopeless)) && !task->wanted.replicas)
    RengaCall(RengaSolutionFitReplicas_Private(solution, fits));
  if (!*fits && !solution->hopeless && !task->wanted.stages && !task->finder.find && small)
    RengaCall(FitStages(solution, fits));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionFit_Private(Solution *solution, bool *fits)
{
  *fits = false;
  RengaCall(FitAny(solution, fits));
  if (!*fits || IsLong(solution) || solution->task->halves_only) return RENGA_SUCCESS;
  RengaCall(RefineSolution(solution));
  RengaCall(CompareEqual(solution));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionSqueeze_Private(Solution *solution, bool *fits)
{
  SearchTask task = *solution->task;
  if (task.memory <= 0 || task.finder.find) return RENGA_SUCCESS;
  RengaSolutionFree_Private(solution);
  RengaCall(RengaSearchSqueeze_Private(&task, solution->chain, task.ranks, &solution->layout,
                                       &task.memory));
  solution->allowed = task.memory;
  solution->wanted = task.wanted;
  if (!solution->layout.count) return RENGA_SUCCESS;
  RengaCall(RengaSolutionWeigh_Private(&task, solution));
  *fits = RengaSolutionFits_Private(solution);
  if (*fits) RengaCall(RengaSolutionSettle_Private(solution));
  return RENGA_SUCCESS;
}
