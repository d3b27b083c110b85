/* The phases of RaNNC's planner (Tanaka, Taura, Hanawa, Torisawa, "Automatic Graph Partitioning for
   Very Large-scale Deep Learning", IPDPS 2021), on numbers alone. Atomic subcomponents are the
   items of a chain: the nodes that are not prepared, in canonical order. */
#pragma once
#include "rengasys.h"

/* Sums in front of each place of the chain; cut: seconds to send what crosses there. */
typedef struct {
  int count;                           /* items */
  const double *seconds, *bytes, *cut; /* [count + 1] */
  double memory;                       /* bytes that a block may have; 0: no bound */
} RanncChain;

/* Block level: at most `most` blocks where memory allows it, each an interval of the chain;
   begin[b] to begin[b + 1]. RengaFree(begin). */
RengaErrorCode RengaRanncBlocks_Private(const RanncChain *chain, int most, int *count, int **begin);
/* Its last part alone, in place: small blocks are merged with a neighbour until there are
   `most`. */
RengaErrorCode RengaRanncCompact_Private(const RanncChain *chain, int most, int *count,
                                         int begin[]);

/* Of a stage, all its replicas together: seconds per micro-batch, and to sum its gradients. */
typedef struct {
  double forward, backward; /* with the messages */
  double reduce;
} RanncCost;

/* Stage level: blocks [begin, end) on the replicas of an option; stages from this one to the last:
   depth. False: over the memory. */
typedef bool (*RanncCostFunction)(const void *context, int begin, int end, int option, int depth,
                                  RanncCost *cost);
typedef struct {
  int count;           /* stages; 0: nothing fits */
  int *begin, *option; /* [count] */
  double seconds;      /* RaNNC's estimate of a step */
} RanncStaging;
typedef struct {
  int blocks, devices, stages; /* at most; stages 0: any number */
  bool given;                  /* exactly so many stages */
  int64_t microbatches;
  int n_options;
  const int *replicas; /* [n_options] ascending */
  RanncCostFunction cost;
  const void *context;
  const double *work; /* [blocks + 1], NULL: not known; device-seconds of a micro-batch that */
                      /* what is before each block takes at the least */
  double share;       /* of it, the least that counts as a stage's seconds of a micro-batch */
  double known;       /* seconds; 0, or: only faster pipelines are sought */
  const RanncStaging *near; /* NULL, or: as many stages with its options, each of which begins */
  int reach;                /* no more than so many blocks from where its own does */
} RanncTask;

RengaErrorCode RengaRanncStages_Private(const RanncTask *task, RanncStaging *best);
/* Moves boundaries within the reach so that less is sent and stages are more alike, none slower
   than the slowest was; task->near is the staging itself. *moved: any did. */
RengaErrorCode RengaRanncSpread_Private(const RanncTask *task, RanncStaging *staging, bool *moved);
void RengaRanncStagingFree_Private(RanncStaging *staging);
/* RaNNC's estimate: fill and drain, in each step the slowest of the stages that work, then the
   longest reduction. false: over the memory. */
bool RengaRanncEstimate_Private(const RanncTask *task, const RanncStaging *staging,
                                double *seconds);
