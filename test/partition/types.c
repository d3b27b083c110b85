/* TEST ranks: 1 3 */
/* Types side by side on one machine that is not this one: each gives a plan that holds together,
   within memory and not below the bound; auto is not slower than the others; none depends on the
   number of planning ranks; types that only cut take the best number of stages. */
#include "../check.h"
#include "renga.h"
#include <math.h>

enum { DEVICES = 12, BATCH = 48, MICROBATCH = 2 };
static const int64_t memory_bound = 48 << 20;
static const char *const types[] = {RENGA_PARTITION_AUTO, RENGA_PARTITION_RANNC,
                                    RENGA_PARTITION_TREE, RENGA_PARTITION_EVEN};

typedef struct {
  RengaComm comm;
  RengaGraph graph;
  RengaMachine machine;
  RengaProfile profile;
} World;

static RengaErrorCode MakeWorld(MPI_Comm mpi, World *world)
{
  const RengaMachineDevice device = {.name = (char *)"slow",
                                     .memory = memory_bound,
                                     .matrix_rate = 1e9,
                                     .vector_rate = 1e8,
                                     .memory_bandwidth = 1e9,
                                     .matrix_efficiency = 1,
                                     .vector_efficiency = 1,
                                     .bandwidth_efficiency = 1,
                                     .launch = 1e-6};
  const RengaMachineLevel levels[] = {
      {.name = (char *)"node", .devices = 4, .latency = 1e-6, .bandwidth = 1e9},
      {.name = (char *)"all", .devices = DEVICES, .latency = 1e-5, .bandwidth = 2e8}};
  RengaCall(RengaCommCreate(mpi, &world->comm));
  RengaCall(RengaGraphCreate(world->comm, &world->graph));
  RengaCall(
      RengaGraphLoad(world->graph, "gpt:layers=5,hidden=48,heads=4,sequence=16,vocabulary=99"));
  RengaCall(RengaGraphSetUp(world->graph));
  RengaCall(RengaMachineCreate(world->comm, &world->machine));
  RengaCall(RengaMachineSetDevice(world->machine, &device));
  RengaCall(RengaMachineSetLevels(world->machine, 2, levels));
  RengaCall(RengaProfileCreate(world->comm, &world->profile));
  RengaCall(RengaProfileSetMachine(world->profile, world->machine));
  RengaCall(RengaProfileSetType(world->profile, RENGA_PROFILE_ANALYTIC));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeWorld(World *world)
{
  RengaCall(RengaProfileDestroy(&world->profile));
  RengaCall(RengaMachineDestroy(&world->machine));
  RengaCall(RengaGraphDestroy(&world->graph));
  RengaCall(RengaCommDestroy(&world->comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePlan(const World *world, const char *type, int stages, int replicas,
                               RengaPlan *plan)
{
  RengaPartition partition;
  RengaCall(RengaPartitionCreate(world->comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, world->graph));
  RengaCall(RengaPartitionSetProfile(partition, world->profile));
  RengaCall(RengaPartitionSetType(partition, type));
  RengaCall(RengaPartitionSetRanks(partition, DEVICES));
  RengaCall(RengaPartitionSetStages(partition, stages));
  RengaCall(RengaPartitionSetReplicas(partition, replicas));
  RengaCall(RengaPartitionSetMemory(partition, memory_bound));
  RengaCall(RengaPartitionSetBatch(partition, BATCH, MICROBATCH));
  const RengaErrorCode code = RengaPartitionSolve(partition, plan);
  RengaCall(RengaPartitionDestroy(&partition));
  return code;
}

static RengaErrorCode CheckPlan(const World *world, RengaPlan plan, double *step)
{
  RengaPlanPrediction prediction;
  RengaCall(RengaPlanCheck(plan, world->graph, DEVICES));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  Expect(prediction.step > 0 && prediction.bound > 0 && prediction.bound <= prediction.step);
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    Expect(stage->memory > 0 && stage->memory <= memory_bound);
    Expect(stage->forward_seconds > 0 && stage->backward_seconds > stage->forward_seconds);
    Expect(stage->parts.parameters > 0 && stage->parts.parameters < stage->memory);
  }
  *step = prediction.step;
  return RENGA_SUCCESS;
}

/* auto simulates what tree and even find; from rannc's its own may differ by a few percent. */
static RengaErrorCode CheckTypes(const World *world)
{
  double best = 0, step = 0;
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
    RengaPlan plan = NULL;
    RengaCall(MakePlan(world, types[t], 0, 0, &plan));
    RengaCall(CheckPlan(world, plan, &step));
    if (t == 0) best = step;
    Expect(step >= (strcmp(types[t], RENGA_PARTITION_RANNC) ? 1 : 0.97) * best);
    RengaCall(RengaPlanDestroy(&plan));
  }
  return RENGA_SUCCESS;
}

/* Wishes are kept, and leaving the number of stages open is at least as good as any. */
static RengaErrorCode CheckWishes(const World *world)
{
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
    double step = 0, best = HUGE_VAL, open = 0;
    RengaPlan plan = NULL;
    for (int stages = 1; stages <= DEVICES; stages++) {
      if (DEVICES % stages) continue;
      RengaCall(MakePlan(world, types[t], stages, DEVICES / stages, &plan));
      RengaCall(CheckPlan(world, plan, &step));
      Expect(RengaPlanGetStageCount(plan) == stages);
      Expect(RengaPlanGetStage(plan, 0)->shape.replicas <= DEVICES / stages);
      best = fmin(best, step);
      RengaCall(RengaPlanDestroy(&plan));
    }
    RengaCall(MakePlan(world, types[t], 0, 0, &plan));
    RengaCall(CheckPlan(world, plan, &open));
    Expect(open <= 1.03 * best);
    RengaCall(RengaPlanDestroy(&plan));
  }
  return RENGA_SUCCESS;
}

/* The first of as many stages as devices, with what reading the tokens takes. */
static RengaErrorCode FirstForward(const World *world, double read_seconds, double *seconds)
{
  RengaPartition partition;
  RengaPlan plan;
  RengaCall(RengaPartitionCreate(world->comm, &partition));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_EVEN));
  RengaCall(RengaPartitionSetGraph(partition, world->graph));
  RengaCall(RengaPartitionSetProfile(partition, world->profile));
  RengaCall(RengaPartitionSetBatch(partition, BATCH, MICROBATCH));
  RengaCall(RengaPartitionSetRanks(partition, DEVICES));
  RengaCall(RengaPartitionSetStages(partition, DEVICES));
  RengaCall(RengaPartitionSetReadSeconds(partition, "tokens", "words", read_seconds));
  RengaCall(RengaPartitionSolve(partition, &plan));
  *seconds = RengaPlanGetStage(plan, 0)->forward_seconds;
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

