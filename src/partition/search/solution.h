/* A layout as a plan: what the runtime says of its memory, and the simulated step. */
#pragma once
#include "search.h"

/* Plans of several stages for each rank, beside the solution. */
#define SOLUTION_CHUNK_KINDS "zb-v, dualpipe-v and interleaved, without recomputation,"
typedef struct {
  bool looked, taken; /* for them; one of them is the solution, the bound is of the others */
  int tried;          /* simulated */
  double without;     /* seconds of the fastest plan with one stage for each rank */
} SolutionChunks;

typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  SearchModel model; /* of the layout */
  SearchLayout layout;
  bool proved;        /* none that the task allows is faster */
  double bound;       /* seconds: no plan is faster */
  bool shards_too;    /* nor one that shards the optimizer, beside those that do not */
  bool folds_too;     /* nor one that shares gradients or parameters */
  bool tried_folds;   /* these were looked for */
  bool leaves_shards; /* they may have one, and the bound is of plans without */
  SolutionChunks chunks;
  RengaPlan plan;              /* NULL: not weighed */
  RengaForecastMemory *memory; /* of each stage */
  double most;                 /* bytes of a device */
  double step;                 /* simulated, where it fits and is settled */
  double pipeline;             /* seconds of it */
  double allowed;              /* bytes: the bound on what is estimated, under which it was found */
  SearchWanted wanted;         /* of the task that it was found for */
  double give_up; /* seconds of the model: what is no faster is not wanted; 0: all is */
  double beat;    /* simulated seconds: what is no faster is not weighed; 0: all is */
  bool hopeless;  /* it is no faster than that */
} Solution;

void RengaSolutionFree_Private(Solution *solution);
/* A solution of the same task, found under the same wishes; without a layout. */
Solution RengaSolutionBeside_Private(const Solution *solution);
/* The plan of the layout and its memory; the model is one of this task, whose memory
   may be another than the solution's. */
RengaErrorCode RengaSolutionWeigh_Private(const SearchTask *task, Solution *solution);
/* The same, unless it is found to be hopeless first: to ask for memory takes long. */
RengaErrorCode RengaSolutionTry_Private(const SearchTask *task, Solution *solution);
/* Its simulated step, and the pipeline of it. */
RengaErrorCode RengaSolutionFindStep_Private(Solution *solution);
/* Memory was asked for so often that only what is near the best is still looked at. */
bool RengaSearchIsTired_Private(const SearchTask *task);
/* So much more often, by all searches of the plan, that a small problem is looked at as a large
   one. */
bool RengaSearchIsSpent_Private(const SearchTask *task);
/* Its memory is within the bound. */
bool RengaSolutionFits_Private(const Solution *solution);
/* Of a plan that fits: recomputation that it can do without is dropped, the step is simulated, and
   the fastest schedule that fits is taken. */
RengaErrorCode RengaSolutionSettle_Private(Solution *solution);
/* No plan of any row of a task is faster. */
RengaErrorCode RengaSolutionLeastBound_Private(const SearchTask *task, const SearchChain *chain,
                                               double *least);

/* While stages are looked for one tensor rank of each group is asked what it needs; of what is
   found all are. *over: some need more than there is. */
RengaErrorCode RengaSolutionAskAll_Private(Solution *solution, bool *over);

/* The same stages with backwards in two parts, where they are faster and fit. */
RengaErrorCode RengaSolutionHalve_Private(Solution *solution, bool *taken);

/* Of a solution with its step and bound: the same stages in the order of type auto, where it is
   faster and fits. Then no bound is known but that of the work. */
RengaErrorCode RengaSolutionOrder_Private(Solution *solution);
/* It is not too long for that, and nobody wants another order, or a proof. */
bool RengaSolutionMayOrder_Private(const Solution *solution);
/* The other one, which is in that order, where it is faster; else it is left. */
void RengaSolutionTakeOrder_Private(Solution *solution, Solution *other);

/* Of a given plan: stages that do not fit recompute, and keep what there is room for; those that
   are to recompute all have as many parts as need least. */
RengaErrorCode RengaSolutionSpare_Private(Solution *solution);

/* ---- fit.c ---- */
/* The best layout that fits, of the task's searches or of its type; without what challenges it. */
RengaErrorCode RengaSolutionFit_Private(Solution *solution, bool *fits);
/* The best layout that the searches find and that the runtime says fits. */
RengaErrorCode RengaSolutionTryFit_Private(Solution *solution, bool *fits);
/* Estimates err differently with the replicas: one strict bound for all may leave nothing, where
   each number by itself is brought to fit. */
