/* Rate of writing a checkpoint, beside a raw sequential write of as many bytes by one process.
   Both end on the disk (fsync); pairs are taken in turn, and the median ratio is what counts.

   mpiexec -n 4 test/bench/checkpoint -bench_bytes 1GiB -bench_pairs 7 -bench_dir . */
#include "../../src/checkpoint/file.h"
#include "../check.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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
  char path[1024];
  int count; /* of this rank's tensors */
  RengaPersistent *tensors;
  int64_t bytes; /* of all ranks */
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
  RengaCall(MakeTensors(&bench, count, &names));
  RengaCall(Measure(&bench, (int)pairs));
  for (int i = 0; i < bench.count; i++) RengaFree(&bench.tensors[i].data);
  RengaFree(&bench.tensors);
  RengaFree(&names);
  RengaCall(RengaCommDestroy(&bench.comm));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(Run(argc, argv));
  return 0;
}
