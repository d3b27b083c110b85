/* The search for stages, replicas and micro-batches: from a task to an answer.

   RengaSearchWish    what a type of partition asks of the search
   SearchTask         the same with all that was collected for it: sizes, costs, settings of the run
   SearchFinder       a way to find layouts: a function, of the search or of another type
   SearchRival        a finder of another type, whose plans the answer must not be worse than
   SearchLayout       stages, without a schedule (model.h)
   SearchPick    the best layout of one size and one way to lay replicas on the machine
   Solution           a pick as a plan, with the memory that the runtime needs (solution.h)
   SearchDraft        a layout as a plan that is simulated under many schedules
   SearchManner       a schedule that is tried: its type, and what it begins early
   SearchSlant        how much more work earlier stages get
   SearchAim          the incumbent of the exhaustive part: a layout with its schedule and step
   SearchTrial        the incumbent with what it takes to simulate another layout against it
   SearchAnswer       what all ranks get: the plan, its prediction and its reasons */
#pragma once
#include "model.h"

/* ---- solve.c ---- */
typedef struct SearchTask SearchTask;
/* Another way to look for layouts: *best is replaced by what is better. */
typedef RengaErrorCode (*SearchFinder)(const void *context, const SearchTask *task,
                                       const SearchModel *model, SearchLayout *best);
enum { SEARCH_RIVALS_MOST = 3 };
/* Another type, whose plans the search must not be worse than. */
typedef struct {
  SearchFinder find;
  const void *context;
  bool quick; /* on large problems too */
} SearchRival;
struct SearchTask {
  RengaComm self; /* of this process alone; borrowed, as all here */
  RengaGraph graph;
  RengaMachine machine; /* NULL: messages and reductions cost nothing */
  int ranks, stages, replicas, moments;
  int64_t batch;
  double memory;            /* bytes of a device; 0: no bound */
  bool unordered;           /* gradients are added in one buffer */
  bool gpipe, exact, equal; /* equal: all stages have the same replicas */
  double eager;             /* of 1f1b: begun early, for each stage that follows */
  bool any_schedule;        /* another one is taken where it is faster */
  bool thorough;            /* all layouts are looked at, as far as time goes */
  bool every;               /* number of replicas, not only the least with its rounds */
  double time_limit;        /* of exact, seconds; 0: none */
  double until;             /* on the clock, from the limit; 0: any time */
  double update_rate, accumulate_rate;
  int n_sizes;                     /* micro-batches to be tried */
  const int64_t *size, *leaf;      /* [n_sizes] samples, micro-batches */
  RengaProfileCost *const *costs;  /* [n_sizes][nodes] */
  int n_first;                     /* sizes after these only where none of these fits */
  bool chooses_size, chooses_leaf; /* nobody fixed it */
  SearchFinder find;               /* NULL: the searches of this room */
  const void *context;
  RengaPlan given;        /* evaluated as it is, instead of any search; NULL: none */
  RengaSettings settings; /* of the run, for forecasts; NULL: the usual ones */
  void **session;         /* of the runtime's forecasts; NULL: none is asked for */
  int n_rivals;
  SearchRival rival[SEARCH_RIVALS_MOST];
};

/* The best of one micro-batch and one way to lay replicas on the machine. */
typedef struct {
  int size; /* number in the task */
  bool spread, proved;
  SearchLayout layout;
  double bound; /* seconds */
} SearchPick;

enum { SEARCH_TOPIC = 24, SEARCH_SENTENCE = 488 };
typedef struct {
  char topic[SEARCH_TOPIC], sentence[SEARCH_SENTENCE];
} SearchReason;

typedef struct {
  RengaPlanPrediction prediction;
  int64_t microbatch, leaf;
  int n_stages, n_ranks, n_reasons;
  bool gpipe;
  double eager;
  RengaPlanStage *stage;
  int *rank;
  SearchReason *reason;
} SearchAnswer;

/* Not collective: one process plans for all. */
RengaErrorCode RengaSearchSolve_Private(const SearchTask *task, SearchAnswer *answer);
void RengaSearchAnswerFree_Private(SearchAnswer *answer);

/* ---- chain.c ---- */
/* The model of a size of the task, with its candidates. */
RengaErrorCode RengaSearchModelOf_Private(const SearchTask *task, const SearchChain *chain,
                                          int size, bool spread, SearchModel *model);

