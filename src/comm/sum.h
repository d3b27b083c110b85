/* A sum of vectors under way, as the files that make and drive it see it. */
#pragma once
#include "commimpl.h"

enum {
  SUM_ROUNDS = 2, /* whose pieces have memory at once */
  SUM_LAG = 5,    /* rounds between the first step of a round and its last */
  SUM_RELAYS = 8, /* of a block */
  SUM_TAGS = 3,
  SUM_FLIGHT = 32 /* messages of a group under way at once */
};

/* Messages of a round: pieces within nodes, then between nodes, and their sums from relays to
   owners; and of the blocks that are summed, between nodes, on from a node that others are given
   them by, then within. */
typedef enum {
  SUM_NODE_PIECE_IN,
  SUM_NODE_PIECE_OUT,
  SUM_PIECE_IN,
  SUM_PIECE_OUT,
  SUM_RELAY_IN,
  SUM_RELAY_OUT,
  SUM_BLOCK_IN,
  SUM_BLOCK_OUT,
  SUM_PASSED_IN,
  SUM_PASSED_OUT,
  SUM_NODE_BLOCK_IN,
  SUM_NODE_BLOCK_OUT,
  SUM_GROUPS
} SumGroupKind;

/* A chunk of a block, in each round. from: the number of a piece of this rank, of a merged piece of
   its node, of the memory that receives it, or, from 1 on, of a sum that a relay has. */
typedef struct {
  int peer, block, from;
} SumMessage;

/* Messages of all rounds are numbered one after the other, and begin and end in that order. */
typedef struct {
  int n; /* of a round */
  SumMessage *message;
  int first_place, n_places;
  int64_t wanted, started, done;
} SumGroup;

/* A piece, and how many merges follow it. source: memory that receives it; -1 - i: this rank's
   piece i. */
typedef struct {
  int source, merges;
} SumPiece;

/* Where another rank of the node shows a piece: its number there, and which chunk of its box, or
   which of its pieces where vectors are shared. */
typedef struct {
  int local, chunk;
} SumShown;

/* Partial sums that this rank adds up for another node's block: pieces [begin, end) of
   SumLevels.relay_piece, whose sources < 0 are merged pieces of this node. */
typedef struct {
  int begin, end;
} SumRelayed;

/* What a sum by levels has of each (sumlevels.c). A target is a block that this rank adds up for
   its node: its own, and some of those that ranks of other nodes own. Pieces that others of the
   node have of target t are received in memory t * n_foreign and further; behind that of all
   targets lie the merged pieces that come from other nodes. */
typedef struct {
  int n_targets, own_target, *target; /* numbers of blocks, ascending */
  int n_foreign;                      /* pieces of the other ranks of this node */
  SumPiece *node_piece;               /* [n_node] of this node, of target 0 */
  int n_node, n_merged;               /* n_merged: what is left of them where all merged */
  SumPiece *piece;                    /* [n_pieces] of the own block */
  int n_pieces, home; /* home: the one that lies in result, or is received there; -1: none */
  bool itself;        /* no sum grows in result: the only piece of all has to get there */
  bool away;          /* the own block's pieces of this node, too, are added up elsewhere */
  SumRelayed *relay;
  int n_relays;
  SumPiece *relay_piece;
  SumShown *shown; /* [n_targets * n_foreign] */
  int *n_shown;    /* [local_size] pieces that a rank shows, before its targets */
  SumShown *block; /* [size] who of the node shows a block, as which of its targets */
  SumGroup group[SUM_GROUPS];
} SumLevels;

/* A partial sum while a chunk is added up. */
typedef struct {
  char *data;
  bool writable, home; /* home: it lies in result */
  char *room;          /* memory for a sum with it, where it is not writable; or NULL */
} SumAddend;

/* Where vectors lie, and what is under way. */
typedef struct {
  char **own; /* [n_own] this rank's pieces: whole vectors */
  int n_own;
  char *received[SUM_ROUNDS];
  char **merged;          /* [SUM_ROUNDS * n_targets * n_merged] */
  char **relayed;         /* [SUM_ROUNDS * n_relays] */
  char *only[SUM_ROUNDS]; /* the only piece of the own block */
  SumAddend *stack;       /* of the additions */
  void **taken;           /* of a range, for the folder */
  int n_places;
  bool *open;            /* [n_places] a message is under way there */
  MPI_Request *requests; /* [n_places] where MPI carries, or NULL */
} SumMemory;

