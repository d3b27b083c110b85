/* A rank that never gets its samples: run by stall.sh, which wants to see who waits for what. */
#include "run.h"
#include <unistd.h>

static RengaErrorCode ReadLate(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  RengaCall(RunRead(user, field, first, count, buffer));
  if (field == 0 && first == 4) sleep(60);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const int64_t samples[] = {6};
  const Run run = {.graph = "mlp:sizes=6-16-12-8-5",
                   .classes = 5,
                   .batch = 6,
                   .microbatch = 2,
                   .stages = 2,
                   .replicas = 1};
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source = {.classes = run.classes};
  const RengaBatch batch = {samples[0], ReadLate, &source};
  double loss;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineSetFromOptions(pipeline));
  RengaCall(RengaPipelineSetUp(pipeline));
  source.graph = graph;
  RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
