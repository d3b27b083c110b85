/* TEST ranks: 1 */
/* -graph_lanes, -graph_token_lanes: what is split, what stays whole; losses and gradients are those
   of the network. */
#include "../plan/plantest.h"
#include "execute.h"
#include "lanenetworks.h"
#include "renga/private/graph.h"
#include "rownetworks.h"
#include <math.h>

enum { BATCH = 3 };
static bool of_tokens; /* lanes are of tokens, not of heads */
static int heads = 1;  /* lanes of heads beside those of tokens */

static void CheckShape(RengaGraph graph, const char *name, int64_t first, int64_t second)
{
  const RengaValue value = RengaGraphFindValue(graph, name);
  if (value < 0) fprintf(stderr, "there is no %s\n", name);
  TestTrue(value >= 0);
  const RengaTensorSpec *spec = &RengaGraphGetValue(graph, value)->spec;
  TestTrue(spec->ndim == 2 && spec->dim[0] == first && spec->dim[1] == second);
}

static int CountOperator(RengaGraph graph, const char *op)
{
  int count = 0;
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++)
    count += strcmp(RengaGraphGetNode(graph, i)->op->name, op) == 0;
  return count;
}

static bool asks_samples; /* networks have losses of samples */

/* Runs forward and reverse mode; the gradients are left in execute. */
static RengaErrorCode Open(RengaComm comm, RengaDevice device, const char *what, int lanes,
                           Execute *execute)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphSetSampleLosses(graph, asks_samples));
  if (strcmp(what, "images") == 0)
    RengaCall(AddImages(graph));
  else if (strncmp(what, "experts", 7) == 0)
    RengaCall(AddExperts(graph, what[7] != 0));
  else if (strcmp(what, "sequences") == 0)
    RengaCall(AddSequences(graph));
  else if (strncmp(what, "rows", 4) == 0)
    RengaCall(AddClassified(graph, what[4] != 0));
  else if (strncmp(what, "unet", 4) == 0)
    RengaCall(AddUNet(graph, what[4] != 0));
  else
    RengaCall(RengaGraphLoad(graph, what));
  if (of_tokens) {
    RengaCall(RengaGraphSetTokenLanes(graph, lanes));
    RengaCall(RengaGraphSetLanes(graph, lanes > 1 ? heads : 1));
  } else
    RengaCall(RengaGraphSetLanes(graph, lanes));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL));
  RengaCall(ExecuteCreate(graph, device, BATCH, 5, execute));
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++)
    for (int64_t i = 0; RengaGraphGetValue(graph, v)->kind == RENGA_VALUE_INPUT &&
                        i < ExecuteCountElements(execute, v);
         i++)
      ExecuteSet(execute, v, i, (double)((i * 7 + 3) % 11));
  RengaCall(ExecuteRun(execute, false));
  return RENGA_SUCCESS;
}

/* Element i of the gradient of a parameter, all uses together. */
static double Gradient(const Execute *execute, const char *name, int64_t i)
{
  const RengaParameterUse *use;
  int count;
  double sum = 0;
  RengaCallAbort(RengaGraphGetParameterUses(execute->graph, &count, &use));
  for (int u = 0; u < count; u++)
    if (strcmp(RengaGraphGetValue(execute->graph, use[u].parameter)->name, name) == 0)
      sum += ExecuteGet(execute, use[u].gradient, i);
  return sum;
}

