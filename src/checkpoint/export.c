/* A checkpoint as a folder of Hugging Face that was not there before. */
#include "checkpointimpl.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static RengaErrorCode CheckNewFolder(const char *folder)
{
  struct stat found;
  RengaCheck(lstat(folder, &found) != 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "%s is there already: export makes a new folder", folder);
  return RENGA_SUCCESS;
}

/* folder/ is folder. */
static int LengthWithoutSlash(const char *folder)
{
  int length = (int)strlen(folder);
  while (length > 1 && folder[length - 1] == '/') length--;
  return length;
}

/* By way of FOLDER.NUMBER.part. */
static RengaErrorCode ExportNew(RengaComm comm, const char *file, const char *folder,
                                const RengaCheckpointExportSettings *settings)
{
  char *partial = NULL;
  MPI_Comm ranks;
  const size_t room = strlen(folder) + 32;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCall(
      RengaErrorAgree(ranks, RengaCommGetRank(comm) == 0 ? CheckNewFolder(folder) : RENGA_SUCCESS));
  RengaCall(RengaErrorAgree(ranks, RengaMalloc(room, &partial)));
  snprintf(partial, room, "%.*s.%ld.part", LengthWithoutSlash(folder), folder, (long)getpid());
  const RengaCheckpointTarget target = {
      .folder = folder, .partial = partial, .settings = *settings};
  const RengaErrorCode code = RengaCheckpointExportFile_Private(comm, file, &target);
  RengaFree(&partial);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointExport - the parameters of a checkpoint as a folder that Hugging Face's libraries
   load

   Collective

   Input:
   . comm - rank 0 reads and writes
   . path - a checkpoint's file, or a directory: its newest whole file
   . folder - the name of a folder that is made; it appears when it is whole
   . settings - the content of the folder: the type of the numbers (float32, bfloat16, float16), and
     the bytes of a file at most (0: 5 GB). It names the folder whose config.json and tokenizer are
     copied, or NULL, and says whether adapters are added to their weights

   Errors: RENGA_ERR_FILE_WRITE where the folder is there already or cannot be written;
   RENGA_ERR_FILE_FORMAT for a damaged checkpoint; RENGA_ERR_NUMERIC for a number that the type
   cannot hold; RENGA_ERR_OPTION where there are no adapters to be merged; RENGA_ERR_SUPPORT where
   the run has changed more than adapters, and these alone would be written. Nothing is left then.
   All ranks have the error.

   Notes: names are those of the checkpoint, which for a network of hf:FOLDER are those of its state
   dict. Files are those of safetensors: model.safetensors, or model-00001-of-00002.safetensors and
   so on with model.safetensors.index.json. Moments, steps and a program's own tensors are left out.
   config.json is copied byte for byte, but for the type of its numbers where that is another.
   A network with adapters (RengaGraphSetLora) gives the folder of these, as peft's: of
   settings->like adapter_config.json has the name. Merged, it gives the network without adapters,
   whose weights are W + alpha / rank * B A, with sums in double precision.

   See also: RengaCheckpointReadInitial(), RengaGraphLoad()
@*/
RengaErrorCode RengaCheckpointExport(RengaComm comm, const char *path, const char *folder,
                                     const RengaCheckpointExportSettings *settings)
{
  char *file = NULL;
  RengaCheckPointers(comm, path, folder, settings);
  RengaCheck(settings->type == RENGA_FLOAT32 || settings->type == RENGA_BFLOAT16 ||
                 settings->type == RENGA_FLOAT16,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "an exported folder has float32, bfloat16 or float16, not %s",
             RengaDataTypeName(settings->type));
  RengaCall(RengaCheckpointFindFile_Private(comm, path, &file));
  const RengaErrorCode code = ExportNew(comm, file, folder, settings);
  RengaFree(&file);
  RengaCall(code);
  return RENGA_SUCCESS;
}
