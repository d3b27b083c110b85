/* What the files of the schedule's room share. */
#pragma once
#include "renga/private/object.h"
#include "rengaschedule.h"

typedef struct {
  int stage, replica;
  int64_t first, count; /* its micro-batches are [first, first + count) */
  int64_t n_actions, capacity;
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

/* What stages with the same number of replicas have in common. */
typedef struct {
  int replicas;
  int64_t *order; /* [micro-batches] of replica r, as it works through them, from its first on */
  int *owner;     /* [micro-batches] replica that has it */
} RengaSharing;

struct _RengaScheduleOps {
  /* How many forwards each stage does before its first backward; one more is in flight. */
  RengaErrorCode (*warm_up)(RengaSchedule schedule, int64_t warm_up[]);
};

struct _p_RengaSchedule {
  RENGAHEADER(struct _RengaScheduleOps);
  int stages, ranks, n_messages;
  int *replicas;              /* [stages] */
  int *first_rank;            /* [stages + 1] ranks by stage, then replica */
  bool *recompute;            /* [stages] */
  int64_t microbatches, leaf; /* of the step; of those that a replica has together */
  bool forward_only;
  double eager;                  /* micro-batches begun early, for each stage that follows */
  const RengaScheduleRule *rule; /* of a type from outside, else NULL */
  const RengaMessage *message;   /* borrowed */
  int n_sharings;
  RengaSharing *sharing;
  int *sharing_of;       /* [stages] */
  int64_t *global;       /* [micro-batches] the order that all ranks agree on */
  int64_t *place;        /* [micro-batches] its inverse */
  RengaActionList *list; /* [ranks] */
  int64_t *warm_up;      /* [stages] */
  int64_t *in_flight;    /* [stages] the most that a list needs */
  int *row_start;        /* [stages * RENGA_ROWS_KINDS + 1] */
  int *row;              /* of messages, by stage and kind */
};

RengaErrorCode RengaScheduleCreate_GPipe(void *schedule);
RengaErrorCode RengaScheduleCreate_1F1B(void *schedule);

/* outside.c: forwards: [micro-batches of the list] how many come before each backward. */
void RengaScheduleCreateOutside_Private(RengaSchedule schedule, const RengaScheduleRule *rule);
RengaErrorCode RengaScheduleForwards_Private(RengaSchedule schedule, const RengaActionList *list,
                                             int64_t forwards[]);

/* order.c: fills global, place and the sharings. */
RengaErrorCode RengaScheduleMakeOrder_Private(RengaSchedule schedule);
void RengaScheduleFreeOrder_Private(RengaSchedule schedule);
bool RengaScheduleIsEqual_Private(RengaSchedule schedule); /* as many replicas in all stages */
static inline const RengaSharing *RengaScheduleSharing_Private(RengaSchedule schedule, int stage)
{
  return &schedule->sharing[schedule->sharing_of[stage]];
}

void RengaScheduleFreeLists_Private(RengaSchedule schedule);
/* build.c: all but the actions; then the rows of each stage, the lists. */
RengaErrorCode RengaSchedulePrepare_Private(RengaSchedule schedule);
RengaErrorCode RengaScheduleBuild_Private(RengaSchedule schedule);
/* Messages of one kind that a stage takes part in; lent. */
const int *RengaScheduleRows_Private(RengaSchedule schedule, int stage, RengaRowsKind kind,
                                     int *count);
/* "receive 'h' from stage 0, micro-batch 3" */
void RengaScheduleDescribe_Private(RengaSchedule schedule, const RengaAction *action, size_t size,
                                   char text[]);
/* prove.c: executes the lists in the abstract, fills in_flight[]. An error names stage and
   action. */
RengaErrorCode RengaScheduleProve_Private(RengaSchedule schedule);

/* Executes the lists in time. visit (or NULL) sees each forward, recomputation and backward. */
typedef struct {
  const double *forward, *backward; /* [stages] seconds */
  const double *message;            /* [n_messages] seconds, or NULL: none */
  void (*visit)(void *user, const RengaAction *action, double begin, double end);
  void *user;
} RengaScheduleClock;
RengaErrorCode RengaScheduleTime_Private(RengaSchedule schedule, const RengaScheduleClock *clock,
                                         double *makespan, double *busy);
