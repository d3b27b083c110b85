/* Reading: one file, or the newest whole one of a directory. */
#include "checkpointimpl.h"
#include <string.h>

/* Read a file into the pipeline; a damaged one is told by *whole and message. */
static RengaErrorCode ReadFile(RengaCheckpoint checkpoint, const char *path,
                               RengaCheckpointTable *table, bool *whole,
                               char message[RENGA_CHECKPOINT_MESSAGE])
{
  RengaComm comm = checkpoint->hdr.owner;
  RengaDevice device;
  const RengaPersistent *tensors;
  int count;
  RengaCall(RengaPipelineGetDevice(checkpoint->pipeline, &device));
  RengaCall(RengaPipelineGetPersistents(checkpoint->pipeline, &count, &tensors));
  RengaCall(RengaCheckpointFileOpen(comm, path, table, whole, message));
  if (!*whole) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointFileCompare(comm, path, table, count, tensors, checkpoint->subset));
  RengaCall(RengaCheckpointFileRead(comm, device, path, table, count, tensors, whole, message));
  return RENGA_SUCCESS;
}

/* The table's attributes become those of the checkpoint, its step the pipeline's. */
static RengaErrorCode Adopt(RengaCheckpoint checkpoint, RengaCheckpointTable *table)
{
  RengaCall(RengaPipelineSetStepNumber(checkpoint->pipeline, table->step));
  checkpoint->run = table->run;
  checkpoint->last_step = table->step;
  checkpoint->last_time = MPI_Wtime();
  RengaCheckpointTableFree(&checkpoint->found);
  checkpoint->found = *table;
  *table = (RengaCheckpointTable){0};
  return RENGA_SUCCESS;
}

static RengaErrorCode TryFile(RengaCheckpoint checkpoint, const char *path, bool *whole,
                              char message[RENGA_CHECKPOINT_MESSAGE])
{
  RengaCheckpointTable table = {0};
  RengaLogEvent event;
  RengaCall(RengaLogEventRegister("Checkpoint read", &event));
  RengaLogEventBegin(event);
  RengaErrorCode code = ReadFile(checkpoint, path, &table, whole, message);
  RengaLogEventEnd(event, 0, 0, code == RENGA_SUCCESS && *whole ? table.file_bytes : 0);
  if (code == RENGA_SUCCESS && *whole) code = Adopt(checkpoint, &table);
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointRead - read a file into the pipeline, whatever layout wrote it

   Collective

   Input:
   . checkpoint - with a pipeline that is set up
   . file - its path, the same on all ranks

   Notes: each rank reads just its own tensors. The pipeline's step number becomes the file's. A
   damaged file, or one of another network or optimizer, is an error on all ranks; a damaged one may
   have overwritten part of the pipeline's tensors.
@*/
RengaErrorCode RengaCheckpointRead(RengaCheckpoint checkpoint, const char *file)
{
  bool whole;
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(file);
  RengaCheck(checkpoint->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaCheckpointRead: call RengaCheckpointSetPipeline first");
  RengaCall(TryFile(checkpoint, file, &whole, message));
  RengaCheck(whole, checkpoint->hdr.comm, RENGA_ERR_FILE_FORMAT, "checkpoint %s: %s", file,
             message);
  return RENGA_SUCCESS;
}

/* The files there are, newest first, on all ranks. */
static RengaErrorCode ListShared(RengaCheckpoint checkpoint, int *count,
                                 RengaCheckpointFileInfo **files)
{
  static const char what[] = "the list of checkpoints";
  RengaComm comm = checkpoint->hdr.owner;
  RengaErrorCode code = RENGA_SUCCESS;
  bool root = RengaCommGetRank(comm) == 0;
  *count = 0;
  *files = NULL;
  if (root) code = RengaCheckpointDirectoryList(checkpoint->options.directory, count, files);
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code));
  RengaCall(RengaCommBroadcast(comm, count, sizeof *count, 0, what));
  if (*count == 0) return RENGA_SUCCESS;
  if (!root) RengaCall(RengaMalloc(*count, files));
  RengaCall(RengaCommBroadcast(comm, *files, (size_t)*count * sizeof **files, 0, what));
  return RENGA_SUCCESS;
}

static RengaErrorCode TryFiles(RengaCheckpoint checkpoint, int count,
                               const RengaCheckpointFileInfo files[], bool *found)
{
  const char *directory = checkpoint->options.directory;
  for (int i = 0; i < count && !*found; i++) {
    char message[RENGA_CHECKPOINT_MESSAGE] = "", *path;
    RengaCall(RengaCheckpointDirectoryPath(directory, files[i].step, &path));
    RengaErrorCode code = TryFile(checkpoint, path, found, message);
    if (code == RENGA_SUCCESS && !*found)
      RengaWarning(checkpoint->hdr.comm, "checkpoint %s is damaged: %s%s", path, message,
                   i + 1 < count ? "; trying the one before it" : "");
    RengaFree(&path);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointResume - read the newest whole file of the directory

   Collective

   Input:
   . checkpoint - with a directory, and a pipeline that is set up

   Output:
   . found - false where the directory holds no checkpoint
   . step - of the file that was read

   Options:
   . -resume - asks programs for this call

   Notes: a damaged file is named in a warning and the one before it is tried; where all are damaged
   it is an error. A file of another network is an error too.
@*/
RengaErrorCode RengaCheckpointResume(RengaCheckpoint checkpoint, bool *found, int64_t *step)
{
  int count;
  RengaCheckpointFileInfo *files;
  bool read = false;
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(found);
  RengaCheckPointer(step);
  RengaCheck(checkpoint->pipeline && checkpoint->options.directory, checkpoint->hdr.comm,
             RENGA_ERR_OPTION, "to resume, say where from: -checkpoint_dir");
  RengaCall(ListShared(checkpoint, &count, &files));
  RengaErrorCode code = TryFiles(checkpoint, count, files, &read);
  RengaFree(&files);
  RengaCall(code);
  RengaCheck(read || count == 0, checkpoint->hdr.comm, RENGA_ERR_FILE_FORMAT,
             "none of the %d checkpoints in %s is whole", count, checkpoint->options.directory);
  *found = read;
  if (read) *step = checkpoint->found.step;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetNewest - the step of the newest file of the directory, without reading it

   Collective

   Input:
   . checkpoint - with a directory

   Output:
   . found - false where the directory holds no checkpoint
   . step - of the file that was written last, by whichever run
@*/
RengaErrorCode RengaCheckpointGetNewest(RengaCheckpoint checkpoint, bool *found, int64_t *step)
{
  int count;
  RengaCheckpointFileInfo *files;
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(found);
  RengaCheckPointer(step);
  RengaCheck(checkpoint->options.directory, checkpoint->hdr.comm, RENGA_ERR_ORDER,
             "RengaCheckpointGetNewest: call RengaCheckpointSetDirectory first");
  RengaCall(ListShared(checkpoint, &count, &files));
  *found = count > 0;
  if (count > 0) *step = files[0].step;
  RengaFree(&files);
  return RENGA_SUCCESS;
}
