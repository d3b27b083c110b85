/* SIGUSR1 asks for a checkpoint; SIGTERM, which batch systems send before the time is up, SIGINT
   and SIGHUP ask for one and the end. */
#include "checkpointimpl.h"
#include <errno.h>
#include <signal.h>
#include <string.h>

static const int caught[] = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};
enum { N_CAUGHT = sizeof caught / sizeof caught[0] };

static volatile sig_atomic_t asked_to_write, asked_to_stop;
static struct sigaction before[N_CAUGHT];
static int users; /* objects that rely on the handlers */

static void RememberSignal(int signal)
{
  if (signal == SIGUSR1)
    asked_to_write = 1;
  else
    asked_to_stop = 1;
}

RengaErrorCode RengaCheckpointCatchSignals_Private(void)
{
  struct sigaction action;
  if (users++ > 0) return RENGA_SUCCESS;
  memset(&action, 0, sizeof action);
  action.sa_handler = RememberSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  asked_to_write = asked_to_stop = 0;
  for (int i = 0; i < N_CAUGHT; i++) {
    RengaCheck(sigaction(caught[i], &action, &before[i]) == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "signal %d: %s", caught[i], strerror(errno));
    if (caught[i] == SIGHUP && before[i].sa_handler == SIG_IGN) /* started by nohup */
      sigaction(SIGHUP, &before[i], NULL);
  }
  return RENGA_SUCCESS;
}

void RengaCheckpointReleaseSignals_Private(void)
{
  if (--users > 0) return;
  for (int i = 0; i < N_CAUGHT; i++) sigaction(caught[i], &before[i], NULL);
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

/*@
   RengaCheckpointSetSignals - whether signals ask for checkpoints

   Input:
   . checkpoint - the checkpoint, not yet set up
   . signals - true: SIGUSR1 asks for a checkpoint; SIGTERM, SIGINT and SIGHUP ask for one and the
     end; false (default): the program's own handlers stay

   Options:
   . -checkpoint_signals - the same

   Errors: RENGA_ERR_ORDER after RengaCheckpointSetUp.

   See also: RengaCheckpointGetSignals(), RengaCheckpointStep()
@*/
RengaErrorCode RengaCheckpointSetSignals(RengaCheckpoint checkpoint, bool signals)
{
  RengaCheckPointer(checkpoint);
  RengaCheck(checkpoint->hdr.state < RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaCheckpointSetSignals comes before RengaCheckpointSetUp");
  checkpoint->options.signals = signals;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCheckpointGetSignals(RengaCheckpoint checkpoint, bool *signals)
{
  RengaCheckPointers(checkpoint, signals);
  *signals = checkpoint->options.signals;
  return RENGA_SUCCESS;
}
