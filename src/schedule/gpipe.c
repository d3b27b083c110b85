/* GPipe: all forwards, then all backwards. Bubble (p-1)/(m+p-1), all m micro-batches in flight.
   Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
   NeurIPS 2019. */
#include "scheduleimpl.h"

static RengaErrorCode WarmUp_GPipe(RengaSchedule schedule, int64_t warm_up[])
{
  for (int s = 0; s < schedule->stages; s++) warm_up[s] = schedule->microbatches;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_GPipe(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] = (struct _RengaScheduleOps){
      .warm_up = WarmUp_GPipe, .build = RengaScheduleFillWarmUp_Private, .sound = true};
  return RENGA_SUCCESS;
}
