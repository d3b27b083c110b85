/* The search for stages, their shapes and micro-batches, in six words:

   chain      the nodes of a network that are not prepared, in canonical order: a place each; it
              does not depend on the micro-batch
   model      the chain at one micro-batch and leaf, under a bound on memory and for a schedule:
              sums in front of each place, so that the cost of any interval takes constant time
   candidate  a shape that stages of a model may have, with all of its costs that does not depend
              on the interval; one dominates another where it is never worse
   layout     stages, each an interval of the chain with a shape, under a schedule and on devices;
              it means the same in every model
   task       what is looked for: costs for each size of micro-batches, settings of the run, the
              layouts that are wanted, and who looks for them (a finder, of this room or of another
              type); it begins as the wish of a type and ends as an answer that all ranks get
   solution   a layout as a plan, with the memory that the runtime needs and its simulated step

   Costs, bytes and bounds are functions of a model, an interval and a candidate (model.h); each
   other file holds one way to find or better a layout, or to judge it. */
#pragma once
#include "model.h"

/* ---- solve.c ---- */
typedef struct SearchTask SearchTask;
/* Who looks for layouts: *best is replaced by what is better. */
typedef struct {
  RengaErrorCode (*find)(const void *context, const SearchTask *task, const SearchModel *model,
                         SearchLayout *best); /* NULL: the searches of this room */
  const void *context;
  bool quick; /* on large problems too */
} SearchFinder;
enum { SEARCH_RIVALS_MOST = 3 };
/* Of a given plan's groups, in the stage whose ranks give each other most (lanes.c). */
typedef struct {
  int ranks, stage; /* ranks 0: there is one */
  double seconds;   /* that exchanges of a micro-batch take */
  double work;      /* that a rank computes for it, */
  double whole;     /* of these in no lane */
  int64_t count;    /* of exchanges, */
  int64_t again;    /* of these made again for backward */
  double bytes;     /* over the busiest link */
} SearchLanes;
/* Which layouts a task is for. */
typedef struct {
  int stages, replicas; /* so many; 0: any */
  bool equal;           /* all stages have the same replicas */
  bool every;           /* shape that a stage may have, not only those that no other dominates */
  bool several;         /* replicas has each stage, not one */
} SearchWanted;
struct SearchTask {
  RengaComm self;        /* of this process alone; borrowed, as all here */
  RengaGraph graph, all; /* all: it is differentiated, as one stage; NULL: it is not yet */
  RengaMachine machine;  /* NULL: messages and reductions cost nothing */
  int ranks, moments;
  int unit, context; /* each rank stands for a group of so many, context-parallel; 0: it is one */
  bool bare;         /* these give each other nothing, for a bound on what they take */
  SearchWanted wanted;
  int64_t batch;
  double memory;       /* bytes of a device; 0: no bound */
  bool unordered;      /* gradients are added in one buffer */
  bool by_ranks;       /* ranks move themselves what replicas give each other: nothing hides it */
  SearchShards shards; /* that stages may have; more than the least where memory wants it */
  bool folds;          /* equal replicas may also share gradients and parameters (zero.c) */
  bool fixes_saved;    /* else stages recompute what there is no room for */
  RengaSaved saved;    /* of all stages, where it is fixed */
  bool exact;
  bool quick;              /* not all ways of looking are taken together */
  SearchSchedule schedule; /* of the first plans */
  bool any_schedule;       /* another one is taken where it is faster */
  double chunk_gain; /* share of a step that several stages for each rank must save; 0: given */
  bool whole;        /* of these only one with whole backwards */
  bool halves_only;  /* no other than one with backwards in two parts beats what is known */
  bool thorough;     /* all layouts are looked at, as far as time goes */
  double time_limit; /* of exact, seconds; 0: none */
  double until;      /* on the clock, from the limit; 0: any time */
  double update_rate, accumulate_rate;
  int n_sizes;                          /* micro-batches to be tried */
  struct SearchKinds *kinds;            /* of devices; NULL: all are alike */
  const struct SearchOrder *order;      /* of kinds, on whose devices stages lie; NULL: all */
  const int64_t *size, *leaf;           /* [n_sizes] samples, micro-batches */
  RengaProfileCost *const *costs;       /* [n_sizes][nodes] */
  RengaProfileCost *const *whole_costs; /* the same before they are those of tensor ranks; NULL */
  int n_first;                          /* sizes after these only where none of these fits */
  bool chooses_size, chooses_leaf;      /* nobody fixed it */
  SearchFinder finder;
  double beat;          /* seconds of a step that is known, a slower one is of no use; 0: none */
  double known;         /* the same, for what is proved to be no faster */
  RengaPlan given;      /* evaluated as it is, instead of any search; NULL: none */
  SearchLanes lanes;    /* of its groups */
  bool searched;        /* it was found by a search, which says what it is the best of */
  bool compares;        /* plans of other numbers of tensor ranks are looked for as well */
  bool spares;          /* but its stages may recompute what there is no room for */
  RengaForecastRun run; /* for forecasts; its short batches count for the models too */
  struct SearchSession *session; /* of the runtime's forecasts; NULL: none is asked for */
  struct SearchCuts *cuts;       /* what types that only cut have made (cuts.c) */
  int n_rivals;
  SearchFinder rival[SEARCH_RIVALS_MOST]; /* of other types; the answer is not worse than theirs */
};

