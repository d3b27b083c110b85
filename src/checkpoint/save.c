/* Writing: when, and what is known of a file once a step has followed it. */
#include "checkpointimpl.h"
#include "renga/private/quiet.h"
#include "renga/private/signs.h"
#include "renga/private/wait.h"

static RengaErrorCode WriteAtOnce(RengaCheckpoint checkpoint, RengaCheckpointContents *contents)
{
  const RengaLogEvent event = RengaCheckpointEvent_Private(RENGA_CHECKPOINT_WRITE);
  const double begin = MPI_Wtime();
  RengaLogEventBegin(event);
  const RengaErrorCode code =
      RengaCheckpointFileWrite(checkpoint->hdr.owner, contents->device, contents->path,
                               contents->count, contents->tensors, &contents->table);
  RengaLogEventEnd(event, 0, 0, contents->bytes);
  RengaLogTrace("checkpoint", "write", begin, MPI_Wtime());
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* path: where it was written. */
static RengaErrorCode WriteNamed(RengaCheckpoint checkpoint, const char *name, char **path)
{
  RengaCheckpointContents contents = {.count = 0};
  const double begin = MPI_Wtime();
  RengaErrorCode code = RengaCheckpointContentsMake_Private(checkpoint, name, &contents);
  if (!code) code = WriteAtOnce(checkpoint, &contents);
  if (!code && !name) checkpoint->last_step = contents.table.step;
  if (!code) code = RengaCheckpointWriteFolder_Private(checkpoint, contents.path);
  if (!code) {
    *path = contents.path;
    contents.path = NULL;
  }
  RengaCheckpointContentsFree_Private(&contents);
  RengaCall(code);
  const double seconds = MPI_Wtime() - begin;
  if (seconds > checkpoint->write_seconds) checkpoint->write_seconds = seconds;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckReady(RengaCheckpoint checkpoint, const char *function)
{
  RengaCheckPointerOf(function, checkpoint);
  RengaCheckState(checkpoint, RENGA_STATE_SETUP, "RengaCheckpointSetUp");
  RengaCheck(checkpoint->pipeline && checkpoint->options.directory, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "a checkpoint needs RengaCheckpointSetPipeline and RengaCheckpointSetDirectory");
  return RENGA_SUCCESS;
}

/* Rank 0 writes; a mark that cannot be written is none. */
static RengaErrorCode MarkFile(RengaCheckpoint checkpoint, int64_t step,
                               RengaCheckpointMarkKind kind)
{
  char *path;
  if (RengaCommGetRank(checkpoint->hdr.owner) != 0) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointDirectoryPath(checkpoint->options.directory, step, &path));
  RengaCheckpointHead head;
  if (RengaCheckpointHeadRead(path, &head) && head.run == checkpoint->run)
    RengaCheckpointMarkWrite(path, kind);
  RengaFree(&path);
  return RENGA_SUCCESS;
}

/* What this rank knows of the last step: nothing where its pipeline has made none. */
enum { STEP_WAS_FINITE = 1, STEP_WAS_NOT = 2 };
static int64_t JudgeLastStep(RengaCheckpoint checkpoint)
{
  RengaPipelineStepInfo info = {.finite = false};
  RengaQuiet quiet; /* a program may have set the number of a step that it did not make */
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code = RengaPipelineGetLastStep(checkpoint->pipeline, &info);
  RengaQuietEnd_Private(&quiet);
  if (code != RENGA_SUCCESS) return 0;
  return info.finite ? STEP_WAS_FINITE : STEP_WAS_NOT;
}

/* The file that the steps since went on from, where the last of them was finite. Ranks may have
   pipelines of their own. */
static RengaErrorCode MarkGood(RengaCheckpoint checkpoint, int64_t step)
{
  if (checkpoint->unmarked < 0 || step <= checkpoint->unmarked) return RENGA_SUCCESS;
  int64_t known = JudgeLastStep(checkpoint);
  RengaCall(RengaReduceInt64_Private(checkpoint->hdr.comm, MPI_BOR, &known,
                                     "all ranks to say whether a step was finite"));
  if (known != STEP_WAS_FINITE) return RENGA_SUCCESS; /* skipped */
  if (RengaCheckpointMarkPending_Private(checkpoint, checkpoint->unmarked)) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm,
                            MarkFile(checkpoint, checkpoint->unmarked, RENGA_MARK_GOOD)));
  checkpoint->unmarked = -1;
  return RENGA_SUCCESS;
}

