/* Data: which owner has which sample in an epoch, and what owners exchange.

   An owner has as many places for samples as at the beginning. Before epoch e the share Q of the
   places of each owner, a window that begins at a random place, is exchanged: place w of the window
   of owner l goes to place w of the window of owner l + s, where s, from 1 to owners - 1, is drawn
   for e and w: a permutation of the owners without a fixed point, so each sends and receives one
   sample for each w. All of it is a function of the seed: whoever wants to know which sample is at
   a place follows it back through the epochs, without a table and without a message. */
#include "dataimpl.h"

enum { DRAW_OFFSET = 0x0ff5, DRAW_SHIFT = 0x51f7 };

bool RengaDataIsLocal_Private(const struct _p_RengaData *data)
{
  return data->owners.count > 0 && data->owners.placement == RENGA_PLACEMENT_LOCAL;
}

/* A place of an owner. */
typedef struct {
  int64_t owner, place;
} OwnerPlace;

int64_t RengaDataOwnerSize_Private(const struct _p_RengaData *data, int64_t owner)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count, owners = data->owners.count;
  return samples / owners + (owner < samples % owners);
}

/* Which owner fills a place of an epoch, and with which number of its own order. Whole batches have
   blocks of all owners; what they leave, the end of each owner's order, follows owner by owner. */
static OwnerPlace FindOwnerPlace(const struct _p_RengaData *data, int64_t at)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count, owners = data->owners.count;
  const int64_t batch = data->owners.batch, block = batch / owners, whole = samples / batch;
  if (at < whole * batch) return (OwnerPlace){at % batch / block, at / batch * block + at % block};
  at -= whole * batch;
  const int64_t left = samples / owners - whole * block, larger = samples % owners;
  if (at < larger * (left + 1))
    return (OwnerPlace){at / (left + 1), whole * block + at % (left + 1)};
  at -= larger * (left + 1);
  return (OwnerPlace){larger + at / left, whole * block + at % left};
}

/* A number in [0, bound) for an exchange and one of its objects. */
static int64_t DrawOwner(const struct _p_RengaData *data, uint32_t what, int64_t exchange,
                         int64_t object, int64_t bound)
{
  const uint32_t key[2] = {(uint32_t)data->seed ^ what, (uint32_t)(data->seed >> 32)};
  const uint32_t counter[4] = {(uint32_t)exchange, (uint32_t)((uint64_t)exchange >> 32),
                               (uint32_t)object, (uint32_t)((uint64_t)object >> 32)};
  uint32_t out[4];
  RengaPhilox(counter, key, out);
  return (int64_t)(((uint64_t)out[0] << 32 | out[1]) % (uint64_t)bound);
}

/* Where number w of an owner's window was before an exchange, and is after it. */
RengaDataMove RengaDataMoveTo_Private(const struct _p_RengaData *data, int64_t exchange,
                                      int64_t owner, int64_t w)
{
  const int64_t owners = data->owners.count, size = RengaDataOwnerSize_Private(data, owner);
  const int64_t shift = 1 + DrawOwner(data, DRAW_SHIFT, exchange, w, owners - 1);
  const int64_t from = (owner + owners - shift) % owners;
  const int64_t from_size = RengaDataOwnerSize_Private(data, from);
  return (RengaDataMove){
      .place = (DrawOwner(data, DRAW_OFFSET, exchange, owner, size) + w) % size,
      .from = from,
      .from_place = (DrawOwner(data, DRAW_OFFSET, exchange, from, from_size) + w) % from_size};
}

/* The owner to which number w of an owner's window goes. */
int64_t RengaDataMovesOn_Private(const struct _p_RengaData *data, int64_t exchange, int64_t owner,
                                 int64_t w)
{
  const int64_t owners = data->owners.count;
  return (owner + 1 + DrawOwner(data, DRAW_SHIFT, exchange, w, owners - 1)) % owners;
}

/* Where the sample was before an exchange that now is at the place. */
static OwnerPlace Undo(const struct _p_RengaData *data, int64_t exchange, OwnerPlace at)
{
  const int64_t window = RengaDataExchanged_Private(data);
  if (window == 0) return at;
  const int64_t size = RengaDataOwnerSize_Private(data, at.owner);
  const int64_t begin = DrawOwner(data, DRAW_OFFSET, exchange, at.owner, size);
  const int64_t w = (at.place - begin + size) % size;
  if (w >= window) return at;
  const RengaDataMove move = RengaDataMoveTo_Private(data, exchange, at.owner, w);
  return (OwnerPlace){move.from, move.from_place};
}

/* The samples that each owner gives away, and gets, before an epoch; one alone has nobody to give
   to. */
int64_t RengaDataExchanged_Private(const struct _p_RengaData *data)
{
  const int64_t least = data->part[RENGA_DATA_TRAINING].count / data->owners.count;
  return data->owners.count == 1 ? 0 : (int64_t)(data->owners.exchange * (double)least);
}

/* Who has the sample at a place of an epoch's order, and where. */
void RengaDataPlaceOf_Private(const struct _p_RengaData *data, int64_t epoch, int64_t at,
                              int64_t *owner, int64_t *place)
{
  const OwnerPlace found = FindOwnerPlace(data, at);
  const uint64_t words[2] = {data->seed, (uint64_t)found.owner};
  *owner = found.owner;
  *place = RengaDataShuffleOne(RengaHash(words, sizeof words, 0x1a9e), epoch,
                               RengaDataOwnerSize_Private(data, found.owner), found.place);
}

/* The sample that an owner has at a place in an epoch. */
int64_t RengaDataSampleOf_Private(const struct _p_RengaData *data, int64_t epoch, int64_t owner,
                                  int64_t place)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count, owners = data->owners.count;
  OwnerPlace found = {owner, place};
  for (int64_t exchange = epoch; exchange > 0; exchange--) found = Undo(data, exchange, found);
  const int64_t larger = samples % owners < found.owner ? samples % owners : found.owner;
  const int64_t first = found.owner * (samples / owners) + larger + found.place;
  return data->owners.order == OWNERS_OF_FILE
             ? first
             : RengaDataShuffleOne(data->seed ^ 0x9a275, -1, samples, first);
}

/* The sample at a place of an epoch's order; *owner: its owner in that epoch. */
int64_t RengaDataOfOwners_Private(const struct _p_RengaData *data, int64_t epoch, int64_t at,
                                  int64_t *owner)
{
  int64_t place;
  RengaDataPlaceOf_Private(data, epoch, at, owner, &place);
  return RengaDataSampleOf_Private(data, epoch, *owner, place);
}
