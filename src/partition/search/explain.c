/* Why the plan is as it is: what bounds it, the next-best kind, and what other machines would give,
   each found by searching again, and simulated under the plan's schedule as the plan is. */
#include "kinds.h"
#include "solution.h"
#include "renga/private/number.h"
#include "rengagraph.h"
#include <math.h>

enum { CHAIN_LONG = 20000, LEAF_MOST = 64, FITTING_FEW = 4 };
static const double LEAF_ROUNDS = 1.05; /* of a larger leaf that is proposed */

static void Name(const SearchModel *model, const SearchLayout *layout, size_t size, char text[])
{
  int least = model->devices, most = 0;
  for (int s = 0; s < layout->count; s++) {
    const int replicas = layout->stage[s].shape.replicas;
    least = replicas < least ? replicas : least;
    most = replicas > most ? replicas : most;
  }
  if (layout->count == 1 && most == 1)
    snprintf(text, size, "one device");
  else if (least == most)
    snprintf(text, size, "%d stage%s x %d", layout->count, layout->count > 1 ? "s" : "", most);
  else
    snprintf(text, size, "%d stages x %d to %d", layout->count, least, most);
}

/* Pure data parallelism, one pipeline, and what is between. */
enum { KIND_ONE_STAGE, KIND_ONE_REPLICA, KIND_BOTH, KIND_COUNT };

static int KindOfLimit(const SearchLayout *layout)
{
  if (layout->count == 1) return KIND_ONE_STAGE;
  return RengaSearchDevices_Private(layout) == layout->count ? KIND_ONE_REPLICA : KIND_BOTH;
}

/* The best of one micro-batch and placement under another task. */
static RengaErrorCode SearchAgain(const SearchTask *task, const SearchChain *chain,
                                  const SearchLayout *own, SearchModel *model, SearchLayout *layout)
{
  RengaCall(RengaSearchModelFor_Private(task, chain, own, model));
  model->quick = true;
  if (model->count > CHAIN_LONG) model->unequal = false;
  if (model->n_candidates) RengaCall(RengaSearchQuickly_Private(model, layout));
  if (model->kinds)
    RengaCall(RengaSearchKindLayouts_Private(task, chain, RengaSearchRowOf_Private(task, own),
                                             own->spread, layout));
  return RENGA_SUCCESS;
}

typedef struct {
  char name[64];
  double step;
} Other;

/* Seconds of a step of the layout on the task's machine. most: bytes of its fullest device, as the
   runtime forecasts them; NULL: not asked for. */
static RengaErrorCode SimulateOn(const SearchTask *task, const SearchChain *chain,
                                 const SearchModel *model, const SearchLayout *layout, double *step,
                                 double *most)
{
  RengaPlan plan = NULL;
  RengaPlanPrediction prediction;
  RengaForecastMemory *memory = NULL;
  RengaCall(RengaSearchPlan_Private(task, chain, layout, &plan));
  RengaErrorCode code =
      RengaSearchPredict_Private(task, model, layout, chain->schedules, plan, &prediction);
  if (!code && most) code = RengaMalloc(layout->count, &memory);
  if (!code && most) code = RengaSearchMemory_Private(task, model, layout, plan, memory, most);
  RengaFree(&memory);
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(code);
  *step = prediction.step;
  return RENGA_SUCCESS;
}

