/* TEST ranks: 1 */
/* Plans for devices of several kinds: no layout that is tried one by one is faster; two kinds of
   the same numbers are one; what lies on a device fits into it; a slow kind costs nothing. */
#include "setting.h"
#include "rengaplan.h"
#include <string.h>

enum { FAST = 2, DEVICES = 3, STAGES_MOST = 3, BATCH = 32, MICROBATCH = 4 };
static const char network[] = "mlp:sizes=256-512-512-512-512-64";
static const char file[] = "kinds-test.plan";

static const RengaMachineDevice base = {.name = "fast",
                                        .memory = (int64_t)1 << 30,
                                        .matrix_rate = 4e11,
                                        .vector_rate = 1e11,
                                        .memory_bandwidth = 4e10,
                                        .matrix_efficiency = 1,
                                        .vector_efficiency = 1,
                                        .bandwidth_efficiency = 1,
                                        .launch = 1e-6};

/* Two fast devices and a slow one, each a node; slower 0: no slow one. memory: of it; 0: as
   much. */
static RengaErrorCode BeginKinds(Setting *own, double slower, int64_t memory)
{
  const int devices = slower > 0 ? DEVICES : FAST;
  const RengaMachineLevel levels[] = {
      {.name = "node", .devices = 1, .latency = 1e-6, .bandwidth = 1e11},
      {.name = "cluster", .devices = devices, .latency = 2e-6, .bandwidth = 2e10}};
  RengaMachineDevice kinds[] = {base, base};
  const int64_t begin[] = {0, FAST, DEVICES};
  RengaCall(BeginSetting(own, &base, levels, network, 1, 1));
  kinds[1].name = "slow";
  kinds[1].matrix_rate /= slower > 0 ? slower : 1;
  kinds[1].memory_bandwidth /= slower > 0 ? (3 + slower) / 4 : 1;
  if (slower == 1) kinds[1] = base;
  if (memory > 0) kinds[1].memory = memory;
  if (slower > 0) RengaCall(RengaMachineSetKinds(own->machine, 2, kinds, begin));
  RengaCall(RengaOptionsSetValue("schedule_type", "1f1b"));
  RengaCall(RengaOptionsSetValue("layout_zero", "0"));
  RengaCall(RengaOptionsSetValue("layout_chunks", "1"));
  RengaCall(RengaPartitionSetFromOptions(own->partition));
  RengaCall(RengaPartitionSetRanks(own->partition, devices));
  return RENGA_SUCCESS;
}

static RengaErrorCode SolveStep(Setting *own, RengaPlan *plan, double *step)
{
  RengaPlanPrediction prediction;
  RengaCall(RengaPartitionSolve(own->partition, plan));
  RengaCall(RengaPlanGetPrediction(*plan, &prediction));
  *step = prediction.step;
  Expect(prediction.bound <= prediction.step * (1 + 1e-9));
  return RENGA_SUCCESS;
}

static RengaErrorCode Search(Setting *own, RengaPlan *plan, double *step)
{
  RengaCall(RengaPartitionSetType(own->partition, RENGA_PARTITION_AUTO));
  RengaCall(RengaPartitionSetTensor(own->partition, 1));
  RengaCall(RengaPartitionSetBatch(own->partition, BATCH, MICROBATCH));
  RengaCall(RengaPartitionSetLeaf(own->partition, 1));
  RengaCall(SolveStep(own, plan, step));
  return RENGA_SUCCESS;
}

