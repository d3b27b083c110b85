/* The prologue: sums over the whole batch (numbers of labels that count, say) are known before the
   first forward. They depend on data only, so that each stage that needs them works them out from
   its own copy; the replicas add up. */
#include "pipelineimpl.h"

/* Shares of this replica's micro-batches: share is [sums][micro-batches of the batch]. */
static RengaErrorCode FindShares(RengaPipeline pipeline, Pass *pass, double share[])
{
  for (int64_t number = pass->first; number < pass->last; number++) {
    Program *program;
    const RengaKernelContext context = RengaPipelineContext_Private(pipeline, pass, number);
    RengaPipelineSetBases_Private(pipeline, false, 0);
    RengaCall(RengaPipelineGetProgram_Private(pipeline, PROGRAM_PROLOGUE, context.samples,
                                              RENGA_VALUE_NONE, &program));
    RengaCall(RengaPipelineReadFields_Private(pipeline, pass, program, number));
    RengaCall(RengaPipelineRunPart_Private(pipeline, program, PART_FORWARD, &context));
    for (int s = 0; s < pipeline->n_sums; s++) {
      float value;
      const Place place = program->place[pipeline->sum[s].share];
      RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST, &value,
                                RengaPipelineAt_Private(pipeline, place), sizeof value));
      RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
      share[s * pass->microbatches + number] = (double)value;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddShares(RengaPipeline pipeline, const Pass *pass, double share[])
{
  char what[160];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) adds up the sizes of micro-batches in step %lld",
           RengaCommGetRank(pipeline->all), pipeline->stage, pipeline->replica,
           (long long)pipeline->step);
  RengaCall(RengaCommSumExact(pipeline->group, pipeline->n_sums * pass->microbatches, share, what));
  for (int s = 0; s < pipeline->n_sums; s++) {
    double sum = 0;
    for (int64_t i = 0; i < pass->microbatches; i++) sum += share[s * pass->microbatches + i];
    const float value = (float)sum;
    RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_HOST_TO_DEVICE,
                              pipeline->persistent_base + pipeline->sum[s].offset, &value,
                              sizeof value));
    RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
  }
  return RENGA_SUCCESS;
}

/* All replicas of the stage call, those without micro-batches too. */
RengaErrorCode RengaPipelineRunPrologue_Private(RengaPipeline pipeline, Pass *pass)
{
  Program *program;
  double *share;
  RengaCall(RengaPipelineGetProgram_Private(pipeline, pass->kind,
                                            RengaPipelineSamples_Private(pipeline, pass, 0),
                                            pass->target, &program));
  if (!program->uses_sums) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(pipeline->n_sums * pass->microbatches, &share));
  const double begin = MPI_Wtime();
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_PROLOGUE));
  RengaErrorCode code = FindShares(pipeline, pass, share);
  if (code == RENGA_SUCCESS) code = AddShares(pipeline, pass, share);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_PROLOGUE), 0, 0, 0);
  RengaLogTrace("compute", "prologue", begin, MPI_Wtime());
  RengaFree(&share);
  RengaCall(code);
  return RENGA_SUCCESS;
}
