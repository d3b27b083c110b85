/* The axes of a Reshape: factors of the number of elements that lie within one dimension of x and
   within one of y. [T, 3*h*d] -> [T, 3, h, d] has the axes T, 3, h and d. */
#include "splitimpl.h"

enum { CUTS = 2 * RENGA_MAX_DIM + 2 };

/* Elements that lie behind each dimension and all later ones, in ascending order. */
static int AddCuts(const RengaTensorSpec *spec, int count, int64_t cuts[])
{
  int64_t behind = 1;
  for (int d = spec->ndim - 1; d >= -1; d--) {
    int at = 0;
    while (at < count && cuts[at] < behind) at++;
    if (at == count || cuts[at] != behind) {
      for (int i = count++; i > at; i--) cuts[i] = cuts[i - 1];
      cuts[at] = behind;
    }
    if (d >= 0) behind *= spec->dim[d];
  }
  return count;
}

/* The factor from low to high elements in a shape; false where no dimension has all of it. */
static bool FindFactor(const RengaTensorSpec *spec, int64_t low, int64_t high, RengaSplit *split)
{
  int64_t behind = 1;
  for (int d = spec->ndim - 1; d >= 0; behind *= spec->dim[d--]) {
    const int64_t all = behind * spec->dim[d];
    if (low < behind || high > all) continue;
    if (low % behind || high % low || all % high) continue;
    *split = (RengaSplit){RENGA_SPLIT_ALONG, d, all / high, low / behind};
    return true;
  }
  return false;
}

RengaErrorCode RengaSplitWaysAddReshape_Private(const RengaOpCall *call, RengaSplitWays *ways)
{
  int64_t cuts[CUTS];
  RengaSplit in, out;
  if (RengaTensorSpecCount(&call->in[0]) < 2) return RENGA_SUCCESS;
  int count = AddCuts(&call->in[0], 0, cuts);
  count = AddCuts(&call->out[0], count, cuts);
  for (int k = count - 2; k >= 0; k--) {
    RengaSplitWay *way = NULL;
    if (!FindFactor(&call->in[0], cuts[k], cuts[k + 1], &in)) continue;
    if (!FindFactor(&call->out[0], cuts[k], cuts[k + 1], &out)) continue;
    RengaCall(RengaSplitWaysAdd_Private(call, cuts[k + 1] / cuts[k], ways, &way));
    way->in[0] = in;
    way->out[0] = out;
  }
  return RENGA_SUCCESS;
}
