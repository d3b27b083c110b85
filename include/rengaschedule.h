/* Schedule: plan to one list of actions per rank; proved before it is run. */
#pragma once
#include "rengamachine.h"
#include "rengaplan.h"

RENGA_BEGIN_DECLS

/* The actions of one step, a list for each rank. */
typedef struct _p_RengaSchedule *RengaSchedule;
/* Types of schedules, for RengaScheduleSetType and -schedule_type. */
#define RENGA_SCHEDULE_GPIPE "gpipe"             /* all forwards, then all backwards */
#define RENGA_SCHEDULE_1F1B "1f1b"               /* a forward and a backward by turns */
#define RENGA_SCHEDULE_INTERLEAVED "interleaved" /* the same, with virtual stages */
#define RENGA_SCHEDULE_ZB_H1 "zb-h1" /* gradients of parameters where a rank would wait */
#define RENGA_SCHEDULE_ZB_H2 "zb-h2" /* the same, with more micro-batches in flight */
#define RENGA_SCHEDULE_ZB_V "zb-v"   /* the same, with two virtual stages per rank, V-shaped */
#define RENGA_SCHEDULE_DUALPIPE_V "dualpipe-v" /* as zb-v, gradients of parameters at the end */
#define RENGA_SCHEDULE_AUTO "auto"  /* the shortest of these that fit, and of greedy lists */
#define RENGA_SCHEDULE_FILE "file:" /* and the name of a file of RengaScheduleSave() */
/* Gradients of one message that a rank has room for at a time. */
enum { RENGA_SCHEDULE_GRADIENTS = 2 };
/* What a rank may do in a step. */
typedef enum {
  RENGA_ACTION_FORWARD,           /* a stage's forward of a micro-batch */
  RENGA_ACTION_BACKWARD,          /* its whole backward */
  RENGA_ACTION_BACKWARD_INPUT,    /* the half of it that makes the gradients sent back */
  RENGA_ACTION_BACKWARD_WEIGHT,   /* the other half: gradients of parameters */
  RENGA_ACTION_RECOMPUTE,         /* forward once more, for a backward that follows */
  RENGA_ACTION_SEND,              /* a message to another stage */
  RENGA_ACTION_RECEIVE,           /* a message from another stage */
  RENGA_ACTION_REDUCE,            /* the sum of a bucket of gradients over the replicas */
  RENGA_ACTION_GATHER,            /* the whole of such a sum, of which replicas have blocks */
  RENGA_ACTION_UPDATE,            /* the optimizer changes the parameters */
  RENGA_ACTION_GATHER_PARAMETERS, /* behind an update: each replica gives what it alone changed */
  RENGA_ACTION_KINDS,             /* how many there are */
} RengaActionKind;
const char *RengaActionName(RengaActionKind kind);
/* One entry of a rank's list. */
typedef struct {
  RengaActionKind kind; /* what is done */
  int stage, replica;   /* of whom */
  int message;          /* of send and receive: row of the message table, else -1 */
  int bucket;           /* of reduce and gathers: of the stage's gradients, else -1 */
  int64_t microbatch;   /* number in the step, over all replicas; -1 at its end */
} RengaAction;
/* A stage of a rank, with the micro-batches that the rank has of it. */
typedef struct {
  int rank, stage, replica; /* whose and which */
  int64_t first, count;     /* their numbers in the step are first … first + count - 1 */
  const int64_t *order;     /* [count] as the rank works through them, forward and backward; lent */
} RengaScheduleChunk;
/* What crosses between stages for every micro-batch: an activation forward, its gradient back. */
typedef struct {
  const char *value; /* lent: name in the graph */
  int from, to;      /* stages */
  bool backward;     /* a gradient, not an activation */
  int64_t bytes;     /* of one whole micro-batch */
} RengaMessage;
RengaErrorCode RengaPlanGetMessages(RengaPlan plan, RengaGraph graph, int *count,
                                    RengaMessage **messages); /* RengaFree */

