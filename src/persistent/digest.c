/* A checksum of tensors that does not depend on who has which part. Each rank hashes its parts, and
   copies of a part are compared by that. A whole tensor's hash is its checksum; that of one in
   several parts is made of its blocks, brought together on one rank in their order. */
#include "renga/private/gather.h"
#include "renga/private/hash.h"
#include "renga/private/holdings.h"
#include "renga/private/kernel.h"
#include <string.h>

typedef struct {
  const RengaHoldings *holdings;
  RengaDevice device; /* NULL where its memory is the host's */
  RengaHasher hasher;
  char *staging;  /* [RENGA_HOLDINGS_BLOCK] or NULL */
  int64_t *row;   /* [n_rows][2] hash and inverse, the least number in both where there is none; and
                    this rank's error */
  uint64_t split; /* sum of the checksums of tensors in several parts that came to this rank */
} Digester;

static uint64_t SeedOfTensor(const char *name)
{
  return RengaHash(name, strlen(name), 0);
}

static RengaErrorCode HashBytes(Digester *digester, bool host, const char *from, size_t bytes)
{
  if (digester->device && host) RengaCall(RengaStreamSynchronize(digester->device, NULL));
  if (!digester->device || host) {
    RengaHasherAdd(digester->hasher, from, bytes);
    return RENGA_SUCCESS;
  }
  for (size_t at = 0; at < bytes; at += RENGA_HOLDINGS_BLOCK) {
    const size_t left = bytes - at,
                 part = left < RENGA_HOLDINGS_BLOCK ? left : RENGA_HOLDINGS_BLOCK;
    RengaCall(RengaDeviceCopy(digester->device, NULL, RENGA_DEVICE_TO_HOST, digester->staging,
                              from + at, part));
    RengaCall(RengaStreamSynchronize(digester->device, NULL));
    RengaHasherAdd(digester->hasher, digester->staging, part);
  }
  return RENGA_SUCCESS;
}

/* The elements of a rectangle within a rank's part. */
static RengaErrorCode HashPart(Digester *digester, const RengaPersistent *persistent,
                               const RengaRectangle *part, uint64_t *hash)
{
  const RengaTensorSpec *spec = &persistent->spec;
  const RengaRuns runs = RengaRunsOf(spec, part), all = RengaRunsOf(spec, &persistent->part);
  const size_t size = RengaDataTypeSize(spec->type);
  const char *data = persistent->data;
  RengaHasherRestart(digester->hasher, SeedOfTensor(persistent->name));
  if (RengaRectangleEqual(spec, part, &persistent->part))
    RengaCall(
        HashBytes(digester, persistent->host, data, (size_t)RengaPersistentGetBytes(persistent)));
  else
    for (int64_t r = 0; r < runs.count; r++)
      RengaCall(HashBytes(digester, persistent->host,
                          data + (size_t)RengaRunsBefore(&all, RengaRunsAt(&runs, r)) * size,
                          (size_t)runs.length * size));
  *hash = RengaHasherGet(digester->hasher);
  return RENGA_SUCCESS;
}

/* The largest of this rank's copies and of their inverses, which are inverse where all are the
   same. */
static void KeepHash(int64_t row[2], uint64_t hash)
{
  int64_t number;
  memcpy(&number, &hash, sizeof number);
  if (number > row[0]) row[0] = number;
  if (~number > row[1]) row[1] = ~number;
}

