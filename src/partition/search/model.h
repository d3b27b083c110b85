/* What the search weighs: chains, models, candidates and layouts (search.h says what they are).

   The predicted step of a layout (seconds):
     fill      all stages' forward and backward once, and all messages between neighbours once
     + rounds  of the stage for which it is the longest: (micro-batches of its busiest replica - 1)
               times the longer of its work and its message
     + reduce  what is left of a stage's sum of gradients when the stages before it are done too
     + update  of the stage with the most parameters.
   Rounds, reduce and update are maxima over stages, fill is a sum: that is what the search uses. */
#pragma once
#include "renga/private/forecast.h"
#include "renga/private/links.h"
#include "renga/private/plan.h"
#include "rengapartition.h"
#include "rengaplan.h"
#include "rengaschedule.h"
#include "rengaprofile.h"

/* Of a chain of at most SEARCH_SHORT places more is tried, of one of more than SEARCH_LONG less. */
enum {
  SEARCH_BUFFERS_MOST = 64,
  SEARCH_PIECES_MOST = 64,
  SEARCH_LEVELS_MOST = 8,
  SEARCH_SHORT = 64,
  SEARCH_LONG = 5000
};

/* What a stage that recomputes keeps all the same. */
typedef struct {
  int set;      /* its number in the chain's; 0: it keeps none; -1: which is not known yet */
  double again; /* seconds of a micro-batch that are run again nevertheless */
  double bytes; /* that are kept, of a micro-batch */
} SearchKept;

/* A parameter's two uses that follow each other, at places of the chain: held once by a stage that
   has both. */
typedef struct {
  int before, after;
  double elements;
} SearchTie;

typedef struct {
  RengaGraph graph; /* borrowed */
  int count;        /* places */
  int *node;        /* [count] */
  bool *saved;      /* [values] backward reads it */
  int *last;        /* [values] place of the last use, -1: none */
  int *reader;      /* [values] first place whose backward reads it, count: none */
  bool *others;     /* [count] of other tensor ranks, or cutting parameters; NULL: there are none */
  /* [values] of one that another tensor rank makes the one that is kept if it is, NONE: none is;
     of others itself; NULL: there are none (twins.c) */
  RengaValue *twin;
  double *elements; /* [count + 1] of parameters, by use, before each place */
  double *states;   /* [count + 1] elements of states */
  double *weight;   /* [count] of a place's backward the share that makes gradients of parameters */
  double least;     /* seconds that any plan takes: all work shared out evenly (work.c) */
  int n_ties;
  SearchTie *tie;
  struct SearchKeptSets *kept;       /* sets of values that stages keep */
  struct SearchStore *store;         /* models that were filled; NULL: none is kept */
  struct SearchSchedules *schedules; /* that were set up; NULL: none is kept */
  struct SearchListed *listed;       /* candidates that were listed; NULL: none is kept */
  struct SearchSums *sums;           /* whose routes were found */
  struct SearchBounds *bounds;       /* that were found */
} SearchChain;

/* What an element of a tensor takes at a precision: bytes of a parameter (value, master and
   moments) and of its gradient in each buffer; the share that saved tensors and messages have of
   the bytes of the model's sums, which are of the types that the network's precision has. */
typedef struct {
  double parameter, gradient;
  double
      shared; /* of those of a parameter: what replicas may have a share of, masters and moments */
  double value; /* of those of a parameter: what the network computes with */
  double state; /* float32 at every precision */
  double saved, message;
} SearchBytes;
enum { SEARCH_PRECISIONS = RENGA_PRECISION_COUNT };

/* A shape that stages may have, with all of its costs in a model that does not depend on the
   interval. What becomes of saved tensors is left open: a stage takes the first policy of the model
   that fits. */
