/* TEST ranks: 1 4 */
/* Checkpoints in the memory of nodes: of which steps they are, what a run on another layout finds,
   when they are removed; whatever fails in one, no rank waits, and the next one is whole. */
#include "standin.h"
#include "renga/private/fault.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64], folder[64];

/* Rank 0: files of the folder. */
static int CountFiles(const char *name)
{
  char path[512];
  int count = 0;
  DIR *entries = opendir(name);
  for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", name, entry->d_name);
    struct stat about;
    const bool is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    count += is_folder ? CountFiles(path) : 1;
  }
  if (entries) closedir(entries);
  return count;
}

static RengaErrorCode ExpectFiles(RengaComm comm, bool any)
{
  RengaCall(RengaCommBarrier(comm, "before"));
  if (RengaCommGetRank(comm) == 0) Expect((CountFiles(folder) > 0) == any);
  RengaCall(RengaCommBarrier(comm, "after"));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeSteps(RengaCheckpoint checkpoint, int64_t first, int64_t last)
{
  bool wrote, stop;
  for (standin.step = first; standin.step <= last; standin.step++) {
    RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
    Expect(!wrote && !stop);
  }
  standin.step = last;
  return RENGA_SUCCESS;
}

/* Without a file nothing but the memory has what was done. */
static RengaErrorCode TestLeft(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  const char *where;
  int64_t bytes = 0, step = 0;
  int steps;
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  RengaCall(RengaCheckpointGetMemory(checkpoint, &steps, &where));
  Expect(steps == 2 && strcmp(where, folder) == 0);
  RengaCall(RengaCheckpointGetRecovered(checkpoint, &step));
  Expect(step == -1);
  RengaCall(RengaCheckpointReserveMemory(checkpoint, &bytes));
  Expect(bytes > 0);
  RengaCall(MakeSteps(checkpoint, 1, 5));
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(ExpectFiles(comm, true));
  return RENGA_SUCCESS;
}

static RengaErrorCode ExpectFound(RengaComm comm, int stages, int64_t wanted,
                                  RengaCheckpoint *checkpoint)
{
  bool found;
  int64_t step = 0;
  RengaCall(StandinCreate(comm, stages, false, directory, checkpoint));
  RengaCall(RengaCheckpointGetRecovered(*checkpoint, &step));
  Expect(step == wanted);
  RengaCall(ExpectFiles(comm, false));
  RengaCall(RengaCheckpointResume(*checkpoint, &found, &step));
  Expect(found && (wanted < 0 || step == wanted) && standin.step == step);
  RengaCall(TestTensorsCheck(&standin.mine));
  return RENGA_SUCCESS;
}

/* Something of the name of the file is in the way: a start fails, and the next one finds all. */
static RengaErrorCode TestInTheWay(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  FILE *file;
  char path[128];
  snprintf(path, sizeof path, "%s/step_000000004.h5", directory);
  RengaCall(RengaCommBarrier(comm, "before"));
  if (RengaCommGetRank(comm) == 0) Expect(mkdir(path, 0700) == 0);
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  RengaCall(RengaCheckpointSetDirectory(checkpoint, directory));
  RengaCall(RengaCheckpointSetFromOptions(checkpoint));
  const int saved = BeginErrors(&file);
  Expect(RengaCheckpointSetUp(checkpoint) == RENGA_ERR_FILE_WRITE);
  EndErrors(file, saved);
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  RengaCall(ExpectFiles(comm, true));
  if (RengaCommGetRank(comm) == 0) Expect(rmdir(path) == 0);
  RengaCall(RengaCommBarrier(comm, "after"));
  return RENGA_SUCCESS;
}

/* A step that was not finite has followed that of 8. */
static RengaErrorCode TestFound(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  const int most = RengaCommGetSize(comm);
  RengaCall(ExpectFound(comm, most, 4, &checkpoint));
  RengaCall(MakeSteps(checkpoint, 5, 8));
  RengaCall(RengaCheckpointMarkBad(checkpoint));
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(ExpectFound(comm, (most + 1) / 2, 6, &checkpoint));
  RengaCall(MakeSteps(checkpoint, 7, 10));
  RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(ExpectFiles(comm, false));
  RengaCall(ExpectFound(comm, 1, -1, &checkpoint));
  RengaCall(StandinDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

/* On one rank something fails, anywhere in a checkpoint of this step. */
static RengaErrorCode FailOnce(RengaComm comm, RengaCheckpoint checkpoint, RengaFaultKind kind,
                               int64_t n, bool *due)
{
  bool wrote, stop;
  int64_t codes[2], seen;
  const int rank = RengaCommGetRank(comm), last = RengaCommGetSize(comm) - 1;
  RengaFaultSet(kind, rank == last ? n : 0);
  const RengaErrorCode code = RengaCheckpointStep(checkpoint, &wrote, &stop);
  seen = rank == last ? RengaFaultGetCount(kind) : 0;
  RengaFaultSet(kind, 0);
  codes[0] = code;
  codes[1] = seen;
  RengaCall(RengaCommSumInt64(comm, 2, codes, "codes"));
  Expect(codes[0] == (last + 1) * (int64_t)code);
  *due = codes[1] >= n;
  return RENGA_SUCCESS;
}

static RengaErrorCode TestFailures(RengaComm comm)
{
  static const RengaFaultKind kinds[] = {RENGA_FAULT_FILE, RENGA_FAULT_MESSAGE,
                                         RENGA_FAULT_ALLOCATION};
  RengaCheckpoint checkpoint;
  FILE *file;
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  RengaCall(MakeSteps(checkpoint, 11, 12));
  const int saved = BeginErrors(&file);
  for (int k = 0; k < 3; k++) {
    bool due = true;
    for (int64_t n = 1; due; n += n < 20 ? 1 : UnlessSlow(7, 31)) {
      standin.step += 2;
      RengaCall(FailOnce(comm, checkpoint, kinds[k], n, &due));
    }
  }
  EndErrors(file, saved);
  RengaCall(MakeSteps(checkpoint, standin.step + 1, standin.step + 2));
  const int64_t step = standin.step / 2 * 2;
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(ExpectFound(comm, 1, step, &checkpoint));
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(ExpectFiles(comm, false));
  return RENGA_SUCCESS;
}

/* What a system removes under a run is made again. */
static RengaErrorCode TestRemoved(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  char command[256];
  const int64_t first = standin.step / 2 * 2;
  snprintf(command, sizeof command, "rm -rf %s/*", folder);
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  RengaCall(MakeSteps(checkpoint, first + 1, first + 4));
  RengaCall(RengaCommBarrier(comm, "before"));
  if (RengaCommGetRank(comm) == 0) Expect(system(command) == 0);
  RengaCall(RengaCommBarrier(comm, "after"));
  RengaCall(MakeSteps(checkpoint, first + 5, first + 8));
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(ExpectFound(comm, 1, first + 8, &checkpoint));
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(ExpectFiles(comm, false));
  return RENGA_SUCCESS;
}

/* Nodes' memory that cannot be had: what was open stays open, whatever was not made yet. */
static RengaErrorCode TestNowhere(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  FILE *file;
  const int open = fcntl(STDIN_FILENO, F_GETFD);
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  RengaCall(RengaCheckpointSetDirectory(checkpoint, directory));
  RengaCall(RengaCheckpointSetMemory(checkpoint, 1, "memory-test.nowhere"));
  const int saved = BeginErrors(&file);
  Expect(RengaCheckpointSetUp(checkpoint) == RENGA_ERR_FILE_WRITE);
  EndErrors(file, saved);
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  Expect(fcntl(STDIN_FILENO, F_GETFD) == open);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRefused(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  ExpectError(RengaCheckpointSetMemory(checkpoint, -1, folder), RENGA_ERR_ARGUMENT,
              "a checkpoint in memory each -1 steps");
  RengaCall(RengaCheckpointSetMemory(checkpoint, 1, folder));
  ExpectError(RengaCheckpointSetUp(checkpoint), RENGA_ERR_OPTION,
              RengaCommGetRank(comm) == 0 ? "-checkpoint_memory 1 needs -checkpoint_dir" : "");
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

static RengaErrorCode CleanUp(RengaComm comm)
{
  char command[256];
  RengaCall(RengaCommBarrier(comm, "before"));
  snprintf(command, sizeof command, "rm -rf %s %s && mkdir %s", directory, folder, folder);
  if (RengaCommGetRank(comm) == 0) Expect(system(command) == 0);
  RengaCall(RengaCommBarrier(comm, "after"));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestMemory(void)
{
  RengaComm comm;
  setenv("RENGA_NODES", "2", 1);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  snprintf(directory, sizeof directory, "memory-test-%d", RengaCommGetSize(comm));
  snprintf(folder, sizeof folder, "memory-test-%d.nodes", RengaCommGetSize(comm));
  RengaCall(RengaOptionsSetValue("checkpoint_every", "1000000"));
  RengaCall(RengaOptionsSetValue("checkpoint_memory", "2"));
  RengaCall(RengaOptionsSetValue("checkpoint_memory_dir", folder));
  RengaCall(CleanUp(comm));
  RengaCall(TestLeft(comm));
  RengaCall(TestInTheWay(comm));
  RengaCall(TestFound(comm));
  RengaCall(TestFailures(comm));
  RengaCall(TestRemoved(comm));
  RengaCall(TestNowhere(comm));
  RengaCall(TestRefused(comm));
  RengaCall(CleanUp(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestMemory)