static RengaErrorCode CheckNetwork(RengaComm comm, RengaDevice device, const char *what, int lanes)
{
  Execute whole, split;
  RengaValue loss[2];
  RengaCall(Open(comm, device, what, 1, &whole));
  RengaCall(Open(comm, device, what, lanes, &split));
  RengaCall(RengaGraphGetLoss(whole.graph, &loss[0]));
  RengaCall(RengaGraphGetLoss(split.graph, &loss[1]));
  TestTrue(RengaGraphGetNodeCount(split.graph) > RengaGraphGetNodeCount(whole.graph));
  TestTrue(RengaGraphGetDigest(split.graph) != RengaGraphGetDigest(whole.graph));
  TestTrue(fabs(ExecuteGet(&whole, loss[0], 0) - ExecuteGet(&split, loss[1], 0)) < 1e-5);
  for (int v = 0; v < RengaGraphGetValueCount(whole.graph); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(whole.graph, v);
    const RengaValue same = RengaGraphFindValue(split.graph, value->name);
    if (value->kind != RENGA_VALUE_PARAMETER) continue;
    TestTrue(same >= 0 && ExecuteCountElements(&split, same) == ExecuteCountElements(&whole, v));
    for (int64_t i = 0; i < ExecuteCountElements(&whole, v); i++) {
      const double a = Gradient(&whole, value->name, i), b = Gradient(&split, value->name, i);
      TestTrue(fabs(a - b) < 1e-4 * (1 + fabs(a)));
      TestTrue(ExecuteGet(&whole, v, i) == ExecuteGet(&split, same, i));
    }
  }
  RengaGraph graphs[2] = {whole.graph, split.graph};
  RengaCall(ExecuteDestroy(&whole));
  RengaCall(ExecuteDestroy(&split));
  for (int i = 0; i < 2; i++) RengaCall(RengaGraphDestroy(&graphs[i]));
  return RENGA_SUCCESS;
}

/* Outputs of the network are whole. */
static RengaErrorCode CheckOutputs(const Execute *whole, const Execute *split)
{
  const RengaValue *outputs[2];
  int count[2];
  RengaCall(RengaGraphGetOutputs(whole->graph, &count[0], &outputs[0]));
  RengaCall(RengaGraphGetOutputs(split->graph, &count[1], &outputs[1]));
  TestTrue(count[0] == count[1]);
  for (int o = 0; o < count[0]; o++) {
    const int64_t n = ExecuteCountElements(whole, outputs[0][o]);
    TestTrue(ExecuteCountElements(split, outputs[1][o]) == n);
    for (int64_t i = 0; i < n; i++)
      TestTrue(fabs(ExecuteGet(whole, outputs[0][o], i) - ExecuteGet(split, outputs[1][o], i)) <
               1e-5);
  }
  return RENGA_SUCCESS;
}

/* Scores of many classes are in lanes, and so is their loss; few are not. Who reads the scores has
   them whole: an output, the losses of samples. */
static RengaErrorCode CheckVocabulary(RengaComm comm, RengaDevice device)
{
  static const char *const networks[] = {
      "gpt:layers=1,hidden=8,heads=4,sequence=4,vocabulary=23,tied=0",
      "gpt:layers=1,hidden=8,heads=4,sequence=4,vocabulary=23",
      "llama:layers=1,hidden=8,heads=4,intermediate=9,sequence=4,vocabulary=23",
      "mlp:sizes=5-4-23"};
  for (int n = 0; n < 4; n++)
    for (int lanes = 2; lanes <= 4; lanes++) {
      Execute whole, split;
      asks_samples = false;
      RengaCall(CheckNetwork(comm, device, networks[n], lanes));
      asks_samples = true;
      RengaCall(Open(comm, device, networks[n], 1, &whole));
      RengaCall(Open(comm, device, networks[n], lanes, &split));
      asks_samples = false;
      TestTrue(CountOperator(split.graph, "CrossEntropyLane") == lanes);
      TestTrue(CountOperator(split.graph, "CrossEntropyJoin") == 1);
      TestTrue(CountOperator(split.graph, "CrossEntropy") == 0);
      RengaCall(CheckOutputs(&whole, &split));
      RengaGraph graphs[2] = {whole.graph, split.graph};
      RengaCall(ExecuteDestroy(&whole));
      RengaCall(ExecuteDestroy(&split));
      for (int i = 0; i < 2; i++) RengaCall(RengaGraphDestroy(&graphs[i]));
    }
  return RENGA_SUCCESS;
}

