/* Data: local placement. A rank holds the samples of the owners that it reads, in memory or in
   files of a folder on its node, from the first step on; the files of the set are read once. What
   owners exchange travels between the ranks while they train (exchange.c). Reading never depends on
   it: what a rank does not hold is read from the files of the set. */
#include "placement.h"
#include "renga/private/epochs.h"
#include "renga/private/limit.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static void FreePlacement(RengaData data)
{
  struct _RengaPlacement *p = data->placement;
  if (!p) return;
  for (int s = 0; s < p->n_stores; s++) RengaStoreFree_Private(&p->store[s]);
  RengaFree(&p->store);
  RengaFree(&p->first_store);
  RengaFree(&p->range);
  RengaFree(&p->node);
  RengaFree(&p->raw);
  RengaFree(&data->placement);
}

/* Collective, where messages may be under way. */
RengaErrorCode RengaDataEndPlacement_Private(RengaData data)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (data->placement) code = RengaExchangeFree_Private(data);
  FreePlacement(data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The owners of samples [first, last) of a batch. */
static RengaDataRange OwnersOfBatch(RengaData data, int64_t first, int64_t last)
{
  const int64_t block = data->owners.batch / data->owners.count;
  if (last <= first) return (RengaDataRange){0, 0};
  return (RengaDataRange){first / block, (last + block - 1) / block};
}

static RengaErrorCode GatherRanges(RengaData data, const int64_t first[], const int64_t last[])
{
  struct _RengaPlacement *p = data->placement;
  RengaDataRange *mine = NULL;
  int node;
  RengaErrorCode code = RengaMalloc(data->n_fields, &mine);
  if (!code) code = RengaMalloc((int64_t)p->ranks * data->n_fields, &p->range);
  if (!code) code = RengaMalloc(p->ranks, &p->node);
  if (!code) code = RengaCommGetNode(data->hdr.owner, &node, NULL, NULL, NULL);
  code = RengaErrorAgree(data->hdr.comm, code);
  for (int f = 0; f < data->n_fields && !code; f++)
    if (RengaDataRawBytes_Private(data, f) > 0) mine[f] = OwnersOfBatch(data, first[f], last[f]);
  if (!code)
    code = RengaCommGather(data->hdr.owner, mine, (size_t)data->n_fields * sizeof *mine, p->range,
                           -1, "all ranks to say which samples they read");
  if (!code)
    code = RengaCommGather(data->hdr.owner, &node, sizeof node, p->node, -1,
                           "all ranks to say where they are");
  RengaFree(&mine);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static int64_t CountStores(RengaData data, int rank)
{
  int64_t count = 0;
  for (int f = 0; f < data->n_fields; f++) {
    const RengaDataRange range = RengaPlacementRange(data->placement, data->n_fields, rank, f);
    count += range.last - range.first;
  }
  return count;
}

static int64_t SlotsOf(RengaData data, int64_t owner)
{
  return RengaDataOwnerSize_Private(data, owner) + RengaDataExchanged_Private(data);
}

static int64_t StepsOfEpoch(RengaData data)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count, batch = data->owners.batch;
  return samples / batch + (samples % batch > 0);
}

/* The most samples of an owner that a step exchanges. */
static int64_t MostExchanged(RengaData data)
{
  const int64_t window = RengaDataExchanged_Private(data), steps = StepsOfEpoch(data);
  return window / steps + (window % steps > 0);
}

/* Bytes of samples that a rank holds, and of the messages of a step. */
static double BytesOfRank(RengaData data, int rank)
{
  size_t in, out;
  RengaExchangeRoom_Private(data, rank, MostExchanged(data), &in, &out);
  double bytes = (double)in + (double)out;
  for (int f = 0; f < data->n_fields; f++) {
    const RengaDataRange range = RengaPlacementRange(data->placement, data->n_fields, rank, f);
    for (int64_t owner = range.first; owner < range.last; owner++)
      bytes += (double)SlotsOf(data, owner) * (double)RengaDataRawBytes_Private(data, f);
  }
  return bytes;
}

/* Ranks of a node share its memory. */
static RengaErrorCode CheckMemory(RengaData data)
{
  const struct _RengaPlacement *p = data->placement;
  char need[16], has[16];
  double bytes = 0;
  for (int r = 0; r < p->ranks; r++)
    if (p->node[r] == p->node[p->rank]) bytes += BytesOfRank(data, r);
  const double most = (double)RengaHostMemory_Private();
  RengaFormatBytes(bytes, sizeof need, need);
  RengaFormatBytes(most, sizeof has, has);
  RengaCheck(
      bytes <= most, MPI_COMM_SELF, RENGA_ERR_MEMORY,
      "-data_placement local: the ranks of rank %d's node would hold %s of the data set and of "
      "messages in memory, of which the node has %s: -data_cache DIR holds them in files, "
      "-data_placement shared reads them as they are needed",
      p->rank, need, has);
  return RENGA_SUCCESS;
}

/* How many ranks of this node in front of this one hold the owner's samples, too. */
static int CopyOf(RengaData data, int field, int64_t owner)
{
  const struct _RengaPlacement *p = data->placement;
  int copies = 0;
  for (int r = 0; r < p->rank; r++) {
    const RengaDataRange range = RengaPlacementRange(p, data->n_fields, r, field);
    copies += p->node[r] == p->node[p->rank] && owner >= range.first && owner < range.last;
  }
  return copies;
}

/* set: what all caches of it have in common. */
static RengaErrorCode CreateStore(RengaData data, int field, int64_t owner,
                                  const RengaDataCacheKey *set)
{
  struct _RengaPlacement *p = data->placement;
  RengaDataStore *store = &p->store[p->n_stores++];
  *store = (RengaDataStore){.field = field, .owner = owner, .file = -1};
  store->bytes = RengaDataRawBytes_Private(data, field);
  store->places = RengaDataOwnerSize_Private(data, owner);
  store->slots = SlotsOf(data, owner);
  RengaCall(RengaStoreCreate_Private(store, set->folder == NULL));
  p->traffic.held_bytes += store->slots * (int64_t)store->bytes;
  if (!set->folder) return RENGA_SUCCESS;
  RengaDataCacheKey key = *set;
  key.copy = CopyOf(data, field, owner);
  RengaCall(RengaCacheOpen_Private(store, &key));
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateStores(RengaData data, const RengaDataCacheKey *set)
{
  struct _RengaPlacement *p = data->placement;
  const char *folder = set->folder;
  RengaCheck(!folder || mkdir(folder, 0777) == 0 || errno == EEXIST, MPI_COMM_SELF,
             RENGA_ERR_FILE_WRITE, "-data_cache %s cannot be made: %s", folder, strerror(errno));
  if (!folder) RengaCall(CheckMemory(data));
  RengaCall(RengaMalloc(CountStores(data, p->rank), &p->store));
  RengaCall(RengaMalloc(data->n_fields, &p->first_store));
  for (int f = 0; f < data->n_fields; f++) {
    const RengaDataRange range = RengaPlacementRange(p, data->n_fields, p->rank, f);
    p->first_store[f] = p->n_stores;
    for (int64_t owner = range.first; owner < range.last; owner++)
      RengaCall(CreateStore(data, f, owner, set));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpPlacement(RengaData data, const int64_t first[], const int64_t last[])
{
  struct _RengaPlacement *p = data->placement;
  RengaDataCacheKey set = {.folder = data->owners.cache, .owners = data->owners.count};
  p->epoch = p->step = -1;
  p->rank = RengaCommGetRank(data->hdr.owner);
  p->ranks = RengaCommGetSize(data->hdr.owner);
  RengaCall(GatherRanges(data, first, last));
  if (set.folder) RengaCall(RengaDataGetDigest(data, &set.digest));
  if (set.folder) RengaCall(RengaCacheFindState_Private(data, &set.state));
  RengaCall(RengaErrorAgree(data->hdr.comm, CreateStores(data, &set)));
  RengaCall(RengaExchangeCreate_Private(data, MostExchanged(data)));
  return RENGA_SUCCESS;
}

/* Hold the samples that each rank reads, where the placement is local. Collective. From now on
   RengaDataBeginStep comes before a step's reads. A rank may read other samples, too: those come
   from the files of the set, as do those of the validation part. first, last: numbers of samples
   from 0, for each input: this rank reads samples [first, last) of each step. */
RengaErrorCode RengaDataPlace(RengaData data, const int64_t first[], const int64_t last[])
{
  RengaCheckPointer(data);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  if (!RengaDataIsLocal_Private(data)) return RENGA_SUCCESS;
  RengaCheckPointers(first, last);
  RengaCall(RengaDataEndPlacement_Private(data));
  RengaCall(RengaErrorAgree(data->hdr.comm, RengaMalloc(1, &data->placement)));
  RengaErrorCode code = SetUpPlacement(data, first, last);
  if (code) RengaKeepFirst_Private(&code, RengaDataEndPlacement_Private(data));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What came in takes the places of what was sent. */
static void TurnEpoch(RengaData data)
{
  struct _RengaPlacement *p = data->placement;
  const int64_t window = RengaDataExchanged_Private(data);
  p->epoch++;
  for (int s = 0; s < p->n_stores; s++) {
    RengaDataStore *store = &p->store[s];
    for (int64_t w = 0; w < window; w++) {
      const RengaDataMove move = RengaDataMoveTo_Private(data, p->epoch, store->owner, w);
      const int64_t left = store->slot[move.place];
      store->slot[move.place] = store->slot[store->places + w];
      store->slot[store->places + w] = left;
    }
  }
}

/* The exchange of an epoch is spread over its steps. */
static int64_t ExchangedBefore(RengaData data, int64_t step)
{
  const int64_t window = RengaDataExchanged_Private(data), steps = StepsOfEpoch(data);
  return window / steps * step + window % steps * step / steps;
}

/* The stores hold what they should before a step. */
static RengaErrorCode ReachStep(RengaData data, int64_t epoch, int64_t step)
{
  struct _RengaPlacement *p = data->placement;
  if (epoch == p->epoch && step == p->step) return RENGA_SUCCESS;
  if (epoch == p->epoch + 1 && step == 0 && p->epoch >= 0 && p->step == StepsOfEpoch(data)) {
    TurnEpoch(data);
    return RENGA_SUCCESS;
  }
  p->epoch = -1;
  RengaCall(RengaErrorAgree(data->hdr.comm,
                            RengaPlacementLoad_Private(data, epoch, ExchangedBefore(data, step))));
  p->epoch = epoch;
  return RENGA_SUCCESS;
}

/* Let the samples of a step be there, and those of the next epoch travel. Collective. A rank that
   could not send is waited for until the time limit. After an error on one rank alone the samples
   that it did not get are missing there, and are read from the files of the set: all ranks may go
   on with the next step, or begin this one again. Nothing where the placement is shared. Steps in
   their order exchange samples by messages; before the first one, and after a step that does not
   follow the one before it, the samples are read from the files of the set. step: the number of the
   step of the training part, from 0, as of RengaDataGetStep with the batch of RengaDataSetBatch. */
RengaErrorCode RengaDataBeginStep(RengaData data, int64_t step)
{
  RengaCheckPointer(data);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  RengaCheck(step >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "step %lld", (long long)step);
  struct _RengaPlacement *p = data->placement;
  if (!p) return RENGA_SUCCESS;
  const int64_t steps = StepsOfEpoch(data), within = step % steps;
  RengaErrorCode code = RengaExchangeEnd_Private(data);
  RengaCall(ReachStep(data, step / steps, within)); /* also where messages were lost: as all do */
  p->step = within + 1;
  RengaKeepFirst_Private(&code, RengaExchangeBegin_Private(data, ExchangedBefore(data, within),
                                                           ExchangedBefore(data, within + 1)));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaDataGetTraffic - what this rank holds, read and sent under a local placement

   Input:
   . data - set up

   Output:
   . traffic - zeros where the placement is shared

   Errors: RENGA_ERR_ORDER before RengaDataSetUp.

   See also: RengaDataSetPlacement()
@*/
RengaErrorCode RengaDataGetTraffic(RengaData data, RengaDataTraffic *traffic)
{
  RengaCheckPointers(data, traffic);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  *traffic = data->placement ? data->placement->traffic : (RengaDataTraffic){0};
  return RENGA_SUCCESS;
}

/* Room for samples of files. */
static RengaErrorCode NeedRoom(struct _RengaPlacement *p, size_t bytes)
{
  if (bytes <= p->room) return RENGA_SUCCESS;
  RengaCall(RengaRealloc((int64_t)bytes, &p->raw));
  p->room = bytes;
  return RENGA_SUCCESS;
}

/* The sample of the next batch that stands where this one stood in its own. */
static void ExpectNext(const struct _p_RengaData *data, const RengaDataStore *store, int64_t epoch,
                       int64_t at)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count, batch = data->owners.batch;
  int64_t owner, place;
  if (at + batch >= samples / batch * batch) return;
  RengaDataPlaceOf_Private(data, epoch, at + batch, &owner, &place);
  if (owner == store->owner) RengaStoreExpect_Private(store, store->slot[place]);
}

/* One sample: raw NULL where this rank does not hold it. */
static int64_t TakeHeld(const struct _p_RengaData *data, int field, int64_t epoch, int64_t at,
                        char *buffer, const char **raw)
{
  struct _RengaPlacement *p = data->placement;
  int64_t owner, place;
  RengaDataPlaceOf_Private(data, epoch, at, &owner, &place);
  RengaDataStore *store =
      epoch == p->epoch ? RengaPlacementFind_Private(p, data->n_fields, field, owner) : NULL;
  const int64_t slot = store ? store->slot[place] : -1;
  *raw = NULL;
  p->traffic.outside_samples += !store;
  if (store && !store->memory) ExpectNext(data, store, epoch, at);
  if (store && store->held[slot] >= 0 && RengaStoreGet_Private(store, slot, buffer, raw))
    return store->held[slot];
  p->traffic.again_samples += store != NULL;
  *raw = NULL;
  return RengaDataSampleOf_Private(data, epoch, owner, place);
}

/* Numbers of the samples at places of an epoch, and what the files have of them where this rank
   holds it, else NULL. */
RengaErrorCode RengaPlacementGet_Private(RengaData data, int field, int64_t epoch, int64_t first,
                                         int64_t count, int64_t samples[], const char *raw[])
{
  struct _RengaPlacement *p = data->placement;
  const size_t bytes = RengaDataRawBytes_Private(data, field);
  if (data->owners.cache) RengaCall(NeedRoom(p, (size_t)count * bytes));
  for (int64_t i = 0; i < count; i++)
    samples[i] = TakeHeld(data, field, epoch, first + i, p->raw ? p->raw + (size_t)i * bytes : NULL,
                          &raw[i]);
  return RENGA_SUCCESS;
}
