/* A heap of events by time. */
#include "queue.h"

static bool HappensBefore(const Event *one, const Event *other)
{
  if (one->at != other->at) return one->at < other->at;
  return one->number < other->number;
}

RengaErrorCode RengaEventAdd_Private(EventQueue *queue, Event event)
{
  if (queue->count == queue->most) {
    const int64_t most = 2 * queue->most + 256;
    RengaCall(RengaRealloc(most, &queue->event));
    queue->most = most;
  }
  int64_t at = queue->count++;
  event.number = queue->added++;
  for (; at > 0 && HappensBefore(&event, &queue->event[(at - 1) / 2]); at = (at - 1) / 2)
    queue->event[at] = queue->event[(at - 1) / 2];
  queue->event[at] = event;
  return RENGA_SUCCESS;
}

Event RengaEventTake_Private(EventQueue *queue)
{
  const Event first = queue->event[0], last = queue->event[--queue->count];
  int64_t at = 0;
  for (int64_t below = 1; below < queue->count; below = 2 * at + 1) {
    if (below + 1 < queue->count && HappensBefore(&queue->event[below + 1], &queue->event[below]))
      below++;
    if (!HappensBefore(&queue->event[below], &last)) break;
    queue->event[at] = queue->event[below];
    at = below;
  }
  queue->event[at] = last;
  return first;
}
