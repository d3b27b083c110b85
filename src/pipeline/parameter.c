/* Where parameters lie in the vectors of their roles, and their uses in a gradient buffer.

   Parameters that each replica updates follow each other in the vectors of values, masters and
   moments (in the order of the network, but for parts that a lane puts together:
   concatenatedparts.c), and, in the order of the network, with all their uses in a gradient buffer.
   Frozen ones, which have neither gradient nor moments, follow those among the values. Behind them
   come the sharded ones (shard.c), whose first uses lie in a gradient buffer as the parameters do
   among the values, so that a block of the one is a block of the other; further uses lie with those
   of the others.

   values whole parameters, frozen ones | sharded parameters moments whole parameters | this
   replica's shares of sharded ones gradients whole, each with all its uses | further uses of
   sharded ones | their first uses */
#include "rows.h"
#include <string.h>

/* Several ranks of the tensor group have it, or this part of it. */
static bool IsCopied(const Chunk *chunk, const Parameter *parameter)
{
  if (chunk->tensor.group.size == 1) return false;
  return !chunk->outline->parts[parameter->whole] ||
         chunk->uses->rank[parameter->value] != RengaChunkAlone_Private(chunk);
}

/* Each replica needs all of what kernels read as a master, and of gradients that go to other
   stages. Copies in a tensor group are whole: shares of one would not be those of another. */
static bool MayShard(const Chunk *chunk, const Parameter *parameter)
{
  return !IsCopied(chunk, parameter) && RengaChunkBuckets_Private(chunk).shared > 0 &&
         parameter->trained && !parameter->sparse && !RengaChunkIsTied_Private(chunk, parameter) &&
         !RengaChunkIsWide_Private(chunk, parameter);
}

static void PlaceWhole(Chunk *chunk, Parameter *parameter)
{
  parameter->place = chunk->sizes->parameter_count;
  parameter->to = parameter->count;
  chunk->sizes->parameter_count += RengaChunkRoom_Private(chunk, parameter->count);
}

static void PlaceItsGradients(Chunk *chunk, Parameter *parameter)
{
  const int uses = parameter->n_uses > 1 ? parameter->n_uses : 1;
  parameter->gradient = chunk->sizes->gradient_count;
  parameter->further = parameter->gradient + parameter->stride;
  if (parameter->trained && !parameter->sparse)
    chunk->sizes->gradient_count += parameter->stride * uses;
}

static void PlaceFurtherUses(Chunk *chunk, Parameter *parameter)
{
  parameter->further = chunk->sizes->gradient_count;
  if (parameter->n_uses > 1)
    chunk->sizes->gradient_count += parameter->stride * (parameter->n_uses - 1);
}

static void PlaceSharded(Chunk *chunk, Parameter *parameter)
{
  ChunkSizes *sizes = chunk->sizes;
  const int64_t room = RengaChunkRoom_Private(chunk, parameter->count);
  sizes->part[sizes->n_parts++] = sizes->parameter_count - sizes->whole_count;
  parameter->place = sizes->parameter_count;
  parameter->gradient = sizes->gradient_count;
  sizes->parameter_count += room;
  sizes->gradient_count += room;
}

/* order: in which values lie, and of sharded parameters gradients (concatenatedparts.c). */
static void PlaceAllParameters(Chunk *chunk, const int order[])
{
  ChunkSizes *sizes = chunk->sizes;
  for (int p = 0; p < chunk->n_parameters; p++)
    chunk->parameter[p].narrow = RengaChunkIsNarrow_Private(chunk, &chunk->parameter[p]);
  for (int turn = 0; turn < 3; turn++) { /* trained, frozen, frozen in 16 bits alone */
    for (int i = 0; i < chunk->n_parameters; i++) {
      Parameter *parameter = &chunk->parameter[order[i]];
      if (!parameter->sharded && parameter->frozen + parameter->narrow == turn)
        PlaceWhole(chunk, parameter);
    }
    if (turn == 0) sizes->moment_count = sizes->parameter_count;
    if (turn == 1) sizes->master_count = sizes->parameter_count;
  }
  for (int p = 0; p < chunk->n_parameters; p++)
    if (!chunk->parameter[p].sharded) PlaceItsGradients(chunk, &chunk->parameter[p]);
  for (int p = 0; p < chunk->n_parameters; p++)
    if (chunk->parameter[p].sharded) PlaceFurtherUses(chunk, &chunk->parameter[p]);
  sizes->whole_count = sizes->parameter_count;
  sizes->whole_gradient = sizes->gradient_count;
  for (int i = 0; i < chunk->n_parameters; i++)
    if (chunk->parameter[order[i]].sharded) PlaceSharded(chunk, &chunk->parameter[order[i]]);
  sizes->part[sizes->n_parts] = sizes->parameter_count - sizes->whole_count;
}

/* A part of a parameter that another rank of the tensor group has. */
static bool IsElsewhere(const Chunk *chunk, RengaValue parameter)
{
  return RengaGraphGetValue(chunk->sub, parameter)->kind != RENGA_VALUE_PARAMETER &&
         !RengaLaneCovers(chunk->uses->rank[parameter], RengaChunkAlone_Private(chunk));
}

/* known: [values] 1 + the parameter that it is, where it is trained; seen: [parameters] uses so
   far. */
static void PlaceUses(Chunk *chunk, int known[], int seen[])
{
  for (int p = 0; p < chunk->n_parameters; p++)
    if (chunk->parameter[p].trained && !chunk->parameter[p].sparse)
      known[chunk->parameter[p].value] = 1 + p;
  for (int u = 0; u < chunk->uses->count; u++) {
    const int p = known[chunk->uses->row[u].parameter] - 1;
    chunk->uses->place[u] =
        IsElsewhere(chunk, chunk->uses->row[u].parameter) ? USE_ELSEWHERE : USE_UNWANTED;
    if (p < 0) continue;
    const Parameter *parameter = &chunk->parameter[p];
    chunk->uses->place[u] =
        seen[p] == 0 ? parameter->gradient : parameter->further + (seen[p] - 1) * parameter->stride;
    seen[p]++;
  }
}

/* Once it is known which are trained. */
RengaErrorCode RengaChunkPlaceParameters_Private(Chunk *chunk)
{
  const int n_values = RengaGraphGetValueCount(chunk->sub);
  int *known;
  RengaCall(RengaChunkFindRows_Private(chunk));
  for (int p = 0; p < chunk->n_parameters; p++)
    chunk->parameter[p].sharded = MayShard(chunk, &chunk->parameter[p]);
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &chunk->sizes->part));
  RengaCall(RengaMalloc((int64_t)n_values + chunk->n_parameters + 1, &known));
  const RengaErrorCode code = RengaChunkOrderParameters_Private(chunk, known);
  if (!code) PlaceAllParameters(chunk, known);
  memset(known, 0, (size_t)chunk->n_parameters * sizeof *known);
  if (code) RengaFree(&known);
  RengaCall(code);
  PlaceUses(chunk, known, known + n_values);
  RengaFree(&known);
  return RENGA_SUCCESS;
}
