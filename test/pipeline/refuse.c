/* TEST ranks: 1 4 timeout: 120 */
/* What a pipeline refuses, on all ranks alike: memory over the bound, another plan on one rank, a loss
   that is not finite (parameters are kept), batches that were not planned for, calls out of order. */
#include "run.h"

static const int64_t samples[] = {6};
static const Run base = {.graph = "mlp:sizes=6-16-12-8-5",
                         .classes = 5,
                         .batch = 6,
                         .microbatch = 2,
                         .steps = 1,
                         .samples = samples};

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
} Parts;

static RengaErrorCode Make(RengaComm comm, Run run, Parts *parts)
{
  run.stages = RengaCommGetSize(comm) >= 2 ? 2 : 1;
  run.replicas = RengaCommGetSize(comm) / run.stages;
  RengaCall(RunGraph(comm, run.graph, &parts->graph));
  RengaCall(RunPlan(comm, &run, parts->graph, &parts->plan));
  RengaCall(RengaPipelineCreate(comm, &parts->pipeline));
  RengaCall(RengaPipelineSetPlan(parts->pipeline, parts->graph, parts->plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode Free(Parts *parts)
{
  RengaCall(RengaPipelineDestroy(&parts->pipeline));
  RengaCall(RengaPlanDestroy(&parts->plan));
  RengaCall(RengaGraphDestroy(&parts->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBound(RengaComm comm)
{
  Parts parts;
  RengaPipelineMemory memory;
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(RengaPipelineGetMemory(parts.pipeline, &memory));
  RengaCall(Free(&parts));
  RengaCall(Make(comm, base, &parts));
  if (RengaCommGetRank(comm) == 0)
    RengaCall(RengaPipelineSetMemoryBound(parts.pipeline, memory.forecast - 1));
  Expect(RengaPipelineSetUp(parts.pipeline) == RENGA_ERR_MEMORY);
  RengaCall(Free(&parts));
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaPlanSetMemoryLimit(parts.plan, 1000));
  Expect(RengaPipelineSetUp(parts.pipeline) == RENGA_ERR_MEMORY);
  RengaCall(Free(&parts));
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaPipelineSetMemoryBound(parts.pipeline, memory.forecast));
  if (RengaCommGetSize(comm) == 1) RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAgreement(RengaComm comm)
{
  Parts parts;
  if (RengaCommGetSize(comm) == 1) return RENGA_SUCCESS;
  Run run = base;
  if (RengaCommGetRank(comm) == 1) run.microbatch = 3;
  RengaCall(Make(comm, run, &parts));
  Expect(RengaPipelineSetUp(parts.pipeline) == RENGA_ERR_PLAN);
  RengaCall(Free(&parts));
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaPipelineSetSeed(parts.pipeline, (uint64_t)(RengaCommGetRank(comm) == 2)));
  if (RengaCommGetSize(comm) > 2) Expect(RengaPipelineSetUp(parts.pipeline) == RENGA_ERR_PLAN);
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadNotFinite(void *user, int field, int64_t first, int64_t count,
                                    void *buffer)
{
  RengaCall(RunRead(user, field, first, count, buffer));
  if (field == 0 && first == 2) ((float *)buffer)[3] = NAN;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNotFinite(RengaComm comm)
{
  Parts parts;
  Source source = {.classes = base.classes};
  uint64_t before, after;
  double loss = 17;
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  source.graph = parts.graph;
  RengaBatch batch = {6, RunRead, &source};
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &before));
  batch.read = ReadNotFinite;
  const double old = loss;
  Expect(RengaPipelineStep(parts.pipeline, &batch, &loss) == RENGA_ERR_NUMERIC);
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &after));
  Expect(before == after && loss == old && RengaPipelineGetStepNumber(parts.pipeline) == 1);
  batch.read = RunRead;
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  batch.samples = 0;
  Expect(RengaPipelineStep(parts.pipeline, &batch, &loss) == RENGA_ERR_ARGUMENT);
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOrder(RengaComm comm)
{
  Parts parts;
  double loss;
  Source source = {.classes = base.classes};
  RengaBatch batch = {6, RunRead, &source};
  RengaCall(Make(comm, base, &parts));
  Expect(RengaPipelineStep(parts.pipeline, &batch, &loss) == RENGA_ERR_ORDER);
  Expect(RengaPipelineSetReduction(parts.pipeline, "orderd") == RENGA_ERR_ARGUMENT);
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  Expect(RengaPipelineSetSeed(parts.pipeline, 1) == RENGA_ERR_ORDER);
  float buffer[64];
  source.graph = parts.graph;
  Expect(RengaPipelineForward(parts.pipeline, &batch, "nothing", buffer) == RENGA_ERR_ARGUMENT);
  Expect(RengaPipelineGetGradient(parts.pipeline, "l.0.bias", buffer) == RENGA_ERR_ARGUMENT);
  batch.samples = 600;
  Expect(RengaPipelineStep(parts.pipeline, &batch, &loss) == RENGA_ERR_ARGUMENT);
  RengaCall(RengaPipelineEvaluate(parts.pipeline, &batch, &loss));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckBound(comm));
  RengaCall(CheckAgreement(comm));
  RengaCall(CheckNotFinite(comm));
  RengaCall(CheckOrder(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
