/* Memory of a chunk: what it takes, where that lies in the arena, and how inputs come there. */
#pragma once
#include "chunk.h"

/* A field of the data set that this chunk reads. */
typedef struct {
  RengaValue value; /* in the chunk's graph */
  int field;        /* number among the network's inputs */
  int64_t offset;   /* in a slot */
} Field;

/* The fields that the chunk reads, and how they come to a device whose memory is not the host's. */
struct _p_ChunkInputs {
  int n_fields;
  Field *field;
  char *host;         /* [slots][input bytes] */
  RengaEvent *copied; /* [slots] behind the copy to the slot */
  RengaEvent *used;   /* [slots] behind the last kernel that reads it */
};

/* What a compiled chunk takes, whatever its replica and the batches: all that a forecast has to
   know of it. */
struct _p_ChunkSizes {
  int64_t input_bytes, folded_bytes, persistent_bytes;
  int64_t instance_bytes[2]; /* of one instance of all messages: forward ones, gradients */
  /* [1] in training, [0] in evaluation and the prologue, which share the memory of slots and
     temporary tensors in another way */
  int64_t slot_bytes[2], sent_bytes[2], kept_bytes[2], temporary_bytes[2];
  int64_t adding_bytes; /* temporary, of training that adds gradients to others */
  int64_t gradient_count, parameter_count; /* elements of a gradient buffer, of all values */
  int64_t window_bytes; /* of values, where replicas have a share of the parameters (window.c) */
  int64_t first_bytes;  /* that the first forward of a step asks the others for */
  int64_t fetched_bytes[PART_COUNT];    /* and parts of a micro-batch */
  RengaForecastTerms terms[PART_COUNT]; /* that tensor ranks exchange in parts of a micro-batch */
  int64_t local_bytes; /* of a micro-batch's gradients, where they are folded (gradientplaces.c) */
  int64_t whole_gradient, whole_count; /* of these, of parameters that are not sharded, */
  int64_t moment_count, master_count;  /* and the first of those values: that have moments, and
                                          masters */
  int n_parts;                         /* parameters that are sharded */
  int64_t *part;                       /* [n_parts + 1] where each begins behind the whole ones */
  int64_t tied_bytes;
  int64_t row_slot_bytes, row_bytes; /* of lists of rows: a slot; all slots and sums */
  int n_moments;
};

/* What the chunk of a replica takes, by the batches that may come: all of it by sizes.c. */
struct _p_ReplicaMemory {
  int slots;                 /* micro-batches in flight */
  int64_t lag;               /* of these, with gradients of inputs only; 0: backwards are whole */
  int n_buckets, n_shared;   /* of gradients; the shared ones are the first */
  int n_buffers;             /* of the tree of gradients */
  int64_t own;               /* elements of sharded parameters that it updates */
  int64_t folded, kept;      /* of its blocks of gradients, where they are folded: while they are,
                                and of the sum; they differ where groups fold by themselves */
  size_t work_bytes;         /* of sums of gradients, in equal shares of the buckets */
  RengaPipelineMemory bytes; /* of the device */
};

/* Where the chunk's parts of the arena begin. */
struct _p_ChunkBases {
  char *persistent, *folded, *moments, *saved, *inputs, *tied; /* moments: or their windows */
  char *masters;   /* of sharded parameters, where they are not the values */
  char *shares;    /* this replica's values of sharded parameters, where it has no others, */
  char *window;    /* but for what lies here for a while */
  char *gradients; /* buffers of the tree, or of a micro-batch, where they are folded; then */
  char *partial;   /* [buffers][folded] elements of this replica's blocks of all buckets */
  char *scattered; /* of the sum: the first of partial, or [kept] where groups fold */
  char *work;      /* of sums of buckets */
  char *away;      /* on the host: [slots] of saved tensors; NULL: they are not offloaded */
  char **region;   /* [REGION_MESSAGE + messages] of the running action */
};

static inline void *RengaChunkAt_Private(const Chunk *chunk, Place place)
{
  return place.region == REGION_ABSENT ? NULL : chunk->at->region[place.region] + place.offset;
}

/* The part of a training program that makes the gradients of parameters. */
static inline ProgramPart RengaChunkGradientPart_Private(const Chunk *chunk)
{
  return chunk->memory->lag > 0 ? PART_WEIGHT : PART_BACKWARD;
}

/* Micro-batches and gradient buffers of a replica, the most of all batches. */
typedef struct {
  int64_t most_local;
  int n_buffers;
  int64_t own;          /* elements of sharded parameters that it updates */
  int64_t folded, kept; /* as of ReplicaMemory */
} ReplicaShare;
typedef struct {
  int replicas, count;
  bool folds;
  ReplicaShare *all, *row; /* [replicas], [count] those that may need most */
} ReplicaShares;
typedef struct {
  int count;
  ReplicaShares *row;
} ShareTable;

/* sizes.c */
int64_t RengaChunkKeptBytes_Private(const Chunk *chunk, bool training);
RengaErrorCode RengaChunkCountLag_Private(Chunk *chunk); /* before it is compiled */
RengaErrorCode RengaChunkSizeStage_Private(Chunk *chunk);
RengaErrorCode RengaChunkSizeWorst_Private(Chunk *chunk, ShareTable *table,
                                           RengaPipelineMemory *worst);
void RengaFreeShares_Private(ShareTable *table);
RengaErrorCode RengaChunkSize_Private(Chunk *chunk);
/* arena.c */
RengaErrorCode RengaPipelineSizeArena_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineSetUpArena_Private(RengaPipeline pipeline);
/* input.c */
RengaErrorCode RengaChunkSetUpInputs_Private(Chunk *chunk);
RengaErrorCode RengaChunkReadFields_Private(Chunk *chunk, const Pass *pass, const Program *program,
                                            int64_t i, int64_t number);
RengaErrorCode RengaChunkReleaseInputs_Private(Chunk *chunk, int64_t i);
RengaErrorCode RengaChunkFreeInputs_Private(Chunk *chunk);
