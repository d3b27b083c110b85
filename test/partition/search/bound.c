/* TEST ranks: 1 */
/* No plan beats the lower bound: random cuts, replicas, recomputation and schedules of networks of
   many kinds, simulated with their lists and messages, under the memory that the runtime says they
   take; a stage never holds more micro-batches than the bound thinks it can, or fewer than it
   must. */
#include "../../../src/partition/search/kept.h"
#include "../../plan/plantest.h"
#include "renga/private/graph.h"
#include "rengaschedule.h"
#include "random.h"
#include <math.h>

enum { CASES = 230, CASES_SLOW = 60, STAGES_MOST = 7, REPLICAS_MOST = 6 };

static const char *const networks[] = {
    "gpt:layers=2,hidden=16,heads=2,sequence=8,vocabulary=40,dropout=0.1",
    "gpt:layers=4,hidden=8,heads=1,sequence=16,vocabulary=11",
    "bert:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1,next_sentence=1",
    "bert:layers=3,hidden=32,heads=4,sequence=5,vocabulary=7,segments=0,padding=0,prenorm=1",
    "transformer:layers=2,hidden=16,heads=2,sequence=6,target=5,vocabulary=11,smoothing=0.1",
    "t5:layers=2,hidden=16,head_width=4,sequence=6,target=5,vocabulary=11,buckets=8,distance=6",
    "resnet:depth=18,classes=5",
    "ncf:users=50,items=60,factors=8,layers=32-16-8",
    "mlp:sizes=20-64-64-30-10",
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

typedef struct {
  RengaComm comm;
  RengaMachine machine;
  RengaGraph graph;
  SearchChain chain;
  RengaProfileCost *cost;       /* [nodes] */
  struct SearchSession session; /* of the runtime's forecasts */
  double gap;                   /* the smallest */
  int deepest;                  /* stages that hold as many as the bound thinks they can */
  RengaSettings settings;
  bool unordered; /* of the settings */
} Case;

static SearchTask MakeTask(Case *one, int ranks, int64_t *size, int64_t *leaf)
{
  SearchTask task = {
      .self = one->comm,
      .graph = one->graph,
      .machine = Random() < 0.7 ? one->machine : NULL,
      .ranks = ranks,
      .moments = 2,
      .schedule.gpipe = Random() < 0.2,
      .n_sizes = 1,
      .size = size,
      .leaf = leaf,
      .costs = &one->cost,
      .unordered = one->unordered,
      .shards = {.most = Random() < 0.3 ? RENGA_SHARD_OPTIMIZER : RENGA_SHARD_NOTHING},
      .run.settings = one->settings,
      .session = &one->session};
  if (!one->unordered && Random() < 0.2)
    task.shards = (SearchShards){RENGA_SHARD_GRADIENTS, RENGA_SHARD_PARAMETERS};
  *size = 1 + RandomBelow(3);
  *leaf = 1 + RandomBelow(2) * RandomBelow(5);
  task.batch = *size * (1 + RandomBelow(24));
  task.schedule.eager = task.schedule.gpipe || Random() < 0.4 ? 0 : 3 * Random();
  if (Random() < 0.5) {
    task.schedule = RengaSearchScheduleList[SEARCH_WHOLE + RandomBelow(2)];
    task.any_schedule = Random() < 0.5;
  }
  task.update_rate = Random() < 0.5 ? 0 : 1e-6;
  task.accumulate_rate = Random() < 0.5 ? 0 : 1e-7;
  return task;
}

/* Some of the nodes cost nothing, some much. */
static void MakeCosts(Case *one)
{
  const double free = Random() < 0.5 ? 0 : 0.5;
  for (int n = 0; n < RengaGraphGetNodeCount(one->graph); n++) {
    one->cost[n] = (RengaProfileCost){0};
    if (RengaGraphNodeIsPrepared_Private(one->graph, RengaGraphGetNode(one->graph, n))) continue;
    if (Random() < free) continue;
    one->cost[n].forward = 1e-4 * Random();
    one->cost[n].backward = Random() < 0.1 ? 0 : 2e-4 * Random();
  }
}

/* Every number of replicas has a row, as long as its links are of no account. */
static void MakeLayout(const SearchModel *model, int most, SearchLayout *layout)
{
  const bool equal = Random() < 0.4 || model->listing.shards.least >= RENGA_SHARD_GRADIENTS;
  const int wanted = 1 + RandomBelow(STAGES_MOST);
  layout->count = 0;
  for (int begin = 0, replicas = 1 + RandomBelow(most); begin < model->count;) {
    SearchStage *stage = &layout->stage[layout->count++];
    *stage = (SearchStage){0};
    const int left = model->count - begin, stages = wanted - layout->count + 1;
    const int length = 1 + RandomBelow(2 * left / stages);
    stage->begin = begin;
    stage->end = begin = stages > 1 && length < left ? begin + length : model->count;
    if (!equal) replicas = 1 + RandomBelow(most);
    stage->shape = RengaStageShapePlain(replicas);
    stage->shape.shard = replicas > 1 && (begin + layout->count) % 2 ? model->listing.shards.most
                                                                     : model->listing.shards.least;
    if (Random() < 0.4) stage->shape.saved = RENGA_SAVED_RECOMPUTE;
  }
}

static int n_unlisted; /* shapes that were weighed without a row */

enum { ROWS_MOST = 2 * REPLICAS_MOST };

/* Rows of each number, so that any can be asked for. */
static void AllCandidates(SearchModel *model, RengaMachine machine, SearchCandidate rows[])
{
  SearchModel one = *model;
  one.candidate = NULL;
  const int64_t leaves = (model->microbatches + model->leaf - 1) / model->leaf;
  model->n_candidates = 0;
  for (int r = 1; r <= REPLICAS_MOST && r <= leaves; r++) {
    one.replicas = r;
    one.devices = r;
    RengaCallAbort(RengaSearchModelCandidates_Private(machine, false, &one));
    for (int o = 0; o < one.n_candidates; o++) rows[model->n_candidates++] = one.candidate[o];
  }
  RengaFree(&one.candidate);
  model->candidate = rows;
}

static int MostReplicas(const SearchModel *model)
{
  return model->candidate[model->n_candidates - 1].shape.replicas;
}

/* A shape costs the same whether a model lists it or not. */
static void CheckUnlisted(const SearchModel *model, RengaMachine machine)
{
  SearchModel few = *model, one = *model;
  few.candidate = one.candidate = NULL;
  RengaCallAbort(RengaSearchModelCandidates_Private(machine, false, &few));
  one.listing.every = true;
  RengaCallAbort(RengaSearchModelCandidates_Private(machine, false, &one));
  const int most = MostReplicas(&one);
  for (int r = 1; r <= most; r++) {
    SearchStage stage = {.end = model->count, .shape = RengaStageShapePlain(r)};
    RengaStageShape absent = RengaStageShapePlain(r + most);
    stage.shape.shard = r > 1 ? model->listing.shards.most : model->listing.shards.least;
    absent.shard = stage.shape.shard;
    TestTrue(RengaSearchMayHave_Private(&one, &stage.shape));
    TestTrue(!RengaSearchMayHave_Private(&one, &absent));
    const SearchCost a = RengaSearchCostOf_Private(&one, &stage, 1);
    const SearchCost b = RengaSearchCostOf_Private(&few, &stage, 1);
    TestTrue(a.rounds == b.rounds && a.reduce == b.reduce && a.memory == b.memory);
    n_unlisted += !RengaSearchMayHave_Private(&few, &stage.shape);
  }
  RengaFree(&few.candidate);
  RengaFree(&one.candidate);
}

/* As many as the bound counts on: one for each of the devices behind, shared by the replicas. */
static double LeastHeld(const SearchModel *model, const SearchLayout *layout, int s)
{
  const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &layout->stage[s].shape);
  int behind = 0;
  for (int t = s + 1; t < layout->count; t++) behind += layout->stage[t].shape.replicas;
  return fmin((double)candidate.rounds, 1 + ceil((double)behind / candidate.shape.replicas));
}

