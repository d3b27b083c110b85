/* What the files of the pipeline's room share. doc/design.md, section 4, is the map. */
#pragma once
#include "renga/private/object.h"
#include "renga/private/settings.h"
#include "rengacomm.h"
#include "rengapipeline.h"
#include "rengaschedule.h"

enum { PIPELINE_ALIGNMENT = 64 };
static inline int64_t RengaAlign_Private(int64_t bytes)
{
  return (bytes + PIPELINE_ALIGNMENT - 1) / PIPELINE_ALIGNMENT * PIPELINE_ALIGNMENT;
}

/* Where a tensor lies: bytes after the base of a region. The bases are set for each action. */
enum {
  REGION_ABSENT = -1,
  REGION_PERSISTENT, /* parameters, states, constants, sums over the batch */
  REGION_FOLDED,     /* what depends on constants and the micro-batch's size only */
  REGION_GRADIENTS,  /* the buffer that this micro-batch's gradients are written or added to */
  REGION_SAVED,      /* this micro-batch's slot; the only one where the stage recomputes */
  REGION_SENT,       /* this micro-batch's slot of what is sent, where the stage recomputes */
  REGION_TEMPORARY,
  REGION_INPUTS,  /* this micro-batch's slot */
  REGION_MESSAGE, /* + row of the message table: this micro-batch's instance */
};
typedef struct {
  int region;
  int64_t offset;
} Place;

typedef enum {
  INSTRUCTION_KERNEL,
  INSTRUCTION_COPY,
  INSTRUCTION_ADD,
  INSTRUCTION_ZERO
} InstructionKind;
typedef struct {
  InstructionKind kind;
  RengaKernel kernel; /* lent by the table of kernels */
  int n_in, n_out;
  Place *place; /* [n_in + n_out] inputs, then outputs */
  Place workspace;
  int64_t bytes; /* of copy, add and zero */
} Instruction;
typedef struct {
  int count;
  Instruction *row;
  double flops;
} Sequence;

/* A stage compiled for one micro-batch size. */
typedef enum { PROGRAM_TRAINING, PROGRAM_EVALUATION, PROGRAM_PROLOGUE } ProgramKind;
typedef enum { PART_NONE = -1, PART_CONSTANT, PART_FORWARD, PART_BACKWARD, PART_COUNT } ProgramPart;
typedef struct {
  ProgramKind kind;
  int64_t samples;
  bool adds;             /* gradients of parameters are added to those that are there */
  RengaValue target;     /* of evaluation: a value that is wanted besides what is sent, or NONE */
  RengaTensorSpec *spec; /* [values] concrete */
  Place *place;          /* [values] */
  bool *reads;           /* [fields] whether the stage's field is needed */
  bool uses_sums;        /* some sum over the batch is needed */
  Sequence part[PART_COUNT];
  int64_t folded_bytes, saved_bytes, sent_bytes, temporary_bytes;
} Program;

typedef struct {
  const RengaGraphNode *node; /* whose operator and attributes it has */
  RengaTensorSpec *spec;      /* [n_in + n_out] */
  uint64_t hash;
  RengaKernel kernel;
  double flops;
} KernelRow;

/* A row of the message table that this rank sends or receives. */
typedef struct {
  bool active, incoming;
  int other;             /* stage */
  RengaValue value;      /* what is sent or where it arrives, in the stage's graph */
  RengaTensorSpec spec;  /* symbolic */
  int ring;              /* instances */
  int64_t bytes;         /* of an instance */
  char *base;            /* of the ring; NULL: sent from the saved slot */
  RengaRequest *request; /* [ring] */
  int64_t posted;        /* receives posted in this pass */
} Link;

/* A field of the data set that this stage reads. */
typedef struct {
  RengaValue value; /* in the stage's graph */
  int field;        /* number among the network's inputs */
  int64_t offset;   /* in a slot */
} Field;

