/* Other plans that fit, beside what was found: the cuts of other types, other numbers of replicas,
   cuts where fewer bytes cross, earlier stages with more work. What the search ranks by its model
   is ranked by simulation here. */
#include "solution.h"
#include <math.h>

enum {
  CHAIN_CUT = 20000,
  TURNS_FEW = 20000, /* of stages with micro-batches, in a step that is simulated often */
  TURNS_MOST = 200000
};

/* Another way to find layouts, with the same memory and micro-batches. */
static RengaErrorCode Challenge(Solution *solution, const SearchTask *task, bool *fits)
{
  Solution other = {.task = task, .chain = solution->chain, .beat = solution->beat};
  bool other_fits = false;
  if (*fits) other.beat = solution->step;
  RengaErrorCode code = RengaSolutionTryFit_Private(&other, &other_fits);
  if (!code && !other_fits && !other.hopeless && !task->wanted.replicas)
    code = RengaSolutionFitReplicas_Private(&other, &other_fits);
  RengaSolutionTakeFaster_Private(solution, *fits, &other, other_fits && !code);
  RengaCall(code);
  *fits = *fits || other_fits;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindEqual(const void *context, const SearchTask *task,
                                const SearchModel *model, SearchLayout *best)
{
  (void)context;
  (void)task;
  RengaCall(RengaSearchQuickly_Private(model, best));
  return RENGA_SUCCESS;
}

/* The best equal stages for numbers of replicas around those that were found. */
static RengaErrorCode ChallengeNeighbours(Solution *solution)
{
  const int own = solution->layout.stage[0].shape.replicas;
  const int ranks = solution->task->ranks;
  const int replicas[] = {own, own - 1, own + 1, (own + 1) / 2, 2 * own};
  bool fits = true;
  if (solution->task->wanted.replicas) return RENGA_SUCCESS;
  const bool is_long = solution->chain->count > SEARCH_LONG;
  const bool own_alone = RengaSearchIsLong_Private(solution->task, solution->chain);
  const size_t all = sizeof replicas / sizeof replicas[0];
  /* of a long chain the best equal stages were found first */
  const bool found =
      is_long && solution->wanted.equal && solution->allowed >= solution->task->memory;
  for (size_t i = found ? 1 : 0; i < (own_alone ? 1 : is_long ? 3 : all); i++) {
    SearchTask task = *solution->task;
    bool seen = replicas[i] < 1 || replicas[i] > ranks;
    for (size_t j = 0; j < i; j++) seen = seen || replicas[j] == replicas[i];
    if (seen) continue;
    task.wanted.replicas = replicas[i];
    task.wanted.equal = true;
    task.finder.find = FindEqual;
    RengaCall(Challenge(solution, &task, &fits));
  }
  return RENGA_SUCCESS;
}

static bool HasSameCuts(const SearchLayout *one, const SearchLayout *other)
{
  if (one->count != other->count) return false;
  for (int s = 0; s < one->count; s++)
    if (one->stage[s].begin != other->stage[s].begin) return false;
  return true;
}

/* Stages as they are in the layout that was moved. */
static RengaErrorCode ChallengeMoved(Solution *solution, const SearchLayout *moved)
{
  Solution other = RengaSolutionBeside_Private(solution);
  SearchTask task = *solution->task;
  task.memory = solution->model.memory;
  other.beat = solution->step;
  RengaErrorCode code = RengaSearchLayoutCopy_Private(moved, &other.layout);
  if (!code && RengaSearchEvaluate_Private(&solution->model, &other.layout))
    code = RengaSolutionTry_Private(&task, &other);
  const bool fits = !code && other.plan && !other.hopeless && RengaSolutionFits_Private(&other);
  if (fits) code = RengaSolutionSettle_Private(&other);
  RengaSolutionTakeFaster_Private(solution, true, &other, fits && !code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The same stages with cuts where fewer bytes cross: the simulation sees that messages between
   neighbours slow down every round, the model that they are sent once. More slack that moves no
   more leads to what was tried. */
static RengaErrorCode ChallengeCuts(Solution *solution)
{
  static const double slacks[] = {0.01, 0.03, 0.06, 0.1, 0.2};
  SearchLayout layout = {0}, moved = {0}, tried = {0};
  double step = 0; /* of the solution beside which it was tried */
  RengaErrorCode code = RengaSearchLayoutCopy_Private(&solution->layout, &layout);
  const size_t all = sizeof slacks / sizeof slacks[0];
  const size_t stride = solution->chain->count > SEARCH_LONG ? 2 : 1;
  const size_t end = solution->chain->count > CHAIN_CUT ? 1 : all;
  for (size_t i = 0; i < end && !code; i += stride) {
    code = RengaSearchLayoutCopy_Private(&layout, &moved);
    if (!code) RengaSearchMoveCuts_Private(&solution->model, slacks[i], &moved);
    if (code || (solution->step == step && HasSameCuts(&moved, &tried))) continue;
    step = solution->step;
    code = ChallengeMoved(solution, &moved);
    if (!code) code = RengaSearchLayoutCopy_Private(&moved, &tried);
  }
  RengaSearchLayoutFree_Private(&layout);
  RengaSearchLayoutFree_Private(&moved);
  RengaSearchLayoutFree_Private(&tried);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ChallengeSlant(Solution *solution, int replicas, const SearchSlant *how,
                                     bool *faster)
{
  SearchTask task = *solution->task;
  const double before = solution->step;
  bool fits = true;
  task.wanted.replicas = replicas;
  task.wanted.equal = true;
  task.schedule.eager = how->eager;
  task.finder = (SearchFinder){.find = RengaSearchSlant_Private, .context = how};
  RengaCall(Challenge(solution, &task, &fits));
  *faster = solution->step < before;
  return RENGA_SUCCESS;
}

static RengaErrorCode TrySlants(Solution *solution, int replicas, bool few)
{
  SearchSlant best = {0}, how = {0};
  for (int i = 0; RengaSearchSlantTry_Private(i, few, &best, &how); i++) {
    bool faster = false;
    how.stages = solution->task->ranks / replicas;
    RengaCall(ChallengeSlant(solution, replicas, &how, &faster));
    if (faster) best = how;
  }
  return RENGA_SUCCESS;
}

/* Earlier stages with more work, and with more micro-batches in flight. Only the simulation sees
   what that wins. */
static RengaErrorCode ChallengeSlants(Solution *solution)
{
  const SearchTask *task = solution->task;
  const SearchModel *model = &solution->model;
  const int count = solution->layout.count;
  const int own = solution->layout.stage[0].shape.replicas;
  const int replicas[] = {own, (own + 1) / 2, 2 * own};
  const double turns = (double)model->microbatches * count;
  const bool few = turns > TURNS_FEW || RengaSearchIsLarge_Private(task, solution->chain);
  if (!task->any_schedule || task->wanted.stages || task->wanted.replicas || turns > TURNS_MOST)
    return RENGA_SUCCESS;
  for (size_t i = 0; i < sizeof replicas / sizeof replicas[0]; i++) {
    if ((i > 0 && replicas[i] == own) || task->ranks < 2 * replicas[i]) continue;
    if (i == 0 || !few) RengaCall(TrySlants(solution, replicas[i], few));
  }
  return RENGA_SUCCESS;
}

/* What another type finds: all that it does where that is not much. */
static RengaErrorCode ChallengeType(Solution *solution, const SearchFinder *rival, bool *fits)
{
  SearchTask task = *solution->task;
  Solution other = {.task = &task, .chain = solution->chain};
  bool other_fits = false;
  if (RengaSearchIsTired_Private(&task)) other.beat = solution->beat; /* else it is gone on from */
  task.finder = *rival;
  task.n_rivals = 0;
  if (*fits) task.beat = solution->step;
  if (RengaSearchIsLarge_Private(&task, solution->chain)) {
    if (rival->quick) RengaCall(Challenge(solution, &task, fits));
    return RENGA_SUCCESS;
  }
  const RengaErrorCode code = RengaSolutionFit_Private(&other, &other_fits);
  RengaSolutionTakeFaster_Private(solution, *fits, &other, other_fits && !code);
  RengaCall(code);
  *fits = *fits || other_fits;
  return RENGA_SUCCESS;
}

/* What the search ranks by its model is ranked by simulation at last. */
RengaErrorCode RengaSolutionChallenge_Private(Solution *solution, bool *fits)
{
  const int rivals = solution->task->halves_only ? 0 : solution->task->n_rivals;
  for (int r = 0; r < rivals && solution->chain->count <= CHAIN_CUT; r++)
    RengaCall(ChallengeType(solution, &solution->task->rival[r], fits));
  if (!*fits || solution->task->finder.find) return RENGA_SUCCESS;
  if (!solution->task->halves_only) RengaCall(ChallengeNeighbours(solution));
  RengaCall(ChallengeCuts(solution));
  if (!solution->task->halves_only) RengaCall(ChallengeSlants(solution));
  return RENGA_SUCCESS;
}
