/* TEST ranks: 8 */
/* Bytes that a sum sends out of a node, as a part of the least that a reduce-scatter and an
   all-gather of nodes send, 2 V (N - 1) / N: for any leaves, ranks dealt to nodes in any order,
   reduce-scatters to owners that are given, and rounds of micro-batches that go to them, of half of
   that, as all-gathers are. Planners are told the same. With CROSSING_TABLE=1 in the
   environment all of them are printed, beside the least that the tree allows (sumroutes.c). */
#include "rengaplan.h"
#include "sumtest.h"
#include <math.h>
#include <stdlib.h>

enum {
  COUNT = 8 * RENGA_VECTOR_PIECE,
  NODES = 4, /* the most */
  TURNS = 40 /* in which prices are found */
};

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

/* fold: one round, whose micro-batches stand there in the batch; WHOLE: a sum; HALF: of sharded
   moments, which each rank has of its own block. */
enum { WHOLE = -1, HALF = -2 };

/* fold: as of Cross. */
static void CheckForecast(const Crossing *c, int64_t n, int64_t fold, double part)
{
  const RengaSumRouting kind = fold >= 0       ? RENGA_SUM_FOLD
                               : fold == WHOLE ? RENGA_SUM_WHOLE
                                               : RENGA_SUM_HALF;
  const int size = RengaCommGetSize(c->comm);
  double pieces;
  RengaCallAbort(RengaCommSumPieces_Private(kind, size, (size + c->nodes - 1) / c->nodes, n,
                                            c->leaves, &pieces));
  TestTrue(fabs(part - (fold == WHOLE ? (pieces + 1) / 2 : pieces)) < 0.01);
}

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
  const double part = PartOfLeast(c, before, fold == WHOLE ? 2 * half : half);
  CheckForecast(c, n, fold, part);
  return part;
}

/* Each owner's block gets to all, some by way of a third node. */
static double Gather(Crossing *c)
{
  const RengaCommSumTask task = {
      .blocks = c->blocks, .type = RENGA_FLOAT32, .result = c->result, .adder = {0}};
  int64_t messages, before, first, last;
  RengaCommSum sum;
  bool whole;
  RengaCallAbort(RengaBlocksGetRange(c->blocks, RengaCommGetRank(c->comm), &first, &last));
  for (int64_t i = 0; i < COUNT; i++) c->result[i] = i >= first && i < last ? SumLeaf(0, i) : -1;
  RengaCallAbort(RengaCommGetSumTraffic(c->comm, &messages, &before));
  RengaCallAbort(RengaCommAllGatherBegin(c->comm, &task, &sum));
  RengaCallAbort(RengaCommSumEnd(&sum, "a gather", &whole));
  TestTrue(whole);
  for (int64_t i = 0; i < COUNT; i++) TestTrue(c->result[i] == SumLeaf(0, i));
  return PartOfLeast(c, before, (double)COUNT * sizeof(float) * (c->nodes - 1) / c->nodes);
}

/* The way to have a value on each node of a set, at the least cost: what each node sends for it. */
typedef struct {
  double cost, out[NODES];
} Way;

static void Improve(Way *way, const Way *other)
{
  if (other->cost < way->cost) *way = *other;
}

/* Of the sum of leaves [first, first + size), as many as there are. price: of a vector that a node
   sends. way: [1 << NODES] by sets; who has both halves adds them up, others are sent the sum. */
static void FindWays(const Crossing *c, const double price[], int64_t n, int64_t first,
                     int64_t size, Way way[])
{
  Way half[2][1 << NODES] = {0};
  const int sets = 1 << c->nodes;
  int rank = 0;
  for (int h = 0; h < 2 && size > 1; h++)
    if (first + h * size / 2 < n) FindWays(c, price, n, first + h * size / 2, size / 2, half[h]);
  while (c->leaves[rank + 1] <= first) rank++;
  for (int s = 0; s < sets; s++) {
    way[s] = (Way){.cost = half[0][s].cost + half[1][s].cost};
    for (int k = 0; k < c->nodes; k++) way[s].out[k] = half[0][s].out[k] + half[1][s].out[k];
    if (size == 1 && s & ~(1 << c->of_node[rank])) way[s].cost = HUGE_VAL;
  }
  for (int s = 1; s < sets; s++)
    for (int x = 0; x < c->nodes; x++) {
      int from = -1;
      for (int k = 0; k < c->nodes; k++)
        if (s >> k & 1 && (from < 0 || price[k] < price[from])) from = k;
      Way sent = way[s];
      sent.cost += price[from];
      sent.out[from]++;
      Improve(&way[s | 1 << x], &sent);
    }
  for (int s = sets - 1; s >= 0; s--)
    for (int x = 0; x < c->nodes; x++) Improve(&way[s], &way[s | 1 << x]);
}

/* What the node that sends most sends at least, in vectors: no less than the mean by prices, any of
   which add up to 1. To all nodes, or of each rank's block to its own. */
