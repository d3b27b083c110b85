/* Lists of ways, and ways in coarser or interleaved units. */
#include "splitimpl.h"

RengaErrorCode RengaSplitWaysAdd_Private(const RengaOpCall *call, int64_t units,
                                         RengaSplitWays *ways, RengaSplitWay **way)
{
  RengaSplit *split = NULL;
  const int tensors = call->n_in + call->n_out;
  RengaCall(RengaRealloc(ways->count + 1, &ways->way));
  RengaCall(RengaMalloc(tensors, &split));
  for (int i = 0; i < tensors; i++) split[i] = (RengaSplit){RENGA_SPLIT_WHOLE, 0, 1, 1};
  *way = &ways->way[ways->count++];
  **way = (RengaSplitWay){.units = units, .in = split, .out = split + call->n_in};
  return RENGA_SUCCESS;
}

void RengaSplitWaysFree(RengaSplitWays *ways)
{
  for (int w = 0; w < ways->count; w++) RengaFree(&ways->way[w].in);
  RengaFree(&ways->way);
  ways->count = 0;
}

RengaErrorCode RengaSplitWayRefine(RengaSplitWay *way, const RengaOpCall *call, int64_t repeat,
                                   int64_t unit)
{
  RengaOpCheckValue(repeat > 0 && unit > 0 && way->units % (repeat * unit) == 0, call,
                    "%lld units are not %lld times some of %lld", (long long)way->units,
                    (long long)repeat, (long long)unit);
  RengaOpCheckValue(repeat == 1 || !way->shifted, call,
                    "lanes whose units are interleaved have no first one for %s", way->shifted);
  RengaOpCheckValue(repeat == 1 || way->need != RENGA_LANE_WINDOW, call,
                    "a window moves over consecutive rows, not over %lld times some",
                    (long long)repeat);
  RengaOpCheckValue(repeat == 1 || way->need != RENGA_LANE_INDICES, call,
                    "lanes whose rows are interleaved have no first one of %lld",
                    (long long)way->units);
  way->units /= repeat * unit;
  for (int i = 0; i < call->n_in + call->n_out; i++) {
    RengaSplit *split = i < call->n_in ? &way->in[i] : &way->out[i - call->n_in];
    if (split->kind != RENGA_SPLIT_ALONG) continue;
    split->repeat *= repeat;
    split->unit *= unit;
  }
  return RENGA_SUCCESS;
}
