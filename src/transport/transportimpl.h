/* What the files of src/transport know of each other. */
#pragma once
#include "renga/private/fabric.h"
#include "renga/private/kernel.h"
#include "renga/private/line.h"
#include "renga/private/sums.h"
#include "renga/private/transport.h"

enum { TRANSPORT_REASON = 640, TRANSPORT_WHY = 256, TRANSPORT_SUMS = 16 };
/* Messages that go in the order in which they begin, whatever others do. */
typedef struct {
  RengaStream stream; /* of sums alone: their copies and additions; NULL: the default one */
  int64_t held[2];    /* [receives] when one could not be given to MPI last (staged.c) */
} ParcelOrder;

enum { TRANSPORT_SUMMING = -1, TRANSPORT_NOBODY_KNOWS = -2 }; /* for whom a device waits */

struct _RengaTransportOps {
  RengaErrorCode (*destroy)(RengaTransport transport);
  /* Whether this rank's device can have all of them at a time; NULL: it can. */
  RengaErrorCode (*fits)(RengaTransport transport, const RengaTransportNeeds *needs, bool *fits,
                         char why[TRANSPORT_WHY]);
  /* NULL: all messages are MPI's. */
  RengaErrorCode (*connect)(RengaTransport transport, const RengaTransportNeeds *needs);
  /* Errors of messages that no call waits for; NULL: there are none. */
  RengaErrorCode (*check)(RengaTransport transport);
  RengaErrorCode (*abort)(RengaTransport transport);
  RengaErrorCode (*parcelcreate)(RengaParcel parcel); /* what a message takes; may be NULL */
  RengaErrorCode (*parceldestroy)(RengaParcel parcel);
  RengaErrorCode (*send)(RengaParcel parcel, const void *memory, size_t bytes, int to, int tag);
  RengaErrorCode (*receive)(RengaParcel parcel, void *memory, size_t bytes, int from, int tag);
  RengaErrorCode (*test)(RengaParcel parcel, bool *done);
  RengaErrorCode (*wait)(RengaParcel parcel, const char *what);
  /* The device uses no staging memory of messages of this order any more; NULL: those of sums have
     no parcels. */
  RengaErrorCode (*settle)(RengaTransport transport, const ParcelOrder *order);
  /* Of sums, where they are not parcels; NULL: MPI's. */
  RengaErrorCode (*convoycreate)(RengaConvoy convoy);
  const RengaCommCarrier *carrier; /* of the type; its user is the convoy */
  RengaErrorCode (*sum)(RengaConvoy convoy, RengaDataType type, int64_t count, void *values,
                        const char *what);
  /* What is queued from now on is behind such a sum; NULL: so is all that follows its begin. */
  RengaErrorCode (*sumend)(void *convoy);
  /* What the first sum of these waits for the others with; NULL: it waits for none. */
  RengaErrorCode (*join)(RengaConvoy convoy, RengaDataType type, int64_t count, void *values);
  /* Of all ranks, where they were connected for it (exact); NULL: by the host alone. */
  RengaErrorCode (*sumexact)(RengaTransport transport, int64_t count, double values[]);
  /* Bytes of the device that its library keeps for messages, an estimate; NULL: none. */
  size_t (*buffers)(RengaTransport transport);
  /* Whether the device waits for another one, and whose: a rank, TRANSPORT_SUMMING or
     TRANSPORT_NOBODY_KNOWS. NULL: the host alone waits for messages. */
  bool (*awaits)(RengaTransport transport, int *peer);
  /* Of types with the queue of staged.c: who begins a message of memory that is ready, whether it
     is done, and who moves and gives up messages, NULL: nobody. */
  RengaErrorCode (*start)(RengaParcel parcel, void *memory, size_t bytes, bool receives, int peer,
                          int tag);
  RengaErrorCode (*end)(RengaParcel parcel, size_t room, bool receives, bool *done);
  RengaErrorCode (*progress)(RengaTransport transport);
  RengaErrorCode (*cancel)(RengaParcel parcel);
  const char *does; /* in words */
};

