/* Tensors between a device and a place in a file, in blocks that stay in the cache while they are
   copied and hashed. */
#include "file.h"
#include "renga/private/hash.h"
#include "renga/private/image.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { BLOCK = 4 << 20 };

struct _RengaTransfer {
  RengaDevice device; /* NULL where its memory is the host's */
  RengaHasher hasher;
  char *staging; /* [BLOCK], where bytes cannot be read or written in place */
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
static int WriteBlock(int file, int64_t offset, size_t bytes, const char *from)
{
  int reason = RengaWriteAt(file, offset, bytes, from);
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

RengaErrorCode RengaTransferWrite(RengaTransfer transfer, int file, int64_t offset, int64_t bytes,
                                  const void *data, uint64_t *hash, int *reason)
{
  *reason = 0;
  RengaHasherRestart(transfer->hasher);
  for (int64_t at = 0; at < bytes && *reason == 0; at += BLOCK) {
    size_t count = (size_t)(bytes - at < BLOCK ? bytes - at : BLOCK);
    const char *from = (const char *)data + at;
    if (transfer->device) {
      RengaCall(CopyBlock(transfer, RENGA_DEVICE_TO_HOST, transfer->staging, from, count));
      from = transfer->staging;
    }
    RengaHasherAdd(transfer->hasher, from, count);
    *reason = WriteBlock(file, offset + at, count, from);
  }
  *hash = RengaHasherGet(transfer->hasher);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransferRead(RengaTransfer transfer, int file, int64_t offset, int64_t bytes,
                                 void *data, uint64_t *hash, int *reason)
{
  *reason = 0;
  RengaHasherRestart(transfer->hasher);
  for (int64_t at = 0; at < bytes && *reason == 0; at += BLOCK) {
    size_t count = (size_t)(bytes - at < BLOCK ? bytes - at : BLOCK);
    bool staged = data == NULL || transfer->device;
    char *to = staged ? transfer->staging : (char *)data + at;
    *reason = ReadBlock(file, offset + at, count, to);
    RengaHasherAdd(transfer->hasher, to, count);
    if (data && transfer->device && *reason == 0)
      RengaCall(CopyBlock(transfer, RENGA_HOST_TO_DEVICE, (char *)data + at, to, count));
  }
  *hash = RengaHasherGet(transfer->hasher);
  return RENGA_SUCCESS;
}
