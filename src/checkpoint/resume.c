/* Reading: one file, or the newest whole one of a directory. */
#include "checkpointimpl.h"
#include "renga/private/device.h"
#include "renga/private/signs.h"
#include <string.h>

/* Read a file into the pipeline; a damaged one is told by *whole and message. */
static RengaErrorCode ReadCheckpoint(RengaCheckpoint checkpoint, const char *path,
                                     RengaCheckpointTable *table, bool *whole,
                                     char message[RENGA_CHECKPOINT_MESSAGE])
{
  RengaComm comm = checkpoint->hdr.owner;
  RengaDevice device;
  RengaPersistent *tensors = NULL;
  int count = 0;
  RengaCall(RengaPipelineGetDevice(checkpoint->pipeline, &device));
  RengaCall(RengaCheckpointFileOpen(comm, path, table, whole, message));
  if (!*whole) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointListTensors_Private(checkpoint, table, &count, &tensors));
  RengaErrorCode code =
      RengaCheckpointFileCompare(comm, path, table, count, tensors, checkpoint->subset);
  if (!code)
    code = RengaCheckpointFileRead(comm, device, path, table, count, tensors, whole, message);
  RengaFree(&tensors);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaCheckpointKeepFound_Private(RengaCheckpoint checkpoint, RengaCheckpointTable *table)
{
  RengaCheckpointTableFree(&checkpoint->found);
  checkpoint->found = *table;
  *table = (RengaCheckpointTable){0};
}

/* The table's attributes become those of the checkpoint, its step the pipeline's. */
static RengaErrorCode AdoptTable(RengaCheckpoint checkpoint, RengaCheckpointTable *table)
{
  RengaCall(RengaPipelineSetStepNumber(checkpoint->pipeline, table->step));
  RengaCall(RengaCheckpointAdoptScale_Private(checkpoint, table));
  checkpoint->run = table->run;
  checkpoint->last_step = table->step;
  checkpoint->unmarked = table->step;
  checkpoint->last_time = MPI_Wtime();
  RengaCheckpointKeepFound_Private(checkpoint, table);
  RengaSignResumed_Private(checkpoint->last_step);
  return RENGA_SUCCESS;
}

static RengaErrorCode TryFile(RengaCheckpoint checkpoint, const char *path, bool *whole,
                              char message[RENGA_CHECKPOINT_MESSAGE])
{
  RengaCheckpointTable table = {0};
  const RengaLogEvent event = RengaCheckpointEvent_Private(RENGA_CHECKPOINT_READ);
  RengaLogEventBegin(event);
  RengaErrorCode code = ReadCheckpoint(checkpoint, path, &table, whole, message);
  RengaLogEventEnd(event, 0, 0, code == RENGA_SUCCESS && *whole ? table.file_bytes : 0);
  if (code == RENGA_SUCCESS && *whole) code = AdoptTable(checkpoint, &table);
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointRead - read a file into the pipeline, whatever layout wrote it

   Collective

   Input:
   . checkpoint - the checkpoint, with a pipeline that is set up
   . file - its path, the same on all ranks

   Errors: RENGA_ERR_ORDER without a pipeline; RENGA_ERR_FILE_OPEN or RENGA_ERR_FILE_FORMAT where
   the file cannot be read or is damaged; RENGA_ERR_SHAPE where it is of another network. All
   ranks have the error.

   Notes: each rank reads just its own tensors. The pipeline's step number becomes the file's. A
   damaged file, or one of another network or optimizer, is an error on all ranks; a damaged one may
   have overwritten part of the pipeline's tensors.

   See also: RengaCheckpointResume(), RengaCheckpointWrite()
@*/
RengaErrorCode RengaCheckpointRead(RengaCheckpoint checkpoint, const char *file)
{
  bool whole, done;
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  RengaCheckPointers(checkpoint, file);
  RengaCheck(checkpoint->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaCheckpointRead: call RengaCheckpointSetPipeline first");
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, file));
  RengaCall(RengaCheckpointFinish_Private(checkpoint, &done));
  RengaCall(TryFile(checkpoint, file, &whole, message));
  RengaCheck(whole, checkpoint->hdr.comm, RENGA_ERR_FILE_FORMAT, "checkpoint %s: %s", file,
             message);
  return RENGA_SUCCESS;
}

