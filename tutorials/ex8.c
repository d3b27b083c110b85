/* TEST ranks: 1 2 4 */
/* Example 8: a loop that keeps watch.

   What a run will take is known before it begins, and what it does may be looked at while it goes
   on: memory by what it is for, which samples a rank reads, the order of its work, the norm of each
   gradient, the scale of the loss in fp16, how much of the job's time is left. What it leaves is
   looked at before anything is made of it.

     mpiexec -n 4 ./ex8 -layout_pipeline 2
     mpiexec -n 2 ./ex8 -precision fp16
*/
#include <math.h>
#include <renga.h>
#include <stdio.h>
#include <string.h>

static const char help[] = "Trains twelve steps, watches them, and looks at the file they leave.\n";

enum { batch_samples = 24, steps = 12, width = 8, classes = 3 };
static const char directory[] = "ex8-checkpoints";

/* Points around three centres: which one is it? */
static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  (void)user;
  for (int64_t i = 0; i < count; i++) {
    const int64_t sample = first + i;
    for (int k = 0; k < width && field == 0; k++)
      ((float *)buffer)[width * i + k] =
          sinf((float)(sample % classes * (k + 1)) + 0.01f * (float)sample);
    if (field == 1) ((int64_t *)buffer)[i] = sample % classes;
  }
  return RENGA_SUCCESS;
}

/* Set up to be trained by this optimizer, with the plan of the options. */
static RengaErrorCode Make(RengaComm comm, RengaGraph graph, const char *optimizer_type,
                           RengaPipeline *pipeline, RengaPlan *plan)
{
  RengaPartition partition;
  RengaOptimizer optimizer;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, batch_samples, 3));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_EVEN));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPipelineCreate(comm, pipeline));
  RengaCall(RengaPipelineSetPlan(*pipeline, graph, *plan));
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, optimizer_type));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 0.01));
  RengaCall(RengaPipelineSetFromOptions(*pipeline));
  return RENGA_SUCCESS;
}

/* What a stage's device will take, of the replica that needs most, before anything is allocated. */
static RengaErrorCode ForecastMemory(RengaPipeline pipeline, RengaPlan plan)
{
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++) {
    RengaPipelineMemory memory;
    char all[16], moments[16];
    RengaCall(RengaPipelineForecastStage(pipeline, s, &memory));
    RengaFormatBytes((double)memory.forecast, sizeof all, all);
    RengaFormatBytes((double)memory.optimizer, sizeof moments, moments);
    RengaCall(RengaPrintf(MPI_COMM_WORLD, "stage %d will take %s, %s of it for the optimizer\n", s,
                          all, moments));
  }
  return RENGA_SUCCESS;
}

/* The forecast is the allocation; who reads what, and in which order this rank works. */
static RengaErrorCode ShowRank(RengaComm comm, RengaPipeline pipeline, RengaPlan plan)
{
  int64_t first[2], last[2], count = 0;
  int stage, replica;
  const RengaAction *actions;
  RengaSchedule schedule;
  RengaPipelineMemory memory;
  RengaCall(RengaPipelineGetMemory(pipeline, &memory));
  RengaCheck(memory.measured == memory.forecast, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%lld bytes were forecast, and %lld are used", (long long)memory.forecast,
             (long long)memory.measured);
  RengaCall(RengaPipelineGetReads(pipeline, 2, first, last)); /* of the inputs x and labels */
  RengaCall(RengaPipelineGetStepSchedule(pipeline, &schedule));
  RengaCall(RengaPlanFindRank(plan, RengaCommGetRank(comm), &stage, &replica));
  if (stage < 0) return RENGA_SUCCESS; /* this rank is idle */
  RengaCall(RengaScheduleGetActions(schedule, stage, replica, &count, &actions));
  printf("rank %d: stage %d, replica %d; reads samples [%lld, %lld) of x, [%lld, %lld) of labels; "
         "%lld actions, the first is %s\n",
         RengaCommGetRank(comm), stage, replica, (long long)first[0], (long long)last[0],
         (long long)first[1], (long long)last[1], (long long)count,
         RengaActionName(actions[0].kind));
  return RENGA_SUCCESS;
}

