/* All choices that may be better than the best so far, place after place: of those that lead to the
   same state the ones that no other beats in bytes and seconds, as long as the rest at the price of
   a byte leaves them a chance. */
#include "widthimpl.h"
#include <stdlib.h>

/* One way of reaching a state; from: the point before it, -1 for the first. */
typedef struct {
  int state, way, from;
  int64_t bytes;
  double seconds;
} WidthPoint;

typedef struct {
  WidthSearch *search;
  int64_t count;     /* of all places */
  WidthPoint *point; /* those of a place stand together, by state */
} WidthFront;

static RengaErrorCode AddWidthPoint(WidthFront *front, WidthPoint point)
{
  const WidthSearch *search = front->search;
  const int64_t bound = search->problem->bound, n = front->count;
  if (search->least[point.state] > bound - point.bytes) return RENGA_SUCCESS;
  const double least = point.seconds + search->rest[point.state] +
                       search->price * ((double)point.bytes - (double)bound);
  if (least >= search->seconds * (1 - width_precision)) return RENGA_SUCCESS;
  if ((n & (n - 1)) == 0) RengaCall(RengaRealloc(2 * n + 1, &front->point));
  front->point[front->count++] = point;
  return RENGA_SUCCESS;
}

static int CompareWidthPoints(const void *a, const void *b)
{
  const WidthPoint *x = a, *y = b;
  if (x->state != y->state) return x->state < y->state ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  return (x->from > y->from) - (x->from < y->from);
}

/* Those of a state with more bytes take fewer seconds; the others go. */
static void DropBeaten(WidthFront *front, int64_t first)
{
  int64_t kept = first;
  if (front->count > first)
    qsort(front->point + first, (size_t)(front->count - first), sizeof *front->point,
          CompareWidthPoints);
  for (int64_t i = first; i < front->count; i++) {
    const WidthPoint *last = kept > first ? &front->point[kept - 1] : NULL;
    if (last && last->state == front->point[i].state && front->point[i].seconds >= last->seconds)
      continue;
    front->point[kept++] = front->point[i];
  }
  front->count = kept;
}

/* The first point of a state of a place, which stand there by state. */
static int64_t FindPoints(const WidthFront *front, int64_t first, int64_t last, int state)
{
  while (first < last) {
    const int64_t middle = first + (last - first) / 2;
    if (front->point[middle].state < state)
      first = middle + 1;
    else
      last = middle;
  }
  return first;
}

static RengaErrorCode TakeArcs(WidthFront *front, int node, int64_t first, int64_t last)
{
  const WidthSearch *search = front->search;
  for (int64_t a = search->first_arc[node]; a < search->first_arc[node + 1]; a++) {
    const WidthArc *arc = &search->arc[a];
    int64_t i = FindPoints(front, first, last, arc->from);
    for (; i < last && front->point[i].state == arc->from; i++) {
      const WidthPoint *point = &front->point[i];
      RengaCall(AddWidthPoint(front, (WidthPoint){arc->to, arc->way, (int)i,
                                                  point->bytes + search->problem->bytes[arc->way],
                                                  point->seconds + arc->seconds}));
    }
  }
  DropBeaten(front, last);
  return RENGA_SUCCESS;
}

/* The last place: what takes the fewest seconds there is the choice. */
static void TakeBest(WidthFront *front, int64_t first)
{
  WidthSearch *search = front->search;
  int64_t best = -1;
  for (int64_t i = first; i < front->count; i++)
    if (front->point[i].seconds < search->seconds) {
      search->seconds = front->point[i].seconds;
      best = i;
    }
  for (int n = search->problem->nodes - 1; best >= 0 && n >= 0; n--) {
    search->way[n] = front->point[best].way;
    best = front->point[best].from;
  }
}

static RengaErrorCode PassPlaces(WidthFront *front, int64_t limit, bool *all)
{
  int64_t first = 0, last;
  RengaCall(AddWidthPoint(front, (WidthPoint){0, -1, -1, 0, 0}));
  last = front->count;
  *all = true;
  for (int n = 0; n < front->search->problem->nodes && last > first; n++) {
    RengaCall(TakeArcs(front, n, first, last));
    first = last;
    last = front->count;
    *all = front->count <= limit;
    if (!*all) return RENGA_SUCCESS;
  }
  TakeBest(front, first);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWidthLookAtAll_Private(WidthSearch *search, int64_t limit, int64_t *points,
                                           bool *all)
{
  WidthFront front = {.search = search};
  const RengaErrorCode code = PassPlaces(&front, limit, all);
  *points = front.count;
  RengaFree(&front.point);
  RengaCall(code);
  return RENGA_SUCCESS;
}
