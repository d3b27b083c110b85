/* Transport nccl: messages are work of the devices, queued between their own events, and the host
   waits for none.

   NCCL pairs the messages of a communicator by their order, and runs them one after the other. So
   each direction of two ranks has one for each channel (a lane), on a stream of its own: no lane
   waits for another. Under one tag messages are queued in the order of the calls, which the rule of
   parcels makes the same at both ends (transport.h); under several of a channel in that in which
   they are sent, and waited for. A send is queued behind what has written its memory. A receive is
   queued when it is waited for, behind all that began before it under its tag; it runs when its
   memory is free and the one before it has been taken, so that at most one per lane waits on the
   device. What follows in the default stream waits for its event. Messages of a rank to itself are
   copies. */
#include "nccl.h"

static RengaErrorCode FindLane(RengaParcel parcel, bool incoming, int peer, int tag, Lane **lane)
{
  Nccl *nccl = parcel->transport->data;
  const int rank = RengaCommGetRank(parcel->comm);
  RengaCheck(parcel->comm == parcel->transport->hdr.owner, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "a parcel of another communicator than the transport's has no route");
  for (int w = 0; w < nccl->n_ways; w++) {
    const Way *way = &nccl->way[w];
    *lane = &nccl->lane[way->lane];
    if (way->peer == peer && way->tag == tag && (way->own || way->incoming == incoming))
      return RENGA_SUCCESS;
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_INTERNAL, "rank %d has no route %s rank %d under tag %d",
             rank, incoming ? "from" : "to", peer, tag);
}

static void PutCargo(CargoList *list, Cargo *cargo)
{
  cargo->next = NULL;
  if (list->first)
    list->last->next = cargo;
  else
    list->first = cargo;
  list->last = cargo;
}

/* There is one. */
static Cargo *FirstOfTag(const CargoList *list, int tag)
{
  Cargo *cargo = list->first;
  while (cargo->tag != tag) cargo = cargo->next;
  return cargo;
}

/* It is there. */
static void TakeOut(CargoList *list, Cargo *cargo)
{
  Cargo *before = NULL;
  for (Cargo *c = list->first; c != cargo; c = c->next) before = c;
  if (before)
    before->next = cargo->next;
  else
    list->first = cargo->next;
  if (list->last == cargo) list->last = before;
  cargo->queued = true;
}

static RengaErrorCode CheckGoing(RengaTransport transport)
{
  const Nccl *nccl = transport->data;
  RengaCheck(!nccl->aborted, MPI_COMM_SELF, RENGA_ERR_LIBRARY,
             "messages by %s were given up after an error", nccl->fabric->library);
  return RENGA_SUCCESS;
}

/* A row of the trace for each stream. */
static RengaErrorCode EndCargoSpan(RengaTransport transport, const Cargo *cargo, RengaSpan span)
{
  const Lane *lane = cargo->lane;
  char track[48], name[48];
  if (span == RENGA_SPAN_NONE) return RENGA_SUCCESS;
  snprintf(track, sizeof track, "%s rank %d, message %d",
           lane->incoming ? "receive from" : "send to", lane->peer, cargo->tag);
  snprintf(name, sizeof name, "%zu bytes", cargo->bytes);
  RengaCall(RengaSpanEnd_Private(transport->device, lane->track.stream, span, track,
                                 lane->incoming ? "Receive by NCCL" : "Send by NCCL", 0, name));
  return RENGA_SUCCESS;
}

/* The oldest one that has begun and is not done. Where none is done it may be forgotten. */
static bool FindAwaited_NCCL(RengaTransport transport, int *peer)
{
  const Nccl *nccl = transport->data;
  int ended = 0;
  for (int64_t i = nccl->n_marks; i < nccl->n_marks + NCCL_MARKS; i++) {
    const Mark *m = &nccl->mark[i % NCCL_MARKS];
    bool begun = false, done = false;
    if (!m->used || RengaEventQuery(transport->device, m->done, &done)) continue;
    ended += done;
    if (done || RengaEventQuery(transport->device, m->begun, &begun) || !begun) continue;
    *peer = m->peer;
    return true;
  }
  *peer = TRANSPORT_NOBODY_KNOWS;
  return ended == 0 && nccl->n_marks > NCCL_MARKS;
}

static RengaErrorCode QueueSend(RengaTransport transport, Cargo *cargo)
{
  const Nccl *nccl = transport->data;
  const Lane *lane = cargo->lane;
  RengaSpan span;
  Mark *mark;
  RengaCall(RengaEventWait(transport->device, cargo->ready, lane->track.stream));
  RengaCall(RengaSpanBegin_Private(transport->device, lane->track.stream, &span));
  RengaCall(RengaMarkBegin(transport, lane->track.stream, lane->peer, &mark));
  RengaCall(nccl->fabric->send(transport->device, lane->track.wire, lane->track.stream,
                               cargo->memory, cargo->bytes, 1));
  RengaCall(RengaMarkEnd(transport, lane->track.stream, mark));
  RengaCall(EndCargoSpan(transport, cargo, span));
  RengaCall(RengaEventRecord(transport->device, cargo->done, lane->track.stream));
  cargo->queued = true;
  return RENGA_SUCCESS;
}