/* Each lane makes the sum of a third of the tokens: of the terms of lanes 0 and 1, which one of
   these adds, and of that of lane 2. */
static void CheckSum(RengaGraph graph)
{
  const RengaValue sum = RengaGraphFindValue(graph, "blocks.0.proj");
  const RengaGraphNode *join = RengaGraphGetNode(graph, RengaGraphGetValue(graph, sum)->producer);
  TestTrue(strcmp(join->op->name, "Concat") == 0 && join->n_in == 3 && join->lane == 0);
  for (int p = 0; p < 3; p++) {
    const RengaGraphValue *piece = RengaGraphGetValue(graph, join->in[p]);
    const RengaGraphNode *root = RengaGraphGetNode(graph, piece->producer);
    TestTrue(strcmp(root->op->name, "Add") == 0 && root->lane == 1 + p);
    TestTrue(piece->spec.dim[1] == (p < 2 ? 1 : 2));
    const RengaGraphValue *left = RengaGraphGetValue(graph, root->in[0]);
    const RengaGraphValue *right = RengaGraphGetValue(graph, root->in[1]);
    char name[64];
    snprintf(name, sizeof name, "blocks.0.proj.lanes0-1.piece%d", p);
    TestTrue(strcmp(left->name, name) == 0 && right->output == p);
    TestTrue(RengaGraphGetNode(graph, left->producer)->lane == 1 + p % 2);
    TestTrue(
        strcmp(RengaGraphGetNode(graph, right->producer)->name, "blocks.0.proj.lane2.pieces") == 0);
  }
}

/* Five heads of four in three lanes: 1, 2, 2; columns of queries, keys and values of a lane. */
static RengaErrorCode CheckUneven(RengaComm comm)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "gpt:layers=1,hidden=20,heads=5,sequence=4,vocabulary=11"));
  RengaCall(RengaGraphSetLanes(graph, 3));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountOperator(graph, "Attention") == 3);
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, i);
    if (strcmp(node->name, "blocks.0.qkv.lane0") == 0 ||
        strcmp(node->name, "blocks.0.qkv.lane2") == 0)
      CheckShape(graph, RengaGraphGetValue(graph, node->in[1])->name,
                 strcmp(node->name, "blocks.0.qkv.lane0") == 0 ? 3 * 4 : 3 * 8, 20);
    if (strcmp(node->name, "blocks.0.proj.lane0") == 0) TestTrue(node->n_in == 3);
    if (strcmp(node->name, "blocks.0.proj.lane1") == 0) TestTrue(node->n_in == 2);
  }
  CheckSum(graph);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Six lanes of a network with five heads: attention is whole, the hidden layer is not. */
