/* TEST ranks: 1 2 4 */
/* An operator from outside: it trains as the same formula made of Renga's own operators, to the
   same bits on one rank and on all, in lanes too, its errors fail the step on all ranks, and what
   cannot be is refused. */
#include "../check.h"
#include "../onnx/write.h"
#include "renga.h"
#include <math.h>

enum { SAMPLES = 24, STEPS = 5, INPUTS = 6, WIDTH = 8, TOKENS = 5 };
static const double RATE = 1e-2;
static bool fails, failed; /* the kernel, where it is asked for; on this rank */

/* y = tanh(x w), x [N, …, d], w [d] */
static RengaErrorCode ShapeOf(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0], *w = &call->in[1];
  RengaCheck(x->ndim >= 2 && w->ndim == 1 && x->dim[x->ndim - 1] == w->dim[0], MPI_COMM_SELF,
             RENGA_ERR_SHAPE, "%s wants x [N, ..., d] and w [d]", call->op->name);
  for (int i = 0; i < call->n_out; i++)
    if (!(call->op->flags & RENGA_OP_OUTPUT_GIVEN)) call->out[i].ndim = x->ndim;
  for (int d = 0; d < x->ndim && call->n_out == 1; d++) call->out[0].dim[d] = x->dim[d];
  return RENGA_SUCCESS;
}

static RengaErrorCode RunForward(const RengaOpCall *call, const RengaKernelContext *context,
                                 const void *const in[], void *const out[], void *user)
{
  const float *x = in[0], *w = in[1];
  float *y = out[0];
  const double factor = RengaOpCallReal(call, "factor");
  failed = fails && context->sample == SAMPLES / 2;
  if (failed) return RENGA_ERR_NUMERIC; /* and says nothing */
  ++*(int *)user;
  for (int64_t i = 0; i < RengaTensorSpecCount(&call->in[0]); i++)
    y[i] = tanhf((float)factor * x[i] * w[i % call->in[1].dim[0]]);
  return RENGA_SUCCESS;
}

/* x, w, y, dy to dx, dw */
static RengaErrorCode RunBackward(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[], void *user)
{
  const float *x = in[0], *w = in[1], *y = in[2], *dy = in[3];
  float *dx = out[0], *dw = out[1];
  const float factor = (float)RengaOpCallReal(call, "factor");
  const int64_t d = call->in[1].dim[0];
  (void)context;
  ++*(int *)user;
  for (int64_t k = 0; k < d; k++) dw[k] = 0;
  for (int64_t i = 0; i < RengaTensorSpecCount(&call->in[0]); i++) {
    const float inner = dy[i] * (1 - y[i] * y[i]) * factor;
    dx[i] = inner * w[i % d];
    dw[i % d] += inner * x[i];
  }
  return RENGA_SUCCESS;
}

static int runs[2];
static const RengaOperator forward = {.name = "ScaledTanh",
                                      .min_in = 2,
                                      .max_in = 2,
                                      .min_out = 1,
                                      .max_out = 1,
                                      .shape = ShapeOf,
                                      .attributes = "factor:real=1",
                                      .types = "SS>S",
                                      .split = "-*v v > -*v"};
static const RengaOperator backward = {.name = "ScaledTanhGradient",
                                       .min_in = 4,
                                       .max_in = 4,
                                       .min_out = 2,
                                       .max_out = 2,
                                       .flags = RENGA_OP_OUTPUT_GIVEN,
                                       .shape = ShapeOf,
                                       .attributes = "factor:real=1",
                                       .types = "SSSS>SS"};
static const RengaKernelRule forward_kernel = {"ScaledTanh", RunForward, &runs[0]};
static const RengaKernelRule backward_kernel = {"ScaledTanhGradient", RunBackward, &runs[1]};
static const RengaGradientRule gradient = {"ScaledTanh", "ScaledTanhGradient"};

