/* Plan: who computes what. The only thing that crosses from planning to running. */
#pragma once
#include "rengagraph.h"

RENGA_BEGIN_DECLS

/* Which ranks compute which part of a network, in which way and how fast that should be. */
typedef struct _p_RengaPlan *RengaPlan;
/* What the memory of a device is for, in bytes; all 0: not known. */
typedef struct {
  int64_t parameters, gradients, optimizer, saved, temporary, messages, inputs; /* bytes */
} RengaPlanMemory;
/* ZeRO stages: what is sharded over replicas. */
typedef enum {
  RENGA_SHARD_AUTO = -1, /* of settings alone: the planner chooses it */
  RENGA_SHARD_NOTHING,
  RENGA_SHARD_OPTIMIZER,
  RENGA_SHARD_GRADIENTS, /* and what is above */
  RENGA_SHARD_PARAMETERS /* and what is above */
} RengaShard;
const char *RengaShardName(RengaShard shard);
/* What becomes of the tensors of forward that backward needs. */
typedef enum {
  RENGA_SAVED_KEEP,
  RENGA_SAVED_RECOMPUTE, /* backward recomputes the stage's activations, but for what is kept */
  RENGA_SAVED_OFFLOAD    /* they wait in the host's memory */
} RengaSaved;
/* How a stage is computed. A plan may say more than the runtime can: RengaPlanCheck() refuses what
   cannot be run, by its name. */
typedef struct {
  int replicas;     /* stages may have different numbers of them */
  int tensor;       /* tensor-parallel ranks of a replica, which split heads and columns */
  int sequence;     /* context-parallel ranks of a replica, which split the tokens of a sequence */
  RengaShard shard; /* the ZeRO stage of its replicas */
  RengaSaved saved; /* what becomes of saved activations */
  RengaPrecision precision; /* in which it is computed */
  int chunks; /* stages that each of its ranks computes: of p x chunks stages 0, p, 2p, … */
} RengaStageShape;
/* So many replicas of one rank, ZeRO stage 0, all activations saved, fp32, a stage per rank. */
RengaStageShape RengaStageShapePlain(int replicas);
/* Seconds of what replicas exchange with each micro-batch where gradients are sharded, in ZeRO
   stages 2 and 3; files do not keep it. */
typedef struct {
  double first, forward, again, backward, weight; /* parameters before such an action; first: before
                                                     the first forward */
  double fold;                                    /* gradients after a backward */
  int parts;  /* that each comes in, one after the other; 0: there is nothing of it */
  bool apart; /* ranks compute meanwhile */
  int groups; /* of replicas that add up gradients by themselves, and once a step over all; 0, 1:
                 none do */
} RengaPlanExchange;
/* A stage of a plan, and what is predicted of it. */
typedef struct {
  int first, last;                          /* nodes [first, last) of the graph's order */
  RengaStageShape shape;                    /* how it is computed */
  double forward_flops;                     /* per sample */
  double receives, sends;                   /* bytes of activations per sample, forward */
  int64_t parameters;                       /* elements */
  int64_t memory;                           /* forecast bytes per device, 0 where unknown */
  RengaPlanMemory parts;                    /* of this memory */
  double forward_seconds, backward_seconds; /* predicted, of one micro-batch, recomputation
                                               within backward; 0: not known */
  double again_seconds, weight_seconds;     /* of a backward: recomputation, gradients of
                                               parameters */
  double reduce_seconds, update_seconds;    /* of a step: the sum of its gradients over replicas,
                                               its update */
  RengaPlanExchange exchange;               /* of replicas, within actions */
} RengaPlanStage;
/* Where a rank has work: which replica of a stage, and which of the replica's ranks. */
typedef struct {
  int stage, replica, sequence, tensor; /* numbers, each from 0 */
} RengaPlanPlace;
/* What the planner expects of a step, in seconds; 0: not known. */
typedef struct {
  double step;                     /* simulated, all in all */
  double pipeline, reduce, update; /* its parts */
  double bound;                    /* proved: no plan of the searched kind has a faster step */
  double bubble;                   /* share of the pipeline's time in which devices idle, 0 … 1 */
} RengaPlanPrediction;
RengaErrorCode RengaPlanCreate(RengaComm comm, RengaPlan *plan);
RengaErrorCode RengaPlanSetStages(RengaPlan plan, RengaGraph graph, int count,
                                  const RengaPlanStage stages[]); /* checked */
RengaErrorCode RengaPlanSetBatch(RengaPlan plan, int64_t batch, int64_t microbatch);
RengaErrorCode RengaPlanSetRanks(RengaPlan plan,
                                 const int ranks[]); /* [stage][replica][sequence][tensor] */
RengaErrorCode RengaPlanSetWave(RengaPlan plan);
int RengaPlanGetFirstStage(RengaPlan plan, int stage); /* of those of the same ranks */
RengaErrorCode RengaPlanSetKept(RengaPlan plan, int stage, int count, const char *const names[]);
RengaErrorCode RengaPlanGetKept(RengaPlan plan, int stage, int *count,
                                const char *const **names); /* lent */
RengaErrorCode RengaPlanSetAvailableRanks(RengaPlan plan,
                                          int ranks); /* names the idle ones; 0: not known */
