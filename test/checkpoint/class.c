/* TEST ranks: 1 3 */
/* When files are written, kept and read: every so many steps, signals, resuming past damage. */
#include "standin.h"
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];

static RengaErrorCode Exists(int64_t step, bool *there)
{
  char *path;
  RengaCall(RengaCheckpointDirectoryPath(directory, step, &path));
  *there = access(path, R_OK) == 0;
  RengaFree(&path);
  return RENGA_SUCCESS;
}

/* Bytes of the middle of a step's file changed, or the file gone. */
static RengaErrorCode Spoil(RengaComm comm, int64_t step, bool remove)
{
  char *path;
  struct stat status;
  RengaCall(RengaCommBarrier(comm, "before"));
  if (RengaCommGetRank(comm) == 0) {
    RengaCall(RengaCheckpointDirectoryPath(directory, step, &path));
    FILE *file = fopen(path, "r+");
    Expect(file && fstat(fileno(file), &status) == 0);
    fseek(file, status.st_size / 2, SEEK_SET);
    Expect(fwrite("spoilt", 1, 6, file) == 6);
    fclose(file);
    if (remove) unlink(path);
    RengaFree(&path);
  }
  RengaCall(RengaCommBarrier(comm, "after"));
  return RENGA_SUCCESS;
}