static RengaErrorCode AddScaledTanh(RengaGraph graph, bool own, RengaValue x, RengaValue w,
                                    RengaValue *y)
{
  const RengaValue in[] = {x, w};
  RengaAttributes attributes = {0};
  RengaValue two, scaled = RENGA_VALUE_NONE;
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32, .ndim = 0};
  *y = RENGA_VALUE_NONE;
  if (own) {
    RengaCall(RengaAttributesSetReal(&attributes, "factor", 2));
    RengaCall(RengaGraphAddNode(graph, "ScaledTanh", "own", &attributes, 2, in, 1, NULL, y));
    RengaCall(RengaAttributesFree(&attributes));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaGraphAddConstant(graph, "two", &scalar, &(float){2}, &two));
  RengaCall(RengaGraphAddNode(graph, "Mul", "scaled", NULL, 2, in, 1, NULL, &scaled));
  const RengaValue twice[] = {scaled, two};
  scaled = RENGA_VALUE_NONE;
  RengaCall(RengaGraphAddNode(graph, "Mul", "twice", NULL, 2, twice, 1, NULL, &scaled));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", scaled, y));
  return RENGA_SUCCESS;
}

/* A network and a layout. tokens: of a sample, which lanes and ranks then share out; 0: it has
   none, and lanes have columns. ranks: that compute a replica of a stage together. */
typedef struct {
  bool own, disturbed;
  int lanes, ranks, tokens;
  double loss[STEPS], norm[STEPS];
  uint64_t digest;
} Run;

