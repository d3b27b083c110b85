/* Ends of processes that nobody else could end: calls of MPI that do not come back. */
#include "renga/private/number.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include "sys.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FINALIZE_SECONDS = 3 };

static struct {
  bool allowed; /* Renga started MPI: its calls and the process's end are Renga's */
  bool on, over;
  double seconds;
  const char *call;
  int exit_code;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where the ranks run, in the order of the processes that called RengaInitialize. */
typedef struct {
  uint64_t machine; /* the same for ranks that see each other's processes */
  int64_t process;
} ProcessPlace;
static struct {
  int count;
  uint64_t machine;    /* this rank's */
  ProcessPlace *place; /* [count]; NULL: not known */
} ranks;

/* What the handlers of SIGALRM read. */
static struct {
  volatile sig_atomic_t exit_code;
  int launcher; /* the descriptor of MPICH's process manager, or -1 */
  pthread_t caller;
} last = {.launcher = -1};

static void EndNow(int signal)
{
  (void)signal;
  _exit(last.exit_code);
}

/* MPICH's process manager takes the end of a process that did not take leave for a failure. Then
   the process stays a while: its end would wake others inside MPI_Finalize before their own alarm,
   and they would go on to a barrier of the process manager that some have left. */
static void TakeLeave(void)
{
  static const char leave[] = "cmd=finalize\n";
  static const struct timespec others = {1, 500000000};
  struct pollfd answer = {.fd = last.launcher, .events = POLLIN};
  char text[256];
  if (write(last.launcher, leave, sizeof leave - 1) < 0) return;
  if (poll(&answer, 1, 1000) > 0 && read(last.launcher, text, sizeof text) < 0) return;
  nanosleep(&others, NULL);
}

/* In the thread that is inside MPI_Finalize, which so cannot read what the launcher answers. */
static void LeaveNow(int signal)
{
  if (!pthread_equal(pthread_self(), last.caller)) {
    pthread_kill(last.caller, signal);
    return;
  }
  if (last.launcher >= 0) TakeLeave();
  _exit(last.exit_code);
}

static void SetAlarm(unsigned seconds, int exit_code, void (*handler)(int),
                     struct sigaction *before)
{
  struct sigaction action;
  sigset_t alarms;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  last.exit_code = exit_code;
  sigaction(SIGALRM, &action, before);
  pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
  alarm(seconds);
}

void RengaEndBy(unsigned seconds, int exit_code)
{
  SetAlarm(seconds, exit_code, EndNow, NULL);
}

void RengaFinalizeMPI(int exit_code)
{
  struct sigaction before;
  /* The first is of MPICH's mpiexec: others speak differently. */
  const char *launcher = getenv("MPI_LOCALNRANKS") ? getenv("PMI_FD") : NULL;
  last.launcher = launcher ? (int)strtol(launcher, NULL, 10) : -1;
  last.caller = pthread_self();
  fflush(NULL);
  SetAlarm(FINALIZE_SECONDS, exit_code, LeaveNow, &before);
  MPI_Finalize();
  alarm(0);
  sigaction(SIGALRM, &before, NULL);
}

void RengaGuardAllow(bool allowed)
{
  guard.allowed = allowed;
}

/* The letter that the system has for what the process does; 'X': there is none any more. */
static char StateOfProcess(int64_t process)
{
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
  const int file = RengaFileDescriptor_Private(path, O_RDONLY, 0);
  const ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[got > 0 ? got : 0] = '\0';
  const char *behind = strrchr(text, ')'); /* of the name, which may have any letters */
  return behind && behind[1] == ' ' ? behind[2] : 'X';
}

/* "; no sign of rank 3 (its process 1234 is stopped)" of the first on this machine, or "". */
static void NameStopped(size_t size, char text[])
{
  text[0] = '\0';
  for (int r = 0; ranks.place && r < ranks.count; r++) {
    if (ranks.place[r].machine != ranks.machine) continue;
    const char state = StateOfProcess(ranks.place[r].process);
    if (!strchr("TtZXx", state)) continue;
    snprintf(text, size, "no sign of rank %d (its process %lld %s)", r,
             (long long)ranks.place[r].process,
             state == 'T' || state == 't' ? "is stopped" : "has ended");
    return;
  }
}

/* Only what may be called while another thread is inside MPI, or holds the lock of a stream. */
static void GuardEndProcess(void)
{
  char text[384], stopped[96];
  const char *rank = getenv("PMI_RANK");
  NameStopped(sizeof stopped, stopped);
  const int length = RengaTextFormat(
      text, sizeof text,
      "[rank %s] error: time limit reached: %s has not come back for %.3g s: %s\n",
      rank ? rank : "?", guard.call, guard.seconds,
      stopped[0] ? stopped : "some rank has not come to it (stopped, busy or cut off)");
  const ssize_t written = write(STDERR_FILENO, text, (size_t)length);
  text[length - (written > 0)] = '\0'; /* without the end of the line */
  RengaSignError(rank ? (int)strtol(rank, NULL, 10) : 0, RENGA_ERR_TIMEOUT, strchr(text, ':') + 2);
  _exit(guard.exit_code);
}

static void *GuardRun(void *nothing)
{
  struct timespec end;
  int error = 0;
  (void)nothing;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += (time_t)guard.seconds;
  end.tv_nsec += (long)((guard.seconds - (double)(time_t)guard.seconds) * 1e9);
  if (end.tv_nsec >= 1000000000) {
    end.tv_sec++;
    end.tv_nsec -= 1000000000;
  }
  pthread_mutex_lock(&guard.lock);
  while (!guard.over && error != ETIMEDOUT)
    error = pthread_cond_timedwait(&guard.changed, &guard.lock, &end);
  if (!guard.over) GuardEndProcess();
  pthread_mutex_unlock(&guard.lock);
  return NULL;
}

void RengaConditionBegin_Private(pthread_cond_t *condition)
{
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &clock);
  pthread_condattr_destroy(&clock);
}

