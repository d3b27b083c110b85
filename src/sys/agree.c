/* All ranks fail where one failed. */
#include "sys.h"
#include "renga/private/quiet.h"
#include "renga/private/wait.h"
#undef RengaErrorAgree /* of the analyser */

/*@
   RengaErrorAgree - make all ranks fail where one failed

   Collective

   Input:
   . comm - the ranks
   . mine - this rank's code; RENGA_SUCCESS where all is well

   Errors: the largest code of all ranks; RENGA_ERR_TIMEOUT where a rank does not come;
   RENGA_ERR_LIBRARY from MPI.

   Notes: returns the largest code of all ranks. Ranks that were well themselves stay silent. Waits
   politely, no longer than the time limit (RengaCommSetTimeout).

   See also: RengaErrorRaise(), RengaErrorAbort()
@*/
RengaErrorCode RengaErrorAgree(MPI_Comm comm, RengaErrorCode mine)
{
  int64_t largest = mine;
  RengaCall(RengaReduceInt64_Private(comm, MPI_MAX, &largest, "all ranks to say that all is well"));
  if (mine == RENGA_SUCCESS && largest != RENGA_SUCCESS) RengaErrorSilence((RengaErrorCode)largest);
  return (RengaErrorCode)largest;
}

RengaErrorCode RengaErrorAgreeOnce_Private(MPI_Comm comm, RengaErrorCode mine)
{
  int rank, size;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Comm_size(comm, &size));
  int64_t first = mine == RENGA_SUCCESS ? size : rank;
  RengaCall(RengaReduceInt64_Private(comm, MPI_MIN, &first, "all ranks to say who tells an error"));
  if (first == rank)
    RengaErrorRaise(MPI_COMM_SELF, mine, __func__, __FILE__, __LINE__, "%s",
                    RengaErrorGetMessage());
  else if (mine != RENGA_SUCCESS)
    RengaErrorLeave(); /* its sentence stays */
  return RengaErrorAgree(comm, mine);
}
