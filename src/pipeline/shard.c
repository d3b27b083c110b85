/* Shards: what the replicas of a stage have a share of, instead of all of it (ZeRO: Rajbhandari et
   al., SC 2020).

   With RENGA_SHARD_OPTIMIZER each replica updates the parameters of its blocks of the gradient
   vector, which the reduce-scatter of a bucket leaves there, and has their moments and masters
   only. After the update each gives its block of the values to all others (values.c). A block is
   whole pieces of parameters, so that norms have the same bits, and updates are elementwise:
   nothing of the results depends on who has what. Parameters that other stages use too, and those
   that kernels read as masters, are updated by all replicas, as without shards. */
#include "gradients.h"

/* The one place that knows how many buckets a stage has: those of the settings, and beside shared
   ones one of what all replicas update. */
BucketCounts RengaOutlineCountBuckets_Private(const Outline *outline, int stage)
{
  const int buckets = outline->buckets[stage];
  const bool shards = RengaPlanGetStage(outline->plan, stage)->shape.shard >= RENGA_SHARD_OPTIMIZER;
  return (BucketCounts){.all = buckets + shards, .shared = shards ? buckets : 0};
}

/* The first sharded parameter that begins at `wanted` or behind it. */
static int FindSharedPart(const ChunkSizes *sizes, int64_t wanted)
{
  int low = 0, high = sizes->n_parts;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (sizes->part[middle] < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The sharded parameters [low, high) of bucket b, and its elements behind the whole parameters. */
static void FindSharedRange(const Chunk *chunk, int b, int part[2], int64_t *first, int64_t *count)
{
  const ChunkSizes *sizes = chunk->sizes;
  const int64_t all = sizes->n_parts > 0 ? sizes->part[sizes->n_parts] : 0,
                shared = RengaChunkBuckets_Private(chunk).shared, buckets = shared > 0 ? shared : 1;
  for (int end = 0; end < 2; end++) part[end] = FindSharedPart(sizes, all * (b + end) / buckets);
  *first = part[0] < part[1] ? sizes->part[part[0]] : all;
  *count = part[0] < part[1] ? sizes->part[part[1]] - *first : 0;
}

/* Elements of a gradient buffer. */
void RengaChunkRangeOfBucket_Private(const Chunk *chunk, int b, int64_t *first, int64_t *count)
{
  const ChunkSizes *sizes = chunk->sizes;
  int part[2];
  if (b < RengaChunkBuckets_Private(chunk).shared) {
    FindSharedRange(chunk, b, part, first, count);
    *first += sizes->whole_gradient;
  } else {
    *first = 0;
    *count = sizes->whole_gradient;
  }
}

/* The bucket of byte `at` of the gradients, or of the values of sharded parameters, and the byte
   with which it begins: of shared ones the last that begins there, as those before it are empty. */
int RengaChunkBucketAt_Private(const Chunk *chunk, ParameterRole role, int64_t at, int64_t *begin)
{
  const ChunkSizes *sizes = chunk->sizes;
  const int64_t ahead = role == ROLE_GRADIENT ? sizes->whole_gradient : 0;
  const int shared = RengaChunkBuckets_Private(chunk).shared;
  int low = 0, high = sizes->n_parts > 0 ? shared : 0;
  *begin = 0;
  if (high == 0 || at < RengaChunkRoleBytes_Private(chunk, role, ahead)) return shared;
  while (high > low) {
    const int middle = low + (high - low) / 2;
    const int part = FindSharedPart(sizes, sizes->part[sizes->n_parts] * middle / shared);
    const int64_t first = RengaChunkRoleBytes_Private(chunk, role, ahead + sizes->part[part]);
    if (first <= at)
      low = middle + 1, *begin = first;
    else
      high = middle;
  }
  return low - 1;
}

/* Who updates which elements of bucket b; first: of its elements, behind the whole parameters. */
static RengaErrorCode ShareBucket(const Chunk *chunk, int b, int64_t *first, int64_t *count,
                                  RengaBlocks *blocks)
{
  const ChunkSizes *sizes = chunk->sizes;
  int64_t *begin;
  int part[2], parts = 0;
  FindSharedRange(chunk, b, part, first, count);
  RengaCall(RengaMalloc(part[1] - part[0] + 2, &begin));
  for (int p = part[0]; p < part[1]; p++) begin[parts++] = sizes->part[p] - *first;
  if (parts == 0) parts = 1;
  begin[parts] = *count;
  const RengaErrorCode code = RengaBlocksCreate(chunk->replicas, parts, begin, blocks);
  RengaFree(&begin);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What each replica updates of a bucket, in the order of its blocks. */
static RengaErrorCode AddBucketShares(const Chunk *chunk, int b, int64_t own[])
{
  int64_t first, count, begin, end;
  RengaBlocks blocks;
  RengaCall(ShareBucket(chunk, b, &first, &count, &blocks));
  for (int r = 0; r < chunk->replicas; r++) {
    RengaBlocksGetRange(blocks, r, &begin, &end);
    own[r] += end - begin;
  }
  RengaCall(RengaBlocksDestroy(&blocks));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkCountShares_Private(const Chunk *chunk, int64_t own[])
{
  const int buckets = RengaChunkBuckets_Private(chunk).shared;
  for (int b = 0; chunk->sizes->n_parts > 0 && b < buckets; b++)
    RengaCall(AddBucketShares(chunk, b, own));
  return RENGA_SUCCESS;
}

/* Elements of the gradients that each replica answers for in the sum, and while they are folded;
   else 0. own: what it updates; kept, fold: [replicas], in the order of blocks */
RengaErrorCode RengaChunkCountScattered_Private(const Chunk *chunk, const int64_t own[],
                                                int64_t kept[], int64_t fold[])
{
  const int64_t begin[2] = {0, chunk->sizes->whole_gradient};
  const int groups = RengaChunkGroups_Private(chunk);
  int64_t first, last;
  RengaBlocks blocks;
  for (int r = 0; r < chunk->replicas; r++) kept[r] = fold[r] = 0;
  if (!RengaChunkShardsGradients_Private(chunk)) return RENGA_SUCCESS;
  RengaCall(RengaBlocksCreate(chunk->replicas, 1, begin, &blocks));
  for (int r = 0; r < chunk->replicas; r++) {
    RengaBlocksGetRange(blocks, r, &first, &last);
    kept[r] = own[r] + last - first;
  }
  for (int r = 0; r < chunk->replicas; r++)
    for (int g = 0; g < groups; g++) fold[r] += kept[r / groups * groups + g];
  RengaCall(RengaBlocksDestroy(&blocks));
  return RENGA_SUCCESS;
}

/* The leaves of each group. bounds: [groups + 1] */
void RengaChunkBoundGroups_Private(const Chunk *chunk, int64_t microbatches, int64_t bounds[])
{
  const int64_t leaf = chunk->outline->leaf;
  const int groups = RengaChunkGroups_Private(chunk), each = RengaChunkEach_Private(chunk);
  for (int g = 0; g <= groups; g++) {
    const int64_t first = RengaPlanLeafBound(microbatches, leaf, chunk->replicas, g * each);
    bounds[g] = (first + leaf - 1) / leaf;
  }
}

static int64_t Within(int64_t at, int64_t count)
{
  return at < 0 ? 0 : at > count ? count : at;
}

/* This replica updates elements [begin, end) of the vector of values, which are the next of its
   shares. */
static void TakeShare(Chunk *chunk, const GradientBucket *bucket, int64_t begin, int64_t end)
{
  for (int p = 0; p < chunk->n_parameters; p++) {
    Parameter *parameter = &chunk->parameter[p];
    const int64_t place = parameter->place, at = place - chunk->sizes->whole_count;
    const int64_t first = bucket->first - chunk->sizes->whole_gradient;
    if (!parameter->sharded || at < first || at >= first + bucket->count) continue;
    parameter->from = Within(begin - place, parameter->count);
    parameter->to = Within(end - place, parameter->count);
    parameter->own = bucket->own + (place > begin ? place - begin : 0);
  }
}

/* Of one bucket, after those before it. */
RengaErrorCode RengaChunkMakeShares_Private(Chunk *chunk, int b)
{
  GradientBucket *bucket = &chunk->gradients->bucket[b];
  const int place = RengaChunkPlace_Private(chunk, chunk->replica);
  int64_t first, begin, end;
  RengaCall(ShareBucket(chunk, b, &first, &bucket->count, &bucket->blocks));
  bucket->first = chunk->sizes->whole_gradient + first;
  if (b > 0) {
    RengaBlocksGetRange(bucket[-1].blocks, place, &begin, &end);
    bucket->own = bucket[-1].own + end - begin;
  }
  RengaBlocksGetRange(bucket->blocks, place, &begin, &end);
  first += chunk->sizes->whole_count;
  TakeShare(chunk, bucket, first + begin, first + end);
  return RENGA_SUCCESS;
}

/* Where masters are memory of their own a replica has not all that it rounds. */
bool RengaChunkSharesMasters_Private(const Chunk *chunk)
{
  return chunk->sizes->n_parts > 0 && chunk->replicas > 1 && RengaChunkHasMasters_Private(chunk);
}