/* ---- layouts.c ---- */
/* Proved: no plan of a size of the task is faster. */
RengaErrorCode RengaSearchBoundOf_Private(const SearchTask *task, const SearchChain *chain,
                                          int size, double *bound);
/* Replicas may also lie on different groups of the machine. */
RengaErrorCode RengaSearchHasGroups_Private(const SearchTask *task, bool *groups);
/* All ways of looking are taken together; only a few are. */
bool RengaSearchIsSmall_Private(const SearchTask *task, const SearchChain *chain);
bool RengaSearchIsLarge_Private(const SearchTask *task, const SearchChain *chain);
/* Those of equal.c and cover.c, on fewer places where the chain is long. */
RengaErrorCode RengaSearchQuickly_Private(const SearchModel *model, SearchLayout *best);
/* The best layout by all searches; *proved: none is faster. */
RengaErrorCode RengaSearchLayouts_Private(const SearchTask *task, const SearchModel *model,
                                          SearchLayout *best, bool *proved);
/* The best over sizes and placements, layout.count 0: nothing fits. */
RengaErrorCode RengaSearchBest_Private(const SearchTask *task, const SearchChain *chain,
                                       SearchPick *best);

/* ---- slant.c ---- */
typedef struct {
  double share; /* of the work before a stage that counts as its own, 0 to 1 */
  double eager; /* of the schedule that its memory is for */
  int stages;   /* at the most */
  int window;   /* places that a cut may be off */
} SearchSlant;
/* A finder, whose context is a SearchSlant: stages of the model's one number of replicas, earlier
   ones with more work. */
RengaErrorCode RengaSearchSlant_Private(const void *context, const SearchTask *task,
                                        const SearchModel *model, SearchLayout *best);
/* What to try next, one thing after the other around the best so far; false: no more. */
bool RengaSearchSlantTry_Private(int number, bool few, const SearchSlant *best, SearchSlant *how);

/* ---- solution.c ---- */
typedef struct {
  bool gpipe;
  double eager;
} SearchManner;
enum { SEARCH_MANNERS = 6 };
/* The schedules that are tried, and that a proof is of; plain 1F1B is the first. */
extern const SearchManner RengaSearchManners[SEARCH_MANNERS];

/* ---- places.c ---- */
/* The widest level between replicas that work on the same micro-batch; of a stage's replicas. */
int RengaSearchLevelBetween_Private(RengaMachine machine, int m, const int from[], int n,
                                    const int to[]);
int RengaSearchLevelWithin_Private(RengaMachine machine, int n, const int rank[]);
/* Ways to place stages of so many replicas that no other beats. */
typedef struct {
  int count, ranks;
  int *rank; /* [count][ranks] stage after stage; the owner frees it */
  bool all;  /* no other way is faster; if not, stage after stage and replica after replica */
} SearchPlaces;
/* simply: stage after stage and replica after replica alone. */
RengaErrorCode RengaSearchPlaces_Private(RengaMachine machine, int devices, bool simply, int count,
                                         const int replicas[], SearchPlaces *places);

/* ---- branch.c ---- */
/* A layout with its schedule and its simulated step. */
typedef struct {
  SearchPick pick;
  bool gpipe, found;
  double eager, step;
} SearchAim;
/* Simulates every layout whose bound is below the best's step, as far as time and work go.
   best->step and best->pick.size are given, and a bound; best is replaced by what is faster
   (found), and the bound rises, to the step itself where all layouts were looked at. work: layouts
   in parts that are looked at; 0: any number. */
RengaErrorCode RengaSearchBranch_Private(const SearchTask *task, const SearchChain *chain,
                                         int64_t work, SearchAim *best, double *bound);

/* ---- trial.c ---- */
typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  SearchModel model;   /* without a bound on memory */
  SearchModel bounded; /* with it, for bounds */
  SearchAim *best;     /* the fastest so far; best->pick.size is that of all */
  double least;       /* seconds that a placement that was not tried may take; HUGE_VAL: all were */
  bool simply;        /* stages are placed one after the other, or replicas, and in no other way */
  int64_t eager_most; /* stages times rounds with more of which only a few schedules are tried; 0:
                         all are */
  int count;          /* stages with these replicas have the placements */
  int *replicas;
  SearchPlaces places;
} SearchTrial;
RengaErrorCode RengaSearchTrialCreate_Private(const SearchTask *task, const SearchChain *chain,
                                              SearchAim *best, SearchTrial *trial);
