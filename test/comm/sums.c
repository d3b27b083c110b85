/* TEST ranks: 2 3 4 */
/* Several sums under way at once: tested and ended in another order on each rank, driven by any
   wait and by progress, failing, cancelled, late. Nothing is left under way, and what comes after
   them is right. */
#include "renga/private/fault.h"
#include "sumtest.h"

enum { SUMS = 4, TAG = 5 };

static int isends_to_fail;

/* Stands before MPI's own. */
int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
  if (isends_to_fail > 0 && isends_to_fail--) return MPI_ERR_OTHER;
  return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

static void CreateAll(RengaComm comm, Sample s[SUMS])
{
  static const int64_t counts[SUMS] = {50000, 3, 120000, 33000};
  for (int i = 0; i < SUMS; i++)
    SampleCreate(comm, 5 + i, i, counts[i], i % 3, 5 * 4096 + 60000, i % 2 == 0, &s[i]);
  for (int i = 0; i < SUMS; i += 2)
    s[i].task.adder = (RengaCommAdder){.begin = AddLater, .test = TestLater, .user = s[i].later};
}

static void BeginAll(RengaComm comm, Sample s[SUMS])
{
  for (int i = 0; i < SUMS; i++) RengaCallAbort(RengaCommSumBegin(comm, &s[i].task, &s[i].sum));
}

/* This rank's place in the order in which it ends them. */
static int Turn(RengaComm comm, int i)
{
  const int rank = RengaCommGetRank(comm), turned = rank % 2 ? SUMS - 1 - i : i;
  return (turned + rank / 2) % SUMS;
}

static void CheckAtOnce(RengaComm comm)
{
  Sample s[SUMS];
  bool whole;
  CreateAll(comm, s);
  BeginAll(comm, s);
  for (int i = 0; i < SUMS; i++) {
    Sample *one = &s[Turn(comm, i)];
    for (bool done = false; !done && i % 2;) RengaCallAbort(RengaCommSumTest(one->sum, &done));
    RengaCallAbort(RengaCommSumEnd(&one->sum, "one of several sums", &whole));
    TestTrue(whole && SampleIsRight(one));
  }
  for (int i = 0; i < SUMS; i++) SampleFree(&s[i]);
}

/* Elements that this rank adds in its sum of two pieces for each of the others. */
static int64_t OwnWork(RengaComm comm, const Sample *s)
{
  int64_t first, last;
  RengaCallAbort(RengaBlocksGetRange(s->task.blocks, RengaCommGetRank(comm), &first, &last));
  return (last - first) * (RengaCommGetSize(comm) - 1);
}

/* Nobody asks for the sum of the group: progress of its parent, a wait for a message and one for
   all ranks do the adding. */
static void CheckDriven(RengaComm comm, int nodes)
{
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  RengaRequest send = NULL, receive = NULL;
  RengaComm group;
  Sample s;
  char in = 0, out = 'x';
  bool whole, done;
  RengaCallAbort(RengaCommSplit(comm, 0, -rank, &group));
  SampleCreate(group, size, 0, 300000, 0, 100000, true, &s);
  RengaCallAbort(RengaCommReceive(comm, &in, 1, (rank + 1) % size, TAG, &receive));
  RengaCallAbort(RengaCommSumBegin(group, &s.task, &s.sum));
  while (rank == 0 && s.at_once.elements < OwnWork(group, &s))
    RengaCallAbort(RengaCommProgress(comm));
  RengaCallAbort(RengaCommSend(comm, &out, 1, (rank + size - 1) % size, TAG, &send));
  RengaCallAbort(RengaCommWait(comm, &receive, "a message that leaves when a sum is made"));
  RengaCallAbort(RengaCommWait(comm, &send, "a message"));
  /* by messages rank 0 could not do it alone */
  TestTrue(nodes == 1 || rank != size - 1 || s.at_once.elements > 0);
  RengaCallAbort(RengaCommBarrier(comm, "all ranks to add"));
  for (done = false; !done;) RengaCallAbort(RengaCommSumTest(s.sum, &done));
  TestTrue(s.at_once.elements == OwnWork(group, &s));
  RengaCallAbort(RengaCommSumEnd(&s.sum, "the sum of a group", &whole));
  TestTrue(whole && SampleIsRight(&s));
  SampleFree(&s);
  RengaCallAbort(RengaCommDestroy(&group));
}

/* The last rank's adder fails in the middle of one of the sums. */
static void CheckFailure(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  Sample s[SUMS];
  bool whole;
  CreateAll(comm, s);
  SampleFree(&s[1]);
  SampleCreate(comm, 2 * size, 0, 200000, 0, 40000, true, &s[1]);
  if (rank == size - 1) s[1].at_once.fails = 2;
  BeginAll(comm, s);
  for (int i = 0; i < SUMS; i++) {
    const int t = Turn(comm, i);
    FILE *file;
    const int saved = BeginErrors(&file);
    const RengaErrorCode code = RengaCommSumEnd(&s[t].sum, "a sum that fails", &whole);
    EndErrors(file, saved);
    TestTrue(code == (t == 1 && rank == size - 1 ? RENGA_ERR_NUMERIC : RENGA_SUCCESS));
    TestTrue(s[t].sum == NULL && whole == (t != 1));
    if (t != 1) TestTrue(SampleIsRight(&s[t]));
  }
  for (int i = 0; i < SUMS; i++) SampleFree(&s[i]);
}

