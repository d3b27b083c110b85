/* Interleaved 1F1B: a rank has several stages, and works through its micro-batches in groups of as
   many as there are ranks, each group first of one stage, then of the next. Bubble (p-1)(F+B)/v for
   p ranks of v stages that take F and B in all, and whole groups of micro-batches. The first rank
   holds p(v+1)-1 micro-batches of a stage at a time.
   Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
   Megatron-LM", SC 2021. */
#include "pattern.h"

typedef struct {
  int across, chunks;
} Groups;

/* The micro-batch and the stage of a rank's forward or backward number k. */
static RengaErrorCode AddGrouped(RengaPattern *pattern, const Groups *groups, int at, bool backward,
                                 int64_t k)
{
  const int p = groups->across, v = groups->chunks;
  const int64_t group = k / (p * v), turn = group * p + k % p;
  const int passed = (int)(k % (p * v) / p), chunk = backward ? v - 1 - passed : passed;
  if (turn >= pattern->turns) return RENGA_SUCCESS; /* of a group that is not whole */
  RengaCall(RengaPatternAdd_Private(
      pattern, at, backward ? RENGA_ACTION_BACKWARD : RENGA_ACTION_FORWARD, chunk * p + at, turn));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddRankOfGroups(RengaPattern *pattern, const Groups *groups, int at)
{
  const int p = groups->across, v = groups->chunks;
  const int64_t all = (pattern->turns + p - 1) / p * p * v;
  const int64_t early = v == 1 ? p - 1 - at : 2 * (p - 1 - at) + (v - 1) * p;
  const int64_t warm_up = early < all ? early : all;
  for (int64_t k = 0; k < warm_up; k++) RengaCall(AddGrouped(pattern, groups, at, false, k));
  for (int64_t k = 0; k < all; k++) {
    if (k + warm_up < all) RengaCall(AddGrouped(pattern, groups, at, false, k + warm_up));
    RengaCall(AddGrouped(pattern, groups, at, true, k));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawInterleaved(RengaSchedule schedule, RengaPattern **pattern)
{
  int across;
  bool wave;
  RengaPattern *made;
  RengaCall(RengaScheduleWantPlaces_Private(schedule, false, 0));
  RengaCall(RengaScheduleFindPlaces_Private(schedule, &across, &wave));
  const Groups groups = {across, schedule->stages / across};
  RengaErrorCode code =
      RengaPatternCreate_Private(across, RengaScheduleMostTurns_Private(schedule), &made);
  RengaCall(code);
  for (int at = 0; at < across && !code; at++) code = AddRankOfGroups(made, &groups, at);
  if (code) RengaPatternFree_Private(&made);
  RengaCall(code);
  *pattern = made;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_Interleaved(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] = (struct _RengaScheduleOps){
      .build = RengaScheduleFillPattern_Private, .draw = DrawInterleaved};
  return RENGA_SUCCESS;
}
