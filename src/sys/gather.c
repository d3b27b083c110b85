/* Bytes of all ranks to rank 0, waiting politely. */
#include "renga/private/gather.h"
#include "renga/private/wait.h"
#include <limits.h>

RengaErrorCode RengaGatherBytes(MPI_Comm comm, const void *mine, size_t bytes, char **all,
                                size_t **sizes, const char *what)
{
  int rank, size, *counts = NULL, *places = NULL, count = (int)bytes;
  int64_t total = 0;
  MPI_Request request;
  char *gathered = NULL;
  size_t *lengths = NULL;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Comm_size(comm, &size));
  RengaCall(RengaMalloc(size, &counts));
  RengaCall(RengaMalloc(size, &places));
  RengaCallMPI(MPI_Iallgather(&count, 1, MPI_INT, counts, 1, MPI_INT, comm, &request));
  RengaCall(RengaWaitRequest_Private(comm, &request, what));
  for (int i = 0; i < size; total += counts[i++]) places[i] = (int)total;
  RengaCheck(total < INT_MAX, comm, RENGA_ERR_SUPPORT,
             "%lld bytes of all ranks are too many for one", (long long)total);
  if (rank == 0) {
    RengaCall(RengaMalloc(total + 1, &gathered));
    RengaCall(RengaMalloc(size, &lengths));
    for (int i = 0; i < size; i++) lengths[i] = (size_t)counts[i];
  }
  RengaCallMPI(
      MPI_Igatherv(mine, count, MPI_BYTE, gathered, counts, places, MPI_BYTE, 0, comm, &request));
  RengaCall(RengaWaitRequest_Private(comm, &request, what));
  RengaFree(&counts);
  RengaFree(&places);
  *all = gathered;
  *sizes = lengths;
  return RENGA_SUCCESS;
}
