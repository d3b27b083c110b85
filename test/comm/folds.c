/* TEST ranks: 1 2 4 */
/* Reduce-scatters whose pieces somebody takes instead of adding them: each element of a rank's
   block comes once, with the pieces of all ranks that have one, in their order, and may be written
   over; in many rounds, where a rank has no piece, and where taking fails. */
#include "sumtest.h"

enum { COUNT = 100000 };

typedef struct {
  int64_t first, last, taken;
  int pieces, fails; /* fails: the call that does; 0: none */
  int calls;
  float *sum; /* [COUNT] */
} Taker;

static RengaErrorCode Take(void *user, int64_t at, int64_t count, void *const piece[])
{
  Taker *taker = user;
  RengaCheck(++taker->calls != taker->fails, MPI_COMM_SELF, RENGA_ERR_NUMERIC, "nobody takes it");
  TestTrue(at >= taker->first && at + count <= taker->last);
  for (int p = 0; p < taker->pieces; p++)
    for (int64_t i = 0; i < count; i++) {
      TestTrue(((float *)piece[p])[i] == SumLeaf(p, at + i));
      taker->sum[at + i] += ((float *)piece[p])[i];
      ((float *)piece[p])[i] = -1;
    }
  taker->taken += count;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddNothing(void *user, RengaDataType type, int64_t count, void *y,
                                 const void *x)
{
  (void)user, (void)type, (void)count, (void)y, (void)x;
  TestTrue(false); /* there is a folder */
  return RENGA_SUCCESS;
}

static void CheckFold(RengaComm comm, int givers, size_t work, int fails)
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
  for (int r = 0; r < size; r++) leaves[r + 1] = r < givers ? r + 1 : givers;
  RengaCallAbort(RengaMalloc(COUNT, &vector));
  RengaCallAbort(RengaMalloc(COUNT, &sum));
  RengaCallAbort(RengaMalloc((int64_t)work, &memory));
  RengaCallAbort(RengaBlocksCreate(size, 1, begin, &blocks));
  for (int64_t i = 0; i < COUNT; i++) vector[i] = SumLeaf(rank, i);
  Taker taker = {.pieces = givers, .sum = sum, .fails = rank == 0 ? fails : 0};
  RengaCallAbort(RengaBlocksGetRange(blocks, rank, &taker.first, &taker.last));
  const RengaPartialSum piece = {.first = rank, .count = 1, .data = vector};
  const RengaCommSumTask task = {.blocks = blocks,
                                 .type = RENGA_FLOAT32,
                                 .n_leaves = givers,
                                 .leaves = leaves,
                                 .pieces = &piece,
                                 .work = memory,
                                 .work_bytes = work,
                                 .adder = {.begin = AddNothing},
                                 .folder = {.take = Take, .user = &taker}};
  const int saved = BeginErrors(&file);
  RengaCallAbort(RengaCommReduceScatterBegin(comm, &task, &under_way));
  const RengaErrorCode code = RengaCommSumEnd(&under_way, "a fold", &whole);
  EndErrors(file, saved);
  TestTrue(code == (taker.fails ? RENGA_ERR_NUMERIC : RENGA_SUCCESS));
  TestTrue(fails ? !taker.fails || !whole : whole && taker.taken == taker.last - taker.first);
  for (int64_t i = taker.first; i < taker.last && !fails; i++) {
    float expected = 0;
    for (int p = 0; p < givers; p++) expected += SumLeaf(p, i);
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

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommSetTimeout(comm, 150));
  const int size = RengaCommGetSize(comm);
  for (int givers = 1; givers <= size; givers++) CheckFold(comm, givers, 1 << 20, 0);
  CheckFold(comm, size, 4096, 0);
  CheckFold(comm, size, 1 << 20, 1);
  CheckFold(comm, size, 4096, 0);
  RengaCall(CheckRefused(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