/* Every 10 steps, 3 kept. */
static RengaErrorCode TestSteps(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  bool wrote, stop, there;
  int written = 0;
  RengaCall(RengaOptionsSetValue("checkpoint_every", "10"));
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  RengaCall(RengaCheckpointSetAttribute(checkpoint, "seed", "7"));
  for (standin.step = 1; standin.step <= 55; standin.step++) {
    RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
    Expect(wrote == (standin.step % 10 == 0) && !stop);
    written += wrote;
  }
  Expect(written == 5);
  for (int64_t step = 10; step <= 50; step += 10) {
    RengaCall(Exists(step, &there));
    Expect(there == (step > 20));
  }
  RengaCall(StandinDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

/* Files of steps 30, 40, 50 are there. */
static RengaErrorCode TestResume(RengaComm comm)
{
  int64_t steps[] = {50, 50, 40, 40}, step;
  int size = RengaCommGetSize(comm);
  for (int i = 0; i < 4; i++) {
    RengaCheckpoint checkpoint;
    bool found;
    const char *seed;
    if (i == 2) RengaCall(Spoil(comm, 50, false));
    RengaCall(StandinCreate(comm, 1 + i % size, false, directory, &checkpoint));
    RengaCall(RengaCheckpointResume(checkpoint, &found, &step));
    Expect(found && step == steps[i] && standin.step == step);
    RengaCall(TestTensorsCheck(&standin.mine));
    RengaCall(RengaCheckpointGetAttribute(checkpoint, "seed", &seed));
    Expect(strcmp(seed, "7") == 0);
    RengaCall(RengaCheckpointGetAttribute(checkpoint, "options", &seed));
    Expect(strstr(seed, "-checkpoint_every 10") != NULL);
    RengaCall(StandinDestroy(&checkpoint));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ExpectSteps(int count, const int64_t steps[])
{
  const int64_t known[] = {30, 35, 40, 45, 50};
  for (int i = 0; i < 5; i++) {
    bool there, wanted = false;
    for (int j = 0; j < count; j++) wanted = wanted || steps[j] == known[i];
    RengaCall(Exists(known[i], &there));
    Expect(there == wanted);
  }
  return RENGA_SUCCESS;
}

/* Another run takes nothing away; one that goes on from a file keeps as many as it is told. Files
   of steps 30, 40, 50 are there, the last one damaged. */
static RengaErrorCode TestKeep(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  bool found;
  int64_t step;
  char *path;
  RengaCall(RengaOptionsSetValue("checkpoint_keep", "1"));
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  RengaCall(RengaCheckpointGetNewest(checkpoint, &found, &step));
  Expect(found && step == 50);
  ExpectError(RengaCheckpointCheckFresh(checkpoint), RENGA_ERR_OPTION,
              RengaCommGetRank(comm) == 0 ? "the newest of step 50" : "");
  standin.step = 35;
  RengaCall(RengaCheckpointWrite(checkpoint, &path));
  Expect(strstr(path, "step_000000035.h5") != NULL);
  RengaFree(&path);
  RengaCall(ExpectSteps(4, (const int64_t[]){30, 35, 40, 50}));
  RengaCall(RengaCheckpointGetNewest(checkpoint, &found, &step));
  Expect(found && step == 35); /* written last */
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(Spoil(comm, 35, true));
  RengaCall(StandinCreate(comm, 1, false, directory, &checkpoint));
  RengaCall(RengaCheckpointResume(checkpoint, &found, &step));
  Expect(found && step == 40);
  standin.step = 45;
  RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  RengaCall(ExpectSteps(2, (const int64_t[]){40, 45})); /* 40: the newest that is good */
  RengaCall(StandinDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

/* Files of steps 40 and 45 are there, the first one good. One that is cut short is not counted. */
static RengaErrorCode TestKeepOfTruncated(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  char *path;
  bool found;
  int64_t step;
  RengaCall(RengaOptionsSetValue("checkpoint_keep", "2"));
  RengaCall(StandinCreate(comm, 1, false, directory, &checkpoint));
  RengaCall(RengaCheckpointResume(checkpoint, &found, &step));
  Expect(found && step == 45);
  standin.step = 50;
  RengaCall(RengaCheckpointWrite(checkpoint, &path));
  if (RengaCommGetRank(comm) == 0) Expect(truncate(path, 8192) == 0);
  RengaFree(&path);
  standin.step = 35;
  RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  RengaCall(ExpectSteps(4, (const int64_t[]){35, 40, 45, 50}));
  standin.step = 30;
  RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  RengaCall(ExpectSteps(3, (const int64_t[]){30, 35, 40}));
  RengaCall(StandinDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

/* SIGUSR1 on one rank writes on all; SIGTERM on one rank writes and stops all. */
static RengaErrorCode TestSignals(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  bool wrote, stop;
  bool last = RengaCommGetRank(comm) == RengaCommGetSize(comm) - 1;
  struct sigaction action;
  bool asked = true;
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  RengaCall(RengaCheckpointGetSignals(checkpoint, &asked));
  Expect(!asked && sigaction(SIGTERM, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  Expect(RengaCheckpointSetSignals(checkpoint, true) == RENGA_ERR_ORDER);
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(RengaOptionsSetValue("checkpoint_signals", "true"));
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  standin.step = 61;
  if (last) raise(SIGUSR1);
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(wrote && !stop);
  standin.step = 62;
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(!wrote && !stop);
  if (last) raise(SIGTERM);
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(wrote && stop);
  if (last) raise(SIGINT); /* what is on the disk is not written again */
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(!wrote && stop);
  RengaCall(StandinDestroy(&checkpoint));
  signal(SIGHUP, SIG_IGN); /* as nohup does */
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  standin.step = 63;
  raise(SIGHUP);
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(!stop);
  RengaCall(StandinDestroy(&checkpoint));
  signal(SIGHUP, SIG_DFL);
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  standin.step = 64;
  if (last) raise(SIGHUP);
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(wrote && stop);
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(RengaOptionsSetValue("checkpoint_signals", "false"));
  Expect(sigaction(SIGTERM, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  Expect(sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  return RENGA_SUCCESS;
}

/* By time, rank 0's clock. */
static RengaErrorCode TestTime(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  bool wrote = false, stop;
  RengaCall(RengaOptionsSetValue("checkpoint_every", "0.05s"));
  RengaCall(StandinCreate(comm, 1, true, directory, &checkpoint));
  for (standin.step = 70; !wrote; standin.step++) {
    RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
    usleep(1000);
  }
  RengaCall(StandinDestroy(&checkpoint));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestNothing(RengaComm comm)
{
  RengaCheckpoint checkpoint;
  bool found, wrote, stop;
  int64_t step;
  RengaCall(StandinCreate(comm, 1, true, "class-test-empty/inner", &checkpoint));
  RengaCall(RengaCheckpointResume(checkpoint, &found, &step));
  Expect(!found);
  RengaCall(StandinDestroy(&checkpoint));
  RengaCall(StandinCreate(comm, 1, true, NULL, &checkpoint));
  RengaCall(RengaCheckpointStep(checkpoint, &wrote, &stop));
  Expect(!wrote && !stop);
  RengaCall(StandinDestroy(&checkpoint));
  if (RengaCommGetRank(comm) == 0)
    Expect(rmdir("class-test-empty/inner") == 0 && rmdir("class-test-empty") == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode CleanUp(RengaComm comm)
{
  int count;
  RengaCheckpointFileInfo *files;
  char *path;
  if (RengaCommGetRank(comm) != 0) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointDirectoryList(directory, &count, &files));
  for (int i = 0; i < count; i++) {
    RengaCall(RengaCheckpointDirectoryPath(directory, files[i].step, &path));
    unlink(path);
    RengaFree(&path);
  }
  RengaFree(&files);
  Expect(rmdir(directory) == 0 || errno == ENOENT); /* nothing else was left there */
  return RENGA_SUCCESS;
}

static RengaErrorCode TestClass(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  snprintf(directory, sizeof directory, "class-test-%d", RengaCommGetSize(comm));
  RengaCall(CleanUp(comm));
  RengaCall(TestSteps(comm));
  RengaCall(TestResume(comm));
  RengaCall(TestKeep(comm));
  RengaCall(TestKeepOfTruncated(comm));
  RengaCall(TestSignals(comm));
  RengaCall(TestTime(comm));
  RengaCall(TestNothing(comm));
  RengaCall(CleanUp(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestClass)
