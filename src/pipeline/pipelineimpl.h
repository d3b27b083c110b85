/* What files of the pipeline's room share: the rank and its passes (doc/design.md, 8 to 10). */
#pragma once
#include "chunk.h"
#include "renga/private/object.h"
#include "renga/private/span.h"

/* What all ranks must want alike to make a pass together. */
typedef enum { CALL_STEP, CALL_EVALUATE, CALL_FORWARD, CALL_COUNT } PipelineCall;
/* Values of a pass that counts; the last says who failed. */
enum { COUNT_UNEVEN, COUNT_SUMS, COUNT_VALUES };
enum {
  WANT_CALL,
  WANT_STEP,
  WANT_SAMPLES,
  WANT_RATE,
  WANT_SETTINGS,
  WANT_SCALE,
  WANT_OUTPUT,
  WANT_COUNT
};

/* What a rank says of a pass that failed. */
typedef struct {
  int64_t code, told; /* its own first error; whether it sent notices */
  int64_t torn;       /* whether its parameters are not those of one step */
  int64_t want[WANT_COUNT];
} Standing;
/* How ranks fail together. */
typedef struct {
  RengaComm side;        /* all ranks: notices of errors */
  Standing *standing;    /* [ranks] */
  bool *heard;           /* [ranks] whose notice of this pass was taken */
  RengaRequest *notice;  /* [ranks] on their way */
  RengaErrorCode broken; /* messages were left under way, or an update was */
  bool left;             /* messages were: MPI may still write */
  int64_t agree[4];      /* of an agreement, which a time limit leaves under way */
} Togetherness;
/* Tensors of this rank that live across steps. */
typedef struct {
  int count;
  RengaPersistent *row; /* [count] */
} Persistents;

/* What the last step said of single samples. */
typedef struct {
  double *values, *losses; /* losses: [samples][columns] in values */
  int64_t samples;
} SampleLosses;

/* All that set-up makes for this rank, and that is forgotten together. */
typedef struct {
  RengaComm all; /* all ranks */
  RengaTransport transport;
  int n_chunks; /* 0: an idle rank */
  Chunk *chunk; /* [n_chunks] */
  int n_moments;
  const char *const *moment; /* [n_moments] names, lent by the optimizer's type */
  char *arena;
  RengaStream copies; /* of inputs, where device memory is not the host's; else NULL */
  RengaEvent updated; /* behind the last update, where there is that stream; else NULL */
  bool updating;      /* nobody has waited for it yet */
  RengaPipelineMemory memory;
  Persistents persistents;
  bool seeded;    /* reverse mode begins with a scale of the loss */
  double scaled;  /* the scale that the last step's gradients have */
  bool rewritten; /* by others than updates, maybe: values are to be rounded from masters */
  bool gathering; /* the last step left gathers under way, on some ranks: the same on all */
  bool torn;      /* a gather has failed: some parameters are not those of the last step */
  Togetherness together;
  SampleLosses sample_losses;
  uint64_t checked; /* hash of what a step may find changed since the last one */
  int n_listed;
  RengaPipelineParameter *listed; /* of the network, once they were asked for */
} Rank;

/* forecasts.c: sizes of stages that were forecast, an object of their own */
typedef struct _p_Forecasts *Forecasts;

struct _p_RengaPipeline {
  struct _p_RengaObject hdr;
  RengaGraph graph;
  RengaPlan plan;
  RengaSettings settings;
  RengaDevice device;       /* lent by the settings */
  RengaOptimizer optimizer; /* lent by the settings */
  char *on_nonfinite;
  double loss_scale; /* of networks in fp16 (lossscale.c) */
  int64_t loss_scale_steps;
  RengaPipelineMonitor monitor;
  void *monitor_context; /* lent */
  int n_short;
  int64_t *short_batch;
  /* what came of steps */
  int64_t step, n_nonfinite;
  double norm;
  RengaPipelineStepInfo last; /* samples 0: there was none */
  Forecasts forecasts;        /* NULL before any is asked for */
  /* made by set-up; empty before it, and after an error of it */
  Outline *outline;
  Rank *rank;
};

