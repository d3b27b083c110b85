/* What rooms above ask of plans. */
#pragma once
#include "renga/private/lane.h"
#include "rengaplan.h"

/* Of RengaShard, for choice.h. */
#define RENGA_SHARD_WORDS(first, other)                                                            \
  first("auto") other("none") other("optimizer") other("gradients") other("parameters")
/* The numbers of ZeRO stages, and the same words. */
#define RENGA_ZERO_CHOICES "auto|0=none|1=optimizer|2=gradients|3=parameters"

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
/* The rank of so many that has a lane: rank t of T has lanes [t L/T, (t + 1) L/T). */
int RengaPlanRankOfLane_Private(int lanes, int ranks, int lane);
/* The ranks that compute a replica of a stage together: each context rank has some lanes of tokens,
   and is as many ranks as share out lanes of heads. Who of them has something is a number as of
   lanes (lane.h), with ranks in place of these; of a kind that one rank has it names none. */
typedef struct {
  int size; /* all of them */
  int lanes[RENGA_LANE_KINDS], ranks[RENGA_LANE_KINDS];
} RengaLaneGroup;
static inline int RengaShapeGroup_Private(const RengaStageShape *shape)
{
  return shape->tensor * shape->sequence;
}
RengaLaneGroup RengaPlanGetLaneGroup_Private(const RengaStageShape *shape, RengaGraph graph);
/* Error of more ranks of a kind than lanes. */
RengaErrorCode RengaPlanCheckGroup_Private(RengaGraph graph, int tensor, int context);
/* Those that have the lanes of a node. */
int RengaLaneGroupHas_Private(const RengaLaneGroup *group, int lane);
bool RengaLaneGroupIsOne_Private(const RengaLaneGroup *group, int ranks);
/* Rank n of the group alone; and the rank of the same place as n among those who have something. */
int RengaLaneGroupRank_Private(const RengaLaneGroup *group, int n);
int RengaLaneGroupAt_Private(const RengaLaneGroup *group, int ranks, int n);
/* The place of rank n of the group, and which one a place has. */
RengaPlanPlace RengaPlanPlaceOf_Private(RengaPlan plan, int stage, int replica, int n);
/* Ranks from the first of a replica to that of the next one, at least those of a replica. */
int64_t RengaPlanStride_Private(RengaPlan plan, int stage);
static inline int RengaShapeMember_Private(const RengaStageShape *shape,
                                           const RengaPlanPlace *place)
{
  return place->sequence * shape->tensor + place->tensor;
}
RengaErrorCode RengaPlanCheckStatistics(RengaPlan plan, RengaGraph graph, int64_t samples);
int64_t RengaPlanLeafBound(int64_t microbatches, int64_t leaf, int replicas, int replica);
bool RengaStageShapeEqual(const RengaStageShape *one, const RengaStageShape *other);
RengaErrorCode RengaStageShapeFormat(const RengaStageShape *shape, size_t size, char text[]);
