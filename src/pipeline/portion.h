/* What a chunk does in the running pass, and what the host takes of it: losses, statistics that
   change states, sums over the batch. */
#pragma once
#include "chunk.h"

/* A scalar that is summed over the whole batch before the first forward. */
struct _p_BatchSum {
  RengaValue share, sum;
  int64_t offset; /* bytes in REGION_PERSISTENT */
  /* of batches that are announced (count.c): of all, of the first, which has so many samples */
  double counted, first, samples;
  int64_t all; /* samples of all of them; 0: there are none */
};

/* States, and the statistics of micro-batches that change them. */
struct _p_ChunkStates {
  int count;
  RengaValue *value; /* [count] in the chunk's graph */
  int64_t *offset;   /* [count] bytes in REGION_PERSISTENT */
  int n_updates;
  const RengaStateUpdate *update; /* lent by the chunk's graph */
  int64_t elements;               /* of all statistics of a micro-batch */
  float *host; /* [elements] of the states that they change; the device's while an update is */
};

/* Memory of the host that copies from and to the device are queued with: nothing here is looked at,
   or used again, before the pass has waited for them. Each may be NULL, and is a part of the
   chunk's ResultMemory. All of it is float32 whatever the precision, as losses, statistics, states
   and sums over the batch are. */
typedef struct {
  float *loss;       /* [local micro-batches] */
  float *statistics; /* [local micro-batches][elements] */
  float *share;      /* [sums][local micro-batches] of the prologue */
  float *sum;        /* [sums] over the batch */
} TakenResults;

/* Of the device (RengaDeviceHostMalloc), so that copies to it do not wait; it grows where a pass
   has more. */
typedef struct {
  float *memory;
  int64_t count, used; /* floats */
} ResultMemory;

/* What a chunk has to do with the running pass; empty between passes. Below, i is a place in its
   order. */
struct _p_Portion {
  RengaValue target;    /* of evaluation: a value that is wanted besides what is sent, or NONE */
  char *output;         /* the target of this replica's micro-batches, or NULL */
  int64_t first, last;  /* this replica has micro-batches [first, last) of the batch */
  const int64_t *order; /* [last - first] their numbers as this replica works through them */
  int64_t *place;       /* [last - first] of number first, first + 1, … in the order */
  int64_t forward_done, backward_done;
  double *share;      /* [sums][microbatches] of the prologue, or NULL */
  double *statistics; /* [microbatches][elements] or NULL */
  TakenResults taken;
  ResultMemory results; /* stays from pass to pass */
};

/* The action is one of a micro-batch that only other replicas have (prepare.c). */
static inline bool RengaActionIsEmpty_Private(const Portion *portion, const RengaAction *action)
{
  return action->microbatch >= portion->last;
}

/* state.c */
RengaErrorCode RengaChunkFreeStates_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueStatistics_Private(Chunk *chunk, const Program *program, int64_t row);
RengaErrorCode RengaChunkQueueStates_Private(Chunk *chunk);
void RengaChunkKeepStatistics_Private(Chunk *chunk, const Pass *pass);
RengaErrorCode RengaChunkSumStatistics_Private(Chunk *chunk, const Pass *pass);
RengaErrorCode RengaChunkUpdateStates_Private(Chunk *chunk, const Pass *pass);
/* result.c */
RengaErrorCode RengaChunkPrepareResults_Private(Chunk *chunk, bool losses, bool statistics);
RengaErrorCode RengaChunkFreeResults_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueResults_Private(Chunk *chunk, const Pass *pass,
                                              const Program *program, int64_t i);
RengaErrorCode RengaPipelineTakeResults_Private(RengaPipeline pipeline, Pass *pass);
void RengaPipelineEndWork_Private(RengaPipeline pipeline);
/* All work of the default stream, within the time limit. */
RengaErrorCode RengaPipelineAwaitDevice_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineAwaitEvent_Private(RengaPipeline pipeline, RengaEvent event);
/* prologue.c */
RengaErrorCode RengaChunkRunPrologue_Private(Chunk *chunk, Pass *pass);
void RengaPipelineCompareSums_Private(RengaPipeline pipeline, Pass *pass);
void RengaPipelineKeepCounts_Private(RengaPipeline pipeline, const Pass *pass);
/* samplelosses.c */
RengaErrorCode RengaChunkFindSampleLosses_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueSampleLosses_Private(Chunk *chunk, const Pass *pass,
                                                   const Program *program, int64_t number);
void RengaChunkKeepSampleLosses_Private(const Chunk *chunk, const Pass *pass);
void RengaPipelineKeepSampleLosses_Private(RengaPipeline pipeline, Pass *pass);
