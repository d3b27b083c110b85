/* Replicas that give each other gradients, or parameters, with each micro-batch go through one
   list: that of the one which has most micro-batches, of which each leaves out what it has not.
   Then all come to what they do together in one order, and who has no micro-batch there takes
   part without: so none waits for another that waits for it, as the longest list is proved. */
#include "proof.h"

/* Stages with other numbers of replicas do not. */
static bool GoTogether(RengaSchedule schedule)
{
  bool folds = false;
  for (int s = 0; s < schedule->stages; s++) folds = folds || schedule->folds[s];
  return folds && RengaScheduleIsEqual_Private(schedule);
}

/* The replica of a stage that has most micro-batches; lists are there. */
int RengaScheduleLongestReplica_Private(RengaSchedule schedule, int stage)
{
  int longest = 0;
  for (int r = 1; r < schedule->replicas[stage]; r++)
    if (RengaScheduleChunk_Private(schedule, stage, r)->count >
        RengaScheduleChunk_Private(schedule, stage, longest)->count)
      longest = r;
  return longest;
}

static RengaActionList LongestOf(RengaSchedule schedule, const RengaActionList list)
{
  const int stage = list->chunk->stage;
  const int longest = RengaScheduleLongestReplica_Private(schedule, stage);
  return &schedule->list[RengaScheduleChunk_Private(schedule, stage, longest)->rank];
}

/* An action of the longest list as a replica has it; false: it has not. */
static bool HasAction(RengaSchedule schedule, int replica, RengaAction *action)
{
  const RengaScheduleChunk *own = RengaScheduleChunk_Private(schedule, action->stage, replica);
  action->replica = replica;
  if (action->microbatch < 0) return true;
  const int64_t turn =
      RengaScheduleSharing_Private(schedule, action->stage)->turn[action->microbatch];
  if (turn < own->count) action->microbatch = own->order[turn];
  return turn < own->count;
}

/* As long as one that was made for the replica. */
void RengaScheduleAlignLists_Private(RengaSchedule schedule)
{
  for (int r = 0; r < schedule->ranks && GoTogether(schedule); r++) {
    RengaActionList list = &schedule->list[r];
    const RengaActionList longest = LongestOf(schedule, list);
    if (longest == list) continue;
    list->n_actions = 0;
    for (int64_t a = 0; a < longest->n_actions; a++) {
      RengaAction action = longest->action[a];
      if (HasAction(schedule, list->chunk->replica, &action))
        list->action[list->n_actions++] = action;
    }
  }
}

static bool IsSameAction(const RengaAction *a, const RengaAction *b)
{
  return a->kind == b->kind && a->stage == b->stage && a->replica == b->replica &&
         a->message == b->message && a->bucket == b->bucket && a->microbatch == b->microbatch;
}

/* Lists that were given: an error names the first action that is another than the longest's. */
RengaErrorCode RengaProofAligned_Private(Proof *proof)
{
  RengaSchedule schedule = proof->schedule;
  for (int r = 0; r < schedule->ranks && GoTogether(schedule); r++) {
    const RengaActionList list = &schedule->list[r], longest = LongestOf(schedule, list);
    int64_t *next = &proof->next[r];
    *next = 0;
    for (int64_t a = 0; a < longest->n_actions; a++) {
      RengaAction action = longest->action[a];
      if (!HasAction(schedule, list->chunk->replica, &action)) continue;
      if (*next < list->n_actions && IsSameAction(&list->action[*next], &action))
        ++*next;
      else
        return RengaProofRefuse_Private(proof, list->chunk,
                                        "replicas with sharded gradients go through one list, and "
                                        "the one with most micro-batches does something else here");
    }
    *next = 0;
  }
  return RENGA_SUCCESS;
}