/* A network whose lanes are open is in any number of them what it would be, were these given. */
static RengaErrorCode CheckOpen(RengaComm comm)
{
  static const char what[] = "gpt:layers=2,hidden=24,heads=4,sequence=4,vocabulary=64";
  RengaGraph open, made, given;
  int lanes;
  RengaCall(RengaGraphCreate(comm, &open));
  RengaCall(RengaGraphLoad(open, what));
  RengaCall(RengaGraphSetLanes(open, 0));
  RengaCall(RengaGraphSetUp(open));
  TestTrue(RengaGraphLanesAreOpen_Private(open));
  const uint64_t whole = RengaGraphGetDigest(open);
  for (int l = 1; l <= 4; l *= 2) {
    RengaCall(RengaGraphCreate(comm, &given));
    RengaCall(RengaGraphLoad(given, what));
    RengaCall(RengaGraphSetLanes(given, l));
    RengaCall(RengaGraphSetUp(given));
    RengaCall(RengaGraphInLanes_Private(open, l, 1, &made));
    TestTrue(made && RengaGraphGetDigest(made) == RengaGraphGetDigest(given));
    RengaGraphExchange_Private(open, made);
    RengaCall(RengaGraphGetLanes(open, &lanes, NULL));
    TestTrue(lanes == l && RengaGraphGetDigest(open) == RengaGraphGetDigest(given));
    RengaCall(RengaGraphDestroy(&made));
    RengaCall(RengaGraphDestroy(&given));
  }
  RengaCall(RengaGraphInLanes_Private(open, 8, 1, &made));
  TestTrue(!made); /* four heads */
  RengaCall(RengaGraphInLanes_Private(open, 1, 1, &made));
  TestTrue(RengaGraphGetDigest(made) == whole);
  RengaCall(RengaGraphDestroy(&made));
  RengaCall(RengaGraphDestroy(&open));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFew(RengaComm comm)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "gpt:layers=1,hidden=20,heads=5,sequence=4,vocabulary=11"));
  TestError(RengaGraphSetLanes(graph, -1), RENGA_ERR_ARGUMENT, "-1 lanes: must be from 1 to 1024");
  RengaCall(RengaGraphSetLanes(graph, 6));
  RengaCall(RengaGraphSetUp(graph));
  int lanes, nodes;
  RengaCall(RengaGraphGetLanes(graph, &lanes, &nodes));
  TestTrue(lanes == 6 && nodes > 0);
  TestError(RengaGraphSetLanes(graph, 2), RENGA_ERR_ORDER, "call it before RengaGraphSetUp");
  TestTrue(CountOperator(graph, "Attention") == 1);
  TestTrue(RengaGraphFindValue(graph, "blocks.0.proj.lane0") == RENGA_VALUE_NONE);
  TestTrue(CountOperator(graph, "Gelu") == 6);
  TestTrue(RengaGraphFindValue(graph, "blocks.0.out.lane5") != RENGA_VALUE_NONE);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Six heads of queries in pairs, each with a head of keys and values: three lanes have
   pairs, with the columns of their keys; two and four have as many heads each as can be, and all
   keys are whole. */
static RengaErrorCode CheckShared(RengaComm comm)
{
  for (int lanes = 2; lanes <= 4; lanes++) {
    RengaGraph graph;
    RengaCall(RengaGraphCreate(comm, &graph));
    RengaCall(RengaGraphLoad(graph, "llama:layers=1,hidden=24,heads=6,groups=3,"
                                    "intermediate=9,sequence=4,vocabulary=11"));
    RengaCall(RengaGraphSetLanes(graph, lanes));
    RengaCall(RengaGraphSetUp(graph));
    TestTrue(CountOperator(graph, "Attention") == lanes);
    const bool whole = lanes != 3;
    TestTrue(CountOperator(graph, "Linear") == 7 * lanes - (whole ? 2 * (lanes - 1) : 0) + 1);
    TestTrue(CountOperator(graph, "Expand") == (whole ? 2 : 2 * lanes));
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

/* Convolutions: three lanes have the channels between two of them, and those before a layer; of
   the states of channels in lanes each lane has one of its own. */
static RengaErrorCode CheckImages(RengaComm comm)
{
  RengaGraph graph;
  const RengaStateUpdate *update;
  int updates;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(AddImages(graph));
  RengaCall(RengaGraphSetLanes(graph, 3));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountOperator(graph, "Conv") == 9);
  TestTrue(CountOperator(graph, "BatchNormalization") == 3);
  TestTrue(CountOperator(graph, "Linear") == 3);
  RengaCall(RengaGraphGetStateUpdates(graph, &updates, &update));
  TestTrue(updates == 6);
  for (int u = 0; u < updates; u++) {
    const RengaGraphValue *part = RengaGraphGetValue(graph, update[u].state);
    float values[2];
    const RengaGraphValue *whole = RengaGraphGetValue(graph, part->whole);
    TestTrue(part->spec.dim[0] == 2 && part->first == u / 2 * 2 && whole->spec.dim[0] == 6);
    TestTrue(strncmp(part->name, whole->name, strlen(whole->name)) == 0);
    RengaCall(RengaGraphInitializeValue(graph, update[u].state, 1, 0, 2, values));
    TestTrue(values[1] == (strstr(whole->name, "var") ? 1 : 0));
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Three lanes have products of their experts; six lanes of five experts have none. */
static RengaErrorCode CheckExperts(RengaComm comm, bool product, int lanes)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(AddExperts(graph, product));
  RengaCall(RengaGraphSetLanes(graph, lanes));
  RengaCall(RengaGraphSetUp(graph));
  const int each = lanes > 5 ? 1 : lanes;
  TestTrue(CountOperator(graph, "Tanh") == each);
  TestTrue(CountOperator(graph, "MatMul") == (product ? 3 : 2) * each);
  TestTrue(CountOperator(graph, "Linear") == 2 + lanes); /* by classes */
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Columns of a gate and of what it lets through, cut by slices: the halves are one Split, with
   columns in lanes, unless something is missing or too much. */
static RengaErrorCode CheckSlices(RengaComm comm, int64_t from, int64_t to, int lanes, int expected)
{
  RengaGraph graph;
  RengaValue x, a, b;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "x", &rows, &x));
  RengaCall(RengaGraphAddLinear(graph, "first", x, 14, true, 0.1, &x));
  RengaCall(AddSlice(graph, x, 0, 7, &a));
  RengaCall(AddSlice(graph, x, from, to, &b));
  RengaCall(RengaGraphAddUnary(graph, "Sigmoid", a, &a));
  RengaCall(
      RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, (const RengaValue[]){a, b}, 1, NULL, &x));
  RengaCall(RengaGraphAddLinear(graph, "second", x, 4, true, 0.1, &x));
  RengaCall(RengaGraphAddOutput(graph, x));
  RengaCall(RengaGraphSetLanes(graph, lanes));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountOperator(graph, "Linear") == expected);
  TestTrue(CountOperator(graph, "Slice") == (expected == 6 ? 0 : 2));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Two layers; what is between them may be read elsewhere, or be a softmax of all columns. */
