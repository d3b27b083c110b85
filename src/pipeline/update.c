/* The gradient's norm, and the update of parameters and states by it. Nothing is allocated. */
#include "pipelineimpl.h"

/* squares: [parameters of the network] of those that this rank owns. */
static RengaErrorCode FindSquares(const Chunk *chunk, double squares[])
{
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    if (parameter->trained && parameter->owner)
      RengaCall(RengaDeviceSumOfSquares(chunk->device, NULL, parameter->count,
                                        chunk->gradients.sum + parameter->gradient,
                                        &squares[parameter->number]));
  }
  return RENGA_SUCCESS;
}

/* Sums of squares of the gradients of parameters that this rank owns, behind the shares of the
   loss. */
RengaErrorCode RengaPipelineFindNorms_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (pass->failed || pipeline->rank.n_chunks == 0) return RENGA_SUCCESS;
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_NORM));
  for (int c = 0; c < pipeline->rank.n_chunks && !code; c++)
    code = FindSquares(&pipeline->rank.chunk[c], pass->values + pass->microbatches);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_NORM), 0, 0, 0);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateParameters(const Chunk *chunk, double scale)
{
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    if (!parameter->trained) continue;
    float *moment[4] = {NULL};
    for (int m = 0; m < chunk->sizes.n_moments; m++)
      moment[m] = (float *)chunk->at.moments + m * chunk->sizes.parameter_count + parameter->offset;
    RengaCall(RengaOptimizerUpdate(chunk->outline->settings->optimizer, chunk->device, NULL,
                                   parameter->name, chunk->pipeline->step, scale, parameter->count,
                                   (float *)chunk->at.persistent + parameter->offset,
                                   chunk->gradients.sum + parameter->gradient, moment));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateAll(RengaPipeline pipeline, double scale)
{
  for (int c = 0; c < pipeline->rank.n_chunks; c++)
    RengaCall(UpdateParameters(&pipeline->rank.chunk[c], scale));
  RengaCall(RengaStreamSynchronize(pipeline->device, NULL));
  return RENGA_SUCCESS;
}

/* Parameters, moments and states of this rank, by the gradient whose norm this is. */
RengaErrorCode RengaPipelineUpdate_Private(RengaPipeline pipeline, const Pass *pass, double norm)
{
  double scale = 1;
  const double begin = MPI_Wtime();
  if (pipeline->rank.n_chunks == 0) return RENGA_SUCCESS;
  RengaCall(RengaOptimizerGetScale(pipeline->optimizer, norm, &scale));
  RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_UPDATE));
  RengaErrorCode code = UpdateAll(pipeline, scale);
  RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_UPDATE), 0, 0, 0);
  RengaLogTrace("compute", "update", begin, MPI_Wtime());
  for (int c = 0; c < pipeline->rank.n_chunks && !code; c++)
    code = RengaChunkUpdateStates_Private(&pipeline->rank.chunk[c], pass);
  RengaCall(code);
  return RENGA_SUCCESS;
}
