/* TEST ranks: 1 2 */
/* Example 7: what a run goes by.

   Whatever was set can be asked for, whether the program, an option or a default said it: a program
   may print what it is about to do, or compare it with what it expects. Here are asked, in the
   order in which they are decided, the network, the optimizer, the settings of the run, the
   planner, and the plan and schedule that came of it. Nothing is trained.

     ./ex7 -precision bf16 -optimizer_type sgd -optimizer_momentum 0.9
     ./ex7 -partition_exact_time_limit 2 -plan_view -plan_explain -schedule_view
*/
#include <renga.h>
#include <stdio.h>
#include <string.h>

static const char help[] = "Plans for four ranks, and says by what.\n";

enum { ranks = 4, batch = 32 };

/* Patterns of names say which parameters are trained; the precision, in which types tensors are
   kept. */
static RengaErrorCode ShowNetwork(RengaGraph graph)
{
  const char *trained, *frozen;
  RengaPrecision precision;
  char text[64];
  RengaCall(RengaGraphGetTrained(graph, &trained, &frozen));
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  const RengaGraphValue *hidden = RengaGraphGetValue(graph, RengaGraphFindValue(graph, "l.0"));
  const RengaTensorSpec kept = RengaGraphStoredAt(hidden, 4); /* of a micro-batch of 4 samples */
  RengaTensorSpecFormat(&kept, sizeof text, text);
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "network: %s, frozen %s, l.0 is kept as %s\n",
                        RengaPrecisionName(precision), frozen ? frozen : "nothing", text));
  RengaCheck(!trained, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "nobody said what is trained: %s",
             trained);
  return RENGA_SUCCESS;
}

/* The rate of each step, from the base and the schedule: halved in every tenth step. */
static RengaErrorCode HalveInTens(void *context, int64_t step, double scheduled, double *rate)
{
  (void)context;
  *rate = step % 10 == 9 ? 0.5 * scheduled : scheduled;
  return RENGA_SUCCESS;
}

/* What one type alone has is asked for by its own functions, which refuse other types. */
static RengaErrorCode ShowType(RengaOptimizer optimizer)
{
  const char *type;
  double first, second, epsilon;
  bool nesterov;
  RengaCall(RengaOptimizerGetType(optimizer, &type));
  if (strcmp(type, RENGA_OPTIMIZER_SGD) == 0) {
    RengaCall(RengaOptimizerGetMomentum(optimizer, &first, &nesterov));
    RengaCall(RengaPrintf(MPI_COMM_WORLD, "optimizer: %s, momentum %g%s\n", type, first,
                          nesterov ? " of Nesterov" : ""));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOptimizerGetBetas(optimizer, &first, &second, &epsilon));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "optimizer: %s, betas %g and %g, epsilon %g\n", type, first,
                        second, epsilon));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowOptimizer(RengaOptimizer optimizer)
{
  double decay, norm, ratio, rate;
  int64_t warmup, steps;
  const char *schedule;
  RengaOptimizerRateFunction function;
  void *context;
  RengaCall(ShowType(optimizer));
  RengaCall(RengaOptimizerGetWeightDecay(optimizer, &decay));
  RengaCall(RengaOptimizerGetClipNorm(optimizer, &norm)); /* 0: gradients are not clipped */
  RengaCall(RengaOptimizerGetSchedule(optimizer, &schedule, &warmup, &ratio));
  RengaCall(RengaOptimizerGetTotalSteps(optimizer, &steps));
  RengaCall(RengaOptimizerGetLearningRateFunction(optimizer, &function, &context));
  RengaCall(RengaOptimizerGetLearningRate(optimizer, 9, &rate)); /* all of this together */
  RengaCall(
      RengaPrintf(MPI_COMM_WORLD,
                  "  weight decay %g, norm at most %g, rates %s over %lld steps after %lld of "
                  "warm-up down to %g%s; in step 9: %g\n",
                  decay, norm, schedule, (long long)steps, (long long)warmup, ratio,
                  function ? ", then a function of the program" : "", rate));
  RengaCheck(function == HalveInTens && !context, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "the function that was set is another one");
  return RENGA_SUCCESS;
}

