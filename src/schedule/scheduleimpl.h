/* What the files of the schedule's room share. */
#pragma once
#include "renga/private/object.h"
#include "renga/private/schedule.h"
#include "rengaschedule.h"

/* The list of a rank. */
struct _p_RengaActionList {
  RengaSchedule schedule;
  int n_chunks;
  const RengaScheduleChunk *chunk; /* [n_chunks] of the rank, stages ascending */
  int64_t n_actions, capacity;
  RengaAction *action;
};

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
  int64_t *turn;  /* [micro-batches] its place in the order of the replica that has it, from 0 */
  int *owner;     /* [micro-batches] replica that has it */
} RengaSharing;

/* An action of some rank, among those of all ranks. */
typedef struct {
  RengaActionKind kind;
  int rank, stage;
  bool last;     /* of a sum: with this action all replicas have come to it */
  int64_t place; /* of a message: [message][micro-batch]; of a sum: [bucket of all stages][kind] */
  const RengaAction *action; /* in the rank's list */
} RengaSequenceRow;

struct _RengaPattern;
struct _RengaScheduleOps {
  /* How many forwards each stage does before its first backward, one more being in flight, where
     the type says so before any list is made; NULL: its lists are made and counted. */
  RengaErrorCode (*warm_up)(RengaSchedule schedule, int64_t warm_up[]);
  /* Fills the list of a rank, for training. */
  RengaErrorCode (*build)(RengaSchedule schedule, int rank, RengaActionList list);
  /* Makes what RengaScheduleFillPattern_Private fills it from. */
  RengaErrorCode (*draw)(RengaSchedule schedule, struct _RengaPattern **pattern);
  bool sound; /* lists of ranks with one stage each need no proof */
};

struct _p_RengaSchedule {
  RENGAHEADER(struct _RengaScheduleOps);
  int stages, seats, ranks, n_messages; /* a seat: a replica of a stage */
  int *replicas;                        /* [stages] */
  int *first_seat;                      /* [stages + 1] seats by stage, then replica */
  int *rank;                            /* [seats] whose list it is */
  int *buckets;                         /* [stages] */
  int *gathers;                         /* [stages] of these, gathered after the update */
  bool *folds;                          /* [stages] see commonlist.c */
  bool *recompute;                      /* [stages] */
  int64_t microbatches, leaf;           /* of the step; of those that a replica has together */
  bool forward_only;
  double eager;                  /* micro-batches begun early, for each stage that follows */
  const RengaScheduleRule *rule; /* of a type from outside, else NULL */
  const RengaMessage *message;   /* borrowed */
  int n_sharings;
  RengaSharing *sharing;
  int *sharing_of;                   /* [stages] */
  int64_t *global;                   /* [micro-batches] the order that all ranks agree on */
  int64_t *place;                    /* [micro-batches] its inverse */
  RengaScheduleChunk *chunk;         /* [seats] by rank, then stage */
  int *chunk_of;                     /* [seats] */
  RengaActionList list;              /* [ranks] */
  int64_t n_sequence;                /* actions of all lists */
  RengaSequenceRow *sequence;        /* [n_sequence] see sequence.c; NULL: not simulated yet */
  int64_t *warm_up;                  /* [stages]; not read where the type does not say it */
  int64_t *in_flight;                /* [stages] the most that a list needs */
  int64_t *lag;                      /* [stages] see RengaScheduleGetLag() */
  int *row_start;                    /* [stages * RENGA_ROWS_KINDS + 1] */
  int *row;                          /* of messages, by stage and kind */
  struct _RengaPattern *pattern;     /* see pattern.c; NULL: not drawn */
  const struct _RengaPattern *given; /* instead of that; lent */
  RengaSchedule chosen;              /* by type auto, whose lists it has */
  double *seconds; /* [3][stages] forward, input, weight; then [messages]; NULL: 1 each, and 0 */
};

/* What replicas do with a bucket together: the sum of its gradients, the second half of that where
   a list has it apart, and the gather of parameters. */
