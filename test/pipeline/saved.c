/* TEST ranks: 1 2 timeout: 300 */
/* A policy for each saved tensor: stages that recompute keep some all the same, with the bits of
   stages that recompute all and of those that keep all. What they keep takes memory, as was
   forecast, and is not made again; a tensor is not read before it is set. What cannot be is refused
   by name. */
#include "../check.h"
#include "run.h"

static const int64_t samples[] = {12, 12, 5};
static const Run networks[] = {
    {.graph = "skip", .classes = 4},
    {.graph = "gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "resnet:depth=18,width=0.0625,image=33,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

/* Every n-th name by its hash; 1: all, 0: none. */
static RengaErrorCode KeepSome(RengaGraph graph, RengaPlan plan, int stage, uint64_t n)
{
  const RengaPlanStage *row = RengaPlanGetStage(plan, stage);
  const char **names;
  int count = 0;
  RengaCall(RengaMalloc(RengaGraphGetValueCount(graph) + 1, &names));
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph) && n > 0; v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->producer >= row->first && value->producer < row->last && !value->prepared &&
        RengaHash(value->name, strlen(value->name), 3) % n == 0)
      names[count++] = value->name;
  }
  RengaCall(RengaPlanSetKept(plan, stage, count, names));
  RengaFree(&names);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunKeeping(RengaComm comm, const Run *run, uint64_t n, Result *result)
{
  RengaPipelineMemory forecast[16];
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  memset(result, 0, sizeof *result);
  RengaCall(RunBuild(comm, run, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunConfigure(comm, run, graph, plan, &pipeline));
  RengaCall(RengaPipelineForecastStages(pipeline, forecast)); /* by the shapes */
  for (int s = 0; s < run->stages; s++) RengaCall(KeepSome(graph, plan, s, n));
  RengaCall(RengaPipelineForecastStages(pipeline, forecast));
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(RunCheckForecast(comm, plan, forecast, pipeline));
  RengaCall(RunSteps(run, graph, pipeline, result));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, Run run)
{
  const int size = RengaCommGetSize(comm);
  Result expected, again, kept;
  run.device = "cpu";
  run.schedule = "gpipe";
  run.batch = 12;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.poison = true;
  run.replicas = 1;
  RengaCall(RunAlone(self, &run, &expected));
  for (run.chunks = 1; run.chunks <= 2; run.chunks++) {
    run.stages = size * run.chunks;
    run.recompute = 15;
    RengaCall(RunAll(comm, &run, &again));
    RengaCall(RunCompare(&run, &expected, &again));
    for (uint64_t n = 0; n <= 5; n++) {
      RengaCall(RunKeeping(comm, &run, n, &kept));
      RengaCall(RunCompare(&run, &expected, &kept));
      Expect(n > 0 || kept.memory.forecast == again.memory.forecast);
      Expect(n != 1 || kept.memory.saved > again.memory.saved);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefused(RengaComm comm)
{
  static const char *const twice[] = {"in.y", "in.y"}, *const none[] = {"nothing"};
  Run run = networks[0];
  RengaGraph graph;
  RengaPlan plan;
  RengaCall(RunBuild(comm, &run, &graph));
  const char *const first[] = {
      RengaGraphGetValue(graph, RengaGraphGetNode(graph, 0)->out[0])->name};
  run.batch = run.microbatch = 2;
  run.stages = 2;
  run.replicas = 1;
  run.recompute = 2;
  RengaCall(RunPlan(comm, &run, graph, &plan));
  ExpectError(RengaPlanSetKept(plan, 2, 1, none), RENGA_ERR_ARGUMENT, "stage 2 of a plan with 2");
  ExpectError(RengaPlanSetKept(plan, 0, 1, none), RENGA_ERR_PLAN,
              "stage 0 keeps nothing, but it does not recompute");
  ExpectError(RengaPlanSetKept(plan, 1, 2, twice), RENGA_ERR_PLAN, "stage 1 keeps in.y twice");
  RengaCall(RengaPlanSetKept(plan, 1, 1, none));
  ExpectError(RengaPlanCheck(plan, graph, 0), RENGA_ERR_PLAN,
              "stage 1 keeps nothing, but the network has no such value");
  RengaCall(RengaPlanSetKept(plan, 1, 1, first));
  ExpectError(RengaPlanCheck(plan, graph, 0), RENGA_ERR_PLAN, "stage 1 keeps", "does not make");
  RengaCall(RengaPlanSetKept(plan, 1, 0, NULL));
  RengaCall(RengaPlanCheck(plan, graph, 0));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (int n = 0; n < N_NETWORKS; n++) RengaCall(CheckNetwork(self, comm, networks[n]));
  if (RengaCommGetSize(comm) == 1) RengaCall(CheckRefused(comm));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
