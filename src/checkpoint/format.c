/* The folder of Hugging Face beside a checkpoint's file (-checkpoint_format safetensors): written
   from the file once that has its name, so that whatever fails leaves all that a run needs. */
#include "checkpointimpl.h"
#include <string.h>
#include <unistd.h>

/* FILE.h5 is beside FILE. */
static RengaErrorCode NameFolder(const char *file, char **folder)
{
  RengaCall(RengaStringCopy(file, folder));
  (*folder)[strlen(file) - strlen(".h5")] = '\0';
  return RENGA_SUCCESS;
}

/* Named as files that are under way are, which the next run removes. like: config.json is of it. */
static RengaErrorCode NameTarget(RengaCheckpoint checkpoint, const char *file, char *names[3])
{
  const char *graph = RengaCheckpointTableGetAttribute(&checkpoint->attributes, "graph");
  const size_t room = strlen(file) + 32;
  RengaCall(NameFolder(file, &names[0]));
  RengaCall(RengaMalloc(room, &names[1]));
  snprintf(names[1], room, "%s.%016llx.tmp", file, (unsigned long long)getpid());
  if (!graph || strncmp(graph, "hf:", 3) != 0) return RENGA_SUCCESS;
  RengaCall(RengaStringCopy(graph + 3, &names[2]));
  names[2][strcspn(names[2], ",")] = '\0';
  return RENGA_SUCCESS;
}

/* user: the file. */
static RengaErrorCode WriteFolder(RengaCheckpoint checkpoint, void *user)
{
  const char *file = user;
  char *names[3] = {NULL, NULL, NULL};
  RengaErrorCode code = RengaErrorAgree(checkpoint->hdr.comm, NameTarget(checkpoint, file, names));
  const RengaCheckpointTarget target = {.folder = names[0],
                                        .partial = names[1],
                                        .settings = {.type = RENGA_FLOAT32, .like = names[2]}};
  if (!code) code = RengaCheckpointExportFile_Private(checkpoint->hdr.owner, file, &target);
  for (int i = 0; i < 3; i++) RengaFree(&names[i]);
  return code ? RENGA_ERR_FILE_WRITE : RENGA_SUCCESS; /* a warning: the file is there */
}

RengaErrorCode RengaCheckpointWriteFolder_Private(RengaCheckpoint checkpoint, const char *file)
{
  bool good;
  if (checkpoint->options.format != RENGA_CHECKPOINT_SAFETENSORS) return RENGA_SUCCESS;
  RengaCall(
      RengaCheckpointAttempt_Private(checkpoint, WriteFolder, (void *)(uintptr_t)file, &good));
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointSetFormat - whether a folder of Hugging Face is written beside each file

   Input:
   . format - RENGA_CHECKPOINT_SAFETENSORS: beside DIR/step_000000100.h5 the folder
     DIR/step_000000100, as RengaCheckpointExport makes it of the file, in float32;
     RENGA_CHECKPOINT_HDF5 (default): the file alone

   Options:
   . -checkpoint_format - hdf5 or safetensors

   Errors: RENGA_ERR_ARGUMENT for a format that there is not.

   Notes: files are as without it, and runs are resumed from them alone. A folder appears, whole,
   after its file, and goes with it; one that cannot be written is a warning. Rank 0 writes it while
   the other ranks wait, with RengaCheckpointSetAsync too. Attribute "graph" of the checkpoint,
   hf:FOLDER, says whose config.json and tokenizer are copied; without it there are none.

   See also: RengaCheckpointGetFormat(), RengaCheckpointExport()
@*/
RengaErrorCode RengaCheckpointSetFormat(RengaCheckpoint checkpoint, RengaCheckpointFormat format)
{
  RengaCheckPointer(checkpoint);
  RengaCheck(format == RENGA_CHECKPOINT_HDF5 || format == RENGA_CHECKPOINT_SAFETENSORS,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%d is no format of checkpoints", (int)format);
  checkpoint->options.format = format;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointGetFormat(RengaCheckpoint checkpoint, RengaCheckpointFormat *format)
{
  RengaCheckPointers(checkpoint, format);
  *format = checkpoint->options.format;
  return RENGA_SUCCESS;
}
