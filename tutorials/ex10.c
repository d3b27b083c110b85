/* TEST ranks: 1 2 4 */
/* Example 10: operators, costs and messages of your own.

   A program may add an operator that no other library has, say what calls take where it knows more
   than a measurement, and carry tensors by a library of its own. Here the operator is an activation
   with a parameter for each column. Its split rule lets two ranks have half of the columns each, as
   of Renga's own activations. Costs follow from counts of FLOPs and bytes, and messages are MPI's,
   on communicators of the program's own, which counts them. The loss is that of one rank.

     mpiexec -n 4 ./ex10
     mpiexec -n 4 ./ex10 -transport_type mpi -profile_type analytic
     ./ex10 -help                                   -transport_type lists counted
*/
#include <math.h>
#include <renga.h>
#include <string.h>

static const char help[] = "Trains with an operator, costs and a transport of the program's own.\n";

enum { batch_samples = 32, steps = 40, columns = 32, most_groups = 16 };

/* The operator: y = x + sin(a x)^2 / a, for x [N, d] and a [d]. Liu Ziyin, Hartwig and Ueda,
   "Neural Networks Fail to Learn Periodic Functions and How to Fix It", NeurIPS 2020. */
static RengaErrorCode ShapeSnake(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0], *a = &call->in[1];
  RengaCheck(x->ndim == 2 && a->ndim == 1 && x->dim[1] == a->dim[0], MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "%s wants x [N, d] and a [d]", call->op->name);
  if (call->op->flags & RENGA_OP_OUTPUT_GIVEN) return RENGA_SUCCESS; /* the gradient: dx and da */
  call->out[0].ndim = 2;
  for (int d = 0; d < 2; d++) call->out[0].dim[d] = x->dim[d];
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSnake(const RengaOpCall *call, const RengaKernelContext *context,
                               const void *const in[], void *const out[], void *user)
{
  const float *x = in[0], *a = in[1];
  float *y = out[0];
  const int64_t count = RengaTensorSpecCount(&call->in[0]), d = call->in[1].dim[0];
  (void)context;
  (void)user;
  for (int64_t i = 0; i < count; i++) {
    const float sine = sinf(a[i % d] * x[i]);
    y[i] = x[i] + sine * sine / a[i % d];
  }
  return RENGA_SUCCESS;
}

/* x, a, y, dy to dx and da, which is the sum over the samples. */
static RengaErrorCode RunSnakeGradient(const RengaOpCall *call, const RengaKernelContext *context,
                                       const void *const in[], void *const out[], void *user)
{
  const float *x = in[0], *a = in[1], *y = in[2], *dy = in[3];
  float *dx = out[0], *da = out[1];
  const int64_t count = RengaTensorSpecCount(&call->in[0]), d = call->in[1].dim[0];
  (void)context;
  (void)user;
  for (int64_t k = 0; k < d; k++) da[k] = 0;
  for (int64_t i = 0; i < count; i++) {
    const float factor = a[i % d], slope = sinf(2 * factor * x[i]);
    dx[i] = dy[i] * (1 + slope);
    da[i % d] += dy[i] * (x[i] * slope - (y[i] - x[i])) / factor;
  }
  return RENGA_SUCCESS;
}

/* split: columns stand for themselves, in x, a and y alike; rows are in no lane. The gradient needs
   no rule: it is that of a lane's columns. */
static RengaErrorCode RegisterOperator(void)
{
  static const RengaOperator snake = {.name = "Snake",
                                      .min_in = 2,
                                      .max_in = 2,
                                      .min_out = 1,
                                      .max_out = 1,
                                      .shape = ShapeSnake,
                                      .types = "SS>S",
                                      .split = "-a a > -a"};
  static const RengaOperator back = {.name = "SnakeGradient",
                                     .min_in = 4,
                                     .max_in = 4,
                                     .min_out = 2,
                                     .max_out = 2,
                                     .flags = RENGA_OP_OUTPUT_GIVEN,
                                     .shape = ShapeSnake,
                                     .types = "SSSS>SS"};
  static const RengaKernelRule run = {"Snake", RunSnake, NULL};
  static const RengaKernelRule run_back = {"SnakeGradient", RunSnakeGradient, NULL};
  static const RengaGradientRule gradient = {"Snake", "SnakeGradient"};
  RengaCall(RengaOperatorRegister(&snake));
  RengaCall(RengaOperatorRegister(&back));
  RengaCall(RengaKernelRegister(&run));
  RengaCall(RengaKernelRegister(&run_back));
  RengaCall(RengaGradientRegister(&gradient));
  return RENGA_SUCCESS;
}