static RengaErrorCode CheckChain(RengaComm comm, const char *op, bool reads, int expected)
{
  RengaGraph graph;
  RengaValue x, y, z;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "x", &rows, &x));
  RengaCall(RengaGraphAddLinear(graph, "first", x, 7, true, 0.1, &y));
  RengaCall(RengaGraphAddUnary(graph, op, y, &y));
  RengaCall(RengaGraphAddLinear(graph, "second", y, 4, true, 0.1, &z));
  RengaCall(RengaGraphAddOutput(graph, z));
  if (reads) RengaCall(RengaGraphAddOutput(graph, y));
  RengaCall(RengaGraphSetLanes(graph, 2));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountOperator(graph, "Linear") == expected);
  TestTrue(CountOperator(graph, "Split") == (expected == 4 ? 3 : 0));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Every node along tokens has a node in each lane, and a lane number; keys are put together. */
static RengaErrorCode CheckTokens(RengaComm comm)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "gpt:layers=1,hidden=8,heads=2,sequence=7,vocabulary=11"));
  RengaCall(RengaGraphSetTokenLanes(graph, 3));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountOperator(graph, "Linear") == 3 * 5 && CountOperator(graph, "Attention") == 3);
  TestTrue(CountOperator(graph, "LayerNormalization") == 3 * 3);
  TestTrue(CountOperator(graph, "Concat") == 3); /* keys, values, the output */
  int first[3] = {-1, -1, -1}, tokens[3] = {0};
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, i);
    TestTrue((strstr(node->name, ".lane0") != NULL) ==
             (RengaLaneNumber(node->lane, RENGA_LANES_OF_TOKENS) == 0));
    if (strcmp(node->op->name, "Attention") != 0) continue;
    const int lane = RengaLaneNumber(node->lane, RENGA_LANES_OF_TOKENS);
    TestTrue(lane >= 0 && lane < 3);
    first[lane] = (int)RengaAttributesInt(&node->attributes, "first", -1);
    tokens[lane] = (int)RengaGraphGetValue(graph, node->in[0])->spec.dim[2];
  }
  TestTrue(first[0] == 0 && first[1] == 2 && first[2] == 4);
  TestTrue(tokens[0] == 2 && tokens[1] == 2 && tokens[2] == 3);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Rows of an image: of what lanes have made, a convolution reads the rows around its own. */