RengaErrorCode RengaPlanGetAvailableRanks(RengaPlan plan, int *ranks);
RengaErrorCode RengaPlanSetMemory(RengaPlan plan, int stage, int64_t bytes);
RengaErrorCode RengaPlanSetMemoryParts(RengaPlan plan, int stage, const RengaPlanMemory *parts);
RengaErrorCode RengaPlanGetDeviceMemory(RengaPlan plan, int stage, int64_t *bytes);
RengaErrorCode RengaPlanSetMemoryLimit(RengaPlan plan, int64_t bytes);
RengaErrorCode RengaPlanGetMemoryLimit(RengaPlan plan, int64_t *bytes);
RengaErrorCode RengaPlanSetSchedule(RengaPlan plan, const char *type);  /* 1f1b, … */
RengaErrorCode RengaPlanGetSchedule(RengaPlan plan, const char **type); /* NULL: open; lent */
RengaErrorCode RengaPlanSetEager(RengaPlan plan, double eager);
RengaErrorCode RengaPlanGetEager(RengaPlan plan, double *eager);
RengaErrorCode RengaPlanGetLanes(RengaPlan plan, int *lanes); /* of the network: -graph_lanes */
RengaErrorCode RengaPlanGetTokenLanes(RengaPlan plan, int *lanes); /* -graph_token_lanes */
RengaErrorCode RengaPlanSetOrigin(RengaPlan plan, const char *machine, const char *costs,
                                  int64_t memory);
RengaErrorCode RengaPlanGetOrigin(RengaPlan plan, const char **machine, const char **costs,
                                  int64_t *memory);
RengaErrorCode RengaPlanSetPrediction(RengaPlan plan, const RengaPlanPrediction *prediction);
RengaErrorCode RengaPlanGetPrediction(RengaPlan plan, RengaPlanPrediction *prediction);
/* The topic of the reason that says which choices the bits of results depend on, and what fixes
   them. */
#define RENGA_PLAN_CHOSEN "chosen"
/* That of the reason that says over which samples statistics of BatchNormalization are taken. */
#define RENGA_PLAN_STATISTICS "statistics"
/* That of the reason that says of which plans the lower bound is, where it is not the search's. */
#define RENGA_PLAN_BOUND "bound"
RengaErrorCode RengaPlanAddReason(RengaPlan plan, const char *topic, const char *sentence);
RengaErrorCode RengaPlanGetReason(RengaPlan plan, int number, const char **topic,
                                  const char **sentence); /* NULL after the last; lent */
int RengaPlanGetStageCount(RengaPlan plan);
const RengaPlanStage *RengaPlanGetStage(RengaPlan plan, int stage); /* lent */
int RengaPlanGetRank(RengaPlan plan, int stage, int replica);       /* the first of the replica's */
int RengaPlanGetRankAt(RengaPlan plan, const RengaPlanPlace *place);
int RengaPlanGetRankCount(RengaPlan plan);
RengaErrorCode RengaPlanFindRank(RengaPlan plan, int rank, int *stage, int *replica); /* -1: idle */
RengaErrorCode RengaPlanFindPlaces(RengaPlan plan, int rank, int most, RengaPlanPlace places[],
                                   int *count);
/* A layout as a value, an axis each. Of stages that differ in one: the most of all. */
typedef struct {
  int stages, chunks;       /* pipeline stages; virtual stages of each rank */
  int replicas;             /* data parallel */
  int tensor;               /* tensor-parallel ranks of a replica */
  int context;              /* context-parallel ranks, which split a sequence */
  int expert;               /* expert-parallel ranks: 1 */
  RengaShard shard;         /* the ZeRO stage */
  RengaSaved saved;         /* recomputation, or offloading, of saved activations */
  RengaPrecision precision; /* in which it is computed */
} RengaLayout;
RengaErrorCode RengaPlanGetLayout(RengaPlan plan, RengaLayout *layout);
RengaErrorCode RengaPlanGetBatch(RengaPlan plan, int64_t *batch, int64_t *microbatch);
int64_t RengaPlanMicrobatches(RengaPlan plan, int64_t samples);
int64_t RengaPlanBound(int64_t microbatches, int replicas, int replica);
RengaErrorCode RengaPlanSetLeaf(RengaPlan plan, int64_t leaf);
int64_t RengaPlanGetLeaf(RengaPlan plan);
int RengaPlanStageOfNode(RengaPlan plan, int node);
RengaErrorCode RengaPlanCheck(RengaPlan plan, RengaGraph graph, int ranks);
RengaErrorCode RengaPlanView(RengaPlan plan, RengaViewer viewer);    /* ascii, json, draw */
RengaErrorCode RengaPlanExplain(RengaPlan plan, RengaViewer viewer); /* the reasons; ascii */
RengaErrorCode RengaPlanCompare(RengaPlan plan, RengaPlan other, RengaViewer viewer);
RengaErrorCode RengaPlanViewFromOptions(RengaPlan plan); /* -plan_view, -plan_explain, -plan_save */
RengaErrorCode RengaPlanSave(RengaPlan plan, const char *file); /* versioned text; rank 0 */
RengaErrorCode RengaPlanLoad(RengaPlan plan, RengaGraph graph, const char *file);
RengaErrorCode RengaPlanDestroy(RengaPlan *plan);

RENGA_END_DECLS
