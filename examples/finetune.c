/* Fine-tuning: an exported network goes on from its own values, with some of its layers
   frozen.

   The file holds the network, its loss and its values; a pattern says which parameters stay as
   they are. No gradient and no moment is kept for those. The samples come from a data set;
   each step prints its loss, and at the end the program shows how far the parameters moved,
   and writes a checkpoint.

     mpiexec -n 2 ./finetune -finetune_network bert.onnx -data train.h5 \
       -finetune_frozen 'tokens*,places*,layers.0*'
     mpiexec -n 2 ./finetune -finetune_network bert.onnx -data synthetic -checkpoint_dir tuned

   The same from the command line:
     renga train -graph bert.onnx -graph_frozen 'tokens*,places*,layers.0*' -data train.h5
*/
#include <math.h>
#include <renga.h>
#include <string.h>

static const char help[] =
    "Trains a network from a file further, with some of its layers frozen.\n";

static const RengaOptionRow rows[] = {
    {"finetune_network", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "ONNX file with values and loss"},
    {"finetune_frozen", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "patterns of parameters that stay, with commas"},
    {"finetune_steps", RENGA_OPTION_INT64, "20", RENGA_OPTION_NO_OFFSET, NULL, 1, 1e9, "steps"},
    {"finetune_batch", RENGA_OPTION_INT64, "16", RENGA_OPTION_NO_OFFSET, NULL, 1, 1e9,
     "samples of a step"},
};

enum { MOST_FIELDS = 16 };

static RengaErrorCode LoadNetwork(RengaComm comm, RengaGraph *graph)
{
  const char *file, *frozen;
  RengaCall(RengaOptionsGetString("finetune_network", &file, NULL));
  RengaCall(RengaOptionsGetString("finetune_frozen", &frozen, NULL));
  RengaCheck(file, MPI_COMM_WORLD, RENGA_ERR_OPTION,
             "-finetune_network FILE.onnx says what to train further");
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphLoad(*graph, file));
  if (frozen) RengaCall(RengaGraphSetFrozen(*graph, frozen));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

/* Whole numbers of a made-up data set are smaller than the smallest table or number of classes
   of the network. */
static RengaErrorCode OpenData(RengaComm comm, RengaGraph graph, RengaData *data)
{
  const char *names[MOST_FIELDS];
  RengaTensorSpec specs[MOST_FIELDS];
  int64_t classes[MOST_FIELDS];
  int count = 0;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph) && count < MOST_FIELDS; v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->kind != RENGA_VALUE_INPUT) continue;
    names[count] = value->name;
    specs[count] = (RengaTensorSpec){.type = value->spec.type, .ndim = value->spec.ndim - 1};
    for (int d = 1; d < value->spec.ndim; d++) specs[count].dim[d - 1] = value->spec.dim[d];
    classes[count++] = value->spec.type == RENGA_FLOAT32 ? 0 : 2;
  }
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFromOptions(*data));
  RengaCall(RengaDataSetFields(*data, count, names, specs, classes));
  RengaCall(RengaDataSetUp(*data));
  return RENGA_SUCCESS;
}

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

static RengaErrorCode MakePipeline(RengaComm comm, RengaGraph graph, RengaData data, int64_t batch,
                                   RengaPipeline *pipeline)
{
  RengaPartition partition;
  RengaPlan plan;
  int64_t samples;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, batch, 0));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaPartitionSolve(partition, &plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPipelineCreate(comm, pipeline));
  RengaCall(RengaPipelineSetPlan(*pipeline, graph, plan));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &samples));
  if (samples % batch) RengaCall(RengaPipelineSetDataShortBatch(*pipeline, samples % batch));
  RengaCall(RengaPipelineSetFromOptions(*pipeline));
  RengaCall(RengaPipelineSetUp(*pipeline));
  return RENGA_SUCCESS;
}

/* Largest change of an element since the file, of parameters that are frozen and of the
   others. This rank's own. */
static RengaErrorCode FindChange(RengaGraph graph, RengaPipeline pipeline, double change[2])
{
  const RengaPersistent *tensor;
  int count;
  RengaCall(RengaPipelineGetPersistents(pipeline, &count, &tensor));
  for (int t = 0; t < count; t++) {
    const RengaValue v = RengaGraphFindValue(graph, tensor[t].name);
    if (v == RENGA_VALUE_NONE || RengaGraphGetValue(graph, v)->kind != RENGA_VALUE_PARAMETER)
      continue;
    const int64_t n = RengaTensorSpecCount(&tensor[t].spec);
    const int which = RengaGraphGetValue(graph, v)->frozen ? 0 : 1;
    const float *now = tensor[t].data;
    float *before;
    RengaCall(RengaMalloc(n, &before));
    RengaErrorCode code = RengaGraphInitializeValue(graph, v, 0, 0, n, before);
    for (int64_t i = 0; i < n && !code; i++)
      change[which] = fmax(change[which], fabs((double)now[i] - (double)before[i]));
    RengaFree(&before);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowChange(RengaGraph graph, RengaPipeline pipeline)
{
  double change[2] = {0, 0};
  RengaCall(FindChange(graph, pipeline, change));
  RengaCallMPI(MPI_Allreduce(MPI_IN_PLACE, change, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  RengaCall(RengaPrintf(MPI_COMM_WORLD,
                        "largest change of a parameter: %.3g, of a frozen one: %g\n", change[1],
                        change[0]));
  RengaCheck(change[0] == 0 && change[1] > 0, MPI_COMM_WORLD, RENGA_ERR_INTERNAL,
             "frozen parameters moved, or no other did");
  return RENGA_SUCCESS;
}

static RengaErrorCode Save(RengaComm comm, RengaPipeline pipeline)
{
  const char *directory;
  RengaCheckpoint checkpoint;
  char *file;
  RengaCall(RengaOptionsGetString("checkpoint_dir", &directory, NULL));
  if (!directory) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  RengaCall(RengaCheckpointSetPipeline(checkpoint, pipeline));
  RengaCall(RengaCheckpointSetFromOptions(checkpoint));
  RengaCall(RengaCheckpointSetUp(checkpoint));
  RengaCall(RengaCheckpointWrite(checkpoint, &file));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "checkpoint %s\n", file));
  RengaFree(&file);
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

static RengaErrorCode Tune(RengaComm comm)
{
  RengaGraph graph;
  RengaData data;
  RengaPipeline pipeline;
  int64_t steps, batch_samples;
  RengaCall(RengaOptionsGetInt64("finetune_steps", &steps, NULL));
  RengaCall(RengaOptionsGetInt64("finetune_batch", &batch_samples, NULL));
  RengaCall(LoadNetwork(comm, &graph));
  RengaCall(OpenData(comm, graph, &data));
  RengaCall(MakePipeline(comm, graph, data, batch_samples, &pipeline));
  for (int64_t step = 0; step < steps; step++) {
    Source source = {.data = data};
    RengaBatch batch = {.read = Read, .user = &source};
    double loss;
    RengaCall(RengaDataGetStep(data, RENGA_DATA_TRAINING, batch_samples, step, &source.first,
                               &batch.samples, &source.epoch));
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
    RengaCall(RengaPrintf(MPI_COMM_WORLD, "step %3lld  loss %.6f\n", (long long)step, loss));
  }
  RengaCall(ShowChange(graph, pipeline));
  RengaCall(Save(comm, pipeline));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaDataDestroy(&data));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(Tune(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaOptionsRegister("Fine-tuning", sizeof rows / sizeof rows[0], rows));
  bool answered;
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(RengaAnswerHelp(&answered)); /* -help, -version */
  if (!answered) RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