static RengaErrorCode CheckRows(RengaComm comm)
{
  static const int expected[2][4] = {{3, 5, 5, 4}, {3, 5, 5, 4}}; /* input, and behind the pool */
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(AddClassified(graph, false));
  RengaCall(RengaGraphSetTokenLanes(graph, 4));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountOperator(graph, "Conv") == 4 * 2 + 3 && CountOperator(graph, "MaxPool") == 4);
  TestTrue(CountOperator(graph, "Slice") == 4);
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, i);
    const int which = strncmp(node->name, "c1.lane", 7) == 0   ? 0
                      : strncmp(node->name, "c2.lane", 7) == 0 ? 1
                                                               : -1;
    if (which >= 0)
      TestTrue(RengaGraphGetValue(graph, node->in[0])->spec.dim[2] ==
               expected[which][RengaLaneNumber(node->lane, RENGA_LANES_OF_TOKENS)]);
  }
  RengaCall(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL));
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++) { /* windows are not kept */
    const RengaGraphNode *node = RengaGraphGetNode(graph, i);
    if (node->lane == 0 || strcmp(node->op->name, "ConvGradWeight") != 0) continue;
    const int maker = RengaGraphGetValue(graph, node->in[0])->producer;
    TestTrue(maker >= 0 && RengaGraphGetNode(graph, maker)->phase != RENGA_PHASE_FORWARD);
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Statistics of a batch are those of lanes; where there are as many rows as lanes. */
static RengaErrorCode CheckRowNorms(RengaComm comm)
{
  RengaGraph graph;
  const RengaStateUpdate *update;
  int updates;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "resnet:depth=18,width=0.125,image=32,classes=7"));
  RengaCall(RengaGraphSetTokenLanes(graph, 2));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountOperator(graph, "BatchNormalizationJoin") == 15); /* of 20: the last have a row */
  TestTrue(CountOperator(graph, "BatchNormalizationLane") == 2 * 15);
  TestTrue(CountOperator(graph, "BatchNormalization") == 2 * 15 + 5);
  RengaCall(RengaGraphGetStateUpdates(graph, &updates, &update));
  TestTrue(updates == 2 * 20 && update[0].sample_values == 0 && update[1].sample_values == 256);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* A network without tokens, and more lanes than tokens are refused. */
static RengaErrorCode RefuseTokens(RengaComm comm, const char *what, int lanes, const char *why)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, what));
  RengaCall(RengaGraphSetTokenLanes(graph, lanes));
  TestError(RengaGraphSetUp(graph), RENGA_ERR_OPTION, why);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Lanes of both kinds: each of the one has those of the other. */
