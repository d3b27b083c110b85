/* Schedules: one for each number of micro-batches that occurs, forward only or not, and what a
   chunk has to do in them. */
#include "gradients.h"
#include "renga/private/schedule.h"

static RengaErrorCode MakeSchedule(Outline *outline, int64_t microbatches, bool forward_only,
                                   RengaSchedule schedule)
{
  const RengaSettings settings = outline->settings; /* what is set goes before what is planned */
  const char *planned;
  double eager = 0;
  RengaCall(RengaPlanGetSchedule(outline->plan, &planned));
  RengaCall(RengaPlanGetEager(outline->plan, &eager));
  if (planned) RengaCall(RengaScheduleSetType(schedule, planned));
  if (planned && eager > 0) RengaCall(RengaScheduleSetEager(schedule, eager));
  if (settings->schedule) RengaCall(RengaScheduleSetType(schedule, settings->schedule));
  if (settings->eager >= 0) RengaCall(RengaScheduleSetEager(schedule, settings->eager));
  RengaCall(RengaScheduleSetPlan(schedule, outline->plan, microbatches, outline->n_messages,
                                 outline->message, forward_only));
  for (int s = 0; s < outline->stages; s++) {
    const BucketCounts counts = RengaOutlineCountBuckets_Private(outline, s);
    RengaCall(RengaScheduleSetBuckets(schedule, s, counts.all));
    const bool fetches = RengaOutlineFetches_Private(outline, s); /* as they are needed */
    RengaCall(RengaScheduleSetGathers(schedule, s, fetches ? 0 : counts.shared));
    RengaCall(
        RengaScheduleSetFold_Private(schedule, s, RengaOutlineShardsGradients_Private(outline, s)));
  }
  return RENGA_SUCCESS;
}

/* The schedule for a step of so many micro-batches, lent: its shape only. */
RengaErrorCode RengaOutlineGetShape_Private(Outline *outline, int64_t microbatches,
                                            bool forward_only, RengaSchedule *schedule)
{
  for (int s = 0; s < outline->n_schedules; s++) {
    const ScheduleRow *row = &outline->schedule[s];
    *schedule = row->schedule;
    if (row->microbatches == microbatches && row->forward_only == forward_only)
      return RENGA_SUCCESS;
  }
  ScheduleRow row = {.microbatches = microbatches, .forward_only = forward_only};
  RengaCall(RengaRealloc(outline->n_schedules + 1, &outline->schedule));
  RengaCall(RengaScheduleCreate(outline->owner, &row.schedule));
  const RengaErrorCode code = MakeSchedule(outline, microbatches, forward_only, row.schedule);
  if (code) RengaScheduleDestroy(&row.schedule);
  RengaCall(code);
  outline->schedule[outline->n_schedules++] = row;
  *schedule = row.schedule;
  return RENGA_SUCCESS;
}

/* Which micro-batch of the batch each number of a step of so many is (microbatchorder.c); lent.
   NULL: each stands where its number says. */
RengaErrorCode RengaOutlineGetTurns_Private(Outline *outline, int64_t microbatches,
                                            const int64_t **turn)
{
  RengaSchedule schedule;
  RengaCall(RengaOutlineGetShape_Private(outline, microbatches, false, &schedule));
  ScheduleRow *row = outline->schedule;
  while (row->schedule != schedule) row++;
  if (!row->turn)
    RengaCall(RengaOutlineOrderMicrobatches_Private(outline, microbatches, &row->turn));
  *turn = row->turn;
  return RENGA_SUCCESS;
}

/* The schedule with its lists, proved. */
RengaErrorCode RengaOutlineGetSchedule_Private(Outline *outline, int64_t microbatches,
                                               bool forward_only, RengaSchedule *schedule)
{
  RengaCall(RengaOutlineGetShape_Private(outline, microbatches, forward_only, schedule));
  RengaCall(RengaScheduleSetUp(*schedule));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetStepSchedule - the lists of a step of a whole batch

   Collective

   Input:
   . pipeline - the pipeline, set up

   Output:
   . schedule - the schedule, lent by the pipeline: it is gone after RengaPipelineReset() and
     RengaPipelineDestroy()

   Errors: RENGA_ERR_ORDER before RengaPipelineSetUp().

   See also: RengaScheduleGetActions(), RengaScheduleDraw()
@*/
RengaErrorCode RengaPipelineGetStepSchedule(RengaPipeline pipeline, RengaSchedule *schedule)
{
  int64_t batch, microbatch;
  RengaCheckPointers(pipeline, schedule);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  RengaCall(RengaPlanGetBatch(pipeline->outline->plan, &batch, &microbatch));
  const int64_t microbatches = RengaPlanMicrobatches(pipeline->outline->plan, batch);
  const RengaErrorCode code =
      RengaOutlineGetSchedule_Private(pipeline->outline, microbatches, false, schedule);
  RengaCall(RengaErrorAgree(pipeline->hdr.comm, code));
  return RENGA_SUCCESS;
}

/* This replica has micro-batches [first, last) of a step. */
void RengaChunkRange_Private(const Chunk *chunk, int64_t microbatches, int64_t *first,
                             int64_t *last)
{
  const int64_t leaf = chunk->outline->leaf;
  *first = RengaPlanLeafBound(microbatches, leaf, chunk->replicas, chunk->replica);
  *last = RengaPlanLeafBound(microbatches, leaf, chunk->replicas, chunk->replica + 1);
}

/* The numbers of the chunk's micro-batches of a pass as it works through them, and the place of
   each of them there. */
RengaErrorCode RengaChunkFindOrder_Private(const Chunk *chunk, int64_t microbatches,
                                           bool forward_only, Portion *portion)
{
  const int64_t leaf = chunk->outline->leaf;
  RengaSchedule schedule;
  int64_t count;
  RengaChunkRange_Private(chunk, microbatches, &portion->first, &portion->last);
  RengaCall(RengaOutlineGetShape_Private(chunk->outline, microbatches, forward_only, &schedule));
  RengaCall(RengaScheduleGetOrder(schedule, chunk->stage, chunk->replica, &count, &portion->order));
  RengaCall(RengaMalloc(count + 1, &portion->place));
  int64_t *place = portion->place;
  for (int64_t i = 0; i < count; i++) place[portion->order[i] - portion->first] = i;
  for (int64_t i = 1; i < count; i++)
    RengaCheck((portion->first + i) % leaf == 0 || place[i - 1] < place[i], MPI_COMM_SELF,
               RENGA_ERR_INTERNAL,
               "micro-batch %lld comes before the one in front of it in its leaf",
               (long long)(portion->first + i));
  return RENGA_SUCCESS;
}

/* Gradient buffers that this replica needs for a step of so many micro-batches. */
RengaErrorCode RengaChunkCountTreeBuffers_Private(const Chunk *chunk, int64_t microbatches,
                                                  int *buffers)
{
  Outline *outline = chunk->outline;
  RengaSchedule schedule;
  const int64_t *order;
  int64_t count;
  *buffers = 1;
  if (!RengaSettingsIsOrdered_Private(outline->settings) || !outline->has_loss)
    return RENGA_SUCCESS;
  if (RengaChunkShardsGradients_Private(chunk)) {
    RengaCall(RengaChunkCountPartialSums_Private(chunk, microbatches, buffers));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOutlineGetShape_Private(outline, microbatches, false, &schedule));
  RengaCall(RengaScheduleGetOrder(schedule, chunk->stage, chunk->replica, &count, &order));
  RengaCall(RengaCommTreeBuffersInOrder(microbatches, outline->leaf, count, order, buffers));
  return RENGA_SUCCESS;
}
