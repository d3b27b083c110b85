/* A file in memory. HDF5 that could not write its metadata keeps them for ever, and crashes when
   the process ends; so it never writes to a disk here. */
#include "renga/private/image.h"
#include "renga/private/fault.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

int RengaImageCreate(RengaImage *image)
{
  image->descriptor = memfd_create("renga", MFD_CLOEXEC);
  if (image->descriptor < 0) return errno;
  snprintf(image->path, sizeof image->path, "/proc/self/fd/%d", image->descriptor);
  return 0;
}

bool RengaImageMayHold(int64_t bytes)
{
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         (rlim_t)bytes <= limit.rlim_cur;
}

int64_t RengaImageBytes(const RengaImage *image)
{
  struct stat status;
  return fstat(image->descriptor, &status) == 0 ? (int64_t)status.st_size : 0;
}

int RengaWriteAt(int file, int64_t offset, size_t bytes, const void *from)
{
  const char *place = from;
  while (bytes > 0) {
    ssize_t put = RengaWritten(pwrite(file, place, bytes, offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return ENOSPC;
    place += put;
    offset += put;
    bytes -= (size_t)put;
  }
  return 0;
}

static int CopyExtent(int from, int to, int64_t at, int64_t end)
{
  char block[BLOCK];
  while (at < end) {
    ssize_t got = pread(from, block, end - at < BLOCK ? (size_t)(end - at) : BLOCK, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EIO;
    int reason = RengaWriteAt(to, at, (size_t)got, block);
    if (reason != 0) return reason;
    at += got;
  }
  return 0;
}

/* [at, end) but for the ranges that are kept. */
static int CopyAround(int from, int to, int64_t at, int64_t end, int count,
                      const RengaImageRange keep[])
{
  for (int i = 0; i < count && at < end; i++) {
    if (keep[i].end <= at || keep[i].begin >= keep[i].end) continue;
    int reason = CopyExtent(from, to, at, keep[i].begin < end ? keep[i].begin : end);
    if (reason != 0) return reason;
    at = keep[i].end;
  }
  return CopyExtent(from, to, at, end);
}

int RengaImageCopy(const RengaImage *image, int file, int count, const RengaImageRange keep[])
{
  const int64_t length = RengaImageBytes(image);
  for (int64_t at = 0; at < length;) {
    int64_t begin = lseek(image->descriptor, at, SEEK_DATA);
    if (begin < 0) return errno == ENXIO ? 0 : errno; /* only a hole is left */
    int64_t end = lseek(image->descriptor, begin, SEEK_HOLE);
    if (end < 0) return errno;
    int reason = CopyAround(image->descriptor, file, begin, end, count, keep);
    if (reason != 0) return reason;
    at = end;
  }
  return 0;
}

void RengaImageClose(RengaImage *image)
{
  if (image->descriptor >= 0) close(image->descriptor);
  image->descriptor = -1;
}
