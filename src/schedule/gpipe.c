/* GPipe: all forwards, then all backwards. Bubble (p-1)/(m+p-1), all m micro-batches in flight.
   Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
   NeurIPS 2019. */
#include "scheduleimpl.h"

static RengaErrorCode Order(RengaSchedule schedule, int stage)
{
  for (int64_t m = 0; m < schedule->microbatches; m++)
    RengaCall(RengaScheduleCompute_Private(schedule, stage, RENGA_ACTION_FORWARD, m));
  for (int64_t m = 0; m < schedule->microbatches; m++)
    RengaCall(RengaScheduleCompute_Private(schedule, stage, RENGA_ACTION_BACKWARD, m));
  return RENGA_SUCCESS;
}

static int64_t Bound(int stages, int stage, int64_t microbatches)
{
  (void)stages, (void)stage;
  return microbatches;
}

RengaErrorCode RengaScheduleCreate_GPipe(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] = (struct _RengaScheduleOps){.order = Order, .bound = Bound};
  return RENGA_SUCCESS;
}