static RengaErrorCode SetOptimizer(RengaOptimizer optimizer)
{
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_ADAMW));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 1e-3));
  RengaCall(RengaOptimizerSetSchedule(optimizer, "cosine", 2, 0.1));
  RengaCall(RengaOptimizerSetTotalSteps(optimizer, 100));
  RengaCall(RengaOptimizerSetClipNorm(optimizer, 1));
  RengaCall(RengaOptimizerSetLearningRateFunction(optimizer, HalveInTens, NULL));
  return RENGA_SUCCESS;
}

/* One object for all who must agree: the planner, forecasts of memory, the pipeline. */
static RengaErrorCode MakeSettings(RengaComm comm, RengaSettings *settings)
{
  RengaDevice device;
  RengaOptimizer optimizer;
  char words[256];
  RengaCall(RengaSettingsCreate(comm, settings));
  RengaCall(RengaSettingsGetOptimizer(*settings, &optimizer));
  RengaCall(SetOptimizer(optimizer));
  RengaCall(RengaSettingsSetRecompute(*settings, RENGA_RECOMPUTE_FULL)); /* little memory, slower */
  RengaCall(RengaSettingsSetOffload(*settings, RENGA_OFFLOAD_NONE));
  RengaCall(RengaSettingsSetFromOptions(*settings));
  RengaCall(RengaOptimizerSetUp(optimizer));
  RengaCall(ShowOptimizer(optimizer));

  RengaRecompute recompute;
  RengaOffload offload;
  RengaShard shard;
  int chunks;
  RengaCall(RengaSettingsGetRecompute(*settings, &recompute));
  RengaCall(RengaSettingsGetOffload(*settings, &offload));
  RengaCall(RengaSettingsGetShard(*settings, &shard)); /* the ZeRO stage */
  RengaCall(RengaSettingsGetChunks(*settings, &chunks));
  RengaCall(RengaPrintf(
      MPI_COMM_WORLD, "settings: recompute %s, offload %s, shard %s, virtual stages per rank %d\n",
      RengaRecomputeName(recompute), RengaOffloadName(offload), RengaShardName(shard), chunks));

  /* Which processor and which libraries: what a measured speed is the speed of. */
  RengaCall(RengaSettingsGetDevice(*settings, &device));
  RengaCall(
      RengaDeviceSetPoison(device, true)); /* unset memory is NaN, for whoever hunts an error */
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(RengaDeviceDescribe(device, sizeof words, words));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "device: %s\n", words));
  return RENGA_SUCCESS;
}

/* The machine is one of the files that come with Renga: no device is needed to plan. */
static RengaErrorCode MakePlan(RengaComm comm, RengaGraph graph, RengaSettings settings,
                               RengaPlan *plan)
{
  RengaMachine machine;
  RengaProfile profile;
  RengaPartition partition;
  const char *sizes, *type, *costs;
  double seconds;
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineLoad(machine, "h200"));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetMachine(profile, machine));
  RengaCall(RengaProfileSetType(profile, RENGA_PROFILE_ANALYTIC)); /* from rates; or measured */
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  RengaCall(RengaPartitionSetMachine(partition, machine));
  RengaCall(RengaPartitionSetProfile(partition, profile));
  RengaCall(RengaPartitionSetRanks(partition, ranks));
  RengaCall(RengaPartitionSetBatch(partition, batch, 0)); /* 0: the planner chooses */
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_EXACT));
  RengaCall(RengaPartitionAutoSetMicrobatchSizes(partition, "4,8"));
  RengaCall(RengaPartitionExactSetTimeLimit(partition, 10));
  RengaCall(RengaPartitionSetFromOptions(partition));

  RengaCall(RengaProfileGetType(profile, &costs));
  RengaCall(RengaPartitionGetType(partition, &type));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "planner: %s, costs are %s", type, costs));
  if (strcmp(type, RENGA_PARTITION_EXACT) == 0) { /* other types have no such settings */
    RengaCall(RengaPartitionAutoGetMicrobatchSizes(partition, &sizes));
    RengaCall(RengaPartitionExactGetTimeLimit(partition, &seconds));
    RengaCall(
        RengaPrintf(MPI_COMM_WORLD, ", micro-batches of %s, %g seconds at most", sizes, seconds));
  }
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "\n"));
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowPlan(RengaPlan plan)
{
  int64_t samples, microbatch;
  RengaPlanPrediction prediction;
  char step[16];
  RengaCall(RengaPlanGetBatch(plan, &samples, &microbatch));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaFormatSeconds(prediction.step, sizeof step, step);
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "plan: %d stages, micro-batches of %lld, a step takes %s\n",
                        RengaPlanGetStageCount(plan), (long long)microbatch, step));
  RengaCall(RengaPlanViewFromOptions(plan)); /* -plan_view, -plan_explain, -plan_save */
  return RENGA_SUCCESS;
}

