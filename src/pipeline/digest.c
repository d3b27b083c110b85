/* A digest of all that lives across steps, which does not depend on the layout. */
#include "pipelineimpl.h"
#include <string.h>

static RengaErrorCode HashTensor(RengaPipeline pipeline, const RengaPersistent *tensor,
                                 uint64_t *hash)
{
  const size_t bytes = RengaTensorSpecBytes(&tensor->spec);
  const uint64_t seed = RengaHash(tensor->name, strlen(tensor->name), 0);
  if (RengaDeviceIsHost(pipeline->device)) {
    *hash = RengaHash(tensor->data, bytes, seed);
    return RENGA_SUCCESS;
  }
  char *copy;
  RengaCall(RengaMalloc(bytes + 1, &copy));
  RengaErrorCode code =
      RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST, copy, tensor->data, bytes);
  if (code == RENGA_SUCCESS) code = RengaStreamSynchronize(pipeline->device, NULL);
  if (code == RENGA_SUCCESS) *hash = RengaHash(copy, bytes, seed);
  RengaFree(&copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of the network, over all stages. */
static int CountTensors(RengaPipeline pipeline)
{
  int count = pipeline->outline.n_parameters * (1 + pipeline->rank.n_moments);
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->graph); v++)
    count += RengaGraphGetValue(pipeline->graph, v)->kind == RENGA_VALUE_STATE;
  return count;
}

/* This rank's own hash of each tensor that it holds; row: [count][2] hash and inverse, the least
   number in both where there is none. Of several copies here the largest, as of those elsewhere. */
static RengaErrorCode HashHeld(RengaPipeline pipeline, int count, int64_t row[])
{
  const Persistents *list = &pipeline->rank.persistents;
  for (int i = 0; i < 2 * count; i++) row[i] = INT64_MIN;
  for (int t = 0; t < list->count; t++) {
    uint64_t hash = 0;
    RengaCall(HashTensor(pipeline, &list->row[t], &hash));
    int64_t *at = &row[2 * list->number[t]], value;
    memcpy(&value, &hash, sizeof hash);
    if (value > at[0]) at[0] = value;
    if (~value > at[1]) at[1] = ~value;
  }
  return RENGA_SUCCESS;
}

/* One tensor in one stage of a rank. */
typedef struct {
  int64_t held, rank, stage, replica;
  uint64_t hash;
  char name[160];
} Copy;

/* How many of the copies have the same bits. */
static int CountAlike(const Copy copy[], int count, int wanted)
{
  int alike = 0;
  for (int i = 0; i < count; i++) alike += copy[i].held && copy[i].hash == copy[wanted].hash;
  return alike;
}

/* Most copies are right, of equally many the first. */
static RengaErrorCode RaiseDeparture(RengaPipeline pipeline, const Copy copy[], int count)
{
  int right = -1, wrong = -1;
  for (int i = 0; i < count; i++)
    if (copy[i].held &&
        (right < 0 || CountAlike(copy, count, i) > CountAlike(copy, count, right)))
      right = i;
  for (int i = 0; i < count && wrong < 0; i++)
    if (copy[i].held && copy[i].hash != copy[right].hash) wrong = i;
  RengaRaise(
      pipeline->hdr.comm, RENGA_ERR_INTERNAL,
      "rank %lld (stage %lld, replica %lld) departs from rank %lld (stage %lld, replica %lld): "
      "%s is not the same there. Copies part where a program writes to one of them alone, or "
      "where memory fails",
      (long long)copy[wrong].rank, (long long)copy[wrong].stage, (long long)copy[wrong].replica,
      (long long)copy[right].rank, (long long)copy[right].stage, (long long)copy[right].replica,
      copy[right].name);
}

/* The chunk of this rank whose memory has the tensor. */
static const Chunk *ChunkOf(const Rank *rank, const RengaPersistent *tensor)
{
  const Chunk *found = rank->chunk;
  for (int c = 1; c < rank->n_chunks; c++)
    if ((const char *)tensor->data >= rank->chunk[c].at.persistent) found = &rank->chunk[c];
  return found;
}

