/* A rank that stops inside a call of MPI that has no limit of its own: run by split.sh. */
#include "../check.h"
#include "rengacomm.h"
#include <signal.h>

/* Between the wait that comes before, which all ranks have passed, and the call. */
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *group)
{
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) raise(SIGSTOP);
  return PMPI_Comm_split(comm, color, key, group);
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, group;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommSplit(comm, 0, 0, &group));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
