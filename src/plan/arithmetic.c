/* Micro-batches of replicas, stages of nodes. */
#include "planimpl.h"

/*@
   RengaPlanMicrobatches - number of micro-batches of a step

   Input:
   . samples - samples of this step, at least 1, over all replicas; the last micro-batch may be
     short

   See also: RengaPlanBound(), RengaPlanSetBatch()
@*/
int64_t RengaPlanMicrobatches(RengaPlan plan, int64_t samples)
{
  RengaCheckHandle(plan, 0);
  return samples > 0 ? (samples - 1) / plan->microbatch + 1 : 0;
}

/* The number of [low, high] that the largest power of two divides. */
static int64_t Roundest(int64_t low, int64_t high)
{
  int64_t number = high;
  while (number > 0 && (number & (number - 1)) >= low) number &= number - 1;
  return number;
}

/*@
   RengaPlanBound - the first micro-batch of a replica

   Input:
   . microbatches - micro-batches of the step, at least 1
   . replicas - the number of replicas, at least 1
   . replica - 0 … replicas; replica r has micro-batches bound(r) … bound(r + 1) - 1

   Notes: the numbers of two replicas differ by at most one; with more replicas than micro-batches
   some have none. Within that, bounds are as round as they may be, those between many replicas
   first: so replicas of a node add up few nodes of the tree of a sum, wherever they lie.

   See also: RengaPlanMicrobatches()
@*/
int64_t RengaPlanBound(int64_t microbatches, int replicas, int replica)
{
  const int64_t least = microbatches / replicas, more = microbatches % replicas;
  int first = 0, last = replicas; /* replicas first to last share out `begin` to `end` of more */
  int64_t begin = 0, end = more;
  if (more == 0 || replica == 0 || replica == replicas)
    return least * replica + (replica ? more : 0);
  for (;;) {
    int middle = last - 1;
    while ((middle & (middle - 1)) > first) middle &= middle - 1;
    const int64_t low = end - (last - middle) > begin ? end - (last - middle) : begin;
    const int64_t high = begin + (middle - first) < end ? begin + (middle - first) : end;
    const int64_t bound = Roundest(least * middle + low, least * middle + high);
    if (middle == replica) return bound;
    if (replica < middle) {
      last = middle;
      end = bound - least * middle;
    } else {
      first = middle;
      begin = bound - least * middle;
    }
  }
}

/* The first micro-batch of a replica that has whole leaves. The numbers of leaves of two replicas
   differ by at most one; with more replicas than leaves some have none. microbatches: micro-batches
   of the step, at least 1. leaf: micro-batches of a leaf of the sum of gradients, at least 1; the
   last leaf may have fewer. replicas: the number of replicas, at least 1. replica: 0 … replicas;
   replica r has micro-batches bound(r) … bound(r + 1) - 1. */
int64_t RengaPlanLeafBound(int64_t microbatches, int64_t leaf, int replicas, int replica)
{
  const int64_t leaves = microbatches / leaf + (microbatches % leaf > 0);
  const int64_t bound = RengaPlanBound(leaves, replicas, replica);
  return bound < leaves ? bound * leaf : microbatches;
}

/*@
   RengaPlanStageOfNode - the stage whose interval has a node

   Input:
   . node - number of the node; -1 is returned where no stage has it

   Notes: prepared nodes are computed wherever they are needed, not only in this stage.

   See also: RengaPlanGetStage()
@*/
int RengaPlanStageOfNode(RengaPlan plan, int node)
{
  RengaCheckHandle(plan, -1);
  int low = 0, high = plan->count;
  if (node < 0 || node >= plan->n_nodes) return -1;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (plan->stage[middle].first <= node)
      low = middle;
    else
      high = middle;
  }
  return low < high ? low : -1;
}

RengaErrorCode RengaPlanCheckMicrobatches_Private(MPI_Comm comm, int64_t samples,
                                                  int64_t microbatch)
{
  const int64_t count = (samples - 1) / microbatch + 1, most = RENGA_PLAN_MICROBATCHES_MOST;
  RengaCheck(count <= most, comm, RENGA_ERR_PLAN,
             "a step of %lld samples in micro-batches of %lld has %lld micro-batches, more than "
             "the %lld that can be planned: give a -microbatch_size of %lld or more",
             (long long)samples, (long long)microbatch, (long long)count, (long long)most,
             (long long)((samples - 1) / most + 1));
  return RENGA_SUCCESS;
}