struct _RengaCommSum {
  RengaCommSum previous, next; /* in the list of those under way */
  RengaComm comm;
  bool reduces, gathers; /* the halves that it has */
  bool started;          /* else it is prepared only */
  int tag;               /* of pieces; blocks and relays have the next ones */
  RengaDataType type;
  size_t element; /* bytes */
  RengaCommAdder adder;
  RengaCommFolder folder; /* takes the pieces, if its function is there */
  RengaCommCarrier carrier;
  int64_t *bounds; /* [size + 1] of blocks */
  int64_t chunk, rounds;
  SumLevels *levels;
  SumMemory *memory;
  char *result;
  RengaNodeMemory shared; /* of pieces and blocks within the node; NULL: they are messages */
  RengaCommShared direct; /* where they are read where they lie; NULL: they are copied there */
  int slot;               /* the boxes of the sum there */
  int64_t base;           /* rounds of the sums that had them before */
  int64_t sent, bytes;    /* messages, for the log */
  /* how far it is */
  int64_t turn;
  int step;
  bool busy;            /* the adder was called, and calls back */
  RengaErrorCode stall; /* of a message that could not be started: it is tried again when asked */
  bool spoiled;         /* this or another rank failed: messages go on, empty */
  RengaErrorCode code;  /* the first error of this rank */
};

/* How many times the last two of the pieces merge, one after the other. */
int RengaCommTreeMerges(int64_t n_leaves, int count, const RengaPartialSum pieces[]);
/* sumtree.c: fills what the messages of a sum need. */
RengaErrorCode RengaCommSumSetUp(RengaCommSum sum, const RengaCommSumTask *task);
/* sumlevels.c. bounds NULL: of an all-gather, which has none. */
typedef struct {
  int64_t n;
  const int64_t *bounds;   /* [size + 1] */
  bool merge;              /* pieces of a node, as far as they are nodes of the tree */
  const SumRoutes *routes; /* NULL: all goes straight to the owners */
} SumLeaves;
typedef struct {
  int own;                        /* pieces of this rank, */
  int node, merged, all_merged;   /* of its node, what is left of those, and so of all nodes */
  int64_t targets, units, across; /* the most that a rank has: targets, chunks that it receives, */
  int64_t shown;                  /* those of other nodes; pieces of blocks of others */
} SumCounts;
void RengaCommSumCount(RengaComm comm, const SumLeaves *leaves, SumCounts *counts);
RengaErrorCode RengaCommSumCountRoutes(RengaComm comm, const SumLeaves *leaves, SumCounts *counts);
int RengaCommSumPlaces(RengaComm comm, const SumCounts *counts, int n_group[]);
RengaErrorCode RengaCommSumSetUpLevels(RengaCommSum sum, const SumLeaves *leaves,
                                       const SumCounts *counts);
void RengaCommSumFreeLevels(SumLevels **levels);
/* What a node has of the tree for others. */
typedef struct {
  RengaPartialSum sum;
  int node, number; /* of those of the node */
} SumCrossing;
/* crossing: allocated; ascending */
RengaErrorCode RengaCommSumListCrossing(RengaComm comm, const SumLeaves *leaves, int *n,
                                        SumCrossing **crossing);
/* sumroutes.c */
RengaErrorCode RengaCommSumRoute(RengaComm comm, RengaSumRouting kind, SumLeaves *leaves);
void RengaCommSumShare(RengaCommSum sum, const SumLeaves *leaves);
/* exchange.c: as far as it goes without waiting. Errors stay in the sum. */
void RengaCommSumAdvance(RengaCommSum sum);
void RengaCommSumMoves(RengaCommSum sum, bool begins); /* counted for the log */
bool RengaCommSumIsOver(const struct _RengaCommSum *sum);
/* carrier.c */
RengaErrorCode RengaCommSumUseMPI(RengaCommSum sum);
/* underway.c */
void RengaCommSumEnter(RengaCommSum sum);
void RengaCommSumLeave(RengaCommSum sum);
