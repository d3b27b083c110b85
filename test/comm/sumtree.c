/* TEST ranks: 1 2 3 4 8 */
/* A sum by the tree: the bits of one rank, for any type of elements, leaves, blocks, lengths and
   work memory, in place or not, at once or in its two halves, and however late the adder adds. */
#include "sumtest.h"

enum { LONGEST = 70007 };

static void CheckWhole(RengaComm comm, Sample *s)
{
  bool whole;
  RengaCallAbort(RengaCommSumBegin(comm, &s->task, &s->sum));
  RengaCallAbort(RengaCommSumEnd(&s->sum, "a sum", &whole));
  TestTrue(whole && s->sum == NULL && SampleIsRight(s));
}

/* Before the gather no other block of the result has changed. */
static void CheckHalves(RengaComm comm, Sample *s)
{
  const int rank = RengaCommGetRank(comm);
  const size_t size = RengaDataTypeSize(s->task.type);
  char *before, *result = s->task.result;
  int64_t first, last;
  bool whole;
  RengaCallAbort(RengaMalloc(s->count * (int64_t)size, &before));
  memcpy(before, result, (size_t)s->count * size);
  RengaCallAbort(RengaBlocksGetRange(s->task.blocks, rank, &first, &last));
  RengaCallAbort(RengaCommReduceScatterBegin(comm, &s->task, &s->sum));
  RengaCallAbort(RengaCommSumEnd(&s->sum, "half of a sum", &whole));
  TestTrue(whole);
  for (int64_t i = 0; i < s->count; i++) {
    const char *right = i >= first && i < last ? s->one[0].data : before;
    TestTrue(memcmp(result + (size_t)i * size, right + (size_t)i * size, size) == 0);
  }
  const RengaCommSumTask rest = {
      .blocks = s->task.blocks, .type = s->task.type, .result = result, .shared = s->task.shared};
  RengaCallAbort(RengaCommAllGatherPrepare(comm, &rest, &s->sum));
  TestError(RengaCommSumEnd(&s->sum, "nothing", &whole), RENGA_ERR_ORDER);
  RengaCallAbort(RengaCommSumCancel(&s->sum, "nothing"));
  TestTrue(!s->sum);
  RengaCallAbort(RengaCommAllGatherPrepare(comm, &rest, &s->sum));
  RengaCallAbort(RengaCommSumStart(s->sum));
  TestError(RengaCommSumStart(s->sum), RENGA_ERR_ORDER);
  RengaCallAbort(RengaCommSumEnd(&s->sum, "the rest of a sum", &whole));
  TestTrue(whole && SampleIsRight(s));
  RengaFree(&before);
}

/* Vectors of a sample where others of the node read them. */
typedef struct {
  RengaPartialSum pieces[MOST_BUFFERS];
  char *memory;
} SharedSample;

static void ShareSample(RengaComm comm, Sample *s, SharedSample *shared)
{
  enum { PAGE = 65536 };
  RengaCommSumTask *task = &s->task;
  const int rank = RengaCommGetRank(comm);
  const int64_t bytes = s->count * (int64_t)RengaDataTypeSize(task->type);
  const int64_t stride = (bytes + 63) / 64 * 64;
  const int held =
      RengaCommTreePieces(task->n_leaves, s->leaves[rank], s->leaves[rank + 1], shared->pieces);
  RengaCallAbort(RengaMalloc((held + 1) * stride + 2 * PAGE, &shared->memory));
  char *at = shared->memory + PAGE - (uintptr_t)shared->memory % PAGE;
  for (int i = 0; i < held; i++) {
    shared->pieces[i].data = at + i * stride;
    memcpy(shared->pieces[i].data, task->pieces[i].data, (size_t)bytes);
  }
  const bool in_place = held > 0 && task->result == task->pieces[0].data;
  memcpy(at + held * stride, task->result, (size_t)bytes);
  task->result = in_place ? shared->pieces[0].data : at + held * stride;
  task->pieces = shared->pieces;
  RengaCallAbort(RengaCommShare(comm, at, (size_t)((held + 1) * stride), &task->shared));
}

static void UnshareSample(Sample *s, SharedSample *shared)
{
  RengaCallAbort(RengaCommUnshare(&s->task.shared));
  TestTrue(!s->task.shared && SampleIsRight(s)); /* what was there stays */
  RengaFree(&shared->memory);
}

