/* What happens in a simulated step, by time. */
#pragma once
#include "rengasys.h"

/* EVENT_DONE: a rank is done with an action; EVENT_COME: a replica comes to a sum; EVENT_LEAVE: a
   transfer gets onto its links; EVENT_ARRIVE: it is there, unless its rate has changed since. */
typedef enum { EVENT_DONE, EVENT_COME, EVENT_LEAVE, EVENT_ARRIVE } EventKind;
typedef struct {
  double at;
  int64_t number; /* in which they were added: of one time the first comes first */
  EventKind kind;
  int64_t who, version; /* a rank, the place of a sum, a transfer; of its rate */
} Event;
typedef struct {
  int64_t count, most, added;
  Event *event; /* [most], the first count of them a heap */
} EventQueue;

RengaErrorCode RengaEventAdd_Private(EventQueue *queue, Event event);
Event RengaEventTake_Private(EventQueue *queue); /* the first; there is one */
