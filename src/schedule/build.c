/* What lists are made from: the stages and micro-batches of each rank. */
#include "renga/private/plan.h"
#include "scheduleimpl.h"
#include <stdlib.h>

static int CompareChunks(const void *a, const void *b)
{
  const RengaScheduleChunk *x = a, *y = b;
  return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                            : (x->stage > y->stage) - (x->stage < y->stage);
}

static void FillChunks(RengaSchedule schedule)
{
  const int64_t m = schedule->microbatches, leaf = schedule->leaf;
  for (int s = 0, seat = 0; s < schedule->stages; s++)
    for (int r = 0; r < schedule->replicas[s]; r++, seat++) {
      const int64_t first = RengaPlanLeafBound(m, leaf, schedule->replicas[s], r);
      schedule->chunk[seat] = (RengaScheduleChunk){
          .rank = schedule->rank[seat],
          .stage = s,
          .replica = r,
          .first = first,
          .count = RengaPlanLeafBound(m, leaf, schedule->replicas[s], r + 1) - first,
          .order = RengaScheduleSharing_Private(schedule, s)->order + first};
    }
  if (schedule->ranks < schedule->seats)
    qsort(schedule->chunk, (size_t)schedule->seats, sizeof *schedule->chunk, CompareChunks);
}

/* The chunks of each rank, the chunk of each seat. */
static void NameLists(RengaSchedule schedule)
{
  for (int c = 0; c < schedule->seats; c++) {
    const RengaScheduleChunk *chunk = &schedule->chunk[c];
    RengaActionList list = &schedule->list[chunk->rank];
    schedule->chunk_of[schedule->first_seat[chunk->stage] + chunk->replica] = c;
    if (list->n_chunks++ == 0) list->chunk = chunk;
    list->schedule = schedule;
  }
}

/* Forwards of a stage may run ahead of a later stage of the same rank by as many as there are
   stages between: a rank that waited for itself would wait for ever. */
static void FillAhead(RengaSchedule schedule)
{
  for (int s = 0; s < schedule->stages; s++) schedule->in_flight[s] = schedule->stages - s;
}

/* As many as the type says that it needs. */
static RengaErrorCode FillInFlight(RengaSchedule schedule)
{
  if (RengaScheduleSharesRanks_Private(schedule) && schedule->forward_only) {
    FillAhead(schedule);
    return RENGA_SUCCESS;
  }
  if (!schedule->ops->warm_up) return RENGA_SUCCESS;
  RengaCall(schedule->ops->warm_up(schedule, schedule->warm_up));
  for (int c = 0; c < schedule->seats; c++) {
    const RengaScheduleChunk *chunk = &schedule->chunk[c];
    int64_t *most = &schedule->in_flight[chunk->stage];
    const int64_t wanted = schedule->forward_only ? 1 : schedule->warm_up[chunk->stage] + 1;
    const int64_t held = wanted < chunk->count ? wanted : chunk->count;
    if (held > *most) *most = held;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareAll(RengaSchedule schedule)
{
  RengaCall(RengaScheduleMakeOrder_Private(schedule));
  RengaCall(RengaMalloc(schedule->seats, &schedule->chunk));
  RengaCall(RengaMalloc(schedule->seats, &schedule->chunk_of));
  RengaCall(RengaMalloc(schedule->ranks, &schedule->list));
  RengaCall(RengaMalloc(schedule->stages, &schedule->warm_up));
  RengaCall(RengaMalloc(schedule->stages, &schedule->lag));
  RengaCall(RengaMalloc(schedule->stages, &schedule->in_flight));
  FillChunks(schedule);
  NameLists(schedule);
  RengaCall(FillInFlight(schedule));
  return RENGA_SUCCESS;
}

void RengaScheduleFreeLists_Private(RengaSchedule schedule)
{
  for (int r = 0; schedule->list && r < schedule->ranks; r++) RengaFree(&schedule->list[r].action);
  RengaFree(&schedule->list);
  RengaFree(&schedule->sequence);
  RengaFree(&schedule->chunk);
  RengaFree(&schedule->chunk_of);
  RengaFree(&schedule->warm_up);
  RengaFree(&schedule->in_flight);
  RengaFree(&schedule->lag);
  RengaFree(&schedule->row_start);
  RengaFree(&schedule->row);
  RengaPatternFree_Private(&schedule->pattern);
  if (schedule->chosen) RengaScheduleFreeLists_Private(schedule->chosen);
  RengaFree(&schedule->chosen); /* its shape is this one's */
  RengaScheduleFreeOrder_Private(schedule);
}

/* The micro-batches of each rank, their order, and how many are in flight: no actions yet. */
RengaErrorCode RengaSchedulePrepare_Private(RengaSchedule schedule)
{
  if (schedule->in_flight) return RENGA_SUCCESS;
  const RengaErrorCode code = PrepareAll(schedule);
  if (code) RengaScheduleFreeLists_Private(schedule);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleBuild_Private(RengaSchedule schedule)
{
  RengaCall(RengaScheduleIndexRows_Private(schedule));
  for (int r = 0; r < schedule->ranks; r++) {
    RengaActionList list = &schedule->list[r];
    if (schedule->forward_only)
      RengaCall(RengaScheduleFillForward_Private(list));
    else
      RengaCall(schedule->ops->build(schedule, r, list));
  }
  RengaScheduleAlignLists_Private(schedule);
  return RENGA_SUCCESS;
}