/* This rank's chunk of a stage; NULL: it has none. */
static inline Chunk *RengaPipelineFindChunk_Private(RengaPipeline pipeline, int stage)
{
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    if (pipeline->rank->chunk[c].stage == stage) return &pipeline->rank->chunk[c];
  return NULL;
}

/* One pass over the micro-batches of a batch; chunks have their portions of it. */
typedef struct {
  ProgramKind kind;
  PipelineCall call;
  /* how the ranks stand to it (together.c) */
  RengaErrorCode code; /* the first error that this rank found */
  bool prepared;       /* this rank could prepare it */
  bool settled;        /* the agreement has come */
  bool refused;        /* and it says that the pass is not made */
  bool failed;         /* some rank failed: messages go on, nothing is computed */
  bool told;           /* this rank sent notices */
  bool taken;          /* all its work was waited for, but for the update */
  double listen;       /* MPI_Wtime when notices are looked for again */
  int64_t want[WANT_COUNT];
  RengaRequest agreement;
  /* prepared before the agreement, so that nothing is allocated later */
  int64_t n_values, n_actions;
  double *values;            /* [n_values] shares of the loss, sums of squares, ranks that failed */
  const RengaAction *action; /* [n_actions] of the schedule, or own */
  RengaAction *own;          /* what replicas that fold go through together; or NULL */
  const RengaBatch *batch;
  int64_t microbatches; /* of the batch */
  const int64_t *turn;  /* [microbatches] which of the batch each is (turns.c); NULL: as numbered */
  bool training;
  double *loss;          /* [microbatches] shares, in values; NULL: not wanted */
  double *sample_losses; /* [samples][columns] in values, of a step; NULL: not wanted */
  /* of a step, by its last action: loss, norm, and whether it may change anything */
  RengaPipelineStepInfo info;
  RengaErrorCode verdict;
  bool changes; /* parameters were to change: what follows the update is done */
} Pass;

/* The action is one of a micro-batch that only other replicas have (prepare.c). */
static inline bool RengaActionIsEmpty_Private(const Portion *portion, const RengaAction *action)
{
  return action->microbatch >= portion->last;
}

/* Known once the values are summed: some rank has failed. */
static inline bool RengaPassHasFailed_Private(const Pass *pass)
{
  return pass->values[pass->n_values - 1] > 0;
}

/* Where micro-batch number stands in the batch: what its samples, its results and its place in sums
   follow from. */
static inline int64_t RengaPassTurn_Private(const Pass *pass, int64_t number)
{
  return pass->turn ? pass->turn[number] : number;
}

/* Samples of micro-batch number. */
static inline int64_t RengaPassSamples_Private(RengaPipeline pipeline, const Pass *pass,
                                               int64_t number)
{
  const int64_t size = pipeline->outline->microbatch;
  const int64_t left = pass->batch->samples - RengaPassTurn_Private(pass, number) * size;
  return left < size ? left : size;
}

