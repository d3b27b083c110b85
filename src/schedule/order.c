/* The order in which ranks work through their micro-batches.

   A replica has a range of consecutive micro-batches. If each began at the first of its own, a stage
   of one replica would feed the first replica of the next stage only, and the others would wait. So
   all ranks agree on one order: the ranges of the stage with most replicas are lanes, and the first
   micro-batches of all lanes come first, then the second ones. Within a lane the order ascends, and
   where all stages have the same number of replicas each rank has one lane. */
#include "scheduleimpl.h"

bool RengaScheduleIsEqual_Private(RengaSchedule schedule)
{
  for (int s = 1; s < schedule->stages; s++)
    if (schedule->replicas[s] != schedule->replicas[0]) return false;
  return true;
}

static void FillGlobal(RengaSchedule schedule)
{
  const int64_t m = schedule->microbatches;
  int lanes = 1;
  for (int s = 0; s < schedule->stages; s++)
    if (schedule->replicas[s] > lanes) lanes = schedule->replicas[s];
  int64_t used = 0;
  for (int64_t place = 0; used < m; place++)
    for (int lane = 0; lane < lanes; lane++) {
      const int64_t number = RengaPlanBound(m, lanes, lane) + place;
      if (number >= RengaPlanBound(m, lanes, lane + 1)) continue;
      schedule->place[number] = used;
      schedule->global[used++] = number;
    }
}

static RengaErrorCode FillSharing(RengaSchedule schedule, RengaSharing *sharing)
{
  const int64_t m = schedule->microbatches;
  int64_t *next;
  RengaCall(RengaMalloc(m + 1, &sharing->order));
  RengaCall(RengaMalloc(m + 1, &sharing->owner));
  RengaCall(RengaMalloc(sharing->replicas, &next));
  for (int r = 0; r < sharing->replicas; r++) {
    next[r] = RengaPlanBound(m, sharing->replicas, r);
    for (int64_t i = next[r]; i < RengaPlanBound(m, sharing->replicas, r + 1); i++)
      sharing->owner[i] = r;
  }
  for (int64_t i = 0; i < m; i++) {
    const int64_t number = schedule->global[i];
    sharing->order[next[sharing->owner[number]]++] = number;
  }
  RengaFree(&next);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindSharing(RengaSchedule schedule, int stage)
{
  int found = 0;
  while (found < schedule->n_sharings &&
         schedule->sharing[found].replicas != schedule->replicas[stage])
    found++;
  schedule->sharing_of[stage] = found;
  if (found < schedule->n_sharings) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(schedule->n_sharings + 1, &schedule->sharing));
  RengaSharing *sharing = &schedule->sharing[schedule->n_sharings++];
  *sharing = (RengaSharing){.replicas = schedule->replicas[stage]};
  RengaCall(FillSharing(schedule, sharing));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleMakeOrder_Private(RengaSchedule schedule)
{
  RengaCall(RengaMalloc(schedule->microbatches + 1, &schedule->global));
  RengaCall(RengaMalloc(schedule->microbatches + 1, &schedule->place));
  RengaCall(RengaMalloc(schedule->stages, &schedule->sharing_of));
  FillGlobal(schedule);
  for (int s = 0; s < schedule->stages; s++) RengaCall(FindSharing(schedule, s));
  return RENGA_SUCCESS;
}

void RengaScheduleFreeOrder_Private(RengaSchedule schedule)
{
  for (int i = 0; i < schedule->n_sharings; i++) {
    RengaFree(&schedule->sharing[i].order);
    RengaFree(&schedule->sharing[i].owner);
  }
  schedule->n_sharings = 0;
  RengaFree(&schedule->sharing);
  RengaFree(&schedule->sharing_of);
  RengaFree(&schedule->global);
  RengaFree(&schedule->place);
}