/* Two layers with the operator between them. */
static RengaErrorCode Build(RengaComm comm, const Run *run, RengaGraph *made)
{
  const RengaTensorSpec rows = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, INPUTS}};
  const RengaTensorSpec sequence = {
      .type = RENGA_FLOAT32, .ndim = 3, .dim = {-1, run->tokens, INPUTS}};
  const RengaTensorSpec w_spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {WIDTH}};
  const RengaTensorSpec label_spec = {
      .type = RENGA_INT64, .ndim = run->tokens ? 2 : 1, .dim = {-1, run->tokens}};
  const RengaInit near_one = {.kind = RENGA_INIT_UNIFORM, .a = 0.5, .b = 1.5};
  RengaGraph graph;
  RengaValue x, w, labels, y, loss;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "x", run->tokens ? &sequence : &rows, &x));
  RengaCall(RengaGraphAddInput(graph, "labels", &label_spec, &labels));
  RengaCall(RengaGraphAddLinear(graph, "first", x, WIDTH, true, 0.3, &y));
  RengaCall(RengaGraphAddParameter(graph, "w", &w_spec, &near_one, &w));
  RengaCall(AddScaledTanh(graph, run->own, y, w, &y));
  RengaCall(RengaGraphAddLinear(graph, "second", y, 3, true, 0.3, &y));
  RengaCall(RengaGraphAddCrossEntropy(graph, y, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  if (!run->tokens) RengaCall(RengaGraphSetLanes(graph, run->lanes));
  if (run->tokens) RengaCall(RengaGraphSetFromOptions(graph)); /* -graph_token_lanes */
  RengaCall(RengaGraphSetUp(graph));
  *made = graph;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadWave(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const int64_t each = *(const int *)user > 0 ? *(const int *)user : 1; /* tokens */
  first *= each;
  count *= each;
  for (int64_t i = 0; i < count; i++) {
    for (int k = 0; k < INPUTS && field == 0; k++)
      ((float *)buffer)[INPUTS * i + k] = sinf((float)((first + i) * (k + 1)));
    if (field == 1) ((int64_t *)buffer)[i] = (first + i) % 3;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SetShares(const Run *run, RengaPartition partition)
{
  char text[8];
  snprintf(text, sizeof text, "%d", run->ranks);
  if (!run->tokens) RengaCall(RengaPartitionSetTensor(partition, run->ranks));
  if (!run->tokens) return RENGA_SUCCESS;
  RengaCall(RengaOptionsSetValue("layout_context", text));
  RengaCall(RengaPartitionSetFromOptions(partition));
  return RENGA_SUCCESS;
}

/* Losses of some steps; of those, one is tried first with a kernel that fails on one rank. */
static RengaErrorCode TrainSteps(RengaComm comm, Run *run)
{
  const RengaBatch batch = {.samples = SAMPLES, .read = ReadWave, .user = &run->tokens};
  RengaGraph graph;
  RengaPartition partition;
  RengaPlan plan;
  RengaPipeline pipeline;
  double lost;
  RengaOptimizer optimizer;
  RengaCall(Build(comm, run, &graph));
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetBatch(partition, SAMPLES, 4));
  RengaCall(SetShares(run, partition));
  RengaCall(RengaPartitionSetStages(partition, RengaCommGetSize(comm) > run->ranks ? 2 : 1));
  RengaCall(RengaPartitionSolve(partition, &plan));
  RengaDevice device;
  RengaCall(RengaPipelineCreate(comm, &pipeline));
  RengaCall(RengaPipelineGetDevice(pipeline, &device));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaPipelineSetPlan(pipeline, graph, plan));
  RengaCall(RengaPipelineGetOptimizer(pipeline, &optimizer));
  RengaCall(RengaOptimizerSetType(optimizer, RENGA_OPTIMIZER_SGD));
  RengaCall(RengaOptimizerSetLearningRate(optimizer, RATE));
  RengaCall(RengaPipelineSetUp(pipeline));
  for (int step = 0; step < STEPS; step++) {
    fails = run->disturbed && step == 2;
    if (fails) ExpectError(RengaPipelineStep(pipeline, &batch, &lost), RENGA_ERR_NUMERIC, "");
    Expect(!failed || strstr(RengaErrorGetMessage(), "the kernel of ScaledTanh, a rule"));
    fails = failed = false;
    RengaCall(RengaPipelineStep(pipeline, &batch, &run->loss[step]));
    RengaCall(RengaPipelineGetGradientNorm(pipeline, &run->norm[step]));
  }
  RengaCall(RengaPipelineGetDigest(pipeline, &run->digest));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestTraining(RengaComm all, RengaComm self)
{
  Run own = {.own = true, .lanes = 1, .ranks = 1}, inside = {.lanes = 1, .ranks = 1};
  Run other = {.own = true, .disturbed = true, .lanes = 1, .ranks = 1};
  RengaCall(TrainSteps(self, &own));
  Expect(runs[0] > 0 && runs[1] > 0);
  RengaCall(TrainSteps(self, &inside));
  RengaCall(TrainSteps(all, &other));
  for (int step = 0; step < STEPS; step++) {
    Expect(fabs(own.loss[step] - inside.loss[step]) < 1e-6);
    Expect(own.loss[step] == other.loss[step]);
  }
  Expect(own.loss[STEPS - 1] < own.loss[0] && own.digest == other.digest);
  return RENGA_SUCCESS;
}

/* Each lane has a node of the operator, with its columns or its tokens. */
static RengaErrorCode CheckNodes(RengaComm comm, const Run *run)
{
  const int split = run->tokens ? run->tokens : WIDTH;
  RengaGraph graph;
  int count = 0;
  RengaCall(Build(comm, run, &graph));
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (strcmp(node->op->name, "ScaledTanh") != 0) continue;
    const int64_t has = RengaGraphGetValue(graph, node->in[0])->spec.dim[1];
    Expect(has >= split / run->lanes && has <= split / run->lanes + 1);
    count += node->lane > 0;
  }
  Expect(count == run->lanes);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* By its split rule it stands in lanes between the layers, with the bits of one rank on two that
   share them out. A step goes down as its gradient says. */
static RengaErrorCode CheckLanes(RengaComm all, RengaComm self, int lanes, int tokens)
{
  Run one = {.own = true, .lanes = lanes, .ranks = 1, .tokens = tokens}, inside = one, many = one;
  inside.own = false;
  many.disturbed = true;
  many.ranks = RengaCommGetSize(all) > 1 ? 2 : 1;
  RengaCall(CheckNodes(self, &one));
  RengaCall(TrainSteps(self, &one));
  RengaCall(TrainSteps(self, &inside));
  RengaCall(TrainSteps(all, &many));
  for (int step = 0; step < STEPS; step++) {
    Expect(fabs(one.loss[step] - inside.loss[step]) < 1e-6);
    Expect(fabs(one.norm[step] - inside.norm[step]) < 1e-5 * inside.norm[step]);
    Expect(one.loss[step] == many.loss[step] && one.norm[step] == many.norm[step]);
  }
  const double slope = (one.loss[0] - one.loss[1]) / (RATE * one.norm[0] * one.norm[0]);
  Expect(fabs(slope - 1) < 0.05);
  Expect(one.digest == many.digest);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestLanes(RengaComm all, RengaComm self)
{
  for (int lanes = 2; lanes <= 3; lanes++) RengaCall(CheckLanes(all, self, lanes, 0));
  RengaCall(RengaOptionsSetValue("graph_token_lanes", "2"));
  RengaCall(CheckLanes(all, self, 2, TOKENS));
  RengaCall(RengaOptionsClearValue("graph_token_lanes"));
  RengaCall(RengaOptionsClearValue("layout_context"));
  return RENGA_SUCCESS;
}

/* Each as far as it can be read; the sentence says which sign is none. */
static RengaErrorCode TestSplitRules(void)
{
  static const struct {
    const char *split, *says;
  } bad[] = {
      {"-a a > -a)", "sign 10 of its split rule \"-a a > -a)\" is ), where a letter, -, *"},
      {"-(ga) a > -a", "is (, where a letter"},
      {"-a a", "\"-a a\" ends where > is expected"},
      {"-a a >", "ends where a letter, -, *, ~ or . is expected"},
      {"> -a", "sign 1 of its split rule \"> -a\" is >, where a letter"},
      {"-a a a > -a", "sign 6 of its split rule \"-a a a > -a\" is a, where > is expected"},
      {"-a a > -a a", "is a, where the end is expected"},
      {"-a a > -a > a", "is >, where the end is expected"},
      {"-a a > -b", "sign 9 of its split rule \"-a a > -b\" is b, where an axis of some input"},
      {"-a a > *", "is *, where an axis of some input"},
      {"-a a > +a", "is +, where a letter"},
      {"aa a > -a", "is a, where another axis, as a word has each once"},
      {"*~ a > -a", "is ~, where another axis"},
      {".a a > -a", "sign 2 of its split rule \".a a > -a\" is a, where the end of a word"},
      {"", "ends where a letter"},
  };
  RengaOperator op = forward;
  op.name = "Unread";
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    op.split = bad[i].split;
    ExpectError(RengaOperatorRegister(&op), RENGA_ERR_ARGUMENT, bad[i].says);
    ExpectError(RengaOperatorRegister(&op), RENGA_ERR_ARGUMENT, "the operator Unread: ");
  }
  char lengthy[300];
  memset(lengthy, '-', sizeof lengthy - 1);
  lengthy[sizeof lengthy - 1] = '\0';
  op.split = lengthy;
  ExpectError(RengaOperatorRegister(&op), RENGA_ERR_ARGUMENT, "has 299 signs, at most 255");
  static const char *const good[] = {"-a a > -a", "* > *", "~a +a > ~a", "-a . > -a", ". > ."};
  static RengaOperator read[sizeof good / sizeof good[0]];
  static const char *const names[] = {"ReadA", "ReadB", "ReadC", "ReadD", "ReadE"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    read[i] = forward;
    read[i].name = names[i];
    read[i].split = good[i];
    RengaCall(RengaOperatorRegister(&read[i]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRefused(void)
{
  RengaOperator bad = forward;
  const RengaKernelRule kernel = {"Tanh", RunForward, NULL};
  const RengaGradientRule none = {"ScaledTanh", "Tanh"};
  bad.name = "Tanh";
  ExpectError(RengaOperatorRegister(&bad), RENGA_ERR_ARGUMENT, "there is an operator Tanh already");
  bad.name = "Bad";
  bad.types = "SS";
  ExpectError(RengaOperatorRegister(&bad), RENGA_ERR_ARGUMENT, "types \"SS\"");
  bad.types = "SS>S";
  bad.attributes = "factor";
  ExpectError(RengaOperatorRegister(&bad), RENGA_ERR_ARGUMENT, "attributes \"factor\"");
  bad.attributes = NULL;
  bad.flags = RENGA_OP_RANDOM;
  ExpectError(RengaOperatorRegister(&bad), RENGA_ERR_ARGUMENT, "has flags 0x4");
  bad.flags = 0;
  bad.shape = NULL;
  ExpectError(RengaOperatorRegister(&bad), RENGA_ERR_ARGUMENT, "needs a rule for shapes");
  ExpectError(RengaKernelRegister(&kernel), RENGA_ERR_ARGUMENT, "Tanh is none");
  ExpectError(RengaGradientRegister(&none), RENGA_ERR_ARGUMENT, "both are to be registered");
  return RENGA_SUCCESS;
}

/* The batch must be the first dimension, and without a gradient nothing is trained through it. */
static RengaErrorCode TestUse(RengaComm comm)
{
  static const RengaOperator stiff = {.name = "Stiff",
                                      .min_in = 2,
                                      .max_in = 2,
                                      .min_out = 1,
                                      .max_out = 1,
                                      .shape = ShapeOf,
                                      .types = "SS>S"};
  const RengaTensorSpec x_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {4, -1}};
  const RengaTensorSpec w_spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {-1}};
  RengaGraph graph;
  RengaValue in[2], y = RENGA_VALUE_NONE;
  RengaCall(RengaOperatorRegister(&stiff));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "x", &x_spec, &in[0]));
  RengaCall(RengaGraphAddInput(graph, "w", &w_spec, &in[1]));
  RengaCall(RengaGraphAddNode(graph, "Stiff", "stiff", NULL, 2, in, 1, NULL, &y));
  RengaCall(RengaGraphAddOutput(graph, y));
  ExpectError(RengaGraphSetUp(graph), RENGA_ERR_GRAPH, "which must be the first of an operator");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* A node of a file that has its name, in whatever domain. */
static RengaErrorCode TestFile(RengaComm comm)
{
  enum { FLOAT = 1, NODE_DOMAIN = 7 };
  static const char file[] = "link-operator.onnx";
  const float ones[WIDTH] = {1, 1, 1, 1, 1, 1, 1, 1};
  Message *contents = MessageNew(), *node = NewNode("ScaledTanh", "x w", "y");
  RengaGraph graph;
  PutText(node, NODE_DOMAIN, "of.a.program");
  AddInput(contents, "x", FLOAT, 2, (int64_t[]){2, WIDTH}, "N");
  AddInitializer(contents, "w", FLOAT, 1, (int64_t[]){WIDTH}, ones, sizeof ones);
  AddNode(contents, node);
  AddOutput(contents, "y");
  Message *model = NewModel(contents, 17);
  RengaCall(WriteMessage(model, file));
  MessageFree(model);
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, file));
  RengaCall(RengaGraphSetUp(graph));
  const RengaGraphNode *first = RengaGraphGetNode(graph, 0);
  Expect(RengaGraphGetNodeCount(graph) == 1 && !strcmp(first->op->name, "ScaledTanh"));
  RengaCall(RengaGraphDestroy(&graph));
  remove(file);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestOperator(void)
{
  RengaComm all, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &all));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  RengaCall(TestTraining(all, self));
  RengaCall(TestLanes(all, self));
  RengaCall(TestUse(self));
  if (RengaCommGetRank(all) == 0) RengaCall(TestFile(self));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&all));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaOperatorRegister(&forward));
  RengaCallAbort(RengaOperatorRegister(&forward)); /* again is as good as once */
  RengaCallAbort(RengaOperatorRegister(&backward));
  RengaCallAbort(RengaKernelRegister(&forward_kernel));
  RengaCallAbort(RengaKernelRegister(&backward_kernel));
  RengaCallAbort(RengaGradientRegister(&gradient));
  RengaCallAbort(TestRefused());
  RengaCallAbort(TestSplitRules());
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(TestOperator());
  RengaCallAbort(RengaFinalize());
  return 0;
}
