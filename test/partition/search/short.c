/* TEST ranks: 1 */
/* Where memory is short: what stages keep at best is never slower than what the runtime lets them
   keep, and a plan is found without asking it for what could be no faster. */
#include "../../../src/partition/search/kept.h"
#include "../../plan/plantest.h"
#include "renga/private/graph.h"
#include "random.h"

enum { STAGES = 3, CASES = 60, ASKED_MOST = 8000 };
static const char network[] = "gpt:layers=6,hidden=16,heads=2,sequence=16,vocabulary=40";

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
  int mixed, slower;
} Case;

static const RengaMemoryForecast *runtime;
static int asked; /* stages whose memory the planner wanted to know */

static RengaErrorCode CountStages(RengaGraph graph, RengaPlan plan, const RengaForecastRun *run,
                                  void **session, RengaForecastMemory memory[])
{
  asked += RengaPlanGetStageCount(plan);
  RengaCall(runtime->stages(graph, plan, run, session, memory));
  return RENGA_SUCCESS;
}

static void DescribeMachine(Case *one)
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
  const RengaMachineLevel level = {
      .name = (char *)"node", .devices = STAGES, .latency = 1e-6, .bandwidth = 1e9};
  RengaCallAbort(RengaMachineCreate(one->comm, &one->machine));
  RengaCallAbort(RengaMachineSetDevice(one->machine, &device));
  RengaCallAbort(RengaMachineSetLevels(one->machine, 1, &level));
}

static void MakeCase(Case *one)
{
  DescribeMachine(one);
  RengaCallAbort(RengaGraphCreate(one->comm, &one->graph));
  RengaCallAbort(RengaGraphLoad(one->graph, network));
  RengaCallAbort(RengaGraphSetUp(one->graph));
  RengaCallAbort(RengaSearchChainCreate_Private(one->graph, NULL, &one->chain));
  RengaCallAbort(RengaMalloc(RengaGraphGetNodeCount(one->graph), &one->cost));
  for (int n = 0; n < RengaGraphGetNodeCount(one->graph); n++) {
    if (RengaGraphNodeIsPrepared_Private(one->graph, RengaGraphGetNode(one->graph, n))) continue;
    one->cost[n].forward = 1e-4 * (1 + Random());
    one->cost[n].backward = 2e-4 * (1 + Random());
  }
  one->size = one->leaf = 1;
  one->task = (SearchTask){.self = one->comm,
                           .graph = one->graph,
                           .machine = one->machine,
                           .ranks = STAGES,
                           .moments = 2,
                           .batch = 12,
                           .any_schedule = true,
                           .n_sizes = 1,
                           .n_first = 1,
                           .size = &one->size,
                           .leaf = &one->leaf,
                           .costs = &one->cost,
                           .session = &one->session};
  RengaCallAbort(RengaSearchModelOf_Private(&one->task, &one->chain, 0, false, &one->model));
}

static void FreeCase(Case *one)
{
  RengaCallAbort(runtime->end(&one->session.forecasts));
  RengaSearchModelFree_Private(&one->model);
  RengaFree(&one->cost);
  RengaSearchChainFree_Private(&one->chain);
  RengaCallAbort(RengaGraphDestroy(&one->graph));
  RengaCallAbort(RengaMachineDestroy(&one->machine));
}

/* Seconds that the stages run again; those that the layout keeps are forgotten. */
static double SecondsAgain(SearchLayout *layout)
{
  double again = 0;
  for (int s = 0; s < layout->count; s++) {
    again += layout->stage[s].kept.set ? layout->stage[s].kept.again : 1;
    layout->stage[s].kept = (SearchKept){0};
  }
  return again;
}

/* Stages that all recompute, in memory between what they take so and what they take else. */
static void CheckAtBest(Case *one, SearchLayout *layout)
{
  RengaForecastMemory keeps[STAGES], memory[STAGES];
  double temporary[STAGES], most, least;
  RengaPlan plan;
  RengaCallAbort(RengaSearchPlan_Private(&one->task, &one->chain, layout, &plan));
  RengaCallAbort(RengaSearchMemory_Private(&one->task, &one->model, layout, plan, keeps, &most));
  RengaCallAbort(RengaPlanDestroy(&plan));
  for (int s = 0; s < layout->count; s++) {
    temporary[s] = (double)keeps[s].temporary;
    layout->stage[s].shape.saved = RENGA_SAVED_RECOMPUTE;
  }
  RengaCallAbort(RengaSearchPlan_Private(&one->task, &one->chain, layout, &plan));
  RengaCallAbort(RengaSearchMemory_Private(&one->task, &one->model, layout, plan, memory, &least));
  one->task.memory = least + (most - least) * Random();
  RengaCallAbort(RengaSearchMixAtBest_Private(&one->task, &one->chain, &one->model, layout, plan,
                                              memory, temporary));
  const double at_best = SecondsAgain(layout);
  RengaCallAbort(
      RengaSearchMix_Private(&one->task, &one->chain, &one->model, layout, &plan, memory, &most));
  const double settled = SecondsAgain(layout);
  TestTrue(most <= one->task.memory);
  TestTrue(at_best <= settled * (1 + 1e-9));
  one->mixed++;
  one->slower += settled > at_best * (1 + 1e-9);
  RengaCallAbort(RengaPlanDestroy(&plan));
}

static void CheckCuts(Case *one)
{
  SearchStage stage[STAGES];
  SearchLayout layout = {.count = STAGES, .stage = stage};
  const int count = one->model.count;
  int cut[STAGES + 1] = {0, 0, 0, count};
  cut[1] = 1 + RandomBelow(count - 2);
  cut[2] = cut[1] + 1 + RandomBelow(count - cut[1] - 1);
  for (int s = 0; s < STAGES; s++)
    stage[s] = (SearchStage){.begin = cut[s], .end = cut[s + 1], .shape = RengaStageShapePlain(1)};
  one->task.memory = 0;
  TestTrue(RengaSearchEvaluate_Private(&one->model, &layout));
  CheckAtBest(one, &layout);
}

/* In four tenths of what one stage for all would take. */
static void CheckAsked(Case *one)
{
  const RengaMemoryForecast counting = {.stages = CountStages, .end = runtime->end};
  SearchAnswer answer;
  one->task.memory = 0.4 * RengaSearchStageBytes_Private(&one->model, &one->model.candidate[0],
                                                         RENGA_SAVED_KEEP, 0, one->model.count, 1);
  RengaCallAbort(RengaPartitionSetForecast_Private(&counting));
  RengaCallAbort(RengaSearchSolve_Private(&one->task, &answer));
  RengaCallAbort(RengaPartitionSetForecast_Private(runtime));
  TestTrue(answer.n_kept > 0);
  if (getenv("TEST_SHOW"))
    fprintf(stderr, "%d asked, %.6g s, %d kept; %d of %d slower\n", asked, answer.prediction.step,
            answer.n_kept, one->slower, one->mixed);
  TestTrue(asked > 0 && asked <= ASKED_MOST);
  RengaSearchAnswerFree_Private(&answer);
}

int main(int argc, char **argv)
{
  Case one = {.mixed = 0};
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  runtime = RengaSearchForecast_Private();
  RengaCallAbort(RengaCommCreate(MPI_COMM_SELF, &one.comm));
  MakeCase(&one);
  for (int i = 0; i < CASES; i++) CheckCuts(&one);
  CheckAsked(&one);
  FreeCase(&one);
  RengaCallAbort(RengaCommDestroy(&one.comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
