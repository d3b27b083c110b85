/* Comm: who carries the messages of a sum where nobody else does: MPI, on the vectors' own
   memory. */
#include "sum.h"

static RengaErrorCode CarrySend(void *user, int place, const void *from, size_t bytes, int to,
                                int tag)
{
  RengaCommSum sum = user;
  RengaCallStart(MPI_Isend(from, (int)bytes, MPI_BYTE, to, tag, sum->comm->tree,
                           &sum->memory->requests[place]));
  return RENGA_SUCCESS;
}

static RengaErrorCode CarryReceive(void *user, int place, void *to, size_t room, int from, int tag)
{
  RengaCommSum sum = user;
  RengaCallStart(MPI_Irecv(to, (int)room, MPI_BYTE, from, tag, sum->comm->tree,
                           &sum->memory->requests[place]));
  return RENGA_SUCCESS;
}

static RengaErrorCode CarryTest(void *user, int place, bool *done, size_t *bytes)
{
  RengaCommSum sum = user;
  int arrived = 0, count = 0;
  MPI_Status status;
  *done = true; /* of a message that MPI cannot test nothing more is known */
  RengaCallMPI(MPI_Test(&sum->memory->requests[place], &arrived, &status));
  *done = arrived;
  if (!arrived || !bytes) return RENGA_SUCCESS;
  RengaCallMPI(MPI_Get_count(&status, MPI_BYTE, &count));
  *bytes = (size_t)count;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCommSumUseMPI(RengaCommSum sum)
{
  RengaCall(RengaMalloc(sum->memory->n_places, &sum->memory->requests));
  for (int i = 0; i < sum->memory->n_places; i++) sum->memory->requests[i] = MPI_REQUEST_NULL;
  sum->carrier = (RengaCommCarrier){
      .send = CarrySend, .receive = CarryReceive, .test = CarryTest, .user = sum};
  return RENGA_SUCCESS;
}
