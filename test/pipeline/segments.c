/* TEST ranks: 1 2 3 timeout: 300 */
/* A stage that recomputes and keeps the values between its layers makes one layer again at a time:
   its memory falls far below that of one that keeps none of them, as was forecast, and the bits
   are those of stages that keep all, under all schedules, with sharded parameters, and on a device
   whose work is done later. */
#include "../check.h"
#include "run.h"

static const int64_t samples[] = {12, 12, 5};
static const Run base = {.graph =
                             "gpt:layers=8,hidden=16,heads=2,sequence=12,vocabulary=11,dropout=0.1",
                         .classes = 11,
                         .batch = 12,
                         .microbatch = 2,
                         .steps = sizeof samples / sizeof samples[0],
                         .samples = samples,
                         .poison = true,
                         .device = "cpu"};
static const Run ways[] = {
    {.schedule = "gpipe"},
    {.schedule = "1f1b"},
    {.schedule = "zb-h1"},
    {.schedule = "interleaved", .chunks = 2},
    {.schedule = "1f1b", .device = "far"},
    {.schedule = "1f1b", .replicas = 2, .level = RENGA_SHARD_PARAMETERS},
};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

/* What residual connections add up to: two values of each layer. */
static RengaErrorCode KeepSums(RengaGraph graph, RengaPlan plan, int stage)
{
  const RengaPlanStage *row = RengaPlanGetStage(plan, stage);
  const char **names;
  int count = 0;
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph) + 1, &names));
  for (int n = row->first; n < row->last; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (strcmp(node->op->name, "Add") == 0)
      names[count++] = RengaGraphGetValue(graph, node->out[0])->name;
  }
  Expect(count > 0);
  RengaCall(RengaPlanSetKept(plan, stage, count, names));
  RengaFree(&names);
  return RENGA_SUCCESS;
}

/* again: the forecast where nothing is kept. */
static RengaErrorCode RunSegments(RengaComm comm, const Run *run, int64_t *again, Result *result)
{
  RengaPipelineMemory forecast[16];
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  memset(result, 0, sizeof *result);
  RengaCall(RunBuild(comm, run, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunConfigure(comm, run, graph, plan, &pipeline));
  RengaCall(RengaPipelineForecastStages(pipeline, forecast));
  *again = forecast[0].saved + forecast[0].temporary;
  for (int s = 0; s < run->stages; s++) RengaCall(KeepSums(graph, plan, s));
  RengaCall(RengaPipelineForecastStages(pipeline, forecast));
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(RunCheckForecast(comm, plan, forecast, pipeline));
  RengaCall(RunSteps(run, graph, pipeline, result));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWay(RengaComm comm, const Run *way, const Result *expected)
{
  const int size = RengaCommGetSize(comm);
  Run run = base;
  Result kept;
  int64_t again = 0;
  run.schedule = way->schedule;
  run.chunks = way->chunks;
  run.device = way->device ? way->device : "cpu";
  run.replicas = way->replicas ? size : 1;
  run.stages = way->replicas ? 1 : size * (way->chunks ? way->chunks : 1);
  run.level = way->level;
  run.shard = way->level ? 1 : 0;
  run.recompute = (1U << run.stages) - 1;
  RengaCall(RunSegments(comm, &run, &again, &kept));
  RengaCall(RunCompare(&run, expected, &kept));
  return RENGA_SUCCESS;
}

/* One stage under 1F1B has one micro-batch in flight. */
static RengaErrorCode CheckMemory(RengaComm self, const Result *expected)
{
  Run run = base;
  Result kept;
  int64_t again = 0;
  run.schedule = "1f1b";
  run.stages = run.replicas = 1;
  run.recompute = 1;
  RengaCall(RunSegments(self, &run, &again, &kept));
  RengaCall(RunCompare(&run, expected, &kept));
  Expect(4 * (kept.memory.saved + kept.memory.temporary) < again);
  Expect(again < expected->memory.saved + expected->memory.temporary);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  Run run = base;
  Result expected;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  run.schedule = "1f1b";
  run.stages = run.replicas = 1;
  RengaCall(RunAlone(self, &run, &expected));
  if (RengaCommGetSize(comm) == 1) RengaCall(CheckMemory(self, &expected));
  for (int w = 0; w < N_WAYS; w++) RengaCall(CheckWay(comm, &ways[w], &expected));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
