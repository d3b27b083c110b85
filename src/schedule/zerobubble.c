/* ZB-H1 and ZB-H2: backwards in two parts, so that gradients of parameters fill what would be
   waiting. A stage that recomputes has room for one micro-batch only, and does whole backwards.
   Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024.

   ZB-H1: forwards and backwards of inputs come in 1F1B's order. All stages hold as many
   micro-batches as the one that holds most there, p: stage s, which would hold p - s, keeps s
   gradients of parameters back, and does them at the end, where it would wait. Bubble
   (p-1)(F+I-W). ZB-H2: stage s of p begins twice as many micro-batches early, 2(p-1-s), so that
   nothing waits between the first forward of a rank and its last action where F = I = W; 2p-1 are
   held. A step that all ranks end together still has (p-1)F of waiting: the last stage begins so
   much later than the first.

   Gradients of parameters wait for nobody, and are waited for by nobody but the rank's own memory,
   so that 1F1B's proof holds for stages of different numbers of replicas too. */
#include "scheduleimpl.h"

/* What a stage does: so many forwards before its first backward of inputs, then each gradient of
   parameters so many backwards later than that of inputs. */
typedef struct {
  int64_t warm_up, late;
} ZeroBubble;

static void FillHalves(RengaActionList list, const ZeroBubble *how)
{
  const RengaScheduleChunk *chunk = list->chunk;
  const bool whole = list->schedule->recompute[chunk->stage];
  const RengaActionKind kind = whole ? RENGA_ACTION_BACKWARD : RENGA_ACTION_BACKWARD_INPUT;
  int64_t forward = 0, weight = whole ? chunk->count : 0;
  for (int64_t i = 0; i < chunk->count; i++) {
    for (; forward < chunk->count && forward <= i + how->warm_up; forward++)
      RengaActionListAppend_Private(list, RENGA_ACTION_FORWARD, chunk, chunk->order[forward]);
    RengaActionListAppend_Private(list, kind, chunk, chunk->order[i]);
    for (; weight < chunk->count && weight <= i - how->late; weight++)
      RengaActionListAppend_Private(list, RENGA_ACTION_BACKWARD_WEIGHT, chunk,
                                    chunk->order[weight]);
  }
  for (; weight < chunk->count; weight++)
    RengaActionListAppend_Private(list, RENGA_ACTION_BACKWARD_WEIGHT, chunk, chunk->order[weight]);
}

/* early: 1F1B's warm-up so many times. */
static RengaErrorCode FindHalves(RengaSchedule schedule, int stage, int early, ZeroBubble *how)
{
  int64_t *warm_up = NULL, most = 0;
  RengaCall(RengaMalloc(schedule->stages, &warm_up));
  const RengaErrorCode code = RengaScheduleWarmUp_Private(schedule, warm_up);
  for (int s = 0; s < schedule->stages; s++)
    if (warm_up[s] > most) most = warm_up[s];
  how->warm_up = early * warm_up[stage];
  how->late = early * (most - warm_up[stage]);
  RengaFree(&warm_up);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildHalves(RengaSchedule schedule, RengaActionList list, int early)
{
  ZeroBubble how;
  RengaCheck(list->n_chunks == 1, MPI_COMM_SELF, RENGA_ERR_PLAN,
             "schedule %s has one stage on each rank, but a rank has stages %d and %d: leave out "
             "-layout_chunks, or take another -schedule_type",
             schedule->hdr.type_name, list->chunk[0].stage, list->chunk[1].stage);
  RengaCall(FindHalves(schedule, list->chunk->stage, early, &how));
  RengaCall(RengaActionListReserve_Private(list));
  FillHalves(list, &how);
  RengaCall(RengaActionListEnd(list));
  return RENGA_SUCCESS;
}

static RengaErrorCode Build_ZBH1(RengaSchedule schedule, int rank, RengaActionList list)
{
  (void)rank;
  RengaCall(BuildHalves(schedule, list, 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode Build_ZBH2(RengaSchedule schedule, int rank, RengaActionList list)
{
  (void)rank;
  RengaCall(BuildHalves(schedule, list, 2));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_ZBH1(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] =
      (struct _RengaScheduleOps){.build = Build_ZBH1, .sound = true};
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCreate_ZBH2(void *schedule)
{
  ((RengaSchedule)schedule)->ops[0] =
      (struct _RengaScheduleOps){.build = Build_ZBH2, .sound = true};
  return RENGA_SUCCESS;
}
