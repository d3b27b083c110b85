/* TEST ranks: 1 2 */
/* Each setting is what was set last, by the program or by an option; equal settings have equal
   hashes and others have others; what a pipeline is set up with cannot change. */
#include "../pipeline/run.h"
#include "renga/private/settings.h"
#include <unistd.h>

static RengaErrorCode CheckDefaults(RengaSettings settings)
{
  const char *schedule = "";
  RengaReduction reduction;
  double eager, timeout;
  uint64_t seed;
  int64_t bound;
  int buckets;
  bool overlap;
  RengaCall(RengaSettingsGetBuckets(settings, &buckets));
  RengaCall(RengaSettingsGetSchedule(settings, &schedule));
  RengaCall(RengaSettingsGetEager(settings, &eager));
  RengaCall(RengaSettingsGetReduction(settings, &reduction));
  RengaCall(RengaSettingsGetSeed(settings, &seed));
  RengaCall(RengaSettingsGetTimeout(settings, &timeout));
  RengaCall(RengaSettingsGetMemoryBound(settings, &bound));
  Expect(!schedule && eager < 0 && reduction == RENGA_REDUCTION_ORDERED);
  Expect(seed == 0 && timeout == 300 && bound == 0 && buckets == 0);
  RengaCall(RengaSettingsGetBucketSize(settings, &bound));
  RengaCall(RengaSettingsGetOverlap(settings, &overlap));
  Expect(bound == 0 && overlap);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSetters(RengaSettings settings)
{
  const char *schedule;
  RengaReduction reduction;
  double eager, timeout;
  uint64_t seed;
  int64_t bound, size;
  int groups, buckets;
  bool overlap;
  RengaCall(RengaSettingsSetBucketSize(settings, 3000));
  ExpectError(RengaSettingsSetBucketSize(settings, -1), RENGA_ERR_ARGUMENT, "buckets of -1 bytes");
  RengaCall(RengaSettingsGetBucketSize(settings, &size));
  RengaCall(RengaSettingsSetBucketSize(settings, 0));
  RengaCall(RengaSettingsSetOverlap(settings, false));
  RengaCall(RengaSettingsGetOverlap(settings, &overlap));
  Expect(size == 3000 && !overlap);
  RengaCall(RengaSettingsSetBuckets(settings, 3));
  ExpectError(RengaSettingsSetBuckets(settings, -1), RENGA_ERR_ARGUMENT,
              "in -1 buckets: 0 to 1000");
  RengaCall(RengaSettingsGetBuckets(settings, &buckets));
  RengaCall(RengaSettingsSetEager(settings, 0.5));
  RengaCall(RengaSettingsGetSchedule(settings, &schedule));
  RengaCall(RengaSettingsGetEager(settings, &eager));
  Expect(!strcmp(schedule, RENGA_SCHEDULE_1F1B) && eager == 0.5);
  RengaCall(RengaSettingsSetSchedule(settings, RENGA_SCHEDULE_GPIPE));
  RengaCall(RengaSettingsGetEager(settings, &eager));
  Expect(eager < 0);
  ExpectError(RengaSettingsSetEager(settings, 1), RENGA_ERR_ORDER,
              "are for schedule 1f1b, but the schedule is gpipe");
  RengaCall(RengaSettingsSetSchedule(settings, NULL));
  RengaCall(RengaSettingsSetReduction(settings, RENGA_REDUCTION_UNORDERED));
  ExpectError(RengaSettingsSetReduction(settings, (RengaReduction)2), RENGA_ERR_ARGUMENT,
              "2 is no RengaReduction");
  RengaCall(RengaSettingsSetSeed(settings, 7));
  RengaCall(RengaSettingsSetShardGroups(settings, 2));
  ExpectError(RengaSettingsSetShardGroups(settings, 0), RENGA_ERR_ARGUMENT, "0 groups of replicas");
  RengaCall(RengaSettingsGetShardGroups(settings, &groups));
  RengaCall(RengaSettingsSetTimeout(settings, 4));
  RengaCall(RengaSettingsSetMemoryBound(settings, 1 << 20));
  ExpectError(RengaSettingsSetTimeout(settings, -1), RENGA_ERR_ARGUMENT, "a timeout of -1 seconds");
  ExpectError(RengaSettingsSetMemoryBound(settings, -2), RENGA_ERR_ARGUMENT, "-2 bytes");
  RengaCall(RengaSettingsGetReduction(settings, &reduction));
  RengaCall(RengaSettingsGetSeed(settings, &seed));
  RengaCall(RengaSettingsGetTimeout(settings, &timeout));
  RengaCall(RengaSettingsGetMemoryBound(settings, &bound));
  Expect(reduction == RENGA_REDUCTION_UNORDERED);
  Expect(seed == 7 && timeout == 4 && bound == 1 << 20 && buckets == 3 && groups == 2);
  return RENGA_SUCCESS;
}

/* Options come last, and only those that are given. */
static RengaErrorCode CheckOptions(RengaSettings settings)
{
  const char *schedule;
  RengaReduction reduction;
  uint64_t seed;
  int buckets, rank;
  bool overlap;
  RengaCall(RengaOptionsSetValue("seed", "12"));
  RengaCall(RengaOptionsSetValue("pipeline_buckets", "5"));
  RengaCall(RengaOptionsSetValue("schedule_type", "gpipe"));
  RengaCall(RengaOptionsSetValue("pipeline_overlap", "on"));
  RengaCall(RengaOptionsSetValue("pipeline_bucket_size", "4KiB"));
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ExpectError(RengaSettingsSetFromOptions(settings), RENGA_ERR_OPTION,
              rank > 0 ? "" : "-pipeline_buckets 5 says how many buckets there are");
  RengaCall(RengaOptionsSetValue("pipeline_bucket_size", "0"));
  RengaCall(RengaSettingsSetFromOptions(settings));
  RengaCall(RengaSettingsGetSeed(settings, &seed));
  RengaCall(RengaSettingsGetSchedule(settings, &schedule));
  RengaCall(RengaSettingsGetReduction(settings, &reduction));
  RengaCall(RengaSettingsGetBuckets(settings, &buckets));
  RengaCall(RengaSettingsGetOverlap(settings, &overlap));
  Expect(overlap);
  Expect(seed == 12 && buckets == 5 && !strcmp(schedule, RENGA_SCHEDULE_GPIPE));
  Expect(reduction == RENGA_REDUCTION_UNORDERED);
  return RENGA_SUCCESS;
}

/* The words of options are the names of the values, and there are no others. */
static RengaErrorCode CheckWords(RengaComm comm)
{
  RengaSettings settings;
  RengaShard shard;
  RengaOffload offload;
  RengaRecompute recompute;
  RengaCall(RengaSettingsCreate(comm, &settings));
  for (int w = RENGA_SHARD_AUTO; RengaShardName((RengaShard)w); w++) {
    RengaCall(RengaOptionsSetValue("layout_zero", RengaShardName((RengaShard)w)));
    RengaCall(RengaSettingsSetFromOptions(settings));
    RengaCall(RengaSettingsGetShard(settings, &shard));
    Expect((int)shard == w);
  }
  RengaCall(RengaOptionsSetValue("layout_offload", "optimizer"));
  RengaCall(RengaOptionsSetValue("layout_recompute", "full"));
  RengaCall(RengaSettingsSetFromOptions(settings));
  RengaCall(RengaSettingsGetOffload(settings, &offload));
  RengaCall(RengaSettingsGetRecompute(settings, &recompute));
  Expect(offload == RENGA_OFFLOAD_OPTIMIZER && recompute == RENGA_RECOMPUTE_FULL);
  Expect(!strcmp(RengaOffloadName(RENGA_OFFLOAD_ALL), "all") && !RengaOffloadName((RengaOffload)4));
  Expect(!strcmp(RengaRecomputeName(RENGA_RECOMPUTE_FULL), "full"));
  Expect(!strcmp(RengaReductionName(RENGA_REDUCTION_UNORDERED), "unordered"));
  ExpectError(RengaOptionsSetValue("layout_zero", "optimiser"), RENGA_ERR_OPTION,
              "|1=optimizer|2=gradients|3=parameters; did you mean optimizer?");
  ExpectError(RengaSettingsSetOffload(settings, (RengaOffload)4), RENGA_ERR_ARGUMENT,
              "4 is no RengaOffload");
  ExpectError(RengaSettingsSetRecompute(settings, (RengaRecompute)3), RENGA_ERR_ARGUMENT,
              "3 is no RengaRecompute");
  RengaCall(RengaOptionsClearValue("layout_zero"));
  RengaCall(RengaOptionsClearValue("layout_offload"));
  RengaCall(RengaOptionsClearValue("layout_recompute"));
  RengaCall(RengaSettingsDestroy(&settings));
  return RENGA_SUCCESS;
}

/* A schedule file that is written anew is another schedule. */
static RengaErrorCode CheckFileHash(RengaSettings settings)
{
  uint64_t hash[3];
  char type[64];
  snprintf(type, sizeof type, "file:lists.%d.txt", (int)getpid());
  const char *name = type + strlen("file:");
  RengaCall(RengaSettingsSetSchedule(settings, type));
  for (int i = 0; i < 3; i++) {
    FILE *file = fopen(name, "w");
    Expect(file != NULL);
    fputs(i == 1 ? "forward 0 0\nbackward 0 0\n" : "forward 0 0\n", file);
    fclose(file);
    RengaCall(RengaSettingsGetHash(settings, &hash[i]));
  }
  unlink(name);
  Expect(hash[0] != hash[1] && hash[0] == hash[2]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckHash(RengaComm comm)
{
  RengaSettings settings, other;
  RengaOptimizer optimizer;
  uint64_t first, second;
  RengaCall(RengaSettingsCreate(comm, &settings));
  RengaCall(RengaSettingsCreate(comm, &other));
  RengaCall(RengaSettingsGetHash(settings, &first));
  RengaCall(RengaSettingsGetHash(other, &second));
  Expect(first == second);
  RengaCall(RengaSettingsGetOptimizer(other, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_SGD));
  RengaCall(RengaSettingsGetHash(other, &second));
  Expect(first != second);
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_ADAMW));
  RengaCall(RengaSettingsSetBuckets(other, 2));
  RengaCall(RengaSettingsGetHash(other, &second));
  Expect(first != second);
  RengaCall(RengaSettingsSetBuckets(other, 1));
  RengaCall(RengaSettingsSetBucketSize(other, 4096));
  RengaCall(RengaSettingsGetHash(other, &second));
  Expect(first != second);
  RengaCall(RengaSettingsSetBucketSize(other, 0));
  RengaCall(RengaSettingsSetReduction(other, RENGA_REDUCTION_UNORDERED));
  RengaCall(RengaSettingsGetHash(other, &second));
  Expect(first != second);
  RengaCall(CheckFileHash(other));
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaSettingsDestroy(&other));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckHeld(RengaComm comm)
{
  static const Run run = {.graph = "mlp:input=3,hidden=4,layers=2,classes=3",
                          .batch = 4,
                          .microbatch = 2,
                          .stages = 1,
                          .replicas = 1};
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaSettings settings, same;
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RengaSettingsCreate(comm, &settings));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineSetSettings(pipeline, settings));
  RengaCall(RengaPipelineGetSettings(pipeline, &same));
  Expect(same == settings);
  RengaCall(RengaPipelineSetUp(pipeline));
  ExpectError(RengaSettingsSetSeed(settings, 1), RENGA_ERR_ORDER,
              "RengaSettingsSetSeed: these settings are of a pipeline that is set up");
  ExpectError(RengaPipelineSetSettings(pipeline, settings), RENGA_ERR_ORDER,
              "comes before RengaPipelineSetUp");
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaSettingsSetSeed(settings, 1));
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckView(RengaComm comm, RengaSettings settings)
{
  RengaViewer viewer;
  RengaCall(RengaViewerCreate(comm, "ascii:/dev/null", &viewer));
  RengaCall(RengaSettingsView(settings, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaSettings settings;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaSettingsCreate(comm, &settings));
  RengaCall(CheckDefaults(settings));
  RengaCall(CheckSetters(settings));
  RengaCall(CheckOptions(settings));
  RengaCall(CheckView(comm, settings));
  RengaCall(CheckWords(comm));
  RengaCall(CheckHash(comm));
  RengaCall(CheckHeld(comm));
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
