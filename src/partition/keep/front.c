/* All choices that may be better than the best so far, place after place from the last: of those
   that lead to the same state the ones that no other beats in bytes and seconds, as long as what is
   left to do at the price of a byte leaves them a chance. Each is also gone on with as that price
   says, which is a choice. */
#include "keepimpl.h"
#include <math.h>
#include <string.h>

typedef struct {
  int state;
  bool again; /* the item that led here was run again */
  int from;   /* record of the point that it comes from; NONE: the first */
  int64_t bytes;
  double seconds;
} KeepPoint;

/* How a point was come to. */
typedef struct {
  int from, state;
  bool again;
} KeepRecord;

typedef struct {
  int64_t count, capacity;
  KeepPoint *point; /* [count] */
} KeepPoints;

/* Points of the place before: those that run the item again, and those that do not, follow those of
   the place in their order, so that either are a few runs which are sorted. */
typedef struct {
  KeepSearch *search;
  int64_t n_records;
  KeepRecord *record;
  KeepPoints own, again, idle, spare; /* of the place; of the one before it; to merge */
  int best, best_place; /* record from which on the rest is followed; NONE: the first choice */
} KeepFront;

static RengaErrorCode AddRecord(KeepFront *front, const KeepPoint *point, int *record)
{
  const int64_t n = front->n_records;
  if ((n & (n - 1)) == 0) RengaCall(RengaRealloc(2 * n + 1, &front->record));
  front->record[n] =
      (KeepRecord){.from = point->from, .state = point->state, .again = point->again};
  *record = (int)front->n_records++;
  return RENGA_SUCCESS;
}

