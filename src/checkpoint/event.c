/* Events of the log. */
#include "checkpointimpl.h"

static RengaLogEvent events[RENGA_CHECKPOINT_EVENTS];

RengaLogEvent RengaCheckpointEvent_Private(RengaCheckpointEvents event)
{
  return events[event];
}

RengaErrorCode RengaCheckpointRegisterEvents_Private(void)
{
  static const char *const names[RENGA_CHECKPOINT_EVENTS] = {
      [RENGA_CHECKPOINT_READ] = "Checkpoint read",
      [RENGA_CHECKPOINT_WRITE] = "Checkpoint write",
      [RENGA_CHECKPOINT_STALL] = "Checkpoint stall",
      [RENGA_CHECKPOINT_WAIT] = "Checkpoint wait",
      [RENGA_CHECKPOINT_MEMORY] = "Checkpoint memory",
  };
  for (int i = 0; i < RENGA_CHECKPOINT_EVENTS; i++)
    RengaCall(RengaLogEventRegister(names[i], &events[i]));
  return RENGA_SUCCESS;
}
