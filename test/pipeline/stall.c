/* A rank that never gets its samples, and says so by a file: run by stall.sh, which wants to see
   who waits for what. */
#include "run.h"
#include <fcntl.h>
#include <unistd.h>

static RengaErrorCode ReadLate(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  RengaCall(RunRead(user, field, first, count, buffer));
  if (field != 0 || first != 4) return RENGA_SUCCESS;
  Expect(open(getenv("RENGA_TEST_FLY"), O_WRONLY | O_CREAT, 0666) >= 0);
  for (;;) pause();
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
