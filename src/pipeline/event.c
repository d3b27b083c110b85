/* Events of the log: what a rank's time goes into. */
#include "pipelineimpl.h"

static const char *const event_names[EVENT_COUNT] = {[EVENT_SETUP] = "Pipeline set-up",
                                                     [EVENT_PROLOGUE] = "Prologue",
                                                     [EVENT_READ] = "Read",
                                                     [EVENT_FORWARD] = "Forward",
                                                     [EVENT_RECOMPUTE] = "Recompute",
                                                     [EVENT_BACKWARD] = "Backward",
                                                     [EVENT_SEND] = "Send",
                                                     [EVENT_RECEIVE] = "Receive",
                                                     [EVENT_ACCUMULATE] = "Accumulate",
                                                     [EVENT_REDUCE] = "Reduce",
                                                     [EVENT_GATHER] = "Gather",
                                                     [EVENT_TIED] = "Tied",
                                                     [EVENT_NORM] = "Norm",
                                                     [EVENT_UPDATE] = "Update"};
static RengaLogEvent events[EVENT_COUNT];

RengaLogEvent RengaPipelineEvent_Private(PipelineEvent event)
{
  return events[event];
}

RengaErrorCode RengaPipelineRegisterEvents_Private(void)
{
  for (int e = 0; e < EVENT_COUNT; e++)
    RengaCall(RengaLogEventRegister(event_names[e], &events[e]));
  return RENGA_SUCCESS;
}
