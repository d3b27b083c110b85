/* Seconds of a sum of gradients over all ranks, and of its two halves: medians of some runs. What
   processors take is beside it, which other work on the machine disturbs less. With RENGA_NODES=2
   ranks do not share memory, and all is messages.

   mpiexec -n 2 test/bench/sums -bench_bytes 32e6 -bench_leaves 2 */
#include "../check.h"
#include "renga/private/device.h"
#include "renga/private/sums.h"
#include "rengacomm.h"
#include <string.h>
#include <time.h>

typedef struct {
  int64_t bytes, leaves;
  int runs;
  bool shared;
} Settings;

#define AT(member) offsetof(Settings, member)
static const RengaOptionRow rows[] = {
    {"bench_bytes", RENGA_OPTION_BYTES, "32000000", AT(bytes), NULL, 4, 1e12, "of the vector"},
    {"bench_leaves", RENGA_OPTION_INT64, "0", AT(leaves), NULL, 0, 1e9,
     "of the tree; 0: one for each rank"},
    {"bench_shared", RENGA_OPTION_BOOL, "true", AT(shared), NULL, 0, 0,
     "ranks of a node read each other's vectors where they lie"},
    {"bench_runs", RENGA_OPTION_INT, "11", AT(runs), NULL, 1, 1000, "of which the median is told"},
};
enum { ROWS = sizeof rows / sizeof *rows, MOST_RUNS = 1000 };

typedef struct {
  RengaComm comm;
  RengaDevice device;
  Settings settings;
  RengaCommSumTask task;
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  int64_t *leaves;
  float *vectors;
  char *work;
  int64_t count;
  int pieces;
} Bench;

static RengaErrorCode AddVectors(void *user, RengaDataType type, int64_t count, void *y,
                                 const void *x)
{
  Bench *bench = user;
  RengaCall(RengaDeviceAdd(bench->device, NULL, type, count, y, x));
  return RENGA_SUCCESS;
}

/* Seconds of a processor that this rank has had. */
static double Processor(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int Compare(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static RengaErrorCode TimeSum(Bench *bench, const char *name,
                              RengaErrorCode (*begin)(RengaComm, const RengaCommSumTask *,
                                                      RengaCommSum *))
{
  double seconds[MOST_RUNS], processor[MOST_RUNS];
  for (int run = -1; run < bench->settings.runs; run++) {
    RengaCommSum sum;
    bool whole;
    for (int p = 0; p < bench->pieces; p++)
      for (int64_t i = 0; i < bench->count; i++)
        ((float *)bench->piece[p].data)[i] =
            (float)((uint32_t)(i * 2654435761u + bench->piece[p].first) >> 8) / (1 << 20) - 8;
    RengaCall(RengaCommBarrier(bench->comm, "the bench"));
    const double began = MPI_Wtime();
    double used = -Processor();
    RengaCall(begin(bench->comm, &bench->task, &sum));
    RengaCall(RengaCommSumEnd(&sum, "the sum of the bench", &whole));
    Expect(whole);
    used += Processor();
    RengaCall(RengaCommBarrier(bench->comm, "the bench"));
    if (run >= 0) seconds[run] = MPI_Wtime() - began;
    RengaCall(RengaCommSumExact(bench->comm, 1, &used, "the bench"));
    if (run >= 0) processor[run] = used;
  }
  qsort(seconds, (size_t)bench->settings.runs, sizeof *seconds, Compare);
  qsort(processor, (size_t)bench->settings.runs, sizeof *processor, Compare);
  const int middle = bench->settings.runs / 2;
  if (RengaCommGetRank(bench->comm) == 0)
    printf("%s of %.1f MB over %d ranks: %.2f ms (least %.2f), processors of all ranks %.2f ms\n",
           name, 1e-6 * (double)bench->settings.bytes, RengaCommGetSize(bench->comm),
           1e3 * seconds[middle], 1e3 * seconds[0], 1e3 * processor[middle]);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillTask(Bench *bench)
{
  const int size = RengaCommGetSize(bench->comm), rank = RengaCommGetRank(bench->comm);
  const int64_t n = bench->settings.leaves > 0 ? bench->settings.leaves : size;
  const int64_t begin[2] = {0, bench->count};
  RengaCommSumTask *task = &bench->task;
  RengaCall(RengaMalloc(size + 1, &bench->leaves));
  for (int r = 0; r <= size; r++) bench->leaves[r] = n * r / size;
  bench->pieces =
      RengaCommTreePieces(n, bench->leaves[rank], bench->leaves[rank + 1], bench->piece);
  const int vectors = bench->pieces > 0 ? bench->pieces : 1;
  RengaCall(RengaMalloc(vectors * bench->count, &bench->vectors));
  for (int p = 0; p < bench->pieces; p++) bench->piece[p].data = bench->vectors + p * bench->count;
  if (bench->settings.shared)
    RengaCall(RengaCommShare(bench->comm, bench->vectors,
                             (size_t)(vectors * bench->count) * sizeof(float), &task->shared));
  task->type = RENGA_FLOAT32;
  task->n_leaves = n;
  task->leaves = bench->leaves;
  task->pieces = bench->piece;
  task->work_bytes = RengaCommTreeWork(size, n, bench->leaves, task->type, bench->count);
  RengaCall(RengaMalloc((int64_t)task->work_bytes + 64, &bench->work));
  task->work = bench->work + (64 - (uintptr_t)bench->work % 64) % 64;
  task->adder = (RengaCommAdder){.begin = AddVectors, .user = bench};
  RengaCall(RengaBlocksCreate(size, 1, begin, &task->blocks));
  task->result = bench->vectors;
  return RENGA_SUCCESS;
}

static RengaErrorCode RunBench(void)
{
  Bench bench = {0};
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &bench.comm));
  RengaCall(RengaCommSetFromOptions(bench.comm));
  RengaCall(RengaOptionsSetDefaults(ROWS, rows, &bench.settings));
  RengaCall(RengaOptionsSetFromDatabase(NULL, ROWS, rows, &bench.settings));
  bench.count = bench.settings.bytes / (int64_t)sizeof(float);
  RengaCall(RengaDeviceCreate(bench.comm, &bench.device));
  RengaCall(RengaDeviceSetType(bench.device, "cpu"));
  RengaCall(RengaDeviceSetThreads(bench.device, 1));
  RengaCall(RengaDeviceSetUp(bench.device));
  RengaCall(FillTask(&bench));
  RengaCall(TimeSum(&bench, "sum", RengaCommSumBegin));
  RengaCall(TimeSum(&bench, "reduce-scatter", RengaCommReduceScatterBegin));
  RengaCall(TimeSum(&bench, "all-gather", RengaCommAllGatherBegin));
  RengaCall(RengaBlocksDestroy(&bench.task.blocks));
  RengaCall(RengaCommBarrier(bench.comm, "the bench"));
  RengaCall(RengaCommUnshare(&bench.task.shared));
  RengaFree(&bench.vectors);
  RengaFree(&bench.work);
  RengaFree(&bench.leaves);
  RengaCall(RengaDeviceDestroy(&bench.device));
  RengaCall(RengaCommDestroy(&bench.comm));
  return RENGA_SUCCESS;
}

int main(int argc, char *argv[])
{
  RengaCallAbort(RengaOptionsRegister("Bench", ROWS, rows));
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunBench());
  RengaCallAbort(RengaFinalize());
  return 0;
}
