/* The one policy of waiting. MPICH spins; with more ranks than cores that costs time slices. */
#include "renga/private/wait.h"
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

enum { YIELDS = 100, SHORT_SLEEPS = 200 };

/* Without this Linux adds 50 microseconds to every sleep. */
static void SetTimerSlack(void)
{
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

void RengaWaitPause(RengaWaitPolicy *policy)
{
  policy->pauses++;
  if (policy->pauses <= YIELDS) {
    sched_yield();
    return;
  }
  if (policy->pauses == YIELDS + 1) SetTimerSlack();
  long microseconds = policy->pauses <= YIELDS + SHORT_SLEEPS ? 20 : 50;
  struct timespec pause = {0, microseconds * 1000};
  nanosleep(&pause, NULL);
}

RengaErrorCode RengaWaitRequest(MPI_Request *request)
{
  RengaWaitPolicy policy = {0};
  int done = 0;
  for (;;) {
    RengaCallMPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (done) return RENGA_SUCCESS;
    RengaWaitPause(&policy);
  }
}
