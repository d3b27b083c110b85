/* Offsets for tensors that live from one position to another: largest first, each into the
   smallest gap between those it overlaps in time (best fit). */
#include "pipelineimpl.h"
#include <stdlib.h>

static int CompareBytes(const void *a, const void *b)
{
  const Lifetime *x = *(Lifetime *const *)a, *y = *(Lifetime *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x < y ? -1 : x > y;
}

/* placed[] is sorted by offset; those that do not overlap in time are looked through. */
static int64_t FindGap(const Lifetime *item, int count, Lifetime *const placed[])
{
  int64_t end = 0, best = -1, best_size = INT64_MAX;
  for (int i = 0; i < count; i++) {
    const Lifetime *other = placed[i];
    if (other->last < item->first || other->first > item->last) continue;
    const int64_t gap = other->offset - end;
    if (gap >= item->bytes && gap < best_size) {
      best = end;
      best_size = gap;
    }
    if (other->offset + other->bytes > end) end = other->offset + other->bytes;
  }
  return best >= 0 ? best : end;
}

static void Insert(Lifetime *item, int count, Lifetime *placed[])
{
  int i = count;
  for (; i > 0 && placed[i - 1]->offset > item->offset; i--) placed[i] = placed[i - 1];
  placed[i] = item;
}

/* Fills the offsets; *bytes is what they need in all. Sizes must be multiples of the alignment. */
RengaErrorCode RengaPlaceLifetimes_Private(int count, Lifetime row[], int64_t *bytes)
{
  Lifetime **order, **placed;
  RengaCall(RengaMalloc(count + 1, &order));
  RengaCall(RengaMalloc(count + 1, &placed));
  for (int i = 0; i < count; i++) order[i] = &row[i];
  qsort(order, (size_t)count, sizeof *order, CompareBytes);
  int64_t needed = 0;
  for (int i = 0; i < count; i++) {
    order[i]->offset = FindGap(order[i], i, placed);
    Insert(order[i], i, placed);
    const int64_t end = order[i]->offset + order[i]->bytes;
    if (end > needed) needed = end;
  }
  RengaFree(&order);
  RengaFree(&placed);
  *bytes = needed;
  return RENGA_SUCCESS;
}
