/* Comm: the list of sums under way, and of what else waits move on. A comm shares it with all
   groups made of it, so that whoever waits for anything in one of them drives the sums of all. */
#include "sum.h"

void RengaCommSumEnter(RengaCommSum sum)
{
  RengaCommSums *sums = sum->comm->sums;
  RengaCommSum *end = &sums->first;
  while (*end) {
    sum->previous = *end;
    end = &(*end)->next;
  }
  *end = sum;
}

void RengaCommSumLeave(RengaCommSum sum)
{
  if (sum->previous)
    sum->previous->next = sum->next;
  else
    sum->comm->sums->first = sum->next;
  if (sum->next) sum->next->previous = sum->previous;
}

RengaErrorCode RengaCommSumsCreate(RengaComm parent, RengaComm comm)
{
  if (parent)
    comm->sums = parent->sums;
  else
    RengaCall(RengaMalloc(1, &comm->sums));
  comm->sums->holders++;
  return RENGA_SUCCESS;
}

/* broken: those that were given up are no mistake. */
RengaErrorCode RengaCommSumsRelease(RengaComm comm, bool broken)
{
  int left = 0;
  if (!comm->sums) return RENGA_SUCCESS;
  for (RengaCommSum sum = comm->sums->first, next; sum; sum = next) {
    next = sum->next;
    if (sum->comm != comm) continue;
    RengaCommSumLeave(sum);
    left++;
  }
  if (--comm->sums->holders == 0) RengaFree(&comm->sums);
  RengaCheck(left == 0 || broken, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "rank %d has not ended %d of its sums over %d ranks: call RengaCommSumEnd", comm->rank,
             left, comm->size);
  return RENGA_SUCCESS;
}

/* What sums have sent out of this rank's node. Sums of RengaCommSumBegin and its halves; where many
   pieces go to one rank each of them is a message. comm: the ranks; sums of the comm that it was
   made of, and of groups of that, are counted too. messages, bytes: the numbers of those that this
   rank has sent to ranks of other nodes so far, from 0. */
RengaErrorCode RengaCommGetSumTraffic(RengaComm comm, int64_t *messages, int64_t *bytes)
{
  RengaCheckPointers(comm, messages, bytes);
  *messages = comm->sums->messages_out;
  *bytes = comm->sums->bytes_out;
  return RENGA_SUCCESS;
}

void RengaCommDrive_Private(RengaComm comm, RengaCommDriven *driven)
{
  driven->previous = NULL;
  driven->next = comm->sums->driven;
  if (driven->next) driven->next->previous = driven;
  comm->sums->driven = driven;
}

void RengaCommUndrive_Private(RengaComm comm, RengaCommDriven *driven)
{
  if (driven->previous)
    driven->previous->next = driven->next;
  else
    comm->sums->driven = driven->next;
  if (driven->next) driven->next->previous = driven->previous;
}

void RengaCommMoved_Private(RengaComm comm)
{
  comm->sums->moved++;
}

RengaErrorCode RengaCommSumsAdvance(RengaComm comm)
{
  for (RengaCommDriven *driven = comm->sums->driven; driven; driven = driven->next)
    RengaCall(driven->advance(driven));
  for (RengaCommSum sum = comm->sums->first; sum; sum = sum->next) RengaCommSumAdvance(sum);
  return RENGA_SUCCESS;
}
