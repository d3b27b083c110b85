/* What the files of transport nccl share. */
#pragma once
#include "renga/private/span.h"
#include "transportimpl.h"

enum { NCCL_COUNTS = 8, NCCL_MARKS = 512 };

/* A wire, and the stream that its messages alone are queued on. */
typedef struct {
  RengaWire wire; /* NULL: not open */
  RengaStream stream;
  char key[RENGA_FABRIC_KEY]; /* of the wire, made by who gives it to the others */
} Track;

/* A message or a sum on some stream: the device waits for others between the two events. peer: as
   of awaits. */
typedef struct {
  RengaEvent begun, done;
  int peer;
  bool used;
} Mark;

/* What a parcel has under way. */
typedef struct Cargo {
  struct Cargo *next; /* on its lane, of the same direction */
  struct Lane *lane;
  int tag;
  bool receives, queued;
  void *memory;
  size_t bytes;
  RengaEvent ready; /* in the default stream: the memory is written, or may be */
  RengaEvent done;  /* on the track: behind the message */
} Cargo;

typedef struct {
  Cargo *first, *last;
} CargoList;

/* One direction of a pair of ranks, of routes with one channel: both ends queue its messages in one
   order. A rank's own lane has both ends, of one route. */
typedef struct Lane {
  int peer;
  bool incoming, own;
  Track track;
  RengaEvent taken; /* in the default stream: behind what came last */
  CargoList wanted; /* receives that nobody waited for yet; of an own lane those without a send */
  CargoList sent;   /* of an own lane: those without a receive */
} Lane;

/* The ranks of sums, with all convoys of theirs. */
typedef struct {
  RengaComm comm; /* lent until it is connected, then a name */
  int near, far;  /* ranks with whom its sums have messages, of this node and of others: */
  int *peer;
  Track track;
  RengaSpan span; /* of the messages that are put together now */
  Mark *mark;     /* of them, too, or NULL */
} Gang;

/* A route of this rank, and the lane that it goes by. */
typedef struct {
  int peer, tag;
  bool incoming, own;
  int lane;
} Way;

typedef struct {
  const RengaFabric *fabric;
  int n_lanes, n_ways;
  Lane *lane; /* [n_lanes] */
  Way *way;   /* [n_ways] */
  int n_gangs;
  Gang *gang; /* [n_gangs] */
  Track all;  /* of sums over all ranks in the default stream */
  int n_counts;
  int64_t count[NCCL_COUNTS]; /* numbers of such sums that were made before */
  Mark mark[NCCL_MARKS];      /* in turn */
  int64_t n_marks;
  bool aborted, adds; /* adds: it makes unordered sums */
} Nccl;

/* ncclcommunicators.c: around what the stream waits for others in. peer: as of awaits */
RengaErrorCode RengaMarkBegin(RengaTransport transport, RengaStream stream, int peer, Mark **mark);
RengaErrorCode RengaMarkEnd(RengaTransport transport, RengaStream stream, Mark *mark);
/* ncclcommunicators.c */
RengaErrorCode RengaTransportFits_NCCL(RengaTransport transport, const RengaTransportNeeds *needs,
                                       bool *fits, char why[TRANSPORT_WHY]);
RengaErrorCode RengaTransportConnect_NCCL(RengaTransport transport,
                                          const RengaTransportNeeds *needs);
RengaErrorCode RengaTransportCheck_NCCL(RengaTransport transport);
RengaErrorCode RengaTransportAbort_NCCL(RengaTransport transport);
size_t RengaTransportBuffers_NCCL(RengaTransport transport);
RengaErrorCode RengaTransportDestroy_NCCL(RengaTransport transport);
/* ncclsums.c */
RengaErrorCode RengaConvoyCreate_NCCL(RengaConvoy convoy);
RengaErrorCode RengaConvoySum_NCCL(RengaConvoy convoy, RengaDataType type, int64_t count,
                                   void *values, const char *what);
RengaErrorCode RengaConvoyJoin_NCCL(RengaConvoy convoy, RengaDataType type, int64_t count,
                                    void *values);
RengaErrorCode RengaTransportSumExact_NCCL(RengaTransport transport, int64_t count,
                                           double values[]);
extern const RengaCommCarrier RengaConvoyCarrier_NCCL;
