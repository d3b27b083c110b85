/* What a checkpoint is told, and its directory, which is locked while it is set up. */
#include "checkpointimpl.h"
#include "renga/private/line.h"
#include "renga/private/op.h"
#include "renga/private/same.h"
#include <string.h>
#include <time.h>

/*@
   RengaCheckpointSetPipeline - whose tensors are written and read

   Input:
   . pipeline - set up before the first write or read; not referenced, so destroy it later

   See also: RengaCheckpointCreate(), RengaCheckpointSetUp()
@*/
RengaErrorCode RengaCheckpointSetPipeline(RengaCheckpoint checkpoint, RengaPipeline pipeline)
{
  RengaCheckPointers(checkpoint, pipeline);
  checkpoint->pipeline = pipeline;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetDirectory - where files are written and looked for

   Input:
   . directory - copied; seen by all ranks; NULL: none are written

   Options:
   . -checkpoint_dir - the same

   Errors: RENGA_ERR_ORDER while a file is being written (RengaCheckpointSetAsync).

   See also: RengaCheckpointGetDirectory(), RengaCheckpointSetUp()
@*/
RengaErrorCode RengaCheckpointSetDirectory(RengaCheckpoint checkpoint, const char *directory)
{
  char *copy;
  RengaCheckPointer(checkpoint);
  RengaCheck(checkpoint->pending.step < 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the checkpoint of step %lld is being written to %s: set another directory after a "
             "RengaCheckpointStep has said that it is there",
             (long long)checkpoint->pending.step, checkpoint->options.directory);
  RengaCall(RengaStringCopy(directory, &copy));
  RengaFree(&checkpoint->options.directory);
  checkpoint->options.directory = copy;
  checkpoint->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointGetDirectory(RengaCheckpoint checkpoint, const char **directory)
{
  RengaCheckPointers(checkpoint, directory);
  *directory = checkpoint->options.directory;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetSubset - whether a file may hold tensors that the network lacks

   Input:
   . subset - true: they are left alone, for instance the moments of an optimizer when a network is
     only evaluated; false (default): they are an error

   See also: RengaCheckpointReadInitial()
@*/
RengaErrorCode RengaCheckpointSetSubset(RengaCheckpoint checkpoint, bool subset)
{
  RengaCheckPointer(checkpoint);
  checkpoint->subset = subset;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetAttribute - something to be known when a file is read: the seed, a digest

   Input:
   . name, value - copied; value up to 60000 bytes; both without meaning to this class

   Errors: RENGA_ERR_ARGUMENT for a name that checkpoints set themselves.
@*/
RengaErrorCode RengaCheckpointSetAttribute(RengaCheckpoint checkpoint, const char *name,
                                           const char *value)
{
  static const char *const own[] = {"step",    "version",  "checksums",
                                    "options", "adapters", "kernels"};
  RengaCheckPointers(checkpoint, name, value);
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
    RengaCheck(strcmp(name, own[i]) != 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "attribute %s is set by the checkpoint itself", name);
  RengaCall(RengaCheckpointTableSetAttribute(&checkpoint->attributes, name, value));
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetAttribute - an attribute of the file that was read last

   Input:
   . name - the name that RengaCheckpointSetAttribute had when the file was written

   Output:
   . value - the text, lent by the checkpoint; NULL where the file has none, or none was read
@*/
RengaErrorCode RengaCheckpointGetAttribute(RengaCheckpoint checkpoint, const char *name,
                                           const char **value)
{
  RengaCheckPointers(checkpoint, value);
  *value = RengaCheckpointTableGetAttribute(&checkpoint->found, name);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetTimeLimit - when the run must have ended

   Not collective (rank 0's clock counts)

   Input:
   . seconds - seconds that are left from now; 0: no limit

   Errors: RENGA_ERR_ARGUMENT for a negative limit.

   Notes: RengaCheckpointStep then says stop, after a last file, while there is still time for that:
   it measures how long steps and files take.

   See also: RengaCheckpointGetTimeLimit(), RengaCheckpointStep()
@*/
RengaErrorCode RengaCheckpointSetTimeLimit(RengaCheckpoint checkpoint, double seconds)
{
  RengaCheckPointer(checkpoint);
  RengaCheck(seconds >= 0 && seconds < 1e12, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a time limit of %g s", seconds);
  checkpoint->end_time = seconds > 0 ? MPI_Wtime() + seconds : 0;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetTimeLimit - how much of the time is left

   Output:
   . seconds - left; 0: there is no limit
   . stopped - RengaCheckpointStep has said stop because of it; may be NULL
@*/
RengaErrorCode RengaCheckpointGetTimeLimit(RengaCheckpoint checkpoint, double *seconds,
                                           bool *stopped)
{
  RengaCheckPointers(checkpoint, seconds);
  *seconds = checkpoint->end_time > 0 ? checkpoint->end_time - MPI_Wtime() : 0;
  if (stopped) *stopped = checkpoint->time_is_up;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointCheckSame_Private(RengaCheckpoint checkpoint, const char *file)
{
  RengaSettingList list = {0};
  uint64_t extras = 0;
  for (int i = 0; i < checkpoint->n_extras; i++) {
    const RengaPersistent *extra = &checkpoint->extra[i];
    extras = RengaHash(extra->name, strlen(extra->name), extras);
    extras = RengaTensorSpecHash(1, &extra->spec, extras);
  }
  RengaSettingAddText_Private(&list, "folder of checkpoints (-checkpoint_dir)",
                              checkpoint->options.directory);
  RengaSettingAddText_Private(&list, "checkpoint to read or write", file);
  RengaSettingAddInt64_Private(&list, "-checkpoint_every", checkpoint->every_steps);
  RengaSettingAdd_Private(&list, "-checkpoint_every", &checkpoint->every_seconds,
                          sizeof checkpoint->every_seconds);
  RengaSettingAddInt64_Private(&list, "-checkpoint_async", checkpoint->options.async);
  RengaSettingAddInt64_Private(&list, "-checkpoint_format", checkpoint->options.format);
  RengaSettingAddInt64_Private(&list, "-checkpoint_memory", checkpoint->options.memory);
  RengaSettingAddInt64_Private(&list, "subset (RengaCheckpointSetSubset)", checkpoint->subset);
  RengaSettingAddInt64_Private(&list, "tensors of the program", (int64_t)extras);
  RengaCall(RengaCommCheckSame_Private(checkpoint->hdr.owner, RENGA_ERR_ARGUMENT,
                                       "all ranks to name a checkpoint", &list));
  return RENGA_SUCCESS;
}

static RengaErrorCode TryLock(RengaCheckpoint checkpoint, RengaLockAnswer *answer, char text[256])
{
  RengaComm comm = checkpoint->hdr.owner;
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaCommGetRank(comm) == 0) {
    code = RengaCheckpointLockTry(checkpoint->lock, answer);
    RengaCheckpointLockDescribe(checkpoint->lock, 256, text);
  }
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code));
  RengaCall(RengaCommBroadcast(comm, answer, sizeof *answer, 0, "the lock of the checkpoints"));
  return RENGA_SUCCESS;
}

/* Rank 0 has the lock when this succeeds. One of another machine is watched for half a minute. */
static RengaErrorCode TakeLock(RengaCheckpoint checkpoint)
{
  const struct timespec pause = {0, 500000000};
  const char *directory = checkpoint->options.directory;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaLockAnswer answer = RENGA_LOCK_REFUSED;
  char owner[256] = "";
  if (RengaCommGetRank(checkpoint->hdr.owner) == 0)
    code = RengaCheckpointLockCreate(directory, &checkpoint->lock);
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code));
  RengaCall(TryLock(checkpoint, &answer, owner));
  if (answer == RENGA_LOCK_WATCHED)
    RengaWarning(checkpoint->hdr.comm,
                 "checkpoint directory %s is locked by another run (%s), which cannot be seen from "
                 "here: looking on for 30 s whether it lives",
                 directory, owner);
  while (answer == RENGA_LOCK_WATCHED || answer == RENGA_LOCK_AGAIN) {
    nanosleep(&pause, NULL);
    RengaCall(TryLock(checkpoint, &answer, owner));
  }
  RengaCheck(
      answer == RENGA_LOCK_TAKEN, checkpoint->hdr.comm, RENGA_ERR_FILE_WRITE,
      "checkpoint directory %s is in use by another run: %s; give this run a -checkpoint_dir "
      "of its own, or end the other one",
      directory, owner);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetUp - make and lock the directory, try to write there, catch signals

   Collective

   Errors: another run writes there: it is named with its host, process and start.

   Notes: signals are caught with a directory and RengaCheckpointSetSignals; what they did before is
   restored by RengaCheckpointDestroy, which releases the lock too. The lock of a run that is dead
   is taken over: at once where its process ran on this machine; elsewhere where its file
   .renga_lock is not renewed for 30 s (an owner renews it every 5 s), during which this call
   waits. Files that a dead run could not finish are removed. What nodes have in memory that is
   newer than the files (RengaCheckpointSetMemory) becomes a file.

   See also: RengaCheckpointSetDirectory(), RengaCheckpointResume(), RengaCheckpointStep()
@*/
RengaErrorCode RengaCheckpointSetUp(RengaCheckpoint checkpoint)
{
  RengaCheckPointer(checkpoint);
  const char *directory = checkpoint->options.directory;
  bool done;
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, NULL));
  RengaCall(RengaCheckpointFinish_Private(checkpoint, &done));
  RengaCheckpointLockDestroy(&checkpoint->lock);
  if (directory) {
    RengaCall(RengaCheckpointDirectoryProbe(checkpoint->hdr.owner, directory));
    RengaErrorCode code = TakeLock(checkpoint);
    if (code != RENGA_SUCCESS) RengaCheckpointLockDestroy(&checkpoint->lock);
    RengaCall(code);
    if (checkpoint->lock) RengaCheckpointDirectoryClean(directory);
  }
  RengaCall(RengaCheckpointSetUpMemory_Private(checkpoint));
  if (directory && checkpoint->options.signals && !checkpoint->catches_signals) {
    RengaCall(RengaCheckpointCatchSignals_Private());
    checkpoint->catches_signals = true;
  }
  checkpoint->last_time = MPI_Wtime();
  checkpoint->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetWriters - how many ranks of each node write checkpoints

   Input:
   . of_node - the number, at least 1; 0: all ranks write, each what it owns

   Options:
   . -checkpoint_writers - the same

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   Notes: it holds for all checkpoints of the same RengaComm. The others give their blocks to
   writers of their node. Files are the same. Some file systems are faster with few writers of each
   node; with many nodes one is enough.
@*/
RengaErrorCode RengaCheckpointSetWriters(RengaCheckpoint checkpoint, int of_node)
{
  RengaCheckPointer(checkpoint);
  RengaCheck(of_node >= 0, checkpoint->hdr.comm, RENGA_ERR_ARGUMENT, "%d writers of a node",
             of_node);
  RengaCommSetWriters_Private(checkpoint->hdr.owner, of_node);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointGetWriters(RengaCheckpoint checkpoint, int *of_node)
{
  RengaCheckPointers(checkpoint, of_node);
  *of_node = RengaCommGetWriters_Private(checkpoint->hdr.owner);
  return RENGA_SUCCESS;
}
