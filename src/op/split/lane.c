/* What one lane has: units, shapes, places, its call. */
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

/* An attribute that counts what a lane has: groups, or extents of parts. */
static void ScaleAttribute(const RengaSplitWay *way, int64_t count, RengaAttributes *attributes)
{
  const RengaAttribute *row = RengaAttributesFind(attributes, way->scaled);
  for (int i = 0; row && i < row->count; i++) row->ints[i] = row->ints[i] * count / way->units;
}

/* An attribute that says where the first element of the axis lies. */
static RengaErrorCode ShiftAttribute(const RengaOpCall *whole, const RengaSplitWay *way,
                                     int64_t first, RengaAttributes *attributes)
{
  int64_t unit = 1;
  for (int i = 0; i < whole->n_in; i++)
    if (way->in[i].kind == RENGA_SPLIT_ALONG) unit = way->in[i].unit;
  RengaCall(RengaAttributesSetInt(attributes, way->shifted,
                                  RengaOpCallInt(whole, way->shifted) + first * unit));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSplitCall(const RengaOpCall *whole, const RengaSplitWay *way, int lane,
                              int lanes, RengaTensorSpec in[], RengaTensorSpec out[],
                              RengaAttributes *attributes, RengaOpCall *call)
{
  RengaAttributes copy = {0};
  int64_t first, count;
  RengaLaneUnits(way->units, lane, lanes, &first, &count);
  for (int i = 0; i < whole->n_in; i++)
    in[i] = RengaSplitSpec(&whole->in[i], &way->in[i], lane, lanes);
  for (int o = 0; o < whole->n_out; o++)
    out[o] = RengaSplitSpec(&whole->out[o], &way->out[o], lane, lanes);
  RengaCall(RengaAttributesCopy(whole->attributes, &copy));
  if (way->scaled) ScaleAttribute(way, count, &copy);
  if (way->shifted) RengaCall(ShiftAttribute(whole, way, first, &copy));
  *attributes = copy;
  *call = (RengaOpCall){whole->op, attributes, whole->n_in, whole->n_out, in, out};
  return RENGA_SUCCESS;
}