/* Of the present step; older ones are then deleted. */
static RengaErrorCode WriteStep(RengaCheckpoint checkpoint, char **file)
{
  char *path = NULL;
  RengaCall(MarkGood(checkpoint, RengaPipelineGetStepNumber(checkpoint->pipeline)));
  RengaErrorCode code = WriteNamed(checkpoint, NULL, &path);
  if (code == RENGA_SUCCESS && RengaCommGetRank(checkpoint->hdr.owner) == 0)
    code = RengaCheckpointDeleteOld_Private(checkpoint);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (code == RENGA_SUCCESS && file)
    *file = path;
  else
    RengaFree(&path);
  RengaCall(code);
  checkpoint->unmarked = checkpoint->last_step;
  checkpoint->last_time = MPI_Wtime();
  RengaSignCheckpoint_Private(checkpoint->last_step);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointWrite - write one now

   Collective

   Input:
   . checkpoint - set up, with a pipeline that is set up

   Output:
   . file - its path, for RengaFree; may be NULL

   Errors: what the system said, and a file of another run under that name, which is not replaced.

   Notes: the file appears whole, on the disk, or not at all; older ones are then deleted as
   -checkpoint_keep says, but never the newest one that a finite step has followed. A failure leaves
   the older ones and is an error on all ranks; RengaCheckpointTry makes it a warning.

   See also: RengaCheckpointTry(), RengaCheckpointRead()
@*/
RengaErrorCode RengaCheckpointWrite(RengaCheckpoint checkpoint, char **file)
{
  bool done;
  RengaCall(CheckReady(checkpoint, __func__));
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, NULL));
  RengaCall(RengaCheckpointFinish_Private(checkpoint, &done));
  RengaCall(WriteStep(checkpoint, file));
  return RENGA_SUCCESS;
}

/* user: the name, or NULL. */
static RengaErrorCode WriteByName(RengaCheckpoint checkpoint, void *user)
{
  const char *name = user;
  char *path = NULL;
  const RengaErrorCode code =
      name ? WriteNamed(checkpoint, name, &path) : WriteStep(checkpoint, NULL);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointTry - write one now if that is possible

   Collective

   Input:
   . checkpoint - set up, with a pipeline that is set up
   . name - NULL: the file is one of the present step, as RengaCheckpointWrite makes it. Else, such
     as "best": the file is NAME.h5, which is neither deleted nor resumed from, and which the next
     one of this run replaces

   Output:
   . wrote - false: it was not possible, for reasons of the disk, which a warning gives

   Errors: RENGA_ERR_ORDER without a pipeline or a directory. A file that cannot be written is no
   error: a warning says why.

   Notes: a run should not end because a disk is full; what was written before stays.

   See also: RengaCheckpointWrite(), RengaCheckpointStep()
@*/
RengaErrorCode RengaCheckpointTry(RengaCheckpoint checkpoint, const char *name, bool *wrote)
{
  bool done;
  RengaCheckPointer(wrote);
  RengaCall(CheckReady(checkpoint, __func__));
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, name));
  RengaCall(RengaCheckpointFinish_Private(checkpoint, &done));
  RengaCall(
      RengaCheckpointAttempt_Private(checkpoint, WriteByName, (void *)(uintptr_t)name, wrote));
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointMarkBad - the step that follows the present one was not finite

   Collective

   Input:
   . checkpoint - set up

   Errors: RENGA_ERR_ORDER without a pipeline or a directory; RENGA_ERR_TIMEOUT where a rank does
   not come.

   Notes: a file of the present step, if there is one, is then passed over by
   RengaCheckpointResume as long as there is another. Files are marked good by
   RengaCheckpointStep, once a step has followed them.

   See also: RengaCheckpointRollBack()
