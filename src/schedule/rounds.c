/* Rounds: in a stage whose replicas give each other the gradients of each micro-batch, the n-th
   backward of every replica is round n. Who is ahead waits for who is behind, and who has fewer
   micro-batches takes part in the rounds that are left when it comes to the stage's sums. */
#include "scheduleimpl.h"

/* When backwards of the stage end; private, as it is the runtime's business how it waits. */
RengaErrorCode RengaScheduleSetFold_Private(RengaSchedule schedule, int stage,
                                            RengaScheduleFold fold)
{
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, 0));
  RengaScheduleFreeLists_Private(schedule);
  schedule->fold[stage] = fold;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

bool RengaScheduleFolds_Private(RengaSchedule schedule, int stage, RengaActionKind kind)
{
  const bool gives = kind == RENGA_ACTION_BACKWARD || kind == RENGA_ACTION_BACKWARD_WEIGHT;
  return gives && !schedule->forward_only && schedule->replicas[stage] > 1 &&
         schedule->fold[stage] != RENGA_FOLD_NOTHING;
}

static int64_t RoundsOf(RengaSchedule schedule, int stage)
{
  int64_t most = 0;
  for (int r = 0; r < schedule->replicas[stage]; r++) {
    const int64_t count = RengaScheduleChunk_Private(schedule, stage, r)->count;
    if (count > most) most = count;
  }
  return most;
}

/* The next round of a replica; true where it has to wait before it ends. */
bool RengaScheduleTakeRound_Private(RengaSchedule schedule, const RengaScheduleChunk *chunk,
                                    RengaScheduleRound round[])
{
  RengaScheduleRound *own = &round[chunk - schedule->chunk];
  const bool meets = schedule->fold[chunk->stage] == RENGA_FOLD_MEETS;
  own->begun = own->ended + 1;
  for (int r = 0; r < schedule->replicas[chunk->stage]; r++) {
    const RengaScheduleRound *other =
        &round[RengaScheduleChunk_Private(schedule, chunk->stage, r) - schedule->chunk];
    if (meets ? other->begun < own->begun : other->ended < own->ended) return true;
  }
  own->ended++;
  return false;
}

/* All rounds that are left of a stage; true where it has to wait in one of them. moved: set where
   others may go on now. */
bool RengaScheduleTakeRounds_Private(RengaSchedule schedule, const RengaScheduleChunk *chunk,
                                     RengaScheduleRound round[], bool *moved)
{
  const RengaScheduleRound *own = &round[chunk - schedule->chunk];
  if (!RengaScheduleFolds_Private(schedule, chunk->stage, RENGA_ACTION_BACKWARD)) return false;
  const int64_t rounds = RoundsOf(schedule, chunk->stage);
  while (own->ended < rounds) {
    if (RengaScheduleTakeRound_Private(schedule, chunk, round)) return true;
    *moved = true;
  }
  return false;
}

/* The list without what the longer one's replica has beyond this one's micro-batches: as long as
   one that was made for it, or shorter. */
static void AlignList(RengaSchedule schedule, RengaActionList list, const RengaActionList longer)
{
  list->n_actions = 0;
  for (int64_t a = 0; a < longer->n_actions; a++) {
    RengaAction action = longer->action[a];
    const RengaScheduleChunk *own =
        action.stage < 0 ? list->chunk
                         : RengaScheduleChunk_Private(schedule, action.stage, list->chunk->replica);
    if (action.microbatch >= 0) {
      const int64_t turn =
          RengaScheduleSharing_Private(schedule, action.stage)->turn[action.microbatch];
      if (turn >= own->count) continue;
      action.microbatch = own->order[turn];
    }
    if (action.stage >= 0) action.replica = own->replica;
    list->action[list->n_actions++] = action;
  }
}

/* Replicas do with the others what they do together in one order, whatever they have of the step:
   so the list of each is the list of the one that has most, less what it has not. */
void RengaScheduleAlignLists_Private(RengaSchedule schedule)
{
  bool folds = false;
  for (int s = 0; s < schedule->stages; s++)
    folds = folds || schedule->fold[s] != RENGA_FOLD_NOTHING;
  if (!folds || !RengaScheduleIsEqual_Private(schedule)) return;
  for (int r = 0; r < schedule->ranks; r++) {
    RengaActionList list = &schedule->list[r];
    const RengaScheduleChunk *longest = list->chunk;
    for (int other = 0; other < schedule->replicas[0]; other++) {
      const RengaScheduleChunk *chunk =
          RengaScheduleChunk_Private(schedule, list->chunk->stage, other);
      if (chunk->count > longest->count) longest = chunk;
    }
    if (longest != list->chunk) AlignList(schedule, list, &schedule->list[longest->rank]);
  }
}
