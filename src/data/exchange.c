/* Data: samples change owners between the epochs. Which ones do so follows from the seed, for all
   ranks alike; they travel during the epoch before, a share with each step, in one message from a
   rank to another, which is waited for when the next step begins. A sample whose owners are held by
   one rank does not travel. One that its rank cannot read is announced as missing: whoever should
   have got it reads it from the files of the set. */
#include "placement.h"
#include "renga/private/line.h"
#include <string.h>

/* In front of a sample in a message: number `number` of the window of its new owner. */
typedef struct {
  int64_t field, owner, number, sample; /* sample -1: it is missing */
} SampleHeader;

static size_t RecordBytes(RengaData data, int field)
{
  return sizeof(SampleHeader) + (RengaDataRawBytes_Private(data, field) + 7) / 8 * 8;
}

static bool HoldsOwner(RengaData data, int rank, int field, int64_t owner)
{
  const RengaDataRange range = RengaPlacementRange(data->placement, data->n_fields, rank, field);
  return owner >= range.first && owner < range.last;
}

static int HoldersOfOwner(RengaData data, int field, int64_t owner)
{
  int count = 0;
  for (int r = 0; r < data->placement->ranks; r++) count += HoldsOwner(data, r, field, owner);
  return count;
}

/* Who gives a rank what it gets of an owner: itself where it can, else one of those that hold it,
   in turn; -1: nobody does. */
static int SourceOf(RengaData data, int field, int64_t owner, int rank)
{
  if (HoldsOwner(data, rank, field, owner)) return rank;
  const int holders = HoldersOfOwner(data, field, owner);
  int left = holders > 0 ? rank % holders : -1;
  for (int r = 0; r < data->placement->ranks; r++)
    if (HoldsOwner(data, r, field, owner) && left-- == 0) return r;
  return -1;
}

/* One sample that a step moves, as this rank sees it. */
typedef struct {
  RengaData data;
  int64_t exchange, number;
  RengaDataStore *store;
} Moving;

typedef RengaErrorCode (*MoveVisitor)(const Moving *moving);

static RengaErrorCode VisitMoves(RengaData data, int64_t first, int64_t last, MoveVisitor visit)
{
  const struct _RengaPlacement *p = data->placement;
  for (int s = 0; s < p->n_stores; s++)
    for (int64_t w = first; w < last; w++) {
      const Moving moving = {data, p->epoch + 1, w, &p->store[s]};
      RengaCall(visit(&moving));
    }
  return RENGA_SUCCESS;
}

/* What a slot holds from an earlier epoch ends before its next sample is awaited: one that does not
   come is missing, and never taken for the one before it. */
static RengaErrorCode EmptySlot(const Moving *moving)
{
  RengaDataStore *store = moving->store;
  store->held[store->slot[store->places + moving->number]] = -1;
  return RENGA_SUCCESS;
}

/* What comes in: from another rank, or from another store of this one. */
static RengaErrorCode CountIncoming(const Moving *moving)
{
  RengaData data = moving->data;
  struct _RengaPlacement *p = data->placement;
  const RengaDataStore *store = moving->store;
  const RengaDataMove move =
      RengaDataMoveTo_Private(data, moving->exchange, store->owner, moving->number);
  const int source = SourceOf(data, store->field, move.from, p->rank);
  if (source >= 0 && source != p->rank)
    p->exchange.receives[source] += RecordBytes(data, store->field);
  return RENGA_SUCCESS;
}

/* From a store of this rank to another; nothing where nobody holds the owner. */
static RengaErrorCode CopyWithin(const Moving *moving)
{
  RengaData data = moving->data;
  struct _RengaPlacement *p = data->placement;
  RengaDataStore *to = moving->store;
  const RengaDataMove move =
      RengaDataMoveTo_Private(data, moving->exchange, to->owner, moving->number);
  const int source = SourceOf(data, to->field, move.from, p->rank);
  const RengaDataStore *from = RengaPlacementFind_Private(p, data->n_fields, to->field, move.from);
  const char *raw = NULL;
  if (source >= 0 && source != p->rank) return RENGA_SUCCESS;
  const int64_t slot = from ? from->slot[move.from_place] : -1;
  int64_t sample = from ? from->held[slot] : -1;
  if (sample >= 0 && !RengaStoreGet_Private(from, slot, p->exchange.sample, &raw)) sample = -1;
  RengaStorePut_Private(to, to->slot[to->places + moving->number], sample, raw);
  return RENGA_SUCCESS;
}

