/* The prologue: sums over the whole batch (numbers of labels that count, say) are known before the
   first forward. They depend on data only, so that each stage that needs them works them out from
   its own copy; the replicas add up. */
#include "updates.h"

static RengaErrorCode QueueShare(Chunk *chunk, const Program *program, int s, int64_t i)
{
  const int64_t local = chunk->portion->last - chunk->portion->first;
  const Place place = program->place[chunk->sum[s].share];
  float *share = &chunk->portion->taken.share[s * local + i];
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_HOST, share,
                            RengaChunkAt_Private(chunk, place), sizeof *share));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunProgram(Chunk *chunk, Pass *pass, Program *program,
                                 const RengaKernelContext *context)
{
  RengaSpan span = RENGA_SPAN_NONE;
  const RengaErrorCode begun = RengaSpanBegin_Private(chunk->device, NULL, &span);
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, begun));
  RengaCall(RengaChunkRunPart_Private(chunk, pass, program, PART_FORWARD, context));
  if (!begun)
    RengaCall(RengaPipelineNote_Private(
        chunk->pipeline, pass,
        RengaSpanEnd_Private(chunk->device, NULL, span, "compute", NULL, 0, "prologue")));
  return RENGA_SUCCESS;
}

static RengaErrorCode QueueSharesOf(Chunk *chunk, Pass *pass, const Program *program, int64_t i)
{
  if (pass->failed) return RENGA_SUCCESS;
  RengaCall(RengaChunkReleaseInputs_Private(chunk, i));
  for (int s = 0; s < chunk->n_sums; s++) RengaCall(QueueShare(chunk, program, s, i));
  return RENGA_SUCCESS;
}

/* Shares of this replica's micro-batches. */
static RengaErrorCode QueueShares(Chunk *chunk, Pass *pass)
{
  for (int64_t number = chunk->portion->first; number < chunk->portion->last; number++) {
    Program *program;
    const RengaKernelContext context = RengaChunkContext_Private(chunk, pass, number);
    const int64_t i = number - chunk->portion->first;
    RengaChunkSetBases_Private(chunk, false, i);
    RengaCall(RengaChunkGetProgram_Private(chunk, PROGRAM_PROLOGUE, context.samples,
                                           RENGA_VALUE_NONE, &program));
    if (!pass->failed)
      RengaCall(RengaPipelineNote_Private(
          chunk->pipeline, pass, RengaChunkReadFields_Private(chunk, pass, program, i, number)));
    RengaCall(RunProgram(chunk, pass, program, &context));
    RengaCall(
        RengaPipelineNote_Private(chunk->pipeline, pass, QueueSharesOf(chunk, pass, program, i)));
  }
  return RENGA_SUCCESS;
}

/* Once they have come. */
static RengaErrorCode TakeShares(Chunk *chunk, Pass *pass)
{
  const Portion *portion = chunk->portion;
  const int64_t local = portion->last - portion->first;
  RengaCall(RengaPipelineAwaitDevice_Private(chunk->pipeline));
  for (int s = 0; s < chunk->n_sums && !pass->failed; s++)
    for (int64_t i = 0; i < local; i++)
      portion->share[s * pass->microbatches + RengaPassTurn_Private(pass, portion->first + i)] =
          (double)portion->taken.share[s * local + i];
  return RENGA_SUCCESS;
}

/* Fails only where messages are left under way, or an update has failed. */
static RengaErrorCode FindSumShares(Chunk *chunk, Pass *pass)
{
  RengaCall(QueueShares(chunk, pass));
  RengaCall(RengaPipelineAwaitUpdate_Private(chunk->pipeline));
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, TakeShares(chunk, pass)));
  return RENGA_SUCCESS;
}

/* They are those of all batches that were announced. */
static bool IsPartOfAll(const Chunk *chunk, const Pass *pass)
{
  return pass->call == CALL_EVALUATE && chunk->n_sums > 0 && chunk->sum[0].all > 0;
}

