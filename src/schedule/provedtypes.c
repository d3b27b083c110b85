/* Lists that need no proof: of gpipe, 1f1b, zb-h1 and zb-h2, for ranks with one stage each, they
   are in order whatever the shape (test/schedule/provedtypes.c proves many). A search sets up
   thousands of lists, of which one is taken. */
#include "renga/private/schedule.h"
#include "scheduleimpl.h"

static bool AreListsSound(RengaSchedule schedule)
{
  return schedule->ops->sound && !schedule->forward_only &&
         !RengaScheduleSharesRanks_Private(schedule);
}

/* The most that a rank holds, and is late with, are numbers of its own list. */
static void CountHeld(const RengaActionList list, int64_t *held, int64_t *lag)
{
  int64_t forward = 0, input = 0, weight = 0;
  for (int64_t i = 0; i < list->n_actions; i++) {
    const RengaActionKind kind = list->action[i].kind;
    const bool whole = kind == RENGA_ACTION_BACKWARD;
    forward += kind == RENGA_ACTION_FORWARD;
    input += whole || kind == RENGA_ACTION_BACKWARD_INPUT;
    weight += whole || kind == RENGA_ACTION_BACKWARD_WEIGHT;
    if (forward - weight > *held) *held = forward - weight;
    if (input - weight > *lag) *lag = input - weight;
  }
}

RengaErrorCode RengaScheduleSetUpKnown_Private(RengaSchedule schedule)
{
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  if (schedule->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  if (!AreListsSound(schedule)) {
    RengaCall(RengaScheduleSetUp(schedule));
    return RENGA_SUCCESS;
  }
  RengaScheduleFreeLists_Private(schedule);
  RengaCall(RengaSchedulePrepare_Private(schedule));
  RengaCall(RengaScheduleBuild_Private(schedule));
  for (int s = 0; s < schedule->stages; s++) schedule->in_flight[s] = schedule->lag[s] = 0;
  for (int r = 0; r < schedule->ranks; r++) {
    const int stage = schedule->list[r].chunk->stage;
    CountHeld(&schedule->list[r], &schedule->in_flight[stage], &schedule->lag[stage]);
  }
  schedule->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}
