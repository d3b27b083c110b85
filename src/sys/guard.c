/* Ends of processes that nobody else could end: calls of MPI that do not come back. */
#include "renga/private/number.h"
#include "renga/private/wait.h"
#include "sys.h"
#include "watch.h"
#include <errno.h>
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
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

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

/* Only what may be called while another thread is inside MPI, or holds the lock of a stream. */
static void GuardEndProcess(void)
{
  char text[256];
  const char *rank = getenv("PMI_RANK");
  const int length = RengaTextFormat(
      text, sizeof text,
      "[rank %s] error: time limit reached: %s has not come back for %.3g s: some rank has "
      "not come to it (stopped, busy or cut off)\n",
      rank ? rank : "?", guard.call, guard.seconds);
  if (write(STDERR_FILENO, text, (size_t)length) < 0) _exit(guard.exit_code);
  _exit(guard.exit_code);
}

static void *GuardRun(void *nothing)
{
  struct timespec end;
  int error = 0;
  (void)nothing;
  clock_gettime(CLOCK_REALTIME, &end);
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

void RengaGuardBegin_Private(const char *call)
{
  sigset_t all, before;
  guard.seconds = RengaWatchGetLimit_Private(MPI_COMM_NULL);
  if (!guard.allowed || guard.seconds <= 0) return;
  guard.call = call;
  guard.exit_code = RENGA_ERR_TIMEOUT;
  guard.over = false;
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  guard.on = pthread_create(&guard.thread, NULL, GuardRun, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void RengaGuardEnd_Private(void)
{
  if (!guard.on) return;
  pthread_mutex_lock(&guard.lock);
  guard.over = true;
  pthread_cond_signal(&guard.changed);
  pthread_mutex_unlock(&guard.lock);
  pthread_join(guard.thread, NULL);
  guard.on = false;
}

static RengaErrorCode StartSplit(MPI_Comm comm, MPI_Comm *node)
{
  RengaCallStart(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSplitByNode_Private(MPI_Comm comm, MPI_Comm *node)
{
  RengaGuardBegin_Private("MPI_Comm_split_type");
  const RengaErrorCode code = StartSplit(comm, node);
  RengaGuardEnd_Private();
  RengaCall(code);
  return RENGA_SUCCESS;
}
