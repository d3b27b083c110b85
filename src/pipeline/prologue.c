/* The prologue: sums over the whole batch (numbers of labels that count, say) are known before the
   first forward. They depend on data only, so that each stage that needs them works them out from
   its own copy; the replicas add up. */
#include "pipelineimpl.h"

/* Shares of this replica's micro-batches. */
static RengaErrorCode FindShares(RengaPipeline pipeline, Pass *pass)
{
  for (int64_t number = pass->first; number < pass->last; number++) {
    Program *program;
    const RengaKernelContext context = RengaPipelineContext_Private(pipeline, pass, number);
    RengaPipelineSetBases_Private(pipeline, false, 0);
    RengaCall(RengaPipelineGetProgram_Private(pipeline, PROGRAM_PROLOGUE, context.samples,
                                              RENGA_VALUE_NONE, &program));
    RengaCall(RengaPipelineReadFields_Private(pipeline, pass, program, number));
    RengaCall(RengaPipelineRunPart_Private(pipeline, pass, program, PART_FORWARD, &context));
    for (int s = 0; s < pipeline->n_sums && !pass->failed; s++) {
      float value;
      const Place place = program->place[pipeline->sum[s].share];
      RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST, &value,
                                RengaPipelineAt_Private(pipeline, place), sizeof value));
      RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
      pass->share[s * pass->microbatches + number] = (double)value;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SetSums(RengaPipeline pipeline, const Pass *pass)
{
  for (int s = 0; s < pipeline->n_sums; s++) {
    double sum = 0;
    for (int64_t i = 0; i < pass->microbatches; i++) sum += pass->share[s * pass->microbatches + i];
    const float value = (float)sum;
    RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_HOST_TO_DEVICE,
                              pipeline->persistent_base + pipeline->sum[s].offset, &value,
                              sizeof value));
    RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddShares(RengaPipeline pipeline, Pass *pass)
{
  char what[160];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) adds up the sizes of micro-batches in step %lld",
           RengaCommGetRank(pipeline->all), pipeline->stage, pipeline->replica,
           (long long)pipeline->step);
  if (pipeline->replicas > 1) RengaCall(RengaPipelineSettle_Private(pipeline, pass, true));
  if (pass->refused) return RENGA_SUCCESS;
  RengaCall(
      RengaCommSumExact(pipeline->group, pipeline->n_sums * pass->microbatches, pass->share, what));
  if (!pass->failed) RengaCall(RengaPipelineNote_Private(pipeline, pass, SetSums(pipeline, pass)));
  return RENGA_SUCCESS;
}

/* All replicas of the stage call, those without micro-batches too. Fails only where messages are
   left under way. */
RengaErrorCode RengaPipelineRunPrologue_Private(RengaPipeline pipeline, Pass *pass)
{
  if (!pass->share) return RENGA_SUCCESS;
  const double begin = MPI_Wtime();
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_PROLOGUE));
  RengaErrorCode code = RengaPipelineNote_Private(pipeline, pass, FindShares(pipeline, pass));
  if (!code) code = AddShares(pipeline, pass);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_PROLOGUE), 0, 0, 0);
  RengaLogTrace("compute", "prologue", begin, MPI_Wtime());
  RengaCall(code);
  return RENGA_SUCCESS;
}
