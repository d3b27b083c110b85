/* What the log is asked for. */
#pragma once
#include "rengasys.h"

/* -log_view or -log_trace was given: who times work that a device does later waits for it. */
bool RengaLogIsWanted_Private(void);
