/* The one policy of waiting: test, yield, then sleep a little; nothing waits longer than its limit.

   A watch joins the processes of a RengaComm and of all groups made of it. It holds their time
   limit, and a communicator on the side on which ranks that wait for long tell each other so: who
   reaches the limit then knows who has given no sign. Nothing is sent before a quarter of the limit
   has passed, nor looked at in waits of less than a millisecond. */
#pragma once
#include "renga/private/fault.h"
#include "rengasys.h"
#include <pthread.h>

typedef struct _RengaWatch *RengaWatch;

/* Collective: comm gets a watch of its own, which starts with the time limit of RengaInitialize. */
RengaErrorCode RengaWatchCreate_Private(MPI_Comm comm);
/* group waits under the watch of comm from now on. */
RengaErrorCode RengaWatchShare_Private(MPI_Comm comm, MPI_Comm group);
/* Before comm is freed. The watch ends with its last communicator. */
RengaErrorCode RengaWatchRelease_Private(MPI_Comm comm);
/* Of comm and of all that share its watch. Seconds; 0: none. To set it is to try again. */
RengaErrorCode RengaWatchSetLimit_Private(MPI_Comm comm, double seconds);
double RengaWatchGetLimit_Private(MPI_Comm comm);
/* A wait reached the limit: MPI may still write to memory that was given to it. */
bool RengaWatchIsBroken_Private(MPI_Comm comm);
/* Messages were given up: as after a wait that reached the limit. */
void RengaWatchBreak_Private(MPI_Comm comm);

/* After the start of a message has failed: whether it is made once more, which a warning says. */
bool RengaStartAgain_Private(int error, const char *call, int attempt);
/* A call of MPI that starts a message or a collective. Where it fails it is made again: others wait
   for it, and what it was short of may be there a moment later. */
#define RengaCallStart(call)                                                                       \
  do {                                                                                             \
    int error_, attempt_ = 0;                                                                      \
    do error_ = RengaFaultIsDue(RENGA_FAULT_MESSAGE) ? MPI_ERR_INTERN : (call);                    \
    while (error_ != MPI_SUCCESS && RengaStartAgain_Private(error_, #call, ++attempt_));           \
    if (error_ != MPI_SUCCESS)                                                                     \
      return RengaErrorMPI(error_, #call, __func__, __FILE__, __LINE__), RENGA_ERR_LIBRARY;        \
  } while (0)

/* One wait; start with {.comm, .what} and 0. */
typedef struct {
  MPI_Comm comm;
  const char *what;                                                /* "all ranks to end the step" */
  void (*describe)(const void *subject, size_t size, char text[]); /* more of it; may be NULL */
  const void *subject;
  int64_t pauses, moved;
  double since, looked; /* MPI_Wtime */
  RengaWatch watch;
} RengaWait;

/* Called as long as there is nothing to do. moved: any count that changes when something moves,
   which starts the time anew. RENGA_ERR_TIMEOUT at the limit; then at once in all waits of the
   watch. */
RengaErrorCode RengaWaitPause_Private(RengaWait *wait, int64_t moved);
RengaErrorCode RengaWaitRequest_Private(MPI_Comm comm, MPI_Request *request, const char *what);
/* Around a call of MPI that cannot be bounded: where Renga started MPI, a thread ends the process
   when the call takes longer than the limit. Not one within another. */
void RengaGuardBegin_Private(const char *call);
void RengaGuardEnd_Private(void);
/* A condition whose timed waits go by a clock that nobody sets. */
void RengaConditionBegin_Private(pthread_cond_t *condition);
/* The ranks of comm on this node, in their order; under the guard. */
RengaErrorCode RengaSplitByNode_Private(MPI_Comm comm, MPI_Comm *node);
/* Give all ranks the bytes of rank 0. More than 4096 lie in memory of RengaMalloc. */
RengaErrorCode RengaBroadcast_Private(MPI_Comm comm, void *buffer, size_t bytes, const char *what);
/* The sum, largest ... of one number of each rank. */
RengaErrorCode RengaReduceInt64_Private(MPI_Comm comm, MPI_Op op, int64_t *value, const char *what);
