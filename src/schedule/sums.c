/* The part of the proof (prove.c) that knows the end of a step: sums over replicas block until all
   come to them, then parameters change, then replicas give each other what each alone has
   changed. */
#include "proof.h"

static unsigned char *SumOf(const Proof *proof, const RengaScheduleChunk *chunk, RengaSumKind kind,
                            int bucket)
{
  const int number = proof->first_bucket[chunk->stage] + bucket;
  return &proof->sum[kind][number * proof->most_replicas + chunk->replica];
}

/* What must be true before it. */
static RengaErrorCode CheckSum(const Proof *proof, const RengaScheduleChunk *chunk,
                               RengaSumKind kind, int bucket)
{
  RengaSchedule schedule = proof->schedule;
  Require(!schedule->forward_only, "a schedule of forwards only has no end of the step");
  Require(bucket >= 0 && bucket < schedule->buckets[chunk->stage], "the stage has no such bucket");
  Require(kind != RENGA_SUM_PARAMETERS || bucket < schedule->gathers[chunk->stage],
          "every replica updates all of its parameters: there is nothing to gather");
  Require(*SumOf(proof, chunk, kind, bucket) != SUM_DONE, "it was done before");
  Require(CountsOf(proof, chunk)[COUNT_WEIGHT] == chunk->count, "a backward is missing before it");
  Require(kind != RENGA_SUM_GATHER || *SumOf(proof, chunk, RENGA_SUM_REDUCE, bucket) == SUM_DONE,
          "it comes before the bucket is reduced");
  Require(kind != RENGA_SUM_PARAMETERS || proof->updated[chunk->rank],
          "it comes before the update");
  return RENGA_SUCCESS;
}

/* All replicas of the stage come to it, and go on together. */
RengaErrorCode RengaProofSum_Private(Proof *proof, const RengaScheduleChunk *chunk,
                                     const RengaAction *action, bool *waits)
{
  const RengaSumKind kind = RengaScheduleSumOf_Private(action->kind);
  RengaCall(CheckSum(proof, chunk, kind, action->bucket));
  int *come = &proof->summing[kind][proof->first_bucket[chunk->stage] + action->bucket];
  unsigned char *state = SumOf(proof, chunk, kind, action->bucket);
  if (*state == SUM_AHEAD) ++*come;
  *waits = *come < proof->schedule->replicas[chunk->stage];
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
      Require(*SumOf(proof, &list->chunk[c], RENGA_SUM_REDUCE, b) == SUM_DONE,
              "it comes before the gradients are reduced");
  proof->updated[chunk->rank] = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProofGathered_Private(const Proof *proof, const RengaScheduleChunk *chunk)
{
  RengaSchedule schedule = proof->schedule;
  for (int b = 0; !schedule->forward_only && b < schedule->gathers[chunk->stage]; b++)
    Require(*SumOf(proof, chunk, RENGA_SUM_PARAMETERS, b) == SUM_DONE,
            "the list does not gather the parameters of some bucket");
  return RENGA_SUCCESS;
}
