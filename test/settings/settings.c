/* TEST ranks: 1 2 */
/* Each setting is what was set last, by the program or by an option; equal settings have equal
   hashes and others have others; what a pipeline is set up with cannot change. */
#include "../pipeline/run.h"

static RengaErrorCode CheckDefaults(RengaSettings settings)
{
  const char *schedule = "", *reduction;
  double eager, timeout;
  uint64_t seed;
  int64_t bound;
  int buckets;
  RengaCall(RengaSettingsGetBuckets(settings, &buckets));
  RengaCall(RengaSettingsGetSchedule(settings, &schedule));
  RengaCall(RengaSettingsGetEager(settings, &eager));
  RengaCall(RengaSettingsGetReduction(settings, &reduction));
  RengaCall(RengaSettingsGetSeed(settings, &seed));
  RengaCall(RengaSettingsGetTimeout(settings, &timeout));
  RengaCall(RengaSettingsGetMemoryBound(settings, &bound));
  Expect(!schedule && eager < 0 && !strcmp(reduction, RENGA_REDUCTION_ORDERED));
  Expect(seed == 0 && timeout == 300 && bound == 0 && buckets == 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSetters(RengaSettings settings)
{
  const char *schedule, *reduction;
  double eager, timeout;
  uint64_t seed;
  int64_t bound;
  int buckets;
  RengaCall(RengaSettingsSetBuckets(settings, 3));
  ExpectError(RengaSettingsSetBuckets(settings, 0), RENGA_ERR_ARGUMENT, "in 0 buckets: 1 to 1000");
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
  ExpectError(RengaSettingsSetReduction(settings, "orderd"), RENGA_ERR_ARGUMENT,
              "no reduction \"orderd\": did you mean \"ordered\"?");
  RengaCall(RengaSettingsSetSeed(settings, 7));
  RengaCall(RengaSettingsSetTimeout(settings, 4));
  RengaCall(RengaSettingsSetMemoryBound(settings, 1 << 20));
  ExpectError(RengaSettingsSetTimeout(settings, -1), RENGA_ERR_ARGUMENT, "a timeout of -1 seconds");
  ExpectError(RengaSettingsSetMemoryBound(settings, -2), RENGA_ERR_ARGUMENT, "-2 bytes");
  RengaCall(RengaSettingsGetReduction(settings, &reduction));
  RengaCall(RengaSettingsGetSeed(settings, &seed));
  RengaCall(RengaSettingsGetTimeout(settings, &timeout));
  RengaCall(RengaSettingsGetMemoryBound(settings, &bound));
  Expect(!strcmp(reduction, RENGA_REDUCTION_UNORDERED));
  Expect(seed == 7 && timeout == 4 && bound == 1 << 20 && buckets == 3);
  return RENGA_SUCCESS;
}

/* Options come last, and only those that are given. */
static RengaErrorCode CheckOptions(RengaSettings settings)
{
  const char *schedule, *reduction;
  uint64_t seed;
  int buckets;
  RengaCall(RengaOptionsSetValue("seed", "12"));
  RengaCall(RengaOptionsSetValue("pipeline_buckets", "5"));
  RengaCall(RengaOptionsSetValue("pipeline_schedule", "gpipe"));
  RengaCall(RengaSettingsSetFromOptions(settings));
  RengaCall(RengaSettingsGetSeed(settings, &seed));
  RengaCall(RengaSettingsGetSchedule(settings, &schedule));
  RengaCall(RengaSettingsGetReduction(settings, &reduction));
  RengaCall(RengaSettingsGetBuckets(settings, &buckets));
  Expect(seed == 12 && buckets == 5 && !strcmp(schedule, RENGA_SCHEDULE_GPIPE));
  Expect(!strcmp(reduction, RENGA_REDUCTION_UNORDERED));
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
  RengaCall(RengaSettingsSetReduction(other, RENGA_REDUCTION_UNORDERED));
  RengaCall(RengaSettingsGetHash(other, &second));
  Expect(first != second);
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
  RengaCall(CheckHash(comm));
  RengaCall(CheckHeld(comm));
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
