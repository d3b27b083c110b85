/* What a profile does with an optimizer. */
#pragma once
#include "renga/private/same.h"
#include "rengaoptimizer.h"

/* One update of these vectors at a rate that changes next to nothing, to see what it takes; not set
   up. */
RengaErrorCode RengaOptimizerRehearse_Private(RengaOptimizer optimizer, RengaDevice device,
                                              const RengaParameterUpdate *vectors);

/* As -optimizer_sparse has it. */
const char *RengaSparseName(RengaSparse sparse);

/* Of a type that the program registered, whose update may fail for reasons of its own. */
bool RengaOptimizerIsOutside_Private(RengaOptimizer optimizer);

/* All that decides what an update does. */
void RengaOptimizerListSettings_Private(RengaOptimizer optimizer, RengaSettingList *list);
/* The learning rate that the update of this step will take, whatever the program's function says
   later. */
RengaErrorCode RengaOptimizerFixLearningRate_Private(RengaOptimizer optimizer, int64_t step,
                                                     double *rate);
RengaErrorCode RengaOptimizerCheckGroups(RengaOptimizer optimizer, int count,
                                         const char *const names[]);
RengaErrorCode RengaOptimizerGetGroup(RengaOptimizer optimizer, const char *name,
                                      double *rate_scale, double *weight_decay, bool *frozen);
RengaErrorCode RengaOptimizerGetScale(RengaOptimizer optimizer, double norm, double *scale);
RengaErrorCode RengaOptimizerUpdateAll(RengaOptimizer optimizer, RengaDevice device,
                                       RengaStream stream, int64_t step, double scale, int count,
                                       const RengaParameterUpdate updates[]);