/* What goes out, to each rank that gets it from this one. */
static RengaErrorCode CountOutgoing(const Moving *moving)
{
  RengaData data = moving->data;
  struct _RengaPlacement *p = data->placement;
  const RengaDataStore *store = moving->store;
  const int64_t to = RengaDataMovesOn_Private(data, moving->exchange, store->owner, moving->number);
  for (int r = 0; r < p->ranks; r++)
    if (r != p->rank && HoldsOwner(data, r, store->field, to) &&
        SourceOf(data, store->field, store->owner, r) == p->rank)
      p->exchange.sends[r] += RecordBytes(data, store->field);
  return RENGA_SUCCESS;
}

/* The sample behind what the message to a rank has already. */
static void PutRecord(const Moving *moving, int64_t to, char *at)
{
  RengaData data = moving->data;
  const RengaDataStore *store = moving->store;
  const RengaDataMove move = RengaDataMoveTo_Private(data, moving->exchange, to, moving->number);
  const int64_t slot = store->slot[move.from_place];
  SampleHeader header = {store->field, to, moving->number, store->held[slot]};
  char *body = at + sizeof header;
  const char *raw = body;
  if (header.sample >= 0 && !RengaStoreGet_Private(store, slot, body, &raw)) header.sample = -1;
  if (header.sample >= 0 && raw != body) memcpy(body, raw, store->bytes);
  memcpy(at, &header, sizeof header);
}

static size_t BytesBefore(const size_t bytes[], int rank)
{
  size_t sum = 0;
  for (int r = 0; r < rank; r++) sum += bytes[r];
  return sum;
}

/* exchange.filled: bytes that the messages have so far. */
static RengaErrorCode FillOutgoing(const Moving *moving)
{
  RengaData data = moving->data;
  struct _RengaPlacement *p = data->placement;
  RengaDataExchange *x = &p->exchange;
  const RengaDataStore *store = moving->store;
  const int64_t to = RengaDataMovesOn_Private(data, moving->exchange, store->owner, moving->number);
  for (int r = 0; r < p->ranks; r++) {
    if (r == p->rank || !HoldsOwner(data, r, store->field, to) ||
        SourceOf(data, store->field, store->owner, r) != p->rank)
      continue;
    PutRecord(moving, to, x->out + BytesBefore(x->sends, r) + x->filled[r]);
    x->filled[r] += RecordBytes(data, store->field);
    p->traffic.sent_samples++;
    p->traffic.sent_bytes += (int64_t)store->bytes;
  }
  return RENGA_SUCCESS;
}

/* A message that nobody took is not taken for one of a later step. */
static int TagOfStep(RengaData data, int64_t first)
{
  return (int)((data->placement->epoch * RengaDataExchanged_Private(data) + first) & 0x3fff);
}