static double LeastOfTree(const Crossing *c, int64_t n, bool to_all)
{
  const int size = RengaCommGetSize(c->comm);
  double price[NODES], least = 0;
  for (int k = 0; k < c->nodes; k++) price[k] = 1.0 / c->nodes;
  for (int turn = 1; turn <= TURNS; turn++) {
    Way way[1 << NODES], mean = {0};
    double all = 0;
    FindWays(c, price, n, 0, 64, way);
    for (int r = 0; r < size; r++) {
      const Way *own = &way[to_all ? (1 << c->nodes) - 1 : 1 << c->of_node[r]];
      mean.cost += own->cost / size;
      for (int k = 0; k < c->nodes; k++) mean.out[k] += own->out[k] / size;
    }
    least = fmax(least, mean.cost);
    for (int k = 0; k < c->nodes; k++) all += price[k] *= exp((mean.out[k] - 1) / turn);
    for (int k = 0; k < c->nodes; k++) price[k] /= all;
  }
  return least;
}

/* Leaves of whole sums, and rounds of folds, with the most that they may send in hundredths. */
typedef struct {
  const char *nodes; /* RENGA_NODES */
  struct {
    int leaves, most, half;
  } row[16];
  int fold; /* of all rounds of 40 micro-batches */
  int gather;
} Expected;

/* The tree of 24 or 40 leaves has no nodes that are the leaves of 2 or 4 equal parts. Of 2 nodes,
   and of 3, 3 and 2 ranks where blocks may be any, it is the least that the tree allows. */
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
     100,
     100},
    {"2:cyclic", {{8, 100, 100}, {12, 100, 100}, {15, 100, 100}, {24, 150, 200}}, 100, 100},
    {"4",
     {{8, 100, 100},
      {9, 110, 183},
      {10, 100, 100},
      {11, 100, 100},
      {12, 100, 100},
      {15, 100, 100},
      {16, 100, 100},
      {24, 135, 200},
      {40, 157, 233}},
     100,
     100},
    {"4:cyclic", {{8, 100, 100}, {12, 100, 100}, {24, 135, 200}}, 100, 100},
    {"3", {{8, 125, 188}, {16, 125, 188}}, 188, 113}, /* of 3, 3 and 2 ranks */
    {"5", {{0}}, 0, 110},                             /* of 2, 2, 1, 2 and 1 ranks: 125 straight */
};

/* On nodes of as many ranks each this rank meets its node, and one rank of each other; a sum of one
   partial sum per node is one message to each of these, and its block one more. */
static void CheckPeers(Crossing *c)
{
  const int rank = RengaCommGetRank(c->comm), size = RengaCommGetSize(c->comm);
  const int own = size / c->nodes;
  int peer[MOST_RANKS], near, far, place[MOST_RANKS];
  int64_t before, messages, bytes;
  MPI_Comm ranks;
  RengaCommSumListPeers_Private(c->comm, peer, &near, &far);
  RengaCallAbort(RengaObjectGetComm(c->comm, &ranks));
  RengaCallAbort(RengaCommGetNode(c->comm, NULL, NULL, &place[rank], NULL));
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, place, 1, MPI_INT, ranks);
  TestTrue(near + far < size);
  if (own * c->nodes != size) return;
  TestTrue(near == own - 1 && far == c->nodes - 1);
  for (int p = near; p < near + far; p++) TestTrue(place[peer[p]] == place[rank]);
  RengaCallAbort(RengaCommGetSumTraffic(c->comm, &before, &bytes));
  Cross(c, size, WHOLE);
  RengaCallAbort(RengaCommGetSumTraffic(c->comm, &messages, &bytes));
  TestTrue(messages - before == 2 * far);
}

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
  CheckPeers(&c);
  for (int i = 0; e->row[i].leaves > 0; i++) {
    const double part = Cross(&c, e->row[i].leaves, WHOLE);
    const double half = Cross(&c, e->row[i].leaves, HALF);
    const double whole = 2.0 * (c.nodes - 1) / c.nodes;
    for (int r = 0; r <= MOST_RANKS; r++)
      c.leaves[r] = RengaPlanBound(e->row[i].leaves, MOST_RANKS, r);
    const double least = first ? LeastOfTree(&c, e->row[i].leaves, true) / whole : 0;
    const double half_least = first ? 2 * LeastOfTree(&c, e->row[i].leaves, false) / whole : 0;
    if (print && first)
      printf("%-9s %3d leaves: %.2f, by the tree %.2f; to owners %.2f, by the tree %.2f\n",
             e->nodes, e->row[i].leaves, part, least, half, half_least);
    TestTrue(print || (part > least - 0.005 && half > half_least - 0.005));
    TestTrue(print || 100 * part <= e->row[i].most + 0.5);
    TestTrue(print || 100 * half <= e->row[i].half + 0.5);
  }
  const double gathered = Gather(&c);
  if (print && first) printf("%-9s gather: %.2f\n", e->nodes, gathered);
  TestTrue(print || 100 * gathered <= e->gather + 0.5);
  for (int64_t at = 0; at < 40 && e->fold > 0; at += RengaCommGetSize(c.comm)) {
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