static int n_again; /* stages that the bound has run something again */

/* What the bound thinks is run again is. */
static void CheckAgain(const SearchModel *bounded, const SearchCandidate *candidate,
                       const SearchStage *stage, double held)
{
  const double received = bounded->received[stage->begin];
  const double bytes =
      RengaSearchNotKept_Private(bounded, candidate, stage->begin, stage->end, received, held);
  const double least =
      RengaSearchAgainAtLeast_Private(bounded, candidate, stage->begin, stage->end, bytes);
  const double again = RengaSearchCostOf_Private(bounded, stage, 1).again;
  if (least > again * (1 + 1e-9) + 1e-15)
    fprintf(stderr, "places %d to %d, recompute %d, set %d: %g again, at least %g\n", stage->begin,
            stage->end, stage->shape.saved == RENGA_SAVED_RECOMPUTE, stage->kept.set, again, least);
  TestTrue(least <= again * (1 + 1e-9) + 1e-15);
  n_again += least > 0.3 * again && again > 0;
}

static void CheckDepths(Case *one, const SearchTask *task, const SearchModel *model,
                        const SearchLayout *layout, const RengaForecastMemory memory[],
                        RengaPlan plan)
{
  RengaSchedule schedule;
  SearchModel bounded = *model;
  RengaCallAbort(RengaScheduleCreate(one->comm, &schedule));
  const char *type = task->schedule.gpipe ? RENGA_SCHEDULE_GPIPE : RENGA_SCHEDULE_1F1B;
  RengaCallAbort(RengaScheduleSetType(schedule, task->schedule.type ? task->schedule.type : type));
  if (task->schedule.eager > 0)
    RengaCallAbort(RengaScheduleSetEager(schedule, task->schedule.eager));
  RengaCallAbort(RengaScheduleSetPlan(schedule, plan, model->microbatches, 0, NULL, false));
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &stage->shape);
    int64_t held;
    RengaCallAbort(RengaScheduleGetInFlight(schedule, s, &held));
    bounded.memory = (double)memory[s].total;
    const double deepest =
        RengaSearchDeepest_Private(&bounded, &candidate, stage->shape.saved, stage->begin,
                                   stage->end, model->received[stage->begin]);
    if (deepest < (double)held)
      fprintf(stderr, "stage %d of %d, places %d to %d, recompute %d, %d replicas: %lld > %g\n", s,
              layout->count, stage->begin, stage->end, stage->shape.saved == RENGA_SAVED_RECOMPUTE,
              stage->shape.replicas, (long long)held, deepest);
    TestTrue(deepest >= (double)held && (double)held >= LeastHeld(model, layout, s));
    CheckAgain(&bounded, &candidate, stage, (double)held);
    one->deepest += held > 1 && deepest < 1.5 * (double)held;
  }
  RengaCallAbort(RengaScheduleDestroy(&schedule));
}

