/* Trainer: steps over a data set from the first to the last, with evaluations and checkpoints. */
#pragma once
#include "rengacheckpoint.h"
#include "rengapartition.h"

RENGA_BEGIN_DECLS

/* Trains a network over a data set, as one or as learners of local SGD. */
typedef struct _p_RengaTrainer *RengaTrainer;

/* How a run goes; see RengaTrainerSetRules. */
typedef struct {
  int64_t steps;          /* number of the last one */
  int64_t eval_every;     /* steps between evaluations; 0: after the last alone */
  int64_t eval_samples;   /* of the validation part, at most; 0: all */
  int64_t early_stop;     /* evaluations without a smaller loss that end the run; 0: never */
  bool keep_best;         /* the checkpoint with the least validation loss stays, as best.h5 */
  int64_t rollback_limit; /* rollbacks after steps that are not finite, before it is an error */
  int learners;           /* of local SGD; 0: none */
  char average[24];       /* "sync"; of learners: "local:K" or "gossip:K", every K steps */
} RengaTrainerRules;
/* One step. */
typedef struct {
  int64_t step; /* 0-based: this many steps were done before */
  double loss, learning_rate, gradient_norm, seconds; /* learning_rate: before groups */
  int64_t samples, skipped; /* skipped: steps so far that were not finite */
  bool whole;               /* it had the samples of a whole batch, and was finite */
} RengaTrainerRow;
/* How far an evaluation is. */
typedef struct {
  const RengaBatch *batch; /* that was just evaluated; NULL: the first comes now */
  int64_t done, samples;   /* of the samples of this part */
  int64_t batches;         /* done */
} RengaTrainerProgress;
/* What a program hears of a run, on every rank. Members may be NULL; an error of one rank ends the
   run on all. */
typedef struct {
  RengaErrorCode (*begin_step)(void *user, int64_t step);         /* before a step that trains */
  RengaErrorCode (*step)(void *user, const RengaTrainerRow *row); /* after it */
  RengaErrorCode (*evaluating)(void *user,
                               const RengaTrainerProgress *progress); /* around its batches */
  /* The loss over so many samples of the validation part, after so many steps. */
  RengaErrorCode (*evaluated)(void *user, double loss, int64_t step, int64_t samples);
  RengaErrorCode (*say)(void *user, const char *sentence); /* ends with a newline */
  void *user;                                              /* handed to each of them */
} RengaTrainerMonitor;
/* Where a trainer's samples come from in place of its data set: see RengaDataRead. */
typedef RengaErrorCode (*RengaTrainerReader)(void *user, RengaDataPart part, int field,
                                             int64_t epoch, int64_t first, int64_t count,
                                             void *buffer);
/* What a trainer works with, lent. */
typedef struct {
  RengaGraph graph;           /* the network */
  RengaData data;             /* its samples */
  RengaPlan plan;             /* of a learner; NULL: not set */
  RengaPipeline pipeline;     /* the first of this rank's learners */
  RengaCheckpoint checkpoint; /* NULL: not set */
  RengaComm ranks;            /* of the group that the pipeline runs on */
  int group;                  /* its number; 0 where there are no learners */
  int64_t batch;              /* samples of a step, of all learners */
  int64_t eval_samples;       /* of an evaluation */
} RengaTrainerParts;
/* How far a run is. */
typedef struct {
  int64_t step;         /* done so far, those before a resume included */
  int64_t timed_steps;  /* of this run without the first, which warms up */
  double timed_seconds; /* of these */
  double best;          /* the least validation loss, HUGE_VAL: there was none */
  int64_t best_step;    /* after which step */
  bool stopped;         /* asked to leave, or the time is up, before the last step */
  bool time_is_up;      /* of -time_limit */
  bool unsaved;         /* the last checkpoint is missing */
  bool failed;          /* after an error: all ranks have it, and may destroy the checkpoint */
} RengaTrainerStatus;

RengaErrorCode RengaTrainerCreate(RengaComm comm, RengaTrainer *trainer);
RengaErrorCode RengaTrainerSetRules(RengaTrainer trainer, const RengaTrainerRules *rules);
RengaErrorCode RengaTrainerGetRules(RengaTrainer trainer, RengaTrainerRules *rules);
RengaErrorCode RengaTrainerSetFromOptions(RengaTrainer trainer);
RengaErrorCode RengaTrainerAddMonitor(RengaTrainer trainer, const RengaTrainerMonitor *monitor);
RengaErrorCode RengaTrainerSetData(RengaTrainer trainer, RengaGraph graph, RengaData data);
RengaErrorCode RengaTrainerSetReader(RengaTrainer trainer, RengaTrainerReader reader, void *user);
/* Either a pipeline that is set up, with its batch; or a partition that is to find the plan of a
   learner, and that plan, which RengaTrainerSetUp makes pipelines of. */
RengaErrorCode RengaTrainerSetPipeline(RengaTrainer trainer, RengaPipeline pipeline, int64_t batch);
RengaErrorCode RengaTrainerSetPartition(RengaTrainer trainer, RengaPartition partition);
RengaErrorCode RengaTrainerSetPlan(RengaTrainer trainer, RengaPlan plan);
RengaErrorCode RengaTrainerSetUp(RengaTrainer trainer);
RengaErrorCode RengaTrainerGetParts(RengaTrainer trainer, RengaTrainerParts *parts);
RengaErrorCode RengaTrainerSetCheckpoint(RengaTrainer trainer, RengaCheckpoint checkpoint);
RengaErrorCode RengaTrainerResume(RengaTrainer trainer, bool *found, int64_t *step);
/* Collective. */
RengaErrorCode RengaTrainerRun(RengaTrainer trainer);
RengaErrorCode RengaTrainerStep(RengaTrainer trainer);
RengaErrorCode RengaTrainerEvaluate(RengaTrainer trainer, const int64_t samples[2], double *loss);
RengaErrorCode RengaTrainerGetStatus(RengaTrainer trainer, RengaTrainerStatus *status);
RengaErrorCode RengaTrainerView(RengaTrainer trainer, RengaViewer viewer);
RengaErrorCode RengaTrainerDestroy(RengaTrainer *trainer);

RENGA_END_DECLS
