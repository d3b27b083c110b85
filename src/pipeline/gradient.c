/* Gradients of parameters. All uses of a stage lie one after the other in a flat vector. Each
   micro-batch's vector is a leaf of the fixed tree (rengacomm.h): it is written straight into a
   free buffer, then pairs that are whole are added up. In the unordered mode there is one buffer,
   to which the program itself adds. */
#include "pipelineimpl.h"
#include <string.h>

bool RengaPipelineIsOrdered_Private(RengaPipeline pipeline)
{
  return strcmp(pipeline->reduction, "unordered") != 0;
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

/* Where the gradients of the next micro-batch go. */
float *RengaPipelineLeaf_Private(RengaPipeline pipeline)
{
  if (!RengaPipelineIsOrdered_Private(pipeline)) return pipeline->gradient;
  return pipeline->piece[pipeline->n_pieces].data;
}

static RengaErrorCode Add(void *user, float *y, const float *x)
{
  RengaPipeline pipeline = user;
  RengaCall(RengaDeviceAdd(pipeline->device, NULL, pipeline->gradient_count, y, x));
  RengaCall(RengaCommProgress(pipeline->all));
  return RENGA_SUCCESS;
}

/* After the backward of micro-batch number (of the batch). */
RengaErrorCode RengaPipelineEndLeaf_Private(RengaPipeline pipeline, const Pass *pass,
                                            int64_t number)
{
  if (!RengaPipelineIsOrdered_Private(pipeline)) return RENGA_SUCCESS;
  RengaPartialSum *piece = pipeline->piece;
  int at = pipeline->n_pieces++;
  const RengaPartialSum leaf = {.first = number, .count = 1, .data = piece[at].data};
  for (; at > 0 && piece[at - 1].first > number; at--) piece[at] = piece[at - 1];
  piece[at] = leaf;
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_ACCUMULATE);
  RengaLogEventBegin(event);
  const RengaErrorCode code =
      RengaCommTreeMerge(pass->microbatches, &pipeline->n_pieces, pipeline->piece, Add, pipeline);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumOrdered(RengaPipeline pipeline, const Pass *pass, const char *what)
{
  if (pipeline->n_pieces > 0) pipeline->gradient = pipeline->piece[0].data;
  if (pipeline->replicas == 1) {
    RengaCheck(pipeline->n_pieces <= 1, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "%d sums of gradients are left of one", pipeline->n_pieces);
    return RENGA_SUCCESS;
  }
  int64_t *bounds;
  RengaCall(RengaMalloc(pipeline->replicas + 1, &bounds));
  for (int r = 0; r <= pipeline->replicas; r++)
    bounds[r] = RengaPlanBound(pass->microbatches, pipeline->replicas, r);
  const RengaErrorCode code = RengaCommSumTree(
      pipeline->group, pass->microbatches, bounds, pipeline->piece, pipeline->gradient_count,
      pipeline->gradient, pipeline->tree_work, pipeline->tree_work_bytes, what);
  RengaFree(&bounds);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumReplicas(RengaPipeline pipeline, const Pass *pass)
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

/* After the last backward: pipeline->gradient is the whole batch's, all uses added up. */
RengaErrorCode RengaPipelineReduceGradients_Private(RengaPipeline pipeline, const Pass *pass)
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
  RengaCall(RengaPipelineExchangeTied_Private(pipeline));
  pipeline->gradient_valid = true;
  return RENGA_SUCCESS;
}