static RengaErrorCode CheckBothKinds(RengaComm comm, RengaDevice device)
{
  static const char *const networks[] = {
      "gpt:layers=1,hidden=20,heads=5,sequence=5,vocabulary=43",
      ("t5:layers=1,hidden=10,heads=5,head_width=2,intermediate=7,sequence=5,vocabulary=11,gated=1,"
       "buckets=4,distance=5"),
      "llama:layers=1,hidden=12,heads=6,groups=3,intermediate=7,sequence=5,vocabulary=11",
      "rows, with norms", "unet, with norms"};
  of_tokens = true;
  for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++)
    for (heads = 2; heads <= 3; heads++)
      for (int lanes = 2; lanes <= 3; lanes++)
        RengaCall(CheckNetwork(comm, device, networks[n], lanes));
  of_tokens = false;
  heads = 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckTokenNetworks(RengaComm comm, RengaDevice device)
{
  static const char gpt[] = "gpt:layers=1,hidden=20,heads=5,sequence=5,vocabulary=11";
  of_tokens = true;
  for (int lanes = 2; lanes <= 4; lanes++) {
    RengaCall(CheckNetwork(comm, device, gpt, lanes));
    RengaCall(CheckNetwork(comm, device, "sequences", lanes));
    RengaCall(CheckNetwork(comm, device,
                           "t5:layers=1,hidden=10,heads=5,head_width=2,intermediate=7,sequence=5,"
                           "vocabulary=11,gated=1,buckets=4,distance=5",
                           lanes));
    RengaCall(CheckNetwork(comm, device,
                           "llama:layers=1,hidden=12,heads=6,groups=3,intermediate=7,"
                           "sequence=5,vocabulary=11",
                           lanes));
  }
  for (int lanes = 2; lanes <= 5; lanes++) {
    RengaCall(CheckNetwork(comm, device, "rows", lanes));
    if (lanes < 5) RengaCall(CheckNetwork(comm, device, "unet", lanes));
    RengaCall(CheckNetwork(comm, device, "rows, with norms", lanes));
    if (lanes < 5) RengaCall(CheckNetwork(comm, device, "unet, with norms", lanes));
  }
  RengaCall(CheckRows(comm));
  RengaCall(CheckRowNorms(comm));
  of_tokens = false;
  RengaCall(CheckTokens(comm));
  RengaCall(RefuseTokens(comm, "mlp:sizes=5-9-7", 2, "-graph_token_lanes 2: the network has no"));
  RengaCall(RefuseTokens(comm, gpt, 6, "or give fewer lanes"));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaDevice device;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(device));
  for (int lanes = 2; lanes <= 4; lanes++) {
    RengaCall(CheckNetwork(comm, device, "gpt:layers=1,hidden=20,heads=5,sequence=4,vocabulary=11",
                           lanes));
    RengaCall(CheckNetwork(comm, device,
                           "t5:layers=1,hidden=10,heads=5,head_width=2,intermediate=7,sequence=5,"
                           "vocabulary=11,gated=1,buckets=4,distance=5",
                           lanes));
    RengaCall(CheckNetwork(comm, device,
                           "llama:layers=1,hidden=12,heads=6,groups=3,intermediate=7,"
                           "sequence=5,vocabulary=11",
                           lanes));
    RengaCall(CheckNetwork(comm, device, "mlp:sizes=5-9-7-8-11", lanes));
    RengaCall(CheckNetwork(comm, device, "images", lanes));
    RengaCall(CheckNetwork(comm, device, "experts", lanes));
    RengaCall(CheckNetwork(comm, device, "experts by a product", lanes));
  }
  RengaCall(CheckVocabulary(comm, device));
  RengaCall(CheckNetwork(comm, device, "ncf:users=23,items=29,factors=3,layers=8-5-7", 3));
  RengaCall(CheckTokenNetworks(comm, device));
  RengaCall(CheckBothKinds(comm, device));
  RengaCall(CheckUneven(comm));
  RengaCall(CheckFew(comm));
  RengaCall(CheckOpen(comm));
  RengaCall(CheckShared(comm));
  RengaCall(CheckImages(comm));
  for (int product = 0; product < 2; product++) {
    RengaCall(CheckExperts(comm, product, 3));
    RengaCall(CheckExperts(comm, product, 6));
  }
  RengaCall(CheckSlices(comm, 7, 14, 3, 6));
  RengaCall(CheckSlices(comm, 7, INT64_MAX, 3, 6));
  RengaCall(CheckSlices(comm, 6, 13, 3, 2));
  RengaCall(CheckSlices(comm, 7, 14, 1, 2));
  RengaCall(CheckChain(comm, "Relu", false, 4));
  RengaCall(CheckChain(comm, "Relu", true, 2));
  RengaCall(CheckChain(comm, "Softmax", false, 2));
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