/* canceller -1: all ranks cancel the sum; else this one, and the others are told. */
static void CheckCancelled(RengaComm comm, int canceller)
{
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  Sample s;
  bool whole = true;
  SampleCreate(comm, size, 0, 400000, 0, 30000, true, &s);
  SampleBeginBehind(comm, canceller < 0 ? 0 : canceller, &s);
  if (canceller < 0 || rank == canceller)
    RengaCallAbort(RengaCommSumCancel(&s.sum, "a sum that is cancelled"));
  else
    RengaCallAbort(RengaCommSumEnd(&s.sum, "a sum that another cancels", &whole));
  TestTrue(s.sum == NULL && whole == (canceller < 0 || rank == canceller));
  SampleFree(&s);
}

/* No memory on one rank: nothing was sent, and the sum is begun once more. */
static void CheckNoMemory(RengaComm comm)
{
  for (int n = 1; n <= 4; n++) {
    Sample s;
    bool whole;
    SampleCreate(comm, 6, 1, 1000, 0, 0, true, &s);
    if (RengaCommGetRank(comm) == 1) {
      RengaFaultSet(RENGA_FAULT_ALLOCATION, n);
      TestError(RengaCommSumBegin(comm, &s.task, &s.sum), RENGA_ERR_MEMORY);
      RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
    }
    RengaCallAbort(RengaCommSumBegin(comm, &s.task, &s.sum));
    RengaCallAbort(RengaCommSumEnd(&s.sum, "a sum that found no memory at first", &whole));
    TestTrue(whole && SampleIsRight(&s));
    SampleFree(&s);
  }
}

/* MPI refuses so many messages of rank 0: what was begun is told when the sum is ended, which may
   be tried again. */
static void CheckNoMessage(RengaComm comm, int refused)
{
  const int rank = RengaCommGetRank(comm);
  Sample s;
  bool whole = false;
  int errors = 0;
  FILE *file;
  SampleCreate(comm, 2 * RengaCommGetSize(comm), 0, 100000, 0, 40000, true, &s);
  const int saved = BeginErrors(&file);
  if (rank == 0) isends_to_fail = refused;
  RengaCallAbort(RengaCommSumBegin(comm, &s.task, &s.sum));
  while (s.sum && errors < 10)
    if (RengaCommSumEnd(&s.sum, "a sum whose messages are refused", &whole)) errors++;
  EndErrors(file, saved);
  TestTrue(errors == (rank == 0 ? refused / 3 : 0)); /* three tries each */
  TestTrue(whole && SampleIsRight(&s));
  SampleFree(&s);
}

/* Rank 0 waits for a sum that the others begin only later. */
static void CheckLate(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm);
  Sample s;
  bool whole;
  SampleCreate(comm, 6, 0, 50000, 0, 0, true, &s);
  if (rank == 0) {
    FILE *file;
    RengaCallAbort(RengaCommSumBegin(comm, &s.task, &s.sum));
    RengaCallAbort(RengaCommSetTimeout(comm, 0.2));
    const int saved = BeginErrors(&file);
    const RengaErrorCode code = RengaCommSumEnd(&s.sum, "the gradients of step 3", &whole);
    const char *text = EndErrors(file, saved);
    TestTrue(code == RENGA_ERR_TIMEOUT && s.sum != NULL && !whole);
    TestTrue(strstr(text, "the gradients of step 3 (round 1 of ") != NULL);
    TestTrue(strstr(text, "no sign of rank 1") != NULL);
    RengaCallAbort(RengaCommSetTimeout(comm, 150));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank > 0) RengaCallAbort(RengaCommSumBegin(comm, &s.task, &s.sum));
  RengaCallAbort(RengaCommSumEnd(&s.sum, "a sum that comes late", &whole));
  TestTrue(whole && SampleIsRight(&s));
  SampleFree(&s);
}

/* Sums were made, several at once. */
static void CheckMemory(RengaComm comm, int nodes)
{
  const int size = RengaCommGetSize(comm);
  int64_t bytes = -1;
  RengaCallAbort(RengaCommGetSumMemory(comm, &bytes));
  TestTrue(nodes == size ? bytes == 0 : bytes >= RengaCommSumMemory(size));
  TestTrue(RengaCommSumMemory(1) == 0 && RengaCommSumMemory(2) > 8 << 20);
  TestTrue(RengaCommSumMemory(1000) > RengaCommSumMemory(2));
}

/* nodes: RENGA_NODES, or NULL. */
static RengaErrorCode CheckOn(const char *nodes)
{
  RengaComm comm;
  int found;
  if (nodes) setenv("RENGA_NODES", nodes, 1);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommSetTimeout(comm, 150));
  RengaCall(RengaCommGetNode(comm, NULL, &found, NULL, NULL));
  for (int i = 0; i < 3; i++) CheckAtOnce(comm);
  if (found == 1 || found == RengaCommGetSize(comm)) CheckDriven(comm, found);
  CheckFailure(comm);
  CheckAtOnce(comm);
  CheckCancelled(comm, -1);
  CheckCancelled(comm, 0);
  CheckCancelled(comm, 1);
  CheckNoMemory(comm);
  if (found > 1) CheckNoMessage(comm, 3); /* on one node there are none */
  if (found > 1) CheckNoMessage(comm, 12);
  CheckLate(comm);
  CheckAtOnce(comm);
  CheckMemory(comm, found);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  RengaCall(CheckOn(NULL));
  if (size > 2) RengaCall(CheckOn("2"));
  if (size > 2) RengaCall(CheckOn("2:cyclic"));
  RengaCall(CheckOn("8"));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
