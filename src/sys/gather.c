/* Bytes of all ranks to rank 0, waiting politely. */
#include "renga/private/gather.h"
#include "renga/private/wait.h"
#include <limits.h>

typedef struct {
  MPI_Comm comm;
  int rank, size;
  const char *what;
  int *counts, *places; /* [size] */
  char *all;
  size_t *sizes; /* [size] */
} Gathering;

static RengaErrorCode GatherCounts(Gathering *gather, int count, int64_t *total)
{
  MPI_Request request;
  RengaErrorCode code = RengaMalloc(gather->size, &gather->counts);
  if (!code) code = RengaMalloc(gather->size, &gather->places);
  RengaCall(RengaErrorAgree(gather->comm, code));
  RengaCallStart(
      MPI_Iallgather(&count, 1, MPI_INT, gather->counts, 1, MPI_INT, gather->comm, &request));
  RengaCall(RengaWaitRequest_Private(gather->comm, &request, gather->what));
  for (int i = 0; i < gather->size; *total += gather->counts[i++]) gather->places[i] = (int)*total;
  RengaCheck(*total < INT_MAX, gather->comm, RENGA_ERR_SUPPORT,
             "%lld bytes of all ranks are too many for one", (long long)*total);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckByteCount(size_t bytes, const char *what)
{
  RengaCheck(bytes <= INT_MAX, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "waiting for %s: %zu bytes of one rank are too many for a message", what, bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherInOrder(Gathering *gather, const void *mine, size_t bytes)
{
  RengaErrorCode code = CheckByteCount(bytes, gather->what);
  const int count = (int)bytes;
  MPI_Request request;
  int64_t total = 0;
  RengaCall(RengaErrorAgree(gather->comm, code));
  RengaCall(GatherCounts(gather, count, &total));
  if (gather->rank == 0) {
    code = RengaMalloc(total + 1, &gather->all);
    if (!code) code = RengaMalloc(gather->size, &gather->sizes);
    for (int i = 0; i < gather->size && !code; i++) gather->sizes[i] = (size_t)gather->counts[i];
  }
  RengaCall(RengaErrorAgree(gather->comm, code));
  RengaCallStart(MPI_Igatherv(mine, count, MPI_BYTE, gather->all, gather->counts, gather->places,
                              MPI_BYTE, 0, gather->comm, &request));
  RengaCall(RengaWaitRequest_Private(gather->comm, &request, gather->what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGatherBytes(MPI_Comm comm, const void *mine, size_t bytes, char **all,
                                size_t **sizes, const char *what)
{
  Gathering gather = {.comm = comm, .what = what};
  RengaCallMPI(MPI_Comm_rank(comm, &gather.rank));
  RengaCallMPI(MPI_Comm_size(comm, &gather.size));
  const RengaErrorCode code = GatherInOrder(&gather, mine, bytes);
  RengaFree(&gather.counts);
  RengaFree(&gather.places);
  if (code) {
    RengaFree(&gather.all);
    RengaFree(&gather.sizes);
  }
  RengaCall(code);
  *all = gather.all;
  *sizes = gather.sizes;
  return RENGA_SUCCESS;
}
