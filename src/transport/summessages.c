/* Convoys: the parcels that carry the messages of a sum over ranks (rengacomm.h). */
#include "transportimpl.h"

/* Messages that need no staging memory have none. */
static char *PartOfStaging(const struct _RengaConvoy *convoy, int i, size_t bytes)
{
  return convoy->staging ? convoy->staging + (size_t)i * bytes : NULL;
}

static RengaErrorCode FillConvoy(RengaConvoy convoy)
{
  RengaTransport transport = convoy->transport;
  if (!transport->direct) {
    RengaCall(RengaDeviceHostMalloc(transport->device, convoy->bytes, &convoy->staging));
    transport->staging += convoy->bytes;
  }
  RengaCall(RengaMalloc(convoy->count, &convoy->parcel));
  for (int i = 0; i < convoy->count; i++) {
    RengaCall(RengaParcelMake(transport, convoy->comm, true, PartOfStaging(convoy, i, convoy->each),
                              convoy->each, &convoy->parcel[i]));
    convoy->parcel[i]->order = &convoy->order;
  }
  return RENGA_SUCCESS;
}

/* A sum waits for the gradients that it adds up, and no other sum waits behind it: convoys have a
   stream each, as long as there are streams. */
static RengaErrorCode TakeStream(RengaConvoy convoy)
{
  RengaTransport transport = convoy->transport;
  if (RengaDeviceIsHost(transport->device)) return RENGA_SUCCESS;
  RengaStream *stream = &transport->sums[transport->n_sums++ % TRANSPORT_SUMS];
  if (!*stream) RengaCall(RengaStreamCreate(transport->device, stream));
  convoy->order.stream = *stream;
  return RENGA_SUCCESS;
}

