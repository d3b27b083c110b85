/* The tables of a step's vectors: gradients whose squares are summed, and parameters with all that
   their update needs. They are made at set-up; a step fills in where its gradients are. */
#include "gradients.h"
#include "renga/private/op.h"
#include "renga/private/optimizer.h"
#include "rows.h"
#include "updates.h"
#include <string.h>

/* Of this rank: what it updates of a trained parameter. */
static bool IsUpdated(const Parameter *parameter)
{
  return parameter->trained && parameter->from < parameter->to;
}

/* One rank squares each piece: an owner, or who updates it. Of lists of rows the sums are
   squared. */
static bool IsSquared(const Parameter *parameter)
{
  return IsUpdated(parameter) && !parameter->sparse && (parameter->owner || parameter->sharded);
}

static void AddParameterUpdate(Chunk *chunk, const Parameter *parameter)
{
  RengaParameterUpdate *update = &chunk->updates->update[chunk->updates->n_updates++];
  *update = (RengaParameterUpdate){
      .parameter = RengaChunkShareOf_Private(chunk, parameter, ROLE_MASTER),
      .gradient = RengaChunkShareOf_Private(chunk, parameter, ROLE_GRADIENT),
  };
  if (parameter->sparse) RengaChunkDescribeRows_Private(chunk, parameter, update);
  if (RengaChunkHasMasters_Private(chunk))
    update->value = RengaChunkShareOf_Private(chunk, parameter, ROLE_VALUE);
  for (int m = 0; m < chunk->sizes->n_moments; m++)
    update->moment[m] =
        RengaChunkShareOf_Private(chunk, parameter, (ParameterRole)(ROLE_MOMENT + m));
}

/* A replica has some pieces of the parameter, and not all. */
static bool IsSplitAt(const Parameter *parameter, int64_t place)
{
  return place > parameter->place && place < parameter->place + parameter->count;
}

/* The block of some replica begins within the parameter. */
static bool IsSplit(const Chunk *chunk, const Parameter *parameter)
{
  const int64_t behind = chunk->sizes->whole_count - chunk->sizes->whole_gradient;
  for (int b = 0; parameter->sharded && b < chunk->memory->n_shared; b++)
    for (int r = 1; r < chunk->replicas; r++) {
      const GradientBucket *bucket = &chunk->gradients->bucket[b];
      int64_t first = 0, last = 0;
      RengaBlocksGetRange(bucket->blocks, r, &first, &last);
      if (IsSplitAt(parameter, bucket->first + first + behind)) return true;
    }
  return false;
}

/* The same on all replicas, but for who adds. */
static int64_t AddSplitNorm(Chunk *chunk, const Parameter *parameter)
{
  UpdateTable *updates = chunk->updates;
  const int64_t first = updates->n_pieces;
  updates->split[updates->n_splits++] =
      (SplitNorm){.number = parameter->number,
                  .first = first,
                  .pieces = RengaVectorPieces(parameter->count),
                  .adds = parameter->from == 0 && parameter->to > 0};
  updates->n_pieces += RengaVectorPieces(parameter->count);
  return first + RengaVectorPieces(parameter->from);
}

static void AddParameterNorm(Chunk *chunk, const Parameter *parameter)
{
  UpdateTable *updates = chunk->updates;
  const int64_t place = IsSplit(chunk, parameter) ? AddSplitNorm(chunk, parameter) : -1;
  if (!IsSquared(parameter)) return;
  updates->gradient[updates->n_norms] = RengaChunkShareOf_Private(chunk, parameter, ROLE_GRADIENT);
  updates->place[updates->n_norms] = place;
  updates->number[updates->n_norms++] = parameter->number;
}

static RengaErrorCode MakeSquares(UpdateTable *updates, RengaDevice device)
{
  int64_t pieces = 0;
  for (int i = 0; i < updates->n_norms; i++)
    pieces += RengaVectorPieces(updates->gradient[i].count);
  RengaCall(RengaDeviceHostMalloc(device, (size_t)(pieces + 1) * sizeof *updates->square,
                                  &updates->square));
  RengaCall(RengaMalloc(updates->n_pieces + 1, &updates->split_square));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkSetUpUpdates_Private(Chunk *chunk)
{
  UpdateTable *updates = chunk->updates;
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &updates->gradient));
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &updates->number));
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &updates->place));
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &updates->split));
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &updates->update));
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    if (IsUpdated(parameter)) AddParameterUpdate(chunk, parameter);
    if (parameter->trained) AddParameterNorm(chunk, parameter);
  }
  RengaCall(MakeSquares(updates, chunk->device));
  RengaCall(RengaChunkTakeGroups_Private(chunk));
  return RENGA_SUCCESS;
}

