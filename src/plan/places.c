/* Stages, and who works where. */
#include "planimpl.h"

/*@
   RengaPlanGetStageCount - number of stages

   See also: RengaPlanGetStage()
@*/
int RengaPlanGetStageCount(RengaPlan plan)
{
  RengaCheckHandle(plan, 0);
  return plan->count;
}

/*@
   RengaPlanGetStage - one stage, lent until the plan changes

   Input:
   . stage - number of the stage; NULL is returned where there is no such stage

   See also: RengaPlanGetStageCount(), RengaPlanSetStages()
@*/
const RengaPlanStage *RengaPlanGetStage(RengaPlan plan, int stage)
{
  RengaCheckHandle(plan, NULL);
  return stage >= 0 && stage < plan->count ? &plan->stage[stage] : NULL;
}

/*@
   RengaPlanGetRankAt - the rank that works at a place

   Input:
   . place - stage, replica, and the numbers of its context-parallel and tensor-parallel rank, each
     from 0; -1 is returned where there is no such place

   See also: RengaPlanGetRank(), RengaPlanFindPlaces()
@*/
int RengaPlanGetRankAt(RengaPlan plan, const RengaPlanPlace *place)
{
  RengaCheckHandle(plan, -1);
  RengaCheckHandle(place, -1);
  const RengaPlanStage *row = RengaPlanGetStage(plan, place->stage);
  if (!row || place->replica < 0 || place->replica >= row->shape.replicas || place->sequence < 0 ||
      place->sequence >= row->shape.sequence || place->tensor < 0 ||
      place->tensor >= row->shape.tensor)
    return -1;
  const int group = place->replica * row->shape.sequence + place->sequence;
  return plan->rank[plan->offset[place->stage] + group * row->shape.tensor + place->tensor];
}

/*@
   RengaPlanGetRank - the first rank of a stage's replica

   Input:
   . stage - the number of the stage, from 0
   . replica - number of the replica; -1 is returned where there is no such place

   See also: RengaPlanGetRankAt(), RengaPlanFindRank()
@*/
int RengaPlanGetRank(RengaPlan plan, int stage, int replica)
{
  RengaCheckHandle(plan, -1);
  return RengaPlanGetRankAt(plan, &(RengaPlanPlace){.stage = stage, .replica = replica});
}

/*@
   RengaPlanGetRankCount - number of ranks that have work

   See also: RengaPlanGetRank(), RengaPlanGetAvailableRanks()
@*/
int RengaPlanGetRankCount(RengaPlan plan)
{
  RengaCheckHandle(plan, 0);
  return plan->count ? plan->offset[plan->count / plan->stage[0].shape.chunks] : 0;
}

int RengaPlanFirstOf_Private(RengaPlan plan, bool wave, int stage)
{
  const int across = plan->count / plan->stage[0].shape.chunks, first = stage % across;
  return wave && stage / across % 2 ? across - 1 - first : first;
}

bool RengaPlanIsWave_Private(RengaPlan plan, const int ranks[])
{
  const int chunks = plan->stage[0].shape.chunks, across = plan->count / chunks;
  return chunks > 1 && across > 1 && ranks[plan->offset[across]] == ranks[plan->offset[across - 1]];
}

/*@
   RengaPlanGetFirstStage - the first stage that the ranks of a stage have

   Input:
   . plan - the plan, with its stages
   . stage - number of the stage; -1 is returned where there is no such stage

   See also: RengaPlanSetRanks(), RengaPlanSetWave()
@*/
int RengaPlanGetFirstStage(RengaPlan plan, int stage)
{
  RengaCheckHandle(plan, -1);
  if (stage < 0 || stage >= plan->count) return -1;
  return RengaPlanFirstOf_Private(plan, plan->wave, stage);
}

/*@
   RengaPlanGetDeviceMemory - what a device of a stage will need in all

   Input:
   . plan - the plan, with its stages
   . stage - the number of the stage, from 0

   Output:
   . bytes - bytes of this stage, and of the others of the same ranks where shapes have chunks; 0:
     of one of them it is not known

   Errors: RENGA_ERR_ARGUMENT for a stage that there is not.

   See also: RengaPlanSetMemory()
@*/
RengaErrorCode RengaPlanGetDeviceMemory(RengaPlan plan, int stage, int64_t *bytes)
{
  int64_t sum = 0;
  RengaCheckPointers(plan, bytes);
  RengaCheck(stage >= 0 && stage < plan->count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "stage %d of a plan with %d stages", stage, plan->count);
  const int first = RengaPlanGetFirstStage(plan, stage);
  *bytes = 0;
  for (int s = first; s < plan->count; s++) {
    if (RengaPlanGetFirstStage(plan, s) != first) continue;
    if (plan->stage[s].memory == 0) return RENGA_SUCCESS;
    sum += plan->stage[s].memory;
  }
  *bytes = sum;
  return RENGA_SUCCESS;
}

/*@
   RengaPlanFindRank - the first place of a rank

   Input:
   . rank - the rank, from 0

   Output:
   . stage - its stage, -1 where the rank is idle
   . replica - its replica, -1 where the rank is idle

   Notes: RengaPlanFindPlaces() gives all places, and their context- and tensor-parallel ranks.

   See also: RengaPlanFindPlaces(), RengaPlanGetRank()
@*/
RengaErrorCode RengaPlanFindRank(RengaPlan plan, int rank, int *stage, int *replica)
{
  RengaPlanPlace place = {.stage = -1, .replica = -1};
  int count;
  RengaCheckPointers(stage, replica);
  RengaCall(RengaPlanFindPlaces(plan, rank, 1, &place, &count));
  *stage = place.stage;
  *replica = place.replica;
  return RENGA_SUCCESS;
}

int64_t RengaPlanStride_Private(RengaPlan plan, int stage)
{
  const RengaStageShape *shape = &plan->stage[stage].shape;
  const int group = RengaShapeGroup_Private(shape), *rank = plan->rank + plan->offset[stage];
  if (shape->replicas == 1 || rank[group] - rank[0] < group) return group;
  return rank[group] - rank[0];
}

/*@
   RengaPlanFindPlaces - all places at which a rank works

   Input:
   . rank - the rank, from 0
   . most - the number of places that there is room for, at least 0

   Output:
   . places - [most] the first of them, stage after stage; others are not touched
   . count - the number of all places, also of those without room: 0 where the rank is idle, else
     the chunks of its stages' shapes

   See also: RengaPlanFindRank(), RengaPlanGetRankAt()
@*/
RengaErrorCode RengaPlanFindPlaces(RengaPlan plan, int rank, int most, RengaPlanPlace places[],
                                   int *count)
{
  RengaCheckPointers(plan, places, count);
  *count = 0;
  for (int s = 0; s < plan->count; s++)
    for (int r = plan->offset[s]; r < plan->offset[s + 1]; r++) {
      const int at = r - plan->offset[s], each = RengaShapeGroup_Private(&plan->stage[s].shape);
      if (plan->rank[r] != rank) continue;
      if (*count < most) places[*count] = RengaPlanPlaceOf_Private(plan, s, at / each, at % each);
      ++*count;
    }
  return RENGA_SUCCESS;
}
