/* One stage of a run: a chunk of the network with all that it holds. A rank may have several;
   forecasts make chunks that no rank has. What a chunk has is in objects of their owners, each with
   a header: a file includes those of which it knows the inside. */
#pragma once
#include "outline.h"
#include "program.h"
#include "renga/private/plan.h"
#include "renga/private/transport.h"
#include "rengacomm.h"

/* A row of the message table that this chunk sends or receives. */
typedef struct {
  bool active, incoming;
  int other;            /* stage */
  RengaValue value;     /* what is sent or where it arrives, in the chunk's graph */
  RengaTensorSpec spec; /* symbolic */
  int ring;             /* instances */
  int64_t bytes;        /* of an instance */
  char *base;           /* of the ring; NULL: sent from the saved slot */
  RengaParcel *parcel;  /* [ring] */
  int64_t posted;       /* receives posted in this pass */
} Link;

/* Values of the loss in the chunk's graph; NONE where they are not here. */
typedef struct {
  RengaValue value, samples; /* samples: of single ones */
  RengaValue seed;           /* what reverse mode begins with, given by the host; NONE: it is 1 */
  float scale;               /* that it is; the device's while a step is under way */
} ChunkLoss;

/* The ranks that compute one replica of a stage together, each its lanes (tensor.c): tensor and
   context ranks. */
typedef struct {
  int rank;
  RengaLaneGroup group;
} TensorGroup;

typedef struct _p_Parameter Parameter;             /* parameter.h */
typedef struct _p_ParameterUses ParameterUses;     /* parameter.h */
typedef struct _p_BatchSum BatchSum;               /* portion.h */
typedef struct _p_ChunkStates ChunkStates;         /* portion.h */
typedef struct _p_ChunkInputs ChunkInputs;         /* memory.h */
typedef struct _p_ChunkSizes ChunkSizes;           /* memory.h */
typedef struct _p_ReplicaMemory ReplicaMemory;     /* memory.h */
typedef struct _p_ChunkBases ChunkBases;           /* memory.h */
typedef struct _p_RowLists RowLists;               /* rows.h */
typedef struct _p_GradientVector GradientVector;   /* gradients.h */
typedef struct _p_ParameterWindow ParameterWindow; /* window.h */
typedef struct _p_UpdateTable UpdateTable;         /* updates.h */
typedef struct _p_StepGate StepGate;               /* gate.c */
typedef struct _p_LaneExchange LaneExchange;       /* entry/exchange.c */
typedef struct _p_TiedExchange TiedExchange;       /* tied.c */

struct _p_Chunk {
  RengaPipeline pipeline; /* lent; NULL in a forecast */
  Outline *outline;       /* lent */
  RengaDevice device;     /* lent by the settings */
  int stage, replica, replicas;
  TensorGroup tensor;
  RengaStorage storage; /* by the precision of the stage's shape */
  bool recompute;  /* what backward reads comes again before each: of one micro-batch at a time */
  RengaComm group; /* the replicas of the stage */
  RengaGraph sub;
  int n_parameters, n_sums;
  Parameter *parameter;
  BatchSum *sum;
  Link *link;         /* [messages] */
  Place *value_place; /* [values of sub] parameters, states, constants, inputs, arriving messages */
  ChunkLoss *loss;
  ParameterUses *uses;
  ChunkStates *states;
  ChunkInputs *inputs;
  RowLists *rows; /* of tables that are not in the gradient vector */
  ProgramTable *programs;
  ChunkSizes *sizes;
  ReplicaMemory *memory;
  ChunkBases *at;
  GradientVector *gradients;
  ParameterWindow *window;
  UpdateTable *updates;
  LaneExchange *exchange; /* NULL: there is none */
  TiedExchange *tied;     /* NULL before the arena */
  Portion *portion;
};

/* The rank of another stage that has the same lanes. */
static inline int RengaChunkPeer_Private(const Chunk *chunk, int stage, int replica)
{
  const RengaPlanPlace place =
      RengaPlanPlaceOf_Private(chunk->outline->plan, stage, replica, chunk->tensor.rank);
  return RengaPlanGetRankAt(chunk->outline->plan, &place);
}

/* Of its group this rank alone, as those are named that have something. */
static inline int RengaChunkAlone_Private(const Chunk *chunk)
{
  return RengaLaneGroupRank_Private(&chunk->tensor.group, chunk->tensor.rank);
}

