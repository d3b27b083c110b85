/* What the files of src/optimizer know of each other. */
#pragma once
#include "renga/private/object.h"
#include "renga/private/optimizer.h"
#include "rengaoptimizer.h"

/* What is the same for all parameters of a step. */
typedef struct {
  double learning_rate, scale;
  int64_t number; /* 0-based */
} RengaOptimizerStep;

struct _RengaOptimizerOps {
  RengaErrorCode (*update)(RengaOptimizer optimizer, RengaDevice device, RengaStream stream,
                           const RengaOptimizerStep *step, int count,
                           const RengaParameterUpdate updates[]);
  RengaErrorCode (*moments)(RengaOptimizer optimizer, int *count, const char *const **names);
  RengaErrorCode (*view)(RengaOptimizer optimizer, RengaViewer viewer);
};

/* Parameters whose names fit the pattern. */
typedef struct {
  char *pattern;
  double rate_scale, weight_decay; /* NAN: not said */
  int frozen;                      /* -1: not said */
} RengaOptimizerGroup;

struct _p_RengaOptimizer {
  RENGAHEADER(struct _RengaOptimizerOps);
  const RengaOptimizerRule *rule; /* of a type from outside; else NULL */
  double learning_rate, weight_decay, clip_norm, final_ratio;
  bool weight_decay_given; /* else the type's */
  char *schedule, *type_option, *groups_text;
  RengaSparse sparse;
  int64_t warmup_steps;
  int64_t total_steps, total_steps_option; /* of the program; of the user, 0: not given */
  double momentum;                         /* sgd */
  bool nesterov;
  RengaOptimizerRateFunction rate_function; /* NULL: none */
  void *rate_context;                       /* lent */
  int64_t fixed_steps;                      /* 1 + the step that fixed_rate is of; 0: none */
  double fixed_rate;                        /* what the function said of it */
  double beta1, beta2, epsilon;             /* adam, adamw */
  RengaOptimizerGroup *groups;
  int n_groups;
  bool groups_parsed; /* groups are those of the text */
};

/* options.c */
RengaErrorCode RengaOptimizerSetDefaults(RengaOptimizer optimizer);
RengaErrorCode RengaOptimizerFreeOptions(RengaOptimizer optimizer);
RengaErrorCode RengaOptimizerReadCommon(RengaOptimizer optimizer, bool *type_given);
RengaErrorCode RengaOptimizerReadOfType(RengaOptimizer optimizer);
/* groups.c */
RengaErrorCode RengaOptimizerParseGroups(RengaOptimizer optimizer);
void RengaOptimizerFreeGroups(RengaOptimizer optimizer);
/* schedule.c */
int64_t RengaOptimizerTotalSteps(RengaOptimizer optimizer);
RengaErrorCode RengaOptimizerCheckSchedule(RengaOptimizer optimizer);
/* sparse.c */
RengaErrorCode RengaOptimizerCheckSparse(RengaOptimizer optimizer);
/* sgd.c, adam.c */
RengaErrorCode RengaOptimizerCreate_SGD(void *object);
RengaErrorCode RengaOptimizerCreate_Adam(void *object);
RengaErrorCode RengaOptimizerCreate_AdamW(void *object);
/* outside.c */
RengaErrorCode RengaOptimizerAdopt(void *optimizer, const void *rule);