/* A parameter of this stage. Gradients are floats [gradient, gradient + count) of a buffer; the
   uses of the parameter follow each other there, each padded to `stride`. */
typedef struct {
  RengaValue value, whole; /* in the stage's graph, in the network */
  const char *name;
  int64_t count, stride;
  int64_t offset, gradient; /* floats, in the parameters and in a gradient buffer */
  int n_uses;               /* in this stage */
  bool trained;             /* not frozen, and some stage has a gradient for it */
  bool owner;
  int number; /* among all parameters of the network: the canonical order */
} Parameter;

/* A scalar that is summed over the whole batch before the first forward. */
typedef struct {
  RengaValue share, sum;
  int64_t offset; /* bytes in REGION_PERSISTENT */
} BatchSum;

typedef struct {
  int64_t microbatches; /* of the step */
  bool forward_only;
  RengaSchedule schedule;
  int64_t *place; /* of each of this replica's numbers, in the order of its work */
} ScheduleRow;

/* The most micro-batches and gradient buffers of a replica, of all batches that may come. */
typedef struct {
  int64_t most_local;
  int n_buffers;
} ReplicaShare;
typedef struct {
  int replicas, count;
  ReplicaShare *row;
} ReplicaShares;

/* What all ranks must want alike to make a pass together. */
typedef enum { CALL_STEP, CALL_EVALUATE, CALL_FORWARD } PipelineCall;
enum { WANT_CALL, WANT_STEP, WANT_SAMPLES, WANT_RATE, WANT_SETTINGS, WANT_OUTPUT, WANT_COUNT };

/* What a rank says of a pass that failed. */
typedef struct {
  int64_t code, told; /* its own first error; whether it sent notices */
  int64_t want[WANT_COUNT];
} Standing;

/* ask.c: sizes of stages that were forecast, an object of their own */
typedef struct _p_Forecasts *Forecasts;

