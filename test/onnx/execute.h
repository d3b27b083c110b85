/* Runs a graph node by node on one device, with every value in memory of its own. */
#pragma once
#include "rengadevice.h"
#include "rengagraph.h"

typedef struct {
  RengaGraph graph;
  RengaDevice device;
  int64_t batch;
  int count;     /* values */
  void **memory; /* by value; NULL until it has data */
} Execution;

RengaErrorCode ExecutionCreate(RengaGraph graph, RengaDevice device, int64_t batch,
                               Execution *execution);
RengaErrorCode ExecutionDestroy(Execution *execution);
RengaTensorSpec ExecutionSpec(const Execution *execution, RengaValue value); /* concrete */
RengaErrorCode ExecutionSet(Execution *execution, RengaValue value, const void *data);
RengaErrorCode ExecutionInitialize(Execution *execution, uint64_t seed); /* parameters and states */
RengaErrorCode ExecutionRun(Execution *execution, const RengaKernelContext *context);
