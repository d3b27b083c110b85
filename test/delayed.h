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

/* Of all stages of the rank, first to last, all forwards; then, last to first, all backwards of
   inputs; in the end all gradients of parameters. */
static inline RengaErrorCode BuildBreadth(RengaSchedule schedule, int rank, RengaActionList list,
                                          void *user)
{
  static const RengaActionKind kinds[] = {RENGA_ACTION_FORWARD, RENGA_ACTION_BACKWARD_INPUT,
                                          RENGA_ACTION_BACKWARD_WEIGHT};
  const RengaScheduleChunk *chunk;
  int count;
  (void)user;
  RengaCall(RengaScheduleGetChunks(schedule, rank, &count, &chunk));
  for (int k = 0; k < 3; k++)
    for (int c = 0; c < count; c++) {
      const RengaScheduleChunk *own = &chunk[k == 0 ? c : count - 1 - c];
      for (int64_t i = 0; i < own->count; i++)
        RengaCall(RengaActionListAdd(list, kinds[k], own->stage, own->order[i]));
    }
  RengaCall(RengaActionListEnd(list));
  return RENGA_SUCCESS;
}

/* An action of the end of the step. */
static inline RengaErrorCode AddSum(RengaActionList list, const RengaScheduleChunk *chunk,
                                    RengaActionKind kind, int bucket)
{
  const RengaAction action = {.kind = kind,
                              .stage = chunk->stage,
                              .replica = chunk->replica,
                              .message = -1,
                              .bucket = bucket,
                              .microbatch = -1};
  RengaCall(RengaActionListAddAction(list, &action));
  return RENGA_SUCCESS;
}

/* The first stage's last backward comes after the sums of the others have begun; every second
   bucket is gathered by itself, when the one after it has been reduced. */
static inline RengaErrorCode BuildGathered(RengaSchedule schedule, int rank, RengaActionList list,
                                           void *user)
{
  const RengaScheduleChunk *chunk;
  int count, buckets;
  (void)user;
  RengaCall(RengaScheduleGetChunks(schedule, rank, &count, &chunk));
  for (int c = 0; c < count; c++)
    for (int64_t i = 0; i < chunk[c].count; i++)
      RengaCall(RengaActionListAdd(list, RENGA_ACTION_FORWARD, chunk[c].stage, chunk[c].order[i]));
  for (int c = count - 1; c >= 0; c--) {
    for (int64_t i = 0; i < chunk[c].count; i++)
      RengaCall(RengaActionListAdd(list, RENGA_ACTION_BACKWARD, chunk[c].stage, chunk[c].order[i]));
    RengaCall(RengaScheduleGetBuckets(schedule, chunk[c].stage, &buckets));
    for (int b = 0; b < buckets; b++) {
      RengaCall(AddSum(list, &chunk[c], RENGA_ACTION_REDUCE, b));
      if (b % 2) RengaCall(AddSum(list, &chunk[c], RENGA_ACTION_GATHER, b - 1));
    }
  }
  RengaCall(AddSum(list, chunk, RENGA_ACTION_UPDATE, -1));
  for (int c = 0; c < count; c++) {
    RengaCall(RengaScheduleGetGathers(schedule, chunk[c].stage, &buckets));
    for (int b = 0; b < buckets; b++)
      RengaCall(AddSum(list, &chunk[c], RENGA_ACTION_GATHER_PARAMETERS, b));
  }
  return RENGA_SUCCESS;
}

/* By name: backwards of parameters right behind those of inputs, some later, and later in stages in
   front. */
static inline RengaErrorCode RegisterDelayed(void)
{
  static Delay at_once = {0, 0}, later = {3, 0}, unequal = {0, 1};
  static const RengaScheduleRule rules[] = {
      {.name = "at-once", .build = BuildDelayed, .user = &at_once},
      {.name = "delayed", .build = BuildDelayed, .user = &later},
      {.name = "unequal", .build = BuildDelayed, .user = &unequal},
  };
  for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
    RengaCall(RengaScheduleRegister(&rules[r]));
  return RENGA_SUCCESS;
}
