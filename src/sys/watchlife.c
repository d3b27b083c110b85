/* Watches of communicators: made on all ranks, and ended with the last communicator. */
#include "watch.h"
#include <stdlib.h>

enum { NEAR = 7 };

/* Not of the ledger: the watch of the world is still used when leaks are reported. */
static RengaErrorCode WatchAllocate(int rank, int size, RengaWatch *watch)
{
  RengaWatch w = calloc(1, sizeof *w);
  RengaCheck(w, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for %zu bytes", sizeof *w);
  *watch = w;
  w->side = MPI_COMM_NULL;
  w->incoming = MPI_REQUEST_NULL;
  w->rank = rank;
  w->size = size;
  w->bytes = RENGA_WATCH_TEXT + (size_t)size * sizeof(float);
  for (int far = 1; far < size && w->n_peers<RENGA_WATCH_PEERS; far += far> NEAR ? far : 1)
    w->peer[w->n_peers++] = far;
  for (int p = 0; p < RENGA_WATCH_PEERS; p++) w->sent[p] = MPI_REQUEST_NULL;
  w->seen = calloc((size_t)size, sizeof *w->seen);
  w->in = calloc((size_t)w->n_peers + 1, w->bytes);
  RengaCheck(w->seen && w->in, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for %zu bytes",
             (size_t)(w->n_peers + 1) * w->bytes);
  w->out = w->in + w->bytes;
  return RENGA_SUCCESS;
}

static void WatchFree(RengaWatch watch)
{
  if (!watch) return;
  free(watch->seen);
  free(watch->in);
  free(watch);
}

static RengaErrorCode WatchOpen(RengaWatch watch, MPI_Comm comm)
{
  MPI_Request request;
  watch->limit = RengaWatchGetLimit_Private(MPI_COMM_NULL);
  if (watch->size > 1) {
    RengaCallMPI(MPI_Comm_idup(comm, &watch->side, &request));
    RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to make a communicator"));
    RengaCallMPI(MPI_Comm_set_errhandler(watch->side, MPI_ERRORS_RETURN));
  }
  RengaCall(RengaWatchAttach(watch, comm));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWatchCreate_Private(MPI_Comm comm)
{
  RengaWatch watch = NULL;
  int rank, size;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Comm_size(comm, &size));
  RengaErrorCode code = RengaErrorAgree(comm, WatchAllocate(rank, size, &watch));
  if (!code) code = WatchOpen(watch, comm);
  if (code && code != RENGA_ERR_TIMEOUT) WatchFree(watch);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* open: MPI may still use the watch, which has to stay. */
static RengaErrorCode WatchClose(RengaWatch watch, bool *open)
{
  *open = watch->broken;
  if (watch->size > 1) RengaCall(RengaWatchListen(watch, MPI_Wtime()));
  for (int p = 0; p < watch->n_peers; p++) {
    int done = 0;
    RengaCallMPI(MPI_Test(&watch->sent[p], &done, MPI_STATUS_IGNORE));
    if (!done) *open = true;
  }
  if (!*open && watch->side != MPI_COMM_NULL) RengaCallMPI(MPI_Comm_free(&watch->side));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWatchRelease_Private(MPI_Comm comm)
{
  RengaWatch watch;
  bool open;
  RengaCall(RengaWatchDetach(comm, &watch));
  if (!watch) return RENGA_SUCCESS;
  const RengaErrorCode code = WatchClose(watch, &open);
  if (!open) WatchFree(watch);
  return code;
}
