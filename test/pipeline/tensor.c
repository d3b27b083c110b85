/* TEST ranks: 2 timeout: 120 */
/* Two ranks that compute each node of a lane alone have the losses, norms, gradients and parameters
   of one rank, to the last bit; what they hold was foretold, and is less. */
#include "renga/private/graph.h"
#include "run.h"

enum { BATCH = 6, STEPS = 2, LANES = 3 };
static const int64_t samples[] = {BATCH, BATCH};

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source;
} Side;

static RengaErrorCode MakeSide(RengaComm comm, const Run *run, Side *side)
{
  RengaCall(RengaGraphCreate(comm, &side->graph));
  RengaCall(RengaGraphLoad(side->graph, run->graph));
  RengaCall(RengaGraphSetLanes(side->graph, LANES));
  RengaCall(RengaGraphSetUp(side->graph));
  RengaCall(RunPlan(comm, run, side->graph, &side->plan));
  RengaCall(RunConfigure(comm, run, side->graph, side->plan, &side->pipeline));
  side->source = (Source){.graph = side->graph, .classes = run->classes};
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeSide(Side *side)
{
  RengaCall(RengaPipelineDestroy(&side->pipeline));
  RengaCall(RengaPlanDestroy(&side->plan));
  RengaCall(RengaGraphDestroy(&side->graph));
  return RENGA_SUCCESS;
}

/* The rank that needs more is the one that was foretold: it has two of three lanes. */
static RengaErrorCode SetUpBoth(RengaComm comm, Side *one, Side *two)
{
  RengaPipelineMemory forecast, mine, whole;
  RengaCall(RengaPipelineForecastStage(two->pipeline, 0, &forecast));
  RengaCall(RengaPipelineSetUp(one->pipeline));
  RengaCall(RengaPipelineSetUp(two->pipeline));
  RengaCall(RengaPipelineGetMemory(one->pipeline, &whole));
  RengaCall(RengaPipelineGetMemory(two->pipeline, &mine));
  if (RengaCommGetRank(comm) == 1) {
    Expect(mine.forecast == forecast.forecast && mine.parameters == forecast.parameters);
    Expect(mine.gradients == forecast.gradients && mine.temporary == forecast.temporary);
    Expect(mine.optimizer == forecast.optimizer && mine.saved == forecast.saved);
  }
  Expect(mine.forecast <= forecast.forecast && mine.forecast == mine.measured);
  Expect(mine.parameters < whole.parameters && mine.optimizer < whole.optimizer);
  Expect(mine.gradients < whole.gradients);
  return RENGA_SUCCESS;
}

static RengaErrorCode CompareStep(Side *one, Side *two, int64_t step)
{
  double a = 0, b = 1, norm = 0, same = 1;
  uint64_t digest = 0, other = 1;
  one->source.step = two->source.step = step;
  const RengaBatch left = {BATCH, RunRead, &one->source}, right = {BATCH, RunRead, &two->source};
  RengaCall(RengaPipelineStep(one->pipeline, &left, &a));
  RengaCall(RengaPipelineStep(two->pipeline, &right, &b));
  RengaCall(RengaPipelineGetGradientNorm(one->pipeline, &norm));
  RengaCall(RengaPipelineGetGradientNorm(two->pipeline, &same));
  RengaCall(RengaPipelineGetDigest(one->pipeline, &digest));
  RengaCall(RengaPipelineGetDigest(two->pipeline, &other));
  Expect(a == b && norm == same && digest == other);
  RengaCall(RengaPipelineEvaluate(one->pipeline, &left, &a));
  RengaCall(RengaPipelineEvaluate(two->pipeline, &right, &b));
  Expect(a == b);
  return RENGA_SUCCESS;
}

/* Of one parameter: its gradient, and values that are given. */
static RengaErrorCode CompareTensor(bool root, const char *name, int64_t count, Side *one,
                                    Side *two)
{
  float *a = NULL, *b = NULL;
  uint64_t digest = 0, other = 1;
  RengaCall(RengaMalloc(count, &a));
  RengaCall(RengaMalloc(count, &b));
  RengaCall(RengaPipelineGetGradient(one->pipeline, name, a));
  RengaCall(RengaPipelineGetGradient(two->pipeline, name, b));
  Expect(!root || memcmp(a, b, (size_t)count * sizeof *a) == 0);
  RengaCall(RengaPipelineGetParameter(one->pipeline, name, 0, a));
  RengaCall(RengaPipelineGetParameter(two->pipeline, name, RENGA_TO_ALL, b));
  Expect(memcmp(a, b, (size_t)count * sizeof *a) == 0);
  for (int64_t i = 0; i < count; i++) a[i] = (float)(i % 7) / 8;
  RengaCall(RengaPipelineSetParameter(one->pipeline, name, 0, a));
  RengaCall(RengaPipelineSetParameter(two->pipeline, name, 1, a));
  RengaCall(RengaPipelineGetDigest(one->pipeline, &digest));
  RengaCall(RengaPipelineGetDigest(two->pipeline, &other));
  Expect(digest == other);
  RengaFree(&a);
  RengaFree(&b);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBoth(RengaComm alone, RengaComm comm, const char *graph)
{
  Run run = {.graph = graph,
             .classes = 9,
             .batch = BATCH,
             .microbatch = 2,
             .steps = STEPS,
             .samples = samples,
             .stages = 1,
             .replicas = 1,
             .clip_norm = 0.5,
             .poison = true};
  Side one, two;
  const RengaPipelineParameter *list;
  int count;
  RengaCall(MakeSide(alone, &run, &one));
  run.tensor = 2;
  RengaCall(MakeSide(comm, &run, &two));
  RengaCall(SetUpBoth(comm, &one, &two));
  for (int64_t step = 0; step < STEPS; step++) RengaCall(CompareStep(&one, &two, step));
  RengaCall(RengaPipelineListParameters(two.pipeline, &count, &list));
  for (int p = 0; p < count; p++)
    RengaCall(CompareTensor(RengaCommGetRank(comm) == 0, list[p].name,
                            RengaTensorSpecCount(&list[p].spec), &one, &two));
  RengaCall(CompareStep(&one, &two, STEPS));
  RengaCall(FreeSide(&two));
  RengaCall(FreeSide(&one));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm alone, comm;
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &alone));
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckBoth(alone, comm, "gpt:layers=2,hidden=15,heads=3,sequence=4,vocabulary=9"));
  RengaCall(CheckBoth(alone, comm, "gpt:layers=1,hidden=6,heads=3,sequence=4,vocabulary=19"));
  RengaCall(CheckBoth(alone, comm, "mlp:sizes=6-13-7-9"));
  RengaCall(RengaCommDestroy(&comm));
  RengaCall(RengaCommDestroy(&alone));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
