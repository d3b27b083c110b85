/* Data: samples that belong to owners, a number of owners that does not follow from the ranks. Each
   epoch every owner shuffles its own samples; before it, each gives the same number of them to
   other owners and gets as many. Nguyen et al., Why Globally Re-shuffle? Revisiting Data Shuffling
   in Large Scale Deep Learning, IPDPS 2022. places.c says how. */
#include "dataimpl.h"
#include "renga/private/number.h"
#include <string.h>

#define AT(member) offsetof(struct _p_RengaData, owners.member)

static const RengaOptionRow owner_rows[] = {
    {"data_shuffle", RENGA_OPTION_STRING, "true", AT(shuffle), NULL, 0, 0,
     "order of training samples: true (global), local, partial:Q within owners, or false"},
    {"data_owners", RENGA_OPTION_INT64, "0", AT(count), NULL, 0, 1 << 20,
     "number of owners of samples, for -data_shuffle local and partial:Q"},
    {"data_owners_order", RENGA_OPTION_ENUM, "shuffled", AT(order), "shuffled|file", 0, 0,
     "samples that an owner begins with: drawn by the seed, or a range"},
    {"data_placement", RENGA_OPTION_ENUM, "shared", AT(placement), "shared|local", 0, 0,
     "where samples are read from: shared files, or the ranks that own them"},
    {"data_cache", RENGA_OPTION_STRING, NULL, AT(cache), NULL, 0, 0,
     "for -data_placement local: a folder on each node for the samples, instead of memory"},
};
enum { OWNER_OPTIONS = sizeof owner_rows / sizeof *owner_rows };

