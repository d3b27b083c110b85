/* The gradient vector of a chunk: the buffers of micro-batches, and buckets, in which it is summed
   over the replicas. */
#pragma once
#include "parameter.h"
#include "pipelineimpl.h"

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
  int64_t first, count;          /* elements of a gradient buffer */
  RengaBlocks blocks;            /* which replica adds up which of them */
  RengaConvoy convoy;            /* of its sum's messages; NULL: one replica */
  RengaConvoy inner, across;     /* of sums within a group of replicas, and over them; or NULL */
  RengaBlocks share;             /* where such sums are made: who of the group adds up what, */
  RengaBlocks parts;             /* and who of those that are alike in all groups; or NULL */
  int places;                    /* messages that the convoy was made for, */
  size_t room;                   /* of so many bytes */
  RengaCommSum sum;              /* under way, or NULL */
  bool queued;                   /* an unordered sum that the device may be at */
  RengaCommSum gather, prepared; /* of a shared one's values: under way; the next one's; or NULL */
  int64_t own;                   /* elements of this replica's blocks of the buckets before, */
  int64_t own_share;             /* and of those in its group */
  bool apart;                    /* the running pass gathers it by an action of its own */
  double began, gathering;       /* MPI_Wtime of its last sum, of its values' gather */
  int64_t local;                 /* bytes in the place of a micro-batch (gradientplaces.c) */
  Chunk *chunk;                  /* lent, of a fold: */
  int64_t round;                 /* that is under way */
} GradientBucket;

/* Two buffers of the tree that become one: y += x. */
typedef struct {
  char *y;
  const char *x;
} GradientMerge;

enum { RENGA_SUMS_AT_ONCE = 2 }; /* of a stage that folds gradients, under way */

/* A step of the tree over all micro-batches: a partial sum that is added to another, or copied.
   Each lies in a buffer, or, below 0, where the gradients of a micro-batch of the round do. */
typedef struct {
  int y, x;
  bool adds;
} FoldStep;

/* Gradients that replicas give, micro-batch by micro-batch, to who answers for them
   (reducescatter.c). */
typedef struct {
  int64_t *place;    /* [buckets] bytes in the place of a micro-batch (gradientplaces.c) */
  FoldStep *step;    /* of the running pass */
  int64_t *first;    /* [rounds + 1] the steps of each */
  int64_t round;     /* of the running pass, whose sums begin next */
  int64_t n_started; /* sums of the running pass */
  int user[2];       /* the bucket that a part of the work memory was given to last; -1: none */
  int n_left;        /* partial sums that a group has behind its last round, */
  RengaPartialSum left[RENGA_COMM_TREE_PIECES]; /* whose data is no address */
  RengaComm owners;        /* the replicas in the order of their blocks; where groups are made, */
  RengaComm inner, across; /* and this one's, and those that are alike in all; else NULL */
} GradientFold;

/* The gradient vector of a chunk: buffers of the fixed tree, and what the running step made of
   them. */
struct _p_GradientVector {
  int n_pieces, taken;    /* taken: the piece that the running backward writes or adds to */
  RengaPartialSum *piece; /* [buffers] */
  char *sum;              /* of the whole batch, in the end */
  RengaCommShared shared; /* both lie there; or NULL */
  bool valid;             /* it is the last step's */
  bool settled;           /* the pieces are whole: sums have begun */
  int64_t *leaf_bounds;   /* [replicas + 1] of the sum over the replicas */
  GradientBucket *bucket; /* [buckets] */
  int n_gathering;        /* of these: gathers under way */
  int *sequence;          /* [buckets] in which their sums begin, where backward begins them */
  int n_begun;            /* of these, by the running pass */
  bool early;             /* the last backward runs, and begins them */
  int n_merges;
  GradientMerge merge[RENGA_COMM_TREE_PIECES]; /* that follow it, done bucket by bucket then */
  GradientFold fold;
};

/* The replicas in the order in which they have blocks of a bucket. */
static inline RengaComm RengaChunkOwners_Private(const Chunk *chunk)
{
  const GradientFold *fold = &chunk->gradients->fold;
  return fold->owners ? fold->owners : chunk->group;
}

/* Those that add up the micro-batches of a round, and their number. */
static inline RengaComm RengaChunkInner_Private(const Chunk *chunk)
{
  const GradientFold *fold = &chunk->gradients->fold;
  return fold->inner ? fold->inner : chunk->group;
}
static inline int RengaChunkEach_Private(const Chunk *chunk)
{
  return chunk->replicas / RengaChunkGroups_Private(chunk);
}

/* shard.c: own is [replicas] elements of the chunk's sharded parameters that each updates, in the
   order of blocks */
