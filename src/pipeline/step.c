/* A step: prologue, the actions, sums over replicas and uses, loss and norm, update, states. */
#include "pipelineimpl.h"
#include <math.h>

static RengaErrorCode CheckBatch(RengaPipeline pipeline, const RengaBatch *batch)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(batch);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  RengaCheck(batch->read != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the batch has no function that reads it");
  RengaCheck(batch->samples > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a batch of %lld samples",
             (long long)batch->samples);
  return RENGA_SUCCESS;
}

/* A step of another size than announced must fit the buffers that were planned. */
static RengaErrorCode CheckFits(RengaPipeline pipeline, const Pass *pass)
{
  RengaSchedule schedule;
  int64_t in_flight;
  int buffers;
  RengaCall(RengaPipelineGetSchedule_Private(pipeline, pass->microbatches, false, &schedule));
  RengaCall(RengaScheduleGetInFlight(schedule, pipeline->stage, &in_flight));
  RengaCall(RengaPipelineCountTreeBuffers_Private(pipeline, pass->microbatches, &buffers));
  RengaCheck(in_flight <= pipeline->slots && buffers <= pipeline->n_buffers, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT,
             "a step of %lld samples needs more memory than was planned for %lld: announce it with "
             "RengaPipelineSetDataShortBatch before RengaPipelineSetUp",
             (long long)pass->batch->samples, (long long)pipeline->batch);
  return RENGA_SUCCESS;
}

/* Fills the ranges of a pass; allocates nothing. */
RengaErrorCode RengaPipelineBeginPass_Private(RengaPipeline pipeline, const RengaBatch *batch,
                                              Pass *pass)
{
  RengaCall(CheckBatch(pipeline, batch));
  pass->batch = batch;
  pass->training = pass->kind == PROGRAM_TRAINING;
  pass->microbatches = RengaPlanMicrobatches(pipeline->plan, batch->samples);
  if (pipeline->stage >= 0) {
    RengaPipelineRange_Private(pipeline, pass->microbatches, &pass->first, &pass->last);
  }
  return RENGA_SUCCESS;
}

/* values are the micro-batches' shares of the loss, then the parameters' sums of squares. */
static RengaErrorCode FindNorms(RengaPipeline pipeline, double squares[])
{
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_NORM));
  for (int p = 0; p < pipeline->n_parameters; p++) {
    const Parameter *parameter = &pipeline->parameter[p];
    if (!parameter->trained || !parameter->owner) continue;
    RengaCall(RengaDeviceSumOfSquares(pipeline->device, NULL, parameter->count,
                                      pipeline->gradient + parameter->gradient,
                                      &squares[parameter->number]));
  }
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_NORM), 0, 0, 0);
  return RENGA_SUCCESS;
}

static double AddInOrder(int64_t count, const double values[])
{
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

static RengaErrorCode Update(RengaPipeline pipeline)
{
  double scale = 1;
  RengaCall(RengaOptimizerGetScale(pipeline->optimizer, pipeline->norm, &scale));
  const double begin = MPI_Wtime();
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_UPDATE));
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
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_UPDATE), 0, 0, 0);
  RengaLogTrace("compute", "update", begin, MPI_Wtime());
  return RENGA_SUCCESS;
}

/* values: see FindNorms; zero at first. */
static RengaErrorCode Learn(RengaPipeline pipeline, Pass *pass, double values[],
                            RengaPipelineStepInfo *info)
{
  if (pipeline->stage >= 0) {
    RengaCall(CheckFits(pipeline, pass));
    RengaCall(RengaPipelineBeginGradients_Private(pipeline));
    RengaCall(RengaPipelineRunPrologue_Private(pipeline, pass));
    RengaCall(RengaPipelineRunPass_Private(pipeline, pass));
    RengaCall(RengaPipelineReduceGradients_Private(pipeline, pass));
    RengaCall(FindNorms(pipeline, values + pass->microbatches));
  }
  RengaCall(RengaCommSumExact(pipeline->all, pass->microbatches + pipeline->n_network, values,
                              "all ranks to end the step (loss and norm)"));
  info->loss = AddInOrder(pass->microbatches, values);
  info->norm = sqrt(AddInOrder(pipeline->n_network, values + pass->microbatches));
  pipeline->norm = info->norm;
  RengaCall(RengaPipelineJudge_Private(pipeline, info));
  if (pipeline->stage >= 0 && info->finite) {
    RengaCall(Update(pipeline));
    RengaCall(RengaPipelineUpdateStates_Private(pipeline, pass));
  }
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

   Notes: a loss or gradient that is not finite is an error on all ranks, before parameters change,
   or what RengaPipelineSetOnNonfinite says.
@*/
RengaErrorCode RengaPipelineStep(RengaPipeline pipeline, const RengaBatch *batch, double *loss)
{
  const double begin = MPI_Wtime();
  Pass pass = {.kind = PROGRAM_TRAINING, .target = RENGA_VALUE_NONE};
  RengaCheckPointer(loss);
  RengaCall(RengaPipelineBeginPass_Private(pipeline, batch, &pass));
  RengaCheck(pipeline->has_loss, pipeline->hdr.comm, RENGA_ERR_ORDER,
             "the network has no loss: it can be run forward, not trained");
  RengaPipelineStepInfo info = {.step = pipeline->step, .samples = batch->samples, .counts = true};
  RengaCall(RengaOptimizerGetLearningRate(pipeline->optimizer, info.step, &info.learning_rate));
  RengaCall(RengaMalloc(pass.microbatches + pipeline->n_network, &pass.loss));
  RengaErrorCode code = RENGA_SUCCESS;
  if (pipeline->statistics > 0)
    code = RengaMalloc(pass.microbatches * pipeline->statistics, &pass.statistics);
  if (code == RENGA_SUCCESS) code = Learn(pipeline, &pass, pass.loss, &info);
  RengaFree(&pass.loss);
  RengaFree(&pass.statistics);
  RengaCall(code);
  info.seconds = MPI_Wtime() - begin;
  *loss = info.loss;
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

   Notes: Dropout is the identity, BatchNormalization uses the running statistics.
@*/
RengaErrorCode RengaPipelineEvaluate(RengaPipeline pipeline, const RengaBatch *batch, double *loss)
{
  Pass pass = {.kind = PROGRAM_EVALUATION, .target = RENGA_VALUE_NONE};
  RengaCheckPointer(loss);
  RengaCall(RengaPipelineBeginPass_Private(pipeline, batch, &pass));
  RengaCheck(pipeline->has_loss, pipeline->hdr.comm, RENGA_ERR_ORDER, "the network has no loss");
  pass.target = pipeline->loss;
  RengaCall(RengaMalloc(pass.microbatches, &pass.loss));
  RengaErrorCode code = RENGA_SUCCESS;
  if (pipeline->stage >= 0) {
    code = RengaPipelineRunPrologue_Private(pipeline, &pass);
    if (code == RENGA_SUCCESS) code = RengaPipelineRunPass_Private(pipeline, &pass);
  }
  if (code == RENGA_SUCCESS)
    code = RengaCommSumExact(pipeline->all, pass.microbatches, pass.loss,
                             "all ranks to end the evaluation (loss)");
  const double mean = AddInOrder(pass.microbatches, pass.loss);
  RengaFree(&pass.loss);
  RengaCall(code);
  *loss = mean;
  return RENGA_SUCCESS;
}
