/* Which micro-batch of the batch each number of a step is (turns.c). */
#pragma once
#include "pipelineimpl.h"
#include "renga/private/schedule.h"

enum { RENGA_SUMS_AT_ONCE = 2 }; /* of a stage that folds gradients, under way */

RengaErrorCode RengaOutlineDealOut_Private(const Outline *outline, int64_t microbatches,
                                           int64_t **turn);
