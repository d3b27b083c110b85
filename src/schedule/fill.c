/* Lists that alternate: warm-up, then forward and backward in turn. All that such a schedule says
   is how many forwards come before each backward. */
#include "scheduleimpl.h"

/* Who says it: a function, or without one the warm-up of the stages. */
typedef struct {
  RengaScheduleForwards rule;
  void *user;
} Filling;

static RengaErrorCode CheckForwards(RengaSchedule schedule, const RengaScheduleChunk *chunk,
                                    const int64_t forwards[])
{
  for (int64_t i = 0; i < chunk->count; i++) {
    const int64_t least = i > 0 && forwards[i - 1] > i + 1 ? forwards[i - 1] : i + 1;
    RengaCheck(forwards[i] >= least && forwards[i] <= chunk->count, MPI_COMM_SELF, RENGA_ERR_PLAN,
               "schedule %s: stage %d does %lld forwards before its backward %lld: at least %lld, "
               "at most %lld",
               schedule->hdr.type_name, chunk->stage, (long long)forwards[i], (long long)i,
               (long long)least, (long long)chunk->count);
  }
  return RENGA_SUCCESS;
}

/* forwards: [micro-batches of the chunk] */
static RengaErrorCode FindForwards(RengaSchedule schedule, const Filling *filling,
                                   const RengaScheduleChunk *chunk, int64_t forwards[])
{
  const int64_t n = chunk->count;
  if (!filling->rule) {
    const int64_t warm_up = schedule->warm_up[chunk->stage];
    for (int64_t i = 0; i < n; i++) forwards[i] = warm_up < n - i ? warm_up + i + 1 : n;
    return RENGA_SUCCESS;
  }
  for (int64_t i = 0; i < n; i++) forwards[i] = 0;
  RengaCall(filling->rule(schedule->stages, schedule->replicas, chunk->stage, n, forwards,
                          filling->user));
  RengaCall(CheckForwards(schedule, chunk, forwards));
  return RENGA_SUCCESS;
}

/* A rank with one stage. */
static RengaErrorCode FillOne(RengaActionList list, const Filling *filling)
{
  const RengaScheduleChunk *chunk = list->chunk;
  int64_t *forwards = NULL, forward = 0;
  RengaCall(RengaMalloc(chunk->count + 1, &forwards));
  RengaErrorCode code = FindForwards(list->schedule, filling, chunk, forwards);
  for (int64_t i = 0; i < chunk->count && !code; i++) {
    while (forward < forwards[i])
      RengaActionListAppend_Private(list, RENGA_ACTION_FORWARD, chunk, chunk->order[forward++]);
    RengaActionListAppend_Private(list, RENGA_ACTION_BACKWARD, chunk, chunk->order[i]);
  }
  RengaFree(&forwards);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* forwards: [seats][micro-batches of each] one after the other, or NULL: no backward */
static RengaErrorCode AddTurns(RengaActionList list, const int64_t forwards[])
{
  RengaScheduleTurn *turn = NULL;
  int64_t count = 0;
  RengaCall(RengaScheduleInterleave_Private(list, forwards, &count, &turn));
  for (int64_t i = 0; i < count; i++)
    if (turn[i].kind == RENGA_ACTION_REDUCE)
      RengaActionListAppendSums_Private(list, turn[i].chunk);
    else
      RengaActionListAppend_Private(list, turn[i].kind, turn[i].chunk, turn[i].microbatch);
  RengaFree(&turn);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillSeveral(RengaActionList list, const Filling *filling)
{
  RengaSchedule schedule = list->schedule;
  int64_t *forwards = NULL, used = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc(schedule->stages * schedule->microbatches + 1, &forwards));
  for (int seat = 0; seat < schedule->seats && !code; seat++) {
    const RengaScheduleChunk *chunk = &schedule->chunk[schedule->chunk_of[seat]];
    code = FindForwards(schedule, filling, chunk, forwards + used);
    used += chunk->count;
  }
  if (!code) code = AddTurns(list, forwards);
  RengaFree(&forwards);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillList(RengaActionList list, const Filling *filling)
{
  RengaCall(RengaActionListReserve_Private(list));
  if (list->n_chunks == 1)
    RengaCall(FillOne(list, filling));
  else
    RengaCall(FillSeveral(list, filling));
  RengaCall(RengaActionListEnd(list));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleFillWarmUp_Private(RengaSchedule schedule, int rank,
                                               RengaActionList list)
{
  const Filling filling = {NULL, NULL};
  (void)schedule;
  (void)rank;
  RengaCall(FillList(list, &filling));
  return RENGA_SUCCESS;
}

/* Of any type. */
RengaErrorCode RengaScheduleFillForward_Private(RengaActionList list)
{
  const RengaScheduleChunk *chunk = list->chunk;
  RengaCall(RengaActionListReserve_Private(list));
  if (list->n_chunks > 1) {
    RengaCall(AddTurns(list, NULL));
    return RENGA_SUCCESS;
  }
  for (int64_t i = 0; i < chunk->count; i++)
    RengaActionListAppend_Private(list, RENGA_ACTION_FORWARD, chunk, chunk->order[i]);
  return RENGA_SUCCESS;
}

/*@
   RengaActionListFill - a whole list in which forward and backward alternate

   Input:
   . list - empty, of the function that makes it
   . forwards - says how many forwards of a stage come before each backward; see
     RengaScheduleForwards
   . user - its last argument

   Errors: numbers that fall, or of micro-batches that are not there; what forwards returns.

   Notes: backwards keep the order of the forwards, each computes the gradients of inputs and of
   weights together, the end of the step comes last. A rank with several stages does their actions
   in the order in which they would begin if each stage had a rank of its own, and each action
   took as long; it sums the gradients of each as soon as all replicas of the stage would have made
   their last.

   See also: RengaActionListAdd(), RengaActionListEnd()
@*/
RengaErrorCode RengaActionListFill(RengaActionList list, RengaScheduleForwards forwards, void *user)
{
  const Filling filling = {forwards, user};
  RengaCheckPointer(list);
  RengaCheck(forwards, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "forwards: null pointer");
  RengaCall(FillList(list, &filling));
  return RENGA_SUCCESS;
}
