/* A layout while it is predicted. */
#pragma once
#include "tensorimpl.h"

typedef struct {
  MPI_Comm printer;
  RengaComm comm;
  RengaGraph graph;
  RengaProfile profile;
  RengaMachine machine;
  RengaTensorLayout layout; /* nothing in it is 0 */
  TensorRepeat repeat;
  TensorCosts costs;
  RengaStorage storage;
  RengaPrecision precision;
  const char *schedule;
  int chunks, moments; /* of the whole pipeline; of the optimizer */
  int64_t rounds;      /* micro-batches of a replica */
  bool shard;          /* replicas share the optimizer */
  int64_t memory;      /* of the fullest device */
  RengaPlanPrediction seconds;
} TensorPrediction;
/* Memory, and the seconds of a step; the costs are known. */
RengaErrorCode RengaTensorSimulate_Private(TensorPrediction *made);
RengaPlanMemory RengaTensorMemoryOf_Private(const TensorPrediction *made, int chunk);
int64_t RengaTensorDeviceBytes_Private(const TensorPrediction *made, int rank);
RengaErrorCode RengaTensorMakePlan_Private(const TensorPrediction *made, RengaGraph graph,
                                           RengaPlan plan);