enum { SEARCH_TOPIC = 32, SEARCH_SENTENCE = 760 };
typedef struct {
  char topic[SEARCH_TOPIC], sentence[SEARCH_SENTENCE];
} SearchReason;

typedef struct {
  RengaPlanPrediction prediction;
  bool beaten;  /* no plan was found that is faster than what is known; there is none */
  double work;  /* seconds of all work shared out evenly */
  double first; /* seconds, before backwards are in two parts and ranks have several stages */
  int64_t microbatch, leaf;
  int n_stages, n_ranks, n_reasons, n_kept, n_messages; /* messages: whose seconds are known */
  SearchSchedule schedule;
  char type[SEARCH_TOPIC]; /* of the schedule where the search chose it; empty: the task's own */
  RengaPlanStage *stage;
  int *rank;
  double *message; /* [n_messages] seconds */
  SearchReason *reason;
  RengaValue *kept; /* [n_kept] that stages which recompute keep */
  int *kept_first;  /* [n_stages + 1] where those of each stage begin */
} SearchAnswer;

/* Not collective: one process plans for all. */
RengaErrorCode RengaSearchSolve_Private(const SearchTask *task, SearchAnswer *answer);
void RengaSearchAnswerFree_Private(SearchAnswer *answer);
/* Collective: that of the first rank. */
RengaErrorCode RengaSearchShareAnswer_Private(RengaComm comm, SearchAnswer *answer);

/* ---- work.c ---- */
/* chain->least, before costs are those of single tensor ranks. */
void RengaSearchFindWork_Private(const SearchTask *task, SearchChain *chain, const int parts[]);

/* ---- tables.c ---- */
/* Once the chain is there: what is updated by rows has no gradient in it. */
RengaErrorCode RengaSearchSpareTables_Private(const SearchTask *task, SearchChain *chain);

/* ---- lanes.c ---- */
/* Once the chain is there: costs, and elements of parameters, of the ranks that have lanes. */
RengaErrorCode RengaSearchShareLanes_Private(SearchTask *task, SearchChain *chain);

/* ---- twins.c ---- */
/* own: [places] the tensor rank whose lanes a stage there has the costs of. */
RengaErrorCode RengaSearchPairLanes_Private(SearchChain *chain, const RengaLaneGroup *group,
                                            const int own[]);

/* ---- terms.c ---- */
/* The same of a search for plans with tensor ranks; parts: RengaPlanFindParts_Private. */
RengaErrorCode RengaSearchShareTerms_Private(SearchTask *task, SearchChain *chain,
                                             const int parts[]);

/* ---- chain.c ---- */
/* The model of a size of the task, with its candidates. */
RengaErrorCode RengaSearchModelOf_Private(const SearchTask *task, const SearchChain *chain,
                                          int size, bool spread, SearchModel *model);
