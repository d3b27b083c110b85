/* TEST ranks: 1 */
/* Stored types: what stays in 32 bits in a network of bf16, and what does not; gradients are kept
   as their values, those of parameters in 32 bits; stages agree with the whole. */
#include "../plan/plantest.h"
#include "renga/private/graph.h"

static RengaErrorCode Make(RengaComm comm, const char *what, const char *keep, RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphLoad(*graph, what));
  RengaCall(RengaGraphSetPrecision(*graph, RENGA_PRECISION_BF16, keep));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static RengaDataType StoredOf(RengaGraph graph, const char *name)
{
  const RengaValue value = RengaGraphFindValue(graph, name);
  TestTrue(value != RENGA_VALUE_NONE);
  return RengaGraphGetValue(graph, value)->stored;
}

/* The node's output o. */
static RengaDataType OutputOf(RengaGraph graph, const char *op, int o)
{
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (strcmp(node->op->name, op) == 0) return RengaGraphGetValue(graph, node->out[o])->stored;
  }
  TestTrue(!"there is such a node");
  return RENGA_TYPE_COUNT;
}

static void CheckWhole(RengaGraph graph)
{
  TestTrue(StoredOf(graph, "wte.weight") == RENGA_BFLOAT16);
  TestTrue(StoredOf(graph, "blocks.0.ln1.weight") == RENGA_FLOAT32);
  TestTrue(StoredOf(graph, "logits") == RENGA_BFLOAT16);
  TestTrue(StoredOf(graph, "loss") == RENGA_FLOAT32);
  TestTrue(StoredOf(graph, "tokens") == RENGA_INT64);
  TestTrue(OutputOf(graph, "LayerNormalization", 0) == RENGA_BFLOAT16);
  TestTrue(OutputOf(graph, "LayerNormalization", 1) == RENGA_FLOAT32);
  TestTrue(OutputOf(graph, "Attention", 0) == RENGA_BFLOAT16);
  TestTrue(OutputOf(graph, "Attention", 1) == RENGA_FLOAT32);
  TestTrue(OutputOf(graph, "Split", 2) == RENGA_BFLOAT16);
  TestTrue(OutputOf(graph, "CrossEntropyCount", 0) == RENGA_FLOAT32);
  TestTrue(OutputOf(graph, "CrossEntropy", 1) == RENGA_FLOAT32);
}

/* Views have the types of what they show; the types of the network are as they were. */
static void CheckTypes(RengaGraph graph)
{
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (!(node->op->flags & RENGA_OP_RESHAPE)) continue;
    TestTrue(RengaGraphGetValue(graph, node->in[0])->stored ==
             RengaGraphGetValue(graph, node->out[0])->stored);
  }
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    TestTrue(value->stored == value->spec.type || value->spec.type == RENGA_FLOAT32);
    TestTrue(value->spec.type != RENGA_BFLOAT16);
  }
}

/* The second half of the nodes, differentiated. */
static RengaErrorCode CheckStage(RengaGraph graph)
{
  const int nodes = RengaGraphGetNodeCount(graph);
  RengaGraph stage;
  RengaValue seed, from = RENGA_VALUE_NONE, gradient;
  int count;
  const RengaParameterUse *use;
  RengaCall(RengaGraphGetSubgraph(graph, nodes / 2, nodes, &stage));
  for (RengaValue v = 0; v < RengaGraphGetValueCount(stage); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(stage, v);
    const RengaGraphValue *whole =
        RengaGraphGetValue(graph, RengaGraphFindValue(graph, value->name));
    TestTrue(value->stored == whole->stored);
    if (value->kind == RENGA_VALUE_INPUT && whole->kind == RENGA_VALUE_ACTIVATION &&
        value->differentiable)
      from = v;
  }
  TestTrue(from != RENGA_VALUE_NONE);
  RengaCall(RengaGraphDifferentiate(stage, 0, NULL, &seed, 1, &from, &gradient));
  TestTrue(RengaGraphGetValue(stage, gradient)->stored == RengaGraphGetValue(stage, from)->stored);
  CheckTypes(stage);
  RengaCall(RengaGraphGetParameterUses(stage, &count, &use));
  TestTrue(count > 0);
  for (int u = 0; u < count; u++)
    TestTrue(RengaGraphGetValue(stage, use[u].gradient)->stored == RENGA_FLOAT32);
  RengaCall(RengaGraphDestroy(&stage));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckKept(RengaComm comm)
{
  RengaGraph graph;
  RengaCall(Make(comm, "gpt:layers=1,hidden=16,heads=2,sequence=8,vocabulary=32", "*ln1", &graph));
  TestTrue(OutputOf(graph, "LayerNormalization", 0) == RENGA_FLOAT32);
  CheckTypes(graph);
  RengaCall(CheckStage(graph));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaGraphCreate(comm, &graph));
  TestError(RengaGraphSetPrecision(graph, (RengaPrecision)9, NULL), RENGA_ERR_ARGUMENT,
            "precision 9 is none");
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=4-3"));
  RengaCall(RengaGraphSetPrecision(graph, RENGA_PRECISION_BF16, "no such"));
  TestError(RengaGraphSetUp(graph), RENGA_ERR_OPTION, "\"no such\" fits no node");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* In fp16 reverse mode begins with an input, the scale of the loss; otherwise with 1. */
static RengaErrorCode CheckSeed(RengaComm comm, RengaPrecision precision)
{
  RengaGraph graph;
  RengaValue seed;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=8-8-4"));
  RengaCall(RengaGraphSetPrecision(graph, precision, NULL));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL));
  RengaCall(RengaGraphGetSeed(graph, &seed));
  TestTrue((seed != RENGA_VALUE_NONE) == (precision == RENGA_PRECISION_FP16));
  if (seed != RENGA_VALUE_NONE)
    TestTrue(RengaGraphGetValue(graph, seed)->kind == RENGA_VALUE_INPUT &&
             RengaGraphGetValue(graph, seed)->spec.ndim == 0);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* 8 rows; twice the same channels, put together for a convolution of one row; then two of two rows:
   of the first of these lane 0 of two reads rows of its own alone, in two pieces. */