typedef enum {
  RENGA_SUM_REDUCE,
  RENGA_SUM_GATHER,
  RENGA_SUM_PARAMETERS,
  RENGA_SUM_KINDS
} RengaSumKind;

RengaErrorCode RengaScheduleCreate_GPipe(void *schedule);
RengaErrorCode RengaScheduleCreate_1F1B(void *schedule);
RengaErrorCode RengaScheduleCreate_Auto(void *schedule);
RengaErrorCode RengaScheduleCreate_DualPipeV(void *schedule);
RengaErrorCode RengaScheduleCreate_File(void *schedule);
RengaErrorCode RengaScheduleCreate_Interleaved(void *schedule);
RengaErrorCode RengaScheduleCreate_ZBV(void *schedule);
RengaErrorCode RengaScheduleCreate_ZBH1(void *schedule);
RengaErrorCode RengaScheduleCreate_ZBH2(void *schedule);
/* 1f1b.c: forwards of each stage before its first backward. */
RengaErrorCode RengaScheduleWarmUp_Private(RengaSchedule schedule, int64_t warm_up[]);
/* outside.c */
RengaErrorCode RengaScheduleAdopt_Private(void *schedule, const void *rule);

/* order.c: fills global, place and the sharings. */
RengaErrorCode RengaScheduleMakeOrder_Private(RengaSchedule schedule);
void RengaScheduleFreeOrder_Private(RengaSchedule schedule);
bool RengaScheduleIsEqual_Private(RengaSchedule schedule); /* as many replicas in all stages */
static inline const RengaSharing *RengaScheduleSharing_Private(RengaSchedule schedule, int stage)
{
  return &schedule->sharing[schedule->sharing_of[stage]];
}
/* Some rank has several stages. */
static inline bool RengaScheduleSharesRanks_Private(RengaSchedule schedule)
{
  return schedule->ranks < schedule->seats;
}
static inline const RengaScheduleChunk *RengaScheduleChunk_Private(RengaSchedule schedule,
                                                                   int stage, int replica)
{
  return &schedule->chunk[schedule->chunk_of[schedule->first_seat[stage] + replica]];
}

/* shape.c */
RengaErrorCode RengaScheduleCheckShape_Private(RengaSchedule schedule);
RengaErrorCode RengaScheduleCheckStage_Private(RengaSchedule schedule, int stage, int replica);
void RengaScheduleFreeShape_Private(RengaSchedule schedule);
/* build.c: all but the actions; then the rows of each stage, the lists. */
RengaErrorCode RengaSchedulePrepare_Private(RengaSchedule schedule);
RengaErrorCode RengaScheduleBuild_Private(RengaSchedule schedule);
void RengaScheduleFreeLists_Private(RengaSchedule schedule);
/* rows.c: sorts the messages by stage and kind; those of one kind that a stage takes part in,
   lent. */
RengaErrorCode RengaScheduleIndexRows_Private(RengaSchedule schedule);
const int *RengaScheduleRows_Private(RengaSchedule schedule, int stage, RengaRowsKind kind,
                                     int *count);
/* actions.c: which of these an action is; RENGA_SUM_KINDS: none. */
RengaSumKind RengaScheduleSumOf_Private(RengaActionKind kind);
/* "receive 'h' from stage 0, micro-batch 3" */
void RengaScheduleDescribe_Private(RengaSchedule schedule, const RengaAction *action, size_t size,
                                   char text[]);
/* list.c: room for so many micro-batches of all of the list's stages, without messages that are not
   in the table; an action with its messages, or the sums of a stage, for which there is room. */
RengaErrorCode RengaActionListReserve_Private(RengaActionList list);
void RengaActionListAppend_Private(RengaActionList list, RengaActionKind kind,
                                   const RengaScheduleChunk *chunk, int64_t microbatch);
