/* TEST ranks: 1 */
/* The search that proves its plan finds the fastest of all layouts, numbers of micro-batches begun
   early, and placements on the machine, of small networks, under bounds on memory that make stages
   recompute; all are simulated here. TEST_CASES: how many of each network. */
#include "../../../src/partition/search/kept.h"
#include "../../plan/plantest.h"
#include "renga/private/graph.h"
#include "random.h"
#include <math.h>

enum { STAGES_MOST = 4, CASES = 4 };

static const char *const networks[] = {
    "mlp:sizes=20-64-64-30-10",
    "mlp:sizes=8-8-8-8-8-4",
    "ncf:users=50,items=60,factors=8,layers=32-16-8",
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static const SearchSchedule others[] = {
    {.eager = 0}, {.gpipe = true}, {.type = RENGA_SCHEDULE_ZB_H1}, {.type = RENGA_SCHEDULE_ZB_H2}};
enum { N_OTHERS = sizeof others / sizeof others[0] };

typedef struct {
  RengaComm comm;
  RengaMachine machine;
  RengaGraph graph;
  SearchChain chain;
  RengaProfileCost *cost; /* [nodes] */
  struct SearchSession session;
  SearchTask task;
  int64_t size, leaf;
  SearchModel model;
  SearchStage stage[STAGES_MOST];
  int count;
  double least; /* seconds of all that fit */
  bool unfit;   /* the last that was tried, whatever its devices */
  int cases, found, improved, refused;
} Case;

static void MakeTask(Case *one)
{
  one->size = 1 + RandomBelow(2);
  one->leaf = 1 + RandomBelow(2);
  one->task = (SearchTask){.self = one->comm,
                           .graph = one->graph,
                           .machine = one->machine,
                           .ranks = 2 + RandomBelow(STAGES_MOST - 2 + (RandomBelow(4) == 0)),
                           .moments = 2,
                           .batch = one->size * (2 + RandomBelow(5)),
                           .exact = true,
                           .any_schedule = true,
                           .wanted.every = true,
                           .n_sizes = 1,
                           .n_first = 1,
                           .size = &one->size,
                           .leaf = &one->leaf,
                           .costs = &one->cost,
                           .session = &one->session};
  one->task.update_rate = Random() < 0.5 ? 0 : 1e-8;
  for (int n = 0; n < RengaGraphGetNodeCount(one->graph); n++) {
    one->cost[n] = (RengaProfileCost){0};
    if (RengaGraphNodeIsPrepared_Private(one->graph, RengaGraphGetNode(one->graph, n))) continue;
    one->cost[n].forward = 1e-4 * Random();
    one->cost[n].backward = 2e-4 * Random();
  }
}

/* Of stages that recompute, what there is room for is kept, and what they must. */
static double MixedSeconds(Case *one, SearchLayout *layout, RengaPlan *plan,
                           RengaForecastMemory memory[], double *most)
{
  RengaPlanPrediction prediction;
  RengaCallAbort(
      RengaSearchMix_Private(&one->task, &one->chain, &one->model, layout, plan, memory, most));
  RengaCallAbort(
      RengaSearchPredict_Private(&one->task, &one->model, layout, NULL, *plan, &prediction));
  return prediction.step;
}

/* Seconds of the layout on those devices with what it has to recompute; HUGE_VAL: it does not
   fit. */
static double Seconds(Case *one, const SearchSchedule *schedule, int n_ranks, int rank[])
{
  SearchStage stages[STAGES_MOST];
  SearchLayout layout = {.count = one->count, .stage = stages, .n_ranks = n_ranks, .rank = rank};
  SearchTask task = one->task;
  double seconds = HUGE_VAL;
  bool fits = false;
  memcpy(stages, one->stage, sizeof stages);
  for (int again = 0; again < 2 && !fits; again++) {
    RengaForecastMemory memory[STAGES_MOST];
    RengaPlanPrediction prediction;
    RengaPlan plan;
    double most = 0;
    RengaSearchEvaluate_Private(&one->model, &layout);
    layout.schedule = *schedule;
    for (int s = 0; s < one->count; s++) stages[s].shape.saved = one->stage[s].shape.saved;
    RengaCallAbort(RengaSearchPlan_Private(&task, &one->chain, &layout, &plan));
    RengaCallAbort(
        RengaSearchPredict_Private(&task, &one->model, &layout, NULL, plan, &prediction));
    const bool may = again > 0 || prediction.step < one->least;
    if (may) /* the runtime takes long */
      RengaCallAbort(RengaSearchMemory_Private(&task, &one->model, &layout, plan, memory, &most));
    const double mixed = may ? MixedSeconds(one, &layout, &plan, memory, &most) : 0;
    fits = may && (task.memory <= 0 || most <= task.memory);
    if (fits) seconds = mixed;
    RengaCallAbort(RengaPlanDestroy(&plan));
    if (!may) break;
    one->unfit = again > 0 && !fits;
    for (int s = 0; s < one->count; s++)
      if (task.memory > 0 && (double)memory[s].total > task.memory)
        one->stage[s].shape.saved = RENGA_SAVED_RECOMPUTE;
  }
  for (int s = 0; s < one->count; s++) one->stage[s].shape.saved = RENGA_SAVED_KEEP;
  return seconds;
}

/* Seconds without recomputation if all devices lay side by side: no choice of them takes less. */
static double Nearest(Case *one, const SearchSchedule *schedule)
{
  SearchStage stages[STAGES_MOST];
  SearchLayout layout = {.count = one->count, .stage = stages};
  SearchTask task = one->task;
  SearchDraft draft;
  RengaPlanPrediction prediction;
  memcpy(stages, one->stage, sizeof stages);
  RengaSearchEvaluate_Private(&one->model, &layout);
  layout.schedule = *schedule;
  for (int s = 0; s < one->count; s++) stages[s].shape.saved = RENGA_SAVED_KEEP;
  RengaCallAbort(RengaSearchDraftCreate_Private(&task, &one->chain, &one->model, &layout, &draft));
  RengaCallAbort(
      RengaSearchPredictDraft_Private(&task, &one->model, &layout, &draft, true, &prediction));
  RengaSearchDraftFree_Private(&draft);
  return prediction.step;
}

/* On every choice of devices for the ranks from one on. */
static void TryPlaces(Case *one, const SearchSchedule *schedule, int n_ranks, int from, int rank[])
{
  if (from == n_ranks) {
    one->least = fmin(one->least, Seconds(one, schedule, n_ranks, rank));
    return;
  }
  for (int device = 0; device < one->task.ranks && !one->unfit; device++) {
    bool taken = false;
    for (int r = 0; r < from; r++) taken = taken || rank[r] == device;
    rank[from] = device;
    if (!taken) TryPlaces(one, schedule, n_ranks, from + 1, rank);
  }
}

static void TrySchedule(Case *one, const SearchSchedule *schedule, int n_ranks)
{
  int rank[STAGES_MOST + 1];
  one->unfit = false;
  if (Nearest(one, schedule) < one->least) TryPlaces(one, schedule, n_ranks, 0, rank);
}

/* Every number begun early for each stage that follows that is a fraction of them. */
static void TryLayout(Case *one)
{
  const int64_t microbatches = (one->task.batch + one->size - 1) / one->size;
  int n_ranks = 0;
  for (int s = 0; s < one->count; s++) n_ranks += one->stage[s].shape.replicas;
  for (int following = 1; following < one->count; following++)
    for (int early = 0; early <= following * microbatches; early++)
      TrySchedule(one, &(SearchSchedule){.eager = (double)early / following}, n_ranks);
  for (int i = 0; i < N_OTHERS; i++) TrySchedule(one, &others[i], n_ranks);
}

static void TryAll(Case *one, int begin, int left)
{
  const SearchModel *model = &one->model;
  if (begin == model->count) {
    TryLayout(one);
    return;
  }
  for (int o = 0; o < model->n_candidates && model->candidate[o].shape.replicas <= left; o++)
    for (int end = begin + 1; end <= model->count; end++) {
      one->stage[one->count++] =
          (SearchStage){.begin = begin, .end = end, .shape = model->candidate[o].shape};
      TryAll(one, end, left - model->candidate[o].shape.replicas);
      one->count--;
    }
}

static void CheckBest(Case *one)
{
  const bool fits = one->least < HUGE_VAL;
  SearchLayout best = {.simulated = fits ? one->least * (Random() < 0.3 ? 1 : 1.1) : 1};
  const bool improves = fits && best.simulated > one->least;
  double bound = 0;
  int64_t work = 0; /* any */
  RengaCallAbort(RengaSearchBranch_Private(&one->task, &one->chain, &work, &best, &bound));
  if (fits && fabs(best.simulated - one->least) > 1e-9 * one->least)
    fprintf(stderr, "%.17g found, %.17g is the least; %d devices, memory %g\n", best.simulated,
            one->least, one->task.ranks, one->task.memory);
  TestTrue((best.count > 0) == improves);
  TestTrue(!fits || fabs(best.simulated - one->least) <= 1e-9 * one->least);
  TestTrue(!fits || fabs(bound - one->least) <= 1e-8 * one->least);
  one->found += fits;
  one->improved += improves;
  one->refused += !fits;
  RengaSearchLayoutFree_Private(&best);
}

/* Bytes of a device that one stage for all needs, or a part of it. */
static double SomeMemory(Case *one)
{
  const SearchModel *model = &one->model;
  const double whole = RengaSearchStageBytes_Private(model, &model->candidate[0], RENGA_SAVED_KEEP,
                                                     0, model->count, 1);
  return Random() < 0.3 ? 0 : whole * (0.15 + 0.7 * Random());
}

static void CheckCase(Case *one)
{
  MakeTask(one);
  one->least = HUGE_VAL;
  one->count = 0;
  RengaCallAbort(RengaSearchModelOf_Private(&one->task, &one->chain, 0, false, &one->model));
  one->task.memory = SomeMemory(one);
  TryAll(one, 0, one->task.ranks);
  CheckBest(one);
  RengaSearchModelFree_Private(&one->model);
}

static void CheckNetwork(Case *one, const char *network)
{
  RengaCallAbort(RengaGraphCreate(one->comm, &one->graph));
  RengaCallAbort(RengaGraphLoad(one->graph, network));
  RengaCallAbort(RengaGraphSetUp(one->graph));
  RengaCallAbort(RengaSearchChainCreate_Private(one->graph, NULL, &one->chain));
  RengaCallAbort(RengaMalloc(RengaGraphGetNodeCount(one->graph), &one->cost));
  for (int i = 0; i < one->cases; i++) CheckCase(one);
  RengaCallAbort(RengaSearchForecast_Private()->end(&one->session.forecasts));
  RengaFree(&one->cost);
  RengaSearchChainFree_Private(&one->chain);
  RengaCallAbort(RengaGraphDestroy(&one->graph));
}

/* Nodes of two, whose links are slow beside the work. */
static void DescribeMachine(RengaMachine machine)
{
  const RengaMachineDevice device = {.name = (char *)"device",
                                     .memory = (int64_t)1 << 40,
                                     .matrix_rate = 1e12,
                                     .vector_rate = 1e11,
                                     .memory_bandwidth = 1e11,
                                     .matrix_efficiency = 0.8,
                                     .vector_efficiency = 0.5,
                                     .bandwidth_efficiency = 0.8,
                                     .launch = 1e-6};
  const RengaMachineLevel levels[] = {
      {.name = (char *)"node", .devices = 2, .latency = 1e-6, .bandwidth = 1e9},
      {.name = (char *)"cluster", .devices = 64, .latency = 1e-5, .bandwidth = 1e8}};
  RengaCallAbort(RengaMachineSetDevice(machine, &device));
  RengaCallAbort(RengaMachineSetLevels(machine, 2, levels));
}

int main(int argc, char **argv)
{
  const char *cases = getenv("TEST_CASES");
  Case one = {.cases = cases ? atoi(cases) : CASES};
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_SELF, &one.comm));
  RengaCallAbort(RengaMachineCreate(one.comm, &one.machine));
  DescribeMachine(one.machine);
  for (int n = 0; n < N_NETWORKS; n++) CheckNetwork(&one, networks[n]);
  RengaCallAbort(RengaMachineDestroy(&one.machine));
  RengaCallAbort(RengaCommDestroy(&one.comm));
  TestTrue(one.found > N_NETWORKS * one.cases / 3 && one.improved > 0);
  RengaCallAbort(RengaFinalize());
  return 0;
}
