/* Sums over ranks in one order, whatever ranks there are, and gathers of what these have summed. */
#pragma once
#include "rengacomm.h"

/* Exact where at most one rank has a non-zero at each place. */
RengaErrorCode RengaCommSumExact(RengaComm comm, int64_t count, double values[], const char *what);

/* The sum of leaves 0..n_leaves-1 by one fixed binary tree, whoever holds them: node (level, k)
   covers leaves [k*2^level, (k+1)*2^level) and is left + right (a missing right is left alone).
   A rank accumulates its contiguous leaves into the maximal tree nodes inside its range. */
typedef struct {
  int64_t first, count; /* the leaves under this tree node */
  void *data;           /* their sum */
} RengaPartialSum;
#define RENGA_COMM_TREE_PIECES 128 /* no rank ever holds more */
/* Who adds: whoever owns the memory that the vectors are in. begin: y += x, which may be done
   later, but in the order of these calls; test: is all done that was begun? NULL: begin does it. */
typedef struct {
  /* y += x, of count elements, now or later. */
  RengaErrorCode (*begin)(void *user, RengaDataType type, int64_t count, void *y, const void *x);
  RengaErrorCode (*test)(void *user, bool *done); /* is all done that was begun? */
  void *user;                                     /* handed to both */
} RengaCommAdder;
int RengaCommTreeBuffers(int64_t n_leaves, bool chains, int64_t first, int64_t last);
RengaErrorCode RengaCommTreeBuffersInOrder(int64_t n, int64_t leaf, int64_t count,
                                           const int64_t order[], int *buffers);
int RengaCommTreePieces(int64_t n_leaves, int64_t first, int64_t last, RengaPartialSum pieces[]);
RengaErrorCode RengaCommTreeMerge(int64_t n_leaves, int *count, RengaPartialSum pieces[],
                                  RengaDataType type, int64_t length, const RengaCommAdder *adder);
RengaErrorCode RengaCommTreeTake(int64_t n_leaves, int64_t leaf, bool alone, int *count,
                                 RengaPartialSum pieces[], int *at, bool *adds);
RengaErrorCode RengaCommTreeClose(int64_t n_leaves, int at, int *count, RengaPartialSum pieces[],
                                  RengaDataType type, int64_t length, const RengaCommAdder *adder);

/* Which rank owns which elements of a vector. The vector consists of parts, such as parameters; a
   rank's range begins where a part does or whole RENGA_VECTOR_PIECEs after that. */
typedef struct _RengaBlocks *RengaBlocks;
RengaErrorCode RengaBlocksCreate(int ranks, int64_t parts, const int64_t begin[],
                                 RengaBlocks *blocks);
RengaErrorCode RengaBlocksSetBounds(RengaBlocks blocks, const int64_t bounds[]);
RengaErrorCode RengaBlocksGetRange(RengaBlocks blocks, int rank, int64_t *first, int64_t *last);
RengaErrorCode RengaBlocksDestroy(RengaBlocks *blocks);

/* Who carries the messages of a sum between ranks: whoever knows the memory that the vectors are
   in, or, where reserve is NULL, MPI on that memory. A message has a place from its start until
   test says that it is done.
   reserve: before a sum begins, places 0 to count - 1 for up to `bytes` each.
   send, receive: of no more than that, in one order of all messages between two ranks under a tag;
   a message of 0 bytes may come instead of what is awaited.
   test: bytes, where it is not NULL: of what arrived. An error is told once; done says whether the
   message is.
   together: NULL, or messages are queued work, as what the adder does is, and nobody tests them:
   all that a sum begins between together(true) and together(false) runs at once, behind what was
   queued before; none is empty. take: what is queued from now on finds the result. */
typedef struct {
  /* Makes room for places, before a sum begins. */
  RengaErrorCode (*reserve)(void *user, int count, size_t bytes);
  /* Starts a message to a rank. */
  RengaErrorCode (*send)(void *user, int place, const void *from, size_t bytes, int to, int tag);
  /* Starts to receive one of at most room bytes. */
  RengaErrorCode (*receive)(void *user, int place, void *to, size_t room, int from, int tag);
  /* Is the message of the place done? At once; the place is free then. */
  RengaErrorCode (*test)(void *user, int place, bool *done, size_t *bytes);
  RengaErrorCode (*together)(void *user, bool begin); /* messages until the end run at once */
  RengaErrorCode (*take)(void *user);                 /* what is queued now finds the result */
  void *user;                                         /* handed to each of them */
} RengaCommCarrier;
/* Who takes the pieces of a sum instead of an adder that adds them by the tree: elements
   [at, at + count) of the vector, which are this rank's to keep, of the pieces of all ranks,
   ascending, as RengaCommFoldPieces says. What is there may be written over. */
