/* A trainer: its parts, the learners, what hides samples, and how far the run is. */
#pragma once
#include "learners.h"
#include "renga/private/object.h"

enum { RENGA_TRAINER_MONITORS = 8 };

/* hiding.c: the samples that matter least are left out (-data_hide). */
typedef struct {
  RengaData data; /* lent */
  bool on;
  int64_t batch, samples, steps, epochs; /* samples and steps of an epoch */
  RengaDataEpoch epoch;                  /* the running one */
  RengaOptimizer optimizer;              /* lent; whose rate grows; NULL: none does */
  const char *output;                    /* lent; NULL: no losses are wanted */
  int64_t columns;
  float *rows;  /* [batch][columns] */
  double *wide; /* the same */
} RengaHiding;

struct _p_RengaTrainer {
  struct _p_RengaObject hdr;
  RengaTrainerRules *rules;
  int n_monitors;
  RengaTrainerMonitor *monitor; /* [RENGA_TRAINER_MONITORS] */
  RengaTrainerReader reader;    /* NULL: the data set is read */
  void *reader_user;
  RengaTrainerParts parts;
  RengaLearners *learners;
  RengaHiding *hiding;
  RengaTrainerStatus status;
  int64_t first;     /* steps done before this run */
  int64_t evaluated; /* after which step; -1: none */
  int64_t rollbacks;
  bool saves, resumed, begun; /* saves: the checkpoint has a directory */
};

/* hiding.c. hiding->data and batch are set. */
RengaErrorCode RengaHidingCreate(RengaHiding *hiding, RengaGraph graph, RengaOptimizer optimizer,
                                 int64_t steps);
/* Before a checkpoint is read, and after it was. */
RengaErrorCode RengaHidingAddState(RengaHiding *hiding, RengaCheckpoint checkpoint);
RengaErrorCode RengaHidingResume(RengaHiding *hiding, RengaCheckpoint checkpoint, int64_t step);
RengaErrorCode RengaHidingRolledBack(RengaHiding *hiding);
RengaErrorCode RengaHidingBeginStep(RengaHiding *hiding, RengaTrainer trainer, int64_t step);
/* Are the samples of a step hidden ones? Then it is evaluated, otherwise kept after it was made. */
bool RengaHidingHides(const RengaHiding *hiding, const RengaWindow *window);
RengaErrorCode RengaHidingEvaluate(RengaHiding *hiding, RengaPipeline pipeline,
                                   const RengaBatch *batch);
RengaErrorCode RengaHidingKeep(RengaHiding *hiding, RengaPipeline pipeline,
                               const RengaWindow *window);
void RengaHidingFree(RengaHiding *hiding);

/* monitor.c: a sentence, a step that begins, its numbers, an evaluation, to all monitors. */
RengaErrorCode RengaTrainerSay(RengaTrainer trainer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
RengaErrorCode RengaTrainerTellBegin(RengaTrainer trainer, int64_t step);
RengaErrorCode RengaTrainerTellStep(RengaTrainer trainer, RengaTrainerRow *row);
RengaErrorCode RengaTrainerTellProgress(RengaTrainer trainer, const RengaTrainerProgress *progress);
RengaErrorCode RengaTrainerTellLoss(RengaTrainer trainer, double loss);
/* evaluate.c: the validation that is due after a step, and all that follows from its loss. */
RengaErrorCode RengaTrainerValidate(RengaTrainer trainer);
/* -early_stop: these were the last steps, also where the run goes on from its last checkpoint. */
RengaErrorCode RengaTrainerStopEarly(RengaTrainer trainer);