static RengaErrorCode SetSums(Chunk *chunk, const Pass *pass)
{
  const bool part = IsPartOfAll(chunk, pass);
  for (int s = 0; s < chunk->n_sums; s++) {
    double sum = part ? chunk->sum[s].counted : 0;
    for (int64_t i = 0; i < pass->microbatches && !part; i++)
      sum += chunk->portion->share[s * pass->microbatches + i];
    float *value = &chunk->portion->taken.sum[s];
    *value = (float)sum;
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_HOST_TO_DEVICE,
                              chunk->at->persistent + chunk->sum[s].offset, value, sizeof *value));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddShares(Chunk *chunk, Pass *pass)
{
  char what[160];
  RengaChunkDescribe_Private(chunk, "adds up the sizes of micro-batches in", sizeof what, what);
  if (chunk->replicas > 1) RengaCall(RengaPipelineSettle_Private(chunk->pipeline, pass, true));
  if (pass->refused) return RENGA_SUCCESS;
  RengaCall(RengaCommSumExact(chunk->group, chunk->n_sums * pass->microbatches,
                              chunk->portion->share, what));
  if (!pass->failed)
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, SetSums(chunk, pass)));
  return RENGA_SUCCESS;
}

/* All replicas of the stage call, those without micro-batches too. Fails only where messages are
   left under way. */
RengaErrorCode RengaChunkRunPrologue_Private(Chunk *chunk, Pass *pass)
{
  if (!chunk->portion->share) return RENGA_SUCCESS;
  const double begin = MPI_Wtime();
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_PROLOGUE));
  RengaErrorCode code = RENGA_SUCCESS;
  if (IsPartOfAll(chunk, pass)) {
    code = RengaPipelineAwaitUpdate_Private(chunk->pipeline);
    if (!code) code = RengaPipelineNote_Private(chunk->pipeline, pass, SetSums(chunk, pass));
  } else {
    code = FindSumShares(chunk, pass);
    if (!code) code = AddShares(chunk, pass);
  }
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_PROLOGUE), 0, 0, 0);
  RengaLogTrace(RengaPipelineTrack_Private(chunk->pipeline), "prologue", begin, MPI_Wtime());
  RengaCall(code);
  return RENGA_SUCCESS;
}

static double SumOfPass(const Chunk *chunk, const Pass *pass, int s)
{
  double sum = 0;
  for (int64_t i = 0; i < pass->microbatches; i++)
    sum += chunk->portion->share[s * pass->microbatches + i];
  return sum;
}

/* After the prologue: whether this batch has as much of each sum for its samples as the first one,
   and whether there is a sum. */
void RengaPipelineCompareSums_Private(RengaPipeline pipeline, Pass *pass)
{
  const Rank *rank = pipeline->rank;
  const double samples = (double)pass->batch->samples;
  pass->values[COUNT_UNEVEN] = pass->values[COUNT_SUMS] = 0;
  for (int c = 0; c < rank->n_chunks && !pass->failed; c++) {
    const Chunk *chunk = &rank->chunk[c];
    for (int s = 0; s < chunk->n_sums && chunk->portion->share; s++) {
      const double sum = SumOfPass(chunk, pass, s);
      const BatchSum *first = &chunk->sum[s];
      pass->values[COUNT_SUMS] = 1;
      if (first->all ? sum * first->samples != first->first * samples : !(sum > 0))
        pass->values[COUNT_UNEVEN] = 1;
    }
  }
}

/* The batch is one of those that are announced. */
void RengaPipelineKeepCounts_Private(RengaPipeline pipeline, const Pass *pass)
{
  for (int c = 0; c < pipeline->rank->n_chunks; c++) {
    Chunk *chunk = &pipeline->rank->chunk[c];
    for (int s = 0; s < chunk->n_sums; s++) {
      const double sum = chunk->portion->share ? SumOfPass(chunk, pass, s) : 0;
      BatchSum *row = &chunk->sum[s];
      if (!row->all) {
        row->first = sum;
        row->samples = (double)pass->batch->samples;
        row->counted = 0;
      }
      row->counted += sum;
      row->all += pass->batch->samples;
    }
  }
}
