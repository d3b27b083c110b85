/* Writing a checkpoint: rank 0 lays the file out and reserves its space, every owner writes its
   tensors into the reserved places, rank 0 adds checksums and renames. Collective HDF5 would hang
   on a full disk; this does not, and is faster. */
#include "file.h"
#include "renga/private/gather.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <unistd.h>

/* A write under way. */
typedef struct {
  RengaComm comm;
  RengaDevice device;
  const char *path;
  char *temporary; /* on the same file system, renamed at the end */
  int count;
  const RengaPersistent *tensors;
  int n_owned;
  int *position;    /* rank 0: of the gathered tensors, rank after rank, in the sorted table */
  int64_t *offsets; /* of this rank's tensors */
  uint64_t *hashes;
} Writer;

static RengaErrorCode CheckNames(const RengaCheckpointTable *table)
{
  for (int i = 1; i < table->n_entries; i++)
    RengaCheck(strcmp(table->entries[i - 1].name, table->entries[i].name) != 0, MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "two ranks own tensor %s", table->entries[i].name);
  return RENGA_SUCCESS;
}

/* Rank 0: sorts the table and remembers where the tensors, in the order of ranks, went. */
static RengaErrorCode SortTable(Writer *writer, RengaCheckpointTable *table)
{
  RengaCheckpointTable sorted = {0};
  RengaCall(RengaMalloc(table->n_entries, &writer->position));
  for (int i = 0; i < table->n_entries; i++) {
    const RengaCheckpointEntry *entry = &table->entries[i];
    RengaCall(RengaCheckpointTableAdd(&sorted, entry->name, &entry->spec, entry->state));
  }
  RengaCheckpointTableSort(&sorted);
  for (int i = 0; i < table->n_entries; i++) {
    writer->position[i] = RengaCheckpointTableFind(&sorted, table->entries[i].name);
    RengaFree(&table->entries[i].name);
  }
  RengaFree(&table->entries);
  table->entries = sorted.entries;
  RengaCall(CheckNames(table));
  return RENGA_SUCCESS;
}

/* Every byte the file will have; a full disk is found here, before anybody writes. */
static RengaErrorCode ReserveSpace(Writer *writer, RengaCheckpointTable *table)
{
  int file = open(writer->temporary, O_RDWR | O_CLOEXEC);
  int reason = file < 0 ? errno : 0;
  if (reason == 0) {
    table->file_bytes = lseek(file, 0, SEEK_END);
    reason = posix_fallocate(file, 0, table->file_bytes);
  }
  if (file >= 0) close(file);
  char size[16];
  RengaFormatBytes((double)table->file_bytes, sizeof size, size);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s (%s): %s", writer->path, size,
             strerror(reason));
  return RENGA_SUCCESS;
}

static RengaErrorCode LayOut(Writer *writer, RengaCheckpointTable *table)
{
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  RengaCall(SortTable(writer, table));
  RengaCheck(RengaCheckpointLayoutCreate(writer->temporary, table, message), MPI_COMM_SELF,
             RENGA_ERR_FILE_WRITE, "%s: %s", writer->path, message);
  RengaCall(ReserveSpace(writer, table));
  return RENGA_SUCCESS;
}