/* The files there are, newest first, on all ranks. */
RengaErrorCode RengaCheckpointListShared_Private(RengaCheckpoint checkpoint, const char *directory,
                                                 int *count, RengaCheckpointFileInfo **files)
{
  static const char what[] = "the list of checkpoints";
  RengaComm comm = checkpoint->hdr.owner;
  RengaErrorCode code = RENGA_SUCCESS;
  bool root = RengaCommGetRank(comm) == 0, done;
  *count = 0;
  *files = NULL;
  RengaCall(RengaCheckpointFinish_Private(checkpoint, &done));
  if (root) code = RengaCheckpointDirectoryList(directory, count, files);
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code));
  RengaCall(RengaCommBroadcast(comm, count, sizeof *count, 0, what));
  if (*count == 0) return RENGA_SUCCESS;
  if (!root) code = RengaMalloc(*count, files);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (!code) code = RengaCommBroadcast(comm, *files, (size_t)*count * sizeof **files, 0, what);
  if (code) RengaFree(files);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A file, if it is whole; if not, a warning. */
static RengaErrorCode TryListed(RengaCheckpoint checkpoint, const RengaCheckpointFileInfo *file,
                                bool is_last, bool *found)
{
  char message[RENGA_CHECKPOINT_MESSAGE] = "", *path = NULL;
  RengaErrorCode code =
      RengaCheckpointDirectoryPath(checkpoint->options.directory, file->step, &path);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (!code) code = TryFile(checkpoint, path, found, message);
  if (code == RENGA_SUCCESS && !*found) {
    RengaWarning(checkpoint->hdr.comm, "checkpoint %s is damaged: %s%s", path, message,
                 is_last ? "" : "; trying the one before it");
    if (checkpoint->lock) RengaCheckpointMarkWrite(path, RENGA_MARK_NONE); /* good no more */
  }
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Files that a step followed that was not finite come last: they are better than none, as settings
   may have changed. */
void RengaCheckpointPutBadLast_Private(MPI_Comm comm, int count, RengaCheckpointFileInfo files[])
{
  int good = 0;
  for (int i = 0; i < count; i++) {
    if (files[i].mark == RENGA_MARK_BAD) continue;
    const RengaCheckpointFileInfo file = files[i];
    memmove(&files[good + 1], &files[good], (size_t)(i - good) * sizeof *files);
    files[good++] = file;
  }
  for (int i = good; i < count; i++)
    RengaWarning(comm, "the checkpoint of step %lld was followed by a step that was not finite: %s",
                 (long long)files[i].step,
                 good ? "it is passed over"
                      : "no other is there; the settings must change for it to go on");
}

static RengaErrorCode TryFiles(RengaCheckpoint checkpoint, int count,
                               RengaCheckpointFileInfo files[], bool *found)
{
  RengaCheckpointPutBadLast_Private(checkpoint->hdr.comm, count, files);
  for (int i = 0; i < count && !*found; i++)
    RengaCall(TryListed(checkpoint, &files[i], i + 1 == count, found));
  return RENGA_SUCCESS;
}

/* The newest regular file of this run that a finite step has followed. */
static RengaErrorCode TryGood(RengaCheckpoint checkpoint, int64_t step, int count,
                              const RengaCheckpointFileInfo files[], bool *found)
{
  uint64_t run = checkpoint->run; /* rank 0's */
  RengaCall(RengaCommBroadcast(checkpoint->hdr.owner, &run, sizeof run, 0, "the run"));
  for (int i = 0; i < count && !*found; i++) {
    if (files[i].run != run || files[i].mark != RENGA_MARK_GOOD || files[i].step > step) continue;
    if (!RengaCheckpointIsRegular_Private(checkpoint, files[i].step)) continue;
    RengaCall(TryListed(checkpoint, &files[i], i + 1 == count, found));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointRollBack - after a step that was not finite: back to the newest good file

   Collective

   Input:
   . checkpoint - set up, with a pipeline whose last step was not finite and did not count

   Output:
   . found - false where this run has no file that a finite step has followed: nothing is changed
   . from - the number of the step of the file that was read, at least 0

   Errors: RENGA_ERR_ORDER without a pipeline or a directory; RENGA_ERR_SHAPE for checkpoints of
   another network; RENGA_ERR_FILE_OPEN where the directory cannot be listed. All ranks have the
   error.

   Notes: tensors become those of the file, and the pipeline's step number the one after the step
   that failed: the batches from the file's step to the one that failed are left out, as they
   would fail once more. With -checkpoint_every in steps only files of its steps are gone back to,
   not the last ones of runs that were interrupted: what follows is the same in each run. A file of
   the step that failed is marked, and not resumed from (RengaCheckpointMarkBad).

   See also: RengaCheckpointResume(), RengaCheckpointMarkBad()
@*/
RengaErrorCode RengaCheckpointRollBack(RengaCheckpoint checkpoint, bool *found, int64_t *from)
{
  int count;
  RengaCheckpointFileInfo *files;
  bool read = false;
  RengaCheckPointers(checkpoint, found, from);
  RengaCall(RengaCheckpointMarkBad(checkpoint));
  const int64_t step = RengaPipelineGetStepNumber(checkpoint->pipeline);
  RengaCall(
      RengaCheckpointListShared_Private(checkpoint, checkpoint->options.directory, &count, &files));
  RengaErrorCode code = TryGood(checkpoint, step, count, files, &read);
  RengaFree(&files);
  RengaCall(code);
  *found = read;
  if (!read) return RENGA_SUCCESS;
  *from = checkpoint->found.step;
  checkpoint->unmarked = -1;
  RengaCall(RengaPipelineSetStepNumber(checkpoint->pipeline, step + 1));
  return RENGA_SUCCESS;
}

/* What was found in memory is a file more with each start. */
static RengaErrorCode DeleteAfterRecovery(RengaCheckpoint checkpoint)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (checkpoint->recovered < 0) return RENGA_SUCCESS;
  if (checkpoint->lock) code = RengaCheckpointDeleteOld_Private(checkpoint);
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code));
  return RENGA_SUCCESS;
}