RengaErrorCode RengaDataRegisterOwners_Private(void)
{
  RengaCall(RengaOptionsRegister("Data", OWNER_OPTIONS, owner_rows));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataBeginOwners_Private(RengaData data)
{
  data->shuffle = true;
  data->owners.exchange = -1;
  RengaCall(RengaOptionsSetDefaults(OWNER_OPTIONS, owner_rows, data));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataEndOwners_Private(RengaData data)
{
  RengaCall(RengaOptionsFreeStrings(OWNER_OPTIONS, owner_rows, data));
  return RENGA_SUCCESS;
}

static bool IsWord(const char *text, const char *const words[])
{
  for (; *words; words++)
    if (RengaIsSameWord(text, *words)) return true;
  return false;
}

/* exchange -1: not between owners. False: the text is none of those. */
static bool ParseShuffle(const char *text, bool *shuffle, double *exchange)
{
  static const char *const yes[] = {"true", "yes", "on", "1", "global", NULL};
  static const char *const no[] = {"false", "no", "off", "0", NULL};
  *shuffle = !IsWord(text, no);
  if (strncmp(text, "partial:", 8) == 0) {
    char *end;
    *exchange = RengaReadReal(text + 8, &end);
    return end != text + 8 && *end == '\0' && *exchange >= 0 && *exchange <= 1;
  }
  *exchange = strcmp(text, "local") == 0 ? 0 : -1;
  return *exchange == 0 || !*shuffle || IsWord(text, yes);
}

static RengaErrorCode CheckOwnerOptions(RengaData data)
{
  const RengaDataOwners *owners = &data->owners;
  MPI_Comm comm = data->hdr.comm;
  const bool local = owners->placement == RENGA_PLACEMENT_LOCAL;
  RengaCheck(owners->exchange < 0 || owners->count > 0, comm, RENGA_ERR_OPTION,
             "-data_shuffle %s is within owners: -data_owners says how many", owners->shuffle);
  RengaCheck(owners->exchange >= 0 || owners->count == 0, comm, RENGA_ERR_OPTION,
             "-data_owners %lld is for -data_shuffle local or partial:Q", (long long)owners->count);
  RengaCheck(owners->exchange < 0 || data->hiding.fraction == 0, comm, RENGA_ERR_SUPPORT,
             "-data_hide %g together with -data_owners is not supported", data->hiding.fraction);
  RengaCheck(!local || owners->count > 0, comm, RENGA_ERR_OPTION,
             "-data_placement local is for samples that belong to owners: -data_owners N with "
             "-data_shuffle local or partial:Q");
  bool ordered = false;
  const char *order;
  RengaCall(RengaOptionsGetString("data_owners_order", &order, &ordered));
  RengaCheck(!ordered || owners->count > 0, comm, RENGA_ERR_OPTION,
             "-data_owners_order %s is of samples that belong to owners: -data_owners N with "
             "-data_shuffle local or partial:Q",
             order);
  RengaCheck(local || !owners->cache, comm, RENGA_ERR_OPTION,
             "-data_cache %s is for -data_placement local", owners->cache);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataReadOwnerOptions_Private(RengaData data)
{
  RengaDataOwners *owners = &data->owners;
  RengaCall(RengaOptionsSetFromDatabase(data->hdr.prefix, OWNER_OPTIONS, owner_rows, data));
  const bool good = ParseShuffle(owners->shuffle, &data->shuffle, &owners->exchange);
  RengaCheck(good, data->hdr.comm, RENGA_ERR_OPTION,
             "-data_shuffle %s is none of global, local, partial:Q with Q from 0 to 1, true, false",
             owners->shuffle);
  RengaCall(CheckOwnerOptions(data));
  return RENGA_SUCCESS;
}

/* Once the samples are counted. */
RengaErrorCode RengaDataSetUpOwners_Private(RengaData data)
{
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count;
  RengaCheck(data->owners.count > 0 || data->owners.placement != RENGA_PLACEMENT_LOCAL,
             data->hdr.comm, RENGA_ERR_OPTION,
             "a local placement is for samples that belong to owners, and there are none");
  RengaCheck(data->owners.count <= samples, data->hdr.comm, RENGA_ERR_OPTION,
             "%lld training samples cannot be split among %lld owners", (long long)samples,
             (long long)data->owners.count);
  data->owners.batch = data->owners.count;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetShuffle - the order of the training samples

   Collective

   Input:
   . shuffle - true (default): each epoch in an order of its own, drawn from the seed; false: as the
     files have them. Owners that were set are none any more

   Options:
   . -data_shuffle - the same

   See also: RengaDataGetShuffle(), RengaDataSetSeed()
@*/
RengaErrorCode RengaDataSetShuffle(RengaData data, bool shuffle)
{
  RengaCheckPointer(data);
  RengaCall(RengaDataEndPlacement_Private(data));
  data->shuffle = shuffle;
  data->owners.count = 0;
  data->owners.exchange = -1;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataGetShuffle(RengaData data, bool *shuffle)
{
  RengaCheckPointers(data, shuffle);
  *shuffle = data->shuffle;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetOwners - let samples belong to owners, and be shuffled within them

   Collective

   Input:
   . owners - owners of the samples; their number decides the order, that of the ranks
     does not. 0: none, the whole set is shuffled
   . exchange - the share of its samples that each owner exchanges with others before an epoch, 0 to
     1

   Options:
   . -data_owners - the owners
   . -data_shuffle - local (exchange 0) or partial:Q
   . -data_owners_order - shuffled: which samples an owner has first follows from the seed; file:
     one range of the set for each owner

   Errors: RENGA_ERR_ORDER after RengaDataSetUp; RENGA_ERR_ARGUMENT for less than none, or a share
   that is not in 0 to 1.

   Notes: each batch takes as many samples of each owner (RengaDataSetBatch). Owners have equally
   many samples, some one more. Source: Nguyen et al., IPDPS 2022.

   See also: RengaDataGetOwners(), RengaDataFindOwner()
@*/
RengaErrorCode RengaDataSetOwners(RengaData data, int64_t owners, double exchange)
{
  RengaCheckPointer(data);
  RengaCheck(owners == 0 || (owners > 0 && exchange >= 0 && exchange <= 1), data->hdr.comm,
             RENGA_ERR_ARGUMENT,
             "%lld owners that exchange a share of %g: at least 1, and a share from 0 to 1",
             (long long)owners, exchange);
  RengaCheck(data->hdr.state < RENGA_STATE_SETUP, data->hdr.comm, RENGA_ERR_ORDER,
             "RengaDataSetOwners: the data set is set up already");
  data->owners.count = owners;
  data->owners.exchange = owners > 0 ? exchange : -1;
  return RENGA_SUCCESS;
}

/*@
   RengaDataGetOwners - the owners of a data set

   Output:
   . owners - 0: none
   . exchange - the share of samples that owners exchange, from 0 to 1, as RengaDataSetOwners takes
     it
@*/
RengaErrorCode RengaDataGetOwners(RengaData data, int64_t *owners, double *exchange)
{
  RengaCheckPointers(data, owners, exchange);
  *owners = data->owners.count;
  *exchange = data->owners.count > 0 ? data->owners.exchange : 0;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetPlacement - where samples are read from

   Collective

   Input:
   . placement - RENGA_PLACEMENT_SHARED: the files of the set; RENGA_PLACEMENT_LOCAL: each rank
     holds those that it reads
   . cache - a folder on each node, for local placement; NULL: samples are in memory

   Options:
   . -data_placement - shared or local
   . -data_cache - the same

   Errors: RENGA_ERR_ORDER after RengaDataSetUp; RENGA_ERR_ARGUMENT for another number, or a
   folder for shared samples.

   Notes: local is for sets with owners (RengaDataSetOwners). No bits depend on it.

   See also: RengaDataGetPlacement()
@*/
RengaErrorCode RengaDataSetPlacement(RengaData data, RengaPlacement placement, const char *cache)
{
  char *folder = NULL;
  RengaCheckPointer(data);
  RengaCheck(placement == RENGA_PLACEMENT_LOCAL || (placement == RENGA_PLACEMENT_SHARED && !cache),
             data->hdr.comm, RENGA_ERR_ARGUMENT,
             "samples are placed shared, or local with a folder or without; "
             "not %d with the folder %s",
             (int)placement, cache ? cache : "none");
  RengaCheck(data->hdr.state < RENGA_STATE_SETUP, data->hdr.comm, RENGA_ERR_ORDER,
             "RengaDataSetPlacement: the data set is set up already");
  if (cache) RengaCall(RengaStringCopy(cache, &folder));
  RengaFree(&data->owners.cache);
  data->owners.placement = placement;
  data->owners.cache = folder;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataGetPlacement(RengaData data, RengaPlacement *placement, const char **cache)
{
  RengaCheckPointers(data, placement, cache);
  *placement = data->owners.placement;
  *cache = data->owners.cache;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetBatch - the batch that owners fill

   Collective

   Input:
   . data - set up
   . batch - samples of a step, at least 1: sample i of it comes from owner i × owners / batch

   Errors: a batch that owners cannot fill equally.

   Notes: without owners nothing follows from it. Before this call the batch is as large as
   there are owners.

   See also: RengaDataSetOwners(), RengaDataGetStep()
@*/
RengaErrorCode RengaDataSetBatch(RengaData data, int64_t batch)
{
  RengaCheckPointer(data);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  RengaCall(RengaDataEndPlacement_Private(data));
  RengaCheck(batch > 0 && (data->owners.count == 0 || batch % data->owners.count == 0),
             data->hdr.comm, RENGA_ERR_OPTION,
             "a batch of %lld samples cannot be filled equally by %lld data owners",
             (long long)batch, (long long)data->owners.count);
  data->owners.batch = batch;
  return RENGA_SUCCESS;
}

/*@
   RengaDataFindOwner - which sample stands at a place of an epoch, and which owner has it

   Input:
   . data - set up, with owners
   . epoch - the number of the epoch, from 0
   . place - the place in the epoch's order, from 0, as RengaDataGetStep says it

   Output:
   . owner - the number of the owner in that epoch, from 0
   . sample - the sample's number among the training samples, from 0

   Errors: RENGA_ERR_ORDER before RengaDataSetUp, or without owners; RENGA_ERR_ARGUMENT for a
   place that is not in the epoch.

   Notes: any rank may ask for any place; the time that it takes grows with the number of the epoch.

   See also: RengaDataSetOwners()
@*/
RengaErrorCode RengaDataFindOwner(RengaData data, int64_t epoch, int64_t place, int64_t *owner,
                                  int64_t *sample)
{
  RengaCheckPointers(data, owner, sample);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  RengaCheck(data->owners.count > 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the data set has no owners: call RengaDataSetOwners before its set-up");
  RengaCheck(epoch >= 0 && place >= 0 && place < data->part[RENGA_DATA_TRAINING].count,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "place %lld of epoch %lld of %lld samples",
             (long long)place, (long long)epoch, (long long)data->part[RENGA_DATA_TRAINING].count);
  *sample = RengaDataOfOwners_Private(data, epoch, place, owner);
  return RENGA_SUCCESS;
}
