/* First values from another run: parameters and states of a file, whatever layout wrote it, by name
   and shape. Its moments, its step and its place in the data are left alone. */
#include "adapters.h"
#include "checkpointimpl.h"
#include "renga/private/wait.h"
#include "safetensors/adapter.h"
#include "safetensors/safetensors.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What is done with a file that is whole. */
typedef struct {
  RengaPipelineParameter *network; /* [initial.network] by name; NULL: only attributes are read */
  bool partial, subset;
  bool adapters; /* of the network these alone, and a folder of these */
  RengaCheckpointInitial initial;
} InitialUse;

/* Which of this rank's tensors come from the file. */
typedef struct {
  RengaPersistent *tensor; /* [count] */
  int count;
} InitialTensors;

static int CompareParameters(const void *a, const void *b)
{
  return strcmp(((const RengaPipelineParameter *)a)->name,
                ((const RengaPipelineParameter *)b)->name);
}

static bool NetworkHas(const InitialUse *use, const char *name)
{
  const RengaPipelineParameter key = {.name = name};
  return bsearch(&key, use->network, (size_t)use->initial.network, sizeof key, CompareParameters);
}

/* A tensor of the network that the file lacks, or has in another shape, is a difference. */
static bool MatchInitial(const RengaCheckpointTable *table, const RengaPipelineParameter *wanted,
                         RengaCheckpointDifferences *differences)
{
  const int found = RengaCheckpointTableFind(table, wanted->name);
  char here[128], there[128];
  if (found >= 0 && RengaCheckpointSpecFits(&wanted->spec, &table->entries[found].spec))
    return true;
  RengaTensorSpecFormat(&wanted->spec, sizeof here, here);
  if (found < 0) {
    RengaCheckpointDifferencesAdd(differences, "%s %s of the network is not in the file",
                                  wanted->name, here);
  } else {
    RengaTensorSpecFormat(&table->entries[found].spec, sizeof there, there);
    RengaCheckpointDifferencesAdd(differences, "%s is %s in the network, %s in the file",
                                  wanted->name, here, there);
  }
  return false;
}

/* Adapters begin as they are where the file is of the network without any. */
static bool HasAdapters(const RengaCheckpointTable *table, const InitialUse *use)
{
  for (int i = 0; i < use->initial.network; i++)
    if (use->network[i].adapter && RengaCheckpointTableFind(table, use->network[i].name) >= 0)
      return true;
  return use->adapters;
}

/* The same on every rank: all know the network's tensors and the file's. Moments of the file are
   not looked for. */
static RengaErrorCode FindInitialDifferences(const RengaCheckpointTable *table, InitialUse *use,
                                             RengaCheckpointDifferences *differences)
{
  const bool adapters = HasAdapters(table, use);
  use->initial.taken = 0;
  for (int i = 0; i < use->initial.network; i++)
    if (adapters || !use->network[i].adapter)
      use->initial.taken += MatchInitial(table, &use->network[i], differences);
  for (int i = 0; i < table->n_entries && !use->subset; i++) {
    bool moment = true;
    if (NetworkHas(use, table->entries[i].name)) continue;
    if (RengaCheckpointIsExtra_Private(table->entries[i].name)) continue;
    RengaCall(RengaCheckpointTableIsMoment(table, i, &moment));
    if (!moment)
      RengaCheckpointDifferencesAdd(differences, "%s of the file is not in the network",
                                    table->entries[i].name);
  }
  return RENGA_SUCCESS;
}

/* What helps the user of a program that reads -initial. */
static RengaErrorCode GetPartialHint(const InitialUse *use, const char **hint)
{
  const char *path;
  bool given;
  RengaCall(RengaOptionsGetString("initial", &path, &given));
  given = given && !use->adapters;
  *hint = use->partial ? " and not one tensor that fits"
          : given      ? " (-initial_partial takes what fits)"
                       : "";
  return RENGA_SUCCESS;
}

/* A file may hold more than is evaluated, but not adapters without which it would be another
   network. */
