/* An evaluation of several batches as parts of one: sums over the batch (how many labels count,
   say) are found of all of them first, batch by batch, from the data alone. Then the loss of each
   batch is its share of the loss of all. */
#include "pipelineimpl.h"

/*@
   RengaPipelineCount - announce a batch of an evaluation of several batches

   Collective

   Input:
   . pipeline - the pipeline, set up
   . batch - number of samples over all replicas, and how to read them

   Output:
   . even - true: this batch has as much of each sum that the loss is divided by, for each of its
     samples, as the first batch that was announced. false: it has not, or the loss is divided by
     none

   Errors: as of RengaPipelineEvaluate. Nothing has been added then.

   Notes: until RengaPipelineForgetCounts, or a Reset, RengaPipelineEvaluate gives the part of a
   batch in the loss of all announced samples, as if these were one batch: the parts add up to it,
   whatever the batches are. Without announcing, a loss is that of the batch, and the mean of
   several is not the loss of all where batches have different numbers of labels that count. Where
   all batches are even it is, weighted by their samples. Only what such sums are made of is read
   and computed.

   See also: RengaPipelineEvaluate(), RengaPipelineForgetCounts()
@*/
RengaErrorCode RengaPipelineCount(RengaPipeline pipeline, const RengaBatch *batch, bool *even)
{
  Pass pass = {.kind = PROGRAM_EVALUATION, .call = CALL_COUNT, .batch = batch};
  RengaCheckPointer(even);
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    pipeline->rank->chunk[c].portion->target = pipeline->rank->chunk[c].loss->value;
  const RengaErrorCode code = RengaPipelineRunTogether_Private(pipeline, &pass);
  if (!code) *even = pass.values[COUNT_SUMS] > 0 && pass.values[COUNT_UNEVEN] == 0;
  if (!code) RengaPipelineKeepCounts_Private(pipeline, &pass);
  RengaPipelineFreePass_Private(pipeline, &pass);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForgetCounts - losses of evaluations are those of single batches again

   Not collective (the same on all ranks)

   See also: RengaPipelineCount()
@*/
RengaErrorCode RengaPipelineForgetCounts(RengaPipeline pipeline)
{
  RengaCheckPointer(pipeline);
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    for (int n = 0; n < pipeline->rank->chunk[c].n_sums; n++)
      pipeline->rank->chunk[c].sum[n].all = 0;
  return RENGA_SUCCESS;
}
