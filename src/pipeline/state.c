/* States: the statistics of each micro-batch are kept, and applied in the order of the micro-
   batches after the step, on every replica alike. */
#include "pipelineimpl.h"

static int64_t Elements(RengaPipeline pipeline, int update)
{
  return RengaTensorSpecCount(
      &RengaGraphGetValue(pipeline->sub, pipeline->update[update].batch_value)->spec);
}

/* The statistics of a micro-batch to their row of pass->statistics. */
RengaErrorCode RengaPipelineKeepStatistics_Private(RengaPipeline pipeline, Pass *pass,
                                                   const Program *program, int64_t number)
{
  double *to = pass->statistics + number * pipeline->statistics;
  float *value = pass->scratch;
  for (int u = 0; u < pipeline->n_updates; u++) {
    const int64_t count = Elements(pipeline, u);
    const Place place = program->place[pipeline->update[u].batch_value];
    RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST, value,
                              RengaPipelineAt_Private(pipeline, place),
                              (size_t)count * sizeof(float)));
    RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
    for (int64_t i = 0; i < count; i++) *to++ = (double)value[i];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Apply(RengaPipeline pipeline, const Pass *pass, int u, const double batch[])
{
  float *state = pass->scratch;
  const RengaStateUpdate *update = &pipeline->update[u];
  const int64_t count = Elements(pipeline, u);
  float *at = RengaPipelineAt_Private(pipeline, pipeline->value_place[update->state]);
  RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST, state, at,
                            (size_t)count * sizeof(float)));
  RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
  for (int64_t m = 0; m < pass->microbatches; m++) {
    const double *row = batch + m * pipeline->statistics;
    for (int64_t i = 0; i < count; i++)
      state[i] =
          (float)(update->keep * (double)state[i] + (1 - update->keep) * update->factor * row[i]);
  }
  RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_HOST_TO_DEVICE, at, state,
                            (size_t)count * sizeof(float)));
  RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
  return RENGA_SUCCESS;
}

/* Collective on the replicas of the stage: each gets the statistics of all micro-batches. Fails
   only where messages are left under way. */
RengaErrorCode RengaPipelineSumStatistics_Private(RengaPipeline pipeline, Pass *pass)
{
  if (!pass->statistics) return RENGA_SUCCESS;
  char what[160];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) collects the statistics of micro-batches in step %lld",
           RengaCommGetRank(pipeline->all), pipeline->stage, pipeline->replica,
           (long long)pipeline->step);
  RengaCall(RengaCommSumExact(pipeline->group, pass->microbatches * pipeline->statistics,
                              pass->statistics, what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineUpdateStates_Private(RengaPipeline pipeline, const Pass *pass)
{
  const double *batch = pass->statistics;
  for (int u = 0; batch && u < pipeline->n_updates; u++) {
    RengaCall(Apply(pipeline, pass, u, batch));
    batch += Elements(pipeline, u);
  }
  return RENGA_SUCCESS;
}
