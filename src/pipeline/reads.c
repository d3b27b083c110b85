/* Which samples of a batch a rank reads. */
#include "pipelineimpl.h"
#include "renga/private/plan.h"

/* The inputs of a chunk that computes samples begin to end - 1. */
static RengaErrorCode AddReads(const Chunk *chunk, int fields, int64_t begin, int64_t end,
                               int64_t first[], int64_t last[])
{
  for (int i = 0; i < chunk->inputs->n_fields; i++) {
    const int f = chunk->inputs->field[i].field;
    RengaCheck(f < fields, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "input %d of the network is not one of %d", f, fields);
    const bool none = first[f] == last[f];
    if (begin >= end) continue;
    first[f] = none || begin < first[f] ? begin : first[f];
    last[f] = none || end > last[f] ? end : last[f];
  }
  return RENGA_SUCCESS;
}

/* Training may take micro-batches in turn, evaluation does not. */
static RengaErrorCode WidenToTurns(const Chunk *chunk, int64_t microbatches, int64_t *begin,
                                   int64_t *end)
{
  const int64_t first = *begin, last = *end, *turn;
  RengaCall(RengaOutlineGetTurns_Private(chunk->outline, microbatches, &turn));
  for (int64_t n = first; turn && n < last; n++) {
    if (turn[n] < *begin) *begin = turn[n];
    if (turn[n] >= *end) *end = turn[n] + 1;
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetReads - which samples of the plan's batch this rank reads

   Input:
   . pipeline - set up
   . fields - the number of the network's inputs, at least 1

   Output:
   . first, last - [fields] of each input: samples first to last - 1 of a whole batch; first = last:
     none

   Errors: RENGA_ERR_ORDER before RengaPipelineSetUp; RENGA_ERR_ARGUMENT for fewer inputs than the
   network has.

   Notes: a batch that is shorter than the plan's is split in another way.

   See also: RengaPipelineStep()
@*/
RengaErrorCode RengaPipelineGetReads(RengaPipeline pipeline, int fields, int64_t first[],
                                     int64_t last[])
{
  RengaCheckPointers(first, last);
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  const Outline *outline = pipeline->outline;
  const int64_t batch = outline->batch[0];
  const int64_t microbatches = (batch + outline->microbatch - 1) / outline->microbatch;
  for (int f = 0; f < fields; f++) first[f] = last[f] = 0;
  for (int c = 0; c < pipeline->rank->n_chunks; c++) {
    const Chunk *chunk = &pipeline->rank->chunk[c];
    int64_t begin, end;
    RengaChunkRange_Private(chunk, microbatches, &begin, &end);
    RengaCall(WidenToTurns(chunk, microbatches, &begin, &end));
    begin *= outline->microbatch;
    end = end * outline->microbatch < batch ? end * outline->microbatch : batch;
    RengaCall(AddReads(chunk, fields, begin, end, first, last));
  }
  return RENGA_SUCCESS;
}