static RengaErrorCode TryOther(const SearchTask *task, const SearchChain *chain,
                               const SearchLayout *layout, Other *other, int *kind, double *most)
{
  SearchModel model = {0};
  SearchLayout found = {0};
  RengaErrorCode code = SearchAgain(task, chain, layout, &model, &found);
  other->step = HUGE_VAL;
  if (!code && found.count) Name(&model, &found, sizeof other->name, other->name);
  if (!code && found.count) code = SimulateOn(task, chain, &model, &found, &other->step, most);
  if (!code && kind) *kind = found.count ? KindOfLimit(&found) : KIND_COUNT;
  RengaSearchLayoutFree_Private(&found);
  RengaSearchModelFree_Private(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The same, or the plan itself, without recomputation where memory is not bounded. */
static RengaErrorCode TryBetter(const SearchTask *task, const SearchChain *chain,
                                const SearchModel *model, const SearchLayout *layout, Other *other)
{
  SearchLayout own = {0};
  double step = HUGE_VAL;
  RengaCall(TryOther(task, chain, layout, other, NULL, NULL));
  RengaCall(RengaSearchLayoutCopy_Private(layout, &own));
  if (task->memory <= 0) RengaSearchTakeFirstPolicy_Private(model, &own);
  const RengaErrorCode code = SimulateOn(task, chain, model, &own, &step, NULL);
  RengaSearchLayoutFree_Private(&own);
  RengaCall(code);
  if (step > other->step) return RENGA_SUCCESS;
  other->step = step;
  snprintf(other->name, sizeof other->name, "this plan");
  return RENGA_SUCCESS;
}

/* The best that the runtime lets pass: the bound on estimates is made stricter until what is found
   fits; KIND_COUNT: nothing was found to. */
static RengaErrorCode TryFitting(const SearchTask *task, const SearchChain *chain,
                                 const SearchLayout *layout, Other *other, int *kind)
{
  SearchTask strict = *task;
  const bool asks = task->memory > 0 && chain->count <= CHAIN_LONG;
  double most = 0;
  for (int round = 0; round < FITTING_FEW; round++) {
    RengaCall(TryOther(&strict, chain, layout, other, kind, asks ? &most : NULL));
    if (!asks || isinf(other->step) || most <= task->memory) return RENGA_SUCCESS;
    strict.memory *= fmin(0.999, fmax(0.5, task->memory / most));
  }
  other->step = HUGE_VAL;
  *kind = KIND_COUNT;
  return RENGA_SUCCESS;
}

static RengaErrorCode ExplainRunnerUp(const SearchTask *task, const SearchChain *chain,
                                      const SearchLayout *layout, SearchAnswer *answer)
{
  static const char *const names[] = {"one stage on every device", "one replica of every stage",
                                      "several stages with several replicas"};
  const int own = KindOfLimit(layout);
  Other best = {.step = HUGE_VAL};
  int best_kind = KIND_COUNT;
  for (int kind = 0; kind < KIND_BOTH; kind++) {
    SearchTask other_task = *task;
    Other other;
    int found;
    if (kind == own ||
        (kind == KIND_ONE_STAGE ? task->wanted.stages > 1 : task->wanted.replicas > 1))
      continue;
    if (kind == KIND_ONE_STAGE) other_task.wanted.stages = 1;
    if (kind == KIND_ONE_REPLICA) other_task.wanted.replicas = 1;
    RengaCall(TryFitting(&other_task, chain, layout, &other, &found));
    if (found != own && other.step < best.step) best = other, best_kind = found;
  }
  if (best_kind == KIND_COUNT)
    RengaCall(
        RengaSolutionSay_Private(answer, "runner-up", "no other kind of plan was found to fit"));
  else
    RengaCall(RengaSolutionSay_Private(
        answer, "runner-up", "%s (%s): %.4g s per step, %.1f %% slower", names[best_kind],
        best.name, best.step, 100 * (best.step / answer->prediction.step - 1)));
  return RENGA_SUCCESS;
}

/* The stage whose rounds are the longest, and how far it is over the average. */
static RengaErrorCode ExplainRounds(const SearchChain *chain, const SearchModel *model,
                                    const SearchLayout *layout, SearchAnswer *answer)
{
  int worst = 0, largest = 0;
  double most = -1, sum = 0, node = -1;
  bool waits = false;
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    const SearchCost cost = RengaSearchCostOf_Private(model, stage, layout->count - s);
    sum += cost.rounds;
    if (cost.rounds > most)
      worst = s, most = cost.rounds, waits = cost.delay > cost.forward + cost.backward;
  }
  for (int c = layout->stage[worst].begin; c < layout->stage[worst].end; c++) {
    const double own =
        model->forward[c + 1] - model->forward[c] + model->backward[c + 1] - model->backward[c];
    if (own > node) node = own, largest = c;
  }
  RengaCall(RengaSolutionSay_Private(
      answer, "limit",
      "the %s of stage %d, %.1f %% over the average of the stages, set%s the pace; its "
      "largest node is %s with %.4g s per micro-batch",
      waits ? "messages" : "work", worst, sum > 0 ? 100 * (most * layout->count / sum - 1) : 0,
      waits ? "" : "s", RengaGraphGetNode(chain->graph, chain->node[largest])->name, node));
  return RENGA_SUCCESS;
}

static RengaErrorCode ExplainLimit(const SearchTask *task, const SearchChain *chain,
                                   const SearchModel *model, const SearchLayout *layout,
                                   SearchAnswer *answer)
{
  char bytes[32], bound[32];
  int fullest = 0;
  for (int s = 1; s < answer->n_stages; s++)
    if (answer->stage[s].memory > answer->stage[fullest].memory) fullest = s;
  if (task->memory > 0 && (double)answer->stage[fullest].memory > 0.9 * task->memory) {
    RengaFormatBytes((double)answer->stage[fullest].memory, sizeof bytes, bytes);
    RengaFormatBytes(task->memory, sizeof bound, bound);
    RengaCall(RengaSolutionSay_Private(
        answer, "limit", "memory: stage %d takes %s of the %s of a device", fullest, bytes, bound));
  } else if (layout->reduce > layout->rounds) {
    RengaCall(RengaSolutionSay_Private(
        answer, "limit", "the sum of gradients over replicas takes %.4g s of %.4g s per step",
        layout->reduce, layout->step));
  } else if (layout->rounds < 0.5 * layout->fill) {
    RengaCall(RengaSolutionSay_Private(
        answer, "limit",
        "too few micro-batches: %lld are %.4g s until each device has had its first, "
        "and %.4g s for all others; a larger batch keeps the devices busier",
        (long long)model->microbatches, layout->fill, layout->rounds));
  } else {
    RengaCall(ExplainRounds(chain, model, layout, answer));
  }
  return RENGA_SUCCESS;
}

/* With twice the bandwidth of every level; the caller frees it. */
static RengaErrorCode MakeFaster(const SearchTask *task, RengaMachine *machine)
{
  const RengaMachineDevice *device;
  const RengaMachineLevel *levels;
  RengaMachineLevel *faster = NULL;
  const int64_t *begin;
  int count = 0, islands, kinds;
  RengaCall(RengaMachineGetDevice(task->machine, &device));
  RengaCall(RengaMachineGetIslands(task->machine, &islands, &begin));
  RengaCall(RengaMachineGetLevels(task->machine, &count, &levels));
  RengaCall(RengaMachineCreate(task->self, machine));
  RengaErrorCode code = RengaMalloc(count, &faster);
  for (int l = 0; l < count && !code; l++) {
    faster[l] = levels[l];
    faster[l].bandwidth *= 2;
    faster[l].reduce_bandwidth *= 2;
  }
  if (!code) code = RengaMachineSetDevice(*machine, device);
  if (!code && islands > 0) faster[1].devices = islands * levels[0].devices;
  if (!code) code = RengaMachineSetLevels(*machine, count, faster);
  if (!code) code = RengaMachineSetIslands(*machine, islands, begin);
  if (!code) code = RengaMachineGetKinds(task->machine, &kinds, &device, &begin);
  if (!code && kinds > 1) code = RengaMachineSetKinds(*machine, kinds, device, begin);
  RengaFree(&faster);
  if (code) RengaMachineDestroy(machine);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ExplainLinks(const SearchTask *task, const SearchChain *chain,
                                   const SearchModel *model, const SearchLayout *layout,
                                   SearchAnswer *answer)
{
  SearchTask linked = *task;
  Other other = {.step = HUGE_VAL};
  if (!task->machine) return RENGA_SUCCESS;
  RengaCall(MakeFaster(task, &linked.machine));
  const RengaErrorCode code = TryBetter(&linked, chain, model, layout, &other);
  RengaCall(RengaMachineDestroy(&linked.machine));
  RengaCall(code);
  RengaCall(RengaSolutionSay_Private(
      answer, "links", "with twice the bandwidth %s would take %.4g s per step, %.1f %% less",
      other.name, other.step, 100 * (1 - other.step / answer->prediction.step)));
  return RENGA_SUCCESS;
}

/* A pipeline fills and empties once for more of them. */
static RengaErrorCode ExplainBatch(const SearchTask *task, const SearchChain *chain,
                                   const SearchLayout *layout, SearchAnswer *answer)
{
  SearchTask twice = *task;
  Other other;
  twice.batch *= 2;
  RengaCall(TryOther(&twice, chain, layout, &other, NULL, NULL));
  const double more = 2 * answer->prediction.step / other.step - 1;
  if (more <= 0) return RENGA_SUCCESS;
  RengaCall(RengaSolutionSay_Private(
      answer, "batch",
      "with twice the micro-batches per step %s would take %.4g s, %.1f %% more "
      "samples per second",
      other.name, other.step, 100 * more));
  return RENGA_SUCCESS;
}

static RengaErrorCode ExplainMachine(const SearchTask *task, const SearchChain *chain,
                                     const SearchModel *model, const SearchLayout *layout,
                                     SearchAnswer *answer)
{
  const double step = answer->prediction.step;
  Other other;
  if (task->memory > 0) {
    SearchTask free_task = *task;
    free_task.memory = 0;
    RengaCall(TryBetter(&free_task, chain, model, layout, &other));
    RengaCall(RengaSolutionSay_Private(
        answer, "memory", "with any memory %s would take %.4g s per step, %.1f %% less", other.name,
        other.step, fmax(0, 100 * (1 - other.step / step))));
  }
  RengaCall(ExplainLinks(task, chain, model, layout, answer));
  RengaCall(ExplainBatch(task, chain, layout, answer));
  return RENGA_SUCCESS;
}

/* The best that leaves no device idle, where there is one. */
static RengaErrorCode ExplainIdle(const SearchTask *task, const SearchChain *chain,
                                  const SearchModel *model, const SearchLayout *layout,
                                  SearchAnswer *answer)
{
  const int used = RengaSearchDevices_Private(layout);
  Other best = {.step = HUGE_VAL};
  if (used == task->ranks) return RENGA_SUCCESS;
  for (int p = 1; p <= task->ranks && p <= model->count; p++) {
    SearchTask all = *task;
    Other other;
    if (task->ranks % p || task->ranks / p > (model->microbatches + model->leaf - 1) / model->leaf)
      continue;
    if ((task->wanted.stages && task->wanted.stages != p) ||
        (task->wanted.replicas && task->wanted.replicas != task->ranks / p))
      continue;
    all.wanted.stages = p;
    all.wanted.replicas = task->ranks / p;
    RengaCall(TryOther(&all, chain, layout, &other, NULL, NULL));
    if (other.step < best.step) best = other;
  }
  if (isinf(best.step))
    RengaCall(RengaSolutionSay_Private(answer, "idle",
                                       "%d of %d devices stay idle: no plan found uses all",
                                       task->ranks - used, task->ranks));
  else
    RengaCall(RengaSolutionSay_Private(
        answer, "idle",
        "%d of %d devices stay idle: all of them (%s) would take %.4g s per step, %.1f %% "
        "more",
        task->ranks - used, task->ranks, best.name, best.step,
        100 * (best.step / answer->prediction.step - 1)));
  return RENGA_SUCCESS;
}

/* What larger leaves would save, where sums of gradients take much. Those that make a replica work
   through more micro-batches are left out. */
static RengaErrorCode ExplainGradients(const SearchModel *model, const SearchLayout *layout,
                                       SearchAnswer *answer)
{
  char held[32], all[32], less[32];
  int fullest = 0;
  for (int s = 1; s < answer->n_stages; s++)
    if (answer->stage[s].memory > answer->stage[fullest].memory) fullest = s;
  const RengaPlanStage *stage = &answer->stage[fullest];
  const SearchStage *place = &layout->stage[fullest];
  const SearchCandidate own = RengaSearchCandidateOf_Private(model, &place->shape);
  const double buffer =
      own.bytes.gradient * (model->elements[place->end] - model->elements[place->begin]);
  SearchModel larger = RengaSearchModelSettings_Private(model);
  SearchCandidate best = own;
  int64_t leaf = model->leaf;
  for (int64_t other = 4; other <= LEAF_MOST && other <= model->microbatches; other *= 2) {
    larger.leaf = other;
    const SearchCandidate candidate = RengaSearchCandidateOf_Private(&larger, &place->shape);
    if ((double)candidate.rounds > LEAF_ROUNDS * (double)own.rounds ||
        candidate.buffers >= best.buffers)
      continue;
    best = candidate;
    leaf = other;
  }
  if (3 * stage->parts.gradients <= stage->memory || leaf == model->leaf) return RENGA_SUCCESS;
  RengaFormatBytes((double)stage->parts.gradients, sizeof held, held);
  RengaFormatBytes((double)stage->memory, sizeof all, all);
  RengaFormatBytes((double)stage->parts.gradients - (own.buffers - best.buffers) * buffer,
                   sizeof less, less);
  RengaCall(RengaSolutionSay_Private(
      answer, "gradients",
      "sums of gradients hold %s of %s of stage %d, in %d buffers; -partition_leaf %lld "
      "holds %s, in %d, and other bits are the price",
      held, all, fullest, own.buffers, (long long)leaf, less, best.buffers));
  return RENGA_SUCCESS;
}

/* What decides the bits of results is never chosen without a word. */
static RengaErrorCode ExplainChoice(const SearchTask *task, SearchAnswer *answer)
{
  char size[96] = "", leaf[96] = "", options[96] = "";
  if (task->chooses_size)
    snprintf(size, sizeof size, "micro-batches of %lld sample%s", (long long)answer->microbatch,
             answer->microbatch == 1 ? "" : "s");
  if (task->chooses_leaf)
    snprintf(leaf, sizeof leaf, "%sleaves of %lld micro-batch%s", task->chooses_size ? " and " : "",
             (long long)answer->leaf, answer->leaf == 1 ? "" : "es");
  if (!task->chooses_size && !task->chooses_leaf) return RENGA_SUCCESS;
  const int n = task->chooses_size
                    ? snprintf(options, sizeof options, "-microbatch_size %lld%s",
                               (long long)answer->microbatch, task->chooses_leaf ? " " : "")
                    : 0;
  if (task->chooses_leaf)
    snprintf(options + n, sizeof options - (size_t)n, "-partition_leaf %lld",
             (long long)answer->leaf);
  RengaCall(RengaSolutionSay_Private(
      answer, RENGA_PLAN_CHOSEN, "%s%s, on which the bits of results depend; %s %s", size, leaf,
      options, task->chooses_size && task->chooses_leaf ? "fix them" : "fixes it"));
  return RENGA_SUCCESS;
}

/* Those that are given, of which no bound holds. */
static RengaErrorCode ExplainGivenChunks(const SearchLayout *layout, SearchAnswer *answer)
{
  RengaCall(RengaSolutionSay_Private(
      answer, "chunks",
      "each rank computes %d of the %d stages, %d after another; such a plan is simulated as it "
      "is given, and no other lower bound is known of it than that of the work",
      layout->chunks, layout->count, RengaSearchAcross_Private(layout)));
  if (!layout->schedule.type)
    RengaCall(RengaSolutionSay_Private(
        answer, "order",
        "each stage keeps the order that it would have alone, so that less waiting is "
        "saved than by an interleaved order; cuts are even in single stages, not in the "
        "sums of a rank's"));
  return RENGA_SUCCESS;
}

/* What they are worth. The bound is of other plans, which it says. */
static RengaErrorCode ExplainTakenChunks(const Solution *solution, SearchAnswer *answer)
{
  const SearchLayout *layout = &solution->layout;
  const SolutionChunks *chunks = &solution->chunks;
  RengaCall(RengaSolutionSay_Private(
      answer, "chunks",
      "each of %d ranks computes %d of the %d stages under %s: %.1f %% less than the %.4g s per "
      "step of the best plan found with one stage per rank; of plans of several, %d of equal work "
      "under " SOLUTION_CHUNK_KINDS " were simulated, and others are not looked at",
      RengaSearchDevices_Private(layout), layout->chunks, layout->count, layout->schedule.type,
      100 * (1 - solution->step / chunks->without), chunks->without, chunks->tried));
  RengaCall(ExplainChoice(solution->task, answer));
  RengaCall(RengaSolutionExplainProof_Private(solution, answer));
  return RENGA_SUCCESS;
}

static RengaErrorCode ExplainChunks(const Solution *solution, SearchAnswer *answer)
{
  if (solution->chunks.taken)
    RengaCall(ExplainTakenChunks(solution, answer));
  else
    RengaCall(ExplainGivenChunks(&solution->layout, answer));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionExplain_Private(const Solution *solution, SearchAnswer *answer)
{
  SearchTask scheduled = *solution->task, *task = &scheduled;
  const SearchChain *chain = solution->chain;
  const SearchModel *model = &solution->model;
  const SearchLayout *layout = &solution->layout;
  task->schedule = answer->schedule;
  if (task->lanes.ranks > 1) {
    RengaCall(RengaSolutionExplainLanes_Private(solution, answer));
    return RENGA_SUCCESS;
  }
  if (solution->folds_too) *task = RengaSearchOpenTask_Private(task);
  if (task->unit > 1 && layout->chunks <= 1) { /* costs are estimates until a plan is there */
    RengaCall(RengaSolutionExplainIdleGroups_Private(task, layout, answer));
    RengaCall(ExplainChoice(task, answer));
    RengaCall(RengaSolutionExplainProof_Private(solution, answer));
    return RENGA_SUCCESS;
  }
  if (layout->chunks > 1) {
    RengaCall(ExplainChunks(solution, answer));
    return RENGA_SUCCESS;
  }
  RengaCall(ExplainLimit(task, chain, model, layout, answer));
  RengaCall(ExplainRunnerUp(task, chain, layout, answer));
  RengaCall(ExplainMachine(task, chain, model, layout, answer));
  RengaCall(ExplainIdle(task, chain, model, layout, answer));
  RengaCall(ExplainGradients(model, layout, answer));
  RengaCall(ExplainChoice(task, answer));
  RengaCall(RengaSolutionExplainProof_Private(solution, answer));
  return RENGA_SUCCESS;
}

/* Stages [begin, end). */
static RengaErrorCode SayKinds(const SearchKinds *kinds, unsigned mask, int begin, int end,
                               SearchAnswer *answer)
{
  char names[SEARCH_KINDS_MOST * 80], stages[48];
  RengaSearchNameKinds_Private(kinds, mask, sizeof names, names);
  if (end - begin > 1)
    snprintf(stages, sizeof stages, "stages %d to %d lie", begin, end - 1);
  else
    snprintf(stages, sizeof stages, "stage %d lies", begin);
  RengaCall(
      RengaSolutionSay_Private(answer, "kinds", "%s on %s%s", stages, names,
                               mask & (mask - 1) ? ": the faster ones wait for the others" : ""));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSolutionExplainKinds_Private(const Solution *solution, SearchAnswer *answer)
{
  const SearchKinds *kinds = solution->task->kinds;
  const SearchLayout *layout = &solution->layout;
  unsigned used = 0;
  char idle[SEARCH_KINDS_MOST * 80];
  int begin = 0;
  if (!kinds) return RENGA_SUCCESS;
  for (int s = 0; s < layout->count; s++) {
    const unsigned own = layout->stage[s].kinds;
    used |= own;
    if (s + 1 < layout->count && layout->stage[s + 1].kinds == own) continue;
    RengaCall(SayKinds(kinds, own, begin, s + 1, answer));
    begin = s + 1;
  }
  RengaSearchNameKinds_Private(kinds, ~used, sizeof idle, idle);
  if (idle[0])
    RengaCall(RengaSolutionSay_Private(
        answer, "kinds", "%s stay idle%s", idle,
        solution->task->given ? "" : ": no plan that was found with them is faster"));
  RengaCall(RengaSolutionSay_Private(
      answer, "kinds",
      "in the lower bound each layer is taken to be computed by the kind of devices that suits it "
      "best, in no more "
      "than the share of work that each device has where all work is split by speed"));
  return RENGA_SUCCESS;
}