static RengaErrorCode CheckHasAdapters(MPI_Comm comm, const char *path,
                                       const RengaCheckpointTable *table, const InitialUse *use)
{
  RengaCheckpointAdapters adapters;
  bool has = !use->subset;
  RengaCall(RengaCheckpointFindAdapters_Private(path, table, &adapters));
  for (int i = 0; i < use->initial.network; i++) has = has || use->network[i].adapter;
  RengaCheck(has || adapters.rank == 0, comm, RENGA_ERR_OPTION,
             "%s has adapters of rank %lld, and the network has none: give -graph_lora and its "
             "targets as its run did",
             path, (long long)adapters.rank);
  return RENGA_SUCCESS;
}

/* Factors alone do not say how often they count. */
static RengaErrorCode CheckAlpha(RengaCheckpoint checkpoint, const char *path,
                                 const RengaCheckpointTable *table)
{
  RengaCheckpointAdapters adapters;
  RengaGraphLora lora = {.rank = 0};
  RengaGraph graph;
  RengaCall(RengaCheckpointFindAdapters_Private(path, table, &adapters));
  RengaCall(RengaPipelineGetGraph(checkpoint->pipeline, &graph));
  if (graph) RengaCall(RengaGraphGetLora(graph, &lora));
  RengaCheck(adapters.rank == 0 || lora.rank == 0 || adapters.alpha == lora.alpha,
             checkpoint->hdr.comm, RENGA_ERR_OPTION,
             "the adapters of %s have alpha %g, and those of the network %g, with which they would "
             "compute something else: give -graph_lora_alpha %g",
             path, adapters.alpha, lora.alpha, adapters.alpha);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckInitialDifferences(RengaCheckpoint checkpoint, const char *path,
                                              const RengaCheckpointTable *table, InitialUse *use)
{
  RengaCheckpointDifferences differences = {"", 0};
  MPI_Comm comm = checkpoint->hdr.comm;
  const char *hint;
  RengaCall(CheckHasAdapters(comm, path, table, use));
  if (!use->adapters) RengaCall(CheckAlpha(checkpoint, path, table));
  RengaCall(GetPartialHint(use, &hint));
  RengaCall(RengaErrorAgree(comm, FindInitialDifferences(table, use, &differences)));
  if (!differences.count) return RENGA_SUCCESS;
  RengaCheck(use->partial && use->initial.taken > 0, comm, RENGA_ERR_SHAPE,
             "%s holds %s, %d differences%s:%s%s", path,
             use->adapters ? "other adapters" : "another network", differences.count, hint,
             differences.text, RengaCheckpointDifferencesMore(&differences));
  RengaWarning(comm, "%s and the network have %d differences, which keep what they are:%s%s", path,
               differences.count, differences.text, RengaCheckpointDifferencesMore(&differences));
  return RENGA_SUCCESS;
}

static RengaErrorCode SelectInitial(RengaCheckpoint checkpoint, const RengaCheckpointTable *table,
                                    const InitialUse *use, InitialTensors *select)
{
  const RengaPersistent *tensors;
  int count;
  RengaCall(RengaPipelineGetPersistents(checkpoint->pipeline, &count, &tensors));
  RengaCall(RengaMalloc(count + 1, &select->tensor));
  for (int t = 0; t < count; t++) {
    const int found = RengaCheckpointTableFind(table, tensors[t].name);
    if (found >= 0 && NetworkHas(use, tensors[t].name) &&
        RengaCheckpointSpecFits(&tensors[t].spec, &table->entries[found].spec))
      select->tensor[select->count++] = tensors[t];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadInitial(RengaCheckpoint checkpoint, const char *path,
                                  const RengaCheckpointTable *table, const InitialUse *use,
                                  bool *whole, char message[RENGA_CHECKPOINT_MESSAGE])
{
  InitialTensors select = {NULL, 0};
  RengaDevice device;
  RengaErrorCode code = SelectInitial(checkpoint, table, use, &select);
  if (!code) code = RengaPipelineGetDevice(checkpoint->pipeline, &device);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (!code)
    code = RengaCheckpointFileRead(checkpoint->hdr.owner, device, path, table, select.count,
                                   select.tensor, whole, message);
  RengaFree(&select.tensor);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Its table, and its tensors if they are asked for. */
static RengaErrorCode OpenInitial(RengaCheckpoint checkpoint, const char *path, InitialUse *use,
                                  RengaCheckpointTable *table, bool *whole,
                                  char message[RENGA_CHECKPOINT_MESSAGE])
{
  RengaCall(RengaCheckpointFileOpen(checkpoint->hdr.owner, path, table, whole, message));
  if (!*whole || !use->network) return RENGA_SUCCESS;
  RengaCall(CheckInitialDifferences(checkpoint, path, table, use));
  RengaCall(ReadInitial(checkpoint, path, table, use, whole, message));
  return RENGA_SUCCESS;
}

/* One file; a damaged one is told by *whole and message. */
static RengaErrorCode UseInitialFile(RengaCheckpoint checkpoint, const char *path, InitialUse *use,
                                     bool *whole, char message[RENGA_CHECKPOINT_MESSAGE])
{
  RengaCheckpointTable table = {0};
  const RengaLogEvent event = RengaCheckpointEvent_Private(RENGA_CHECKPOINT_READ);
  if (use->network) RengaLogEventBegin(event);
  const RengaErrorCode code = OpenInitial(checkpoint, path, use, &table, whole, message);
  if (use->network) RengaLogEventEnd(event, 0, 0, !code && *whole ? table.file_bytes : 0);
  if (!code && *whole) {
    use->initial.step = table.step;
    RengaCheckpointKeepFound_Private(checkpoint, &table);
    return RENGA_SUCCESS;
  }
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The newest whole file, those that a step followed that was not finite last. */
static RengaErrorCode UseInitialFiles(RengaCheckpoint checkpoint, const char *directory, int count,
                                      RengaCheckpointFileInfo files[], InitialUse *use)
{
  bool whole = false;
  RengaCheck(count > 0, checkpoint->hdr.comm, RENGA_ERR_FILE_OPEN,
             "directory %s holds no checkpoint to take parameters from", directory);
  RengaCheckpointPutBadLast_Private(checkpoint->hdr.comm, count, files);
  for (int i = 0; i < count && !whole; i++) {
    char message[RENGA_CHECKPOINT_MESSAGE] = "", *path = NULL;
    RengaErrorCode code = RengaErrorAgree(
        checkpoint->hdr.comm, RengaCheckpointDirectoryPath(directory, files[i].step, &path));
    if (!code) code = UseInitialFile(checkpoint, path, use, &whole, message);
    if (!code && !whole)
      RengaWarning(checkpoint->hdr.comm, "checkpoint %s is damaged: %s", path, message);
    RengaFree(&path);
    RengaCall(code);
  }
  RengaCheck(whole, checkpoint->hdr.comm, RENGA_ERR_FILE_FORMAT,
             "none of the %d checkpoints in %s is whole", count, directory);
  return RENGA_SUCCESS;
}

/* ---- folders of Hugging Face ---- */
/* Rank 0. */
static RengaErrorCode ReadAdapterTable(RengaCheckpoint checkpoint, const char *path,
                                       RengaCheckpointTable *table)
{
  RengaGraph graph;
  RengaGraphLora lora;
  RengaCall(RengaPipelineGetGraph(checkpoint->pipeline, &graph));
  RengaCall(RengaGraphGetLora(graph, &lora));
  RengaCall(RengaAdapterRead(path, &lora, table));
  RengaCall(RengaCheckpointTableCountHashes(table)); /* it has none */
  return RENGA_SUCCESS;
}

/* Rank 0. */
static RengaErrorCode ReadFolderTable(const char *path, const InitialUse *use,
                                      RengaCheckpointTable *table)
{
  const char **names = NULL;
  RengaCall(RengaSafetensorsReadFolder(path, table));
  RengaCall(RengaMalloc(use->initial.network + 1, &names));
  for (int i = 0; i < use->initial.network; i++) names[i] = use->network[i].name;
  RengaErrorCode code = RENGA_SUCCESS;
  if (use->network) code = RengaSafetensorsMatchNames(use->initial.network, names, table);
  RengaFree(&names);
  RengaCall(code);
  RengaCall(RengaCheckpointTableCountHashes(table)); /* it has none */
  table->step = -1;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadFolderParts(RengaCheckpoint checkpoint, const char *path,
                                      const RengaCheckpointTable *table, const InitialUse *use)
{
  InitialTensors select = {NULL, 0};
  MPI_Comm comm = checkpoint->hdr.comm;
  RengaDevice device;
  int worst = INT_MAX;
  RengaErrorCode code = SelectInitial(checkpoint, table, use, &select);
  if (!code) code = RengaPipelineGetDevice(checkpoint->pipeline, &device);
  if (!code) code = RengaSafetensorsReadParts(device, table, select.count, select.tensor, &worst);
  RengaFree(&select.tensor);
  RengaCall(RengaErrorAgree(comm, code));
  int64_t least = worst;
  RengaCall(RengaReduceInt64_Private(comm, MPI_MIN, &least, "all ranks to read a folder"));
  RengaCheck(least == INT_MAX, comm, RENGA_ERR_NUMERIC, "%s: %s has a number that is not finite",
             path, table->entries[least == INT_MAX ? 0 : least].name);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenFolder(RengaCheckpoint checkpoint, const char *path, InitialUse *use,
                                 RengaCheckpointTable *table)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaCommGetRank(checkpoint->hdr.owner) == 0)
    code = use->adapters ? ReadAdapterTable(checkpoint, path, table)
                         : ReadFolderTable(path, use, table);
  RengaCall(RengaErrorAgree(checkpoint->hdr.comm, code));
  RengaCall(RengaCheckpointTableBroadcast(checkpoint->hdr.owner, table));
  if (!use->network) return RENGA_SUCCESS;
  RengaCall(CheckInitialDifferences(checkpoint, path, table, use));
  RengaCall(ReadFolderParts(checkpoint, path, table, use));
  return RENGA_SUCCESS;
}

/* Its files are no checkpoint: they have no step, no attributes, and no checksums. */
static RengaErrorCode UseInitialFolder(RengaCheckpoint checkpoint, const char *path,
                                       InitialUse *use)
{
  RengaCheckpointTable table = {0};
  const RengaErrorCode code = OpenFolder(checkpoint, path, use, &table);
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  use->initial.step = -1;
  return RENGA_SUCCESS;
}

/* As rank 0 sees it. */
static RengaErrorCode IsFolder(RengaComm comm, const char *path, bool *folder)
{
  *folder = RengaCommGetRank(comm) == 0 && RengaSafetensorsIsThere(path);
  RengaCall(RengaCommBroadcast(comm, folder, sizeof *folder, 0,
                               "whether a checkpoint is a folder of Hugging Face"));
  return RENGA_SUCCESS;
}

/* As rank 0 sees it. */
static RengaErrorCode CheckIsNetwork(RengaComm comm, MPI_Comm ranks, const char *path)
{
  bool adapter = RengaCommGetRank(comm) == 0 && RengaAdapterIsThere(path);
  RengaCall(RengaCommBroadcast(comm, &adapter, sizeof adapter, 0, "whether a folder has adapters"));
  RengaCheck(!adapter, ranks, RENGA_ERR_FILE_FORMAT,
             "%s has adapters alone: -initial reads the folder of their network, -initial_adapter "
             "this one",
             path);
  return RENGA_SUCCESS;
}

/* As rank 0 sees it. */
static RengaErrorCode IsDirectory(RengaComm comm, const char *path, bool *directory)
{
  struct stat status;
  *directory = RengaCommGetRank(comm) == 0 && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
  RengaCall(RengaCommBroadcast(comm, directory, sizeof *directory, 0,
                               "whether a checkpoint is a file or a directory"));
  return RENGA_SUCCESS;
}

static RengaErrorCode UseInitial(RengaCheckpoint checkpoint, const char *path, InitialUse *use)
{
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  RengaCheckpointFileInfo *files;
  bool directory, folder, whole;
  int count;
  RengaCall(IsFolder(checkpoint->hdr.owner, path, &folder));
  if (folder) {
    RengaCall(UseInitialFolder(checkpoint, path, use));
    return RENGA_SUCCESS;
  }
  RengaCall(CheckIsNetwork(checkpoint->hdr.owner, checkpoint->hdr.comm, path));
  RengaCall(IsDirectory(checkpoint->hdr.owner, path, &directory));
  if (directory) {
    RengaCall(RengaCheckpointListShared_Private(checkpoint, path, &count, &files));
    const RengaErrorCode code = UseInitialFiles(checkpoint, path, count, files, use);
    RengaFree(&files);
    RengaCall(code);
    return RENGA_SUCCESS;
  }
  RengaCall(UseInitialFile(checkpoint, path, use, &whole, message));
  RengaCheck(whole, checkpoint->hdr.comm, RENGA_ERR_FILE_FORMAT, "checkpoint %s: %s", path,
             message);
  return RENGA_SUCCESS;
}

static RengaErrorCode ListNetwork(RengaCheckpoint checkpoint, InitialUse *use)
{
  const RengaPipelineParameter *list;
  const size_t each = sizeof *list;
  int count;
  RengaCall(RengaPipelineListParameters(checkpoint->pipeline, &count, &list));
  RengaCall(RengaMalloc(count + 1, &use->network));
  for (int i = 0; i < count; i++)
    if (!use->adapters || list[i].adapter) use->network[use->initial.network++] = list[i];
  qsort(use->network, (size_t)use->initial.network, each, CompareParameters);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointReadInitial - begin with the parameters of another run

   Collective

   Input:
   . checkpoint - the checkpoint, with a pipeline that is set up; no directory is needed
   . path - a file, or a directory, whose newest whole file is read. It may be a folder of Hugging
     Face with model.safetensors or model.safetensors.index.json, or one such file. It is the same
     on all ranks
   . partial - true: a tensor of the network that the file lacks, or has in another shape, keeps its
     values, and other tensors of the file are left alone. false: each of these is an error

   Output:
   . initial - the file's step, -1 of a folder of Hugging Face, and how many tensors were taken

   Options:
   . -initial - asks programs for this call
   . -initial_partial - asks them for partial

   Errors: RENGA_ERR_SHAPE names the differences, all ranks with the same sentence; nothing has
   changed then. RENGA_ERR_FILE_FORMAT for a damaged file, which may have overwritten values;
   RENGA_ERR_NUMERIC for a folder of Hugging Face with a number that is not finite.

   Notes: parameters and states (running statistics) are matched by name and shape, whatever layout
   wrote them. Moments of the optimizer, the step number, and the place in the data stay those of a
   new run. With RengaCheckpointSetSubset the file may hold more than the network without a word,
   but for adapters where the network has none, which is RENGA_ERR_OPTION. Adapters of the network
   (RengaGraphSetLora) keep their values where the file has none.
   The file's attributes are then those of RengaCheckpointGetAttribute. Of a folder of Hugging Face
   the numbers may be float32, float16 or bfloat16; its names are those of the network, or those
   without their first word; each rank reads what it has of each tensor.

   See also: RengaCheckpointPeekInitial(), RengaCheckpointRead()
@*/
RengaErrorCode RengaCheckpointReadInitial(RengaCheckpoint checkpoint, const char *path,
                                          bool partial, RengaCheckpointInitial *initial)
{
  InitialUse use = {.partial = partial};
  RengaCheckPointers(checkpoint, path, initial);
  RengaCheck(checkpoint->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaCheckpointReadInitial: call RengaCheckpointSetPipeline first");
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, path));
  use.subset = checkpoint->subset;
  RengaErrorCode code = ListNetwork(checkpoint, &use);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (!code) code = UseInitial(checkpoint, path, &use);
  RengaFree(&use.network);
  RengaCall(code);
  *initial = use.initial;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointReadAdapter - begin with the adapters of a folder of peft

   Collective

   Input:
   . checkpoint - the checkpoint, with a pipeline that is set up; no directory is needed
   . path - a folder with adapter_model.safetensors and adapter_config.json; the same on all ranks

   Output:
   . initial - step -1, and how many tensors were taken of those that the network's adapters have

   Options:
   . -initial_adapter - asks programs for this call

   Errors: RENGA_ERR_SHAPE names what one of both has alone, or in another shape; RENGA_ERR_OPTION
   where the network has no adapters, or counts them otherwise (alpha / rank); RENGA_ERR_SUPPORT for
   a key of adapter_config.json that makes other adapters; RENGA_ERR_FILE_OPEN,
   RENGA_ERR_FILE_FORMAT and RENGA_ERR_NUMERIC for files that are missing, damaged, or hold a number
   that is not finite. All ranks have the error; nothing has changed then, but for the last.

   Notes: what is no adapter keeps its values: RengaCheckpointReadInitial takes them from the folder
   that the adapters were trained for. Names are those of the network behind base_model.model.

   See also: RengaGraphSetLora(), RengaCheckpointReadInitial(), RengaCheckpointExport()
@*/
RengaErrorCode RengaCheckpointReadAdapter(RengaCheckpoint checkpoint, const char *path,
                                          RengaCheckpointInitial *initial)
{
  InitialUse use = {.adapters = true};
  RengaCheckPointers(checkpoint, path, initial);
  RengaCheck(checkpoint->pipeline, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaCheckpointReadAdapter: call RengaCheckpointSetPipeline first");
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, path));
  RengaErrorCode code = ListNetwork(checkpoint, &use);
  code = RengaErrorAgree(checkpoint->hdr.comm, code);
  if (!code) code = UseInitialFolder(checkpoint, path, &use);
  RengaFree(&use.network);
  RengaCall(code);
  *initial = use.initial;
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointPeekInitial - the attributes of the file that RengaCheckpointReadInitial would
   read

   Collective

   Input:
   . checkpoint - no pipeline is needed
   . path - a file, or a directory: its newest whole file; the same on all ranks

   Output:
   . step - the number of the file's step, at least 0

   Errors: RENGA_ERR_FILE_OPEN where there is no checkpoint; RENGA_ERR_FILE_FORMAT where none is
   whole. All ranks have the error.

   Notes: RengaCheckpointGetAttribute then gives them. For what must be known before a pipeline can
   be set up: the sizes that the run was begun with. Tensors are not looked at.

   See also: RengaCheckpointReadInitial(), RengaCheckpointPeek()
@*/
RengaErrorCode RengaCheckpointPeekInitial(RengaCheckpoint checkpoint, const char *path,
                                          int64_t *step)
{
  InitialUse use = {.network = NULL};
  RengaCheckPointers(checkpoint, path, step);
  RengaCall(RengaCheckpointCheckSame_Private(checkpoint, path));
  RengaCall(UseInitial(checkpoint, path, &use));
  *step = use.initial.step;
  return RENGA_SUCCESS;
}

/* A file stays; of a directory the newest whole file. RengaFree(file). */
RengaErrorCode RengaCheckpointFindFile_Private(RengaComm comm, const char *path, char **file)
{
  RengaCheckpoint checkpoint = NULL;
  bool directory, folder;
  MPI_Comm ranks;
  int64_t step;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCall(IsFolder(comm, path, &folder));
  RengaCheck(!folder, ranks, RENGA_ERR_FILE_FORMAT,
             "%s is of Hugging Face, and no checkpoint: -initial reads it", path);
  RengaCall(IsDirectory(comm, path, &directory));
  if (!directory) {
    RengaCall(RengaStringCopy(path, file));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  const RengaErrorCode code = RengaCheckpointPeekInitial(checkpoint, path, &step);
  RengaCheckpointDestroy(&checkpoint);
  RengaCall(code);
  RengaCall(RengaCheckpointDirectoryPath(path, step, file));
  return RENGA_SUCCESS;
}
