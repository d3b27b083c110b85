/* What a rank computes, in words. */
#include "app.h"

static void NameMember(const RengaStageShape *shape, const RengaPlanPlace *place, size_t size,
                       char what[])
{
  int used = snprintf(what, size, "stage %d, replica %d", place->stage, place->replica);
  if (shape->sequence > 1)
    used +=
        snprintf(what + used, size - (size_t)used, ", context-parallel rank %d", place->sequence);
  if (shape->tensor > 1)
    snprintf(what + used, size - (size_t)used, ", tensor-parallel rank %d", place->tensor);
}

RengaErrorCode AppDescribeRank(RengaPlan plan, int rank, size_t size, char what[])
{
  RengaPlanPlace place[2];
  int count;
  RengaCall(RengaPlanFindPlaces(plan, rank, 2, place, &count));
  const RengaStageShape *shape = count ? &RengaPlanGetStage(plan, place[0].stage)->shape : NULL;
  if (count == 0)
    snprintf(what, size, "idle");
  else if (shape && shape->tensor * shape->sequence > 1)
    NameMember(shape, &place[0], size, what);
  else if (count == 1)
    snprintf(what, size, "stage %d, replica %d", place[0].stage, place[0].replica);
  else
    snprintf(what, size, "stages %d, %d%s, replica %d", place[0].stage, place[1].stage,
             count > 2 ? ", …" : "", place[0].replica);
  return RENGA_SUCCESS;
}
