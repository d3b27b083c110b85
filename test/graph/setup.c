/* TEST ranks: 1 */
/* Canonical form: patterns become one operator and compute the same; what is refused, and how. */
#include "../plan/plantest.h"
#include "execute.h"
#include "expression.h"
#include <math.h>

/* ---- normalisation ---- */

static RengaValue LayerNormPow(RengaValue x)
{
  RengaValue c = B("Sub", x, Mean(x));
  RengaValue deviation = U("Sqrt", B("Add", Mean(B("Pow", c, S(2))), S(1e-5)));
  return B("Add", B("Mul", B("Div", c, deviation), Parameter(1, D, 0)), Parameter(1, D, 0));
}

/* two equal differences, as older exporters write it; operands the other way round */
static RengaValue LayerNormTwo(RengaValue x)
{
  RengaValue c = B("Sub", x, Mean(x)), again = B("Sub", x, Mean(x));
  RengaValue deviation = U("Sqrt", B("Add", S(1e-5), Mean(B("Mul", again, again))));
  return B("Add", Parameter(1, D, 0), B("Mul", Parameter(1, D, 0), B("Div", c, deviation)));
}

static RengaValue LayerNormReciprocal(RengaValue x)
{
  RengaValue c = B("Sub", x, Mean(x));
  RengaValue deviation = U("Sqrt", B("Add", Mean(B("Mul", c, c)), S(1e-5)));
  return B("Mul", B("Mul", c, U("Reciprocal", deviation)), Parameter(1, D, 0));
}

static RengaValue RmsNorm(RengaValue x)
{
  RengaValue deviation = U("Sqrt", B("Add", Mean(B("Pow", x, S(2))), S(1e-5)));
  return B("Mul", Parameter(1, D, 0), B("Mul", x, B("Div", S(1), deviation)));
}

/* ---- Gelu ---- */

static RengaValue OnePlusErf(RengaValue x)
{
  return B("Add", U("Erf", B("Div", x, S(sqrt(2)))), S(1));
}

static RengaValue GeluLast(RengaValue x)
{
  return B("Mul", B("Mul", x, OnePlusErf(x)), S(0.5));
}

static RengaValue GeluFirst(RengaValue x)
{
  return B("Mul", B("Mul", S(0.5), x), B("Add", S(1), U("Erf", B("Mul", x, S(sqrt(0.5))))));
}

static RengaValue GeluInner(RengaValue x)
{
  return B("Mul", B("Div", OnePlusErf(x), S(2)), x);
}

static RengaValue TanhCube(RengaValue x, RengaValue cube)
{
  RengaValue inner = B("Add", x, B("Mul", S(0.044715), cube));
  RengaValue tanh = U("Tanh", B("Mul", S(sqrt(2 / acos(-1))), inner));
  return B("Mul", S(0.5), B("Mul", x, B("Add", S(1), tanh)));
}

static RengaValue GeluTanhProduct(RengaValue x)
{
  return TanhCube(x, B("Mul", x, B("Mul", x, x)));
}

static RengaValue GeluTanhPower(RengaValue x)
{
  return TanhCube(x, B("Pow", x, S(3)));
}

static RengaValue GeluTanhFactored(RengaValue x)
{
  RengaValue inner = B("Add", S(1), B("Mul", S(0.044715), B("Mul", x, x)));
  RengaValue tanh = U("Tanh", B("Mul", B("Mul", x, S(sqrt(2 / acos(-1)))), inner));
  return B("Mul", B("Mul", S(0.5), x), B("Add", tanh, S(1)));
}

/* ---- linear ---- */

static RengaValue LinearPlain(RengaValue x)
{
  return B("Add", B("MatMul", x, Parameter(2, D, 6)), Parameter(1, 6, 0));
}

static RengaValue LinearFlipped(RengaValue x)
{
  RengaValue w = Flip(Parameter(2, 6, D), 2, (const int64_t[]){1, 0});
  return B("Add", Parameter(1, 6, 0), B("MatMul", x, w));
}