void RengaActionListAppendSums_Private(RengaActionList list, const RengaScheduleChunk *chunk);
/* fill.c: as the warm-up of the stages says; forwards only */
RengaErrorCode RengaScheduleFillWarmUp_Private(RengaSchedule schedule, int rank,
                                               RengaActionList list);
RengaErrorCode RengaScheduleFillForward_Private(RengaActionList list);
/* interleave.c: what the chunks of a list do, one after the other; all sums of a chunk are one
   turn. forwards: what each chunk of the schedule does before each of its backwards. */
typedef struct {
  RengaActionKind kind;
  const RengaScheduleChunk *chunk;
  int64_t microbatch;
} RengaScheduleTurn;
RengaErrorCode RengaScheduleInterleave_Private(RengaActionList list, const int64_t forwards[],
                                               int64_t *count, RengaScheduleTurn **turns);
/* pattern.c: as the pattern that the type draws says */
RengaErrorCode RengaScheduleFillPattern_Private(RengaSchedule schedule, int rank,
                                                RengaActionList list);
void RengaPatternFree_Private(struct _RengaPattern **pattern);
/* file.c: what the head of the file of a type file:F says. */
RengaErrorCode RengaScheduleFilePlaces_Private(const char *type, int *chunks, bool *wave);
/* prove.c: executes the lists in the abstract, fills in_flight[]. An error names stage and
   action. */
RengaErrorCode RengaScheduleProve_Private(RengaSchedule schedule);

/* commonlist.c: the lists of replicas that go through one become that one. */
void RengaScheduleAlignLists_Private(RengaSchedule schedule);

/* sequence.c: fills sequence[], if it is not there. */
RengaErrorCode RengaScheduleMakeSequence_Private(RengaSchedule schedule);

/* simulate.c: executes the lists in time. visit (or NULL) sees what ranks compute, messages from
   their send until they are taken, with the action that takes them, and sums, on each replica. */
typedef struct {
  RengaScheduleDurations durations;
  const double *pace; /* [seats] times what a replica's work takes; NULL: all take the same */
  void (*visit)(void *user, int rank, const RengaAction *action, double begin, double end);
  void *user;
} RengaScheduleClock;
RengaErrorCode RengaScheduleTime_Private(RengaSchedule schedule, const RengaScheduleClock *clock,
                                         double *makespan, double *busy);

/* timeline.c: a step in time, as bars of the ranks. */
typedef struct {
  int64_t count;
  RengaScheduleBar *bar;
  double makespan; /* until the last rank has updated its parameters */
  double bubble;   /* share of all ranks' time in which they wait, of the pipeline */
} RengaTimeline;
/* Seconds of the actions; block: the caller frees it. */
typedef struct {
  double *block;
  RengaScheduleDurations durations;
  const double *pace; /* in block: see RengaScheduleClock */
  bool known;         /* they are seconds; else what is drawn has no unit */
} RengaStepSeconds;
/* Of a plan, which may not know them; of no plan: 1 for each forward, 2 for a backward. */
RengaErrorCode RengaStepSecondsOfPlan_Private(RengaSchedule schedule, RengaPlan plan,
                                              RengaStepSeconds *seconds);
/* The mean of those of a step that was run, over all replicas, each of which has its pace. */
RengaErrorCode RengaStepSecondsOfBars_Private(RengaSchedule schedule, int64_t count,
                                              const RengaScheduleBar bars[],
                                              RengaStepSeconds *seconds);
RengaErrorCode RengaTimelineSimulate_Private(RengaSchedule schedule,
                                             const RengaStepSeconds *seconds,
                                             RengaTimeline *timeline);
/* Of a step that was run, from the begin of its first bar on; bars are copied. */
RengaErrorCode RengaTimelineTake_Private(RengaSchedule schedule, int64_t count,
                                         const RengaScheduleBar bars[], RengaTimeline *timeline);
void RengaTimelineFree_Private(RengaTimeline *timeline);
bool RengaActionIsWork_Private(RengaActionKind kind); /* the rank computes */