static void CheckBound(Case *one, const SearchTask *task, const SearchLayout *layout, double memory,
                       double step)
{
  SearchModel model;
  double bound = HUGE_VAL;
  SearchTask bounded = *task;
  bounded.memory = memory;
  RengaCallAbort(RengaSearchModelOf_Private(&bounded, &one->chain, 0, false, &model));
  RengaSearchSetPolicies_Private(true, &model);
  model.policies.mixed = true;
  model.unequal = true;
  RengaCallAbort(RengaSearchBound_Private(&model, layout->count, &bound));
  if (bound > step * (1 + 1e-9))
    fprintf(stderr, "step %g, bound %g, %d stages, %d ranks, %g bytes\n", step, bound,
            layout->count, task->ranks, memory);
  TestTrue(bound <= step * (1 + 1e-9));
  if (step < one->gap * bound) one->gap = step / bound;
  RengaSearchModelFree_Private(&model);
}

/* What the slant brings under one bound: rounds, and a share of the work before. */
static double SlantedMost(const SearchModel *model, const SearchLayout *layout, double share)
{
  double most = 0, before = 0;
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    SearchCost cost;
    TestTrue(stage->begin == (s ? layout->stage[s - 1].end : 0));
    TestTrue(RengaSearchStageCost_Private(model, model->candidate, stage->begin, stage->end,
                                          layout->count - s, &cost));
    const double work = cost.forward + cost.backward;
    most = fmax(most, share * before + (double)model->candidate->rounds * work + cost.reduce +
                          cost.update);
    before += work;
  }
  TestTrue(layout->stage[layout->count - 1].end == model->count);
  return most;
}