void RengaSearchTrialFree_Private(SearchTrial *trial);
/* The best becomes this layout if some schedule, placement and recomputation make it faster. */
RengaErrorCode RengaSearchTry_Private(SearchTrial *trial, SearchLayout *layout);

/* ---- improve.c ---- */
/* Small changes to the best's layout (no stages: there is no such layout), as far as work goes;
   small: then every order of replicas on all devices. What is faster replaces the best (found). */
RengaErrorCode RengaSearchImprove_Private(const SearchTask *task, const SearchChain *chain,
                                          bool small, int64_t eager_most, int64_t work,
                                          SearchAim *best);

/* ---- collect.c ---- */
typedef struct {
  char *sizes; /* of micro-batches: default, auto or a list; NULL: auto, fewer of large problems */
  bool exact;
  double time_limit; /* seconds */
  SearchFinder find; /* NULL: the searches of this room */
  const void *context;
  RengaPlan given; /* evaluated as it is, instead of any search; NULL: none */
} RengaSearchWish;
/* Collective: fills the plan. */
RengaErrorCode RengaSearchPartition_Private(RengaPartition partition, const RengaSearchWish *wish,
                                            int ranks, int64_t batch, int64_t microbatch,
                                            RengaPlan plan);

/* ---- loaded.c ---- */
/* Stages, ranks, batch, leaf and schedule of a plan, without times and bytes. */
RengaErrorCode RengaSearchCopyPlan_Private(RengaGraph graph, RengaPlan from, RengaPlan to);

/* ---- ../reading.c ---- */
/* Adds to costs of micro-batches of so many samples what reading their inputs takes. */
RengaErrorCode RengaSearchAddReading_Private(RengaPartition partition, RengaProfile profile,
                                             int64_t samples, RengaProfileCost costs[]);

/* ---- cuts.c ---- */
/* A finder, whose context is a partition of a type that only cuts. */
RengaErrorCode RengaSearchCutsFind_Private(const void *context, const SearchTask *task,
                                           const SearchModel *model, SearchLayout *best);

/* ---- ../rannc/find.c ---- */
/* A finder, whose context is the number of blocks, an int; 0: as many as stages need. */
RengaErrorCode RengaRanncFind_Private(const void *context, const SearchTask *task,
                                      const SearchModel *model, SearchLayout *best);

/* ---- rivals.c ---- */
/* Gives the task its rivals. Those that only cut are partitions, the caller's to destroy, which
   borrow the graph and the profile. */
enum { SEARCH_CUTTERS = 2 };
RengaErrorCode RengaSearchRivals_Private(RengaProfile profile, SearchTask *task,
                                         RengaPartition cutters[SEARCH_CUTTERS]);

/* ---- convex.c ---- */
/* Stages of a layout beside convex ones, which need be no intervals of the canonical order. The
   bottleneck: the longest of all works and messages of a stage, seconds of a micro-batch. */
typedef struct {
  double own;                       /* of the layout */
  double least, bound;              /* of the best that was found; of all */
  int stages;                       /* of what was found; 0: nothing better than own */
  bool compared, proved, intervals; /* intervals: what was found */
} SearchConvex;
/* Not compared: one stage, different replicas, or too long a chain for a search that is quick. */
RengaErrorCode RengaSearchConvex_Private(const SearchTask *task, const SearchChain *chain,
                                         const SearchModel *model, const SearchPick *pick,
                                         SearchConvex *convex);

/* ---- predict.c ---- */
/* A plan of this process alone, with its ranks. */
RengaErrorCode RengaSearchPlan_Private(const SearchTask *task, const SearchChain *chain,
                                       const SearchPick *pick, RengaPlan *plan);
/* Seconds by simulation where that is quick, on the links between the plan's ranks. */
RengaErrorCode RengaSearchPredict_Private(const SearchTask *task, const SearchModel *model,
                                          const SearchPick *pick, RengaPlan plan,
                                          RengaPlanPrediction *prediction);
/* A layout as a plan, with its messages, so that a step under each schedule and on each placement
   is soon found: the plan says which. */
