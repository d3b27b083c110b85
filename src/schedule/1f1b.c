/* 1F1B: stage s of p warms up with p-s-1 forwards, then does one forward, one backward in turn.
   The bubble is GPipe's, but at most p-s micro-batches are in flight. Stages that send nothing to
   each other, as those of a divided network, work at the same time: what a stage waits for is the
   longest chain of messages from it, and so many forwards are its warm-up.
   Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training" (PipeDream-Flush), ICML
   2021.

   Where stages have different numbers of replicas, rank a of stage s does the backward of x after
   the forward of y, w[s] places on in its own order. Nothing deadlocks if each rank c of an earlier
   stage t may do the forwards of all that comes before y while x is the oldest that is not done:
   if w[t] is no less than the number of c's micro-batches from x on before y, in the order that all
   ranks agree on. Then no send waits for ever either where receivers have a buffer more than they
   hold: what it waits for is older than x. To keep the next stage busy w[t] covers one micro-batch
   more for each of its ranks. With equal numbers and messages to each next stage that is p-s-1
   again.

   Where messages take time a gradient comes back late, and the stages wait for it in every round.
   Then each begins some micro-batches early, in proportion to the stages that follow: no later
   stage begins more, so that what is said above still holds. */
#include "scheduleimpl.h"
#include <math.h>

/* Extra warm-up micro-batches of a stage of 1f1b. eager: extra warm-up micro-batches for each stage
   that follows, at least 0: see RengaScheduleSetEager(). following: the number of stages that
   follow, at least 0. */
int64_t RengaScheduleEarly(double eager, int following)
{
  return (int64_t)ceil(eager * following - 1e-9);
}

/* Places, in the order that all ranks agree on, from a micro-batch of the stage to the one that
   must be forward before its backward: the most there are. */
static int64_t SpanOfStage(RengaSchedule schedule, int stage, int64_t warm_up)
{
  int64_t most = 0;
  for (int r = 0; r < schedule->replicas[stage]; r++) {
    const RengaScheduleChunk *chunk = RengaScheduleChunk_Private(schedule, stage, r);
    const int64_t *order = chunk->order;
    for (int64_t i = 0; i < chunk->count; i++) {
      const int64_t ahead = i + warm_up < chunk->count ? i + warm_up : chunk->count - 1;
      const int64_t span = schedule->place[order[ahead]] - schedule->place[order[i]];
      if (span > most) most = span;
    }
  }
  return most;
}

/* The most micro-batches of one rank of the stage within so many places, one at the least. */
static int64_t Crowd(RengaSchedule schedule, int stage, int64_t span)
{
  int64_t most = 0;
  for (int r = 0; r < schedule->replicas[stage]; r++) {
    const RengaScheduleChunk *chunk = RengaScheduleChunk_Private(schedule, stage, r);
    const int64_t *order = chunk->order;
    for (int64_t i = 0, begin = 0; i < chunk->count; i++) {
      while (schedule->place[order[i]] - schedule->place[order[begin]] >= span && begin < i)
        begin++;
      if (i - begin + 1 > most) most = i - begin + 1;
    }
  }
  return most;
}

/* Stages of the longest chain of messages behind each stage; all that follow where no messages are
   known. */
static void CountFollowing(RengaSchedule schedule, int64_t following[])
{
  bool longer = schedule->n_messages > 0;
  for (int s = 0; s < schedule->stages; s++) following[s] = longer ? 0 : schedule->stages - 1 - s;
  while (longer) {
    longer = false;
    for (int m = schedule->n_messages - 1; m >= 0; m--) {
      const RengaMessage *message = &schedule->message[m];
      if (message->backward || following[message->from] > following[message->to]) continue;
      following[message->from] = following[message->to] + 1;
      longer = true;
    }
  }
}

RengaErrorCode RengaScheduleWarmUp_Private(RengaSchedule schedule, int64_t warm_up[])
{
  const int last = schedule->stages - 1;
  const bool equal = RengaScheduleIsEqual_Private(schedule);
  int64_t span = 0;
  if (equal) CountFollowing(schedule, warm_up);
  for (int s = last; s >= 0; s--) {
    const int64_t following = equal ? warm_up[s] : last - s;
    const int64_t early = RengaScheduleEarly(schedule->eager, (int)following);
    warm_up[s] = following + early;
    if (equal) continue;
    if (s < last) warm_up[s] = early + Crowd(schedule, s, span + schedule->replicas[s + 1]);
    const int64_t own = SpanOfStage(schedule, s, warm_up[s]);
    if (own > span) span = own;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_1F1B(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] =
      (struct _RengaScheduleOps){.warm_up = RengaScheduleWarmUp_Private,
                                 .build = RengaScheduleFillWarmUp_Private,
                                 .sound = true};
  return RENGA_SUCCESS;
}
