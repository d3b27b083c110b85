/* Opening of files: none may wait for a process that never comes. */
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOT_REGULAR = 1 << 20 }; /* beside the system's numbers */

const char *RengaFileReason_Private(int error)
{
  if (error == EILSEQ) return "it is no text in UTF-8, of which a byte 0 is no part";
  return error == NOT_REGULAR ? "it is not a regular file" : strerror(error);
}

/* What the user's shell has opened: a pipe to it has its other end. */
static bool IsOwnStream(const char *name)
{
  static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/null"};
  static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
  for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
    if (strcmp(name, streams[i]) == 0) return true;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    if (strncmp(name, folders[i], strlen(folders[i])) == 0) return true;
  return false;
}

/* 0, or what is wrong with what was found. */
static int JudgeKind(const struct stat *found, int flags)
{
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (S_ISREG(found->st_mode)) return 0;
  if (S_ISDIR(found->st_mode)) return flags & O_DIRECTORY ? 0 : EISDIR;
  return writes && S_ISCHR(found->st_mode) ? 0 : NOT_REGULAR;
}

/* Without O_NONBLOCK, which was for the opening. */
static int CheckOpened(int file, int flags)
{
  struct stat found;
  int error = fstat(file, &found) == 0 ? JudgeKind(&found, flags) : errno;
  const int now = fcntl(file, F_GETFL);
  if (!error && (now < 0 || fcntl(file, F_SETFL, now & ~O_NONBLOCK) < 0)) error = errno;
  return error;
}

/* A pipe without a reader, or a socket, cannot even be opened. */
static int JudgeRefusal(const char *name, int flags, int error)
{
  struct stat found;
  if (error != ENXIO || stat(name, &found) != 0) return error;
  const int judged = JudgeKind(&found, flags);
  return judged ? judged : error;
}

int RengaFileDescriptor_Private(const char *name, int flags, mode_t mode)
{
  const bool own = IsOwnStream(name);
  const int file = open(name, flags | O_CLOEXEC | O_NOCTTY | (own ? 0 : O_NONBLOCK), mode);
  const int error = file < 0 ? JudgeRefusal(name, flags, errno)
                    : own    ? 0
                             : CheckOpened(file, flags);
  if (!error) return file;
  if (file >= 0) close(file);
  errno = error;
  return -1;
}

static int FlagsOf(const char *mode)
{
  const int both = strchr(mode, '+') ? O_RDWR : O_WRONLY;
  if (mode[0] == 'a') return both | O_CREAT | O_APPEND;
  if (mode[0] == 'w') return both | O_CREAT | (strchr(mode, 'x') ? O_EXCL : O_TRUNC);
  return strchr(mode, '+') ? O_RDWR : O_RDONLY;
}

FILE *RengaFileOpen_Private(const char *name, const char *mode)
{
  const int file = RengaFileDescriptor_Private(name, FlagsOf(mode), 0666);
  FILE *stream = file >= 0 ? fdopen(file, mode) : NULL;
  if (!stream && file >= 0) {
    const int error = errno;
    close(file);
    errno = error;
  }
  return stream;
}

int RengaFileCheck_Private(const char *name)
{
  struct stat found;
  if (stat(name, &found) != 0) return errno;
  return IsOwnStream(name) ? 0 : JudgeKind(&found, O_RDONLY);
}
