/* A graph run node by node on a device, with all values in the host's memory: no stages, no planned
   memory. */
#pragma once
#include "renga.h"

typedef struct {
  RengaGraph graph;
  RengaDevice device;
  int64_t batch;
  int count;    /* values that have a buffer: the graph may have grown since */
  void **value; /* by value; constants and first values of parameters and states are filled in */
  RengaKernelContext context;
} Execute;

/* seed: of the parameters' first values. float64 ones get them too. */
RengaErrorCode ExecuteCreate(RengaGraph graph, RengaDevice device, int64_t batch, uint64_t seed,
                             Execute *execute);
RengaErrorCode ExecuteDestroy(Execute *execute);
/* All nodes, or those of the forward phase only; what is stored in 16 bits is rounded. BatchSum is
   the identity: there is one micro-batch. */
RengaErrorCode ExecuteRun(Execute *execute, bool forward_only);
int64_t ExecuteCountElements(const Execute *execute, RengaValue value);
double ExecuteGet(const Execute *execute, RengaValue value, int64_t element); /* of any type */
void ExecuteSet(Execute *execute, RengaValue value, int64_t element, double number);
