/* Spans: how long queued work takes, by the clock of a device that has a time of its own. A span
   stands between two events in a stream, for which nobody waits: after the host has waited for the
   device anyway it takes the times of all spans that are over, for -log_view and -log_trace.
   Without these two options there are no spans, and nothing is recorded. */
#pragma once
#include "rengadevice.h"

typedef int RengaSpan; /* RENGA_SPAN_NONE: it is not timed */
#define RENGA_SPAN_NONE (-1)

/* Whether the log is wanted, and the device times its own work. */
bool RengaDeviceHasSpans_Private(RengaDevice device);
/* Work that is queued on the stream from now on. Spans of one stream are neither nested nor do they
   overlap. */
RengaErrorCode RengaSpanBegin_Private(RengaDevice device, RengaStream stream, RengaSpan *span);
/* track: the stream's row in the trace. record: event of the log that the time is added to, NULL:
   none. name: of the work, in the trace. */
RengaErrorCode RengaSpanEnd_Private(RengaDevice device, RengaStream stream, RengaSpan span,
                                    const char *track, const char *record, double flops,
                                    const char *name);
/* Just before the host waits for the default stream: the clocks are compared there. */
RengaErrorCode RengaSpansMark_Private(RengaDevice device);
/* Just after that wait, and never between a begin and its end. Spans that are not over are taken
   another time; those whose work failed before its end are forgotten. */
RengaErrorCode RengaSpansTake_Private(RengaDevice device);