/* Rank 0 of a wire sends. */
static RengaErrorCode QueueReceive(RengaTransport transport, Cargo *cargo)
{
  const Nccl *nccl = transport->data;
  const Lane *lane = cargo->lane;
  RengaSpan span;
  Mark *mark;
  RengaCall(RengaEventWait(transport->device, cargo->ready, lane->track.stream));
  RengaCall(RengaEventWait(transport->device, lane->taken, lane->track.stream));
  RengaCall(RengaSpanBegin_Private(transport->device, lane->track.stream, &span));
  RengaCall(RengaMarkBegin(transport, lane->track.stream, lane->peer, &mark));
  RengaCall(nccl->fabric->receive(transport->device, lane->track.wire, lane->track.stream,
                                  cargo->memory, cargo->bytes, 0));
  RengaCall(RengaMarkEnd(transport, lane->track.stream, mark));
  RengaCall(EndCargoSpan(transport, cargo, span));
  RengaCall(RengaEventRecord(transport->device, cargo->done, lane->track.stream));
  cargo->queued = true;
  return RENGA_SUCCESS;
}

/* Of a rank to itself: the first of both kinds belong together. */
static RengaErrorCode MatchCargo(RengaTransport transport, Lane *lane)
{
  RengaDevice device = transport->device;
  while (lane->wanted.first && lane->sent.first) {
    Cargo *in = lane->wanted.first, *out = lane->sent.first;
    const RengaStream stream = lane->track.stream;
    RengaCheck(in->bytes == out->bytes, MPI_COMM_SELF, RENGA_ERR_SHAPE,
               "a rank sends itself %zu bytes under tag %d, and receives %zu", out->bytes, out->tag,
               in->bytes);
    RengaCall(RengaEventWait(device, in->ready, stream));
    RengaCall(RengaEventWait(device, out->ready, stream));
    RengaCall(RengaDeviceCopy(device, stream, RENGA_DEVICE_TO_DEVICE, in->memory, out->memory,
                              in->bytes));
    RengaCall(RengaEventRecord(device, in->done, stream));
    RengaCall(RengaEventRecord(device, out->done, stream));
    TakeOut(&lane->wanted, in);
    TakeOut(&lane->sent, out);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginCargo(RengaParcel parcel, bool receives, void *memory, size_t bytes,
                                 int peer, int tag)
{
  Cargo *cargo = parcel->data;
  Lane *lane;
  RengaCall(FindLane(parcel, receives, peer, tag, &lane));
  RengaCall(CheckGoing(parcel->transport));
  cargo->lane = lane;
  cargo->tag = tag;
  cargo->receives = receives;
  cargo->queued = false;
  cargo->memory = memory;
  cargo->bytes = bytes;
  RengaCall(RengaEventRecord(parcel->transport->device, cargo->ready, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode Send_NCCL(RengaParcel parcel, const void *memory, size_t bytes, int to,
                                int tag)
{
  Cargo *cargo = parcel->data;
  void *from = (void *)(uintptr_t)memory; /* read */
  RengaCall(BeginCargo(parcel, false, from, bytes, to, tag));
  if (cargo->lane->own) {
    PutCargo(&cargo->lane->sent, cargo);
    RengaCall(MatchCargo(parcel->transport, cargo->lane));
  } else if (bytes > 0) {
    RengaCall(QueueSend(parcel->transport, cargo));
  }
  parcel->under_way = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode Receive_NCCL(RengaParcel parcel, void *memory, size_t bytes, int from,
                                   int tag)
{
  Cargo *cargo = parcel->data;
  RengaCall(BeginCargo(parcel, true, memory, bytes, from, tag));
  PutCargo(&cargo->lane->wanted, cargo);
  if (cargo->lane->own) RengaCall(MatchCargo(parcel->transport, cargo->lane));
  parcel->received = bytes;
  parcel->under_way = true;
  return RENGA_SUCCESS;
}

/* And all that began before it under its tag. Empty messages do not travel. */
static RengaErrorCode QueueUpTo(RengaTransport transport, Cargo *cargo)
{
  while (!cargo->queued) {
    Cargo *first = FirstOfTag(&cargo->lane->wanted, cargo->tag);
    if (first->bytes > 0) RengaCall(QueueReceive(transport, first));
    TakeOut(&cargo->lane->wanted, first);
  }
  return RENGA_SUCCESS;
}

/* What is queued from now on may use the memory. */
static RengaErrorCode TakeCargo(RengaParcel parcel)
{
  const Cargo *cargo = parcel->data;
  RengaDevice device = parcel->transport->device;
  if (cargo->bytes > 0 || cargo->lane->own) RengaCall(RengaEventWait(device, cargo->done, NULL));
  if (cargo->receives && !cargo->lane->own)
    RengaCall(RengaEventRecord(device, cargo->lane->taken, NULL));
  parcel->under_way = false;
  return RENGA_SUCCESS;
}

static RengaErrorCode Test_NCCL(RengaParcel parcel, bool *done)
{
  Cargo *cargo = parcel->data;
  *done = false;
  RengaCall(CheckGoing(parcel->transport));
  if (cargo->receives && !cargo->lane->own) RengaCall(QueueUpTo(parcel->transport, cargo));
  if (cargo->lane->own && !cargo->queued) return RENGA_SUCCESS;
  RengaCall(TakeCargo(parcel));
  *done = true;
  return RENGA_SUCCESS;
}

static void DescribeCargo(const void *subject, size_t size, char text[])
{
  const Cargo *c = subject;
  snprintf(text, size, " (%zu bytes %s rank %d, tag %d)", c->bytes, c->receives ? "from" : "to",
           c->lane->peer, c->tag);
}

/* The host waits for messages of a rank to itself alone, of which one end has not begun. */
static RengaErrorCode Wait_NCCL(RengaParcel parcel, const char *what)
{
  MPI_Comm comm;
  bool done = false;
  RengaCall(RengaObjectGetComm(parcel->comm, &comm));
  RengaWait wait = {.comm = comm, .what = what, .describe = DescribeCargo, .subject = parcel->data};
  for (;;) {
    RengaCall(Test_NCCL(parcel, &done));
    if (done) return RENGA_SUCCESS;
    RengaCall(RengaCommPause_Private(parcel->comm, &wait));
  }
}

static RengaErrorCode ParcelDestroy_NCCL(RengaParcel parcel)
{
  Cargo *cargo = parcel->data;
  RengaDevice device = parcel->transport->device;
  RengaErrorCode code = RENGA_SUCCESS;
  if (cargo->ready) code = RengaEventDestroy(device, &cargo->ready);
  if (cargo->done) RengaKeepFirst_Private(&code, RengaEventDestroy(device, &cargo->done));
  RengaFree(&parcel->data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ParcelCreate_NCCL(RengaParcel parcel)
{
  Cargo *cargo;
  RengaCall(RengaMalloc(1, &cargo));
  *cargo = (Cargo){.queued = false};
  parcel->data = cargo;
  RengaErrorCode code = RengaEventCreate(parcel->transport->device, &cargo->ready);
  if (!code) code = RengaEventCreate(parcel->transport->device, &cargo->done);
  if (code) ParcelDestroy_NCCL(parcel);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCreate_NCCL(void *object)
{
  RengaTransport transport = object;
  Nccl *nccl;
  char why[TRANSPORT_REASON];
  bool found;
  RengaCall(RengaTransportFindFabric(transport, &found, sizeof why, why));
  RengaCheck(found, transport->hdr.comm, RENGA_ERR_SUPPORT,
             "transport nccl: %s; start one rank for each GPU (-device_number says which one), or "
             "use -transport_type auto",
             why);
  RengaCall(RengaMalloc(1, &nccl));
  *nccl = (Nccl){.fabric = RengaDeviceGetFabric_Private(transport->device)};
  transport->data = nccl;
  *transport->ops =
      (struct _RengaTransportOps){.destroy = RengaTransportDestroy_NCCL,
                                  .fits = RengaTransportFits_NCCL,
                                  .connect = RengaTransportConnect_NCCL,
                                  .check = RengaTransportCheck_NCCL,
                                  .buffers = RengaTransportBuffers_NCCL,
                                  .awaits = FindAwaited_NCCL,
                                  .abort = RengaTransportAbort_NCCL,
                                  .parcelcreate = ParcelCreate_NCCL,
                                  .parceldestroy = ParcelDestroy_NCCL,
                                  .send = Send_NCCL,
                                  .receive = Receive_NCCL,
                                  .test = Test_NCCL,
                                  .wait = Wait_NCCL,
                                  .convoycreate = RengaConvoyCreate_NCCL,
                                  .carrier = &RengaConvoyCarrier_NCCL,
                                  .sum = RengaConvoySum_NCCL,
                                  .sumend = RengaConvoyLeave,
                                  .join = RengaConvoyJoin_NCCL,
                                  .sumexact = RengaTransportSumExact_NCCL,
                                  .does = "tensors and sums go from device to device by NCCL"};
  return RENGA_SUCCESS;
}
