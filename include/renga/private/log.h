/* What the log is asked for. */
#pragma once
#include "rengasys.h"

/* Events by which the log says how much of the sums over replicas was hidden: seconds in which some
   were under way, and in which a rank waited for one. */
#define RENGA_LOG_UNDERWAY "Sums under way"
#define RENGA_LOG_AWAITED "CommSumTree"
/* -log_view or -log_trace was given. */
bool RengaLogIsWanted_Private(void);
/* One more of an event, which somebody else has timed. */
void RengaLogEventAdd_Private(RengaLogEvent event, double seconds, double flops);