static RengaErrorCode EquipConvoy(RengaConvoy convoy, int places, size_t room)
{
  const struct _RengaTransportOps *ops = convoy->transport->ops;
  if (ops->convoycreate) RengaCall(ops->convoycreate(convoy));
  if (!ops->settle) return RENGA_SUCCESS;
  RengaCall(TakeStream(convoy));
  convoy->count = convoy->n_cut = places;
  convoy->each = room;
  convoy->bytes = (size_t)places * room;
  if (convoy->bytes > 0) RengaCall(FillConvoy(convoy));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaConvoyCreate_Private(RengaTransport transport, RengaComm comm, int places,
                                         size_t room, RengaConvoy *convoy)
{
  RengaConvoy made;
  RengaCall(RengaMalloc(1, &made));
  *made = (struct _RengaConvoy){.transport = transport, .comm = comm};
  transport->users++;
  const RengaErrorCode code = EquipConvoy(made, places, room);
  if (code) RengaConvoyDestroy_Private(&made);
  RengaCall(code);
  *convoy = made;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaConvoyEnter(const struct _RengaConvoy *convoy)
{
  RengaTransport transport = convoy->transport;
  if (!convoy->order.stream) return RENGA_SUCCESS;
  RengaCall(RengaEventRecord(transport->device, transport->entered, NULL));
  RengaCall(RengaEventWait(transport->device, transport->entered, convoy->order.stream));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaConvoyLeave(void *user)
{
  const struct _RengaConvoy *convoy = user;
  RengaTransport transport = convoy->transport;
  if (!convoy->order.stream) return RENGA_SUCCESS;
  RengaCall(RengaEventRecord(transport->device, transport->left, convoy->order.stream));
  RengaCall(RengaEventWait(transport->device, transport->left, NULL));
  return RENGA_SUCCESS;
}

/* The staging memory is cut anew where messages get another length, or are more. */
static RengaErrorCode ReserveConvoy(void *user, int count, size_t bytes)
{
  RengaConvoy convoy = user;
  RengaCheck(count <= convoy->count && (size_t)count * bytes <= convoy->bytes, MPI_COMM_SELF,
             RENGA_ERR_INTERNAL, "a sum of %d messages of %zu bytes, in memory for %d and %zu",
             count, bytes, convoy->count, convoy->bytes);
  RengaCall(RengaConvoyEnter(convoy));
  if (bytes == convoy->each && count <= convoy->n_cut) return RENGA_SUCCESS;
  RengaCall(convoy->transport->ops->settle(convoy->transport, &convoy->order));
  for (int i = 0; i < convoy->count; i++) {
    convoy->parcel[i]->staging = PartOfStaging(convoy, i < count ? i : 0, bytes);
    convoy->parcel[i]->room = i < count ? bytes : 0;
  }
  convoy->each = bytes;
  convoy->n_cut = count;
  return RENGA_SUCCESS;
}

static RengaErrorCode SendInConvoy(void *user, int place, const void *from, size_t bytes, int to,
                                   int tag)
{
  const struct _RengaConvoy *convoy = user;
  RengaCall(RengaParcelSend_Private(convoy->parcel[place], from, bytes, to, tag));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReceiveInConvoy(void *user, int place, void *to, size_t room, int from,
                                      int tag)
{
  const struct _RengaConvoy *convoy = user;
  RengaCall(RengaParcelReceive_Private(convoy->parcel[place], to, room, from, tag));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestInConvoy(void *user, int place, bool *done, size_t *bytes)
{
  const struct _RengaConvoy *convoy = user;
  *done = false;
  RengaCall(RengaParcelTest_Private(convoy->parcel[place], done));
  if (*done && bytes) *bytes = convoy->parcel[place]->received;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddInConvoy(void *user, RengaDataType type, int64_t count, void *y,
                                  const void *x)
{
  const struct _RengaConvoy *convoy = user;
  RengaCall(RengaDeviceAdd(convoy->transport->device, convoy->order.stream, type, count, y, x));
  RengaCall(RengaCommProgress(convoy->transport->hdr.owner));
  return RENGA_SUCCESS;
}

RengaStream RengaConvoyGetStream_Private(const struct _RengaConvoy *convoy)
{
  return convoy ? convoy->order.stream : NULL;
}

RengaCommAdder RengaConvoyGetAdder_Private(RengaConvoy convoy)
{
  return (RengaCommAdder){.begin = AddInConvoy, .user = convoy};
}

RengaCommCarrier RengaConvoyGetCarrier_Private(RengaConvoy convoy)
{
  if (convoy->transport->ops->carrier) {
    RengaCommCarrier carrier = *convoy->transport->ops->carrier;
    carrier.user = convoy;
    return carrier;
  }
  if (convoy->count == 0) return (RengaCommCarrier){.user = NULL};
  return (RengaCommCarrier){.reserve = ReserveConvoy,
                            .send = SendInConvoy,
                            .receive = ReceiveInConvoy,
                            .test = TestInConvoy,
                            .take = RengaConvoyLeave,
                            .user = convoy};
}

RengaErrorCode RengaConvoySumUnordered_Private(RengaConvoy convoy, RengaDataType type,
                                               int64_t count, void *values, const char *what)
{
  RengaCall(convoy->transport->ops->sum(convoy, type, count, values, what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaConvoyEndUnordered_Private(RengaConvoy convoy)
{
  const struct _RengaTransportOps *ops = convoy->transport->ops;
  if (ops->sumend) RengaCall(ops->sumend(convoy));
  return RENGA_SUCCESS;
}

bool RengaTransportQueuesSums_Private(const struct _p_RengaTransport *transport)
{
  return transport->ops->sumend != NULL;
}

RengaErrorCode RengaConvoyJoin_Private(RengaConvoy convoy, RengaDataType type, int64_t count,
                                       void *values)
{
  const struct _RengaTransportOps *ops = convoy->transport->ops;
  if (ops->join) RengaCall(ops->join(convoy, type, count, values));
  return RENGA_SUCCESS;
}

/* What MPI, or a rule of the program, still has is left to it. */
RengaErrorCode RengaConvoyDestroy_Private(RengaConvoy *convoy)
{
  RengaConvoy c = *convoy;
  RengaErrorCode code = RENGA_SUCCESS;
  bool given = false;
  if (!c) return RENGA_SUCCESS;
  for (int i = 0; c->parcel && i < c->count; i++) {
    given = given || (c->parcel[i] && RengaParcelIsLeft(c->parcel[i]));
    RengaKeepFirst_Private(&code, RengaParcelDestroy_Private(&c->parcel[i]));
  }
  RengaFree(&c->parcel);
  if (c->staging) c->transport->staging -= c->bytes;
  if (!given) RengaKeepFirst_Private(&code, RengaDeviceHostFree(c->transport->device, &c->staging));
  c->transport->users--;
  RengaFree(convoy);
  RengaCall(code);
  return RENGA_SUCCESS;
}
