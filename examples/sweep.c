/* A sweep over learning rates: several pipelines of one job, each on its own ranks.

   The ranks are divided into as many groups as there are learning rates. Each group is a Renga
   communicator of its own, with its own graph, plan and pipeline, and trains the same network
   on the same samples. At the end rank 0 prints which rate did best. A group may be as large
   as one likes: it cuts the network into stages by itself.

     mpiexec -n 4 ./sweep -sweep_rates 0.3,0.1,0.03,0.01
     mpiexec -n 4 ./sweep -sweep_rates 0.1,0.01 -layout_pipeline 2      two groups of two stages */
#include <math.h>
#include <renga.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "Trains one network with several learning rates at a time.\n";

enum { MOST_RATES = 64, BATCH = 32, WIDTH = 16, CLASSES = 4 };

static const RengaOptionRow rows[] = {
    {"sweep_rates", RENGA_OPTION_STRING, "0.3,0.03", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "learning rates, with commas"},
    {"sweep_steps", RENGA_OPTION_INT64, "40", RENGA_OPTION_NO_OFFSET, NULL, 1, 1e9,
     "steps of each"},
};

/* Samples of four classes: points around four centres. */
static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const int64_t step = *(const int64_t *)user;
  for (int64_t i = 0; i < count; i++) {
    const uint64_t sample = (uint64_t)(step * BATCH + first + i);
    const int64_t label = (int64_t)(sample % CLASSES);
    if (field == 1) {
      ((int64_t *)buffer)[i] = label;
      continue;
    }
    float *x = (float *)buffer + i * WIDTH;
    RengaRandomNormal(3, 0, sample * WIDTH, WIDTH, x);
    for (int k = 0; k < WIDTH; k++) x[k] += k % CLASSES == label ? 1.0f : 0.0f;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePipeline(RengaComm comm, RengaGraph graph, double rate,
                                   RengaPipeline *pipeline)
{
  RengaPartition partition;
  RengaPlan plan;
  RengaOptimizer optimizer;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, BATCH, BATCH / 4));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaPartitionSolve(partition, &plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaPipelineCreate(comm, pipeline));
  RengaCall(RengaPipelineSetPlan(*pipeline, graph, plan));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaPipelineSetFromOptions(*pipeline));
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_SGD));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, rate));
  RengaCall(RengaPipelineSetUp(*pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode TrainGroup(MPI_Comm group, double rate, int64_t steps, double *loss)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPipeline pipeline;
  RengaCall(RengaCommCreate(group, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=16-64-64-4"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(MakePipeline(comm, graph, rate, &pipeline));
  for (int64_t step = 0; step < steps; step++) {
    const RengaBatch batch = {.samples = BATCH, .read = Read, .user = &step};
    RengaCall(RengaPipelineStep(pipeline, &batch, loss));
  }
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadRates(int *count, double rate[])
{
  const char *text;
  RengaCall(RengaOptionsGetString("sweep_rates", &text, NULL));
  for (*count = 0; *text && *count < MOST_RATES; (*count)++) {
    char *end;
    rate[*count] = strtod(text, &end);
    RengaCheck(end != text && rate[*count] > 0 && (*end == ',' || !*end), MPI_COMM_WORLD,
               RENGA_ERR_OPTION, "-sweep_rates: no positive number at \"%s\"", text);
    text = *end == ',' ? end + 1 : end;
  }
  return RENGA_SUCCESS;
}

/* Each group's first rank says how it went; rank 0 prints. */
static RengaErrorCode Report(int count, const double rate[], const double mine[])
{
  double loss[MOST_RATES];
  int rank, best = 0;
  RengaCallMPI(MPI_Reduce(mine, loss, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
  RengaCallMPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  if (rank != 0) return RENGA_SUCCESS;
  for (int r = 0; r < count; r++) {
    RengaCall(RengaPrintf(MPI_COMM_SELF, "learning rate %-8g loss %.6f\n", rate[r], loss[r]));
    if (loss[r] < loss[best]) best = r;
  }
  RengaCall(RengaPrintf(MPI_COMM_SELF, "best: -optimizer_learning_rate %g\n", rate[best]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Sweep(void)
{
  int count = 0, rank, size, first;
  int64_t steps;
  double rate[MOST_RATES], loss, mine[MOST_RATES] = {0};
  MPI_Comm group;
  RengaCall(ReadRates(&count, rate));
  RengaCall(RengaOptionsGetInt64("sweep_steps", &steps, NULL));
  RengaCallMPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  RengaCallMPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  RengaCheck(count >= 1 && size % count == 0, MPI_COMM_WORLD, RENGA_ERR_OPTION,
             "%d ranks cannot be divided into %d equal groups, one for each of -sweep_rates", size,
             count);
  const int number = rank / (size / count);
  RengaCallMPI(MPI_Comm_split(MPI_COMM_WORLD, number, rank, &group));
  RengaCallMPI(MPI_Comm_rank(group, &first));
  RengaCall(TrainGroup(group, rate[number], steps, &loss));
  RengaCallMPI(MPI_Comm_free(&group));
  if (first == 0) mine[number] = loss;
  RengaCall(Report(count, rate, mine));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaOptionsRegister("Sweep", sizeof rows / sizeof rows[0], rows));
  bool answered;
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(RengaAnswerHelp(&answered)); /* -help, -version */
  if (!answered) RengaCallAbort(Sweep());
  RengaCallAbort(RengaFinalize());
  return 0;
}
