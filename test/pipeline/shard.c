/* TEST ranks: 1 4 timeout: 600 */
/* Replicas that have a share of the optimizer each: losses, norms, parameters and gradients have
   the bits of one rank that has all of it, whatever the layout, the buckets and the precision, with
   parameters that several replicas share, that are used twice or in two stages, and that are
   frozen. What replicas keep of masters and moments is together what one of them keeps without
   shards. */
#include "run.h"

enum { MOMENTS = 2 /* of adamw */ };
static const int64_t samples[] = {7, 7, 3, 1};

static RengaErrorCode BuildIn(RengaGraph graph, RengaPrecision precision)
{
  RengaCall(RengaGraphLoad(graph, "gpt:layers=2,hidden=48,heads=2,sequence=6,vocabulary=401,"
                                  "dropout=0.1"));
  RengaCall(RengaGraphSetPrecision(graph, precision, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildBrain(RengaGraph graph)
{
  RengaCall(BuildIn(graph, RENGA_PRECISION_BF16));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildHalf(RengaGraph graph)
{
  RengaCall(BuildIn(graph, RENGA_PRECISION_FP16));
  return RENGA_SUCCESS;
}

/* Parameters of several pieces (of 16,384 elements), so that replicas share them. */
static const Run networks[] = {
    {.graph = "mlp:sizes=40-500-70-5", .classes = 5, .device = "ref"},
    {.graph = "mlp:sizes=40-500-70-5", .classes = 5, .device = "cpu", .buckets = 3},
    {.graph = "skip",
     .classes = 4,
     .device = "ref",
     .groups = "in.*:frozen=yes;*.bias:weight_decay=0"},
    {.graph = "gpt:layers=2,hidden=48,heads=2,sequence=6,vocabulary=401,dropout=0.1",
     .classes = 401,
     .device = "cpu"},
    {.graph = "gpt in bf16", .build = BuildBrain, .classes = 401, .device = "cpu"},
    {.graph = "gpt in fp16", .build = BuildHalf, .classes = 401, .device = "cpu", .buckets = 2},
    {.graph = "resnet:depth=18,width=0.125,image=33,classes=5",
     .classes = 5,
     .device = "cpu",
     .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static const struct {
  int stages, replicas[4];
  unsigned shard;
} layouts[] = {{1, {1}, 1},       {1, {2}, 1},      {1, {3}, 1},    {1, {4}, 1},
               {2, {2, 2}, 3},    {2, {2, 2}, 2},   {2, {1, 3}, 3}, {2, {3, 1}, 1},
               {3, {1, 2, 1}, 7}, {3, {1, 1, 2}, 4}};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static Run Begin(const Run *network)
{
  Run run = *network;
  run.batch = 7;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  run.schedule = "1f1b";
  return run;
}

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, const Run *network)
{
  Result expected, result;
  Run run = Begin(network);
  RengaCall(RunAlone(self, &run, &expected));
  for (int l = 0; l < N_LAYOUTS; l++) {
    if (RunCountRanks(layouts[l].stages, layouts[l].replicas) > RengaCommGetSize(comm)) continue;
    run.stages = layouts[l].stages;
    run.unequal = layouts[l].replicas;
    run.shard = layouts[l].shard;
    run.poison = l % 2 == 1;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, &expected, &result));
    Expect(result.outputs == expected.outputs || RengaCommGetRank(comm) > 0);
  }
  return RENGA_SUCCESS;
}

/* Two replicas add up in one way only. */
static RengaErrorCode CheckUnordered(RengaComm comm)
{
  Result plain, sharded;
  Run run = Begin(&networks[1]);
  run.stages = 1;
  run.replicas = 2;
  run.reduction = RENGA_REDUCTION_UNORDERED;
  RengaCall(RunAll(comm, &run, &plain));
  run.shard = 1;
  RengaCall(RunAll(comm, &run, &sharded));
  RengaCall(RunCompare(&run, &plain, &sharded));
  return RENGA_SUCCESS;
}

static RengaErrorCode Open(RengaComm comm, const Run *run, RengaGraph *graph, RengaPlan *plan,
                           RengaPipeline *pipeline)
{
  RengaCall(RunBuild(comm, run, graph));
  RengaCall(RunPlan(comm, run, *graph, plan));
  RengaCall(RunPipeline(comm, run, *graph, *plan, pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode Close(RengaGraph *graph, RengaPlan *plan, RengaPipeline *pipeline)
{
  RengaCall(RengaPipelineDestroy(pipeline));
  RengaCall(RengaPlanDestroy(plan));
  RengaCall(RengaGraphDestroy(graph));
  return RENGA_SUCCESS;
}

/* Bytes of a category, of all ranks and of the largest. */
static RengaErrorCode SumBytes(RengaComm comm, int64_t mine, int64_t *sum, int64_t *most)
{
  RengaRequest request;
  *sum = *most = mine;
  RengaCall(RengaCommSumInt64(comm, 1, sum, "bytes"));
  RengaCall(RengaCommStartLargest(comm, 1, most, &request));
  RengaCall(RengaCommWait(comm, &request, "bytes"));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeMemory(RengaComm comm, const Run *run, RengaPipelineMemory *memory)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCall(Open(comm, run, &graph, &plan, &pipeline));
  RengaCall(RengaPipelineGetMemory(pipeline, memory));
  RengaCall(Close(&graph, &plan, &pipeline));
  return RENGA_SUCCESS;
}

/* In fp32 all of this network is shared: moments are those of one rank, cut into pieces. */
static RengaErrorCode CheckMoments(RengaComm comm, int replicas)
{
  const int64_t piece = MOMENTS * 4 * (int64_t)RENGA_VECTOR_PIECE;
  RengaPipelineMemory plain, sharded;
  int64_t sum, most, all, same;
  Run run = Begin(&networks[0]);
  run.stages = 1;
  run.replicas = replicas;
  RengaCall(TakeMemory(comm, &run, &plain));
  run.shard = 1;
  RengaCall(TakeMemory(comm, &run, &sharded));
  RengaCall(SumBytes(comm, plain.optimizer, &all, &same));
  RengaCall(SumBytes(comm, sharded.optimizer, &sum, &most));
  Expect(all == replicas * same && sum == same);
  Expect(most <= same / replicas + piece);
  Expect(sharded.parameters == plain.parameters && sharded.forecast == sharded.measured);
  return RENGA_SUCCESS;
}

/* In 16 bits masters are shared as moments are, but for those that kernels read. */
static RengaErrorCode CheckMasters(RengaComm comm, int replicas)
{
  RengaPipelineMemory plain, sharded;
  int64_t masters, moments, most;
  Run run = Begin(&networks[4]);
  run.stages = 1;
  run.replicas = replicas;
  RengaCall(TakeMemory(comm, &run, &plain));
  run.shard = 1;
  RengaCall(TakeMemory(comm, &run, &sharded));
  RengaCall(SumBytes(comm, plain.parameters - sharded.parameters, &masters, &most));
  RengaCall(SumBytes(comm, plain.optimizer - sharded.optimizer, &moments, &most));
  Expect(masters > 0 && moments == MOMENTS * masters);
  Expect(sharded.forecast == sharded.measured);
  return RENGA_SUCCESS;
}

/* gradient: on rank 0, of all parameters one after the other; then other values are set, and a
   further step is made with them. */
static RengaErrorCode StepAndSet(RengaComm comm, const Run *run, float gradient[], uint64_t *digest)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  const RengaPipelineParameter *list;
  const RengaPersistent *held;
  double loss;
  int count;
  RengaCall(Open(comm, run, &graph, &plan, &pipeline));
  Source source = {.graph = graph, .classes = run->classes};
  const RengaBatch batch = {run->batch, RunRead, &source};
  RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
  RengaCall(RengaPipelineListParameters(pipeline, &count, &list));
  Expect(count > 0);
  for (int p = 0; p < count; p++) {
    const int64_t elements = RengaTensorSpecCount(&list[p].spec);
    RengaCall(RengaPipelineGetGradient(pipeline, list[p].name, gradient));
    RengaCall(RengaPipelineSetParameter(pipeline, list[p].name, 0, gradient));
    gradient += elements;
  }
  RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
  if (RengaCommGetRank(comm) == 0) /* which may write then: all round what they have */
    RengaCall(RengaPipelineGetPersistents(pipeline, &count, &held));
  RengaCall(RengaPipelineEvaluate(pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetDigest(pipeline, digest));
  RengaCall(Close(&graph, &plan, &pipeline));
  return RENGA_SUCCESS;
}

/* What is asked for and set by name is the whole tensor. */
static RengaErrorCode CheckNamed(RengaComm comm, const Run *network)
{
  enum { MOST = 200000 };
  float *expected, *got;
  uint64_t digest, sharded;
  Run run = Begin(network);
  run.stages = 1;
  run.replicas = RengaCommGetSize(comm) < 3 ? RengaCommGetSize(comm) : 3;
  RengaCall(RengaMalloc(MOST, &expected));
  RengaCall(RengaMalloc(MOST, &got));
  RengaCall(StepAndSet(comm, &run, expected, &digest));
  run.shard = 1;
  RengaCall(StepAndSet(comm, &run, got, &sharded));
  Expect(digest == sharded && memcmp(expected, got, MOST * sizeof *got) == 0);
  Expect(RengaCommGetRank(comm) > 0 || expected[0] != 0);
  RengaFree(&expected);
  RengaFree(&got);
  return RENGA_SUCCESS;
}

/* The settings may ask for what the plan is not. */
static RengaErrorCode CheckRefused(RengaComm comm)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaSettings settings;
  Run run = Begin(&networks[0]);
  run.stages = run.replicas = 1;
  RengaCall(RunBuild(comm, &run, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunConfigure(comm, &run, graph, plan, &pipeline));
  RengaCall(RengaPipelineGetSettings(pipeline, &settings));
  ExpectError(RengaSettingsSetShard(settings, (RengaShard)4), RENGA_ERR_ARGUMENT,
              "4 is no RengaShard");
  RengaCall(RengaSettingsSetShard(settings, RENGA_SHARD_OPTIMIZER));
  ExpectError(RengaPipelineSetUp(pipeline), RENGA_ERR_PLAN,
              RengaCommGetRank(comm) == 0
                  ? "ask for -layout_zero 1, but stage 0 of the plan shards none"
                  : "");
  RengaCall(Close(&graph, &plan, &pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  const int ranks = RengaCommGetSize(comm);
  for (int n = 0; n < N_NETWORKS; n++) RengaCall(CheckNetwork(self, comm, &networks[n]));
  for (int replicas = 2; replicas <= ranks; replicas++) {
    RengaCall(CheckMoments(comm, replicas));
    RengaCall(CheckMasters(comm, replicas));
  }
  if (ranks > 1) RengaCall(CheckUnordered(comm));
  RengaCall(CheckNamed(comm, &networks[0]));
  RengaCall(CheckNamed(comm, &networks[4]));
  RengaCall(CheckRefused(comm));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
