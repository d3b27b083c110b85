/* A step: all ranks make the pass (together.c), whose last action changes parameters and states.
   Nothing after the last sum of the pass can fail but a rule of the program, on which the ranks
   agree once more, and the device itself. */
#include "pipelineimpl.h"

static RengaErrorCode CheckLoss(const double *loss, const char *function)
{
  RengaCheckPointerOf(function, loss);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineStep - one step of training

   Collective

   Input:
   . pipeline - the pipeline, set up
   . batch - number of samples of the step, over all replicas, and how to read them

   Output:
   . loss - of the whole batch, the same bits on every rank

   Errors: where a step fails on one rank (its batch cannot be read, say) it fails on all of them,
   with the same code. No parameter, moment, state or number of steps has changed then, no message
   is under way, and the next step may be made, or this one once more. Ranks that call with other
   samples, at another step, with another learning rate or other settings of the optimizer than rank
   0 are named. After RENGA_ERR_TIMEOUT the pipeline can only be destroyed. So it is where the
   update itself fails: by a rule of the program (RengaOptimizerRegister) on all ranks, with the
   same code; by a device's fault on that rank alone, and the others wait for it in their next call.

   Notes: a loss or gradient that is not finite is an error on all ranks, before parameters change,
   or what RengaPipelineSetOnNonfinite says. Settings of the optimizer may be changed between steps,
   on all ranks alike. On a device with a time of its own the update may still be under way when
   the step returns: what is queued on stream NULL, or asked of the pipeline, comes after it.
@*/
RengaErrorCode RengaPipelineStep(RengaPipeline pipeline, const RengaBatch *batch, double *loss)
{
  const double begin = MPI_Wtime();
  Pass pass = {.kind = PROGRAM_TRAINING,
               .call = CALL_STEP,
               .batch = batch,
               .code = CheckLoss(loss, __func__)};
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  RengaErrorCode code = RengaPipelineRunTogether_Private(pipeline, &pass);
  if (!code) code = pass.verdict;
  if (!code) RengaPipelineKeepSampleLosses_Private(pipeline, &pass);
  RengaPipelineFreePass_Private(pipeline, &pass);
  RengaCall(code);
  pass.info.seconds = MPI_Wtime() - begin;
  *loss = pass.info.loss;
  pipeline->norm = pass.info.norm;
  pipeline->last = pass.info;
  if (pass.info.counts) pipeline->step++;
  if (pipeline->monitor) pipeline->monitor(pipeline, &pipeline->last, pipeline->monitor_context);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineEvaluate - the loss of a batch, without training

   Collective

   Input:
   . pipeline - the pipeline, set up
   . batch - number of samples over all replicas, and how to read them

   Output:
   . loss - of the whole batch, the same bits on every rank

   Errors: as of RengaPipelineStep.

   Notes: Dropout is the identity, BatchNormalization uses the running statistics.
@*/
RengaErrorCode RengaPipelineEvaluate(RengaPipeline pipeline, const RengaBatch *batch, double *loss)
{
  Pass pass = {.kind = PROGRAM_EVALUATION,
               .call = CALL_EVALUATE,
               .batch = batch,
               .code = CheckLoss(loss, __func__)};
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  for (int c = 0; c < pipeline->rank.n_chunks; c++)
    pipeline->rank.chunk[c].portion.target = pipeline->rank.chunk[c].loss;
  const RengaErrorCode code = RengaPipelineRunTogether_Private(pipeline, &pass);
  if (!code) *loss = RengaAddInOrder_Private(pass.microbatches, pass.values);
  RengaPipelineFreePass_Private(pipeline, &pass);
  RengaCall(code);
  return RENGA_SUCCESS;
}
