/* TEST ranks: 1 2 3 */
/* A wait that nobody answers ends with a sentence: rank, host, what. */
#include "commtest.h"
#include "renga/private/sums.h"
#include <string.h>

static const char *text; /* what the last Capture saw */

static RengaErrorCode Capture(RengaErrorCode (*f)(RengaComm), RengaComm comm)
{
  FILE *file;
  int saved = BeginErrors(&file);
  RengaErrorCode code = f(comm);
  text = EndErrors(file, saved);
  return code;
}

static char buffer[32];
static RengaRequest request;

static RengaErrorCode ReceiveNothing(RengaComm comm)
{
  int last = RengaCommGetSize(comm) - 1;
  RengaCall(RengaCommReceive(comm, buffer, 32, last, 9, &request));
  return RengaCommWait(comm, &request, "stage 1 waits for forward of micro-batch 3");
}

static RengaErrorCode BarrierAlone(RengaComm comm)
{
  if (RengaCommGetRank(comm) != 0) return RENGA_ERR_TIMEOUT;
  return RengaCommBarrier(comm, "the end of step 7");
}

static void CheckText(RengaComm comm, const char *what)
{
  char rank[64], host[MPI_MAX_PROCESSOR_NAME];
  int length;
  MPI_Get_processor_name(host, &length);
  snprintf(rank, sizeof rank, "rank %d of %d on ", RengaCommGetRank(comm), RengaCommGetSize(comm));
  TestTrue(strstr(text, rank) != NULL && strstr(text, host) != NULL && strstr(text, what) != NULL);
}

/* The message of ReceiveNothing arrives after all. */
static void AnswerAll(RengaComm comm)
{
  int size = RengaCommGetSize(comm);
  RengaRequest sends[8];
  bool last = RengaCommGetRank(comm) == size - 1;
  for (int r = 0; last && r < size; r++)
    RengaCallAbort(RengaCommSend(comm, "an answer that comes very late.", 32, r, 9, &sends[r]));
  RengaCallAbort(RengaCommWait(comm, &request, "the answer"));
  for (int r = 0; last && r < size; r++) RengaCallAbort(RengaCommWait(comm, &sends[r], "sends"));
  TestTrue(strcmp(buffer, "an answer that comes very late.") == 0);
}

static RengaErrorCode DestroyTooEarly(RengaComm comm)
{
  RengaRequest send, receive;
  int rank = RengaCommGetRank(comm);
  RengaCall(RengaCommSend(comm, "x", 1, rank, 1, &send));
  RengaCall(RengaCommReceive(comm, buffer, 1, rank, 1, &receive));
  return RengaCommDestroy(&comm);
}

static RengaErrorCode AddNothing(void *user, RengaDataType type, int64_t count, void *y,
                                 const void *x)
{
  (void)user, (void)type, (void)count, (void)y, (void)x;
  return RENGA_SUCCESS;
}

/* A sum is under way until it is ended, also where all of it is done. */
static RengaErrorCode DestroyUnderSum(RengaComm comm)
{
  static const int64_t whole[2] = {0, 1}, leaves[4] = {0, 1, 1, 1};
  static float data, work[128];
  const RengaPartialSum piece = {0, 1, &data};
  RengaComm group;
  RengaCommSum sum;
  RengaCommSumTask task = {.type = RENGA_FLOAT32,
                           .n_leaves = 1,
                           .leaves = leaves,
                           .pieces = &piece,
                           .result = &data,
                           .work = work,
                           .work_bytes = sizeof work,
                           .adder = {.begin = AddNothing}};
  RengaCall(RengaCommSplit(comm, 0, 0, &group));
  RengaCall(RengaBlocksCreate(RengaCommGetSize(group), 1, whole, &task.blocks));
  RengaCall(RengaCommSumBegin(group, &task, &sum));
  RengaCall(RengaCommBarrier(comm, "all ranks to begin a sum"));
  return RengaCommDestroy(&group);
}

int main(int argc, char **argv)
{
  RengaComm comm;
  char peer[64];
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCallAbort(RengaCommSetTimeout(comm, 0.2));
  TestTrue(Capture(ReceiveNothing, comm) == RENGA_ERR_TIMEOUT);
  CheckText(comm, "stage 1 waits for forward of micro-batch 3");
  snprintf(peer, sizeof peer, "32 bytes from rank %d, tag 9", RengaCommGetSize(comm) - 1);
  TestTrue(strstr(text, peer) != NULL && request != NULL);
  MPI_Barrier(MPI_COMM_WORLD); /* all have given up */
  RengaCallAbort(RengaCommSetTimeout(comm, 150));
  AnswerAll(comm);
  TestTrue(Capture(DestroyUnderSum, comm) == RENGA_ERR_ORDER);
  TestTrue(strstr(text, "has not ended 1 of its sums") != NULL);
  RengaCallAbort(RengaCommSetTimeout(comm, 0.2));
  if (RengaCommGetSize(comm) > 1) {
    TestTrue(Capture(BarrierAlone, comm) == RENGA_ERR_TIMEOUT);
    if (RengaCommGetRank(comm) == 0) CheckText(comm, "the end of step 7; no sign of rank 1");
    if (RengaCommGetRank(comm) == 0 && RengaCommGetSize(comm) > 2) CheckText(comm, "rank 1, 2 (");
    MPI_Barrier(MPI_COMM_WORLD);
    if (RengaCommGetRank(comm) > 0) RengaCallAbort(RengaCommBarrier(comm, "rank 0's barrier"));
    if (RengaCommGetRank(comm) == 0) /* once is enough: nothing waits for the limit again */
      TestTrue(Capture(BarrierAlone, comm) == RENGA_ERR_TIMEOUT && !strstr(text, "moved"));
    RengaCallAbort(RengaCommSetTimeout(comm, 150));
  }
  TestTrue(Capture(DestroyTooEarly, comm) == RENGA_ERR_ORDER);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  _exit(0); /* not by return: MPI keeps the barrier that rank 0 gave up, a leak to sanitizers */
}
