/* Segments: a part of a program is cut where the rank has something to do between two of its
   rows besides queueing them: exchanges of lanes, parameters whose gather begins, or that are
   read first (fetch.c), gradients that begin to be written or are done (fold.c, early.c). So a
   device may record all that lies between, and whatever begins or ends beside kernels does so
   between two segments. */
#include "pipelineimpl.h"

static void CutAt(bool *cuts, const Sequence *sequence, int row)
{
  if (row > 0 && row < sequence->count) cuts[row] = true;
}

static void CutAtExchanges(const Sequence *sequence, bool *cuts)
{
  for (int i = 0; i < sequence->count; i++)
    if (sequence->row[i].kind == INSTRUCTION_EXCHANGE) {
      CutAt(cuts, sequence, i);
      CutAt(cuts, sequence, i + 1);
    }
}

static void CutAtReads(const Chunk *chunk, const Sequence *sequence, bool *cuts)
{
  const int buckets = RengaOutlineCountBuckets_Private(chunk->outline, chunk->stage).shared;
  for (int b = 0; sequence->reads && b < buckets; b++) {
    CutAt(cuts, sequence, sequence->reads[b].begin);
    CutAt(cuts, sequence, sequence->reads[b].first);
  }
}

static void CutAtGradients(const Chunk *chunk, const Sequence *sequence, bool *cuts)
{
  if (chunk->replicas == 1) return; /* nobody gets them */
  for (int b = 0; b < chunk->gradients.n_buckets; b++) {
    if (sequence->ends) CutAt(cuts, sequence, sequence->ends[b]);
    if (sequence->starts) CutAt(cuts, sequence, sequence->starts[b]);
  }
}

static RengaErrorCode CutSequence(const Chunk *chunk, Sequence *sequence, bool *cuts)
{
  int first = 0, count = 0;
  if (sequence->segment || sequence->count == 0) return RENGA_SUCCESS;
  for (int i = 0; i <= sequence->count; i++) cuts[i] = i == sequence->count;
  CutAtExchanges(sequence, cuts);
  CutAtReads(chunk, sequence, cuts);
  CutAtGradients(chunk, sequence, cuts);
  for (int i = 1; i <= sequence->count; i++) count += cuts[i];
  RengaCall(RengaMalloc(count, &sequence->segment));
  sequence->n_segments = count;
  for (int i = 1, s = 0; i <= sequence->count; i++) {
    if (!cuts[i]) continue;
    sequence->segment[s++] = (Segment){.first = first, .end = i};
    first = i;
  }
  return RENGA_SUCCESS;
}

/* All its parts, once it is known where they end gradients: before a step, as it allocates. */
RengaErrorCode RengaChunkCutProgram_Private(const Chunk *chunk, Program *program)
{
  RengaErrorCode code = RENGA_SUCCESS;
  bool *cuts;
  int most = 0;
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++)
    if (program->part[part].count > most) most = program->part[part].count;
  RengaCall(RengaMalloc(most + 1, &cuts));
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT && !code; part++)
    code = CutSequence(chunk, &program->part[part], cuts);
  RengaFree(&cuts);
  RengaCall(code);
  return RENGA_SUCCESS;
}
