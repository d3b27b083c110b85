/* What one lane has: units, shapes, places. */
#include "splitimpl.h"

bool RengaSplitEqual(const RengaSplit *a, const RengaSplit *b)
{
  if (a->kind != b->kind) return false;
  return a->kind != RENGA_SPLIT_ALONG ||
         (a->dim == b->dim && a->repeat == b->repeat && a->unit == b->unit);
}

void RengaLaneUnits(int64_t units, int lane, int lanes, int64_t *first, int64_t *count)
{
  *first = lane * units / lanes;
  *count = (lane + 1) * units / lanes - *first;
}

/* Units of a tensor that is split along a dimension; 0 where it is not. */
int64_t RengaSplitUnits(const RengaTensorSpec *whole, const RengaSplit *split)
{
  if (split->kind != RENGA_SPLIT_ALONG) return 0;
  return whole->dim[split->dim] / (split->repeat * split->unit);
}

RengaTensorSpec RengaSplitSpec(const RengaTensorSpec *whole, const RengaSplit *split, int lane,
                               int lanes)
{
  RengaTensorSpec part = *whole;
  int64_t first, count;
  if (split->kind != RENGA_SPLIT_ALONG) return part;
  RengaLaneUnits(RengaSplitUnits(whole, split), lane, lanes, &first, &count);
  part.dim[split->dim] = split->repeat * count * split->unit;
  return part;
}

/* Row-major: element = (before * extent + at) * after + rest. */
int64_t RengaSplitPlace(const RengaTensorSpec *whole, const RengaSplit *split, int lane, int lanes,
                        int64_t element)
{
  if (split->kind != RENGA_SPLIT_ALONG) return element;
  const int64_t units = RengaSplitUnits(whole, split);
  int64_t first, count;
  RengaLaneUnits(units, lane, lanes, &first, &count);
  const int64_t after = RengaOpProduct(whole, split->dim + 1, whole->ndim);
  const int64_t part = count * split->unit, extent = split->repeat * part;
  const int64_t rest = element % after, at = element / after % extent;
  const int64_t before = element / after / extent;
  const int64_t place = at / part * units * split->unit + first * split->unit + at % part;
  return (before * whole->dim[split->dim] + place) * after + rest;
}
