/* TEST ranks: 2 3 4 */
/* Sums of a device's vectors, carried by each transport, have the bits of the sum on one rank: all
   leaves and blocks, work memory large and small, several at once, one after the other in other
   lengths; cancelled on one rank; in MPI's own order. */
#include "transporttest.h"
#include <math.h>

enum { SUMS = 3 };

/* One sum: a Sample of the host (sumtest.h), and its vectors on the device. */
typedef struct {
  Sample sample;
  RengaPartialSum pieces[MOST_BUFFERS];
  int held;
  float *result;
  char *work;
  RengaConvoy convoy;
} Mine;

/* convoy NULL: one of its own. */
static void MineCreate(const Ways *w, int64_t n, int draw, int64_t count, size_t work_bytes,
                       RengaConvoy convoy, Mine *mine)
{
  size_t room;
  SampleCreate(w->comm, n, draw, count, draw % 3, work_bytes, draw % 2 == 0, &mine->sample);
  RengaCommSumTask *task = &mine->sample.task;
  const int64_t *leaves = mine->sample.leaves;
  mine->held = RengaCommTreePieces(n, leaves[w->rank], leaves[w->rank + 1], mine->pieces);
  for (int p = 0; p < mine->held; p++) {
    RengaCallAbort(
        RengaDeviceMalloc(w->device, (size_t)count * sizeof(float), &mine->pieces[p].data));
    PutBytes(w, mine->pieces[p].data, mine->sample.pieces[p].data, (size_t)count * sizeof(float));
  }
  RengaCallAbort(RengaDeviceMalloc(w->device, (size_t)count * sizeof(float), &mine->result));
  RengaCallAbort(RengaDeviceMalloc(w->device, task->work_bytes, &mine->work));
  mine->convoy = NULL;
  if (!convoy) {
    size_t half;
    int places = RengaCommTreePlaces(w->comm, n, leaves, task->work_bytes, &room);
    const int gathers = RengaCommGatherPlaces(w->comm, task->blocks, task->type, &half);
    if (gathers > places) places = gathers;
    if (half > room) room = half;
    RengaCallAbort(RengaConvoyCreate_Private(w->transport, w->comm, places, room, &mine->convoy));
  }
  task->pieces = mine->pieces;
  task->result = draw % 2 == 0 && mine->held > 0 ? mine->pieces[0].data : mine->result;
  task->work = mine->work;
  task->adder = RengaConvoyGetAdder_Private(convoy ? convoy : mine->convoy);
  task->carrier = RengaConvoyGetCarrier_Private(convoy ? convoy : mine->convoy);
}

static bool MineIsRight(const Ways *w, const Mine *mine)
{
  const size_t bytes = (size_t)mine->sample.count * sizeof(float);
  char *host;
  RengaCallAbort(RengaMalloc(bytes, &host));
  GetBytes(w, host, mine->sample.task.result, bytes);
  const bool right = memcmp(host, mine->sample.one[0].data, bytes) == 0;
  RengaFree(&host);
  return right;
}

static void MineFree(const Ways *w, Mine *mine)
{
  for (int p = 0; p < mine->held; p++)
    RengaCallAbort(RengaDeviceFree(w->device, &mine->pieces[p].data));
  RengaCallAbort(RengaDeviceFree(w->device, &mine->result));
  RengaCallAbort(RengaDeviceFree(w->device, &mine->work));
  RengaCallAbort(RengaConvoyDestroy_Private(&mine->convoy));
  SampleFree(&mine->sample);
}

static void EndRight(const Ways *w, Mine *mine)
{
  bool whole;
  RengaCallAbort(RengaCommSumEnd(&mine->sample.sum, "a sum", &whole));
  TestTrue(whole && MineIsRight(w, mine));
}

static void CheckOne(const Ways *w, int64_t n, int draw, int64_t count, size_t work_bytes)
{
  Mine mine;
  MineCreate(w, n, draw, count, work_bytes, NULL, &mine);
  RengaCallAbort(RengaCommSumBegin(w->comm, &mine.sample.task, &mine.sample.sum));
  EndRight(w, &mine);
  MineFree(w, &mine);
}

static void CheckEach(const Ways *w)
{
  static const int64_t lengths[] = {1, 3000, 70000};
  for (int64_t n = 1; n <= 7; n += 2)
    for (int draw = 0; draw < 4; draw++)
      for (int c = 0; c < 3; c++) {
        CheckOne(w, n, draw, lengths[c], 0);
        if (n > 1) CheckOne(w, n, draw, lengths[c], 64 * 2 * MOST_RANKS * 24);
      }
}

/* The two halves of a sum, in one convoy. */
static void CheckHalves(const Ways *w, int draw)
{
  Mine mine;
  bool whole;
  MineCreate(w, 6, draw, 90000, 20000, NULL, &mine);
  RengaCallAbort(RengaCommReduceScatterBegin(w->comm, &mine.sample.task, &mine.sample.sum));
  RengaCallAbort(RengaCommSumEnd(&mine.sample.sum, "blocks of a sum", &whole));
  TestTrue(whole);
  RengaCallAbort(RengaCommAllGatherBegin(w->comm, &mine.sample.task, &mine.sample.sum));
  EndRight(w, &mine);
  MineFree(w, &mine);
}

/* Under way at once; each rank ends them in another order. */
static void CheckTogether(const Ways *w)
{
  Mine mine[SUMS];
  for (int i = 0; i < SUMS; i++) MineCreate(w, 4 + i, i, 20000 + 7000 * i, 30000, NULL, &mine[i]);
  for (int i = 0; i < SUMS; i++)
    RengaCallAbort(RengaCommSumBegin(w->comm, &mine[i].sample.task, &mine[i].sample.sum));
  for (int i = 0; i < SUMS; i++) EndRight(w, &mine[(i + w->rank) % SUMS]);
  for (int i = 0; i < SUMS; i++) MineFree(w, &mine[i]);
}

