/* States: the statistics of each micro-batch are kept, and applied in the order of the micro-
   batches after the step, on every replica alike. */
#include "pipelineimpl.h"

static int64_t Elements(Chunk *chunk, int update)
{
  return RengaTensorSpecCount(
      &RengaGraphGetValue(chunk->sub, chunk->states.update[update].batch_value)->spec);
}

/* The statistics of a micro-batch to their row of chunk->portion.statistics. */
RengaErrorCode RengaChunkKeepStatistics_Private(Chunk *chunk, const Program *program,
                                                int64_t number)
{
  double *to = chunk->portion.statistics + number * chunk->states.elements;
  float *value = chunk->portion.scratch;
  for (int u = 0; u < chunk->states.n_updates; u++) {
    const int64_t count = Elements(chunk, u);
    const Place place = program->place[chunk->states.update[u].batch_value];
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST, value,
                              RengaChunkAt_Private(chunk, place), (size_t)count * sizeof(float)));
    RengaCall(RengaStreamSynchronize(chunk->device, NULL));
    for (int64_t i = 0; i < count; i++) *to++ = (double)value[i];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Apply(Chunk *chunk, const Pass *pass, int u, const double batch[])
{
  float *state = chunk->portion.scratch;
  const RengaStateUpdate *update = &chunk->states.update[u];
  const int64_t count = Elements(chunk, u);
  float *at = RengaChunkAt_Private(chunk, chunk->value_place[update->state]);
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST, state, at,
                            (size_t)count * sizeof(float)));
  RengaCall(RengaStreamSynchronize(chunk->device, NULL));
  for (int64_t m = 0; m < pass->microbatches; m++) {
    const double *row = batch + m * chunk->states.elements;
    for (int64_t i = 0; i < count; i++)
      state[i] =
          (float)(update->keep * (double)state[i] + (1 - update->keep) * update->factor * row[i]);
  }
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_HOST_TO_DEVICE, at, state,
                            (size_t)count * sizeof(float)));
  RengaCall(RengaStreamSynchronize(chunk->device, NULL));
  return RENGA_SUCCESS;
}

/* Collective on the replicas of the stage: each gets the statistics of all micro-batches. Fails
   only where messages are left under way. */
RengaErrorCode RengaChunkSumStatistics_Private(Chunk *chunk, const Pass *pass)
{
  if (!chunk->portion.statistics) return RENGA_SUCCESS;
  char what[160];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) collects the statistics of micro-batches in step %lld",
           RengaCommGetRank(chunk->pipeline->rank.all), chunk->stage, chunk->replica,
           (long long)chunk->pipeline->step);
  RengaCall(RengaCommSumExact(chunk->group, pass->microbatches * chunk->states.elements,
                              chunk->portion.statistics, what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkUpdateStates_Private(Chunk *chunk, const Pass *pass)
{
  const double *batch = chunk->portion.statistics;
  for (int u = 0; batch && u < chunk->states.n_updates; u++) {
    RengaCall(Apply(chunk, pass, u, batch));
    batch += Elements(chunk, u);
  }
  return RENGA_SUCCESS;
}
