/* What a profile does with an optimizer. */
#pragma once
#include "rengaoptimizer.h"

/* One update at a rate that changes next to nothing, to see what it takes; not set up. */
RengaErrorCode RengaOptimizerRehearse_Private(RengaOptimizer optimizer, RengaDevice device,
                                              int64_t count, float parameter[],
                                              const float gradient[], float *const moment[]);
