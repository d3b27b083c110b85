/* Which micro-batch of the batch each number of a step is (turns.c). */
#pragma once
#include "pipelineimpl.h"

RengaErrorCode RengaOutlineCheckTurns_Private(const Outline *outline, int64_t microbatches,
                                              RengaSchedule schedule);
RengaErrorCode RengaOutlineDealOut_Private(const Outline *outline, int64_t microbatches,
                                           int64_t **turn);
