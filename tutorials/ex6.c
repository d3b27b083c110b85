/* TEST ranks: 1 2 4 */
/* Example 6: types of your own.

   A program may add an optimizer, a way to cut the network and a schedule before RengaInitialize.
   They are then chosen by name as those that are built in, by the program or by an option, and
   everything else (replicas, checkpoints with the optimizer's moments, memory) works with them.
   The rules look at what is the same on every layout, and so the loss is the same too.

     mpiexec -n 4 ./ex6 -layout_pipeline 2
     ./ex6 -help                               -optimizer_type lists lion
     mpiexec -n 2 ./ex6 -optimizer_type adamw -partition_type even -schedule_type gpipe
*/
#include <math.h>
#include <renga.h>

static const char help[] = "Trains with an optimizer, cuts and a schedule of the program's own.\n";

enum { batch_samples = 32, steps = 40 };

/* Lion: the sign of a momentum. Chen et al., "Symbolic Discovery of Optimization Algorithms",
   NeurIPS 2023. */
static RengaErrorCode UpdateByLion(const RengaOptimizerTask *task, void *user)
{
  const float beta1 = 0.9f, beta2 = 0.99f, rate = (float)task->learning_rate;
  const float decay = (float)task->weight_decay, scale = (float)task->scale;
  float *momentum = task->moment[0];
  (void)user;
  for (int64_t i = 0; i < task->count; i++) {
    const float gradient = scale * task->gradient[i];
    const float mixed = beta1 * momentum[i] + (1 - beta1) * gradient;
    const float direction = mixed > 0 ? 1.0f : mixed < 0 ? -1.0f : 0.0f;
    task->parameter[i] -= rate * (direction + decay * task->parameter[i]);
    momentum[i] = beta2 * momentum[i] + (1 - beta2) * gradient;
  }
  return RENGA_SUCCESS;
}

/* Every stage has as many nodes. */
static RengaErrorCode CutByCount(RengaGraph graph, int stages, int first[], void *user)
{
  const int64_t nodes = RengaGraphGetNodeCount(graph);
  (void)user;
  for (int s = 0; s < stages; s++) first[s] = (int)(nodes * s / stages);
  return RENGA_SUCCESS;
}

/* 1F1B whose stages begin a micro-batch more for each that follows: messages are hidden. */
static RengaErrorCode RunAhead(int stages, const int replicas[], int stage, int64_t count,
                               int64_t forwards[], void *user)
{
  (void)replicas;
  (void)user;
  for (int64_t i = 0; i < count; i++) {
    const int64_t ahead = i + 1 + 2 * (stages - 1 - stage);
    forwards[i] = ahead < count ? ahead : count;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildAhead(RengaSchedule schedule, int rank, RengaActionList list, void *user)
{
  (void)schedule;
  (void)rank;
  RengaCall(RengaActionListFill(list, RunAhead, user));
  return RENGA_SUCCESS;
}

static RengaErrorCode Register(void)
{
  static const char *const moments[] = {"momentum"};
  static const RengaOptimizerRule lion = {
      .name = "lion", .n_moments = 1, .moment_names = moments, .update = UpdateByLion};
  static const RengaPartitionRule count = {.name = "count", .cut = CutByCount};
  static const RengaScheduleRule ahead = {.name = "ahead", .build = BuildAhead};
  RengaCall(RengaOptimizerRegister(&lion));
  RengaCall(RengaPartitionRegister(&count));
  RengaCall(RengaScheduleRegister(&ahead));
  return RENGA_SUCCESS;
}

/* Points on waves of three frequencies: which one is it? */
static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  (void)user;
  for (int64_t i = 0; i < count; i++) {
    const int64_t sample = first + i;
    for (int k = 0; k < 8 && field == 0; k++)
      ((float *)buffer)[8 * i + k] = sinf((float)((sample % 3 + 1) * k) + 0.1f * (float)sample);
    if (field == 1) ((int64_t *)buffer)[i] = sample % 3;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePlan(RengaComm comm, RengaGraph graph, RengaPlan *plan)
{
  RengaPartition partition;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, batch_samples, 4));
  RengaCall(RengaPartitionSetType(partition, "count"));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(RengaComm comm, RengaGraph graph, RengaPlan plan)
{
  RengaSettings settings;
  const RengaBatch batch = {.samples = batch_samples, .read = Read};
  RengaPipeline pipeline;
  RengaOptimizer optimizer;
  double first = 0, loss = 0;
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, "lion"));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 0.01));
  RengaCall(RengaPipelineGetSettings(pipeline, &settings));
  RengaCall(RengaSettingsSetSchedule(settings, "ahead"));
  RengaCall(RengaPipelineSetFromOptions(pipeline));
  RengaCall(RengaPipelineSetUp(pipeline));
  for (int64_t step = 0; step < steps; step++) {
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
    if (step == 0) first = loss;
  }
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "loss %.9g after %d steps, %.9g before\n", loss, (int)steps,
                        first));
  RengaCheck(loss < 0.5 * first, MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "the loss only fell from %g to %g", first, loss);
  RengaCall(RengaPipelineDestroy(&pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=8-32-32-3"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(MakePlan(comm, graph, &plan));
  RengaCall(Train(comm, graph, plan));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  bool answered;
  RengaCallAbort(Register());
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(RengaAnswerHelp(&answered)); /* -help, -version */
  if (!answered) RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