/* Of the ranks that compute the same, this one says what it has found and writes checkpoints. */
static inline bool RengaChunkSpeaks_Private(const Chunk *chunk)
{
  return chunk->tensor.rank == 0;
}

/* Replicas have a share of the gradients, too: none has all of those of the step. */
static inline bool RengaChunkShardsGradients_Private(const Chunk *chunk)
{
  return RengaOutlineShardsGradients_Private(chunk->outline, chunk->stage);
}

/* Groups of consecutive replicas that add up their part of the batch before all do. */
static inline int RengaChunkGroups_Private(const Chunk *chunk)
{
  return RengaOutlineGroups_Private(chunk->outline, chunk->stage);
}

/* Of a replica among those that own blocks of a bucket: those that are alike in their groups stand
   side by side. */
static inline int RengaChunkPlace_Private(const Chunk *chunk, int replica)
{
  const int groups = RengaChunkGroups_Private(chunk), each = chunk->replicas / groups;
  return replica % each * groups + replica / each;
}

/* Replicas have a share of the parameters, too. */
static inline bool RengaChunkFetches_Private(const Chunk *chunk)
{
  return RengaOutlineFetches_Private(chunk->outline, chunk->stage);
}

static inline bool RengaChunkIsOrdered_Private(const Chunk *chunk)
{
  return RengaSettingsIsOrdered_Private(chunk->outline->settings);
}

/* Of gradients of the chunk, and of these the shared ones, which are the first. */
static inline BucketCounts RengaChunkBuckets_Private(const Chunk *chunk)
{
  return RengaOutlineCountBuckets_Private(chunk->outline, chunk->stage);
}

/* What backward reads comes from the host's memory, to which forward's copy of it went. */
static inline bool RengaChunkKeepsAway_Private(const Chunk *chunk)
{
  return chunk->recompute &&
         RengaPlanGetStage(chunk->outline->plan, chunk->stage)->shape.saved == RENGA_SAVED_OFFLOAD;
}

/* Masters are memory of their own. */
static inline bool RengaChunkHasMasters_Private(const Chunk *chunk)
{
  return chunk->storage.master != chunk->storage.value;
}

/* differentiate.c */
RengaErrorCode RengaOutlineMakeStage_Private(const Outline *outline, int stage, RengaGraph *sub,
                                             Link link[]);
/* chunk.c */
RengaErrorCode RengaChunkBegin_Private(Outline *outline, int stage, Chunk *chunk);
RengaErrorCode RengaChunkSetUp_Private(Chunk *chunk);
RengaErrorCode RengaChunkFree_Private(Chunk *chunk);
/* message.c; peer: a rank of all */
typedef struct {
  RengaParcel parcel;
  bool receives;
  void *data;
  size_t bytes;
  int peer, tag;
} ChunkMessage;
void RengaChunkDescribe_Private(const Chunk *chunk, const char *does, size_t size, char text[]);
RengaErrorCode RengaChunkPost_Private(Chunk *chunk, Pass *pass, const ChunkMessage *message);
RengaErrorCode RengaChunkAwait_Private(Chunk *chunk, Pass *pass, RengaParcel parcel,
                                       const char *what);
typedef RengaErrorCode (*SumStart)(RengaComm comm, const RengaCommSumTask *task, RengaCommSum *sum);
RengaErrorCode RengaChunkStartSum_Private(Chunk *chunk, Pass *pass, RengaComm comm,
                                          const RengaCommSumTask *task, SumStart start,
                                          RengaCommSum *sum);
RengaErrorCode RengaChunkEndSum_Private(Chunk *chunk, Pass *pass, const char *does,
                                        RengaCommSum *sum);
/* entry/link.c */
RengaErrorCode RengaChunkSetUpLinks_Private(Chunk *chunk);
RengaErrorCode RengaChunkPostReceives_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkReceive_Private(Chunk *chunk, Pass *pass, int row, int64_t i);
RengaErrorCode RengaChunkSend_Private(Chunk *chunk, Pass *pass, int row, int64_t i);
RengaErrorCode RengaChunkWaitSends_Private(Chunk *chunk, Pass *pass, int64_t i, bool backward);
RengaErrorCode RengaChunkFinishLinks_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkMakeParcels_Private(Chunk *chunk); /* the rings are known */
RengaErrorCode RengaChunkFreeParcels_Private(Chunk *chunk);
/* savedactivations.c: what becomes of a tensor of the network that backward reads */
RengaSaved RengaChunkGetPolicy_Private(const Chunk *chunk, const char *name);
