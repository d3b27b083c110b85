/* Writing: when, what is kept, what is done where a file cannot be written, and what is known of a
   file once a step has followed it. */
#include "checkpointimpl.h"
#include "renga/private/quiet.h"
#include "renga/private/wait.h"
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* The options of this run, as a file of options. */
static RengaErrorCode SetOptionsText(RengaCheckpointTable *table)
{
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  RengaCheck(stream != NULL, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for the options");
  RengaErrorCode code = RengaOptionsView(stream);
  fclose(stream);
  if (code == RENGA_SUCCESS) code = RengaCheckpointTableSetAttribute(table, "options", text);
  free(text); /* of open_memstream */
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* How many of the newest files of this run stay, and the newest regular one that a finite step has
   followed. */
static RengaErrorCode DeleteOld(RengaCheckpoint checkpoint, int count,
                                const RengaCheckpointFileInfo files[])
{
  int kept = 0;
  bool good = false;
  for (int i = 0; i < count; i++) {
    char *path;
    if (files[i].run != checkpoint->run) continue;
    const bool found = !good && files[i].mark == RENGA_MARK_GOOD &&
                       RengaCheckpointIsRegular_Private(checkpoint, files[i].step);
    const bool stays = found || kept < checkpoint->options.keep;
    good = good || found;
    kept++;
    if (stays) continue;
    RengaCall(RengaCheckpointDirectoryPath(checkpoint->options.directory, files[i].step, &path));
    unlink(path);
    RengaFree(&path);
  }
  return RENGA_SUCCESS;
}

/* Files of this run, with those that it went on from. Files of other runs are not touched. */
static RengaErrorCode Prune(RengaCheckpoint checkpoint)
{
  int count;
  RengaCheckpointFileInfo *files;
  RengaCall(RengaCheckpointDirectoryList(checkpoint->options.directory, &count, &files));
  RengaErrorCode code = DeleteOld(checkpoint, count, files);
  RengaFree(&files);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static int64_t Nanoseconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Rank 0: run and time of the head; the time is never before that of a file that is there, so that
   a clock that was set back does not make an old file the newest. */
static RengaErrorCode StampTable(RengaCheckpoint checkpoint, RengaCheckpointTable *table)
{
  int count;
  RengaCheckpointFileInfo *files;
  RengaCall(RengaCheckpointDirectoryList(checkpoint->options.directory, &count, &files));
  table->time = Nanoseconds();
  if (count > 0 && files[0].time >= table->time) table->time = files[0].time + 1;
  RengaFree(&files);
  if (checkpoint->run == 0) {
    const int64_t seed[] = {table->time, (int64_t)getpid(), (int64_t)gethostid()};
    checkpoint->run = RengaHash(seed, sizeof seed, 1) | 1;
  }
  table->run = checkpoint->run;
  return RENGA_SUCCESS;
}

static RengaErrorCode FillTable(RengaCheckpoint checkpoint, RengaCheckpointTable *table)
{
  table->step = RengaPipelineGetStepNumber(checkpoint->pipeline);
  for (int i = 0; i < checkpoint->attributes.n_attributes; i++) {
    const RengaCheckpointAttribute *attribute = &checkpoint->attributes.attributes[i];
    RengaCall(RengaCheckpointTableSetAttribute(table, attribute->name, attribute->value));
  }
  RengaCall(RengaCheckpointKeepScale_Private(checkpoint, table));
  RengaCall(SetOptionsText(table));
  if (RengaCommGetRank(checkpoint->hdr.owner) == 0) RengaCall(StampTable(checkpoint, table));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteFile(RengaCheckpoint checkpoint, const char *path,
                                RengaCheckpointTable *table)
{
  const RengaLogEvent event = RengaCheckpointEvent_Private(true);
  RengaDevice device;
  RengaPersistent *tensors = NULL;
  int count = 0;
  int64_t bytes = 0;
  double begin = MPI_Wtime();
  RengaCall(RengaPipelineGetDevice(checkpoint->pipeline, &device));
  RengaCall(RengaCheckpointListTensors_Private(checkpoint, NULL, &count, &tensors));
  for (int i = 0; i < count; i++)
    if (tensors[i].owner) bytes += RengaPersistentGetBytes(&tensors[i]);
  RengaLogEventBegin(event);
  RengaErrorCode code =
      RengaCheckpointFileWrite(checkpoint->hdr.owner, device, path, count, tensors, table);
  RengaLogEventEnd(event, 0, 0, bytes);
  RengaLogTrace("checkpoint", "write", begin, MPI_Wtime());
  RengaFree(&tensors);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Rank 0, before anything is written: the directory is still ours, so is a file of that name. */
static RengaErrorCode CheckOwner(RengaCheckpoint checkpoint, const char *path)
{
  RengaCheckpointHead head = {.run = 0};
  RengaCall(RengaCheckpointLockCheck(checkpoint->lock));
  bool mine = !RengaCheckpointHeadRead(path, &head) || head.run == checkpoint->run;
  RengaCheck(
      mine, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
      "%s is of another run and is not replaced: give this run a -checkpoint_dir of its own, "
      "or go on from that one with -resume",
      path);
  return RENGA_SUCCESS;
}

/* path NULL: not made. */
static RengaErrorCode WriteNamed(RengaCheckpoint checkpoint, const char *name, char **path)
{
  RengaCheckpointTable table = {0};
  const char *directory = checkpoint->options.directory;
  bool root = RengaCommGetRank(checkpoint->hdr.owner) == 0;
  double begin = MPI_Wtime();
  RengaErrorCode code = FillTable(checkpoint, &table);
  if (code == RENGA_SUCCESS)
    code = name ? RengaCheckpointDirectoryNamed(directory, name, path)
                : RengaCheckpointDirectoryPath(directory, table.step, path);
  if (code == RENGA_SUCCESS && root) code = CheckOwner(checkpoint, *path);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (code == RENGA_SUCCESS) code = WriteFile(checkpoint, *path, &table);
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  double seconds = MPI_Wtime() - begin;
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

/* The file that the steps since went on from, where the last of them was finite. */
static RengaErrorCode MarkGood(RengaCheckpoint checkpoint, int64_t step)
{
  RengaPipelineStepInfo info = {.finite = false};
  RengaQuiet quiet; /* a program may have set the number of a step that it did not make */
  if (checkpoint->unmarked < 0 || step <= checkpoint->unmarked) return RENGA_SUCCESS;
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code = RengaPipelineGetLastStep(checkpoint->pipeline, &info);
  RengaQuietEnd_Private(&quiet);
  if (code != RENGA_SUCCESS || !info.finite) return RENGA_SUCCESS; /* skipped */
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
    code = Prune(checkpoint);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (code == RENGA_SUCCESS && file)
    *file = path;
  else
    RengaFree(&path);
  RengaCall(code);
  checkpoint->last_step = checkpoint->unmarked = RengaPipelineGetStepNumber(checkpoint->pipeline);
  checkpoint->last_time = MPI_Wtime();
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
  RengaCall(CheckReady(checkpoint, __func__));
  RengaCall(WriteStep(checkpoint, file));
  return RENGA_SUCCESS;
}

/* The sentence of the first rank that has one, on rank 0. */
static RengaErrorCode ShareReason(RengaCheckpoint checkpoint, char text[RENGA_CHECKPOINT_MESSAGE])
{
  RengaComm comm = checkpoint->hdr.owner;
  const int size = RengaCommGetSize(comm);
  char *all = NULL;
  RengaErrorCode code = RengaErrorAgree(checkpoint->hdr.comm,
                                        RengaMalloc((size_t)size * RENGA_CHECKPOINT_MESSAGE, &all));
  if (!code)
    code = RengaCommGather(comm, text, RENGA_CHECKPOINT_MESSAGE, all, -1,
                           "why a checkpoint is not written");
  for (int r = 0; r < size && code == RENGA_SUCCESS; r++)
    if (all[(size_t)r * RENGA_CHECKPOINT_MESSAGE]) {
      memcpy(text, all + (size_t)r * RENGA_CHECKPOINT_MESSAGE, RENGA_CHECKPOINT_MESSAGE);
      break;
    }
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode WarnOfFailure(RengaCheckpoint checkpoint, char *text)
{
  char kept[64] = "no older one is there";
  RengaCall(ShareReason(checkpoint, text));
  if (checkpoint->last_step >= 0)
    snprintf(kept, sizeof kept, "that of step %lld is kept", (long long)checkpoint->last_step);
  RengaWarning(checkpoint->hdr.comm, "a checkpoint is not written: %s; %s, and training goes on",
               text, kept);
  checkpoint->last_time = MPI_Wtime(); /* the next try when the next one is due */
  return RENGA_SUCCESS;
}

/* Instead of printing: the sentence, on the rank that reports. */
static void KeepSentence(const RengaErrorReport *report, void *user)
{
  if (report->code == RENGA_SUCCESS)
    RengaErrorPrint(report, NULL);
  else if (report->depth == 0)
    snprintf(user, RENGA_CHECKPOINT_MESSAGE, "%s", report->message);
}

/*@
   RengaCheckpointTry - write one now if that is possible

   Collective

   Input:
   . checkpoint - set up, with a pipeline that is set up
   . name - of a file NAME.h5 that is neither deleted nor resumed from, such as "best", and replaced
     by the next one of this run; NULL: one of the present step, as RengaCheckpointWrite

   Output:
   . wrote - false: it was not possible, for reasons of the disk, which a warning gives

   Errors: RENGA_ERR_ORDER without a pipeline or a directory. A file that cannot be written is no
   error: a warning says why.

   Notes: a run should not end because a disk is full; what was written before stays.

   See also: RengaCheckpointWrite(), RengaCheckpointStep()
@*/
RengaErrorCode RengaCheckpointTry(RengaCheckpoint checkpoint, const char *name, bool *wrote)
{
  char text[RENGA_CHECKPOINT_MESSAGE], *path = NULL;
  memset(text, 0, sizeof text);
  RengaCheckPointer(wrote);
  RengaCall(CheckReady(checkpoint, __func__));
  RengaErrorHandler report;
  void *user;
  RengaErrorGetHandler(&report, &user);
  RengaErrorSetHandler(KeepSentence, text);
  RengaErrorCode code = name ? WriteNamed(checkpoint, name, &path) : WriteStep(checkpoint, NULL);
  RengaErrorSetHandler(report, user);
  RengaFree(&path);
  *wrote = code == RENGA_SUCCESS;
  if (code == RENGA_ERR_FILE_WRITE) {
    RengaCall(WarnOfFailure(checkpoint, text));
    return RENGA_SUCCESS;
  }
  RengaCheck(code == RENGA_SUCCESS || !text[0], MPI_COMM_SELF, code, "%s", text);
  RengaCall(code);
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
  RengaCall(CheckReady(checkpoint, __func__));
  RengaErrorCode code =
      MarkFile(checkpoint, RengaPipelineGetStepNumber(checkpoint->pipeline), RENGA_MARK_BAD);
  checkpoint->unmarked = -1;
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code)); /* nobody leaves before it is done */
  return RENGA_SUCCESS;
}

/* Rank 0: is there room for files of so many bytes, those that are kept and one more? */
static RengaErrorCode WarnOfRoom(RengaCheckpoint checkpoint, int64_t bytes)
{
  struct statvfs space;
  int count;
  if (statvfs(checkpoint->options.directory, &space) != 0) return RENGA_SUCCESS;
  RengaCheckpointFileInfo *files;
  RengaCall(RengaCheckpointDirectoryList(checkpoint->options.directory, &count, &files));
  int kept = 0;
  for (int i = 0; i < count; i++) kept += files[i].run == checkpoint->run;
  RengaFree(&files);
  const double room = (double)space.f_bavail * (double)space.f_frsize / (double)bytes + kept;
  char size[16];
  RengaFormatBytes((double)bytes, sizeof size, size);
  if (room < checkpoint->options.keep + 1)
    RengaWarning(checkpoint->hdr.comm,
                 "%s has room for %d checkpoints of %s; -checkpoint_keep %d takes %d while one is "
                 "written",
                 checkpoint->options.directory, (int)room, size, checkpoint->options.keep,
                 checkpoint->options.keep + 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode LookForRoom(RengaCheckpoint checkpoint)
{
  RengaPersistent *tensors = NULL;
  int count = 0;
  int64_t bytes = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  if (checkpoint->looked_for_room) return RENGA_SUCCESS;
  checkpoint->looked_for_room = true;
  RengaCall(RengaCheckpointListTensors_Private(checkpoint, NULL, &count, &tensors));
  for (int i = 0; i < count; i++)
    if (tensors[i].owner) bytes += RengaPersistentGetBytes(&tensors[i]);
  RengaFree(&tensors);
  RengaCall(RengaCommSumInt64(checkpoint->hdr.owner, 1, &bytes, "the size of a checkpoint"));
  checkpoint->bytes = bytes;
  if (RengaCommGetRank(checkpoint->hdr.owner) == 0 && bytes > 0)
    code = WarnOfRoom(checkpoint, bytes);
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code));
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

/* What any rank was asked for, and whether rank 0's clock says that it is time. */
static RengaErrorCode AgreeOnAsked(RengaCheckpoint checkpoint, int *asked)
{
  int64_t mine = RengaCheckpointTakeSignals_Private();
  bool root = RengaCommGetRank(checkpoint->hdr.owner) == 0;
  if (root && checkpoint->every_seconds > 0 &&
      MPI_Wtime() - checkpoint->last_time >= checkpoint->every_seconds)
    mine |= RENGA_ASKED_TO_WRITE;
  if (root && TimeIsUp(checkpoint)) mine |= RENGA_ASKED_BY_TIME;
  RengaCall(RengaReduceInt64_Private(checkpoint->hdr.comm, MPI_BOR, &mine,
                                     "all ranks to say whether a checkpoint is wanted"));
  *asked = (int)mine;
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteIfDue(RengaCheckpoint checkpoint, int asked, bool *wrote)
{
  const int64_t step = RengaPipelineGetStepNumber(checkpoint->pipeline);
  bool due = checkpoint->every_steps > 0 && step % checkpoint->every_steps == 0;
  RengaCall(LookForRoom(checkpoint));
  RengaCall(MarkGood(checkpoint, step));
  if ((asked || due) && step != checkpoint->last_step)
    RengaCall(RengaCheckpointTry(checkpoint, NULL, wrote));
  checkpoint->missing = (asked || due) && step != checkpoint->last_step;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointStep - after each step: write where it is time or a signal asked for it

   Collective

   Input:
   . checkpoint - set up; without a directory nothing is written

   Output:
   . wrote - a file was written
   . stop - SIGTERM, SIGINT or SIGHUP came, or the time is up that RengaCheckpointSetTimeLimit gave:
     leave the loop

   Errors: RENGA_ERR_ORDER before RengaCheckpointSetUp. A file that cannot be written is no
   error: a warning says why.

   Notes: the step before was finite: the file that it went on from is marked good. A file that
   cannot be written is a warning, and the next one is tried when it is due; whether what was asked
   for last is on the disk is said by RengaCheckpointGetMissing.

   See also: RengaCheckpointTry(), RengaCheckpointSetSignals(), RengaCheckpointSetTimeLimit()
@*/
RengaErrorCode RengaCheckpointStep(RengaCheckpoint checkpoint, bool *wrote, bool *stop)
{
  int asked = 0;
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(wrote);
  RengaCheckPointer(stop);
  RengaCheckState(checkpoint, RENGA_STATE_SETUP, "RengaCheckpointSetUp");
  *wrote = *stop = false;
  if (checkpoint->options.directory == NULL && checkpoint->end_time <= 0) return RENGA_SUCCESS;
  RengaCall(AgreeOnAsked(checkpoint, &asked));
  if (checkpoint->options.directory) RengaCall(WriteIfDue(checkpoint, asked, wrote));
  *stop = (asked & (RENGA_ASKED_TO_STOP | RENGA_ASKED_BY_TIME)) != 0;
  checkpoint->time_is_up = (asked & RENGA_ASKED_BY_TIME) != 0;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetMissing - was the file that was due last not written?

   Not collective

   Input:
   . checkpoint - the checkpoint

   Output:
   . missing - true: what was done since the newest file is not on the disk

   Errors: none beyond bad arguments.

   See also: RengaCheckpointStep()
@*/
RengaErrorCode RengaCheckpointGetMissing(RengaCheckpoint checkpoint, bool *missing)
{
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(missing);
  *missing = checkpoint->missing;
  return RENGA_SUCCESS;
}