typedef struct {
  RengaStageShape shape;
  int devices;                /* of a stage */
  int most_replicas;          /* of the shapes that it dominates */
  int64_t rounds;             /* micro-batches of the busiest replica */
  int buffers, least_buffers; /* of gradients; in any order, with any shape it dominates */
  double sums; /* bytes of an element that sums of gradients, and values of others, are taken for */
  SearchBytes bytes;                  /* at its precision, of a replica */
  int updaters;                       /* replicas that have a share of the update each */
  double reduce_latency, reduce_rate; /* seconds, seconds per byte */
  double pieces_rate; /* of what partial sums in several pieces take more; no bound counts it */
  double gather_latency, gather_rate; /* of values that each replica updated a share of; 0: none */
  double exchange_latency, exchange_rate; /* with each micro-batch: seconds, and of an element */
  double message_latency, message_rate;   /* between this stage and the next */
} SearchCandidate;

/* GPipe has all micro-batches in flight, 1F1B as many as stages from it to the last, and so many
   begun early for each stage that follows; any other type the number that its lists say. */
typedef struct {
  bool gpipe;
  double eager;
  const char *type; /* another than these two, which is asked for; lent; NULL: one of them */
} SearchSchedule;

/* Saved bytes by what it takes to make them again, ascending. */
enum { SEARCH_CLASSES = 8 };
typedef struct {
  double rate[SEARCH_CLASSES];   /* seconds of a byte, at the least */
  double *bytes[SEARCH_CLASSES]; /* [count + 1] made before each place */
  double *across; /* [count + 1] seconds of places before, that makers behind have in their rates */
} SearchRates;

/* Of the seconds of a sum over replicas, which is a scatter and a gather. Who updates a share has
   the sum of that share alone, and the gather is one of updated values. */
#define SEARCH_GATHER 0.5

/* Levels of sharding that stages may have, from one to the other; one replica has the least. */
typedef struct {
  RengaShard least, most;
} SearchShards;

/* What a model's candidates, and the seconds of their policies, are made from. */
typedef struct {
  RengaMachine machine; /* of the links; NULL: messages and reductions cost nothing */
  int unit, context;    /* ranks of the machine that make a device, context-parallel; 0: one */
  int n_levels;
  const RengaMachineLevel *levels;      /* its own */
  bool spread;                          /* replicas lie on different groups of it */
  bool every;                           /* shape is listed, also where another dominates it */
  bool several;                         /* replicas has each stage, not one */
  bool by_ranks;                        /* nothing hides what replicas give each other */
  RengaPrecision precision;             /* of the network */
  SearchShards shards;                  /* what replicas may have a share of */
  SearchBytes bytes[SEARCH_PRECISIONS]; /* by precision */
  double buckets;                       /* of a stage that shares gradients, by estimate */
  int groups;                 /* -layout_zero_groups; 0: gradients are added in one buffer */
  int n_short, widest;        /* widest: most devices of a replica of those that are listed */
  const int64_t *short_batch; /* [n_short] samples of batches that come beside the step's */
  SearchRates rates;
  struct SearchListed *listed; /* the chain's, lent; NULL: lists are not kept */
  struct SearchSums *sums;     /* the same */
} SearchListing;

/* Of a micro-batch, for bounds. */
typedef struct {
  double *lead, *tail; /* [count + 1] see RengaSearchBound_Private */
  double longest;      /* seconds of the longest path, forward and backward */
} SearchPaths;

/* The same where backwards may be in two parts, and nobody waits for gradients of parameters. */
typedef struct {
  bool open;           /* such schedules are among those that bounds are of */
  double *early;       /* [count + 1] of the longest path of forwards to the place */
  double *lead, *tail; /* [count + 1] with gradients of inputs alone */
  double longest;
} SearchHalves;

/* Policies of saved tensors, the fastest first: each takes less memory than the one before. */
enum { SEARCH_POLICIES_MOST = 3 };
typedef struct {
  int count;
  RengaSaved saved[SEARCH_POLICIES_MOST];
  bool mixed; /* stages that recompute may keep what there is room for */
} SearchPolicies;

