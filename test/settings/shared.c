/* TEST ranks: 1 2 */
/* What a program sets in its objects is what it gets: forecasts of memory follow settings that
   change, and plans are made for the settings of the pipeline that will run them. */
#include "../pipeline/run.h"
#include "renga.h"

static const Run run = {.graph = "mlp:input=8,hidden=32,layers=3,classes=4",
                        .batch = 64,
                        .microbatch = 8,
                        .stages = 1,
                        .replicas = 1};

static RengaErrorCode MakePipeline(RengaComm comm, RengaGraph graph, RengaPlan plan,
                                   const char *optimizer, RengaPipeline *pipeline)
{
  RengaOptimizer made;
  RengaCall(RengaPipelineCreate(comm, pipeline));
  RengaCall(RengaPipelineSetPlan(*pipeline, graph, plan));
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &made));
  RengaCall(RengaOptimizerSetType(made, optimizer));
  return RENGA_SUCCESS;
}

/* One pipeline is asked again and again while its settings change; each answer is that of a fresh
   one. */
static RengaErrorCode CheckForecasts(RengaComm comm, RengaGraph graph, RengaPlan plan)
{
  static const char *const optimizers[] = {RENGA_OPTIMIZER_ADAM, RENGA_OPTIMIZER_SGD};
  static const RengaReduction reductions[] = {RENGA_REDUCTION_ORDERED, RENGA_REDUCTION_UNORDERED};
  RengaPipeline pipeline, fresh;
  RengaOptimizer optimizer;
  int64_t total[4];
  RengaCall(MakePipeline(comm, graph, plan, RENGA_OPTIMIZER_ADAM, &pipeline));
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  for (int i = 0; i < 4; i++) {
    RengaPipelineMemory again, once;
    RengaCall(RengaOptimizerSetType(optimizer, optimizers[i / 2]));
    RengaCall(RengaSettingsSetReduction(SettingsOf(pipeline), reductions[i % 2]));
    RengaCall(RengaPipelineForecastStages(pipeline, &again));
    RengaCall(MakePipeline(comm, graph, plan, optimizers[i / 2], &fresh));
    RengaCall(RengaSettingsSetReduction(SettingsOf(fresh), reductions[i % 2]));
    RengaCall(RengaPipelineForecastStages(fresh, &once));
    RengaCall(RengaPipelineDestroy(&fresh));
    Expect(memcmp(&again, &once, sizeof once) == 0);
    Expect((again.optimizer > 0) == (i / 2 == 0));
    total[i] = again.forecast;
  }
  Expect(total[0] > total[1] && total[0] > total[2] && total[1] > total[3]);
  RengaCall(RengaPipelineDestroy(&pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode DescribeMachine(RengaComm comm, RengaMachine *machine)
{
  const RengaMachineDevice device = {.name = "rank",
                                     .memory = 1 << 30,
                                     .matrix_rate = 1e9,
                                     .vector_rate = 1e9,
                                     .memory_bandwidth = 1e9,
                                     .matrix_efficiency = 1,
                                     .vector_efficiency = 1,
                                     .bandwidth_efficiency = 1};
  const RengaMachineLevel level = {.name = "node", .devices = 4, .latency = 1e-6, .bandwidth = 1e9};
  RengaCall(RengaMachineCreate(comm, machine));
  RengaCall(RengaMachineSetDevice(*machine, &device));
  RengaCall(RengaMachineSetLevels(*machine, 1, &level));
  return RENGA_SUCCESS;
}

/* One stage of one replica, under a bound. */
static RengaErrorCode Plan(RengaComm comm, RengaGraph graph, RengaMachine machine,
                           RengaSettings settings, int64_t bound, RengaPlan *plan)
{
  RengaPartition partition;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_AUTO));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetMachine(partition, machine));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  RengaCall(RengaPartitionSetRanks(partition, 1));
  RengaCall(RengaPartitionSetBatch(partition, run.batch, run.microbatch));
  RengaCall(RengaPartitionSetLeaf(partition, 1));
  RengaCall(RengaPartitionSetMemory(partition, bound));
  const RengaErrorCode code = RengaPartitionSolve(partition, plan);
  RengaCall(RengaPartitionDestroy(&partition));
  return code;
}

static RengaErrorCode CheckPlans(RengaComm comm, RengaGraph graph, RengaPlan plan)
{
  const char *wanted = RengaCommGetRank(comm) == 0 ? "would do" : "";
  RengaPipeline pipeline;
  RengaOptimizer optimizer;
  RengaSettings settings;
  RengaMachine machine;
  RengaPlan made = NULL;
  RengaPipelineMemory memory;
  double seconds[2];
  RengaCall(DescribeMachine(comm, &machine));
  RengaCall(MakePipeline(comm, graph, plan, RENGA_OPTIMIZER_SGD, &pipeline));
  RengaCall(RengaPipelineForecastStages(pipeline, &memory));
  RengaCall(RengaPipelineGetSettings(pipeline, &settings));
  ExpectError(Plan(comm, graph, machine, NULL, memory.forecast, &made), RENGA_ERR_MEMORY, wanted);
  for (int i = 0; i < 2; i++) {
    RengaPlanPrediction prediction;
    RengaCall(Plan(comm, graph, machine, settings, i ? 0 : memory.forecast, &made));
    Expect(i || RengaPlanGetStage(made, 0)->memory == memory.forecast);
    RengaCall(RengaPlanGetPrediction(made, &prediction));
    seconds[i] = prediction.update;
    RengaCall(RengaPlanDestroy(&made));
    /* The planner needs no number of steps. */
    RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
    RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_ADAMW));
    RengaCall(RengaOptimizerSetSchedule(optimizer, "cosine", 2, 0.1));
  }
  Expect(seconds[1] > 2 * seconds[0]); /* 28 bytes of a parameter, not 12 */
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(CheckForecasts(comm, graph, plan));
  RengaCall(CheckPlans(comm, graph, plan));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
