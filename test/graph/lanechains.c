/* TEST ranks: 1 */
/* -graph_lanes: how far apart slices may be, chains of very many nodes, tables of embeddings. */
#include "../plan/plantest.h"

static const RengaTensorSpec rows = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 12}};

static int CountNodesOf(RengaGraph graph, const char *op)
{
  int count = 0;
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++)
    count += strcmp(RengaGraphGetNode(graph, i)->op->name, op) == 0;
  return count;
}

static RengaErrorCode CutColumns(RengaGraph graph, RengaValue x, int64_t from, int64_t to,
                                 RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "starts", 1, &from));
  RengaCall(RengaAttributesSetInts(&attributes, "ends", 1, &to));
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){1}));
  RengaCall(RengaGraphAddNode(graph, "Slice", NULL, &attributes, 1, &x, 1, NULL, y));
  RengaAttributesFree(&attributes);
  return RENGA_SUCCESS;
}

/* Slices with many nodes between them stay, as the part of a Split would live so long. */
static RengaErrorCode CheckFarSlices(RengaComm comm, int between, int slices)
{
  RengaGraph graph;
  RengaValue x, a, b;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "x", &rows, &x));
  RengaCall(RengaGraphAddLinear(graph, "first", x, 14, true, 0.1, &x));
  RengaCall(CutColumns(graph, x, 0, 7, &a));
  for (int i = 0; i < between; i++) RengaCall(RengaGraphAddUnary(graph, "Tanh", a, &a));
  RengaCall(CutColumns(graph, x, 7, 14, &b));
  RengaCall(
      RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, (const RengaValue[]){a, b}, 1, NULL, &x));
  RengaCall(RengaGraphAddLinear(graph, "second", x, 4, true, 0.1, &x));
  RengaCall(RengaGraphAddOutput(graph, x));
  RengaCall(RengaGraphSetLanes(graph, 3));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountNodesOf(graph, "Slice") == slices);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* A chain of very many nodes is walked without a call for each. */
static RengaErrorCode CheckLongChain(RengaComm comm)
{
  enum { LONG = 20000 };
  RengaGraph graph;
  RengaValue x;
  int lanes;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "x", &rows, &x));
  RengaCall(RengaGraphAddLinear(graph, "first", x, 7, true, 0.1, &x));
  for (int i = 0; i < LONG; i++) RengaCall(RengaGraphAddUnary(graph, "Tanh", x, &x));
  RengaCall(RengaGraphAddLinear(graph, "second", x, 4, true, 0.1, &x));
  RengaCall(RengaGraphAddOutput(graph, x));
  RengaCall(RengaGraphSetLanes(graph, 2));
  TestError(RengaGraphGetLanes(graph, &lanes, NULL), RENGA_ERR_ORDER, "RengaGraphSetUp first");
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountNodesOf(graph, "Tanh") == 2 * LONG);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* In three lanes, with so many look-ups of which terms are added: of tables with twice as many rows
   as columns, and no fewer than a sample has indices, where all that reads them has their rows; or
   where that is asked for. */
static RengaErrorCode CheckTableIn(RengaComm comm, const char *what, const char *wishes,
                                   int expected)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaOptionsSetValue("graph_split", wishes));
  RengaCall(RengaGraphLoad(graph, what));
  RengaCall(RengaGraphSetFromOptions(graph));
  RengaCall(RengaGraphSetLanes(graph, 3));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(CountNodesOf(graph, "Gather") == expected);
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (strcmp(node->op->name, "Gather") != 0 || expected < 3) continue;
    TestTrue(node->lane > 0 && RengaAttributesInt(&node->attributes, "rows", 0) == 23);
    TestTrue(RengaAttributesInt(&node->attributes, "first", -1) == 23 * (node->lane - 1) / 3);
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLookUps(RengaComm comm)
{
  static const char wide[] = "gpt:layers=1,hidden=12,heads=4,sequence=4,vocabulary=23,tied=0";
  RengaCall(CheckTableIn(comm, "gpt:layers=1,hidden=8,heads=4,sequence=4,vocabulary=23", "", 3));
  RengaCall(CheckTableIn(comm, "gpt:layers=1,hidden=8,heads=4,sequence=4,vocabulary=23",
                         "logits:whole", 1)); /* reads all of the table */
  RengaCall(CheckTableIn(comm, "gpt:layers=1,hidden=8,heads=4,sequence=24,vocabulary=23", "", 1));
  RengaCall(CheckTableIn(comm, "ncf:users=23,items=23,factors=3,layers=8-5-7", "", 12));
  RengaCall(CheckTableIn(comm, wide, "", 1));
  RengaCall(CheckTableIn(comm, wide, "Gather*:rows", 3));
  RengaCall(CheckTableIn(comm, wide, "Gather*:lanes", 3));
  RengaCall(RengaOptionsSetValue("graph_split", ""));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckFarSlices(comm, 4, 0));
  RengaCall(CheckFarSlices(comm, 40, 2));
  RengaCall(CheckLongChain(comm));
  RengaCall(CheckLookUps(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