/* Files of older versions do not say what computed them. */
static RengaErrorCode CompareKernels_Checkpoint(RengaCheckpoint checkpoint)
{
  const char *was = RengaCheckpointTableGetAttribute(&checkpoint->found, "kernels"), *is;
  RengaDevice device;
  RengaCall(RengaPipelineGetDevice(checkpoint->pipeline, &device));
  if (!was || !device) return RENGA_SUCCESS;
  RengaCall(RengaDeviceGetKernels(device, &is));
  if (strcmp(was, is) == 0) return RENGA_SUCCESS;
  const RengaKernelsDifference now = RengaDeviceFindDifference_Private(was, is);
  RengaWarning(checkpoint->hdr.comm,
               "the checkpoint of step %lld was computed by %.*s, this run computes by %.*s: bits "
               "may differ from here on",
               (long long)checkpoint->found.step, now.length[0], now.text[0], now.length[1],
               now.text[1]);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointResume - read the newest whole file of the directory

   Collective

   Input:
   . checkpoint - the checkpoint, with a directory, and a pipeline that is set up

   Output:
   . found - false where the directory holds no checkpoint
   . step - the number of the step of the file that was read, at least 0

   Options:
   . -resume - asks programs for this call

   Errors: RENGA_ERR_OPTION without a directory; RENGA_ERR_FILE_FORMAT where there are
   checkpoints and none is whole; RENGA_ERR_SHAPE for one of another network. All ranks have the
   error.

   Notes: a damaged file is named in a warning and the one before it is tried; where all are damaged
   it is an error. A file of another network is an error too. Where other kernels or libraries wrote
   it than compute now (RengaDeviceGetKernels) a warning says which: bits may differ from there on.

   See also: RengaCheckpointRead(), RengaCheckpointPeek()
@*/
RengaErrorCode RengaCheckpointResume(RengaCheckpoint checkpoint, bool *found, int64_t *step)
{
  int count;
  RengaCheckpointFileInfo *files;
  bool read = false;
  RengaCheckPointers(checkpoint, found, step);
  RengaCheck(checkpoint->pipeline && checkpoint->options.directory, checkpoint->hdr.comm,
             RENGA_ERR_OPTION, "to resume, say where from: -checkpoint_dir");
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, NULL));
  RengaCall(
      RengaCheckpointListShared_Private(checkpoint, checkpoint->options.directory, &count, &files));
  RengaErrorCode code = TryFiles(checkpoint, count, files, &read);
  RengaFree(&files);
  RengaCall(code);
  RengaCheck(read || count == 0, checkpoint->hdr.comm, RENGA_ERR_FILE_FORMAT,
             "none of the %d checkpoints in %s is whole", count, checkpoint->options.directory);
  RengaCall(DeleteAfterRecovery(checkpoint));
  *found = read;
  if (!read) return RENGA_SUCCESS;
  *step = checkpoint->found.step;
  RengaCall(CompareKernels_Checkpoint(checkpoint));
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetNewest - the step of the newest file of the directory, without reading it

   Collective

   Input:
   . checkpoint - the checkpoint, with a directory

   Output:
   . found - false where the directory holds no checkpoint
   . step - the number of the step of the newest file, at least 0, whichever run wrote it

   Errors: RENGA_ERR_ORDER without a directory; RENGA_ERR_FILE_OPEN where it cannot be listed.

   See also: RengaCheckpointPeek()