/* ---- attention: x [N, T, D] is queries, keys and values of two heads ---- */

static RengaValue Heads(RengaValue x, const int64_t perm[])
{
  RengaValue y;
  TestTrue(RengaGraphAddReshape(graph, x, 4, (const int64_t[]){-1, T, 2, D / 2}, &y) ==
           RENGA_SUCCESS);
  return Flip(y, 4, perm);
}

static const int64_t by_head[] = {0, 2, 1, 3}, flipped[] = {0, 2, 3, 1}, last_two[] = {0, 1, 3, 2};

static RengaValue CausalMask(double low)
{
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 4, .dim = {1, 1, T, T}};
  float data[T * T];
  RengaValue y;
  for (int i = 0; i < T * T; i++) data[i] = i % T > i / T ? (float)low : 0.0f;
  TestTrue(RengaGraphAddConstant(graph, NULL, &spec, data, &y) == RENGA_SUCCESS);
  return y;
}

static RengaValue AttentionCausal(RengaValue x)
{
  RengaValue q = Heads(x, by_head), v = Heads(U("Neg", x), by_head);
  RengaValue scores = B("MatMul", q, Flip(Heads(x, by_head), 4, last_two));
  return B("MatMul", Softmax(B("Add", B("Mul", scores, S(0.5)), CausalMask(-1e9))), v);
}

static RengaValue AttentionFlippedKeys(RengaValue x)
{
  RengaValue scores = B("MatMul", Heads(x, by_head), Heads(x, flipped));
  return B("MatMul", Softmax(B("Div", scores, S(2))), Heads(x, by_head));
}

/* both factors are scaled, as torch's scaled_dot_product_attention is exported; a mask by place */
static RengaValue AttentionScaledFactors(RengaValue x)
{
  RengaValue q = B("Mul", Heads(x, by_head), S(0.8)), k = B("Mul", Heads(x, flipped), S(0.8));
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {T}};
  float data[T] = {0, -1, 0.5f, 0, -1e9f};
  RengaValue mask;
  TestTrue(RengaGraphAddConstant(graph, NULL, &spec, data, &mask) == RENGA_SUCCESS);
  return B("MatMul", Softmax(B("Add", mask, B("MatMul", q, k))), Heads(x, by_head));
}

static RengaValue AttentionWhere(RengaValue x)
{
  RengaTensorSpec spec = {.type = RENGA_BOOL, .ndim = 2, .dim = {T, T}};
  unsigned char data[T * T];
  RengaValue in[3] = {RENGA_VALUE_NONE, RENGA_VALUE_NONE, S(-1e9)};
  for (int i = 0; i < T * T; i++) data[i] = i % T <= i / T;
  TestTrue(RengaGraphAddConstant(graph, NULL, &spec, data, &in[0]) == RENGA_SUCCESS);
  in[1] = B("MatMul", Heads(x, by_head), Heads(x, flipped));
  return B("MatMul", Softmax(Node("Where", NULL, 3, in)), Heads(x, by_head));
}

/* ---- losses ---- */

static RengaValue LogSigmoid(RengaValue x)
{
  return U("Log", U("Sigmoid", x));
}

static RengaValue LogOneMinusSigmoid(RengaValue x)
{
  return U("Log", B("Sub", S(1), U("Sigmoid", x)));
}

static RengaValue LogOfSoftmax(RengaValue x)
{
  return U("Log", Softmax(x));
}

typedef struct {
  const char *name;
  RengaValue (*build)(RengaValue x);
  const char *op; /* is there, and the number of nodes is this */
  int n_nodes;
} Pattern;