/* One convoy for sums of other lengths, where the messages of the last one are still copied. */
static void CheckAfterEachOther(const Ways *w)
{
  enum { TURNS = 6 };
  static const int64_t counts[TURNS] = {50000, 2000, 3000, 60000, 500, 50000};
  RengaConvoy convoy;
  Mine mine[TURNS];
  RengaCallAbort(RengaConvoyCreate_Private(w->transport, w->comm, 200, 65536, &convoy));
  for (int i = 0; i < TURNS; i++)
    MineCreate(w, 5, i % 4, counts[i], i % 2 ? 20000 : 0, convoy, &mine[i]);
  for (int i = 0; i < TURNS; i++) {
    bool whole;
    RengaCallAbort(RengaCommSumBegin(w->comm, &mine[i].sample.task, &mine[i].sample.sum));
    RengaCallAbort(RengaCommSumEnd(&mine[i].sample.sum, "a sum after the other", &whole));
    TestTrue(whole);
  }
  for (int i = 0; i < TURNS; i++) {
    TestTrue(MineIsRight(w, &mine[i]));
    MineFree(w, &mine[i]);
  }
  RengaCallAbort(RengaConvoyDestroy_Private(&convoy));
}

/* The canceller's messages are empty: the others learn of it; where messages are queued all of them
   have left. */
static void CheckCancelled(const Ways *w, int canceller)
{
  Mine mine;
  bool whole = true;
  MineCreate(w, w->size, 0, 400000, 30000, NULL, &mine);
  const bool queued = mine.sample.task.carrier.together != NULL;
  if (queued)
    RengaCallAbort(RengaCommSumBegin(w->comm, &mine.sample.task, &mine.sample.sum));
  else
    SampleBeginBehind(w->comm, canceller, &mine.sample);
  if (w->rank == canceller)
    RengaCallAbort(RengaCommSumCancel(&mine.sample.sum, "a sum that is cancelled"));
  else
    RengaCallAbort(RengaCommSumEnd(&mine.sample.sum, "a sum that another cancels", &whole));
  TestTrue(mine.sample.sum == NULL && whole == (queued || w->rank == canceller));
  MineFree(w, &mine);
}

static void CheckUnordered(const Ways *w)
{
  enum { COUNT = 10007 };
  static float host[COUNT];
  float *values;
  RengaConvoy convoy;
  for (int i = 0; i < COUNT; i++) host[i] = (float)(i % 100 + w->rank);
  RengaCallAbort(RengaDeviceMalloc(w->device, sizeof host, &values));
  RengaCallAbort(RengaDeviceSetBytes(w->device, NULL, values, 0, sizeof host));
  RengaCallAbort(RengaStreamSynchronize(w->device, NULL));
  RengaCallAbort(RengaConvoyCreate_Private(w->transport, w->comm, 1, 4096, &convoy));
  RengaCallAbort(RengaConvoyJoin_Private(convoy, RENGA_FLOAT32, COUNT, values));
  PutBytes(w, values, host, sizeof host);
  RengaCallAbort(
      RengaConvoySumUnordered_Private(convoy, RENGA_FLOAT32, COUNT, values, "an unordered sum"));
  RengaCallAbort(RengaConvoyEndUnordered_Private(convoy));
  GetBytes(w, host, values, sizeof host);
  for (int i = 0; i < COUNT; i++)
    TestTrue(host[i] == (float)(i % 100 * w->size + w->size * (w->size - 1) / 2));
  RengaCallAbort(RengaConvoyDestroy_Private(&convoy));
  RengaCallAbort(RengaDeviceFree(w->device, &values));
}

/* Numbers that one rank writes each, as it is: of any size, in any order of ranks. */
static void CheckExact(const Ways *w)
{
  enum { COUNT = 1001 };
  static double host[COUNT];
  double *values;
  if (!RengaTransportSumsExact_Private(w->transport)) return;
  RengaCallAbort(RengaDeviceMalloc(w->device, sizeof host, &values));
  for (int i = 0; i < COUNT; i++)
    host[i] = i % w->size == w->rank ? ldexp(1 + i / 7.0, i - 500) : 0;
  RengaCallAbort(RengaDeviceSetBytes(w->device, NULL, values, 0, sizeof host));
  RengaCallAbort(RengaStreamSynchronize(w->device, NULL));
  RengaCallAbort(RengaTransportSumExact_Private(w->transport, COUNT, values));
  PutBytes(w, values, host, sizeof host);
  RengaCallAbort(RengaTransportSumExact_Private(w->transport, COUNT, values));
  GetBytes(w, host, values, sizeof host);
  for (int i = 0; i < COUNT; i++) TestTrue(host[i] == ldexp(1 + i / 7.0, i - 500));
  RengaCallAbort(RengaDeviceFree(w->device, &values));
}

static void CheckAll(const Ways *w)
{
  CheckEach(w);
  for (int draw = 0; draw < 3; draw++) CheckHalves(w, draw);
  CheckTogether(w);
  CheckAfterEachOther(w);
  for (int r = 0; r < 2; r++) CheckCancelled(w, r);
  CheckTogether(w);
  CheckUnordered(w);
  CheckExact(w);
}

/* Four ranks are dealt to two nodes, three lie on two. */
static RengaErrorCode RunTest(void)
{
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 2) setenv("RENGA_NODES", size > 3 ? "2:cyclic" : "2", 1);
  RengaCall(TestAllWays(CheckAll));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