struct _p_RengaPipeline {
  struct _p_RengaObject hdr;
  RengaGraph graph;
  RengaPlan plan;
  RengaSettings settings;
  RengaDevice device;       /* lent by the settings */
  RengaOptimizer optimizer; /* lent by the settings */
  char *on_nonfinite;
  RengaPipelineMonitor monitor;
  void *monitor_context; /* lent */
  int n_short;
  int64_t *short_batch;
  /* what came of steps */
  int64_t step, n_nonfinite;
  double norm;
  RengaPipelineStepInfo last; /* samples 0: there was none */
  Forecasts forecasts;        /* NULL before any is asked for */
  /* Everything from here on is made by set-up, and forgotten together
     (RengaPipelineForget_Private). */
  int stages, replicas, stage, replica; /* replicas: of the stage; stage -1: an idle rank */
  bool recompute;                       /* the stage runs forward again before each backward */
  int64_t batch, microbatch, leaf;      /* samples, samples, micro-batches */
  RengaComm all, group;                 /* all ranks; the replicas of this stage */
  /* the stage */
  RengaGraph sub;
  RengaValue loss; /* in sub; NONE where it is not here */
  bool has_loss;   /* the network has one */
  int n_messages, n_fields, n_parameters, n_sums, n_uses, n_updates, n_states;
  RengaMessage *message;
  Link *link; /* [n_messages] */
  Field *field;
  Parameter *parameter;
  BatchSum *sum;
  const RengaParameterUse *use;   /* lent by sub */
  const RengaStateUpdate *update; /* lent by sub */
  int64_t *use_place;             /* [n_uses] float offset in a gradient buffer; -1: not wanted */
  RengaValue *state;              /* [n_states] in sub */
  int64_t *state_offset;          /* [n_states] bytes in REGION_PERSISTENT */
  int n_network;                  /* parameters of the network */
  int64_t *holds;                 /* [n_parameters][stages] 0: not there, else 1 + uses */
  int64_t statistics;             /* elements of all batch statistics of a micro-batch */
  int n_schedules;
  ScheduleRow *schedule;
  /* compiled */
  int n_kernels, n_programs, largest; /* largest: most arguments of a kernel */
  KernelRow *kernel;
  int n_kernel_slots, *kernel_slot; /* power of two; numbers of kernels by their hash, -1: free */
  Program **program;
  const Program *folded; /* whose constants are in REGION_FOLDED */
  Place *value_place; /* [values of sub] parameters, states, constants, inputs, arriving messages */
  const void **argument; /* [largest] */
  /* memory */
  char *arena;
  int slots;
  int64_t input_bytes, folded_bytes, persistent_bytes;
  int64_t instance_bytes[2]; /* of one instance of all messages: forward ones, gradients */
  /* [1] in training, [0] in evaluation and the prologue, which share the memory of slots and
     temporary tensors in another way */
  int64_t slot_bytes[2], sent_bytes[2], temporary_bytes[2];
  char *persistent_base, *folded_base, *moment_base, *saved_base, *input_base;
  float *gradient_base;
  char *tree_work, *tied_work;
  int n_buffers, n_moments;
  const char *const *moment;               /* [n_moments] names, lent by the optimizer's type */
  int64_t gradient_count, parameter_count; /* floats of a gradient buffer, of all parameters */
  size_t tree_work_bytes;
  int64_t adding_bytes; /* temporary, of training that adds gradients to others */
  int64_t tied_bytes;
  RengaPipelineMemory memory;
  int n_shares;
  ReplicaShares *shares; /* [n_shares] by the number of replicas */
  char **base;           /* [REGION_MESSAGE + n_messages] of the running action */
  /* gradients of the running step */
  int n_pieces, taken;    /* taken: the piece that the running backward writes or adds to */
  RengaPartialSum *piece; /* [n_buffers] */
  float *gradient;        /* the whole sum */
  bool gradient_valid;
  /* persistents */
  int n_persistents;
  RengaPersistent *persistent;
  /* how ranks fail together */
  RengaComm side;         /* all ranks: notices of errors */
  uint64_t checked;       /* hash of what a step may find changed since the last one */
  Standing *standing;     /* [ranks] */
  bool *heard;            /* [ranks] whose notice of this pass was taken */
  RengaRequest *notice;   /* [ranks] on their way */
  RengaErrorCode broken;  /* messages were left under way, or an update was */
  int64_t *leaf_bounds;   /* [replicas + 1] of the sum over the replicas */
  RengaRequest *exchange; /* of one tied parameter */
  int n_listed;
  RengaPipelineParameter *listed; /* of the network, once they were asked for */
};

/* One pass over the micro-batches of a batch. */
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
  double listen;       /* MPI_Wtime when notices are looked for again */
  int64_t want[WANT_COUNT], agree[3];
  RengaRequest agreement;
  /* prepared before the agreement, so that nothing is allocated later */
  int64_t n_values, n_actions;
  double *values; /* [n_values] shares of the loss, sums of squares, ranks that failed */
  const RengaAction *action;
  double *share;  /* [sums][microbatches] of the prologue */
  float *scratch; /* [statistics] */
  RengaValue target;
  const RengaBatch *batch;
  int64_t microbatches, first, last; /* of the batch; this replica has numbers [first, last) */
  const int64_t
      *order; /* [last - first] the numbers as this replica works through them; below, i is
                           a place there */
  const int64_t *place; /* [last - first] of number first, first + 1, … */
  int64_t forward_done, backward_done;
  bool training;
  double *loss;       /* [microbatches] shares, in values */
  double *statistics; /* [microbatches][elements] or NULL */
  char *output;       /* of evaluation: the target of this replica's micro-batches, or NULL */
} Pass;

typedef enum {
  EVENT_SETUP,
  EVENT_PROLOGUE,
  EVENT_READ,
  EVENT_FORWARD,
  EVENT_RECOMPUTE,
  EVENT_BACKWARD,
  EVENT_SEND,
  EVENT_RECEIVE,
  EVENT_ACCUMULATE,
  EVENT_REDUCE,
  EVENT_TIED,
  EVENT_NORM,
  EVENT_UPDATE,
  EVENT_COUNT
} PipelineEvent;
RengaLogEvent RengaPipelineEvent_Private(PipelineEvent event);

