/* A sum of vectors under way, as the files that make and drive it see it. */
#pragma once
#include "commimpl.h"

enum { SUM_ROUNDS = 2 }; /* in flight */

/* Messages of a round: of pieces, and of blocks that are summed. */
typedef enum { SUM_PIECE_IN, SUM_PIECE_OUT, SUM_BLOCK_IN, SUM_BLOCK_OUT, SUM_GROUPS } SumGroup;

/* Where piece i of all pieces comes from, and how many merges follow it. */
typedef struct {
  int rank, merges;
  char *data; /* of this rank's own pieces: the whole vector */
} SumPiece;

struct _RengaCommSum {
  RengaCommSum previous, next; /* in the list of those under way */
  RengaComm comm;
  bool reduces, gathers; /* the halves that it has */
  bool started;          /* else it is prepared only */
  int tag;               /* of pieces; blocks have the next one */
  RengaDataType type;
  size_t element; /* bytes */
  RengaCommAdder adder;
  RengaCommFolder folder; /* takes the pieces, if its function is there */
  void **taken;           /* [n_pieces] of a range */
  int64_t *bounds;        /* [size + 1] of blocks */
  int64_t chunk, rounds;
  int n_pieces, first_own, n_own; /* of all ranks; this rank's */
  SumPiece *pieces;
  int home;                   /* the piece that lies in result, or is received there; -1: none */
  char *received[SUM_ROUNDS]; /* a chunk for each piece of other ranks */
  char *result;
  /* Each message under way has a place; those of a group follow each other. */
  RengaCommCarrier carrier;
  int n_places, group[SUM_ROUNDS][SUM_GROUPS], n_group[SUM_GROUPS];
  bool *open;            /* [n_places] a message is under way there */
  MPI_Request *requests; /* [n_places] where MPI carries, or NULL */
  /* how far it is */
  int64_t round;
  int step, at;         /* at: messages of the step's group before it are done */
  bool busy;            /* the adder was called, and calls back */
  RengaErrorCode stall; /* of a message that could not be started: it is tried again when asked */
  bool spoiled;         /* this or another rank failed: messages go on, empty */
  RengaErrorCode code;  /* the first error of this rank */
};

/* How many times the last two of the pieces merge, one after the other. */
int RengaCommTreeMerges(int64_t n_leaves, int count, const RengaPartialSum pieces[]);
/* sumtree.c: fills what the messages of a sum need, its pieces above all. */
RengaErrorCode RengaCommSumSetUp(RengaCommSum sum, const RengaCommSumTask *task);
/* exchange.c: as far as it goes without waiting. Errors stay in the sum. */
void RengaCommSumAdvance(RengaCommSum sum);
void RengaCommSumMoves(RengaCommSum sum, bool begins); /* counted for the log */
bool RengaCommSumIsOver(const struct _RengaCommSum *sum);
/* carrier.c */
RengaErrorCode RengaCommSumUseMPI(RengaCommSum sum);
/* underway.c */
void RengaCommSumEnter(RengaCommSum sum);
void RengaCommSumLeave(RengaCommSum sum);
