/* The call of one lane. */
#include "splitimpl.h"

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

/* Rows that a lane looks up are known by their numbers in the whole. */
static RengaErrorCode NumberRows(const RengaOpCall *whole, const RengaSplitWay *way, int64_t first,
                                 RengaAttributes *attributes)
{
  const bool grad = way->in[0].kind != RENGA_SPLIT_ALONG;
  const RengaSplit *split = grad ? &way->out[0] : &way->in[0];
  const RengaTensorSpec *table = grad ? &whole->out[0] : &whole->in[0];
  const int64_t of_all = RengaOpCallInt(whole, "rows");
  RengaCall(RengaAttributesSetInt(attributes, "first",
                                  RengaOpCallInt(whole, "first") + first * split->unit));
  RengaCall(RengaAttributesSetInt(attributes, "rows", of_all ? of_all : table->dim[split->dim]));
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
  RengaErrorCode code = RENGA_SUCCESS;
  if (way->shifted) code = ShiftAttribute(whole, way, first, &copy);
  if (way->need == RENGA_LANE_INDICES) code = NumberRows(whole, way, first, &copy);
  if (way->need == RENGA_LANE_WINDOW)
    code = RengaSplitWindowCall_Private(whole, way, lane, lanes, &in[0], &copy);
  if (way->need == RENGA_LANE_STATISTICS) code = RengaAttributesSetInt(&copy, "training", 0);
  if (code != RENGA_SUCCESS) RengaAttributesFree(&copy);
  RengaCall(code);
  *attributes = copy;
  *call = (RengaOpCall){whole->op, attributes, whole->n_in, whole->n_out, in, out};
  return RENGA_SUCCESS;
}
