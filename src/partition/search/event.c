/* Events of the log: what a search does most. */
#include "event.h"

static RengaLogEvent events[SEARCH_EVENTS];

RengaLogEvent RengaSearchEvent_Private(SearchEvent event)
{
  return events[event];
}

RengaErrorCode RengaSearchRegisterEvents_Private(void)
{
  static const char *const names[SEARCH_EVENTS] = {[SEARCH_EVENT_LISTS] = "Plan lists",
                                                   [SEARCH_EVENT_SIMULATE] = "Plan simulate",
                                                   [SEARCH_EVENT_MEMORY] = "Plan memory"};
  for (int e = 0; e < SEARCH_EVENTS; e++) RengaCall(RengaLogEventRegister(names[e], &events[e]));
  return RENGA_SUCCESS;
}
