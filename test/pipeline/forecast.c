/* TEST ranks: 1 */
/* Stages far larger than this machine are forecast: GPT-3 175B in 96 stages of 8 replicas. All
   stages of a plan at once, of which equal ones are compiled once, are what each is by itself. */
#include "renga/private/graph.h"
#include "run.h"

enum { STAGES = 96, REPLICAS = 8, HIDDEN = 12288 };

static const char *const networks[] = {
    "gpt:layers=6,hidden=32,heads=2,sequence=16,vocabulary=50,dropout=0.1",
    "bert:layers=5,hidden=32,heads=2,sequence=16,vocabulary=50",
    "t5:layers=3,hidden=32,heads=2,sequence=16,vocabulary=50",
    "transformer:layers=3,hidden=32,heads=2,sequence=16,vocabulary=50",
    "resnet:depth=50,image=32,classes=10",
    "mlp:input=20,hidden=32,layers=9,classes=5",
    "ncf",
};

static bool HasWork(RengaGraph graph, int first, int last)
{
  for (int n = first; n < last; n++)
    if (!RengaGraphNodeIsPrepared_Private(graph, RengaGraphGetNode(graph, n))) return true;
  return false;
}

/* Stages of pseudo-random lengths with alternating replicas and recomputation. */
static RengaErrorCode MakePlan(RengaComm comm, RengaGraph graph, int variant, RengaPlan *plan)
{
  RengaPlanStage stage[64] = {{0}};
  const int nodes = RengaGraphGetNodeCount(graph);
  unsigned draw = (unsigned)variant * 2654435761U + 1;
  int count = 0;
  for (int first = 0; first < nodes && count < 63; count++) {
    draw = draw * 1664525U + 1013904223U;
    const int length = variant % 2 ? 1 + (int)((draw >> 16) % 12) : 2 + variant;
    int last = first + length < nodes && count < 62 ? first + length : nodes;
    while (last < nodes && !HasWork(graph, first, last)) last++;
    if (!HasWork(graph, last, nodes)) last = nodes;
    stage[count] = (RengaPlanStage){.first = first,
                                    .last = last,
                                    .shape = RengaStageShapePlain(variant % 3 ? 2 : 1 + count % 3)};
    if (variant % 4 > 1 && count % 2) stage[count].shape.saved = RENGA_SAVED_RECOMPUTE;
    first = last;
  }
  RengaCall(RengaPlanCreate(comm, plan));
  RengaCall(RengaPlanSetStages(*plan, graph, count, stage));
  RengaCall(RengaPlanSetBatch(*plan, 26, 4));
  RengaCall(RengaPlanSetSchedule(*plan, RENGA_SCHEDULE_1F1B));
  return RENGA_SUCCESS;
}

static RengaErrorCode CompareStages(RengaPipeline pipeline, RengaGraph graph, RengaPlan plan)
{
  RengaPipelineMemory all[64];
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineForecastStages(pipeline, all));
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++) {
    RengaPipelineMemory one;
    RengaCall(RengaPipelineForecast(graph, plan, s, &one));
    Expect(all[s].parameters == one.parameters && all[s].gradients == one.gradients &&
           all[s].optimizer == one.optimizer && all[s].saved == one.saved &&
           all[s].temporary == one.temporary && all[s].messages == one.messages &&
           all[s].inputs == one.inputs && all[s].forecast == one.forecast);
  }
  return RENGA_SUCCESS;
}

/* The same pipeline is asked about all plans of a network, so that it knows more and more. */
static RengaErrorCode CompareNetwork(RengaComm comm, const char *network)
{
  RengaGraph graph;
  RengaPipeline pipeline;
  RengaCall(RunGraph(comm, network, &graph));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetFromOptions(pipeline));
  for (int variant = 0; variant < 8; variant++) {
    RengaPlan plan;
    RengaCall(MakePlan(comm, graph, variant, &plan));
    RengaCall(CompareStages(pipeline, graph, plan));
    RengaCall(RengaPlanDestroy(&plan));
  }
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* A table that is the output layer too is in parts unless another stage cuts between the lanes of a
   use: a stage that is equal in both plans is not taken for the same. */
