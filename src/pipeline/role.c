/* Parameters in their roles: values, masters, gradients, moments. Each role has one type and one
   vector in the arena, and this file alone says how many bytes its elements are and where they lie;
   all else counts parameters in elements. */
#include "gradients.h"
#include "updates.h"

static RengaDataType TypeOfRole(const RengaStorage *storage, ParameterRole role)
{
  if (role == ROLE_VALUE) return storage->value;
  if (role == ROLE_MASTER) return storage->master;
  return role == ROLE_GRADIENT ? storage->gradient : storage->moment;
}

/* So many elements, and as many as fill whole lines of memory behind them. */
static int64_t PaddedCount(int64_t count, RengaDataType type)
{
  const int64_t size = (int64_t)RengaDataTypeSize(type);
  return RengaAlign_Private(count * size) / size;
}

/* Elements of a use of a parameter in a gradient buffer. Stages of different precisions that
   exchange uses have the same. */
int64_t RengaChunkStride_Private(const Chunk *chunk, int64_t count)
{
  return PaddedCount(count, chunk->storage.gradient);
}

/* Elements from one parameter to the next, the same in the vectors of values, masters and moments:
   whole lines in each of them. Frozen ones have no moments, and stand behind those that have. */
int64_t RengaChunkRoom_Private(const Chunk *chunk, int64_t count)
{
  const RengaStorage *storage = &chunk->storage;
  const RengaDataType types[3] = {storage->value, storage->master, storage->moment};
  int64_t room = 0;
  for (int t = 0; t < 3; t++)
    if (PaddedCount(count, types[t]) > room) room = PaddedCount(count, types[t]);
  return room;
}

/* Bytes of so many elements in a role. */
int64_t RengaChunkRoleBytes_Private(const Chunk *chunk, ParameterRole role, int64_t count)
{
  return count * (int64_t)RengaDataTypeSize(TypeOfRole(&chunk->storage, role));
}

/* Elements of the values that lie here through steps, but for shares. */
static int64_t CountValues(const Chunk *chunk)
{
  const ChunkSizes *sizes = chunk->sizes;
  return RengaChunkFetches_Private(chunk) ? sizes->whole_count : sizes->parameter_count;
}

/* Masters of parameters that are not sharded follow the values, where they are not the same
   memory. */
static int64_t MasterOffset(const Chunk *chunk)
{
  if (!RengaChunkHasMasters_Private(chunk)) return 0;
  return RengaValueBytes_Private(chunk, CountValues(chunk));
}

/* Of all values and these masters, with which REGION_PERSISTENT begins. */
int64_t RengaChunkParameterBytes_Private(const Chunk *chunk)
{
  const ChunkSizes *sizes = chunk->sizes;
  return MasterOffset(chunk) + RengaChunkRoleBytes_Private(chunk, ROLE_MASTER,
                                                           RengaChunkHasMasters_Private(chunk)
                                                               ? sizes->master_count
                                                               : CountValues(chunk));
}

/* Kernels read the master, where values are of another type. */
bool RengaChunkIsWide_Private(const Chunk *chunk, const Parameter *parameter)
{
  return RengaGraphGetValue(chunk->sub, parameter->value)->stored != chunk->storage.value;
}

/* What is never updated needs no master beside the value that kernels read. */
bool RengaChunkIsNarrow_Private(const Chunk *chunk, const Parameter *parameter)
{
  return parameter->frozen && RengaChunkHasMasters_Private(chunk) &&
         !RengaChunkIsWide_Private(chunk, parameter);
}

/* Where kernels read a parameter: in 32 bits that is its master. */
Place RengaChunkPlaceOf_Private(const Chunk *chunk, const Parameter *parameter)
{
  const bool wide = RengaChunkIsWide_Private(chunk, parameter);
  const ParameterRole role = wide ? ROLE_MASTER : ROLE_VALUE;
  if (parameter->sharded && RengaChunkFetches_Private(chunk))
    return (Place){REGION_WINDOW,
                   RengaValueBytes_Private(chunk, parameter->place - chunk->sizes->whole_count)};
  const int64_t offset = RengaChunkRoleBytes_Private(chunk, role, parameter->place);
  return (Place){REGION_PERSISTENT, offset + (wide ? MasterOffset(chunk) : 0)};
}

char *RengaChunkValuesAt_Private(const Chunk *chunk, int64_t place)
{
  return chunk->at->persistent + RengaValueBytes_Private(chunk, place);
}

static RengaErrorCode RoundRange(const Chunk *chunk, int64_t count, const char *masters,
                                 char *values)
{
  RengaCall(RengaDeviceConvert(chunk->device, NULL, count, chunk->storage.master, masters,
                               chunk->storage.value, values));
  return RENGA_SUCCESS;
}

