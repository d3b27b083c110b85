/* What the files of src/comm know of each other. */
#pragma once
#include "renga/private/line.h"
#include "renga/private/object.h"
#include "renga/private/sums.h"

/* A message longer than comm->message_limit travels in several parts, in order, under one tag. */
struct _RengaRequest {
  RengaRequest previous, next;  /* in the list of outstanding messages, of done, or of spare ones */
  MPI_Comm line;                /* of users' messages, or of sums' */
  bool receives, done, shorter; /* shorter: fewer bytes may come */
  int peer, tag;
  size_t received;          /* bytes that came */
  size_t bytes, part_bytes; /* of all; of each part but the last */
  int parts, started, parts_done;
  MPI_Request one;   /* most messages have one part */
  MPI_Request *part; /* &one, or allocated */
};

typedef enum {
  RENGA_COMM_EVENT_SEND,
  RENGA_COMM_EVENT_RECEIVE,
  RENGA_COMM_EVENT_WAIT,
  RENGA_COMM_EVENT_COLLECTIVE,
  RENGA_COMM_EVENT_TREE,
  RENGA_COMM_EVENT_UNDERWAY,
  RENGA_COMM_EVENT_COUNT
} RengaCommEvent;

struct _RengaBlocks {
  int ranks;
  int64_t parts, *begin; /* [parts + 1] */
  int64_t *bounds;       /* [ranks + 1] */
};

typedef struct _RengaNodeMemory *RengaNodeMemory;

/* Sums under way, in the order in which they began, and what else is moved on by waits; one for a
   comm and all groups made of it. */
typedef struct {
  int holders;
  RengaCommSum first;
  RengaCommDriven *driven;
  int64_t moved;        /* messages of sums that arrived or left, and what the driven did */
  int moving;           /* sums that are not over, */
  double since;         /* and MPI_Wtime when there was none last */
  int64_t shared_bytes; /* of this rank's boxes that sums of any of the comms have used */
  int64_t messages_out, bytes_out; /* to other nodes */
} RengaCommSums;

/* Partial sums [begin, end) of those that nodes have for others, in ascending order, are added up
   on a node on the way to the owner of a block. */
typedef struct {
  int begin, end, node;
} SumRelay;

/* A partial sum that a node has for others, and how many merges follow it on one that has all. */
typedef struct {
  int node, merges;
} SumCrosser;

/* The way of sums whose nodes have such partial sums, whichever leaves these are of
   (sumroutes.c). */
typedef struct {
  RengaSumRouting kind;
  int n_crossers;
  SumCrosser *crosser;
  int64_t *share; /* [size] of the vector, of each rank's block; NULL: the task's */
  int *first;     /* [size + 1] relays of each block; NULL: all goes straight there */
  SumRelay *relay;
  double out; /* vectors that leave the node that sends most */
} SumRoutes;

struct _p_RengaComm {
  struct _p_RengaObject hdr; /* hdr.comm carries users' messages and collectives */
  MPI_Comm tree;             /* messages of sums: tags of users cannot meet them */
  int rank, size, tag_limit;
  int node, nodes, local_rank, local_size;
  int *node_of, *local_of;   /* [size] of each rank, and its number there */
  int *by_node, *node_begin; /* [size] ranks, node after node; [nodes + 1] where each begins */
  bool moved;                /* some of the launcher's ranks have other numbers */
  RengaNodeMemory shared;    /* NULL: there is none */
  SumRoutes *routes;         /* [n_routes] */
  int n_routes;
  int writers;           /* ranks of a node that write files; 0: all */
  int64_t message_limit; /* bytes of one MPI call */
  char *view;
  RengaRequest outstanding, done, spare;
  int64_t finished; /* parts of messages that arrived or left: what moves */
  RengaCommSums *sums;
  int64_t begun;   /* sums of this comm, so far */
  int64_t same[2]; /* of a comparison; a time limit leaves it under way */
  RengaLogEvent event[RENGA_COMM_EVENT_COUNT];
};

/* message.c */
RengaErrorCode RengaCommWaitAll(RengaComm comm, int count, MPI_Request requests[],
                                const char *what);
RengaErrorCode RengaCommFreeMessages(RengaComm comm, bool broken);
/* underway.c; parent: the comm that comm is a group of, or NULL */
RengaErrorCode RengaCommSumsCreate(RengaComm parent, RengaComm comm);
RengaErrorCode RengaCommSumsRelease(RengaComm comm, bool broken);
RengaErrorCode RengaCommSumsAdvance(RengaComm comm);
/* nodes.c */
RengaErrorCode RengaCommOrder(MPI_Comm *comm, int *first, bool *moved);
RengaErrorCode RengaCommFindNodes(RengaComm comm, int key);
void RengaCommFreeNodes(RengaComm comm);
/* sumroutes.c */
void RengaCommSumFreeRoutes(RengaComm comm);
/* switches.c */
enum { COMM_SWITCH_BYTES = 128 };
void RengaCommFindSwitches(char path[COMM_SWITCH_BYTES]);
RengaErrorCode RengaCommOrderBySwitches(MPI_Comm comm, int node, int *place, bool *moved);
/* hardware.c; texts as the view prints them */
typedef struct {
  char sockets[64], cards[1024];
} CommHardware;
void RengaCommFindHardware(CommHardware *hardware);
/* nodememory.c; collective */
RengaErrorCode RengaNodeMemoryCreate(RengaComm comm);
void RengaNodeMemoryDestroy(RengaNodeMemory *memory);
