/* Lists of actions: those of all ranks for each number of micro-batches that occurs, forward only
   or not. */
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
  RengaCall(RengaScheduleSetPlan(schedule, pipeline->plan, microbatches, pipeline->n_messages,
                                 pipeline->message, forward_only));
  RengaCall(RengaScheduleSetUp(schedule));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindRow(RengaPipeline pipeline, int64_t microbatches, bool forward_only,
                              ScheduleRow **found)
{
  for (int s = 0; s < pipeline->n_schedules; s++) {
    *found = &pipeline->schedule[s];
    if ((*found)->microbatches == microbatches && (*found)->forward_only == forward_only)
      return RENGA_SUCCESS;
  }
  ScheduleRow row = {.microbatches = microbatches, .forward_only = forward_only};
  RengaCall(RengaRealloc(pipeline->n_schedules + 1, &pipeline->schedule));
  RengaCall(RengaScheduleCreate(pipeline->hdr.owner, &row.schedule));
  const RengaErrorCode code = MakeSchedule(pipeline, microbatches, forward_only, row.schedule);
  if (code) RengaScheduleDestroy(&row.schedule);
  RengaCall(code);
  *found = &pipeline->schedule[pipeline->n_schedules++];
  **found = row;
  return RENGA_SUCCESS;
}

/* The proved lists for a step of so many micro-batches, lent. */
RengaErrorCode RengaPipelineGetSchedule_Private(RengaPipeline pipeline, int64_t microbatches,
                                                bool forward_only, RengaSchedule *schedule)
{
  ScheduleRow *row;
  RengaCall(FindRow(pipeline, microbatches, forward_only, &row));
  *schedule = row->schedule;
  return RENGA_SUCCESS;
}

/* The numbers of this replica's micro-batches in the order of their forwards. */
static RengaErrorCode ListOrder(RengaPipeline pipeline, RengaSchedule schedule, int64_t order[])
{
  int64_t count, forwards = 0;
  const RengaAction *action;
  RengaCall(RengaScheduleGetActions(schedule, pipeline->stage, pipeline->replica, &count, &action));
  for (int64_t a = 0; a < count; a++)
    if (action[a].kind == RENGA_ACTION_FORWARD) order[forwards++] = action[a].microbatch;
  return RENGA_SUCCESS;
}

/* Lent; of this rank's replica. */
RengaErrorCode RengaPipelineGetOrder_Private(RengaPipeline pipeline, int64_t microbatches,
                                             bool forward_only, const int64_t **order,
                                             const int64_t **place)
{
  ScheduleRow *row;
  const int64_t first = RengaPlanBound(microbatches, pipeline->replicas, pipeline->replica);
  const int64_t last = RengaPlanBound(microbatches, pipeline->replicas, pipeline->replica + 1);
  RengaCall(FindRow(pipeline, microbatches, forward_only, &row));
  if (!row->order) {
    RengaCall(RengaMalloc(last - first + 1, &row->order));
    RengaCall(RengaMalloc(last - first + 1, &row->place));
    RengaCall(ListOrder(pipeline, row->schedule, row->order));
    for (int64_t i = 0; i < last - first; i++) row->place[row->order[i] - first] = i;
  }
  *order = row->order;
  *place = row->place;
  return RENGA_SUCCESS;
}

/* Gradient buffers that this replica needs for a step of so many micro-batches. */
RengaErrorCode RengaPipelineCountTreeBuffers_Private(RengaPipeline pipeline, int64_t microbatches,
                                                     int *buffers)
{
  RengaSchedule schedule;
  int64_t *order;
  *buffers = 1;
  if (!RengaPipelineIsOrdered_Private(pipeline) || !pipeline->has_loss) return RENGA_SUCCESS;
  const int64_t count = RengaPlanBound(microbatches, pipeline->replicas, pipeline->replica + 1) -
                        RengaPlanBound(microbatches, pipeline->replicas, pipeline->replica);
  RengaCall(RengaPipelineGetSchedule_Private(pipeline, microbatches, false, &schedule));
  RengaCall(RengaMalloc(count + 1, &order));
  RengaErrorCode code = ListOrder(pipeline, schedule, order);
  if (code == RENGA_SUCCESS)
    code = RengaCommTreeBuffersInOrder(microbatches, count, order, buffers);
  RengaFree(&order);
  RengaCall(code);
  return RENGA_SUCCESS;
}