/* That of a layout of the task. */
RengaErrorCode RengaSearchModelFor_Private(const SearchTask *task, const SearchChain *chain,
                                           const SearchLayout *layout, SearchModel *model);
/* Number in the task of the layout's micro-batch and leaf. */
int RengaSearchRowOf_Private(const SearchTask *task, const SearchLayout *layout);

/* ---- layouts.c ---- */
/* Proved: no plan of a size of the task is faster. *bound before: more need not be known. */
RengaErrorCode RengaSearchBoundOf_Private(const SearchTask *task, const SearchChain *chain,
                                          int size, double *bound);
/* Replicas may also lie on different groups of the machine. */
RengaErrorCode RengaSearchHasGroups_Private(const SearchTask *task, bool *groups);
/* All ways of looking are taken together; only a few are. */
bool RengaSearchIsSmall_Private(const SearchTask *task, const SearchChain *chain);
bool RengaSearchIsLarge_Private(const SearchTask *task, const SearchChain *chain);
/* It is large, of a long chain: what is found first is hardly made better, as that takes long. */
bool RengaSearchIsLong_Private(const SearchTask *task, const SearchChain *chain);
bool RengaSearchHasLabels_Private(const SearchTask *task, int places);
/* Those of equal.c and cover.c, on fewer places where the chain is long. */
RengaErrorCode RengaSearchQuickly_Private(const SearchModel *model, SearchLayout *best);
/* The best layout by all searches; *proved: none is faster. */
RengaErrorCode RengaSearchLayouts_Private(const SearchTask *task, const SearchModel *model,
                                          SearchLayout *best, bool *proved);
/* The best over sizes and placements, layout.count 0: nothing fits. */
RengaErrorCode RengaSearchBest_Private(const SearchTask *task, const SearchChain *chain,
                                       SearchLayout *best, bool *proved);

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
RengaErrorCode RengaSearchPlaces_Private(const SearchTask *task, bool simply, int count,
                                         const int replicas[], SearchPlaces *places);

/* ---- deal.c ---- */
/* Of a micro-batch, in seconds. */
typedef struct {
  double busiest;          /* all stages of the rank that has most to do */
  double longest, forward; /* the longest stage, and the longest forward of one */
} SearchDealt;
SearchDealt RengaSearchDealt_Private(const SearchModel *model, const SearchLayout *layout);
/* Cuts the layout's stages, of one shape, so that its ranks have as much to do. */
RengaErrorCode RengaSearchDeal_Private(const SearchModel *model, SearchLayout *layout);

/* ---- branch.c ---- */
/* Simulates every layout of a task of one row whose bound is below the best's step, as far as time
   and work go. best->simulated and a bound are given; best is replaced by what is faster, and the
   bound rises, to the step itself where all layouts were looked at. work: layouts in parts that are
   looked at, less those that were at the end; 0: any number. */
RengaErrorCode RengaSearchBranch_Private(const SearchTask *task, const SearchChain *chain,
                                         int64_t *work, SearchLayout *best, double *bound);

/* ---- trial.c ---- */
/* Layouts of a task of one row on trial, one after the other. */
typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  SearchModel model;   /* without a bound on memory */
  SearchModel bounded; /* with it, for bounds */
  SearchLayout *best;  /* the fastest so far; its step is all that is needed of it */
  double least;       /* seconds that a placement that was not tried may take; HUGE_VAL: all were */
  bool climbs;        /* nothing is proved by what it leaves alone */
  bool simply;        /* stages are placed one after the other, or replicas, and in no other way */
  int64_t eager_most; /* stages times rounds with more of which only a few schedules are tried; 0:
                         all are */
  int64_t actions;    /* about, that were simulated */
  int count;          /* stages with these replicas have the placements */
  int *replicas;
  SearchPlaces places;
} SearchTrial;
RengaErrorCode RengaSearchTrialCreate_Private(const SearchTask *task, const SearchChain *chain,
                                              SearchLayout *best, SearchTrial *trial);
