/* Parcels: one message of a device's memory at a time, by the transport's type. */
#include "transportimpl.h"

RengaErrorCode RengaParcelMake(RengaTransport transport, RengaComm comm, bool sums, char *staging,
                               size_t room, RengaParcel *parcel)
{
  RengaParcel made;
  RengaCall(RengaMalloc(1, &made));
  *made = (struct _RengaParcel){.transport = transport,
                                .comm = comm,
                                .sums = sums,
                                .staging = staging,
                                .room = room,
                                .order = &transport->order};
  const RengaErrorCode code =
      transport->ops->parcelcreate ? transport->ops->parcelcreate(made) : RENGA_SUCCESS;
  if (code) RengaFree(&made);
  RengaCall(code);
  transport->users++;
  *parcel = made;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaParcelCreate_Private(RengaTransport transport, RengaComm comm, size_t room,
                                         RengaParcel *parcel)
{
  RengaCall(RengaParcelMake(transport, comm, false, NULL, room, parcel));
  return RENGA_SUCCESS;
}

/* What comm would find, perhaps only when nobody listens any more. */
static RengaErrorCode CheckParcel(RengaParcel parcel, size_t bytes, int peer)
{
  const int size = RengaCommGetSize(parcel->comm);
  RengaCheck(peer >= 0 && peer < size, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank %d is not one of 0 to %d", peer, size - 1);
  RengaCheck(!RengaParcelIsUnderWay_Private(parcel), MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the parcel carries another message: call RengaParcelWait");
  RengaCheck(bytes <= parcel->room, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a message of %zu bytes in a parcel for %zu", bytes, parcel->room);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaParcelSend_Private(RengaParcel parcel, const void *memory, size_t bytes, int to,
                                       int tag)
{
  RengaCall(CheckParcel(parcel, bytes, to));
  RengaCall(parcel->transport->ops->send(parcel, memory, bytes, to, tag));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaParcelReceive_Private(RengaParcel parcel, void *memory, size_t bytes, int from,
                                          int tag)
{
  RengaCall(CheckParcel(parcel, bytes, from));
  RengaCall(parcel->transport->ops->receive(parcel, memory, bytes, from, tag));
  return RENGA_SUCCESS;
}

bool RengaParcelIsUnderWay_Private(const struct _RengaParcel *parcel)
{
  return parcel->under_way;
}

bool RengaParcelIsLeft(const struct _RengaParcel *parcel)
{
  return parcel->request || (parcel->given && !parcel->transport->ops->cancel);
}

RengaErrorCode RengaParcelTest_Private(RengaParcel parcel, bool *done)
{
  *done = true;
  if (parcel->under_way) RengaCall(parcel->transport->ops->test(parcel, done));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaParcelWait_Private(RengaParcel parcel, const char *what)
{
  if (parcel->under_way) RengaCall(parcel->transport->ops->wait(parcel, what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaParcelDestroy_Private(RengaParcel *parcel)
{
  RengaParcel p = *parcel;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!p) return RENGA_SUCCESS;
  if (p->transport->ops->parceldestroy) code = p->transport->ops->parceldestroy(p);
  p->transport->users--;
  RengaFree(parcel);
  RengaCall(code);
  return RENGA_SUCCESS;
}
