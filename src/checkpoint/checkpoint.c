/* When a checkpoint is written, how many are kept, and which one a run goes on from. */
#include "checkpointimpl.h"
#include "renga/private/wait.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*@
   RengaCheckpointSetPipeline - whose tensors are written and read

   Not collective (the same on all ranks)

   Input:
   . checkpoint - the checkpoint
   . pipeline - set up before the first write or read; not referenced, so destroy it later
@*/
RengaErrorCode RengaCheckpointSetPipeline(RengaCheckpoint checkpoint, RengaPipeline pipeline)
{
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(pipeline);
  checkpoint->pipeline = pipeline;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetDirectory - where files are written and looked for

   Not collective (the same on all ranks)

   Input:
   . checkpoint - the checkpoint
   . directory - copied; seen by all ranks; NULL: none are written

   Options:
   . -checkpoint_dir - the same
@*/
RengaErrorCode RengaCheckpointSetDirectory(RengaCheckpoint checkpoint, const char *directory)
{
  char *copy;
  RengaCheckPointer(checkpoint);
  RengaCall(RengaStringCopy(directory, &copy));
  RengaFree(&checkpoint->options.directory);
  checkpoint->options.directory = copy;
  checkpoint->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetDirectory - where files are written and looked for

   Not collective

   Input:
   . checkpoint - the checkpoint

   Output:
   . directory - lent; NULL: none are written
@*/
RengaErrorCode RengaCheckpointGetDirectory(RengaCheckpoint checkpoint, const char **directory)
{
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(directory);
  *directory = checkpoint->options.directory;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetSubset - whether a file may hold tensors that the network lacks

   Not collective (the same on all ranks)

   Input:
   . checkpoint - the checkpoint
   . subset - true: they are left alone, for instance the moments of an optimizer when a network is
     only evaluated; false (default): they are an error
@*/
RengaErrorCode RengaCheckpointSetSubset(RengaCheckpoint checkpoint, bool subset)
{
  RengaCheckPointer(checkpoint);
  checkpoint->subset = subset;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetAttribute - something to be known when a file is read: the seed, a digest

   Not collective (the same on all ranks)

   Input:
   . checkpoint - the checkpoint
   . name, value - copied; value up to 60000 bytes; both without meaning to this class
@*/
RengaErrorCode RengaCheckpointSetAttribute(RengaCheckpoint checkpoint, const char *name,
                                           const char *value)
{
  static const char *const own[] = {"step", "version", "checksums", "options"};
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(name);
  RengaCheckPointer(value);
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
    RengaCheck(strcmp(name, own[i]) != 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "attribute %s is set by the checkpoint itself", name);
  RengaCall(RengaCheckpointTableSetAttribute(&checkpoint->attributes, name, value));
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointGetAttribute - an attribute of the file that was read last

   Not collective

   Input:
   . checkpoint - the checkpoint
   . name - of RengaCheckpointSetAttribute when it was written

   Output:
   . value - lent; NULL where the file has none, or none was read
@*/
RengaErrorCode RengaCheckpointGetAttribute(RengaCheckpoint checkpoint, const char *name,
                                           const char **value)
{
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(value);
  *value = RengaCheckpointTableGetAttribute(&checkpoint->found, name);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetUp - make the directory, try to write there on every rank, catch signals

   Collective

   Input:
   . checkpoint - the checkpoint

   Notes: with a directory, SIGUSR1 then asks for a checkpoint and SIGTERM for one and the end; what
   they did before is restored by RengaCheckpointDestroy.
@*/
RengaErrorCode RengaCheckpointSetUp(RengaCheckpoint checkpoint)
{
  RengaCheckPointer(checkpoint);
  const char *directory = checkpoint->options.directory;
  if (directory) RengaCall(RengaCheckpointDirectoryProbe(checkpoint->hdr.owner, directory));
  if (directory && !checkpoint->catches_signals) {
    RengaCall(RengaCheckpointCatchSignals_Private());
    checkpoint->catches_signals = true;
  }
  checkpoint->last_time = MPI_Wtime();
  checkpoint->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

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

/* Delete all but the newest -checkpoint_keep files of this run, with those that it went on from.
   Files of other runs are not touched. */
static RengaErrorCode Prune(RengaCheckpoint checkpoint)
{
  int count, kept = 0;
  RengaCheckpointFileInfo *files;
  char *path;
  const char *directory = checkpoint->options.directory;
  RengaCall(RengaCheckpointDirectoryList(directory, &count, &files));
  for (int i = 0; i < count; i++) {
    if (files[i].run != checkpoint->run || ++kept <= checkpoint->options.keep) continue;
    RengaCall(RengaCheckpointDirectoryPath(directory, files[i].step, &path));
    unlink(path);
    RengaFree(&path);
  }
  RengaFree(&files);
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
  RengaCall(SetOptionsText(table));
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaCommGetRank(checkpoint->hdr.owner) == 0) code = StampTable(checkpoint, table);
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteFile(RengaCheckpoint checkpoint, const char *path,
                                RengaCheckpointTable *table)
{
  RengaLogEvent event;
  RengaDevice device;
  const RengaPersistent *tensors;
  int count;
  int64_t bytes = 0;
  double begin = MPI_Wtime();
  RengaCall(RengaLogEventRegister("Checkpoint write", &event));
  RengaCall(RengaPipelineGetDevice(checkpoint->pipeline, &device));
  RengaCall(RengaPipelineGetPersistents(checkpoint->pipeline, &count, &tensors));
  for (int i = 0; i < count; i++)
    if (tensors[i].owner) bytes += (int64_t)RengaTensorSpecBytes(&tensors[i].spec);
  RengaLogEventBegin(event);
  RengaErrorCode code =
      RengaCheckpointFileWrite(checkpoint->hdr.owner, device, path, count, tensors, table);
  RengaLogEventEnd(event, 0, 0, bytes);
  RengaLogTrace("checkpoint", "write", begin, MPI_Wtime());
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointWrite - write one now

   Collective

   Input:
   . checkpoint - set up, with a pipeline that is set up

   Output:
   . file - its path, for RengaFree; may be NULL

   Notes: the file appears whole, on the disk, or not at all; older ones are then deleted as
   -checkpoint_keep says. A failure leaves the older ones and is an error on all ranks.
@*/
RengaErrorCode RengaCheckpointWrite(RengaCheckpoint checkpoint, char **file)
{
  RengaCheckpointTable table = {0};
  char *path;
  RengaCheckPointer(checkpoint);
  RengaCheckState(checkpoint, RENGA_STATE_SETUP, "RengaCheckpointSetUp");
  RengaCheck(checkpoint->pipeline && checkpoint->options.directory, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "a checkpoint needs RengaCheckpointSetPipeline and RengaCheckpointSetDirectory");
  RengaCall(FillTable(checkpoint, &table));
  int64_t step = table.step;
  RengaCall(RengaCheckpointDirectoryPath(checkpoint->options.directory, step, &path));
  RengaErrorCode code = WriteFile(checkpoint, path, &table);
  RengaCheckpointTableFree(&table);
  if (code == RENGA_SUCCESS && RengaCommGetRank(checkpoint->hdr.owner) == 0)
    code = Prune(checkpoint);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (code == RENGA_SUCCESS && file)
    *file = path;
  else
    RengaFree(&path);
  RengaCall(code);
  checkpoint->last_step = step;
  checkpoint->last_time = MPI_Wtime();
  return RENGA_SUCCESS;
}

/* What any rank was asked for, and whether rank 0's clock says that it is time. */
static RengaErrorCode AgreeOnAsked(RengaCheckpoint checkpoint, int *asked)
{
  int64_t mine = RengaCheckpointTakeSignals_Private();
  bool root = RengaCommGetRank(checkpoint->hdr.owner) == 0;
  if (root && checkpoint->every_seconds > 0 &&
      MPI_Wtime() - checkpoint->last_time >= checkpoint->every_seconds)
    mine |= RENGA_ASKED_TO_WRITE;
  RengaCall(RengaReduceInt64_Private(checkpoint->hdr.comm, MPI_BOR, &mine,
                                     "all ranks to say whether a checkpoint is wanted"));
  *asked = (int)mine;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointStep - after each step: write where it is time or a signal asked for it

   Collective

   Input:
   . checkpoint - set up; without a directory nothing is done

   Output:
   . wrote - a file was written
   . stop - SIGTERM came: leave the loop; what was done is on the disk
@*/
RengaErrorCode RengaCheckpointStep(RengaCheckpoint checkpoint, bool *wrote, bool *stop)
{
  int asked = 0;
  RengaCheckPointer(checkpoint);
  RengaCheckPointer(wrote);
  RengaCheckPointer(stop);
  RengaCheckState(checkpoint, RENGA_STATE_SETUP, "RengaCheckpointSetUp");
  *wrote = *stop = false;
  if (checkpoint->options.directory == NULL) return RENGA_SUCCESS;
  int64_t step = RengaPipelineGetStepNumber(checkpoint->pipeline);
  RengaCall(AgreeOnAsked(checkpoint, &asked));
  bool due = checkpoint->every_steps > 0 && step % checkpoint->every_steps == 0;
  if ((asked || due) && step != checkpoint->last_step) {
    RengaCall(RengaCheckpointWrite(checkpoint, NULL));
    *wrote = true;
  }
  *stop = (asked & RENGA_ASKED_TO_STOP) != 0;
  return RENGA_SUCCESS;
}
