/* The prologue: sums over the whole batch (numbers of labels that count, say) are known before the
   first forward. They depend on data only, so that each stage that needs them works them out from
   its own copy; the replicas add up. */
#include "pipelineimpl.h"

/* Shares of this replica's micro-batches. */
static RengaErrorCode FindShares(Chunk *chunk, Pass *pass)
{
  for (int64_t number = chunk->portion.first; number < chunk->portion.last; number++) {
    Program *program;
    const RengaKernelContext context = RengaChunkContext_Private(chunk, pass, number);
    RengaChunkSetBases_Private(chunk, false, 0);
    RengaCall(RengaChunkGetProgram_Private(chunk, PROGRAM_PROLOGUE, context.samples,
                                           RENGA_VALUE_NONE, &program));
    RengaCall(RengaChunkReadFields_Private(chunk, pass, program, number));
    RengaCall(RengaChunkRunPart_Private(chunk, pass, program, PART_FORWARD, &context));
    for (int s = 0; s < chunk->n_sums && !pass->failed; s++) {
      float value;
      const Place place = program->place[chunk->sum[s].share];
      RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST, &value,
                                RengaChunkAt_Private(chunk, place), sizeof value));
      RengaCall(RengaStreamSynchronize(chunk->device, NULL));
      chunk->portion.share[s * pass->microbatches + number] = (double)value;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SetSums(Chunk *chunk, const Pass *pass)
{
  for (int s = 0; s < chunk->n_sums; s++) {
    double sum = 0;
    for (int64_t i = 0; i < pass->microbatches; i++)
      sum += chunk->portion.share[s * pass->microbatches + i];
    const float value = (float)sum;
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_HOST_TO_DEVICE,
                              chunk->at.persistent + chunk->sum[s].offset, &value, sizeof value));
    RengaCall(RengaStreamSynchronize(chunk->device, NULL));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddShares(Chunk *chunk, Pass *pass)
{
  char what[160];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) adds up the sizes of micro-batches in step %lld",
           RengaCommGetRank(chunk->pipeline->rank.all), chunk->stage, chunk->replica,
           (long long)chunk->pipeline->step);
  if (chunk->replicas > 1) RengaCall(RengaPipelineSettle_Private(chunk->pipeline, pass, true));
  if (pass->refused) return RENGA_SUCCESS;
  RengaCall(RengaCommSumExact(chunk->group, chunk->n_sums * pass->microbatches,
                              chunk->portion.share, what));
  if (!pass->failed)
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, SetSums(chunk, pass)));
  return RENGA_SUCCESS;
}

/* All replicas of the stage call, those without micro-batches too. Fails only where messages are
   left under way. */
RengaErrorCode RengaChunkRunPrologue_Private(Chunk *chunk, Pass *pass)
{
  if (!chunk->portion.share) return RENGA_SUCCESS;
  const double begin = MPI_Wtime();
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_PROLOGUE));
  RengaErrorCode code = RengaPipelineNote_Private(chunk->pipeline, pass, FindShares(chunk, pass));
  if (!code) code = AddShares(chunk, pass);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_PROLOGUE), 0, 0, 0);
  RengaLogTrace("compute", "prologue", begin, MPI_Wtime());
  RengaCall(code);
  return RENGA_SUCCESS;
}
