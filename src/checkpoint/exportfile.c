/* A checkpoint as a folder of Hugging Face: parameters and states by their names, as safetensors
   files; of a network with adapters these alone, as peft loads them, or the weights with what they
   add. Moments and steps stay in the checkpoint. */
#include "checkpointimpl.h"
#include "merge.h"
#include "renga/private/hash.h"
#include "renga/private/open.h"
#include "safetensors/adapter.h"
#include "safetensors/safetensors.h"
#include "safetensors/write.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t usual_file = 5000000000;

typedef enum {
  EXPORT_WHOLE,    /* all parameters and states */
  EXPORT_ADAPTERS, /* the factors of adapters, and nothing else */
  EXPORT_MERGED    /* all others, with what adapters add to them */
} ExportForm;

typedef struct {
  RengaMappedFile file;
  const RengaCheckpointTable *table; /* of the checkpoint */
  RengaCheckpointTable chosen;       /* what is written */
  int *entry;                        /* [chosen.n_entries] in the table */
  RengaHasher hasher;
  ExportForm form;
  RengaCheckpointAdapters adapters;
  RengaMerger merger;
} Exporter;

/* Elements of a tensor of the checkpoint, with whole blocks that are as they were written. */
static RengaErrorCode ReadOwnElements(void *user, int i, int64_t first, int64_t count, float to[])
{
  Exporter *exporter = user;
  const RengaCheckpointTable *table = exporter->table;
  const RengaCheckpointEntry *entry = &table->entries[i];
  const int64_t size = (int64_t)RengaDataTypeSize(entry->spec.type);
  RengaCall(RengaDataWiden(entry->spec.type, count,
                           exporter->file.bytes + entry->offset + first * size, to));
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
  RengaForgetMapped(&exporter->file, entry->offset + first * size, count * size);
  return RENGA_SUCCESS;
}

/* Of a tensor that is written. */
static RengaErrorCode ReadElements(void *user, int chosen, int64_t first, int64_t count, float to[])
{
  Exporter *exporter = user;
  const int i = exporter->entry[chosen];
  RengaCall(ReadOwnElements(exporter, i, first, count, to));
  if (exporter->form == EXPORT_MERGED)
    RengaCall(RengaMergeElements(&exporter->merger, i, first, count, to));
  return RENGA_SUCCESS;
}

/* ---- what is written ---- */
static RengaErrorCode ChooseForm(Exporter *exporter, const RengaCheckpointExportSettings *settings)
{
  const char *path = exporter->file.path;
  const RengaCheckpointAdapters *adapters = &exporter->adapters;
  RengaCall(RengaCheckpointFindAdapters_Private(path, exporter->table, &exporter->adapters));
  RengaCheck(adapters->rank > 0 || !settings->merged, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "checkpoint %s has no adapters that could be merged", path);
  RengaCheck(
      adapters->rank == 0 || settings->merged || adapters->others == 0, MPI_COMM_SELF,
      RENGA_ERR_SUPPORT,
      "checkpoint %s has %lld tensors besides its adapters that the run has changed, or that "
      "are statistics, and a folder of adapters does not hold them: -export_merged writes "
      "all",
      path, (long long)adapters->others);
  if (adapters->rank > 0) exporter->form = settings->merged ? EXPORT_MERGED : EXPORT_ADAPTERS;
  exporter->merger = (RengaMerger){.table = exporter->table,
                                   .adapters = adapters,
                                   .read = ReadOwnElements,
                                   .user = exporter,
                                   .entry = -1};
  return RENGA_SUCCESS;
}

/* Factors have a name before theirs in a folder of adapters. */
static RengaErrorCode ChooseEntry(Exporter *exporter, int i)
{
  const RengaCheckpointEntry *entry = &exporter->table->entries[i];
  const bool adapters = exporter->form == EXPORT_ADAPTERS;
  char layer[RENGA_ADAPTER_NAME], name[RENGA_ADAPTER_NAME + 64];
  const bool factor =
      exporter->adapters.rank > 0 && RengaCheckpointIsFactor_Private(entry->name, layer);
  if (exporter->form != EXPORT_WHOLE && factor != adapters) return RENGA_SUCCESS;
  snprintf(name, sizeof name, "%s%s", RENGA_ADAPTER_PREFIX, entry->name);
  exporter->entry[exporter->chosen.n_entries] = i;
  RengaCall(RengaCheckpointTableAdd(&exporter->chosen, adapters ? name : entry->name, &entry->spec,
                                    entry->state));
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
    RengaCheck(RengaDataTypeIsFloating(entry->spec.type) && entry->spec.type != RENGA_FLOAT64 &&
                   entry->offset + entry->bytes <= exporter->file.size,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "checkpoint %s: tensor %.500s is %s",
               exporter->file.path, entry->name, RengaDataTypeName(entry->spec.type));
    RengaCall(ChooseEntry(exporter, i));
  }
  return RENGA_SUCCESS;
}

