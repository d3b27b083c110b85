/* Communicators of Fortran, by their number. */
#include "commimpl.h"

/*@
   RengaCommCreateFortran - make Renga's private view of a communicator of Fortran

   Collective on user

   Input:
   . user - the integer of mpif.h and of the module mpi; with mpi_f08, comm%MPI_VAL

   Output:
   . comm - end it with RengaCommDestroy

   Errors: as of RengaCommCreate.

   See also: RengaCommCreate()
@*/
RengaErrorCode RengaCommCreateFortran(MPI_Fint user, RengaComm *comm)
{
  int started = 0;
  MPI_Initialized(&started);
  RengaCheck(started, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "MPI is not started: call RengaInitialize (or MPI_Init) before "
             "RengaCommCreateFortran");
  RengaCall(RengaCommCreate(MPI_Comm_f2c(user), comm));
  return RENGA_SUCCESS;
}

/*@
   RengaSetWorldFortran - the processes that Renga runs on, by a communicator of Fortran

   Input:
   . comm - the communicator of RengaCommCreateFortran; not copied; RengaInitialize is collective on
     it

   Errors: RENGA_ERR_ORDER after RengaInitialize.

   Notes: as RengaSetWorld.

   See also: RengaSetWorld()
@*/
RengaErrorCode RengaSetWorldFortran(MPI_Fint comm)
{
  RengaCall(RengaSetWorld(MPI_Comm_f2c(comm)));
  return RENGA_SUCCESS;
}
