/* TEST ranks: 8 */
/* Bytes that a sum sends out of a node, as a part of the least that a reduce-scatter and an
   all-gather of nodes send, 2 V (N - 1) / N: for any leaves, ranks dealt to nodes in any order,
   reduce-scatters to owners that are given, and rounds of micro-batches that go to them, of half of
   that. With CROSSING_TABLE=1 in the
   environment all of them are printed, beside the least that the tree allows (sumroutes.c). */
#include "rengaplan.h"
#include "sumtest.h"
#include <stdlib.h>

enum { COUNT = 8 * RENGA_VECTOR_PIECE };

typedef struct {
  RengaComm comm;
  RengaBlocks blocks;
  float *vectors, *result;
  char *work;
  size_t work_bytes;
  int node, nodes;
  int of_node[MOST_RANKS]; /* node of each rank */
  int64_t leaves[MOST_RANKS + 1];
} Crossing;

static RengaErrorCode TakeNothing(void *user, int64_t at, int64_t count, void *const piece[])
{
  (void)user, (void)at, (void)count, (void)piece;
  return RENGA_SUCCESS;
}

/* The most bytes that a node has sent since `before`, of the least. */
static double PartOfLeast(const Crossing *c, int64_t before, double least)
{
  int64_t messages, bytes, of_node[MOST_RANKS] = {0}, most = 0;
  RengaCallAbort(RengaCommGetSumTraffic(c->comm, &messages, &bytes));
  of_node[c->node] = bytes - before;
  MPI_Allreduce(MPI_IN_PLACE, of_node, MOST_RANKS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  for (int n = 0; n < c->nodes; n++)
    if (of_node[n] > most) most = of_node[n];
  return (double)most / least;
}

/* Of leaves [first, first + size), as many as there are: the nodes that may have the sum after the
   fewest messages, of which there are *fewest. */
static unsigned Parsimony(const Crossing *c, int64_t n, int64_t first, int64_t size, int *fewest)
{
  int rank = 0;
  if (first >= n) return ~0U;
  while (c->leaves[rank + 1] <= first) rank++;
  if (size == 1) return 1U << c->of_node[rank];
  const unsigned left = Parsimony(c, n, first, size / 2, fewest),
                 right = Parsimony(c, n, first + size / 2, size / 2, fewest);
  *fewest += (left & right) == 0;
  return left & right ? left & right : left | right;
}

/* What the node that sends most sends at least, of 2 V (N - 1) / N. */
static double LeastOfTree(const Crossing *c, int64_t n)
{
  int fewest = 0;
  Parsimony(c, n, 0, 64, &fewest);
  return (fewest + c->nodes - 1) / (2.0 * (c->nodes - 1));
}

/* fold: one round, whose micro-batches stand there in the batch; WHOLE: a sum; HALF: of sharded
   moments, which each rank has of its own block. */
enum { WHOLE = -1, HALF = -2 };
static double Cross(Crossing *c, int64_t n, int64_t fold)
{
  const int rank = RengaCommGetRank(c->comm), size = RengaCommGetSize(c->comm);
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  int64_t messages, before;
  RengaCommSum sum;
  AtOnce at_once = {0};
  bool whole;
  for (int r = 0; r <= size; r++)
    c->leaves[r] = fold < 0 ? RengaPlanBound(n, size, r) : fold + r < n ? fold + r : n;
  const int held = RengaCommTreePieces(n, c->leaves[rank], c->leaves[rank + 1], piece);
  for (int p = 0; p < held; p++) piece[p].data = c->vectors + p * COUNT;
  RengaCommSumTask task = {.blocks = c->blocks,
                           .type = RENGA_FLOAT32,
                           .n_leaves = n,
                           .leaves = c->leaves,
                           .pieces = piece,
                           .result = c->result,
                           .work = c->work,
                           .work_bytes = c->work_bytes,
                           .adder = {.begin = AddAtOnce, .user = &at_once}};
  if (fold >= 0) task.folder = (RengaCommFolder){.take = TakeNothing, .merges = true};
  RengaCallAbort(RengaCommGetSumTraffic(c->comm, &messages, &before));
  if (fold != WHOLE)
    RengaCallAbort(RengaCommReduceScatterBegin(c->comm, &task, &sum));
  else
    RengaCallAbort(RengaCommSumBegin(c->comm, &task, &sum));
  RengaCallAbort(RengaCommSumEnd(&sum, "a sum", &whole));
  const double half = (double)COUNT * sizeof(float) * (c->nodes - 1) / c->nodes;
  return PartOfLeast(c, before, fold == WHOLE ? 2 * half : half);
}

/* Leaves of whole sums, and rounds of folds, with the most that they may send in hundredths. */
typedef struct {
  const char *nodes; /* RENGA_NODES */
  struct {
    int leaves, most, half;
  } row[16];
  int fold; /* of all rounds of 40 micro-batches */
} Expected;

/* The tree of 24 or 40 leaves has no nodes that are the leaves of 2 or 4 equal parts: the least is
   1.5 on 2 nodes, 1.33 and 1.5 on 4. So is that of 8 on nodes of 3, 3 and 2 ranks: 1.25. */
static const Expected expected[] = {
    {"2",
     {{3, 100, 100},
      {5, 100, 100},
      {8, 100, 100},
      {9, 100, 150},
      {10, 100, 150},
      {11, 100, 150},
      {12, 100, 100},
      {13, 100, 100},
      {15, 100, 100},
      {16, 100, 100},
      {24, 150, 200},
      {35, 100, 150},
      {40, 167, 250}},
     100},
    {"2:cyclic", {{8, 100, 100}, {12, 100, 100}, {15, 100, 100}, {24, 150, 200}}, 100},
    {"4",
     {{8, 100, 100},
      {9, 110, 183},
      {10, 100, 100},
      {11, 100, 100},
      {12, 100, 100},
      {15, 100, 100},
      {16, 100, 100},
      {24, 140, 200},
      {40, 163, 233}},
     100},
    {"4:cyclic", {{8, 100, 100}, {12, 100, 100}, {24, 140, 200}}, 100},
    {"3", {{8, 125, 188}, {16, 125, 188}}, 188}, /* of 3, 3 and 2 ranks */
};

static RengaErrorCode CheckNodes(const Expected *e, bool print)
{
  static const int64_t begin[2] = {0, COUNT};
  Crossing c = {0};
  MPI_Comm ranks;
  setenv("RENGA_NODES", e->nodes, 1);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &c.comm));
  RengaCall(RengaCommSetTimeout(c.comm, 150));
  RengaCall(RengaCommGetNode(c.comm, &c.node, &c.nodes, NULL, NULL));
  RengaCall(RengaObjectGetComm(c.comm, &ranks));
  MPI_Allgather(&c.node, 1, MPI_INT, c.of_node, 1, MPI_INT, ranks);
  const bool first = RengaCommGetRank(c.comm) == 0;
  c.work_bytes = 4 << 20;
  RengaCall(RengaMalloc((int64_t)c.work_bytes, &c.work));
  RengaCall(RengaMalloc((int64_t)RENGA_COMM_TREE_PIECES * COUNT, &c.vectors));
  RengaCall(RengaMalloc(COUNT, &c.result));
  RengaCall(RengaBlocksCreate(RengaCommGetSize(c.comm), 1, begin, &c.blocks));
  for (int i = 0; e->row[i].leaves > 0; i++) {
    const double part = Cross(&c, e->row[i].leaves, WHOLE);
    const double half = Cross(&c, e->row[i].leaves, HALF);
    const double least = LeastOfTree(&c, e->row[i].leaves);
    if (print && first)
      printf("%-9s %3d leaves: %.2f, by the tree %.2f; to owners %.2f, by the tree %.2f\n",
             e->nodes, e->row[i].leaves, part, least, half, 2 * least - 1);
    TestTrue(print || (part > least - 0.005 && half > 2 * least - 1.005));
    TestTrue(print || 100 * part <= e->row[i].most + 0.5);
    TestTrue(print || 100 * half <= e->row[i].half + 0.5);
  }
  for (int64_t at = 0; at < 40; at += RengaCommGetSize(c.comm)) {
    const double part = Cross(&c, 40, at);
    if (print && first) printf("%-9s round at %d: %.2f\n", e->nodes, (int)at, part);
    TestTrue(print || 100 * part <= e->fold + 0.5);
  }
  RengaCall(RengaBlocksDestroy(&c.blocks));
  RengaFree(&c.work);
  RengaFree(&c.vectors);
  RengaFree(&c.result);
  RengaCall(RengaCommDestroy(&c.comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    RengaCall(CheckNodes(&expected[i], getenv("CROSSING_TABLE") != NULL));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
