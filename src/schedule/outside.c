/* Schedules from outside: a rule that a program registered says how far forwards run ahead. */
#include "scheduleimpl.h"

static RengaErrorCode CheckForwards(RengaSchedule schedule, const RengaActionList *list,
                                    const int64_t forwards[])
{
  for (int64_t i = 0; i < list->count; i++) {
    const int64_t least = i > 0 && forwards[i - 1] > i + 1 ? forwards[i - 1] : i + 1;
    RengaCheck(forwards[i] >= least && forwards[i] <= list->count, MPI_COMM_SELF, RENGA_ERR_PLAN,
               "schedule %s: stage %d does %lld forwards before its backward %lld: at least %lld, "
               "at most %lld",
               schedule->rule->name, list->stage, (long long)forwards[i], (long long)i,
               (long long)least, (long long)list->count);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleForwards_Private(RengaSchedule schedule, const RengaActionList *list,
                                             int64_t forwards[])
{
  for (int64_t i = 0; i < list->count; i++) forwards[i] = 0;
  RengaCall(schedule->rule->fill(schedule->stages, schedule->replicas, list->stage, list->count,
                                 forwards, schedule->rule->user));
  RengaCall(CheckForwards(schedule, list, forwards));
  return RENGA_SUCCESS;
}

/* The most that are in flight on a rank of the stage; none that comes first counts as one. */
static RengaErrorCode WarmUpOutside(RengaSchedule schedule, int64_t warm_up[])
{
  int64_t *forwards = NULL;
  RengaErrorCode code = RengaMalloc(schedule->microbatches + 1, &forwards);
  for (int r = 0; r < schedule->ranks && !code; r++) {
    const RengaActionList *list = &schedule->list[r];
    int64_t *most = &warm_up[list->stage];
    if (list->replica == 0) *most = 0;
    code = RengaScheduleForwards_Private(schedule, list, forwards);
    for (int64_t i = 0; i < list->count && !code; i++)
      if (forwards[i] - i - 1 > *most) *most = forwards[i] - i - 1;
  }
  RengaFree(&forwards);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaScheduleCreateOutside_Private(RengaSchedule schedule, const RengaScheduleRule *rule)
{
  schedule->ops[0] = (struct _RengaScheduleOps){.warm_up = WarmUpOutside};
  schedule->rule = rule;
}
