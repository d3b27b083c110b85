/* A checkpoint as a folder of Hugging Face: parameters and states by their names, as safetensors
   files. Moments and steps stay in the checkpoint. */
#include "checkpointimpl.h"
#include "renga/private/hash.h"
#include "renga/private/open.h"
#include "safetensors/safetensors.h"
#include "safetensors/write.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <dirent.h>

static const int64_t usual_file = 5000000000;

typedef struct {
  RengaMappedFile file;
  const RengaCheckpointTable *table; /* of the checkpoint */
  RengaCheckpointTable chosen;       /* what is written */
  int *entry;                        /* [chosen.n_entries] in the table */
  RengaHasher hasher;
} Exporter;

/* Elements of the tensor, with whole blocks that are as they were written. */
static RengaErrorCode ReadElements(void *user, int chosen, int64_t first, int64_t count, float to[])
{
  Exporter *exporter = user;
  const RengaCheckpointTable *table = exporter->table;
  const int i = exporter->entry[chosen];
  const RengaCheckpointEntry *entry = &table->entries[i];
  const int64_t size = (int64_t)sizeof *to;
  memcpy(to, exporter->file.bytes + entry->offset + first * size, (size_t)(count * size));
  for (int64_t b = 0; b < RengaCheckpointTableBlocks(table, i); b++) {
    int64_t from, bytes;
    RengaCheckpointTableBlock(table, i, b, &from, &bytes);
    if (from < first * size || from >= (first + count) * size) continue;
    RengaHasherRestart(exporter->hasher, 0);
    RengaHasherAdd(exporter->hasher, exporter->file.bytes + entry->offset + from, (size_t)bytes);
    RengaCheck(RengaHasherGet(exporter->hasher) == table->hashes[entry->first_hash + b],
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "checkpoint %s: tensor %.500s: its checksum "
               "differs",
               exporter->file.path, entry->name);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ChooseEntries(Exporter *exporter)
{
  const RengaCheckpointTable *table = exporter->table;
  RengaCall(RengaMalloc(table->n_entries + 1, &exporter->entry));
  for (int i = 0; i < table->n_entries; i++) {
    const RengaCheckpointEntry *entry = &table->entries[i];
    bool moment = true;
    if (RengaCheckpointIsExtra_Private(entry->name)) continue;
    RengaCall(RengaCheckpointTableIsMoment(table, i, &moment));
    if (moment) continue;
    RengaCheck(entry->spec.type == RENGA_FLOAT32 &&
                   entry->offset + entry->bytes <= exporter->file.size,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "checkpoint %s: tensor %.500s is %s",
               exporter->file.path, entry->name, RengaDataTypeName(entry->spec.type));
    exporter->entry[exporter->chosen.n_entries] = i;
    RengaCall(RengaCheckpointTableAdd(&exporter->chosen, entry->name, &entry->spec, entry->state));
  }
  return RENGA_SUCCESS;
}

/* ---- the folder: it appears whole or not at all ---- */
static RengaErrorCode CheckNewFolder(const char *folder)
{
  struct stat found;
  RengaCheck(lstat(folder, &found) != 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "%s is there already: export makes a new folder", folder);
  return RENGA_SUCCESS;
}

static void RemoveFolder(const char *folder)
{
  char *path = NULL;
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (RengaSafetensorsJoin(folder, entry->d_name, &path) == RENGA_SUCCESS) unlink(path);
    RengaFree(&path);
  }
  if (directory) closedir(directory);
  rmdir(folder);
}

static RengaErrorCode FillFolder(Exporter *exporter, const char *folder,
                                 const RengaCheckpointExportSettings *settings)
{
  const RengaSafetensorsSource source = {
      .table = &exporter->chosen,
      .type = settings->type,
      .file_bytes = settings->file_bytes > 0 ? settings->file_bytes : usual_file,
      .read = ReadElements,
      .user = exporter};
  if (settings->like) RengaCall(RengaSafetensorsCopyFiles(settings->like, folder, settings->type));
  RengaCall(RengaSafetensorsWrite(folder, &source));
  return RENGA_SUCCESS;
}

/* folder/ is folder. */
static int LengthWithoutSlash(const char *folder)
{
  int length = (int)strlen(folder);
  while (length > 1 && folder[length - 1] == '/') length--;
  return length;
}

static RengaErrorCode MakeFolder(Exporter *exporter, const char *folder,
                                 const RengaCheckpointExportSettings *settings)
{
  char *partial = NULL;
  const size_t room = strlen(folder) + 32;
  RengaCall(CheckNewFolder(folder));
  RengaCall(RengaMalloc(room, &partial));
  snprintf(partial, room, "%.*s.%ld.part", LengthWithoutSlash(folder), folder, (long)getpid());
  int reason = mkdir(partial, 0777) == 0 ? 0 : errno;
  RengaErrorCode code = reason ? RENGA_SUCCESS : FillFolder(exporter, partial, settings);
  if (!reason && !code && rename(partial, folder) != 0) reason = errno;
  if (code || reason) RemoveFolder(partial);
  RengaFree(&partial);
  RengaCall(code);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", folder,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

/* Rank 0. */
static RengaErrorCode ExportFile(const char *file, const RengaCheckpointTable *table,
                                 const char *folder, const RengaCheckpointExportSettings *settings)
{
  Exporter exporter = {.table = table};
  RengaErrorCode code = RengaMapFile(file, &exporter.file);
  if (!code) code = RengaHasherCreate(&exporter.hasher);
  if (!code) code = ChooseEntries(&exporter);
  if (!code) code = MakeFolder(&exporter, folder, settings);
  RengaCheckpointTableFree(&exporter.chosen);
  RengaFree(&exporter.entry);
  RengaHasherDestroy(&exporter.hasher);
  RengaUnmapFile(&exporter.file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ExportWhole(RengaComm comm, const char *file, const char *folder,
                                  const RengaCheckpointExportSettings *settings)
{
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  MPI_Comm ranks;
  bool whole = false;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code = RengaCheckpointFileOpen(comm, file, &table, &whole, message);
  if (!code && whole && RengaCommGetRank(comm) == 0)
    code = ExportFile(file, &table, folder, settings);
  code = RengaErrorAgree(ranks, code);
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  RengaCheck(whole, ranks, RENGA_ERR_FILE_FORMAT, "checkpoint %s: %s", file, message);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointExport - the parameters of a checkpoint as a folder that Hugging Face's libraries
   load

   Collective

   Input:
   . comm - rank 0 reads and writes
   . path - a checkpoint's file, or a directory: its newest whole file
   . folder - to be made; it appears when it is whole
   . settings - the type of the numbers (float32, bfloat16, float16); the bytes of a file at most,
     0: 5 GB; the folder whose config.json and tokenizer are copied, or NULL

   Errors: RENGA_ERR_FILE_WRITE where the folder is there already or cannot be written;
   RENGA_ERR_FILE_FORMAT for a damaged checkpoint; RENGA_ERR_NUMERIC for a number that the type
   cannot hold. Nothing is left then. All ranks have the error.

   Notes: names are those of the checkpoint, which for a network of hf:FOLDER are those of its state
   dict. Files are those of safetensors: model.safetensors, or model-00001-of-00002.safetensors and
   so on with model.safetensors.index.json. Moments, steps and a program's own tensors are left out.
   config.json is copied byte for byte, but for the type of its numbers where that is another.

   See also: RengaCheckpointReadInitial(), RengaGraphLoad()
@*/
RengaErrorCode RengaCheckpointExport(RengaComm comm, const char *path, const char *folder,
                                     const RengaCheckpointExportSettings *settings)
{
  char *file = NULL;
  RengaCheckPointer(comm);
  RengaCheckPointer(path);
  RengaCheckPointer(folder);
  RengaCheckPointer(settings);
  RengaCheck(settings->type == RENGA_FLOAT32 || settings->type == RENGA_BFLOAT16 ||
                 settings->type == RENGA_FLOAT16,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "an exported folder has float32, bfloat16 or float16, not %s",
             RengaDataTypeName(settings->type));
  RengaCall(RengaCheckpointFindFile_Private(comm, path, &file));
  const RengaErrorCode code = ExportWhole(comm, file, folder, settings);
  RengaFree(&file);
  RengaCall(code);
  return RENGA_SUCCESS;
}