@*/
RengaErrorCode RengaCheckpointMarkBad(RengaCheckpoint checkpoint)
{
  bool done;
  RengaCall(CheckReady(checkpoint, __func__));
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, NULL));
  RengaCall(RengaCheckpointFinish_Private(checkpoint, &done));
  RengaErrorCode code =
      MarkFile(checkpoint, RengaPipelineGetStepNumber(checkpoint->pipeline), RENGA_MARK_BAD);
  checkpoint->unmarked = -1;
  if (checkpoint->nodes)
    RengaNodesMemoryForget(checkpoint->nodes, RengaPipelineGetStepNumber(checkpoint->pipeline));
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code)); /* nobody leaves before it is done */
  return RENGA_SUCCESS;
}

/* Rank 0: another step, and writing what was done, would end after the time that is left. What was
   never written is thought to go to the disk at 100 MB/s. */
static bool TimeIsUp(RengaCheckpoint checkpoint)
{
  const double now = MPI_Wtime(), step = now - checkpoint->step_time;
  if (checkpoint->step_time > 0 && step > checkpoint->step_seconds) checkpoint->step_seconds = step;
  checkpoint->step_time = now;
  if (checkpoint->end_time <= 0) return false;
  double write = checkpoint->write_seconds;
  if (write == 0) write = (double)checkpoint->bytes / 1e8;
  return now + 1.5 * checkpoint->step_seconds + 2 * write + 1 > checkpoint->end_time;
}

/* What any rank was asked for, whether rank 0's clock says that it is time, and whether a rank
   still writes. */
static RengaErrorCode AgreeOnAsked(RengaCheckpoint checkpoint, int *asked)
{
  int64_t mine = RengaCheckpointTakeSignals_Private();
  bool root = RengaCommGetRank(checkpoint->hdr.owner) == 0;
  if (root && checkpoint->every_seconds > 0 &&
      MPI_Wtime() - checkpoint->last_time >= checkpoint->every_seconds)
    mine |= RENGA_ASKED_TO_WRITE;
  if (root && TimeIsUp(checkpoint)) mine |= RENGA_ASKED_BY_TIME;
  if (RengaCheckpointIsBusy_Private(checkpoint)) mine |= RENGA_STILL_WRITES;
  RengaCall(RengaReduceInt64_Private(checkpoint->hdr.comm, MPI_BOR, &mine,
                                     "all ranks to say whether a checkpoint is wanted"));
  *asked = (int)mine;
  return RENGA_SUCCESS;
}

/* A file under way: its next part where all ranks are ready, all of it where another one is due.
   done: it is there. */
static RengaErrorCode GoOnWriting(RengaCheckpoint checkpoint, bool due, bool busy, bool *done)
{
  if (checkpoint->pending.step < 0) return RENGA_SUCCESS;
  if (due)
    RengaCall(RengaCheckpointFinish_Private(checkpoint, done));
  else if (!busy)
    RengaCall(RengaCheckpointGoOn_Private(checkpoint, done));
  return RENGA_SUCCESS;
}

