/* ZB-V: rank r of p has stages r and 2p-1-r, so that the rank with which a micro-batch begins is
   the one with which it ends, and holds it for a short time in the later stage. Gradients of
   parameters fill what would be waiting: where forwards, backwards of inputs and those take as long
   nothing waits between a rank's first action and its last, and no rank holds more than 2p
   micro-batches of a stage.
   Qi, Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS 2024.

   The paper's lists are made by a heuristic, and so are these: greedily in time, all actions being
   as long, for every bound on what a stage may hold; the shortest are taken, and of these the ones
   that hold least. */
#include "pattern.h"
#include <math.h>

enum { ZBV_CHUNKS = 2, ROWS_QUICK = 20000 };

typedef struct {
  RengaSchedule schedule;
  int across;
  double *one;   /* [stages] */
  int64_t *most; /* [stages] */
  RengaPattern *best;
  double makespan;
  int64_t held;
} ZBVSearch;

static RengaErrorCode TryBound(ZBVSearch *search, int64_t bound)
{
  RengaSchedule schedule = search->schedule;
  RengaPattern *pattern = NULL;
  double makespan = 0;
  int64_t held = 0;
  for (int s = 0; s < schedule->stages; s++) search->most[s] = bound;
  const RengaGreedy greedy = {.stages = schedule->stages,
                              .across = search->across,
                              .wave = true,
                              .seconds = {search->one, search->one, search->one},
                              .whole = schedule->recompute,
                              .most = search->most,
                              .most_of_rank = ZBV_CHUNKS * search->across};
  RengaCall(RengaPatternCreate_Private(search->across, RengaScheduleMostTurns_Private(schedule),
                                       &pattern));
  const RengaErrorCode code = RengaScheduleRunGreedy_Private(&greedy, pattern, &makespan, &held);
  if (!code && makespan < HUGE_VAL &&
      (!search->best || makespan < search->makespan ||
       (makespan <= search->makespan && held < search->held))) {
    RengaPattern *old = search->best;
    search->best = pattern;
    search->makespan = makespan;
    search->held = held;
    pattern = old;
  }
  RengaPatternFree_Private(&pattern);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of a long step a few bounds. */
static RengaErrorCode TryBounds(ZBVSearch *search)
{
  const int64_t rows =
      3 * search->schedule->stages * RengaScheduleMostTurns_Private(search->schedule);
  const int most = ZBV_CHUNKS * search->across;
  const int step = rows > ROWS_QUICK ? 1 + most / 8 : 1;
  RengaCall(RengaMalloc(search->schedule->stages, &search->one));
  RengaCall(RengaMalloc(search->schedule->stages, &search->most));
  for (int s = 0; s < search->schedule->stages; s++) search->one[s] = 1;
  for (int bound = most; bound >= 1; bound -= step) RengaCall(TryBound(search, bound));
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawZBV(RengaSchedule schedule, RengaPattern **pattern)
{
  RengaCall(RengaScheduleWantPlaces_Private(schedule, true, ZBV_CHUNKS));
  ZBVSearch search = {.schedule = schedule, .across = schedule->stages / ZBV_CHUNKS};
  const RengaErrorCode code = TryBounds(&search);
  RengaFree(&search.one);
  RengaFree(&search.most);
  if (code) RengaPatternFree_Private(&search.best);
  RengaCall(code);
  *pattern = search.best;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_ZBV(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] =
      (struct _RengaScheduleOps){.build = RengaScheduleFillPattern_Private, .draw = DrawZBV};
  return RENGA_SUCCESS;
}
