/* TEST ranks: 2 4 timeout: 300 */
/* Steps of a sharded stage in which each allocation, and each start of a message, fails on one rank
   in its turn, those of the gathers of parameters among them: either nothing has changed, on any
   rank, and the step is made once more, or it was made on all. Nobody waits until the time limit.
   What others than steps see between two of them is whole, on ranks that ask alone too, or an error
   on all ranks. */
#include "../../src/pipeline/pipelineimpl.h"
#include "../plan/plantest.h"
#include "renga/private/fault.h"
#include "run.h"

enum { BATCH = 5, STEPS = 2 };
static const int64_t samples[] = {BATCH};

typedef struct {
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source;
} Parts;

static RengaErrorCode Make(RengaComm comm, const Run *run, Parts *parts)
{
  *parts = (Parts){.comm = comm};
  RengaCall(RunBuild(comm, run, &parts->graph));
  RengaCall(RunPlan(comm, run, parts->graph, &parts->plan));
  RengaCall(RunPipeline(comm, run, parts->graph, parts->plan, &parts->pipeline));
  parts->source = (Source){.graph = parts->graph, .classes = run->classes};
  return RENGA_SUCCESS;
}

static RengaErrorCode Free(Parts *parts)
{
  RengaCall(RengaPipelineDestroy(&parts->pipeline));
  RengaCall(RengaPlanDestroy(&parts->plan));
  RengaCall(RengaGraphDestroy(&parts->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Step(Parts *parts)
{
  const RengaBatch batch = {BATCH, RunRead, &parts->source};
  double loss;
  parts->source.step = RengaPipelineGetStepNumber(parts->pipeline);
  RengaCall(RengaPipelineStep(parts->pipeline, &batch, &loss));
  return RENGA_SUCCESS;
}

/* The digests after each of the steps that nothing disturbs. */
static RengaErrorCode TakeDigests(RengaComm comm, const Run *run, uint64_t digest[])
{
  Parts parts;
  RengaCall(Make(comm, run, &parts));
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &digest[0]));
  for (int s = 1; s <= STEPS; s++) {
    RengaCall(Step(&parts));
    RengaCall(RengaPipelineGetDigest(parts.pipeline, &digest[s]));
  }
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* The n-th event of the kind fails on one rank, in a step after another whose gathers may be under
   way still. *more: there was such an event. */
static RengaErrorCode FailOnce(RengaComm comm, const Run *run, const uint64_t digest[],
                               RengaFaultKind kind, int who, int64_t n, bool *more)
{
  Parts parts;
  uint64_t now;
  FILE *file;
  const bool here = RengaCommGetRank(comm) == who;
  RengaCall(Make(comm, run, &parts));
  RengaCall(Step(&parts));
  const int saved = BeginErrors(&file);
  RengaFaultSet(kind, here ? n : 0);
  const RengaErrorCode code = Step(&parts);
  int64_t counts[3] = {here && RengaFaultGetCount(kind) >= n, code != RENGA_SUCCESS,
                       code == RENGA_ERR_TIMEOUT};
  RengaFaultSet(kind, 0);
  EndErrors(file, saved);
  RengaCall(RengaCommSumInt64(comm, 3, counts, "what came of the step"));
  *more = counts[0] > 0;
  Expect(counts[2] == 0 && (counts[1] == 0 || counts[1] == RengaCommGetSize(comm)));
  Expect(*more || counts[1] == 0);
  if (counts[1] > 0) {
    RengaCall(RengaPipelineGetDigest(parts.pipeline, &now));
    Expect(now == digest[1] && RengaPipelineGetStepNumber(parts.pipeline) == 1);
    RengaCall(Step(&parts));
  }
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &now));
  Expect(now == digest[STEPS]);
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFaults(RengaComm comm, const Run *run)
{
  uint64_t digest[STEPS + 1];
  RengaCall(TakeDigests(comm, run, digest));
  for (int kind = RENGA_FAULT_ALLOCATION; kind <= RENGA_FAULT_MESSAGE; kind++)
    for (int who = 0; who < RengaCommGetSize(comm); who += RengaCommGetSize(comm) - 1) {
      bool more = true;
      for (int64_t n = 1; more; n += UnlessSlow(1, 5))
        RengaCall(FailOnce(comm, run, digest, (RengaFaultKind)kind, who, n, &more));
    }
  return RENGA_SUCCESS;
}

/* One rank asks for its tensors while the others go on to an evaluation, of the values of the step
   before; a step that is refused leaves the gathers as they are. */
static RengaErrorCode CheckBetween(RengaComm comm, const Run *run)
{
  Parts parts, other;
  uint64_t digest, same;
  const RengaPersistent *held;
  double loss, again;
  int count;
  RengaCall(Make(comm, run, &parts));
  RengaCall(Make(comm, run, &other));
  for (int s = 0; s < STEPS; s++) {
    const RengaBatch batch = {BATCH, RunRead, &parts.source},
                     none = {RengaCommGetRank(comm) == 0 ? BATCH : 0, RunRead, &parts.source};
    RengaCall(Step(&parts));
    RengaCall(Step(&other));
    FILE *file;
    const int saved = BeginErrors(&file);
    Expect(RengaPipelineStep(parts.pipeline, &none, &loss) != RENGA_SUCCESS);
    EndErrors(file, saved);
    if (RengaCommGetRank(comm) == s)
      RengaCall(RengaPipelineGetPersistents(parts.pipeline, &count, &held));
    RengaCall(RengaPipelineEvaluate(parts.pipeline, &batch, &loss));
    RengaCall(RengaPipelineGetDigest(other.pipeline, &same));
    RengaCall(RengaPipelineEvaluate(other.pipeline, &batch, &again));
    RengaCall(RengaPipelineGetDigest(parts.pipeline, &digest));
    Expect(digest == same && loss == again);
  }
  RengaCall(Step(&parts)); /* what it leaves under way is given up */
  RengaCall(Free(&parts));
  RengaCall(Free(&other));
  return RENGA_SUCCESS;
}

/* Rank 0 refuses the next pass. */
static RengaErrorCode StepRefused(Parts *parts)
{
  const bool refuses = RengaCommGetRank(parts->comm) == 0;
  const RengaBatch batch = {refuses ? 0 : BATCH, RunRead, &parts->source};
  double loss;
  FILE *file;
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = RengaPipelineStep(parts->pipeline, &batch, &loss);
  EndErrors(file, saved);
  return code;
}

/* A checkpoint has made the ranks round parameters; then those that do not refuse a step have begun
   to. Whether gathers are under way all ranks still know alike. */
static RengaErrorCode CheckRefused(RengaComm comm, const Run *run)
{
  Parts parts;
  const RengaPersistent *held;
  uint64_t digest[STEPS + 1], now;
  int count;
  RengaCall(TakeDigests(comm, run, digest));
  RengaCall(Make(comm, run, &parts));
  for (int s = 1; s <= STEPS; s++) {
    RengaCall(Step(&parts));
    RengaCall(RengaPipelineGetPersistents(parts.pipeline, &count, &held));
    Expect(StepRefused(&parts) != RENGA_SUCCESS);
    int64_t flags = parts.pipeline->rank->gathering;
    RengaCall(RengaCommSumInt64(comm, 1, &flags, "who may have gathers under way"));
    Expect(flags == RengaCommGetSize(comm));
    RengaCall(RengaPipelineGetDigest(parts.pipeline, &now));
    Expect(now == digest[s]);
  }
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

typedef enum { ASK_DIGEST, ASK_PERSISTENTS, ASK_REFUSED, N_ASKS } Ask;

static RengaErrorCode AskWhole(Parts *parts, Ask ask)
{
  const RengaPersistent *held;
  uint64_t digest;
  int count;
  switch (ask) {
  case ASK_DIGEST:
    return RengaPipelineGetDigest(parts->pipeline, &digest);
  case ASK_PERSISTENTS:
    return RengaPipelineGetPersistents(parts->pipeline, &count, &held);
  default:
    return StepRefused(parts);
  }
}

/* The last rank is as a gather leaves it that failed within the step, which the step does not say.
   Whoever asks fails, and so does everything afterwards. */
static RengaErrorCode CheckTornValues(RengaComm comm, const Run *run, Ask ask)
{
  Parts parts;
  FILE *file;
  const bool torn = RengaCommGetRank(comm) == RengaCommGetSize(comm) - 1;
  RengaCall(Make(comm, run, &parts));
  RengaCall(Step(&parts));
  parts.pipeline->rank->torn = torn;
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = AskWhole(&parts, ask);
  RengaErrorCode later[N_ASKS];
  const bool alone = ask == ASK_PERSISTENTS && !torn; /* the others do not know yet */
  for (int a = 0; a < N_ASKS && !alone; a++) later[a] = AskWhole(&parts, (Ask)a);
  EndErrors(file, saved);
  Expect(code == (alone ? RENGA_SUCCESS : RENGA_ERR_LIBRARY));
  for (int a = 0; a < N_ASKS && !alone; a++) Expect(later[a] == RENGA_ERR_ORDER);
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* Buckets of a size have whole parameters: there are no empty ones beside them. */
static RengaErrorCode CheckBucketCount(RengaComm comm, Run run)
{
  Parts parts;
  run.buckets = 1;
  run.bucket_size = 16;
  run.stages = 1;
  run.replicas = RengaCommGetSize(comm);
  RengaCall(Make(comm, &run, &parts));
  Expect(parts.pipeline->outline->buckets[0] == parts.pipeline->outline->n_parameters);
  RengaCall(Step(&parts));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const int size = RengaCommGetSize(comm);
  Run run = {.graph = "mlp:sizes=12-700-40-5",
             .classes = 5,
             .batch = BATCH,
             .microbatch = 1,
             .steps = 1,
             .samples = samples,
             .buckets = 2,
             .shard = 3};
  for (int stages = 1; stages <= size / 2; stages++) {
    run.stages = stages;
    run.replicas = size / stages;
    RengaCall(CheckBetween(comm, &run));
    RengaCall(CheckRefused(comm, &run));
    for (int ask = 0; ask < N_ASKS; ask++) RengaCall(CheckTornValues(comm, &run, (Ask)ask));
    if (size < 4 || stages == 2) RengaCall(CheckFaults(comm, &run));
  }
  RengaCall(CheckBucketCount(comm, run));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
