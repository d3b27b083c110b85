/* Files that are there whole or not at all. A full disk never leaves half a file under the name
   that was asked for, nor takes the one that was there. */
#include "renga/private/output.h"
#include "renga/private/fault.h"
#include "renga/private/open.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new name, or a file; those of /dev and /proc lead to what a shell has opened. place: behind
   links, which stay. */
static bool IsReplaced(const char *name, char place[PATH_MAX])
{
  struct stat found;
  const bool special = strncmp(name, "/dev/", 5) == 0 || strncmp(name, "/proc/", 6) == 0;
  const bool there = lstat(name, &found) == 0;
  if (special || strlen(name) >= PATH_MAX) return false;
  if (there && (!realpath(name, place) || stat(place, &found) != 0)) return false;
  if (!there) strcpy(place, name);
  return !there || S_ISREG(found.st_mode);
}

static RengaErrorCode NameOutput(const char *name, RengaOutput *output)
{
  char place[PATH_MAX], temporary[PATH_MAX + 8];
  const bool replaced = IsReplaced(name, place);
  RengaCall(RengaStringCopy(replaced ? place : name, &output->name));
  snprintf(temporary, sizeof temporary, "%s.part", place);
  if (replaced) RengaCall(RengaStringCopy(temporary, &output->temporary));
  return RENGA_SUCCESS;
}

static void FreeOutput(RengaOutput *output)
{
  RengaFree(&output->name);
  RengaFree(&output->temporary);
  *output = (RengaOutput){.stream = NULL};
}

RengaErrorCode RengaOutputOpen_Private(const char *name, RengaOutput *output)
{
  RengaOutput made = {.stream = NULL};
  RengaErrorCode code = NameOutput(name, &made);
  if (!code) made.stream = RengaFileOpen_Private(made.temporary ? made.temporary : made.name, "w");
  const int cause = errno;
  const bool failed = !code && !made.stream;
  if (code || failed) FreeOutput(&made);
  RengaCall(code);
  RengaCheck(!failed, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", name,
             RengaFileReason_Private(cause));
  *output = made;
  return RENGA_SUCCESS;
}

/* An errno, or 0. */
static int PutInPlace(const RengaOutput *output, bool wanted)
{
  errno = 0;
  bool good = !ferror(output->stream);
  good = fclose(output->stream) == 0 && good;
  int cause = good ? 0 : errno ? errno : EIO;
  if (!output->temporary) return cause;
  if (good && wanted && RengaWritten(rename(output->temporary, output->name)) != 0) cause = errno;
  if (cause || !wanted) unlink(output->temporary);
  return cause;
}

RengaErrorCode RengaOutputClose_Private(RengaOutput *output, RengaErrorCode code)
{
  if (!output->stream) return code;
  const int cause = PutInPlace(output, code == RENGA_SUCCESS);
  if (cause && !code)
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, __func__, __FILE__, __LINE__,
                           "%s: %s", output->name, RengaFileReason_Private(cause));
  FreeOutput(output);
  RengaCall(code);
  return RENGA_SUCCESS;
}