void RengaSearchTrialFree_Private(SearchTrial *trial);
/* The best becomes this layout if some schedule, placement and recomputation make it faster. */
RengaErrorCode RengaSearchTry_Private(SearchTrial *trial, SearchLayout *layout);

/* ---- improve.c ---- */
/* Small changes to the best's layout (no stages: there is no such layout), as far as work goes;
   small: then every order of shapes on all devices. What is faster replaces the best. */
RengaErrorCode RengaSearchImprove_Private(const SearchTask *task, const SearchChain *chain,
                                          bool small, int64_t eager_most, int64_t work,
                                          SearchLayout *best);

/* ---- zero.c ---- */
/* Replicas may share gradients and parameters under these settings, and nobody said what to
   share. */
RengaErrorCode RengaSearchMayFold_Private(const SearchTask *task, RengaSettings settings,
                                          bool *may);

/* ---- collect.c ---- */
typedef struct {
  char *sizes; /* of micro-batches: default, auto or a list; NULL: auto, fewer of large problems */
  bool exact;
  double time_limit; /* seconds */
  SearchFinder finder;
  RengaPlan given;               /* evaluated as it is, instead of any search; NULL: none */
  bool searched;                 /* it was found by one */
  bool spares;                   /* but its stages may recompute what there is no room for */
  struct SearchSession *session; /* of forecasts, that the caller ends; NULL: it has its own */
} RengaSearchWish;
/* Plans with tensor ranks are looked for. */
bool RengaSearchSeeksTensor_Private(RengaPartition partition, const RengaSearchWish *wish);
/* Collective: fills the plan, of tensor ranks that are looked for with an estimate. */
RengaErrorCode RengaSearchPlanOnce_Private(RengaPartition partition, const RengaSearchWish *wish,
                                           int ranks, int64_t batch, int64_t microbatch,
                                           RengaPlan plan);

/* ---- regive.c ---- */
/* Collective: fills the plan. */
RengaErrorCode RengaSearchPartition_Private(RengaPartition partition, const RengaSearchWish *wish,
                                            int ranks, int64_t batch, int64_t microbatch,
                                            RengaPlan plan);

/* ---- loaded.c ---- */
/* The settings of the run decide its schedule, else the plan does, which lends its name. */
RengaErrorCode RengaSearchTakeSchedule_Private(RengaPlan plan, SearchTask *task);
/* Stages, ranks, batch, leaf and schedule of a plan, without times and bytes. */
RengaErrorCode RengaSearchCopyPlan_Private(RengaGraph graph, RengaPlan from, RengaPlan to);

/* ---- ../reading.c ---- */
/* Adds to costs of micro-batches of so many samples what reading their inputs takes. */
RengaErrorCode RengaSearchAddReading_Private(RengaPartition partition, RengaProfile profile,
                                             int64_t samples, RengaProfileCost costs[]);

/* ---- cuts.c ---- */
RengaErrorCode RengaSearchCutsCreate_Private(struct SearchCuts **cuts);
void RengaSearchCutsFree_Private(struct SearchCuts **cuts);
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

/* ---- predict.c ---- */
/* A plan of this process alone, with its ranks. */
RengaErrorCode RengaSearchPlan_Private(const SearchTask *task, const SearchChain *chain,
                                       const SearchLayout *layout, RengaPlan *plan);
/* [devices of the stage] those of its replicas, sequences and tensors. */
void RengaSearchListRanks_Private(RengaPlan plan, int stage, int rank[]);
/* Seconds by simulation where that is quick, on the links between the plan's ranks, of a layout
   whose exchanges are known. */
RengaErrorCode RengaSearchPredictKnown_Private(const SearchTask *task, const SearchModel *model,
                                               const SearchLayout *layout,
                                               struct SearchSchedules *schedules, RengaPlan plan,
                                               RengaPlanPrediction *prediction);
/* ---- ask.c ---- */
/* The same of any. */
RengaErrorCode RengaSearchPredict_Private(const SearchTask *task, const SearchModel *model,
                                          const SearchLayout *layout,
                                          struct SearchSchedules *schedules, RengaPlan plan,
                                          RengaPlanPrediction *prediction);
