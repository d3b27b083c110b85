/* TEST ranks: 1 4 */
/* Settings are kept, options override them, the view shows every rank; each tensor has one
   owner; steps go on from the number that is set. */
#include "../plan/plantest.h"
#include "run.h"

static const int64_t samples[] = {6};
static const Run base = {.graph =
                             "gpt:layers=2,hidden=8,heads=2,sequence=4,vocabulary=9,dropout=0.2",
                         .classes = 9,
                         .batch = 6,
                         .microbatch = 2,
                         .steps = 1,
                         .samples = samples};

static RengaErrorCode CheckOwners(RengaComm comm, RengaGraph graph, RengaPipeline pipeline)
{
  int count;
  const RengaPersistent *tensor;
  int64_t *owners, n_owned = 0;
  const int n_values = RengaGraphGetValueCount(graph);
  RengaCall(RengaPipelineGetPersistents(pipeline, &count, &tensor));
  RengaCall(RengaMalloc(n_values, &owners));
  for (int t = 0; t < count; t++) {
    const RengaValue value = RengaGraphFindValue(graph, tensor[t].name);
    n_owned += tensor[t].owner;
    if (value == RENGA_VALUE_NONE) {
      Expect(strchr(tensor[t].name, ':') != NULL && !tensor[t].state);
      continue;
    }
    owners[value] += tensor[t].owner;
    Expect(memcmp(&tensor[t].spec, &RengaGraphGetValue(graph, value)->spec,
                  sizeof tensor[t].spec) == 0);
  }
  RengaCall(RengaCommSumInt64(comm, n_values, owners, "owners"));
  RengaCall(RengaCommSumInt64(comm, 1, &n_owned, "owned"));
  int64_t parameters = 0;
  for (RengaValue v = 0; v < n_values; v++) {
    const bool held = RengaGraphGetValue(graph, v)->kind == RENGA_VALUE_PARAMETER;
    Expect(owners[v] == held);
    parameters += held;
  }
  Expect(n_owned == 3 * parameters); /* adamw has two moments */
  RengaFree(&owners);
  return RENGA_SUCCESS;
}

/* Three steps, or one step and two more from step number 1 with the same values: dropout and
   learning rate follow from the number. */
static RengaErrorCode CheckSteps(RengaGraph graph, RengaPipeline pipeline)
{
  Source source = {.graph = graph, .classes = base.classes};
  const RengaBatch batch = {6, RunRead, &source};
  double first, again, other;
  int count;
  const RengaPersistent *tensor;
  float *copy[128] = {NULL};
  RengaCall(RengaPipelineGetPersistents(pipeline, &count, &tensor));
  Expect(count <= 128);
  for (int t = 0; t < count; t++) {
    RengaCall(RengaMalloc(RengaTensorSpecCount(&tensor[t].spec), &copy[t]));
    RengaCall(RunCopy(pipeline, RENGA_DEVICE_TO_HOST, copy[t], tensor[t].data,
                      RengaTensorSpecBytes(&tensor[t].spec)));
  }
  RengaCall(RengaPipelineStep(pipeline, &batch, &first));
  for (int64_t step = 0; step < 2; step++) {
    for (int t = 0; t < count; t++)
      RengaCall(RunCopy(pipeline, RENGA_HOST_TO_DEVICE, tensor[t].data, copy[t],
                        RengaTensorSpecBytes(&tensor[t].spec)));
    RengaCall(RengaPipelineSetStepNumber(pipeline, step));
    RengaCall(RengaPipelineStep(pipeline, &batch, step == 0 ? &again : &other));
    Expect(RengaPipelineGetStepNumber(pipeline) == step + 1);
  }
  for (int t = 0; t < count; t++) RengaFree(&copy[t]);
  Expect(first == again && first != other);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckView(RengaComm comm, RengaPipeline pipeline)
{
  RengaViewer viewer;
  RengaCall(RengaViewerCreate(comm, "ascii:/dev/null", &viewer));
  RengaCall(RengaPipelineView(pipeline, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOptions(RengaComm comm)
{
  RengaPipeline pipeline;
  uint64_t seed;
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaSettingsSetSeed(SettingsOf(pipeline), UINT64_MAX));
  RengaCall(RengaSettingsGetSeed(SettingsOf(pipeline), &seed));
  Expect(seed == UINT64_MAX);
  RengaCall(RengaOptionsSetValue("seed", "12"));
  RengaCall(RengaPipelineSetFromOptions(pipeline));
  RengaCall(RengaSettingsGetSeed(SettingsOf(pipeline), &seed));
  Expect(seed == 12);
  TestError(RengaSettingsSetTimeout(SettingsOf(pipeline), -1), RENGA_ERR_ARGUMENT,
            "a timeout of -1 seconds");
  TestError(RengaPipelineSetDataShortBatch(pipeline, 0), RENGA_ERR_ARGUMENT, "a step of 0 samples");
  TestError(RengaSettingsSetSeed(NULL, 1), RENGA_ERR_ARGUMENT,
            "RengaSettingsSetSeed: settings is a null pointer");
  TestError(RengaPipelineStep(NULL, NULL, NULL), RENGA_ERR_ARGUMENT,
            "RengaPipelineStep: pipeline is a null pointer");
  TestError(RengaPipelineSetUp(pipeline), RENGA_ERR_ORDER, "call RengaPipelineSetPlan first");
  RengaCall(RengaPipelineDestroy(&pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Run run = base;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  run.stages = RengaCommGetSize(comm) >= 2 ? 2 : 1;
  run.replicas = RengaCommGetSize(comm) / run.stages;
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunPipeline(comm, &run, graph, plan, &pipeline));
  RengaCall(CheckOwners(comm, graph, pipeline));
  RengaCall(CheckView(comm, pipeline));
  RengaCall(CheckSteps(graph, pipeline));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(CheckOptions(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
