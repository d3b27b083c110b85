/* TEST ranks: 2 4 */
/* A type of transport from outside carries messages between stages, of tensor ranks, of sums, of
   gathered parameters: what is trained has the bits of transport mpi, or staged. Its errors fail
   the step on all ranks, which goes on after them, and what cannot be is refused. */
#include "../carried.h"
#include "../check.h"
#include "wave.h"

enum { SAMPLES = 24, STEPS = 4 };
static CarriedCounts counts;
static const RengaTransportRule carried = CARRIED_RULE("carried", &counts);

/* A layout, and what came of it. Each rank has `chunks` stages, and as many groups for sums. */
typedef struct {
  RengaShard shard;
  RengaReduction reduction;
  const char *device;
  int stages, replicas, tensor, chunks;
  double loss[STEPS];
  uint64_t digest;
} Trained;

static RengaErrorCode MakeNetwork(RengaComm comm, const Trained *run, RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphLoad(*graph, "mlp:sizes=4-16-16-16-3"));
  RengaCall(RengaGraphSetLanes(*graph, run->tensor));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePipeline(RengaComm comm, const Trained *run, const char *transport,
                                   RengaPipeline *pipeline)
{
  RengaGraph graph;
  RengaPartition partition;
  RengaPlan plan;
  RengaSettings settings;
  RengaDevice device;
  const char *found;
  RengaCall(MakeNetwork(comm, run, &graph));
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, SAMPLES, 2));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_EVEN));
  RengaCall(RengaPartitionSetStages(partition, run->stages));
  RengaCall(RengaPartitionSetReplicas(partition, run->replicas));
  RengaCall(RengaPartitionSetTensor(partition, run->tensor));
  RengaCall(RengaPipelineCreate(comm, pipeline));
  RengaCall(RengaPipelineGetSettings(*pipeline, &settings));
  RengaCall(RengaSettingsSetShard(settings, run->shard));
  RengaCall(RengaSettingsSetReduction(settings, run->reduction));
  RengaCall(RengaSettingsSetBuckets(settings, 2));
  RengaCall(RengaSettingsSetChunks(settings, run->chunks));
  RengaCall(RengaSettingsSetSchedule(settings, run->chunks > 1 ? RENGA_SCHEDULE_INTERLEAVED
                                                               : RENGA_SCHEDULE_1F1B));
  RengaCall(RengaOptionsSetValue("transport_type", transport));
  RengaCall(RengaSettingsSetFromOptions(settings));
  RengaCall(RengaSettingsGetTransport(settings, &found));
  Expect(!strcmp(found, transport));
  RengaCall(RengaSettingsGetDevice(settings, &device));
  RengaCall(RengaDeviceSetType(device, run->device));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  RengaCall(RengaPartitionSolve(partition, &plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPipelineSetPlan(*pipeline, graph, plan));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* One send of rank 0 fails before the step `fails`, -1: none does; the step is made once more. */
static RengaErrorCode TrainBy(RengaComm comm, const char *transport, int fails, Trained *run)
{
  const RengaBatch batch = {.samples = SAMPLES, .read = ReadWave};
  RengaPipeline pipeline;
  double lost;
  const bool first = RengaCommGetRank(comm) == 0;
  RengaCall(MakePipeline(comm, run, transport, &pipeline));
  RengaCall(RengaPipelineSetUp(pipeline));
  for (int step = 0; step < STEPS; step++) {
    if (step == fails) {
      if (first) counts.fails = 2;
      ExpectError(RengaPipelineStep(pipeline, &batch, &lost), RENGA_ERR_LIBRARY,
                  first ? "send of the transport carried, a rule of the program, returned" : "");
      Expect(counts.fails == 0);
    }
    RengaCall(RengaPipelineStep(pipeline, &batch, &run->loss[step]));
  }
  RengaCall(RengaPipelineGetDigest(pipeline, &run->digest));
  RengaCall(RengaPipelineDestroy(&pipeline));
  Expect(counts.states == 0 && counts.under_way == 0);
  return RENGA_SUCCESS;
}

/* sums: whether messages of groups are expected. */
static RengaErrorCode Compare(RengaComm comm, const Trained *layout, bool sums, int fails)
{
  Trained inside = *layout, outside = *layout;
  counts = (CarriedCounts){0};
  RengaCall(TrainBy(comm,
                    strcmp(layout->device, "far") ? RENGA_TRANSPORT_MPI : RENGA_TRANSPORT_STAGED,
                    -1, &inside));
  Expect(counts.sends == 0);
  RengaCall(TrainBy(comm, "carried", fails, &outside));
  Expect(counts.sends > 0 && counts.receives > 0 && (counts.sums > 0) == sums);
  Expect(counts.routes > 0 || layout->stages + layout->tensor == 2);
  for (int step = 0; step < STEPS; step++) Expect(inside.loss[step] == outside.loss[step]);
  Expect(inside.digest == outside.digest && inside.loss[STEPS - 1] < inside.loss[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestLayouts(RengaComm comm)
{
  const int ranks = RengaCommGetSize(comm), half = ranks / 2;
  const Trained layouts[] = {
      {RENGA_SHARD_NOTHING, RENGA_REDUCTION_ORDERED, "cpu", 2, half, 1, 1, {0}, 0},
      {RENGA_SHARD_PARAMETERS, RENGA_REDUCTION_ORDERED, "cpu", half, 2, 1, 1, {0}, 0},
      {RENGA_SHARD_OPTIMIZER, RENGA_REDUCTION_ORDERED, "far", half, 2, 1, 1, {0}, 0},
      {RENGA_SHARD_NOTHING, RENGA_REDUCTION_ORDERED, "cpu", half, 1, 2, 1, {0}, 0},
      {RENGA_SHARD_NOTHING, RENGA_REDUCTION_ORDERED, "cpu", half, 2, 1, 2, {0}, 0},
  };
  for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
    const bool sums = layouts[l].replicas > 1;
    RengaCall(Compare(comm, &layouts[l], sums, l == 1 ? 2 : -1));
  }
  return RENGA_SUCCESS;
}

/* Unordered sums are MPI's. */
static RengaErrorCode TestUnordered(RengaComm comm)
{
  Trained run = {RENGA_SHARD_NOTHING, RENGA_REDUCTION_UNORDERED, "cpu", 1, 2, 1, 1, {0}, 0};
  run.stages = RengaCommGetSize(comm) / 2;
  counts = (CarriedCounts){0};
  RengaCall(TrainBy(comm, "carried", -1, &run));
  Expect(counts.sums == 0 && run.loss[STEPS - 1] < run.loss[0]);
  return RENGA_SUCCESS;
}

/* Links are measured by it, and kept under its name: those of MPI are others. */
static RengaErrorCode MeasureBy(RengaComm comm, const char *transport, int64_t *measured)
{
  const Trained run = {.tensor = 1};
  RengaGraph graph;
  RengaProfile profile;
  RengaSettings settings;
  RengaMachine machine;
  RengaCall(MakeNetwork(comm, &run, &graph));
  RengaCall(RengaSettingsCreate(comm, &settings));
  RengaCall(RengaSettingsSetTransport(settings, transport));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetSettings(profile, settings));
  RengaCall(RengaProfileSetGraph(profile, graph));
  RengaCall(RengaProfileSetFromOptions(profile));
  RengaCall(RengaProfileGetMachine(profile, &machine));
  RengaCall(RengaProfileGetMeasured(profile, measured));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestMeasured(RengaComm comm)
{
  static const char file[] = "link-transport.h5";
  int64_t first, other, again;
  counts = (CarriedCounts){0};
  RengaCall(RengaOptionsSetValue("profile_file", file));
  RengaCall(MeasureBy(comm, RENGA_TRANSPORT_MPI, &first));
  Expect(counts.sends == 0 && first > 0);
  RengaCall(MeasureBy(comm, "carried", &other));
  Expect(other > 0 && counts.receives > 0);
  RengaCall(MeasureBy(comm, "carried", &again));
  Expect(again == 0);
  RengaCall(RengaOptionsClearValue("profile_file"));
  RengaCall(RengaCommBarrier(comm, "all who read costs"));
  if (RengaCommGetRank(comm) == 0) remove(file);
  return RENGA_SUCCESS;
}

/* All ranks learn that one could not open it; a message of another length; one that never comes. */
static RengaErrorCode TestFailing(RengaComm comm)
{
  RengaSettings settings;
  const RengaBatch batch = {.samples = SAMPLES, .read = ReadWave};
  const Trained run = {RENGA_SHARD_NOTHING, RENGA_REDUCTION_ORDERED, "cpu", 2, 1, 1, 1, {0}, 0};
  const int rank = RengaCommGetRank(comm);
  RengaPipeline pipeline;
  double loss;
  counts = (CarriedCounts){.refuses = rank == 1};
  RengaCall(MakePipeline(comm, &run, "carried", &pipeline));
  ExpectError(RengaPipelineSetUp(pipeline), RENGA_ERR_LIBRARY,
              rank == 1 ? "create of the transport carried, a rule of the program, returned" : "");
  RengaCall(RengaPipelineDestroy(&pipeline));
  counts = (CarriedCounts){.longer = rank == 1};
  RengaCall(MakePipeline(comm, &run, "carried", &pipeline));
  RengaCall(RengaPipelineSetUp(pipeline));
  ExpectError(RengaPipelineStep(pipeline, &batch, &loss), RENGA_ERR_SHAPE,
              rank == 1 ? "by the transport carried, where" : "");
  counts.longer = 0;
  RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(MakePipeline(comm, &run, "carried", &pipeline));
  RengaCall(RengaPipelineGetSettings(pipeline, &settings));
  RengaCall(RengaSettingsSetTimeout(settings, 0.3));
  RengaCall(RengaPipelineSetUp(pipeline));
  counts.still = true;
  ExpectError(RengaPipelineStep(pipeline, &batch, &loss), RENGA_ERR_TIMEOUT, "");
  RengaCall(RengaPipelineDestroy(&pipeline));
  Expect(counts.cancelled > 0 && counts.under_way == 0 && counts.states == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRefused(void)
{
  static RengaTransportRule taken, chosen, other, mute, open, old;
  taken = chosen = other = mute = open = old = carried;
  taken.name = RENGA_TRANSPORT_STAGED;
  chosen.name = RENGA_TRANSPORT_AUTO;
  mute.name = "mute";
  mute.test = NULL;
  open.name = "open";
  open.destroy = NULL;
  old.name = "old";
  old.size = 16;
  ExpectError(RengaTransportRegister(&taken), RENGA_ERR_ARGUMENT, "has a type staged already");
  ExpectError(RengaTransportRegister(&chosen), RENGA_ERR_ARGUMENT, "has a type auto already");
  ExpectError(RengaTransportRegister(&other), RENGA_ERR_ARGUMENT, "another type carried already");
  ExpectError(RengaTransportRegister(&mute), RENGA_ERR_ARGUMENT,
              "the transport mute needs send, receive and test");
  ExpectError(RengaTransportRegister(&open), RENGA_ERR_ARGUMENT,
              "the transport open needs both create and destroy, or neither");
  ExpectError(RengaTransportRegister(&old), RENGA_ERR_ARGUMENT, "says that it has 16 bytes");
  return RENGA_SUCCESS;
}

static RengaErrorCode TestTransports(void)
{
  RengaComm comm;
  RengaSettings settings;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaSettingsCreate(comm, &settings));
  ExpectError(
      RengaSettingsSetTransport(settings, "carries"), RENGA_ERR_ARGUMENT,
      "there is no transport \"carries\": give auto, mpi, mpi_device, staged, nccl, or the name");
  RengaCall(RengaSettingsDestroy(&settings));
  RengaCall(TestLayouts(comm));
  RengaCall(TestUnordered(comm));
  const bool two = RengaCommGetSize(comm) == 2;
  if (two) RengaCall(TestMeasured(comm));
  if (two) RengaCall(TestFailing(comm));
  if (two) LeaveWithoutMPI(); /* memory that was under way stays */
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  (void)argc;
  RengaCallAbort(RengaTransportRegister(&carried));
  RengaCallAbort(RengaTransportRegister(&carried)); /* again is as good as once */
  RengaCallAbort(TestRefused());
  char *words[] = {argv[0], (char[]){"-transport_type"}, (char[]){"carried"}, NULL};
  char **given = words;
  int n_words = 3;
  RengaCallAbort(RengaInitialize(&n_words, &given, NULL)); /* the option knows it */
  RengaCallAbort(TestTransports());
  RengaCallAbort(RengaFinalize());
  return 0;
}
