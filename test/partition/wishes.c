/* TEST ranks: 1 */
/* What is set in a partition is what its getters say, and what its options change. */
#include "../plan/plantest.h"
#include "renga/private/kernel.h"
#include "renga/private/op.h"

static RengaErrorCode CheckNumbers(RengaPartition partition)
{
  int stages, replicas, ranks;
  int64_t batch, microbatch, leaf, memory;
  RengaCall(RengaPartitionSetStages(partition, 2));
  RengaCall(RengaPartitionSetReplicas(partition, 3));
  RengaCall(RengaPartitionSetRanks(partition, 7));
  RengaCall(RengaPartitionSetBatch(partition, 24, 4));
  RengaCall(RengaPartitionSetLeaf(partition, 2));
  RengaCall(RengaPartitionSetMemory(partition, 1 << 20));
  RengaCall(RengaOptionsSetValue("layout_data", "1"));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaPartitionGetStages(partition, &stages));
  RengaCall(RengaPartitionGetReplicas(partition, &replicas));
  RengaCall(RengaPartitionGetRanks(partition, &ranks));
  RengaCall(RengaPartitionGetBatch(partition, &batch, &microbatch));
  RengaCall(RengaPartitionGetLeaf(partition, &leaf));
  RengaCall(RengaPartitionGetMemory(partition, &memory));
  Expect(stages == 2 && replicas == 1 && ranks == 7);
  Expect(batch == 24 && microbatch == 4 && leaf == 2 && memory == 1 << 20);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckObjects(RengaComm comm, RengaPartition partition)
{
  RengaGraph graph, of_partition;
  RengaMachine machine, lent;
  RengaProfile profile, same;
  RengaSettings settings, other;
  const char *text = "";
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaPartitionGetMachine(partition, &lent));
  RengaCall(RengaPartitionGetProfile(partition, &same));
  RengaCall(RengaPartitionGetSettings(partition, &other));
  RengaCall(RengaPartitionGetPlanFile(partition, &text));
  Expect(!lent && !same && other && !text);
  RengaCall(RengaPartitionGetLeaves(partition, &text));
  Expect(!text);
  RengaCall(RengaPartitionSetLeaves(partition, "1,4"));
  RengaCall(RengaPartitionGetLeaves(partition, &text));
  Expect(!strcmp(text, "1,4"));
  RengaCall(RengaPartitionSetLeaves(partition, NULL));
  RengaCall(RengaProfileGetGraph(profile, &of_partition));
  Expect(!of_partition);
  RengaCall(RengaSettingsCreate(comm, &settings));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetMachine(partition, machine));
  RengaCall(RengaPartitionSetProfile(partition, profile));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  RengaCall(RengaPartitionSetPlanFile(partition, "plan.txt"));
  RengaCall(RengaPartitionGetGraph(partition, &of_partition));
  RengaCall(RengaPartitionGetMachine(partition, &lent));
  RengaCall(RengaPartitionGetProfile(partition, &same));
  RengaCall(RengaPartitionGetSettings(partition, &other));
  RengaCall(RengaPartitionGetPlanFile(partition, &text));
  Expect(of_partition == graph && lent == machine && same == profile && other == settings);
  Expect(!strcmp(text, "plan.txt"));
  RengaCall(RengaPartitionSetPlanFile(partition, NULL));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_MANUAL));
  RengaCall(RengaPartitionManualGetCuts(partition, &text));
  Expect(!text);
  RengaCall(RengaPartitionManualSetCuts(partition, "a, b"));
  RengaCall(RengaPartitionManualGetCuts(partition, &text));
  Expect(!strcmp(text, "a, b"));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_EVEN));
  TestError(RengaPartitionManualGetCuts(partition, &text), RENGA_ERR_ORDER,
            "cuts are for a partition of type manual, but this one's type is even");
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaMachineDestroy(&machine));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* The partition alone still has the network, the profile and the machine that it cuts by. */
static RengaErrorCode CheckKept(RengaComm comm)
{
  RengaPartition partition;
  RengaGraph graph;
  RengaMachine machine;
  RengaProfile profile;
  RengaSettings settings;
  RengaPlan plan;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=8-16-16-3"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineLoad(machine, "v100"));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetType(profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaProfileSetGraph(profile, graph));
  RengaCall(RengaProfileSetMachine(profile, machine));
  RengaCall(RengaSettingsCreate(comm, &settings));
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetMachine(partition, machine));
  RengaCall(RengaPartitionSetProfile(partition, profile));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaMachineDestroy(&machine));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaPartitionSetRanks(partition, 2));
  RengaCall(RengaPartitionSetStages(partition, 2));
  RengaCall(RengaPartitionSetBatch(partition, 8, 2));
  RengaCall(RengaPartitionSolve(partition, &plan));
  Expect(RengaPlanGetStageCount(plan) == 2);
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