/* After masters were written from outside: values are the same numbers, rounded. Of sharded
   parameters each replica has some. */
RengaErrorCode RengaChunkRoundValues_Private(const Chunk *chunk)
{
  if (!RengaChunkHasMasters_Private(chunk)) return RENGA_SUCCESS;
  RengaCall(RoundRange(chunk, chunk->sizes->master_count,
                       chunk->at->persistent + MasterOffset(chunk), chunk->at->persistent));
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    if (!parameter->sharded || parameter->narrow || parameter->from >= parameter->to) continue;
    RengaCall(RoundRange(chunk, parameter->to - parameter->from,
                         RengaChunkShareOf_Private(chunk, parameter, ROLE_MASTER).data,
                         RengaChunkShareOf_Private(chunk, parameter, ROLE_VALUE).data));
  }
  return RENGA_SUCCESS;
}

/* What takes the part of the master of a parameter that has none. */
static ParameterRole TakeRole(const Parameter *parameter, ParameterRole role)
{
  return role == ROLE_MASTER && parameter->narrow ? ROLE_VALUE : role;
}

/* This replica has no more of the parameter in the role than it updates. */
bool RengaChunkHoldsShare_Private(const Chunk *chunk, const Parameter *parameter,
                                  ParameterRole role)
{
  role = TakeRole(parameter, role);
  if (!parameter->sharded) return false;
  if (role == ROLE_GRADIENT) return RengaChunkShardsGradients_Private(chunk);
  return role >= ROLE_MOMENT || RengaChunkFetches_Private(chunk) ||
         (role == ROLE_MASTER && RengaChunkHasMasters_Private(chunk));
}

/* Among moments: of those that are not sharded, then of this replica's shares. */
static int64_t PlaceInMoment(const Chunk *chunk, const Parameter *parameter)
{
  return parameter->sharded ? chunk->sizes->moment_count + parameter->own : parameter->place;
}

/* Where what this rank has of the parameter begins; NULL for gradients before there are any. */
static char *BeginInRole(const Chunk *chunk, const Parameter *parameter, ParameterRole role)
{
  int64_t place = parameter->place;
  char *base = chunk->at->persistent;
  role = TakeRole(parameter, role);
  if (role == ROLE_MASTER) base += MasterOffset(chunk);
  if (role == ROLE_MASTER && RengaChunkHoldsShare_Private(chunk, parameter, role)) {
    base = chunk->at->masters;
    place = parameter->own;
  } else if (role == ROLE_VALUE && RengaChunkHoldsShare_Private(chunk, parameter, role)) {
    base = chunk->at->shares;
    place = parameter->own;
  } else if (role == ROLE_GRADIENT && RengaChunkHoldsShare_Private(chunk, parameter, role)) {
    base = chunk->at->scattered;
    place = parameter->own;
  } else if (role == ROLE_GRADIENT) {
    base = chunk->gradients->sum;
    place = parameter->gradient;
  } else if (role >= ROLE_MOMENT) {
    base = chunk->updates->offload.host ? chunk->updates->offload.host : chunk->at->moments;
    place = PlaceInMoment(chunk, parameter) +
            (chunk->sizes->moment_count + chunk->memory->own) * (int64_t)(role - ROLE_MOMENT);
  }
  return base ? base + RengaChunkRoleBytes_Private(chunk, role, place) : NULL;
}

/* What this rank has of a parameter in a role; its gradient is that of its first use, which in the
   end is the sum of all. */
RengaVector RengaChunkVectorOf_Private(const Chunk *chunk, const Parameter *parameter,
                                       ParameterRole role)
{
  const bool share = RengaChunkHoldsShare_Private(chunk, parameter, role);
  return (RengaVector){.data = BeginInRole(chunk, parameter, role),
                       .type = TypeOfRole(&chunk->storage, TakeRole(parameter, role)),
                       .count = share ? parameter->to - parameter->from : parameter->count};
}

/* What this rank updates of it. */
RengaVector RengaChunkShareOf_Private(const Chunk *chunk, const Parameter *parameter,
                                      ParameterRole role)
{
  RengaVector vector = RengaChunkVectorOf_Private(chunk, parameter, role);
  if (RengaChunkHoldsShare_Private(chunk, parameter, role)) return vector;
  if (vector.data)
    vector.data = (char *)vector.data +
                  RengaChunkRoleBytes_Private(chunk, TakeRole(parameter, role), parameter->from);
  vector.count = parameter->to - parameter->from;
  return vector;
}
