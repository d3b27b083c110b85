/* TEST ranks: 2 4 timeout: 600 */
/* Replicas that have a share of the gradients, too, or of the parameters: losses, norms, parameters
   and gradients have the bits of one rank that has all of them, with micro-batches taken in turn,
   leaves of one and several, replicas and groups of them without a micro-batch, tied parameters,
   dropout, statistics of batches, several stages and schedules. What they take is what was
   forecast, and what the formula of src/pipeline/reducescatter.c says. */
#include "renga/private/quiet.h"
#include "run.h"

static const int64_t samples[] = {7, 7, 3, 1};

static RengaErrorCode BuildBrain(RengaGraph graph)
{
  RengaCall(RengaGraphLoad(graph, "gpt:layers=2,hidden=48,heads=2,sequence=6,vocabulary=401,"
                                  "dropout=0.1"));
  RengaCall(RengaGraphSetPrecision(graph, RENGA_PRECISION_BF16, NULL));
  return RENGA_SUCCESS;
}

static const Run networks[] = {
    {.graph = "mlp:sizes=40-500-70-5", .classes = 5, .device = "ref", .schedule = "1f1b"},
    {.graph = "mlp:sizes=40-500-70-5",
     .classes = 5,
     .device = "far",
     .buckets = 3,
     .schedule = "gpipe"},
    {.graph = "skip",
     .classes = 4,
     .device = "ref",
     .groups = "in.*:frozen=yes;*.bias:weight_decay=0",
     .schedule = "zb-h1"},
    {.graph = "gpt:layers=2,hidden=48,heads=2,sequence=6,vocabulary=401,dropout=0.1",
     .classes = 401,
     .device = "cpu",
     .schedule = "1f1b"},
    {.graph = "gpt in bf16",
     .build = BuildBrain,
     .classes = 401,
     .device = "cpu",
     .schedule = "1f1b",
     .bucket_size = 20000},
    {.graph = "resnet:depth=18,width=0.125,image=33,classes=5",
     .classes = 5,
     .device = "cpu",
     .optimizer = "sgd",
     .schedule = "gpipe"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static const struct {
  int stages, replicas;
  int64_t microbatch, leaf;
  unsigned recompute;
} layouts[] = {{1, 2, 2, 1, 0}, {1, 2, 1, 3, 1}, {1, 3, 1, 1, 0},
               {1, 4, 1, 2, 0}, {2, 2, 1, 1, 2}, {2, 2, 2, 2, 0}};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static Run Begin(const Run *network, int layout, RengaShard level)
{
  Run run = *network;
  run.batch = 7;
  run.microbatch = layouts[layout].microbatch;
  run.leaf = layouts[layout].leaf;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  run.stages = layouts[layout].stages;
  run.replicas = layouts[layout].replicas;
  run.recompute = layouts[layout].recompute;
  run.shard = 15;
  run.level = level;
  run.poison = layout % 2 == 1;
  run.in_place = layout == 3;
  return run;
}

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, const Run *network,
                                   RengaShard level)
{
  Result expected, result;
  for (int l = 0; l < N_LAYOUTS; l++) {
    const Run run = Begin(network, l, level);
    if (run.stages * run.replicas > RengaCommGetSize(comm)) continue;
    RengaCall(RunAlone(self, &run, &expected));
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, &expected, &result));
    Expect(result.outputs == expected.outputs || RengaCommGetRank(comm) > 0);
  }
  return RENGA_SUCCESS;
}

/* Groups of replicas add up by themselves first, and then once over all of them. */
static RengaErrorCode CheckFoldGroups(RengaComm self, RengaComm comm, const Run *network,
                                      RengaShard level)
{
  static const int groups[N_LAYOUTS] = {2, 2, 3, 4, 2, 2};
  Result expected, result;
  for (int l = 0; l < N_LAYOUTS; l++) {
    Run run = Begin(network, l, level);
    if (run.stages * run.replicas > RengaCommGetSize(comm)) continue;
    RengaCall(RunAlone(self, &run, &expected));
    for (run.fold_groups = groups[l]; run.fold_groups > 1; run.fold_groups /= 2) {
      RengaCall(RunAll(comm, &run, &result));
      RengaCall(RunCompare(&run, &expected, &result));
      Expect(result.outputs == expected.outputs || RengaCommGetRank(comm) > 0);
    }
  }
  return RENGA_SUCCESS;
}

