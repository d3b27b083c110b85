/* Rate of writing a checkpoint, beside a raw sequential write of as many bytes by one process.
   Both end on the disk (fsync); pairs are taken in turn, and the median ratio is what counts. Then
   a checkpoint by threads, while this one counts on as training would: how long they write, and how
   long it stands still for them.

   mpiexec -n 4 test/bench/checkpoint -bench_bytes 1GiB -bench_pairs 7 -bench_dir . */
#include "../../src/checkpoint/file.h"
#include "../check.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const RengaOptionRow rows[] = {
    {"bench_bytes", RENGA_OPTION_BYTES, "512MiB", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "size of all tensors"},
    {"bench_pairs", RENGA_OPTION_INT, "5", RENGA_OPTION_NO_OFFSET, NULL, 1, 1000, "repetitions"},
    {"bench_tensors", RENGA_OPTION_INT, "64", RENGA_OPTION_NO_OFFSET, NULL, 1, 100000,
     "number of tensors"},
    {"bench_dir", RENGA_OPTION_STRING, ".", RENGA_OPTION_NO_OFFSET, NULL, 0, 0, "where"},
};

typedef struct {
  RengaComm comm;
  RengaDevice device;
  char path[1024];
  int count; /* of this rank's tensors */
  RengaPersistent *tensors;
  int64_t bytes, mine; /* of all ranks, of this one */
} Bench;

