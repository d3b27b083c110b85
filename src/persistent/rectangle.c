/* Geometry of rectangles. */
#include "renga/private/rectangle.h"
#include "renga/private/object.h"
#include <string.h>

/* The rectangle that is the whole tensor. whole: the rectangle, from 0, as long as each dimension.
   */
RengaErrorCode RengaRectangleWhole(const RengaTensorSpec *spec, RengaRectangle *whole)
{
  RengaCheckPointers(spec, whole);
  memset(whole, 0, sizeof *whole);
  for (int d = 0; d < spec->ndim; d++) whole->extent[d] = spec->dim[d];
  return RENGA_SUCCESS;
}

/* Its elements. */
int64_t RengaRectangleCount(const RengaTensorSpec *spec, const RengaRectangle *rectangle)
{
  int64_t count = 1;
  RengaCheckHandle(spec, -1);
  RengaCheckHandle(rectangle, -1);
  for (int d = 0; d < spec->ndim; d++) count *= rectangle->extent[d];
  return count;
}

/* The memory of what is here of a tensor. */
int64_t RengaPersistentGetBytes(const RengaPersistent *persistent)
{
  RengaCheckHandle(persistent, -1);
  return RengaRectangleCount(&persistent->spec, &persistent->part) *
         (int64_t)RengaDataTypeSize(persistent->spec.type);
}

/* Elements of the tensor between two neighbours in dimension d. */
static int64_t StrideOfDimension(const RengaTensorSpec *spec, int d)
{
  int64_t stride = 1;
  for (int e = d + 1; e < spec->ndim; e++) stride *= spec->dim[e];
  return stride;
}

/* The largest rectangle that begins with element `first` and is a range that ends at `last` or
   before it; returns its elements. */
static int64_t CutRectangle(const RengaTensorSpec *spec, int64_t first, int64_t last,
                            RengaRectangle *cut)
{
  int d = 0;
  int64_t stride = StrideOfDimension(spec, 0), slabs = 0;
  while (first % stride != 0 || first + stride > last) stride = StrideOfDimension(spec, ++d);
  RengaRectangleWhole(spec, cut);
  for (int e = 0; e <= d; e++) {
    cut->start[e] = first / StrideOfDimension(spec, e) % spec->dim[e];
    cut->extent[e] = 1;
  }
  slabs = spec->dim[d] - cut->start[d];
  if (slabs > (last - first) / stride) slabs = (last - first) / stride;
  cut->extent[d] = slabs;
  return slabs * stride;
}

/* A range of a tensor as rectangles. first, count: the first element of it as a row-major vector,
   from 0, and the number of elements, at least 0. n: number of rectangles: 0 for an empty range, at
   most 2 ndim - 1. rectangles: [RENGA_RANGE_RECTANGLES] room for them; one after the other they are
   the range. */
RengaErrorCode RengaRectanglesOfRange(const RengaTensorSpec *spec, int64_t first, int64_t count,
                                      int *n, RengaRectangle rectangles[])
{
  RengaCheckPointers(spec, n, rectangles);
  const int64_t all = RengaTensorSpecCount(spec), last = first + count;
  RengaCheck(first >= 0 && count >= 0 && count <= all && first <= all - count, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "elements %lld to %lld of a tensor of %lld", (long long)first,
             (long long)last, (long long)all);
  int made = 0;
  if (spec->ndim == 0 && count > 0) {
    RengaCall(RengaRectangleWhole(spec, &rectangles[made++]));
    first = last;
  }
  while (first < last) first += CutRectangle(spec, first, last, &rectangles[made++]);
  *n = made;
  return RENGA_SUCCESS;
}

RengaRuns RengaRunsOf(const RengaTensorSpec *spec, const RengaRectangle *part)
{
  RengaRuns runs = {.spec = spec, .part = part, .outer = spec->ndim, .length = 1, .count = 1};
  bool whole = true;
  while (runs.outer > 0 && whole) {
    runs.outer--;
    runs.length *= part->extent[runs.outer];
    whole = part->extent[runs.outer] == spec->dim[runs.outer];
  }
  for (int d = 0; d < runs.outer; d++) runs.count *= part->extent[d];
  if (runs.length == 0) runs.count = 0;
  return runs;
}

int64_t RengaRunsAt(const RengaRuns *runs, int64_t r)
{
  const RengaRectangle *part = runs->part;
  const int outer = runs->outer;
  int64_t at = 0, stride = 1;
  if (runs->spec->ndim == 0) return 0;
  for (int d = runs->spec->ndim - 1; d > outer; d--) stride *= runs->spec->dim[d];
  at = part->start[outer] * stride;
  for (int d = outer - 1; d >= 0; d--) {
    stride *= runs->spec->dim[d + 1];
    at += (part->start[d] + r % part->extent[d]) * stride;
    r /= part->extent[d];
  }
  return at;
}

int64_t RengaRunsFind(const RengaRuns *runs, int64_t place)
{
  int64_t low = 0, high = runs->count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (RengaRunsAt(runs, middle) + runs->length > place)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

int64_t RengaRunsBefore(const RengaRuns *runs, int64_t place)
{
  const int64_t r = RengaRunsFind(runs, place);
  const int64_t inside = r < runs->count ? place - RengaRunsAt(runs, r) : 0;
  return r * runs->length + (inside > 0 ? inside : 0);
}

bool RengaRectangleEqual(const RengaTensorSpec *spec, const RengaRectangle *a,
                         const RengaRectangle *b)
{
  for (int d = 0; d < spec->ndim; d++)
    if (a->start[d] != b->start[d] || a->extent[d] != b->extent[d]) return false;
  return true;
}

bool RengaRectangleHolds(const RengaTensorSpec *spec, const RengaRectangle *outer,
                         const RengaRectangle *inner)
{
  for (int d = 0; d < spec->ndim; d++)
    if (inner->start[d] < outer->start[d] ||
        inner->start[d] + inner->extent[d] > outer->start[d] + outer->extent[d])
      return false;
  return true;
}

bool RengaRectangleMeets(const RengaTensorSpec *spec, const RengaRectangle *a,
                         const RengaRectangle *b)
{
  for (int d = 0; d < spec->ndim; d++)
    if (a->extent[d] == 0 || b->extent[d] == 0 || a->start[d] >= b->start[d] + b->extent[d] ||
        b->start[d] >= a->start[d] + a->extent[d])
      return false;
  return true;
}
