/* What came of a step: who wants to know it, and what is done where it is not finite. */
#include "pipelineimpl.h"
#include <math.h>

/* The loss and the norm are the same on all ranks, so that all of them stop. */
static RengaErrorCode RefuseNonfinite(RengaPipeline pipeline, const RengaPipelineStepInfo *info)
{
  RengaCheck(
      isfinite(info->loss), pipeline->hdr.comm, RENGA_ERR_NUMERIC,
      "the loss of step %lld is %g; parameters are those after %lld steps. What may help: a "
      "smaller -optimizer_learning_rate, -optimizer_clip_norm, -pipeline_on_nonfinite skip, a look "
      "at the data",
      (long long)info->step, info->loss, (long long)info->step);
  RengaCheck(
      isfinite(info->norm), pipeline->hdr.comm, RENGA_ERR_NUMERIC,
      "the gradient of step %lld is not finite (its norm is %g, the loss %g); parameters are "
      "those after %lld steps",
      (long long)info->step, info->norm, info->loss, (long long)info->step);
  return RENGA_SUCCESS;
}

/* Before anything changes: info has loss and norm, and gets whether they are finite and whether the
   step counts. */
RengaErrorCode RengaPipelineJudge_Private(RengaPipeline pipeline, RengaPipelineStepInfo *info)
{
  const bool skips = pipeline->on_nonfinite == RENGA_NONFINITE_SKIP;
  info->finite = isfinite(info->loss) && isfinite(info->norm);
  if (info->finite) return RENGA_SUCCESS;
  if (RengaLossScaleOverflows_Private(pipeline, info)) {
    RengaLossScaleHalve_Private(pipeline);
    RengaWarning(pipeline->hdr.comm,
                 "step %lld: the gradient does not fit fp16 at this scale of the loss: the step is "
                 "skipped, the scale is %.0f now",
                 (long long)info->step, pipeline->loss_scale);
    return RENGA_SUCCESS;
  }
  pipeline->n_nonfinite++;
  info->counts = skips;
  if (pipeline->on_nonfinite == RENGA_NONFINITE_STOP) {
    pipeline->last = *info; /* for whoever marks checkpoints */
    RengaCall(RefuseNonfinite(pipeline, info));
  }
  RengaWarning(pipeline->hdr.comm,
               "step %lld is not finite (loss %g, norm of the gradient %g): it changes nothing%s",
               (long long)info->step, info->loss, info->norm, skips ? " and is skipped" : "");
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetOnNonfinite - what a step does whose loss or gradient is not finite

   Collective

   Input:
   . pipeline - the pipeline; also between steps
   . manner - RENGA_NONFINITE_STOP, RENGA_NONFINITE_SKIP or RENGA_NONFINITE_ROLLBACK

   Options:
   . -pipeline_on_nonfinite - stop, skip or rollback

   Errors: RENGA_ERR_ARGUMENT for another number.

   Notes: in no case is any parameter, moment or state changed.

   stop (the default): the step is an error (RENGA_ERR_NUMERIC) on all ranks and does not count.

   skip: the step says so, succeeds and counts: the number of steps grows, so that random numbers,
   learning rate and the caller's place in the data go on as if it had been made. adam's bias
   correction counts it too. Which steps are skipped follows from losses and norms, so that it is
   the same on any layout, and a resumed run goes on alike.

   rollback: the step says so, succeeds, and does not count. It is for callers that keep
   checkpoints: where RengaPipelineGetLastStep says that it was not finite they go back to one.
   Repeated with the same data it will be the same.

   See also: RengaPipelineGetOnNonfinite(), RengaPipelineGetNonfiniteCount(),
   RengaPipelineGetLastStep(), RengaCheckpointRollBack()
@*/
RengaErrorCode RengaPipelineSetOnNonfinite(RengaPipeline pipeline, RengaNonfinite manner)
{
  RengaCheckPointer(pipeline);
  RengaCheck((unsigned)manner <= RENGA_NONFINITE_ROLLBACK, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d is no RengaNonfinite", (int)manner);
  pipeline->on_nonfinite = manner;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineGetOnNonfinite(RengaPipeline pipeline, RengaNonfinite *manner)
{
  RengaCheckPointers(pipeline, manner);
  *manner = pipeline->on_nonfinite;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetNonfiniteCount - steps whose loss or gradient was not finite

   Output:
   . count - the number of such steps since it was created, whatever RengaPipelineSetOnNonfinite
     made of them

   See also: RengaPipelineSetOnNonfinite(), RengaPipelineGetLastStep()
@*/
RengaErrorCode RengaPipelineGetNonfiniteCount(RengaPipeline pipeline, int64_t *count)
{
  RengaCheckPointers(pipeline, count);
  *count = pipeline->n_nonfinite;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetLastStep - what came of the last step that was no error, or was not finite

   Input:
   . pipeline - the pipeline, after a step; before the first one it is an error (RENGA_ERR_ORDER)

   Output:
   . info - number, samples, loss, norm, learning rate, seconds; whether it was finite and counts.
     All but the seconds are the same on every rank

   Errors: RENGA_ERR_ORDER before the first step.

   See also: RengaPipelineStep(), RengaPipelineSetMonitor(), RengaPipelineGetNonfiniteCount()
@*/
RengaErrorCode RengaPipelineGetLastStep(RengaPipeline pipeline, RengaPipelineStepInfo *info)
{
  RengaCheckPointers(pipeline, info);
  RengaCheck(pipeline->last.samples > 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the pipeline has made no step yet: call RengaPipelineStep first");
  *info = pipeline->last;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetMonitor - a function that is called after each step

   Collective

   Input:
   . pipeline - the pipeline; also between steps
   . monitor - called on every rank after each RengaPipelineStep that was no error, also after one
     that was not finite; NULL: none. It may look at the pipeline, all ranks alike, but make no step
   . context - handed to it; must live as long as the monitor is set

   See also: RengaPipelineGetMonitor(), RengaPipelineGetLastStep()
@*/
RengaErrorCode RengaPipelineSetMonitor(RengaPipeline pipeline, RengaPipelineMonitor monitor,
                                       void *context)
{
  RengaCheckPointer(pipeline);
  pipeline->monitor = monitor;
  pipeline->monitor_context = context;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetMonitor - the function that is called after each step

   Output:
   . monitor - the function that was set; NULL: none
   . context - the pointer that was set with it
@*/
RengaErrorCode RengaPipelineGetMonitor(RengaPipeline pipeline, RengaPipelineMonitor *monitor,
                                       void **context)
{
  RengaCheckPointers(pipeline, monitor, context);
  *monitor = pipeline->monitor;
  *context = pipeline->monitor_context;
  return RENGA_SUCCESS;
}
