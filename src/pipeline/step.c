/* A step: all ranks make the pass (allornone.c), whose last action changes parameters and states.
   Nothing after the last sum of the pass can fail but a rule of the program, on which the ranks
   agree once more, and the device itself. */
#include "pipelineimpl.h"
#include "renga/private/signs.h"

static RengaErrorCode CheckLoss(const double *loss, const char *function)
{
  RengaCheckPointerOf(function, loss);
  return RENGA_SUCCESS;
}

/* A channel of one value has no statistics. */
static RengaErrorCode CheckStepStatistics(RengaPipeline pipeline, const RengaBatch *batch,
                                          const double *loss, const char *function)
{
  int64_t whole, microbatch;
  RengaCall(CheckLoss(loss, function));
  RengaCall(RengaPlanGetBatch(pipeline->plan, &whole, &microbatch));
  if (batch && batch->samples > 0 && (microbatch == 1 || batch->samples % microbatch == 1))
    RengaCall(RengaPlanCheckStatistics(pipeline->plan, pipeline->graph, batch->samples));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineStep - one step of training

   Collective

   Input:
   . pipeline - the pipeline, set up
   . batch - number of samples of the step, over all replicas, and how to read them

   Output:
   . loss - the loss of the whole batch, the same bits on every rank

   Errors: RENGA_ERR_ORDER before set-up, where the network has no loss, or for a pipeline that can
   only be destroyed; RENGA_ERR_ARGUMENT for a batch without samples or without a function that
   reads it, for a number of samples that needs more memory than was taken at set-up
   (RengaPipelineSetDataShortBatch; RENGA_ERR_MEMORY where it is its gradients that have no place),
   and where a rank calls with other samples, at another step, with another learning rate or other
   settings of the optimizer than rank 0: it is named; RENGA_ERR_PLAN where a micro-batch has one
   value for a channel of BatchNormalization; RENGA_ERR_NUMERIC for a
   loss or gradient that is not finite (RengaPipelineSetOnNonfinite); RENGA_ERR_TIMEOUT where
   nothing moves for as long as RengaSettingsSetTimeout says; and what the function that reads the
   batch returns. A step that fails on one rank fails on all of them, with the same code. No
   parameter, moment, state or number of steps has changed then, no message is under way, and the
   next step may be made, or this one once more. After RENGA_ERR_TIMEOUT the pipeline can only be
   destroyed. So it is where the update itself fails: by a rule of the program
   (RengaOptimizerRegister) on all ranks, with the same code; by a device's fault on that rank
   alone, and the others wait for it in their next call.

   Notes: a loss or gradient that is not finite is an error on all ranks, before parameters change,
   or what RengaPipelineSetOnNonfinite says. Settings of the optimizer may be changed between steps,
   on all ranks alike. On a device with a time of its own the update may still be under way when
   the step returns: what is queued on stream NULL, or asked of the pipeline, comes after it.

   See also: RengaPipelineEvaluate(), RengaPipelineGetLastStep(), RengaPipelineSetOnNonfinite(),
   RengaPipelineSetDataShortBatch(), RengaPipelineGetSampleLosses()
@*/
RengaErrorCode RengaPipelineStep(RengaPipeline pipeline, const RengaBatch *batch, double *loss)
{
  const double begin = MPI_Wtime();
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  Pass pass = {.kind = PROGRAM_TRAINING,
               .call = CALL_STEP,
               .batch = batch,
               .code = CheckStepStatistics(pipeline, batch, loss, __func__)};
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
  RengaSignStep_Private(pipeline->step);
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
   . loss - the loss of the whole batch, the same bits on every rank

   Errors: as of RengaPipelineStep, but for RENGA_ERR_NUMERIC: a loss that is not finite is
   returned.

   Notes: Dropout is the identity, BatchNormalization uses the running statistics.

   After RengaPipelineCount it is the batch's part of the loss of all batches that were announced.

   See also: RengaPipelineStep(), RengaPipelineForward(), RengaPipelineCount()
@*/
RengaErrorCode RengaPipelineEvaluate(RengaPipeline pipeline, const RengaBatch *batch, double *loss)
{
  Pass pass = {.kind = PROGRAM_EVALUATION,
               .call = CALL_EVALUATE,
               .batch = batch,
               .code = CheckLoss(loss, __func__)};
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    pipeline->rank->chunk[c].portion->target = pipeline->rank->chunk[c].loss->value;
  const RengaErrorCode code = RengaPipelineRunTogether_Private(pipeline, &pass);
  if (!code) *loss = RengaAddInOrder_Private(pass.microbatches, pass.values);
  RengaPipelineFreePass_Private(pipeline, &pass);
  RengaCall(code);
  return RENGA_SUCCESS;
}
