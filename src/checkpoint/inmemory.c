/* -checkpoint_memory: when the nodes' memory is written, and what is found there. */
#include "checkpointimpl.h"

/*@
   RengaCheckpointSetMemory - whether checkpoints are also kept in the memory of the nodes

   Input:
   . checkpoint - the checkpoint; one that is set up is to be set up again
   . steps - steps between two checkpoints in memory; 0: none are kept
   . folder - a folder of each node's own memory, such as /dev/shm; copied

   Options:
   . -checkpoint_memory - the steps
   . -checkpoint_memory_dir - the folder

   Errors: RENGA_ERR_ARGUMENT for fewer than 0 steps.

   Notes: each rank keeps its fragment of the checkpoint in a file of the folder, and a rank of the
   next node a copy of it, so that the nodes that are left have all of it where one is lost. Each
   file has two slots: a crash in the middle of one checkpoint leaves the one before.
   RengaCheckpointSetUp of the run that goes on finds the newest that is whole, and makes it a file
   of the directory, to the byte as it would have been written; where none is whole the files are
   what is left, and a warning says so. RengaCheckpointDestroy removes them where a file is as new.

   See also: RengaCheckpointGetMemory(), RengaCheckpointReserveMemory(), RengaCheckpointStep()
@*/
RengaErrorCode RengaCheckpointSetMemory(RengaCheckpoint checkpoint, int steps, const char *folder)
{
  char *copy;
  RengaCheckPointers(checkpoint, folder);
  RengaCheck(steps >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a checkpoint in memory each %d steps",
             steps);
  RengaCall(RengaStringCopy(folder, &copy));
  RengaFree(&checkpoint->options.memory_dir);
  checkpoint->options.memory_dir = copy;
  checkpoint->options.memory = steps;
  checkpoint->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetMemory - whether checkpoints are also kept in the memory of the nodes

   Output:
   . steps - steps between two checkpoints in memory; 0: none are kept
   . folder - the folder's name, lent by the checkpoint; may be NULL

   See also: RengaCheckpointSetMemory(), RengaCheckpointGetRecovered()
@*/
RengaErrorCode RengaCheckpointGetMemory(RengaCheckpoint checkpoint, int *steps, const char **folder)
{
  RengaCheckPointers(checkpoint, steps);
  *steps = checkpoint->options.memory;
  if (folder) *folder = checkpoint->options.memory_dir;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetRecovered - which checkpoint was found in the memory of the nodes

   Input:
   . checkpoint - set up

   Output:
   . step - the number of the checkpoint's step, which is a file of the directory now; -1: none was
     found that is newer than the files

   See also: RengaCheckpointSetMemory(), RengaCheckpointResume()
@*/
RengaErrorCode RengaCheckpointGetRecovered(RengaCheckpoint checkpoint, int64_t *step)
{
  RengaCheckPointers(checkpoint, step);
  *step = checkpoint->recovered;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointReserveMemory - take the memory that RengaCheckpointSetMemory needs

   Collective

   Input:
   . checkpoint - set up, with a pipeline that is set up

   Output:
   . bytes - bytes of the node's memory, for this rank; 0 without checkpoints in memory

   Errors: RENGA_ERR_MEMORY where a node has less, on all ranks.

   Notes: so that it is known before the first step; RengaCheckpointStep takes what is still
   lacking, and warns where it cannot. The memory is twice the rank's fragment and twice each that
   it has a copy of.

   See also: RengaCheckpointSetMemory()
@*/
RengaErrorCode RengaCheckpointReserveMemory(RengaCheckpoint checkpoint, int64_t *bytes)
{
  RengaPersistent *tensors = NULL;
  int count = 0;
  int64_t own = 0, all = 0;
  RengaCheckPointers(checkpoint, bytes);
  RengaCheckState(checkpoint, RENGA_STATE_SETUP, "RengaCheckpointSetUp");
  RengaCheck(checkpoint->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaCheckpointReserveMemory: call RengaCheckpointSetPipeline first");
  *bytes = 0;
  if (!checkpoint->nodes) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointListTensors_Private(checkpoint, NULL, &count, &tensors));
  for (int i = 0; i < count; i++)
    if (tensors[i].owner) own += RengaPersistentGetBytes(&tensors[i]);
  RengaFree(&tensors);
  RengaCall(RengaNodesMemoryReserve(checkpoint->nodes, own, &all));
  RengaLogMemory("checkpoints, in the node's memory", all, all);
  *bytes = all;
  return RENGA_SUCCESS;
}

/* Rank 0: the time of the newest file that would be resumed from. */
static RengaErrorCode FindNewestTime(RengaCheckpoint checkpoint, int64_t *newest)
{
  int count;
  RengaCheckpointFileInfo *files;
  *newest = 0;
  RengaCall(RengaCheckpointDirectoryList(checkpoint->options.directory, &count, &files));
  for (int i = count - 1; i >= 0; i--) {
    if (files[i].whole && files[i].mark != RENGA_MARK_BAD) *newest = files[i].time;
    if (files[i].time > checkpoint->stamp) checkpoint->stamp = files[i].time;
  }
  RengaFree(&files);
  return RENGA_SUCCESS;
}

/* Nobody looks for what nodes may have. */
static void WarnOfUnsought(RengaCheckpoint checkpoint)
{
  if (checkpoint->lock && RengaNodesMemoryIsLeft(checkpoint->options.directory))
    RengaWarning(
        MPI_COMM_SELF,
        "%s/.renga_memory: a run that kept checkpoints in the memory of nodes has not come "
        "to its end, and they may be newer than the files: -checkpoint_memory, which looks "
        "for them, is not given",
        checkpoint->options.directory);
}

RengaErrorCode RengaCheckpointSetUpMemory_Private(RengaCheckpoint checkpoint)
{
  const char *directory = checkpoint->options.directory;
  const MPI_Comm ranks = checkpoint->hdr.comm;
  int64_t newest = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheckpointFreeMemory_Private(checkpoint);
  checkpoint->recovered = -1;
  if (checkpoint->options.memory == 0) {
    WarnOfUnsought(checkpoint);
    return RENGA_SUCCESS;
  }
  RengaCheck(
      directory, ranks, RENGA_ERR_OPTION,
      "-checkpoint_memory %d needs -checkpoint_dir: where a run begins that finds nothing in "
      "memory, and what is found there goes",
      checkpoint->options.memory);
  RengaCall(RengaNodesMemoryCreate(checkpoint->hdr.owner, checkpoint->options.memory_dir, directory,
                                   &checkpoint->nodes));
  if (checkpoint->lock) code = FindNewestTime(checkpoint, &newest);
  RengaCall(RengaErrorAgree(ranks, code));
  RengaCall(RengaNodesMemoryRecover(checkpoint->nodes, directory, newest, &checkpoint->recovered));
  /* What comes is after what was found, whose clock may have been another node's. */
  if (checkpoint->lock) code = FindNewestTime(checkpoint, &newest);
  RengaCall(RengaErrorAgree(ranks, code));
  if (checkpoint->nodes->nodes == 1)
    RengaWarning(ranks,
                 "-checkpoint_memory: all ranks are on one node, so that it protects from the end "
                 "of processes, not from that of the node");
  return RENGA_SUCCESS;
}

void RengaCheckpointFreeMemory_Private(RengaCheckpoint checkpoint)
{
  if (!checkpoint->nodes) return;
  RengaNodesMemoryDestroy(&checkpoint->nodes, checkpoint->nodes->step > checkpoint->last_step);
}

static RengaErrorCode SaveInMemory(RengaCheckpoint checkpoint, void *user)
{
  RengaCheckpointContents contents = {.count = 0};
  int64_t *bytes = user;
  RengaErrorCode code = RengaCheckpointContentsOfMemory_Private(checkpoint, &contents);
  if (!code)
    code = RengaNodesMemorySave(checkpoint->nodes, contents.device, contents.count,
                                contents.tensors, &contents.table);
  *bytes = contents.bytes;
  RengaCheckpointContentsFree_Private(&contents);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointSaveMemory_Private(RengaCheckpoint checkpoint)
{
  const RengaLogEvent event = RengaCheckpointEvent_Private(RENGA_CHECKPOINT_MEMORY);
  const double begin = MPI_Wtime();
  int64_t bytes = 0;
  bool good;
  RengaLogEventBegin(event);
  const RengaErrorCode code =
      RengaCheckpointAttempt_Private(checkpoint, SaveInMemory, &bytes, &good);
  RengaLogEventEnd(event, 0, 0, bytes);
  RengaLogTrace("checkpoint", "memory", begin, MPI_Wtime());
  RengaCall(code);
  return RENGA_SUCCESS;
}