typedef struct {
  const int *node;                            /* [count] lent by the chain */
  int count;                                  /* places */
  int64_t microbatches, leaf;                 /* of a step; of them that a replica has together */
  int devices;                                /* to be used at the most */
  double memory;                              /* bytes of a device; 0: no bound */
  int64_t microbatch;                         /* samples */
  SearchSchedule schedule;                    /* that memory is for */
  SearchPolicies policies;                    /* that stages may have */
  bool unequal;                               /* stages may have different numbers of replicas */
  int stages, replicas;                       /* wanted; 0: any */
  int moments;                                /* of the optimizer */
  bool quick;                                 /* with less effort: to explain */
  double beat;                                /* seconds: equal stages that take more are of no use;
                                                 0: any are */
  bool lent;                                  /* all arrays but candidate are the chain's */
  double update_rate, accumulate_rate;        /* seconds per element */
  double *forward, *backward, *weight;        /* [count + 1] seconds before each place; weight: of
                                                 backward, for gradients of parameters */
  double *elements, *states, *saved, *inputs; /* [count + 1] elements and bytes before each place */
  SearchPaths paths;
  double *read;     /* [count + 1] saved bytes by the place that reads them first in backward */
  double *fields;   /* [count + 1] of inputs, those of the data set alone */
  double *received; /* [count + 1] bytes of activations that the place reads */
  double *sent;     /* [count + 1] that the place before makes for later ones, or one behind it */
  double *cut, *unsaved; /* [count + 1] bytes over a cut; those of them backward does not keep */
  double *temporary;     /* [levels][count] largest of 2^level places from here on */
  int *level;            /* [count + 1] largest power of two in so many places */
  int n_ties;
  const SearchTie *tie;
  SearchListing listing;
  SearchHalves halves;
  int n_candidates;
  SearchCandidate *candidate;     /* of the shapes to be tried, by their devices, ascending */
  struct SearchKindModels *kinds; /* what devices of each take (kinds.c); NULL: all are alike */
} SearchModel;

typedef struct {
  double forward, backward; /* seconds of a micro-batch */
  double again;             /* of backward: what the policy of saved tensors adds */
  double weight;            /* of backward: for gradients of parameters */
  double rounds;            /* seconds of all but one micro-batch */
  double delay;             /* of its message to the next stage, one direction */
  double reduce, update;    /* seconds after the last backward, after all have reduced */
  double memory;            /* bytes */
  RengaSaved saved;         /* the policy */
} SearchCost;

/* Seconds that a policy adds to a stage's backward. */
static inline double RengaSearchAgain_Private(RengaSaved saved, double forward)
{
  return saved == RENGA_SAVED_RECOMPUTE ? forward : 0;
}

/* A stage: places [begin, end) and how they are computed. It means the same in every model. */
typedef struct {
  int begin, end;
  RengaStageShape shape;
  SearchKept kept;                /* of a stage that recomputes, at the micro-batch of its layout */
  RengaForecastExchange exchange; /* of one whose replicas share gradients, likewise */
  unsigned kinds;                 /* of devices that it lies on, a bit each; 0: as if on the best */
} SearchStage;

/* Ranks of the machine that make one of the devices that a model counts: a group. */
static inline int RengaSearchUnit_Private(const SearchModel *model)
{
  return model->listing.unit > 1 ? model->listing.unit : 1;
}

/* Ranks of a stage. */
static inline int RengaSearchShapeDevices_Private(const RengaStageShape *shape)
{
  return shape->replicas * RengaShapeGroup_Private(shape);
}

typedef struct {
  int64_t microbatch, leaf; /* samples; micro-batches */
  bool spread;              /* replicas lie on different groups of the machine */
  SearchSchedule schedule;  /* of its plan */
  int count;
  SearchStage *stage;
  double step, fill, rounds, reduce, update; /* seconds, by the model that evaluated it last */
  double simulated;                          /* seconds of the step; 0: not known */
  int n_ranks;
  int *rank;  /* [n_ranks] of each replica of each stage; NULL: stage after stage, or spread */
  int chunks; /* stages of each rank; 0: one */
  bool wave;  /* that lie as a wave, which turns at both ends */
} SearchLayout;

/* Ranks that follow each other: of stages s, s + across, s + 2 across, … they are the same; of a
   wave of s, 2 across - 1 - s, 2 across + s, … */
int RengaSearchAcross_Private(const SearchLayout *layout);
/* The stage number `chunk` of the ranks that have stage `first`. */
int RengaSearchStageOf_Private(const SearchLayout *layout, int first, int chunk);

