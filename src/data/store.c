/* Data: slots for the samples of one owner, in memory or in a file. */
#include "placement.h"
#include <string.h>
#include <unistd.h>

/* places, slots and bytes are set. What was made is freed by RengaStoreFree_Private in any case. */
RengaErrorCode RengaStoreCreate_Private(RengaDataStore *store, bool in_memory)
{
  store->file = -1;
  RengaCall(RengaMalloc(store->slots, &store->slot));
  RengaCall(RengaMalloc(store->slots, &store->held));
  for (int64_t s = 0; s < store->slots; s++) store->slot[s] = s, store->held[s] = -1;
  if (in_memory) RengaCall(RengaMalloc(store->slots * (int64_t)store->bytes, &store->memory));
  return RENGA_SUCCESS;
}

void RengaStoreFree_Private(RengaDataStore *store)
{
  RengaFree(&store->slot);
  RengaFree(&store->held);
  RengaFree(&store->memory);
  RengaFree(&store->name);
  if (store->file >= 0) close(store->file);
  store->file = -1;
}

bool RengaStoreGet_Private(const RengaDataStore *store, int64_t slot, char *buffer,
                           const char **raw)
{
  *raw = store->memory ? store->memory + (size_t)slot * store->bytes : buffer;
  return store->memory || RengaCacheRead_Private(store, slot, buffer);
}

bool RengaStorePut_Private(RengaDataStore *store, int64_t slot, int64_t sample, const char *raw)
{
  store->held[slot] = -1;
  if (!store->memory && !RengaCacheWrite_Private(store, slot, sample, raw)) return false;
  if (store->memory && sample >= 0)
    memcpy(store->memory + (size_t)slot * store->bytes, raw, store->bytes);
  store->held[slot] = sample;
  return true;
}

/* NULL: this rank holds nothing of that owner for that input. */
RengaDataStore *RengaPlacementFind_Private(const struct _RengaPlacement *placement, int fields,
                                           int field, int64_t owner)
{
  const RengaDataRange range = RengaPlacementRange(placement, fields, placement->rank, field);
  if (owner < range.first || owner >= range.last) return NULL;
  return &placement->store[placement->first_store[field] + (int)(owner - range.first)];
}
