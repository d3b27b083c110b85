/* TEST ranks: 1 4 */
/* What a pipeline refuses, on all ranks alike: memory over the bound, another plan on one rank,
   a loss that is not finite (parameters are kept), batches that were not planned for, calls out
   of order. */
#include "../plan/plantest.h"
#include "run.h"

/* What rank 0 alone says. */
#define Root(text) (rank == 0 ? text : "")

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
  RengaCall(RunBuild(comm, &run, &parts->graph));
  RengaCall(RunPlan(comm, &run, parts->graph, &parts->plan));
  RengaDevice device;
  RengaCall(RengaPipelineCreate(comm, &parts->pipeline));
  RengaCall(RengaPipelineGetDevice(parts->pipeline, &device));
  RengaCall(RengaDeviceSetFromOptions(device));
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
  const int rank = RengaCommGetRank(comm);
  Parts parts;
  RengaPipelineMemory memory;
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(RengaPipelineGetMemory(parts.pipeline, &memory));
  RengaCall(Free(&parts));
  RengaCall(Make(comm, base, &parts));
  if (rank == 0)
    RengaCall(RengaSettingsSetMemoryBound(SettingsOf(parts.pipeline), memory.forecast - 1));
  TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_MEMORY, Root("more stages"));
  RengaCall(Free(&parts));
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaPlanSetMemoryLimit(parts.plan, 1000));
  TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_MEMORY,
            Root("allows 1000 B; the largest part is"));
  RengaCall(Free(&parts));
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaSettingsSetMemoryBound(SettingsOf(parts.pipeline), memory.forecast));
  if (RengaCommGetSize(comm) == 1) RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAgreement(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm);
  Parts parts;
  if (RengaCommGetSize(comm) == 1) return RENGA_SUCCESS;
  Run run = base;
  if (rank == 1) run.microbatch = 3;
  RengaCall(Make(comm, run, &parts));
  TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_PLAN,
            Root("rank 1 differs from rank 0 in its plan"));
  RengaCall(Free(&parts));
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaSettingsSetSeed(SettingsOf(parts.pipeline), (uint64_t)(rank == 2)));
  if (RengaCommGetSize(comm) > 2)
    TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_PLAN,
              Root("rank 2 differs from rank 0 in its seed"));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* A plan by costs that are measured, before which ranks whose wishes differ would part. */
static RengaErrorCode Plan(RengaComm comm, int64_t microbatch, RengaGraph graph, const char *type,
                           RengaPlan *plan)
{
  RengaPartition partition;
  RengaSettings settings;
  RengaOptimizer optimizer;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_AUTO));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, 6, microbatch));
  RengaCall(RengaSettingsCreate(comm, &settings));
  RengaCall(RengaSettingsGetOptimizer(settings, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, type));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  const RengaErrorCode code = RengaPartitionSolve(partition, plan);
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaPartitionDestroy(&partition));
  return code;
}

static RengaErrorCode CheckCosts(RengaComm comm, RengaGraph graph)
{
  const int rank = RengaCommGetRank(comm);
  RengaProfile profile;
  RengaProfileCost costs[64];
  Expect(RengaGraphGetNodeCount(graph) < 64);
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetGraph(profile, graph));
  TestError(RengaProfileGetCosts(profile, rank == 1 ? 3 : 2, costs), RENGA_ERR_ARGUMENT,
            Root("rank 1 differs from rank 0 in its samples or elements to measure"));
  RengaCall(RengaProfileDestroy(&profile));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPlanning(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm);
  RengaGraph graph, other;
  RengaPlan plan = NULL;
  if (RengaCommGetSize(comm) == 1) return RENGA_SUCCESS;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, base.graph));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphCreate(comm, &other));
  RengaCall(RengaGraphLoad(other, rank == 1 ? "mlp:sizes=6-16-4" : base.graph));
  RengaCall(RengaGraphSetUp(other));
  TestError(Plan(comm, 2, other, "adam", &plan), RENGA_ERR_PLAN,
            Root("rank 1 differs from rank 0 in its network"));
  RengaCall(RengaGraphDestroy(&other));
  RengaCall(RengaGraphCreate(comm, &other));
  RengaCall(RengaGraphLoad(other, base.graph));
  RengaCall(RengaGraphSetLanes(other, rank == 1 ? 0 : 1));
  RengaCall(RengaGraphSetUp(other));
  TestError(Plan(comm, 2, other, "adam", &plan), RENGA_ERR_PLAN,
            Root("rank 1 differs from rank 0 in its choice of lanes (-graph_lanes)"));
  TestError(Plan(comm, rank == 1 ? 3 : 2, graph, "adam", &plan), RENGA_ERR_PLAN,
            Root("rank 1 differs from rank 0 in its -microbatch_size"));
  TestError(Plan(comm, 2, graph, rank == 1 ? "sgd" : "adam", &plan), RENGA_ERR_PLAN,
            Root("rank 1 differs from rank 0 in its -optimizer_type"));
  RengaCall(CheckCosts(comm, graph));
  RengaCall(RengaGraphDestroy(&other));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Some ranks would ask MPI for their nodes, and wait for those that do not. */
