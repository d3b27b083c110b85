/* Events of the log: what a search does most. */
#pragma once
#include "rengasys.h"

typedef enum {
  SEARCH_EVENT_LISTS,    /* of all ranks are made */
  SEARCH_EVENT_SIMULATE, /* a step */
  SEARCH_EVENT_MEMORY,   /* of a plan's stages is asked for */
  SEARCH_EVENTS
} SearchEvent;
RengaErrorCode RengaSearchRegisterEvents_Private(void);
RengaLogEvent RengaSearchEvent_Private(SearchEvent event);
