/* TEST ranks: 1 4 */
/* Steps that are not finite stop, are skipped, or are left to the caller; the monitor sees every
   step; a skipped step is the same on any layout. */
#include "../plan/plantest.h"
#include "run.h"

static const int64_t samples[] = {6};
static const Run base = {.graph = "mlp:sizes=6-16-12-8-5",
                         .classes = 5,
                         .batch = 6,
                         .microbatch = 2,
                         .steps = 1,
                         .samples = samples};
enum { STEPS = 4, BAD = 1 };

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  int64_t seen, finite;
  double last;
} Parts;

static RengaErrorCode Make(RengaComm comm, int stages, int replicas, RengaNonfinite manner,
                           Parts *parts)
{
  Run run = base;
  run.stages = stages;
  run.replicas = replicas;
  *parts = (Parts){0};
  RengaCall(RunGraph(comm, run.graph, &parts->graph));
  RengaCall(RunPlan(comm, &run, parts->graph, &parts->plan));
  RengaCall(RunConfigure(comm, &run, parts->graph, parts->plan, &parts->pipeline));
  RengaCall(RengaPipelineSetUp(parts->pipeline));
  RengaCall(RengaPipelineSetOnNonfinite(parts->pipeline, manner));
  return RENGA_SUCCESS;
}

static RengaErrorCode Free(Parts *parts)
{
  RengaCall(RengaPipelineDestroy(&parts->pipeline));
  RengaCall(RengaPlanDestroy(&parts->plan));
  RengaCall(RengaGraphDestroy(&parts->graph));
  return RENGA_SUCCESS;
}

/* The step BAD has a sample that is not a number. */
static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Source *source = user;
  RengaCall(RunRead(user, field, first, count, buffer));
  if (source->step == BAD && field == 0 && first == 2) ((float *)buffer)[3] = NAN;
  return RENGA_SUCCESS;
}

static void Watch(RengaPipeline pipeline, const RengaPipelineStepInfo *info, void *context)
{
  Parts *parts = context;
  TestTrue(pipeline == parts->pipeline && info->samples == 6 && info->seconds > 0);
  parts->seen++;
  parts->finite += info->finite;
  parts->last = info->loss;
}

/* The digest after STEPS steps, of which BAD is skipped. */
static RengaErrorCode Skip(RengaComm comm, int stages, int replicas, uint64_t *digest)
{
  Parts parts;
  Source source = {.classes = base.classes};
  const RengaBatch batch = {6, Read, &source};
  RengaPipelineStepInfo info;
  RengaPipelineMonitor monitor;
  void *context;
  uint64_t before, after;
  int64_t count;
  double loss;
  RengaCall(Make(comm, stages, replicas, RENGA_NONFINITE_SKIP, &parts));
  source.graph = parts.graph;
  RengaCall(RengaPipelineSetMonitor(parts.pipeline, Watch, &parts));
  RengaCall(RengaPipelineGetMonitor(parts.pipeline, &monitor, &context));
  Expect(monitor == Watch && context == &parts);
  TestError(RengaPipelineGetLastStep(parts.pipeline, &info), RENGA_ERR_ORDER, "no step yet");
  for (source.step = 0; source.step < STEPS; source.step++) {
    RengaCall(RengaPipelineGetDigest(parts.pipeline, &before));
    RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
    RengaCall(RengaPipelineGetDigest(parts.pipeline, &after));
    RengaCall(RengaPipelineGetLastStep(parts.pipeline, &info));
    Expect(info.step == source.step && info.counts && info.finite == (source.step != BAD));
    Expect((before == after) == (source.step == BAD));
    Expect(isnan(loss) == (source.step == BAD) && (isnan(loss) || info.loss == parts.last));
    Expect(RengaPipelineGetStepNumber(parts.pipeline) == source.step + 1);
  }
  RengaCall(RengaPipelineGetNonfiniteCount(parts.pipeline, &count));
  Expect(count == 1 && parts.seen == STEPS && parts.finite == STEPS - 1);
  *digest = after;
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRollback(RengaComm comm, int stages, int replicas)
{
  Parts parts;
  Source source = {.classes = base.classes};
  const RengaBatch batch = {6, Read, &source};
  RengaPipelineStepInfo info;
  RengaNonfinite manner;
  uint64_t before, after;
  double loss;
  RengaCall(Make(comm, stages, replicas, RENGA_NONFINITE_ROLLBACK, &parts));
  source.graph = parts.graph;
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &before));
  source.step = BAD;
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetLastStep(parts.pipeline, &info));
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &after));
  Expect(!info.finite && !info.counts && info.step == 1 && before == after);
  Expect(RengaPipelineGetStepNumber(parts.pipeline) == 1);
  RengaCall(RengaPipelineGetOnNonfinite(parts.pipeline, &manner));
  Expect(manner == RENGA_NONFINITE_ROLLBACK);
  RengaCall(RengaPipelineSetOnNonfinite(parts.pipeline, RENGA_NONFINITE_STOP));
  TestError(RengaPipelineSetOnNonfinite(parts.pipeline, (RengaNonfinite)3), RENGA_ERR_ARGUMENT,
            "3 is no RengaNonfinite");
  TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_NUMERIC,
            RengaCommGetRank(comm) == 0 ? "the loss of step 1 is nan" : "");
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  uint64_t digest, other;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const int size = RengaCommGetSize(comm);
  RengaCall(Skip(comm, 1, 1, &digest));
  RengaCall(Skip(comm, size, 1, &other));
  Expect(digest == other);
  if (size == 4) RengaCall(Skip(comm, 2, 2, &other));
  Expect(digest == other);
  RengaCall(CheckRollback(comm, size > 1 ? 2 : 1, size > 1 ? 2 : 1));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