/* Each share is best for itself. */
static void CheckSlants(const SearchTask *task, SearchModel *model)
{
  SearchLayout layout[2] = {{0}};
  const double share[2] = {0, 1};
  const SearchCandidate *candidate = &model->candidate[RandomBelow(model->n_candidates)];
  SearchModel single = *model;
  single.candidate = (SearchCandidate *)candidate;
  single.n_candidates = 1;
  single.replicas = candidate->shape.replicas;
  single.devices = STAGES_MOST * REPLICAS_MOST;
  for (int i = 0; i < 2; i++) {
    const SearchSlant how = {.share = share[i], .stages = STAGES_MOST};
    RengaCallAbort(RengaSearchSlant_Private(&how, task, &single, &layout[i]));
    TestTrue(layout[i].count >= 1 && layout[i].count <= STAGES_MOST);
  }
  for (int i = 0; i < 2; i++)
    TestTrue(SlantedMost(&single, &layout[i], share[i]) <=
             1.0001 * SlantedMost(&single, &layout[1 - i], share[i]));
  for (int i = 0; i < 2; i++) RengaSearchLayoutFree_Private(&layout[i]);
}

/* Stages that recompute keep some, as if there were so much room, or what cuts them into parts, or
   both. The chain lends models of older costs. */
static void MixSaved(Case *one, const SearchModel *model, SearchLayout *layout)
{
  for (int c = 0; c < model->count; c++)
    one->cost[model->node[c]].forward = model->forward[c + 1] - model->forward[c];
  for (int s = 0; s < layout->count; s++) {
    SearchStage *stage = &layout->stage[s];
    const int slots = 1 + RandomBelow(6);
    const double all = model->saved[stage->end] - model->saved[stage->begin];
    if (stage->shape.saved == RENGA_SAVED_KEEP || Random() < 0.3) continue;
    if (Random() < 0.5)
      RengaCallAbort(
          RengaSearchCutKept_Private(&one->chain, one->cost, model, 2 + RandomBelow(7), stage));
    const SearchKept base = stage->kept;
    if (base.set && Random() < 0.5) continue;
    RengaCallAbort(RengaSearchChooseKept_Private(&one->chain, one->cost, model, slots,
                                                 1.2 * Random() * slots * all, &base, stage));
  }
}

