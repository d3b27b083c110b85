/* Lists of actions: those of all ranks for each number of micro-batches that occurs, forward only
   or not. */
#include "pipelineimpl.h"

static RengaErrorCode MakeSchedule(RengaPipeline pipeline, int64_t microbatches, bool forward_only,
                                   RengaSchedule schedule)
{
  const char *planned;
  double eager = 0;
  RengaCall(RengaPlanGetSchedule(pipeline->plan, &planned));
  RengaCall(RengaPlanGetEager(pipeline->plan, &eager));
  if (planned) RengaCall(RengaScheduleSetType(schedule, planned));
  if (planned && eager > 0) RengaCall(RengaScheduleSetEager(schedule, eager));
  RengaCall(RengaSettingsApplySchedule(pipeline->settings, schedule));
  RengaCall(RengaScheduleSetPlan(schedule, pipeline->plan, microbatches, pipeline->n_messages,
                                 pipeline->message, forward_only));
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

/* The schedule for a step of so many micro-batches, lent: its shape only. */
RengaErrorCode RengaPipelineGetShape_Private(RengaPipeline pipeline, int64_t microbatches,
                                             bool forward_only, RengaSchedule *schedule)
{
  ScheduleRow *row;
  RengaCall(FindRow(pipeline, microbatches, forward_only, &row));
  *schedule = row->schedule;
  return RENGA_SUCCESS;
}

/* The same with its lists, proved. */
RengaErrorCode RengaPipelineGetSchedule_Private(RengaPipeline pipeline, int64_t microbatches,
                                                bool forward_only, RengaSchedule *schedule)
{
  RengaCall(RengaPipelineGetShape_Private(pipeline, microbatches, forward_only, schedule));
  RengaCall(RengaScheduleSetUp(*schedule));
  return RENGA_SUCCESS;
}

/* This replica has micro-batches [first, last) of a step. */
void RengaPipelineRange_Private(RengaPipeline pipeline, int64_t microbatches, int64_t *first,
                                int64_t *last)
{
  const int replica = pipeline->replica;
  *first = RengaPlanLeafBound(microbatches, pipeline->leaf, pipeline->replicas, replica);
  *last = RengaPlanLeafBound(microbatches, pipeline->leaf, pipeline->replicas, replica + 1);
}

/* The numbers of this replica's micro-batches as it works through them, and the place of each of
   its numbers there; lent. */
RengaErrorCode RengaPipelineGetOrder_Private(RengaPipeline pipeline, int64_t microbatches,
                                             bool forward_only, const int64_t **order,
                                             const int64_t **place)
{
  ScheduleRow *row;
  int64_t count, first, last;
  RengaPipelineRange_Private(pipeline, microbatches, &first, &last);
  RengaCall(FindRow(pipeline, microbatches, forward_only, &row));
  RengaCall(
      RengaScheduleGetOrder(row->schedule, pipeline->stage, pipeline->replica, &count, order));
  if (!row->place) {
    RengaCall(RengaMalloc(count + 1, &row->place));
    for (int64_t i = 0; i < count; i++) row->place[(*order)[i] - first] = i;
    for (int64_t i = 1; i < count; i++)
      RengaCheck((first + i) % pipeline->leaf == 0 || row->place[i - 1] < row->place[i],
                 MPI_COMM_SELF, RENGA_ERR_INTERNAL,
                 "micro-batch %lld comes before the one in front of it in its leaf",
                 (long long)(first + i));
  }
  *place = row->place;
  return RENGA_SUCCESS;
}

/* Gradient buffers that this replica needs for a step of so many micro-batches. */
RengaErrorCode RengaPipelineCountTreeBuffers_Private(RengaPipeline pipeline, int64_t microbatches,
                                                     int *buffers)
{
  RengaSchedule schedule;
  const int64_t *order;
  int64_t count;
  *buffers = 1;
  if (!RengaPipelineIsOrdered_Private(pipeline) || !pipeline->has_loss) return RENGA_SUCCESS;
  RengaCall(RengaPipelineGetShape_Private(pipeline, microbatches, false, &schedule));
  RengaCall(RengaScheduleGetOrder(schedule, pipeline->stage, pipeline->replica, &count, &order));
  RengaCall(RengaCommTreeBuffersInOrder(microbatches, pipeline->leaf, count, order, buffers));
  return RENGA_SUCCESS;
}