/* As many as can be: other ranks wait for each. */
static RengaErrorCode StartMessages(RengaDataExchange *x, int tag)
{
  RengaErrorCode code = RENGA_SUCCESS;
  size_t at = 0;
  for (int r = 0; r < x->ranks; at += x->receives[r++])
    if (x->receives[r] > 0)
      RengaKeepFirst_Private(
          &code, RengaCommReceive(x->line, x->in + at, x->receives[r], r, tag, &x->receiving[r]));
  at = 0;
  for (int r = 0; r < x->ranks; at += x->sends[r++])
    if (x->sends[r] > 0)
      RengaKeepFirst_Private(
          &code, RengaCommSend(x->line, x->out + at, x->sends[r], r, tag, &x->sending[r]));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginExchange(RengaData data, int64_t first, int64_t last)
{
  RengaDataExchange *x = &data->placement->exchange;
  for (int r = 0; r < x->ranks; r++) x->sends[r] = x->receives[r] = x->filled[r] = 0;
  x->spoilt = false;
  RengaCall(VisitMoves(data, first, last, CountIncoming));
  RengaCall(VisitMoves(data, first, last, CountOutgoing));
  RengaCheck(BytesBefore(x->receives, x->ranks) <= x->in_room &&
                 BytesBefore(x->sends, x->ranks) <= x->out_room,
             MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%zu bytes come and %zu go, in room for %zu, %zu",
             BytesBefore(x->receives, x->ranks), BytesBefore(x->sends, x->ranks), x->in_room,
             x->out_room);
  RengaCall(VisitMoves(data, first, last, FillOutgoing));
  RengaErrorCode code = StartMessages(x, TagOfStep(data, first));
  RengaKeepFirst_Private(&code, VisitMoves(data, first, last, CopyWithin));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool IsUnderWay(const RengaDataExchange *x)
{
  bool any = false;
  for (int r = 0; r < x->ranks; r++) any = any || x->sending[r] || x->receiving[r];
  return any;
}

/* Where messages of another step still have the buffers, the samples of this one are missing. */
RengaErrorCode RengaExchangeBegin_Private(RengaData data, int64_t first, int64_t last)
{
  const RengaDataExchange *x = &data->placement->exchange;
  if (first == last) return RENGA_SUCCESS;
  RengaCall(VisitMoves(data, first, last, EmptySlot));
  if (IsUnderWay(x)) return RENGA_SUCCESS;
  RengaLogEventBegin(x->filling);
  const RengaErrorCode code = BeginExchange(data, first, last);
  RengaLogEventEnd(x->filling, 0, 0, (int64_t)BytesBefore(x->sends, x->ranks));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The samples of a message, to the slots of those that come in. */
static RengaErrorCode TakeMessage(RengaData data, const char *at, const char *end)
{
  struct _RengaPlacement *p = data->placement;
  while (at < end) {
    SampleHeader header;
    memcpy(&header, at, sizeof header);
    RengaDataStore *store =
        RengaPlacementFind_Private(p, data->n_fields, (int)header.field, header.owner);
    RengaCheck(store && header.number >= 0 && header.number < store->slots - store->places,
               MPI_COMM_SELF, RENGA_ERR_INTERNAL, "a sample came for owner %lld, number %lld",
               (long long)header.owner, (long long)header.number);
    /* where it cannot be written the slot holds nothing, which is made good when it is read */
    RengaStorePut_Private(store, store->slot[store->places + header.number], header.sample,
                          at + sizeof header);
    at += RecordBytes(data, store->field);
  }
  return RENGA_SUCCESS;
}

/* All are waited for, also behind one that failed: MPI has the buffers until then. */
static RengaErrorCode EndExchange(RengaData data)
{
  RengaDataExchange *x = &data->placement->exchange;
  RengaErrorCode code = RENGA_SUCCESS;
  size_t at = 0;
  for (int r = 0; r < x->ranks; at += x->receives[r++]) {
    if (!x->receiving[r]) continue;
    const RengaErrorCode came =
        RengaCommWait(x->line, &x->receiving[r], "samples of another rank's owners");
    RengaKeepFirst_Private(&code, came);
    x->spoilt = x->spoilt || came;
    if (!x->spoilt)
      RengaKeepFirst_Private(&code, TakeMessage(data, x->in + at, x->in + at + x->receives[r]));
  }
  for (int r = 0; r < x->ranks; r++)
    if (x->sending[r])
      RengaKeepFirst_Private(
          &code, RengaCommWait(x->line, &x->sending[r], "samples to go to another rank's owners"));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaExchangeEnd_Private(RengaData data)
{
  const RengaDataExchange *x = &data->placement->exchange;
  if (!x->line) return RENGA_SUCCESS;
  RengaLogEventBegin(x->awaiting);
  const RengaErrorCode code = EndExchange(data);
  RengaLogEventEnd(x->awaiting, 0, 0, (int64_t)BytesBefore(x->receives, x->ranks));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The most ranks that hold an owner in common hold the first owner of one of them: there are far
   fewer ranks than owners. */
static int MostHolders(RengaData data, int field)
{
  const struct _RengaPlacement *p = data->placement;
  int most = 0;
  for (int r = 0; r < p->ranks; r++) {
    const RengaDataRange range = RengaPlacementRange(p, data->n_fields, r, field);
    const int holders = range.first < range.last ? HoldersOfOwner(data, field, range.first) : 0;
    if (holders > most) most = holders;
  }
  return most;
}

/* Bytes of a rank's buffers, where a step exchanges so many samples of an owner. */
void RengaExchangeRoom_Private(RengaData data, int rank, int64_t samples, size_t *in, size_t *out)
{
  *in = *out = 0;
  for (int f = 0; f < data->n_fields && samples > 0; f++) {
    const RengaDataRange range = RengaPlacementRange(data->placement, data->n_fields, rank, f);
    if (range.first == range.last) continue;
    const size_t bytes =
        (size_t)(range.last - range.first) * (size_t)samples * RecordBytes(data, f);
    *in += bytes;
    *out += bytes * (size_t)MostHolders(data, f);
  }
}

/* Of what one step exchanges. */
static RengaErrorCode MakeBuffers(RengaData data, int64_t samples)
{
  struct _RengaPlacement *p = data->placement;
  RengaDataExchange *x = &p->exchange;
  size_t largest = 0;
  for (int s = 0; s < p->n_stores; s++) {
    const size_t bytes = RecordBytes(data, p->store[s].field);
    if (bytes > largest) largest = bytes;
  }
  RengaExchangeRoom_Private(data, p->rank, samples, &x->in_room, &x->out_room);
  p->traffic.buffer_bytes = (int64_t)(x->in_room + x->out_room);
  RengaCall(RengaMalloc((int64_t)x->in_room, &x->in));
  RengaCall(RengaMalloc((int64_t)x->out_room, &x->out));
  RengaCall(RengaMalloc((int64_t)largest, &x->sample));
  RengaCall(RengaMalloc(p->ranks, &x->sends));
  RengaCall(RengaMalloc(p->ranks, &x->receives));
  RengaCall(RengaMalloc(p->ranks, &x->filled));
  RengaCall(RengaMalloc(p->ranks, &x->sending));
  RengaCall(RengaMalloc(p->ranks, &x->receiving));
  return RENGA_SUCCESS;
}

/* most: samples of an owner that a step exchanges. */
RengaErrorCode RengaExchangeCreate_Private(RengaData data, int64_t most)
{
  struct _RengaPlacement *p = data->placement;
  if (most == 0) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(data->hdr.comm, MakeBuffers(data, most)));
  RengaCall(RengaLogEventRegister("DataSend", &p->exchange.filling));
  RengaCall(RengaLogEventRegister("DataReceive", &p->exchange.awaiting));
  RengaCall(RengaCommSplit(data->hdr.owner, 0, p->rank, &p->exchange.line));
  RengaCall(
      RengaErrorAgree(data->hdr.comm, RengaCommReserve_Private(p->exchange.line, 2 * p->ranks)));
  p->exchange.ranks = p->ranks;
  return RENGA_SUCCESS;
}

/* What is under way arrives first; where it does not, or ranks no longer wait for each other, MPI
   keeps the memory of messages. */
RengaErrorCode RengaExchangeFree_Private(RengaData data)
{
  RengaDataExchange *x = &data->placement->exchange;
  RengaErrorCode code = RengaExchangeEnd_Private(data);
  const RengaErrorCode closed = RengaCommDestroy(&x->line);
  const bool kept = closed || IsUnderWay(x) || RengaWatchIsBroken_Private(data->hdr.comm);
  RengaKeepFirst_Private(&code, closed);
  if (!kept) RengaFree(&x->in);
  if (!kept) RengaFree(&x->out);
  RengaFree(&x->sample);
  RengaFree(&x->sends);
  RengaFree(&x->receives);
  RengaFree(&x->filled);
  RengaFree(&x->sending);
  RengaFree(&x->receiving);
  RengaCall(code);
  return RENGA_SUCCESS;
}
