/* What rooms above ask of plans. */
#pragma once
#include "rengaplan.h"

/* Of RengaShard, for choice.h. */
#define RENGA_SHARD_WORDS(first, other)                                                            \
  first("auto") other("none") other("optimizer") other("gradients") other("parameters")

/* Of plans that are only weighed, as a search makes many and shows one:
   RengaPlanSetStages without what is only shown: parameters, FLOPs, bytes over the cuts and names,
   which takes a look at every node. Each stage has work. */
RengaErrorCode RengaPlanSetCuts_Private(RengaPlan plan, RengaGraph graph, int count,
                                        const RengaPlanStage stages[]);
/* Of a micro-batch on one replica of a stage, which schedules may go by. */
void RengaPlanSetSeconds_Private(RengaPlan plan, int stage, double forward, double backward);
/* Seconds until a message arrives, in the order of RengaPlanGetMessages(): copied, lent; count 0:
   not known. */
RengaErrorCode RengaPlanSetMessageSeconds_Private(RengaPlan plan, int count,
                                                  const double seconds[]);
int RengaPlanGetMessageSeconds_Private(RengaPlan plan, const double **seconds);
/* The one place that says which shapes the runtime can execute: an error names the stage and the
   field that it cannot. */
RengaErrorCode RengaPlanCheckRunnable_Private(RengaPlan plan);
/* A step of more micro-batches is refused, on the ranks of comm: no schedule could be made of it in
   a reasonable time. Both numbers are at least 1. */
enum { RENGA_PLAN_MICROBATCHES_MOST = 1 << 20 };
RengaErrorCode RengaPlanCheckMicrobatches_Private(MPI_Comm comm, int64_t samples,
                                                  int64_t microbatch);
/* The reason RENGA_PLAN_STATISTICS, where the network takes statistics and they are not those of
   the whole batch (*parts), or they are on several ranks. */
RengaErrorCode RengaPlanSayStatistics_Private(RengaPlan plan, RengaGraph graph, int ranks,
                                              bool *parts);
bool RengaPlanHasReason_Private(RengaPlan plan, const char *topic);
/* The topic is one of those that say what a lower bound is one of. */
bool RengaPlanSpeaksOfBound_Private(const char *topic);
void RengaPlanDropReasonsIf_Private(RengaPlan plan, bool (*is)(const char *topic));
void RengaPlanDropReasons_Private(RengaPlan plan, const char *topic);
/* A value that a stage which recomputes keeps all the same. */
bool RengaPlanIsKept_Private(RengaPlan plan, int stage, const char *name);
/* Parameters of which lanes have parts. parts: [values of the network] zero, and filled with 1 +
   the node that makes the parts; plan NULL: all nodes are of one stage. */
RengaErrorCode RengaPlanFindParts_Private(RengaPlan plan, RengaGraph graph, int parts[]);
/* The rank of so many tensor ranks that has a lane: rank t has lanes [t L/T, (t + 1) L/T). */
int RengaPlanTensorRankOfLane_Private(int lanes, int tensor, int lane);
