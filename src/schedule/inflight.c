/* What ranks hold of the micro-batches: how many, and how late they are with weights. */
#include "scheduleimpl.h"

/* Numbers of a stage: what the type promises, or what its lists do where it promises nothing. */
static RengaErrorCode KnowStage(RengaSchedule schedule, int stage)
{
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, 0));
  if (schedule->ops->warm_up)
    RengaCall(RengaSchedulePrepare_Private(schedule));
  else
    RengaCall(RengaScheduleSetUp(schedule));
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetInFlight - how many micro-batches a rank of a stage holds at the most

   Input:
   . schedule - the schedule, with its shape; it need not be set up
   . stage - the number of the stage, from 0

   Output:
   . microbatches - the most that are forward but not yet backward; their activations are saved,
     or what they follow from; of the replica that holds most

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT for a stage that there is not.

   Notes: until the schedule is set up what its type promises, then what the lists do. The lists of
   a type from outside, which promises nothing, are built and proved. Of a schedule of forwards only
   whose ranks have several stages: those whose outputs may not be taken yet.

   See also: RengaScheduleGetLag()
@*/
RengaErrorCode RengaScheduleGetInFlight(RengaSchedule schedule, int stage, int64_t *microbatches)
{
  RengaCheckPointers(schedule, microbatches);
  RengaCall(KnowStage(schedule, stage));
  *microbatches = schedule->in_flight[stage];
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetLag - how far a stage's gradients of parameters are behind those of its inputs

   Input:
   . schedule - the schedule, with its shape; it need not be set up
   . stage - the number of the stage, from 0

   Output:
   . microbatches - the most whose backward input is done and whose backward weight is not; 0 where
     all backwards of the stage are whole

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT for a stage that there is not.

   Notes: gpipe and 1f1b have whole backwards. The lists of other types are built and proved.

   See also: RengaScheduleGetInFlight()
@*/
RengaErrorCode RengaScheduleGetLag(RengaSchedule schedule, int stage, int64_t *microbatches)
{
  RengaCheckPointers(schedule, microbatches);
  RengaCall(KnowStage(schedule, stage));
  *microbatches = schedule->lag[stage];
  return RENGA_SUCCESS;
}
