/* Parameters in their roles: values, masters, gradients, moments. Each role has one type and one
   vector in the arena, and this file alone says how many bytes its elements are and where they lie;
   all else counts parameters in elements. */
#include "pipelineimpl.h"

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
   whole lines in each of them. */
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

/* Masters follow the values, where they are not the same memory. */
static int64_t MasterOffset(const Chunk *chunk)
{
  if (!RengaChunkHasMasters_Private(chunk)) return 0;
  return RengaChunkRoleBytes_Private(chunk, ROLE_VALUE, chunk->sizes.parameter_count);
}

/* Of all values and masters, with which REGION_PERSISTENT begins. */
int64_t RengaChunkParameterBytes_Private(const Chunk *chunk)
{
  return MasterOffset(chunk) +
         RengaChunkRoleBytes_Private(chunk, ROLE_MASTER, chunk->sizes.parameter_count);
}

/* Where kernels read a parameter: in 32 bits that is its master. */
Place RengaChunkPlaceOf_Private(const Chunk *chunk, const Parameter *parameter)
{
  const bool wide =
      RengaGraphGetValue(chunk->sub, parameter->value)->stored != chunk->storage.value;
  const ParameterRole role = wide ? ROLE_MASTER : ROLE_VALUE;
  const int64_t offset = RengaChunkRoleBytes_Private(chunk, role, parameter->place);
  return (Place){REGION_PERSISTENT, offset + (wide ? MasterOffset(chunk) : 0)};
}

/* After masters were written from outside: values are the same numbers, rounded. */
RengaErrorCode RengaChunkRoundValues_Private(const Chunk *chunk)
{
  if (!RengaChunkHasMasters_Private(chunk)) return RENGA_SUCCESS;
  RengaCall(RengaDeviceConvert(chunk->device, NULL, chunk->sizes.parameter_count,
                               chunk->storage.master, chunk->at.persistent + MasterOffset(chunk),
                               chunk->storage.value, chunk->at.persistent));
  return RENGA_SUCCESS;
}

/* The begin of a role's vector; NULL for gradients before there are any. */
static char *BaseOfRole(const Chunk *chunk, ParameterRole role)
{
  if (role == ROLE_VALUE) return chunk->at.persistent;
  if (role == ROLE_MASTER) return chunk->at.persistent + MasterOffset(chunk);
  if (role == ROLE_GRADIENT) return chunk->gradients.sum;
  return chunk->at.moments +
         RengaChunkRoleBytes_Private(chunk, role, chunk->sizes.parameter_count) *
             (int64_t)(role - ROLE_MOMENT);
}

/* A parameter in a role; its gradient is that of its first use, which in the end is the sum of
   all. */
RengaVector RengaChunkVectorOf_Private(const Chunk *chunk, const Parameter *parameter,
                                       ParameterRole role)
{
  const int64_t place = role == ROLE_GRADIENT ? parameter->gradient : parameter->place;
  char *base = BaseOfRole(chunk, role);
  return (RengaVector){.data = base ? base + RengaChunkRoleBytes_Private(chunk, role, place) : NULL,
                       .type = TypeOfRole(&chunk->storage, role),
                       .count = parameter->count};
}
