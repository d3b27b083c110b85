/* What the files of the schedule's room share. */
#pragma once
#include "renga/private/object.h"
#include "rengaschedule.h"

typedef struct {
  int64_t count, capacity;
  RengaAction *action;
} RengaActionList;

/* The rows of the message table that a stage has to do with. */
typedef enum {
  RENGA_ROWS_RECEIVE_FORWARD,
  RENGA_ROWS_SEND_FORWARD,
  RENGA_ROWS_RECEIVE_BACKWARD,
  RENGA_ROWS_SEND_BACKWARD,
  RENGA_ROWS_KINDS,
} RengaRowsKind;

struct _RengaScheduleOps {
  /* Calls RengaScheduleCompute_Private for each forward and backward of the stage, in order. */
  RengaErrorCode (*order)(RengaSchedule schedule, int stage);
  /* The most micro-batches that are forward but not yet backward. */
  int64_t (*bound)(int stages, int stage, int64_t microbatches);
};

struct _p_RengaSchedule {
  RENGAHEADER(struct _RengaScheduleOps);
  int stages, n_messages;
  int64_t microbatches;
  bool forward_only;
  const RengaMessage *message; /* borrowed */
  RengaActionList *list;       /* [stages] */
  int64_t *in_flight;          /* [stages] the most that the list needs */
  int *row_start;              /* [stages * RENGA_ROWS_KINDS + 1] */
  int *row;                    /* of messages, by stage and kind */
};

RengaErrorCode RengaScheduleCreate_GPipe(void *schedule);
RengaErrorCode RengaScheduleCreate_1F1B(void *schedule);
/* Appends the receives that the action needs, the action, and the sends of what it makes. */
RengaErrorCode RengaScheduleCompute_Private(RengaSchedule schedule, int stage, RengaActionKind kind,
                                            int64_t microbatch);
/* Messages of one kind that a stage takes part in; lent. */
const int *RengaScheduleRows_Private(RengaSchedule schedule, int stage, RengaRowsKind kind,
                                     int *count);
/* "receive 'h' from stage 0, micro-batch 3" */
void RengaScheduleDescribe_Private(RengaSchedule schedule, const RengaAction *action, size_t size,
                                   char text[]);
/* Executes the lists in the abstract, fills in_flight[]. An error names stage and action. */
RengaErrorCode RengaScheduleProve_Private(RengaSchedule schedule);

/* Executes the lists in time. visit (or NULL) sees each forward and backward. */
typedef struct {
  const double *forward, *backward; /* [stages] seconds */
  const double *message;            /* [n_messages] seconds, or NULL: none */
  void (*visit)(void *user, const RengaAction *action, double begin, double end);
  void *user;
} RengaScheduleClock;
RengaErrorCode RengaScheduleTime_Private(RengaSchedule schedule, const RengaScheduleClock *clock,
                                         double *makespan, double *busy);