@*/
RengaErrorCode RengaCheckpointGetNewest(RengaCheckpoint checkpoint, bool *found, int64_t *step)
{
  int count;
  RengaCheckpointFileInfo *files;
  RengaCheckPointers(checkpoint, found, step);
  RengaCheck(checkpoint->options.directory, checkpoint->hdr.comm, RENGA_ERR_ORDER,
             "RengaCheckpointGetNewest: call RengaCheckpointSetDirectory first");
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, NULL));
  RengaCall(
      RengaCheckpointListShared_Private(checkpoint, checkpoint->options.directory, &count, &files));
  *found = count > 0;
  if (count > 0) *step = files[0].step;
  RengaFree(&files);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointCheckFresh - refuse a directory that has checkpoints already

   Collective

   Input:
   . checkpoint - the checkpoint, with a directory

   Errors: RENGA_ERR_OPTION where the directory holds a checkpoint; those of
   RengaCheckpointGetNewest().

   Notes: files of another run are not replaced, so that a run that does not go on from them would
   write none of its own.

   See also: RengaCheckpointGetNewest(), RengaCheckpointResume()
@*/
RengaErrorCode RengaCheckpointCheckFresh(RengaCheckpoint checkpoint)
{
  bool found = false;
  int64_t step = 0;
  RengaCall(RengaCheckpointGetNewest(checkpoint, &found, &step));
  RengaCheck(!found, checkpoint->hdr.comm, RENGA_ERR_OPTION,
             "%s holds the checkpoints of another run, the newest of step %lld, which are not "
             "replaced: go on from them (-resume, resume=True, RengaTrainerResume), or give this "
             "run a folder of its own (-checkpoint_dir)",
             checkpoint->options.directory, (long long)step);
  return RENGA_SUCCESS;
}

static RengaErrorCode PeekAt(RengaCheckpoint checkpoint, int64_t step, bool *whole)
{
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE], *path = NULL;
  RengaErrorCode code = RengaCheckpointDirectoryPath(checkpoint->options.directory, step, &path);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (!code) code = RengaCheckpointFileOpen(checkpoint->hdr.owner, path, &table, whole, message);
  RengaFree(&path);
  if (code == RENGA_SUCCESS && *whole) {
    RengaCheckpointKeepFound_Private(checkpoint, &table);
    return RENGA_SUCCESS;
  }
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointPeek - the attributes of the file that RengaCheckpointResume would read

   Collective

   Input:
   . checkpoint - the checkpoint, with a directory; no pipeline is needed

   Output:
   . found - false where there is none
   . step - the number of the file's step, at least 0

   Errors: RENGA_ERR_ORDER without a directory; RENGA_ERR_FILE_OPEN where it cannot be listed.

   Notes: RengaCheckpointGetAttribute then gives them. For what must be known before a pipeline can
   be set up: the sizes that the run was begun with. Tensors are not looked at: if one is damaged
   RengaCheckpointResume takes an older file, of the same run.

   See also: RengaCheckpointGetNewest(), RengaCheckpointResume()
@*/
RengaErrorCode RengaCheckpointPeek(RengaCheckpoint checkpoint, bool *found, int64_t *step)
{
  int count;
  RengaCheckpointFileInfo *files;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheckPointers(checkpoint, found, step);
  RengaCheck(checkpoint->options.directory, checkpoint->hdr.comm, RENGA_ERR_ORDER,
             "RengaCheckpointPeek: call RengaCheckpointSetDirectory first");
  *found = false;
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, NULL));
  RengaCall(
      RengaCheckpointListShared_Private(checkpoint, checkpoint->options.directory, &count, &files));
  for (int bad = 0; bad <= 1; bad++)
    for (int i = 0; i < count && !*found && code == RENGA_SUCCESS; i++)
      if ((files[i].mark == RENGA_MARK_BAD) == (bad == 1))
        code = PeekAt(checkpoint, files[i].step, found);
  RengaFree(&files);
  RengaCall(code);
  if (*found) *step = checkpoint->found.step;
  return RENGA_SUCCESS;
}
