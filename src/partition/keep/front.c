/* All choices that may be better than the best so far, place after place from the last: of those
   that lead to the same state the ones that no other beats in bytes and seconds, as long as what is
   left to do at the price of a byte leaves them a chance. Each is also gone on with as that price
   says, which is a choice. */
#include "keepimpl.h"
#include <math.h>
#include <stdlib.h>
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
  KeepSearch *search;
  int64_t n_records, n_points, n_next;
  KeepRecord *record;
  KeepPoint *point, *next; /* of the place, and of the one before it */
  int best, best_place;    /* record from which on the rest is followed; NONE: the first choice */
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

static RengaErrorCode AddPoint(KeepFront *front, int place, KeepPoint point)
{
  KeepSearch *search = front->search;
  const KeepRest *rest = &search->rest[point.state];
  const double bound = (double)search->problem->bound;
  const double least = point.seconds + rest->cost + search->price * ((double)point.bytes - bound);
  if (point.bytes > search->problem->bound) return RENGA_SUCCESS;
  if (least >= search->seconds * (1 - keep_precision)) return RENGA_SUCCESS;
  RengaCall(TryRest(front, place, &point));
  const int64_t n = front->n_next;
  if ((n & (n - 1)) == 0) RengaCall(RengaRealloc(2 * n + 1, &front->next));
  front->next[front->n_next++] = point;
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

static int ComparePoints(const void *a, const void *b)
{
  const KeepPoint *x = a, *y = b;
  if (x->state != y->state) return x->state < y->state ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  return (x->from > y->from) - (x->from < y->from);
}

/* Those of a state with more bytes take fewer seconds; the others go. */
static void PruneFront(KeepFront *front)
{
  int64_t kept = 0;
  if (front->n_next) qsort(front->next, (size_t)front->n_next, sizeof *front->next, ComparePoints);
  for (int64_t i = 0; i < front->n_next; i++) {
    const KeepPoint *last = kept ? &front->next[kept - 1] : NULL;
    const KeepPoint *point = &front->next[i];
    if (last && last->state == point->state &&
        point->seconds >= last->seconds * (1 - keep_precision))
      continue;
    front->next[kept++] = *point;
  }
  front->n_next = kept;
}

/* All points of a place become those of the one before. */
static RengaErrorCode GoOnFromPlace(KeepFront *front, int place)
{
  front->n_next = 0;
  for (int64_t i = 0; i < front->n_points; i++) {
    const KeepPoint point = front->point[i];
    int record;
    RengaCall(AddRecord(front, &point, &record));
    RengaCall(GoOnFrom(front, place, &point, record));
  }
  PruneFront(front);
  RengaFree(&front->point);
  front->point = front->next;
  front->n_points = front->n_next;
  front->next = NULL;
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
  front->point = front->next;
  front->n_points = front->n_next;
  front->next = NULL;
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
  RengaFree(&front.point);
  RengaFree(&front.next);
  RengaCall(code);
  return RENGA_SUCCESS;
}
