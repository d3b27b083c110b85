/* How long a call takes in a step. Between two uses of a tensor in a step lies a whole micro-batch,
   so that most come from memory and not from a cache: cold tensors rotate through a pool. What the
   node before just made is warm: its lines are touched before the clock starts. */
#include "profileimpl.h"
#include "renga/private/device.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  ALIGNMENT = 64,
  LEAST_RUNS = 5,
  MOST_RUNS = 41,
  LONG_RUNS = 3,     /* of a call that takes LONG */
  MOST_BATCH = 16,   /* calls between two looks at the clock */
  MOST_TENSORS = 64, /* of a call that is timed */
  BATCH_BYTES = 1 << 20
};
static const double SHORT = 20e-6, LONG = 0.15, ENOUGH = 0.04; /* seconds */

double RengaProfileClock_Private(const ProfileBench *bench)
{
  struct timespec now;
  clock_gettime(bench->processor ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int CompareSeconds(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double RengaProfileMedian_Private(int count, double values[])
{
  qsort(values, (size_t)count, sizeof *values, CompareSeconds);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Where one thread of the host computes, its processor time is what it takes: other work on the
   machine then matters little. */
RengaErrorCode RengaProfileBenchCreate_Private(RengaDevice device, int64_t cold,
                                               ProfileBench *bench)
{
  int threads;
  double reads[101];
  enum { READS = sizeof reads / sizeof *reads };
  RengaCall(RengaDeviceGetThreads(device, &threads));
  *bench = (ProfileBench){.device = device, .host = RengaDeviceIsHost(device), .cold = cold};
  bench->processor = bench->host && threads == 1;
  for (int i = 0; i < READS; i++) {
    const double begin = RengaProfileClock_Private(bench);
    reads[i] = RengaProfileClock_Private(bench) - begin;
  }
  bench->overhead = RengaProfileMedian_Private(READS, reads);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileBenchFree_Private(ProfileBench *bench)
{
  for (int p = 0; p < 2; p++)
    if (bench->pool[p]) RengaCall(RengaDeviceFree(bench->device, &bench->pool[p]));
  return RENGA_SUCCESS;
}

/* Numbers between 0.1 and 0.9: no operator has trouble with them, and none becomes denormal. Both
   halves of each have the same bits, so that they are such numbers as bfloat16, too, and numbers
   between 1 and 2 as float16. */
static float PoolNumber(float number)
{
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  bits = (bits >> 16) * 0x10001u;
  memcpy(&number, &bits, sizeof bits);
  return number;
}

static RengaErrorCode FillPool(ProfileBench *bench, char *pool, int64_t bytes)
{
  enum { BLOCK = 1 << 16 };
  float *block = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc(BLOCK, &block));
  for (int i = 0; i < BLOCK; i++)
    block[i] = PoolNumber(0.1f + 0.8f * (float)(i * 40503LL % BLOCK) / BLOCK);
  for (int64_t at = 0; at < bytes && code == RENGA_SUCCESS; at += (int64_t)sizeof(float) * BLOCK) {
    const int64_t left = bytes - at, whole = (int64_t)sizeof(float) * BLOCK;
    code = RengaDeviceCopy(bench->device, NULL, RENGA_HOST_TO_DEVICE, pool + at, block,
                           (size_t)(left < whole ? left : whole));
    if (code == RENGA_SUCCESS) code = RengaStreamSynchronize(bench->device, NULL);
  }
  RengaFree(&block);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A pool is at least what a call needs at once. */
static RengaErrorCode NeedPool(ProfileBench *bench, int p, int64_t bytes)
{
  if (bytes < bench->cold) bytes = bench->cold;
  if (bytes <= bench->bytes[p]) return RENGA_SUCCESS;
  if (bench->pool[p]) RengaCall(RengaDeviceFree(bench->device, &bench->pool[p]));
  bench->bytes[p] = 0;
  RengaCall(RengaDeviceMalloc(bench->device, (size_t)bytes, &bench->pool[p]));
  bench->bytes[p] = bytes;
  bench->at[p] = 0;
  RengaCall(FillPool(bench, bench->pool[p], bytes));
  return RENGA_SUCCESS;
}

static char *TakePool(ProfileBench *bench, int p, int64_t bytes)
{
  if (bench->at[p] + bytes > bench->bytes[p]) bench->at[p] = 0;
  char *tensor = bench->pool[p] + bench->at[p];
  bench->at[p] += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return tensor;
}

/* A call made ready. */
typedef struct {
  const ProfileCall *call;
  RengaOpCall op;
  RengaKernel kernel;
  int n; /* tensors */
  int64_t bytes[MOST_TENSORS], all;
  char *own[MOST_TENSORS]; /* of tensors that are not in a pool */
  char *workspace;
  int batch;
  void *tensor[MOST_BATCH][MOST_TENSORS];
} BenchRun;

/* Pools hold floats; of other types outputs alone, which nobody reads, lie there. */
static bool IsPooled(const BenchRun *run, int i)
{
  const RengaDataType type = run->call->spec[i].type;
  return type == RENGA_FLOAT32 || type == RENGA_BFLOAT16 || type == RENGA_FLOAT16 ||
         i >= run->op.n_in;
}

static RengaErrorCode MakeOwn(ProfileBench *bench, BenchRun *run, int i)
{
  char *host = NULL;
  RengaCall(RengaMalloc(run->bytes[i] + 1, &host));
  RengaErrorCode code = RengaProfileFill_Private(&run->op, i, host);
  if (code == RENGA_SUCCESS)
    code = RengaDeviceMalloc(bench->device, (size_t)run->bytes[i], &run->own[i]);
  if (code == RENGA_SUCCESS)
    code = RengaDeviceCopy(bench->device, NULL, RENGA_HOST_TO_DEVICE, run->own[i], host,
                           (size_t)run->bytes[i]);
  if (code == RENGA_SUCCESS) code = RengaStreamSynchronize(bench->device, NULL);
  RengaFree(&host);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeReady(ProfileBench *bench, BenchRun *run)
{
  int64_t needed[2] = {0, 0};
  RengaCheck(run->n <= MOST_TENSORS, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s with %d tensors cannot be timed: at most %d", run->op.op->name, run->n,
             MOST_TENSORS);
  RengaCall(RengaKernelCreate(bench->device, &run->op, &run->kernel));
  for (int i = 0; i < run->n; i++) {
    run->bytes[i] = (int64_t)RengaTensorSpecBytes(&run->call->spec[i]);
    run->all += run->bytes[i];
    if (run->bytes[i] == 0) continue;
    if (IsPooled(run, i))
      needed[i >= run->op.n_in] += run->bytes[i] + ALIGNMENT;
    else
      RengaCall(MakeOwn(bench, run, i));
  }
  for (int p = 0; p < 2; p++) RengaCall(NeedPool(bench, p, needed[p]));
  const size_t workspace = RengaKernelGetWorkspace(run->kernel);
  if (workspace) RengaCall(RengaDeviceMalloc(bench->device, workspace, &run->workspace));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeRun(ProfileBench *bench, BenchRun *run)
{
  for (int i = 0; i < MOST_TENSORS; i++)
    if (run->own[i]) RengaCall(RengaDeviceFree(bench->device, &run->own[i]));
  if (run->workspace) RengaCall(RengaDeviceFree(bench->device, &run->workspace));
  if (run->kernel) RengaCall(RengaKernelDestroy(&run->kernel));
  return RENGA_SUCCESS;
}

/* As the kernel before left them: changed, and as near as they fit. */
static void TouchBytes(char *tensor, int64_t bytes)
{
  volatile char *line = tensor;
  for (int64_t at = 0; at < bytes; at += ALIGNMENT) line[at] = line[at];
}

static void Rotate(ProfileBench *bench, BenchRun *run)
{
  for (int b = 0; b < run->batch; b++)
    for (int i = 0; i < run->n; i++) {
      run->tensor[b][i] = run->own[i];
      if (run->bytes[i] > 0 && IsPooled(run, i))
        run->tensor[b][i] = TakePool(bench, i >= run->op.n_in, run->bytes[i]);
      if (bench->host && i < 32 && run->call->warm >> i & 1)
        TouchBytes(run->tensor[b][i], run->bytes[i]);
    }
}

static RengaErrorCode RunBatch(ProfileBench *bench, BenchRun *run)
{
  const RengaKernelContext context = {
      .seed = 1, .step = 1, .sample = 0, .samples = run->call->samples, .training = true};
  for (int b = 0; b < run->batch; b++)
    RengaCall(RengaKernelRun(run->kernel, NULL, &context, (const void *const *)run->tensor[b],
                             run->tensor[b] + run->op.n_in, run->workspace));
  RengaCall(RengaStreamSynchronize(bench->device, NULL));
  return RENGA_SUCCESS;
}

/* Seconds of one call, over a batch of them. */
static RengaErrorCode Once(ProfileBench *bench, BenchRun *run, double *seconds)
{
  Rotate(bench, run);
  RengaDeviceHoldSignals_Private();
  const double begin = RengaProfileClock_Private(bench);
  const RengaErrorCode code = RunBatch(bench, run);
  const double spent = RengaProfileClock_Private(bench) - begin - bench->overhead;
  RengaDeviceReleaseSignals_Private();
  RengaCall(code);
  *seconds = spent > 0 ? spent / run->batch : 0;
  return RENGA_SUCCESS;
}

static int ChooseBatch(const ProfileBench *bench, const BenchRun *run, double seconds)
{
  int64_t batch = 1;
  if (!bench->host) return seconds < LONG ? 8 : 1;
  if (seconds < SHORT) batch = BATCH_BYTES / (run->all + 1);
  return (int)(batch < 1 ? 1 : batch > MOST_BATCH ? MOST_BATCH : batch);
}

static RengaErrorCode TimeRun(ProfileBench *bench, BenchRun *run, double *seconds)
{
  double value[MOST_RUNS], spent = 0, first;
  int count = 0;
  run->batch = 1;
  RengaCall(Once(bench, run, &first)); /* the kernel's own memory, its code */
  RengaCall(Once(bench, run, &first));
  run->batch = ChooseBatch(bench, run, first);
  const int least = first > LONG ? LONG_RUNS : LEAST_RUNS;
  while (count < MOST_RUNS && (count < least || spent < ENOUGH)) {
    RengaCall(Once(bench, run, &value[count]));
    spent += value[count++] * run->batch;
  }
  *seconds = RengaProfileMedian_Private(count, value);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileTimeCall_Private(ProfileBench *bench, const ProfileCall *call,
                                            double *seconds)
{
  BenchRun *run = NULL;
  RengaCall(RengaMalloc(1, &run));
  run->call = call;
  run->op = RengaProfileOpCall_Private(call);
  run->n = run->op.n_in + run->op.n_out;
  RengaErrorCode code = MakeReady(bench, run);
  if (code == RENGA_SUCCESS) code = TimeRun(bench, run, seconds);
  const RengaErrorCode freed = FreeRun(bench, run);
  RengaFree(&run);
  RengaCall(code ? code : freed);
  return RENGA_SUCCESS;
}