/* This rank's copies of a tensor. */
static RengaErrorCode FindCopies(RengaPipeline pipeline, int number, Copy copy[])
{
  const Rank *rank = &pipeline->rank;
  int found = 0;
  for (int t = 0; t < rank->persistents.count; t++) {
    const RengaPersistent *tensor = &rank->persistents.row[t];
    if (rank->persistents.number[t] != number) continue;
    const Chunk *chunk = ChunkOf(rank, tensor);
    Copy *own = &copy[found++];
    *own = (Copy){.held = 1,
                  .rank = RengaCommGetRank(rank->all),
                  .stage = chunk->stage,
                  .replica = chunk->replica};
    snprintf(own->name, sizeof own->name, "%s", tensor->name);
    RengaCall(HashTensor(pipeline, tensor, &own->hash));
  }
  return RENGA_SUCCESS;
}

/* Collective: the tensor of this number differs between its holders. */
static RengaErrorCode NameDeparture(RengaPipeline pipeline, int number)
{
  const Rank *rank = &pipeline->rank;
  const int each = RengaPlanGetStage(pipeline->plan, 0)->shape.chunks;
  const int count = each * RengaCommGetSize(rank->all);
  Copy *mine = NULL, *all = NULL;
  RengaErrorCode code = RengaMalloc(each, &mine);
  if (!code) code = RengaMalloc(count, &all);
  if (!code) code = FindCopies(pipeline, number, mine);
  code = RengaErrorAgree(pipeline->hdr.comm, code);
  if (!code)
    code = RengaCommGather(rank->all, mine, (size_t)each * sizeof *mine, all, -1,
                           "all ranks to say which copy departs");
  if (!code) code = RaiseDeparture(pipeline, all, count);
  RengaFree(&mine);
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* row: [count][2] the largest hashes and inverses of all ranks. */
static RengaErrorCode AddHashes(RengaPipeline pipeline, int count, const int64_t row[],
                                uint64_t *digest)
{
  uint64_t sum = 0;
  for (int t = 0; t < count; t++) {
    if (row[2 * t] == INT64_MIN && row[2 * t + 1] == INT64_MIN) continue; /* in no stage */
    if (row[2 * t] != ~row[2 * t + 1]) RengaCall(NameDeparture(pipeline, t));
    sum += (uint64_t)row[2 * t];
  }
  *digest = sum;
  return RENGA_SUCCESS;
}

static RengaErrorCode Compare(RengaPipeline pipeline, int count, int64_t row[], uint64_t *digest)
{
  RengaRequest request;
  const RengaErrorCode mine = HashHeld(pipeline, count, row);
  row[2 * count] = mine;
  RengaCall(RengaCommStartLargest(pipeline->rank.all, 2 * count + 1, row, &request));
  RengaCall(RengaCommWait(pipeline->rank.all, &request,
                          "all ranks to add up the digest of the parameters"));
  RengaCall(mine);
  RengaCheck(row[2 * count] == 0, pipeline->hdr.comm, (RengaErrorCode)row[2 * count],
             "some other rank could not read its parameters");
  RengaCall(AddHashes(pipeline, count, row, digest));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetDigest - a checksum of all parameters, moments and states

   Collective

   Input:
   . pipeline - the pipeline, set up

   Output:
   . digest - the sum modulo 2^64 of XXH64(bytes of the tensor; seed XXH64(name)), the same on every
     rank and for every layout that has the same bits

   Errors: RENGA_ERR_INTERNAL where copies of a tensor (on replicas, or on stages that share it) are
   not the same; the message names a rank that departs, and the tensor.
@*/
RengaErrorCode RengaPipelineGetDigest(RengaPipeline pipeline, uint64_t *digest)
{
  int64_t *row = NULL;
  RengaCall(RengaPipelineCheckReady_Private(pipeline));
  RengaCheckPointer(digest);
  const int count = CountTensors(pipeline);
  RengaErrorCode code = RengaErrorAgree(pipeline->hdr.comm, RengaMalloc(2 * count + 1, &row));
  if (!code) code = Compare(pipeline, count, row, digest);
  RengaFree(&row);
  RengaCall(code);
  return RENGA_SUCCESS;
}