static RengaErrorCode CheckPretendedNodes(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm);
  RengaComm other;
  if (RengaCommGetSize(comm) == 1) return RENGA_SUCCESS;
  if (rank == 1) setenv("RENGA_NODES", "2", 1);
  TestError(RengaCommCreate(MPI_COMM_WORLD, &other), RENGA_ERR_ARGUMENT,
            Root("RENGA_NODES is not the same on all ranks"));
  unsetenv("RENGA_NODES");
  return RENGA_SUCCESS;
}

/* Replicas whose updates differ in the last bit would drift apart. */
static RengaErrorCode CheckInstructionSets(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm);
  RengaDevice device;
  const char *type;
  Parts parts;
  bool several = false;
#ifdef __x86_64__
  several = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  if (RengaCommGetSize(comm) == 1 || !several) return RENGA_SUCCESS;
  if (rank == 1) RengaCall(RengaOptionsSetValue("device_isa", "base"));
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaPipelineGetDevice(parts.pipeline, &device));
  RengaCall(RengaDeviceGetType(device, &type));
  if (strcmp(type, RENGA_DEVICE_REF) != 0)
    TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_PLAN,
              Root("rank 1 differs from rank 0 in its instruction set of kernels (-device_isa"));
  RengaCall(Free(&parts));
  RengaCall(RengaOptionsSetValue("device_isa", "auto"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadNotFinite(void *user, int field, int64_t first, int64_t count,
                                    void *buffer)
{
  RengaCall(RunRead(user, field, first, count, buffer));
  if (field == 0 && first == 2) ((float *)buffer)[3] = NAN;
  return RENGA_SUCCESS;
}

/* A code, without a word. */
static RengaErrorCode ReadNothing(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  return first == 2 ? RENGA_ERR_FILE_FORMAT : RunRead(user, field, first, count, buffer);
}

static RengaErrorCode CheckSilent(RengaComm comm)
{
  Parts parts;
  Source source = {.classes = base.classes};
  double loss;
  RengaCall(Make(comm, base, &parts));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  source.graph = parts.graph;
  RengaBatch batch = {6, ReadNothing, &source};
  TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_FILE_FORMAT,
            RengaCommGetSize(comm) == 1 ? "the function that reads the batch returned" : "");
  batch.read = RunRead;
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNotFinite(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm);
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
  TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_NUMERIC,
            Root("the loss of step 1 is nan"));
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &after));
  Expect(before == after && loss == old && RengaPipelineGetStepNumber(parts.pipeline) == 1);
  batch.read = RunRead;
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  batch.samples = 0;
  TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_ARGUMENT,
            "a batch of 0 samples");
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOrder(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm);
  Parts parts;
  double loss;
  Source source = {.classes = base.classes};
  RengaBatch batch = {6, RunRead, &source};
  RengaCall(Make(comm, base, &parts));
  TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_ORDER,
            "call RengaPipelineSetUp first");
  TestError(RengaSettingsSetReduction(SettingsOf(parts.pipeline), (RengaReduction)2),
            RENGA_ERR_ARGUMENT, "2 is no RengaReduction");
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  TestError(RengaSettingsSetSeed(SettingsOf(parts.pipeline), 1), RENGA_ERR_ORDER,
            "these settings are of a pipeline that is set up");
  float buffer[64];
  source.graph = parts.graph;
  TestError(RengaPipelineForward(parts.pipeline, &batch, "nothing", buffer), RENGA_ERR_ARGUMENT,
            Root("the network has no output nothing"));
  TestError(RengaPipelineGetGradient(parts.pipeline, "l.0.bias", buffer), RENGA_ERR_ARGUMENT,
            Root("there is no gradient of l.0.bias"));
  batch.samples = INT64_C(1) << 40;
  TestError(RengaPipelineEvaluate(parts.pipeline, &batch, &loss), RENGA_ERR_PLAN,
            "more than the 1048576 that can be planned");
  batch.samples = 600;
  TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_ARGUMENT,
            "a step of 600 samples needs more memory than was planned for 6");
  RengaCall(RengaPipelineEvaluate(parts.pipeline, &batch, &loss));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* 26 micro-batches make more pieces of a sum than 32 do. A step that is refused changes
   nothing; one that was announced is done. */