/* draw: which leaves, blocks and type; its bits say what else is varied. */
static void CheckSum(RengaComm comm, int64_t n, int draw, int64_t count, size_t work_bytes)
{
  static const RengaDataType types[] = {RENGA_FLOAT32, RENGA_FLOAT64, RENGA_UINT16};
  Sample s;
  SampleCreateOf(comm, types[(n + draw) % 3], n, draw, count, draw % 3, work_bytes, draw % 2 == 0,
                 &s);
  if (draw & 2)
    s.task.adder = (RengaCommAdder){.begin = AddLater, .test = TestLater, .user = s.later};
  const bool shares = (draw + n / 2) % 2 == 0;
  SharedSample shared;
  if (shares) ShareSample(comm, &s, &shared);
  if ((draw + n) % 3 == 0)
    CheckHalves(comm, &s);
  else
    CheckWhole(comm, &s);
  if (shares) UnshareSample(&s, &shared);
  SampleFree(&s);
}

static void CheckBroken(RengaComm comm, const RengaCommSumTask *task, RengaErrorCode code,
                        const char *part)
{
  RengaCommSum sum = NULL;
  FILE *file;
  int saved = BeginErrors(&file);
  const RengaErrorCode found = RengaCommSumBegin(comm, task, &sum);
  const char *text = EndErrors(file, saved);
  TestTrue(found == code && sum == NULL && strstr(text, part) != NULL);
}

static void CheckErrors(RengaComm comm)
{
  const int size = RengaCommGetSize(comm);
  int nodes;
  const int64_t whole[2] = {0, 4};
  RengaBlocks other;
  Sample s;
  RengaCallAbort(RengaCommGetNode(comm, NULL, &nodes, NULL, NULL));
  RengaCallAbort(RengaBlocksCreate(size + 1, 1, whole, &other));
  SampleCreate(comm, 2 * size, 0, 4, 0, 0, false, &s);
  RengaCommSumTask task = s.task;
  task.type = RENGA_TYPE_COUNT;
  CheckBroken(comm, &task, RENGA_ERR_ARGUMENT, "the vectors to add up have no type");
  task = s.task;
  task.n_leaves++;
  CheckBroken(comm, &task, RENGA_ERR_ARGUMENT, "the bounds run from 0 to");
  task = s.task;
  task.blocks = other;
  CheckBroken(comm, &task, RENGA_ERR_ARGUMENT, "ranks, and");
  task = s.task;
  task.adder.begin = NULL;
  CheckBroken(comm, &task, RENGA_ERR_ARGUMENT, "nobody adds");
  task = s.task;
  task.result = NULL;
  CheckBroken(comm, &task, RENGA_ERR_ARGUMENT, "no place for its result");
  task = s.task;
  task.result = s.result;
  char *memory = NULL;
  RengaCallAbort(RengaMalloc(2 << 16, &memory));
  char *page = memory + (1 << 16) - (uintptr_t)memory % (1 << 16);
  RengaCallAbort(RengaCommShare(comm, page, 64, &task.shared));
  TestTrue(!task.shared == (nodes == size)); /* no two ranks share a node */
  if (task.shared) CheckBroken(comm, &task, RENGA_ERR_ARGUMENT, "does not lie in its shared");
  RengaCallAbort(RengaCommUnshare(&task.shared));
  RengaFree(&memory);
  task.work_bytes = 16;
  if (nodes > 1) CheckBroken(comm, &task, RENGA_ERR_ARGUMENT, "are too few: at least");
  RengaCallAbort(RengaBlocksDestroy(&other));
  SampleFree(&s);
}

/* nodes: RENGA_NODES, or NULL. */
static void CheckOn(const char *nodes)
{
  static const int64_t leaves[] = {1, 2, 3, 4, 5, 7, 8, 11, 16, 20},
                       counts[] = {1, 15, 17, 300, 2048, 20000};
  enum { N_LEAVES = sizeof leaves / sizeof *leaves, N_COUNTS = sizeof counts / sizeof *counts };
  RengaComm comm;
  if (nodes) setenv("RENGA_NODES", nodes, 1);
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  int size = RengaCommGetSize(comm);
  for (int i = 0; i < N_LEAVES; i++)
    for (int draw = 0; draw < 4; draw++)
      CheckSum(comm, leaves[i], draw, counts[(i + draw) % N_COUNTS], 0);
  /* many rounds, long vectors, parts of odd length, blocks at random */
  for (int draw = 0; draw < 9; draw++) {
    CheckSum(comm, 13, draw, LONGEST, 0);
    if (size > 1) CheckSum(comm, 13, draw + 1, LONGEST, 5 * 4096 + 100 * 1000);
  }
  CheckErrors(comm);
  RengaCallAbort(RengaCommDestroy(&comm));
}

/* On one node, where sums go by shared memory; each rank on a node of its own; and levels, with the
   ranks of a node side by side and dealt in turn. */
int main(int argc, char **argv)
{
  int size;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CheckOn(NULL);
  if (size > 2) CheckOn("2");
  if (size > 2) CheckOn("2:cyclic");
  if (size > 3) CheckOn("3:cyclic");
  CheckOn("8");
  RengaCallAbort(RengaFinalize());
  return 0;
}
