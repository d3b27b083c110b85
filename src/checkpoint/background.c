/* Files that are written while training goes on: begun by a step of RengaCheckpointStep, gone on
   with by later ones where all ranks are ready, so that nobody waits. At most one is under way. */
#include "checkpointimpl.h"
#include "renga/private/line.h"
#include "renga/private/log.h"
#include "renga/private/signs.h"
#include <unistd.h>

bool RengaCheckpointIsBusy_Private(RengaCheckpoint checkpoint)
{
  return checkpoint->pending.step >= 0 && RengaAsideIsBusy(checkpoint->pending.aside);
}

static RengaErrorCode BeginContents(RengaCheckpoint checkpoint, void *user)
{
  RengaCheckpointContents contents = {.count = 0};
  (void)user;
  RengaErrorCode code = RengaCheckpointContentsMake_Private(checkpoint, NULL, &contents);
  const int64_t step = contents.table.step;
  if (!code)
    code = RengaAsideBegin(checkpoint->pending.aside, checkpoint->hdr.owner, contents.device,
                           contents.path, contents.count, contents.tensors, &contents.table);
  RengaCheckpointContentsFree_Private(&contents);
  RengaCall(code);
  checkpoint->pending.step = checkpoint->unmarked = step;
  checkpoint->pending.named = false;
  checkpoint->pending.mark = RENGA_MARK_NONE;
  checkpoint->last_time = MPI_Wtime();
  return RENGA_SUCCESS;
}

