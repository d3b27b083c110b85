/* What the files of transport nccl share. */
#pragma once
#include "renga/private/span.h"
#include "transportimpl.h"

/* A wire, and the stream that its messages alone are queued on. */
typedef struct {
  RengaWire wire; /* NULL: not open */
  RengaStream stream;
} Track;

/* What a parcel has under way. */
typedef struct Cargo {
  struct Cargo *next; /* on its lane, of the same direction */
  struct Lane *lane;
  bool receives, queued;
  void *memory;
  size_t bytes;
  RengaEvent ready; /* in the default stream: the memory is written, or may be */
  RengaEvent done;  /* on the track: behind the message */
} Cargo;

typedef struct {
  Cargo *first, *last;
} CargoList;

/* One direction of a pair of ranks under a tag: both ends queue its messages in one order. A rank's
   own lane has both ends. */
typedef struct Lane {
  int peer, tag;
  bool incoming, own;
  Track track;
  RengaEvent taken; /* in the default stream: behind what came last */
  CargoList wanted; /* receives that nobody waited for yet; of an own lane those without a send */
  CargoList sent;   /* of an own lane: those without a receive */
} Lane;

/* The ranks of sums, with all convoys of theirs. */
typedef struct {
  RengaComm comm; /* lent until it is connected, then a name */
  int ranks;
  Track track;
  RengaEvent ready, done;
  RengaSpan span; /* of the messages that are put together now */
} Gang;

typedef struct {
  const RengaFabric *fabric;
  int n_lanes;
  Lane *lane; /* [n_lanes] */
  int n_gangs;
  Gang *gang;         /* [n_gangs] */
  bool aborted, adds; /* adds: it makes unordered sums */
} Nccl;

/* ncclcommunicators.c */
RengaErrorCode RengaTransportFits_NCCL(RengaTransport transport, int n_routes,
                                       const RengaRoute route[], int n_groups, bool *fits,
                                       char why[TRANSPORT_WHY]);
RengaErrorCode RengaTransportConnect_NCCL(RengaTransport transport, int n_routes,
                                          const RengaRoute route[], const RengaTransportSums *sums);
RengaErrorCode RengaTransportCheck_NCCL(RengaTransport transport);
RengaErrorCode RengaTransportAbort_NCCL(RengaTransport transport);
size_t RengaTransportBuffers_NCCL(RengaTransport transport);
RengaErrorCode RengaTransportDestroy_NCCL(RengaTransport transport);
/* ncclsums.c */
RengaErrorCode RengaConvoyCreate_NCCL(RengaConvoy convoy);
RengaErrorCode RengaConvoySum_NCCL(RengaConvoy convoy, RengaDataType type, int64_t count,
                                   void *values, const char *what);
extern const RengaCommCarrier RengaConvoyCarrier_NCCL;
