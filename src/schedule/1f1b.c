/* 1F1B: stage s of p warms up with p-s-1 forwards, then does one forward, one backward in turn.
   The bubble is GPipe's, but at most p-s micro-batches are in flight.
   Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training" (PipeDream-Flush), ICML
   2021. */
#include "scheduleimpl.h"

static int64_t Bound(int stages, int stage, int64_t microbatches)
{
  return microbatches < stages - stage ? microbatches : stages - stage;
}

static RengaErrorCode Order(RengaSchedule schedule, int stage)
{
  int64_t m = schedule->microbatches, forward = 0, backward = 0;
  int64_t warm_up = m < schedule->stages - stage - 1 ? m : schedule->stages - stage - 1;
  while (forward < warm_up)
    RengaCall(RengaScheduleCompute_Private(schedule, stage, RENGA_ACTION_FORWARD, forward++));
  while (backward < m) {
    if (forward < m)
      RengaCall(RengaScheduleCompute_Private(schedule, stage, RENGA_ACTION_FORWARD, forward++));
    RengaCall(RengaScheduleCompute_Private(schedule, stage, RENGA_ACTION_BACKWARD, backward++));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_1F1B(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] = (struct _RengaScheduleOps){.order = Order, .bound = Bound};
  return RENGA_SUCCESS;
}
