/* The order in which ranks work through their micro-batches.

   A replica has a range of consecutive micro-batches. If each began at the first of its own, a
   stage of one replica would feed the first replica of the next stage only, and the others would
   wait. So all ranks agree on one order. The bounds of the ranges of all stages cut the
   micro-batches into lanes; each lane goes on as fast as it is long, so that after any time each
   rank of a stage has had about the same number. Within a lane the order ascends. Where all stages
   have the same number of replicas each rank has one lane, and its order ascends. */
#include "renga/private/plan.h"
#include "scheduleimpl.h"
#include <stdlib.h>

bool RengaScheduleIsEqual_Private(RengaSchedule schedule)
{
  for (int s = 1; s < schedule->stages; s++)
    if (schedule->replicas[s] != schedule->replicas[0]) return false;
  return true;
}

/* A micro-batch and the share of its lane that comes before it. */
typedef struct {
  double time;
  int64_t number;
} LaneTurn;

static int CompareTurns(const void *a, const void *b)
{
  const LaneTurn *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* starts: [micro-batches + 1] whether some replica's range begins there. */
static void MarkStarts(RengaSchedule schedule, bool starts[])
{
  const int64_t m = schedule->microbatches;
  for (int s = 0; s < schedule->stages; s++)
    for (int r = 0; r <= schedule->replicas[s]; r++)
      starts[RengaPlanLeafBound(m, schedule->leaf, schedule->replicas[s], r)] = true;
}

/* Neighbouring lanes begin far apart (van der Corput), so that a rank with several is not given
   them all at once. */
static double Phase(int64_t lane)
{
  double phase = 0;
  for (double weight = 0.5; lane > 0; lane /= 2, weight /= 2) phase += (double)(lane % 2) * weight;
  return phase;
}

static void TakeLaneTurns(RengaSchedule schedule, const bool starts[], LaneTurn turn[])
{
  const int64_t m = schedule->microbatches;
  int64_t lane = 0;
  for (int64_t first = 0, last; first < m; first = last, lane++) {
    for (last = first + 1; !starts[last]; last++) continue;
    for (int64_t i = first; i < last; i++)
      turn[i] = (LaneTurn){((double)(i - first) + Phase(lane)) / (double)(last - first), i};
  }
  qsort(turn, (size_t)m, sizeof *turn, CompareTurns);
}

static RengaErrorCode FillGlobal(RengaSchedule schedule)
{
  const int64_t m = schedule->microbatches;
  bool *starts = NULL;
  LaneTurn *turn = NULL;
  RengaErrorCode code = RengaMalloc(m + 1, &starts);
  if (!code) code = RengaMalloc(m + 1, &turn);
  if (code) RengaFree(&starts);
  RengaCall(code);
  for (int64_t i = 0; i < m; i++) turn[i].number = i;
  if (!RengaScheduleIsEqual_Private(schedule)) {
    MarkStarts(schedule, starts);
    TakeLaneTurns(schedule, starts, turn);
  }
  for (int64_t i = 0; i < m; i++) {
    schedule->global[i] = turn[i].number;
    schedule->place[turn[i].number] = i;
  }
  RengaFree(&turn);
  RengaFree(&starts);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillSharing(RengaSchedule schedule, RengaSharing *sharing)
{
  const int64_t m = schedule->microbatches;
  int64_t *next;
  RengaCall(RengaMalloc(m + 1, &sharing->order));
  RengaCall(RengaMalloc(m + 1, &sharing->turn));
  RengaCall(RengaMalloc(m + 1, &sharing->owner));
  RengaCall(RengaMalloc(sharing->replicas, &next));
  for (int r = 0; r < sharing->replicas; r++) {
    const int64_t end = RengaPlanLeafBound(m, schedule->leaf, sharing->replicas, r + 1);
    next[r] = RengaPlanLeafBound(m, schedule->leaf, sharing->replicas, r);
    for (int64_t i = next[r]; i < end; i++) sharing->owner[i] = r;
  }
  for (int64_t i = 0; i < m; i++) {
    const int64_t number = schedule->global[i];
    sharing->order[next[sharing->owner[number]]++] = number;
  }
  for (int r = 0; r < sharing->replicas; r++)
    for (int64_t i = RengaPlanLeafBound(m, schedule->leaf, sharing->replicas, r), t = 0;
         i < next[r]; i++)
      sharing->turn[sharing->order[i]] = t++;
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
  RengaCall(FillGlobal(schedule));
  for (int s = 0; s < schedule->stages; s++) RengaCall(FindSharing(schedule, s));
  return RENGA_SUCCESS;
}

void RengaScheduleFreeOrder_Private(RengaSchedule schedule)
{
  for (int i = 0; i < schedule->n_sharings; i++) {
    RengaFree(&schedule->sharing[i].order);
    RengaFree(&schedule->sharing[i].turn);
    RengaFree(&schedule->sharing[i].owner);
  }
  schedule->n_sharings = 0;
  RengaFree(&schedule->sharing);
  RengaFree(&schedule->sharing_of);
  RengaFree(&schedule->global);
  RengaFree(&schedule->place);
}
