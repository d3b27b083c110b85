/* Turns: which micro-batch of the batch each number is.

   A replica has a range of consecutive numbers. Where replicas give each other the gradients of
   each micro-batch (reducescatter.c), what they work on at the same time should be neighbours in
   the sum: then whoever adds them up needs no more memory than one rank with all of them. So the
   batch is dealt out like cards: number j of replica r stands behind number j of the replicas
   before, and behind all numbers of the rounds before. Samples, results and the place in sums
   follow from where a micro-batch stands in the batch; the list of a rank, its messages and its
   memory from its number. */
#include "outline.h"

/* Some stage has replicas that fold their gradients; all of its stages do then (setup.c). */
static int FoldingReplicas(const Outline *outline)
{
  for (int s = 0; s < outline->stages; s++)
    if (RengaOutlineShardsGradients_Private(outline, s))
      return RengaPlanGetStage(outline->plan, s)->shape.replicas;
  return 0;
}

/* Where each number stands in the batch; NULL: where it says. */
RengaErrorCode RengaOutlineOrderMicrobatches_Private(const Outline *outline, int64_t microbatches,
                                                     int64_t **turn)
{
  const int replicas = FoldingReplicas(outline);
  int64_t *made, at = 0;
  *turn = NULL;
  if (!replicas) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(microbatches + 1, &made));
  for (int64_t round = 0; at < microbatches; round++)
    for (int r = 0; r < replicas; r++) {
      const int64_t number = RengaPlanLeafBound(microbatches, outline->leaf, replicas, r) + round;
      if (number < RengaPlanLeafBound(microbatches, outline->leaf, replicas, r + 1))
        made[number] = at++;
    }
  *turn = made;
  return RENGA_SUCCESS;
}