/* The point, and then what its rest says: a choice. */
static RengaErrorCode TryRest(KeepFront *front, int place, const KeepPoint *point)
{
  KeepSearch *search = front->search;
  const KeepRest *rest = &search->rest[point->state];
  if (point->bytes + rest->bytes > search->problem->bound) return RENGA_SUCCESS;
  if (point->seconds + rest->seconds >= search->seconds) return RENGA_SUCCESS;
  search->seconds = point->seconds + rest->seconds;
  RengaCall(AddRecord(front, point, &front->best));
  front->best_place = place;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReservePoints(int64_t count, KeepPoints *points)
{
  if (count <= points->capacity) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(2 * count, &points->point));
  points->capacity = 2 * count;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddPoint(KeepFront *front, int place, KeepPoint point)
{
  KeepSearch *search = front->search;
  const KeepRest *rest = &search->rest[point.state];
  const double bound = (double)search->problem->bound;
  const double least = point.seconds + rest->cost + search->price * ((double)point.bytes - bound);
  if (point.bytes > search->problem->bound) return RENGA_SUCCESS;
  if (least >= search->seconds * (1 - keep_precision)) return RENGA_SUCCESS;
  RengaCall(TryRest(front, place, &point));
  KeepPoints *to = point.again ? &front->again : &front->idle;
  RengaCall(ReservePoints(to->count + 1, to));
  to->point[to->count++] = point;
  return RENGA_SUCCESS;
}

/* The item before the place is not run again, or it is. */
static RengaErrorCode GoOnFrom(KeepFront *front, int place, const KeepPoint *point, int record)
{
  const KeepArc *arc = &front->search->arc[point->state];
  KeepPoint next = {.from = record, .bytes = point->bytes, .seconds = point->seconds};
  if (arc->again >= 0) {
    next.state = arc->again;
    next.again = true;
    next.seconds += front->search->problem->seconds[place - 1];
    RengaCall(AddPoint(front, place - 1, next));
  }
  if (arc->idle < 0) return RENGA_SUCCESS;
  next = (KeepPoint){.state = arc->idle,
                     .from = record,
                     .bytes = point->bytes + arc->price,
                     .seconds = point->seconds};
  RengaCall(AddPoint(front, place - 1, next));
  return RENGA_SUCCESS;
}

static int ComparePoints(const KeepPoint *x, const KeepPoint *y)
{
  if (x->state != y->state) return x->state < y->state ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  return (x->from > y->from) - (x->from < y->from);
}

/* Behind the sorted run that begins there. */
static int64_t EndOfRun(const KeepPoints *points, int64_t begin)
{
  int64_t end = begin + 1;
  while (end < points->count && ComparePoints(&points->point[end - 1], &points->point[end]) <= 0)
    end++;
  return end < points->count ? end : points->count;
}

/* Runs [begin, middle) and [middle, end), of equal points those of the first one first. */
static void MergeRuns(const KeepPoint from[], int64_t begin, int64_t middle, int64_t end,
                      KeepPoint to[])
{
  int64_t one = begin, other = middle;
  for (int64_t at = begin; at < end; at++) {
    const bool first =
        other == end || (one < middle && ComparePoints(&from[one], &from[other]) <= 0);
    to[at] = first ? from[one++] : from[other++];
  }
}

/* Each run with the one behind it, until there is one alone. */
static RengaErrorCode SortRuns(KeepPoints *points, KeepPoints *spare)
{
  RengaCall(ReservePoints(points->count, spare));
  while (EndOfRun(points, 0) < points->count) {
    for (int64_t begin = 0, end; begin < points->count; begin = end) {
      const int64_t middle = EndOfRun(points, begin);
      end = middle < points->count ? EndOfRun(points, middle) : middle;
      MergeRuns(points->point, begin, middle, end, spare->point);
    }
    spare->count = points->count;
    const KeepPoints sorted = *spare;
    *spare = *points;
    *points = sorted;
  }
  return RENGA_SUCCESS;
}

/* Those of a state with more bytes take fewer seconds; the others go. */
static void PruneFront(KeepPoints *points)
{
  int64_t kept = 0;
  for (int64_t i = 0; i < points->count; i++) {
    const KeepPoint *last = kept ? &points->point[kept - 1] : NULL;
    const KeepPoint *point = &points->point[i];
    if (last && last->state == point->state &&
        point->seconds >= last->seconds * (1 - keep_precision))
      continue;
    points->point[kept++] = *point;
  }
  points->count = kept;
}

/* Those that were added become those of the place. */
static RengaErrorCode TakeAddedPoints(KeepFront *front)
{
  KeepPoints *own = &front->own;
  const int64_t again = front->again.count, idle = front->idle.count;
  RengaCall(ReservePoints(again + idle, own));
  if (again) memcpy(own->point, front->again.point, (size_t)again * sizeof *own->point);
  if (idle) memcpy(own->point + again, front->idle.point, (size_t)idle * sizeof *own->point);
  own->count = again + idle;
  front->again.count = front->idle.count = 0;
  RengaCall(SortRuns(own, &front->spare));
  PruneFront(own);
  return RENGA_SUCCESS;
}

/* All points of a place become those of the one before. */
static RengaErrorCode GoOnFromPlace(KeepFront *front, int place)
{
  for (int64_t i = 0; i < front->own.count; i++) {
    const KeepPoint *point = &front->own.point[i];
    int record;
    RengaCall(AddRecord(front, point, &record));
    RengaCall(GoOnFrom(front, place, point, record));
  }
  RengaCall(TakeAddedPoints(front));
  return RENGA_SUCCESS;
}

/* What the best point keeps: what led to it, and then what its rest says. */
static void MarkBest(KeepFront *front)
{
  KeepSearch *search = front->search;
  if (front->best < 0) return;
  memset(search->keep, 0, (size_t)search->problem->values * sizeof *search->keep);
  RengaKeepFollow_Private(search, front->best_place, front->record[front->best].state,
                          search->keep);
  int place = front->best_place + 1;
  for (int r = front->best; front->record[r].from >= 0; r = front->record[r].from, place++)
    if (!front->record[r].again)
      RengaKeepMark_Private(search, place, front->record[front->record[r].from].state,
                            search->keep);
}

static RengaErrorCode LookAtPlaces(KeepFront *front, int64_t limit, bool *all)
{
  KeepSearch *search = front->search;
  const int items = search->problem->items;
  *all = true;
  RengaCall(AddPoint(front, items, (KeepPoint){.state = search->first[items], .from = KEEP_NONE}));
  RengaCall(TakeAddedPoints(front));
  for (int p = items; p > 0 && *all; p--) {
    RengaCall(GoOnFromPlace(front, p));
    *all = front->n_records <= limit;
  }
  MarkBest(front);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaKeepLookAtAll_Private(KeepSearch *search, int64_t limit, int64_t *points,
                                          bool *all)
{
  KeepFront front = {.search = search, .best = KEEP_NONE};
  const RengaErrorCode code = LookAtPlaces(&front, limit, all);
  *points = front.n_records;
  RengaFree(&front.record);
  RengaFree(&front.own.point);
  RengaFree(&front.again.point);
  RengaFree(&front.idle.point);
  RengaFree(&front.spare.point);
  RengaCall(code);
  return RENGA_SUCCESS;
}
