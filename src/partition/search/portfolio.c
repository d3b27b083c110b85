/* The plan of a small problem for one micro-batch and leaf: what every way of looking for layouts
   finds, for every number of stages and of replicas and for the memory of every kind of schedule,
   then tried under every schedule and placement.

   Whether a layout is found depends mostly on these numbers, so that a plan which is found with an
   option more is mostly found without it too. This is no proof: the first search of a task under an
   option is not among those of the task without it, memory is estimated for the task's own schedule
   and five others only, many rounds are tried under few schedules, and the exhaustive part ends at
   BRANCH_WORK for each number, and BRANCH_WORK_ALL. */
#include "kinds.h"
#include "portfolio.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  FITTING_ROUNDS = 8,
  BRANCH_WORK = 30000,
  BRANCH_WORK_SHORT = 100000,
  BRANCH_WORK_ALL = 300000,
  EAGER_MOST = 128,
  IMPROVE_WORK = 4000000
};

/* So many stages and replicas; 0: any. */
typedef struct {
  int stages, replicas;
  double bound; /* no plan of them is faster */
  double whole; /* nor one with whole backwards */
} StageCounts;

typedef struct {
  const SearchTask *task; /* of one row */
  const SearchChain *chain;
  SearchTrial trial;
  int64_t work; /* that is left for the exhaustive part */
  bool groups;
  int n_numbers;
  StageCounts *numbers; /* [n_numbers] of the smallest bounds first */
  int n_seen, size_seen;
  uint64_t *seen; /* [size_seen] hashes of layouts that were tried; 0: free */
} Portfolio;

/* All that a trial leaves as it is. */
static uint64_t PackShape(const RengaStageShape *shape)
{
  return (uint64_t)shape->replicas ^ (uint64_t)(shape->tensor - 1) << 24 ^
         (uint64_t)(shape->sequence - 1) << 36 ^ (uint64_t)(shape->chunks - 1) << 48 ^
         (uint64_t)shape->shard << 56 ^ (uint64_t)shape->precision << 60;
}

static uint64_t HashLayout(const SearchLayout *layout)
{
  uint64_t hash = 1469598103934665603u;
  for (int s = 0; s < layout->count; s++) {
    hash = (hash ^ (uint64_t)layout->stage[s].begin) * 1099511628211u;
    hash = (hash ^ PackShape(&layout->stage[s].shape)) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return hash ? hash : 1;
}

static void InsertHash(uint64_t hash, int size, uint64_t seen[])
{
  int at = (int)(hash % (uint64_t)size);
  while (seen[at] && seen[at] != hash) at = (at + 1) % size;
  seen[at] = hash;
}

static RengaErrorCode GrowSeen(Portfolio *portfolio)
{
  const int size = 2 * portfolio->size_seen + 1021;
  uint64_t *seen = NULL;
  if (2 * portfolio->n_seen < portfolio->size_seen) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(size, &seen));
  for (int i = 0; i < portfolio->size_seen; i++)
    if (portfolio->seen[i]) InsertHash(portfolio->seen[i], size, seen);
  RengaFree(&portfolio->seen);
  portfolio->seen = seen;
  portfolio->size_seen = size;
  return RENGA_SUCCESS;
}

static RengaErrorCode IsSeen(Portfolio *portfolio, uint64_t hash, bool *seen)
{
  RengaCall(GrowSeen(portfolio));
  int at = (int)(hash % (uint64_t)portfolio->size_seen);
  while (portfolio->seen[at] && portfolio->seen[at] != hash) at = (at + 1) % portfolio->size_seen;
  *seen = portfolio->seen[at] == hash;
  portfolio->seen[at] = hash;
  portfolio->n_seen += !*seen;
  return RENGA_SUCCESS;
}