/* A profile keeps the settings that it is given, and a device is made like another. */
static RengaErrorCode CheckProfile(RengaComm comm)
{
  RengaProfile profile;
  RengaSettings settings, same;
  RengaDevice device, copy, lent;
  const char *type;
  int threads;
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileGetSettings(profile, &same));
  Expect(!same);
  RengaCall(RengaSettingsCreate(comm, &settings));
  RengaCall(RengaProfileSetSettings(profile, settings));
  RengaCall(RengaProfileGetSettings(profile, &same));
  Expect(same == settings);
  RengaCall(RengaSettingsGetDevice(settings, &device));
  RengaCall(RengaDeviceSetThreads(device, 3));
  RengaCall(RengaDeviceDuplicate(device, &copy));
  RengaCall(RengaDeviceSetUp(copy));
  RengaCall(RengaDeviceGetType(copy, &type));
  RengaCall(RengaDeviceGetThreads(copy, &threads));
  Expect(!strcmp(type, RENGA_DEVICE_CPU) && threads == 3);
  RengaCall(RengaDeviceSetType(copy, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceDuplicate(copy, &lent));
  RengaCall(RengaDeviceGetType(lent, &type));
  Expect(!strcmp(type, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceDestroy(&lent));
  RengaCall(RengaProfileSetDevice(profile, copy));
  RengaCall(RengaProfileGetDevice(profile, &lent));
  Expect(lent == copy);
  RengaCall(RengaSettingsDestroy(&settings)); /* the profile has it still */
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaDeviceDestroy(&copy));
  return RENGA_SUCCESS;
}

static RengaErrorCode CountUpdateBytes(RengaOptimizer optimizer, int64_t *bytes)
{
  RengaStorage storage;
  int moments;
  const char *const *names;
  RengaCall(RengaPrecisionGetStorage(RENGA_PRECISION_FP32, &storage));
  RengaCall(RengaOptimizerGetMoments(optimizer, &moments, &names));
  RengaCall(RengaStorageCountUpdateBytes(&storage, moments, bytes));
  return RENGA_SUCCESS;
}

/* An update of n moments moves the parameter and each moment there and back, and the gradient. */
static RengaErrorCode CheckUpdateBytes(RengaComm comm)
{
  RengaOptimizer optimizer;
  int64_t bytes;
  const char *groups;
  RengaCall(RengaOptimizerCreate(comm, &optimizer));
  RengaCall(CountUpdateBytes(optimizer, &bytes));
  Expect(bytes == 28);
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_SGD));
  RengaCall(CountUpdateBytes(optimizer, &bytes));
  Expect(bytes == 12);
  RengaCall(RengaOptimizerSetMomentum(optimizer, 0.9, false));
  RengaCall(CountUpdateBytes(optimizer, &bytes));
  Expect(bytes == 20);
  RengaCall(RengaOptimizerSetGroups(optimizer, "*:frozen=yes"));
  RengaCall(RengaOptimizerGetGroups(optimizer, &groups));
  Expect(!strcmp(groups, "*:frozen=yes"));
  RengaCall(RengaOptimizerDestroy(&optimizer));
  return RENGA_SUCCESS;
}

/* What is asked for is shown as it was set. */
static RengaErrorCode CheckView(RengaComm comm, RengaPartition partition)
{
  RengaViewer viewer;
  char line[200];
  RengaCall(RengaViewerCreate(comm, "ascii:wishes-test.txt", &viewer));
  RengaCall(RengaPartitionView(partition, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  FILE *file = fopen("wishes-test.txt", "r");
  Expect(file && fgets(line, sizeof line, file));
  Expect(strstr(line, "stages 2, replicas 1, ranks 7"));
  fclose(file);
  remove("wishes-test.txt");
  return RENGA_SUCCESS;
}

/* A network without parameters has no stages. */
static RengaErrorCode CheckUntrained(RengaComm comm)
{
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 3}};
  RengaGraph graph;
  RengaPartition partition;
  RengaPlan plan;
  RengaValue x;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "x", &spec, &x));
  RengaCall(RengaGraphAddUnary(graph, "Relu", x, &x));
  RengaCall(RengaGraphAddOutput(graph, x));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, 4, 4));
  ExpectError(RengaPartitionSolve(partition, &plan), RENGA_ERR_PLAN,
              "the network has no parameters, so that there is nothing to train");
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaPartition partition;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(CheckNumbers(partition));
  RengaCall(CheckView(comm, partition));
  RengaCall(CheckObjects(comm, partition));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(CheckKept(comm));
  RengaCall(CheckProfile(comm));
  RengaCall(CheckUpdateBytes(comm));
  RengaCall(CheckUntrained(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
