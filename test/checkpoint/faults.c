/* A program of test/checkpoint/faults.sh: write a checkpoint and fail at a chosen system call,
   or read the newest one. */
#include "standin.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static struct {
  char call[16];
  int64_t rank, number;
  int64_t seen;
  bool armed;
} fault;

static const RengaOptionRow rows[] = {
    {"fault_call", RENGA_OPTION_STRING, "none", RENGA_OPTION_NO_OFFSET,
     "none|pwrite|fsync|rename|renamed|limit|time", 0, 0,
     "what kills the rank; limit: file size; time: after so many microseconds"},
    {"beside", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "written while steps go on"},
    {"fault_rank", RENGA_OPTION_INT64, "0", RENGA_OPTION_NO_OFFSET, NULL, 0, 0, "which rank"},
    {"fault_number", RENGA_OPTION_INT64, "1", RENGA_OPTION_NO_OFFSET, NULL, 0, 0, "which call"},
    {"stages", RENGA_OPTION_INT64, "1", RENGA_OPTION_NO_OFFSET, NULL, 0, 0, "of the layout"},
    {"other", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0, "another network"},
    {"step", RENGA_OPTION_INT64, "1", RENGA_OPTION_NO_OFFSET, NULL, 0, 0, "to be written"},
};

static void MaybeDie(const char *call)
{
  if (fault.armed && strcmp(call, fault.call) == 0 && ++fault.seen == fault.number)
    kill(getpid(), SIGKILL);
}

/* These stand before those of the C library. */
ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset)
{
  if (fault.armed && strcmp(fault.call, "pwrite") == 0 && fault.seen + 1 == fault.number &&
      count > 1)
    syscall(SYS_pwrite64, file, bytes, count / 2, offset); /* half of it arrives */
  MaybeDie("pwrite");
  return (ssize_t)syscall(SYS_pwrite64, file, bytes, count, offset);
}

int fsync(int file)
{
  MaybeDie("fsync");
  return (int)syscall(SYS_fsync, file);
}

int rename(const char *from, const char *to)
{
  MaybeDie("rename");
  int code = (int)syscall(SYS_rename, from, to);
  MaybeDie("renamed");
  return code;
}

/* Writes fail past 600 kB, as on a disk that is full in spite of what was reserved. */
static void LimitFileSize(void)
{
  struct rlimit limit = {600000, 600000};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
}

static void DieLater(void)
{
  const struct itimerval when = {{0, 0}, {fault.number / 1000000, fault.number % 1000000}};
  signal(SIGALRM, SIG_DFL);
  setitimer(ITIMER_REAL, &when, NULL);
}

/* Steps with other values until the file is there, or cannot be. */
static RengaErrorCode WriteBeside(RengaCheckpoint checkpoint)
{
  bool wrote = false, missing = false, stop;
  RengaCall(RengaCheckpointSetAsync(checkpoint, true));
  while (!wrote && !missing) {
    RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
    RengaCall(RengaCheckpointGetMissing(checkpoint, &missing));
    standin.step++;
    for (int i = 0; i < standin.mine.count; i++)
      memset((void *)(uintptr_t)standin.mine.tensors[i].data, (int)standin.step,
             RengaTensorSpecBytes(&standin.mine.tensors[i].spec));
    usleep(1000);
  }
  Expect(wrote);
  return RENGA_SUCCESS;
}

static RengaErrorCode Write(RengaComm comm, const char *directory, int stages, int64_t step)
{
  RengaCheckpoint checkpoint;
  bool found, beside;
  int64_t before;
  RengaCall(RengaOptionsGetBool("beside", &beside, NULL));
  RengaCall(StandinCreate(comm, stages, true, directory, &checkpoint));
  RengaCall(RengaCheckpointResume(checkpoint, &found, &before)); /* of the same run */
  standin.step = step;
  fault.armed = RengaCommGetRank(comm) == fault.rank;
  if (fault.armed && strcmp(fault.call, "limit") == 0) LimitFileSize();
  if (fault.armed && strcmp(fault.call, "time") == 0) DieLater();
  if (beside)
    RengaCall(WriteBeside(checkpoint));
  else
    RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  RengaCall(StandinDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

static RengaErrorCode Resume(RengaComm comm, const char *directory, int stages)
{
  RengaCheckpoint checkpoint;
  bool found, other;
  int64_t step = 0;
  MPI_Comm ranks;
  RengaCall(StandinCreate(comm, stages, false, directory, &checkpoint));
  RengaCall(RengaOptionsGetBool("other", &other, NULL));
  for (int i = 0; other && i < standin.mine.count; i++) {
    RengaPersistent *tensor = &standin.mine.tensors[i];
    if (strcmp(tensor->name, TestName(1)) == 0) tensor->name = "renamed";
    if (strcmp(tensor->name, TestName(5)) == 0) tensor->spec.dim[0]++;
    RengaCall(RengaRectangleWhole(&tensor->spec, &tensor->part));
  }
  RengaCall(RengaCheckpointResume(checkpoint, &found, &step));
  if (found) RengaCall(TestTensorsCheck(&standin.mine));
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCall(RengaPrintf(ranks, "step %d\n", found ? (int)step : -1));
  RengaCall(StandinDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(int argc, char **argv)
{
  RengaComm comm;
  int64_t stages, step;
  const char *call;
  RengaCall(RengaOptionsRegister("Test", sizeof rows / sizeof rows[0], rows));
  RengaCall(RengaInitialize(&argc, &argv, NULL));
  RengaCall(RengaOptionsGetString("fault_call", &call, NULL));
  RengaCall(RengaOptionsGetInt64("fault_rank", &fault.rank, NULL));
  RengaCall(RengaOptionsGetInt64("fault_number", &fault.number, NULL));
  RengaCall(RengaOptionsGetInt64("stages", &stages, NULL));
  RengaCall(RengaOptionsGetInt64("step", &step, NULL));
  snprintf(fault.call, sizeof fault.call, "%s", call);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  Expect(argc == 3);
  if (strcmp(argv[1], "write") == 0)
    RengaCall(Write(comm, argv[2], (int)stages, step));
  else
    RengaCall(Resume(comm, argv[2], (int)stages));
  RengaCall(RengaCommDestroy(&comm));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(Run(argc, argv));
  return 0;
}
