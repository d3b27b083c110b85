/* Levels of the machine whose links the stages of a plan use. */
#include "search.h"

/* Of the replicas of a stage those with this number among their ranks, which have to do with each
   other alone; the caller frees them. */
static RengaErrorCode RanksOfStage(RengaPlan plan, int s, int n, int **rank)
{
  const int replicas = RengaPlanGetStage(plan, s)->shape.replicas;
  RengaCall(RengaMalloc(replicas, rank));
  for (int r = 0; r < replicas; r++) {
    const RengaPlanPlace place = RengaPlanPlaceOf_Private(plan, s, r, n);
    (*rank)[r] = RengaPlanGetRankAt(plan, &place);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode LevelBetweenStages(RengaMachine machine, RengaPlan plan, int a, int b, int n,
                                         int *level)
{
  int *from = NULL, *to = NULL;
  RengaErrorCode code = RanksOfStage(plan, a, n, &from);
  if (!code) code = RanksOfStage(plan, b, n, &to);
  if (!code)
    *level = RengaSearchLevelBetween_Private(machine, RengaPlanGetStage(plan, a)->shape.replicas,
                                             from, RengaPlanGetStage(plan, b)->shape.replicas, to);
  RengaFree(&from);
  RengaFree(&to);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The widest level between replicas of two stages that work on the same micro-batch. */
RengaErrorCode RengaSearchLevelOfMessage_Private(const SearchTask *task, RengaPlan plan, int a,
                                                 int b, int *level)
{
  *level = 0;
  for (int t = 0; t < RengaShapeGroup_Private(&RengaPlanGetStage(plan, a)->shape); t++) {
    int own = 0;
    RengaCall(LevelBetweenStages(task->machine, plan, a, b, t, &own));
    if (own > *level) *level = own;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WidestOfStage(RengaMachine machine, RengaPlan plan, int s, int groups,
                                    int *level)
{
  const RengaStageShape *shape = &RengaPlanGetStage(plan, s)->shape;
  const int each = shape->replicas / groups;
  *level = 0;
  for (int t = 0; t < RengaShapeGroup_Private(shape); t++) {
    int *rank = NULL;
    const RengaErrorCode code = RanksOfStage(plan, s, t, &rank);
    for (int g = 0; g < groups && !code; g++) {
      const int own = RengaSearchLevelWithin_Private(machine, each, rank + g * each);
      if (own > *level) *level = own;
    }
    RengaFree(&rank);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

/* The lowest level whose groups hold so many devices. */
static RengaErrorCode NearestLevel(RengaMachine machine, int devices, int *level)
{
  const RengaMachineLevel *levels;
  int count = 0;
  RengaCall(RengaMachineGetLevels(machine, &count, &levels));
  for (*level = 0; *level < count - 1 && levels[*level].devices < devices;) ++*level;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchLevelOfStage_Private(const SearchTask *task, RengaPlan plan, int s,
                                               int groups, bool nearest, int *level)
{
  const RengaStageShape *shape = &RengaPlanGetStage(plan, s)->shape;
  if (nearest)
    RengaCall(NearestLevel(task->machine, RengaSearchShapeDevices_Private(shape) / groups, level));
  else
    RengaCall(WidestOfStage(task->machine, plan, s, groups, level));
  return RENGA_SUCCESS;
}
