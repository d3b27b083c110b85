/* TEST ranks: 1 */
/* The bound of the work (src/partition/search/work.c), which plans of several stages per rank
   and others have that no search proves: of small random problems many plans are tried, one
   stage per rank or two, cut at random places, with each number of replicas, two tensor ranks or
   none, under all schedules that go with it. No step is below the bound that any of these plans
   prints, and each plan has one. */
#include "../../src/partition/search/search.h"
#include "search/random.h"
#include "setting.h"
#include "renga/private/plan.h"
#include "rengasettings.h"
#include <math.h>
#include <string.h>

enum { PROBLEMS = 20, PLANS = 10, MOST_STAGES = 4 };

typedef struct {
  Setting own;
  int ranks, lanes, tensor, chunks;
  int64_t batch, size;
  double least, bound; /* the shortest step; the greatest bound of the work */
  int plans, bounds;
} Problem;

static double Between(double low, double high)
{
  return low * pow(high / low, Random());
}

static RengaErrorCode BeginProblem(Problem *p)
{
  static const char *const networks[] = {"mlp:sizes=8-16-8-16-4", "mlp:sizes=64-64-64-10",
                                         "mlp:sizes=4-96-96-96-3",
                                         "gpt:layers=1,hidden=8,heads=2,sequence=4,vocabulary=9"};
  const double latency = Between(1e-9, 1e-4), bandwidth = Between(1e7, 1e12);
  const RengaMachineDevice device = {.name = "device",
                                     .memory = (int64_t)1 << 30,
                                     .matrix_rate = Between(1e8, 1e12),
                                     .vector_rate = Between(1e8, 1e11),
                                     .memory_bandwidth = Between(1e8, 1e12),
                                     .matrix_efficiency = 1,
                                     .vector_efficiency = 1,
                                     .bandwidth_efficiency = 1,
                                     .launch = Between(1e-9, 1e-5)};
  const RengaMachineLevel levels[] = {
      {.name = "node", .devices = 2, .latency = latency, .bandwidth = bandwidth},
      {.name = "cluster", .devices = 64, .latency = 2 * latency, .bandwidth = bandwidth / 2}};
  *p = (Problem){.ranks = Random() < 0.5 ? 2 : 4,
                 .lanes = 1 + RandomBelow(2),
                 .batch = 4 + RandomBelow(9),
                 .size = 1 + RandomBelow(4),
                 .least = HUGE_VAL};
  RengaCall(BeginSetting(&p->own, &device, levels, networks[RandomBelow(4)], p->lanes, 1));
  RengaCall(RengaPartitionSetType(p->own.partition, RENGA_PARTITION_MANUAL));
  RengaCall(RengaPartitionSetRanks(p->own.partition, p->ranks));
  RengaCall(RengaPartitionSetBatch(p->own.partition, p->batch, p->size));
  RengaCall(RengaPartitionSetLeaf(p->own.partition, 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode NotePlan(Problem *p, RengaPlan plan)
{
  RengaPlanPrediction prediction;
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  Expect(prediction.bound > 0 && prediction.bound <= prediction.step * (1 + 1e-9));
  p->least = fmin(p->least, prediction.step);
  p->plans++;
  if (!RengaPlanHasReason_Private(plan, RENGA_PLAN_BOUND)) return RENGA_SUCCESS;
  /* That of tensor ranks is of plans with as many. */
  p->bound = fmax(p->bound, prediction.bound);
  p->bounds++;
  return RENGA_SUCCESS;
}

/* Stages of nodes that depend on no parameter are refused. */
static RengaErrorCode TryCuts(Problem *p, const char *cuts)
{
  RengaPlan plan = NULL;
  RengaCall(RengaPartitionManualSetCuts(p->own.partition, cuts));
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  const RengaErrorCode code = RengaPartitionSolve(p->own.partition, &plan);
  RengaErrorSetHandler(NULL, NULL);
  RengaCheck(!code || code == RENGA_ERR_PLAN, MPI_COMM_SELF, code, "%s", RengaErrorGetMessage());
  if (code) return RENGA_SUCCESS;
  RengaCall(NotePlan(p, plan));
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

/* Some of all, at random. */
static RengaErrorCode TryCount(Problem *p, int stages)
{
  const int nodes = RengaGraphGetNodeCount(p->own.graph);
  for (int i = 0; i < (stages == 1 ? 1 : PLANS); i++) {
    char text[128] = "";
    int left = nodes;
    for (int s = 0; s < stages; s++) {
      const int more = stages - s - 1, most = left - more;
      const int count =
          more ? 1 + RandomBelow(most < 2 * left / (more + 1) ? most : 2 * left / (more + 1))
               : left;
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", s ? "," : "", count);
      left -= count;
    }
    RengaCall(TryCuts(p, text));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TrySchedules(Problem *p, int stages)
{
  static const struct {
    const char *name;
    int chunks; /* that it takes; 0: any */
  } schedules[] = {{"gpipe", 0}, {"1f1b", 0},  {"interleaved", 0},
                   {"zb-h1", 1}, {"zb-h2", 1}, {"zb-v", 2}};
  RengaSettings settings;
  RengaCall(RengaPartitionGetSettings(p->own.partition, &settings));
  RengaCall(RengaSettingsSetChunks(settings, p->chunks));
  for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
    if (schedules[i].chunks && schedules[i].chunks != p->chunks) continue;
    RengaCall(RengaSettingsSetSchedule(settings, schedules[i].name));
    RengaCall(TryCount(p, stages * p->chunks));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TryAll(Problem *p)
{
  for (int replicas = 1; replicas * p->tensor <= p->ranks; replicas *= 2)
    for (p->chunks = 1; p->chunks <= 2; p->chunks++) {
      const int stages = p->ranks / (replicas * p->tensor);
      if (stages * p->chunks > MOST_STAGES || (p->batch + p->size - 1) / p->size < replicas)
        continue;
      RengaCall(RengaPartitionSetReplicas(p->own.partition, replicas));
      RengaCall(RengaPartitionSetStages(p->own.partition, stages));
      RengaCall(TrySchedules(p, stages));
    }
  RengaCheck(
      p->bound <= p->least * (1 + 1e-9), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
      "a network of %d nodes on %d ranks, %d of them tensor-parallel ranks of each other, %d "
      "samples in micro-batches of %d: of %d plans one takes %g s, less than the bound of %g s",
      RengaGraphGetNodeCount(p->own.graph), p->ranks, p->tensor, (int)p->batch, (int)p->size,
      p->plans, p->least, p->bound);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  int plans = 0, bounds = 0;
  for (int i = 0; i < PROBLEMS; i++) {
    Problem p;
    RengaCall(BeginProblem(&p));
    for (p.tensor = 1; p.tensor <= p.lanes; p.tensor++) {
      p.least = HUGE_VAL;
      p.bound = 0;
      RengaCall(RengaPartitionSetTensor(p.own.partition, p.tensor));
      RengaCall(TryAll(&p));
    }
    plans += p.plans;
    bounds += p.bounds;
    RengaCall(EndSetting(&p.own));
  }
  printf("%d plans, %d bounds of the work\n", plans, bounds);
  Expect(bounds > PROBLEMS && plans > bounds);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