typedef struct {
  /* piece: of all ranks, each of count elements. */
  RengaErrorCode (*take)(void *user, int64_t at, int64_t count, void *const piece[]);
  void *user;  /* handed to it */
  bool merges; /* pieces of another node come added up, as far as they are nodes of the tree */
} RengaCommFolder;
typedef enum {
  RENGA_SUM_WHOLE, /* its blocks may be any */
  RENGA_SUM_HALF,  /* a reduce-scatter: their owners are given */
  RENGA_SUM_FOLD   /* by a folder: the owner's node adds up nothing of its own */
} RengaSumRouting;
/* Memory of the host in which the ranks of a node read each other's vectors where they lie. */
typedef struct _RengaCommShared *RengaCommShared;
RengaErrorCode RengaCommShare(RengaComm comm, void *memory, size_t bytes, RengaCommShared *shared);
RengaErrorCode RengaCommUnshare(RengaCommShared *shared);
/* Sums over all ranks of comm, several at once: all ranks begin them in the same order, and test
   and end them in any. Rank r holds leaves [leaves[r], leaves[r+1]), already summed into pieces.
   What is not said to be this rank's own is the same on all ranks. */
typedef struct {
  RengaBlocks blocks;            /* who adds up which elements of the vectors */
  RengaDataType type;            /* any that the adder knows */
  int64_t n_leaves;              /* of the tree: over all ranks, but for a folder */
  const int64_t *leaves;         /* [size + 1] */
  const RengaPartialSum *pieces; /* this rank's, as RengaCommTreePieces says */
  void *result;                  /* this rank's; may be pieces[0].data */
  void *work;                    /* this rank's, 64-byte aligned */
  size_t work_bytes;             /* bytes of it */
  RengaCommAdder adder;          /* who adds the vectors */
  RengaCommCarrier carrier;      /* who carries them */
  RengaCommFolder folder;        /* of a reduce-scatter: take NULL: none; else there is no result */
  RengaCommShared shared;        /* pieces and result lie there; NULL: anywhere */
} RengaCommSumTask;
/* A sum that goes on, from RengaCommSumBegin to RengaCommSumEnd or RengaCommSumCancel. */
typedef struct _RengaCommSum *RengaCommSum;
int RengaCommTreePlaces(RengaComm comm, int64_t n_leaves, const int64_t leaves[], size_t work_bytes,
                        size_t *bytes);
int RengaCommGatherPlaces(RengaComm comm, RengaBlocks blocks, RengaDataType type, size_t *bytes);
size_t RengaCommTreeWork(int ranks, int64_t n_leaves, const int64_t leaves[], RengaDataType type,
                         int64_t count);
RengaErrorCode RengaCommGetSumTraffic(RengaComm comm, int64_t *messages, int64_t *bytes);
RengaErrorCode RengaCommFoldPieces(RengaComm comm, int64_t n_leaves, const int64_t leaves[],
                                   bool merges, RengaPartialSum pieces[], int *n);
RengaErrorCode RengaCommSumBegin(RengaComm comm, const RengaCommSumTask *task, RengaCommSum *sum);
RengaErrorCode RengaCommReduceScatterBegin(RengaComm comm, const RengaCommSumTask *task,
                                           RengaCommSum *sum);
RengaErrorCode RengaCommAllGatherBegin(RengaComm comm, const RengaCommSumTask *task,
                                       RengaCommSum *sum);
RengaErrorCode RengaCommAllGatherPrepare(RengaComm comm, const RengaCommSumTask *task,
                                         RengaCommSum *sum);
RengaErrorCode RengaCommSumStart(RengaCommSum sum);
RengaErrorCode RengaCommSumTest(RengaCommSum sum, bool *done);
RengaErrorCode RengaCommSumEnd(RengaCommSum *sum, const char *what, bool *whole);
RengaErrorCode RengaCommSumCancel(RengaCommSum *sum, const char *what);
/* What leaves a node on the way to the owners, by the routes that the sum takes: see sumroutes.c */
RengaErrorCode RengaCommSumPieces_Private(RengaSumRouting kind, int ranks, int own,
                                          int64_t n_leaves, const int64_t leaves[], double *pieces);
void RengaCommSumListPeers_Private(RengaComm comm, int peer[], int *near, int *far);
RengaErrorCode RengaCommSumUnordered(RengaComm comm, RengaDataType type, int64_t count,
                                     void *values, const char *what);
