/* TEST ranks: 1 2 3 4 8 */
/* Messages: lengths 0 to many parts, order, progress, errors; collectives in parts. */
#include "commtest.h"
#include "renga/private/sums.h"
#include <string.h>

enum { LONGEST = 100003, KINDS = 6 };
static const size_t lengths[KINDS] = {0, 1, 1023, 1024, 1025, LONGEST};

static unsigned char Byte(int from, int to, int kind, size_t i)
{
  return (unsigned char)(from * 31 + to * 17 + kind * 7 + (int)(i % 251));
}

static void CheckAllToAll(RengaComm comm)
{
  int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  unsigned char *in, *out;
  RengaRequest *requests;
  RengaCallAbort(RengaMalloc(size * LONGEST, &in));
  RengaCallAbort(RengaMalloc(size * LONGEST, &out));
  RengaCallAbort(RengaMalloc(2 * size, &requests));
  for (int kind = 0; kind < KINDS; kind++) {
    size_t n = lengths[kind];
    for (int peer = 0; peer < size; peer++) {
      for (size_t i = 0; i < n; i++) out[peer * LONGEST + i] = Byte(rank, peer, kind, i);
      RengaCallAbort(RengaCommReceive(comm, in + peer * LONGEST, n, peer, 3, &requests[peer]));
      RengaCallAbort(RengaCommSend(comm, out + peer * LONGEST, n, peer, 3, &requests[size + peer]));
      RengaCallAbort(RengaCommProgress(comm));
    }
    for (int i = 2 * size - 1; i >= 0; i--) {
      bool done = false;
      if (i % 2)
        while (!done) RengaCallAbort(RengaCommTest(comm, &requests[i], &done));
      else
        RengaCallAbort(RengaCommWait(comm, &requests[i], "all to all"));
      TestTrue(requests[i] == NULL);
    }
    for (int peer = 0; peer < size; peer++)
      for (size_t i = 0; i < n; i++) TestTrue(in[peer * LONGEST + i] == Byte(peer, rank, kind, i));
  }
  RengaFree(&requests);
  RengaFree(&out);
  RengaFree(&in);
}

/* Messages under one tag arrive in the order of their sends, long ones among short ones. */
static void CheckOrder(RengaComm comm)
{
  enum { COUNT = 20 };
  int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  static int in[COUNT][1000], out[COUNT][1000];
  RengaRequest requests[2 * COUNT];
  for (int i = 0; i < COUNT; i++) {
    size_t bytes = sizeof(int) * (i % 2 ? 1000 : 1);
    out[i][0] = rank * 100 + i;
    RengaCallAbort(RengaCommSend(comm, out[i], bytes, next, 0, &requests[i]));
    RengaCallAbort(RengaCommReceive(comm, in[i], bytes, before, 0, &requests[COUNT + i]));
  }
  for (int i = 0; i < 2 * COUNT; i++) RengaCallAbort(RengaCommWait(comm, &requests[i], "order"));
  for (int i = 0; i < COUNT; i++) TestTrue(in[i][0] == before * 100 + i);
  RengaCallAbort(RengaCommWait(comm, &requests[0], "nothing"));
}

static void CheckCollectives(RengaComm comm)
{
  enum { COUNT = 1000 };
  int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm), root = size / 2;
  static double values[COUNT], wide[COUNT];
  static int64_t whole[COUNT];
  static float single[COUNT];
  static int mine[COUNT], all[8 * COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = i % size == rank ? (i == 0 ? -0.0 : 1.0 / (i + 3)) : 0.0;
    whole[i] = ((int64_t)1 << 60) / size + i * rank;
    single[i] = (float)(i + rank);
    wide[i] = (double)i / 8 + rank;
    mine[i] = rank == root ? i * 5 : -1;
  }
  RengaCallAbort(RengaCommBarrier(comm, "a barrier"));
  RengaCallAbort(RengaCommBroadcast(comm, mine, sizeof mine, root, "a broadcast"));
  RengaCallAbort(RengaCommSumExact(comm, COUNT, values, "a sum"));
  RengaCallAbort(RengaCommSumInt64(comm, COUNT, whole, "a sum"));
  RengaCallAbort(RengaCommSumUnordered(comm, RENGA_FLOAT32, COUNT, single, "a sum"));
  RengaCallAbort(RengaCommSumUnordered(comm, RENGA_FLOAT64, COUNT, wide, "a sum"));
  TestError(RengaCommSumUnordered(comm, RENGA_BFLOAT16, COUNT, single, "a sum"), RENGA_ERR_SUPPORT);
  double zero = 0.0;
  TestTrue(memcmp(&values[0], &zero, sizeof zero) == 0);
  for (int i = 0; i < COUNT; i++) {
    TestTrue(i == 0 || values[i] == 1.0 / (i + 3));
    TestTrue(whole[i] == ((int64_t)1 << 60) / size * size + (int64_t)i * size * (size - 1) / 2);
    TestTrue(single[i] == (float)(i * size + size * (size - 1) / 2));
    TestTrue(wide[i] == (double)i / 8 * size + size * (size - 1) / 2.0);
    TestTrue(mine[i] == i * 5);
    mine[i] = rank * 1000 + i;
  }
  for (int to = -1; to < size; to++) {
    memset(all, 0, sizeof all);
    RengaCallAbort(RengaCommGather(comm, mine, sizeof mine, all, to, "a gather"));
    for (int i = 0; i < size * COUNT && (to < 0 || to == rank); i++)
      TestTrue(all[i] == i / COUNT * 1000 + i % COUNT);
  }
}

static void CheckErrors(RengaComm comm)
{
  int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  char in[16], out[8] = "";
  RengaRequest send = NULL, receive = NULL;
  TestError(RengaCommSend(comm, out, 8, size, 0, &send), RENGA_ERR_ARGUMENT);
  TestError(RengaCommSend(comm, out, 8, -1, 0, &send), RENGA_ERR_ARGUMENT);
  TestError(RengaCommReceive(comm, in, 8, 0, -1, &send), RENGA_ERR_ARGUMENT);
  TestError(RengaCommReceive(comm, NULL, 8, 0, 0, &send), RENGA_ERR_ARGUMENT);
  TestError(RengaCommBroadcast(comm, in, 8, size, "nothing"), RENGA_ERR_ARGUMENT);
  TestTrue(send == NULL);
  /* A message shorter than what is waited for is an error, not a buffer with rubbish at its end. */
  RengaCallAbort(RengaCommSend(comm, out, 8, rank, 0, &send));
  RengaCallAbort(RengaCommReceive(comm, in, 16, rank, 0, &receive));
  TestError(RengaCommWait(comm, &receive, "a short message"), RENGA_ERR_SHAPE);
  RengaCallAbort(RengaCommWait(comm, &receive, "what is done"));
  RengaCallAbort(RengaCommWait(comm, &send, "what is done"));
}

int main(int argc, char **argv)
{
  RengaComm comm, strict;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int round = 0; round < 2; round++) {
    CheckAllToAll(comm);
    CheckOrder(comm);
    CheckCollectives(comm);
    RengaCallAbort(RengaOptionsSetValue("comm_message_limit", "1024"));
    RengaCallAbort(RengaCommSetFromOptions(comm));
  }
  RengaCallAbort(RengaCommSplit(comm, 0, 0, &strict));
  RengaCallAbort(RengaCommDestroy(&comm));
  CheckErrors(strict);
  RengaCallAbort(RengaCommDestroy(&strict));
  RengaCallAbort(RengaFinalize());
  return 0;
}
