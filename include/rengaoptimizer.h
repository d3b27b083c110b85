/* Optimizer: how parameters follow from gradients; learning-rate schedules; clipping. */
#pragma once
#include "rengadevice.h"

typedef struct _p_RengaOptimizer *RengaOptimizer;
#define RENGA_OPTIMIZER_SGD "sgd"
#define RENGA_OPTIMIZER_ADAM "adam"
#define RENGA_OPTIMIZER_ADAMW "adamw"
RengaErrorCode RengaOptimizerCreate(RengaComm comm, RengaOptimizer *optimizer);
RengaErrorCode RengaOptimizerSetType(RengaOptimizer optimizer, const char *type);
RengaErrorCode RengaOptimizerGetType(RengaOptimizer optimizer, const char **type);
RengaErrorCode RengaOptimizerSetFromOptions(RengaOptimizer optimizer);
/* -optimizer_learning_rate -optimizer_momentum -optimizer_nesterov -optimizer_beta1 -optimizer_beta2
   -optimizer_epsilon -optimizer_weight_decay -optimizer_clip_norm -optimizer_schedule
   constant|linear|cosine -optimizer_warmup_steps -optimizer_total_steps -optimizer_final_ratio
   -optimizer_groups "PATTERN:key=value,...;..." (shell patterns on parameter names; keys
   learning_rate_scale, weight_decay, frozen) */
RengaErrorCode RengaOptimizerSetLearningRate(RengaOptimizer optimizer, double rate);
RengaErrorCode RengaOptimizerSetTotalSteps(RengaOptimizer optimizer, int64_t steps); /* where not given */
RengaErrorCode RengaOptimizerSetUp(RengaOptimizer optimizer);
RengaErrorCode RengaOptimizerView(RengaOptimizer optimizer, RengaViewer viewer);
RengaErrorCode RengaOptimizerDestroy(RengaOptimizer *optimizer);
/* Moments per parameter: 0 to 2, and their names in a checkpoint. */
RengaErrorCode RengaOptimizerGetMoments(RengaOptimizer optimizer, int *count, const char *const **names);
RengaErrorCode RengaOptimizerGetLearningRate(RengaOptimizer optimizer, int64_t step, double *rate);
/* What the gradients are multiplied with: min(1, clip_norm / norm). */
RengaErrorCode RengaOptimizerGetScale(RengaOptimizer optimizer, double norm, double *scale);
bool RengaOptimizerNeedsNorm(RengaOptimizer optimizer);
/* One parameter, step 0-based. moment[] as many as GetMoments says. All on the device. */
RengaErrorCode RengaOptimizerUpdate(RengaOptimizer optimizer, RengaDevice device, RengaStream stream,
                                    const char *name, int64_t step, double scale, int64_t count,
                                    float parameter[], const float gradient[], float *const moment[]);