/* The layers of what was chosen: each has two factors. description: module is for RengaFree, and
   its names lie behind the list. */
static RengaErrorCode ListLayers(const Exporter *exporter, RengaAdapterDescription *description)
{
  const RengaCheckpointTable *chosen = &exporter->chosen;
  const size_t prefix = strlen(RENGA_ADAPTER_PREFIX);
  char *memory = NULL;
  const size_t each = sizeof *description->module;
  RengaCall(RengaMalloc((size_t)(chosen->n_entries + 1) * (each + RENGA_ADAPTER_NAME), &memory));
  char *text = memory + (size_t)(chosen->n_entries + 1) * each;
  description->module = (void *)memory;
  for (int i = 0; i < chosen->n_entries; i++) {
    const char *name = chosen->entries[i].name + prefix;
    if (!strstr(name, ".lora_A.") || !RengaCheckpointIsFactor_Private(name, text)) continue;
    description->transposed =
        description->transposed || RengaCheckpointIsTransposed_Private(&exporter->adapters, text);
    description->module[description->count++] = text;
    text += RENGA_ADAPTER_NAME;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteAdapterConfig(const Exporter *exporter, const char *folder,
                                         const char *base)
{
  RengaAdapterDescription description = {.rank = exporter->adapters.rank,
                                         .alpha = exporter->adapters.alpha,
                                         .dropout = exporter->adapters.dropout,
                                         .base = base};
  RengaErrorCode code = ListLayers(exporter, &description);
  if (!code) code = RengaAdapterWriteConfig(folder, &description);
  RengaFree(&description.module);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* ---- the folder: it appears whole or not at all ---- */
static RengaErrorCode FillFolder(Exporter *exporter, const char *folder,
                                 const RengaCheckpointExportSettings *settings)
{
  const bool adapters = exporter->form == EXPORT_ADAPTERS;
  const int64_t most = settings->file_bytes > 0 ? settings->file_bytes : usual_file;
  const RengaSafetensorsSource source = {.table = &exporter->chosen,
                                         .name = adapters ? "adapter_model" : "model",
                                         .type = settings->type,
                                         .file_bytes = adapters ? INT64_MAX : most,
                                         .read = ReadElements,
                                         .user = exporter};
  if (adapters)
    RengaCall(WriteAdapterConfig(exporter, folder, settings->like));
  else if (settings->like)
    RengaCall(RengaSafetensorsCopyFiles(settings->like, folder, settings->type));
  RengaCall(RengaSafetensorsWrite(folder, &source));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeFolder(Exporter *exporter, const RengaCheckpointTarget *target)
{
  const char *folder = target->folder;
  int reason = mkdir(target->partial, 0777) == 0 ? 0 : errno;
  RengaErrorCode code =
      reason ? RENGA_SUCCESS : FillFolder(exporter, target->partial, &target->settings);
  if (!reason && !code) reason = RengaCheckpointDirectorySync(target->partial);
  if (!reason && !code && rename(target->partial, folder) != 0) reason = errno;
  if (code || reason) RengaCheckpointDirectoryRemove(target->partial);
  RengaCall(code);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", folder,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

/* Rank 0. */
static RengaErrorCode ExportFile(const char *file, const RengaCheckpointTable *table,
                                 const RengaCheckpointTarget *target)
{
  Exporter exporter = {.table = table};
  RengaErrorCode code = RengaMapFile(file, &exporter.file);
  if (!code) code = RengaHasherCreate(&exporter.hasher);
  if (!code) code = ChooseForm(&exporter, &target->settings);
  if (!code) code = ChooseEntries(&exporter);
  if (!code) code = MakeFolder(&exporter, target);
  RengaMergerFree(&exporter.merger);
  RengaCheckpointTableFree(&exporter.chosen);
  RengaFree(&exporter.entry);
  RengaHasherDestroy(&exporter.hasher);
  RengaUnmapFile(&exporter.file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointExportFile_Private(RengaComm comm, const char *file,
                                                 const RengaCheckpointTarget *target)
{
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  MPI_Comm ranks;
  bool whole = false;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code = RengaCheckpointFileOpen(comm, file, &table, &whole, message);
  if (!code && whole && RengaCommGetRank(comm) == 0) code = ExportFile(file, &table, target);
  code = RengaErrorAgree(ranks, code);
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  RengaCheck(whole, ranks, RENGA_ERR_FILE_FORMAT, "checkpoint %s: %s", file, message);
  return RENGA_SUCCESS;
}
