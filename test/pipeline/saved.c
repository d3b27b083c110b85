/* TEST ranks: 1 2 timeout: 300 */
/* A policy for each saved tensor: stages that recompute keep some all the same, with the bits of
   stages that recompute all and of those that keep all. What they keep takes memory, as was
   forecast, and is not made again; a tensor is not read before it is set. What cannot be is refused
   by name. */
#include "../check.h"
#include "renga/private/saved.h"
#include "run.h"

static const int64_t samples[] = {12, 12, 5};
static const Run networks[] = {
    {.graph = "skip", .classes = 4},
    {.graph = "gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "resnet:depth=18,width=0.0625,image=16,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

/* Every n-th name by its hash; 1: all, 0: none. */
static RengaSaved KeepSome(void *user, int stage, const char *value)
{
  const uint64_t n = *(const uint64_t *)user;
  (void)stage;
  return n > 0 && RengaHash(value, strlen(value), 3) % n == 0 ? RENGA_SAVED_KEEP
                                                              : RENGA_SAVED_RECOMPUTE;
}

static RengaSaved Offload(void *user, int stage, const char *value)
{
  (void)user, (void)stage, (void)value;
  return RENGA_SAVED_OFFLOAD;
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
  RengaCall(RengaPipelineSetSavedRule_Private(pipeline,
                                              (RengaSavedRule){.policy = KeepSome, .user = &n}));
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
  static uint64_t none = 0;
  Run run = networks[0];
  RengaPipelineMemory memory[2];
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  run.batch = run.microbatch = 2;
  run.stages = run.replicas = 1;
  RengaCall(RunBuild(comm, &run, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunConfigure(comm, &run, graph, plan, &pipeline));
  RengaCall(RengaPipelineSetSavedRule_Private(pipeline, (RengaSavedRule){.policy = Offload}));
  ExpectError(RengaPipelineForecastStages(pipeline, memory), RENGA_ERR_SUPPORT,
              "stage 0: policy offload of the saved tensor");
  RengaCall(RengaPipelineSetSavedRule_Private(pipeline,
                                              (RengaSavedRule){.policy = KeepSome, .user = &none}));
  ExpectError(RengaPipelineForecastStages(pipeline, memory), RENGA_ERR_SUPPORT,
              "stage 0 keeps its saved tensors: to recompute");
  RengaCall(RengaPipelineDestroy(&pipeline));
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
