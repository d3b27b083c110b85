/* Which values of a stage to keep until backward reads them, and which to make again, with a proof
   of how good the choice is.

   Items are run in order; each makes some values from earlier ones. Backward reads some of the
   values. One that it reads, or that is needed to make it, must be there: it is kept, at a price in
   bytes, or its item is run again, which takes the item's seconds once and needs what the item
   reads. What is sought is the least sum of seconds with prices within a bound. */
#pragma once
#include "rengasys.h"

typedef struct {
  int items, values;
  const double *seconds; /* [items] to run it again, at least 0 */
  const int *maker;      /* [values] the item that makes it; -1: it is always there */
  const bool *read;      /* [values] backward reads it */
  const int64_t *price;  /* [values] bytes; negative: it cannot be kept */
  const int *first;      /* [items + 1] where what an item reads begins in need */
  const int *need;       /* values, made by earlier items */
  int64_t bound;         /* on the sum of prices */
  int64_t point_limit;   /* choices in part to remember; 0: four million */
} RengaKeepProblem;

typedef struct {
  bool optimal;           /* no choice takes less, to rounding */
  double seconds, bound;  /* of what is made again; no choice takes less than the bound */
  int64_t bytes;          /* the sum of prices */
  bool *keep;             /* [values] */
  int64_t states, points; /* looked at */
} RengaKeepResult;

/* An error where the bound is negative. */
RengaErrorCode RengaKeepSolve(const RengaKeepProblem *problem, RengaKeepResult *result);
void RengaKeepFreeResult(RengaKeepResult *result);
/* Seconds and bytes of a given choice, straight from the definition; again: [items] those that are
   run again, may be NULL. */
RengaErrorCode RengaKeepEvaluate(const RengaKeepProblem *problem, const bool keep[], bool again[],
                                 double *seconds, int64_t *bytes);
