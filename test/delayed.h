/* A schedule from outside whose backwards are in two parts. */
#pragma once
#include "renga.h"

/* Gradients of parameters come so many backwards after those of inputs. */
typedef struct {
  int64_t all, each; /* in all stages; more for each stage in front */
} Delay;

/* Stage s of p: p-s-1 forwards, then one forward and one backward of inputs in turn. */
static inline RengaErrorCode BuildDelayed(RengaSchedule schedule, int rank, RengaActionList list,
                                          void *user)
{
  const Delay *delay = user;
  const RengaScheduleChunk *chunk;
  const int *replicas;
  int count, stages;
  int64_t microbatches, forward = 0, weight = 0;
  RengaCall(RengaScheduleGetShape(schedule, &stages, &replicas, &microbatches));
  RengaCall(RengaScheduleGetChunks(schedule, rank, &count, &chunk));
  const int s = chunk->stage;
  const int64_t lag = delay->all + delay->each * s;
  for (int64_t i = 0; i < chunk->count; i++) {
    for (; forward < chunk->count && forward < i + stages - s; forward++)
      RengaCall(RengaActionListAdd(list, RENGA_ACTION_FORWARD, s, chunk->order[forward]));
    RengaCall(RengaActionListAdd(list, RENGA_ACTION_BACKWARD_INPUT, s, chunk->order[i]));
    for (; weight <= i - lag; weight++)
      RengaCall(RengaActionListAdd(list, RENGA_ACTION_BACKWARD_WEIGHT, s, chunk->order[weight]));
  }
  for (; weight < chunk->count; weight++)
    RengaCall(RengaActionListAdd(list, RENGA_ACTION_BACKWARD_WEIGHT, s, chunk->order[weight]));
  RengaCall(RengaActionListEnd(list));
  return RENGA_SUCCESS;
}
