/* Schedules from outside: a function that a program registered fills the lists. */
#include "scheduleimpl.h"
#include "renga/private/quiet.h"
#include "renga/private/schedule.h"

static RengaErrorCode BuildOutside(RengaSchedule schedule, int rank, RengaActionList list)
{
  const int64_t errors = RengaErrorCount_Private();
  const RengaErrorCode code = schedule->rule->build(schedule, rank, list, schedule->rule->user);
  RengaCheck(code == RENGA_SUCCESS || RengaErrorCount_Private() > errors, MPI_COMM_SELF, code,
             "schedule %s, a rule of the program, returned %d for rank %d", schedule->rule->name,
             (int)code, rank);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleAdopt_Private(void *object, const void *rule)
{
  RengaSchedule schedule = object;
  schedule->ops[0] = (struct _RengaScheduleOps){.build = BuildOutside};
  schedule->rule = rule;
  return RENGA_SUCCESS;
}

bool RengaScheduleIsOutside_Private(const char *type)
{
  return RengaTypeOutside_Private("RengaSchedule", type) != NULL;
}
