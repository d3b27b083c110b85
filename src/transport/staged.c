/* Transport staged: MPI gets memory of the host, which the device copies to and from; and
   mpi_device, where MPI gets the device's own (direct): the same queue without copies. Transports
   from outside have the queue, too, and give its messages to a rule instead of MPI.

   A message is queued work of the device before it is MPI's, or after: nobody waits for either. A
   send waits in a queue for the event behind its copy; a receive for the event behind the last copy
   from its staging memory, as a rule long done. What waits is given to MPI in the order of the
   calls, so that messages under one tag do not overtake each other. Whoever waits for anything in
   the transport's comm moves the queue. Copies down and up have a stream each; events order them
   with the default stream, on which all else is computed. Sums have streams of their own, for their
   copies and additions, and wait for no message of others: so a sum goes on beside what is queued
   in the default stream behind its begin, and beside sums that begin there. */
#include "renga/private/span.h"
#include "transportimpl.h"

typedef enum {
  FREIGHT_IDLE,
  FREIGHT_LEAVES, /* a send is copied to staging memory, or made */
  FREIGHT_WANTED, /* a receive waits until its memory is free */
  FREIGHT_MPI,    /* MPI has it */
  FREIGHT_THERE   /* done; of a receive the copy from staging memory is queued */
} FreightState;

/* What a parcel has under way. */
typedef struct Freight {
  struct Freight *previous, *next;
  RengaParcel parcel;
  FreightState state;
  bool receives, own; /* own: the staging memory is the parcel's */
  void *memory;
  size_t bytes;
  int peer, tag;
  RengaEvent ready;  /* in the default stream: the memory is written, or may be; not of sums */
  RengaEvent copied; /* behind the last copy to or from staging memory; direct: as ready */
  bool copies;       /* which may not be done */
  bool up;           /* it was from staging memory */
} Freight;

typedef struct {
  RengaCommDriven driven; /* first: its address is that of the yard */
  RengaTransport transport;
  RengaStream down, up;
  Freight *first, *last; /* in the order in which they began */
  int64_t turn;          /* how often it was gone through */
  bool busy;
} Yard;

static void EnterYard(Yard *yard, Freight *freight)
{
  freight->previous = yard->last;
  freight->next = NULL;
  if (yard->last)
    yard->last->next = freight;
  else
    yard->first = freight;
  yard->last = freight;
}

static void LeaveYard(Yard *yard, Freight *freight)
{
  if (freight->previous)
    freight->previous->next = freight->next;
  else
    yard->first = freight->next;
  if (freight->next)
    freight->next->previous = freight->previous;
  else
    yard->last = freight->previous;
}

/* Direct: MPI may have the memory when what is queued now is done. */
static RengaErrorCode MarkFreight(Freight *freight)
{
  const struct _RengaParcel *parcel = freight->parcel;
  RengaCall(RengaEventRecord(parcel->transport->device, freight->copied, parcel->order->stream));
  freight->copies = true;
  return RENGA_SUCCESS;
}

/* A message that came is still to be copied up: its memory is the host's side of that copy, and
   left alone until it is done. The message was awaited, so that is no long wait. */
static RengaErrorCode EndCopyUp(Yard *yard, Freight *freight)
{
  if (freight->copies && freight->up)
    RengaCall(RengaTransportAwaitEvent_Private(yard->transport, freight->copied,
                                               "the device to copy a message from the host"));
  freight->up = false;
  return RENGA_SUCCESS;
}

