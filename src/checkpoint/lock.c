/* The lock of a directory of checkpoints: one run writes there. A small file .renga_lock says who
   it is; it appears whole, by a link, and its owner renews it every few seconds. It is a dead run's
   where the owner's process is gone (on the same machine), or where nothing renews it while another
   run looks on (from elsewhere: clocks of machines are never compared). */
#include "lock.h"
#include "renga/private/hash.h"
#include "renga/private/image.h"
#include "renga/private/fault.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RENEW_SECONDS = 5, WATCH_SECONDS = 30, END_SECONDS = 3, TEXT = 1024, FIELD = 128 };
static const char first_line[] = "The run that writes checkpoints here";

/* Who holds a lock. */
typedef struct {
  char host[FIELD], machine[FIELD]; /* machine: of this start of it, as processes see it */
  char since[FIELD];
  long long process, start; /* start: when the process began, in ticks of that machine */
  unsigned long long token; /* like no other lock's */
} Owner;

struct _RengaCheckpointLock {
  char *path, *temporary;
  Owner mine, other;
  struct timespec renewed; /* of the other's lock, when it was last seen to change */
  double watched_since;    /* MPI_Wtime; 0: it is not watched */
  int file;                /* the lock that is held; -1: none */
  bool held, renews, ends;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
};

/* "1234 (name with blanks) S ..." : field 3 is the state, 22 the start. -1: it has ended, though
   its parent has not heard of it; 0: not known. */
static long long StartOf(long long process)
{
  char path[64], text[TEXT];
  snprintf(path, sizeof path, "/proc/%lld/stat", process);
  FILE *file = RengaFileOpen_Private(path, "r");
  if (!file) return 0;
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  char *at = strrchr(text, ')');
  if (at && at[1] == ' ' && strchr("ZXx", at[2])) return -1;
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  return at ? strtoll(at, NULL, 10) : 0;
}

static void DescribeMachine(char machine[FIELD])
{
  char boot[64] = "", space[64] = "";
  FILE *file = RengaFileOpen_Private("/proc/sys/kernel/random/boot_id", "r");
  if (file) boot[fread(boot, 1, 36, file)] = '\0';
  if (file) fclose(file);
  if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) space[0] = '\0';
  snprintf(machine, FIELD, "%.40s/%.60s", boot, space);
  for (char *c = machine; *c; c++)
    if (*c == ' ' || *c == '\n') *c = '_';
}

static void DescribeMyself(Owner *mine)
{
  struct timespec now;
  struct tm utc;
  memset(mine, 0, sizeof *mine);
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(mine->since, sizeof mine->since, "%Y-%m-%dT%H:%M:%SZ", &utc);
  if (gethostname(mine->host, sizeof mine->host - 1) != 0 || !mine->host[0])
    snprintf(mine->host, sizeof mine->host, "unknown");
  DescribeMachine(mine->machine);
  mine->process = getpid();
  mine->start = StartOf(mine->process);
  static int count; /* objects of one process may begin at the same tick */
  const int64_t seed[] = {now.tv_sec, now.tv_nsec, mine->process, (int64_t)RengaHashHost_Private(),
                          count++};
  mine->token = RengaHash(seed, sizeof seed, 3);
}

static void FormatOwner(const Owner *owner, char text[TEXT])
{
  snprintf(text, TEXT,
           "%s\nhost %s\nprocess %lld\nsince %s\nmachine %s\nstart %lld\ntoken %016llx\n",
           first_line, owner->host, owner->process, owner->since, owner->machine, owner->start,
           owner->token);
}

/* Of a lock's file; what it does not say stays unknown. false: there is none. */
static bool ReadOwner(const char *path, Owner *owner, struct timespec *renewed)
{
  char text[TEXT];
  struct stat status = {.st_size = 0};
  int file = RengaFileDescriptor_Private(path, O_RDONLY,
                                         0); /* opened anew: a network's cache is asked again */
  *owner = (Owner){.host = "unknown", .since = "unknown"};
  if (file < 0) return false;
  ssize_t got = read(file, text, sizeof text - 1);
  if (fstat(file, &status) == 0 && renewed) *renewed = status.st_mtim;
  close(file);
  text[got > 0 ? got : 0] = '\0';
  char *line = strchr(text, '\n');
  if (strncmp(text, first_line, sizeof first_line - 1) == 0 && line)
    sscanf(line, " host %127s process %lld since %127s machine %127s start %lld token %llx",
           owner->host, &owner->process, owner->since, owner->machine, &owner->start,
           &owner->token);
  return true;
}

