/* TEST ranks: 2 3 */
/* Example 5: resume on another layout.

   A checkpoint holds the network, not the ranks: each parameter and each moment of the optimizer
   whole, under its own name, in one HDF5 file. So a run that was cut into stages one way goes on
   cut another way, and ends with the same bits as a run that was never interrupted.

     mpiexec -n 3 ./ex5
*/
#include <renga.h>

static const char help[] =
    "Trains 4 steps, then 4 more on another layout; compares with 8 at a stretch.\n";

static const char network[] = "mlp:sizes=12-24-24-5";

static RengaErrorCode MakePipeline(RengaComm comm, RengaGraph graph, int stages,
                                   RengaPipeline *pipeline)
{
  RengaPartition partition;
  RengaPlan plan;
  RengaOptimizer optimizer;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetStages(partition, stages));
  RengaCall(RengaPartitionSetBatch(partition, 12, 3));
  RengaCall(RengaPartitionSolve(partition, &plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPipelineCreate(comm, pipeline));
  RengaCall(RengaPipelineSetPlan(*pipeline, graph, plan));
  RengaCall(RengaPlanDestroy(&plan)); /* the pipeline keeps its own reference */
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_ADAMW));
  RengaCall(RengaPipelineSetFromOptions(*pipeline));
  RengaCall(RengaPipelineSetUp(*pipeline));
  return RENGA_SUCCESS;
}

/* Samples come from a RengaData here: made-up ones that depend on the seed and the sample's
   number. */
typedef struct {
  RengaData data;
  int64_t first, epoch;
} Source;

static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Source *source = user;
  RengaCall(RengaDataRead(source->data, RENGA_DATA_TRAINING, field, source->epoch,
                          source->first + first, count, buffer));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeData(RengaComm comm, RengaGraph graph, RengaData *data)
{
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFile(*data, "synthetic"));
  RengaCall(RengaDataSetGraph(*data, graph)); /* a sample is what the network takes */
  RengaCall(RengaDataSetUp(*data));
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(RengaPipeline pipeline, RengaData data, int64_t last_step, double *loss)
{
  for (int64_t step = RengaPipelineGetStepNumber(pipeline); step < last_step; step++) {
    Source source = {.data = data};
    RengaBatch batch = {.read = Read, .user = &source};
    RengaCall(RengaDataGetStep(data, RENGA_DATA_TRAINING, 12, step, &source.first, &batch.samples,
                               &source.epoch));
    RengaCall(RengaPipelineStep(pipeline, &batch, loss));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeCheckpoint(RengaComm comm, RengaPipeline pipeline,
                                     RengaCheckpoint *checkpoint)
{
  RengaCall(RengaCheckpointCreate(comm, checkpoint));
  RengaCall(RengaCheckpointSetPipeline(*checkpoint, pipeline));
  RengaCall(RengaCheckpointSetDirectory(*checkpoint, "ex5-checkpoints"));
  RengaCall(RengaCheckpointSetUp(*checkpoint));
  return RENGA_SUCCESS;
}

/* Train to step 4 on one layout, write; read on another, train to step 8. */
static RengaErrorCode Interrupted(RengaComm comm, RengaGraph graph, RengaData data, double *loss,
                                  uint64_t *digest)
{
  RengaPipeline pipeline;
  RengaCheckpoint checkpoint;
  char *file;
  RengaCall(MakePipeline(comm, graph, 1, &pipeline)); /* one stage, all ranks replicas */
  RengaCall(Train(pipeline, data, 4, loss));
  RengaCall(MakeCheckpoint(comm, pipeline, &checkpoint));
  RengaCall(RengaCheckpointWrite(checkpoint, &file));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "wrote %s\n", file));
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  RengaCall(RengaPipelineDestroy(&pipeline));

  RengaCall(MakePipeline(comm, graph, RengaCommGetSize(comm), &pipeline)); /* every rank a stage */
  RengaCall(MakeCheckpoint(comm, pipeline, &checkpoint));
  RengaCall(RengaCheckpointRead(checkpoint, file));
  if (RengaCommGetRank(comm) == 0) remove(file); /* so that this program may be run again */
  RengaFree(&file);
  RengaCall(Train(pipeline, data, 8, loss));
  RengaCall(RengaPipelineGetDigest(pipeline, digest));
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  RengaCall(RengaPipelineDestroy(&pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaData data;
  RengaPipeline pipeline;
  double loss, resumed_loss;
  uint64_t digest, resumed_digest;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, network));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(MakeData(comm, graph, &data));

  RengaCall(MakePipeline(comm, graph, 1, &pipeline));
  RengaCall(Train(pipeline, data, 8, &loss));
  RengaCall(RengaPipelineGetDigest(pipeline, &digest));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(Interrupted(comm, graph, data, &resumed_loss, &resumed_digest));
  RengaCall(RengaPrintf(
      MPI_COMM_WORLD,
      "at a stretch: loss %.9g, digest 0x%016llx\nresumed:      loss %.9g, digest 0x%016llx\n",
      loss, (unsigned long long)digest, resumed_loss, (unsigned long long)resumed_digest));
  RengaCheck(loss == resumed_loss && digest == resumed_digest, MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "the resumed run differs from the other");

  RengaCall(RengaDataDestroy(&data));
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