static void CheckCase(Case *one)
{
  int64_t size, leaf;
  SearchTask task = MakeTask(one, STAGES_MOST * REPLICAS_MOST, &size, &leaf);
  SearchModel model;
  SearchCandidate rows[ROWS_MOST];
  SearchStage stages[STAGES_MOST];
  SearchLayout layout = {.stage = stages};
  RengaForecastMemory memory[STAGES_MOST];
  RengaPlanPrediction prediction;
  RengaPlan plan;
  double most;
  MakeCosts(one);
  RengaCallAbort(RengaSearchModelOf_Private(&task, &one->chain, 0, false, &model));
  RengaFree(&model.candidate);
  AllCandidates(&model, task.machine, rows);
  CheckUnlisted(&model, task.machine);
  CheckSlants(&task, &model);
  MakeLayout(&model, MostReplicas(&model), &layout);
  RengaSaved saved[STAGES_MOST];
  for (int s = 0; s < layout.count; s++) saved[s] = stages[s].shape.saved;
  TestTrue(RengaSearchEvaluate_Private(&model, &layout));
  for (int s = 0; s < layout.count; s++) stages[s].shape.saved = saved[s];
  MixSaved(one, &model, &layout);
  RengaCallAbort(RengaSearchPlan_Private(&task, &one->chain, &layout, &plan));
  RengaCallAbort(RengaSearchMemory_Private(&task, &model, &layout, plan, memory, &most));
  RengaSearchTakeExchanges_Private(memory, &layout);
  RengaCallAbort(RengaSearchPredict_Private(&task, &model, &layout, NULL, plan, &prediction));
  CheckDepths(one, &task, &model, &layout, memory, plan);
  task.ranks = RengaSearchDevices_Private(&layout);
  CheckBound(one, &task, &layout, Random() < 0.8 ? most : 0, prediction.step);
  RengaCallAbort(RengaPlanDestroy(&plan));
  model.candidate = NULL;
  RengaSearchModelFree_Private(&model);
}

static void CheckNetwork(Case *one, const char *network)
{
  RengaCallAbort(RengaGraphCreate(one->comm, &one->graph));
  RengaCallAbort(RengaGraphLoad(one->graph, network));
  RengaCallAbort(RengaGraphSetUp(one->graph));
  RengaCallAbort(RengaSearchChainCreate_Private(one->graph, NULL, &one->chain));
  RengaCallAbort(RengaMalloc(RengaGraphGetNodeCount(one->graph), &one->cost));
  for (int i = 0; i < UnlessSlow(CASES, CASES_SLOW); i++) CheckCase(one);
  RengaCallAbort(RengaSearchForecast_Private()->end(&one->session.forecasts));
  RengaFree(&one->cost);
  RengaSearchChainFree_Private(&one->chain);
  RengaCallAbort(RengaGraphDestroy(&one->graph));
}

/* Nodes of four, whose links are slow beside the work. */
static void DescribeMachine(RengaMachine machine)
{
  const RengaMachineDevice device = {.name = "device",
                                     .memory = (int64_t)1 << 40,
                                     .matrix_rate = 1e12,
                                     .vector_rate = 1e11,
                                     .memory_bandwidth = 1e11,
                                     .matrix_efficiency = 0.8,
                                     .vector_efficiency = 0.5,
                                     .bandwidth_efficiency = 0.8,
                                     .launch = 1e-6};
  const RengaMachineLevel levels[] = {
      {.name = "node", .devices = 4, .latency = 1e-6, .bandwidth = 1e9},
      {.name = "cluster", .devices = 64, .latency = 1e-5, .bandwidth = 1e8}};
  RengaCallAbort(RengaMachineSetDevice(machine, &device));
  RengaCallAbort(RengaMachineSetLevels(machine, 2, levels));
}

int main(int argc, char **argv)
{
  Case one = {.gap = HUGE_VAL};
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_SELF, &one.comm));
  RengaCallAbort(RengaMachineCreate(one.comm, &one.machine));
  DescribeMachine(one.machine);
  for (int n = 0; n < N_NETWORKS; n++) {
    RengaCallAbort(RengaSettingsCreate(one.comm, &one.settings));
    one.unordered = n % 3 == 2;
    if (one.unordered)
      RengaCallAbort(RengaSettingsSetReduction(one.settings, RENGA_REDUCTION_UNORDERED));
    CheckNetwork(&one, networks[n]);
    RengaCallAbort(RengaSettingsDestroy(&one.settings));
  }
  RengaCallAbort(RengaMachineDestroy(&one.machine));
  RengaCallAbort(RengaCommDestroy(&one.comm));
  TestTrue(n_unlisted > 0 && (UnlessSlow(0, 1) || n_again > 0));
  if (getenv("TEST_VERBOSE"))
    printf("least %g, %d of depth, %d again\n", one.gap, one.deepest, n_again);
  RengaCallAbort(RengaFinalize());
  return 0;
}
