/* Options of the class RengaCheckpoint. */
#include "checkpointimpl.h"
#include "renga/private/number.h"
#include "renga/private/packages.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

#define AT(member) offsetof(struct _p_RengaCheckpoint, options.member)
static const RengaOptionRow rows[] = {
    {"checkpoint_dir", RENGA_OPTION_STRING, NULL, AT(directory), NULL, 0, 0,
     "folder of checkpoints, made where it is not there; without it none are written"},
    {"checkpoint_every", RENGA_OPTION_STRING, "30min", AT(every), NULL, 0, 0,
     "how often to write a checkpoint: 100 (steps), 30s, 30min, 2h; 0: last"},
    {"checkpoint_keep", RENGA_OPTION_INT, "3", AT(keep), NULL, 1, 1000000000,
     "newest checkpoints that are kept, and the newest good one"},
    {"checkpoint_async", RENGA_OPTION_BOOL, "false", AT(async), NULL, 0, 0,
     "write checkpoints in the background from a copy in host memory"},
    {"checkpoint_format", RENGA_OPTION_ENUM, "hdf5", AT(format), "hdf5|safetensors", 0, 0,
     "safetensors: a folder of Hugging Face is written beside each file"},
    {"checkpoint_memory", RENGA_OPTION_INT, "0", AT(memory), NULL, 0, 1000000000,
     "steps between checkpoints in memory, on two nodes each; 0: none"},
    {"checkpoint_memory_dir", RENGA_OPTION_STRING, "/dev/shm", AT(memory_dir), NULL, 0, 0,
     "folder of -checkpoint_memory, in each node's own memory"},
    {"checkpoint_writers", RENGA_OPTION_INT64, "0", RENGA_OPTION_NO_OFFSET, NULL, 0, 1000000,
     "ranks of each node that write files; 0: all, each what it owns"},
    {"checkpoint_signals", RENGA_OPTION_BOOL, "false", AT(signals), NULL, 0, 0,
     "write on SIGUSR1; on SIGTERM, SIGINT, SIGHUP write and end"},
    {"resume", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "go on from the newest whole checkpoint of -checkpoint_dir"},
    {"initial", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "begin with the parameters of this checkpoint, or of the newest in this folder"},
    {"initial_partial", RENGA_OPTION_BOOL, "false", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "-initial takes what fits by name and shape, and warns of the rest"},
    {"initial_adapter", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "begin with the adapters of this folder, which has adapter_model.safetensors (-graph_lora)"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

RengaErrorCode RengaCheckpointRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Checkpoint", ROWS, rows));
  RengaCall(RengaCheckpointRegisterEvents_Private());
  return RENGA_SUCCESS;
}

static const struct {
  const char *unit;
  double seconds;
} units[] = {{"s", 1}, {"min", 60}, {"m", 60}, {"h", 3600}, {"d", 86400}};

/* "100" are steps; a number with a unit is a time. */
RengaErrorCode RengaCheckpointParseEvery_Private(MPI_Comm comm, const char *text, int64_t *steps,
                                                 double *seconds)
{
  char *end;
  double number = RengaReadReal(text, &end);
  bool good = end != text && isfinite(number) && number >= 0 && number <= 1e15;
  *steps = 0;
  *seconds = 0;
  if (good && *end == '\0' && number == floor(number)) {
    *steps = (int64_t)number;
    return RENGA_SUCCESS;
  }
  for (size_t i = 0; good && i < sizeof units / sizeof units[0]; i++)
    if (strcmp(end, units[i].unit) == 0) {
      *seconds = number * units[i].seconds;
      return RENGA_SUCCESS;
    }
  RengaRaise(comm, RENGA_ERR_OPTION,
             "-checkpoint_every %s: write a number of steps such as 100, or a time such as 30s, "
             "30min or 2h",
             text);
}

/*@
   RengaCheckpointSetFromOptions - take the options that were given

   Collective

   Options:
   . -checkpoint_dir - folder of checkpoints
   . -checkpoint_every - 100 (steps), 30s, 30min, 2h; 0: only when asked and at the end
   . -checkpoint_keep - so many of the newest
   . -checkpoint_async - train on while they are written
   . -checkpoint_format - safetensors: with a folder of Hugging Face beside each
   . -checkpoint_writers - so many ranks of each node write files
   . -checkpoint_memory - each so many steps one in the memory of the nodes
   . -checkpoint_memory_dir - the folder that is

   Errors: RENGA_ERR_OPTION for a bad value.

   See also: RengaCheckpointSetUp()
@*/
RengaErrorCode RengaCheckpointSetFromOptions(RengaCheckpoint checkpoint)
{
  RengaCheckPointer(checkpoint);
  MPI_Comm comm = checkpoint->hdr.comm;
  bool done;
  RengaCall(RengaCheckpointFinish_Private(checkpoint, &done)); /* in its directory */
  RengaCall(RengaOptionsSetFromDatabase(checkpoint->hdr.prefix, ROWS, rows, checkpoint));
  int64_t writers;
  bool given;
  RengaCall(RengaOptionsGetInt64("checkpoint_writers", &writers, &given));
  if (given) RengaCall(RengaCheckpointSetWriters(checkpoint, (int)writers));
  RengaCall(RengaCheckpointParseEvery_Private(
      comm, checkpoint->options.every, &checkpoint->every_steps, &checkpoint->every_seconds));
  checkpoint->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyCheckpoint(void *object)
{
  RengaCheckpoint checkpoint = object;
  bool done;
  RengaErrorCode code = RengaCheckpointFinish_Private(checkpoint, &done);
  RengaAsideDestroy(&checkpoint->pending.aside);
  RengaCheckpointFreeMemory_Private(checkpoint);
  if (checkpoint->catches_signals) RengaCheckpointReleaseSignals_Private();
  RengaCheckpointLockDestroy(&checkpoint->lock);
  RengaCheckpointFreeExtras_Private(checkpoint);
  RengaCheckpointTableFree(&checkpoint->attributes);
  RengaCheckpointTableFree(&checkpoint->found);
  RengaKeepFirst_Private(&code, RengaOptionsFreeStrings(ROWS, rows, checkpoint));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointCreate - make a checkpoint object

   Collective

   Input:
   . comm - the ranks of the run

   Output:
   . checkpoint - RengaCheckpointDestroy frees it

   See also: RengaCheckpointSetPipeline(), RengaCheckpointSetUp(), RengaCheckpointDestroy()
@*/
RengaErrorCode RengaCheckpointCreate(RengaComm comm, RengaCheckpoint *checkpoint)
{
  RengaCheckpoint made;
  RengaCheckPointers(comm, checkpoint);
  RengaCall(RengaHeaderCreate(comm, "RengaCheckpoint", sizeof *made, DestroyCheckpoint, &made));
  made->last_step = made->unmarked = made->pending.step = made->recovered = -1;
  RengaErrorCode code = RengaOptionsSetDefaults(ROWS, rows, made);
  if (!code)
    code = RengaCheckpointParseEvery_Private(made->hdr.comm, made->options.every,
                                             &made->every_steps, &made->every_seconds);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *checkpoint = made;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointDestroy - free a checkpoint object; the files stay

   Collective

   Output:
   . checkpoint - set to NULL

   Errors: RENGA_ERR_TIMEOUT where a file is under way and a rank does not come.

   Notes: a file that is being written (RengaCheckpointSetAsync) is waited for; that it cannot be
   written is a warning.
@*/
RengaErrorCode RengaCheckpointDestroy(RengaCheckpoint *checkpoint)
{
  RengaCheckPointer(checkpoint);
  RengaCall(RengaHeaderDestroy(checkpoint));
  return RENGA_SUCCESS;
}