/* inspect.c */
RengaErrorCode RengaPipelineTransfer_Private(RengaPipeline pipeline, void *buffer, size_t bytes,
                                             int from, int to, const char *what);
/* setup.c, agree.c, stage.c */
RengaErrorCode RengaPipelineCheckGroups_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineCheckAgreement_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineCheckParts_Private(RengaPipeline pipeline, int ranks);
RengaErrorCode RengaPipelineSetUpDevice_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineReadPlan_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineSetUpStage_Private(RengaPipeline pipeline, int stage);
RengaErrorCode RengaPipelineDifferentiate_Private(RengaPipeline pipeline, int stage, RengaGraph sub,
                                                  Link link[]);
/* holders.c */
RengaErrorCode RengaPipelineSetUpHolders_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineIsTrained_Private(RengaPipeline pipeline, int parameter, bool *trained);
/* pipeline.c: back to what it was before set-up; */
RengaErrorCode RengaPipelineForget_Private(RengaPipeline pipeline);
/* plan, device, optimizer and options of another, not set up */
RengaErrorCode RengaPipelineCopy_Private(RengaPipeline pipeline, RengaPipeline *copy);
/* link.c */
RengaErrorCode RengaPipelineSetUpLinks_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelinePostReceives_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaPipelineReceive_Private(RengaPipeline pipeline, Pass *pass, int row, int64_t i);
RengaErrorCode RengaPipelineSend_Private(RengaPipeline pipeline, Pass *pass, int row, int64_t i);
RengaErrorCode RengaPipelineWaitSends_Private(RengaPipeline pipeline, Pass *pass, int64_t i,
                                              bool backward);
RengaErrorCode RengaPipelineFinishLinks_Private(RengaPipeline pipeline, Pass *pass);
/* lists.c */
RengaErrorCode RengaPipelineGetShape_Private(RengaPipeline pipeline, int64_t microbatches,
                                             bool forward_only, RengaSchedule *schedule);
RengaErrorCode RengaPipelineGetSchedule_Private(RengaPipeline pipeline, int64_t microbatches,
                                                bool forward_only, RengaSchedule *schedule);
RengaErrorCode RengaPipelineGetOrder_Private(RengaPipeline pipeline, int64_t microbatches,
                                             bool forward_only, const int64_t **order,
                                             const int64_t **place);
void RengaPipelineRange_Private(RengaPipeline pipeline, int64_t microbatches, int64_t *first,
                                int64_t *last);
RengaErrorCode RengaPipelineCountTreeBuffers_Private(RengaPipeline pipeline, int64_t microbatches,
                                                     int *buffers);
/* program.c, place.c, kernel.c */
RengaErrorCode RengaPipelineGetProgram_Private(RengaPipeline pipeline, ProgramKind kind,
                                               int64_t samples, RengaValue target,
                                               Program **program);
RengaErrorCode RengaPipelineGetAdding_Private(RengaPipeline pipeline, int64_t samples,
                                              Program **program);
RengaErrorCode RengaPipelineGetKernel_Private(RengaPipeline pipeline, const RengaGraphNode *node,
                                              const RengaTensorSpec spec[], int *number);
