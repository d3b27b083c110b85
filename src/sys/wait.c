/* The one policy of waiting. MPICH spins; with more ranks than cores that costs time slices. */
#include "renga/private/wait.h"
#include "watch.h"
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { ATTEMPTS = 3, YIELDS = 100, SHORT_SLEEPS = 200, PIECE = 1 << 26 };
static const double LOOK_SECONDS = 1e-3; /* between two looks at the watch */

/* Without this Linux adds 50 microseconds to every sleep. */
static void SetTimerSlack(void)
{
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

bool RengaStartAgain_Private(int error, const char *call, int attempt)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (attempt >= ATTEMPTS) return false;
  MPI_Error_string(error, text, &length);
  RengaWarning(MPI_COMM_SELF, "MPI: %.*s: %s; it is tried again", (int)strcspn(call, "("), call,
               text);
  return true;
}

RengaErrorCode RengaWaitPause_Private(RengaWait *wait, int64_t moved)
{
  const double now = MPI_Wtime();
  if (wait->pauses++ == 0 || moved != wait->moved) {
    wait->since = now;
    wait->moved = moved;
  }
  if (wait->pauses <= YIELDS) {
    sched_yield();
    return RENGA_SUCCESS;
  }
  if (wait->pauses == YIELDS + 1) SetTimerSlack();
  if (now - wait->looked > LOOK_SECONDS) {
    RengaCall(RengaWatchLook(wait, now));
    wait->looked = now;
  }
  long microseconds = wait->pauses <= YIELDS + SHORT_SLEEPS ? 20 : 50;
  struct timespec pause = {0, microseconds * 1000};
  nanosleep(&pause, NULL);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWaitRequest_Private(MPI_Comm comm, MPI_Request *request, const char *what)
{
  RengaWait wait = {.comm = comm, .what = what};
  int done = 0;
  for (;;) {
    RengaCallMPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (done) return RENGA_SUCCESS;
    RengaCall(RengaWaitPause_Private(&wait, 0));
  }
}

/* By way of memory that is not the caller's stack: after a timeout MPI may still write there.
   Longer buffers are of RengaMalloc, which then stays. */
RengaErrorCode RengaBroadcast_Private(MPI_Comm comm, void *buffer, size_t bytes, const char *what)
{
  void *cells = bytes <= RENGA_WATCH_CELLS ? RengaWatchCells(comm) : buffer;
  if (bytes == 0) return RENGA_SUCCESS;
  if (cells != buffer) memcpy(cells, buffer, bytes);
  for (size_t at = 0; at < bytes; at += PIECE) {
    MPI_Request request;
    const size_t length = bytes - at < PIECE ? bytes - at : PIECE;
    RengaCallStart(MPI_Ibcast((char *)cells + at, (int)length, MPI_BYTE, 0, comm, &request));
    RengaCall(RengaWaitRequest_Private(comm, &request, what));
  }
  if (cells != buffer) memcpy(buffer, cells, bytes);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReduceInt64_Private(MPI_Comm comm, MPI_Op op, int64_t *value, const char *what)
{
  MPI_Request request;
  int64_t *cells = RengaWatchCells(comm);
  cells[0] = *value;
  RengaCallStart(MPI_Iallreduce(cells, cells + 1, 1, MPI_INT64_T, op, comm, &request));
  RengaCall(RengaWaitRequest_Private(comm, &request, what));
  *value = cells[1];
  return RENGA_SUCCESS;
}
