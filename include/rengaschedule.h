/* Schedule: plan to one list of actions per rank; proved before it is run. */
#pragma once
#include "rengaplan.h"

RENGA_BEGIN_DECLS

typedef struct _p_RengaSchedule *RengaSchedule;
#define RENGA_SCHEDULE_GPIPE "gpipe"
#define RENGA_SCHEDULE_1F1B "1f1b"
typedef enum {
  RENGA_ACTION_FORWARD,
  RENGA_ACTION_BACKWARD,
  RENGA_ACTION_BACKWARD_INPUT,
  RENGA_ACTION_BACKWARD_WEIGHT,
  RENGA_ACTION_RECOMPUTE,
  RENGA_ACTION_SEND,
  RENGA_ACTION_RECEIVE,
  RENGA_ACTION_REDUCE,
  RENGA_ACTION_GATHER,
  RENGA_ACTION_UPDATE,
} RengaActionKind;
const char *RengaActionName(RengaActionKind kind);
typedef struct {
  RengaActionKind kind;
  int stage, replica;
  int message;        /* of send and receive: row of the message table, else -1 */
  int64_t microbatch; /* number in the step, over all replicas; -1 at its end */
} RengaAction;
/* What crosses between stages for every micro-batch: an activation forward, its gradient back. */
typedef struct {
  const char *value; /* lent: name in the graph */
  int from, to;      /* stages */
  bool backward;
  int64_t bytes; /* of one whole micro-batch */
} RengaMessage;
/* The table of a graph under a plan: an activation goes from its stage to each stage that uses it;
   its gradient goes back along the chain of those stages, last to first, then to the producer. */
RengaErrorCode RengaPlanGetMessages(RengaPlan plan, RengaGraph graph, int *count,
                                    RengaMessage **messages); /* RengaFree */

/* A type from outside. fill says how many forwards a rank of the stage, which has count
   micro-batches, does before each of its backwards: forwards[i] of them before backward i, from
   i + 1 to count, and no fewer than before the backward that comes first. replicas: [stages]. */
typedef struct {
  const char *name;
  RengaErrorCode (*fill)(int stages, const int replicas[], int stage, int64_t count,
                         int64_t forwards[], void *user);
  void *user;
} RengaScheduleRule;
RengaErrorCode RengaScheduleRegister(const RengaScheduleRule *rule);

RengaErrorCode RengaScheduleCreate(RengaComm comm, RengaSchedule *schedule);
RengaErrorCode RengaScheduleSetType(RengaSchedule schedule, const char *type);
RengaErrorCode RengaScheduleGetType(RengaSchedule schedule, const char **type);
/* 1f1b: micro-batches begun early for each stage that follows, so that messages are hidden. */
RengaErrorCode RengaScheduleSetEager(RengaSchedule schedule, double eager);
RengaErrorCode RengaScheduleGetEager(RengaSchedule schedule, double *eager);
int64_t RengaScheduleEarly(double eager, int following);            /* micro-batches, rounded up */
RengaErrorCode RengaScheduleSetFromOptions(RengaSchedule schedule); /* -pipeline_schedule, _eager */
/* Shape of the pipeline: stages, replicas of each (copied; NULL: one), micro-batches of the step
   over all replicas, messages (borrowed). Replica r of R has those of RengaPlanLeafBound. */
RengaErrorCode RengaScheduleSetShape(RengaSchedule schedule, int stages, const int replicas[],
                                     int64_t microbatches, int n_messages,
                                     const RengaMessage messages[], bool forward_only);
/* Micro-batches that a replica has together; 1 after SetShape. */
RengaErrorCode RengaScheduleSetLeaf(RengaSchedule schedule, int64_t leaf);
/* The stage keeps what it receives only, and runs forward again before each backward. */
RengaErrorCode RengaScheduleSetRecompute(RengaSchedule schedule, int stage, bool recompute);
/* Shape and recomputation of a plan. */
RengaErrorCode RengaScheduleSetPlan(RengaSchedule schedule, RengaPlan plan, int64_t microbatches,
                                    int n_messages, const RengaMessage messages[],
                                    bool forward_only);
/* Builds all lists and proves them: every message has its match in order, nothing deadlocks where
   receives block and sends do not, every micro-batch runs once per stage forward before backward,
   no rank holds more micro-batches than its type promises, what is recomputed is there when its
   backward comes. Each rank works through its micro-batches in one order that all ranks agree on:
   ascending where all stages have the same number of replicas. */
RengaErrorCode RengaScheduleSetUp(RengaSchedule schedule);
/* Another list for a rank, copied and proved with the others; refused, the old one stays. */
RengaErrorCode RengaScheduleSetActions(RengaSchedule schedule, int stage, int replica,
                                       int64_t count, const RengaAction actions[]);
RengaErrorCode RengaScheduleGetActions(RengaSchedule schedule, int stage, int replica,
                                       int64_t *count, const RengaAction **actions); /* lent */
/* These two need the shape only, no set-up. */
RengaErrorCode RengaScheduleGetOrder(RengaSchedule schedule, int stage, int replica, int64_t *count,
                                     const int64_t **order); /* lent */
/* Of the replica that holds most. */
RengaErrorCode RengaScheduleGetInFlight(RengaSchedule schedule, int stage, int64_t *microbatches);
/* Makespan for given seconds per micro-batch on a replica of each stage, and per message; a
   recomputation takes as long as a forward. Bubble: idle share of all ranks. */
RengaErrorCode RengaScheduleSimulate(RengaSchedule schedule, const double forward[],
                                     const double backward[], const double message[],
                                     double *makespan, double *bubble);
RengaErrorCode RengaScheduleView(RengaSchedule schedule, RengaViewer viewer); /* ascii timeline */
RengaErrorCode RengaScheduleDestroy(RengaSchedule *schedule);

RENGA_END_DECLS
