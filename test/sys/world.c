/* TEST ranks: 1 3 4 */
/* The library on some of the processes of a program that started MPI itself, twice; agreement. */
#include "../check.h"
#include "renga/private/wait.h"

static RengaErrorCode UseLibrary(MPI_Comm some)
{
  int rank, size;
  RengaCallMPI(MPI_Comm_rank(some, &rank));
  RengaCallMPI(MPI_Comm_size(some, &size));
  RengaCall(RengaSetWorld(some));
  RengaCall(RengaInitialize(NULL, NULL, NULL));
  Expect(RengaErrorAgree(some, RENGA_SUCCESS) == RENGA_SUCCESS);
  RengaErrorCode mine = rank == size - 1 ? RENGA_ERR_SHAPE : RENGA_SUCCESS;
  Expect(RengaErrorAgree(some, mine) == RENGA_ERR_SHAPE);
  MPI_Request request;
  RengaCallMPI(MPI_Ibarrier(some, &request));
  RengaCall(RengaWaitRequest_Private(some, &request, "all ranks"));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

static RengaErrorCode TestWorld(void)
{
  int rank, size, ended;
  MPI_Comm some;
  RengaCallMPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  RengaCallMPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  int color = size == 1 || rank > 0 ? 0 : MPI_UNDEFINED; /* rank 0 does something else */
  RengaCallMPI(MPI_Comm_split(MPI_COMM_WORLD, color, -rank, &some));
  if (some == MPI_COMM_NULL) return RENGA_SUCCESS;
  RengaCall(UseLibrary(some));
  RengaCall(UseLibrary(some));
  RengaCallMPI(MPI_Finalized(&ended));
  Expect(!ended);
  RengaCallMPI(MPI_Comm_free(&some));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  MPI_Init(&argc, &argv);
  RengaCallAbort(TestWorld());
  MPI_Finalize();
  return 0;
}