/* The list of a rank while a rule fills it. */
typedef struct _p_RengaActionList *RengaActionList;
/* A type is a function that fills the list of a rank, which may have several stages. It is asked
   for lists of training only. */
typedef struct {
  const char *name; /* of the type */
  /* Fills the list of one rank by RengaActionListAdd() and its like. */
  RengaErrorCode (*build)(RengaSchedule schedule, int rank, RengaActionList list, void *user);
  void *user; /* handed to build */
} RengaScheduleRule;
RengaErrorCode RengaScheduleRegister(const RengaScheduleRule *rule);
/* For such functions: what SetShape was told, the virtual stages per rank, and actions behind
   those that are there. */
RengaErrorCode RengaScheduleGetShape(RengaSchedule schedule, int *stages, const int **replicas,
                                     int64_t *microbatches); /* lent */
RengaErrorCode RengaScheduleGetChunks(RengaSchedule schedule, int rank, int *count,
                                      const RengaScheduleChunk **chunks); /* lent */
RengaErrorCode RengaActionListAdd(RengaActionList list, RengaActionKind kind, int stage,
                                  int64_t microbatch); /* with its messages */
RengaErrorCode RengaActionListAddAction(RengaActionList list, const RengaAction *action);
RengaErrorCode RengaActionListEnd(RengaActionList list); /* reduce, update, gather parameters */
/* A whole list of which only is said how far forwards run ahead: the rank of the stage, which has
   count micro-batches of it, does forwards[i] of them before backward i, from i + 1 to count, and
   no fewer than before the backward that comes first. replicas: [stages]. */
typedef RengaErrorCode (*RengaScheduleForwards)(int stages, const int replicas[], int stage,
                                                int64_t count, int64_t forwards[], void *user);
RengaErrorCode RengaActionListFill(RengaActionList list, RengaScheduleForwards forwards,
                                   void *user);

RengaErrorCode RengaScheduleCreate(RengaComm comm, RengaSchedule *schedule);
RengaErrorCode RengaScheduleSetType(RengaSchedule schedule, const char *type);
RengaErrorCode RengaScheduleGetType(RengaSchedule schedule, const char **type);
RengaErrorCode RengaScheduleShareLists(RengaComm comm, const char *type); /* of type file: */
RengaErrorCode RengaScheduleFindPlacement(const char *type, int *chunks, bool *wave);
RengaErrorCode RengaScheduleSetEager(RengaSchedule schedule, double eager);
RengaErrorCode RengaScheduleGetEager(RengaSchedule schedule, double *eager);
RengaErrorCode RengaScheduleSetFromOptions(RengaSchedule schedule); /* -schedule_type, _eager */
RengaErrorCode RengaScheduleSetShape(RengaSchedule schedule, int stages, const int replicas[],
                                     int64_t microbatches, int n_messages,
                                     const RengaMessage messages[], bool forward_only);
RengaErrorCode RengaScheduleSetLeaf(RengaSchedule schedule, int64_t leaf);
RengaErrorCode RengaScheduleSetRecompute(RengaSchedule schedule, int stage, bool recompute);
RengaErrorCode RengaScheduleSetRanks(RengaSchedule schedule, const int rank[]);
RengaErrorCode RengaScheduleSetBuckets(RengaSchedule schedule, int stage, int buckets);
RengaErrorCode RengaScheduleGetBuckets(RengaSchedule schedule, int stage, int *buckets);
RengaErrorCode RengaScheduleSetGathers(RengaSchedule schedule, int stage, int buckets);
RengaErrorCode RengaScheduleGetGathers(RengaSchedule schedule, int stage, int *buckets);
RengaErrorCode RengaScheduleSetPlan(RengaSchedule schedule, RengaPlan plan, int64_t microbatches,
                                    int n_messages, const RengaMessage messages[],
                                    bool forward_only);
RengaErrorCode RengaScheduleSetUp(RengaSchedule schedule);
RengaErrorCode RengaScheduleSetActions(RengaSchedule schedule, int stage, int replica,
                                       int64_t count, const RengaAction actions[]);
