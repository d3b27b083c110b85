/* A step: all ranks make the pass (together.c), then parameters and states change. Nothing after
   the last sum of the pass can fail but the device itself. */
#include "pipelineimpl.h"
#include <math.h>

/* Sums of squares of the gradients of parameters that this rank owns, behind the shares of the
   loss. */
RengaErrorCode RengaPipelineFindNorms_Private(RengaPipeline pipeline, Pass *pass)
{
  double *squares = pass->values + pass->microbatches;
  RengaErrorCode code = RENGA_SUCCESS;
  if (pass->failed) return RENGA_SUCCESS;
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_NORM));
  for (int p = 0; p < pipeline->n_parameters && !code; p++) {
    const Parameter *parameter = &pipeline->parameter[p];
    if (parameter->trained && parameter->owner)
      code = RengaDeviceSumOfSquares(pipeline->device, NULL, parameter->count,
                                     pipeline->gradient + parameter->gradient,
                                     &squares[parameter->number]);
  }
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_NORM), 0, 0, 0);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static double AddInOrder(int64_t count, const double values[])
{
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

static RengaErrorCode UpdateParameters(RengaPipeline pipeline, double scale)
{
  for (int p = 0; p < pipeline->n_parameters; p++) {
    const Parameter *parameter = &pipeline->parameter[p];
    if (!parameter->trained) continue;
    float *moment[4] = {NULL};
    for (int m = 0; m < pipeline->n_moments; m++)
      moment[m] =
          (float *)pipeline->moment_base + m * pipeline->parameter_count + parameter->offset;
    RengaCall(RengaOptimizerUpdate(pipeline->optimizer, pipeline->device, NULL, parameter->name,
                                   pipeline->step, scale, parameter->count,
                                   (float *)pipeline->persistent_base + parameter->offset,
                                   pipeline->gradient + parameter->gradient, moment));
  }
  RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode Update(RengaPipeline pipeline, const Pass *pass, double norm)
{
  double scale = 1;
  const double begin = MPI_Wtime();
  if (pipeline->stage < 0) return RENGA_SUCCESS;
  RengaCall(RengaOptimizerGetScale(pipeline->optimizer, norm, &scale));
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_UPDATE));
  RengaErrorCode code = UpdateParameters(pipeline, scale);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_UPDATE), 0, 0, 0);
  RengaLogTrace("compute", "update", begin, MPI_Wtime());
  if (!code) code = RengaPipelineUpdateStates_Private(pipeline, pass);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Learn(RengaPipeline pipeline, Pass *pass, RengaPipelineStepInfo *info)
{
  RengaCall(RengaPipelineRunTogether_Private(pipeline, pass));
  *info = (RengaPipelineStepInfo){.step = pipeline->step,
                                  .samples = pass->batch->samples,
                                  .loss = AddInOrder(pass->microbatches, pass->values),
                                  .counts = true};
  info->norm = sqrt(AddInOrder(pipeline->n_network, pass->values + pass->microbatches));
  RengaCall(RengaOptimizerGetLearningRate(pipeline->optimizer, info->step, &info->learning_rate));
  pipeline->gradient_valid = true;
  RengaCall(RengaPipelineJudge_Private(pipeline, info));
  if (!info->finite) return RENGA_SUCCESS;
  const RengaErrorCode code = Update(pipeline, pass, info->norm);
  if (code) RengaPipelineBreak_Private(pipeline, code);
  RengaCall(code);
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
  RengaPipelineStepInfo info;
  Pass pass = {.kind = PROGRAM_TRAINING,
               .call = CALL_STEP,
               .target = RENGA_VALUE_NONE,
               .batch = batch,
               .code = CheckLoss(loss)};
  RengaCall(RengaPipelineCheckReady_Private(pipeline));
  const RengaErrorCode code = Learn(pipeline, &pass, &info);
  RengaPipelineFreePass_Private(&pass);
  RengaCall(code);
  info.seconds = MPI_Wtime() - begin;
  *loss = info.loss;
  pipeline->norm = info.norm;
  pipeline->last = info;
  if (info.counts) pipeline->step++;
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
  pass.target = pipeline->loss;
  const RengaErrorCode code = RengaPipelineRunTogether_Private(pipeline, &pass);
  if (!code) *loss = AddInOrder(pass.microbatches, pass.values);
  RengaPipelineFreePass_Private(&pass);
  RengaCall(code);
  return RENGA_SUCCESS;
}
