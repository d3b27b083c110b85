/* TEST ranks: 1 3 */
/* Files that are written while training goes on: the bytes they would have had at once, whatever
   happens to the tensors meanwhile; one after the other; marks; what fails; who leaves waits. */
#include "renga/private/fault.h"
#include "standin.h"
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static char directory[64];
static RengaComm ranks;
static int io_errors;
static struct {
  int warnings;
  char text[1024]; /* of the last one */
} heard;

static void Hear(const RengaErrorReport *report, void *user)
{
  (void)user;
  if (report->code != RENGA_SUCCESS) {
    RengaErrorPrint(report, NULL);
    return;
  }
  heard.warnings++;
  snprintf(heard.text, sizeof heard.text, "%s", report->message);
}

static RengaErrorCode RemoveFiles(RengaComm comm)
{
  int count;
  RengaCheckpointFileInfo *files;
  char *path;
  if (RengaCommGetRank(comm) == 0) {
    RengaCall(RengaCheckpointDirectoryList(directory, &count, &files));
    for (int i = 0; i < count; i++) {
      RengaCall(RengaCheckpointDirectoryPath(directory, files[i].step, &path));
      unlink(path);
      RengaFree(&path);
    }
    RengaFree(&files);
  }
  RengaCall(RengaCommBarrier(comm, "the files to be gone"));
  return RENGA_SUCCESS;
}

static bool Exists(int64_t step)
{
  char path[128];
  snprintf(path, sizeof path, "%s/step_%09lld.h5", directory, (long long)step);
  return access(path, R_OK) == 0;
}

/* What a step does to tensors. */
static void Scribble(char letter)
{
  for (int i = 0; i < standin.mine.count; i++) {
    const RengaPersistent *tensor = &standin.mine.tensors[i];
    memset((void *)(uintptr_t)tensor->data, letter, RengaTensorSpecBytes(&tensor->spec));
  }
}

/* Steps with other values, until a file is there or was given up; *wrote: it is there. */
static RengaErrorCode TrainOn(RengaCheckpoint checkpoint, bool *wrote)
{
  bool stop;
  const int before = heard.warnings;
  *wrote = false;
  for (int64_t told = 0; !*wrote && told == 0;) {
    standin.step++;
    Scribble((char)standin.step);
    RengaCall(RengaCheckpointStep(checkpoint, wrote, &stop));
    told = heard.warnings != before;
    RengaCall(RengaCommSumInt64(ranks, 1, &told, "the warning"));
    usleep(5000);
  }
  return RENGA_SUCCESS;
}