/* Blocks are copied by who writes them, which need not be who owns them. */
static RengaErrorCode CountCopies(RengaCheckpoint checkpoint, int64_t *bytes)
{
  RengaPersistent *tensors = NULL;
  RengaHoldings holdings = {.n_tensors = 0};
  int count = 0, *writer = NULL;
  RengaCall(RengaCheckpointListTensors_Private(checkpoint, NULL, &count, &tensors));
  RengaErrorCode code = RengaHoldingsCreate(checkpoint->hdr.owner, count, tensors, NULL, &holdings);
  if (!code) code = RengaCommFindWriters_Private(checkpoint->hdr.owner, &writer);
  if (!code) *bytes = RengaHoldingsCountTaken(&holdings, writer);
  RengaFree(&writer);
  RengaHoldingsFree(&holdings);
  RengaFree(&tensors);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetAsyncMemory - what RengaCheckpointSetAsync takes of the memory of the host

   Collective

   Input:
   . checkpoint - the checkpoint, with a pipeline that is set up

   Output:
   . bytes - bytes of the blocks that this rank copies, at least 0; 0 where files are written at
     once

   Errors: RENGA_ERR_ORDER without a pipeline; RENGA_ERR_MEMORY on all ranks.

   Notes: the memory is taken by the first RengaCheckpointStep. With RengaCheckpointSetWriters a
   rank copies what it writes, for others too.

   See also: RengaCheckpointSetAsync(), RengaCheckpointReserveMemory()
@*/
RengaErrorCode RengaCheckpointGetAsyncMemory(RengaCheckpoint checkpoint, int64_t *bytes)
{
  int64_t copies = 0;
  RengaCheckPointers(checkpoint, bytes);
  RengaCheck(checkpoint->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaCheckpointGetAsyncMemory: call RengaCheckpointSetPipeline first");
  if (checkpoint->options.async) RengaCall(CountCopies(checkpoint, &copies));
  *bytes = copies;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointPrepare_Private(RengaCheckpoint checkpoint)
{
  RengaAside *aside = &checkpoint->pending.aside;
  if (*aside) return RENGA_SUCCESS;
  RengaCall(CountCopies(checkpoint, &checkpoint->pending.bytes));
  RengaErrorCode code = RengaAsideCreate(aside);
  if (!code) code = RengaAsidePrepare(*aside, checkpoint->pending.bytes);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (code) RengaAsideDestroy(aside);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointBegin_Private(RengaCheckpoint checkpoint, bool *begun)
{
  const double begin = MPI_Wtime();
  RengaCall(RengaCheckpointAttempt_Private(checkpoint, BeginContents, NULL, begun));
  const double end = MPI_Wtime();
  checkpoint->pending.stall = end - begin;
  RengaLogTrace("checkpoint", "copy aside", begin, end);
  return RENGA_SUCCESS;
}

bool RengaCheckpointMarkPending_Private(RengaCheckpoint checkpoint, int64_t step)
{
  if (checkpoint->pending.step != step) return false;
  if (!checkpoint->pending.named) {
    checkpoint->pending.mark = RENGA_MARK_GOOD;
    checkpoint->unmarked = -1;
  } else if (checkpoint->pending.mark != RENGA_MARK_NONE)
    checkpoint->unmarked = -1;
  return true; /* else it is marked once it has its name */
}

/* Rank 0: the directory is still ours; what goes once this file is there. */
static RengaErrorCode PreparePublishing(RengaCheckpoint checkpoint, RengaCheckpointOld *old)
{
  const RengaCheckpointFileInfo coming = {.step = checkpoint->pending.step,
                                          .run = checkpoint->run,
                                          .whole = true,
                                          .mark = checkpoint->pending.mark};
  if (RengaCommGetRank(checkpoint->hdr.owner) != 0) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointLockCheck(checkpoint->lock));
  RengaCall(RengaCheckpointFindOld_Private(checkpoint, &coming, old));
  return RENGA_SUCCESS;
}

static RengaErrorCode PublishPending(RengaCheckpoint checkpoint, void *user)
{
  RengaCheckpointOld old = {.count = 0};
  (void)user;
  RengaErrorCode code = RengaErrorAgree(checkpoint->hdr.comm, PreparePublishing(checkpoint, &old));
  if (!code) code = RengaAsidePublish(checkpoint->pending.aside, checkpoint->pending.mark, &old);
  RengaCheckpointOldFree_Private(&old);
  RengaCall(code);
  checkpoint->pending.named = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode EndPending(RengaCheckpoint checkpoint, void *user)
{
  char *path = NULL;
  (void)user;
  RengaCall(RengaAsideEnd(checkpoint->pending.aside));
  checkpoint->last_step = checkpoint->pending.step;
  RengaErrorCode code = RengaErrorAgree(
      checkpoint->hdr.comm,
      RengaCheckpointDirectoryPath(checkpoint->options.directory, checkpoint->last_step, &path));
  if (!code) code = RengaCheckpointWriteFolder_Private(checkpoint, path);
  RengaFree(&path);
  RengaCall(code);
  RengaSignCheckpoint_Private(checkpoint->last_step);
  return RENGA_SUCCESS;
}

/* How long it took, and training for it. */
static void LogPending(RengaCheckpoint checkpoint)
{
  const double seconds = RengaAsideSeconds(checkpoint->pending.aside);
  const double stall = checkpoint->pending.stall;
  RengaLogEventAdd_Private(RengaCheckpointEvent_Private(RENGA_CHECKPOINT_WRITE), seconds, 0);
  RengaLogEventAdd_Private(RengaCheckpointEvent_Private(RENGA_CHECKPOINT_STALL), stall, 0);
  RengaLogMemory("checkpoint, copied aside", checkpoint->pending.bytes,
                 RengaAsideBytes(checkpoint->pending.aside));
  if (seconds + stall > checkpoint->write_seconds) checkpoint->write_seconds = seconds + stall;
}

/* A file of an earlier attempt may have its name, which no later step is to mark. */
static void GiveUpPending(RengaCheckpoint checkpoint)
{
  RengaAsideGiveUp(checkpoint->pending.aside);
  if (checkpoint->unmarked == checkpoint->pending.step) checkpoint->unmarked = -1;
}

RengaErrorCode RengaCheckpointGoOn_Private(RengaCheckpoint checkpoint, bool *done)
{
  const bool last = checkpoint->pending.named;
  const double begin = MPI_Wtime();
  bool good = false;
  const RengaErrorCode code =
      RengaCheckpointAttempt_Private(checkpoint, last ? EndPending : PublishPending, NULL, &good);
  checkpoint->pending.stall += MPI_Wtime() - begin;
  if (!good) GiveUpPending(checkpoint);
  if (!good || last) {
    LogPending(checkpoint);
    checkpoint->pending.step = -1;
  }
  RengaCall(code);
  *done = *done || (good && last);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointFinish_Private(RengaCheckpoint checkpoint, bool *done)
{
  const RengaLogEvent event = RengaCheckpointEvent_Private(RENGA_CHECKPOINT_WAIT);
  RengaErrorCode code = RENGA_SUCCESS;
  *done = false;
  if (checkpoint->pending.step < 0) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  while (!code && checkpoint->pending.step >= 0)
    code = RengaCheckpointGoOn_Private(checkpoint, done);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetAsync - whether training goes on while a checkpoint is written

   Input:
   . async - true: RengaCheckpointStep copies what is to be written, and threads write it; false
     (default): it returns once the file is on the disk

   Options:
   . -checkpoint_async - the same

   Notes: each rank takes host memory for the copy of what it writes, and keeps it
   (RengaCheckpointGetAsyncMemory). The file appears under its name some steps later, whole and on
   the disk, or not at all, with the bytes it would have had at once; older files stay until then. A
   file that cannot be written is a warning of the next step after that is known. When the next file
   is due before the last one is there, its step waits. A file at the end, that of a signal or the
   time limit, and those of RengaCheckpointWrite and RengaCheckpointTry are written at once, after
   the one under way; so wait RengaCheckpointResume and RengaCheckpointDestroy.

   See also: RengaCheckpointGetAsync(), RengaCheckpointGetAsyncMemory(), RengaCheckpointGetWritten()
@*/
RengaErrorCode RengaCheckpointSetAsync(RengaCheckpoint checkpoint, bool async)
{
  RengaCheckPointer(checkpoint);
  checkpoint->options.async = async;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointGetAsync(RengaCheckpoint checkpoint, bool *async)
{
  RengaCheckPointers(checkpoint, async);
  *async = checkpoint->options.async;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetWritten - the step of the newest file that is on the disk

   Output:
   . step - the number of the step of the file that was written or read last; -1: none was

   Notes: with RengaCheckpointSetAsync it is an earlier step's than that of the RengaCheckpointStep
   which said that a file was written.

   See also: RengaCheckpointStep(), RengaCheckpointSetAsync()
@*/
RengaErrorCode RengaCheckpointGetWritten(RengaCheckpoint checkpoint, int64_t *step)
{
  RengaCheckPointers(checkpoint, step);
  *step = checkpoint->last_step;
  return RENGA_SUCCESS;
}