/* ---- forecast.c ---- */
const RengaMemoryForecast *RengaSearchForecast_Private(void); /* NULL: none is installed */

/* ---- chain.c ---- */
/* all: the graph as one stage, differentiated; NULL: that is done here. */
RengaErrorCode RengaSearchChainCreate_Private(RengaGraph graph, RengaGraph all, SearchChain *chain);
void RengaSearchChainFree_Private(SearchChain *chain);

/* ---- values.c ---- */
/* A node of the chain makes it. */
bool RengaSearchCrossesCuts_Private(const RengaGraphValue *value);
/* The value whose memory it lies in: a reshape has none of its own. */
RengaValue RengaSearchRootOf_Private(RengaGraph graph, RengaValue value);
double RengaSearchBytesOf_Private(const RengaGraphValue *value, int64_t microbatch);

/* ---- rates.c ---- */
RengaErrorCode RengaSearchFillRates_Private(const SearchChain *chain, int64_t microbatch,
                                            const RengaProfileCost costs[], SearchModel *model);
/* Seconds that a stage runs again, at the least, where it cannot keep so many bytes of a
   micro-batch. */
double RengaSearchAgainAtLeast_Private(const SearchModel *model, const SearchCandidate *candidate,
                                       int begin, int end, double bytes);

/* ---- model.c, chain.c ---- */
/* All that a model says but its places: no arrays, ties or candidates. */
SearchModel RengaSearchModelSettings_Private(const SearchModel *model);
/* All arrays of count places, zero. */
RengaErrorCode RengaSearchModelAllocate_Private(int count, SearchModel *model);
/* Places of the chain at a micro-batch, whose number in a step the model has; costs are by node.
   The chain keeps the first few and lends them from then on. Settings follow. */
RengaErrorCode RengaSearchModelLend_Private(const SearchChain *chain, int64_t microbatch,
                                            const RengaProfileCost costs[], SearchModel *model);
RengaErrorCode RengaSearchModelFill_Private(const SearchChain *chain, int64_t microbatch,
                                            const RengaProfileCost costs[], SearchModel *model);
/* model->temporary, whose first row is set, becomes maxima of ranges. */
void RengaSearchModelFinish_Private(SearchModel *model);
/* ---- candidates.c ---- */
/* Lists the shapes to be tried: the one place that says what may vary. machine NULL: messages and
   reductions cost nothing. spread: replicas lie on different groups of the machine, so that
   neighbouring stages lie together. */
RengaErrorCode RengaSearchModelCandidates_Private(RengaMachine machine, bool spread,
                                                  SearchModel *model);
/* One shape more, of no fewer devices than those that are listed, unless one of them dominates
   it. */
RengaErrorCode RengaSearchAddCandidate_Private(SearchModel *model, const RengaStageShape *shape);
/* The candidate of a shape, be it in the list or not. */
SearchCandidate RengaSearchCandidateOf_Private(const SearchModel *model,
                                               const RengaStageShape *shape);
/* The list has the shape, whatever it does with saved tensors. */
bool RengaSearchMayHave_Private(const SearchModel *model, const RengaStageShape *shape);
/* One is no worse than the other on any interval: it takes no more devices, memory or time. */
bool RengaSearchDominates_Private(const SearchCandidate *one, const SearchCandidate *other);
RengaErrorCode RengaSearchFindBytes_Private(RengaPrecision own, RengaPrecision precision,
                                            int moments, SearchBytes *bytes);
/* Stages may recompute, or keep all that is saved. */
void RengaSearchSetPolicies_Private(bool recompute, SearchModel *model);
/* *saved becomes the next policy, slower and with less memory; false: there is none. */
bool RengaSearchNextPolicy_Private(const SearchModel *model, RengaSaved *saved);
void RengaSearchModelFree_Private(SearchModel *model);

