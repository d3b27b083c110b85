/* A number that tells data sets apart. */
#include "dataimpl.h"
#include "renga/private/wait.h"

/*@
   RengaDataGetDigest - a number that tells two data sets apart

   Collective; rank 0 reads

   Input:
   . data - set up

   Output:
   . digest - a hash of counts, shapes and types, and of up to 16 samples of each input, as they are
     stored. File names, order, masking and seed do not change it

   Errors: RENGA_ERR_ORDER before RengaDataSetUp; RENGA_ERR_TIMEOUT where a rank does not come;
   RENGA_ERR_LIBRARY from MPI.

   See also: RengaDataSetUp()
@*/
RengaErrorCode RengaDataGetDigest(RengaData data, uint64_t *digest)
{
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheckPointers(data, digest);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  uint64_t found = 0;
  RengaCallMPI(MPI_Comm_rank(data->hdr.comm, &rank));
  if (rank == 0) code = data->ops->digest(data, &found);
  RengaCall(RengaErrorAgree(data->hdr.comm, code));
  RengaCall(RengaBroadcast_Private(data->hdr.comm, &found, sizeof found,
                                   "rank 0 to read some samples of the data set"));
  *digest = found;
  return RENGA_SUCCESS;
}