/* Offsets from rank 0, which has them for the tensors of all ranks, rank after rank. */
static RengaErrorCode ShareOffsets(Writer *writer, const RengaCheckpointTable *table)
{
  static const char what[] = "the places of a checkpoint's tensors";
  int rank = RengaCommGetRank(writer->comm), size = RengaCommGetSize(writer->comm);
  int64_t *counts, *all, total = 0, first = 0, mine = writer->n_owned;
  RengaCall(RengaMalloc(size, &counts));
  RengaCall(RengaCommGather(writer->comm, &mine, sizeof mine, counts, -1, what));
  for (int i = 0; i < size; i++) {
    if (i < rank) first += counts[i];
    total += counts[i];
  }
  RengaCall(RengaMalloc(total, &all));
  for (int64_t i = 0; rank == 0 && i < total; i++)
    all[i] = table->entries[writer->position[i]].offset;
  RengaCall(RengaCommBroadcast(writer->comm, all, (size_t)total * sizeof *all, 0, what));
  memcpy(writer->offsets, all + first, (size_t)mine * sizeof *all);
  RengaFree(&all);
  RengaFree(&counts);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteOwned(Writer *writer, int file, RengaTransfer transfer)
{
  int owned = 0, reason = 0;
  for (int i = 0; i < writer->count; i++) {
    const RengaPersistent *tensor = &writer->tensors[i];
    if (!tensor->owner) continue;
    RengaCall(RengaTransferWrite(transfer, file, writer->offsets[owned],
                                 (int64_t)RengaTensorSpecBytes(&tensor->spec), tensor->data,
                                 &writer->hashes[owned], &reason));
    RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: tensor %s: %s", writer->path,
               tensor->name, strerror(reason));
    owned++;
  }
  RengaCheck(fsync(file) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", writer->path,
             strerror(errno));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteTensors(Writer *writer)
{
  RengaTransfer transfer = NULL;
  if (writer->n_owned == 0) return RENGA_SUCCESS;
  int file = open(writer->temporary, O_WRONLY | O_CLOEXEC);
  RengaCheck(file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "%s, which rank 0 has made: %s; is the directory shared by all nodes?",
             writer->temporary, strerror(errno));
  RengaErrorCode code = RengaTransferCreate(writer->device, &transfer);
  if (code == RENGA_SUCCESS) code = WriteOwned(writer, file, transfer);
  RengaTransferDestroy(&transfer);
  close(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherHashes(Writer *writer, RengaCheckpointTable *table)
{
  char *all;
  size_t *sizes;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(writer->comm, &ranks));
  RengaCall(RengaGatherBytes(ranks, writer->hashes,
                             (size_t)writer->n_owned * sizeof *writer->hashes, &all, &sizes,
                             "all ranks to write their part of the checkpoint"));
  for (int i = 0; all && i < table->n_entries; i++)
    memcpy(&table->entries[writer->position[i]].hash, all + (size_t)i * sizeof(uint64_t),
           sizeof(uint64_t));
  RengaFree(&all);
  RengaFree(&sizes);
  return RENGA_SUCCESS;
}

/* Rank 0: checksums and head, all on the disk, then the name. */
static RengaErrorCode Publish(Writer *writer, const RengaCheckpointTable *table)
{
  char message[RENGA_CHECKPOINT_MESSAGE] = "", *directory;
  int file = open(writer->temporary, O_RDWR | O_CLOEXEC);
  bool good = file >= 0;
  if (!good) snprintf(message, sizeof message, "%s", strerror(errno));
  good = good && RengaCheckpointHeadWrite(file, table, message);
  if (good && (fsync(file) != 0 || rename(writer->temporary, writer->path) != 0)) {
    snprintf(message, sizeof message, "%s", strerror(errno));
    good = false;
  }
  if (file >= 0) close(file);
  RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", writer->path, message);
  RengaCall(RengaStringCopy(writer->path, &directory));
  int reason = RengaCheckpointDirectorySync(dirname(directory));
  RengaFree(&directory);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "directory of %s: %s", writer->path,
             strerror(reason));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteSteps(Writer *writer, RengaCheckpointTable *table)
{
  bool root = RengaCommGetRank(writer->comm) == 0;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(writer->comm, &ranks));
  RengaCall(RengaCheckpointTableGather(writer->comm, writer->count, writer->tensors, table));
  RengaCall(RengaErrorAgree(ranks, root ? LayOut(writer, table) : RENGA_SUCCESS));
  RengaCall(ShareOffsets(writer, table));
  RengaCall(RengaErrorAgree(ranks, WriteTensors(writer)));
  RengaCall(GatherHashes(writer, table));
  RengaCall(RengaErrorAgree(ranks, root ? Publish(writer, table) : RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointFileWrite(RengaComm comm, RengaDevice device, const char *path,
                                        int count, const RengaPersistent tensors[],
                                        RengaCheckpointTable *table)
{
  Writer writer = {
      .comm = comm, .device = device, .path = path, .count = count, .tensors = tensors};
  for (int i = 0; i < count; i++) writer.n_owned += tensors[i].owner;
  RengaCall(RengaMalloc(strlen(path) + 16, &writer.temporary));
  sprintf(writer.temporary, "%s.tmp", path);
  RengaCall(RengaMalloc(writer.n_owned, &writer.offsets));
  RengaCall(RengaMalloc(writer.n_owned, &writer.hashes));
  RengaErrorCode code = WriteSteps(&writer, table);
  if (code != RENGA_SUCCESS && RengaCommGetRank(comm) == 0) unlink(writer.temporary);
  RengaFree(&writer.temporary);
  RengaFree(&writer.offsets);
  RengaFree(&writer.hashes);
  RengaFree(&writer.position);
  RengaCall(code);
  return RENGA_SUCCESS;
}