RengaErrorCode RengaChunkCountShares_Private(const Chunk *chunk, int64_t own[]);
RengaErrorCode RengaChunkMakeShares_Private(Chunk *chunk, int bucket);
RengaErrorCode RengaChunkCountScattered_Private(const Chunk *chunk, const int64_t own[],
                                                int64_t kept[], int64_t fold[]);
void RengaChunkRangeOfBucket_Private(const Chunk *chunk, int bucket, int64_t *first,
                                     int64_t *count);
int RengaChunkBucketAt_Private(const Chunk *chunk, ParameterRole role, int64_t at, int64_t *begin);
bool RengaChunkSharesMasters_Private(const Chunk *chunk);
/* The leaves of each group of replicas. bounds: [groups + 1] */
void RengaChunkBoundGroups_Private(const Chunk *chunk, int64_t microbatches, int64_t bounds[]);
/* bucket.c */
size_t RengaChunkWorkOfBucket_Private(const Chunk *chunk);
RengaErrorCode RengaChunkStartTask_Private(Chunk *chunk, Pass *pass, GradientBucket *bucket,
                                           RengaComm comm, const RengaCommSumTask *task,
                                           SumStart start);
RengaErrorCode RengaChunkSetUpBuckets_Private(Chunk *chunk);
RengaErrorCode RengaChunkJoinSums_Private(Chunk *chunk);
bool RengaChunkSumsFit_Private(Chunk *chunk, int64_t microbatches);
void RengaPipelineMarkGathers_Private(RengaPipeline pipeline, const Pass *pass);
RengaErrorCode RengaChunkBeginBucket_Private(Chunk *chunk, Pass *pass, int bucket);
RengaErrorCode RengaChunkGatherBucket_Private(Chunk *chunk, Pass *pass, int bucket);
RengaErrorCode RengaChunkEndBucket_Private(Chunk *chunk, Pass *pass, int bucket);
RengaErrorCode RengaChunkEndBuckets_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkFreeBuckets_Private(Chunk *chunk);
/* Collective over the replicas: those of a node read each other's gradients where they lie. */
RengaErrorCode RengaChunkShareGradients_Private(Chunk *chunk);
/* gradient.c */
RengaErrorCode RengaChunkBeginGradients_Private(Chunk *chunk);
RengaErrorCode RengaChunkTakeGradients_Private(Chunk *chunk, const Pass *pass, int64_t number,
                                               bool *adds);
RengaErrorCode RengaChunkWillAdd_Private(const Chunk *chunk, const Pass *pass, int64_t number,
                                         bool *adds);
RengaErrorCode RengaChunkCloseGradients_Private(Chunk *chunk, const Pass *pass, int64_t number);
RengaErrorCode RengaChunkAdd_Private(void *user, RengaDataType type, int64_t count, void *y,
                                     const void *x);
RengaErrorCode RengaChunkReduceGradients_Private(Chunk *chunk, Pass *pass, int bucket);
RengaErrorCode RengaChunkCloseEarly_Private(Chunk *chunk, const Pass *pass);
/* gradientplaces.c */
RengaErrorCode RengaChunkPlaceLocal_Private(Chunk *chunk);
RengaErrorCode RengaChunkMoveLocal_Private(Chunk *chunk, Program *program);
/* reducescatter.c */
RengaErrorCode RengaChunkCountPartialSums_Private(const Chunk *chunk, int64_t microbatches,
                                                  int *buffers);
RengaErrorCode RengaChunkPrepareRounds_Private(Chunk *chunk, const Pass *pass);
RengaErrorCode RengaChunkEndRound_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkEndRounds_Private(Chunk *chunk, Pass *pass);
/* entry/sum.c */
RengaErrorCode RengaChunkOrderBuckets_Private(Chunk *chunk);
bool RengaChunkIsEarly_Private(const Chunk *chunk);
bool RengaChunkBeginsSums_Private(const Chunk *chunk, const RengaAction *action);
RengaErrorCode RengaChunkBeginRest_Private(Chunk *chunk, Pass *pass);
/* entry/values.c */
RengaErrorCode RengaChunkPrepareGathers_Private(Chunk *chunk);
RengaErrorCode RengaChunkBeginGather_Private(Chunk *chunk, const Pass *pass, int bucket);
RengaErrorCode RengaChunkAwaitValues_Private(Chunk *chunk);
RengaErrorCode RengaChunkEndOldGathers_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkGatherValues_Private(Chunk *chunk);
RengaErrorCode RengaPipelineAwaitShares_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineEndShares_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineAwaitValues_Private(RengaPipeline pipeline);