RengaErrorCode RengaSolutionFitReplicas_Private(Solution *solution, bool *fits);
/* The layout that needs the least memory, whatever it takes: without it a refusal, which names its
   memory, could be wrong. */
RengaErrorCode RengaSolutionSqueeze_Private(Solution *solution, bool *fits);
/* The faster of two that fit, in simulated seconds; the other is freed. */
void RengaSolutionTakeFaster_Private(Solution *solution, bool fits, Solution *other,
                                     bool other_fits);

/* ---- loaded.c ---- */
/* The task's given plan, weighed, with its step. */
RengaErrorCode RengaSolutionTake_Private(Solution *solution);

/* ---- challenge.c ---- */
RengaErrorCode RengaSolutionChallenge_Private(Solution *solution, bool *fits);

/* ---- chunks.c ---- */
/* Of a solution with its step and bound: a plan of several stages for each rank, where one fits and
   is clearly faster; task: of stages that share no gradients and parameters. */
RengaErrorCode RengaSolutionChunk_Private(Solution *solution, const SearchTask *task);

/* ---- work.c ---- */
/* Seconds that no plan is faster than, of any number of stages for each rank; and what is said. */
RengaErrorCode RengaSolutionBoundByWork_Private(const Solution *solution, double *bound);
RengaErrorCode RengaSolutionExplainWork_Private(const Solution *solution, double bound,
                                                SearchAnswer *answer);

/* ---- proof.c ---- */
/* "1, 2, 4", each once. */
void RengaSearchNameNumbers_Private(int count, const int64_t numbers[], size_t size, char text[]);
RengaErrorCode RengaSolutionSay_Private(SearchAnswer *answer, const char *topic, const char *format,
                                        ...) __attribute__((format(printf, 3, 4)));
RengaErrorCode RengaSolutionExplainProof_Private(const Solution *solution, SearchAnswer *answer);

/* ---- explain.c ---- */
RengaErrorCode RengaSolutionExplain_Private(const Solution *solution, SearchAnswer *answer);

/* ---- lanes.c ---- */
RengaErrorCode RengaSolutionExplainIdleGroups_Private(const SearchTask *task,
                                                      const SearchLayout *layout,
                                                      SearchAnswer *answer);
RengaErrorCode RengaSolutionExplainLanes_Private(const Solution *solution, SearchAnswer *answer);

/* ---- bare.c ---- */
/* Copies of the costs of a task, for a bound; the caller frees them while the task has its own. */
RengaErrorCode RengaSearchKeepCosts_Private(const SearchTask *task, RengaProfileCost ***kept);
void RengaSearchFreeCosts_Private(const SearchTask *task, RengaProfileCost ***kept);
/* The solution's bound becomes one of plans with tensor ranks; 0: none is known. most: that
   replicas may share of the plans that were looked at. */
RengaErrorCode RengaSolutionBoundBare_Private(Solution *solution, RengaProfileCost *const *costs,
                                              RengaShard most);

/* ---- answer.c ---- */
RengaErrorCode RengaSolutionAnswer_Private(const Solution *solution, SearchAnswer *answer);

/* ---- zero.c ---- */
/* Some stage recomputes, or a device is nearly full. */
bool RengaSolutionIsShort_Private(const Solution *solution);
/* Or half as many stages of a long chain, with twice the replicas, would not fit. */
bool RengaSolutionWantsShares_Private(const Solution *solution);
/* The same layouts with equal replicas that share one or the other. */
SearchTask RengaSearchFoldingTask_Private(const SearchTask *task);
/* And of such a task what it was made of. */
SearchTask RengaSearchOpenTask_Private(const SearchTask *folding);
/* What was found for such a task, where it is faster or nothing else fits; then the bound is of
   either. The other is freed. */
RengaErrorCode RengaSolutionTakeFolding_Private(Solution *solution, bool *fits, Solution *other,
                                                bool other_fits);

/* ---- shards.c ---- */
/* Of a plan that fits: stages share no more than they have to. */
RengaErrorCode RengaSolutionShareLess_Private(Solution *solution);
/* What a share on each replica saves, where the planner chose it. */
RengaErrorCode RengaSolutionExplainShards_Private(const Solution *solution, SearchAnswer *answer);