/* Two stages per rank: replicas have equally many micro-batches. */
static RengaErrorCode CheckChunks(RengaComm self, RengaComm comm, RengaShard level)
{
  static const int64_t even[] = {8, 6, 8};
  Result expected, result;
  Run run = Begin(&networks[0], 0, level);
  run.batch = 8;
  run.samples = even;
  run.steps = sizeof even / sizeof even[0];
  run.microbatch = 1;
  run.stages = 4;
  run.chunks = 2;
  run.schedule = "interleaved";
  RengaCall(RunAlone(self, &run, &expected));
  RengaCall(RunAll(comm, &run, &result));
  RengaCall(RunCompare(&run, &expected, &result));
  return RENGA_SUCCESS;
}

/* Each stage of a rank may need most on another replica: the forecast of the rank is their sum. */
static RengaErrorCode RunUnforeseen(RengaComm comm, const Run *run, Result *result)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  memset(result, 0, sizeof *result);
  RengaCall(RunBuild(comm, run, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunConfigure(comm, run, graph, plan, &pipeline));
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(RunSteps(run, graph, pipeline, result));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Several stages per rank, and replicas that have not as many micro-batches: each schedule has the
   bits of one rank. */
static RengaErrorCode CheckUneven(RengaComm self, RengaComm comm, RengaShard level)
{
  static const char *const types[] = {"1f1b", "interleaved", "gpipe", "zb-v"};
  static const int64_t odd[][2] = {{5, 5}, {7, 7}};
  for (int t = 0; t < 4; t++)
    for (int b = 0; b < 2; b++) {
      Result expected, result;
      Run run = Begin(&networks[0], 0, level);
      run.batch = odd[b][0];
      run.samples = odd[b];
      run.steps = 2;
      run.microbatch = 1;
      run.stages = RengaCommGetSize(comm);
      run.chunks = 2;
      run.buckets = 1 + b;
      run.schedule = types[t];
      Run alone = run;
      alone.schedule = RENGA_SCHEDULE_1F1B;
      RengaCall(RunAlone(self, &alone, &expected));
      RengaCall(RunUnforeseen(comm, &run, &result));
      RengaCall(RunCompare(&run, &expected, &result));
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeMemory(RengaComm comm, const Run *run, RengaPipelineMemory *memory)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCall(RunBuild(comm, run, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunPipeline(comm, run, graph, plan, &pipeline));
  RengaCall(RengaPipelineGetMemory(pipeline, memory));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Eight equal layers in as many buckets, eight micro-batches. */
enum { WIDTH = 256, LAYERS = 8 };
static Run LayersOn(int replicas)
{
  return (Run){.graph = "mlp:sizes=256-256-256-256-256-256-256-256-256",
               .classes = WIDTH,
               .device = "cpu",
               .schedule = "1f1b",
               .batch = 8,
               .microbatch = 1,
               .stages = 1,
               .replicas = replicas,
               .shard = 1,
               .buckets = LAYERS};
}

/* Of these layers a replica has its share of the
   partial sums that are left between rounds (one of four replicas, else two), three buckets of a
   micro-batch and the work memory of two sums; with a share of the optimizer it has all of its own
   partial sums. */
static RengaErrorCode CheckGradients(RengaComm comm, int replicas)
{
  const int64_t layer = 4 * (WIDTH * WIDTH + WIDTH), piece = 4 * (int64_t)RENGA_VECTOR_PIECE;
  RengaPipelineMemory optimizer, gradients;
  Run run = LayersOn(replicas);
  RengaCall(TakeMemory(comm, &run, &optimizer));
  run.level = RENGA_SHARD_GRADIENTS;
  RengaCall(TakeMemory(comm, &run, &gradients));
  if (RengaCommGetRank(comm) >= replicas) return RENGA_SUCCESS;
  const int64_t share = LAYERS * layer / replicas + LAYERS * piece, work = 4 * layer;
  Expect(gradients.forecast == gradients.measured);
  Expect(gradients.gradients <= (replicas == 4 ? 1 : 2) * share + 3 * layer + work);
  Expect(gradients.optimizer == optimizer.optimizer &&
         gradients.parameters == optimizer.parameters);
  if (replicas == 4) Expect(gradients.forecast < optimizer.forecast);
  return RENGA_SUCCESS;
}

/* The same layers: a replica has its share of the parameters, and at the most three buckets at a
   time of which one is read, one is asked for and one is not in the way. */
static RengaErrorCode CheckParameters(RengaComm comm, int replicas)
{
  const int64_t layer = 4 * (WIDTH * WIDTH + WIDTH), piece = 4 * (int64_t)RENGA_VECTOR_PIECE;
  RengaPipelineMemory gradients, parameters;
  Run run = LayersOn(replicas);
  run.level = RENGA_SHARD_GRADIENTS;
  RengaCall(TakeMemory(comm, &run, &gradients));
  run.level = RENGA_SHARD_PARAMETERS;
  RengaCall(TakeMemory(comm, &run, &parameters));
  if (RengaCommGetRank(comm) >= replicas) return RENGA_SUCCESS;
  const int64_t share = LAYERS * layer / replicas + LAYERS * piece, small = 1024;
  Expect(parameters.forecast == parameters.measured);
  Expect(gradients.parameters >= LAYERS * layer);
  Expect(parameters.parameters <= share + 3 * layer + small);
  Expect(parameters.gradients == gradients.gradients &&
         parameters.optimizer == gradients.optimizer);
  if (replicas == 4) Expect(parameters.forecast < gradients.forecast);
  return RENGA_SUCCESS;
}

static RengaErrorCode RefuseRun(RengaComm comm, const Run *run, const char *sentence)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCall(RunBuild(comm, run, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunConfigure(comm, run, graph, plan, &pipeline));
  ExpectError(RengaPipelineSetUp(pipeline), RENGA_ERR_SUPPORT,
              RengaCommGetRank(comm) == 0 ? sentence : "");
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefused(RengaComm comm)
{
  static const int unequal[] = {2, 1};
  Run run = Begin(&networks[0], 0, RENGA_SHARD_GRADIENTS);
  run.reduction = RENGA_REDUCTION_UNORDERED;
  RengaCall(RefuseRun(comm, &run, "-layout_zero 2 adds gradients in order"));
  run.reduction = RENGA_REDUCTION_ORDERED;
  if (RengaCommGetSize(comm) < 4) return RENGA_SUCCESS;
  run.stages = 2;
  run.shard = 1;
  RengaCall(RefuseRun(comm, &run,
                      "stage 0 has 2 replicas and shards gradients, stage 1 has 2 and shards none: "
                      "where one stage shards gradients all must, with as many replicas"));
  run.shard = 3;
  run.unequal = unequal;
  RengaCall(RefuseRun(comm, &run, "stage 1 has 1 and shards gradients"));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (RengaShard level = RENGA_SHARD_GRADIENTS; level <= RENGA_SHARD_PARAMETERS; level++) {
    for (int n = 0; n < N_NETWORKS; n++) RengaCall(CheckNetwork(self, comm, &networks[n], level));
    if (RengaCommGetSize(comm) == 4) RengaCall(CheckChunks(self, comm, level));
    RengaCall(CheckUneven(self, comm, level));
    RengaCall(CheckFoldGroups(self, comm, &networks[level == RENGA_SHARD_GRADIENTS], level));
    RengaCall(CheckFoldGroups(self, comm, &networks[4], level));
  }
  RengaCall(CheckGradients(comm, RengaCommGetSize(comm)));
  RengaCall(CheckParameters(comm, RengaCommGetSize(comm)));
  RengaCall(CheckRefused(comm));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
