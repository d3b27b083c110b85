/* TEST ranks: 1 2 4 timeout: 300 */
/* A step, evaluation or forward pass that fails on one rank fails on all of them, at once, and
   changes nothing: each read of each rank fails in turn, arguments are missing on one rank, ranks
   ask for different things. What follows has the bits of a run in which nothing failed. */
#include "../plan/plantest.h"
#include "run.h"
#include "renga/private/graph.h"

enum { STEPS = 3, BATCH = 6 };
static const int64_t samples[] = {BATCH};

typedef struct {
  RengaComm comm;
  int rank, size;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source;
  int reads, step_reads; /* of this rank in this pass; in a whole step */
  int fails_at;          /* number of the read that fails; -1: none */
} Parts;

static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  Parts *parts = user;
  if (parts->reads++ == parts->fails_at)
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "sample %lld is lost", (long long)first);
  return RunRead(&parts->source, field, first, count, buffer);
}

static RengaErrorCode MakeIn(RengaComm comm, const Run *run, RengaPrecision precision, Parts *parts)
{
  *parts = (Parts){.comm = comm, .fails_at = -1};
  parts->rank = RengaCommGetRank(comm);
  parts->size = RengaCommGetSize(comm);
  RengaCall(RengaGraphCreate(comm, &parts->graph));
  if (strcmp(run->graph, "skip") == 0)
    RengaCall(RunSkip(parts->graph));
  else
    RengaCall(RengaGraphLoad(parts->graph, run->graph));
  RengaCall(RengaGraphSetPrecision(parts->graph, precision, NULL));
  if (run->tensor) RengaCall(RengaGraphSetLanes(parts->graph, run->tensor));
  RengaCall(RengaGraphSetUp(parts->graph));
  RengaCall(RunPlan(comm, run, parts->graph, &parts->plan));
  RengaCall(RunConfigure(comm, run, parts->graph, parts->plan, &parts->pipeline));
  RengaCall(RengaPipelineSetUp(parts->pipeline));
  parts->source = (Source){.graph = parts->graph, .classes = run->classes};
  return RENGA_SUCCESS;
}