/* Which makes the sum the same wherever the numbers came from. */
static inline double RengaAddInOrder_Private(int64_t count, const double values[])
{
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

typedef enum {
  EVENT_SETUP,
  EVENT_SIZES,
  EVENT_PROLOGUE,
  EVENT_READ,
  EVENT_REPLAY,
  EVENT_FORWARD,
  EVENT_RECOMPUTE,
  EVENT_BACKWARD,
  EVENT_SEND,
  EVENT_RECEIVE,
  EVENT_EXCHANGE,
  EVENT_ACCUMULATE,
  EVENT_REDUCE,
  EVENT_GATHER,
  EVENT_TIED,
  EVENT_NORM,
  EVENT_UPDATE,
  EVENT_COUNT
} PipelineEvent;
/* Functions by file: event.c */
RengaErrorCode RengaPipelineRegisterEvents_Private(void);
RengaLogEvent RengaPipelineEvent_Private(PipelineEvent event);
RengaErrorCode RengaPipelineBeginTimed_Private(RengaPipeline pipeline, PipelineEvent event,
                                               RengaSpan *span);
RengaErrorCode RengaPipelineEndTimed_Private(RengaPipeline pipeline, PipelineEvent event,
                                             RengaSpan span, double flops, const char *name,
                                             RengaErrorCode code);
void RengaPipelineNameAction_Private(const RengaAction *action, size_t size, char name[]);
const char *RengaPipelineTrack_Private(RengaPipeline pipeline);
/* place.c: offsets by lifetime */
typedef struct {
  int64_t bytes, offset;
  int first, last; /* positions in the part's list of nodes, inclusive */
} Lifetime;
RengaErrorCode RengaPlaceLifetimes_Private(int count, Lifetime row[], int64_t *bytes);
/* outline.c: lends what the pipeline has */
RengaErrorCode RengaOutlineRead_Private(RengaPipeline pipeline, Outline *outline);
RengaErrorCode RengaOutlineFree_Private(Outline *outline);
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
/* differentiate.c */
RengaErrorCode RengaOutlineMakeStage_Private(const Outline *outline, int stage, RengaGraph *sub,
                                             Link link[]);
/* holders.c */
RengaErrorCode RengaChunkSetUpHolders_Private(Chunk *chunk);
RengaErrorCode RengaChunkIsTrained_Private(const Chunk *chunk, int parameter, bool *trained);
/* parameter.c */
RengaErrorCode RengaChunkPlaceParameters_Private(Chunk *chunk);
/* shard.c: own is [replicas] elements of the chunk's sharded parameters that each updates */
typedef struct {
  int all, shared; /* the shared ones are the first */
} BucketCounts;
BucketCounts RengaOutlineCountBuckets_Private(const Outline *outline, int stage);
RengaErrorCode RengaChunkCountShares_Private(const Chunk *chunk, int64_t own[]);
RengaErrorCode RengaChunkMakeShares_Private(Chunk *chunk, int bucket);
RengaErrorCode RengaChunkCountFold_Private(const Chunk *chunk, const int64_t own[], int64_t fold[]);
void RengaChunkRangeOfBucket_Private(const Chunk *chunk, int bucket, int64_t *first,
                                     int64_t *count);
int RengaChunkBucketAt_Private(const Chunk *chunk, ParameterRole role, int64_t at, int64_t *begin);
bool RengaChunkSharesMasters_Private(const Chunk *chunk);
/* entry/values.c */
RengaErrorCode RengaChunkPrepareGathers_Private(Chunk *chunk);
RengaErrorCode RengaChunkBeginGather_Private(Chunk *chunk, const Pass *pass, int bucket);
RengaErrorCode RengaChunkAwaitValues_Private(Chunk *chunk);
RengaErrorCode RengaChunkGatherValues_Private(Chunk *chunk);
RengaErrorCode RengaPipelineAwaitShares_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineEndShares_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineAwaitValues_Private(RengaPipeline pipeline);
/* offload.c */
bool RengaChunkOffloadsMoments_Private(const Chunk *chunk);
int64_t RengaChunkMomentBytes_Private(const Chunk *chunk, int64_t own);
int64_t RengaChunkOffloadedBytes_Private(const Chunk *chunk);
RengaErrorCode RengaChunkTakeOffload_Private(Chunk *chunk);
RengaErrorCode RengaChunkSetUpOffload_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueOffloaded_Private(Chunk *chunk, double scale);
RengaErrorCode RengaChunkFreeOffload_Private(Chunk *chunk);
/* what forward has saved of the micro-batch in place i: from the slot to the host, and back */
RengaErrorCode RengaChunkSendAway_Private(Chunk *chunk, int64_t i);
RengaErrorCode RengaChunkFetch_Private(Chunk *chunk, int64_t i);
/* rows.c */
RengaErrorCode RengaOutlineMarkRows_Private(Outline *outline);
RengaErrorCode RengaPipelineCheckRows_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineCheckLazy_Private(RengaPipeline pipeline);
RengaErrorCode RengaChunkFindRows_Private(Chunk *chunk);
void RengaChunkPlaceRows_Private(Chunk *chunk);
RengaErrorCode RengaChunkSetUpRows_Private(Chunk *chunk, char *base);
RengaErrorCode RengaChunkPrepareRows_Private(Chunk *chunk, int64_t microbatches, int64_t samples);
RengaErrorCode RengaChunkFreeRows_Private(Chunk *chunk);
/* rowsums.c */
RengaErrorCode RengaChunkTakeRows_Private(Chunk *chunk, const RengaAction *action);
RengaErrorCode RengaChunkBeginRows_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkEndRows_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkQueueRowSums_Private(Chunk *chunk);
void RengaChunkKeepRowSquares_Private(const Chunk *chunk, double squares[]);
void RengaChunkDescribeRows_Private(const Chunk *chunk, const Parameter *parameter,
                                    RengaParameterUpdate *update);
RengaErrorCode RengaChunkSpreadRows_Private(const Chunk *chunk, const Parameter *parameter,
                                            float gradient[]);
/* kernel.c */
RengaErrorCode RengaChunkGetKernel_Private(Chunk *chunk, const RengaGraphNode *node,
                                           const RengaTensorSpec spec[], int *number);
/* program.c */
RengaErrorCode RengaChunkGetProgram_Private(Chunk *chunk, ProgramKind kind, int64_t samples,
                                            RengaValue target, Program **program);
RengaErrorCode RengaChunkGetAdding_Private(Chunk *chunk, int64_t samples, Program **program);
RengaErrorCode RengaChunkFreePrograms_Private(Chunk *chunk);
/* chunk.c */
RengaErrorCode RengaChunkBegin_Private(Outline *outline, int stage, Chunk *chunk);
RengaErrorCode RengaChunkSetUp_Private(Chunk *chunk);
RengaErrorCode RengaChunkFree_Private(Chunk *chunk);
/* role.c */
int64_t RengaChunkStride_Private(const Chunk *chunk, int64_t count);
int64_t RengaChunkRoom_Private(const Chunk *chunk, int64_t count);
int64_t RengaChunkRoleBytes_Private(const Chunk *chunk, ParameterRole role, int64_t count);
int64_t RengaChunkParameterBytes_Private(const Chunk *chunk);
RengaErrorCode RengaLossScaleSetUp_Private(RengaPipeline pipeline);
double RengaLossScaleOf_Private(RengaPipeline pipeline);
RengaErrorCode RengaChunkQueueSeed_Private(Chunk *chunk);
bool RengaLossScaleOverflows_Private(RengaPipeline pipeline, const RengaPipelineStepInfo *info);
void RengaLossScaleHalve_Private(RengaPipeline pipeline);
void RengaLossScaleCount_Private(RengaPipeline pipeline);
bool RengaChunkIsWide_Private(const Chunk *chunk, const Parameter *parameter);
Place RengaChunkPlaceOf_Private(const Chunk *chunk, const Parameter *parameter);
RengaErrorCode RengaChunkRoundValues_Private(const Chunk *chunk);
RengaVector RengaChunkVectorOf_Private(const Chunk *chunk, const Parameter *parameter,
                                       ParameterRole role);
RengaVector RengaChunkShareOf_Private(const Chunk *chunk, const Parameter *parameter,
                                      ParameterRole role);
char *RengaChunkValuesAt_Private(const Chunk *chunk, int64_t place);
bool RengaChunkHoldsShare_Private(const Chunk *chunk, const Parameter *parameter,
                                  ParameterRole role);
/* saved.c: what becomes of a tensor of the network that backward reads */
RengaSaved RengaChunkGetPolicy_Private(const Chunk *chunk, const char *name);
/* sizes.c: micro-batches and gradient buffers of a replica, the most of all batches */
typedef struct {
  int64_t most_local;
  int n_buffers;
  int64_t own;    /* elements of sharded parameters that it updates */
  int64_t folded; /* elements of its blocks of gradients, where they are folded */
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
int64_t RengaChunkShareBytes_Private(const Chunk *chunk, int64_t own);
int64_t RengaChunkKeptBytes_Private(const Chunk *chunk, bool training);
RengaErrorCode RengaChunkCountLag_Private(Chunk *chunk); /* before it is compiled */
RengaErrorCode RengaChunkSizeStage_Private(Chunk *chunk);
RengaErrorCode RengaChunkSizeWorst_Private(Chunk *chunk, ShareTable *table,
                                           RengaPipelineMemory *worst);
void RengaFreeShares_Private(ShareTable *table);
RengaErrorCode RengaChunkSize_Private(Chunk *chunk);
/* together.c */
RengaErrorCode RengaPipelineCheckReady_Private(RengaPipeline pipeline, const char *function);
RengaErrorCode RengaPipelineCheckWhole_Private(RengaPipeline pipeline);
void RengaPipelineBreak_Private(RengaPipeline pipeline, RengaErrorCode code);
void RengaPipelineSpoil_Private(RengaPipeline pipeline, RengaErrorCode code);
RengaErrorCode RengaPipelineNote_Private(RengaPipeline pipeline, Pass *pass, RengaErrorCode code);
bool RengaPipelineTryAgain_Private(RengaPipeline pipeline, Pass *pass, RengaErrorCode code,
                                   int *attempt);
bool RengaPipelineHears_Private(RengaPipeline pipeline, Pass *pass, bool now);
RengaErrorCode RengaPipelineAskAll_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaPipelineSettle_Private(RengaPipeline pipeline, Pass *pass, bool wait);
RengaErrorCode RengaPipelineSumValues_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaPipelineFailTogether_Private(RengaPipeline pipeline, const Pass *pass);
/* tied.c */
int64_t RengaChunkTiedBytes_Private(const Chunk *chunk);
RengaErrorCode RengaPipelineExchangeTied_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaChunkSetUpTied_Private(Chunk *chunk);
bool RengaChunkExchanges_Private(const Chunk *chunk, int from, int to);
bool RengaChunkIsTied_Private(const Chunk *chunk, const Parameter *parameter);
RengaErrorCode RengaChunkFreeTied_Private(Chunk *chunk);
/* rank.c: back to what the pipeline was before set-up */
RengaErrorCode RengaPipelineForget_Private(RengaPipeline pipeline);
/* arena.c */
RengaErrorCode RengaPipelineSizeArena_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineSetUpArena_Private(RengaPipeline pipeline);
/* persistent.c */
RengaErrorCode RengaPipelineSetUpPersistents_Private(RengaPipeline pipeline);
/* agree.c */
RengaErrorCode RengaPipelineCheckAgreement_Private(RengaPipeline pipeline);
/* setup.c */
RengaErrorCode RengaPipelineCheckGroups_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineCheckParts_Private(RengaPipeline pipeline, int ranks);
RengaErrorCode RengaPipelineSetUpDevice_Private(RengaPipeline pipeline);
/* entry/link.c */
RengaErrorCode RengaChunkSetUpLinks_Private(Chunk *chunk);
RengaErrorCode RengaChunkPostReceives_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkReceive_Private(Chunk *chunk, Pass *pass, int row, int64_t i);
RengaErrorCode RengaChunkSend_Private(Chunk *chunk, Pass *pass, int row, int64_t i);
RengaErrorCode RengaChunkWaitSends_Private(Chunk *chunk, Pass *pass, int64_t i, bool backward);
RengaErrorCode RengaChunkFinishLinks_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkMakeParcels_Private(Chunk *chunk); /* the rings are known */
RengaErrorCode RengaChunkFreeParcels_Private(Chunk *chunk);
/* bucket.c */
typedef RengaErrorCode (*SumStart)(RengaComm comm, const RengaCommSumTask *task, RengaCommSum *sum);
size_t RengaChunkWorkOfBucket_Private(const Chunk *chunk);
RengaErrorCode RengaChunkStartTask_Private(Chunk *chunk, Pass *pass, GradientBucket *bucket,
                                           const RengaCommSumTask *task, SumStart start);
RengaErrorCode RengaChunkSetUpBuckets_Private(Chunk *chunk);
bool RengaChunkSumsFit_Private(Chunk *chunk, int64_t microbatches);
RengaErrorCode RengaChunkBeginBucket_Private(Chunk *chunk, Pass *pass, int bucket);
RengaErrorCode RengaChunkGatherBucket_Private(Chunk *chunk, Pass *pass, int bucket);
RengaErrorCode RengaChunkEndBucket_Private(Chunk *chunk, Pass *pass, int bucket);
RengaErrorCode RengaChunkEndBuckets_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkFreeBuckets_Private(Chunk *chunk);
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
/* local.c */
RengaErrorCode RengaChunkPlaceLocal_Private(Chunk *chunk);
RengaErrorCode RengaChunkMoveLocal_Private(Chunk *chunk, Program *program);
/* fold.c */
RengaErrorCode RengaChunkCountFolds_Private(const Chunk *chunk, int64_t microbatches, int *buffers);
RengaErrorCode RengaChunkPrepareFold_Private(Chunk *chunk, const Pass *pass);
RengaErrorCode RengaChunkEndRound_Private(Chunk *chunk, Pass *pass);
RengaErrorCode RengaChunkGatherFolded_Private(Chunk *chunk, Pass *pass);
/* window.c */
RengaErrorCode RengaChunkPlaceWindow_Private(Chunk *chunk);
RengaErrorCode RengaChunkMoveWindow_Private(Chunk *chunk, Program *program);
/* conflict.c */
bool RengaInstructionsConflict_Private(const Instruction *a, const Instruction *b);
RengaErrorCode RengaProgramPostpone_Private(Program *program);
/* touch.c */
RengaErrorCode RengaChunkFindTouched_Private(const Chunk *chunk, Program *program,
                                             ProgramPart part);
/* entry/gather.c */
RengaErrorCode RengaChunkSetUpFetches_Private(Chunk *chunk);
RengaErrorCode RengaChunkFreeFetches_Private(Chunk *chunk);
void RengaChunkBeginFetches_Private(Chunk *chunk);
RengaErrorCode RengaChunkEndFetches_Private(Chunk *chunk, Pass *pass);
/* entry/sum.c */
ProgramPart RengaChunkGradientPart_Private(const Chunk *chunk);
RengaErrorCode RengaChunkOrderBuckets_Private(Chunk *chunk);
bool RengaChunkIsEarly_Private(const Chunk *chunk);
bool RengaChunkBeginsSums_Private(const Chunk *chunk, const RengaAction *action);
RengaErrorCode RengaChunkBeginRest_Private(Chunk *chunk, Pass *pass);
/* state.c */
RengaErrorCode RengaChunkFreeStates_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueStatistics_Private(Chunk *chunk, const Program *program, int64_t row);
RengaErrorCode RengaChunkQueueStates_Private(Chunk *chunk);
void RengaChunkKeepStatistics_Private(Chunk *chunk, const Pass *pass);
RengaErrorCode RengaChunkSumStatistics_Private(Chunk *chunk, const Pass *pass);
RengaErrorCode RengaChunkUpdateStates_Private(Chunk *chunk, const Pass *pass);
/* updates.c: after the memory is there; after a change of groups */
RengaErrorCode RengaChunkSetUpUpdates_Private(Chunk *chunk);
RengaErrorCode RengaChunkFreeUpdates_Private(Chunk *chunk);
RengaErrorCode RengaChunkTakeGroups_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueSquares_Private(Chunk *chunk);
void RengaChunkKeepSquares_Private(Chunk *chunk, double squares[]);
RengaErrorCode RengaChunkSumSplitNorms_Private(Chunk *chunk, double squares[]);
RengaErrorCode RengaChunkQueueUpdates_Private(Chunk *chunk, double scale);
/* entry/update.c */
RengaErrorCode RengaPipelineRunUpdate_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaPipelineAwaitUpdate_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineEndOwnGathers_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaPipelineEndGathers_Private(RengaPipeline pipeline, Pass *pass);
/* prologue.c */
RengaErrorCode RengaChunkRunPrologue_Private(Chunk *chunk, Pass *pass);
void RengaPipelineCompareSums_Private(RengaPipeline pipeline, Pass *pass);
void RengaPipelineKeepCounts_Private(RengaPipeline pipeline, const Pass *pass);
/* input.c */
RengaErrorCode RengaChunkSetUpInputs_Private(Chunk *chunk);
RengaErrorCode RengaChunkReadFields_Private(Chunk *chunk, const Pass *pass, const Program *program,
                                            int64_t i, int64_t number);
RengaErrorCode RengaChunkReleaseInputs_Private(Chunk *chunk, int64_t i);
RengaErrorCode RengaChunkFreeInputs_Private(Chunk *chunk);
/* result.c */
RengaErrorCode RengaChunkPrepareResults_Private(Chunk *chunk, bool losses, bool statistics);
RengaErrorCode RengaChunkFreeResults_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueResults_Private(Chunk *chunk, const Pass *pass,
                                              const Program *program, int64_t i);
RengaErrorCode RengaPipelineTakeResults_Private(RengaPipeline pipeline, Pass *pass);
void RengaPipelineEndWork_Private(RengaPipeline pipeline);
/* All work of the default stream, within the time limit. */
RengaErrorCode RengaPipelineAwaitDevice_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineAwaitEvent_Private(RengaPipeline pipeline, RengaEvent event);
/* route.c */
RengaErrorCode RengaPipelineConnect_Private(RengaPipeline pipeline);
/* run.c */
void RengaChunkSetBases_Private(Chunk *chunk, bool training, int64_t i);
RengaKernelContext RengaChunkContext_Private(const Chunk *chunk, const Pass *pass, int64_t number);
RengaErrorCode RengaPipelineRunPass_Private(RengaPipeline pipeline, Pass *pass);
/* entry/part.c */
RengaErrorCode RengaChunkRunPart_Private(Chunk *chunk, Pass *pass, const Program *program,
                                         ProgramPart part, const RengaKernelContext *context);
/* entry/list.c */
RengaErrorCode RengaChunkListProgram_Private(const Chunk *chunk, Program *program);
/* entry/recording.c */
RengaErrorCode RengaChunkForgetRecordings_Private(const Chunk *chunk, Entry *entry);
/* samplelosses.c */
int64_t RengaOutlineSampleColumns_Private(const Outline *outline);
RengaErrorCode RengaChunkFindSampleLosses_Private(Chunk *chunk);
RengaErrorCode RengaChunkQueueSampleLosses_Private(Chunk *chunk, const Pass *pass,
                                                   const Program *program, int64_t number);
void RengaChunkKeepSampleLosses_Private(const Chunk *chunk, const Pass *pass);
void RengaPipelineKeepSampleLosses_Private(RengaPipeline pipeline, Pass *pass);
/* prepare.c */
RengaErrorCode RengaPipelinePrepare_Private(RengaPipeline pipeline, Pass *pass);
/* pass.c */
RengaErrorCode RengaPipelineRunTogether_Private(RengaPipeline pipeline, Pass *pass);
void RengaPipelineFreePass_Private(RengaPipeline pipeline, Pass *pass);
/* outcome.c */
RengaErrorCode RengaPipelineJudge_Private(RengaPipeline pipeline, RengaPipelineStepInfo *info);
/* inspect.c */
RengaErrorCode RengaPipelineTransfer_Private(RengaPipeline pipeline, void *buffer, size_t bytes,
                                             int from, int to, const char *what);