static RengaErrorCode CompareCuts(RengaComm comm)
{
  RengaGraph graph;
  RengaPipeline pipeline;
  RengaPlan plan;
  int64_t least = INT64_MAX, most = 0;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "gpt:layers=1,hidden=16,heads=2,sequence=8,vocabulary=64"));
  RengaCall(RengaGraphSetLanes(graph, 2));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetFromOptions(pipeline));
  const int nodes = RengaGraphGetNodeCount(graph), first = nodes / 4;
  for (int cut = first + 1; cut < nodes; cut++) {
    if (!HasWork(graph, first, cut) || !HasWork(graph, cut, nodes)) continue;
    const RengaPlanStage stage[3] = {
        {.first = 0, .last = first, .shape = RengaStageShapePlain(1)},
        {.first = first, .last = cut, .shape = RengaStageShapePlain(1)},
        {.first = cut, .last = nodes, .shape = RengaStageShapePlain(1)}};
    RengaPipelineMemory memory;
    RengaCall(RengaPlanCreate(comm, &plan));
    RengaCall(RengaPlanSetStages(plan, graph, 3, stage));
    RengaCall(RengaPlanSetBatch(plan, 8, 4));
    RengaCall(RengaPlanSetSchedule(plan, RENGA_SCHEDULE_1F1B));
    RengaCall(CompareStages(pipeline, graph, plan));
    RengaCall(RengaPipelineForecast(graph, plan, 0, &memory));
    least = memory.forecast < least ? memory.forecast : least;
    most = memory.forecast > most ? memory.forecast : most;
    RengaCall(RengaPlanDestroy(&plan));
  }
  Expect(most > least); /* in parts, and whole */
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaPlanStage stage[STAGES] = {{0}};
  RengaPipelineMemory first, middle;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(
      RunGraph(comm, "gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=50257", &graph));
  const int nodes = RengaGraphGetNodeCount(graph);
  for (int s = 0; s < STAGES; s++)
    stage[s] = (RengaPlanStage){.first = nodes * s / STAGES,
                                .last = nodes * (s + 1) / STAGES,
                                .shape = RengaStageShapePlain(REPLICAS)};
  RengaCall(RengaPlanCreate(comm, &plan));
  RengaCall(RengaPlanSetStages(plan, graph, STAGES, stage));
  RengaCall(RengaPlanSetBatch(plan, 1536, 1));
  RengaCall(RengaPlanSetSchedule(plan, RENGA_SCHEDULE_1F1B));
  RengaCall(RengaPipelineForecast(graph, plan, 0, &first));
  RengaCall(RengaPipelineForecast(graph, plan, STAGES / 2, &middle));
  /* the table of words, and about a layer: 12 hidden^2 weights; adamw has two moments of each */
  Expect(first.parameters > (int64_t)50257 * HIDDEN * 4);
  Expect(middle.parameters > (int64_t)8 * HIDDEN * HIDDEN * 4);
  Expect(middle.parameters < (int64_t)16 * HIDDEN * HIDDEN * 4);
  Expect(middle.optimizer >= 2 * (middle.parameters - 1000000) && middle.saved > 0);
  Expect(middle.forecast == middle.parameters + middle.gradients + middle.optimizer + middle.saved +
                                middle.temporary + middle.messages + middle.inputs);
  const RengaPlanMemory parts = {middle.parameters, middle.gradients, middle.optimizer,
                                 middle.saved,      middle.temporary, middle.messages,
                                 middle.inputs};
  RengaCall(RengaPlanSetMemoryParts(plan, 1, &parts));
  Expect(RengaPlanGetStage(plan, 1)->memory == middle.forecast);
  Expect(RengaPlanGetStage(plan, 1)->parts.saved == middle.saved);
  ExpectError(RengaPipelineForecast(graph, plan, STAGES, &first), RENGA_ERR_ARGUMENT,
              "stage 96 of a plan of 96 stages");
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++)
    RengaCall(CompareNetwork(comm, networks[n]));
  RengaCall(CompareCuts(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
