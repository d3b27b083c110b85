/* Between memory and a place in a file, in pieces that stay in the cache while they are copied and
   hashed. */
#include "file.h"
#include "renga/private/hash.h"
#include "renga/private/image.h"
#include "renga/private/kernel.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4 << 20 };

struct _RengaTransfer {
  RengaDevice device; /* NULL where its memory is the host's */
  RengaHasher hasher;
  char *staging; /* [BLOCK], where bytes cannot be read or written in place */
  char *wide;    /* [2 * BLOCK], where they are of another type; NULL: there were none yet */
};

RengaErrorCode RengaTransferCreate(RengaDevice device, RengaTransfer *transfer)
{
  RengaTransfer made;
  RengaCall(RengaMalloc(1, &made));
  if (device && !RengaDeviceIsHost(device)) made->device = device;
  RengaErrorCode code = RengaHasherCreate(&made->hasher);
  if (!code) code = RengaMalloc(BLOCK, &made->staging);
  if (code) RengaTransferDestroy(&made);
  RengaCall(code);
  *transfer = made;
  return RENGA_SUCCESS;
}

void RengaTransferDestroy(RengaTransfer *transfer)
{
  if (*transfer == NULL) return;
  RengaHasherDestroy(&(*transfer)->hasher);
  RengaFree(&(*transfer)->staging);
  RengaFree(&(*transfer)->wide);
  RengaFree(transfer);
}

static RengaErrorCode CopyBlock(RengaTransfer transfer, RengaCopyKind kind, void *to,
                                const void *from, size_t bytes)
{
  RengaCall(RengaDeviceCopy(transfer->device, NULL, kind, to, from, bytes));
  RengaCall(RengaStreamSynchronize(transfer->device, NULL));
  return RENGA_SUCCESS;
}

/* The disk begins now, so that fsync has less to wait for; no promise is taken from it. */
int RengaTransferWrite(int file, int64_t offset, int64_t bytes, const void *data)
{
  const int reason = RengaWriteAt(file, offset, (size_t)bytes, data);
  if (reason == 0) sync_file_range(file, offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
  return reason;
}

static int ReadBlock(int file, int64_t offset, size_t bytes, char *to)
{
  while (bytes > 0) {
    ssize_t got = pread(file, to, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return ENODATA;
    to += got;
    offset += got;
    bytes -= (size_t)got;
  }
  return 0;
}

/* Elements [first, last) of the tensor, of which `to` is the first, that are in the part: to the
   front, one after the other; their number. */
static int64_t PickPart(const RengaPersistent *persistent, size_t size, int64_t first, int64_t last,
                        char *to)
{
  const RengaRuns runs = RengaRunsOf(&persistent->spec, &persistent->part);
  int64_t picked = 0;
  for (int64_t r = RengaRunsFind(&runs, first); r < runs.count; r++) {
    int64_t from = RengaRunsAt(&runs, r), end = from + runs.length;
    if (from >= last) break;
    if (from < first) from = first;
    if (end > last) end = last;
    memmove(to + (size_t)picked * size, to + (size_t)(from - first) * size,
            (size_t)(end - from) * size);
    picked += end - from;
  }
  return picked;
}

/* Elements in `staging` of the file's type, as the network keeps them. */
static RengaErrorCode ConvertStaged(RengaTransfer transfer, RengaDataType from, RengaDataType to,
                                    int64_t count, const char **converted)
{
  *converted = transfer->staging;
  if (from == to) return RENGA_SUCCESS;
  if (!transfer->wide) RengaCall(RengaMalloc(2 * BLOCK, &transfer->wide));
  RengaCall(RengaDataWiden(from, count, transfer->staging, (float *)(void *)transfer->wide));
  RengaCall(RengaDataNarrow(to, count, transfer->wide, transfer->wide));
  *converted = transfer->wide;
  return RENGA_SUCCESS;
}

/* Bytes of the tensor that lie in `staging`, to where this rank has its part of them. */
static RengaErrorCode KeepPart(RengaTransfer transfer, RengaDataType type,
                               const RengaPersistent *persistent, int64_t first, int64_t bytes)
{
  const int64_t size = (int64_t)RengaDataTypeSize(type);
  const int64_t own = (int64_t)RengaDataTypeSize(persistent->spec.type);
  const RengaRuns runs = RengaRunsOf(&persistent->spec, &persistent->part);
  char *to = (char *)persistent->data + RengaRunsBefore(&runs, first / size) * own;
  const char *from;
  const int64_t count =
      PickPart(persistent, (size_t)size, first / size, (first + bytes) / size, transfer->staging);
  if (count == 0) return RENGA_SUCCESS;
  RengaCall(ConvertStaged(transfer, type, persistent->spec.type, count, &from));
  if (transfer->device && !persistent->host)
    RengaCall(CopyBlock(transfer, RENGA_HOST_TO_DEVICE, to, from, (size_t)(count * own)));
  else
    memcpy(to, from, (size_t)(count * own)); /* no step is under way */
  return RENGA_SUCCESS;
}

/* Whether bytes of the tensor can be read to their place at once: all of them are in the part, in
   memory of the host. */
static bool LieInPart(RengaTransfer transfer, RengaDataType type, const RengaPersistent *persistent,
                      int64_t first, int64_t bytes, char **place)
{
  if (!persistent || transfer->device || type != persistent->spec.type) return false;
  const int64_t size = (int64_t)RengaDataTypeSize(persistent->spec.type);
  const RengaRuns runs = RengaRunsOf(&persistent->spec, &persistent->part);
  const int64_t before = RengaRunsBefore(&runs, first / size);
  if (RengaRunsBefore(&runs, (first + bytes) / size) - before != bytes / size) return false;
  *place = (char *)persistent->data + before * size;
  return true;
}

RengaErrorCode RengaTransferRead(RengaTransfer transfer, const RengaTransferSource *source,
                                 int64_t first, int64_t bytes, const RengaPersistent *persistent,
                                 uint64_t *hash, int *reason)
{
  *reason = 0;
  RengaHasherRestart(transfer->hasher, 0);
  for (int64_t at = 0; at < bytes && *reason == 0; at += BLOCK) {
    const int64_t count = bytes - at < BLOCK ? bytes - at : BLOCK;
    char *to = transfer->staging;
    const bool placed = LieInPart(transfer, source->type, persistent, first + at, count, &to);
    *reason = ReadBlock(source->file, source->offset + first + at, (size_t)count, to);
    RengaHasherAdd(transfer->hasher, to, (size_t)count);
    if (persistent && !placed && *reason == 0)
      RengaCall(KeepPart(transfer, source->type, persistent, first + at, count));
  }
  *hash = RengaHasherGet(transfer->hasher);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransferClear(RengaTransfer transfer, const RengaPersistent *persistent)
{
  const size_t bytes = (size_t)RengaPersistentGetBytes(persistent);
  if (!transfer->device || persistent->host) {
    memset(persistent->data, 0, bytes);
    return RENGA_SUCCESS;
  }
  RengaCall(RengaDeviceSetBytes(transfer->device, NULL, persistent->data, 0, bytes));
  RengaCall(RengaStreamSynchronize(transfer->device, NULL));
  return RENGA_SUCCESS;
}