/* A plan by hand: eight stages of two nodes or so on four ranks, which lie as a wave: down the
   ranks and up again, so that rank 0 has the first stage and the last. */
static RengaErrorCode MakeWave(RengaComm comm, RengaGraph graph, RengaPlan *plan)
{
  enum { stages = 2 * ranks };
  const int nodes = RengaGraphGetNodeCount(graph);
  RengaPlanStage stage[stages];
  for (int s = 0; s < stages; s++) {
    stage[s] = (RengaPlanStage){.first = nodes * s / stages,
                                .last = nodes * (s + 1) / stages,
                                .shape = RengaStageShapePlain(1)};
    stage[s].shape.chunks = 2;
  }
  RengaCall(RengaPlanCreate(comm, plan));
  RengaCall(RengaPlanSetStages(*plan, graph, stages, stage));
  RengaCall(RengaPlanSetBatch(*plan, batch, 4));
  RengaCall(RengaPlanSetWave(*plan));
  for (int s = 0; s < stages; s++)
    RengaCall(RengaPrintf(MPI_COMM_WORLD, "%s%d", s ? " " : "wave: stages are on ranks ",
                          RengaPlanGetRank(*plan, s, 0)));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "; the ranks of stage 7 begin with stage %d\n",
                        RengaPlanGetFirstStage(*plan, stages - 1)));
  RengaCheck(RengaPlanGetFirstStage(*plan, stages - 1) == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "the last stage is not where the first is");
  return RENGA_SUCCESS;
}

/* The order of a step is a text that may be kept, changed, and given back as a type: file:NAME. */
static RengaErrorCode ShowSchedule(RengaComm comm, RengaPlan plan)
{
  static const char file[] = "ex7-schedule.txt";
  RengaSchedule schedule, again;
  const int *replicas;
  int stages;
  int64_t microbatches;
  RengaCall(RengaScheduleCreate(comm, &schedule));
  RengaCall(RengaScheduleSetType(schedule, RENGA_SCHEDULE_ZB_V));
  RengaCall(RengaScheduleSetPlan(schedule, plan, batch / 4, 0, NULL, false));
  RengaCall(RengaScheduleSetUp(schedule));
  RengaCall(RengaScheduleViewFromOptions(schedule)); /* -schedule_view */
  const bool first = RengaCommGetRank(comm) == 0;
  if (first) RengaCall(RengaScheduleSave(schedule, file)); /* one rank writes a file */

  RengaCall(RengaScheduleShareLists(comm, "file:ex7-schedule.txt")); /* rank 0 reads it for all */
  if (first) remove(file);
  RengaCall(RengaScheduleCreate(comm, &again));
  RengaCall(RengaScheduleSetType(again, "file:ex7-schedule.txt"));
  RengaCall(RengaScheduleSetPlan(again, plan, batch / 4, 0, NULL, false));
  RengaCall(RengaScheduleSetUp(again));
  RengaCall(RengaScheduleGetShape(again, &stages, &replicas, &microbatches));
  RengaCall(RengaPrintf(MPI_COMM_WORLD,
                        "schedule: %d stages, %d replica of the first, %lld "
                        "micro-batches\n",
                        stages, replicas[0], (long long)microbatches));
  RengaCall(RengaScheduleDestroy(&again));
  RengaCall(RengaScheduleDestroy(&schedule));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaSettings settings;
  RengaPlan plan, wave;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=16-64-64-64-64-64-64-64-5"));
  RengaCall(RengaGraphSetFrozen(graph, "l.0.*"));
  RengaCall(RengaGraphSetFromOptions(graph));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(ShowNetwork(graph));
  RengaCall(MakeSettings(comm, &settings));
  RengaCall(MakePlan(comm, graph, settings, &plan));
  RengaCall(ShowPlan(plan));
  RengaCall(MakeWave(comm, graph, &wave));
  RengaCall(ShowSchedule(comm, wave));
  RengaCall(RengaPlanDestroy(&wave));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  bool answered;
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(RengaAnswerHelp(&answered)); /* -help, -version */
  if (!answered) RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
