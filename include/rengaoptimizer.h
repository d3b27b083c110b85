/* Optimizer: how parameters follow from gradients; learning-rate schedules; clipping. */
#pragma once
#include "rengadevice.h"

RENGA_BEGIN_DECLS

/* What makes new parameters of gradients, with its settings. */
typedef struct _p_RengaOptimizer *RengaOptimizer;
/* Types of optimizers, for RengaOptimizerSetType and -optimizer_type. */
#define RENGA_OPTIMIZER_SGD "sgd"     /* gradient descent, with momentum where that is not 0 */
#define RENGA_OPTIMIZER_ADAM "adam"   /* Adam, whose weight decay is added to the gradient */
#define RENGA_OPTIMIZER_ADAMW "adamw" /* Adam, whose weight decay is apart from the gradient */

/* One parameter in one step, as a rule of update sees it. */
typedef struct {
  double learning_rate, weight_decay; /* of this step and parameter */
  double scale;                       /* the gradient is to be multiplied by it: clipping */
  int64_t step;                       /* 0-based */
  int64_t count;                      /* elements of parameter, gradient and each moment */
  float *parameter;                   /* updated in place */
  const float *gradient;              /* before it is scaled */
  float *const *moment;               /* [moments], zero before the first step */
} RengaOptimizerTask;
/* A type from outside. moment_names: of what is kept for each element, as checkpoints call it. */
typedef struct {
  const char *name;                /* of the type */
  int n_moments;                   /* numbers kept for each element */
  const char *const *moment_names; /* [n_moments] */
  RengaErrorCode (*update)(const RengaOptimizerTask *task, void *user); /* of one parameter */
  void *user;                                                           /* handed to update */
} RengaOptimizerRule;
RengaErrorCode RengaOptimizerRegister(const RengaOptimizerRule *rule);

RengaErrorCode RengaOptimizerCreate(RengaComm comm, RengaOptimizer *optimizer);
RengaErrorCode RengaOptimizerSetType(RengaOptimizer optimizer, const char *type);
RengaErrorCode RengaOptimizerGetType(RengaOptimizer optimizer, const char **type);
RengaErrorCode RengaOptimizerSetFromOptions(RengaOptimizer optimizer);
RengaErrorCode RengaOptimizerSetLearningRate(RengaOptimizer optimizer, double rate);
RengaErrorCode RengaOptimizerGetBaseLearningRate(RengaOptimizer optimizer, double *rate);
/* The program's own: rate is given as base and schedule make it, and set. */
typedef RengaErrorCode (*RengaOptimizerRateFunction)(void *context, int64_t step, double scheduled,
                                                     double *rate);
RengaErrorCode RengaOptimizerSetLearningRateFunction(RengaOptimizer optimizer,
                                                     RengaOptimizerRateFunction function,
                                                     void *context);
RengaErrorCode RengaOptimizerGetLearningRateFunction(RengaOptimizer optimizer,
                                                     RengaOptimizerRateFunction *function,
                                                     void **context);
RengaErrorCode RengaOptimizerSetTotalSteps(RengaOptimizer optimizer, int64_t steps);
RengaErrorCode RengaOptimizerGetTotalSteps(RengaOptimizer optimizer, int64_t *steps);
RengaErrorCode RengaOptimizerSetWeightDecay(RengaOptimizer optimizer, double weight_decay);
RengaErrorCode RengaOptimizerGetWeightDecay(RengaOptimizer optimizer, double *weight_decay);
RengaErrorCode RengaOptimizerSetClipNorm(RengaOptimizer optimizer,
                                         double norm); /* 0: no clipping */
RengaErrorCode RengaOptimizerGetClipNorm(RengaOptimizer optimizer, double *norm);
RengaErrorCode RengaOptimizerSetSchedule(RengaOptimizer optimizer, const char *schedule,
                                         int64_t warmup_steps, double final_ratio);
RengaErrorCode RengaOptimizerGetSchedule(RengaOptimizer optimizer, const char **schedule,
                                         int64_t *warmup_steps, double *final_ratio);
/* What a step updates of tables that are read by rows. */
typedef enum {
  RENGA_SPARSE_OFF,  /* all rows */
  RENGA_SPARSE_LAZY, /* those that it reads */
  RENGA_SPARSE_EXACT /* all rows, with gradients of those that it reads */
} RengaSparse;
RengaErrorCode RengaOptimizerSetSparse(RengaOptimizer optimizer, RengaSparse sparse);
RengaErrorCode RengaOptimizerGetSparse(RengaOptimizer optimizer, RengaSparse *sparse);
RengaErrorCode RengaOptimizerSetGroups(RengaOptimizer optimizer, const char *groups);
RengaErrorCode RengaOptimizerGetGroups(RengaOptimizer optimizer, const char **groups); /* lent */
/* One type's own settings; an error where the type is another. */
RengaErrorCode RengaOptimizerSetMomentum(RengaOptimizer optimizer, double momentum, bool nesterov);
RengaErrorCode RengaOptimizerGetMomentum(RengaOptimizer optimizer, double *momentum,
                                         bool *nesterov);
RengaErrorCode RengaOptimizerSetBetas(RengaOptimizer optimizer, double beta1, double beta2,
                                      double epsilon);
RengaErrorCode RengaOptimizerGetBetas(RengaOptimizer optimizer, double *beta1, double *beta2,
                                      double *epsilon);
RengaErrorCode RengaOptimizerSetUp(RengaOptimizer optimizer);
RengaErrorCode RengaOptimizerView(RengaOptimizer optimizer, RengaViewer viewer);
RengaErrorCode RengaOptimizerDestroy(RengaOptimizer *optimizer);
RengaErrorCode RengaOptimizerGetMoments(RengaOptimizer optimizer, int *count,
                                        const char *const **names);
RengaErrorCode RengaOptimizerGetLearningRate(RengaOptimizer optimizer, int64_t step, double *rate);
RengaErrorCode RengaOptimizerUpdate(RengaOptimizer optimizer, RengaDevice device,
                                    RengaStream stream, const char *name, int64_t step,
                                    double scale, int64_t count, float parameter[],
                                    const float gradient[], float *const moment[]);

RENGA_END_DECLS