/* Hashes of all owned parts that lie in this one. */
static RengaErrorCode HashPersistent(Digester *digester, const RengaPersistent *persistent)
{
  const RengaHoldings *holdings = digester->holdings;
  const int t = RengaHoldingsFind(holdings, persistent->name);
  RengaCheck(t >= 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "no rank owns tensor %s", persistent->name);
  const RengaHeldTensor *tensor = &holdings->tensor[t];
  int64_t left = RengaRectangleCount(&persistent->spec, &persistent->part);
  for (int r = tensor->first; r < tensor->first + tensor->count; r++) {
    const RengaRectangle *part = &holdings->row[r].part;
    if (!RengaRectangleHolds(&persistent->spec, &persistent->part, part)) continue;
    uint64_t hash = 0;
    RengaCall(HashPart(digester, persistent, part, &hash));
    KeepHash(&digester->row[2 * r], hash);
    left -= RengaRectangleCount(&persistent->spec, part);
  }
  RengaCheck(left == 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "rank %d has a copy of tensor %s that is cut inside the parts of its owners: such "
             "copies cannot be compared",
             RengaCommGetRank(holdings->comm), persistent->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode HashMine(Digester *digester, int count, const RengaPersistent list[])
{
  RengaCall(RengaHasherCreate(&digester->hasher));
  if (digester->device) RengaCall(RengaMalloc(RENGA_HOLDINGS_BLOCK, &digester->staging));
  for (int i = 0; i < count; i++) RengaCall(HashPersistent(digester, &list[i]));
  return RENGA_SUCCESS;
}

/* Of one tensor that comes in order. */
static RengaErrorCode AddToChecksum(void *user, int tensor, int64_t first, int64_t bytes,
                                    const void *data)
{
  Digester *digester = user;
  const RengaHeldTensor *row = &digester->holdings->tensor[tensor];
  if (first == 0) RengaHasherRestart(digester->hasher, SeedOfTensor(row->name));
  RengaHasherAdd(digester->hasher, data, (size_t)bytes);
  if (first + bytes == (int64_t)RengaTensorSpecBytes(&row->spec))
    digester->split += RengaHasherGet(digester->hasher);
  return RENGA_SUCCESS;
}

static int CountAlike(const RengaPartCopy copy[], int64_t count, const RengaPartCopy *wanted)
{
  int alike = 0;
  for (int64_t i = 0; i < count; i++) alike += copy[i].hash == wanted->hash;
  return alike;
}

/* Most copies are right, of equally many the first. */
static void FindDeparture(const RengaPartCopy copy[], int64_t count, RengaDeparture *departure)
{
  const RengaPartCopy *right = copy, *wrong = NULL;
  for (int64_t i = 1; i < count; i++)
    if (CountAlike(copy, count, &copy[i]) > CountAlike(copy, count, right)) right = &copy[i];
  for (int64_t i = 0; i < count && !wrong; i++)
    if (copy[i].hash != right->hash) wrong = &copy[i];
  departure->right = *right;
  departure->wrong = wrong ? *wrong : *right;
}

/* This rank's copies of an owned part. */
static RengaErrorCode FindCopies(Digester *digester, const RengaHeldTensor *tensor, int row,
                                 int count, const RengaPersistent list[], int *found,
                                 RengaPartCopy copy[])
{
  const RengaRectangle *part = &digester->holdings->row[row].part;
  for (int i = 0; i < count; i++) {
    if (strcmp(list[i].name, tensor->name) != 0 ||
        !RengaRectangleHolds(&tensor->spec, &list[i].part, part))
      continue;
    RengaPartCopy *own = &copy[(*found)++];
    *own = (RengaPartCopy){.rank = RengaCommGetRank(digester->holdings->comm), .number = i};
    RengaCall(HashPart(digester, &list[i], part, &own->hash));
  }
  return RENGA_SUCCESS;
}

/* Rank 0 looks at the copies of all. */
static RengaErrorCode CompareAll(const RengaHoldings *holdings, const RengaPartCopy copy[],
                                 int found, RengaDeparture *departure)
{
  static const char what[] = "all ranks to say which copy departs";
  char *all = NULL;
  size_t *sizes = NULL, total = 0;
  RengaCall(
      RengaGatherBytes(holdings->ranks, copy, (size_t)found * sizeof *copy, &all, &sizes, what));
  for (int r = 0; sizes && r < RengaCommGetSize(holdings->comm); r++) total += sizes[r];
  if (total > 0)
    FindDeparture((const RengaPartCopy *)(void *)all, (int64_t)(total / sizeof *copy), departure);
  RengaFree(&all);
  RengaFree(&sizes);
  RengaPartCopy pair[2] = {departure->right, departure->wrong};
  RengaCall(RengaCommBroadcast(holdings->comm, pair, sizeof pair, 0, what));
  departure->right = pair[0];
  departure->wrong = pair[1];
  return RENGA_SUCCESS;
}

/* Collective: copies of the part of this row differ. */
static RengaErrorCode NameDeparture(Digester *digester, int row, int count,
                                    const RengaPersistent list[], RengaDeparture *departure)
{
  const RengaHoldings *holdings = digester->holdings;
  const RengaHeldTensor *tensor = holdings->tensor;
  RengaPartCopy *copy = NULL;
  int found = 0;
  while (row >= tensor->first + tensor->count) tensor++;
  RengaErrorCode code = RengaMalloc(count + 1, &copy);
  if (!code) code = FindCopies(digester, tensor, row, count, list, &found, copy);
  code = RengaErrorAgree(holdings->ranks, code);
  if (!code) code = CompareAll(holdings, copy, found, departure);
  RengaFree(&copy);
  RengaCall(code);
  departure->name = tensor->name;
  return RENGA_SUCCESS;
}

/* largest: [n_rows][2] of all ranks. */
static RengaErrorCode CompareCopies(Digester *digester, const int64_t largest[], int count,
                                    const RengaPersistent list[], RengaDeparture *departure)
{
  for (int r = 0; r < digester->holdings->n_rows && !departure->name; r++)
    if (largest[2 * r] != ~largest[2 * r + 1])
      RengaCall(NameDeparture(digester, r, count, list, departure));
  return RENGA_SUCCESS;
}

/* mine: whether this rank could hash its parts. largest: [2 n_rows + 1] of all ranks. */
static RengaErrorCode ShareLargest(const Digester *digester, RengaErrorCode mine, int64_t largest[])
{
  const RengaHoldings *holdings = digester->holdings;
  const int count = 2 * holdings->n_rows + 1;
  RengaRequest request;
  memcpy(largest, digester->row, (size_t)count * sizeof *largest);
  largest[count - 1] = mine;
  RengaCall(RengaCommStartLargest(holdings->comm, count, largest, &request));
  RengaCall(
      RengaCommWait(holdings->comm, &request, "all ranks to add up the digest of the parameters"));
  RengaCall(mine);
  RengaCheck(largest[count - 1] == 0, holdings->ranks, (RengaErrorCode)largest[count - 1],
             "some other rank could not read its parameters");
  return RENGA_SUCCESS;
}

static RengaErrorCode SumChecksums(Digester *digester, const int64_t hashes[], uint64_t *digest)
{
  const RengaHoldings *holdings = digester->holdings;
  const RengaBringing bringing = {
      .taker = RENGA_TAKER_OF_TENSOR, .split_only = true, .take = AddToChecksum, .user = digester};
  int64_t sum = 0;
  bool lost;
  *digest = 0;
  for (int t = 0; t < holdings->n_tensors; t++)
    if (holdings->tensor[t].count == 1) *digest += (uint64_t)hashes[2 * holdings->tensor[t].first];
  if (holdings->n_rows == holdings->n_tensors) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(holdings->ranks,
                            RengaHoldingsBring(holdings, digester->device, &bringing, &lost)));
  memcpy(&sum, &digester->split, sizeof sum);
  RengaCall(RengaCommSumInt64(holdings->comm, 1, &sum, "checksums of tensors in several parts"));
  *digest += (uint64_t)sum;
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeDigest(Digester *digester, int count, const RengaPersistent list[],
                                 int64_t largest[], uint64_t *digest, RengaDeparture *departure)
{
  for (int i = 0; i < 2 * digester->holdings->n_rows + 1; i++) digester->row[i] = INT64_MIN;
  const RengaErrorCode mine = HashMine(digester, count, list);
  RengaCall(ShareLargest(digester, mine, largest));
  RengaCall(CompareCopies(digester, largest, count, list, departure));
  if (!departure->name) RengaCall(SumChecksums(digester, largest, digest));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHoldingsDigest(const RengaHoldings *holdings, RengaDevice device, int count,
                                   const RengaPersistent list[], uint64_t *digest,
                                   RengaDeparture *departure)
{
  Digester digester = {.holdings = holdings};
  int64_t *largest = NULL;
  if (device && !RengaDeviceIsHost(device)) digester.device = device;
  *departure = (RengaDeparture){.name = NULL};
  RengaErrorCode code = RengaMalloc(2 * holdings->n_rows + 1, &digester.row);
  if (!code) code = RengaMalloc(2 * holdings->n_rows + 1, &largest);
  code = RengaErrorAgree(holdings->ranks, code);
  if (!code) code = MakeDigest(&digester, count, list, largest, digest, departure);
  if (digester.hasher) RengaHasherDestroy(&digester.hasher);
  RengaFree(&digester.staging);
  RengaFree(&digester.row);
  RengaFree(&largest);
  RengaCall(code);
  return RENGA_SUCCESS;
}
