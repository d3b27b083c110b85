/* What a rank computes, in words. */
#include "app.h"

RengaErrorCode AppDescribeRank(RengaPlan plan, int rank, size_t size, char what[])
{
  RengaPlanPlace place[2];
  int count;
  RengaCall(RengaPlanFindPlaces(plan, rank, 2, place, &count));
  if (count == 0)
    snprintf(what, size, "idle");
  else if (RengaPlanGetStage(plan, place[0].stage)->shape.tensor > 1)
    snprintf(what, size, "stage %d, replica %d, tensor rank %d", place[0].stage, place[0].replica,
             place[0].tensor);
  else if (count == 1)
    snprintf(what, size, "stage %d, replica %d", place[0].stage, place[0].replica);
  else
    snprintf(what, size, "stages %d, %d%s, replica %d", place[0].stage, place[1].stage,
             count > 2 ? ", …" : "", place[0].replica);
  return RENGA_SUCCESS;
}
