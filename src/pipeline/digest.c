/* A digest of all that lives across steps, which does not depend on the layout. */
#include "gradients.h"
#include "renga/private/holdings.h"

/* The chunk of this rank whose memory has the tensor. */
static const Chunk *ChunkWithTensor(const Rank *rank, const RengaPersistent *tensor)
{
  const Chunk *found = rank->chunk;
  for (int c = 1; c < rank->n_chunks; c++)
    if ((const char *)tensor->data >= rank->chunk[c].at->persistent) found = &rank->chunk[c];
  return found;
}

/* Stage and replica that a copy is in, where the copy is on this rank; else zeros. */
static void FindStandpoint(const Rank *rank, const RengaPartCopy *copy, int64_t standpoint[2])
{
  if (copy->rank != RengaCommGetRank(rank->all)) return;
  const Chunk *chunk = ChunkWithTensor(rank, &rank->persistents.row[copy->number]);
  standpoint[0] = chunk->stage;
  standpoint[1] = chunk->replica;
}

/* Collective: copies of a tensor differ. */
static RengaErrorCode SayDeparture(RengaPipeline pipeline, const RengaDeparture *departure)
{
  const RengaPartCopy *right = &departure->right, *wrong = &departure->wrong;
  int64_t of[4] = {0};
  FindStandpoint(pipeline->rank, wrong, &of[0]);
  FindStandpoint(pipeline->rank, right, &of[2]);
  RengaCall(RengaCommSumInt64(pipeline->rank->all, 4, of, "all ranks to say which copy departs"));
  RengaRaise(
      pipeline->hdr.comm, RENGA_ERR_INTERNAL,
      "rank %lld (stage %lld, replica %lld) departs from rank %lld (stage %lld, replica %lld): "
      "%s is not the same there. Copies part where a program writes to one of them alone, or "
      "where memory fails",
      (long long)wrong->rank, (long long)of[0], (long long)of[1], (long long)right->rank,
      (long long)of[2], (long long)of[3], departure->name);
}

/*@
   RengaPipelineGetDigest - a checksum of all parameters, moments and states

   Collective

   Input:
   . pipeline - the pipeline, set up

   Output:
   . digest - the sum modulo 2^64 of XXH64(bytes of the tensor; seed XXH64(name)), the same on every
     rank and for every layout that has the same bits, whichever parts of the tensors the ranks have

   Errors: RENGA_ERR_INTERNAL where copies of a tensor (on replicas, or on stages that share it) are
   not the same; the message names a rank that departs, and the tensor.

   See also: RengaPipelineGetParameter(), RengaPipelineGetPersistents(), RengaCheckpointWrite()
@*/
RengaErrorCode RengaPipelineGetDigest(RengaPipeline pipeline, uint64_t *digest)
{
  RengaHoldings holdings;
  RengaDeparture departure;
  uint64_t sum;
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  RengaCheckPointer(digest);
  RengaCall(RengaPipelineAwaitValues_Private(pipeline));
  const Persistents *list = &pipeline->rank->persistents;
  RengaCall(RengaHoldingsCreate(pipeline->rank->all, list->count, list->row, NULL, &holdings));
  RengaErrorCode code =
      RengaHoldingsDigest(&holdings, pipeline->device, list->count, list->row, &sum, &departure);
  if (!code && departure.name) code = SayDeparture(pipeline, &departure);
  RengaHoldingsFree(&holdings);
  RengaCall(code);
  *digest = sum;
  return RENGA_SUCCESS;
}
