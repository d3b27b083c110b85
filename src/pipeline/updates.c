/* The tables of a step's vectors: gradients whose squares are summed, and parameters with all that
   their update needs. They are made at set-up; a step fills in where its gradients are. */
#include "pipelineimpl.h"

static void AddParameterUpdate(Chunk *chunk, const Parameter *parameter)
{
  RengaParameterUpdate *update = &chunk->updates.update[chunk->updates.n_updates++];
  *update = (RengaParameterUpdate){
      .parameter = RengaChunkVectorOf_Private(chunk, parameter, ROLE_MASTER),
      .gradient = RengaChunkVectorOf_Private(chunk, parameter, ROLE_GRADIENT),
  };
  if (RengaChunkHasMasters_Private(chunk))
    update->value = RengaChunkVectorOf_Private(chunk, parameter, ROLE_VALUE);
  for (int m = 0; m < chunk->sizes.n_moments; m++)
    update->moment[m] =
        RengaChunkVectorOf_Private(chunk, parameter, (ParameterRole)(ROLE_MOMENT + m));
}

static void AddParameterNorm(Chunk *chunk, const Parameter *parameter)
{
  UpdateTable *updates = &chunk->updates;
  updates->gradient[updates->n_norms] = RengaChunkVectorOf_Private(chunk, parameter, ROLE_GRADIENT);
  updates->number[updates->n_norms++] = parameter->number;
}

RengaErrorCode RengaChunkSetUpUpdates_Private(Chunk *chunk)
{
  UpdateTable *updates = &chunk->updates;
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &updates->gradient));
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &updates->number));
  RengaCall(RengaDeviceHostMalloc(chunk->device,
                                  (size_t)(chunk->n_parameters + 1) * sizeof *updates->square,
                                  &updates->square));
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &updates->update));
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    if (parameter->trained) AddParameterUpdate(chunk, parameter);
    if (parameter->trained && parameter->owner) AddParameterNorm(chunk, parameter);
  }
  RengaCall(RengaChunkTakeGroups_Private(chunk));
  return RENGA_SUCCESS;
}

/* Rate scale and weight decay of each trained parameter. */
RengaErrorCode RengaChunkTakeGroups_Private(Chunk *chunk)
{
  const RengaOptimizer optimizer = chunk->outline->settings->optimizer;
  RengaParameterUpdate *next = chunk->updates.update;
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    bool frozen;
    if (!parameter->trained) continue;
    RengaCall(RengaOptimizerGetGroup(optimizer, parameter->name, &next->rate_scale,
                                     &next->weight_decay, &frozen));
    next++;
  }
  return RENGA_SUCCESS;
}

static void PlaceGradients(Chunk *chunk)
{
  RengaVector *norm = chunk->updates.gradient;
  RengaParameterUpdate *update = chunk->updates.update;
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    const RengaVector gradient = RengaChunkVectorOf_Private(chunk, parameter, ROLE_GRADIENT);
    if (parameter->trained) (update++)->gradient = gradient;
    if (parameter->trained && parameter->owner) *norm++ = gradient;
  }
}

/* Sums of squares of the gradients of parameters that this rank owns. */
RengaErrorCode RengaChunkQueueSquares_Private(Chunk *chunk)
{
  PlaceGradients(chunk);
  RengaCall(RengaDeviceSumsOfSquares(chunk->device, NULL, chunk->updates.n_norms,
                                     chunk->updates.gradient, chunk->updates.square));
  return RENGA_SUCCESS;
}

/* Once the device was waited for. squares: [parameters of the network]. */
void RengaChunkKeepSquares_Private(const Chunk *chunk, double squares[])
{
  for (int i = 0; i < chunk->updates.n_norms; i++)
    squares[chunk->updates.number[i]] = chunk->updates.square[i];
}

/* After the squares, which know where the gradients are. */
RengaErrorCode RengaChunkQueueUpdates_Private(Chunk *chunk, double scale)
{
  RengaCall(RengaOptimizerUpdateAll(chunk->outline->settings->optimizer, chunk->device, NULL,
                                    chunk->pipeline->step, scale, chunk->updates.n_updates,
                                    chunk->updates.update));
  return RENGA_SUCCESS;
}
