/* TEST ranks: 1 2 4 */
/* A pipeline is set up after set-ups that were refused (for memory, another plan, settings that
   differ), and after a reset: each time with the bits of one that was set up at once. Settings that
   decide the bits are compared on all ranks, one by one. */
#include "../plan/plantest.h"
#include "run.h"

enum { STEPS = 3, BATCH = 6 };
static const int64_t samples[] = {BATCH};
static const Run base = {
    .graph = "skip", .classes = 4, .batch = BATCH, .microbatch = 2, .steps = 1, .samples = samples};

typedef struct {
  RengaComm comm;
  int rank, size;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaOptimizer optimizer;
} Parts;

static RengaErrorCode Make(RengaComm comm, Parts *parts)
{
  Run run = base;
  *parts = (Parts){.comm = comm};
  parts->rank = RengaCommGetRank(comm);
  parts->size = RengaCommGetSize(comm);
  run.stages = parts->size >= 2 ? 2 : 1;
  run.replicas = parts->size / run.stages;
  RengaCall(RunGraph(comm, run.graph, &parts->graph));
  RengaCall(RunPlan(comm, &run, parts->graph, &parts->plan));
  RengaCall(RunConfigure(comm, &run, parts->graph, parts->plan, &parts->pipeline));
  RengaCall(RengaPipelineGetOptimizer(parts->pipeline, &parts->optimizer));
  return RENGA_SUCCESS;
}

