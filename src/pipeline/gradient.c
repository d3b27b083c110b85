/* Gradients of parameters. All uses of a stage lie one after the other in a flat vector. A leaf of
   the fixed tree (rengacomm.h) is the sum of a few micro-batches: the first one's vector is written
   straight into a free buffer, the others' are added to it, each use right after its kernel. Leaves
   that are whole are added up in pairs. A leaf of one micro-batch is added to its left neighbour's
   buffer at once. In the unordered mode there is one buffer, to which all are added. */
#include "pipelineimpl.h"
#include <string.h>

bool RengaPipelineIsOrdered_Private(RengaPipeline pipeline)
{
  return RengaSettingsIsOrdered_Private(pipeline->settings);
}

static float *Buffer(RengaPipeline pipeline, int number)
{
  return pipeline->gradient_base + number * pipeline->gradient_count;
}

/* Before the first backward of a step. */
RengaErrorCode RengaPipelineBeginGradients_Private(RengaPipeline pipeline)
{
  pipeline->gradient_valid = false;
  pipeline->n_pieces = 0;
  for (int b = 0; b < pipeline->n_buffers; b++)
    pipeline->piece[b] = (RengaPartialSum){.data = Buffer(pipeline, b)};
  pipeline->gradient = Buffer(pipeline, 0);
  if (!RengaPipelineIsOrdered_Private(pipeline))
    RengaCall(RengaDeviceSetBytes(pipeline->device, NULL, pipeline->gradient, 0,
                                  (size_t)pipeline->gradient_count * sizeof(float)));
  return RENGA_SUCCESS;
}

int64_t RengaPipelineLeaves_Private(RengaPipeline pipeline, int64_t microbatches)
{
  return (microbatches + pipeline->leaf - 1) / pipeline->leaf;
}

/* Micro-batch number is the last of its leaf. */
static bool EndsLeaf(RengaPipeline pipeline, const Pass *pass, int64_t number)
{
  return (number + 1) % pipeline->leaf == 0 || number + 1 == pass->microbatches;
}

/* Before the backward of micro-batch number: where its gradients go, and whether they are added
   there. */
RengaErrorCode RengaPipelineTakeGradients_Private(RengaPipeline pipeline, const Pass *pass,
                                                  int64_t number, bool *adds)
{
  float *gradients = pipeline->gradient;
  *adds = true;
  if (RengaPipelineIsOrdered_Private(pipeline)) {
    const bool alone = number % pipeline->leaf == 0 && EndsLeaf(pipeline, pass, number);
    RengaCall(RengaCommTreeTake(RengaPipelineLeaves_Private(pipeline, pass->microbatches),
                                number / pipeline->leaf, alone, &pipeline->n_pieces,
                                pipeline->piece, &pipeline->taken, adds));
    gradients = pipeline->piece[pipeline->taken].data;
  }
  pipeline->base[REGION_GRADIENTS] = (char *)gradients;
  return RENGA_SUCCESS;
}

static RengaErrorCode Add(void *user, float *y, const float *x)
{
  RengaPipeline pipeline = user;
  RengaCall(RengaDeviceAdd(pipeline->device, NULL, pipeline->gradient_count, y, x));
  RengaCall(RengaCommProgress(pipeline->all));
  return RENGA_SUCCESS;
}

/* After the backward of micro-batch number. */
RengaErrorCode RengaPipelineCloseGradients_Private(RengaPipeline pipeline, const Pass *pass,
                                                   int64_t number)
{
  if (!RengaPipelineIsOrdered_Private(pipeline) || !EndsLeaf(pipeline, pass, number))
    return RENGA_SUCCESS;
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_ACCUMULATE);
  RengaLogEventBegin(event);
  const RengaErrorCode code =
      RengaCommTreeClose(RengaPipelineLeaves_Private(pipeline, pass->microbatches), pipeline->taken,
                         &pipeline->n_pieces, pipeline->piece, Add, pipeline);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Where the pass has failed the sum is made of whatever lies in the buffers. */
static void InventPieces(RengaPipeline pipeline, int64_t leaves)
{
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  const int64_t *bounds = pipeline->leaf_bounds;
  pipeline->n_pieces =
      RengaCommTreePieces(leaves, bounds[pipeline->replica], bounds[pipeline->replica + 1], piece);
  for (int p = 0; p < pipeline->n_pieces; p++) {
    pipeline->piece[p] = piece[p];
    pipeline->piece[p].data = Buffer(pipeline, p);
  }
}

/* A sum that found no memory has sent nothing, and is made once more. */
static RengaErrorCode SumOrdered(RengaPipeline pipeline, Pass *pass, const char *what)
{
  const int64_t leaves = RengaPipelineLeaves_Private(pipeline, pass->microbatches);
  for (int r = 0; r <= pipeline->replicas; r++)
    pipeline->leaf_bounds[r] = RengaPlanBound(leaves, pipeline->replicas, r);
  if (pass->failed) InventPieces(pipeline, leaves);
  if (pipeline->n_pieces > 0) pipeline->gradient = pipeline->piece[0].data;
  if (pipeline->replicas == 1) {
    RengaCheck(pipeline->n_pieces <= 1, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "%d sums of gradients are left of one", pipeline->n_pieces);
    return RENGA_SUCCESS;
  }
  RengaErrorCode code;
  int attempt = 0;
  do
    code = RengaCommSumTree(pipeline->group, leaves, pipeline->leaf_bounds, pipeline->piece,
                            pipeline->gradient_count, pipeline->gradient, pipeline->tree_work,
                            pipeline->tree_work_bytes, what);
  while (code == RENGA_ERR_MEMORY && RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumReplicas(RengaPipeline pipeline, Pass *pass)
{
  char what[160];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) adds up gradients with the other replicas in step %lld",
           RengaCommGetRank(pipeline->all), pipeline->stage, pipeline->replica,
           (long long)pipeline->step);
  if (RengaPipelineIsOrdered_Private(pipeline))
    RengaCall(SumOrdered(pipeline, pass, what));
  else if (pipeline->replicas > 1)
    RengaCall(
        RengaCommSumUnordered(pipeline->group, pipeline->gradient_count, pipeline->gradient, what));
  return RENGA_SUCCESS;
}

/* After the last backward: pipeline->gradient is the whole batch's, all uses added up. Fails only
   where messages are left under way. */
RengaErrorCode RengaPipelineReduceGradients_Private(RengaPipeline pipeline, Pass *pass)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_REDUCE);
  const int64_t bytes =
      pipeline->replicas > 1 ? pipeline->gradient_count * (int64_t)sizeof(float) : 0;
  const double begin = MPI_Wtime();
  RengaLogEventBegin(event);
  const RengaErrorCode code = SumReplicas(pipeline, pass);
  RengaLogEventEnd(event, 0, pipeline->replicas > 1, bytes);
  RengaLogTrace("communication", "reduce", begin, MPI_Wtime());
  RengaCall(code);
  RengaCall(RengaPipelineExchangeTied_Private(pipeline, pass));
  return RENGA_SUCCESS;
}