static RengaErrorCode AddMixed(RengaGraph graph)
{
  const RengaTensorSpec images = {.type = RENGA_FLOAT32, .ndim = 4, .dim = {-1, 2, 8, 4}};
  const RengaTensorSpec classes = {.type = RENGA_INT64, .ndim = 3, .dim = {-1, 8, 4}};
  RengaAttributes attributes = {0};
  RengaValue x, labels;
  RengaCall(RengaGraphAddInput(graph, "x", &images, &x));
  RengaCall(RengaGraphAddInput(graph, "labels", &classes, &labels));
  RengaCall(RengaGraphAddConvolution(graph, "first", x, 3, 3, 1, 1, true, &x));
  RengaCall(RengaGraphAddUnary(graph, "Relu", x, &x));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 1));
  RengaCall(
      RengaGraphAddNode(graph, "Concat", NULL, &attributes, 2, (RengaValue[]){x, x}, 1, NULL, &x));
  RengaAttributesFree(&attributes);
  RengaCall(RengaGraphAddConvolution(graph, "mixed", x, 4, 1, 1, 0, true, &x));
  RengaCall(RengaGraphAddUnary(graph, "Relu", x, &x));
  RengaCall(RengaGraphAddConvolution(graph, "even", x, 4, 2, 1, 0, true, &x));
  RengaCall(RengaGraphAddConvolution(graph, "last", x, 11, 2, 1, 1, true, &x));
  RengaCall(RengaAttributesSetInts(&attributes, "perm", 4, (int64_t[]){0, 2, 3, 1}));
  RengaCall(
      RengaGraphAddNode(graph, "Transpose", NULL, &attributes, 1, (RengaValue[]){x}, 1, NULL, &x));
  RengaAttributesFree(&attributes);
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &x));
  RengaCall(RengaGraphSetLoss(graph, x));
  return RENGA_SUCCESS;
}

/* What reverse mode reads of a convolution in a lane is kept as what this reads: rows that the lane
   has put together are made again, what the network puts together is not. */
static RengaErrorCode CheckCopies(RengaComm comm, RengaPrecision precision)
{
  RengaGraph graph;
  int again = 0, same = 0;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(AddMixed(graph));
  RengaCall(RengaGraphSetPrecision(graph, precision, "Relu*"));
  RengaCall(RengaGraphSetTokenLanes(graph, 2));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL));
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, i);
    if (strcmp(node->op->name, "ConvGradWeight") != 0) continue;
    const RengaGraphNode *forward = RengaGraphGetNode(graph, node->id);
    TestTrue(RengaGraphGetValue(graph, node->in[0])->stored ==
             RengaGraphGetValue(graph, forward->in[0])->stored);
    again += node->in[0] != forward->in[0];
    same += node->in[0] == forward->in[0] && strncmp(forward->name, "mixed", 5) == 0;
  }
  TestTrue(same == 2 && again == (precision == RENGA_PRECISION_FP32 ? 6 : 5));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Linear layers and their gradients round to 8 bits, but those of kept nodes and the last ones. */
static RengaErrorCode CheckEights(RengaComm comm)
{
  static const char *const networks[] = {"gpt:layers=1,hidden=8,heads=2,sequence=4,vocabulary=16",
                                         "mlp:sizes=8-8-8-8-4"};
  static const int rounded[2][2] = {{4, 3}, {3, 2}}; /* of all, and with some kept */
  static const char *const kept[2] = {"*.fc", "l.1"};
  for (int i = 0; i < 4; i++) {
    RengaGraph graph;
    int found = 0;
    RengaCall(RengaGraphCreate(comm, &graph));
    RengaCall(RengaGraphLoad(graph, networks[i / 2]));
    RengaCall(RengaGraphSetPrecision(graph, RENGA_PRECISION_FP8, i % 2 ? kept[i / 2] : NULL));
    RengaCall(RengaGraphSetUp(graph));
    for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
      const RengaGraphNode *node = RengaGraphGetNode(graph, n);
      const bool rounds = RengaAttributesInt(&node->attributes, "rounds", 0) != 0;
      TestTrue(!rounds || strcmp(node->op->name, "Linear") == 0);
      found += rounds;
    }
    TestTrue(found == rounded[i / 2][i % 2]);
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAll(void)
{
  static const char *const networks[] = {"gpt:layers=2,hidden=16,heads=2,sequence=8,vocabulary=32",
                                         "t5",
                                         "resnet:depth=18,image=32,classes=10",
                                         "bert",
                                         "ncf",
                                         "transformer",
                                         "mlp:sizes=8-8-8-4"};
  RengaComm comm;
  RengaGraph graph;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
    RengaCall(Make(comm, networks[i], NULL, &graph));
    if (i == 0) CheckWhole(graph);
    CheckTypes(graph);
    RengaCall(CheckStage(graph));
    RengaCall(RengaGraphDestroy(&graph));
  }
  RengaCall(CheckKept(comm));
  RengaCall(CheckCopies(comm, RENGA_PRECISION_FP32));
  RengaCall(CheckCopies(comm, RENGA_PRECISION_BF16));
  RengaCall(CheckEights(comm));
  RengaCall(CheckSeed(comm, RENGA_PRECISION_FP16));
  RengaCall(CheckSeed(comm, RENGA_PRECISION_BF16));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(CheckAll());
  RengaCallAbort(RengaFinalize());
  return 0;
}