static RengaErrorCode Free(Parts *parts)
{
  RengaCall(RengaPipelineDestroy(&parts->pipeline));
  RengaCall(RengaPlanDestroy(&parts->plan));
  RengaCall(RengaGraphDestroy(&parts->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(Parts *parts, uint64_t *digest)
{
  Source source = {.graph = parts->graph, .classes = base.classes};
  const RengaBatch batch = {BATCH, RunRead, &source};
  double loss;
  RengaCall(RengaPipelineSetStepNumber(parts->pipeline, 0));
  for (source.step = 0; source.step < STEPS; source.step++)
    RengaCall(RengaPipelineStep(parts->pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetDigest(parts->pipeline, digest));
  return RENGA_SUCCESS;
}

/* Refused n times for memory, on one rank; nothing that was taken is left. */
static RengaErrorCode CheckMemory(RengaComm comm, uint64_t wanted)
{
  Parts parts;
  uint64_t digest;
  size_t before, after, peak;
  int64_t blocks;
  RengaCall(Make(comm, &parts));
  RengaCall(RengaSettingsSetMemoryBound(SettingsOf(parts.pipeline), parts.rank == 0 ? 1000 : 0));
  for (int n = 0; n < 3; n++) {
    RengaMemoryGetUsage(&before, &peak, &blocks);
    TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_MEMORY,
              parts.rank == 0 ? "-partition_memory allows 1000 B" : "");
    RengaMemoryGetUsage(&after, &peak, &blocks);
    if (n > 0) Expect(before == after);
  }
  RengaCall(RengaSettingsSetMemoryBound(SettingsOf(parts.pipeline), 0));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(Train(&parts, &digest));
  Expect(digest == wanted);
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* Another plan is refused, the old one is given back; then a reset, other settings, and back. */
static RengaErrorCode CheckPlan(RengaComm comm, uint64_t wanted)
{
  Parts parts;
  RengaPlan other;
  uint64_t digest, again;
  Run run = base;
  run.stages = 1;
  run.replicas = RengaCommGetSize(comm) + 1;
  RengaCall(Make(comm, &parts));
  RengaCall(RunPlan(comm, &run, parts.graph, &other));
  RengaCall(RengaPipelineSetPlan(parts.pipeline, parts.graph, other));
  TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_PLAN, parts.rank == 0 ? "ranks" : "");
  RengaCall(RengaPipelineSetPlan(parts.pipeline, parts.graph, parts.plan));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(Train(&parts, &digest));
  Expect(digest == wanted);
  RengaCall(RengaPipelineReset(parts.pipeline));
  RengaCall(RengaOptimizerSetType(parts.optimizer, "sgd"));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(Train(&parts, &again));
  Expect(again != wanted);
  RengaCall(RengaPipelineReset(parts.pipeline));
  RengaCall(RengaOptimizerSetType(parts.optimizer, "adamw"));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(Train(&parts, &again));
  Expect(again == wanted);
  RengaCall(RengaPlanDestroy(&other));
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

/* One setting is another on the last rank, and is named; put right, the pipeline can be set up. */
typedef RengaErrorCode (*Change)(Parts *parts, bool other);

static RengaErrorCode ChangeClip(Parts *parts, bool other)
{
  return RengaOptimizerSetClipNorm(parts->optimizer, other ? 0.5 : 0);
}

static RengaErrorCode ChangeBetas(Parts *parts, bool other)
{
  return RengaOptimizerSetBetas(parts->optimizer, 0.9, other ? 0.99 : 0.999, 1e-8);
}

static RengaErrorCode ChangeDecay(Parts *parts, bool other)
{
  return RengaOptimizerSetWeightDecay(parts->optimizer, other ? 0.5 : 0.01);
}

static RengaErrorCode ChangeGroups(Parts *parts, bool other)
{
  return RengaOptimizerSetGroups(parts->optimizer, other ? "in.*:frozen=yes" : NULL);
}

static RengaErrorCode ChangeRate(Parts *parts, bool other)
{
  return RengaOptimizerSetLearningRate(parts->optimizer, other ? 0.02 : 0.01);
}

static RengaErrorCode ChangePlanSchedule(Parts *parts, bool other)
{
  return RengaPlanSetSchedule(parts->plan, other ? "gpipe" : "1f1b");
}

static RengaErrorCode ChangeLeaf(Parts *parts, bool other)
{
  return RengaPlanSetLeaf(parts->plan, other ? 2 : 1);
}

static RengaErrorCode ChangeReduction(Parts *parts, bool other)
{
  return RengaSettingsSetReduction(SettingsOf(parts->pipeline),
                                   other ? RENGA_REDUCTION_UNORDERED : RENGA_REDUCTION_ORDERED);
}

static RengaErrorCode ChangeBuckets(Parts *parts, bool other)
{
  RengaSettings settings;
  RengaCall(RengaPipelineGetSettings(parts->pipeline, &settings));
  return RengaSettingsSetBuckets(settings, other ? 2 : 1);
}

static RengaErrorCode ChangeSeed(Parts *parts, bool other)
{
  return RengaSettingsSetSeed(SettingsOf(parts->pipeline), other ? 6 : 5);
}

static RengaErrorCode ChangeManner(Parts *parts, bool other)
{
  return RengaPipelineSetOnNonfinite(parts->pipeline,
                                     other ? RENGA_NONFINITE_SKIP : RENGA_NONFINITE_STOP);
}

static RengaErrorCode CheckDifferences(RengaComm comm, uint64_t wanted)
{
  static const struct {
    Change change;
    const char *name;
  } changes[] = {{ChangeClip, "-optimizer_clip_norm"},     {ChangeBetas, "-optimizer_beta2"},
                 {ChangeDecay, "-optimizer_weight_decay"}, {ChangeGroups, "-optimizer_groups"},
                 {ChangeRate, "-optimizer_learning_rate"}, {ChangePlanSchedule, "-schedule_type"},
                 {ChangeLeaf, "-partition_leaf"},          {ChangeReduction, "-pipeline_reduction"},
                 {ChangeBuckets, "-pipeline_buckets"},     {ChangeSeed, "seed"},
                 {ChangeManner, "-pipeline_on_nonfinite"}};
  Parts parts;
  uint64_t digest;
  RengaCall(Make(comm, &parts));
  for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++) {
    RengaCall(changes[c].change(&parts, parts.rank == parts.size - 1));
    TestError(RengaPipelineSetUp(parts.pipeline), RENGA_ERR_PLAN,
              parts.rank == 0 ? changes[c].name : "");
    RengaCall(changes[c].change(&parts, false));
  }
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(Train(&parts, &digest));
  Expect(digest == wanted);
  RengaCall(Free(&parts));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  Parts parts;
  uint64_t wanted;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(Make(comm, &parts));
  RengaCall(RengaPipelineSetUp(parts.pipeline));
  RengaCall(Train(&parts, &wanted));
  RengaCall(Free(&parts));
  RengaCall(CheckMemory(comm, wanted));
  RengaCall(CheckPlan(comm, wanted));
  if (RengaCommGetSize(comm) > 1) RengaCall(CheckDifferences(comm, wanted));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
