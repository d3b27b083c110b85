/* TEST ranks: 1 2 */
/* A pipeline that ended in the middle of its messages, or of an update, can only be destroyed; then
   it gives back all that it holds. */
#include "../plan/plantest.h"
#include "renga/private/fault.h"
#include "renga/private/object.h"
#include "rengaoptimizer.h"
#include "run.h"
#include <unistd.h>

enum { BATCH = 6 };
static const int64_t samples[] = {BATCH};

typedef struct {
  int rank, size;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source;
  bool waits;  /* the next read waits for the last rank's word */
  int updates; /* of the rule until it fails; -1: it does not */
} Parts;

static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  Parts *parts = user;
  if (parts->waits)
    MPI_Recv(NULL, 0, MPI_BYTE, parts->size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  parts->waits = false;
  return RunRead(&parts->source, field, first, count, buffer);
}

static RengaErrorCode UpdateFragile(const RengaOptimizerTask *task, void *user)
{
  Parts *parts = *(Parts **)user;
  if (parts->updates == 0) RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "the rule breaks");
  if (parts->updates > 0) parts->updates--;
  for (int64_t i = 0; i < task->count; i++)
    task->parameter[i] -= (float)task->learning_rate * task->gradient[i];
  return RENGA_SUCCESS;
}

static RengaErrorCode Make(RengaComm comm, const Run *run, Parts *parts)
{
  *parts = (Parts){.rank = RengaCommGetRank(comm), .size = RengaCommGetSize(comm), .updates = -1};
  RengaCall(RunGraph(comm, run->graph, &parts->graph));
  RengaCall(RunPlan(comm, run, parts->graph, &parts->plan));
  RengaCall(RunConfigure(comm, run, parts->graph, parts->plan, &parts->pipeline));
  RengaCall(RengaPipelineSetUp(parts->pipeline));
  parts->source = (Source){.graph = parts->graph, .classes = run->classes};
  return RENGA_SUCCESS;
}

/* What is left of a broken pipeline: nothing. Settings that it held may be changed again. */
static RengaErrorCode Bury(Parts *parts, unsigned mark)
{
  const RengaBatch batch = {BATCH, Read, parts};
  RengaSettings settings;
  char text[2048];
  double loss = 17;
  TestError(RengaPipelineStep(parts->pipeline, &batch, &loss), RENGA_ERR_ORDER, "destroy it");
  TestError(RengaPipelineReset(parts->pipeline), RENGA_ERR_ORDER, "destroy it");
  RengaCall(RengaPipelineGetSettings(parts->pipeline, &settings));
  RengaCall(RengaHeaderReference(settings));
  RengaCall(RengaPipelineDestroy(&parts->pipeline));
  RengaCall(RengaSettingsSetSeed(settings, 6));
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaPlanDestroy(&parts->plan));
  RengaCall(RengaGraphDestroy(&parts->graph));
  if (RengaMemoryListSince(mark, sizeof text, text)) printf("not given back:%s\n", text);
  Expect(text[0] == '\0' && loss == 17);
  return RENGA_SUCCESS;
}

/* The last rank's time is up while the first reads; then the first waits in vain. A new time limit
   does not mend the pipeline. */
static RengaErrorCode CheckMessages(const Run *run)
{
  RengaComm comm;
  Parts parts;
  double loss = 17;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm)); /* no wait in it makes sense afterwards */
  const unsigned mark = RengaMemoryGetMark();
  RengaCall(Make(comm, run, &parts));
  const RengaBatch batch = {BATCH, Read, &parts};
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  RengaCall(RengaCommSetTimeout(comm, 0.3));
  parts.waits = parts.rank == 0;
  loss = 17;
  TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_TIMEOUT, "nothing moved");
  Expect(loss == 17);
  if (parts.rank == parts.size - 1) MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  RengaCall(RengaCommSetTimeout(comm, 150));
  RengaCall(Bury(&parts, mark));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

static Parts *fragile; /* whose rule it is */

/* A rule of the program fails on one rank, when others have changed parameters. */
static RengaErrorCode CheckUpdate(RengaComm comm, Run run)
{
  static const RengaOptimizerRule rule = {
      .name = "fragile", .update = UpdateFragile, .user = &fragile};
  Parts parts;
  double loss = 17;
  const unsigned mark = RengaMemoryGetMark();
  RengaCall(RengaOptimizerRegister(&rule));
  run.optimizer = "fragile";
  RengaCall(Make(comm, &run, &parts));
  fragile = &parts;
  const RengaBatch batch = {BATCH, Read, &parts};
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  loss = 17;
  const bool last = parts.rank == parts.size - 1;
  if (last) parts.updates = 1;
  TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_FILE_OPEN,
            last ? "the rule breaks" : "");
  Expect(loss == 17 && RengaPipelineGetStepNumber(parts.pipeline) == 1);
  RengaCall(Bury(&parts, mark));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const int size = RengaCommGetSize(comm);
  Run run = {.graph = "mlp:sizes=6-16-12-8-5",
             .classes = 5,
             .batch = BATCH,
             .microbatch = 2,
             .steps = 1,
             .samples = samples};
  for (int stages = size; stages >= 1; stages--) {
    run.stages = stages;
    run.replicas = size / stages;
    RengaCall(CheckUpdate(comm, run));
    if (size > 1) RengaCall(CheckMessages(&run));
  }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunTest());
  LeaveWithoutMPI();
}
