/* Lists of actions: one for each number of micro-batches that occurs, forward only or not. */
#include "pipelineimpl.h"

static RengaErrorCode MakeSchedule(RengaPipeline pipeline, int64_t microbatches, bool forward_only,
                                   RengaSchedule schedule)
{
  const char *planned;
  RengaCall(RengaPlanGetSchedule(pipeline->plan, &planned));
  if (planned) RengaCall(RengaScheduleSetType(schedule, planned));
  if (pipeline->schedule_type) RengaCall(RengaScheduleSetType(schedule, pipeline->schedule_type));
  if (pipeline->hdr.prefix) RengaCall(RengaObjectSetOptionsPrefix(schedule, pipeline->hdr.prefix));
  if (pipeline->from_options) RengaCall(RengaScheduleSetFromOptions(schedule));
  RengaCall(RengaScheduleSetShape(schedule, pipeline->stages, microbatches, pipeline->n_messages,
                                  pipeline->message, forward_only));
  RengaCall(RengaScheduleSetUp(schedule));
  return RENGA_SUCCESS;
}

/* The proved list for a replica with this many micro-batches, lent. */
RengaErrorCode RengaPipelineGetSchedule_Private(RengaPipeline pipeline, int64_t microbatches,
                                                bool forward_only, RengaSchedule *schedule)
{
  for (int s = 0; s < pipeline->n_schedules; s++) {
    const ScheduleRow *row = &pipeline->schedule[s];
    if (row->microbatches != microbatches || row->forward_only != forward_only) continue;
    *schedule = row->schedule;
    return RENGA_SUCCESS;
  }
  ScheduleRow row = {.microbatches = microbatches, .forward_only = forward_only};
  RengaCall(RengaRealloc(pipeline->n_schedules + 1, &pipeline->schedule));
  RengaCall(RengaScheduleCreate(pipeline->hdr.owner, &row.schedule));
  const RengaErrorCode code = MakeSchedule(pipeline, microbatches, forward_only, row.schedule);
  if (code) RengaScheduleDestroy(&row.schedule);
  RengaCall(code);
  pipeline->schedule[pipeline->n_schedules++] = row;
  *schedule = row.schedule;
  return RENGA_SUCCESS;
}
