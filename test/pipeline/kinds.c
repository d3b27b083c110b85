/* TEST ranks: 1 4 timeout: 300 */
/* Networks of every kind that partitioners meet: nested modules, a shared parameter, a shared
   table, fork and join, an input that many read, buffers, outputs that are inputs, one operator
   only, the loss beside other outputs, products of activations, several losses, functions of a
   file. Losses, norms, parameters and outputs have the same bits in 1, 2 and 4 stages and with 2
   replicas; more stages than nodes are refused. */
#include "../plan/plantest.h"
#include "functions.h"
#include "run.h"

static RengaErrorCode Real(RengaGraph graph, const char *name, int64_t width, RengaValue *x)
{
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, width}};
  RengaCall(RengaGraphAddInput(graph, name, &spec, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode Integers(RengaGraph graph, const char *name, int64_t count, RengaValue *x)
{
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = count ? 2 : 1, .dim = {-1, count}};
  RengaCall(RengaGraphAddInput(graph, name, &spec, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode Parameter(RengaGraph graph, const char *name, int64_t rows, int64_t columns,
                                RengaValue *w)
{
  const RengaInit init = {.kind = RENGA_INIT_NORMAL, .b = 0.4};
  const RengaTensorSpec spec = {
      .type = RENGA_FLOAT32, .ndim = columns ? 2 : 1, .dim = {rows, columns}};
  RengaCall(RengaGraphAddParameter(graph, name, &spec, &init, w));
  return RENGA_SUCCESS;
}

static RengaErrorCode Apply(RengaGraph graph, const char *op, RengaValue a, RengaValue b,
                            RengaValue *y)
{
  const RengaValue in[2] = {a, b};
  RengaValue made;
  RengaCall(RengaGraphAddNode(graph, op, NULL, NULL, 2, in, 1, NULL, &made));
  *y = made;
  return RENGA_SUCCESS;
}

/* tanh(x w + b) */
static RengaErrorCode Dense(RengaGraph graph, const char *name, int64_t width, RengaValue *x)
{
  RengaCall(RengaGraphAddLinear(graph, name, *x, width, true, 0.4, x));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", *x, x));
  return RENGA_SUCCESS;
}

/* Scores are an output beside the loss. */
static RengaErrorCode Finish(RengaGraph graph, RengaValue scores)
{
  RengaValue labels, loss;
  RengaCall(Integers(graph, "labels", 0, &labels));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode Pool(RengaGraph graph, RengaValue *x)
{
  RengaAttributes attributes = {0};
  RengaValue y;
  RengaCall(RengaAttributesSetInts(&attributes, "kernel_shape", 2, (const int64_t[]){2, 2}));
  RengaCall(RengaAttributesSetInts(&attributes, "strides", 2, (const int64_t[]){2, 2}));
  RengaCall(RengaGraphAddNode(graph, "MaxPool", NULL, &attributes, 1, x, 1, NULL, &y));
  RengaAttributesFree(&attributes);
  *x = y;
  return RENGA_SUCCESS;
}

/* Convolutions and pooling, then linear layers (LeCun et al. 1998). */
static RengaErrorCode Basic(RengaGraph graph)
{
  const RengaTensorSpec image = {.type = RENGA_FLOAT32, .ndim = 4, .dim = {-1, 1, 12, 12}};
  RengaValue x;
  RengaCall(RengaGraphAddInput(graph, "image", &image, &x));
  for (int i = 0; i < 2; i++) {
    char name[16];
    snprintf(name, sizeof name, "convolution.%d", i);
    RengaCall(RengaGraphAddConvolution(graph, name, x, 3 + 2 * i, 3, 1, 1, true, &x));
    RengaCall(RengaGraphAddUnary(graph, "Relu", x, &x));
    RengaCall(Pool(graph, &x));
  }
  RengaCall(RengaGraphAddReshape(graph, x, 2, (const int64_t[]){-1, 45}, &x));
  RengaCall(Dense(graph, "wide", 12, &x));
  RengaCall(RengaGraphAddLinear(graph, "scores", x, 5, true, 0.4, &x));
  return Finish(graph, x);
}

/* Parameters of one and of two elements: fewer than there are replicas or lanes. */
static RengaErrorCode Small(RengaGraph graph)
{
  RengaValue x, one, two;
  RengaCall(Real(graph, "x", 2, &x));
  RengaCall(Parameter(graph, "one", 1, 0, &one));
  RengaCall(Parameter(graph, "two", 2, 0, &two));
  RengaCall(Apply(graph, "Mul", x, one, &x));
  RengaCall(Apply(graph, "Add", x, two, &x));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", x, &x));
  RengaCall(Apply(graph, "Mul", x, two, &x));
  return Finish(graph, x);
}

/* Modules in modules, three deep; some are a chain, some a sum of two. */
static RengaErrorCode Nest(RengaGraph graph, const char *prefix, int depth, RengaValue *x)
{
  for (int i = 0; i < 2; i++) {
    char name[64];
    RengaValue y = *x;
    snprintf(name, sizeof name, "%s.%d", prefix, i);
    if (depth > 0)
      RengaCall(Nest(graph, name, depth - 1, &y));
    else
      RengaCall(Dense(graph, name, 6, &y));
    if (i)
      RengaCall(RengaGraphAddAdd(graph, *x, y, x));
    else
      *x = y;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Nested(RengaGraph graph)
{
  RengaValue x;
  RengaCall(Real(graph, "x", 6, &x));
  RengaCall(Nest(graph, "outer", 2, &x));
  return Finish(graph, x);
}

/* One matrix in five places, twice from the other side; the loss has a mean of the scores. */
static RengaErrorCode SharedParameter(RengaGraph graph)
{
  RengaValue x, w, flipped, mean, loss;
  RengaAttributes attributes = {0};
  RengaCall(Real(graph, "x", 6, &x));
  RengaCall(Parameter(graph, "shared", 6, 6, &w));
  RengaCall(RengaGraphAddTranspose(graph, w, (const int64_t[]){1, 0}, &flipped));
  for (int i = 0; i < 5; i++) {
    RengaCall(RengaGraphAddMatMul(graph, x, i % 2 ? flipped : w, &x));
    RengaCall(RengaGraphAddUnary(graph, "Tanh", x, &x));
  }
  RengaCall(Finish(graph, x));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaGraphAddNode(graph, "ReduceMean", NULL, &attributes, 1, &x, 1, NULL, &mean));
  RengaAttributesFree(&attributes);
  RengaCall(RengaGraphGetLoss(graph, &loss));
  RengaCall(RengaGraphAddAdd(graph, loss, mean, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

/* A table that two inputs are looked up in, and that gives the scores. */
static RengaErrorCode SharedEmbedding(RengaGraph graph)
{
  RengaAttributes attributes = {0};
  RengaValue first, second, labels, table, x, y, loss;
  RengaCall(Integers(graph, "first", 4, &first));
  RengaCall(Integers(graph, "second", 4, &second));
  RengaCall(Integers(graph, "labels", 4, &labels));
  RengaCall(Parameter(graph, "table", 9, 6, &table));
  RengaCall(RengaGraphAddEmbedding(graph, table, first, &x));
  RengaCall(Dense(graph, "a", 6, &x));
  RengaCall(Dense(graph, "b", 6, &x));
  RengaCall(RengaGraphAddEmbedding(graph, table, second, &y));
  RengaCall(RengaGraphAddAdd(graph, x, y, &x));
  RengaCall(Dense(graph, "c", 6, &x));
  RengaCall(RengaAttributesSetInt(&attributes, "transB", 1));
  RengaCall(RengaGraphAddNode(graph, "Linear", "scores", &attributes, 2,
                              (const RengaValue[]){x, table}, 1, NULL, &y));
  RengaAttributesFree(&attributes);
  RengaCall(RengaGraphAddCrossEntropy(graph, y, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, y));
  return RENGA_SUCCESS;
}

/* Branches of different lengths that are joined by sum and by concatenation, and forked again. */
static RengaErrorCode ForkJoin(RengaGraph graph)
{
  RengaAttributes attributes = {0};
  RengaValue x, branch[3];
  RengaCall(Real(graph, "x", 6, &x));
  for (int fork = 0; fork < 2; fork++) {
    for (int b = 0; b < 3; b++) {
      branch[b] = x;
      for (int i = 0; i < b; i++) {
        char name[32];
        snprintf(name, sizeof name, "fork%d.branch%d.%d", fork, b, i);
        RengaCall(Dense(graph, name, 6, &branch[b]));
      }
    }
    RengaCall(RengaGraphAddAdd(graph, branch[0], branch[1], &branch[1]));
    RengaCall(RengaAttributesSetInt(&attributes, "axis", 1));
    RengaCall(RengaGraphAddNode(graph, "Concat", NULL, &attributes, 2, &branch[1], 1, NULL, &x));
    RengaAttributesFree(&attributes);
    RengaCall(Dense(graph, fork ? "join1" : "join0", 6, &x));
  }
  return Finish(graph, x);
}

/* Every layer reads the input of the data set again. */
static RengaErrorCode SharedInput(RengaGraph graph)
{
  RengaValue input, x, y;
  RengaCall(Real(graph, "x", 6, &input));
  x = input;
  for (int i = 0; i < 5; i++) {
    char name[16];
    snprintf(name, sizeof name, "layer%d", i);
    RengaCall(Dense(graph, name, 6, &x));
    RengaCall(Apply(graph, i % 2 ? "Mul" : "Add", x, input, &y));
    x = y;
  }
  return Finish(graph, x);
}

/* Numbers that are kept but not trained: running statistics, a factor, a constant mask. */
static RengaErrorCode Buffers(RengaGraph graph)
{
  static const float mask[6] = {1, 0, 1, 1, 0.5f, 1};
  const RengaInit init = {.kind = RENGA_INIT_UNIFORM, .a = 0.5, .b = 1.5};
  const RengaTensorSpec six = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {6}};
  RengaValue x, factor, constant;
  RengaCall(Real(graph, "x", 6, &x));
  RengaCall(RengaGraphAddState(graph, "factor", &six, &init, &factor));
  RengaCall(RengaGraphAddConstant(graph, "mask", &six, mask, &constant));
  for (int i = 0; i < 3; i++) {
    char name[16];
    snprintf(name, sizeof name, "layer%d", i);
    RengaCall(Dense(graph, name, 6, &x));
    RengaCall(Apply(graph, "Mul", x, i % 2 ? constant : factor, &x));
    snprintf(name, sizeof name, "norm%d", i);
    RengaCall(RengaGraphAddBatchNormalization(graph, name, x, 1e-5, 0.9, &x));
  }
  return Finish(graph, x);
}

/* Outputs that are an input, the same input again, and what nothing else reads. */
static RengaErrorCode Identity(RengaGraph graph)
{
  RengaValue x, side, y;
  RengaCall(Real(graph, "x", 6, &x));
  RengaCall(Real(graph, "side", 3, &side));
  RengaCall(RengaGraphAddOutput(graph, x));
  RengaCall(RengaGraphAddOutput(graph, side));
  RengaCall(RengaGraphAddUnary(graph, "Identity", x, &y));
  RengaCall(RengaGraphAddOutput(graph, y));
  y = x;
  RengaCall(Dense(graph, "a", 6, &y));
  RengaCall(Dense(graph, "unused by the loss", 3, &side));
  RengaCall(RengaGraphAddOutput(graph, side));
  RengaCall(Dense(graph, "b", 6, &y));
  return Finish(graph, y);
}

/* Sums and matrix products of two values that both depend on the data. */
static RengaErrorCode Products(RengaGraph graph)
{
  const RengaTensorSpec matrix = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {-1, 4, 6}};
  RengaValue a, b, y;
  RengaCall(RengaGraphAddInput(graph, "a", &matrix, &a));
  RengaCall(RengaGraphAddInput(graph, "b", &matrix, &b));
  RengaCall(Dense(graph, "left", 6, &a));
  RengaCall(Dense(graph, "right", 6, &b));
  RengaCall(Apply(graph, "Mul", a, b, &y));
  RengaCall(RengaGraphAddTranspose(graph, y, (const int64_t[]){0, 2, 1}, &y));
  RengaCall(RengaGraphAddMatMul(graph, a, y, &y));
  RengaCall(RengaGraphAddMatMul(graph, y, b, &y));
  RengaCall(RengaGraphAddReshape(graph, y, 2, (const int64_t[]){-1, 24}, &y));
  return Finish(graph, y);
}

/* A loss in the middle of the network, one at its end, and one of squares, with weights. */
static RengaErrorCode Losses(RengaGraph graph)
{
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32};
  RengaAttributes attributes = {0};
  RengaValue x, side, labels, weight, loss[3];
  RengaCall(Real(graph, "x", 6, &x));
  RengaCall(Real(graph, "side", 6, &side));
  RengaCall(Integers(graph, "labels", 0, &labels));
  RengaCall(RengaGraphAddConstant(graph, NULL, &scalar, &(float){0.3f}, &weight));
  for (int i = 0; i < 3; i++) {
    char name[16];
    snprintf(name, sizeof name, "layer%d", i);
    RengaCall(Dense(graph, name, 6, &x));
    if (i < 2) RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &loss[i]));
  }
  RengaCall(Apply(graph, "Sub", x, side, &x));
  RengaCall(Apply(graph, "Mul", x, x, &x));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaGraphAddNode(graph, "ReduceMean", NULL, &attributes, 1, &x, 1, NULL, &loss[2]));
  RengaAttributesFree(&attributes);
  for (int i = 1; i < 3; i++) {
    RengaCall(Apply(graph, "Mul", loss[i], weight, &loss[i]));
    RengaCall(RengaGraphAddAdd(graph, loss[0], loss[i], &loss[0]));
  }
  RengaCall(RengaGraphSetLoss(graph, loss[0]));
  return RENGA_SUCCESS;
}

static char functions[64];

/* One file for all ranks, by the first of them. It stays until the end: first values are read from
   it when a stage is set up. */
static RengaErrorCode WriteFile(RengaComm comm)
{
  long number = (long)getpid();
  MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  snprintf(functions, sizeof functions, "pipeline-kinds-%ld.onnx", number);
  if (RengaCommGetRank(comm) == 0) {
    Message *model = NewFunctions();
    RengaCall(WriteMessage(model, functions));
    MessageFree(model);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return RENGA_SUCCESS;
}

static RengaErrorCode Functions(RengaGraph graph)
{
  return RengaGraphLoad(graph, functions);
}

static const Run networks[] = {
    {.graph = "basic", .build = Basic, .classes = 5},
    {.graph = "small parameters", .build = Small, .classes = 2},
    {.graph = "nested modules", .build = Nested, .classes = 6},
    {.graph = "shared parameter", .build = SharedParameter, .classes = 6},
    {.graph = "shared embedding", .build = SharedEmbedding, .classes = 9},
    {.graph = "fork and join", .build = ForkJoin, .classes = 6},
    {.graph = "shared input", .build = SharedInput, .classes = 6},
    {.graph = "buffers", .build = Buffers, .classes = 6},
    {.graph = "identity outputs", .build = Identity, .classes = 6},
    {.graph = "products", .build = Products, .classes = 24},
    {.graph = "losses", .build = Losses, .classes = 6},
    {.graph = "functions", .build = Functions, .classes = 6},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

static const struct {
  int stages, replicas, chunks;
} layouts[] = {{2, 1, 1}, {4, 1, 1}, {2, 2, 1}, {1, 2, 1}, {3, 1, 3}, {4, 1, 2}, {4, 2, 2}};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static const int64_t samples[] = {6, 5, 6};

static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, Run run)
{
  Result expected, result;
  run.batch = 6;
  run.microbatch = 3;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.device = "cpu";
  run.schedule = "1f1b";
  run.poison = true;
  run.stages = run.replicas = 1;
  RengaCall(RunAll(self, &run, &expected));
  for (int i = 0; i < run.steps; i++) Expect(isfinite(expected.loss[i]) && expected.norm[i] > 0);
  Expect(expected.loss[2] != expected.loss[0]);
  for (int i = 0; i < N_LAYOUTS; i++) {
    run.stages = layouts[i].stages;
    run.replicas = layouts[i].replicas;
    run.chunks = layouts[i].chunks;
    if (run.stages / run.chunks * run.replicas > RengaCommGetSize(comm)) continue;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, &expected, &result));
    RengaCheck(RengaCommGetRank(comm) != 0 || result.outputs == expected.outputs, MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "%s: %d stages x %d replicas have other outputs", run.graph,
               run.stages, run.replicas);
  }
  return RENGA_SUCCESS;
}

/* One linear layer, without a loss: nothing to train, but outputs. */
static RengaErrorCode OneOperator(RengaGraph graph)
{
  RengaValue x;
  RengaCall(Real(graph, "x", 3, &x));
  RengaCall(RengaGraphAddLinear(graph, "only", x, 2, true, 0.4, &x));
  RengaCall(RengaGraphAddOutput(graph, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunForward(RengaComm comm, const Run *run, uint64_t *hash)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCall(RunBuild(comm, run, &graph));
  RengaCall(RunPlan(comm, run, graph, &plan));
  RengaCall(RunPipeline(comm, run, graph, plan, &pipeline));
  Source source = {.graph = graph, .classes = 2};
  const RengaBatch batch = {run->batch, RunRead, &source};
  RengaCall(RunOutputs(graph, pipeline, &batch, hash));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOneOperator(RengaComm self, RengaComm comm)
{
  Run run = {.graph = "one operator",
             .build = OneOperator,
             .batch = 4,
             .microbatch = 2,
             .device = "cpu",
             .stages = 1,
             .replicas = 1};
  uint64_t expected = 0, found = 0;
  RengaCall(RunForward(self, &run, &expected));
  run.replicas = RengaCommGetSize(comm) > 1 ? 2 : 1;
  RengaCall(RunForward(comm, &run, &found));
  if (RengaCommGetRank(comm) == 0) TestTrue(found == expected && found != 0);
  return RENGA_SUCCESS;
}

/* Of a plan by hand, and of each way to make one. */
static RengaErrorCode CheckTooManyStages(RengaComm comm)
{
  const Run run = {.graph = "one operator", .build = OneOperator};
  const RengaPlanStage stages[2] = {{.first = 0, .last = 1, .shape = RengaStageShapePlain(1)},
                                    {.first = 1, .last = 1, .shape = RengaStageShapePlain(1)}};
  const int rank = RengaCommGetRank(comm);
  RengaGraph graph;
  RengaPlan plan;
  RengaPartition partition;
  RengaCall(RunBuild(comm, &run, &graph));
  RengaCall(RengaPlanCreate(comm, &plan));
  TestError(RengaPlanSetStages(plan, graph, 2, stages), RENGA_ERR_PLAN,
            rank == 0 ? "2 stages, but the network has only 1 nodes: use at most 1 stages" : "");
  RengaCall(RengaPlanDestroy(&plan));
  if (RengaCommGetSize(comm) > 1) {
    RengaCall(RengaPartitionCreate(comm, &partition));
    RengaCall(RengaPartitionSetGraph(partition, graph));
    RengaCall(RengaPartitionSetStages(partition, 2));
    TestError(RengaPartitionSolve(partition, &plan), RENGA_ERR_PLAN,
              rank == 0 ? "2 stages, but the network has only 1 nodes: ask for fewer stages" : "");
    RengaCall(RengaPartitionDestroy(&partition));
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  RengaCall(WriteFile(comm));
  for (int n = 0; n < N_NETWORKS; n++) RengaCall(CheckNetwork(self, comm, networks[n]));
  RengaCall(CheckOneOperator(self, comm));
  RengaCall(CheckTooManyStages(comm));
  MPI_Barrier(MPI_COMM_WORLD);
  if (RengaCommGetRank(comm) == 0) remove(functions);
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
