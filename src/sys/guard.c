/* Ends of processes that nobody else could end: calls of MPI that do not come back. */
#include "renga/private/wait.h"
#include "sys.h"
#include "watch.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static volatile sig_atomic_t code_at_end;

static void EndNow(int signal)
{
  (void)signal;
  _exit(code_at_end);
}

void RengaEndBy(unsigned seconds, int exit_code)
{
  struct sigaction action;
  sigset_t alarms;
  memset(&action, 0, sizeof action);
  action.sa_handler = EndNow;
  sigemptyset(&action.sa_mask);
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  code_at_end = exit_code;
  sigaction(SIGALRM, &action, NULL);
  pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
  alarm(seconds);
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
  const int length = snprintf(
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
