/* TEST ranks: 1 4 */
/* Parameters, moments and states by name from and to any rank; outputs to any rank, to all, or left
   where they are; a copy that departs is named; the learning rate changes between steps. */
#include "../plan/plantest.h"
#include "run.h"

enum { BATCH = 6, MOST = 1 << 16 };
static const int64_t samples[] = {BATCH};

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source;
} Parts;

static RengaErrorCode Make(RengaComm comm, const char *graph, int64_t classes, Parts *parts)
{
  const int size = RengaCommGetSize(comm);
  const Run run = {.graph = graph,
                   .classes = classes,
                   .batch = BATCH,
                   .microbatch = 2,
                   .steps = 1,
                   .samples = samples,
                   .stages = size >= 2 ? 2 : 1,
                   .replicas = size >= 2 ? size / 2 : 1};
  *parts = (Parts){0};
  RengaCall(RunGraph(comm, run.graph, &parts->graph));
  RengaCall(RunPlan(comm, &run, parts->graph, &parts->plan));
  RengaCall(RunConfigure(comm, &run, parts->graph, parts->plan, &parts->pipeline));
  RengaCall(RengaPipelineSetUp(parts->pipeline));
  parts->source = (Source){.graph = parts->graph, .classes = classes};
  return RENGA_SUCCESS;
}

