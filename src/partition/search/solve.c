/* The search from the task to the answer: sizes of micro-batches, placements, all ways to look for
   layouts; then what the runtime says of the best one's memory, until it fits. */
#include "portfolio.h"
#include "solution.h"
#include <math.h>

enum {
  LABEL_WORK = 4000000,
  LABEL_WORK_BLIND = 400000,
  FITTING_ROUNDS = 8,
  CHAIN_LONG = 5000,
  CHAIN_SMALL = 500, /* of a small problem, on so many devices */
  DEVICES_SMALL = 8,
  DEVICES_FEW = 32,       /* of which every number of replicas is looked at */
  IMPROVE_WORK = 5000000, /* actions, about, of all that is tried */
  EAGER_FEW = 1,
  PROBLEM_LARGE = 200000 /* places times devices */
};
static const double memory_matters = 0.8; /* share of a device's memory from which on */

RengaErrorCode RengaSearchQuickly_Private(const SearchModel *model, SearchLayout *best)
{
  if (model->count > CHAIN_LONG) {
    RengaCall(RengaSearchCoarse_Private(model, best));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSearchEqual_Private(model, best));
  if (model->unequal) RengaCall(RengaSearchCover_Private(model, best));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchLayouts_Private(const SearchTask *task, const SearchModel *model,
                                          SearchLayout *best, bool *proved)
{
  *proved = false;
  if (!model->n_options || !model->count) return RENGA_SUCCESS;
  if (task->find) {
    RengaCall(task->find(task->context, task, model, best));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSearchQuickly_Private(model, best));
  if (!task->thorough && best->count) return RENGA_SUCCESS;
  const bool exact = task->exact && task->thorough;
  if (!exact && model->count > CHAIN_LONG) return RENGA_SUCCESS;
  const int64_t work = task->thorough ? LABEL_WORK : LABEL_WORK_BLIND;
  RengaCall(RengaSearchLabels_Private(model, task->until, exact ? 0 : work, best, proved));
  return RENGA_SUCCESS;
}

static void Better(SearchCandidate *candidate, SearchCandidate *best)
{
  if (candidate->layout.count &&
      (!best->layout.count || candidate->layout.step < best->layout.step)) {
    RengaSearchLayoutFree_Private(&best->layout);
    *best = *candidate;
  } else {
    RengaSearchLayoutFree_Private(&candidate->layout);
  }
}

static RengaErrorCode TrySize(const SearchTask *task, const SearchChain *chain, int size,
                              bool spread, SearchCandidate *best)
{
  SearchModel model = {0};
  SearchCandidate candidate = {.size = size, .spread = spread};
  RengaCall(RengaSearchModelOf_Private(task, chain, size, spread, &model));
  const RengaErrorCode code =
      RengaSearchLayouts_Private(task, &model, &candidate.layout, &candidate.proved);
  RengaSearchModelFree_Private(&model);
  if (code) RengaSearchLayoutFree_Private(&candidate.layout);
  RengaCall(code);
  Better(&candidate, best);
  return RENGA_SUCCESS;
}

/* Replicas spread over groups are a way of their own only where there are groups. */
RengaErrorCode RengaSearchHasGroups_Private(const SearchTask *task, bool *groups)
{
  const RengaMachineLevel *levels;
  int count = 0;
  *groups = false;
  if (!task->machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetLevels(task->machine, &count, &levels));
  *groups = count > 1 && levels[0].devices < task->ranks && levels[0].devices > 1;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchBest_Private(const SearchTask *task, const SearchChain *chain,
                                       SearchCandidate *best)
{
  bool groups = false;
  *best = (SearchCandidate){.bound = HUGE_VAL};
  RengaCall(RengaSearchHasGroups_Private(task, &groups));
  for (int i = 0; i < task->n_sizes; i++) {
    if (i >= task->n_first && best->layout.count) break;
    RengaCall(TrySize(task, chain, i, false, best));
    if (groups) RengaCall(TrySize(task, chain, i, true, best));
  }
  return RENGA_SUCCESS;
}

/* The best layout under a bound on what the search estimates. */
static RengaErrorCode SolveUnder(Solution *solution, double memory)
{
  SearchTask task = *solution->task;
  task.memory = memory;
  RengaSolutionFree_Private(solution);
  solution->allowed = memory;
  solution->replicas = task.replicas;
  solution->equal = task.equal;
  RengaCall(RengaSearchBest_Private(&task, solution->chain, &solution->candidate));
  if (solution->candidate.layout.count) RengaCall(RengaSolutionTry_Private(&task, solution));
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
    if (solution->hopeless) return RENGA_SUCCESS;
    const bool found = solution->candidate.layout.count > 0;
    if (allowed < bound) solution->candidate.proved = false;
    *fits = found && (bound <= 0 || solution->most <= bound);
    if (found && !*fits && solution->give_up > 0 &&
        (solution->candidate.layout.step >= solution->give_up || solution->most > 2 * bound))
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
    solution->candidate.proved = false; /* of a part of all layouts at the most */
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
    if (!other->candidate.layout.count) return RENGA_SUCCESS;
    if (allowed < bound) other->candidate.proved = false;
    *fits = RengaSolutionFits_Private(other);
    allowed *= fmin(0.999, fmax(0.5, bound / other->most));
  }
  if (!*fits) return RENGA_SUCCESS;
  RengaCall(RengaSolutionSettle_Private(other));
  return RENGA_SUCCESS;
}

/* After the quick searches have led to what fits. */
static RengaErrorCode Refine(Solution *solution)
{
  SearchTask task = *solution->task;
  Solution other = {.task = &task, .chain = solution->chain};
  bool fits = false;
  if (task.find) return RENGA_SUCCESS;
  task.thorough = true;
  task.replicas = solution->replicas;
  task.equal = solution->equal;
  const RengaErrorCode code = LookAtAll(solution, task.memory, &other, &fits);
  const bool best = fits && other.step <= solution->step;
  const bool proved = best && other.candidate.proved && task.replicas == solution->task->replicas &&
                      task.equal == solution->task->equal;
  RengaSolutionTakeFaster_Private(solution, !best, &other, fits && !code);
  solution->candidate.proved = proved;
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
  const bool stricter = task.find && solution->model.memory < task.memory;
  if (RengaSearchIsEqual_Private(&solution->candidate.layout) && !stricter) return RENGA_SUCCESS;
  task.equal = true;
  RengaErrorCode code = RengaSolutionTryFit_Private(&equal, &fits);
  if (!code && fits) code = Refine(&equal);
  RengaSolutionTakeFaster_Private(solution, true, &equal, fits && !code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Replicas of a stage side by side reduce fastest: spread ones need no bound of their own. */
RengaErrorCode RengaSearchBoundOf_Private(const SearchTask *task, const SearchChain *chain,
                                          int size, double *bound)
{
  SearchModel model = {0};
  *bound = HUGE_VAL;
  RengaCall(RengaSearchModelOf_Private(task, chain, size, false, &model));
  RengaErrorCode code = RENGA_SUCCESS;
  if (model.n_options && model.count)
    code = RengaSearchBound_Private(&model, task->stages > 1 ? task->stages : 1, bound);
  RengaSearchModelFree_Private(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Estimates err differently with the replicas: one strict bound for all may leave nothing, where
   each number by itself is brought to fit. More replicas take more memory: the first that do not
   fit are the last. */
RengaErrorCode RengaSolutionFitReplicas_Private(Solution *solution, bool *fits)
{
  bool one_fits = true;
  for (int replicas = 1; replicas <= solution->task->ranks && one_fits; replicas *= 2) {
    SearchTask task = *solution->task;
    Solution one = {.task = &task, .chain = solution->chain};
    task.replicas = replicas;
    const RengaErrorCode code = RengaSolutionTryFit_Private(&one, &one_fits);
    RengaSolutionTakeFaster_Private(solution, *fits, &one, one_fits && !code);
    RengaCall(code);
    *fits = *fits || one_fits;
  }
  return RENGA_SUCCESS;
}

/* A layout with its schedule instead of what was found. */
static RengaErrorCode TakeAim(Solution *solution, SearchAim *aim)
{
  SearchTask task = *solution->task;
  task.gpipe = aim->gpipe;
  task.eager = aim->eager;
  task.memory = 0; /* what recomputes is decided */
  RengaSolutionFree_Private(solution);
  solution->candidate = aim->candidate;
  solution->step = aim->step;
  RengaCall(RengaSolutionWeigh_Private(&task, solution));
  return RENGA_SUCCESS;
}

/* The layout that needs the least memory, whatever it takes: without it a refusal, which names its
   memory, could be wrong. */
static RengaErrorCode Squeeze(Solution *solution, bool *fits)
{
  SearchTask task = *solution->task;
  if (task.memory <= 0 || task.find) return RENGA_SUCCESS;
  RengaSolutionFree_Private(solution);
  RengaCall(RengaSearchSqueeze_Private(&task, solution->chain, task.ranks, &solution->candidate,
                                       &task.memory));
  solution->allowed = task.memory;
  solution->replicas = task.replicas;
  solution->equal = task.equal;
  if (!solution->candidate.layout.count) return RENGA_SUCCESS;
  RengaCall(RengaSolutionWeigh_Private(&task, solution));
  *fits = RengaSolutionFits_Private(solution);
  if (*fits) RengaCall(RengaSolutionSettle_Private(solution));
  return RENGA_SUCCESS;
}

/* Long chains: equal replicas first, whose memory is estimated well; then any, as long as the model
   says that they are faster, and the runtime that they are not far from fitting. */
static RengaErrorCode FitLong(Solution *solution, bool *fits)
{
  SearchTask task = *solution->task;
  Solution equal = {.task = &task, .chain = solution->chain};
  Solution any = {.task = solution->task, .chain = solution->chain};
  bool any_fits = false;
  task.equal = true;
  RengaErrorCode code = RengaSolutionTryFit_Private(&equal, fits);
  RengaSolutionTakeFaster_Private(solution, false, &equal, *fits && !code);
  RengaCall(code);
  if (*fits) any.give_up = solution->candidate.layout.step;
  code = RengaSolutionTryFit_Private(&any, &any_fits);
  RengaSolutionTakeFaster_Private(solution, *fits, &any, any_fits && !code);
  RengaCall(code);
  *fits = *fits || any_fits;
  return RENGA_SUCCESS;
}

static bool IsLong(const Solution *solution)
{
  return solution->chain->count > CHAIN_LONG && !solution->task->exact && !solution->task->find;
}

static RengaErrorCode FitAny(Solution *solution, bool *fits)
{
  RengaCall(IsLong(solution) ? FitLong(solution, fits)
                             : RengaSolutionTryFit_Private(solution, fits));
  if (!*fits && !solution->task->replicas)
    RengaCall(RengaSolutionFitReplicas_Private(solution, fits));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionFind_Private(Solution *solution, bool *fits)
{
  *fits = false;
  RengaCall(FitAny(solution, fits));
  if (*fits && !IsLong(solution)) {
    RengaCall(Refine(solution));
    RengaCall(CompareEqual(solution));
  }
  RengaCall(RengaSolutionChallenge_Private(solution, fits));
  return RENGA_SUCCESS;
}

/* A row of the task, a micro-batch with a leaf, by itself. */
static SearchTask TaskOfRow(const SearchTask *task, int row)
{
  SearchTask own = *task;
  own.size += row;
  own.leaf += row;
  own.costs += row;
  own.n_sizes = own.n_first = 1;
  return own;
}

bool RengaSearchIsSmall_Private(const SearchTask *task, const SearchChain *chain)
{
  return !task->find && task->ranks <= DEVICES_SMALL && chain->count <= CHAIN_SMALL;
}

bool RengaSearchIsLarge_Private(const SearchTask *task, const SearchChain *chain)
{
  return (int64_t)task->ranks * chain->count > PROBLEM_LARGE;
}

/* Of a small problem all ways of looking, of others changes to what was found. */
static RengaErrorCode GoOn(Solution *solution, double *bound)
{
  SearchTask task = *solution->task;
  SearchAim aim = {.step = solution->step};
  task.every = true;
  RengaCall(RengaSearchLayoutCopy_Private(&solution->candidate.layout, &aim.candidate.layout));
  const RengaErrorCode code =
      RengaSearchIsSmall_Private(&task, solution->chain)
          ? RengaSearchPortfolio_Private(&task, solution->chain, &aim, bound)
          : RengaSearchImprove_Private(&task, solution->chain, false, EAGER_FEW, IMPROVE_WORK,
                                       &aim);
  if (code || !aim.found) RengaSearchLayoutFree_Private(&aim.candidate.layout);
  RengaCall(code);
  if (aim.found) RengaCall(TakeAim(solution, &aim));
  return RENGA_SUCCESS;
}

/* One row, or all together (row -1); where there is a bound what is found is gone on from. */
static RengaErrorCode FitTask(Solution *solution, const SearchTask *task, int row, double *bound,
                              bool *fits)
{
  Solution one = {.task = task, .chain = solution->chain};
  bool one_fits = false;
  RengaErrorCode code = RengaSolutionFind_Private(&one, &one_fits);
  if (!code && one_fits && bound) code = GoOn(&one, bound);
  if (row >= 0) one.candidate.size = row;
  RengaSolutionTakeFaster_Private(solution, *fits, &one, one_fits && !code);
  RengaCall(code);
  *fits = *fits || one_fits;
  return RENGA_SUCCESS;
}

/* Type exact begins with what type auto finds, so that it is never behind. */
static RengaErrorCode FitExactly(Solution *solution, const SearchTask *task, int row, double *bound,
                                 bool *fits)
{
  SearchTask quick = *task;
  const bool goes_on =
      row >= 0 && !task->find && !RengaSearchIsLarge_Private(task, solution->chain);
  quick.exact = false;
  quick.until = 0;
  RengaCall(FitTask(solution, &quick, row, goes_on ? bound : NULL, fits));
  if (!task->exact || (goes_on && *fits && *bound >= solution->step * (1 - 1e-9)))
    return RENGA_SUCCESS;
  RengaCall(FitTask(solution, task, row, NULL, fits));
  return RENGA_SUCCESS;
}

static RengaErrorCode FitRow(Solution *solution, int row, double *bound, bool *fits)
{
  const SearchTask task = TaskOfRow(solution->task, row);
  RengaCall(FitExactly(solution, &task, row, bound, fits));
  return RENGA_SUCCESS;
}

static bool IsFirstLeaf(const SearchTask *task, int row)
{
  for (int r = 0; r < row; r++)
    if (task->size[r] == task->size[row] && task->leaf[r] <= task->leaf[row]) return false;
  return true;
}

/* Larger leaves have fewer buffers of gradients and no other merit, with which other plans fit. Of
   small problems they are left alone only where every plan does. */
static RengaErrorCode MemoryMatters(const Solution *solution, bool *matters)
{
  const double memory = solution->task->memory;
  bool ample = true, recomputes = false;
  for (int s = 0; s < solution->candidate.layout.count; s++)
    recomputes = recomputes || RengaSearchRecomputes_Private(&solution->candidate.layout.stage[s]);
  *matters = memory > 0 && (recomputes || solution->most > memory_matters * memory);
  if (!RengaSearchIsSmall_Private(solution->task, solution->chain)) return RENGA_SUCCESS;
  for (int row = 0; row < solution->task->n_sizes && ample; row++) {
    const SearchTask task = TaskOfRow(solution->task, row);
    RengaCall(RengaSearchIsAmple_Private(&task, solution->chain, &ample));
  }
  *matters = *matters || !ample;
  return RENGA_SUCCESS;
}

/* The row with the smallest bound of those that are left, -1: none. */
static int NextRow(int count, const double bound[], const bool done[])
{
  int next = -1;
  for (int r = 0; r < count; r++)
    if (!done[r] && (next < 0 || bound[r] < bound[next])) next = r;
  return next;
}

/* Rows one after the other, those with the smallest bounds first, and each whose bound leaves it a
   chance. */
static RengaErrorCode FitEach(Solution *solution, bool leaves, double bound[], bool done[],
                              bool *fits)
{
  const SearchTask *task = solution->task;
  for (int row; (row = NextRow(task->n_sizes, bound, done)) >= 0;) {
    done[row] = true;
    if (*fits && bound[row] >= solution->step * (1 - 1e-9)) continue;
    if (!leaves && !IsFirstLeaf(task, row)) continue;
    RengaCall(FitRow(solution, row, &bound[row], fits));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FitRows(Solution *solution, double bound[], bool *fits)
{
  const SearchTask *task = solution->task;
  bool *done = NULL;
  for (int r = 0; r < task->n_sizes; r++)
    RengaCall(RengaSearchBoundOf_Private(task, solution->chain, r, &bound[r]));
  if (RengaSearchIsLarge_Private(task, solution->chain) && task->n_sizes > 1) {
    RengaCall(FitExactly(solution, task, -1, NULL, fits));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaMalloc(task->n_sizes, &done));
  bool leaves = true;
  RengaErrorCode code = FitEach(solution, false, bound, done, fits);
  if (!code && *fits) code = MemoryMatters(solution, &leaves);
  if (!code && leaves) {
    for (int r = 0; r < task->n_sizes; r++) done[r] = IsFirstLeaf(task, r);
    code = FitEach(solution, true, bound, done, fits);
  }
  RengaFree(&done);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* All layouts of a row that may be faster are simulated, as far as time goes. */
static RengaErrorCode LookAtRest(Solution *solution, int row, double *bound)
{
  SearchTask task = TaskOfRow(solution->task, row);
  SearchAim aim = {.step = solution->step};
  task.every = true;
  RengaCall(RengaSearchBranch_Private(&task, solution->chain, 0, &aim, bound));
  if (!aim.found) return RENGA_SUCCESS;
  aim.candidate.size = row;
  RengaCall(TakeAim(solution, &aim));
  return RENGA_SUCCESS;
}

/* Bounds of the searches themselves are under estimates of memory and of some layouts: these are of
   all. */
static RengaErrorCode FindBound(Solution *solution, double bound[])
{
  const SearchTask *task = solution->task;
  double least = solution->step;
  for (int r = 0; r < task->n_sizes && task->exact && task->ranks <= DEVICES_FEW; r++)
    if (bound[r] < solution->step * (1 - 1e-9)) RengaCall(LookAtRest(solution, r, &bound[r]));
  for (int r = 0; r < task->n_sizes; r++) least = fmin(least, bound[r]);
  solution->candidate.bound = fmin(least, solution->step);
  solution->candidate.proved = least >= solution->step * (1 - 1e-9);
  return RENGA_SUCCESS;
}

/* Rows on which results depend, and which nobody asked for, are looked at only where nothing fits
   in those of the task. */
static RengaErrorCode FitAll(Solution *solution, const SearchTask *all, double bound[])
{
  bool fits = false;
  RengaCall(FitRows(solution, bound, &fits));
  if (!fits && all->n_sizes > solution->task->n_sizes) {
    solution->task = all;
    RengaCall(FitRows(solution, bound, &fits));
  }
  if (!fits) RengaCall(Squeeze(solution, &fits));
  if (!fits) RengaCall(RengaSearchRefuse_Private(solution->task, solution->chain));
  RengaCall(FindBound(solution, bound));
  return RENGA_SUCCESS;
}

static RengaErrorCode Fit(Solution *solution, const SearchTask *all)
{
  double *bound = NULL;
  RengaCall(RengaMalloc(all->n_sizes, &bound));
  const RengaErrorCode code = FitAll(solution, all, bound);
  RengaFree(&bound);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeGiven(Solution *solution)
{
  RengaCall(RengaSolutionTake_Private(solution));
  double bound = HUGE_VAL;
  RengaCall(RengaSearchBoundOf_Private(solution->task, solution->chain, 0, &bound));
  RengaCall(FindBound(solution, &bound));
  if (!isfinite(bound)) solution->candidate.bound = 0; /* it is over the memory */
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchSolve_Private(const SearchTask *task, SearchAnswer *answer)
{
  const RengaMemoryForecast *forecast = RengaSearchForecast_Private();
  void *session = NULL;
  SearchTask own = *task, first;
  SearchChain chain = {0};
  Solution solution = {.task = &first, .chain = &chain};
  own.session = &session;
  if (task->exact && task->time_limit > 0) own.until = MPI_Wtime() + task->time_limit;
  first = own;
  first.n_sizes = own.n_first;
  *answer = (SearchAnswer){0};
  RengaErrorCode code = RengaSearchChainCreate_Private(task->graph, &chain);
  if (!code) code = task->given ? TakeGiven(&solution) : Fit(&solution, &own);
  if (!code) code = RengaSolutionAnswer_Private(&solution, answer);
  RengaSolutionFree_Private(&solution);
  if (forecast) forecast->end(&session);
  RengaSearchChainFree_Private(&chain);
  if (code) RengaSearchAnswerFree_Private(answer);
  RengaCall(code);
  return RENGA_SUCCESS;
}
