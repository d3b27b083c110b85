/* Events of the log: what a rank's time goes into. */
#include "pipelineimpl.h"

static const char *const event_names[EVENT_COUNT] = {[EVENT_SETUP] = "Pipeline set-up",
                                                     [EVENT_SIZES] = "Stage forecast",
                                                     [EVENT_PROLOGUE] = "Prologue",
                                                     [EVENT_READ] = "Read",
                                                     [EVENT_REPLAY] = "Replay",
                                                     [EVENT_FORWARD] = "Forward",
                                                     [EVENT_RECOMPUTE] = "Recompute",
                                                     [EVENT_BACKWARD] = "Backward",
                                                     [EVENT_SEND] = "Send",
                                                     [EVENT_RECEIVE] = "Receive",
                                                     [EVENT_EXCHANGE] = "Exchange",
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

/* Work of the default stream begins: the device times it where it can, else the host does. */
RengaErrorCode RengaPipelineBeginTimed_Private(RengaPipeline pipeline, PipelineEvent event,
                                               RengaSpan *span)
{
  *span = RENGA_SPAN_NONE;
  if (!RengaDeviceHasSpans_Private(pipeline->device))
    RengaLogEventBegin(events[event]);
  else
    RengaCall(RengaSpanBegin_Private(pipeline->device, NULL, span));
  return RENGA_SUCCESS;
}

/* All of it is queued, or failed with code, which is returned. name: in the trace of the device. */
RengaErrorCode RengaPipelineEndTimed_Private(RengaPipeline pipeline, PipelineEvent event,
                                             RengaSpan span, double flops, const char *name,
                                             RengaErrorCode code)
{
  if (!RengaDeviceHasSpans_Private(pipeline->device))
    RengaLogEventEnd(events[event], flops, 0, 0);
  else
    RengaKeepFirst_Private(&code, RengaSpanEnd_Private(pipeline->device, NULL, span, "compute",
                                                       event_names[event], flops, name));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* "forward 3" */
void RengaPipelineNameAction_Private(const RengaAction *action, size_t size, char name[])
{
  snprintf(name, size, "%s %lld", RengaActionName(action->kind), (long long)action->microbatch);
}

/* The row of the trace for what the host does in the order of the list. */
const char *RengaPipelineTrack_Private(RengaPipeline pipeline)
{
  return RengaDeviceHasSpans_Private(pipeline->device) ? "host" : "compute";
}

RengaErrorCode RengaPipelineRegisterEvents_Private(void)
{
  for (int e = 0; e < EVENT_COUNT; e++)
    RengaCall(RengaLogEventRegister(event_names[e], &events[e]));
  return RENGA_SUCCESS;
}