/* A gradient that grows from step to step is seen long before the loss is not finite. */
static RengaErrorCode WatchStep(RengaPipeline pipeline, double loss, double *largest)
{
  double norm, scale;
  int64_t since;
  bool scaled;
  RengaPipelineStepInfo info;
  RengaCall(RengaPipelineGetGradientNorm(pipeline, &norm)); /* before it is clipped */
  RengaCall(RengaPipelineGetLastStep(pipeline, &info));
  RengaCall(RengaPipelineGetLossScale(pipeline, &scale, &since, &scaled));
  if (norm > *largest) *largest = norm;
  RengaCheck(norm == info.norm && loss == info.loss, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "the step says otherwise: %g and %g", info.norm, info.loss);
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "step %2lld: loss %.4f, norm of the gradient %.4f",
                        (long long)info.step, loss, norm));
  if (scaled)
    RengaCall(
        RengaPrintf(MPI_COMM_WORLD, ", loss times %g for %lld steps", scale, (long long)since));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeCheckpoint(RengaComm comm, RengaPipeline pipeline,
                                     RengaCheckpoint *checkpoint)
{
  const char *folder;
  RengaCall(RengaCheckpointCreate(comm, checkpoint));
  RengaCall(RengaCheckpointSetPipeline(*checkpoint, pipeline));
  RengaCall(RengaCheckpointSetDirectory(*checkpoint, directory));
  RengaCall(RengaCheckpointSetAttribute(*checkpoint, "points", "around three centres"));
  RengaCall(RengaCheckpointSetTimeLimit(*checkpoint, 600)); /* the job's, less what is gone of it */
  RengaCall(RengaCheckpointSetFromOptions(*checkpoint));
  RengaCall(RengaCheckpointSetUp(*checkpoint));
  RengaCall(RengaCheckpointGetDirectory(*checkpoint, &folder));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "checkpoints go to %s\n", folder));
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(RengaComm comm, RengaPipeline pipeline, char **file, double *loss)
{
  const RengaBatch batch = {.samples = batch_samples, .read = Read};
  RengaCheckpoint checkpoint;
  double largest = 0, left;
  bool wrote, stop = false, late;
  RengaCall(MakeCheckpoint(comm, pipeline, &checkpoint));
  for (int step = 0; step < steps && !stop; step++) {
    RengaCall(RengaPipelineStep(pipeline, &batch, loss));
    RengaCall(WatchStep(pipeline, *loss, &largest));
    RengaCall(
        RengaCheckpointStep(checkpoint, &wrote, &stop)); /* stop: there is just time to leave */
  }
  RengaCall(RengaCheckpointGetTimeLimit(checkpoint, &left, &late));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "the largest norm was %.4f; %s\n", largest,
                        late ? "the time is up" : "there is time left"));
  RengaCheck(!late && left > 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%g seconds are left", left);
  RengaCall(RengaCheckpointWrite(checkpoint, file));
  RengaCall(RengaPipelineEvaluate(pipeline, &batch, loss));
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

/* What is in a directory or a file is known without reading a tensor. */
static RengaErrorCode Look(RengaComm comm, const char *file)
{
  RengaCheckpoint checkpoint;
  int64_t newest, same;
  bool found;
  const char *points;
  RengaCall(RengaCheckpointCreate(comm, &checkpoint)); /* no pipeline */
  RengaCall(RengaCheckpointSetDirectory(checkpoint, directory));
  RengaCall(RengaCheckpointPeek(checkpoint, &found, &newest)); /* what Resume would read */
  RengaCall(RengaCheckpointGetAttribute(checkpoint, "points", &points));
  RengaCheck(found && points && strcmp(points, "around three centres") == 0, MPI_COMM_SELF,
             RENGA_ERR_INTERNAL, "the file says of its points: %s", points ? points : "nothing");
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "the newest file is of step %lld, points %s\n",
                        (long long)newest, points));
  RengaCall(RengaCheckpointPeekInitial(checkpoint, file, &same)); /* of another run, by name */
  RengaCheck(same == newest, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s is of step %lld", file,
             (long long)same);
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

/* A pipeline that only evaluates has no moments; those in the file are left alone. */
static RengaErrorCode EvaluateAgain(RengaComm comm, RengaGraph graph, const char *file,
                                    double wanted)
{
  const RengaBatch batch = {.samples = batch_samples, .read = Read};
  RengaPipeline pipeline;
  RengaPlan plan;
  RengaCheckpoint checkpoint;
  double loss;
  RengaCall(Make(comm, graph, RENGA_OPTIMIZER_SGD, &pipeline, &plan));
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  RengaCall(RengaCheckpointSetPipeline(checkpoint, pipeline));
  RengaCall(RengaCheckpointSetSubset(checkpoint, true));
  RengaCall(RengaCheckpointRead(checkpoint, file));
  RengaCall(RengaPipelineEvaluate(pipeline, &batch, &loss));
  RengaCheck(loss == wanted, MPI_COMM_SELF, RENGA_ERR_NUMERIC, "the loss is %.17g, and was %.17g",
             loss, wanted);
  RengaCall(
      RengaPrintf(MPI_COMM_WORLD, "read again without moments: loss %.9g, the same bits\n", loss));
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPipeline pipeline;
  RengaPlan plan;
  char *file;
  double loss;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=8-32-32-32-3"));
  RengaCall(RengaGraphSetFromOptions(graph)); /* -precision */
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(Make(comm, graph, RENGA_OPTIMIZER_ADAMW, &pipeline, &plan));
  RengaCall(ForecastMemory(pipeline, plan));
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(ShowRank(comm, pipeline, plan));
  RengaCall(Train(comm, pipeline, &file, &loss));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(Look(comm, file));
  RengaCall(EvaluateAgain(comm, graph, file, loss));
  RengaCall(RengaCommBarrier(comm, "all who read the file"));
  if (RengaCommGetRank(comm) == 0) remove(file), remove(directory); /* leave nothing behind */
  RengaFree(&file);
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
