/* The fastest plan by its simulated step, with a proof: every layout that the lower bound does not
   rule out is simulated.

   Layouts are made from the last stage to the first. What its stages take at the least (bound.c)
   bounds a layout from below, and grows with each stage; a layout whose bound reaches a ceiling is
   left alone, and so is one whose places before it need more devices under the ceiling than there
   are. The ceiling rises in rounds from the bound that is known to the step that is known: after
   each round no layout has a step below it but those that were simulated, so that a limit of time
   or of work leaves the ceiling of the last whole round as a bound. Where not all placements of a
   layout could be tried, none of the others is faster than its step with all stages side by side,
   and the bound stays below that. */
#include "search.h"
#include <math.h>

enum { ROUNDS = 7, LOOKS_PER_CLOCK = 64, LOOKS_OF_TRIAL = 100, ACTIONS_OF_LOOK = 20 };

typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  const SearchModel *model; /* with the memory of the task, for bounds */
  SearchTrial trial;
  SearchStage *stage;    /* [places] from the last one on */
  int count;             /* stages that are chosen */
  int *needs;            /* [places + 1] devices at least, for the places before */
  double floor, ceiling; /* layouts with a bound from one to below the other are simulated */
  int64_t looks, work;   /* looks at the most; 0: any number */
  bool over;
  SearchLayout *best;
} Branch;

static bool IsBranchOver(Branch *branch)
{
  const int64_t looks = branch->looks++;
  if (branch->work > 0 && looks > branch->work) branch->over = true;
  if (!branch->over && branch->task->until > 0 && looks % LOOKS_PER_CLOCK == 0)
    branch->over = MPI_Wtime() > branch->task->until;
  return branch->over;
}

/* Longer stages take more: the first place that is in reach, end where none is. */
static int ReachPlace(const Branch *branch, const SearchCandidate *candidate, int end)
{
  int low = 0, high = end;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (RengaSearchStageAtLeast_Private(branch->model, candidate, middle, end, 0) < branch->ceiling)
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

static void FindBranchNeeds(Branch *branch)
{
  const SearchModel *model = branch->model;
  const int none = model->devices + 1;
  branch->needs[0] = 0;
  for (int end = 1; end <= model->count; end++) {
    branch->needs[end] = none;
    for (int o = 0; o < model->n_candidates; o++) {
      const int begin = ReachPlace(branch, &model->candidate[o], end);
      if (begin == end) continue;
      const int devices = branch->needs[begin] + model->candidate[o].devices;
      if (devices < branch->needs[end]) branch->needs[end] = devices;
    }
  }
}

static RengaErrorCode SimulateBranch(Branch *branch)
{
  SearchLayout layout = {.count = branch->count};
  const int64_t actions = branch->trial.actions;
  const double before = branch->best->simulated;
  RengaCall(RengaMalloc(branch->count, &layout.stage));
  for (int s = 0; s < branch->count; s++) layout.stage[s] = branch->stage[branch->count - 1 - s];
  const RengaErrorCode code = RengaSearchTry_Private(&branch->trial, &layout);
  RengaSearchLayoutFree_Private(&layout);
  RengaCall(code);
  branch->looks += LOOKS_OF_TRIAL + (branch->trial.actions - actions) / ACTIONS_OF_LOOK;
  if (branch->best->simulated < before && branch->best->simulated < branch->ceiling)
    branch->ceiling = branch->best->simulated;
  return RENGA_SUCCESS;
}

static bool MayBegin(const Branch *branch, int begin, int devices)
{
  const int wanted = branch->model->stages;
  if (begin == 0) return !wanted || branch->count == wanted;
  return branch->needs[begin] <= devices && (!wanted || branch->count < wanted);
}

static RengaErrorCode ExtendBranch(Branch *branch, int end, int left, int behind, double least);

static RengaErrorCode ExtendBy(Branch *branch, const SearchCandidate *candidate, int end, int left,
                               int behind, double least)
{
  const SearchModel *model = branch->model;
  for (int begin = end - 1; begin >= 0 && !IsBranchOver(branch); begin--) {
    const double own = RengaSearchStageAtLeast_Private(model, candidate, begin, end, behind);
    const double both = own > least ? own : least;
    if (both >= branch->ceiling) return RENGA_SUCCESS;
    branch->stage[branch->count++] =
        (SearchStage){.begin = begin, .end = end, .shape = candidate->shape};
    if (MayBegin(branch, begin, left - candidate->devices)) {
      if (begin > 0)
        RengaCall(ExtendBranch(branch, begin, left - candidate->devices,
                               behind + candidate->devices, both));
      else if (both >= branch->floor)
        RengaCall(SimulateBranch(branch));
    }
    branch->count--;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ExtendBranch(Branch *branch, int end, int left, int behind, double least)
{
  const SearchModel *model = branch->model;
  for (int o = 0; o < model->n_candidates && model->candidate[o].devices <= left; o++)
    if (model->unequal || branch->count == 0 ||
        branch->stage[0].shape.replicas == model->candidate[o].shape.replicas)
      RengaCall(ExtendBy(branch, &model->candidate[o], end, left, behind, least));
  return RENGA_SUCCESS;
}

static RengaErrorCode RiseBound(Branch *branch, double *bound)
{
  const double first = *bound, last = branch->best->simulated;
  branch->floor = 0;
  for (int round = 1; round <= ROUNDS && !branch->over; round++) {
    const double ceiling = first + (last - first) / (1 << (ROUNDS - round));
    branch->ceiling = ceiling < branch->best->simulated ? ceiling : branch->best->simulated;
    if (branch->ceiling <= branch->floor) break;
    FindBranchNeeds(branch);
    RengaCall(ExtendBranch(branch, branch->model->count, branch->model->devices, 0, 0));
    if (branch->over) break;
    *bound = fmax(*bound, fmin(fmin(ceiling, branch->best->simulated), branch->trial.least));
    branch->floor = ceiling;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchBranch_Private(const SearchTask *task, const SearchChain *chain,
                                         int64_t *work, SearchLayout *best, double *bound)
{
  SearchModel model = {0};
  Branch branch = {.task = task, .chain = chain, .model = &model, .best = best, .work = *work};
  RengaErrorCode code = RengaSearchTrialCreate_Private(task, chain, best, &branch.trial);
  if (!code) code = RengaSearchModelOf_Private(task, chain, 0, false, &model);
  if (!code) code = RengaMalloc(model.count + 1, &branch.stage);
  if (!code) code = RengaMalloc(model.count + 1, &branch.needs);
  if (!code) code = RiseBound(&branch, bound);
  *work -= branch.looks;
  RengaFree(&branch.stage);
  RengaFree(&branch.needs);
  RengaSearchTrialFree_Private(&branch.trial);
  RengaSearchModelFree_Private(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}