/* 1: it lives; 0: it is dead; -1: that cannot be seen from here. */
static int Lives(const Owner *owner, const Owner *mine)
{
  if (owner->process <= 0 || strcmp(owner->host, mine->host) != 0) return -1;
  if (strcmp(owner->machine, mine->machine) != 0) return -1;
  if (kill((pid_t)owner->process, 0) != 0 && errno == ESRCH) return 0;
  long long start = StartOf(owner->process);
  return start == 0 || owner->start == 0 || start == owner->start;
}

/* Our own text under a name of our own, then the lock's name for it: 0, EEXIST or another errno. */
static int LinkLock(RengaCheckpointLock lock)
{
  char text[TEXT];
  struct stat status;
  FormatOwner(&lock->mine, text);
  int file = RengaFileDescriptor_Private(lock->temporary, O_RDWR | O_CREAT | O_TRUNC, 0666);
  if (file < 0) return errno;
  int reason = RengaWriteAt(file, 0, strlen(text), text);
  if (reason == 0 && RengaWritten(fsync(file)) != 0 && errno != EINVAL) reason = errno;
  if (reason == 0 && link(lock->temporary, lock->path) != 0) reason = errno;
  /* A network may lose the answer to a link that was made. */
  if (reason != 0 && fstat(file, &status) == 0 && status.st_nlink == 2) reason = 0;
  unlink(lock->temporary);
  if (reason == EPERM || reason == ENOTSUP || reason == ENOSYS || reason == EMLINK) {
    close(file); /* a file system without links */
    file = RengaFileDescriptor_Private(lock->path, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (file < 0) return errno;
    reason = RengaWriteAt(file, 0, strlen(text), text);
  }
  if (reason == 0)
    lock->file = file;
  else
    close(file);
  return reason;
}

/* Of a dead owner: by a new name, so that of two that try one does it; what was moved is looked at
   again, and put back where it turns out to be a third one's. */
static void RemoveDead(RengaCheckpointLock lock)
{
  Owner moved;
  if (rename(lock->path, lock->temporary) != 0) return;
  if (ReadOwner(lock->temporary, &moved, NULL) && moved.token != lock->other.token)
    (void)!link(lock->temporary, lock->path);
  unlink(lock->temporary);
}

static void *Renew(void *user)
{
  RengaCheckpointLock lock = user;
  struct timespec until;
  pthread_mutex_lock(&lock->mutex);
  while (!lock->ends) {
    if (lock->file >= 0) futimens(lock->file, NULL);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += RENEW_SECONDS;
    pthread_cond_timedwait(&lock->wake, &lock->mutex, &until);
  }
  pthread_mutex_unlock(&lock->mutex);
  return NULL;
}

/* Signals are for the thread that trains. Without a thread the lock is not renewed, which only a
   run on another machine would take for death. */
static void BeginRenewing(RengaCheckpointLock lock)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_mutex_init(&lock->mutex, NULL);
  RengaConditionBegin_Private(&lock->wake);
  lock->renews = pthread_create(&lock->thread, NULL, Renew, lock) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

RengaErrorCode RengaCheckpointLockCreate(const char *directory, RengaCheckpointLock *lock)
{
  RengaCheckpointLock made;
  const size_t room = strlen(directory) + 64;
  RengaCall(RengaMalloc(1, &made));
  made->file = -1;
  DescribeMyself(&made->mine);
  RengaErrorCode code = RengaMalloc(room, &made->path);
  if (code == RENGA_SUCCESS) code = RengaMalloc(room, &made->temporary);
  if (code == RENGA_SUCCESS) {
    snprintf(made->path, room, "%s/" RENGA_CHECKPOINT_LOCK, directory);
    snprintf(made->temporary, room,
             "%s."
             "%016llx",
             made->path, made->mine.token);
    *lock = made;
  } else
    RengaCheckpointLockDestroy(&made);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The other's lock, which is not seen to be dead: is it renewed? */
static RengaLockAnswer Watch(RengaCheckpointLock lock, const struct timespec *renewed)
{
  const double now = MPI_Wtime();
  bool same = renewed->tv_sec == lock->renewed.tv_sec && renewed->tv_nsec == lock->renewed.tv_nsec;
  if (lock->watched_since > 0 && !same) return RENGA_LOCK_REFUSED;
  lock->renewed = *renewed;
  if (lock->watched_since == 0) lock->watched_since = now;
  return now - lock->watched_since < WATCH_SECONDS ? RENGA_LOCK_WATCHED : RENGA_LOCK_DEAD;
}

static RengaLockAnswer LookAtOther(RengaCheckpointLock lock)
{
  struct timespec renewed = {0, 0};
  if (!ReadOwner(lock->path, &lock->other, &renewed)) return RENGA_LOCK_DEAD; /* it just ended */
  int lives = Lives(&lock->other, &lock->mine);
  if (lives == 0) return RENGA_LOCK_DEAD;
  if (lives < 0) return Watch(lock, &renewed);
  /* A run that was killed may need a moment to be gone. */
  if (lock->watched_since == 0) lock->watched_since = MPI_Wtime();
  bool ending = MPI_Wtime() - lock->watched_since < END_SECONDS;
  return ending ? RENGA_LOCK_AGAIN : RENGA_LOCK_REFUSED;
}

RengaErrorCode RengaCheckpointLockTry(RengaCheckpointLock lock, RengaLockAnswer *answer)
{
  struct stat found;
  *answer = RENGA_LOCK_TAKEN;
  int reason = LinkLock(lock);
  const bool foreign = reason == EEXIST && lstat(lock->path, &found) == 0 &&
                       !S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode);
  RengaCheck(!foreign, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "%s is not a regular file, so that no lock can be there: remove it", lock->path);
  if (reason == EEXIST && (*answer = LookAtOther(lock)) == RENGA_LOCK_DEAD) {
    RemoveDead(lock);
    reason = LinkLock(lock);
    *answer = reason == 0 ? RENGA_LOCK_TAKEN : RENGA_LOCK_AGAIN; /* a third one was faster */
    lock->watched_since = 0;
  }
  RengaCheck(reason == 0 || reason == EEXIST, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s",
             lock->path, RengaFileReason_Private(reason));
  lock->held = *answer == RENGA_LOCK_TAKEN;
  if (lock->held) BeginRenewing(lock);
  return RENGA_SUCCESS;
}

void RengaCheckpointLockDescribe(RengaCheckpointLock lock, size_t size, char text[])
{
  snprintf(text, size, "process %lld on %s, since %s", lock->other.process, lock->other.host,
           lock->other.since);
}

/* Where it was taken away another run has the directory; where it is only gone it is made again. */
RengaErrorCode RengaCheckpointLockCheck(RengaCheckpointLock lock)
{
  Owner now;
  char text[3 * FIELD];
  if (!ReadOwner(lock->path, &now, NULL)) {
    pthread_mutex_lock(&lock->mutex);
    close(lock->file);
    lock->file = -1;
    int reason = LinkLock(lock);
    pthread_mutex_unlock(&lock->mutex);
    if (reason == 0 || !ReadOwner(lock->path, &now, NULL)) return RENGA_SUCCESS;
  }
  lock->other = now;
  RengaCheckpointLockDescribe(lock, sizeof text, text);
  RengaCheck(now.token == lock->mine.token, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "%s: another run has taken the directory over: %s", lock->path, text);
  return RENGA_SUCCESS;
}

static void EndRenewing(RengaCheckpointLock lock)
{
  pthread_mutex_lock(&lock->mutex);
  lock->ends = true;
  pthread_cond_signal(&lock->wake);
  pthread_mutex_unlock(&lock->mutex);
  if (lock->renews) pthread_join(lock->thread, NULL);
  pthread_cond_destroy(&lock->wake);
  pthread_mutex_destroy(&lock->mutex);
}

void RengaCheckpointLockDestroy(RengaCheckpointLock *lock)
{
  RengaCheckpointLock gone = *lock;
  Owner now;
  if (gone == NULL) return;
  if (gone->held) {
    EndRenewing(gone);
    if (ReadOwner(gone->path, &now, NULL) && now.token == gone->mine.token) unlink(gone->path);
    if (gone->file >= 0) close(gone->file);
  }
  RengaFree(&gone->path);
  RengaFree(&gone->temporary);
  RengaFree(lock);
}