static RengaErrorCode QueueDown(Yard *yard, Freight *freight)
{
  RengaDevice device = yard->transport->device;
  const RengaStream own = freight->parcel->order->stream, stream = own ? own : yard->down;
  RengaSpan span;
  if (freight->bytes == 0) return RENGA_SUCCESS;
  RengaCall(EndCopyUp(yard, freight));
  if (!own) RengaCall(RengaEventRecord(device, freight->ready, NULL));
  if (!own) RengaCall(RengaEventWait(device, freight->ready, stream));
  if (freight->copies) RengaCall(RengaEventWait(device, freight->copied, stream));
  RengaCall(RengaSpanBegin_Private(device, stream, &span));
  RengaCall(RengaDeviceCopy(device, stream, RENGA_DEVICE_TO_HOST, freight->parcel->staging,
                            freight->memory, freight->bytes));
  RengaCall(RengaSpanEnd_Private(device, stream, span, "copies down", "Copy down", 0, "message"));
  RengaCall(RengaEventRecord(device, freight->copied, stream));
  freight->copies = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode QueueUp(Yard *yard, Freight *freight)
{
  RengaDevice device = yard->transport->device;
  const RengaStream own = freight->parcel->order->stream, stream = own ? own : yard->up;
  RengaSpan span;
  if (freight->parcel->received == 0 || yard->transport->direct) return RENGA_SUCCESS;
  if (!own) RengaCall(RengaEventWait(device, freight->ready, stream));
  RengaCall(RengaSpanBegin_Private(device, stream, &span));
  RengaCall(RengaDeviceCopy(device, stream, RENGA_HOST_TO_DEVICE, freight->memory,
                            freight->parcel->staging, freight->parcel->received));
  RengaCall(RengaSpanEnd_Private(device, stream, span, "copies up", "Copy up", 0, "message"));
  RengaCall(RengaEventRecord(device, freight->copied, stream));
  freight->copies = freight->up = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode StartByMPI(RengaParcel p, void *memory, size_t bytes, bool receives, int peer,
                                 int tag)
{
  if (receives && p->sums)
    RengaCall(RengaCommReceivePart_Private(p->comm, memory, bytes, peer, tag, &p->request));
  else if (receives)
    RengaCall(RengaCommReceive(p->comm, memory, bytes, peer, tag, &p->request));
  else if (p->sums)
    RengaCall(RengaCommSendPart_Private(p->comm, memory, bytes, peer, tag, &p->request));
  else
    RengaCall(RengaCommSend(p->comm, memory, bytes, peer, tag, &p->request));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndByMPI(RengaParcel p, size_t room, bool receives, bool *done)
{
  (void)room;
  RengaCall(RengaCommTestPart_Private(p->comm, &p->request, done,
                                      receives && p->sums ? &p->received : NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode StartFreight(Freight *freight)
{
  RengaParcel p = freight->parcel;
  void *memory = p->transport->direct ? freight->memory : p->staging;
  p->received = freight->receives && !p->sums ? freight->bytes : 0;
  RengaCall(p->transport->ops->start(p, memory, freight->bytes, freight->receives, freight->peer,
                                     freight->tag));
  freight->state = FREIGHT_MPI;
  return RENGA_SUCCESS;
}

/* Held is who comes behind one of the kind, and of its order, that is not MPI's yet. */
static RengaErrorCode TryToStart(Yard *yard, Freight *freight)
{
  int64_t *held = &freight->parcel->order->held[freight->receives];
  bool done = !freight->copies;
  if (*held == yard->turn) return RENGA_SUCCESS;
  *held = yard->turn;
  if (!done) RengaCall(RengaEventQuery(yard->transport->device, freight->copied, &done));
  if (!done) return RENGA_SUCCESS;
  freight->copies = freight->up = false;
  RengaCall(StartFreight(freight));
  *held = 0;
  RengaCommMoved_Private(freight->parcel->comm);
  return RENGA_SUCCESS;
}

static RengaErrorCode TryToEnd(Yard *yard, Freight *freight)
{
  RengaParcel p = freight->parcel;
  bool done;
  RengaCall(p->transport->ops->end(p, freight->bytes, freight->receives, &done));
  if (!done) return RENGA_SUCCESS;
  if (freight->receives) RengaCall(QueueUp(yard, freight));
  freight->state = FREIGHT_THERE;
  LeaveYard(yard, freight);
  RengaCommMoved_Private(p->comm);
  return RENGA_SUCCESS;
}

/* All that is under way, as far as it goes without waiting. */
static RengaErrorCode MoveYard(Yard *yard)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (yard->busy) return RENGA_SUCCESS;
  yard->busy = true;
  yard->turn++;
  if (yard->transport->ops->progress) code = yard->transport->ops->progress(yard->transport);
  for (Freight *f = yard->first, *next; f && !code; f = next) {
    next = f->next;
    code = f->state == FREIGHT_MPI ? TryToEnd(yard, f) : TryToStart(yard, f);
  }
  yard->busy = false;
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode AdvanceYard(RengaCommDriven *driven)
{
  RengaCall(MoveYard((Yard *)(void *)driven));
  return RENGA_SUCCESS;
}

/* Where the queue cannot go on the message is taken out of it: it was the last, and not MPI's. */
static RengaErrorCode BeginFreight(Yard *yard, Freight *freight, FreightState state)
{
  freight->state = state;
  EnterYard(yard, freight);
  const RengaErrorCode code = MoveYard(yard);
  if (code) LeaveYard(yard, freight);
  if (code) freight->state = FREIGHT_IDLE;
  RengaCall(code);
  freight->parcel->under_way = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode Send_Staged(RengaParcel parcel, const void *memory, size_t bytes, int to,
                                  int tag)
{
  Freight *freight = parcel->data;
  freight->receives = false;
  freight->memory = (void *)(uintptr_t)memory; /* read */
  freight->bytes = bytes;
  freight->peer = to;
  freight->tag = tag;
  if (parcel->transport->direct)
    RengaCall(MarkFreight(freight));
  else
    RengaCall(QueueDown(parcel->transport->data, freight));
  RengaCall(BeginFreight(parcel->transport->data, freight, FREIGHT_LEAVES));
  return RENGA_SUCCESS;
}

static RengaErrorCode Receive_Staged(RengaParcel parcel, void *memory, size_t bytes, int from,
                                     int tag)
{
  Freight *freight = parcel->data;
  freight->receives = true;
  freight->memory = memory;
  freight->bytes = bytes;
  freight->peer = from;
  freight->tag = tag;
  if (parcel->transport->direct)
    RengaCall(MarkFreight(freight));
  else if (!parcel->order->stream)
    RengaCall(RengaEventRecord(parcel->transport->device, freight->ready, NULL));
  RengaCall(BeginFreight(parcel->transport->data, freight, FREIGHT_WANTED));
  return RENGA_SUCCESS;
}

/* Whoever uses the memory from now on does so behind the copy. */
static RengaErrorCode TakeFreight(Freight *freight)
{
  RengaParcel p = freight->parcel;
  if (freight->receives && p->received > 0 && !p->transport->direct)
    RengaCall(RengaEventWait(p->transport->device, freight->copied, p->order->stream));
  freight->state = FREIGHT_IDLE;
  p->under_way = false;
  return RENGA_SUCCESS;
}

static RengaErrorCode Test_Staged(RengaParcel parcel, bool *done)
{
  Freight *freight = parcel->data;
  *done = false;
  if (freight->state == FREIGHT_MPI) RengaCall(TryToEnd(parcel->transport->data, freight));
  if (freight->state != FREIGHT_THERE) RengaCall(MoveYard(parcel->transport->data));
  if (freight->state != FREIGHT_THERE) return RENGA_SUCCESS;
  RengaCall(TakeFreight(freight));
  *done = true;
  return RENGA_SUCCESS;
}

static void DescribeFreight(const void *subject, size_t size, char text[])
{
  const Freight *f = subject;
  snprintf(text, size, " (%zu bytes %s rank %d, tag %d%s)", f->bytes, f->receives ? "from" : "to",
           f->peer, f->tag, f->state == FREIGHT_MPI ? "" : ", which the device has not copied");
}

static RengaErrorCode Wait_Staged(RengaParcel parcel, const char *what)
{
  MPI_Comm comm;
  bool done = false;
  RengaCall(RengaObjectGetComm(parcel->comm, &comm));
  RengaWait wait = {
      .comm = comm, .what = what, .describe = DescribeFreight, .subject = parcel->data};
  for (;;) {
    RengaCall(Test_Staged(parcel, &done));
    if (done) return RENGA_SUCCESS;
    RengaCall(RengaCommPause_Private(parcel->comm, &wait));
  }
}

static RengaErrorCode Settle_Staged(RengaTransport transport, const ParcelOrder *order)
{
  static const char what[] = "the device to copy messages to and from the host";
  const Yard *yard = transport->data;
  const RengaStream own = order->stream;
  RengaErrorCode code = RengaTransportAwait_Private(transport, own ? own : yard->down, what);
  if (!own) RengaKeepFirst_Private(&code, RengaTransportAwait_Private(transport, yard->up, what));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What is still under way is given up, or its memory left. */
static RengaErrorCode ParcelDestroy_Staged(RengaParcel parcel)
{
  RengaTransport transport = parcel->transport;
  Freight *freight = parcel->data;
  RengaDevice device = transport->device;
  RengaErrorCode code = RENGA_SUCCESS;
  if (parcel->under_way && freight->state != FREIGHT_THERE) LeaveYard(transport->data, freight);
  if (transport->ops->cancel) code = transport->ops->cancel(parcel);
  if (freight->copies) RengaKeepFirst_Private(&code, Settle_Staged(transport, parcel->order));
  if (freight->ready) RengaKeepFirst_Private(&code, RengaEventDestroy(device, &freight->ready));
  if (freight->copied) RengaKeepFirst_Private(&code, RengaEventDestroy(device, &freight->copied));
  if (freight->own && !RengaParcelIsLeft(parcel))
    RengaKeepFirst_Private(&code, RengaDeviceHostFree(device, &parcel->staging));
  if (freight->own) transport->staging -= parcel->room;
  RengaFree(&parcel->data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillFreight(RengaTransport transport, Freight *freight)
{
  RengaParcel parcel = freight->parcel;
  RengaCall(RengaEventCreate(transport->device, &freight->ready));
  RengaCall(RengaEventCreate(transport->device, &freight->copied));
  if (!freight->own) return RENGA_SUCCESS;
  transport->staging += parcel->room;
  if (parcel->room > 0)
    RengaCall(RengaDeviceHostMalloc(transport->device, parcel->room, &parcel->staging));
  return RENGA_SUCCESS;
}

static RengaErrorCode ParcelCreate_Staged(RengaParcel parcel)
{
  Freight *freight;
  RengaCall(RengaMalloc(1, &freight));
  *freight = (Freight){.parcel = parcel, .own = !parcel->staging && !parcel->transport->direct};
  parcel->data = freight;
  const RengaErrorCode code = FillFreight(parcel->transport, freight);
  if (code) ParcelDestroy_Staged(parcel);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Copies and sum wait for each other. */
static RengaErrorCode Sum_Staged(RengaConvoy convoy, RengaDataType type, int64_t count,
                                 void *values, const char *what)
{
  RengaTransport transport = convoy->transport;
  RengaDevice device = transport->device;
  const size_t element = RengaDataTypeSize(type);
  const int64_t most = (int64_t)(convoy->each / element);
  for (int64_t at = 0; at < count; at += most) {
    const int64_t length = count - at < most ? count - at : most;
    const size_t bytes = (size_t)length * element;
    char *there = (char *)values + (size_t)at * element;
    RengaCall(RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, convoy->staging, there, bytes));
    RengaCall(RengaTransportAwait_Private(transport, NULL, what));
    RengaCall(RengaCommSumUnordered(convoy->comm, type, length, convoy->staging, what));
    RengaCall(RengaDeviceCopy(device, NULL, RENGA_HOST_TO_DEVICE, there, convoy->staging, bytes));
    RengaCall(RengaTransportAwait_Private(transport, NULL, what));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Sum_Direct(RengaConvoy convoy, RengaDataType type, int64_t count,
                                 void *values, const char *what)
{
  RengaCall(RengaTransportAwait_Private(convoy->transport, NULL, what));
  RengaCall(RengaCommSumUnordered(convoy->comm, type, count, values, what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportDestroy_Queue(RengaTransport transport)
{
  Yard *yard = transport->data;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!yard) return RENGA_SUCCESS;
  if (yard->driven.advance) RengaCommUndrive_Private(transport->hdr.owner, &yard->driven);
  yard->driven.advance = NULL;
  if (yard->down) code = RengaStreamDestroy(transport->device, &yard->down);
  if (yard->up) RengaKeepFirst_Private(&code, RengaStreamDestroy(transport->device, &yard->up));
  for (int s = 0; s < TRANSPORT_SUMS; s++)
    RengaKeepFirst_Private(&code, RengaStreamDestroy(transport->device, &transport->sums[s]));
  RengaFree(&transport->data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCreate_Queue(RengaTransport transport, bool direct)
{
  Yard *yard;
  RengaCall(RengaMalloc(1, &yard));
  *yard = (Yard){.transport = transport};
  transport->data = yard;
  transport->direct = direct;
  *transport->ops = (struct _RengaTransportOps){.destroy = RengaTransportDestroy_Queue,
                                                .parcelcreate = ParcelCreate_Staged,
                                                .parceldestroy = ParcelDestroy_Staged,
                                                .send = Send_Staged,
                                                .receive = Receive_Staged,
                                                .test = Test_Staged,
                                                .wait = Wait_Staged,
                                                .settle = Settle_Staged,
                                                .sum = direct ? Sum_Direct : Sum_Staged,
                                                .start = StartByMPI,
                                                .end = EndByMPI};
  RengaCall(RengaStreamCreate(transport->device, &yard->down));
  RengaCall(RengaStreamCreate(transport->device, &yard->up));
  yard->driven.advance = AdvanceYard;
  RengaCommDrive_Private(transport->hdr.owner, &yard->driven);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCreate_Staged(void *object)
{
  RengaTransport transport = object;
  RengaCall(RengaTransportCreate_Queue(transport, false));
  transport->ops->does = "the device copies tensors to and from memory of the host, which is MPI's";
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTransportCreate_MPIDevice(void *object)
{
  RengaTransport transport = object;
  char why[TRANSPORT_REASON / 2];
  const char *device;
  bool works = RengaDeviceIsHost(transport->device);
  if (works) {
    RengaCall(RengaTransportCreate_MPI(transport));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaDeviceGetType(transport->device, &device));
  RengaCall(RengaTransportProbe(transport, &works, sizeof why, why));
  RengaCheck(works, transport->hdr.comm, RENGA_ERR_SUPPORT,
             "transport mpi_device gives MPI the memory of device %s, but %s: use an MPI that is "
             "built for it, or -transport_type staged",
             device, why);
  RengaCall(RengaTransportCreate_Queue(transport, true));
  transport->ops->does = "the device's own memory is MPI's";
  return RENGA_SUCCESS;
}
