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

static RengaErrorCode OpenData(RengaComm comm, RengaGraph graph, RengaData *data)
{
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFromOptions(*data));
  RengaCall(RengaDataSetGraph(*data, graph));
  RengaCall(RengaDataSetUp(*data));
  return RENGA_SUCCESS;
}

/* The trainer makes the pipeline, with its options, of the plan. */
static RengaErrorCode MakePlan(RengaComm comm, RengaGraph graph, RengaTrainer trainer,
                               RengaPlan *plan)
{
  RengaPartition partition;
  int64_t batch;
  RengaCall(RengaOptionsGetInt64("finetune_batch", &batch, NULL));
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, batch, 0));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaTrainerSetPartition(trainer, partition));
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaTrainerSetPlan(trainer, *plan));
  RengaCall(RengaTrainerSetUp(trainer));
  return RENGA_SUCCESS;
}

/* Of the file, and now. With -precision bf16 a frozen parameter has 16 bits alone. */
static RengaErrorCode TakeValues(RengaGraph graph, RengaValue v, const RengaPersistent *tensor,
                                 float before[], float now[])
{
  const int64_t n = RengaTensorSpecCount(&tensor->spec);
  const RengaDataType type = tensor->spec.type;
  RengaCall(RengaGraphInitializeValue(graph, v, 0, 0, n, now));
  RengaCall(RengaDataNarrow(type, n, now, now));
  RengaCall(RengaDataWiden(type, n, now, before));
  RengaCall(RengaDataWiden(type, n, tensor->data, now));
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
    float *before = NULL, *now = NULL;
    RengaErrorCode code = RengaMalloc(n, &before);
    if (!code) code = RengaMalloc(n, &now);
    if (!code) code = TakeValues(graph, v, &tensor[t], before, now);
    for (int64_t i = 0; i < n && !code; i++)
      change[which] = fmax(change[which], fabs((double)now[i] - (double)before[i]));
    RengaFree(&before);
    RengaFree(&now);
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

/* Checkpoints while it trains (-checkpoint_every), and at its end; with -resume it goes on from the
   newest. */
static RengaErrorCode OpenCheckpoint(RengaComm comm, RengaTrainer trainer,
                                     RengaCheckpoint *checkpoint)
{
  const char *directory;
  bool resume, found;
  int64_t step;
  RengaCall(RengaOptionsGetString("checkpoint_dir", &directory, NULL));
  RengaCall(RengaOptionsGetBool("resume", &resume, NULL));
  if (!directory) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointCreate(comm, checkpoint));
  RengaCall(RengaCheckpointSetFromOptions(*checkpoint));
  RengaCall(RengaCheckpointSetUp(*checkpoint));
  RengaCall(RengaTrainerSetCheckpoint(trainer, *checkpoint));
  if (resume) RengaCall(RengaTrainerResume(trainer, &found, &step));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowStep(void *user, const RengaTrainerRow *row)
{
  (void)user;
  RengaCall(
      RengaPrintf(MPI_COMM_WORLD, "step %3lld  loss %.6f\n", (long long)row->step, row->loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowSentence(void *user, const char *sentence)
{
  (void)user;
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "%s", sentence));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeTrainer(RengaComm comm, RengaGraph graph, RengaData data,
                                  RengaTrainer *trainer)
{
  const RengaTrainerMonitor monitor = {.step = ShowStep, .say = ShowSentence};
  RengaTrainerRules rules;
  RengaCall(RengaTrainerCreate(comm, trainer));
  RengaCall(RengaTrainerAddMonitor(*trainer, &monitor));
  RengaCall(RengaTrainerGetRules(*trainer, &rules));
  RengaCall(RengaOptionsGetInt64("finetune_steps", &rules.steps, NULL));
  RengaCall(RengaTrainerSetRules(*trainer, &rules));
  RengaCall(RengaTrainerSetData(*trainer, graph, data));
  return RENGA_SUCCESS;
}

static RengaErrorCode Tune(RengaComm comm)
{
  RengaGraph graph;
  RengaData data;
  RengaTrainer trainer;
  RengaTrainerParts parts;
  RengaPlan plan;
  RengaCheckpoint checkpoint = NULL;
  RengaCall(LoadNetwork(comm, &graph));
  RengaCall(OpenData(comm, graph, &data));
  RengaCall(MakeTrainer(comm, graph, data, &trainer));
  RengaCall(MakePlan(comm, graph, trainer, &plan));
  RengaCall(OpenCheckpoint(comm, trainer, &checkpoint));
  RengaCall(RengaTrainerRun(trainer));
  RengaCall(RengaTrainerGetParts(trainer, &parts));
  RengaCall(ShowChange(graph, parts.pipeline));
  if (checkpoint) RengaCall(RengaCheckpointDestroy(&checkpoint));
  RengaCall(RengaTrainerDestroy(&trainer));
  RengaCall(RengaPlanDestroy(&plan));
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
