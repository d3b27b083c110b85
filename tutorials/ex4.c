/* TEST ranks: 1 2 4 */
/* Example 4: train on ranks, with data of your own.

   The network, the layout and the training loop are yours; Renga partitions, compiles and runs.
   The loss is the same to the last bit whatever the number of ranks, stages and replicas.

     mpiexec -n 4 ./ex4 -layout_pipeline 2 -layout_data 2
     mpiexec -n 2 ./ex4 -layout_pipeline 2 -schedule_type gpipe -log_view
*/
#include <renga.h>

static const char help[] = "Learns to tell whether a point lies inside a circle.\n";

enum { batch_samples = 64, steps = 60 };

/* Called by the pipeline on each rank that needs a field: 0 is the input x [2], 1 the label. The
   data depend on the sample only, so any rank may ask for any of them. */
typedef struct {
  int64_t step;
} Points;

static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Points *points = user;
  for (int64_t i = 0; i < count; i++) {
    float x[2];
    RengaRandomUniform(7, 0, (uint64_t)(2 * (points->step * batch_samples + first + i)), 2, x);
    for (int k = 0; k < 2; k++) x[k] = 2 * x[k] - 1;
    if (field == 0) {
      for (int k = 0; k < 2; k++) ((float *)buffer)[2 * i + k] = x[k];
    } else {
      ((int64_t *)buffer)[i] = x[0] * x[0] + x[1] * x[1] < 0.64f;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Build(RengaGraph graph)
{
  const RengaTensorSpec x_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 2}};
  const RengaTensorSpec label_spec = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaValue x, labels, loss;
  RengaCall(RengaGraphAddInput(graph, "x", &x_spec, &x));
  RengaCall(RengaGraphAddInput(graph, "labels", &label_spec, &labels));
  for (int layer = 0; layer < 3; layer++) {
    char name[24];
    snprintf(name, sizeof name, "layer%d", layer);
    RengaCall(RengaGraphAddLinear(graph, name, x, layer < 2 ? 32 : 2, true, 0.5, &x));
    if (layer < 2) RengaCall(RengaGraphAddUnary(graph, "Tanh", x, &x));
  }
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  RengaCall(RengaGraphSetUp(graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePlan(RengaComm comm, RengaGraph graph, RengaPlan *plan)
{
  RengaPartition partition;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, batch_samples, 8));
  RengaCall(RengaPartitionSetFromOptions(partition)); /* -layout_pipeline 2 -layout_data 2 */
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(RengaComm comm, RengaGraph graph, RengaPlan plan)
{
  RengaPipeline pipeline;
  RengaOptimizer optimizer;
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_ADAM));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 0.02));
  RengaCall(RengaPipelineSetFromOptions(pipeline));
  RengaCall(RengaPipelineSetUp(pipeline)); /* here all memory is planned and taken, once */

  double first = 0, loss = 0;
  for (int64_t step = 0; step < steps; step++) {
    Points points = {step};
    const RengaBatch batch = {.samples = batch_samples, .read = Read, .user = &points};
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
    if (step == 0) first = loss;
    if (step % 10 == 0)
      RengaCall(RengaPrintf(MPI_COMM_WORLD, "step %3lld  loss %.9g\n", (long long)step, loss));
  }
  uint64_t digest;
  RengaCall(RengaPipelineGetDigest(pipeline, &digest));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "final loss %.9g, parameter digest 0x%016llx\n", loss,
                        (unsigned long long)digest));
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
  RengaCall(Build(graph));
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
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(RengaAnswerHelp(&answered)); /* -help, -version */
  if (!answered) RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
