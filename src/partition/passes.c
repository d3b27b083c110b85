/* The data of a run, as far as plans depend on them: a pass over them may end with a batch that has
   fewer samples, whose micro-batches lie elsewhere in the tree of gradients, so that a replica may
   need more buffers for it than for the plan's own batch. */
#include "partitionimpl.h"

/*@
   RengaPartitionAddDataPass - say how many samples a pass over data has

   Collective

   Input:
   . samples - samples of the training data, or of those that are evaluated, at least 1; the call
     may be made for several

   Errors: RENGA_ERR_ARGUMENT for no samples.

   Notes: memory is that of the runtime for steps of the plan's batch and of what each pass leaves
   over, as RengaPipelineSetDataShortBatch() announces it. Of a batch that divides the samples
   nothing is left over. A pass of fewer samples than a batch is one short batch.

   See also: RengaPartitionGetDataPasses(), RengaPipelineSetDataShortBatch()
@*/
RengaErrorCode RengaPartitionAddDataPass(RengaPartition partition, int64_t samples)
{
  RengaCheckPointer(partition);
  RengaCheck(samples > 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "a pass over %lld samples",
             (long long)samples);
  RengaCall(RengaRealloc(partition->n_passes + 1, &partition->pass));
  partition->pass[partition->n_passes++] = samples;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetDataPasses - samples of the passes over data that were said

   Output:
   . count - the number of passes, at least 0
   . samples - [count] of each, in the order in which they were said; the partition's

   See also: RengaPartitionAddDataPass()
@*/
RengaErrorCode RengaPartitionGetDataPasses(RengaPartition partition, int *count,
                                           const int64_t **samples)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(count);
  RengaCheckPointer(samples);
  *count = partition->n_passes;
  *samples = partition->pass;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionListShort_Private(RengaPartition partition, int64_t batch, int *count,
                                               int64_t **samples)
{
  *count = 0;
  RengaCall(RengaMalloc(partition->n_passes + 1, samples));
  for (int p = 0; p < partition->n_passes; p++)
    if (partition->pass[p] % batch) (*samples)[(*count)++] = partition->pass[p] % batch;
  return RENGA_SUCCESS;
}