static const Pattern patterns[] = {
    {"layer normalisation by Pow", LayerNormPow, "LayerNormalization", 1},
    {"layer normalisation of two differences", LayerNormTwo, "LayerNormalization", 1},
    {"layer normalisation by Reciprocal", LayerNormReciprocal, "LayerNormalization", 1},
    {"RMS normalisation", RmsNorm, "RMSNormalization", 1},
    {"Gelu, half last", GeluLast, "Gelu", 1},
    {"Gelu, half first", GeluFirst, "Gelu", 1},
    {"Gelu, half inside", GeluInner, "Gelu", 1},
    {"Gelu by tanh, product", GeluTanhProduct, "Gelu", 1},
    {"Gelu by tanh, power", GeluTanhPower, "Gelu", 1},
    {"Gelu by tanh, factored", GeluTanhFactored, "Gelu", 1},
    {"linear", LinearPlain, "Linear", 1},
    {"linear of a transposed weight", LinearFlipped, "Linear", 1},
    {"causal attention", AttentionCausal, "Attention", 6},
    {"attention with flipped keys", AttentionFlippedKeys, "Attention", 3},
    {"attention with scaled factors", AttentionScaledFactors, "Attention", 3},
    {"attention with a choice", AttentionWhere, "Attention", 3},
    {"log sigmoid", LogSigmoid, "Softplus", 3},
    {"log of one minus sigmoid", LogOneMinusSigmoid, "Softplus", 2},
    {"log of softmax", LogOfSoftmax, "LogSoftmax", 1},
};
enum { N_PATTERNS = sizeof patterns / sizeof patterns[0] };