static RengaErrorCode Free(Parts *parts)
{
  RengaCall(RengaPipelineDestroy(&parts->pipeline));
  RengaCall(RengaPlanDestroy(&parts->plan));
  RengaCall(RengaGraphDestroy(&parts->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Step(Parts *parts, double *loss)
{
  const RengaBatch batch = {BATCH, RunRead, &parts->source};
  RengaCall(RengaPipelineStep(parts->pipeline, &batch, loss));
  parts->source.step++;
  return RENGA_SUCCESS;
}

/* All tensors of one pipeline into another, which then goes on alike. */
static RengaErrorCode CheckCopy(RengaComm comm, const char *graph, int64_t classes)
{
  static const char *const moments[] = {"", ":first_moment", ":second_moment"};
  Parts from, to;
  const RengaPipelineParameter *list;
  double loss, same;
  uint64_t digest, other;
  float *values;
  int count;
  const int last = RengaCommGetSize(comm) - 1, rank = RengaCommGetRank(comm);
  RengaCall(Make(comm, graph, classes, &from));
  RengaCall(Make(comm, graph, classes, &to));
  for (int s = 0; s < 2; s++) RengaCall(Step(&from, &loss));
  RengaCall(RengaPipelineListParameters(from.pipeline, &count, &list));
  RengaCall(RengaMalloc(MOST, &values));
  for (int p = 0; p < count; p++)
    for (int m = 0; m < (list[p].state ? 1 : 3); m++) {
      char name[256];
      const bool all = p % 2 == 0;
      Expect(RengaTensorSpecCount(&list[p].spec) <= MOST);
      snprintf(name, sizeof name, "%s%s", list[p].name, moments[m]);
      RengaCall(RengaPipelineGetParameter(from.pipeline, name, all ? RENGA_TO_ALL : last,
                                          all || rank == last ? values : NULL));
      RengaCall(RengaPipelineSetParameter(to.pipeline, name, all ? RENGA_TO_ALL : last,
                                          all || rank == last ? values : NULL));
    }
  RengaCall(RengaPipelineSetStepNumber(to.pipeline, 2));
  to.source.step = 2;
  RengaCall(Step(&from, &loss));
  RengaCall(Step(&to, &same));
  RengaCall(RengaPipelineGetDigest(from.pipeline, &digest));
  RengaCall(RengaPipelineGetDigest(to.pipeline, &other));
  Expect(loss == same && digest == other);
  TestError(RengaPipelineGetParameter(to.pipeline, "nobody", 0, values), RENGA_ERR_ARGUMENT,
            "there is no parameter, moment or state nobody");
  if (last > 0) {
    values[0] = (float)rank;
    TestError(RengaPipelineSetParameter(to.pipeline, list[0].name, RENGA_TO_ALL, values),
              RENGA_ERR_ARGUMENT, rank == 0 ? "different names, ranks or values" : "");
    TestError(RengaPipelineGetParameter(to.pipeline, list[0].name, 0, rank ? values : NULL),
              RENGA_ERR_ARGUMENT, rank == 0 ? "has no buffer" : "");
  }
  RengaCall(RengaPipelineGetDigest(to.pipeline, &other));
  Expect(digest == other);
  RengaFree(&values);
  RengaCall(Free(&from));
  RengaCall(Free(&to));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOutputs(RengaComm comm)
{
  Parts parts;
  float root[BATCH * 4] = {0}, all[BATCH * 4] = {0}, own[BATCH * 4] = {0};
  const RengaValue *output;
  int64_t first, count, sum;
  int n;
  const int last = RengaCommGetSize(comm) - 1, rank = RengaCommGetRank(comm);
  RengaCall(Make(comm, "skip", 4, &parts));
  RengaCall(RengaGraphGetOutputs(parts.graph, &n, &output));
  const char *name = RengaGraphGetValue(parts.graph, output[0])->name;
  const RengaBatch batch = {BATCH, RunRead, &parts.source};
  RengaCall(RengaPipelineForwardTo(parts.pipeline, &batch, name, last, rank == last ? root : NULL));
  RengaCall(RengaPipelineForwardTo(parts.pipeline, &batch, name, RENGA_TO_ALL, all));
  RengaCall(RengaPipelineGetOutputRows(parts.pipeline, name, BATCH, &first, &count));
  RengaCall(
      RengaPipelineForwardTo(parts.pipeline, &batch, name, RENGA_TO_NONE, count ? own : NULL));
  if (rank == last) Expect(memcmp(root, all, sizeof all) == 0);
  Expect(memcmp(own, all + first * 4, (size_t)count * 4 * sizeof *own) == 0);
  sum = count;
  RengaCall(RengaCommSumInt64(comm, 1, &sum, "rows"));
  Expect(sum == BATCH && all[0] != 0);
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode ChangeElement(RengaPipeline pipeline, float *at)
{
  float value;
  RengaCall(RunCopy(pipeline, RENGA_DEVICE_TO_HOST, &value, at, sizeof value));
  value += 1e-6f;
  RengaCall(RunCopy(pipeline, RENGA_HOST_TO_DEVICE, at, &value, sizeof value));
  return RENGA_SUCCESS;
}

/* A replica is changed by hand. */
static RengaErrorCode CheckDeparture(RengaComm comm)
{
  Parts parts;
  uint64_t digest;
  int count;
  const RengaPersistent *tensor;
  const int rank = RengaCommGetRank(comm);
  if (RengaCommGetSize(comm) < 4) return RENGA_SUCCESS;
  RengaCall(Make(comm, "mlp:sizes=6-16-12-8-5", 5, &parts));
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &digest));
  RengaCall(RengaPipelineGetPersistents(parts.pipeline, &count, &tensor));
  if (rank == 3) RengaCall(ChangeElement(parts.pipeline, (float *)tensor[0].data + 1));
  TestError(RengaPipelineGetDigest(parts.pipeline, &digest), RENGA_ERR_INTERNAL,
            rank == 0 ? "rank 3 (stage 1, replica 1) departs from rank 2 (stage 1, replica 0)"
                      : "");
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode Halve(void *context, int64_t step, double scheduled, double *rate)
{
  ++*(int *)context;
  *rate = step == 1 ? scheduled / 2 : scheduled;
  return RENGA_SUCCESS;
}

/* By a setter, by a function: the same bits; and what may not change is refused until a set-up. */
static RengaErrorCode CheckRate(RengaComm comm)
{
  Parts set, called;
  RengaOptimizer optimizer, other;
  RengaPipelineStepInfo info;
  uint64_t digest, same;
  double loss, rate;
  int calls = 0;
  RengaCall(Make(comm, "mlp:sizes=6-16-12-8-5", 5, &set));
  RengaCall(Make(comm, "mlp:sizes=6-16-12-8-5", 5, &called));
  RengaCall(RengaPipelineGetOptimizer(set.pipeline, &optimizer));
  RengaCall(RengaPipelineGetOptimizer(called.pipeline, &other));
  RengaCall(RengaOptimizerSetLearningRateFunction(other, Halve, &calls));
  for (int s = 0; s < 3; s++) {
    RengaCall(RengaOptimizerSetLearningRate(optimizer, s == 1 ? 0.005 : 0.01));
    RengaCall(Step(&set, &loss));
    RengaCall(Step(&called, &loss));
    RengaCall(RengaPipelineGetLastStep(called.pipeline, &info));
    Expect(info.learning_rate == (s == 1 ? 0.005 : 0.01) && calls == s + 1);
  }
  RengaCall(RengaPipelineGetDigest(set.pipeline, &digest));
  RengaCall(RengaPipelineGetDigest(called.pipeline, &same));
  Expect(digest == same);
  RengaCall(RengaOptimizerGetBaseLearningRate(optimizer, &rate));
  Expect(rate == 0.01);
  RengaCall(RengaOptimizerSetType(optimizer, "sgd"));
  const RengaBatch batch = {BATCH, RunRead, &set.source};
  TestError(RengaPipelineStep(set.pipeline, &batch, &loss), RENGA_ERR_ORDER,
            "keeps 0 moments of each parameter, and memory is laid out for 2");
  RengaCall(RengaOptimizerSetType(optimizer, "adam"));
  RengaCall(RengaOptimizerSetType(optimizer, "adamw"));
  RengaCall(RengaOptimizerSetGroups(optimizer, "*weight:frozen=yes"));
  TestError(RengaPipelineStep(set.pipeline, &batch, &loss), RENGA_ERR_ORDER,
            "the groups of the optimizer now freeze");
  RengaCall(RengaOptimizerSetGroups(optimizer, NULL));
  RengaCall(RengaPipelineGetDigest(set.pipeline, &same));
  Expect(digest == same);
  RengaCall(Step(&set, &loss));
  RengaCall(Step(&called, &rate));
  Expect(loss == rate);
  RengaCall(Free(&set));
  RengaCall(Free(&called));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckCopy(comm, "skip", 4));
  RengaCall(CheckCopy(comm, "resnet:depth=18,width=0.0625,image=8,classes=5", 5));
  RengaCall(CheckOutputs(comm));
  RengaCall(CheckDeparture(comm));
  RengaCall(CheckRate(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
