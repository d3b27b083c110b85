/* The checkpoints of a run, as its options say: the folder, the time limit, what is there. */
#include "app.h"
#include <string.h>

/* -checkpoint_dir, and options that need one. */
static RengaErrorCode FindDirectory(RengaComm comm, const char **directory, bool *resume)
{
  const char *every, *manner, *format;
  bool every_given, async_given, best;
  int64_t memory;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetString("checkpoint_dir", directory, NULL));
  RengaCall(RengaOptionsGetString("checkpoint_every", &every, &every_given));
  RengaCall(RengaOptionsGetString("pipeline_on_nonfinite", &manner, NULL));
  RengaCall(RengaOptionsGetBool("checkpoint_async", &async_given, NULL));
  RengaCall(RengaOptionsGetString("checkpoint_format", &format, NULL));
  RengaCall(RengaOptionsGetInt64("checkpoint_memory", &memory, NULL));
  RengaCall(RengaOptionsGetBool("resume", resume, NULL));
  RengaCall(RengaOptionsGetBool("keep_best", &best, NULL));
  const char *needs = *resume                           ? "resume"
                      : best                            ? "keep_best"
                      : every_given                     ? "checkpoint_every"
                      : async_given                     ? "checkpoint_async"
                      : strcmp(format, "hdf5") != 0     ? "checkpoint_format"
                      : memory > 0                      ? "checkpoint_memory"
                      : strcmp(manner, "rollback") == 0 ? "pipeline_on_nonfinite rollback"
                                                        : NULL;
  RengaCheck(*directory || !needs, printer, RENGA_ERR_OPTION,
             "-%s needs -checkpoint_dir: where are the checkpoints?", needs);
  return RENGA_SUCCESS;
}

/* The checkpoint that the nodes had in memory and that is a file now, if there was one. */
static RengaErrorCode SayRecovered(RengaCheckpoint checkpoint, const char *directory)
{
  int64_t step;
  RengaCall(RengaCheckpointGetRecovered(checkpoint, &step));
  if (step >= 0)
    RengaCall(RengaPrintf(AppPrinter(checkpoint),
                          "the nodes have the checkpoint of step %lld in memory: it is now "
                          "%s/step_%09lld.h5\n",
                          (long long)step, directory, (long long)step));
  return RENGA_SUCCESS;
}

/* A fresh run takes none that has checkpoints. */
static RengaErrorCode OpenDirectory(AppCheckpoint *kept, const char *directory, bool resume)
{
  int64_t step;
  if (resume)
    RengaCall(RengaCheckpointGetNewest(kept->checkpoint, &kept->resumes, &step));
  else
    RengaCall(RengaCheckpointCheckFresh(kept->checkpoint));
  RengaCall(SayRecovered(kept->checkpoint, directory));
  if (resume) RengaCall(AppKeepChoices(kept->checkpoint));
  return RENGA_SUCCESS;
}

RengaErrorCode AppOpenCheckpoint(RengaComm comm, AppCheckpoint *kept)
{
  const char *directory;
  bool resume;
  double seconds;
  RengaCall(FindDirectory(comm, &directory, &resume));
  RengaCall(AppFindTimeLimit(comm, &seconds));
  if (!directory && seconds == 0) return RENGA_SUCCESS;
  if (!directory)
    RengaWarning(AppPrinter(comm), "at the time limit the run leaves and nothing of it is kept: "
                                   "-checkpoint_dir keeps checkpoints");
  kept->saves = directory != NULL;
  RengaCall(RengaCheckpointCreate(comm, &kept->checkpoint));
  RengaCall(RengaCheckpointSetSignals(kept->checkpoint, true));
  if (directory) RengaCall(RengaCheckpointSetFromOptions(kept->checkpoint));
  RengaCall(RengaCheckpointSetUp(kept->checkpoint));
  if (directory) RengaCall(OpenDirectory(kept, directory, resume));
  RengaCall(RengaCheckpointSetTimeLimit(kept->checkpoint, seconds));
  return RENGA_SUCCESS;
}
