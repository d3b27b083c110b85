/* The fastest plan by its simulated step, with a proof: every layout that the lower bound does not
   rule out is simulated.

   Layouts are made from the last stage to the first. What its stages take at the least (bound.c)
   bounds a layout from below, and grows with each stage; a layout whose bound reaches a ceiling is
   left alone, and so is one whose places before it need more devices under the ceiling than there
   are. The ceiling rises in rounds from the bound that is known to the step that is known: after
   each round no layout has a step below it but those that were simulated, so that a limit of time
   leaves the ceiling of the last whole round as a bound. A layout is first simulated as if nothing
   recomputed, which is never slower; the runtime is asked for its memory only if that is faster
   than the best, and then the stages recompute that have to. */
#include "search.h"
#include <math.h>

enum { ROUNDS = 7, LOOKS_PER_CLOCK = 64 };

typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  const SearchModel *model; /* with the memory of the task, for bounds */
  SearchModel free[2];      /* without a bound on memory, for costs; spread in the second */
  int placements;           /* of them that there are */
  SearchStage *stage;       /* [places] from the last one on */
  int count;                /* stages that are chosen */
  int *needs;               /* [places + 1] devices at least, for the places before */
  double floor, ceiling;    /* layouts with a bound from one to below the other are simulated */
  int64_t looks;
  bool over;
  SearchAim *best;
} Branch;

static bool IsOver(Branch *branch)
{
  if (!branch->over && branch->task->until > 0 && branch->looks++ % LOOKS_PER_CLOCK == 0)
    branch->over = MPI_Wtime() > branch->task->until;
  return branch->over;
}

