/* What a file of the present step holds, and a warning where one cannot be written. */
#include "adapters.h"
#include "checkpointimpl.h"
#include "renga/private/hash.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static int64_t Nanoseconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Rank 0: run and time of the head; the time is after that of what was written before, so that a
   clock that was set back does not make an old file the newest. */
static void StampTable(RengaCheckpoint checkpoint, RengaCheckpointTable *table)
{
  table->time = Nanoseconds();
  if (table->time <= checkpoint->stamp) table->time = checkpoint->stamp + 1;
  checkpoint->stamp = table->time;
  if (checkpoint->run == 0) {
    const int64_t seed[] = {table->time, (int64_t)getpid(), (int64_t)RengaHashHost_Private()};
    checkpoint->run = RengaHash(seed, sizeof seed, 1) | 1;
  }
  table->run = checkpoint->run;
}

/* Rank 0: of files that are there, also of other runs. */
static RengaErrorCode StampAfterFiles(RengaCheckpoint checkpoint, RengaCheckpointTable *table)
{
  int count;
  RengaCheckpointFileInfo *files;
  RengaCall(RengaCheckpointDirectoryList(checkpoint->options.directory, &count, &files));
  if (count > 0 && files[0].time > checkpoint->stamp) checkpoint->stamp = files[0].time;
  RengaFree(&files);
  StampTable(checkpoint, table);
  return RENGA_SUCCESS;
}

/* What computed the tensors: the device's text, the same on all ranks. */
static RengaErrorCode SetKernels(RengaCheckpoint checkpoint, RengaCheckpointTable *table)
{
  const char *text;
  RengaDevice device;
  RengaCall(RengaPipelineGetDevice(checkpoint->pipeline, &device));
  if (!device) return RENGA_SUCCESS;
  RengaCall(RengaDeviceGetKernels(device, &text));
  RengaCall(RengaCheckpointTableSetAttribute(table, "kernels", text));
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
  RengaCall(RengaCheckpointKeepAdapters_Private(checkpoint->pipeline, table));
  RengaCall(SetKernels(checkpoint, table));
  RengaCall(SetOptionsText(table));
  return RENGA_SUCCESS;
}

/* Somebody has removed it while the run went on: what is trained since then shall not be lost. */
static void BringBackDirectory(const char *directory)
{
  struct stat found;
  if (stat(directory, &found) == 0 || errno != ENOENT) return;
  if (RengaCheckpointDirectoryMake(directory) == 0)
    RengaWarning(MPI_COMM_SELF,
                 "the folder of checkpoints %s was removed during the run: it is made anew, and "
                 "what was in it is gone",
                 directory);
}

/* Rank 0, before anything is written: the directory is still ours, so is a file of that name. */
static RengaErrorCode CheckOwner(RengaCheckpoint checkpoint, const char *path)
{
  RengaCheckpointHead head = {.run = 0};
  BringBackDirectory(checkpoint->options.directory);
  RengaCall(RengaCheckpointLockCheck(checkpoint->lock));
  bool mine = !RengaCheckpointHeadRead(path, &head) || head.run == checkpoint->run;
  RengaCheck(
      mine, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
      "%s is of another run and is not replaced: give this run a -checkpoint_dir of its own, "
      "or go on from that one with -resume",
      path);
  return RENGA_SUCCESS;
}

static RengaErrorCode NameContents(RengaCheckpoint checkpoint, const char *name,
                                   RengaCheckpointContents *contents)
{
  const char *directory = checkpoint->options.directory;
  RengaCall(FillTable(checkpoint, &contents->table));
  if (name)
    RengaCall(RengaCheckpointDirectoryNamed(directory, name, &contents->path));
  else
    RengaCall(RengaCheckpointDirectoryPath(directory, contents->table.step, &contents->path));
  if (RengaCommGetRank(checkpoint->hdr.owner) != 0) return RENGA_SUCCESS;
  RengaCall(StampAfterFiles(checkpoint, &contents->table));
  RengaCall(CheckOwner(checkpoint, contents->path));
  if (checkpoint->options.format == RENGA_CHECKPOINT_SAFETENSORS)
    RengaCheckpointDirectoryRemoveBeside(contents->path);
  return RENGA_SUCCESS;
}

static RengaErrorCode ListContents(RengaCheckpoint checkpoint, RengaCheckpointContents *contents)
{
  RengaCall(RengaPipelineGetDevice(checkpoint->pipeline, &contents->device));
  RengaCall(
      RengaCheckpointListTensors_Private(checkpoint, NULL, &contents->count, &contents->tensors));
  for (int i = 0; i < contents->count; i++)
    if (contents->tensors[i].owner)
      contents->bytes += RengaPersistentGetBytes(&contents->tensors[i]);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointContentsMake_Private(RengaCheckpoint checkpoint, const char *name,
                                                   RengaCheckpointContents *contents)
{
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, NameContents(checkpoint, name, contents)));
  RengaCall(ListContents(checkpoint, contents));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointContentsOfMemory_Private(RengaCheckpoint checkpoint,
                                                       RengaCheckpointContents *contents)
{
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, FillTable(checkpoint, &contents->table)));
  if (RengaCommGetRank(checkpoint->hdr.owner) == 0) StampTable(checkpoint, &contents->table);
  RengaCall(ListContents(checkpoint, contents));
  return RENGA_SUCCESS;
}

void RengaCheckpointContentsFree_Private(RengaCheckpointContents *contents)
{
  RengaCheckpointTableFree(&contents->table);
  RengaFree(&contents->tensors);
  RengaFree(&contents->path);
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

RengaErrorCode RengaCheckpointAttempt_Private(RengaCheckpoint checkpoint,
                                              RengaErrorCode (*action)(RengaCheckpoint checkpoint,
                                                                       void *user),
                                              void *user, bool *good)
{
  char text[RENGA_CHECKPOINT_MESSAGE];
  memset(text, 0, sizeof text);
  RengaErrorHandler report;
  void *told;
  RengaErrorGetHandler(&report, &told);
  RengaErrorSetHandler(KeepSentence, text);
  const RengaErrorCode code = action(checkpoint, user);
  RengaErrorSetHandler(report, told);
  *good = code == RENGA_SUCCESS;
  if (code == RENGA_ERR_FILE_WRITE) {
    RengaCall(WarnOfFailure(checkpoint, text));
    return RENGA_SUCCESS;
  }
  RengaCheck(code == RENGA_SUCCESS || !text[0], MPI_COMM_SELF, code, "%s", text);
  RengaCall(code);
  return RENGA_SUCCESS;
}
