/* Transports: how tensors get from one rank's device to another's. No other room gives memory of a
   device to comm.

   A transport is of a pipeline; its type says whether MPI gets the device's own pointers. A parcel
   is what one message at a time takes, made before the first step: it carries one message after
   the other. A convoy is the parcels of a sum over ranks.

   In the order of the device's default stream a message reads its memory where it is sent, and has
   filled it where it has been taken: by RengaParcelWait, or by RengaParcelTest that says done. What
   is queued there before a receive begins may still use its memory; between begin and end of a
   message nothing may. Where messages are the device's own work (nccl) the default stream waits for
   them, and no call does: RengaTransportAwait is where the host does, and finds their errors.

   All types match messages between two ranks under one tag by their order, and no others: so NCCL,
   which knows no tags, has a wire for each channel of two ranks (RengaTransportNeeds), and pairs
   the same messages as MPI. */
#pragma once
#include "renga/private/object.h"
#include "renga/private/sums.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include "rengatransport.h"

typedef struct _p_RengaTransport *RengaTransport;
typedef struct _RengaParcel *RengaParcel;
typedef struct _RengaConvoy *RengaConvoy;

/* Collective. The device is set up, and lent. type: RENGA_TRANSPORT_..., or NULL: auto. */
RengaErrorCode RengaTransportCreate_Private(RengaComm comm, RengaDevice device, const char *type,
                                            RengaTransport *transport);
/* The name of its type, lent. */
const char *RengaTransportGetType_Private(RengaTransport transport);
RengaErrorCode RengaTransportView_Private(RengaTransport transport, RengaViewer viewer);
/* Collective: where -comm_view asks for it; once parcels and convoys are there. */
RengaErrorCode RengaTransportShow_Private(RengaTransport transport, RengaComm owner);
/* What needs more than MPI may have to open; all is lent. Routes that this rank is on, in an order
   that is the same on all ranks, others may stand between; groups of this rank for sums,
   likewise. */
typedef struct {
  int n_routes, n_groups;
  const RengaRoute *route; /* [n_routes] */
  const int *channel; /* [n_routes] of those from one rank to another with one of these, messages
                              are waited for in the order in which they are sent; NULL: of none */
  const RengaComm *group; /* [n_groups] */
  bool unordered;         /* some sums are RengaConvoySumUnordered */
  bool exact;             /* RengaTransportSumExact, where the device has room for it */
} RengaTransportNeeds;
/* Collective, once, before parcels and convoys are made. A type that was not named becomes staged
   where a device cannot have so much. */
RengaErrorCode RengaTransportConnect_Private(RengaTransport transport,
                                             const RengaTransportNeeds *needs);
/* Whether the devices add up numbers of all ranks that have one writer each, 0 on others: so that
   no order matters. Collective, the same on all ranks. */
bool RengaTransportSumsExact_Private(RengaTransport transport);
/* Collective: queued in the default stream; the first one of a count waits for the others. values:
   of the device. After an error nothing is under way, and the same may be tried again. */
RengaErrorCode RengaTransportSumExact_Private(RengaTransport transport, int64_t count,
                                              double values[]);
/* Until all work of a stream, or all before the event, is done; what: as of RengaCommWait. Errors
   of that work, and of messages that it waits for. */
RengaErrorCode RengaTransportAwait_Private(RengaTransport transport, RengaStream stream,
                                           const char *what);
RengaErrorCode RengaTransportAwaitEvent_Private(RengaTransport transport, RengaEvent event,
                                                const char *what);
/* The same without an error; not for ever where the comm is broken. */
void RengaTransportDrain_Private(RengaTransport transport, RengaStream stream);
/* Messages are given up, for ever: work that waits for them ends. */
RengaErrorCode RengaTransportAbort_Private(RengaTransport transport);
/* Bytes of host memory that parcels and convoys have now. */
size_t RengaTransportGetStaging_Private(RengaTransport transport);
/* Bytes of the device that the library of a transport keeps beside the arena: an estimate. */
size_t RengaTransportGetBuffers_Private(RengaTransport transport);
/* All parcels and convoys are destroyed before. */
RengaErrorCode RengaTransportDestroy_Private(RengaTransport *transport);

/* comm: the transport's, or a group of it; lent. room: bytes of the longest message. */
RengaErrorCode RengaParcelCreate_Private(RengaTransport transport, RengaComm comm, size_t room,
                                         RengaParcel *parcel);
/* Memory is the device's. Messages between two ranks under a tag come in the order in which they
   were sent. After an error nothing is under way, and the same may be tried again. */
RengaErrorCode RengaParcelSend_Private(RengaParcel parcel, const void *memory, size_t bytes, int to,
                                       int tag);
RengaErrorCode RengaParcelReceive_Private(RengaParcel parcel, void *memory, size_t bytes, int from,
                                          int tag);
bool RengaParcelIsUnderWay_Private(const struct _RengaParcel *parcel);
/* Nothing under way is done. An error may be of another message of the transport, which could not
   be started; the next call tries it again. */
RengaErrorCode RengaParcelTest_Private(RengaParcel parcel, bool *done);
/* what: as of RengaCommWait. */
RengaErrorCode RengaParcelWait_Private(RengaParcel parcel, const char *what);
/* One that is under way leaves its staging memory to MPI. */
RengaErrorCode RengaParcelDestroy_Private(RengaParcel *parcel);

/* For sums over comm, one after the other, of up to `places` messages at once with up to `room`
   bytes each (RengaCommTreePlaces); for unordered sums any. */
RengaErrorCode RengaConvoyCreate_Private(RengaTransport transport, RengaComm comm, int places,
                                         size_t room, RengaConvoy *convoy);
/* For the task of a sum; it must end before the next one begins. */
RengaCommCarrier RengaConvoyGetCarrier_Private(RengaConvoy convoy);
/* In whose order its messages are: what reads or writes their memory is queued there. */
RengaStream RengaConvoyGetStream_Private(const struct _RengaConvoy *convoy);
/* Of vectors of the device, in the order of the carrier's messages. */
RengaCommAdder RengaConvoyGetAdder_Private(RengaConvoy convoy);
/* Collective: vectors of the device, in MPI's order (RengaCommSumUnordered). What is queued behind
   its end finds the sum; where the device does it, that goes on beside what is queued before. */
RengaErrorCode RengaConvoySumUnordered_Private(RengaConvoy convoy, RengaDataType type,
                                               int64_t count, void *values, const char *what);
RengaErrorCode RengaConvoyEndUnordered_Private(RengaConvoy convoy);
bool RengaTransportQueuesSums_Private(const struct _p_RengaTransport *transport);
/* Collective, before the first of these sums of so many: where that would wait for the others. The
   values are lost. */
RengaErrorCode RengaConvoyJoin_Private(RengaConvoy convoy, RengaDataType type, int64_t count,
                                       void *values);
RengaErrorCode RengaConvoyDestroy_Private(RengaConvoy *convoy);
