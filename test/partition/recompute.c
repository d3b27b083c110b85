/* TEST ranks: 1 */
/* Stages recompute only where they must: none that the runtime says fits without, so none with one
   micro-batch in flight. */
#include "../check.h"
#include "renga.h"

enum { DEVICES = 8, BATCH = 64, MICROBATCH = 4, BOUNDS = 8 };

typedef struct {
  RengaComm comm;
  RengaGraph graph;
  RengaMachine machine;
  RengaProfile profile;
  RengaSettings settings;
} World;

static RengaErrorCode MakeWorld(World *world)
{
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &world->comm));
  RengaCall(RengaGraphCreate(world->comm, &world->graph));
  RengaCall(
      RengaGraphLoad(world->graph, "gpt:layers=12,hidden=128,heads=4,sequence=64,vocabulary=1024"));
  RengaCall(RengaGraphSetUp(world->graph));
  RengaCall(RengaMachineCreate(world->comm, &world->machine));
  RengaCall(RengaMachineLoad(world->machine, "v100"));
  RengaCall(RengaProfileCreate(world->comm, &world->profile));
  RengaCall(RengaProfileSetMachine(world->profile, world->machine));
  RengaCall(RengaProfileSetType(world->profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaSettingsCreate(world->comm, &world->settings));
  RengaCall(RengaSettingsSetSchedule(world->settings, RENGA_SCHEDULE_1F1B));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeWorld(World *world)
{
  RengaCall(RengaSettingsDestroy(&world->settings));
  RengaCall(RengaProfileDestroy(&world->profile));
  RengaCall(RengaMachineDestroy(&world->machine));
  RengaCall(RengaGraphDestroy(&world->graph));
  RengaCall(RengaCommDestroy(&world->comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePlan(const World *world, int64_t memory, RengaPlan *plan)
{
  RengaPartition partition;
  RengaCall(RengaPartitionCreate(world->comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, world->graph));
  RengaCall(RengaPartitionSetProfile(partition, world->profile));
  RengaCall(RengaPartitionSetSettings(partition, world->settings));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_AUTO));
  RengaCall(RengaPartitionSetRanks(partition, DEVICES));
  RengaCall(RengaPartitionSetReplicas(partition, 1));
  RengaCall(RengaPartitionSetStages(partition, DEVICES));
  RengaCall(RengaPartitionSetMemory(partition, memory));
  RengaCall(RengaPartitionSetBatch(partition, BATCH, MICROBATCH));
  const RengaErrorCode code = RengaPartitionSolve(partition, plan);
  RengaCall(RengaPartitionDestroy(&partition));
  return code;
}

/* What stage s would need if it did not recompute. */
static RengaErrorCode ForecastWithout(const World *world, RengaPlan plan, int s, int64_t *bytes)
{
  RengaPlanStage stages[DEVICES];
  RengaPipelineMemory memory;
  RengaPlan other;
  const char *schedule;
  double eager = 0;
  for (int i = 0; i < DEVICES; i++) stages[i] = *RengaPlanGetStage(plan, i);
  stages[s].shape.saved = RENGA_SAVED_KEEP;
  RengaCall(RengaPlanGetSchedule(plan, &schedule));
  RengaCall(RengaPlanGetEager(plan, &eager));
  RengaCall(RengaPlanCreate(world->comm, &other));
  RengaCall(RengaPlanSetStages(other, world->graph, DEVICES, stages));
  RengaCall(RengaPlanSetBatch(other, BATCH, MICROBATCH));
  RengaCall(RengaPlanSetSchedule(other, schedule));
  RengaCall(RengaPlanSetEager(other, eager));
  RengaCall(RengaPipelineForecast(world->graph, other, s, &memory));
  RengaCall(RengaPlanDestroy(&other));
  *bytes = memory.forecast;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPlan(const World *world, RengaPlan plan, int64_t bound, int *recomputing)
{
  for (int s = 0; s < DEVICES; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    int64_t without = 0;
    Expect(stage->memory <= bound);
    if (stage->shape.saved != RENGA_SAVED_RECOMPUTE) continue;
    RengaCall(ForecastWithout(world, plan, s, &without));
    Expect(without > bound);
    ++*recomputing;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBounds(const World *world)
{
  RengaPlan plan = NULL;
  int recomputing = 0;
  int64_t most = 0;
  RengaCall(MakePlan(world, 0, &plan));
  for (int s = 0; s < DEVICES; s++)
    if (RengaPlanGetStage(plan, s)->memory > most) most = RengaPlanGetStage(plan, s)->memory;
  RengaCall(RengaPlanDestroy(&plan));
  for (int i = 1; i <= BOUNDS; i++) {
    const int64_t bound = most - 3 * most * i / (4 * BOUNDS);
    RengaErrorSetHandler(RengaErrorIgnore, NULL);
    const RengaErrorCode code = MakePlan(world, bound, &plan);
    RengaErrorSetHandler(NULL, NULL);
    Expect(!code || code == RENGA_ERR_MEMORY);
    if (code) continue;
    RengaCall(CheckPlan(world, plan, bound, &recomputing));
    RengaCall(RengaPlanDestroy(&plan));
  }
  Expect(recomputing > 0);
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  World world;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(MakeWorld(&world));
  RengaCallAbort(CheckBounds(&world));
  RengaCallAbort(FreeWorld(&world));
  RengaCallAbort(RengaFinalize());
  return 0;
}