/* Processes see each other where host and space of numbers are the same. */
static ProcessPlace PlaceOfMine(void)
{
  char text[MPI_MAX_PROCESSOR_NAME + 64] = "";
  const ProcessPlace mine = {.process = getpid()};
  if (gethostname(text, MPI_MAX_PROCESSOR_NAME - 1) != 0) return mine;
  const size_t used = strlen(text);
  const ssize_t more = readlink("/proc/self/ns/pid", text + used, sizeof text - used - 1);
  return (ProcessPlace){.machine = more > 0 ? RengaHash(text, strlen(text), 5) : 0,
                        .process = mine.process};
}

static int64_t ProcessOf(int rank)
{
  return ranks.place[rank].process;
}

RengaErrorCode RengaGuardMeet(MPI_Comm comm)
{
  ProcessPlace *place = NULL, *mine = NULL;
  MPI_Request request;
  int size;
  RengaCallMPI(MPI_Comm_size(comm, &size));
  RengaErrorCode code = RengaMalloc(size, &place);
  if (!code) code = RengaMalloc(1, &mine);
  code = RengaErrorAgree(comm, code);
  if (!code) {
    *mine = PlaceOfMine();
    RengaCallStart(MPI_Iallgather(mine, sizeof *mine, MPI_BYTE, place, sizeof *mine, MPI_BYTE, comm,
                                  &request));
    code = RengaWaitRequest_Private(comm, &request, "all ranks to start");
  }
  RengaFree(&mine);
  if (code) RengaFree(&place);
  RengaCall(code);
  RengaGuardForget();
  ranks.machine = PlaceOfMine().machine;
  ranks.count = size;
  ranks.place = place;
  RengaSignStart(RengaSysRank(), size, ProcessOf);
  return RENGA_SUCCESS;
}

void RengaGuardForget(void)
{
  RengaFree(&ranks.place);
  ranks.count = 0;
}

void RengaGuardBegin_Private(const char *call)
{
  sigset_t all, before;
  guard.seconds = RengaWatchGetLimit_Private(MPI_COMM_NULL);
  if (!guard.allowed || guard.seconds <= 0) return;
  guard.call = call;
  guard.exit_code = RENGA_ERR_TIMEOUT;
  guard.over = false;
  RengaConditionBegin_Private(&guard.changed);
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  guard.on = pthread_create(&guard.thread, NULL, GuardRun, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!guard.on) pthread_cond_destroy(&guard.changed);
}

void RengaGuardEnd_Private(void)
{
  if (!guard.on) return;
  pthread_mutex_lock(&guard.lock);
  guard.over = true;
  pthread_cond_signal(&guard.changed);
  pthread_mutex_unlock(&guard.lock);
  pthread_join(guard.thread, NULL);
  pthread_cond_destroy(&guard.changed);
  guard.on = false;
}

static RengaErrorCode StartSplit(MPI_Comm comm, MPI_Comm *node)
{
  RengaCallStart(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSplitByNode_Private(MPI_Comm comm, MPI_Comm *node)
{
  /* MPI's own wait spins, and names nobody. */
  RengaCall(RengaErrorAgree(comm, RENGA_SUCCESS));
  RengaGuardBegin_Private("MPI_Comm_split_type");
  const RengaErrorCode code = StartSplit(comm, node);
  RengaGuardEnd_Private();
  RengaCall(code);
  return RENGA_SUCCESS;
}