/* The newest file is of this step, and whole. */
static RengaErrorCode CheckNewest(RengaComm comm, int64_t expected)
{
  RengaCheckpoint checkpoint;
  bool found;
  int64_t step = -1;
  RengaCall(StandinCreate(comm, RengaCommGetSize(comm), false, directory, &checkpoint));
  RengaCall(RengaCheckpointResume(checkpoint, &found, &step));
  Expect(found && step == expected);
  RengaCall(TestTensorsCheck(&standin.mine));
  RengaCall(StandinDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

/* Rank 0: what stands in a file, but for its time and options. */
static RengaErrorCode DigestFile(const char *folder, int64_t step, uint64_t *digest,
                                 RengaCheckpointMarkKind *mark)
{
  RengaCheckpointTable table = {0};
  char *path, message[RENGA_CHECKPOINT_MESSAGE];
  RengaCall(RengaCheckpointDirectoryPath(folder, step, &path));
  RengaCall(RengaCheckpointLayoutRead(path, &table, message));
  Expect(table.n_entries == TENSORS && table.step == step);
  *digest = RengaHash(table.hashes, (size_t)table.n_hashes * sizeof *table.hashes, 0);
  for (int i = 0; i < table.n_entries; i++)
    *digest = RengaHash(table.entries[i].name, strlen(table.entries[i].name), *digest);
  *mark = RengaCheckpointMarkRead(path);
  RengaCheckpointTableFree(&table);
  RengaFree(&path);
  return RENGA_SUCCESS;
}

/* The same step at once and beside training. */
static RengaErrorCode TestContents(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  RengaCheckpointMarkKind mark;
  bool wrote, stop, async;
  int64_t written;
  uint64_t digest[2];
  for (int beside = 0; beside < 2; beside++) {
    RengaCall(RengaOptionsSetValue("checkpoint_async", beside ? "true" : "false"));
    RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
    RengaCall(RengaCheckpointGetAsync(checkpoint, &async));
    Expect(async == (beside == 1));
    int writers;
    RengaCall(RengaCheckpointSetWriters(checkpoint, 1));
    RengaCall(RengaCheckpointGetWriters(checkpoint, &writers));
    Expect(writers == 1);
    int64_t copies;
    RengaCall(RengaCheckpointGetAsyncMemory(checkpoint, &copies));
    Expect((copies > 0) == (beside == 1 && RengaCommGetRank(comm) == 0));
    ExpectError(RengaCheckpointSetWriters(checkpoint, -1), RENGA_ERR_ARGUMENT, "");
    RengaCheckpointFormat format;
    RengaCall(RengaCheckpointSetFormat(checkpoint, RENGA_CHECKPOINT_SAFETENSORS));
    RengaCall(RengaCheckpointGetFormat(checkpoint, &format));
    Expect(format == RENGA_CHECKPOINT_SAFETENSORS);
    RengaCall(RengaCheckpointSetFormat(checkpoint, RENGA_CHECKPOINT_HDF5));
    ExpectError(RengaCheckpointSetFormat(checkpoint, (RengaCheckpointFormat)2), RENGA_ERR_ARGUMENT,
                "2 is no format of checkpoints");
    standin.step = 1000;
    RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
    Expect(!stop && wrote == !beside);
    if (!wrote) RengaCall(TrainOn(checkpoint, &wrote));
    Expect(wrote);
    RengaCall(RengaCheckpointGetWritten(checkpoint, &written));
    Expect(written == 1000);
    RengaCall(StandinDestroy(&checkpoint));
    if (RengaCommGetRank(comm) == 0) {
      RengaCall(DigestFile(directory, 1000, &digest[beside], &mark));
      Expect(mark == (beside ? RENGA_MARK_GOOD : RENGA_MARK_NONE)); /* steps have followed */
      Expect(digest[beside] == digest[0]);
    }
    RengaCall(CheckNewest(comm, 1000));
    RengaCall(RemoveFiles(comm));
  }
  return RENGA_SUCCESS;
}

/* A file each step: each waits for the one before; 3 stay, and the end waits for the last. */
static RengaErrorCode TestSuccession(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  bool wrote, stop;
  int64_t written = -1;
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  RengaCall(RengaCheckpointGetWritten(checkpoint, &written));
  Expect(written == -1);
  for (standin.step = 1000; standin.step <= 6000; standin.step += 1000) {
    RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
    Expect(wrote == (standin.step > 1000) && !stop);
    RengaCall(RengaCheckpointGetWritten(checkpoint, &written));
    Expect(written == (standin.step > 1000 ? standin.step - 1000 : -1));
  }
  Expect(RengaCheckpointSetDirectory(checkpoint, "elsewhere") == RENGA_ERR_ORDER);
  RengaCall(StandinDestroy(&checkpoint));
  for (int64_t step = 1000; step <= 6000; step += 1000) Expect(Exists(step) == (step >= 4000));
  RengaCall(CheckNewest(comm, 6000));
  RengaCall(RemoveFiles(comm));
  return RENGA_SUCCESS;
}

/* Who is asked to leave has all on the disk. */
static RengaErrorCode TestLeaving(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  bool wrote, stop, missing;
  RengaCall(RengaOptionsSetValue("checkpoint_signals", "true"));
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  standin.step = 1000;
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(!wrote && !stop);
  standin.step = 1001;
  if (RengaCommGetRank(comm) == RengaCommGetSize(comm) - 1) raise(SIGTERM);
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  RengaCall(RengaCheckpointGetMissing(checkpoint, &missing));
  Expect(wrote && stop && !missing && Exists(1000) && Exists(1001));
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(RengaOptionsSetValue("checkpoint_signals", "false"));
  RengaCall(CheckNewest(comm, 1001));
  RengaCall(RemoveFiles(comm));
  return RENGA_SUCCESS;
}

/* The step after the one that is being written is not finite: its file is passed over. */
static RengaErrorCode TestBad(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  bool wrote, stop, found;
  int64_t from;
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  for (standin.step = 1000; standin.step <= 2000; standin.step += 1000)
    RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  standin.step = 2000;
  RengaCall(RengaCheckpointRollBack(checkpoint, &found, &from));
  Expect(found && from == 1000 && Exists(2000) && standin.step == 2001);
  RengaCall(TestTensorsCheck(&standin.mine));
  RengaCall(StandinDestroy(&checkpoint));
  const int before = heard.warnings;
  RengaCall(CheckNewest(comm, 1000));
  Expect(heard.warnings > before || RengaCommGetRank(comm) != 0);
  RengaCall(RemoveFiles(comm));
  return RENGA_SUCCESS;
}

/* Whatever write fails on a rank: a warning that says why, the older file stays, the next comes. */
static RengaErrorCode FailWrite(RengaComm comm, int rank, int64_t n, bool *failed, bool *early)
{
  RengaCheckpoint checkpoint;
  bool wrote, stop;
  int64_t hit;
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  standin.step = 1000;
  RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  heard.text[0] = '\0';
  standin.step = 2000;
  RengaFaultSet(RENGA_FAULT_FILE, RengaCommGetRank(comm) == rank ? n : 0);
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  int64_t told = heard.text[0] != '\0';
  RengaCall(RengaCommSumInt64(comm, 1, &told, "the warning"));
  *early = told > 0;
  if (!*early) RengaCall(TrainOn(checkpoint, &wrote));
  hit = RengaCommGetRank(comm) == rank && RengaFaultGetCount(RENGA_FAULT_FILE) >= n;
  RengaFaultSet(RENGA_FAULT_FILE, 0);
  RengaCall(RengaCommSumInt64(comm, 1, &hit, "whether it failed"));
  *failed = hit > 0;
  io_errors += strstr(heard.text, strerror(EIO)) != NULL; /* what the system said */
  if (RengaCommGetRank(comm) == 0 && !wrote)
    Expect(*failed && strstr(heard.text, "step_000002000.h5") &&
           strstr(heard.text, "that of step 1000 is kept"));
  RengaCall(StandinDestroy(&checkpoint));
  Expect(Exists(2000) || !wrote); /* it may be there, and the folder not be on the disk */
  RengaCall(CheckNewest(comm, Exists(2000) ? 2000 : 1000));
  RengaCall(RemoveFiles(comm));
  return RENGA_SUCCESS;
}

/* Of the writes before training goes on some are tried, of those of threads each third, from
   RENGA_TEST_SLOT on: three commits try all. */
static RengaErrorCode TestFailures(RengaComm comm)
{
  enum { STRIDE = 12, EACH = 3 };
  const char *slot = getenv("RENGA_TEST_SLOT");
  io_errors = 0;
  for (int rank = 0; rank < RengaCommGetSize(comm) && rank < 2; rank++) {
    bool failed = true, early = true;
    int64_t n = 1;
    for (; early && failed; n += STRIDE) RengaCall(FailWrite(comm, rank, n, &failed, &early));
    failed = true;
    n = (n > 2 * STRIDE ? n - 2 * STRIDE + 1 : 1) + (slot ? atoi(slot) % EACH : 0);
    for (; failed; n += EACH) RengaCall(FailWrite(comm, rank, n, &failed, &early));
  }
  Expect(io_errors > 3 || RengaCommGetRank(comm) != 0);
  return RENGA_SUCCESS;
}

static atomic_bool hangs, breaks;

/* In place of the system's: one of a thread that writes fails, or does not return. */
int fsync(int file)
{
  const bool beside = syscall(SYS_gettid) != getpid();
  while (beside && atomic_load(&hangs)) usleep(1000);
  errno = EIO;
  return beside && atomic_load(&breaks) ? -1 : (int)syscall(SYS_fsync, file);
}

/* A file of an earlier attempt, which was bad, stays so where its step cannot be written anew. */
static RengaErrorCode TestEarlier(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  RengaCheckpointMarkKind mark;
  uint64_t digest;
  bool wrote, stop;
  char best[128];
  snprintf(best, sizeof best, "%s/best.h5", directory);
  if (RengaCommGetRank(comm) == 0) unlink(best); /* of a test that failed */
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  standin.step = 1000;
  RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  RengaCall(RengaCheckpointMarkBad(checkpoint));
  standin.step = 500;
  RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  standin.step = 1000;
  atomic_store(&breaks, true);
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(!wrote);
  const int before = heard.warnings;
  RengaCall(RengaCheckpointTry(checkpoint, "best", &wrote)); /* waits for the one that fails */
  atomic_store(&breaks, false);
  Expect(wrote && (heard.warnings > before || RengaCommGetRank(comm) != 0));
  standin.step = 1001;
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  RengaCall(StandinDestroy(&checkpoint));
  if (RengaCommGetRank(comm) == 0) {
    RengaCall(DigestFile(directory, 1000, &digest, &mark));
    Expect(mark == RENGA_MARK_BAD && unlink(best) == 0);
  }
  RengaCall(RemoveFiles(comm));
  return RENGA_SUCCESS;
}

static char told_last[1024];

static void HearError(const RengaErrorReport *report, void *user)
{
  (void)user;
  if (report->depth == 0) snprintf(told_last, sizeof told_last, "%s", report->message);
}

/* A file system that hangs is an error at the time limit, which names the file. Alone: messages are
   not made after it. */
static RengaErrorCode TestHung(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  bool wrote, stop;
  if (RengaCommGetSize(comm) > 1) return RENGA_SUCCESS;
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  RengaCall(RengaCommSetTimeout(comm, 0.2));
  atomic_store(&hangs, true);
  standin.step = 1000;
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(!wrote);
  standin.step = 2000;
  RengaErrorSetHandler(HearError, NULL);
  const RengaErrorCode code = RengaCheckpointStep(checkpoint, &wrote, &stop);
  RengaErrorSetHandler(Hear, NULL);
  Expect(code == RENGA_ERR_TIMEOUT && !wrote && !Exists(1000));
  Expect(strstr(told_last, "the file system to write the checkpoint") &&
         strstr(told_last, "step_000001000.h5"));
  RengaCall(RengaCommSetTimeout(comm, 300));
  atomic_store(&hangs, false);
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop)); /* it is on the way again */
  Expect(!wrote);
  RengaCall(StandinDestroy(&checkpoint));
  Expect(!Exists(1000) && Exists(2000));
  RengaCall(RemoveFiles(comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestAsync(void)
{
  RengaComm comm;
  RengaErrorSetHandler(Hear, NULL);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  ranks = comm;
  snprintf(directory, sizeof directory, "async-test-%d", RengaCommGetSize(comm));
  RengaCall(RengaOptionsSetValue("checkpoint_every", "1000"));
  RengaCall(RemoveFiles(comm));
  RengaCall(TestContents(comm));
  RengaCall(TestSuccession(comm));
  RengaCall(TestLeaving(comm));
  RengaCall(TestBad(comm));
  RengaCall(TestFailures(comm));
  RengaCall(TestEarlier(comm));
  RengaCall(TestHung(comm));
  if (RengaCommGetRank(comm) == 0) Expect(rmdir(directory) == 0); /* nothing else is left there */
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestAsync)