/* ---- exchanges.c ---- */
RengaErrorCode RengaSearchSumsCreate_Private(struct SearchSums **sums);
/* ---- listed.c ---- */
RengaErrorCode RengaSearchListedCreate_Private(struct SearchListed **listed);
void RengaSearchListedFree_Private(struct SearchListed **listed);
/* The candidates of a model like this one, if they are known. */
RengaErrorCode RengaSearchTakeListed_Private(SearchModel *model, bool *taken);
RengaErrorCode RengaSearchKeepListed_Private(const SearchModel *model);
uint64_t RengaSearchListedHash_Private(const SearchModel *model);
struct SearchSession {
  void *forecasts;
  int64_t asked, before; /* nodes of the plans whose memory was asked for; by searches before */
};
/* ---- bounds.c ---- */
RengaErrorCode RengaSearchBoundsCreate_Private(struct SearchBounds **bounds);
void RengaSearchBoundsFree_Private(struct SearchBounds **bounds);
/* RengaSearchBound_Private, of what is not known yet. */
RengaErrorCode RengaSearchFindBound_Private(struct SearchBounds *bounds, const SearchModel *model,
                                            const RengaProfileCost *costs, int stages,
                                            double *seconds);
/* ---- model.c ---- */
/* Costs of an interval as a stage with so many stages from it to the last (itself counts), under
   the first policy of saved tensors that fits into the memory; false: none does. */
bool RengaSearchStageCost_Private(const SearchModel *model, const SearchCandidate *candidate,
                                  int begin, int end, int depth, SearchCost *cost);
double RengaSearchStageBytes_Private(const SearchModel *model, const SearchCandidate *candidate,
                                     RengaSaved saved, int begin, int end, int depth);
/* Micro-batches that a stage with so many stages from it to the last holds. */
double RengaSearchSlots_Private(const SearchModel *model, const SearchCandidate *candidate,
                                int depth);
/* Of a stage as its shape is, be there memory for it or not. */
SearchCost RengaSearchCostOf_Private(const SearchModel *model, const SearchStage *stage, int depth);
/* No stage with these places has less memory, or a smaller sum of rounds, reduction and update.
   Both grow with the interval. */
double RengaSearchLeastBytes_Private(const SearchModel *model, const SearchCandidate *candidate,
                                     int begin, int end);
double RengaSearchLeastShare_Private(const SearchModel *model, const SearchCandidate *candidate,
                                     int begin, int end);
/* Elements of parameters that a stage holds: each tied one once. */
double RengaSearchHeld_Private(const SearchModel *model, int begin, int end);
/* Forward and backward of what is before a place. */
double RengaSearchWorkBefore_Private(const SearchModel *model, int place);
/* Fill of any layout, without messages. */
double RengaSearchWork_Private(const SearchModel *model);
/* Sets the layout's seconds and recomputation; false: over the memory or the devices. */
bool RengaSearchEvaluate_Private(const SearchModel *model, SearchLayout *layout);
int RengaSearchDevices_Private(const SearchLayout *layout);

/* ---- layout.c ---- */
/* All stages have as many replicas. */
bool RengaSearchIsEqual_Private(const SearchLayout *layout);
/* One policy of saved tensors for all stages. */
void RengaSearchSetSaved_Private(RengaSaved saved, SearchLayout *layout);
/* The first of the model's, whatever memory there is. */
void RengaSearchTakeFirstPolicy_Private(const SearchModel *model, SearchLayout *layout);
RengaErrorCode RengaSearchLayoutCopy_Private(const SearchLayout *from, SearchLayout *to);
void RengaSearchLayoutFree_Private(SearchLayout *layout);
/* Takes the layout over if it is valid and faster; frees it otherwise. */
void RengaSearchLayoutKeep_Private(const SearchModel *model, SearchLayout *layout,
                                   SearchLayout *best);
/* Moves cuts to where fewer bytes cross, as long as no maximum grows by more than it wins. */
RengaErrorCode RengaSearchPolish_Private(const SearchModel *model, SearchLayout *layout);
/* The same once, under maxima that may grow by a share. The layout is evaluated. */
void RengaSearchMoveCuts_Private(const SearchModel *model, double slack, SearchLayout *layout);

/* Polishes the layout if it may become the best, and takes or frees it. */
RengaErrorCode RengaSearchTake_Private(const SearchModel *model, SearchLayout *layout,
                                       SearchLayout *best);

