/* A step: all ranks make the pass (together.c), whose last action changes parameters and states.
   Nothing after the last sum of the pass can fail but the device itself. */
#include "pipelineimpl.h"
#include <math.h>

static double AddInOrder(int64_t count, const double values[])
{
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

/* Gradients and statistics of the whole batch, and their norms; then what all ranks say of the
   pass. */
static RengaErrorCode SumUp(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = &pipeline->rank;
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkExchangeTied_Private(&rank->chunk[c], pass));
  RengaCall(
      RengaPipelineNote_Private(pipeline, pass, RengaPipelineFindNorms_Private(pipeline, pass)));
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkSumStatistics_Private(&rank->chunk[c], pass));
  RengaCall(RengaPipelineSumValues_Private(pipeline, pass));
  return RENGA_SUCCESS;
}

/* The same on all ranks; it errs on all of them. */
static RengaErrorCode Judge(RengaPipeline pipeline, const Pass *pass, RengaPipelineStepInfo *info)
{
  *info = (RengaPipelineStepInfo){.step = pipeline->step,
                                  .samples = pass->batch->samples,
                                  .loss = AddInOrder(pass->microbatches, pass->values),
                                  .counts = true};
  info->norm = sqrt(AddInOrder(pipeline->outline.n_parameters, pass->values + pass->microbatches));
  RengaCall(RengaOptimizerGetLearningRate(pipeline->optimizer, info->step, &info->learning_rate));
  for (int c = 0; c < pipeline->rank.n_chunks; c++) pipeline->rank.chunk[c].gradients.valid = true;
  RengaCall(RengaPipelineJudge_Private(pipeline, info));
  return RENGA_SUCCESS;
}

/* The last action of a step, of ranks without a stage too. Where the pass has failed, or the step
   is not finite, nothing changes. Fails where messages are left under way, or some parameters
   have changed. */
RengaErrorCode RengaPipelineRunUpdate_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaCall(SumUp(pipeline, pass));
  if (RengaPassHasFailed_Private(pass)) return RENGA_SUCCESS;
  pass->verdict = Judge(pipeline, pass, &pass->info);
  if (!pass->verdict && pass->info.finite)
    RengaCall(RengaPipelineUpdate_Private(pipeline, pass, pass->info.norm));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLoss(const double *loss)
{
  RengaCheckPointer(loss);
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
   0 are named. After RENGA_ERR_TIMEOUT the pipeline can only be destroyed.

   Notes: a loss or gradient that is not finite is an error on all ranks, before parameters change,
   or what RengaPipelineSetOnNonfinite says. Settings of the optimizer may be changed between steps,
   on all ranks alike.
@*/
RengaErrorCode RengaPipelineStep(RengaPipeline pipeline, const RengaBatch *batch, double *loss)
{
  const double begin = MPI_Wtime();
  Pass pass = {
      .kind = PROGRAM_TRAINING, .call = CALL_STEP, .batch = batch, .code = CheckLoss(loss)};
  RengaCall(RengaPipelineCheckReady_Private(pipeline));
  RengaErrorCode code = RengaPipelineRunTogether_Private(pipeline, &pass);
  if (!code) code = pass.verdict;
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
  Pass pass = {
      .kind = PROGRAM_EVALUATION, .call = CALL_EVALUATE, .batch = batch, .code = CheckLoss(loss)};
  RengaCall(RengaPipelineCheckReady_Private(pipeline));
  for (int c = 0; c < pipeline->rank.n_chunks; c++)
    pipeline->rank.chunk[c].portion.target = pipeline->rank.chunk[c].loss;
  const RengaErrorCode code = RengaPipelineRunTogether_Private(pipeline, &pass);
  if (!code) *loss = AddInOrder(pass.microbatches, pass.values);
  RengaPipelineFreePass_Private(pipeline, &pass);
  RengaCall(code);
  return RENGA_SUCCESS;
}