static RengaErrorCode RunOutput(RengaDevice device, float **out, int64_t *count)
{
  Execute execute;
  const RengaValue *outputs;
  int n;
  RengaCall(ExecuteCreate(graph, device, BATCH, 3, &execute));
  RengaValue x = RengaGraphFindValue(graph, "x");
  for (int64_t i = 0; i < BATCH * T * D; i++)
    ExecuteSet(&execute, x, i, sin(1.7 * (double)i) + 0.1 * (double)(i % 3));
  RengaCall(ExecuteRun(&execute, false));
  RengaCall(RengaGraphGetOutputs(graph, &n, &outputs));
  *count = ExecuteCountElements(&execute, outputs[0]);
  RengaCall(RengaMalloc(*count + 1, out));
  for (int64_t i = 0; i < *count; i++) (*out)[i] = (float)ExecuteGet(&execute, outputs[0], i);
  RengaCall(ExecuteDestroy(&execute));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddX(RengaValue *x)
{
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {-1, T, D}};
  RengaCall(RengaGraphAddInput(graph, "x", &spec, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPattern(RengaComm comm, RengaDevice device, const Pattern *pattern)
{
  RengaValue x;
  float *before, *after;
  int64_t count, again;
  bool found = false, same = true;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(AddX(&x));
  RengaCall(RengaGraphAddOutput(graph, pattern->build(x)));
  RengaCall(RunOutput(device, &before, &count));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RunOutput(device, &after, &again));
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++)
    found = found || strcmp(RengaGraphGetNode(graph, i)->op->name, pattern->op) == 0;
  for (int64_t i = 0; i < count; i++)
    same =
        same && fabs((double)before[i] - (double)after[i]) <= 2e-6 * (1 + fabs((double)before[i]));
  bool good = found && same && count == again && RengaGraphGetNodeCount(graph) == pattern->n_nodes;
  if (!good)
    fprintf(stderr, "%s: %s%s, %d nodes\n", pattern->name, found ? "fused" : "not fused",
            same ? "" : ", other numbers", RengaGraphGetNodeCount(graph));
  TestTrue(good);
  RengaFree(&before);
  RengaFree(&after);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* ---- sums over the batch ---- */

static RengaValue All(const char *op, RengaValue x)
{
  RengaAttributes attributes = {0};
  TestTrue(RengaAttributesSetInt(&attributes, "keepdims", 0) == RENGA_SUCCESS);
  return Node(op, &attributes, 1, &x);
}

static RengaValue Trained(RengaValue x)
{
  return B("Mul", x, Parameter(1, D, 0));
}

static RengaValue LossMean(RengaValue x)
{
  return All("ReduceMean", Trained(x));
}

static RengaValue LossMaskedMean(RengaValue x) /* divided by something that depends on data */
{
  return B("Div", All("ReduceSum", Trained(x)), B("Add", All("ReduceSum", U("Abs", x)), S(1)));
}

static RengaValue LossOfTwo(RengaValue x)
{
  return B("Sub", U("Neg", LossMean(x)), B("Mul", S(0.5), LossMean(U("Abs", x))));
}

static RengaValue LossRoot(RengaValue x)
{
  return U("Sqrt", All("ReduceMean", B("Mul", Trained(x), Trained(x))));
}

static RengaValue LossMax(RengaValue x)
{
  return All("ReduceMax", Trained(x));
}

static RengaValue LossOfParameter(RengaValue x)
{
  (void)x;
  return All("ReduceSum", Parameter(1, D, 0));
}

static RengaValue LossDecay(RengaValue x)
{
  return B("Add", LossMean(x), LossOfParameter(x));
}

static RengaValue Shape(RengaValue x, int ndim, int64_t a, int64_t b, int64_t c)
{
  RengaValue y;
  TestTrue(RengaGraphAddReshape(graph, x, ndim, (const int64_t[]){a, b, c}, &y) == RENGA_SUCCESS);
  return y;
}

static RengaValue TimeFirst(RengaValue x) /* [T*N, D] */
{
  return Shape(Flip(x, 3, (const int64_t[]){1, 0, 2}), 2, -T, D, 0);
}

static RengaValue LossTimeFirst(RengaValue x)
{
  RengaValue y = Shape(Trained(TimeFirst(x)), 3, T, -1, D);
  return LossMean(B("Add", Flip(y, 3, (const int64_t[]){1, 0, 2}), x));
}

static RengaValue LossMixed(RengaValue x)
{
  return LossMean(Shape(x, 3, T, -1, D));
}

static RengaValue LossTwoOrders(RengaValue x)
{
  return LossMean(B("Mul", TimeFirst(x), Shape(x, 2, -T, D, 0)));
}

static RengaValue LossSoftmaxOfBatch(RengaValue x)
{
  return LossMean(
      Flip(Softmax(Flip(x, 3, (const int64_t[]){1, 2, 0})), 3, (const int64_t[]){2, 0, 1}));
}

static const struct {
  RengaValue (*build)(RengaValue x);
  const char *refusal; /* NULL: it is a loss */
  int batch_sums;
} losses[] = {
    {LossMean, NULL, 1},
    {LossMaskedMean, NULL, 1},
    {LossOfTwo, NULL, 1},
    {LossTimeFirst, NULL, 1},
    {LossMixed, "elements of one sample would move to another", 0},
    {LossTwoOrders, "in different orders", 0},
    {LossSoftmaxOfBatch, "along dimension 2, which is the batch", 0},
    {LossRoot, "Linear operators may follow", 0},
    {LossMax, "only sums and means", 0},
    {LossOfParameter, "not a sum or mean over the samples", 0},
    {LossDecay, NULL, 2},
};

static RengaErrorCode CheckLosses(RengaComm comm)
{
  for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
    RengaValue x;
    int sums = 0;
    RengaCall(RengaGraphCreate(comm, &graph));
    RengaCall(AddX(&x));
    RengaValue loss = losses[i].build(x);
    RengaCall(RengaGraphSetLoss(graph, loss));
    RengaCall(RengaGraphAddOutput(graph, Trained(x)));
    if (losses[i].refusal) {
      TestError(RengaGraphSetUp(graph), RENGA_ERR_GRAPH, losses[i].refusal);
    } else {
      RengaCall(RengaGraphSetUp(graph));
      for (int j = 0; j < RengaGraphGetNodeCount(graph); j++)
        sums += (RengaGraphGetNode(graph, j)->op->flags & RENGA_OP_BATCH_SUM) != 0;
      TestTrue(sums == losses[i].batch_sums);
    }
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

/* An output is put together from micro-batches: the samples stay apart without a loss, too. */
static RengaErrorCode CheckWithoutLoss(RengaComm comm)
{
  RengaValue x;
  for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
    if (losses[i].build != LossMixed && losses[i].build != LossTwoOrders &&
        losses[i].build != LossSoftmaxOfBatch)
      continue;
    RengaCall(RengaGraphCreate(comm, &graph));
    RengaCall(AddX(&x));
    RengaCall(RengaGraphAddOutput(graph, losses[i].build(x)));
    TestError(RengaGraphSetUp(graph), RENGA_ERR_GRAPH, losses[i].refusal);
    RengaCall(RengaGraphDestroy(&graph));
  }
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(AddX(&x));
  RengaValue once = U("Relu", x), twice = U("Relu", TimeFirst(x));
  RengaCall(RengaGraphAddOutput(graph, once));
  RengaCall(RengaGraphAddOutput(graph, twice));
  RengaCall(RengaGraphSetUp(graph));
  const RengaValue *output;
  int count;
  RengaCall(RengaGraphGetOutputs(graph, &count, &output));
  TestTrue(RengaGraphGetValue(graph, output[0])->in_order);
  TestTrue(!RengaGraphGetValue(graph, output[1])->in_order);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* ---- duplicates, dead nodes, keys, errors ---- */

static RengaErrorCode CheckClean(RengaComm comm)
{
  RengaValue x, y, dropped, unused;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(AddX(&x));
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {-1}};
  RengaCall(RengaGraphAddInput(graph, "unused", &spec, &unused));
  U("Exp", unused);
  y = B("Add", U("Exp", U("Identity", x)), U("Exp", x));
  RengaCall(RengaGraphAddDropout(graph, y, 0.5, &dropped));
  RengaCall(RengaGraphAddDropout(graph, y, 0.5, &x));
  RengaCall(RengaGraphAddOutput(graph, B("Add", dropped, x)));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(RengaGraphGetNodeCount(graph) == 5); /* Exp, Add, two Dropouts, Add */
  TestTrue(RengaGraphFindValue(graph, "unused") == RENGA_VALUE_NONE);
  int64_t key = 0;
  for (int i = 0; i < 5; i++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, i);
    TestTrue(node->id == i);
    if (!(node->op->flags & RENGA_OP_RANDOM)) continue;
    TestTrue(RengaAttributesInt(&node->attributes, "key", -1) == key++);
    TestTrue(RengaAttributesInt(&node->attributes, "batch_factor", -1) == 1);
    TestTrue(!RengaGraphGetValue(graph, node->out[0])->prepared);
    TestTrue(RengaGraphGetValue(graph, node->in[0])->prepared);
  }
  TestTrue(key == 2);
  TestError(RengaGraphAddInput(graph, "more", &spec, &x), RENGA_ERR_ORDER, "is set up");
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaGraphCreate(comm, &graph));
  TestError(RengaGraphSetUp(graph), RENGA_ERR_GRAPH, "neither an output nor a loss");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* An operator without a rule names its node. */
static RengaErrorCode CheckNoRule(RengaComm comm)
{
  RengaValue x;
  RengaAttributes attributes = {0};
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(AddX(&x));
  x = Trained(x);
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 1));
  RengaCall(RengaGraphAddNode(graph, "CumProd", "the product", &attributes, 1, &(RengaValue){x}, 1,
                              NULL, &x));
  RengaCall(RengaAttributesFree(&attributes));
  RengaCall(RengaGraphSetLoss(graph, All("ReduceSum", x)));
  RengaCall(RengaGraphSetUp(graph));
  TestError(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL), RENGA_ERR_SUPPORT,
            "\"the product\" (CumProd)");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaDevice device;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(device));
  for (int i = 0; i < N_PATTERNS; i++) RengaCall(CheckPattern(comm, device, &patterns[i]));
  RengaCall(CheckLosses(comm));
  RengaCall(CheckWithoutLoss(comm));
  RengaCall(CheckClean(comm));
  RengaCall(CheckNoRule(comm));
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