static RengaErrorCode Make(RengaComm comm, const Run *run, Parts *parts)
{
  RengaCall(MakeIn(comm, run, RENGA_PRECISION_FP32, parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode Free(Parts *parts)
{
  RengaCall(RengaPipelineDestroy(&parts->pipeline));
  RengaCall(RengaPlanDestroy(&parts->plan));
  RengaCall(RengaGraphDestroy(&parts->graph));
  return RENGA_SUCCESS;
}

/* The first output that has rows; NULL: there is none. */
static const char *OutputOf(RengaGraph graph)
{
  const RengaValue *output;
  int count;
  if (RengaGraphGetOutputs(graph, &count, &output)) return NULL;
  for (int i = 0; i < count; i++)
    if (RengaGraphGetValue(graph, output[i])->spec.ndim > 0)
      return RengaGraphGetValue(graph, output[i])->name;
  return NULL;
}

typedef enum { STEP, EVALUATE, FORWARD } Kind;

static RengaErrorCode Call(Parts *parts, Kind kind, double *loss)
{
  float rows[BATCH * 64];
  const RengaBatch batch = {BATCH, Read, parts};
  parts->reads = 0;
  if (kind == STEP) return RengaPipelineStep(parts->pipeline, &batch, loss);
  if (kind == EVALUATE) return RengaPipelineEvaluate(parts->pipeline, &batch, loss);
  return RengaPipelineForward(parts->pipeline, &batch, OutputOf(parts->graph), rows);
}

/* Read number n of one rank fails. *more: it has that many. */
static RengaErrorCode FailOnce(Parts *parts, Kind kind, int who, int n, bool *more)
{
  uint64_t before, after;
  double loss = 17;
  int64_t failed;
  FILE *file;
  const int64_t step = RengaPipelineGetStepNumber(parts->pipeline);
  RengaCall(RengaPipelineGetDigest(parts->pipeline, &before));
  parts->fails_at = parts->rank == who ? n : -1;
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = Call(parts, kind, &loss);
  const char *text = EndErrors(file, saved);
  parts->fails_at = -1;
  failed = parts->rank == who && parts->reads > n;
  RengaCall(RengaCommSumInt64(parts->comm, 1, &failed, "whether it failed"));
  *more = failed > 0;
  Expect(code == (*more ? RENGA_ERR_FILE_OPEN : RENGA_SUCCESS));
  if (*more && parts->rank == who) Expect(strstr(text, "is lost") != NULL);
  if (*more && parts->rank == 0 && who != 0) {
    char sentence[64];
    snprintf(sentence, sizeof sentence, "rank %d failed in ", who);
    Expect(strstr(text, sentence) != NULL);
  }
  if (!*more) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetDigest(parts->pipeline, &after));
  Expect(loss == 17 && before == after && RengaPipelineGetStepNumber(parts->pipeline) == step);
  return RENGA_SUCCESS;
}

static RengaErrorCode FailEverywhere(Parts *parts, Kind kind)
{
  for (int who = 0; who < parts->size; who++) {
    bool more = true;
    for (int n = 0; more; n++) RengaCall(FailOnce(parts, kind, who, n, &more));
  }
  return RENGA_SUCCESS;
}

/* All reads of a step in turn, of each rank. */
static RengaErrorCode FailSteps(Parts *parts)
{
  for (int who = 0; who < parts->size; who++) {
    int64_t reads = parts->rank == who ? parts->step_reads : 0;
    RengaCall(RengaCommSumInt64(parts->comm, 1, &reads, "reads of a step"));
    for (int n = 0; n < reads; n++) {
      bool more;
      RengaCall(FailOnce(parts, STEP, who, n, &more));
      Expect(more);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRun(RengaComm comm, const Run *run)
{
  Parts good, bad;
  uint64_t digest, other;
  RengaCall(Make(comm, run, &good));
  RengaCall(Make(comm, run, &bad));
  for (int64_t step = 0; step < STEPS; step++) {
    double loss, again, validation, same;
    good.source.step = bad.source.step = step;
    RengaCall(Call(&good, STEP, &loss));
    if (step == 1) RengaCall(FailEverywhere(&bad, EVALUATE));
    if (step == 1 && OutputOf(bad.graph)) RengaCall(FailEverywhere(&bad, FORWARD));
    if (step == 1) RengaCall(FailSteps(&bad));
    RengaCall(Call(&bad, STEP, &again));
    bad.step_reads = bad.reads;
    Expect(loss == again);
    RengaCall(Call(&good, EVALUATE, &validation));
    RengaCall(Call(&bad, EVALUATE, &same));
    Expect(validation == same);
  }
  RengaCall(RengaPipelineGetDigest(good.pipeline, &digest));
  RengaCall(RengaPipelineGetDigest(bad.pipeline, &other));
  Expect(digest == other);
  RengaCall(Free(&good));
  RengaCall(Free(&bad));
  return RENGA_SUCCESS;
}

/* What is missing on rank 0, or on the last one, is an error on all of them. */
static RengaErrorCode CheckMissing(RengaComm comm, const Run *run, int who)
{
  Parts parts;
  float rows[BATCH * 64];
  double loss = 0, same;
  const RengaBatch none = {BATCH, NULL, NULL}, batch = {BATCH, Read, &parts};
  RengaCall(Make(comm, run, &parts));
  const char *output = OutputOf(parts.graph);
  const bool here = parts.rank == who;
  const char *root = parts.rank == 0 && who != 0 ? "failed in" : "";
  TestError(RengaPipelineStep(parts.pipeline, here ? &none : &batch, &loss), RENGA_ERR_ARGUMENT,
            here ? "no function that reads it" : root);
  TestError(RengaPipelineStep(parts.pipeline, here ? NULL : &batch, &loss), RENGA_ERR_ARGUMENT,
            here ? "null pointer" : root);
  TestError(RengaPipelineStep(parts.pipeline, &batch, here ? NULL : &loss), RENGA_ERR_ARGUMENT,
            here ? "null pointer" : root);
  TestError(RengaPipelineEvaluate(parts.pipeline, &batch, here ? NULL : &loss), RENGA_ERR_ARGUMENT,
            here ? "null pointer" : root);
  TestError(RengaPipelineForwardTo(parts.pipeline, &batch, output, who, here ? NULL : rows),
            RENGA_ERR_ARGUMENT, here ? "has no buffer for" : root);
  TestError(RengaPipelineForward(parts.pipeline, &batch, here ? "nothing" : output, rows),
            RENGA_ERR_ARGUMENT, here ? "has no output nothing" : root);
  RengaCall(RengaPipelineEvaluate(parts.pipeline, &batch, &loss));
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &same));
  Expect(loss == same); /* the network has no dropout */
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* Ranks that ask for different things are told so before anything is sent. */
static RengaErrorCode CheckDifferent(RengaComm comm, const Run *run)
{
  Parts parts;
  double loss;
  RengaOptimizer optimizer;
  RengaCall(Make(comm, run, &parts));
  const bool last = parts.rank == parts.size - 1, root = parts.rank == 0;
  const RengaBatch batch = {last ? 4 : BATCH, Read, &parts}, right = {BATCH, Read, &parts};
  TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_ARGUMENT,
            root ? "has 4 samples, rank 0 has 6 samples: all ranks must call" : "");
  TestError(last ? RengaPipelineEvaluate(parts.pipeline, &right, &loss)
                 : RengaPipelineStep(parts.pipeline, &right, &loss),
            RENGA_ERR_ARGUMENT, root ? "has an evaluation, rank 0 has a step" : "");
  RengaCall(RengaPipelineSetStepNumber(parts.pipeline, last ? 7 : 0));
  TestError(RengaPipelineStep(parts.pipeline, &right, &loss), RENGA_ERR_ARGUMENT,
            root ? "has step 7, rank 0 has step 0" : "");
  RengaCall(RengaPipelineSetStepNumber(parts.pipeline, 0));
  RengaCall(RengaPipelineGetOptimizer(parts.pipeline, &optimizer));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, last ? 0.5 : 0.01));
  TestError(RengaPipelineStep(parts.pipeline, &right, &loss), RENGA_ERR_ARGUMENT,
            root ? "has learning rate 0.5, rank 0 has learning rate 0.01" : "");
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 0.01));
  RengaCall(RengaOptimizerSetClipNorm(optimizer, last ? 0.5 : 1));
  TestError(RengaPipelineStep(parts.pipeline, &right, &loss), RENGA_ERR_ARGUMENT,
            root ? "has other settings of the optimizer" : "");
  RengaCall(RengaOptimizerSetClipNorm(optimizer, 1));
  RengaCall(RengaPipelineStep(parts.pipeline, &right, &loss));
  RengaCall(Free(&parts));
  RengaCall(MakeIn(comm, run, RENGA_PRECISION_FP16, &parts));
  RengaCall(RengaPipelineSetLossScale(parts.pipeline, last ? 64 : 128, 0));
  TestError(RengaPipelineStep(parts.pipeline, &right, &loss), RENGA_ERR_ARGUMENT,
            root ? "has a loss scale of 64, rank 0 has a loss scale of 128" : "");
  RengaCall(RengaPipelineSetLossScale(parts.pipeline, 64, 0));
  RengaCall(RengaPipelineStep(parts.pipeline, &right, &loss));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* Two stages on each rank. */