struct _p_RengaTransport {
  RENGAHEADER(struct _RengaTransportOps);
  RengaDevice device; /* lent */
  char reason[TRANSPORT_REASON];
  bool fitted;              /* its type was chosen by what fits, not by name */
  bool exact;               /* connected for sums of numbers that have one writer each */
  bool direct;              /* MPI gets memory that is not the host's */
  RengaEvent reached;       /* of RengaTransportAwait; NULL: the host's memory is the device's, */
  RengaEvent entered, left; /* and so are these: begin and end of sums on streams of their own */
  RengaStream sums[TRANSPORT_SUMS];  /* of sums that parcels carry; NULL: not used yet */
  int64_t n_sums;                    /* convoys that had one of them */
  ParcelOrder order;                 /* of all parcels but those of sums */
  size_t staging;                    /* bytes */
  int users;                         /* parcels and convoys */
  void *data;                        /* of the type */
  struct _OutsideTransport *outside; /* a rule of the program; NULL: the type is built in */
};

struct _RengaParcel {
  RengaTransport transport;
  RengaComm comm;
  ParcelOrder *order; /* the transport's, or a convoy's */
  bool sums;          /* on the line of sums, where what comes may be shorter */
  char *staging;      /* NULL: the type takes its own where it wants some; else lent by a convoy */
  size_t room;
  bool under_way;
  RengaRequest request;
  RengaTransportMessage message; /* of a rule of the program, */
  bool given;                    /* which has it */
  size_t received;               /* bytes that came */
  void *data;                    /* of the type */
};

struct _RengaConvoy {
  RengaTransport transport;
  RengaComm comm;
  ParcelOrder order;
  int count;           /* 0: no parcels carry */
  RengaParcel *parcel; /* [count] */
  char *staging;       /* of all of them */
  size_t bytes;
  int n_cut;   /* parcels that have a part of staging, */
  size_t each; /* of that length: the messages of the running sum */
  void *data;  /* of the type */
};

/* parcel.c: a parcel of a convoy; staging is lent. */
RengaErrorCode RengaParcelMake(RengaTransport transport, RengaComm comm, bool sums, char *staging,
                               size_t room, RengaParcel *parcel);
/* Whoever carries its message still has the memory, and may write there. */
bool RengaParcelIsLeft(const struct _RengaParcel *parcel);
/* summessages.c: the sum comes behind what is queued in the default stream now; what is queued
   there from now on comes behind the sum. */
RengaErrorCode RengaConvoyEnter(const struct _RengaConvoy *convoy);
RengaErrorCode RengaConvoyLeave(void *convoy);
/* choose.c. Collective: whether each rank has a device of its own, and all have one fabric; why is
   set in both cases. */
RengaErrorCode RengaTransportFindFabric(RengaTransport transport, bool *found, size_t size,
                                        char why[]);
/* Collective: the name of the type that fits; fills transport->reason. */
RengaErrorCode RengaTransportFit(RengaTransport transport, const char **type);
/* probe.c. Collective: whether MPI takes memory of the device, by sending some. */
RengaErrorCode RengaTransportProbe(RengaTransport transport, bool *works, size_t size, char why[]);
/* Types. */
RengaErrorCode RengaTransportCreate_MPI(void *transport);
RengaErrorCode RengaTransportCreate_MPIDevice(void *transport);
RengaErrorCode RengaTransportCreate_Staged(void *transport);
RengaErrorCode RengaTransportCreate_NCCL(void *transport);
RengaErrorCode RengaTransportCreate_Outside(RengaTransport transport,
                                            const RengaTransportRule *rule); /* collective */
/* staged.c: the queue; direct: without copies. */
RengaErrorCode RengaTransportCreate_Queue(RengaTransport transport, bool direct);
RengaErrorCode RengaTransportDestroy_Queue(RengaTransport transport);