/* ---- levels.c ---- */
/* The widest level between replicas of two stages that work on the same micro-batch. */
RengaErrorCode RengaSearchLevelOfMessage_Private(const SearchTask *task, RengaPlan plan, int a,
                                                 int b, int *level);
/* The widest level in a stage, or any group of its replicas; nearest: if they lay side by side. */
RengaErrorCode RengaSearchLevelOfStage_Private(const SearchTask *task, RengaPlan plan, int s,
                                               int groups, bool nearest, int *level);
/* ---- exchanges.c ---- */
/* Replicas of the stage, or of some stage, add their gradients with each micro-batch. */
bool RengaSearchFoldsStage_Private(const SearchStage *stage);
bool RengaSearchFolds_Private(const SearchTask *task, const SearchLayout *layout);
/* Seconds of a micro-batch, by what they are for and by stage; how many parts they come in. */
enum {
  SEARCH_FETCH_FIRST,
  SEARCH_FETCH_FORWARD,
  SEARCH_FETCH_AGAIN,
  SEARCH_FETCH_BACKWARD,
  SEARCH_FETCH_WEIGHT,
  SEARCH_FOLD,
  SEARCH_EXCHANGES
};
/* As the runtime says, beside the memory; NULL: it was not asked, and they cost nothing. */
void RengaSearchTakeExchanges_Private(const RengaForecastMemory memory[], SearchLayout *layout);
/* Of some stage they are not known yet. */
bool RengaSearchMustAskExchanges_Private(const SearchTask *task, const SearchLayout *layout);
RengaSumPieces RengaSearchSumPieces_Private(RengaMachine machine, const SearchModel *model,
                                            int level, int replicas, int64_t each, int most);
RengaErrorCode RengaSearchRoutedPieces_Private(RengaMachine machine, const SearchModel *model,
                                               const RengaStageShape *shape, int level,
                                               int64_t each, RengaSumPieces *pieces);
RengaErrorCode RengaSearchFindExchanges_Private(const SearchTask *task, const SearchModel *model,
                                                const SearchLayout *layout, RengaPlan plan,
                                                bool nearest, double seconds[], int parts[]);
void RengaSearchSetExchanges_Private(const SearchLayout *layout, const double seconds[],
                                     const int parts[], bool apart,
                                     RengaScheduleDurations *durations);
/* To what is not simulated: of the stage that takes longest for them, and nothing hides them. */
RengaErrorCode RengaSearchAddExchanges_Private(const SearchTask *task, const SearchModel *model,
                                               const SearchLayout *layout, RengaPlan plan,
                                               bool nearest, double *pipeline);
/* ---- predict.c ---- */
/* A layout as a plan, with its messages, so that a step under each schedule and on each placement
   is soon found: the plan says which. */
typedef struct {
  RengaPlan plan;
  int n_messages;
  RengaMessage *messages;            /* NULL: too many to be simulated */
  struct SearchSchedules *schedules; /* the chain's */
} SearchDraft;
RengaErrorCode RengaSearchDraftCreate_Private(const SearchTask *task, const SearchChain *chain,
                                              const SearchModel *model, const SearchLayout *layout,
                                              SearchDraft *draft);
void RengaSearchDraftFree_Private(SearchDraft *draft);
/* nearest: as if any two stages lay side by side, and a stage as closely as its replicas can; no
   placement is faster. */
RengaErrorCode RengaSearchPredictDraft_Private(const SearchTask *task, const SearchModel *model,
                                               const SearchLayout *layout, const SearchDraft *draft,
                                               bool nearest, RengaPlanPrediction *prediction);
/* Seconds of a layout in which no stage recomputes, under the draft's schedule: where that is less
   than the best's, those with the stages that cannot do without recomputing, and no more of it than
   they must; HUGE_VAL: one does not fit. However it is settled, it is no faster (trial.c). */
RengaErrorCode RengaSearchPredictForced_Private(const SearchTrial *trial, SearchLayout *layout,
                                                const SearchDraft *draft, bool nearest,
                                                double *step);
/* No schedule of the draft's layout is faster on its placement, or (nearest) on any; bounded: the
   model with the memory that there is. HUGE_VAL: it does not fit. */