/* Tries the stages of a layout, unless it was tried before. */
static RengaErrorCode Offer(Portfolio *portfolio, const SearchLayout *layout)
{
  SearchLayout own = {.count = layout->count};
  bool seen = false;
  RengaCall(IsSeen(portfolio, HashLayout(layout), &seen));
  if (seen) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(layout->count, &own.stage));
  memcpy(own.stage, layout->stage, (size_t)layout->count * sizeof *own.stage);
  const RengaErrorCode code = RengaSearchTry_Private(&portfolio->trial, &own);
  RengaSearchLayoutFree_Private(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The same stages with cuts where fewer bytes cross. */
static RengaErrorCode OfferMoved(Portfolio *portfolio, const SearchModel *model,
                                 const SearchLayout *layout)
{
  static const double slacks[] = {0.01, 0.03, 0.06, 0.1, 0.2};
  for (size_t i = 0; i < sizeof slacks / sizeof slacks[0] && layout->count > 1; i++) {
    SearchLayout moved = {0};
    RengaCall(RengaSearchLayoutCopy_Private(layout, &moved));
    RengaSearchMoveCuts_Private(model, slacks[i], &moved);
    const RengaErrorCode code = Offer(portfolio, &moved);
    RengaSearchLayoutFree_Private(&moved);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindMostMemory(const SearchTask *task, const SearchChain *chain,
                                     const SearchModel *model, const SearchLayout *layout,
                                     double *most)
{
  RengaForecastMemory *memory = NULL;
  RengaPlan plan = NULL;
  RengaErrorCode code = RengaMalloc(layout->count, &memory);
  if (!code) code = RengaSearchPlan_Private(task, chain, layout, &plan);
  if (!code) code = RengaSearchMemory_Private(task, model, layout, plan, memory, most);
  if (plan) RengaPlanDestroy(&plan);
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* *most: bytes of a device for what is found under the bound on estimates; 0: nothing is. */
static RengaErrorCode GenerateUnder(Portfolio *portfolio, const SearchTask *task, bool spread,
                                    double *most)
{
  SearchModel model = {0};
  SearchLayout layout = {0};
  bool proved = false;
  *most = 0;
  RengaCall(RengaSearchModelOf_Private(task, portfolio->chain, 0, spread, &model));
  RengaErrorCode code = RengaSearchLayouts_Private(task, &model, &layout, &proved);
  if (!code && model.kinds && !task->finder.find)
    code = RengaSearchKindLayouts_Private(task, portfolio->chain, 0, spread, &layout);
  if (!code && layout.count) code = Offer(portfolio, &layout);
  if (!code && layout.count) code = OfferMoved(portfolio, &model, &layout);
  if (!code && layout.count && task->memory > 0)
    code = FindMostMemory(task, portfolio->chain, &model, &layout, most);
  RengaSearchLayoutFree_Private(&layout);
  RengaSearchModelFree_Private(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Under stricter estimates of memory while what is found does not fit, or looser ones where nothing
   is. */
static RengaErrorCode Generate(Portfolio *portfolio, const SearchTask *wanted, bool spread)
{
  const double bound = wanted->memory;
  SearchTask task = *wanted;
  for (int round = 0; round < FITTING_ROUNDS; round++) {
    double most = 0;
    RengaCall(GenerateUnder(portfolio, &task, spread, &most));
    if (bound <= 0 || (most > 0 && most <= bound)) return RENGA_SUCCESS;
    if (most > 0)
      task.memory *= fmin(0.999, fmax(0.5, bound / most));
    else if (task.memory >= bound && task.memory < 1.5 * bound)
      task.memory *= 1.2;
    else
      return RENGA_SUCCESS;
  }
  return RENGA_SUCCESS;
}

/* Stages of which the earlier ones have more work. */
static RengaErrorCode GenerateSlants(Portfolio *portfolio, const SearchTask *wanted)
{
  static const double shares[] = {0, 0.3, 0.5, 0.75, 1};
  static const int windows[] = {0, 3, 8};
  SearchTask task = *wanted;
  if (!task.wanted.replicas) return RENGA_SUCCESS;
  task.wanted.equal = true;
  task.finder.find = RengaSearchSlant_Private;
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
    for (size_t j = 0; j < sizeof windows / sizeof windows[0]; j++) {
      const SearchSlant how = {.share = shares[i],
                               .window = windows[j],
                               .stages = task.wanted.stages ? task.wanted.stages
                                                            : task.ranks / task.wanted.replicas};
      task.finder.context = &how;
      RengaCall(Generate(portfolio, &task, false));
    }
  return RENGA_SUCCESS;
}

/* For the memory of one schedule. */
static RengaErrorCode GenerateFor(Portfolio *portfolio, const SearchTask *task)
{
  for (int spread = 0; spread <= portfolio->groups; spread++) {
    SearchTask equal = *task;
    RengaCall(Generate(portfolio, task, spread));
    equal.wanted.equal = true;
    if (!spread) RengaCall(Generate(portfolio, &equal, false));
  }
  RengaCall(GenerateSlants(portfolio, task));
  for (int r = 0; r < task->n_rivals; r++) {
    SearchTask rival = *task;
    Solution other = {.task = &rival, .chain = portfolio->chain};
    bool fits = false;
    rival.finder = task->rival[r];
    rival.n_rivals = 0;
    if (isfinite(portfolio->trial.best->simulated)) rival.beat = portfolio->trial.best->simulated;
    rival.wanted.every = false;
    RengaErrorCode code = RengaSolutionFit_Private(&other, &fits);
    if (!code && fits) code = Offer(portfolio, &other.layout);
    RengaSolutionFree_Private(&other);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

/* Of all stages that take less than the step no one needs more than half of the memory. */
static bool IsAmpleFor(const SearchModel *model, const SearchCandidate *candidate, double memory,
                       double step)
{
  for (int end = 1, begin = 0; end <= model->count; end++) {
    while (begin < end && RengaSearchStageAtLeast_Private(model, candidate, begin, end, 0) >= step)
      begin++;
    if (begin < end &&
        2 * RengaSearchStageBytes_Private(model, candidate, RENGA_SAVED_KEEP, begin, end, 1) >
            memory)
      return false;
  }
  return true;
}

RengaErrorCode RengaSearchIsAmple_Private(const SearchTask *task, const SearchChain *chain,
                                          double step, bool *ample)
{
  SearchTask all = *task;
  SearchModel model = {0};
  all.memory = 0;
  all.schedule.gpipe = true;
  all.wanted.stages = all.wanted.replicas = 0;
  all.wanted.every = true;
  RengaCall(RengaSearchModelOf_Private(&all, chain, 0, false, &model));
  *ample = true;
  for (int o = 0; o < model.n_candidates && task->memory > 0 && *ample; o++)
    *ample = IsAmpleFor(&model, &model.candidate[o], task->memory, step);
  RengaSearchModelFree_Private(&model);
  return RENGA_SUCCESS;
}

/* Without a bound on memory the schedule does not matter to the ways of looking; nor does that of
   others where only backwards in two parts may be faster. */
static RengaErrorCode GenerateAll(Portfolio *portfolio, const StageCounts *numbers)
{
  static const SearchSchedule schedules[] = {{false, 0, NULL}, {false, 1, NULL}, {true, 0, NULL}};
  SearchTask task = *portfolio->task;
  task.wanted.stages = numbers->stages;
  task.wanted.replicas = numbers->replicas;
  task.wanted.every = false;
  RengaCall(GenerateFor(portfolio, &task));
  task.any_schedule = false;
  const size_t all = sizeof schedules / sizeof schedules[0];
  const bool whole = numbers->whole < portfolio->trial.best->simulated * (1 - 1e-9);
  for (size_t i = 0; i < (whole ? all : 0) && task.memory > 0; i++) {
    task.schedule = schedules[i];
    RengaCall(GenerateFor(portfolio, &task));
  }
  for (int i = SEARCH_WHOLE; i < SEARCH_SCHEDULES && task.memory > 0; i++) {
    task.schedule = RengaSearchScheduleList[i]; /* they hold more of what the others find too */
    if (portfolio->task->any_schedule) RengaCall(Generate(portfolio, &task, false));
  }
  return RENGA_SUCCESS;
}

static int CompareStageCounts(const void *a, const void *b)
{
  const StageCounts *x = a, *y = b;
  if (x->bound != y->bound) return x->bound > y->bound ? 1 : -1;
  if (x->stages != y->stages) return x->stages > y->stages ? 1 : -1;
  return (x->replicas > y->replicas) - (x->replicas < y->replicas);
}

static RengaErrorCode ListNumbers(Portfolio *portfolio)
{
  const SearchTask *task = portfolio->task;
  const int ranks = task->ranks, count = portfolio->chain->count;
  const int most = ranks < count ? ranks : count;
  RengaCall(RengaMalloc((ranks + 1) * (ranks + 1), &portfolio->numbers));
  for (int s = task->wanted.stages; s <= (task->wanted.stages ? task->wanted.stages : most); s++)
    for (int r = task->wanted.replicas;
         r <= (task->wanted.replicas ? task->wanted.replicas : ranks); r++) {
      SearchTask own = *task;
      if (s * r > ranks) continue;
      own.wanted.stages = s;
      own.wanted.replicas = r;
      StageCounts *numbers = &portfolio->numbers[portfolio->n_numbers++];
      *numbers = (StageCounts){.stages = s, .replicas = r, .bound = HUGE_VAL, .whole = HUGE_VAL};
      RengaCall(RengaSearchBoundOf_Private(&own, portfolio->chain, 0, &numbers->bound));
      own.whole = true;
      RengaCall(RengaSearchBoundOf_Private(&own, portfolio->chain, 0, &numbers->whole));
    }
  qsort(portfolio->numbers, (size_t)portfolio->n_numbers, sizeof *portfolio->numbers,
        CompareStageCounts);
  return RENGA_SUCCESS;
}

static bool MayBeFaster(const Portfolio *portfolio, const StageCounts *numbers)
{
  return numbers->bound < portfolio->trial.best->simulated * (1 - 1e-9);
}

static RengaErrorCode LookAt(Portfolio *portfolio, const StageCounts *numbers, double *bound)
{
  SearchLayout *best = portfolio->trial.best;
  SearchLayout own = {.simulated = best->simulated};
  SearchTask task = *portfolio->task;
  task.wanted.stages = numbers->stages;
  task.wanted.replicas = numbers->replicas;
  task.until = 0;
  const int64_t most = portfolio->chain->count > SEARCH_SHORT ? BRANCH_WORK : BRANCH_WORK_SHORT;
  int64_t work = portfolio->work < most ? portfolio->work : most;
  portfolio->work -= work;
  const RengaErrorCode code =
      RengaSearchBranch_Private(&task, portfolio->chain, &work, &own, bound);
  portfolio->work += work > 0 ? work : 0;
  if (own.count) {
    RengaSearchLayoutFree_Private(best);
    *best = own;
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Every layout that may be faster, as far as work goes: of all numbers together, and if that is not
   the end of each by itself. */
static RengaErrorCode LookAtLayouts(Portfolio *portfolio, double *bound)
{
  SearchLayout *best = portfolio->trial.best;
  for (int i = 0; i < portfolio->n_numbers; i++) {
    const StageCounts *numbers = &portfolio->numbers[i];
    double own = numbers->bound;
    if (!MayBeFaster(portfolio, numbers) || portfolio->work <= 0 ||
        RengaSearchIsSpent_Private(portfolio->task))
      break;
    RengaCall(LookAt(portfolio, numbers, &own));
    if (numbers->stages != portfolio->task->wanted.stages ||
        numbers->replicas != portfolio->task->wanted.replicas)
      continue;
    *bound = fmax(*bound, own);
    if (own >= best->simulated * (1 - 1e-9)) break;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunPortfolio(Portfolio *portfolio, double *bound)
{
  RengaCall(ListNumbers(portfolio));
  for (int i = 0; i < portfolio->n_numbers; i++)
    if (MayBeFaster(portfolio, &portfolio->numbers[i]) &&
        !RengaSearchIsSpent_Private(portfolio->task))
      RengaCall(GenerateAll(portfolio, &portfolio->numbers[i]));
  RengaCall(RengaSearchImprove_Private(portfolio->task, portfolio->chain, true, EAGER_MOST,
                                       IMPROVE_WORK, portfolio->trial.best));
  RengaCall(LookAtLayouts(portfolio, bound));
  return RENGA_SUCCESS;
}

static RengaErrorCode LookInAllWays(const SearchTask *task, const SearchChain *chain,
                                    SearchLayout *best, double *bound)
{
  Portfolio portfolio = {.task = task, .chain = chain, .work = BRANCH_WORK_ALL};
  RengaCall(RengaSearchHasGroups_Private(task, &portfolio.groups));
  RengaErrorCode code = RengaSearchTrialCreate_Private(task, chain, best, &portfolio.trial);
  portfolio.trial.eager_most = EAGER_MOST;
  if (!code) code = RunPortfolio(&portfolio, bound);
  RengaSearchTrialFree_Private(&portfolio.trial);
  RengaFree(&portfolio.numbers);
  RengaFree(&portfolio.seen);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindMemoryOf(const SearchTask *task, const SearchChain *chain,
                                   SearchLayout *layout, double *most)
{
  SearchTask own = *task;
  SearchModel model = {0};
  own.schedule = layout->schedule;
  RengaErrorCode code = RengaSearchModelFor_Private(&own, chain, layout, &model);
  if (!code) code = FindMostMemory(&own, chain, &model, layout, most);
  RengaSearchModelFree_Private(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Where memory is ample no trial asks for it; what is found is asked. */
static RengaErrorCode LookWithoutMemory(const SearchTask *task, const SearchChain *chain,
                                        SearchLayout *best, double *bound, bool *fits)
{
  SearchTask open = *task;
  SearchLayout found = {.simulated = best->simulated};
  double least = *bound, most = 0;
  open.memory = 0;
  RengaErrorCode code = LookInAllWays(&open, chain, &found, &least);
  if (!code && found.count) code = FindMemoryOf(task, chain, &found, &most);
  *fits = !code && most <= task->memory;
  if (*fits) *bound = least;
  if (*fits && found.count) {
    RengaSearchLayoutFree_Private(best);
    *best = found;
  } else {
    RengaSearchLayoutFree_Private(&found);
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchPortfolio_Private(const SearchTask *task, const SearchChain *chain,
                                            SearchLayout *best, double *bound)
{
  bool ample = false, fits = false;
  RengaCall(RengaSearchIsAmple_Private(task, chain, best->simulated, &ample));
  if (ample && task->memory > 0) RengaCall(LookWithoutMemory(task, chain, best, bound, &fits));
  if (!fits) RengaCall(LookInAllWays(task, chain, best, bound));
  return RENGA_SUCCESS;
}
