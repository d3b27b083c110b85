/* A file read through a window of 64 KiB. */
#include "wire.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW = 1 << 16 };

RengaErrorCode RengaOnnxFileSize(const char *name, int64_t *size)
{
  struct stat status;
  RengaCheck(stat(name, &status) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", name,
             RengaFileReason_Private(errno));
  RengaCheck(S_ISREG(status.st_mode), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "%s is not a regular file", name);
  *size = status.st_size;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxFileOpen(const char *name, RengaOnnxFile *file)
{
  *file = (RengaOnnxFile){.name = name, .descriptor = -1};
  RengaCall(RengaOnnxFileSize(name, &file->size));
  file->descriptor = RengaFileDescriptor_Private(name, O_RDONLY, 0);
  RengaCheck(file->descriptor >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", name,
             RengaFileReason_Private(errno));
  RengaErrorCode code = RengaMalloc(WINDOW, &file->window);
  if (code != RENGA_SUCCESS) RengaOnnxFileClose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaOnnxFileClose(RengaOnnxFile *file)
{
  if (file->descriptor >= 0) close(file->descriptor);
  file->descriptor = -1;
  RengaFree(&file->window);
}

static RengaErrorCode ReadWholeFile(RengaOnnxFile *file, int64_t offset, int64_t count,
                                    unsigned char *to)
{
  for (int64_t done = 0; done < count;) {
    ssize_t got =
        pread(file->descriptor, to + done, (size_t)(count - done), (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    RengaCheck(got > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s: cannot read byte %lld: %s",
               file->name, (long long)(offset + done),
               got < 0 ? RengaFileReason_Private(errno) : "end of file");
    done += got;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxFileRead(RengaOnnxFile *file, int64_t offset, int64_t count, void *bytes)
{
  RengaCheck(offset >= 0 && count >= 0 && count <= file->size && offset <= file->size - count,
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: %lld bytes at offset %lld are wanted, but the file has %lld: is it truncated?",
             file->name, (long long)count, (long long)offset, (long long)file->size);
  if (count > WINDOW / 2) {
    RengaCall(ReadWholeFile(file, offset, count, bytes));
    return RENGA_SUCCESS;
  }
  if (offset < file->first || offset + count > file->first + file->count) {
    int64_t rest = file->size - offset, wanted = rest < WINDOW ? rest : WINDOW;
    file->count = 0;
    RengaCall(ReadWholeFile(file, offset, wanted, file->window));
    file->first = offset, file->count = wanted;
  }
  if (count > 0) memcpy(bytes, file->window + (offset - file->first), (size_t)count);
  return RENGA_SUCCESS;
}
