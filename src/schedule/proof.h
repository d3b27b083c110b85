/* What the files of the proof share: the state of the lists while they are executed in the
   abstract. */
#pragma once
#include "scheduleimpl.h"

enum { NOTHING = -1 };

/* What is true of a micro-batch in a stage. */
enum {
  FACT_FORWARD = 1, /* its forward is done */
  FACT_SAVED = 2,   /* what backward reads is there */
  FACT_INPUT = 4,   /* gradients of what the stage receives are made */
  FACT_WEIGHT = 8,  /* gradients of parameters are made */
};

/* Counters of a chunk: how many of its micro-batches had their forward, their gradients of inputs,
   of weights. */
enum { COUNT_FORWARD, COUNT_INPUT, COUNT_WEIGHT, COUNTS };

/* How far a replica is with what all of them do with a bucket. */
typedef enum { SUM_AHEAD, SUM_WAITED_FOR, SUM_DONE } SumState;

typedef struct {
  RengaSchedule schedule;
  const int64_t *slots, *lags; /* [stage] of an execution before: what there is room for; or NULL */
  int64_t *next;               /* [rank] place in its list */
  bool *updated;               /* [rank] */
  int64_t (*count)[COUNTS];    /* [chunk] */
  bool moved;                  /* some rank went on since this was last asked */
  int64_t *recomputed;         /* [chunk] micro-batch whose activations are there, or NOTHING */
  int64_t *in_flight;          /* [stage] the most so far */
  int64_t *lag;        /* [stage] the most gradients of inputs without those of parameters */
  unsigned char *fact; /* [stage][micro-batch] */
  int *first_bucket;   /* [stage + 1] */
  int *summing[RENGA_SUM_KINDS];       /* [bucket] replicas that came to it */
  int most_replicas;                   /* of a stage */
  unsigned char *sum[RENGA_SUM_KINDS]; /* [bucket][most_replicas] SumState */
  int64_t *first_pair;                 /* [message] */
  int64_t *queue;                   /* [message][place] micro-batch sent, each pair in its places */
  int64_t *sent, *received;         /* [pair] how many */
  int64_t *row_sent, *row_received; /* [message] how many */
  bool *arrived;                    /* [message][micro-batch] received */
} Proof;

/* commonlist.c: the lists of replicas that go through one are that one. */
RengaErrorCode RengaProofAligned_Private(Proof *proof);
/* actionrules.c: the error: where in which list, what the action is, and what is wrong with it. */
RengaErrorCode RengaProofRefuse_Private(const Proof *proof, const RengaScheduleChunk *chunk,
                                        const char *why);
#define Require(condition, why)                                                                    \
  do {                                                                                             \
    if (!(condition)) return RengaProofRefuse_Private(proof, chunk, why);                          \
  } while (0)

static inline int64_t *CountsOf(const Proof *proof, const RengaScheduleChunk *chunk)
{
  return proof->count[chunk - proof->schedule->chunk];
}

static inline unsigned char *FactsOf(const Proof *proof, int stage, int64_t microbatch)
{
  return &proof->fact[stage * proof->schedule->microbatches + microbatch];
}

/* actionrules.c: an action that computes; the most micro-batches in flight so far. */
bool RengaProofComputes_Private(const RengaAction *action);
RengaErrorCode RengaProofCompute_Private(Proof *proof, const RengaScheduleChunk *chunk,
                                         const RengaAction *action, bool *waits);
RengaErrorCode RengaProofCountInFlight_Private(Proof *proof, const RengaScheduleChunk *chunk,
                                               int64_t held);
/* sums.c: a sum over replicas or its second half, a gather of parameters; the end of the step. */
RengaErrorCode RengaProofSum_Private(Proof *proof, const RengaScheduleChunk *chunk,
                                     const RengaAction *action, bool *waits);
RengaErrorCode RengaProofUpdate_Private(Proof *proof, const RengaScheduleChunk *chunk);
/* All that is gathered after the update is. */
RengaErrorCode RengaProofGathered_Private(const Proof *proof, const RengaScheduleChunk *chunk);
