/* Files that other files name. A file from elsewhere must not make this process read what its user
   did not mean to hand out: /etc, another user's data, a device. */
#include "renga/private/open.h"
#include "renga/private/path.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is path, which is resolved, in the folder of a file that is resolved too? */
static bool IsBelowFolderOf(const char *path, const char *file)
{
  const char *slash = strrchr(file, '/');
  size_t length = slash ? (size_t)(slash - file) + 1 : 0;
  return length > 0 && strncmp(path, file, length) == 0;
}

/* The folder of a name, all links of it followed, with a name in it. */
static bool ResolveFolder(const char *file, char resolved[PATH_MAX])
{
  char folder[PATH_MAX];
  const char *slash = strrchr(file, '/');
  int length = slash ? (int)(slash - file) + 1 : 0;
  if (snprintf(folder, sizeof folder, "%.*s.", length, file) >= (int)sizeof folder) return false;
  if (!realpath(folder, resolved) || strlen(resolved) + 3 > PATH_MAX) return false;
  if (strcmp(resolved, "/") != 0) strcat(resolved, "/");
  strcat(resolved, "x");
  return true;
}

/* Where base is, or where the link that base is leads to, as a store of files has them. */
RengaErrorCode RengaPathCheckExternal(const char *base, const char *file, const char *what)
{
  char path[PATH_MAX], folder[PATH_MAX], target[PATH_MAX];
  bool allowed;
  const int wrong = access(file, F_OK) == 0 ? RengaFileCheck_Private(file) : 0;
  RengaCheck(!wrong, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s, %s: %s", base, what, file,
             RengaFileReason_Private(wrong));
  RengaCall(RengaOptionsGetBool("allow_external", &allowed, NULL));
  if (allowed) return RENGA_SUCCESS;
  RengaCheck(realpath(file, path), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s, %s: %s", base, what,
             file, strerror(errno));
  bool inside = (ResolveFolder(base, folder) && IsBelowFolderOf(path, folder)) ||
                (realpath(base, target) && IsBelowFolderOf(path, target));
  RengaCheck(inside, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: %s, %s, is outside of its folder: it is %s; if that is meant, add "
             "-allow_external",
             base, what, file, path);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPathCheckOutput_Private(const char *name)
{
  struct stat found;
  RengaCheck(stat(name, &found) != 0 || S_ISREG(found.st_mode), MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "%s is %s, not a file that can be replaced", name,
             S_ISDIR(found.st_mode) ? "a folder" : "a device, a pipe or the like");
  return RENGA_SUCCESS;
}