typedef struct {
  RengaPlan plan;
  int n_messages;
  RengaMessage *messages;            /* NULL: too many to be simulated */
  struct SearchSchedules *schedules; /* the chain's */
} SearchDraft;
RengaErrorCode RengaSearchDraftCreate_Private(const SearchTask *task, const SearchChain *chain,
                                              const SearchModel *model, const SearchPick *pick,
                                              SearchDraft *draft);
void RengaSearchDraftFree_Private(SearchDraft *draft);
/* nearest: as if any two stages lay side by side, and a stage as closely as its replicas can; no
   placement is faster. */
RengaErrorCode RengaSearchPredictDraft_Private(const SearchTask *task, const SearchModel *model,
                                               const SearchPick *pick, const SearchDraft *draft,
                                               bool nearest, RengaPlanPrediction *prediction);
/* No schedule of the draft's layout is faster on its placement, or (nearest) on any; bounded: the
   model with the memory that there is. HUGE_VAL: it does not fit. */
RengaErrorCode RengaSearchDraftAtLeast_Private(const SearchTask *task, const SearchModel *bounded,
                                               const SearchPick *pick, const SearchDraft *draft,
                                               bool nearest, double *step);
/* Seconds of the pipeline under the best schedule and with messages that take no time. */
double RengaSearchLeastPipeline_Private(const SearchModel *model, const SearchLayout *layout);
/* Memory of each stage, by the runtime's forecast where there is one; *most: the largest. */
RengaErrorCode RengaSearchMemory_Private(const SearchTask *task, const SearchModel *model,
                                         const SearchPick *pick, RengaPlan plan,
                                         RengaForecastMemory memory[], double *most);

/* ---- floor.c ---- */
/* The same of the pipeline alone; seconds: of the messages, sorted by where they leave. */
RengaErrorCode RengaSearchFloor_Private(const SearchModel *bounded, const SearchLayout *layout,
                                        int n_messages, const RengaMessage messages[],
                                        const double seconds[], double *pipeline);

/* ---- schedules.c ---- */
RengaErrorCode RengaSearchSchedulesCreate_Private(struct SearchSchedules **schedules);
void RengaSearchSchedulesFree_Private(struct SearchSchedules **schedules);
/* The shape of a layout's schedule: of equal stages one replica stands for all. */
RengaErrorCode RengaSearchSetShape_Private(const SearchModel *model, const SearchLayout *layout,
                                           int n_messages, const RengaMessage messages[],
                                           RengaPlan plan, RengaSchedule schedule);
/* A step has few enough actions; if not, the model's step is predicted, whatever the schedule. */
bool RengaSearchMaySimulate_Private(const SearchModel *model, const SearchLayout *layout,
                                    int n_messages);
/* The schedule of the draft's plan, set up; lent, or the caller's. */
RengaErrorCode RengaSearchScheduleOf_Private(const SearchTask *task, const SearchModel *model,
                                             const SearchLayout *layout, const SearchDraft *draft,
                                             RengaSchedule *schedule, bool *lent);
/* What a step by a schedule of the program takes is not known. NULL: any. */
RengaErrorCode RengaSearchCheckSchedule_Private(const char *type);
/* Micro-batches that each stage holds under it. */
RengaErrorCode RengaSearchInFlight_Private(const SearchTask *task, const SearchModel *model,
                                           const SearchLayout *layout, const SearchDraft *draft,
                                           int64_t in_flight[]);

/* ---- explain.c ---- */
RengaErrorCode RengaSearchExplain_Private(const SearchTask *task, const SearchChain *chain,
                                          const SearchModel *model, const SearchPick *pick,
                                          SearchAnswer *answer);

/* ---- refuse.c ---- */
/* The error that nothing fits, with the memory and the devices that would do. */
RengaErrorCode RengaSearchRefuse_Private(const SearchTask *task, const SearchChain *chain);

/* ---- squeeze.c ---- */
/* The layout on so many devices that needs the least memory by estimate, in the last of the sizes
   of micro-batches; *allowed: the bound that it was found under. layout.count 0: there is none. */
RengaErrorCode RengaSearchSqueeze_Private(const SearchTask *task, const SearchChain *chain,
                                          int devices, SearchPick *pick, double *allowed);
/* Fewest devices whose memory holds the network; 0: no number does. */
int RengaSearchDevicesNeeded_Private(const SearchModel *model);
