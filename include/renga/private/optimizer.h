/* What a profile does with an optimizer. */
#pragma once
#include "rengaoptimizer.h"

/* One update of these vectors at a rate that changes next to nothing, to see what it takes; not set
   up. */
RengaErrorCode RengaOptimizerRehearse_Private(RengaOptimizer optimizer, RengaDevice device,
                                              const RengaParameterUpdate *vectors);

/* Of a type that the program registered, whose update may fail for reasons of its own. */
bool RengaOptimizerIsOutside_Private(RengaOptimizer optimizer);

/* Settings that all ranks must have alike: a name for people, and a hash of the value. */
typedef struct {
  const char *name; /* "-optimizer_clip_norm" without the dash; lent */
  uint64_t hash;
} RengaSetting;

enum { RENGA_OPTIMIZER_SETTINGS_MOST = 32 };
/* All that decides what an update does. */
RengaErrorCode RengaOptimizerListSettings_Private(RengaOptimizer optimizer, int *count,
                                                  RengaSetting settings[]);
/* The learning rate that the update of this step will take, whatever the program's function says
   later. */
RengaErrorCode RengaOptimizerFixLearningRate_Private(RengaOptimizer optimizer, int64_t step,
                                                     double *rate);
