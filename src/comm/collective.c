/* Comm: collectives. MPI's nonblocking ones, waited for politely, in pieces an int can count. */
#include "commimpl.h"

static RengaErrorCode FinishCollective(RengaComm comm, MPI_Request *request, int64_t bytes,
                                       const char *what)
{
  RengaLogEventBegin(comm->event[RENGA_COMM_EVENT_COLLECTIVE]);
  RengaCall(RengaCommWaitAll(comm, 1, request, what));
  RengaLogEventEnd(comm->event[RENGA_COMM_EVENT_COLLECTIVE], 0, 1, bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCollective(RengaComm comm, int64_t count, const void *buffer,
                                      const char *what, const char *function)
{
  RengaCheckPointerOf(function, comm);
  RengaCheckPointerOf(function, what);
  RengaCheck(count >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a count of %lld is negative",
             (long long)count);
  RengaCheck(count == 0 || buffer != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%lld values have no buffer", (long long)count);
  return RENGA_SUCCESS;
}

/*@
   RengaCommBarrier - wait until all ranks have come here

   Collective

   Input:
   . what - printed when nothing moves for the timeout

   Errors: RENGA_ERR_TIMEOUT where a rank does not come within the time limit; RENGA_ERR_LIBRARY
   from MPI.

   See also: RengaCommSetTimeout(), RengaCommBroadcast()
@*/
RengaErrorCode RengaCommBarrier(RengaComm comm, const char *what)
{
  MPI_Request request;
  RengaCall(CheckCollective(comm, 0, NULL, what, __func__));
  RengaCallStart(MPI_Ibarrier(comm->hdr.comm, &request));
  RengaCall(FinishCollective(comm, &request, 0, what));
  return RENGA_SUCCESS;
}

/*@
   RengaCommBroadcast - give all ranks the bytes of one

   Collective

   Input:
   . buffer - read on root, filled elsewhere
   . bytes - any number, the same on all ranks
   . root - the rank whose bytes all get, from 0
   . what - printed when nothing moves for the timeout

   Errors: RENGA_ERR_ARGUMENT for a root that there is not, or values without a buffer;
   RENGA_ERR_TIMEOUT where a rank does not come; RENGA_ERR_LIBRARY from MPI.

   See also: RengaCommGather(), RengaCommBarrier()
@*/
RengaErrorCode RengaCommBroadcast(RengaComm comm, void *buffer, size_t bytes, int root,
                                  const char *what)
{
  RengaCall(CheckCollective(comm, (int64_t)bytes, buffer, what, __func__));
  RengaCheck(root >= 0 && root < comm->size, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank %d is not one of 0 to %d", root, comm->size - 1);
  size_t limit = (size_t)comm->message_limit;
  for (size_t at = 0; at < bytes; at += limit) {
    MPI_Request request;
    int length = (int)(bytes - at < limit ? bytes - at : limit);
    RengaCallStart(
        MPI_Ibcast((char *)buffer + at, length, MPI_BYTE, root, comm->hdr.comm, &request));
    RengaCall(FinishCollective(comm, &request, length, what));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SumInPlace(RengaComm comm, MPI_Datatype type, size_t size, int64_t count,
                                 void *values, const char *what, const char *function)
{
  RengaCall(CheckCollective(comm, count, values, what, function));
  if (comm->size == 1) return RENGA_SUCCESS;
  int64_t limit = comm->message_limit / (int64_t)size;
  for (int64_t at = 0; at < count; at += limit) {
    MPI_Request request;
    int length = (int)(count - at < limit ? count - at : limit);
    RengaCallStart(MPI_Iallreduce(MPI_IN_PLACE, (char *)values + (size_t)at * size, length, type,
                                  MPI_SUM, comm->hdr.comm, &request));
    RengaCall(FinishCollective(comm, &request, length * (int64_t)size, what));
  }
  return RENGA_SUCCESS;
}

/* Add up vectors in which each place has at most one writer. Collective. X + 0 is exact, so the sum
   does not depend on who writes. -0 becomes 0 on any number of ranks. count: elements of the
   vector, at least 0, the same on all ranks. values: this rank's values, 0 elsewhere; the sum, on
   all ranks. */
RengaErrorCode RengaCommSumExact(RengaComm comm, int64_t count, double values[], const char *what)
{
  RengaCall(CheckCollective(comm, count, values, what, __func__));
  for (int64_t i = 0; i < count; i++) values[i] += 0.0;
  RengaCall(SumInPlace(comm, MPI_DOUBLE, sizeof(double), count, values, what, __func__));
  return RENGA_SUCCESS;
}

/*@
   RengaCommSumInt64 - add up vectors of integers

   Collective

   Input:
   . count - elements of the vector, at least 0, the same on all ranks
   . what - printed when nothing moves for the timeout

   Input and output:
   . values - this rank's; the sum, on all ranks

   Errors: RENGA_ERR_ARGUMENT for a negative count, or values without a buffer; RENGA_ERR_TIMEOUT
   where a rank does not come; RENGA_ERR_LIBRARY from MPI.

   See also: RengaCommGather()
@*/
RengaErrorCode RengaCommSumInt64(RengaComm comm, int64_t count, int64_t values[], const char *what)
{
  RengaCall(SumInPlace(comm, MPI_INT64_T, sizeof(int64_t), count, values, what, __func__));
  return RENGA_SUCCESS;
}

/* MPI adds no 16-bit floating numbers. */
static RengaErrorCode FindMPIType(RengaDataType type, MPI_Datatype *found)
{
  RengaCheck(type == RENGA_FLOAT32 || type == RENGA_FLOAT64, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "MPI does not add up %s vectors: float32 and float64 are supported",
             RengaDataTypeName(type));
  *found = type == RENGA_FLOAT32 ? MPI_FLOAT : MPI_DOUBLE;
  return RENGA_SUCCESS;
}

/* Add up vectors in the order that MPI likes. Collective. type: the type of the elements:
   RENGA_FLOAT32 or RENGA_FLOAT64. count: elements of the vector, at least 0, the same on all ranks.
   values: this rank's; the sum, on all ranks; its last bits depend on the number of ranks. */
RengaErrorCode RengaCommSumUnordered(RengaComm comm, RengaDataType type, int64_t count,
                                     void *values, const char *what)
{
  MPI_Datatype adds;
  RengaCall(FindMPIType(type, &adds));
  RengaCall(SumInPlace(comm, adds, RengaDataTypeSize(type), count, values, what, __func__));
  return RENGA_SUCCESS;
}

static RengaErrorCode StartGather(RengaComm comm, const void *mine, int length, void *all,
                                  MPI_Datatype place, int root, MPI_Request *request)
{
  if (root < 0)
    RengaCallStart(MPI_Iallgather(mine, length, MPI_BYTE, all, 1, place, comm->hdr.comm, request));
  else
    RengaCallStart(
        MPI_Igather(mine, length, MPI_BYTE, all, 1, place, root, comm->hdr.comm, request));
  return RENGA_SUCCESS;
}

/* length bytes, of which the next ones begin after stride bytes. */
static RengaErrorCode MakePlace(int length, size_t stride, MPI_Datatype *place)
{
  MPI_Datatype bytes;
  RengaCallMPI(MPI_Type_contiguous(length, MPI_BYTE, &bytes));
  int failed = MPI_Type_create_resized(bytes, 0, (MPI_Aint)stride, place);
  MPI_Type_free(&bytes);
  RengaCallMPI(failed);
  failed = MPI_Type_commit(place);
  if (failed) MPI_Type_free(place);
  RengaCallMPI(failed);
  return RENGA_SUCCESS;
}

/* Bytes [at, at+length) of each rank's; in all they stand stride bytes apart. */
static RengaErrorCode GatherPart(RengaComm comm, const char *mine, size_t at, int length, char *all,
                                 size_t stride, int root, const char *what)
{
  MPI_Datatype place;
  MPI_Request request;
  RengaCall(MakePlace(length, stride, &place));
  RengaErrorCode code =
      StartGather(comm, mine + at, length, all == NULL ? NULL : all + at, place, root, &request);
  if (!code) code = FinishCollective(comm, &request, length, what);
  MPI_Type_free(&place); /* MPI keeps it as long as it needs it */
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaCommGather - collect the same number of bytes from each rank

   Collective

   Input:
   . mine - this rank's bytes
   . bytes - bytes of each rank, at least 0, the same on all ranks
   . root - who gets them; -1: all ranks
   . what - printed when nothing moves for the timeout

   Output:
   . all - size × bytes, in order of ranks; may be NULL where nothing arrives

   Errors: RENGA_ERR_ARGUMENT for a root that there is not, a negative count, or no buffer on a
   rank that gathers; RENGA_ERR_TIMEOUT where a rank does not come; RENGA_ERR_LIBRARY from MPI.

   See also: RengaCommBroadcast()
@*/
RengaErrorCode RengaCommGather(RengaComm comm, const void *mine, size_t bytes, void *all, int root,
                               const char *what)
{
  RengaCall(CheckCollective(comm, (int64_t)bytes, mine, what, __func__));
  RengaCheck(root >= -1 && root < comm->size, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank %d is not one of 0 to %d, or -1", root, comm->size - 1);
  bool gets = root < 0 || root == comm->rank;
  RengaCheck(!gets || all != NULL || bytes == 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank %d gathers into no buffer", comm->rank);
  size_t limit = (size_t)comm->message_limit;
  for (size_t at = 0; at < bytes; at += limit) {
    int length = (int)(bytes - at < limit ? bytes - at : limit);
    RengaCall(GatherPart(comm, mine, at, length, gets ? all : NULL, bytes, root, what));
  }
  return RENGA_SUCCESS;
}
