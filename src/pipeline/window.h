/* Values of sharded parameters while kernels read them. */
#pragma once
#include "pipelineimpl.h"

/* A bucket of parameters in the window: not there, on its way, there. */
typedef enum { BUCKET_AWAY, BUCKET_COMES, BUCKET_HERE } BucketState;

typedef struct {
  BucketState state;
  double began; /* MPI_Wtime, of its gather */
  RengaConvoy convoy;
  RengaCommSum gather; /* under way, or NULL */
} WindowBucket;

/* Values of parameters that come from other replicas for a while (window.c, entry/gather.c). */
struct _p_ParameterWindow {
  int64_t *place;       /* [buckets] bytes in the window (window.c) */
  WindowBucket *bucket; /* [buckets], and all-gathers: entry/gather.c */
  RengaComm comm;       /* the replicas once more: gathers come in an order of their own */
};

/* window.c */
RengaErrorCode RengaChunkPlaceWindow_Private(Chunk *chunk);
RengaErrorCode RengaChunkMoveWindow_Private(Chunk *chunk, Program *program);
/* entry/gather.c */
RengaErrorCode RengaChunkSetUpFetches_Private(Chunk *chunk);
RengaErrorCode RengaChunkFreeFetches_Private(Chunk *chunk);
void RengaChunkBeginFetches_Private(Chunk *chunk);
RengaErrorCode RengaChunkEndFetches_Private(Chunk *chunk, Pass *pass);
