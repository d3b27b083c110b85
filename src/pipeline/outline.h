/* What all ranks know of a run without each other: network, plan, messages, schedules. */
#pragma once
#include "renga/private/forecast.h"
#include "renga/private/line.h"
#include "renga/private/settings.h"
#include "rengapipeline.h"
#include "rengaschedule.h"

typedef struct _p_Chunk Chunk;
typedef struct _p_Pass Pass;
typedef struct _p_Portion Portion;

typedef struct {
  int64_t microbatches; /* of the step */
  bool forward_only;
  RengaSchedule schedule;
  int64_t *turn; /* [micro-batches] numbers in the batch (microbatchorder.c); NULL: their own */
} ScheduleRow;

/* The same on all ranks, and known without them. */
typedef struct {
  RengaComm owner;  /* these four are lent */
  RengaGraph graph; /* the network */
  RengaPlan plan;
  RengaSettings settings;
  int stages;
  int64_t microbatch, leaf; /* samples, micro-batches */
  int *buckets;             /* [stages] of gradients, of which shards make one more (shard.c) */
  int n_batches;
  int64_t *batch; /* [n_batches] samples of each batch that may come; the first is the plan's */
  bool has_loss;
  int n_parameters;    /* of the network, and parts of such (parts.c) */
  int *number, *parts; /* [values of the network] those before it; 1 + node that parts it, or 0 */
  int n_messages, n_schedules;
  RengaMessage *message;
  ScheduleRow *schedule; /* those that were asked for */
  RengaSparse sparse;    /* as memory was laid out by it */
  int *tables; /* [values of the network] 1 + node that gathers rows (rows.c), or 0; or NULL */
  struct _p_StageGraphs *graphs; /* that forecasts keep, lent; NULL: none */
} Outline;

static inline int64_t RengaOutlineLeaves_Private(const Outline *outline, int64_t microbatches)
{
  return (microbatches + outline->leaf - 1) / outline->leaf;
}

/* Replicas of the stage give each other the gradients of each micro-batch (reducescatter.c). */
static inline bool RengaOutlineShardsGradients_Private(const Outline *outline, int stage)
{
  const RengaStageShape *shape = &RengaPlanGetStage(outline->plan, stage)->shape;
  return shape->shard >= RENGA_SHARD_GRADIENTS && shape->replicas > 1 && outline->has_loss;
}

/* Groups of consecutive replicas that add up their part of the batch before all do. */
static inline int RengaOutlineGroups_Private(const Outline *outline, int stage)
{
  const RengaStageShape *shape = &RengaPlanGetStage(outline->plan, stage)->shape;
  return RengaOutlineShardsGradients_Private(outline, stage)
             ? RengaSettingsShardGroups_Private(outline->settings, shape->shard, shape->replicas)
             : 1;
}

/* Replicas have a share of the parameters, too. */
static inline bool RengaOutlineFetches_Private(const Outline *outline, int stage)
{
  return RengaOutlineShardsGradients_Private(outline, stage) &&
         RengaPlanGetStage(outline->plan, stage)->shape.shard >= RENGA_SHARD_PARAMETERS;
}

/* Tags of messages between all ranks: a row of the message table is its own. Behind them, for all
   stages of a rank together, which make their messages in one order: those of tied parameters and
   of exchanges. */
enum { TAG_TIED, TAG_EXCHANGE };
static inline int RengaOutlineTag_Private(const Outline *outline, int kind)
{
  return outline->n_messages + kind;
}

/* Of gradients of a stage (shard.c). */
typedef struct {
  int all, shared; /* the shared ones are the first */
} BucketCounts;
BucketCounts RengaOutlineCountBuckets_Private(const Outline *outline, int stage);

/* outline.c: lends what the pipeline has */
RengaErrorCode RengaOutlineRead_Private(RengaPipeline pipeline, Outline *outline);
RengaErrorCode RengaOutlineFree_Private(Outline *outline);
int64_t RengaOutlineMostMicrobatches_Private(const Outline *outline);
/* samplelosses.c, rows.c, parts.c */
int64_t RengaOutlineSampleColumns_Private(const Outline *outline);
RengaErrorCode RengaOutlineMarkRows_Private(Outline *outline);
RengaErrorCode RengaOutlineFindParts_Private(Outline *outline);
const RengaGraphNode *RengaOutlinePartsOf_Private(const Outline *outline, RengaValue whole);
/* schedules.c */
RengaErrorCode RengaOutlineGetShape_Private(Outline *outline, int64_t microbatches,
                                            bool forward_only, RengaSchedule *schedule);
RengaErrorCode RengaOutlineGetSchedule_Private(Outline *outline, int64_t microbatches,
                                               bool forward_only, RengaSchedule *schedule);
RengaErrorCode RengaChunkFindOrder_Private(const Chunk *chunk, int64_t microbatches,
                                           bool forward_only, Portion *portion);
void RengaChunkRange_Private(const Chunk *chunk, int64_t microbatches, int64_t *first,
                             int64_t *last);
RengaErrorCode RengaChunkCountTreeBuffers_Private(const Chunk *chunk, int64_t microbatches,
                                                  int *buffers);
RengaErrorCode RengaOutlineGetTurns_Private(Outline *outline, int64_t microbatches,
                                            const int64_t **turn);
/* microbatchorder.c: which micro-batch of the batch each number of a step is */
RengaErrorCode RengaOutlineOrderMicrobatches_Private(const Outline *outline, int64_t microbatches,
                                                     int64_t **turn);
/* By the network, or a group of the optimizer. */
RengaErrorCode RengaOutlineIsFrozen_Private(const Outline *outline, const RengaGraphValue *value,
                                            bool *frozen);
