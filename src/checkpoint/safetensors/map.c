/* A file as memory: nothing is read before it is looked at. */
#include "renga/private/open.h"
#include "safetensors.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static RengaErrorCode MapDescriptor(int descriptor, RengaMappedFile *file)
{
  struct stat status;
  void *bytes = NULL;
  RengaCheck(fstat(descriptor, &status) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s",
             file->path, RengaFileReason_Private(errno));
  file->size = (int64_t)status.st_size;
  if (file->size == 0) return RENGA_SUCCESS;
  bytes = mmap(NULL, (size_t)file->size, PROT_READ, MAP_SHARED, descriptor, 0);
  RengaCheck(bytes != MAP_FAILED, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", file->path,
             RengaFileReason_Private(errno));
  file->bytes = bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMapFile(const char *path, RengaMappedFile *file)
{
  *file = (RengaMappedFile){.path = path};
  const int descriptor = RengaFileDescriptor_Private(path, O_RDONLY, 0);
  RengaCheck(descriptor >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", path,
             RengaFileReason_Private(errno));
  const RengaErrorCode code = MapDescriptor(descriptor, file);
  close(descriptor);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaForgetMapped(const RengaMappedFile *file, int64_t first, int64_t bytes)
{
  const int64_t page = (int64_t)sysconf(_SC_PAGESIZE), begin = first / page * page;
  if (bytes > 0) madvise(file->bytes + begin, (size_t)(first + bytes - begin), MADV_DONTNEED);
}

void RengaUnmapFile(RengaMappedFile *file)
{
  if (file->bytes) munmap(file->bytes, (size_t)file->size);
  file->bytes = NULL;
}