RengaErrorCode RengaScheduleGetActions(RengaSchedule schedule, int stage, int replica,
                                       int64_t *count, const RengaAction **actions); /* lent */
RengaErrorCode RengaScheduleGetRankCount(RengaSchedule schedule, int *ranks);        /* lists */
/* These need the shape only, no set-up. */
RengaErrorCode RengaScheduleGetInFlight(RengaSchedule schedule, int stage, int64_t *microbatches);
RengaErrorCode RengaScheduleGetLag(RengaSchedule schedule, int stage, int64_t *microbatches);
/* What the actions of a kind take, [stages] seconds each (NULL: no time), what messages take,
   [messages] seconds (NULL: none), whether messages of one rank to another queue, and what replicas
   give each other within an action. */
typedef struct {
  const double *seconds[RENGA_ACTION_KINDS]; /* [stages] of each kind */
  const double *message;                     /* [messages] */
  bool queue;                                /* one message to a rank after the other */
  /* [stages] until a replica has the parameters that an action of the kind reads and that others
     have (NULL: none), and those of its first forward, which finds none there (NULL: as others) */
  const double *fetch[RENGA_ACTION_KINDS], *first;
  const double *fold; /* [stages] until replicas have added a micro-batch's gradients; NULL: they
                         do so after the last one, by the sums of the list */
  const int *parts;   /* [stages] that fetches and folds come in, one after the other; NULL: one */
  bool apart; /* fetches and folds go on while the rank computes; else it does them itself */
} RengaScheduleDurations;
RengaErrorCode RengaScheduleSimulateWith(RengaSchedule schedule,
                                         const RengaScheduleDurations *durations, double *makespan,
                                         double *bubble);
RengaErrorCode RengaScheduleSimulate(RengaSchedule schedule, const double forward[],
                                     const double backward[], const double message[],
                                     double *makespan, double *bubble);
/* What a simulated step meets beside its plan. */
typedef struct {
  int64_t slow_node, link_node, lost_node; /* nodes, from 0 */
  double slow_factor; /* devices of slow_node take so many times as long; 1: they do not */
  double link_factor; /* share that link_node's network cards have left; 1: all */
  bool card_lost;     /* the first network card of lost_node carries nothing */
  double jitter;      /* standard deviation of each action's seconds, as a share; 0: none */
  uint64_t seed;      /* of these */
} RengaScheduleDisturbance;
RengaScheduleDisturbance RengaScheduleDisturbanceNone(void);
RengaErrorCode RengaScheduleSimulateNetwork(RengaSchedule schedule, RengaPlan plan,
                                            RengaMachine machine,
                                            const RengaScheduleDisturbance *disturbance,
                                            double *step);
RengaErrorCode RengaScheduleViewNetwork(RengaSchedule schedule, RengaPlan plan,
                                        RengaMachine machine, RengaViewer viewer);
RengaErrorCode RengaScheduleView(RengaSchedule schedule, RengaViewer viewer); /* ascii, draw */
/* What a rank did from begin to end; a sum until it was there. */
typedef struct {
  RengaAction action; /* what was done */
  double begin, end;  /* seconds, on one clock for all ranks */
} RengaScheduleBar;
/* A step that is drawn. */
typedef struct {
  RengaPlan plan; /* whose seconds and bytes count; NULL: a forward takes 1, a backward 2 */
  int64_t count;  /* number of bars */
  const RengaScheduleBar *bar;          /* [count] of a step that was run; 0: none was */
  double simulated, measured, replayed; /* seconds, which are filled in; 0: not known */
} RengaScheduleStep;
RengaErrorCode RengaScheduleDraw(RengaSchedule schedule, RengaScheduleStep *step,
                                 RengaViewer viewer);
RengaErrorCode RengaScheduleViewFromOptions(RengaSchedule schedule);
RengaErrorCode RengaScheduleSave(RengaSchedule schedule, const char *file); /* see type file: */
RengaErrorCode RengaScheduleDestroy(RengaSchedule *schedule);

RENGA_END_DECLS
