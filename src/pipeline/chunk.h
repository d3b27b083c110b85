/* What network and plan say of a run, and one stage of it: a chunk of the network with all that it
   holds. A rank may have several; forecasts make chunks that no rank has. */
#pragma once
#include "program.h"
#include "renga/private/saved.h"
#include "renga/private/settings.h"
#include "renga/private/transport.h"
#include "rengacomm.h"
#include "rengapipeline.h"
#include "rengaschedule.h"

typedef struct {
  int64_t microbatches; /* of the step */
  bool forward_only;
  RengaSchedule schedule;
} ScheduleRow;

/* The same on all ranks, and known without them. */
typedef struct {
  RengaComm owner;  /* these four are lent */
  RengaGraph graph; /* the network */
  RengaPlan plan;
  RengaSettings settings;
  RengaSavedRule saved; /* policy NULL: none */
  int stages;
  int64_t microbatch, leaf; /* samples, micro-batches */
  int n_batches;
  int64_t *batch; /* [n_batches] samples of each batch that may come; the first is the plan's */
  bool has_loss;
  int n_parameters; /* of the network */
  int n_messages;
  RengaMessage *message;
  int n_schedules;
  ScheduleRow *schedule; /* those that were asked for */
} Outline;

static inline int64_t RengaOutlineLeaves_Private(const Outline *outline, int64_t microbatches)
{
  return (microbatches + outline->leaf - 1) / outline->leaf;
}

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

/* A field of the data set that this chunk reads. */
typedef struct {
  RengaValue value; /* in the chunk's graph */
  int field;        /* number among the network's inputs */
  int64_t offset;   /* in a slot */
} Field;

/* What a parameter is there as. Each role is a vector of one type (RengaStorage) in which the
   parameters follow each other (role.c). */
typedef enum {
  ROLE_VALUE,    /* what kernels read */
  ROLE_MASTER,   /* what updates read and write; of the type of values: the same memory */
  ROLE_GRADIENT, /* of the step's batch, in the buffer of the sum */
  ROLE_MOMENT    /* + number of the moment */
} ParameterRole;

/* A parameter of this chunk. Places are elements: what is at one place in the vectors of values,
   masters and moments, and at another in a gradient buffer, where the uses of the parameter follow
   each other, each padded to `stride`. */
typedef struct {
  RengaValue value, whole; /* in the chunk's graph, in the network */
  const char *name;
  int64_t count, stride;
  int64_t place, gradient;
  int n_uses;   /* in this chunk */
  bool trained; /* not frozen, and some stage has a gradient for it */
  bool owner;
  int number; /* among all parameters of the network: the canonical order */
} Parameter;

/* Uses of parameters that have a gradient. */
typedef struct {
  int count;
  const RengaParameterUse *row; /* lent by the chunk's graph */
  int64_t *place;               /* [count] element of a gradient buffer; -1: not wanted */
} ParameterUses;

/* A scalar that is summed over the whole batch before the first forward. */
typedef struct {
  RengaValue share, sum;
  int64_t offset; /* bytes in REGION_PERSISTENT */
} BatchSum;

/* States, and the statistics of micro-batches that change them. */
typedef struct {
  int count;
  RengaValue *value; /* [count] in the chunk's graph */
  int64_t *offset;   /* [count] bytes in REGION_PERSISTENT */
  int n_updates;
  const RengaStateUpdate *update; /* lent by the chunk's graph */
  int64_t elements;               /* of all statistics of a micro-batch */
  float *host; /* [elements] of the states that they change; the device's while an update is */
} ChunkStates;

/* What a compiled chunk takes, whatever its replica and the batches: all that a forecast has to
   know of it. */
typedef struct {
  int64_t input_bytes, folded_bytes, persistent_bytes;
  int64_t instance_bytes[2]; /* of one instance of all messages: forward ones, gradients */
  /* [1] in training, [0] in evaluation and the prologue, which share the memory of slots and
     temporary tensors in another way */
  int64_t slot_bytes[2], sent_bytes[2], kept_bytes[2], temporary_bytes[2];
  int64_t adding_bytes; /* temporary, of training that adds gradients to others */
  int64_t gradient_count, parameter_count; /* elements of a gradient buffer, of a role */
  int64_t tied_bytes;
  int n_moments;
} ChunkSizes;

/* Where the chunk's parts of the arena begin. */
typedef struct {
  char *persistent, *folded, *moments, *saved, *inputs, *tied;
} ChunkBases;

/* A range of the gradient vector, of whole parameters, that is summed over the replicas by
   itself. */
typedef struct {
  int64_t first, count; /* elements of a gradient buffer */
  RengaBlocks blocks;   /* which replica adds up which of them */
  char *work;
  RengaConvoy convoy; /* of its sum's messages; NULL: one replica */
  int places;         /* messages that the convoy was made for, */
  size_t room;        /* of so many bytes */
  RengaCommSum sum;   /* under way, or NULL */
  bool apart;         /* the running pass gathers it by an action of its own */
  double began;       /* MPI_Wtime of its last action */
} GradientBucket;

/* The gradient vector of a chunk: buffers of the fixed tree, and what the running step made of
   them. */
