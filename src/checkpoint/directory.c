/* The directory of checkpoints: files step_000000100.h5. */
#include "file.h"
#include "renga/private/fault.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

RengaErrorCode RengaCheckpointDirectoryPath(const char *directory, int64_t step, char **path)
{
  RengaCall(RengaMalloc(strlen(directory) + 48, path));
  sprintf(*path, "%s/step_%09lld.h5", directory, (long long)step);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointDirectoryNamed(const char *directory, const char *name, char **path)
{
  const size_t room = strlen(directory) + strlen(name) + 8;
  RengaCall(RengaMalloc(room, path));
  snprintf(*path, room, "%s/%s.h5", directory, name);
  return RENGA_SUCCESS;
}

/* The step of a file's name; -1 where it is no checkpoint's. */
static int64_t StepOfName(const char *name)
{
  char *end;
  if (strncmp(name, "step_", 5) != 0) return -1;
  errno = 0;
  long long step = strtoll(name + 5, &end, 10);
  return end - name >= 14 && strcmp(end, ".h5") == 0 && errno == 0 && step >= 0 ? step : -1;
}

static int CompareNewestFirst(const void *a, const void *b)
{
  const RengaCheckpointFileInfo *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? 1 : -1;
  return (x->step < y->step) - (x->step > y->step);
}

/* A file whose head is damaged stands where its time of modification puts it. */
static RengaErrorCode Inspect(const char *directory, RengaCheckpointFileInfo *file)
{
  RengaCheckpointHead head;
  struct stat status;
  char *path;
  RengaCall(RengaCheckpointDirectoryPath(directory, file->step, &path));
  if (RengaCheckpointHeadRead(path, &head)) {
    file->time = head.time;
    file->run = head.run;
    file->mark = RengaCheckpointMarkRead(path);
  } else if (stat(path, &status) == 0) {
    file->time = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    file->run = 0;
  }
  RengaFree(&path);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointDirectoryList(const char *directory, int *count,
                                            RengaCheckpointFileInfo **files)
{
  RengaCheckpointFileInfo *found = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  int n = 0;
  DIR *entries = opendir(directory);
  RengaCheck(entries || errno == ENOENT, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "directory %s: %s",
             directory, strerror(errno));
  for (struct dirent *entry; code == 0 && entries && (entry = readdir(entries)) != NULL;) {
    int64_t step = StepOfName(entry->d_name);
    if (step < 0) continue;
    code = RengaRealloc(n + 1, &found);
    if (code == RENGA_SUCCESS) {
      found[n] = (RengaCheckpointFileInfo){.step = step};
      code = Inspect(directory, &found[n++]);
    }
  }
  if (entries) closedir(entries);
  if (code != RENGA_SUCCESS) RengaFree(&found);
  RengaCall(code);
  if (n > 0) qsort(found, (size_t)n, sizeof *found, CompareNewestFirst);
  *count = n;
  *files = found;
  return RENGA_SUCCESS;
}

void RengaCheckpointOldFree_Private(RengaCheckpointOld *old)
{
  for (int i = 0; i < old->count; i++) RengaFree(&old->path[i]);
  RengaFree(&old->path);
  old->count = 0;
}

/* "step_000000100.h5.0123456789abcdef.tmp" */
static bool IsTemporaryFile(const char *name)
{
  const char *at = strstr(name, ".h5."), *end = strrchr(name, '.');
  if (!at || strcmp(end, ".tmp") != 0) return false;
  return end - at == 4 + 16 && (size_t)(strspn(at + 4, "0123456789abcdef")) == 16;
}

void RengaCheckpointDirectoryClean(const char *directory)
{
  char path[4096];
  DIR *entries = opendir(directory);
  for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
    if (!IsTemporaryFile(entry->d_name)) continue;
    if (snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) < (int)sizeof path)
      unlink(path);
  }
  if (entries) closedir(entries);
}

int RengaCheckpointDirectorySync(const char *directory)
{
  int file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return errno;
  int reason = RengaWritten(fsync(file)) == 0 || errno == EINVAL
                   ? 0
                   : errno; /* EINVAL: nothing to synchronise */
  close(file);
  return reason;
}

/* All directories of a path. */
static int MakeDirectories(const char *directory)
{
  char path[4096];
  if (snprintf(path, sizeof path, "%s", directory) >= (int)sizeof path) return ENAMETOOLONG;
  for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    mkdir(path, 0777);
    *slash = '/';
  }
  return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : errno;
}

static void ProbePath(const char *directory, char path[4096])
{
  snprintf(path, 4096, "%s/.renga_probe", directory);
}

/* Rank 0 makes the directory and a file in it. */
static RengaErrorCode MakeProbe(const char *directory)
{
  char path[4096];
  int reason = MakeDirectories(directory), file = -1;
  ProbePath(directory, path);
  if (reason == 0 && (file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0) reason = errno;
  if (reason == 0 && RengaWritten(pwrite(file, "", 1, 0)) != 1) reason = errno;
  if (file >= 0) close(file);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "checkpoint directory %s cannot be written: %s", directory, strerror(reason));
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenProbe(const char *directory)
{
  char path[4096];
  ProbePath(directory, path);
  int file = open(path, O_RDWR | O_CLOEXEC);
  RengaCheck(file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "checkpoint directory %s: rank 0 wrote a file that this rank cannot open (%s); is it "
             "shared by all nodes?",
             directory, strerror(errno));
  close(file);
  return RENGA_SUCCESS;
}

/* Collective: can every rank write there? */
RengaErrorCode RengaCheckpointDirectoryProbe(RengaComm comm, const char *directory)
{
  bool root = RengaCommGetRank(comm) == 0;
  char path[4096];
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCall(RengaErrorAgree(ranks, root ? MakeProbe(directory) : RENGA_SUCCESS));
  RengaErrorCode code = RengaErrorAgree(ranks, OpenProbe(directory));
  ProbePath(directory, path);
  if (root) unlink(path);
  RengaCall(code);
  return RENGA_SUCCESS;
}