/* Longer stages take more: the first place that is in reach, end where none is. */
static int Reach(const Branch *branch, const SearchOption *option, int end)
{
  int low = 0, high = end;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (RengaSearchStageAtLeast_Private(branch->model, option, middle, end, 0) < branch->ceiling)
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

static void FindNeeds(Branch *branch)
{
  const SearchModel *model = branch->model;
  const int none = model->devices + 1;
  branch->needs[0] = 0;
  for (int end = 1; end <= model->count; end++) {
    branch->needs[end] = none;
    for (int o = 0; o < model->n_options; o++) {
      const int begin = Reach(branch, &model->option[o], end);
      if (begin == end) continue;
      const int devices = branch->needs[begin] + model->option[o].replicas;
      if (devices < branch->needs[end]) branch->needs[end] = devices;
    }
  }
}

static RengaErrorCode MakePlan(const Branch *branch, const SearchAim *aim, RengaPlan *plan)
{
  SearchTask task = *branch->task;
  task.gpipe = aim->gpipe;
  task.eager = aim->eager;
  RengaCall(RengaSearchPlan_Private(&task, branch->chain, &branch->free[aim->candidate.spread],
                                    &aim->candidate, plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode Predict(const Branch *branch, SearchAim *aim, RengaPlan plan)
{
  RengaPlanPrediction prediction;
  RengaCall(RengaSearchPredict_Private(branch->task, &branch->free[aim->candidate.spread],
                                       &aim->candidate, plan, &prediction));
  aim->step = prediction.step;
  return RENGA_SUCCESS;
}

/* Stages that do not fit recompute. *fits: all do then. */
static RengaErrorCode FitMemory(const Branch *branch, SearchAim *aim, RengaPlan plan, bool *changed,
                                bool *fits)
{
  SearchLayout *layout = &aim->candidate.layout;
  RengaForecastMemory *memory = NULL;
  double most;
  *changed = false;
  *fits = true;
  if (branch->task->memory <= 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(layout->count, &memory));
  const RengaErrorCode code = RengaSearchMemory_Private(
      branch->task, &branch->free[aim->candidate.spread], &aim->candidate, plan, memory, &most);
  for (int s = 0; s < layout->count && !code; s++) {
    if ((double)memory[s].total <= branch->task->memory) continue;
    *changed = *changed || !layout->stage[s].recompute;
    *fits = *fits && !layout->stage[s].recompute && branch->model->recompute;
    layout->stage[s].recompute = true;
  }
  RengaFree(&memory);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool IsFaster(const Branch *branch, const SearchAim *aim)
{
  return aim->step < branch->best->step * (1 - 1e-9);
}

/* One round as it is, one with what has to recompute. */
static RengaErrorCode Settle(const Branch *branch, SearchAim *aim, bool *taken)
{
  bool changed = true, fits = true;
  *taken = false;
  for (int round = 0; round < 2 && changed && fits; round++) {
    RengaPlan plan = NULL;
    RengaErrorCode code = MakePlan(branch, aim, &plan);
    if (!code) code = Predict(branch, aim, plan);
    const bool faster = !code && IsFaster(branch, aim);
    if (faster) code = FitMemory(branch, aim, plan, &changed, &fits);
    if (plan) RengaPlanDestroy(&plan);
    RengaCall(code);
    if (!faster) return RENGA_SUCCESS;
  }
  *taken = fits && !changed;
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeStages(const Branch *branch, SearchLayout *layout)
{
  RengaCall(RengaMalloc(branch->count, &layout->stage));
  layout->count = branch->count;
  for (int s = 0; s < branch->count; s++) layout->stage[s] = branch->stage[branch->count - 1 - s];
  return RENGA_SUCCESS;
}

static RengaErrorCode Try(Branch *branch, const SearchManner *manner, bool spread)
{
  bool taken = false;
  SearchAim aim = {.gpipe = manner->gpipe, .eager = manner->eager};
  aim.candidate = (SearchCandidate){.size = branch->best->candidate.size, .spread = spread};
  RengaCall(TakeStages(branch, &aim.candidate.layout));
  RengaSearchEvaluate_Private(&branch->free[spread], &aim.candidate.layout);
  const RengaErrorCode code = Settle(branch, &aim, &taken);
  if (taken && !code) {
    RengaSearchLayoutFree_Private(&branch->best->candidate.layout);
    *branch->best = aim;
    branch->best->found = true;
    if (aim.step < branch->ceiling) branch->ceiling = aim.step;
  } else {
    RengaSearchLayoutFree_Private(&aim.candidate.layout);
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* With a single stage, or a single round of each, the schedules are one. */
static RengaErrorCode Simulate(Branch *branch)
{
  bool equal = true;
  for (int s = 1; s < branch->count; s++)
    equal = equal && branch->stage[s].option == branch->stage[0].option;
  const bool any = branch->task->any_schedule && branch->count > 1;
  const SearchManner own = {branch->task->gpipe, branch->task->eager};
  for (int spread = 0; spread < (equal ? branch->placements : 1); spread++)
    for (int i = 0; i < (any ? SEARCH_MANNERS : 1); i++)
      RengaCall(Try(branch, any ? &RengaSearchManners[i] : &own, spread));
  return RENGA_SUCCESS;
}

static bool MayBegin(const Branch *branch, int begin, int devices)
{
  const int wanted = branch->model->stages;
  if (begin == 0) return !wanted || branch->count == wanted;
  return branch->needs[begin] <= devices && (!wanted || branch->count < wanted);
}

static RengaErrorCode Extend(Branch *branch, int end, int left, int behind, double least);

static RengaErrorCode ExtendBy(Branch *branch, int o, int end, int left, int behind, double least)
{
  const SearchModel *model = branch->model;
  const SearchOption *option = &model->option[o];
  for (int begin = end - 1; begin >= 0 && !IsOver(branch); begin--) {
    const double own = RengaSearchStageAtLeast_Private(model, option, begin, end, behind);
    const double both = own > least ? own : least;
    if (both >= branch->ceiling) return RENGA_SUCCESS;
    branch->stage[branch->count++] = (SearchStage){.begin = begin, .end = end, .option = o};
    if (MayBegin(branch, begin, left - option->replicas)) {
      if (begin > 0)
        RengaCall(Extend(branch, begin, left - option->replicas, behind + option->replicas, both));
      else if (both >= branch->floor)
        RengaCall(Simulate(branch));
    }
    branch->count--;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Extend(Branch *branch, int end, int left, int behind, double least)
{
  const SearchModel *model = branch->model;
  for (int o = 0; o < model->n_options && model->option[o].replicas <= left; o++)
    if (model->unequal || branch->count == 0 || branch->stage[0].option == o)
      RengaCall(ExtendBy(branch, o, end, left, behind, least));
  return RENGA_SUCCESS;
}

static RengaErrorCode Rise(Branch *branch, double *bound)
{
  const double first = *bound, last = branch->best->step;
  branch->floor = 0;
  for (int round = 1; round <= ROUNDS && !branch->over; round++) {
    const double ceiling = first + (last - first) / (1 << (ROUNDS - round));
    branch->ceiling = ceiling < branch->best->step ? ceiling : branch->best->step;
    if (branch->ceiling <= branch->floor) break;
    FindNeeds(branch);
    RengaCall(Extend(branch, branch->model->count, branch->model->devices, 0, 0));
    if (branch->over) break;
    *bound = fmax(*bound, fmin(ceiling, branch->best->step));
    branch->floor = ceiling;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeModel(const Branch *branch, bool spread, SearchModel *model)
{
  SearchTask task = *branch->task;
  task.memory = 0;
  RengaCall(RengaSearchModelOf_Private(&task, branch->chain, branch->best->candidate.size, spread,
                                       model));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchBranch_Private(const SearchTask *task, const SearchChain *chain,
                                         bool groups, SearchAim *best, double *bound)
{
  SearchModel model = {0};
  Branch branch = {.task = task, .chain = chain, .model = &model, .best = best};
  best->found = false;
  RengaErrorCode code =
      RengaSearchModelOf_Private(task, chain, best->candidate.size, false, &model);
  for (int spread = 0; spread <= groups && !code; spread++, branch.placements++)
    code = FreeModel(&branch, spread, &branch.free[spread]);
  if (!code) code = RengaMalloc(model.count, &branch.stage);
  if (!code) code = RengaMalloc(model.count + 1, &branch.needs);
  if (!code) code = Rise(&branch, bound);
  RengaFree(&branch.stage);
  RengaFree(&branch.needs);
  for (int spread = 0; spread < 2; spread++) RengaSearchModelFree_Private(&branch.free[spread]);
  RengaSearchModelFree_Private(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}