RengaErrorCode RengaSearchDraftAtLeast_Private(const SearchTask *task, const SearchModel *bounded,
                                               const SearchLayout *layout, const SearchDraft *draft,
                                               bool nearest, double *step);
/* What the drawing of a step goes by: of a stage's sum over its replicas, and of each message, in
   the order of RengaPlanGetMessages(); count 0: there are too many. The caller frees them. */
RengaErrorCode RengaSearchReduceSeconds_Private(const SearchTask *task, const SearchModel *model,
                                                const SearchStage *stage, RengaPlan plan, int s,
                                                bool nearest, double *seconds);
RengaErrorCode RengaSearchMessageSeconds_Private(const SearchTask *task, const SearchModel *model,
                                                 const SearchLayout *layout, RengaPlan plan,
                                                 int *count, double **seconds);

/* ---- memory.c ---- */
/* Memory of each stage, by the runtime's forecast where there is one; *most: the largest. */
RengaErrorCode RengaSearchMemory_Private(const SearchTask *task, const SearchModel *model,
                                         const SearchLayout *layout, RengaPlan plan,
                                         RengaForecastMemory memory[], double *most);
/* Micro-batches that each stage holds. */
RengaErrorCode RengaSearchFindSlots_Private(const SearchTask *task, const SearchModel *model,
                                            const SearchLayout *layout, RengaPlan plan,
                                            int64_t slots[]);

/* ---- floor.c ---- */
/* The same of the pipeline alone; seconds: of the messages, sorted by where they leave. */
RengaErrorCode RengaSearchFloor_Private(const SearchModel *bounded, const SearchLayout *layout,
                                        int n_messages, const RengaMessage messages[],
                                        const double seconds[], double *pipeline);

/* Seconds of the pipeline under the best schedule, or (halves) the best with backwards in two
   parts, and with messages that take no time. */
double RengaSearchLeastPipeline_Private(const SearchModel *model, const SearchLayout *layout,
                                        bool halves);

/* ---- schedules.c ---- */
enum { SEARCH_SCHEDULES = 8, SEARCH_WHOLE = 6 };
/* The schedules that are tried, and that a proof is of; plain 1F1B is the first, those with
   backwards in two parts come after SEARCH_WHOLE others. */
extern const SearchSchedule RengaSearchScheduleList[SEARCH_SCHEDULES];
RengaErrorCode RengaSearchSetSchedule_Private(const SearchSchedule *schedule, RengaPlan plan);
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
/* NULL: 1f1b. The name is lent. */
SearchSchedule RengaSearchScheduleNamed_Private(const char *type, double eager);
/* Backwards are in two parts, and each stage has a rank of its own. */
bool RengaSearchIsHalved_Private(const SearchSchedule *schedule);
/* The lower bound holds under it, where each stage has a rank of its own. */
bool RengaSearchIsBounded_Private(const SearchSchedule *schedule);
/* Micro-batches that each stage holds under it. */
RengaErrorCode RengaSearchInFlight_Private(const SearchTask *task, const SearchModel *model,
                                           const SearchLayout *layout, const SearchDraft *draft,
                                           int64_t in_flight[]);

/* ---- refuse.c ---- */
/* The error that nothing fits, with the memory and the devices that would do, of a plan of either
   task; other: NULL: there is none. */
RengaErrorCode RengaSearchRefuse_Private(const SearchTask *task, const SearchTask *other,
                                         const SearchChain *chain);

/* ---- squeeze.c ---- */
int RengaSearchSmallestRow_Private(const SearchTask *task); /* in which a plan needs least */
bool RengaSearchIsLeafUseless_Private(const SearchTask *task, int row); /* others do as well */
/* The layout of that row that needs least by estimate: *allowed; count 0: there is none. */
RengaErrorCode RengaSearchSqueeze_Private(const SearchTask *task, const SearchChain *chain,
                                          int devices, SearchLayout *layout, double *allowed);
/* Fewest devices whose memory holds the network; 0: no number does. */
int RengaSearchDevicesNeeded_Private(const SearchModel *model);
