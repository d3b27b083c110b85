/* The shape of a plan, and what its stages take, for a schedule that chooses its lists by that. */
#include "scheduleimpl.h"
#include "renga/private/plan.h"
#include "renga/private/schedule.h"

/* Say what a micro-batch takes, to a schedule that is chosen by it. The same on all ranks.
   RengaScheduleSetPlan() takes the seconds of the plan's stages, or their FLOPs where it has none,
   half of a backward for gradients of parameters. RengaScheduleSetShape() takes all for 1.
   schedule: the schedule, with its shape; only type auto looks at it. forward, input, weight:
   [stages] seconds of a forward, of a backward's gradients of what was received, and of its
   gradients of parameters; without recomputation; copied. message: [messages] seconds until a
   message arrives, or NULL: at once; copied. */
RengaErrorCode RengaScheduleSetSeconds(RengaSchedule schedule, const double forward[],
                                       const double input[], const double weight[],
                                       const double message[])
{
  RengaCheckPointers(schedule, forward, input, weight);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  const int p = schedule->stages;
  const double *const all[] = {forward, input, weight};
  for (int s = 0; s < p; s++)
    for (int k = 0; k < 3; k++)
      RengaCheck(all[k][s] >= 0 && all[k][s] < 1e300, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
                 "stage %d takes %g seconds", s, all[k][s]);
  double *seconds = NULL;
  RengaCall(RengaMalloc(3 * p + schedule->n_messages, &seconds));
  for (int s = 0; s < p; s++)
    for (int k = 0; k < 3; k++) seconds[k * p + s] = all[k][s];
  for (int m = 0; message && m < schedule->n_messages; m++) seconds[3 * p + m] = message[m];
  RengaScheduleFreeLists_Private(schedule);
  RengaFree(&schedule->seconds);
  schedule->seconds = seconds;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/* Predicted seconds; without them FLOPs, of which a backward has twice a forward's; or 1 each. */
RengaErrorCode RengaScheduleTakeSeconds_Private(RengaSchedule schedule, RengaPlan plan)
{
  const int p = schedule->stages;
  bool known = true;
  double *forward = NULL;
  RengaCall(RengaMalloc(2 * p, &forward));
  double *half = forward + p;
  bool weighed = false;
  for (int s = 0; s < p; s++) {
    known = known && RengaPlanGetStage(plan, s)->forward_seconds > 0;
    weighed = weighed || RengaPlanGetStage(plan, s)->forward_flops > 0;
  }
  for (int s = 0; s < p; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    const bool again = stage->shape.saved == RENGA_SAVED_RECOMPUTE;
    const double twice = stage->backward_seconds - (again ? stage->forward_seconds : 0);
    forward[s] = known ? stage->forward_seconds : weighed ? stage->forward_flops : 1;
    half[s] = known ? (twice > 0 ? twice / 2 : 0) : forward[s];
  }
  const RengaErrorCode code = RengaScheduleSetSeconds(schedule, forward, half, half, NULL);
  RengaFree(&forward);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Ranks are numbered by their first stage, then replica. */
static RengaErrorCode SetChunks(RengaSchedule schedule, RengaPlan plan)
{
  int *rank;
  if (RengaPlanGetStage(plan, 0)->shape.chunks == 1) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(schedule->seats, &rank));
  for (int s = 0; s < schedule->stages; s++)
    for (int r = 0; r < schedule->replicas[s]; r++)
      rank[schedule->first_seat[s] + r] = schedule->first_seat[RengaPlanGetFirstStage(plan, s)] + r;
  const RengaErrorCode code = RengaScheduleSetRanks(schedule, rank);
  RengaFree(&rank);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetPlan - stages, replicas, ranks, leaves and recomputation of a plan

   Input:
   . plan - the plan
   . microbatches - micro-batches of one step, at least 1, over all replicas: see
     RengaPlanMicrobatches()
   . n_messages - the number of rows of the message table, at least 0
   . messages - the table, of RengaPlanGetMessages(); borrowed until the schedule is destroyed
   . forward_only - no backward: evaluation

   Errors: RENGA_ERR_SUPPORT for a field of a stage's shape that schedules do not know; what
   RengaScheduleSetShape says.

   See also: RengaScheduleSetShape(), RengaPlanGetMessages()
@*/
RengaErrorCode RengaScheduleSetPlan(RengaSchedule schedule, RengaPlan plan, int64_t microbatches,
                                    int n_messages, const RengaMessage messages[],
                                    bool forward_only)
{
  RengaCheckPointers(schedule, plan);
  const int stages = RengaPlanGetStageCount(plan);
  int *replicas;
  RengaCall(RengaMalloc(stages + 1, &replicas));
  for (int s = 0; s < stages; s++) replicas[s] = RengaPlanGetStage(plan, s)->shape.replicas;
  const RengaErrorCode code = RengaScheduleSetShape(schedule, stages, replicas, microbatches,
                                                    n_messages, messages, forward_only);
  RengaFree(&replicas);
  RengaCall(code);
  RengaCall(SetChunks(schedule, plan));
  RengaCall(RengaScheduleTakeSeconds_Private(schedule, plan));
  RengaCall(RengaScheduleSetLeaf(schedule, RengaPlanGetLeaf(plan)));
  for (int s = 0; s < stages; s++)
    RengaCall(RengaScheduleSetRecompute(
        schedule, s, RengaPlanGetStage(plan, s)->shape.saved != RENGA_SAVED_KEEP));
  return RENGA_SUCCESS;
}
