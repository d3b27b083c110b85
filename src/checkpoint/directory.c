/* The directory of checkpoints: files step_000000100.h5. */
#include "file.h"
#include "renga/private/hash.h"
#include "renga/private/fault.h"
#include "renga/private/open.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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
  const bool there = stat(path, &status) == 0;
  if (RengaCheckpointHeadRead(path, &head)) {
    file->time = head.time;
    file->run = head.run;
    file->whole = there && (int64_t)status.st_size == head.file_bytes;
    file->mark = RengaCheckpointMarkRead(path);
  } else if (there) {
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
             directory, RengaFileReason_Private(errno));
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

void RengaCheckpointDirectoryRemove(const char *folder)
{
  DIR *entries = opendir(folder);
  for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;)
    unlinkat(dirfd(entries), entry->d_name, 0); /* fails for . and .. */
  if (entries) closedir(entries);
  rmdir(folder);
}

/* FILE.h5 is beside FILE. */
void RengaCheckpointDirectoryRemoveBeside(const char *file)
{
  char folder[4096];
  const int length = (int)strlen(file) - (int)strlen(".h5");
  if (snprintf(folder, sizeof folder, "%.*s", length, file) < (int)sizeof folder)
    RengaCheckpointDirectoryRemove(folder);
}

/* The folder goes first: it is found by its file alone. */
void RengaCheckpointOldDelete_Private(const RengaCheckpointOld *old)
{
  for (int i = 0; i < old->count; i++) {
    if (old->folders) RengaCheckpointDirectoryRemoveBeside(old->path[i]);
    unlink(old->path[i]);
  }
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
      if (unlink(path) != 0) RengaCheckpointDirectoryRemove(path);
  }
  if (entries) closedir(entries);
}

int RengaCheckpointDirectorySync(const char *directory)
{
  int file = RengaFileDescriptor_Private(directory, O_RDONLY | O_DIRECTORY, 0);
  if (file < 0) return errno;
  int reason = RengaWritten(fsync(file)) == 0 || errno == EINVAL
                   ? 0
                   : errno; /* EINVAL: nothing to synchronise */
  close(file);
  return reason;
}

/* All directories of a path. */
int RengaCheckpointDirectoryMake(const char *directory)
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

/* A name of this run's own, so that no other run's is taken away. */
static void ProbePath(const char *directory, uint64_t token, char path[4096])
{
  snprintf(path, 4096, "%s/.renga_probe.%016llx", directory, (unsigned long long)token);
}

/* Rank 0 makes the directory and a file in it, which was not there, not even as a link. */
static RengaErrorCode MakeProbe(const char *directory, uint64_t *token)
{
  char path[4096];
  struct timespec now;
  int reason = RengaCheckpointDirectoryMake(directory), file = -1;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t seed[] = {now.tv_sec, now.tv_nsec, getpid(), (int64_t)RengaHashHost_Private()};
  *token = RengaHash(seed, sizeof seed, 4);
  ProbePath(directory, *token, path);
  if (reason == 0 &&
      (file = RengaFileDescriptor_Private(path, O_RDWR | O_CREAT | O_EXCL, 0666)) < 0)
    reason = errno;
  if (reason == 0 && RengaWritten(pwrite(file, "", 1, 0)) != 1) reason = errno;
  if (file >= 0) close(file);
  if (file >= 0 && reason) unlink(path);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "checkpoint directory %s cannot be written: %s", directory,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenProbe(const char *directory, uint64_t token)
{
  char path[4096];
  ProbePath(directory, token, path);
  int file = RengaFileDescriptor_Private(path, O_RDWR | O_NOFOLLOW, 0);
  RengaCheck(file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "checkpoint directory %s: rank 0 wrote a file that this rank cannot open (%s); is it "
             "shared by all nodes?",
             directory, RengaFileReason_Private(errno));
  close(file);
  return RENGA_SUCCESS;
}

/* Collective: can every rank write there? */
RengaErrorCode RengaCheckpointDirectoryProbe(RengaComm comm, const char *directory)
{
  bool root = RengaCommGetRank(comm) == 0;
  char path[4096];
  uint64_t token = 0;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCall(RengaErrorAgree(ranks, root ? MakeProbe(directory, &token) : RENGA_SUCCESS));
  RengaErrorCode code =
      RengaCommBroadcast(comm, &token, sizeof token, 0, "rank 0 to try the folder of checkpoints");
  if (!code) code = RengaErrorAgree(ranks, OpenProbe(directory, token));
  ProbePath(directory, token, path);
  if (root) unlink(path);
  RengaCall(code);
  return RENGA_SUCCESS;
}
