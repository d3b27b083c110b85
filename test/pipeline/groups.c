/* TEST ranks: 1 4 */
/* Groups of the optimizer: what is frozen keeps its values, has no gradient, no moments and no
   share in the norm, on any layout; a pattern that fits nothing is refused. */
#include "run.h"

static const int64_t samples[] = {8, 8, 7};
static const Run base = {.graph = "skip",
                         .device = "ref",
                         .schedule = "gpipe",
                         .stages = 1,
                         .replicas = 1,
                         .batch = 8,
                         .microbatch = 2,
                         .classes = 4,
                         .steps = 3,
                         .samples = samples,
                         .clip_norm = 0.5};

/* The first element of each parameter that this rank holds. */
static RengaErrorCode FirstElements(RengaPipeline pipeline, int most, int *count, float value[],
                                    const RengaPersistent **tensor)
{
  RengaCall(RengaPipelineGetPersistents(pipeline, count, tensor));
  Expect(*count <= most);
  for (int i = 0; i < *count; i++)
    RengaCall(RunCopy(pipeline, RENGA_DEVICE_TO_HOST, &value[i], (*tensor)[i].data, sizeof *value));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRun(RengaComm comm, const Run *run, Result *result)
{
  enum { MOST = 64 };
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  const RengaPersistent *tensor;
  float before[MOST], after[MOST];
  int count;
  RengaCall(RunGraph(comm, run->graph, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunPipeline(comm, run, graph, plan, &pipeline));
  RengaCall(FirstElements(pipeline, MOST, &count, before, &tensor));
  RengaCall(RunSteps(run, graph, pipeline, result));
  RengaCall(FirstElements(pipeline, MOST, &count, after, &tensor));
  for (int i = 0; i < count; i++) {
    const bool frozen =
        strncmp(tensor[i].name, "in.", 3) == 0 || strncmp(tensor[i].name, "shared", 6) == 0;
    Expect((before[i] == after[i]) == frozen);
  }
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RefuseGroups(RengaComm comm, const char *groups, const char *what)
{
  Run run = base;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  run.groups = groups;
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  ExpectError(RunPipeline(comm, &run, graph, plan, &pipeline), RENGA_ERR_OPTION,
              RengaCommGetRank(comm) == 0 ? what : "");
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  Result all, frozen, layout;
  Run run = base;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RunAll(comm, &run, &all));
  run.groups = "in.*:frozen=yes;shared:frozen=yes;*.bias:weight_decay=0,learning_rate_scale=2";
  RengaCall(CheckRun(comm, &run, &frozen));
  Expect(frozen.loss[0] == all.loss[0] && frozen.norm[0] < all.norm[0]);
  if (RengaCommGetRank(comm) == 0)
    Expect(frozen.memory.gradients < all.memory.gradients &&
           frozen.memory.optimizer < all.memory.optimizer);
  if (RengaCommGetSize(comm) == 4) {
    run.stages = run.replicas = 2;
    run.schedule = "1f1b";
    RengaCall(CheckRun(comm, &run, &layout));
    RengaCall(RunCompare(&run, &frozen, &layout));
  }
  RengaCall(RefuseGroups(comm, "inn.*:frozen=yes", "no parameter's name fits \"inn.*\""));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
