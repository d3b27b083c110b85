/* TEST ranks: 1 2 4 8 */
/* Reduce-scatters whose pieces somebody takes instead of adding them: each element of a rank's
   block comes once, with the pieces of all ranks that have one, in their order, those of other
   nodes added up where that is asked for, some by way of a third node, and may be written over; in
   many rounds, where a rank has no piece, and where taking fails. */
#include "sumtest.h"
#include <stdlib.h>

enum { COUNT = 100000 };

typedef struct {
  int64_t first, last, taken;
  RengaPartialSum piece[MOST_RANKS]; /* leaves of each */
  int pieces, fails;                 /* fails: the call that does; 0: none */
  int calls;
  float *sum; /* [COUNT] */
} Taker;

/* By the tree: of 1, 2, 4 or 8 leaves, from `first` on. */
static float SumLeaves(int64_t first, int64_t count, int64_t i)
{
  if (count == 1) return SumLeaf(first, i);
  return SumLeaves(first, count / 2, i) + SumLeaves(first + count / 2, count / 2, i);
}

static RengaErrorCode Take(void *user, int64_t at, int64_t count, void *const piece[])
{
  Taker *taker = user;
  RengaCheck(++taker->calls != taker->fails, MPI_COMM_SELF, RENGA_ERR_NUMERIC, "nobody takes it");
  TestTrue(at >= taker->first && at + count <= taker->last);
  for (int p = 0; p < taker->pieces; p++)
    for (int64_t i = 0; i < count; i++) {
      const RengaPartialSum *of = &taker->piece[p];
      TestTrue(((float *)piece[p])[i] == SumLeaves(of->first, of->count, at + i));
      taker->sum[at + i] += ((float *)piece[p])[i];
      ((float *)piece[p])[i] = -1;
    }
  taker->taken += count;
  return RENGA_SUCCESS;
}

/* user: NULL where there is a folder that gets all pieces as they are. */
static RengaErrorCode AddForFolder(void *user, RengaDataType type, int64_t count, void *y,
                                   const void *x)
{
  TestTrue(user != NULL);
  AddTyped(type, count, y, x);
  return RENGA_SUCCESS;
}

/* from: the first leaf of a tree of 16, which goes on behind the last one here; -1: all come as
   they are. */
static void CheckFold(RengaComm comm, int givers, int from, size_t work, int fails)
{
  static const int64_t begin[2] = {0, COUNT};
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  int64_t leaves[MOST_RANKS + 1] = {0};
  float *vector, *sum;
  char *memory;
  RengaCommSum under_way = NULL;
  RengaBlocks blocks;
  FILE *file;
  bool whole;
  const int first = from < 0 ? 0 : from;
  for (int r = 0; r <= size; r++) leaves[r] = first + (r < givers ? r : givers);
  RengaCallAbort(RengaMalloc(COUNT, &vector));
  RengaCallAbort(RengaMalloc(COUNT, &sum));
  RengaCallAbort(RengaMalloc((int64_t)work, &memory));
  RengaCallAbort(RengaBlocksCreate(size, 1, begin, &blocks));
  for (int64_t i = 0; i < COUNT; i++) vector[i] = SumLeaf(first + rank, i);
  Taker taker = {.sum = sum, .fails = rank == 0 ? fails : 0};
  RengaCallAbort(RengaCommFoldPieces(comm, 16, leaves, from >= 0, taker.piece, &taker.pieces));
  TestTrue(from >= 0 || taker.pieces == givers);
  RengaCallAbort(RengaBlocksGetRange(blocks, rank, &taker.first, &taker.last));
  const RengaPartialSum piece = {.first = first + rank, .count = 1, .data = vector};
  const RengaCommSumTask task = {.blocks = blocks,
                                 .type = RENGA_FLOAT32,
                                 .n_leaves = 16,
                                 .leaves = leaves,
                                 .pieces = &piece,
                                 .work = memory,
                                 .work_bytes = work,
                                 .adder = {.begin = AddForFolder, .user = from < 0 ? NULL : &taker},
                                 .folder = {.take = Take, .user = &taker, .merges = from >= 0}};
  const int saved = BeginErrors(&file);
  RengaCallAbort(RengaCommReduceScatterBegin(comm, &task, &under_way));
  const RengaErrorCode code = RengaCommSumEnd(&under_way, "a fold", &whole);
  EndErrors(file, saved);
  TestTrue(code == (taker.fails ? RENGA_ERR_NUMERIC : RENGA_SUCCESS));
  TestTrue(fails ? !taker.fails || !whole : whole && taker.taken == taker.last - taker.first);
  for (int64_t i = taker.first; i < taker.last && !fails; i++) {
    float expected = 0;
    for (int p = 0; p < taker.pieces; p++)
      expected += SumLeaves(taker.piece[p].first, taker.piece[p].count, i);
    TestTrue(sum[i] == expected);
  }
  RengaCallAbort(RengaBlocksDestroy(&blocks));
  RengaFree(&vector);
  RengaFree(&sum);
  RengaFree(&memory);
}

/* There is no whole result to make of what was taken. */
static RengaErrorCode CheckRefused(RengaComm comm)
{
  static const int64_t begin[2] = {0, 0};
  RengaCommSum sum = NULL;
  RengaBlocks blocks;
  Taker taker = {.pieces = 1};
  RengaCallAbort(RengaBlocksCreate(RengaCommGetSize(comm), 1, begin, &blocks));
  const RengaCommSumTask task = {
      .blocks = blocks, .type = RENGA_FLOAT32, .folder = {.take = Take, .user = &taker}};
  ExpectError(RengaCommAllGatherBegin(comm, &task, &sum), RENGA_ERR_ARGUMENT,
              "pieces are taken in a reduce-scatter only");
  RengaCall(RengaBlocksDestroy(&blocks));
  return RENGA_SUCCESS;
}

/* nodes: RENGA_NODES, or NULL. */
static RengaErrorCode CheckOn(const char *nodes)
{
  RengaComm comm;
  if (nodes) setenv("RENGA_NODES", nodes, 1);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommSetTimeout(comm, 150));
  const int size = RengaCommGetSize(comm);
  for (int givers = size > 4 ? size - 1 : 1; givers <= size; givers++)
    for (int from = -1; from < 4; from++) CheckFold(comm, givers, from, 1 << 20, 0);
  CheckFold(comm, size, 0, 4096, 0);
  CheckFold(comm, size, -1, 1 << 20, 1);
  CheckFold(comm, size, 0, 1 << 20, 1);
  CheckFold(comm, size, -1, 4096, 0);
  RengaCall(CheckRefused(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 4) { /* of 2, 2, 1, 2 and 1 ranks */
    RengaCall(CheckOn("5"));
    return RENGA_SUCCESS;
  }
  RengaCall(CheckOn(NULL));
  if (size > 2) RengaCall(CheckOn("2"));
  if (size > 2) RengaCall(CheckOn("2:cyclic"));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