/* With what of them is offloaded. */
RengaErrorCode RengaChunkFreeUpdates_Private(Chunk *chunk)
{
  UpdateTable *updates = chunk->updates;
  RengaErrorCode code = RengaChunkFreeOffload_Private(chunk);
  if (updates->square)
    RengaKeepFirst_Private(&code, RengaDeviceHostFree(chunk->device, &updates->square));
  RengaFree(&updates->gradient);
  RengaFree(&updates->number);
  RengaFree(&updates->place);
  RengaFree(&updates->split);
  RengaFree(&updates->split_square);
  RengaFree(&updates->update);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Rate scale and weight decay of each trained parameter. */
RengaErrorCode RengaChunkTakeGroups_Private(Chunk *chunk)
{
  const RengaOptimizer optimizer = chunk->outline->settings->optimizer;
  RengaParameterUpdate *next = chunk->updates->update;
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    bool frozen;
    if (!IsUpdated(parameter)) continue;
    RengaCall(RengaOptimizerGetGroup(optimizer, parameter->name, &next->rate_scale,
                                     &next->weight_decay, &frozen));
    next++;
  }
  return RENGA_SUCCESS;
}

static void PlaceGradients(Chunk *chunk)
{
  RengaVector *norm = chunk->updates->gradient;
  RengaParameterUpdate *update = chunk->updates->update;
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    const RengaVector gradient = RengaChunkShareOf_Private(chunk, parameter, ROLE_GRADIENT);
    if (IsUpdated(parameter) && !parameter->sparse) update->gradient = gradient;
    if (IsUpdated(parameter)) update++;
    if (IsSquared(parameter)) *norm++ = gradient;
  }
}

/* Sums of squares of the gradients of parameters that this rank owns. */
RengaErrorCode RengaChunkQueueSquares_Private(Chunk *chunk)
{
  PlaceGradients(chunk);
  RengaCall(RengaDeviceSumsOfSquares(chunk->device, NULL, chunk->updates->n_norms,
                                     chunk->updates->gradient, chunk->updates->square));
  RengaCall(RengaChunkQueueRowSums_Private(chunk));
  return RENGA_SUCCESS;
}

/* Once the device was waited for. squares: [parameters of the network], but for those that are
   split. */
void RengaChunkKeepSquares_Private(Chunk *chunk, double squares[])
{
  UpdateTable *updates = chunk->updates;
  const double *square = updates->square;
  for (int64_t i = 0; i < updates->n_pieces; i++) updates->split_square[i] = 0;
  for (int i = 0; i < updates->n_norms; i++) {
    const int64_t pieces = RengaVectorPieces(updates->gradient[i].count);
    if (updates->place[i] < 0)
      squares[updates->number[i]] = RengaAddInOrder_Private(pieces, square);
    else
      memcpy(updates->split_square + updates->place[i], square, (size_t)pieces * sizeof *square);
    square += pieces;
  }
  RengaChunkKeepRowSquares_Private(chunk, squares);
}

/* Collective on the replicas of the stage: pieces of the parameters that are split come together,
   and one replica adds them up in their order. Fails only where messages are left under way. */
RengaErrorCode RengaChunkSumSplitNorms_Private(Chunk *chunk, double squares[])
{
  UpdateTable *updates = chunk->updates;
  char what[160];
  if (updates->n_splits == 0) return RENGA_SUCCESS;
  RengaChunkDescribe_Private(chunk, "collects the norms of pieces of gradients in", sizeof what,
                             what);
  RengaCall(RengaCommSumExact(chunk->group, updates->n_pieces, updates->split_square, what));
  for (int i = 0; i < updates->n_splits; i++) {
    const SplitNorm *split = &updates->split[i];
    if (split->adds)
      squares[split->number] =
          RengaAddInOrder_Private(split->pieces, updates->split_square + split->first);
  }
  return RENGA_SUCCESS;
}

/* After the squares, which know where the gradients are. */
RengaErrorCode RengaChunkQueueUpdates_Private(Chunk *chunk, double scale)
{
  if (chunk->updates->offload.host) {
    RengaCall(RengaChunkQueueOffloaded_Private(chunk, scale));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaOptimizerUpdateAll(chunk->outline->settings->optimizer, chunk->device, NULL,
                                    chunk->pipeline->step, scale, chunk->updates->n_updates,
                                    chunk->updates->update));
  return RENGA_SUCCESS;
}
