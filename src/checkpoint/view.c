/* What is in a checkpoint file. */
#include "checkpointimpl.h"
#include "renga/private/choice.h"
#include "renga/private/same.h"
#include <string.h>

typedef struct {
  char name[128];
  int tensors;
  double elements, bytes;
} Group;

/* "/moments/first_moment/NAME" belongs to "moments/first_moment". */
static RengaErrorCode FindViewGroup(const RengaCheckpointTable *table, int entry, Group groups[],
                                    int *count, int most, Group **group)
{
  char *path, *slash;
  RengaCall(RengaCheckpointTablePath(table, entry, &path));
  if ((slash = strrchr(path, '/')) != NULL) *slash = '\0';
  int i = 0;
  while (i < *count && strcmp(groups[i].name, path + 1) != 0) i++;
  if (i == *count && i < most) {
    snprintf(groups[i].name, sizeof groups[i].name, "%.100s", path + 1);
    ++*count;
  }
  *group = &groups[i < most ? i : most - 1];
  RengaFree(&path);
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewGroups(const RengaCheckpointTable *table, RengaViewer viewer)
{
  enum { MOST = 16 };
  Group groups[MOST] = {{{0}, 0, 0, 0}}, *group = groups;
  int count = 0;
  for (int i = 0; i < table->n_entries; i++) {
    RengaCall(FindViewGroup(table, i, groups, &count, MOST, &group));
    group->tensors++;
    group->elements += (double)RengaTensorSpecCount(&table->entries[i].spec);
    group->bytes += (double)table->entries[i].bytes;
  }
  RengaCall(
      RengaViewerPrintf(viewer, "  %-28s %8s %12s %12s\n", "", "tensors", "elements", "bytes"));
  for (int i = 0; i < count; i++) {
    char elements[16], bytes[16];
    RengaFormatCount(groups[i].elements, sizeof elements, elements);
    RengaFormatBytes(groups[i].bytes, sizeof bytes, bytes);
    RengaCall(RengaViewerPrintf(viewer, "  %-28s %8d %12s %12s\n", groups[i].name,
                                groups[i].tensors, elements, bytes));
  }
  return RENGA_SUCCESS;
}

/* Values of several lines are set in below their name. Secrets of the options, which files of older
   versions hold, are not shown. */
static RengaErrorCode ViewAttributes(const RengaCheckpointTable *table, RengaViewer viewer)
{
  for (int i = 0; i < table->n_attributes; i++) {
    const char *name = table->attributes[i].name, *line = table->attributes[i].value;
    if (strcmp(name, "checksums") == 0) continue;
    RengaCall(RengaViewerPrintf(viewer, "  %-28s", name));
    bool many = strchr(line, '\n') != NULL;
    while (*line) {
      size_t length = strcspn(line, "\n");
      const int secret = RengaSecretInLine_Private(line);
      RengaCall(RengaViewerPrintf(viewer, "%s%.*s%s", many ? "\n    " : " ",
                                  secret ? secret : (int)length, line,
                                  secret ? " (not shown)" : ""));
      line += length + (line[length] == '\n');
    }
    RengaCall(RengaViewerPrintf(viewer, "\n"));
  }
  return RENGA_SUCCESS;
}

/* Of several blocks: the hash of their hashes. */
static uint64_t HashOfEntry(const RengaCheckpointTable *table, int entry)
{
  const uint64_t *hash = &table->hashes[table->entries[entry].first_hash];
  const int64_t count = RengaCheckpointTableBlocks(table, entry);
  return count == 1 ? *hash : RengaHash(hash, (size_t)count * sizeof *hash, 0);
}

static RengaErrorCode ViewTensors(const RengaCheckpointTable *table, RengaViewer viewer)
{
  for (int i = 0; i < table->n_entries; i++) {
    char spec[128], *path;
    RengaTensorSpecFormat(&table->entries[i].spec, sizeof spec, spec);
    RengaCall(RengaCheckpointTablePath(table, i, &path));
    RengaErrorCode code = RengaViewerPrintf(viewer, "  %-60s %-28s %016llx\n", path, spec,
                                            (unsigned long long)HashOfEntry(table, i));
    RengaFree(&path);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewTable(const char *file, const RengaCheckpointTable *table,
                                RengaViewer viewer)
{
  char bytes[16];
  RengaFormatBytes((double)table->file_bytes, sizeof bytes, bytes);
  RengaCall(RengaViewerPrintf(viewer, "checkpoint %s: step %lld, %s, whole\n", file,
                              (long long)table->step, bytes));
  RengaCall(ViewGroups(table, viewer));
  RengaCall(ViewAttributes(table, viewer));
  RengaCall(ViewTensors(table, viewer));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewCheckpointFile(RengaComm comm, const char *file, RengaViewer viewer)
{
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  bool whole;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code = RengaCheckpointFileOpen(comm, file, &table, &whole, message);
  if (code == RENGA_SUCCESS && whole)
    code = RengaCheckpointFileRead(comm, NULL, file, &table, 0, NULL, &whole, message);
  if (code == RENGA_SUCCESS && whole) code = ViewTable(file, &table, viewer);
  RengaCheckpointTableFree(&table);
  RengaCall(code);
  RengaCheck(whole, ranks, RENGA_ERR_FILE_FORMAT, "checkpoint %s: %s", file, message);
  return RENGA_SUCCESS;
}

/*@
   RengaCheckpointView - check a file, and show what is in it

   Collective

   Input:
   . comm - the ranks, which share the work of checking
   . file - its path; or a directory, whose newest whole file is shown
   . viewer - the viewer that it is shown by

   Errors: RENGA_ERR_FILE_OPEN where the file cannot be read; RENGA_ERR_FILE_FORMAT where it is
   no checkpoint or is damaged; RENGA_ERR_FILE_WRITE where the viewer's file does not take it.
   All ranks have the error.

   Notes: a damaged file is an error on all ranks.

   See also: RengaCheckpointPeek(), RengaViewerCreate()
@*/
RengaErrorCode RengaCheckpointView(RengaComm comm, const char *file, RengaViewer viewer)
{
  char *path;
  RengaCheckPointers(comm, file);
  RengaSettingList list = {0};
  RengaSettingAddText_Private(&list, "checkpoint to show", file);
  RengaCall(RengaCommCheckSame_Private(comm, RENGA_ERR_ARGUMENT, "all ranks to name a checkpoint",
                                       &list));
  RengaCall(RengaCheckpointFindFile_Private(comm, file, &path));
  const RengaErrorCode code = ViewCheckpointFile(comm, path, viewer);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}
