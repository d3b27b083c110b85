/* The training of calls.f90 by the functions of C: prints the digest that the module comes to. */
#include "renga.h"
#include <math.h>

static RengaErrorCode ReadWave(void *context, int field, int64_t first, int64_t count, void *buffer)
{
  (void)context;
  float *x = buffer;
  int64_t *labels = buffer;
  for (int64_t i = 0; i < count; i++) {
    for (int64_t k = 0; k < 4 && field == 0; k++) x[4 * i + k] = sinf((float)(first + i + 2 * k));
    if (field == 1) labels[i] = (first + i) % 3;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(RengaPipeline pipeline)
{
  RengaBatch batch = {.samples = 12, .read = ReadWave};
  RengaOptimizer optimizer;
  RengaSettings settings;
  double loss;
  uint64_t digest;
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_ADAM));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 1e-2));
  RengaCall(RengaPipelineGetSettings(pipeline, &settings));
  RengaCall(RengaSettingsSetSeed(settings, 5));
  RengaCall(RengaPipelineSetUp(pipeline));
  for (int step = 0; step < 3; step++) RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetDigest(pipeline, &digest));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "after three steps %016llX\n", (unsigned long long)digest));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPartition partition;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCallAbort(RengaGraphCreate(comm, &graph));
  RengaCallAbort(RengaGraphLoad(graph, "mlp:sizes=4-16-3"));
  RengaCallAbort(RengaGraphSetUp(graph));
  RengaCallAbort(RengaPartitionCreate(comm, &partition));
  RengaCallAbort(RengaPartitionSetGraph(partition, graph));
  RengaCallAbort(RengaPartitionSetType(partition, RENGA_PARTITION_EVEN));
  RengaCallAbort(RengaPartitionSetBatch(partition, 12, 3));
  RengaCallAbort(RengaPartitionSolve(partition, &plan));
  RengaCallAbort(RengaPipelineCreate(comm, &pipeline));
  RengaCallAbort(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCallAbort(Train(pipeline));
  RengaCallAbort(RengaPipelineDestroy(&pipeline));
  RengaCallAbort(RengaPlanDestroy(&plan));
  RengaCallAbort(RengaPartitionDestroy(&partition));
  RengaCallAbort(RengaGraphDestroy(&graph));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
