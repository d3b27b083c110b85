/* SIGUSR1 asks for a checkpoint; SIGTERM for one and the end, as batch systems send it before the
   time is up. */
#include "checkpointimpl.h"
#include <errno.h>
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t asked_to_write, asked_to_stop;
static struct sigaction before_usr1, before_term;
static int users; /* objects that rely on the handlers */

static void Remember(int signal)
{
  if (signal == SIGTERM)
    asked_to_stop = 1;
  else
    asked_to_write = 1;
}

RengaErrorCode RengaCheckpointCatchSignals_Private(void)
{
  struct sigaction action;
  if (users++ > 0) return RENGA_SUCCESS;
  memset(&action, 0, sizeof action);
  action.sa_handler = Remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  asked_to_write = asked_to_stop = 0;
  bool good = sigaction(SIGUSR1, &action, &before_usr1) == 0 &&
              sigaction(SIGTERM, &action, &before_term) == 0;
  RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "signals: %s", strerror(errno));
  return RENGA_SUCCESS;
}

void RengaCheckpointReleaseSignals_Private(void)
{
  if (--users > 0) return;
  sigaction(SIGUSR1, &before_usr1, NULL);
  sigaction(SIGTERM, &before_term, NULL);
}

int RengaCheckpointTakeSignals_Private(void)
{
  int asked = 0;
  if (asked_to_write) asked |= RENGA_ASKED_TO_WRITE;
  if (asked_to_stop) asked |= RENGA_ASKED_TO_STOP;
  asked_to_write = 0;
  if (asked & RENGA_ASKED_TO_STOP) asked_to_stop = 0;
  return asked;
}