/* Whoever is about to leave writes at once. */
static RengaErrorCode WriteIfDue(RengaCheckpoint checkpoint, int asked, bool *wrote)
{
  const int64_t step = RengaPipelineGetStepNumber(checkpoint->pipeline);
  const bool due = (asked & RENGA_ASKED) != 0 ||
                   (checkpoint->every_steps > 0 && step % checkpoint->every_steps == 0);
  const bool leaves = (asked & (RENGA_ASKED_TO_STOP | RENGA_ASKED_BY_TIME)) != 0;
  const bool pending = checkpoint->pending.step >= 0;
  bool begun = false, now = false;
  RengaCall(RengaCheckpointLookForRoom_Private(checkpoint));
  if (checkpoint->options.async) RengaCall(RengaCheckpointPrepare_Private(checkpoint));
  RengaCall(MarkGood(checkpoint, step));
  RengaCall(GoOnWriting(checkpoint, leaves || (due && step != checkpoint->pending.step),
                        (asked & RENGA_STILL_WRITES) != 0, wrote));
  checkpoint->missing = pending && checkpoint->pending.step < 0 && !*wrote;
  if (!due || step == checkpoint->last_step || step == checkpoint->pending.step)
    return RENGA_SUCCESS;
  if (checkpoint->options.async && !leaves)
    RengaCall(RengaCheckpointBegin_Private(checkpoint, &begun));
  else
    RengaCall(RengaCheckpointTry(checkpoint, NULL, &now));
  *wrote = *wrote || now;
  checkpoint->missing = !begun && !now;
  return RENGA_SUCCESS;
}

/* Whoever is about to leave writes a file. */
static bool IsMemoryDue(RengaCheckpoint checkpoint, int asked)
{
  const int64_t step = RengaPipelineGetStepNumber(checkpoint->pipeline);
  return checkpoint->nodes && step % checkpoint->options.memory == 0 &&
         (asked & (RENGA_ASKED_TO_STOP | RENGA_ASKED_BY_TIME)) == 0;
}

/*@
   RengaCheckpointStep - after each step: write where it is time or a signal asked for it

   Collective

   Input:
   . checkpoint - set up; without a directory nothing is written

   Output:
   . wrote - a file was written, of the step that RengaCheckpointGetWritten tells
   . stop - SIGTERM, SIGINT or SIGHUP came, or the time is up that RengaCheckpointSetTimeLimit gave:
     leave the loop

   Errors: RENGA_ERR_ORDER before RengaCheckpointSetUp. A file that cannot be written is no
   error: a warning says why.

   Notes: the step before was finite: the file that it went on from is marked good. A file that
   cannot be written is a warning, and the next one is tried when it is due; whether what was asked
   for last is on the disk is said by RengaCheckpointGetMissing.

   See also: RengaCheckpointTry(), RengaCheckpointSetAsync(), RengaCheckpointSetSignals(),
   RengaCheckpointSetTimeLimit()
@*/
RengaErrorCode RengaCheckpointStep(RengaCheckpoint checkpoint, bool *wrote, bool *stop)
{
  int asked = 0;
  RengaCheckPointers(checkpoint, wrote, stop);
  RengaCheckState(checkpoint, RENGA_STATE_SETUP, "RengaCheckpointSetUp");
  *wrote = *stop = false;
  if (checkpoint->options.directory == NULL && checkpoint->end_time <= 0) return RENGA_SUCCESS;
  RengaCall(AgreeOnAsked(checkpoint, &asked));
  if (IsMemoryDue(checkpoint, asked)) RengaCall(RengaCheckpointSaveMemory_Private(checkpoint));
  if (checkpoint->options.directory) RengaCall(WriteIfDue(checkpoint, asked, wrote));
  *stop = (asked & (RENGA_ASKED_TO_STOP | RENGA_ASKED_BY_TIME)) != 0;
  checkpoint->time_is_up = (asked & RENGA_ASKED_BY_TIME) != 0;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetMissing - was the file that was due last not written?

   Output:
   . missing - true: what was done since the newest file is not on the disk

   See also: RengaCheckpointStep()
@*/
RengaErrorCode RengaCheckpointGetMissing(RengaCheckpoint checkpoint, bool *missing)
{
  RengaCheckPointers(checkpoint, missing);
  *missing = checkpoint->missing;
  return RENGA_SUCCESS;
}
