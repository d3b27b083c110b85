/* The end of all ranks after an error. */
#include "renga/private/quiet.h"
#include "sys.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ABORT_SECONDS = 8 };
/* How long a rank that ends waits for the others: a quiet one lets one that reports go first. */
static const double REPORTER_WAITS = 1, QUIET_RANK_WAITS = 3;
/* mpiexec may drop what it has not read yet. After a time limit others are about to reach theirs
   and to say what they see: from both ends of a link that is cut one learns that it is the link. */
static const struct timespec forwarded = {0, 50000000}, forwarded_late = {1, 0};

/*@
   RengaErrorAbort - end every rank of the job with a non-zero exit code

   Input:
   . code - the error; becomes the exit code

   Errors: none: it does not return where the code is an error.

   Notes: does not return. Where all processes come here within a second, they end without noise, by
   MPI_Finalize; otherwise MPI_Abort ends the processes of RengaSetWorld. A rank that did not report
   its error lets the one that does go first, and one whose time is up gives the others a second to
   say so too. MPI may hang where the network is cut: the process
   ends after 8 s at the latest.

   See also: RengaErrorAgree(), RengaErrorRaise()
@*/
void RengaErrorAbort(RengaErrorCode code)
{
  const int exit_code = code == RENGA_SUCCESS ? RENGA_ERR_INTERNAL : (int)code;
  RengaEndBy(ABORT_SECONDS, exit_code);
  fflush(NULL);
  if (RengaSysHasMPI()) {
    const double patience = RengaErrorIsReported() ? REPORTER_WAITS : QUIET_RANK_WAITS;
    const bool late = code == RENGA_ERR_TIMEOUT, together = !late && RengaSysMeet(patience);
    nanosleep(late ? &forwarded_late : &forwarded, NULL);
    if (together)
      MPI_Finalize();
    else
      MPI_Abort(RengaSysWorld(), exit_code);
  }
  exit(exit_code);
}
