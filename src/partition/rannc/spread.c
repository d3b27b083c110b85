/* Of the pipelines whose slowest stages are no slower than a known one's there are many. A stage
   that takes less than the slowest hides messages, and so does one that sends little: the sum of
   squares of what stages take, messages in both directions with it, is made least under the known
   maxima. This is what RaNNC's uncoarsening is for (less to be sent), for all boundaries at once:
   a shortest path over places near those where the known pipeline's stages begin. */
#include "rannc.h"
#include <math.h>

typedef struct {
  const RanncTask *task;
  int width; /* places that a boundary may have: 2 reach + 1 */
  RanncCost most;
  double *least; /* [stages][width] of the stages from here to the last */
  int *next;     /* [stages][width] the place where the one after this begins */
} SpreadPaths;

static int PlaceOfStage(const RanncTask *task, int stage, int k)
{
  if (stage == task->near->count) return task->blocks;
  return task->near->begin[stage] + k - task->reach;
}

/* Of the first stage, and after the last, there is one place. */
static bool IsPlace(const SpreadPaths *paths, int stage, int k)
{
  const RanncTask *task = paths->task;
  if (stage == 0 || stage == task->near->count) return k == task->reach;
  const int place = PlaceOfStage(task, stage, k);
  return place > 0 && place < task->blocks;
}

static bool StageWithin(const SpreadPaths *paths, int stage, int begin, int end, RanncCost *cost)
{
  const RanncTask *task = paths->task;
  const RanncCost *most = &paths->most;
  return begin < end &&
         task->cost(task->context, begin, end, task->near->option[stage], task->near->count - stage,
                    cost) &&
         cost->forward <= most->forward && cost->backward <= most->backward &&
         cost->reduce <= most->reduce;
}

static void FindMostSent(SpreadPaths *paths)
{
  const RanncStaging *near = paths->task->near;
  paths->most = (RanncCost){HUGE_VAL, HUGE_VAL, HUGE_VAL};
  RanncCost most = {0};
  for (int s = 0; s < near->count; s++) {
    RanncCost cost = {0};
    StageWithin(paths, s, near->begin[s], PlaceOfStage(paths->task, s + 1, paths->task->reach),
                &cost);
    most.forward = fmax(most.forward, cost.forward);
    most.backward = fmax(most.backward, cost.backward);
    most.reduce = fmax(most.reduce, cost.reduce);
  }
  paths->most = most;
}

static void FindLeast(SpreadPaths *paths, int stage, int k)
{
  const RanncTask *task = paths->task;
  const int at = stage * paths->width + k, begin = PlaceOfStage(task, stage, k);
  const double *after = paths->least + (int64_t)(stage + 1) * paths->width;
  paths->least[at] = HUGE_VAL;
  for (int j = 0; j < paths->width && IsPlace(paths, stage, k); j++) {
    const int end = PlaceOfStage(task, stage + 1, j);
    RanncCost cost;
    if (!IsPlace(paths, stage + 1, j) || after[j] >= paths->least[at] ||
        !StageWithin(paths, stage, begin, end, &cost))
      continue;
    const double takes = cost.forward + cost.backward, sum = takes * takes + after[j];
    if (sum < paths->least[at]) paths->least[at] = sum, paths->next[at] = j;
  }
}

/* True: a boundary moved. */
static bool Follow(const SpreadPaths *paths, RanncStaging *staging)
{
  const RanncTask *task = paths->task;
  bool moved = false;
  for (int s = 0, k = task->reach; s < staging->count; s++) {
    moved = moved || k != task->reach;
    staging->begin[s] += k - task->reach;
    k = paths->next[s * paths->width + k];
  }
  return moved;
}

RengaErrorCode RengaRanncSpread_Private(const RanncTask *task, RanncStaging *staging, bool *moved)
{
  SpreadPaths paths = {.task = task, .width = 2 * task->reach + 1};
  const int count = staging->count;
  RengaErrorCode code = RengaMalloc((int64_t)(count + 1) * paths.width, &paths.least);
  if (!code) code = RengaMalloc((int64_t)count * paths.width, &paths.next);
  if (!code) FindMostSent(&paths);
  for (int s = count - 1; s >= 0 && !code; s--)
    for (int k = 0; k < paths.width; k++) FindLeast(&paths, s, k);
  if (!code) *moved = Follow(&paths, staging);
  RengaFree(&paths.least);
  RengaFree(&paths.next);
  RengaCall(code);
  return RENGA_SUCCESS;
}
