/* Turns: which micro-batch of the batch each number is.

   A replica has a range of consecutive numbers. Where replicas give each other the gradients of
   each micro-batch (reducescatter.c), what they work on at the same time should be neighbours in
   the sum: then whoever adds them up needs no more memory than one rank with all of them. So the
   batch is dealt out like cards: number j of replica r stands behind number j of the replicas
   before, and behind all numbers of the rounds before. Groups that add up by themselves first have
   a part of the batch each. Samples, results and the place in sums
   follow from where a micro-batch stands in the batch; the list of a rank, its messages and its
   memory from its number. */
#include "outline.h"

/* Some stage has replicas that fold their gradients; all of its stages do then (setup.c). */
static int FoldingReplicas(const Outline *outline, int *groups)
{
  for (int s = 0; s < outline->stages; s++) {
    *groups = RengaOutlineGroups_Private(outline, s);
    if (RengaOutlineShardsGradients_Private(outline, s))
      return RengaPlanGetStage(outline->plan, s)->shape.replicas;
  }
  return 0;
}

/* The replicas [begin, end) get their part of the batch. */
static void DealOut(const Outline *outline, int64_t microbatches, int replicas, int begin, int end,
                    int64_t turn[])
{
  const int64_t leaf = outline->leaf;
  int64_t at = RengaPlanLeafBound(microbatches, leaf, replicas, begin);
  const int64_t last = RengaPlanLeafBound(microbatches, leaf, replicas, end);
  for (int64_t round = 0; at < last; round++)
    for (int r = begin; r < end; r++) {
      const int64_t number = RengaPlanLeafBound(microbatches, leaf, replicas, r) + round;
      if (number < RengaPlanLeafBound(microbatches, leaf, replicas, r + 1)) turn[number] = at++;
    }
}

/* Where each number stands in the batch; NULL: where it says. */
RengaErrorCode RengaOutlineOrderMicrobatches_Private(const Outline *outline, int64_t microbatches,
                                                     int64_t **turn)
{
  int groups = 1;
  const int replicas = FoldingReplicas(outline, &groups), each = replicas / groups;
  int64_t *made;
  *turn = NULL;
  if (!replicas) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(microbatches + 1, &made));
  for (int g = 0; g < groups; g++)
    DealOut(outline, microbatches, replicas, g * each, (g + 1) * each, made);
  *turn = made;
  return RENGA_SUCCESS;
}