/* The costs: a call takes the longer of its arithmetic and its traffic, on a core of 10 GFLOP/s and
   10 GB/s. Sines are slow. */
static RengaErrorCode PriceCall(RengaProfile profile, const RengaOpCall *call, double *seconds,
                                void *user)
{
  const bool sines = strncmp(call->op->name, "Snake", 5) == 0;
  const double work = RengaOperatorFlops(call) * (sines ? 20 : 1) / 10e9;
  const double traffic = RengaOperatorBytes(call) / 10e9;
  (void)profile;
  (void)user;
  *seconds = 1e-6 + (work > traffic ? work : traffic);
  return RENGA_SUCCESS;
}

static RengaErrorCode RegisterProfile(void)
{
  static const RengaProfileRule counted = {
      .size = sizeof counted, .name = "counted", .price = PriceCall};
  RengaCall(RengaProfileRegister(&counted));
  return RENGA_SUCCESS;
}

/* The transport: messages are MPI's, of all ranks on one communicator, and of each group of ranks
   that adds up gradients on one more. A rule never waits: Renga asks whether a message is done. */
typedef struct {
  MPI_Comm comm[1 + most_groups];
  int count;
} Lines;

static int64_t bytes_sent;

static RengaErrorCode OpenLine(MPI_Comm comm, Lines *lines)
{
  RengaCheck(lines->count <= most_groups, MPI_COMM_SELF, RENGA_ERR_SUPPORT, "too many groups");
  RengaCallMPI(MPI_Comm_dup(comm, &lines->comm[lines->count++]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Open(MPI_Comm comm, void **state, void *user)
{
  Lines *lines;
  (void)user;
  RengaCall(RengaMalloc(1, &lines));
  *state = lines;
  RengaCall(OpenLine(comm, lines));
  return RENGA_SUCCESS;
}

static RengaErrorCode Connect(void *state, int n_routes, const RengaRoute routes[], int n_groups,
                              const MPI_Comm groups[], void *user)
{
  (void)n_routes; /* a library that connects two ranks by a call would do so here */
  (void)routes;
  (void)user;
  for (int g = 0; g < n_groups; g++) RengaCall(OpenLine(groups[g], state));
  return RENGA_SUCCESS;
}

static RengaErrorCode Close(void **state, void *user)
{
  Lines *lines = *state;
  (void)user;
  for (int c = 0; c < lines->count; c++) RengaCallMPI(MPI_Comm_free(&lines->comm[c]));
  RengaFree(state);
  return RENGA_SUCCESS;
}

static RengaErrorCode Send(void *state, RengaTransportMessage *message, void *user)
{
  MPI_Request *request;
  const MPI_Comm comm = ((Lines *)state)->comm[1 + message->group];
  RengaCall(RengaMalloc(1, &request));
  message->own = request;
  RengaCallMPI(MPI_Isend(message->memory, (int)message->bytes, MPI_BYTE, message->peer,
                         message->tag, comm, request));
  *(int64_t *)user += (int64_t)message->bytes;
  return RENGA_SUCCESS;
}

static RengaErrorCode Receive(void *state, RengaTransportMessage *message, void *user)
{
  MPI_Request *request;
  const MPI_Comm comm = ((Lines *)state)->comm[1 + message->group];
  (void)user;
  RengaCall(RengaMalloc(1, &request));
  message->own = request;
  RengaCallMPI(MPI_Irecv(message->memory, (int)message->bytes, MPI_BYTE, message->peer,
                         message->tag, comm, request));
  return RENGA_SUCCESS;
}

/* bytes: a rank that fails in a sum sends none, and so the others hear of it. */
static RengaErrorCode Test(void *state, RengaTransportMessage *message, bool *done, void *user)
{
  MPI_Status status;
  int arrived, bytes;
  (void)state;
  (void)user;
  RengaCallMPI(MPI_Test(message->own, &arrived, &status));
  if (!arrived) return RENGA_SUCCESS;
  RengaCallMPI(MPI_Get_count(&status, MPI_BYTE, &bytes)); /* of a send it says nothing */
  message->bytes = (size_t)bytes;
  RengaFree(&message->own);
  *done = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode RegisterTransport(void)
{
  static const RengaTransportRule counted = {.size = sizeof counted,
                                             .name = "counted",
                                             .does = "MPI has messages that are counted",
                                             .create = Open,
                                             .destroy = Close,
                                             .connect = Connect,
                                             .send = Send,
                                             .receive = Receive,
                                             .test = Test,
                                             .user = &bytes_sent};
  RengaCall(RengaTransportRegister(&counted));
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

static RengaErrorCode AddSnake(RengaGraph graph, const char *parameter, RengaValue x, RengaValue *y)
{
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {columns}};
  const RengaInit init = {.kind = RENGA_INIT_UNIFORM, .a = 0.5, .b = 1.5};
  RengaValue in[2] = {x};
  RengaCall(RengaGraphAddParameter(graph, parameter, &spec, &init, &in[1]));
  *y = RENGA_VALUE_NONE; /* a new one */
  RengaCall(RengaGraphAddNode(graph, "Snake", NULL, NULL, 2, in, 1, NULL, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode Build(RengaComm comm, RengaGraph *graph)
{
  const RengaTensorSpec x_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 8}};
  const RengaTensorSpec label_spec = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaValue x, labels, y, loss;
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphAddInput(*graph, "x", &x_spec, &x));
  RengaCall(RengaGraphAddInput(*graph, "labels", &label_spec, &labels));
  RengaCall(RengaGraphAddLinear(*graph, "first", x, columns, true, 0.3, &y));
  RengaCall(AddSnake(*graph, "first.a", y, &y));
  RengaCall(RengaGraphAddLinear(*graph, "second", y, 8, true, 0.3, &y));
  RengaCall(RengaGraphAddLinear(*graph, "third", y, columns, true, 0.3, &y));
  RengaCall(AddSnake(*graph, "third.a", y, &y));
  RengaCall(RengaGraphAddLinear(*graph, "fourth", y, 3, true, 0.3, &y));
  RengaCall(RengaGraphAddCrossEntropy(*graph, y, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(*graph, loss));
  RengaCall(RengaGraphSetLanes(*graph, 2)); /* on any layout, or bits would differ */
  RengaCall(RengaGraphSetFromOptions(*graph));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

/* Two ranks compute a stage together, each half of the columns; four are two stages. */
static RengaErrorCode MakePlan(RengaComm comm, RengaGraph graph, RengaSettings settings,
                               RengaPlan *plan)
{
  const int ranks = RengaCommGetSize(comm);
  RengaMachine machine;
  RengaProfile profile;
  RengaPartition partition;
  RengaPlanPrediction prediction;
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineLoad(machine, "laptop")); /* its links and memory */
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetType(profile, "counted"));
  RengaCall(RengaProfileSetFromOptions(profile)); /* -profile_type */
  RengaCall(RengaProfileSetMachine(profile, machine));
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetSettings(partition, settings));
  RengaCall(RengaPartitionSetBatch(partition, batch_samples, 4));
  RengaCall(RengaPartitionSetProfile(partition, profile));
  RengaCall(RengaPartitionSetTensor(partition, ranks > 1 ? 2 : 1));
  RengaCall(RengaPartitionSetStages(partition, ranks > 2 ? 2 : 1));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPlanGetPrediction(*plan, &prediction));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "a step is to take %.3g s\n", prediction.step));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

static RengaErrorCode Train(RengaPipeline pipeline)
{
  const RengaBatch batch = {.samples = batch_samples, .read = Read};
  double first = 0, loss = 0;
  for (int64_t step = 0; step < steps; step++) {
    RengaCall(RengaPipelineStep(pipeline, &batch, &loss));
    if (step == 0) first = loss;
  }
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "loss %.9g after %d steps, %.9g before\n", loss, (int)steps,
                        first));
  RengaCheck(loss < 0.5 * first, MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "the loss only fell from %g to %g", first, loss);
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaSettings settings;
  RengaOptimizer optimizer;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(Build(comm, &graph));
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineGetSettings(pipeline, &settings));
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_ADAM));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, 0.01));
  RengaCall(RengaSettingsSetTransport(settings, "counted"));
  RengaCall(RengaPipelineSetFromOptions(pipeline));
  RengaCall(MakePlan(comm, graph, settings, &plan));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(Train(pipeline));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommSumInt64(comm, 1, &bytes_sent, "what all ranks have sent"));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "%lld bytes went by the program's transport\n",
                        (long long)bytes_sent));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  bool answered;
  RengaCallAbort(RegisterOperator());
  RengaCallAbort(RegisterProfile());
  RengaCallAbort(RegisterTransport());
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(RengaAnswerHelp(&answered)); /* -help, -version */
  if (!answered) RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
