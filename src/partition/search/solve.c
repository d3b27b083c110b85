/* The search from the task to the answer: sizes of micro-batches, placements, all ways to look for
   layouts; then what the runtime says of the best one's memory, until it fits. */
#include "solution.h"
#include <math.h>

enum {
  LABEL_WORK = 4000000,
  LABEL_WORK_BLIND = 400000,
  FITTING_ROUNDS = 8,
  CHAIN_LONG = 5000,
  CHAIN_CUT = 20000,
  DEVICES_FEW = 32,  /* of which every number of replicas is looked at */
  TURNS_FEW = 20000, /* of stages with micro-batches, in a step that is simulated often */
  TURNS_MOST = 200000
};

RengaErrorCode RengaSearchModelOf_Private(const SearchTask *task, const SearchChain *chain,
                                          int size, bool spread, SearchModel *model)
{
  const RengaPartitionCapabilities can = RengaSearchCapabilities_Private();
  *model = (SearchModel){.microbatches = (task->batch + task->size[size] - 1) / task->size[size],
                         .leaf = task->leaf[size],
                         .devices = task->ranks,
                         .memory = task->memory,
                         .gpipe = task->gpipe,
                         .eager = task->eager,
                         .recompute = can.recompute,
                         .unequal = can.unequal_replicas && !spread && !task->equal,
                         .every = task->every,
                         .stages = task->stages,
                         .replicas = task->replicas,
                         .moments = task->moments,
                         .update_rate = task->update_rate,
                         .accumulate_rate = task->accumulate_rate};
  RengaErrorCode code =
      RengaSearchModelLend_Private(chain, task->size[size], task->costs[size], model);
  if (!code) code = RengaSearchModelOptions_Private(task->machine, spread, model);
  if (code) RengaSearchModelFree_Private(model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

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
static RengaErrorCode HasGroups(const SearchTask *task, bool *groups)
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
  RengaCall(HasGroups(task, &groups));
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
  if (solution->candidate.layout.count) RengaCall(RengaSolutionWeigh_Private(&task, solution));
  return RENGA_SUCCESS;
}

/* The estimate is made stricter until what the runtime needs fits, or looser if nothing is found:
   it may be too high as well. */
static RengaErrorCode TryFit(Solution *solution, bool *fits)
{
  const double bound = solution->task->memory;
  double allowed = bound;
  *fits = false;
  for (int round = 0; round < FITTING_ROUNDS; round++) {
    RengaCall(SolveUnder(solution, allowed));
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

static bool IsUnequal(const SearchLayout *layout)
{
  for (int s = 1; s < layout->count; s++)
    if (layout->stage[s].option != layout->stage[0].option) return true;
  return false;
}

/* The faster of two that fit, in simulated seconds; the other is freed. */
static void TakeFaster(Solution *solution, bool fits, Solution *other, bool other_fits)
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
  TakeFaster(solution, !best, &other, fits && !code);
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
  if (!IsUnequal(&solution->candidate.layout) && !stricter) return RENGA_SUCCESS;
  task.equal = true;
  RengaErrorCode code = TryFit(&equal, &fits);
  if (!code && fits) code = Refine(&equal);
  TakeFaster(solution, true, &equal, fits && !code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Replicas of a stage side by side reduce fastest: spread ones need no bound of their own. */
static RengaErrorCode BoundOfAll(const SearchTask *task, const SearchChain *chain, int size,
                                 double *bound)
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
static RengaErrorCode FitReplicas(Solution *solution, bool *fits)
{
  bool one_fits = true;
  for (int replicas = 1; replicas <= solution->task->ranks && one_fits; replicas *= 2) {
    SearchTask task = *solution->task;
    Solution one = {.task = &task, .chain = solution->chain};
    task.replicas = replicas;
    const RengaErrorCode code = TryFit(&one, &one_fits);
    TakeFaster(solution, *fits, &one, one_fits && !code);
    RengaCall(code);
    *fits = *fits || one_fits;
  }
  return RENGA_SUCCESS;
}

/* Another way to find layouts, with the same memory and micro-batches. */
static RengaErrorCode Challenge(Solution *solution, const SearchTask *task, bool *fits)
{
  Solution other = {.task = task, .chain = solution->chain};
  bool other_fits = false;
  RengaErrorCode code = TryFit(&other, &other_fits);
  if (!code && !other_fits && !task->replicas) code = FitReplicas(&other, &other_fits);
  TakeFaster(solution, *fits, &other, other_fits && !code);
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
  const SearchModel *model = &solution->model;
  const int own = model->option[solution->candidate.layout.stage[0].option].replicas;
  const int ranks = solution->task->ranks;
  const int replicas[] = {own, own - 1, own + 1, (own + 1) / 2, 2 * own};
  bool fits = true;
  if (solution->task->replicas) return RENGA_SUCCESS;
  for (size_t i = 0; i < sizeof replicas / sizeof replicas[0]; i++) {
    SearchTask task = *solution->task;
    bool seen = replicas[i] < 1 || replicas[i] > ranks;
    for (size_t j = 0; j < i; j++) seen = seen || replicas[j] == replicas[i];
    if (seen) continue;
    task.replicas = replicas[i];
    task.equal = true;
    task.find = FindEqual;
    RengaCall(Challenge(solution, &task, &fits));
  }
  return RENGA_SUCCESS;
}

/* The same stages with cuts where fewer bytes cross: the simulation sees that messages between
   neighbours slow down every round, the model that they are sent once. */
static RengaErrorCode ChallengeCuts(Solution *solution)
{
  static const double slacks[] = {0.01, 0.03, 0.06, 0.1, 0.2};
  const SearchCandidate first = solution->candidate;
  SearchLayout layout = {0};
  RengaErrorCode code = RengaSearchLayoutCopy_Private(&first.layout, &layout);
  for (size_t i = 0; i < sizeof slacks / sizeof slacks[0] && !code; i++) {
    Solution other = {.task = solution->task, .chain = solution->chain, .candidate = first};
    SearchTask task = *solution->task;
    bool fits = false;
    other.candidate.layout = (SearchLayout){0};
    other.allowed = solution->allowed;
    task.memory = solution->model.memory;
    task.replicas = other.replicas = solution->replicas; /* rows of options are numbered alike */
    task.equal = other.equal = solution->equal;
    code = RengaSearchLayoutCopy_Private(&layout, &other.candidate.layout);
    if (!code) RengaSearchMoveCuts_Private(&solution->model, slacks[i], &other.candidate.layout);
    if (!code && RengaSearchEvaluate_Private(&solution->model, &other.candidate.layout))
      code = RengaSolutionWeigh_Private(&task, &other);
    fits = !code && other.plan && RengaSolutionFits_Private(&other);
    if (fits) code = RengaSolutionSettle_Private(&other);
    TakeFaster(solution, true, &other, fits && !code);
  }
  RengaSearchLayoutFree_Private(&layout);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ChallengeSlant(Solution *solution, int replicas, const SearchSlant *how,
                                     bool *faster)
{
  SearchTask task = *solution->task;
  const double before = solution->step;
  bool fits = true;
  task.replicas = replicas;
  task.equal = true;
  task.eager = how->eager;
  task.find = RengaSearchSlant_Private;
  task.context = how;
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
  const int count = solution->candidate.layout.count;
  const int own = model->option[solution->candidate.layout.stage[0].option].replicas;
  const int replicas[] = {own, (own + 1) / 2, 2 * own};
  const double turns = (double)model->microbatches * count;
  if (!task->any_schedule || task->stages || task->replicas || turns > TURNS_MOST)
    return RENGA_SUCCESS;
  for (size_t i = 0; i < sizeof replicas / sizeof replicas[0]; i++) {
    if ((i > 0 && replicas[i] == own) || task->ranks < 2 * replicas[i]) continue;
    if (i == 0 || turns <= TURNS_FEW)
      RengaCall(TrySlants(solution, replicas[i], turns > TURNS_FEW));
  }
  return RENGA_SUCCESS;
}

/* What the search ranks by its model is ranked by simulation at last. */
static RengaErrorCode ChallengeAll(Solution *solution, bool *fits)
{
  for (int r = 0; r < solution->task->n_rivals && solution->chain->count <= CHAIN_CUT; r++) {
    SearchTask task = *solution->task;
    task.find = solution->task->rival[r].find;
    task.context = solution->task->rival[r].context;
    RengaCall(Challenge(solution, &task, fits));
  }
  if (!*fits || solution->task->find) return RENGA_SUCCESS;
  RengaCall(ChallengeNeighbours(solution));
  RengaCall(ChallengeCuts(solution));
  RengaCall(ChallengeSlants(solution));
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

/* All layouts that may be faster are simulated, as far as time goes. */
static RengaErrorCode LookAtRest(Solution *solution, int size, double *bound)
{
  const SearchTask *task = solution->task;
  SearchAim aim = {.candidate = {.size = size}, .step = solution->step};
  bool groups = false;
  RengaCall(HasGroups(task, &groups));
  RengaCall(RengaSearchBranch_Private(task, solution->chain, groups, &aim, bound));
  if (aim.found) RengaCall(TakeAim(solution, &aim));
  return RENGA_SUCCESS;
}

/* Bounds of the searches are under estimates of memory, of some layouts only. */
static RengaErrorCode FindBound(Solution *solution)
{
  const SearchTask *task = solution->task;
  double least = HUGE_VAL;
  for (int i = 0; i < task->n_first || i <= solution->candidate.size; i++) {
    double bound = HUGE_VAL;
    RengaCall(BoundOfAll(task, solution->chain, i, &bound));
    if (task->every && bound < solution->step) RengaCall(LookAtRest(solution, i, &bound));
    least = fmin(least, bound);
  }
  solution->candidate.bound = least;
  solution->candidate.proved = task->every && least >= solution->step * (1 - 1e-9);
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
  RengaErrorCode code = TryFit(&equal, fits);
  TakeFaster(solution, false, &equal, *fits && !code);
  RengaCall(code);
  if (*fits) any.give_up = solution->candidate.layout.step;
  code = TryFit(&any, &any_fits);
  TakeFaster(solution, *fits, &any, any_fits && !code);
  RengaCall(code);
  *fits = *fits || any_fits;
  return RENGA_SUCCESS;
}

static bool IsLong(const Solution *solution)
{
  return solution->chain->count > CHAIN_LONG && !solution->task->exact && !solution->task->find;
}

static RengaErrorCode Fit(Solution *solution)
{
  bool fits = false;
  RengaCall(IsLong(solution) ? FitLong(solution, &fits) : TryFit(solution, &fits));
  if (!fits && !solution->task->replicas) RengaCall(FitReplicas(solution, &fits));
  if (fits && !IsLong(solution)) {
    RengaCall(Refine(solution));
    RengaCall(CompareEqual(solution));
  }
  RengaCall(ChallengeAll(solution, &fits));
  if (!fits) RengaCall(Squeeze(solution, &fits));
  if (!fits) RengaCall(RengaSearchRefuse_Private(solution->task, solution->chain));
  RengaCall(FindBound(solution));
  return RENGA_SUCCESS;
}

static void TakeMemory(const RengaForecastMemory *memory, RengaPlanStage *stage)
{
  stage->memory = memory->total;
  stage->parts = (RengaPlanMemory){.parameters = memory->parameters,
                                   .gradients = memory->gradients,
                                   .optimizer = memory->optimizer,
                                   .saved = memory->saved,
                                   .temporary = memory->temporary,
                                   .messages = memory->messages,
                                   .inputs = memory->inputs};
}

static RengaErrorCode TakeStages(const Solution *solution, SearchAnswer *answer)
{
  const SearchModel *model = &solution->model;
  const SearchLayout *layout = &solution->candidate.layout;
  answer->n_stages = layout->count;
  answer->n_ranks = RengaPlanGetRankCount(solution->plan);
  RengaCall(RengaMalloc(answer->n_stages, &answer->stage));
  RengaCall(RengaMalloc(answer->n_ranks, &answer->rank));
  for (int s = 0, place = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    SearchCost cost = {0};
    answer->stage[s] = *RengaPlanGetStage(solution->plan, s);
    for (int r = 0; r < answer->stage[s].replicas; r++)
      answer->rank[place++] = RengaPlanGetRank(solution->plan, s, r);
    RengaSearchStageCost_Private(model, &model->option[stage->option], stage->begin, stage->end,
                                 layout->count - s, &cost);
    answer->stage[s].forward_seconds = cost.forward;
    answer->stage[s].backward_seconds = RengaSearchBackward_Private(&cost, stage->recompute);
    TakeMemory(&solution->memory[s], &answer->stage[s]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeAnswer(const Solution *solution, SearchAnswer *answer)
{
  const SearchTask *task = solution->task;
  answer->microbatch = task->size[solution->candidate.size];
  answer->leaf = task->leaf[solution->candidate.size];
  answer->gpipe = solution->model.gpipe;
  answer->eager = solution->model.eager;
  RengaCall(TakeStages(solution, answer));
  RengaCall(RengaSearchPredict_Private(task, &solution->model, &solution->candidate, solution->plan,
                                       &answer->prediction));
  RengaCall(RengaSearchExplain_Private(task, solution->chain, &solution->model,
                                       &solution->candidate, answer));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchSolve_Private(const SearchTask *task, SearchAnswer *answer)
{
  const RengaMemoryForecast *forecast = RengaSearchForecast_Private();
  void *session = NULL;
  SearchTask own = *task;
  SearchChain chain = {0};
  Solution solution = {.task = &own, .chain = &chain};
  own.session = &session;
  if (task->exact && task->time_limit > 0) own.until = MPI_Wtime() + task->time_limit;
  own.every = task->exact && !task->find && task->ranks <= DEVICES_FEW;
  *answer = (SearchAnswer){0};
  RengaErrorCode code = RengaSearchChainCreate_Private(task->graph, &chain);
  if (!code) code = Fit(&solution);
  if (!code) code = TakeAnswer(&solution, answer);
  RengaSolutionFree_Private(&solution);
  if (forecast) forecast->end(&session);
  RengaSearchChainFree_Private(&chain);
  if (code) RengaSearchAnswerFree_Private(answer);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaSearchAnswerFree_Private(SearchAnswer *answer)
{
  RengaFree(&answer->stage);
  RengaFree(&answer->rank);
  RengaFree(&answer->reason);
}
