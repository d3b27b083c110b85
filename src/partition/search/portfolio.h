/* Small problems: all ways of looking for a layout, together. */
#pragma once
#include "solution.h"

/* The fastest of a task of one micro-batch and leaf: best->simulated is to be beaten, HUGE_VAL at
   first. The bound rises to what is proved. */
RengaErrorCode RengaSearchPortfolio_Private(const SearchTask *task, const SearchChain *chain,
                                            SearchLayout *best, double *bound);
/* A device holds any stage of a plan that is faster than the step with all micro-batches in flight,
   and as much again; HUGE_VAL: the whole network. Of a task of one row. */
RengaErrorCode RengaSearchIsAmple_Private(const SearchTask *task, const SearchChain *chain,
                                          double step, bool *ample);
