/* What files of the pipeline's room share: the rank and its passes (doc/design.md, 8 to 10). */
#pragma once
#include "memory.h"
#include "portion.h"
#include "renga/private/kernel.h"
#include "renga/private/object.h"
#include "renga/private/span.h"
#include "renga/private/sums.h"

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
  StepGate *gate;     /* NULL: updates are queued once the host knows loss and norm */
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
  RengaNonfinite on_nonfinite;
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
struct _p_Pass {
  ProgramKind kind;
  PipelineCall call;
  /* how the ranks stand to it (allornone.c) */
  RengaErrorCode code; /* the first error that this rank found */
  bool prepared;       /* this rank could prepare it */
  bool settled;        /* the agreement has come */
  bool refused;        /* and it says that the pass is not made */
  bool failed;         /* some rank failed: messages go on, nothing is computed */
  bool told;           /* this rank sent notices */
  bool taken;          /* all its work was waited for, but for the update */
  RengaEvent judged;   /* updates are queued behind it and a gate (gate.c); NULL: not yet */
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
  const int64_t *turn;  /* [microbatches] number in the batch (microbatchorder.c); NULL: as it is */
  bool training;
  double *loss;          /* [microbatches] shares, in values; NULL: not wanted */
  double *sample_losses; /* [samples][columns] in values, of a step; NULL: not wanted */
  /* of a step, by its last action: loss, norm, and whether it may change anything */
  RengaPipelineStepInfo info;
  RengaErrorCode verdict;
  bool changes; /* parameters were to change: what follows the update is done */
};

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

static inline RengaKernelContext RengaChunkContext_Private(const Chunk *chunk, const Pass *pass,
                                                           int64_t number)
{
  return (RengaKernelContext){.seed = (uint64_t)chunk->outline->settings->seed,
                              .step = chunk->pipeline->step,
                              .sample =
                                  RengaPassTurn_Private(pass, number) * chunk->outline->microbatch,
                              .samples = RengaPassSamples_Private(chunk->pipeline, pass, number),
                              .training = pass->training};
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

/* event.c */
RengaErrorCode RengaPipelineRegisterEvents_Private(void);
RengaLogEvent RengaPipelineEvent_Private(PipelineEvent event);
RengaErrorCode RengaPipelineBeginTimed_Private(RengaPipeline pipeline, PipelineEvent event,
                                               RengaSpan *span);
RengaErrorCode RengaPipelineEndTimed_Private(RengaPipeline pipeline, PipelineEvent event,
                                             RengaSpan span, double flops, const char *name,
                                             RengaErrorCode code);
void RengaPipelineNameAction_Private(const RengaAction *action, size_t size, char name[]);
const char *RengaPipelineTrack_Private(RengaPipeline pipeline);
/* allornone.c */
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
/* rank.c: back to what the pipeline was before set-up */
RengaErrorCode RengaPipelineForget_Private(RengaPipeline pipeline);
/* persistent.c */
RengaErrorCode RengaPipelineSetUpPersistents_Private(RengaPipeline pipeline);
/* agree.c */
RengaErrorCode RengaPipelineCheckAgreement_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineAgreeOnChoices_Private(RengaPipeline pipeline);
/* setup.c */
RengaErrorCode RengaPipelineCheckGroups_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineCheckParts_Private(RengaPipeline pipeline, int ranks);
RengaErrorCode RengaPipelineSetUpDevice_Private(RengaPipeline pipeline);
/* route.c */
RengaErrorCode RengaPipelineConnect_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineCheckChannels_Private(RengaPipeline pipeline, const Pass *pass);
/* run.c */
void RengaChunkSetBases_Private(Chunk *chunk, bool training, int64_t i);
RengaErrorCode RengaPipelineRunPass_Private(RengaPipeline pipeline, Pass *pass);
/* entry/part.c */
RengaErrorCode RengaChunkRunPart_Private(Chunk *chunk, Pass *pass, const Program *program,
                                         ProgramPart part, const RengaKernelContext *context);
/* prepare.c */
RengaErrorCode RengaPipelinePrepare_Private(RengaPipeline pipeline, Pass *pass);
/* pass.c */
RengaErrorCode RengaPipelineRunTogether_Private(RengaPipeline pipeline, Pass *pass);
void RengaPipelineFreePass_Private(RengaPipeline pipeline, Pass *pass);
/* nonfinite.c */
RengaErrorCode RengaPipelineJudge_Private(RengaPipeline pipeline, RengaPipelineStepInfo *info);
/* inspect.c */
RengaErrorCode RengaPipelineTransfer_Private(RengaPipeline pipeline, void *buffer, size_t bytes,
                                             int from, int to, const char *what);
/* lossscale.c */
RengaErrorCode RengaLossScaleSetUp_Private(RengaPipeline pipeline);
double RengaLossScaleOf_Private(RengaPipeline pipeline);
RengaErrorCode RengaChunkQueueSeed_Private(Chunk *chunk);
bool RengaLossScaleOverflows_Private(RengaPipeline pipeline, const RengaPipelineStepInfo *info);
void RengaLossScaleHalve_Private(RengaPipeline pipeline);
void RengaLossScaleCount_Private(RengaPipeline pipeline);
