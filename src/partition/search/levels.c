/* Levels of the machine whose links the stages of a plan use. */
#include "search.h"

/* The ranks of a stage; the caller frees them. */
static RengaErrorCode RanksOfStage(RengaPlan plan, int s, int **rank)
{
  const int replicas = RengaPlanGetStage(plan, s)->shape.replicas;
  RengaCall(RengaMalloc(replicas, rank));
  for (int r = 0; r < replicas; r++) (*rank)[r] = RengaPlanGetRank(plan, s, r);
  return RENGA_SUCCESS;
}

/* The widest level between replicas of two stages that work on the same micro-batch. */
RengaErrorCode RengaSearchLevelOfMessage_Private(const SearchTask *task, RengaPlan plan, int a,
                                                 int b, int *level)
{
  int *from = NULL, *to = NULL;
  RengaErrorCode code = RanksOfStage(plan, a, &from);
  if (!code) code = RanksOfStage(plan, b, &to);
  if (!code)
    *level =
        RengaSearchLevelBetween_Private(task->machine, RengaPlanGetStage(plan, a)->shape.replicas,
                                        from, RengaPlanGetStage(plan, b)->shape.replicas, to);
  RengaFree(&from);
  RengaFree(&to);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode WidestOfStage(RengaMachine machine, RengaPlan plan, int s, int *level)
{
  int *rank = NULL;
  const RengaErrorCode code = RanksOfStage(plan, s, &rank);
  if (!code)
    *level =
        RengaSearchLevelWithin_Private(machine, RengaPlanGetStage(plan, s)->shape.replicas, rank);
  RengaFree(&rank);
  RengaCall(code);
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
                                               bool nearest, int *level)
{
  const int replicas = RengaPlanGetStage(plan, s)->shape.replicas;
  if (nearest)
    RengaCall(NearestLevel(task->machine, replicas, level));
  else
    RengaCall(WidestOfStage(task->machine, plan, s, level));
  return RENGA_SUCCESS;
}
