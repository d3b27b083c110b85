/* What becomes of each saved tensor of a stage, where more is to be said than the stage's shape
   does. */
#pragma once
#include "rengapipeline.h"

/* By the tensor's name in the network; the same on all ranks. A stage whose shape says recompute
   may keep some. */
typedef struct {
  RengaSaved (*policy)(void *user, int stage, const char *value);
  void *user;
} RengaSavedRule;
/* Before set-up and forecasts; rule.policy NULL: the shapes say it. */
RengaErrorCode RengaPipelineSetSavedRule_Private(RengaPipeline pipeline, RengaSavedRule rule);