static RengaErrorCode CheckChunks(RengaComm comm, Run run)
{
  run.stages *= 2;
  run.chunks = 2;
  run.buckets = 2;
  RengaCall(CheckRun(comm, &run));
  return RENGA_SUCCESS;
}

/* Two ranks compute a stage together: who fails goes through its exchanges. Refused on devices that
   have memory of their own, as of RENGA_OPTIONS. */
static RengaErrorCode CheckTensor(RengaComm comm, Run run)
{
  const char *type = NULL;
  bool given = false;
  RengaCall(RengaOptionsGetString("device_type", &type, &given));
  const bool far = given && strcmp(type, RENGA_DEVICE_FAR) == 0;
  if (run.stages * run.replicas < 2 || far) return RENGA_SUCCESS;
  run.stages /= 2;
  run.tensor = 2;
  RengaCall(CheckRun(comm, &run));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const struct {
    const char *graph, *optimizer;
    int64_t classes;
  } networks[] = {
      {"skip", "adamw", 4},
      {"gpt:layers=2,hidden=8,heads=2,sequence=4,vocabulary=9,dropout=0.1", "adamw", 9},
      {"resnet:depth=18,width=0.0625,image=8,classes=5", "sgd", 5},
  };
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  const int size = RengaCommGetSize(comm);
  for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++)
    for (int stages = size; stages >= 1; stages /= 2) {
      Run run = {.graph = networks[n].graph,
                 .optimizer = networks[n].optimizer,
                 .classes = networks[n].classes,
                 .batch = BATCH,
                 .microbatch = 2,
                 .steps = 1,
                 .samples = samples,
                 .stages = stages,
                 .replicas = size / stages};
      if (n == 2 && stages != (size + 1) / 2) continue;
      if (n == 0) run.recompute = 1;
      RengaCall(CheckRun(comm, &run));
      if (n == 1 && stages == size) RengaCall(CheckChunks(comm, run));
      if (n == 1 && stages == size) RengaCall(CheckTensor(comm, run));
      if (n > 0) continue;
      RengaCall(CheckMissing(comm, &run, 0));
      RengaCall(CheckMissing(comm, &run, size - 1));
      if (size > 1) RengaCall(CheckDifferent(comm, &run));
    }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
