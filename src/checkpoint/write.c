/* Writing a checkpoint: rank 0 lays the file out and reserves its space, every owner writes its
   tensors into the reserved places, rank 0 adds checksums and renames. Collective HDF5 would hang
   on a full disk; this does not, and is faster. */
#include "file.h"
#include "renga/private/fault.h"
#include "renga/private/gather.h"
#include "renga/private/image.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A write under way. */
typedef struct {
  RengaComm comm;
  MPI_Comm ranks; /* of comm */
  RengaDevice device;
  const char *path;
  char *temporary; /* on the same file system, renamed at the end */
  int count;
  const RengaPersistent *tensors;
  int n_owned;
  int64_t *counts;  /* [ranks] how many tensors each owns */
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
  RengaErrorCode code = RengaMalloc(table->n_entries, &writer->position);
  for (int i = 0; i < table->n_entries && code == RENGA_SUCCESS; i++) {
    const RengaCheckpointEntry *entry = &table->entries[i];
    code = RengaCheckpointTableAdd(&sorted, entry->name, &entry->spec, entry->state);
  }
  if (code != RENGA_SUCCESS) RengaCheckpointTableFree(&sorted);
  RengaCall(code);
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

/* The file on the disk: every byte it will have is reserved, and names and shapes stand in it. A
   full disk is found here, before anybody writes. */
static RengaErrorCode ReserveSpace(Writer *writer, const RengaImage *image, int64_t bytes)
{
  int file = open(writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  int reason = file < 0 ? errno : RengaWritten(0) ? EIO : posix_fallocate(file, 0, bytes);
  if (reason == 0) reason = RengaImageCopy(image, file, 0, NULL);
  if (file >= 0 && close(file) != 0 && reason == 0) reason = errno;
  char size[16];
  RengaFormatBytes((double)bytes, sizeof size, size);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s (%s): %s", writer->path, size,
             strerror(reason));
  return RENGA_SUCCESS;
}

/* More than HDF5 will make of it. */
static int64_t MostBytes(const RengaCheckpointTable *table)
{
  enum { OBJECT = 8192, REST = 1 << 20 };
  int64_t bytes = REST;
  for (int i = 0; i < table->n_entries; i++)
    bytes += table->entries[i].bytes + OBJECT + 4 * (int64_t)strlen(table->entries[i].name);
  for (int i = 0; i < table->n_attributes; i++)
    bytes += (int64_t)strlen(table->attributes[i].value) + OBJECT;
  return bytes;
}

static RengaErrorCode MakeLayout(Writer *writer, RengaImage *image, RengaCheckpointTable *table)
{
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  int reason = RengaImageMayHold(MostBytes(table)) ? RengaImageCreate(image) : EFBIG;
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", writer->path,
             strerror(reason));
  RengaCheck(RengaCheckpointLayoutCreate(image->path, table, message), MPI_COMM_SELF,
             RENGA_ERR_FILE_WRITE, "%s: %s", writer->path, message);
  table->file_bytes = RengaImageBytes(image);
  RengaCall(ReserveSpace(writer, image, table->file_bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode LayOut(Writer *writer, RengaCheckpointTable *table)
{
  RengaImage image = {.descriptor = -1};
  RengaCall(SortTable(writer, table));
  RengaErrorCode code = MakeLayout(writer, &image, table);
  RengaImageClose(&image);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Offsets from rank 0, which has them for the tensors of all ranks, rank after rank. */
static RengaErrorCode ShareOffsets(Writer *writer, const RengaCheckpointTable *table)
{
  int rank = RengaCommGetRank(writer->comm), size = RengaCommGetSize(writer->comm);
  int64_t *all = NULL, total = 0, first = 0;
  for (int i = 0; i < size; i++) {
    if (i < rank) first += writer->counts[i];
    total += writer->counts[i];
  }
  RengaErrorCode code = RengaErrorAgree(writer->ranks, RengaMalloc(total, &all));
  for (int64_t i = 0; rank == 0 && i < total && !code; i++)
    all[i] = table->entries[writer->position[i]].offset;
  if (!code)
    code = RengaCommBroadcast(writer->comm, all, (size_t)total * sizeof *all, 0,
                              "the places of a checkpoint's tensors");
  if (code == RENGA_SUCCESS)
    memcpy(writer->offsets, all + first, (size_t)writer->n_owned * sizeof *all);
  RengaFree(&all);
  RengaCall(code);
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
  RengaCheck(RengaWritten(fsync(file)) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s",
             writer->path, strerror(errno));
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
  RengaCall(RengaGatherBytes(writer->ranks, writer->hashes,
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
  if (good && (RengaWritten(fsync(file)) != 0 ||
               RengaWritten(rename(writer->temporary, writer->path)) != 0)) {
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
  const bool root = RengaCommGetRank(writer->comm) == 0;
  const MPI_Comm ranks = writer->ranks;
  const int64_t mine = writer->n_owned;
  RengaCall(RengaCheckpointTableGather(writer->comm, writer->count, writer->tensors, table));
  RengaCall(RengaErrorAgree(ranks, root ? LayOut(writer, table) : RENGA_SUCCESS));
  RengaCall(RengaCommGather(writer->comm, &mine, sizeof mine, writer->counts, -1,
                            "the numbers of a checkpoint's tensors"));
  RengaCall(ShareOffsets(writer, table));
  RengaCall(RengaErrorAgree(ranks, WriteTensors(writer)));
  RengaCall(GatherHashes(writer, table));
  RengaCall(RengaErrorAgree(ranks, root ? Publish(writer, table) : RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

/* A name that no other run, alive or dead, has: rank 0's, to all. */
static RengaErrorCode NameTemporary(Writer *writer)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t seed[] = {now.tv_sec, now.tv_nsec, getpid(), gethostid()};
  uint64_t token = RengaHash(seed, sizeof seed, 2);
  RengaCall(RengaCommBroadcast(writer->comm, &token, sizeof token, 0, "a checkpoint's name"));
  RengaCall(RengaMalloc(strlen(writer->path) + 32, &writer->temporary));
  sprintf(writer->temporary, "%s.%016llx.tmp", writer->path, (unsigned long long)token);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeWriter(Writer *writer)
{
  for (int i = 0; i < writer->count; i++) writer->n_owned += writer->tensors[i].owner;
  RengaCall(NameTemporary(writer));
  RengaCall(RengaMalloc(RengaCommGetSize(writer->comm), &writer->counts));
  RengaCall(RengaMalloc(writer->n_owned, &writer->offsets));
  RengaCall(RengaMalloc(writer->n_owned, &writer->hashes));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointFileWrite(RengaComm comm, RengaDevice device, const char *path,
                                        int count, const RengaPersistent tensors[],
                                        RengaCheckpointTable *table)
{
  Writer writer = {
      .comm = comm, .device = device, .path = path, .count = count, .tensors = tensors};
  RengaCall(RengaObjectGetComm(comm, &writer.ranks));
  RengaErrorCode code = RengaErrorAgree(writer.ranks, MakeWriter(&writer));
  if (code == RENGA_SUCCESS) code = WriteSteps(&writer, table);
  if (code != RENGA_SUCCESS && writer.temporary && RengaCommGetRank(comm) == 0)
    unlink(writer.temporary);
  RengaFree(&writer.temporary);
  RengaFree(&writer.counts);
  RengaFree(&writer.offsets);
  RengaFree(&writer.hashes);
  RengaFree(&writer.position);
  RengaCall(code);
  return RENGA_SUCCESS;
}