/* Memory with the last batch of a pass is looked at in test/app/shortbatch.sh. */
static RengaErrorCode CheckPasses(RengaPartition partition)
{
  int count, rank;
  const int64_t *samples;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  RengaCall(RengaPartitionGetDataPasses(partition, &count, &samples));
  Expect(count == 0);
  ExpectError(RengaPartitionAddDataPass(partition, 0), RENGA_ERR_ARGUMENT,
              rank ? "" : "a pass over 0 samples");
  RengaCall(RengaPartitionAddDataPass(partition, 44));
  RengaCall(RengaPartitionAddDataPass(partition, 7));
  RengaCall(RengaPartitionGetDataPasses(partition, &count, &samples));
  Expect(count == 2 && samples[0] == 44 && samples[1] == 7);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckReading(const World *world)
{
  const int rank = RengaCommGetRank(world->comm);
  double without, with, seconds = 1;
  RengaPartition partition;
  RengaCall(FirstForward(world, 0, &without));
  RengaCall(FirstForward(world, 0.25, &with));
  Expect(fabs(with - without - MICROBATCH * 0.25) < 1e-9);
  RengaCall(RengaPartitionCreate(world->comm, &partition));
  ExpectError(RengaPartitionSetReadSeconds(partition, "tokens", "words", 1), RENGA_ERR_ORDER,
              rank ? "" : "no network");
  RengaCall(RengaPartitionSetGraph(partition, world->graph));
  ExpectError(RengaPartitionSetReadSeconds(partition, "sounds", "words", 1), RENGA_ERR_ARGUMENT,
              rank ? "" : "no input sounds");
  ExpectError(RengaPartitionSetReadSeconds(partition, "tokens", "words", -1), RENGA_ERR_ARGUMENT,
              rank ? "" : "-1 seconds");
  RengaCall(RengaPartitionGetReadSeconds(partition, "tokens", &seconds));
  Expect(seconds == 0);
  RengaCall(RengaPartitionSetReadSeconds(partition, "tokens", "words", 2));
  RengaCall(RengaPartitionSetReadSeconds(partition, "tokens", "others", 3));
  RengaCall(RengaPartitionGetReadSeconds(partition, "tokens", &seconds));
  Expect(seconds == 3);
  RengaCall(CheckPasses(partition));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

static bool HasReason(RengaPlan plan, const char *wanted)
{
  const char *topic, *sentence;
  for (int r = 0;; r++) {
    if (RengaPlanGetReason(plan, r, &topic, &sentence) || !topic) return false;
    if (!strcmp(topic, wanted)) return strlen(sentence) > 0;
  }
}

static RengaErrorCode CheckReasons(const World *world)
{
  for (int stages = 1; stages <= 4; stages += 3) {
    RengaPlan plan = NULL;
    RengaCall(MakePlan(world, RENGA_PARTITION_EXACT, stages, 3, &plan));
    Expect(HasReason(plan, "limit"));
    RengaCall(RengaPlanDestroy(&plan));
  }
  return RENGA_SUCCESS;
}

/* What is saved of a plan of all ranks, or of this one alone. */
static RengaErrorCode ReadPlan(const World *world, const char *type, const char *name, size_t size,
                               char text[])
{
  RengaPlan plan = NULL;
  RengaCall(MakePlan(world, type, 0, 0, &plan));
  RengaCall(RengaPlanSave(plan, name));
  RengaCall(RengaCommBarrier(world->comm, "the plan"));
  FILE *file = fopen(name, "r");
  Expect(file);
  text[fread(text, 1, size - 1, file)] = 0;
  fclose(file);
  RengaCall(RengaCommBarrier(world->comm, "all to read the plan"));
  if (RengaCommGetRank(world->comm) == 0) unlink(name);
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRanks(const World *world)
{
  static char text[2][1 << 14];
  char name[32];
  World alone = {NULL, NULL, NULL, NULL};
  snprintf(name, sizeof name, "types-alone-%d.txt", RengaCommGetRank(world->comm));
  RengaCall(MakeWorld(MPI_COMM_SELF, &alone));
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
    RengaCall(ReadPlan(world, types[t], "types-all.txt", sizeof text[0], text[0]));
    RengaCall(ReadPlan(&alone, types[t], name, sizeof text[1], text[1]));
    Expect(!strcmp(text[0], text[1]));
  }
  RengaCall(FreeWorld(&alone));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckErrors(const World *world)
{
  const int rank = RengaCommGetRank(world->comm);
  RengaPartition partition;
  int blocks = 0;
  RengaCall(RengaPartitionCreate(world->comm, &partition));
  ExpectError(RengaPartitionRanncSetBlocks(partition, 8), RENGA_ERR_ORDER,
              rank ? "" : "for a partition of type rannc");
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_RANNC));
  ExpectError(RengaPartitionRanncSetBlocks(partition, -1), RENGA_ERR_ARGUMENT,
              rank ? "" : "-1 blocks");
  RengaCall(RengaPartitionRanncSetBlocks(partition, 8));
  RengaCall(RengaPartitionRanncGetBlocks(partition, &blocks));
  Expect(blocks == 8);
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  World world = {NULL, NULL, NULL, NULL};
  RengaCall(MakeWorld(MPI_COMM_WORLD, &world));
  RengaCall(CheckTypes(&world));
  RengaCall(CheckWishes(&world));
  RengaCall(CheckReasons(&world));
  RengaCall(CheckRanks(&world));
  RengaCall(CheckReading(&world));
  RengaCall(CheckErrors(&world));
  RengaCall(FreeWorld(&world));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
