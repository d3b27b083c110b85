/* What the host takes of a pass: losses, statistics, an output. Each is queued when it is made, and
   all are waited for once, at the end of the pass. */
#include "pipelineimpl.h"

static float *TakeFloats(ResultMemory *results, int64_t count)
{
  float *taken = results->memory + results->used;
  results->used += count;
  return taken;
}

/* Before a pass: nothing that the last one queued uses the memory any more. */
RengaErrorCode RengaChunkPrepareResults_Private(Chunk *chunk, bool losses, bool statistics)
{
  Portion *portion = chunk->portion;
  ResultMemory *results = &portion->results;
  const int64_t local = portion->last - portion->first, elements = chunk->states->elements;
  const int64_t sums = portion->share ? chunk->n_sums : 0;
  const int64_t count = sums * (local + 1) + (losses + statistics * elements) * local + 1;
  if (count > results->count) {
    RengaCall(RengaDeviceHostFree(chunk->device, &results->memory));
    results->count = 0;
    RengaCall(RengaDeviceHostMalloc(chunk->device, (size_t)count * sizeof *results->memory,
                                    &results->memory));
    results->count = count;
  }
  results->used = 0;
  if (losses) portion->taken.loss = TakeFloats(results, local);
  if (statistics) portion->taken.statistics = TakeFloats(results, local * elements);
  if (sums) portion->taken.share = TakeFloats(results, sums * local);
  if (sums) portion->taken.sum = TakeFloats(results, sums);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkFreeResults_Private(Chunk *chunk)
{
  ResultMemory *results = &chunk->portion->results;
  if (results->memory) RengaCall(RengaDeviceHostFree(chunk->device, &results->memory));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeResult(Chunk *chunk, void *to, const Program *program, RengaValue value)
{
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST, to,
                            RengaChunkAt_Private(chunk, program->place[value]),
                            RengaTensorSpecBytes(&program->spec[value])));
  return RENGA_SUCCESS;
}

/* What is wanted of the forward of the micro-batch in place i besides what is sent; the host does
   not look at it yet. */
RengaErrorCode RengaChunkQueueResults_Private(Chunk *chunk, const Pass *pass,
                                              const Program *program, int64_t i)
{
  Portion *portion = chunk->portion;
  const int64_t before = portion->order[i] - portion->first;
  if (pass->loss && chunk->loss->value != RENGA_VALUE_NONE)
    RengaCall(TakeResult(chunk, &portion->taken.loss[before], program, chunk->loss->value));
  RengaCall(RengaChunkQueueSampleLosses_Private(chunk, pass, program, portion->order[i]));
  if (portion->statistics) RengaCall(RengaChunkQueueStatistics_Private(chunk, program, before));
  if (portion->output && portion->target != RENGA_VALUE_NONE) {
    const size_t bytes = RengaTensorSpecBytes(&program->spec[portion->target]);
    const size_t sample = (size_t)(before * chunk->outline->microbatch);
    RengaCall(TakeResult(chunk, portion->output + sample * (bytes / (size_t)program->samples),
                         program, portion->target));
  }
  return RENGA_SUCCESS;
}

static void KeepLosses(const Chunk *chunk, Pass *pass)
{
  const Portion *portion = chunk->portion;
  if (!pass->loss || chunk->loss->value == RENGA_VALUE_NONE || !RengaChunkSpeaks_Private(chunk))
    return;
  for (int64_t number = portion->first; number < portion->last; number++)
    pass->loss[RengaPassTurn_Private(pass, number)] =
        (double)portion->taken.loss[number - portion->first];
}

static void DescribeWork(RengaPipeline pipeline, size_t size, char what[])
{
  snprintf(what, size, "rank %d waits for its device in step %lld",
           RengaCommGetRank(pipeline->rank->all), (long long)pipeline->step);
}

RengaErrorCode RengaPipelineAwaitDevice_Private(RengaPipeline pipeline)
{
  char what[96];
  DescribeWork(pipeline, sizeof what, what);
  RengaCall(RengaTransportAwait_Private(pipeline->rank->transport, NULL, what));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineAwaitEvent_Private(RengaPipeline pipeline, RengaEvent event)
{
  char what[96];
  DescribeWork(pipeline, sizeof what, what);
  RengaCall(RengaTransportAwaitEvent_Private(pipeline->rank->transport, event, what));
  return RENGA_SUCCESS;
}

/* The times of the log come with the wait. */
static RengaErrorCode AwaitAndTakeTimes(RengaPipeline pipeline, const Pass *pass)
{
  if (!pass->judged) RengaCall(RengaSpansMark_Private(pipeline->device));
  RengaCall(pass->judged ? RengaPipelineAwaitEvent_Private(pipeline, pass->judged)
                         : RengaPipelineAwaitDevice_Private(pipeline));
  RengaCall(RengaSpansTake_Private(pipeline->device));
  return RENGA_SUCCESS;
}

/* All work of this rank is done: here a training step waits for the device, as all ranks know loss
   and norm before any parameter changes, but for what waits behind a gate. Errors that it found
   late are noted, and results are where the sums look for them. Fails only where others cannot be
   told of an error. */
RengaErrorCode RengaPipelineTakeResults_Private(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = pipeline->rank;
  RengaCall(RengaPipelineNote_Private(pipeline, pass, AwaitAndTakeTimes(pipeline, pass)));
  pass->taken = true;
  for (int c = 0; c < rank->n_chunks && !pass->failed; c++) {
    KeepLosses(&rank->chunk[c], pass);
    RengaChunkKeepSampleLosses_Private(&rank->chunk[c], pass);
    RengaChunkKeepStatistics_Private(&rank->chunk[c], pass);
  }
  return RENGA_SUCCESS;
}

/* Before what the pass had on the host is freed. Errors of work that is still under way here are
   those of a pass that is not made, or failed already; work that never ends keeps what it uses. */
void RengaPipelineEndWork_Private(RengaPipeline pipeline)
{
  RengaTransport transport = pipeline->rank->transport;
  RengaTransportDrain_Private(transport, NULL);
  if (pipeline->rank->copies) RengaTransportDrain_Private(transport, pipeline->rank->copies);
}
