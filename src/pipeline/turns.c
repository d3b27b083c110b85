/* Turns: which micro-batch of the batch each number is.

   A replica has a range of consecutive numbers. Where replicas give each other the gradients of
   each micro-batch (fold.c), what they work on at the same time should be neighbours in the sum:
   then whoever adds them up needs no more memory than one rank with all of them. So the batch is
   dealt out like cards: number j of replica r stands behind number j of the replicas before, and
   behind all numbers of the rounds before. Samples, results and the place in sums follow from where
   a micro-batch stands in the batch; the list of a rank, its messages and its memory from its
   number. */
#include "turns.h"
#include <string.h>

/* Some stage has replicas that fold their gradients; all of its stages do then (setup.c). */
static int FoldingReplicas(const Outline *outline)
{
  for (int s = 0; s < outline->stages; s++)
    if (RengaOutlineFolds_Private(outline, s))
      return RengaPlanGetStage(outline->plan, s)->shape.replicas;
  return 0;
}

/* Where each number stands in the batch; NULL: where it says. */
RengaErrorCode RengaOutlineDealOut_Private(const Outline *outline, int64_t microbatches,
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

static bool HaveAlike(const Outline *outline, int64_t microbatches, int replicas)
{
  const int64_t first = RengaPlanLeafBound(microbatches, outline->leaf, replicas, 1);
  bool alike = true;
  for (int r = 1; r < replicas; r++)
    alike = alike && RengaPlanLeafBound(microbatches, outline->leaf, replicas, r + 1) -
                             RengaPlanLeafBound(microbatches, outline->leaf, replicas, r) ==
                         first;
  return alike;
}

/* Replicas wait for each other after each backward. Where they have as many micro-batches their
   lists are alike; where not, lists of one stage that go through them in order cannot wait in a
   circle. Of others that is not known: ranks of two stages did. */
RengaErrorCode RengaOutlineCheckTurns_Private(const Outline *outline, int64_t microbatches,
                                              RengaSchedule schedule)
{
  static const char *const in_order[] = {RENGA_SCHEDULE_GPIPE, RENGA_SCHEDULE_1F1B,
                                         RENGA_SCHEDULE_ZB_H1, RENGA_SCHEDULE_ZB_H2};
  const int replicas = FoldingReplicas(outline);
  const char *type;
  bool safe = false;
  if (replicas <= 1 || HaveAlike(outline, microbatches, replicas)) return RENGA_SUCCESS;
  RengaCall(RengaScheduleGetType(schedule, &type));
  for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++)
    safe = safe || strcmp(type, in_order[i]) == 0;
  safe = safe && RengaPlanGetStage(outline->plan, 0)->shape.chunks == 1;
  RengaCheck(safe, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%lld micro-batches in leaves of %lld are not as many for each of %d replicas, which "
             "-pipeline_shard gradients and parameters need with schedule %s and %d stages per "
             "rank: use 1f1b with one, other -batch_size or -microbatch_size, or "
             "-pipeline_shard optimizer",
             (long long)microbatches, (long long)outline->leaf, replicas, type,
             RengaPlanGetStage(outline->plan, 0)->shape.chunks);
  return RENGA_SUCCESS;
}