/* The step of one layout, as of a plan's file. */
static RengaErrorCode StepOf(Setting *own, int count, const int first[], const int replicas[],
                             const int ranks[], double *step)
{
  RengaPlanStage stage[STAGES_MOST];
  RengaPlan given, plan;
  for (int s = 0; s < count; s++)
    stage[s] =
        (RengaPlanStage){.first = first[s],
                         .last = s + 1 < count ? first[s + 1] : RengaGraphGetNodeCount(own->graph),
                         .shape = RengaStageShapePlain(replicas[s])};
  RengaCall(RengaPlanCreate(own->comm, &given));
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  const RengaErrorCode empty = RengaPlanSetStages(given, own->graph, count, stage);
  RengaErrorSetHandler(NULL, NULL);
  *step = 1e30;
  if (empty) RengaCall(RengaPlanDestroy(&given));
  if (empty) return RENGA_SUCCESS; /* a stage without parameters */
  RengaCall(RengaPlanSetRanks(given, ranks));
  RengaCall(RengaPlanSetBatch(given, BATCH, MICROBATCH));
  RengaCall(RengaPlanSetSchedule(given, "1f1b"));
  RengaCall(RengaPlanSave(given, file));
  RengaCall(RengaPlanDestroy(&given));
  RengaCall(RengaPartitionSetPlanFile(own->partition, file));
  RengaCall(SolveStep(own, &plan, step));
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

/* With ranks in each order; least: of all. */
static RengaErrorCode TryOrders(Setting *own, int count, const int first[], const int replicas[],
                                double *least)
{
  static const int orders[][DEVICES] = {{0, 1, 2}, {0, 2, 1}, {2, 0, 1}};
  for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
    double step;
    int ranks = 0;
    for (int s = 0; s < count; s++) ranks += replicas[s];
    bool there = true; /* plans have ranks from 0 on */
    for (int r = 0; r < ranks; r++) there = there && orders[o][r] < ranks;
    if (!there) continue;
    RengaCall(StepOf(own, count, first, replicas, orders[o], &step));
    if (step < *least) *least = step;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TryAll(Setting *own, double *least)
{
  static const int shapes[][1 + STAGES_MOST] = {{1, 1, 0, 0}, {1, 2, 0, 0}, {1, 3, 0, 0},
                                                {2, 1, 1, 0}, {2, 1, 2, 0}, {2, 2, 1, 0},
                                                {3, 1, 1, 1}};
  const int n_nodes = RengaGraphGetNodeCount(own->graph);
  *least = 1e30;
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    const int count = shapes[i][0];
    for (int a = 1; a < (count > 1 ? n_nodes : 2); a++)
      for (int b = a + 1; b < (count > 2 ? n_nodes : a + 2); b++) {
        const int first[] = {0, a, b};
        RengaCall(TryOrders(own, count, first, shapes[i] + 1, least));
      }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CompareWithAll(double slower)
{
  Setting own, other;
  RengaPlan plan;
  double found, least;
  RengaCall(BeginKinds(&own, slower, 0));
  RengaCall(Search(&own, &plan, &found));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(EndSetting(&own));
  RengaCall(BeginKinds(&other, slower, 0));
  RengaCall(TryAll(&other, &least));
  RengaCall(EndSetting(&other));
  RengaCheck(found <= least * 1.001, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "slow by %g: %.9g s, but a layout takes %.9g s", slower, found, least);
  return RENGA_SUCCESS;
}

static RengaErrorCode StepOn(double slower, int64_t memory, double *step)
{
  Setting own;
  RengaPlan plan;
  RengaCall(BeginKinds(&own, slower, memory));
  RengaCall(Search(&own, &plan, step));
  for (int s = 0; s < RengaPlanGetStageCount(plan) && memory > 0; s++) {
    const int replicas = RengaPlanGetStage(plan, s)->shape.replicas;
    for (int r = 0; r < replicas; r++)
      Expect(RengaPlanGetRank(plan, s, r) < FAST || RengaPlanGetStage(plan, s)->memory <= memory);
  }
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(EndSetting(&own));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  double two, alike, nearly, without, little;
  RengaCall(CompareWithAll(3));
  RengaCall(CompareWithAll(1.5));
  RengaCall(StepOn(1, 0, &alike)); /* the same as one kind, but for rounding */
  RengaCall(StepOn(1.000000001, 0, &nearly));
  Expect(nearly <= alike * 1.001 && alike <= nearly * 1.001);
  RengaCall(StepOn(0, 0, &without));
  RengaCall(StepOn(100, 0, &two));
  Expect(two <= without * 1.001);
  RengaCall(StepOn(1.5, (int64_t)2 << 20, &little)); /* not even a layer */
  Expect(little <= without * 1.001);
  remove(file);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
