// A C++ program that trains a small network on all ranks, with samples of its own.
#include <renga.h>
#include <cmath>
#include <vector>

static RengaErrorCode ReadSample(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const std::vector<float> &wave = *static_cast<std::vector<float> *>(user);
  for (int64_t i = 0; i < count; i++) {
    if (field == 0)
      for (int64_t k = 0; k < 4; k++)
        static_cast<float *>(buffer)[4 * i + k] = wave[static_cast<size_t>(first + i + k)];
    else
      static_cast<int64_t *>(buffer)[i] = (first + i) % 3;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePlan(RengaComm comm, RengaGraph graph, RengaPlan *plan)
{
  RengaPartition partition;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_EVEN));
  RengaCall(RengaPartitionSetBatch(partition, 12, 4));
  RengaCall(RengaPartitionSetStages(partition, RengaCommGetSize(comm)));
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(int argc, char **argv)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  double loss = 0;
  std::vector<float> wave(16);
  for (size_t i = 0; i < wave.size(); i++) wave[i] = std::sin(static_cast<float>(i));
  RengaBatch batch = RengaBatch();
  batch.samples = 12;
  batch.read = ReadSample;
  batch.user = &wave;
  RengaCall(RengaInitialize(&argc, &argv, "trains from C++"));
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=4-16-3"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(MakePlan(comm, graph, &plan));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineSetUp(pipeline));
  for (int step = 0; step < 3; step++) RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
  RengaCheck(std::isfinite(loss), MPI_COMM_SELF, RENGA_ERR_NUMERIC, "the loss is %g", loss);
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "3 steps, loss %.4f, Renga %s\n", loss, RENGA_VERSION));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(Train(argc, argv));
  return 0;
}
