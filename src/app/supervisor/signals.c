/* Signals to renga run: SIGTERM, SIGINT and SIGHUP ask the run to leave, and so does SIGUSR1, by
   which batch systems and watchers of spot machines warn. They come only where it waits. */
#include "supervisor.h"
#include <poll.h>
#include <string.h>
#include <time.h>

static const int leaving[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
enum { N_LEAVING = sizeof leaving / sizeof leaving[0] };
static volatile sig_atomic_t times_asked, asked_by;

static void NoteLeaving(int signal)
{
  times_asked++;
  asked_by = signal;
}

/* The end of a child: only that the wait ends. */
static void NoteChild(int signal)
{
  (void)signal;
}

void SupervisorCatchSignals(SupervisorSignals *signals)
{
  struct sigaction action, before;
  sigset_t caught;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  sigemptyset(&caught);
  sigaddset(&caught, SIGCHLD);
  for (int i = 0; i < N_LEAVING; i++) sigaddset(&caught, leaving[i]);
  sigprocmask(SIG_BLOCK, &caught, &signals->others);
  for (int i = 0; i < N_LEAVING; i++) {
    action.sa_handler = NoteLeaving;
    sigaction(leaving[i], &action, &before);
    if (leaving[i] == SIGHUP && before.sa_handler == SIG_IGN) /* started by nohup */
      sigaction(SIGHUP, &before, NULL);
    sigdelset(&signals->others, leaving[i]);
  }
  action.sa_handler = NoteChild;
  sigaction(SIGCHLD, &action, NULL);
  sigdelset(&signals->others, SIGCHLD);
  action.sa_handler = SIG_IGN; /* whoever read the standard output is gone */
  sigaction(SIGPIPE, &action, NULL);
}

void SupervisorPause(const SupervisorSignals *signals, double seconds, const int file[2])
{
  struct pollfd look[2] = {{.fd = file[0], .events = POLLIN}, {.fd = file[1], .events = POLLIN}};
  const struct timespec most = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  ppoll(look, 2, &most, &signals->others);
}

int SupervisorAsked(void)
{
  return times_asked;
}

int SupervisorAskedBy(void)
{
  return asked_by;
}
