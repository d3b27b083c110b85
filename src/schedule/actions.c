/* What actions are called. */
#include "scheduleimpl.h"

static const char *const action_names[] = {
    [RENGA_ACTION_FORWARD] = "forward",
    [RENGA_ACTION_BACKWARD] = "backward",
    [RENGA_ACTION_BACKWARD_INPUT] = "backward input",
    [RENGA_ACTION_BACKWARD_WEIGHT] = "backward weight",
    [RENGA_ACTION_RECOMPUTE] = "recompute",
    [RENGA_ACTION_SEND] = "send",
    [RENGA_ACTION_RECEIVE] = "receive",
    [RENGA_ACTION_REDUCE] = "reduce",
    [RENGA_ACTION_GATHER] = "gather",
    [RENGA_ACTION_UPDATE] = "update",
    [RENGA_ACTION_GATHER_PARAMETERS] = "gather parameters",
};

/*@
   RengaActionName - what an action is called

   Input:
   . kind - the kind of action

   See also: RengaScheduleGetActions()
@*/
const char *RengaActionName(RengaActionKind kind)
{
  size_t count = sizeof action_names / sizeof action_names[0];
  return (size_t)kind < count ? action_names[kind] : "unknown action";
}

RengaSumKind RengaScheduleSumOf_Private(RengaActionKind kind)
{
  if (kind == RENGA_ACTION_REDUCE) return RENGA_SUM_REDUCE;
  if (kind == RENGA_ACTION_GATHER) return RENGA_SUM_GATHER;
  return kind == RENGA_ACTION_GATHER_PARAMETERS ? RENGA_SUM_PARAMETERS : RENGA_SUM_KINDS;
}

void RengaScheduleDescribe_Private(RengaSchedule schedule, const RengaAction *action, size_t size,
                                   char text[])
{
  bool send = action->kind == RENGA_ACTION_SEND, receive = action->kind == RENGA_ACTION_RECEIVE;
  int used = snprintf(text, size, "%s", RengaActionName(action->kind));
  if ((send || receive) && action->message >= 0 && action->message < schedule->n_messages) {
    const RengaMessage *message = &schedule->message[action->message];
    used += snprintf(text + used, size - (size_t)used, " %s'%.80s' %s stage %d",
                     message->backward ? "gradient of " : "", message->value, send ? "to" : "from",
                     send ? message->to : message->from);
  }
  const bool stage = action->stage >= 0 && action->stage < schedule->stages;
  if (action->bucket >= 0 && stage && schedule->buckets[action->stage] > 1)
    used += snprintf(text + used, size - (size_t)used, " of bucket %d", action->bucket);
  if (action->microbatch >= 0)
    snprintf(text + used, size - (size_t)used, ", micro-batch %lld", (long long)action->microbatch);
}