RengaErrorCode RengaProgramDestroy_Private(Program **program);
int64_t RengaPipelineSamples_Private(RengaPipeline pipeline, const Pass *pass, int64_t number);
/* place.c: offsets by lifetime */
typedef struct {
  int64_t bytes, offset;
  int first, last; /* positions in the part's list of nodes, inclusive */
} Lifetime;
RengaErrorCode RengaPlaceLifetimes_Private(int count, Lifetime row[], int64_t *bytes);
/* forecast.c, arena.c */
RengaErrorCode RengaPipelineSizeStage_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineSizeWorst_Private(RengaPipeline pipeline, RengaPipelineMemory *worst);
int64_t RengaPipelineKeptBytes_Private(RengaPipeline pipeline, bool training);
RengaErrorCode RengaPipelineSize_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineSetUpArena_Private(RengaPipeline pipeline);
/* persistent.c */
RengaErrorCode RengaPipelineSetUpPersistents_Private(RengaPipeline pipeline);
/* gradient.c, tied.c */
RengaErrorCode RengaPipelineBeginGradients_Private(RengaPipeline pipeline);
int64_t RengaPipelineLeaves_Private(RengaPipeline pipeline, int64_t microbatches);
RengaErrorCode RengaPipelineTakeGradients_Private(RengaPipeline pipeline, const Pass *pass,
                                                  int64_t number, bool *adds);
RengaErrorCode RengaPipelineCloseGradients_Private(RengaPipeline pipeline, const Pass *pass,
                                                   int64_t number);
RengaErrorCode RengaPipelineReduceGradients_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaPipelineExchangeTied_Private(RengaPipeline pipeline, Pass *pass);
int64_t RengaPipelineTiedBytes_Private(RengaPipeline pipeline);
bool RengaPipelineIsOrdered_Private(RengaPipeline pipeline);
/* prologue.c */
RengaErrorCode RengaPipelineRunPrologue_Private(RengaPipeline pipeline, Pass *pass);
/* together.c */
RengaErrorCode RengaPipelineCheckReady_Private(RengaPipeline pipeline);
RengaErrorCode RengaPipelineBreak_Private(RengaPipeline pipeline, RengaErrorCode code);
RengaErrorCode RengaPipelineNote_Private(RengaPipeline pipeline, Pass *pass, RengaErrorCode code);
bool RengaPipelineTryAgain_Private(RengaPipeline pipeline, Pass *pass, RengaErrorCode code,
                                   int *attempt);
bool RengaPipelineHears_Private(RengaPipeline pipeline, Pass *pass, bool now);
RengaErrorCode RengaPipelineSettle_Private(RengaPipeline pipeline, Pass *pass, bool wait);
RengaErrorCode RengaPipelineRunTogether_Private(RengaPipeline pipeline, Pass *pass);
/* prepare.c */
RengaErrorCode RengaPipelinePrepare_Private(RengaPipeline pipeline, Pass *pass);
void RengaPipelineFreePass_Private(Pass *pass);
/* step.c */
RengaErrorCode RengaPipelineFindNorms_Private(RengaPipeline pipeline, Pass *pass);
/* outcome.c */
RengaErrorCode RengaPipelineJudge_Private(RengaPipeline pipeline, RengaPipelineStepInfo *info);
/* run.c */
RengaErrorCode RengaPipelineRunPart_Private(RengaPipeline pipeline, Pass *pass, Program *program,
                                            ProgramPart part, const RengaKernelContext *context);
RengaErrorCode RengaPipelineReadFields_Private(RengaPipeline pipeline, const Pass *pass,
                                               const Program *program, int64_t number);
void RengaPipelineSetBases_Private(RengaPipeline pipeline, bool training, int64_t i);
RengaKernelContext RengaPipelineContext_Private(RengaPipeline pipeline, const Pass *pass,
                                                int64_t number);
RengaErrorCode RengaPipelineRunPass_Private(RengaPipeline pipeline, Pass *pass);
/* state.c */
RengaErrorCode RengaPipelineKeepStatistics_Private(RengaPipeline pipeline, Pass *pass,
                                                   const Program *program, int64_t number);
RengaErrorCode RengaPipelineSumStatistics_Private(RengaPipeline pipeline, Pass *pass);
RengaErrorCode RengaPipelineUpdateStates_Private(RengaPipeline pipeline, const Pass *pass);
void *RengaPipelineAt_Private(RengaPipeline pipeline, Place place);