typedef struct {
  char *base;
  int n_buffers;
  int n_pieces, taken;    /* taken: the piece that the running backward writes or adds to */
  RengaPartialSum *piece; /* [n_buffers] */
  char *sum;              /* of the whole batch, in the end */
  bool valid;             /* it is the last step's */
  bool settled;           /* the pieces are whole: sums have begun */
  int64_t *leaf_bounds;   /* [replicas + 1] of the sum over the replicas */
  char *work;             /* of that sum, in equal shares of the buckets */
  size_t work_bytes;
  int n_buckets;
  GradientBucket *bucket;
} GradientVector;

/* Memory of the host that copies from and to the device are queued with: nothing here is looked at,
   or used again, before the pass has waited for them. Each may be NULL, and is a part of the
   chunk's ResultMemory. All of it is float32 whatever the precision, as losses, statistics, states
   and sums over the batch are. */
typedef struct {
  float *loss;       /* [local micro-batches] */
  float *statistics; /* [local micro-batches][elements] */
  float *share;      /* [sums][local micro-batches] of the prologue */
  float *sum;        /* [sums] over the batch */
} TakenResults;

/* Of the device (RengaDeviceHostMalloc), so that copies to it do not wait; it grows where a pass
   has more. */
typedef struct {
  float *memory;
  int64_t count, used; /* floats */
} ResultMemory;

/* How fields come to a device whose memory is not the host's (input.c); else empty. */
typedef struct {
  char *host;         /* [slots][input bytes] */
  RengaEvent *copied; /* [slots] behind the copy to the slot */
  RengaEvent *used;   /* [slots] behind the last kernel that reads it */
} InputRing;

/* The vectors that a step squares and updates, each in one call. Places of gradients are those of
   the running step. */
typedef struct {
  int n_norms, n_updates;
  RengaVector *gradient;        /* [n_norms] of trained parameters that this rank owns */
  int *number;                  /* [n_norms] of the parameter among all of the network */
  double *square;               /* [n_norms] of the host */
  RengaParameterUpdate *update; /* [n_updates] of trained parameters */
} UpdateTable;

/* What a chunk has to do with the running pass; empty between passes. Below, i is a place in its
   order. */
typedef struct {
  RengaValue target;    /* of evaluation: a value that is wanted besides what is sent, or NONE */
  char *output;         /* the target of this replica's micro-batches, or NULL */
  int64_t first, last;  /* this replica has micro-batches [first, last) of the batch */
  const int64_t *order; /* [last - first] their numbers as this replica works through them */
  int64_t *place;       /* [last - first] of number first, first + 1, … in the order */
  int64_t forward_done, backward_done;
  double *share;      /* [sums][microbatches] of the prologue, or NULL */
  double *statistics; /* [microbatches][elements] or NULL */
  TakenResults taken;
  ResultMemory results; /* stays from pass to pass */
} Portion;

/* What reverse mode begins with where the loss has a scale. */
typedef struct {
  RengaValue value; /* in the chunk's graph, given by the host; NONE: it is 1 */
  float number;     /* the device's while a step is under way */
} LossSeed;

typedef struct {
  RengaPipeline pipeline; /* lent; NULL in a forecast */
  Outline *outline;       /* lent */
  RengaDevice device;     /* lent by the settings */
  int stage, replica, replicas;
  RengaStorage storage; /* by the precision of the stage's shape */
  bool recompute;       /* forward is run again before each backward */
  RengaComm group;      /* the replicas of the stage */
  RengaGraph sub;
  RengaValue loss; /* in sub; NONE where it is not here */
  LossSeed seed;
  RengaValue sample_losses; /* the same of single samples */
  Link *link;               /* [messages] */
  int n_fields, n_parameters, n_sums;
  Field *field;
  Parameter *parameter;
  BatchSum *sum;
  ParameterUses uses;
  ChunkStates states;
  int64_t *holds;     /* [n_parameters][stages] 0: not there, else 1 + uses */
  Place *value_place; /* [values of sub] parameters, states, constants, inputs, arriving messages */
  KernelTable kernels;
  ProgramTable programs;
  ChunkSizes sizes;
  int slots;   /* micro-batches in flight */
  int64_t lag; /* of these, with gradients of inputs only; 0: backwards are whole */
  RengaPipelineMemory memory;
  ChunkBases at;
  char **base;           /* [REGION_MESSAGE + messages] of the running action */
  const void **argument; /* [kernels.largest] */
  GradientVector gradients;
  UpdateTable updates;
  InputRing inputs;
  int n_exchanges, most_exchanges; /* messages of one tied parameter: under way, at the most */
  RengaParcel *exchange;           /* [most_exchanges] */
  Portion portion;
} Chunk;

/* Masters are memory of their own. */
static inline bool RengaChunkHasMasters_Private(const Chunk *chunk)
{
  return chunk->storage.master != chunk->storage.value;
}
static inline void *RengaChunkAt_Private(const Chunk *chunk, Place place)
{
  return place.region == REGION_ABSENT ? NULL : chunk->base[place.region] + place.offset;
}
