/* What the planner must know of the runtime, which is above it: which plans it can run, and the
   memory that a stage really takes. Installed by RengaInitialize; without it the planner takes its
   own estimate and proposes only what every runtime can do. */
#pragma once
#include "rengaplan.h"
#include "rengasettings.h"

/* Bytes of one device of a stage, by category; total is what the runtime would allocate. */
typedef struct {
  int64_t parameters, gradients, optimizer, saved, temporary, messages, inputs, total;
} RengaForecastMemory;
/* Not collective; allocates nothing on a device. The plan has its stages, batch and schedule
   (NULL: the runtime's default); memory: [stages]. settings: of the run, NULL: the usual ones, the
   same for all plans of a session. *session is NULL at first: what plans of one
   graph have in common is kept there, until end frees it. */
typedef struct {
  RengaErrorCode (*stages)(RengaGraph graph, RengaPlan plan, RengaSettings settings, void **session,
                           RengaForecastMemory memory[]);
  RengaErrorCode (*end)(void **session);
} RengaMemoryForecast;
typedef struct {
  bool unequal_replicas; /* neighbouring stages may have any numbers of replicas */
  bool recompute;        /* whole stages, from what came in */
} RengaPartitionCapabilities;
/* NULL takes the forecast away. */
RengaErrorCode RengaPartitionSetForecast_Private(const RengaMemoryForecast *forecast);
RengaErrorCode
RengaPartitionSetCapabilities_Private(const RengaPartitionCapabilities *capabilities);
