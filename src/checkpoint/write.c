/* Writing a checkpoint: rank 0 lays the file out and reserves its space, blocks of tensors are
   brought together from the parts that ranks own and written into the reserved places, rank 0 adds
   checksums and renames. Collective HDF5 would hang
   on a full disk; this does not, and is faster. */
#include "writer.h"
#include "renga/private/hash.h"
#include "renga/private/fault.h"
#include "renga/private/image.h"
#include "renga/private/line.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The file on the disk, with names and shapes in it. Where every byte it will have is reserved a
   full disk is found here, before anybody writes. */
static RengaErrorCode MakeTemporary(RengaCheckpointWriter *writer, const RengaImage *image,
                                    int64_t bytes)
{
  int file = RengaFileDescriptor_Private(writer->temporary, O_RDWR | O_CREAT | O_EXCL, 0666);
  int reason = file < 0 ? errno : RengaWritten(0) ? EIO : 0;
  if (reason == 0 && writer->reserve) reason = posix_fallocate(file, 0, bytes);
  if (reason == 0) reason = RengaImageCopy(image, file, 0, NULL);
  if (file >= 0 && close(file) != 0 && reason == 0) reason = errno;
  char size[16];
  RengaFormatBytes((double)bytes, sizeof size, size);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s (%s): %s", writer->path, size,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

/* More than HDF5 will make of it. */
static int64_t MostTensorBytes(const RengaCheckpointTable *table)
{
  enum { OBJECT = 8192, REST = 1 << 20 };
  int64_t bytes = REST;
  for (int i = 0; i < table->n_entries; i++)
    bytes += table->entries[i].bytes + OBJECT + 4 * (int64_t)strlen(table->entries[i].name);
  for (int i = 0; i < table->n_attributes; i++)
    bytes += (int64_t)strlen(table->attributes[i].value) + OBJECT;
  return bytes;
}

static RengaErrorCode MakeLayout(RengaCheckpointWriter *writer, RengaImage *image,
                                 RengaCheckpointTable *table)
{
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  int reason = RengaImageMayHold(MostTensorBytes(table)) ? RengaImageCreate(image) : EFBIG;
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", writer->path,
             RengaFileReason_Private(reason));
  RengaCheck(RengaCheckpointLayoutCreate(image->path, table, message), MPI_COMM_SELF,
             RENGA_ERR_FILE_WRITE, "%s: %s", writer->path, message);
  table->file_bytes = RengaImageBytes(image);
  RengaCall(MakeTemporary(writer, image, table->file_bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode LayOutFile(RengaCheckpointWriter *writer, RengaCheckpointTable *table)
{
  RengaImage image = {.descriptor = -1};
  RengaErrorCode code = MakeLayout(writer, &image, table);
  RengaImageClose(&image);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenTemporary(RengaCheckpointWriter *writer)
{
  if (writer->file >= 0) return RENGA_SUCCESS;
  writer->file = RengaFileDescriptor_Private(writer->temporary, O_WRONLY, 0);
  RengaCheck(writer->file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "%s, which rank 0 has made: %s; is the directory shared by all nodes?",
             writer->temporary, RengaFileReason_Private(errno));
  return RENGA_SUCCESS;
}

/* A block that came together on this rank. */
static RengaErrorCode WriteBlock(void *user, int tensor, int64_t first, int64_t bytes,
                                 const void *data)
{
  RengaCheckpointWriter *writer = user;
  const RengaCheckpointEntry *entry = &writer->table->entries[tensor];
  RengaCall(OpenTemporary(writer));
  const int reason = RengaTransferWrite(writer->file, entry->offset + first, bytes, data);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: tensor %s: %s", writer->path,
             entry->name, RengaFileReason_Private(reason));
  writer->table->hashes[entry->first_hash + first / writer->table->block] =
      RengaHash(data, (size_t)bytes, 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteTensors(RengaCheckpointWriter *writer)
{
  RengaBringing bringing = {.taker = RENGA_TAKER_OF_BLOCK, .take = WriteBlock, .user = writer};
  bool lost;
  RengaErrorCode code = RengaCommFindWriters_Private(writer->comm, &bringing.writer);
  if (!code) code = RengaHoldingsBring(&writer->holdings, writer->device, &bringing, &lost);
  RengaFree(&bringing.writer);
  const int reason = writer->file >= 0 && RengaWritten(fsync(writer->file)) != 0 ? errno : 0;
  if (writer->file >= 0) close(writer->file);
  RengaCall(code);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", writer->path,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointWriterShareHashes_Private(RengaCheckpointWriter *writer)
{
  int64_t *hashes;
  const int64_t count = writer->table->n_hashes;
  RengaErrorCode code = RengaErrorAgree(writer->ranks, RengaMalloc(count + 1, &hashes));
  if (!code) {
    memcpy(hashes, writer->table->hashes, (size_t)count * sizeof *hashes);
    code = RengaCommSumInt64(writer->comm, count, hashes,
                             "all ranks to write their part of the checkpoint");
    memcpy(writer->table->hashes, hashes, (size_t)count * sizeof *hashes);
  }
  RengaFree(&hashes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointWriterEnd_Private(RengaCheckpointWriter *writer)
{
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  const int file = RengaFileDescriptor_Private(writer->temporary, O_RDWR, 0);
  bool good = file >= 0;
  if (!good) snprintf(message, sizeof message, "%s", RengaFileReason_Private(errno));
  good = good && RengaCheckpointHeadWrite(file, writer->table, message);
  if (file >= 0) close(file);
  RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", writer->path, message);
  return RENGA_SUCCESS;
}

bool RengaCheckpointWriterName_Private(const RengaCheckpointWriter *writer,
                                       char message[RENGA_CHECKPOINT_MESSAGE])
{
  const char *slash = strrchr(writer->path, '/');
  char directory[4096] = ".";
  if (slash)
    snprintf(directory, sizeof directory, "%.*s", (int)(slash - writer->path), writer->path);
  const int file = RengaFileDescriptor_Private(writer->temporary, O_RDWR, 0);
  bool good = file >= 0 && RengaWritten(fsync(file)) == 0 &&
              RengaWritten(rename(writer->temporary, writer->path)) == 0;
  if (!good)
    snprintf(message, RENGA_CHECKPOINT_MESSAGE, "%s: %s", writer->path,
             RengaFileReason_Private(errno));
  if (file >= 0) close(file);
  if (!good) return false;
  const int reason = RengaCheckpointDirectorySync(slash == writer->path ? "/" : directory);
  if (reason)
    snprintf(message, RENGA_CHECKPOINT_MESSAGE, "directory of %s: %s", writer->path,
             RengaFileReason_Private(reason));
  return reason == 0;
}

static RengaErrorCode PublishCheckpoint(RengaCheckpointWriter *writer)
{
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  RengaCall(RengaCheckpointWriterEnd_Private(writer));
  RengaCheck(RengaCheckpointWriterName_Private(writer, message), MPI_COMM_SELF,
             RENGA_ERR_FILE_WRITE, "%s", message);
  return RENGA_SUCCESS;
}

/* A name that no other run, alive or dead, has: rank 0's, to all. */
static RengaErrorCode NameTemporary(RengaCheckpointWriter *writer)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t seed[] = {now.tv_sec, now.tv_nsec, getpid(), (int64_t)RengaHashHost_Private()};
  uint64_t token = RengaHash(seed, sizeof seed, 2);
  RengaCall(RengaCommBroadcast(writer->comm, &token, sizeof token, 0, "a checkpoint's name"));
  RengaCall(RengaMalloc(strlen(writer->path) + 32, &writer->temporary));
  sprintf(writer->temporary, "%s.%016llx.tmp", writer->path, (unsigned long long)token);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointWriterBeginTable_Private(RengaCheckpointWriter *writer)
{
  const bool root = RengaCommGetRank(writer->comm) == 0;
  writer->file = -1;
  if (!root) writer->table = &writer->shared;
  RengaCall(RengaObjectGetComm(writer->comm, &writer->ranks));
  RengaCall(RengaErrorAgree(writer->ranks, NameTemporary(writer)));
  RengaCall(
      RengaErrorAgree(writer->ranks, root ? LayOutFile(writer, writer->table) : RENGA_SUCCESS));
  RengaCall(RengaCheckpointTableBroadcast(writer->comm, writer->table));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointWriterBegin_Private(RengaCheckpointWriter *writer, int count,
                                                  const RengaPersistent tensors[])
{
  const bool root = RengaCommGetRank(writer->comm) == 0;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(writer->comm, &writer->ranks));
  RengaCall(RengaHoldingsCreate(writer->comm, count, tensors, NULL, &writer->holdings));
  if (root) code = RengaCheckpointTableAddHoldings(writer->table, &writer->holdings);
  RengaCall(RengaErrorAgree(writer->ranks, code));
  RengaCall(RengaCheckpointWriterBeginTable_Private(writer));
  return RENGA_SUCCESS;
}

void RengaCheckpointWriterFree_Private(RengaCheckpointWriter *writer, bool failed)
{
  if (failed && writer->temporary && RengaCommGetRank(writer->comm) == 0) unlink(writer->temporary);
  RengaHoldingsFree(&writer->holdings);
  RengaCheckpointTableFree(&writer->shared);
  RengaFree(&writer->temporary);
}

static RengaErrorCode WriteSteps(RengaCheckpointWriter *writer, int count,
                                 const RengaPersistent tensors[])
{
  const bool root = RengaCommGetRank(writer->comm) == 0;
  RengaCall(RengaCheckpointWriterBegin_Private(writer, count, tensors));
  RengaCall(RengaErrorAgree(writer->ranks, WriteTensors(writer)));
  RengaCall(RengaCheckpointWriterShareHashes_Private(writer));
  RengaCall(RengaErrorAgree(writer->ranks, root ? PublishCheckpoint(writer) : RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointFileWrite(RengaComm comm, RengaDevice device, const char *path,
                                        int count, const RengaPersistent tensors[],
                                        RengaCheckpointTable *table)
{
  RengaCheckpointWriter writer = {
      .comm = comm, .device = device, .path = path, .reserve = true, .table = table};
  const RengaErrorCode code = WriteSteps(&writer, count, tensors);
  RengaCheckpointWriterFree_Private(&writer, code != RENGA_SUCCESS);
  RengaCall(code);
  return RENGA_SUCCESS;
}