/* As a program would write one block of memory: 1 MiB at a time, then fsync. */
static RengaErrorCode WriteRaw(const Bench *bench, double *seconds)
{
  enum { BLOCK = 1 << 20 };
  char *block;
  double begin = MPI_Wtime();
  if (RengaCommGetRank(bench->comm) == 0) {
    RengaCall(RengaMalloc(BLOCK, &block));
    memset(block, 1, BLOCK);
    int file = open(bench->path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    Expect(file >= 0);
    for (int64_t at = 0; at < bench->bytes; at += BLOCK) Expect(write(file, block, BLOCK) == BLOCK);
    Expect(fsync(file) == 0 && close(file) == 0);
    RengaFree(&block);
  }
  RengaCall(RengaCommBarrier(bench->comm, "the raw write"));
  *seconds = MPI_Wtime() - begin;
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteCheckpoint(const Bench *bench, double *seconds)
{
  RengaCheckpointTable table = {.step = 1};
  double begin = MPI_Wtime();
  RengaCall(RengaCheckpointFileWrite(bench->comm, NULL, bench->path, bench->count, bench->tensors,
                                     &table));
  *seconds = MPI_Wtime() - begin;
  RengaCheckpointTableFree(&table);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadCheckpoint(const Bench *bench, double *seconds)
{
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE];
  bool whole;
  double begin = MPI_Wtime();
  RengaCall(RengaCheckpointFileOpen(bench->comm, bench->path, &table, &whole, message));
  Expect(whole);
  RengaCall(RengaCheckpointFileRead(bench->comm, NULL, bench->path, &table, bench->count,
                                    bench->tensors, &whole, message));
  Expect(whole);
  *seconds = MPI_Wtime() - begin;
  RengaCheckpointTableFree(&table);
  return RENGA_SUCCESS;
}

/* A step of training: a tenth of a second. */
static void Compute(void)
{
  volatile double sum = 0;
  for (double begin = MPI_Wtime(); MPI_Wtime() - begin < 0.1;)
    for (int i = 0; i < 10000; i++) sum = sum + i;
}

/* Steps until no thread is at work. */
static RengaErrorCode ComputeBeside(const Bench *bench, RengaAside aside)
{
  for (int64_t busy = 1; busy > 0;) {
    Compute();
    busy = RengaAsideIsBusy(aside);
    RengaCall(RengaCommSumInt64(bench->comm, 1, &busy, "the step"));
  }
  return RENGA_SUCCESS;
}

static double ThreadSeconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* times: of this rank's thread; of this thread, for which training stands still; of its core. */
static RengaErrorCode WriteBeside(const Bench *bench, RengaAside aside, double times[3])
{
  RengaCheckpointTable table = {.step = 1};
  RengaCheckpointOld old = {.count = 0};
  RengaCall(RengaCommBarrier(bench->comm, "the next"));
  double begin = MPI_Wtime(), used = ThreadSeconds();
  RengaCall(RengaAsideBegin(aside, bench->comm, bench->device, bench->path, bench->count,
                            bench->tensors, &table));
  times[1] = MPI_Wtime() - begin;
  times[2] = ThreadSeconds() - used;
  RengaCall(ComputeBeside(bench, aside));
  begin = MPI_Wtime();
  used = ThreadSeconds();
  RengaCall(RengaAsidePublish(aside, RENGA_MARK_GOOD, &old));
  times[1] += MPI_Wtime() - begin;
  times[2] += ThreadSeconds() - used;
  RengaCall(ComputeBeside(bench, aside));
  times[0] = RengaAsideSeconds(aside);
  RengaCall(RengaAsideEnd(aside));
  return RENGA_SUCCESS;
}

static int CompareNumbers(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double Median(int count, double values[])
{
  qsort(values, (size_t)count, sizeof *values, CompareNumbers);
  return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static RengaErrorCode Measure(const Bench *bench, int pairs)
{
  double *raw, *written, *read, *ratio;
  RengaCall(RengaMalloc(4 * pairs, &raw));
  written = raw + pairs;
  read = written + pairs;
  ratio = read + pairs;
  for (int i = 0; i < pairs; i++) {
    RengaCall(WriteRaw(bench, &raw[i]));
    if (RengaCommGetRank(bench->comm) == 0) unlink(bench->path);
    RengaCall(RengaCommBarrier(bench->comm, "the next"));
    RengaCall(WriteCheckpoint(bench, &written[i]));
    RengaCall(ReadCheckpoint(bench, &read[i]));
    if (RengaCommGetRank(bench->comm) == 0) unlink(bench->path);
    ratio[i] = raw[i] / written[i];
  }
  double gigabytes = (double)bench->bytes * 1e-9;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(bench->comm, &ranks));
  RengaCall(RengaPrintf(ranks, "%5s %9s %12s %12s %12s %8s\n", "ranks", "GB", "raw GB/s",
                        "write GB/s", "read GB/s", "ratio"));
  RengaCall(RengaPrintf(ranks, "%5d %9.3f %12.2f %12.2f %12.2f %8.2f\n",
                        RengaCommGetSize(bench->comm), gigabytes, gigabytes / Median(pairs, raw),
                        gigabytes / Median(pairs, written), gigabytes / Median(pairs, read),
                        Median(pairs, ratio)));
  RengaFree(&raw);
  return RENGA_SUCCESS;
}

/* Of the rank on which it took longest. */
static RengaErrorCode MeasureBeside(const Bench *bench, int pairs)
{
  RengaAside aside;
  MPI_Comm ranks;
  double *times[3];
  for (int t = 0; t < 3; t++) RengaCall(RengaMalloc(pairs, &times[t]));
  RengaCall(RengaAsideCreate(&aside));
  RengaCall(RengaAsidePrepare(aside, bench->mine));
  for (int i = 0; i < 10; i++) Compute();
  RengaCall(RengaObjectGetComm(bench->comm, &ranks));
  for (int i = 0; i < pairs; i++) {
    double mine[3], most[3];
    RengaCall(WriteBeside(bench, aside, mine));
    RengaCallMPI(MPI_Allreduce(mine, most, 3, MPI_DOUBLE, MPI_MAX, ranks));
    for (int t = 0; t < 3; t++) times[t][i] = most[t];
    if (RengaCommGetRank(bench->comm) == 0) unlink(bench->path);
  }
  RengaAsideDestroy(&aside);
  const double written = Median(pairs, times[0]), stall = Median(pairs, times[1]);
  RengaCall(RengaPrintf(ranks,
                        "by threads: %.3f s; stall %.4f s, %.1f %%, of them %.4f s of its core\n",
                        written, stall, 100 * stall / written, Median(pairs, times[2])));
  for (int t = 0; t < 3; t++) RengaFree(&times[t]);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeTensors(Bench *bench, int64_t count, char (**names)[24])
{
  int rank = RengaCommGetRank(bench->comm), size = RengaCommGetSize(bench->comm);
  int64_t elements = bench->bytes / count / (int64_t)sizeof(float);
  RengaCall(RengaMalloc(count, &bench->tensors));
  RengaCall(RengaMalloc(count, names));
  for (int64_t i = rank; i < count; i += size) {
    RengaPersistent *tensor = &bench->tensors[bench->count++];
    snprintf((*names)[i], sizeof(*names)[i], "tensor.%05d", (int)i);
    tensor->name = (*names)[i];
    tensor->spec = (RengaTensorSpec){RENGA_FLOAT32, 1, {elements}};
    tensor->owner = true;
    float *data;
    bench->mine += elements * (int64_t)sizeof *data;
    RengaCall(RengaMalloc(elements, &data));
    for (int64_t e = 0; e < elements; e++) data[e] = (float)(e ^ i);
    tensor->data = data;
    RengaCall(RengaRectangleWhole(&tensor->spec, &tensor->part));
  }
  bench->bytes = elements * (int64_t)sizeof(float) * count;
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(int argc, char **argv)
{
  Bench bench = {0};
  int64_t pairs, count;
  char(*names)[24];
  const char *directory;
  RengaCall(RengaOptionsRegister("Benchmark", sizeof rows / sizeof rows[0], rows));
  RengaCall(RengaInitialize(&argc, &argv, "Rate of writing a checkpoint."));
  RengaCall(RengaOptionsGetInt64("bench_bytes", &bench.bytes, NULL));
  RengaCall(RengaOptionsGetInt64("bench_pairs", &pairs, NULL));
  RengaCall(RengaOptionsGetInt64("bench_tensors", &count, NULL));
  RengaCall(RengaOptionsGetString("bench_dir", &directory, NULL));
  snprintf(bench.path, sizeof bench.path, "%s/bench-checkpoint.h5", directory);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &bench.comm));
  RengaCall(RengaDeviceCreate(bench.comm, &bench.device));
  RengaCall(RengaDeviceSetFromOptions(bench.device));
  RengaCall(RengaDeviceSetUp(bench.device));
  RengaCall(MakeTensors(&bench, count, &names));
  RengaCall(Measure(&bench, (int)pairs));
  RengaCall(MeasureBeside(&bench, (int)pairs));
  for (int i = 0; i < bench.count; i++) RengaFree(&bench.tensors[i].data);
  RengaFree(&bench.tensors);
  RengaFree(&names);
  RengaCall(RengaDeviceDestroy(&bench.device));
  RengaCall(RengaCommDestroy(&bench.comm));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(Run(argc, argv));
  return 0;
}
