/* What the planner must know of the runtime, which is above it: which plans it can run, and the
   memory that a stage really takes. Installed by RengaInitialize; without it the planner takes its
   own estimate and proposes only what every runtime can do. */
#pragma once
#include "rengaplan.h"
#include "rengasettings.h"

/* What a replica asks the others for in the parts of a micro-batch's program, where they share
   parameters: bytes of values, first of all in the first forward of a step; and in how many buckets
   they and their gradients go. */
typedef struct {
  int64_t count, bytes;
  int64_t across; /* of these to or from other context ranks */
} RengaForecastTerms;
typedef struct {
  int buckets; /* 0: nothing is shared */
  int64_t first, forward, again, backward, weight;
  /* What tensor ranks of a replica give each other in a micro-batch: exchanges, and bytes that the
     rank which sends or gets most of each sends or gets; no kernel runs meanwhile. */
  struct {
    RengaForecastTerms forward, again, backward, weight;
  } lanes;
} RengaForecastExchange;
/* Bytes of one device of a stage, by category; total is what the runtime would allocate. */
typedef struct {
  int64_t parameters, gradients, optimizer, saved, temporary, messages, inputs, total;
  RengaForecastExchange exchange;
} RengaForecastMemory;
/* What plans of a session have in common beside the network. */
typedef struct {
  RengaSettings settings; /* of the run; NULL: the usual ones */
  int n_short;
  const int64_t *short_batch; /* [n_short] samples of batches that come beside the plan's */
  bool fullest; /* of a group of tensor ranks that one alone is asked which needed most of a stage
                   like it: others may need a little more */
} RengaForecastRun;
/* Not collective; allocates nothing on a device. The plan has its stages, batch and schedule
   (NULL: the runtime's default); memory: [stages]. *session is NULL at first: what plans of one
   graph have in common is kept there, until end frees it. */
typedef struct {
  RengaErrorCode (*stages)(RengaGraph graph, RengaPlan plan, const RengaForecastRun *run,
                           void **session, RengaForecastMemory memory[]);
  RengaErrorCode (*end)(void **session);
} RengaMemoryForecast;
/* NULL takes the forecast away. */
RengaErrorCode RengaPartitionSetForecast_Private(const RengaMemoryForecast *forecast);