static RengaErrorCode CheckPieces(RengaComm comm, bool announced)
{
  Parts parts;
  Run run = base;
  Source source = {.classes = base.classes};
  RengaBatch batch = {32, RunRead, &source};
  RengaSettings settings;
  uint64_t before, after;
  double loss;
  if (RengaCommGetSize(comm) == 1) return RENGA_SUCCESS;
  run.batch = 32;
  run.microbatch = 1;
  RengaCall(Make(comm, run, &parts));
  RengaCall(RengaPipelineGetSettings(parts.pipeline, &settings));
  RengaCall(RengaSettingsSetTransport(settings, RENGA_TRANSPORT_STAGED));
  if (announced) RengaCall(RengaPipelineSetDataShortBatch(parts.pipeline, 26));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  source.graph = parts.graph;
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &before));
  batch.samples = 26;
  if (announced)
    RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  else
    TestError(RengaPipelineStep(parts.pipeline, &batch, &loss), RENGA_ERR_ARGUMENT,
              "a step of 26 samples needs more memory than was planned for 32: announce it");
  RengaCall(RengaPipelineGetDigest(parts.pipeline, &after));
  Expect((before != after) == announced);
  batch.samples = 32;
  RengaCall(RengaPipelineStep(parts.pipeline, &batch, &loss));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckMany(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm);
  Parts parts;
  RengaCall(Make(comm, base, &parts));
  TestError(RengaPlanSetBatch(parts.plan, 1000000000, 1), RENGA_ERR_PLAN,
            Root("give a -microbatch_size of 954 or more"));
  RengaCall(RengaPipelineSetDataShortBatch(parts.pipeline, 400000000));
  TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_PLAN,
            Root("a step of 400000000 samples in micro-batches of 2 has 200000000"));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildWhole(RengaGraph graph)
{
  RengaCall(RengaGraphSetWholeBatch(graph, 6));
  RengaCall(RunSkip(graph));
  return RENGA_SUCCESS;
}

/* A network of whole batches knows before the first step that the last one will be short. */
static RengaErrorCode CheckWhole(RengaComm comm)
{
  Parts parts;
  Run run = base;
  if (RengaCommGetSize(comm) > 1) return RENGA_SUCCESS;
  run.build = BuildWhole;
  run.microbatch = 6;
  RengaCall(Make(comm, run, &parts));
  RengaCall(RengaPipelineSetDataShortBatch(parts.pipeline, 6));
  RengaCall(RengaPipelineSetDataShortBatch(parts.pipeline, 4));
  TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_PLAN,
            "batches of 6 that are never cut, but some steps have 4 samples");
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckBound(comm));
  RengaCall(CheckAgreement(comm));
  RengaCall(CheckPlanning(comm));
  RengaCall(CheckPretendedNodes(comm));
  RengaCall(CheckInstructionSets(comm));
  RengaCall(CheckSilent(comm));
  RengaCall(CheckNotFinite(comm));
  RengaCall(CheckOrder(comm));
  RengaCall(CheckPieces(comm, false));
  RengaCall(CheckPieces(comm, true));
  RengaCall(CheckMany(comm));
  RengaCall(CheckWhole(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
