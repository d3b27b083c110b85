/* Updates of a chunk's parameters. */
#pragma once
#include "parameter.h"
#include "pipelineimpl.h"

/* A parameter whose pieces several replicas square: they bring them together. */
typedef struct {
  int number;            /* of the parameter among all of the network */
  int64_t first, pieces; /* place and number of its pieces among those of all split parameters */
  bool adds;             /* this replica adds them up */
} SplitNorm;

/* Moments on the host (offload.c); empty where the device has them. */
typedef struct {
  int number; /* of an update */
  int64_t from, count;
} OffloadRow;

typedef struct {
  int64_t first, count; /* elements of each moment */
  int rows, n_rows;     /* the first one, and how many */
} OffloadRange;

typedef struct {
  char *host;     /* the moments, one after the other */
  int64_t window; /* elements of a window */
  bool other;     /* there are two windows */
  int n_ranges, n_rows, most_rows;
  OffloadRange *range;
  OffloadRow *row;
  RengaParameterUpdate *update; /* [most_rows] of the range that is queued */
  RengaEvent arrived[2], updated[2], back;
} OffloadedMoments;

/* The vectors that a step squares and updates, each in one call. Places of gradients are those of
   the running step. */
struct _p_UpdateTable {
  int n_norms, n_updates, n_splits;
  RengaVector *gradient;        /* [n_norms] of trained parameters that this rank owns */
  int *number;                  /* [n_norms] of the parameter among all of the network */
  int64_t *place;               /* [n_norms] of its first piece in split_square; -1: all are here */
  SplitNorm *split;             /* [n_splits] */
  int64_t n_pieces;             /* of all split parameters */
  double *split_square;         /* [n_pieces] */
  double *square;               /* of the host: of the pieces of all these */
  RengaParameterUpdate *update; /* [n_updates] of trained parameters */
  OffloadedMoments offload;
};

/* updates.c: after the memory is there; after a change of groups */
RengaErrorCode RengaChunkSetUpUpdates_Private(Chunk *chunk);
RengaErrorCode RengaChunkFreeUpdates_Private(Chunk *chunk);
RengaErrorCode RengaChunkTakeGroups_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueSquares_Private(Chunk *chunk);
void RengaChunkKeepSquares_Private(Chunk *chunk, double squares[]);
RengaErrorCode RengaChunkSumSplitNorms_Private(Chunk *chunk, double squares[]);
RengaErrorCode RengaChunkQueueUpdates_Private(Chunk *chunk, double scale);
/* offload.c */
int64_t RengaChunkMomentBytes_Private(const Chunk *chunk, int64_t own);
int64_t RengaChunkOffloadedBytes_Private(const Chunk *chunk);
RengaErrorCode RengaChunkTakeOffload_Private(Chunk *chunk);
RengaErrorCode RengaChunkSetUpOffload_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueOffloaded_Private(Chunk *chunk, double scale);
RengaErrorCode RengaChunkFreeOffload_Private(Chunk *chunk);
/* what forward has saved of the micro-batch in place i: from the slot to the host, and back */
RengaErrorCode RengaChunkSendAway_Private(Chunk *chunk, int64_t i);
RengaErrorCode RengaChunkFetch_Private(Chunk *chunk, int64_t i);
/* gate.c */
bool RengaPipelineWantsGate_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineMakeGate_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelinePrepareGate_Private(RengaPipeline pipeline, const Pass *pass);
RengaErrorCode RengaPipelineUpdateAhead_Private(RengaPipeline pipeline, Pass *pass);
void RengaPipelineFailGate_Private(RengaPipeline pipeline, const Pass *pass);
RengaErrorCode RengaPipelineCheckGate_Private(RengaPipeline pipeline, bool finite, double scale);
RengaErrorCode RengaPipelineFreeGate_Private(RengaPipeline pipeline);
/* entry/update.c */
RengaErrorCode RengaPipelineRunUpdate_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaPipelineAwaitUpdate_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineEndOwnGathers_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaPipelineEndGathers_Private(RengaPipeline pipeline, Pass *pass);
