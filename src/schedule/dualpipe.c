/* DualPipe-V: rank r of p has stages r and 2p-1-r, and does forwards of one between backwards of
   the other; at the end backwards are in two parts. For 2p micro-batches and more, and stages with
   F = I = W, the bubble is (p-1)F, and 2p+1 micro-batches of a stage are held.
   DeepSeek-AI, "DualPipe: a bidirectional pipeline parallelism algorithm", 2025 (DualPipeV, the
   "cut-in-half" variant of Sea AI Lab). For fewer the lists are those for 2p without the others. */
#include "pattern.h"

enum { HALVES = 2 };

/* A rank while its list is made: the next micro-batch of each of its two stages, and gradients of
   parameters that are put off, in their order. */
typedef struct {
  RengaPattern *pattern;
  int at;
  int64_t all; /* micro-batches that are thought of: those of the pattern or more */
  int64_t forward[HALVES], backward[HALVES];
  int64_t n_late, n_made;
  RengaPatternRow *late; /* [2 all] */
} DualRank;

static int StageOfHalf(const DualRank *rank, int half)
{
  return half ? 2 * rank->pattern->across - 1 - rank->at : rank->at;
}

static RengaErrorCode PutDual(DualRank *rank, RengaActionKind kind, int half, int64_t turn)
{
  if (turn < rank->pattern->turns)
    RengaCall(
        RengaPatternAdd_Private(rank->pattern, rank->at, kind, StageOfHalf(rank, half), turn));
  return RENGA_SUCCESS;
}

static RengaErrorCode DualForward(DualRank *rank, int half)
{
  RengaCall(PutDual(rank, RENGA_ACTION_FORWARD, half, rank->forward[half]++));
  return RENGA_SUCCESS;
}

/* late: its gradients of parameters are put off */
static RengaErrorCode DualBackward(DualRank *rank, int half, bool late)
{
  const int64_t turn = rank->backward[half]++;
  const RengaActionKind kind = late ? RENGA_ACTION_BACKWARD_INPUT : RENGA_ACTION_BACKWARD;
  if (late)
    rank->late[rank->n_late++] = (RengaPatternRow){RENGA_ACTION_BACKWARD_WEIGHT, half, turn};
  RengaCall(PutDual(rank, kind, half, turn));
  return RENGA_SUCCESS;
}

static RengaErrorCode DualWeight(DualRank *rank)
{
  const RengaPatternRow *row = &rank->late[rank->n_made++];
  RengaCall(PutDual(rank, row->kind, row->stage, row->turn));
  return RENGA_SUCCESS;
}

static RengaErrorCode DualBegin(DualRank *rank)
{
  const int behind = rank->pattern->across - 1 - rank->at;
  for (int i = 0; i < 2 * behind; i++) RengaCall(DualForward(rank, 0));
  for (int i = 0; i <= rank->at; i++) {
    RengaCall(DualForward(rank, 0));
    RengaCall(DualForward(rank, 1));
  }
  for (int i = 0; i < behind; i++) {
    RengaCall(DualBackward(rank, 1, true));
    RengaCall(DualWeight(rank));
    RengaCall(DualForward(rank, 1));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DualMiddle(DualRank *rank)
{
  const int p = rank->pattern->across, behind = p - 1 - rank->at;
  for (int64_t i = 0; i < rank->all - 2 * p + rank->at + 1; i++) {
    RengaCall(DualForward(rank, 0));
    RengaCall(DualBackward(rank, 1, false));
    RengaCall(DualForward(rank, 1));
    RengaCall(DualBackward(rank, 0, false));
  }
  for (int i = 0; i < behind; i++) {
    RengaCall(DualBackward(rank, 1, false));
    RengaCall(DualForward(rank, 1));
    RengaCall(DualBackward(rank, 0, false));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DualEnd(DualRank *rank)
{
  const int last = rank->at + 1, behind = rank->pattern->across - 1 - rank->at;
  for (int i = 0; i < last; i++) {
    const bool half = 2 * i == last - 1; /* an even rank puts off from within the round on */
    RengaCall(DualBackward(rank, 1, 2 * i >= last));
    RengaCall(DualBackward(rank, 0, half || 2 * i >= last));
  }
  for (int i = 0; i < behind; i++) {
    RengaCall(DualWeight(rank));
    RengaCall(DualBackward(rank, 0, true));
  }
  while (rank->n_made < rank->n_late) RengaCall(DualWeight(rank));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddDualRank(RengaPattern *pattern, int at)
{
  const int64_t least = 2 * pattern->across;
  DualRank rank = {
      .pattern = pattern, .at = at, .all = pattern->turns > least ? pattern->turns : least};
  RengaCall(RengaMalloc(HALVES * rank.all, &rank.late));
  RengaErrorCode code = DualBegin(&rank);
  if (!code) code = DualMiddle(&rank);
  if (!code) code = DualEnd(&rank);
  RengaFree(&rank.late);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode DrawDual(RengaSchedule schedule, RengaPattern **pattern)
{
  RengaPattern *made;
  RengaCall(RengaScheduleWantPlaces_Private(schedule, true, HALVES));
  const int across = schedule->stages / HALVES;
  RengaErrorCode code =
      RengaPatternCreate_Private(across, RengaScheduleMostTurns_Private(schedule), &made);
  RengaCall(code);
  for (int at = 0; at < across && !code; at++) code = AddDualRank(made, at);
  if (code) RengaPatternFree_Private(&made);
  RengaCall(code);
  *pattern = made;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_DualPipeV(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] =
      (struct _RengaScheduleOps){.build = RengaScheduleFillPattern_Private, .draw = DrawDual};
  return RENGA_SUCCESS;
}