/* ---- bound.c ---- */
/* Proved: no layout of at least `stages` stages that fits into the memory has a faster step, if its
   lists begin forwards and do forward and backward in turn (1F1B, early or not, and GPipe; where
   model->halves is open ZB-H1 and ZB-H2);
   HUGE_VAL: none fits.

   The first forward on a rank of a stage waits for the longest path of forwards that leads from
   earlier stages to the stage's first node; after its last backward the longest path of gradients
   from there back still follows for that micro-batch. Both are the stage's lead. Between a forward
   and its backward lie the longest path of forwards and of gradients behind the stage's last node:
   the tail. Messages take no less than nothing. Reduction and update are counted after all, the
   longest of each, so that the stage's own may be added. A step is no less than that of any stage,
   and no less than the longest path of one micro-batch. Leads and tails are cut down so that from
   one place to the next they grow by no more than the work between: then a part of a stage that
   stays under a bound stays under it too, and the greedy cover decides. */
RengaErrorCode RengaSearchBound_Private(const SearchModel *model, int stages, double *seconds);
/* Of one micro-batch on a rank of a stage, in seconds. */
typedef struct {
  double early;   /* before the first forward, and nothing later that only some lists wait for */
  double lead;    /* before the first forward, and after the last gradient of inputs */
  double forward; /* without recomputation, as the rest */
  double input, weight; /* of backward: weight need not be done before gradients go back */
  double tail;          /* between forward and backward */
} SearchPace;
/* Whatever the stages around it are. */
SearchPace RengaSearchPace_Private(const SearchModel *model, int begin, int end);
/* From the first forward of the step to its last gradient, recomputing or not, whichever is faster
   or the first that is fast enough; HUGE_VAL: neither fits into the memory. */
double RengaSearchPipelineAtLeast_Private(const SearchModel *model,
                                          const SearchCandidate *candidate, int begin, int end,
                                          int devices_behind, double received,
                                          const SearchPace *pace, double enough);
/* What a stage with so many devices behind it takes of every such step; HUGE_VAL: it does not fit.
   It grows with the interval. */
double RengaSearchStageAtLeast_Private(const SearchModel *model, const SearchCandidate *candidate,
                                       int begin, int end, int devices_behind);
/* [devices + 1] the most work that stages on so many devices do in one second of rounds;
   RengaFree. */
RengaErrorCode RengaSearchCapacity_Private(const SearchModel *model, double **capacity);

/* ---- least.c ---- */
/* The most micro-batches, of those of the busiest replica, that the stage can have in flight in the
   memory, with so many bytes received for each; 0: not even what does not depend on them fits. */
double RengaSearchDeepest_Private(const SearchModel *model, const SearchCandidate *candidate,
                                  RengaSaved saved, int begin, int end, double received);
/* Bytes of a micro-batch that a stage with so many of them in flight cannot keep. */
double RengaSearchNotKept_Private(const SearchModel *model, const SearchCandidate *candidate,
                                  int begin, int end, double received, double depth);
/* Seconds of the stage's reduction and update. */
double RengaSearchLeastEnd_Private(const SearchModel *model, const SearchCandidate *candidate,
                                   int begin, int end);

/* ---- cover.c ---- */
/* Stages with any replicas, from the last to the first, each as long as a bound allows. */
RengaErrorCode RengaSearchCover_Private(const SearchModel *model, SearchLayout *best);

/* ---- equal.c ---- */
/* All stages with the same replicas. */
RengaErrorCode RengaSearchEqual_Private(const SearchModel *model, SearchLayout *best);

/* ---- coarse.c ---- */
/* Both searches on the places of a long chain that are worth cutting at, then moved cuts. */
RengaErrorCode RengaSearchCoarse_Private(const SearchModel *model, SearchLayout *best);

/* ---- label.c ---- */
/* Every layout that may be better than best, until the work is done. *proved: best is the fastest
   of all. until: on the clock of MPI_Wtime, 0: any time; work: labels, 0: any number. */
RengaErrorCode RengaSearchLabels_Private(const SearchModel *model, double until, int64_t work,
                                         SearchLayout *best, bool *proved);
