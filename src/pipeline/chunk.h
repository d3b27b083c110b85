/* What network and plan say of a run, and one stage of it: a chunk of the network with all that it
   holds. A rank may have several; forecasts make chunks that no rank has. */
#pragma once
#include "program.h"
#include "renga/private/forecast.h"
#include "renga/private/line.h"
#include "renga/private/settings.h"
#include "renga/private/transport.h"
#include "rengacomm.h"
#include "rengapipeline.h"
#include "rengaschedule.h"

typedef struct {
  int64_t microbatches; /* of the step */
  bool forward_only;
  RengaSchedule schedule;
  int64_t *turn; /* [micro-batches] their numbers in the batch (turns.c); NULL: their own */
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
  bool lazy;             /* -optimizer_sparse, as memory was laid out by it */
  int *tables; /* [values of the network] 1 + node that gathers rows (rows.c), or 0; or NULL */
  struct _p_StageGraphs *graphs; /* that forecasts keep, lent; NULL: none */
} Outline;

static inline int64_t RengaOutlineLeaves_Private(const Outline *outline, int64_t microbatches)
{
  return (microbatches + outline->leaf - 1) / outline->leaf;
}

/* Replicas of the stage give each other the gradients of each micro-batch (fold.c). */
static inline bool RengaOutlineFolds_Private(const Outline *outline, int stage)
{
  const RengaStageShape *shape = &RengaPlanGetStage(outline->plan, stage)->shape;
  return shape->shard >= RENGA_SHARD_GRADIENTS && shape->replicas > 1 && outline->has_loss;
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

/* A parameter of this chunk. Places are elements (parameter.c): what is at one place in the vectors
   of values, masters and moments, and at another in a gradient buffer, where its first use begins;
   further uses follow each other elsewhere, each padded to `stride`. */
typedef struct {
  RengaValue value, whole; /* in the chunk's graph, in the network */
  const char *name;        /* in the network */
  RengaRectangle part;     /* of it, that this is */
  int64_t count, stride;
  int64_t place, gradient, further;
  bool sparse;      /* its gradient is a list of rows (rows.c), and has no place in a buffer */
  bool sharded;     /* each replica updates a share of it (shard.c) */
  int64_t from, to; /* elements that this replica updates */
  int64_t own;      /* of a share: where it is among all shares of this replica */
  int n_uses;       /* in this chunk */
  bool trained;     /* not frozen, and some stage has a gradient for it */
  bool owner;
  int number; /* among all parameters of the network: the canonical order */
} Parameter;

/* Uses of parameters that have a gradient. */
enum { USE_UNWANTED = -1, USE_ELSEWHERE = -2 /* another rank of the tensor group has the part */ };
typedef struct {
  int count;
  RengaParameterUse *row; /* [count] in the order of their nodes */
  int64_t *place;         /* [count] element of a gradient buffer, or one of the above */
  bool *cut;              /* [values of sub] parameters that are there in parts (parts.c) */
  int *rank;              /* [values of sub] of the tensor group, that has it: of parts */
  int *split;             /* [values of sub] 1 + the first node that makes parts of it */
  RengaValue *same;       /* [values of sub] the part that the first node makes; else itself */
  bool *joined;           /* [values of sub] its parts lie in a row: nothing makes it (joined.c) */
  int64_t *holds;         /* [parameters][stages] 0: not there, else 1 + uses (holders.c) */
} ParameterUses;

/* A scalar that is summed over the whole batch before the first forward. */
typedef struct {
  RengaValue share, sum;
  int64_t offset; /* bytes in REGION_PERSISTENT */
  /* of batches that are announced (count.c): of all, of the first, which has so many samples */
  double counted, first, samples;
  int64_t all; /* samples of all of them; 0: there are none */
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
  int64_t gradient_count, parameter_count; /* elements of a gradient buffer, of all values */
  int64_t window_bytes; /* of values, where replicas have a share of the parameters (window.c) */
  int64_t first_bytes;  /* that the first forward of a step asks the others for */
  int64_t fetched_bytes[PART_COUNT];    /* and parts of a micro-batch */
  RengaForecastTerms terms[PART_COUNT]; /* that tensor ranks exchange in parts of a micro-batch */
  int64_t local_bytes; /* of a micro-batch's gradients, where they are folded (local.c) */
  int64_t whole_gradient, whole_count; /* of these, of parameters that are not sharded */
  int n_parts;                         /* parameters that are sharded */
  int64_t *part;                       /* [n_parts + 1] where each begins behind the whole ones */
  int64_t tied_bytes;
  int64_t row_slot_bytes, row_bytes; /* of lists of rows: a slot; all slots and sums */
  int n_moments;
} ChunkSizes;

/* What the chunk of a replica takes, by the batches that may come: all of it by sizes.c. */
typedef struct {
  int slots;                 /* micro-batches in flight */
  int64_t lag;               /* of these, with gradients of inputs only; 0: backwards are whole */
  int n_buckets, n_shared;   /* of gradients; the shared ones are the first */
  int n_buffers;             /* of the tree of gradients */
  int64_t own;               /* elements of sharded parameters that it updates */
  int64_t folded;            /* of its blocks of gradients, where they are folded */
  size_t work_bytes;         /* of sums of gradients, in equal shares of the buckets */
  RengaPipelineMemory bytes; /* of the device */
} ReplicaMemory;

/* Where the chunk's parts of the arena begin. */
typedef struct {
  char *persistent, *folded, *moments, *saved, *inputs, *tied; /* moments: or their windows */
  char *masters; /* of sharded parameters, where they are not the values */
  char *shares;  /* this replica's values of sharded parameters, where it has no others, */
  char *window;  /* but for what lies here for a while */
  char *away;    /* on the host: [slots] of saved tensors; NULL: they are not offloaded */
  char **region; /* [REGION_MESSAGE + messages] of the running action */
} ChunkBases;

/* Who gets the sum of a bucket, and updates its parameters. */
typedef enum {
  BUCKET_PLAIN,  /* all replicas, of a stage that shards nothing */
  BUCKET_SHARED, /* each replica its block */
  BUCKET_WHOLE,  /* all replicas, beside shared ones: of what is not sharded; the last */
} BucketKind;

/* A range of the gradient vector, of whole parameters, that is summed over the replicas by
   itself. */
typedef struct {
  BucketKind kind;
  int64_t first, count; /* elements of a gradient buffer */
  RengaBlocks blocks;   /* which replica adds up which of them */
  char *work;
  RengaConvoy convoy;            /* of its sum's messages; NULL: one replica */
  int places;                    /* messages that the convoy was made for, */
  size_t room;                   /* of so many bytes */
  RengaCommSum sum;              /* under way, or NULL */
  RengaCommSum gather, prepared; /* of a shared one's values: under way; the next one's; or NULL */
  int64_t own;                   /* elements of this replica's blocks of the buckets before */
  bool apart;                    /* the running pass gathers it by an action of its own */
  double began, gathering;       /* MPI_Wtime of its last action, of its gather's begin */
  int64_t local;                 /* bytes in the memory of a micro-batch's gradients (local.c) */
  struct _p_Chunk *chunk;        /* lent, of a fold: */
  int64_t round;                 /* that is under way */
} GradientBucket;

/* A table whose gradient is a list of rows (rows.c). */
typedef struct {
  int parameter;                 /* number among the chunk's */
  RengaValue gradients, numbers; /* in the chunk's graph: what GatherGrad would add up */
  int64_t width, length;         /* of a row; rows of the table */
  int64_t padding;               /* the row that gets no gradient; -1: none */
  int64_t rows, last_rows;       /* positions of a micro-batch, and of the last one of the pass */
  bool wide;                     /* numbers are int64, else int32 */
  int64_t gradients_at, numbers_at;   /* bytes in a slot */
  int64_t index_at, count_at, sum_at; /* bytes behind the first slot */
  int64_t *index, *count;             /* of the device: the rows of the step, */
  float *sum;                         /* and their gradients */
} RowList;

/* All of the chunk, and where they are in a step. */
typedef struct {
  int count;
  RowList *row;
  int64_t slots, used; /* micro-batches: that there is memory for, of the running step */
  char *base;
  int64_t work_at;
  RengaBlocks blocks;  /* which replica has which slots of the running step */
  RengaConvoy convoy;  /* NULL: one replica */
  int places;          /* messages that the convoy was made for, */
  size_t room;         /* of so many bytes */
  RengaCommSum gather; /* under way, or NULL */
  bool begun;          /* of this step: the slots are being gathered */
  double *square;      /* [count] of the host */
} RowLists;

/* A bucket of parameters in the window: not there, on its way, there. */
typedef enum { BUCKET_AWAY, BUCKET_COMES, BUCKET_HERE } BucketState;

/* Between this replica and another: its block of a bucket, and this one's for it. */
typedef struct {
  RengaParcel taken, given;
} Fetch;

/* Values of parameters that come from other replicas for a while (window.c, entry/gather.c). */
typedef struct {
  int64_t *place;     /* [buckets] bytes in the window */
  BucketState *state; /* [buckets] */
  Fetch *fetch;       /* [buckets][replicas] */
} ParameterWindow;

/* Two buffers of the tree that become one: y += x. */
typedef struct {
  char *y;
  const char *x;
} GradientMerge;

/* A step of the tree over all micro-batches: a partial sum that is added to another, or copied.
   Each lies in a buffer, or, below 0, where the gradients of a micro-batch of the round do. */
typedef struct {
  int y, x;
  bool adds;
} FoldStep;

/* Gradients that replicas give, micro-batch by micro-batch, to who answers for them (fold.c). */
typedef struct {
  int64_t *place;    /* [buckets] bytes in the memory of a micro-batch's gradients (local.c) */
  char *base;        /* [buffers][folded] elements of this replica's blocks of all buckets */
  FoldStep *step;    /* of the running pass */
  int64_t *first;    /* [rounds + 1] the steps of each */
  int64_t round;     /* of the running pass, whose sums begin next */
  int64_t n_started; /* sums of the running pass */
  int user[2];       /* the bucket that a part of the work memory was given to last; -1: none */
} GradientFold;

/* The gradient vector of a chunk: buffers of the fixed tree, and what the running step made of
   them. */
typedef struct {
  char *base;
  int n_pieces, taken;    /* taken: the piece that the running backward writes or adds to */
  RengaPartialSum *piece; /* [buffers] */
  char *sum;              /* of the whole batch, in the end */
  bool valid;             /* it is the last step's */
  bool settled;           /* the pieces are whole: sums have begun */
  int64_t *leaf_bounds;   /* [replicas + 1] of the sum over the replicas */
  char *work;             /* of that sum */
  GradientBucket *bucket; /* [buckets] */
  int n_gathering;        /* of these: gathers under way */
  int *sequence;          /* [buckets] in which their sums begin, where backward begins them */
  int n_begun;            /* of these, by the running pass */
  bool early;             /* the last backward runs, and begins them */
  int n_merges;
  GradientMerge merge[RENGA_COMM_TREE_PIECES]; /* that follow it, done bucket by bucket then */
  GradientFold fold;
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

/* The fields that the chunk reads, and how they come to a device whose memory is not the host's. */
typedef struct {
  int n_fields;
  Field *field;
  char *host;         /* [slots][input bytes] */
  RengaEvent *copied; /* [slots] behind the copy to the slot */
  RengaEvent *used;   /* [slots] behind the last kernel that reads it */
} ChunkInputs;

/* A parameter whose pieces several replicas square: they bring them together. */
typedef struct {
  int number;            /* of the parameter among all of the network */
  int64_t first, pieces; /* place and number of its pieces among those of all split parameters */
  bool adds;             /* this replica adds them up */
} SplitNorm;

/* Moments on the host (offload.c); empty where the device has them. */
typedef struct {
  int number; /* of an update */
  int64_t from, count;
} OffloadRow;
typedef struct {
  int64_t first, count; /* elements of each moment */
  int rows, n_rows;     /* the first one, and how many */
} OffloadRange;
typedef struct {
  char *host;     /* the moments, one after the other */
  int64_t window; /* elements of a window */
  bool other;     /* there are two windows */
  int n_ranges, n_rows, most_rows;
  OffloadRange *range;
  OffloadRow *row;
  RengaParameterUpdate *update; /* [most_rows] of the range that is queued */
  RengaEvent arrived[2], updated[2], back;
} OffloadedMoments;

/* The vectors that a step squares and updates, each in one call. Places of gradients are those of
   the running step. */
typedef struct {
  int n_norms, n_updates, n_splits;
  RengaVector *gradient;        /* [n_norms] of trained parameters that this rank owns */
  int *number;                  /* [n_norms] of the parameter among all of the network */
  int64_t *place;               /* [n_norms] of its first piece in split_square; -1: all are here */
  SplitNorm *split;             /* [n_splits] */
  int64_t n_pieces;             /* of all split parameters */
  double *split_square;         /* [n_pieces] */
  double *square;               /* of the host: of the pieces of all these */
  RengaParameterUpdate *update; /* [n_updates] of trained parameters */
  OffloadedMoments offload;
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

/* Values of the loss in the chunk's graph; NONE where they are not here. */
typedef struct {
  RengaValue value, samples; /* samples: of single ones */
  RengaValue seed;           /* what reverse mode begins with, given by the host; NONE: it is 1 */
  float scale;               /* that it is; the device's while a step is under way */
} ChunkLoss;

/* The ranks that compute one replica of a stage together, each its lanes (tensor.c). */
typedef struct {
  int rank, size;
  int lanes; /* of the network; rank r has [r L/size, (r + 1) L/size) of them */
} TensorGroup;

int RengaTensorRankOf_Private(const TensorGroup *tensor, int lane); /* group.c */

typedef struct _p_LaneExchange LaneExchange; /* entry/exchange.c */
typedef struct _p_TiedExchange TiedExchange; /* tied.c */

typedef struct _p_Chunk {
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
} Chunk;

/* The rank of another stage that has the same lanes. */
static inline int RengaChunkPeer_Private(const Chunk *chunk, int stage, int replica)
{
  const RengaPlanPlace place = {.stage = stage, .replica = replica, .tensor = chunk->tensor.rank};
  return RengaPlanGetRankAt(chunk->outline->plan, &place);
}

/* Of the ranks that compute the same, this one says what it has found and writes checkpoints. */
static inline bool RengaChunkSpeaks_Private(const Chunk *chunk)
{
  return chunk->tensor.rank == 0;
}

/* Tags of messages between all ranks: a row of the message table is its own. Behind them, for all
   stages of a rank together, which make their messages in one order: those of tied parameters and
   of exchanges; then a tag of each stage for its gathers. */
enum { TAG_TIED, TAG_EXCHANGE, TAG_GATHER /* + stage */ };
static inline int RengaOutlineTag_Private(const Outline *outline, int kind)
{
  return outline->n_messages + kind;
}

/* Replicas have a share of the optimizer each. */
static inline bool RengaChunkIsSharded_Private(const Chunk *chunk)
{
  return RengaPlanGetStage(chunk->outline->plan, chunk->stage)->shape.shard >=
         RENGA_SHARD_OPTIMIZER;
}

/* Replicas have a share of the gradients, too: none has all of those of the step. */
static inline bool RengaChunkFolds_Private(const Chunk *chunk)
{
  return RengaOutlineFolds_Private(chunk->outline, chunk->stage);
}

/* Replicas have a share of the parameters, too. */
static inline bool RengaOutlineFetches_Private(const Outline *outline, int stage)
{
  return RengaOutlineFolds_Private(outline, stage) &&
         RengaPlanGetStage(outline->plan, stage)->shape.shard >= RENGA_SHARD_PARAMETERS;
}
static inline bool RengaChunkFetches_Private(const Chunk *chunk)
{
  return RengaOutlineFetches_Private(chunk->outline, chunk->stage);
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
static inline void *RengaChunkAt_Private(const Chunk *chunk, Place place)
{
  return place.region == REGION_ABSENT ? NULL : chunk->at->region[place.region] + place.offset;
}
