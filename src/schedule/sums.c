/* The part of the proof (prove.c) that knows the end of a step: sums over replicas block until all
   come to them, then parameters change. */
#include "proof.h"

static unsigned char *SumOf(const Proof *proof, const RengaScheduleChunk *chunk, SumHalf half,
                            int bucket)
{
  const int number = proof->first_bucket[chunk->stage] + bucket;
  return &proof->sum[half][number * proof->most_replicas + chunk->replica];
}

/* All replicas of the stage come to the sum, or to its second half, and go on together. */
RengaErrorCode RengaProofSum_Private(Proof *proof, const RengaScheduleChunk *chunk,
                                     const RengaAction *action, bool *waits)
{
  RengaSchedule schedule = proof->schedule;
  const SumHalf half = action->kind == RENGA_ACTION_GATHER ? SUM_GATHER : SUM_REDUCE;
  Require(!schedule->forward_only, "a schedule of forwards only has no end of the step");
  Require(action->bucket >= 0 && action->bucket < schedule->buckets[chunk->stage],
          "the stage has no such bucket");
  const int bucket = proof->first_bucket[chunk->stage] + action->bucket;
  unsigned char *state = SumOf(proof, chunk, half, action->bucket);
  Require(*state != SUM_DONE, "it was done before");
  Require(CountsOf(proof, chunk)[COUNT_WEIGHT] == chunk->count, "a backward is missing before it");
  Require(half == SUM_REDUCE || *SumOf(proof, chunk, SUM_REDUCE, action->bucket) == SUM_DONE,
          "it comes before the bucket is reduced");
  if (*state == SUM_AHEAD) proof->summing[half][bucket]++;
  *waits = proof->summing[half][bucket] < schedule->replicas[chunk->stage];
  *state = *waits ? SUM_WAITED_FOR : SUM_DONE;
  return RENGA_SUCCESS;
}

/* Of all stages of the rank. */
RengaErrorCode RengaProofUpdate_Private(Proof *proof, const RengaScheduleChunk *chunk)
{
  RengaSchedule schedule = proof->schedule;
  const RengaActionList list = &schedule->list[chunk->rank];
  Require(!schedule->forward_only, "a schedule of forwards only has no end of the step");
  for (int c = 0; c < list->n_chunks; c++)
    for (int b = 0; b < schedule->buckets[list->chunk[c].stage]; b++)
      Require(*SumOf(proof, &list->chunk[c], SUM_REDUCE, b) == SUM_DONE,
              "it comes before the gradients are reduced");
  proof->updated[chunk->rank] = true;
  return RENGA_SUCCESS;
}
