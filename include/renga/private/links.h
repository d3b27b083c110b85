/* What planners ask of a machine's links beside their public functions. */
#pragma once
#include "rengamachine.h"

/* Seconds in which a device of a group of `ranks`, the first of each `each` that lie side by side,
   whose widest level is `level`, gives the others so many bytes, to all of them together; without
   latencies. */
double RengaMachineExchangeSeconds_Private(RengaMachine machine, int level, int64_t ranks,
                                           int64_t each, double bytes);
/* RengaMachineReduceSeconds of replicas of `each` devices side by side, one of which sums. */
double RengaMachineSumSeconds_Private(RengaMachine machine, int level, int64_t replicas,
                                      int64_t each, double bytes);
