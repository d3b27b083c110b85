/* Buckets: ranges of the gradient vector, of whole parameters, that are summed over the replicas of
   the stage each by itself, so that some may be under way while others are not yet there. Within a
   bucket each replica adds up a block, of whole pieces of the parameters' norms. Which bucket an
   element is in changes nothing of its sum. */
#include "pipelineimpl.h"

/* The adder of the chunk's vectors (rengacomm.h). */
RengaErrorCode RengaChunkAdd_Private(void *user, RengaDataType type, int64_t count, void *y,
                                     const void *x)
{
  Chunk *chunk = user;
  (void)type;
  RengaCall(RengaDeviceAdd(chunk->device, NULL, count, y, x));
  RengaCall(RengaCommProgress(chunk->pipeline->rank.all));
  return RENGA_SUCCESS;
}

/* Work memory of one bucket, the same for all. */
static size_t WorkOfBucket(Chunk *chunk)
{
  return chunk->gradients.work_bytes / (size_t)chunk->gradients.n_buckets;
}

/* The next parameter whose gradients begin at `wanted` or behind it. */
static int FindParameterAt(Chunk *chunk, int64_t wanted)
{
  int p = 0;
  while (p < chunk->n_parameters && chunk->parameter[p].gradient < wanted) p++;
  return p;
}

/* begin: [n_parameters + 1] room for where the parts of the bucket begin, counted from its own
   begin. */
static RengaErrorCode SetUpBucket(Chunk *chunk, int b, int64_t begin[])
{
  GradientBucket *bucket = &chunk->gradients.bucket[b];
  const int64_t count = chunk->sizes.gradient_count, buckets = chunk->gradients.n_buckets;
  const int first = FindParameterAt(chunk, count * b / buckets);
  const int last = FindParameterAt(chunk, count * (b + 1) / buckets);
  int64_t parts = 0;
  bucket->first = first < chunk->n_parameters ? chunk->parameter[first].gradient : count;
  const int64_t end = last < chunk->n_parameters ? chunk->parameter[last].gradient : count;
  bucket->count = end - bucket->first;
  bucket->work = chunk->gradients.work + (size_t)b * WorkOfBucket(chunk);
  for (int p = first; p < last; p++)
    if (chunk->parameter[p].trained) begin[parts++] = chunk->parameter[p].gradient - bucket->first;
  if (parts == 0) begin[parts++] = 0;
  begin[parts] = bucket->count;
  RengaCall(RengaBlocksCreate(chunk->replicas, parts, begin, &bucket->blocks));
  return RENGA_SUCCESS;
}

/* After the work memory is there. The same on all replicas. */
RengaErrorCode RengaChunkSetUpBuckets_Private(Chunk *chunk)
{
  int64_t *begin;
  RengaCall(RengaMalloc(chunk->gradients.n_buckets, &chunk->gradients.bucket));
  RengaCall(RengaMalloc(chunk->n_parameters + 2, &begin));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int b = 0; b < chunk->gradients.n_buckets && !code; b++) code = SetUpBucket(chunk, b, begin);
  RengaFree(&begin);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Where a pass has ended in the middle of its messages they are given up. */
RengaErrorCode RengaChunkFreeBuckets_Private(Chunk *chunk)
{
  for (int b = 0; chunk->gradients.bucket && b < chunk->gradients.n_buckets; b++) {
    GradientBucket *bucket = &chunk->gradients.bucket[b];
    RengaCommSumCancel(&bucket->sum, "ranks to give up the sum of their gradients");
    RengaCall(RengaBlocksDestroy(&bucket->blocks));
  }
  RengaFree(&chunk->gradients.bucket);
  return RENGA_SUCCESS;
}

static void DescribeReduction(Chunk *chunk, size_t size, char text[])
{
  snprintf(text, size,
           "rank %d (stage %d, replica %d) adds up gradients with the other replicas in step %lld",
           RengaCommGetRank(chunk->pipeline->rank.all), chunk->stage, chunk->replica,
           (long long)chunk->pipeline->step);
}

/* A sum that found no memory has sent nothing, and is begun once more. */
RengaErrorCode RengaChunkBeginBucket_Private(Chunk *chunk, Pass *pass, int number)
{
  GradientBucket *bucket = &chunk->gradients.bucket[number];
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  RengaErrorCode code;
  int attempt = 0;
  if (chunk->replicas == 1 || bucket->count == 0 ||
      !RengaSettingsIsOrdered_Private(chunk->outline->settings))
    return RENGA_SUCCESS;
  for (int p = 0; p < chunk->gradients.n_pieces; p++) {
    piece[p] = chunk->gradients.piece[p];
    piece[p].data = (float *)piece[p].data + bucket->first;
  }
  const RengaCommSumTask task = {.blocks = bucket->blocks,
                                 .type = RENGA_FLOAT32,
                                 .n_leaves =
                                     RengaOutlineLeaves_Private(chunk->outline, pass->microbatches),
                                 .leaves = chunk->gradients.leaf_bounds,
                                 .pieces = piece,
                                 .result = chunk->gradients.sum + bucket->first,
                                 .work = bucket->work,
                                 .work_bytes = WorkOfBucket(chunk),
                                 .adder = {.begin = RengaChunkAdd_Private, .user = chunk}};
  do code = RengaCommSumBegin(chunk->group, &task, &bucket->sum);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode EndOrdered(Chunk *chunk, Pass *pass, GradientBucket *bucket, const char *what)
{
  RengaErrorCode code;
  int attempt = 0;
  bool whole, again;
  do {
    code = RengaCommSumEnd(&bucket->sum, what, &whole);
    again = bucket->sum && RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt);
  } while (again);
  if (!bucket->sum) code = RengaPipelineNote_Private(chunk->pipeline, pass, code);
  RengaCall(code);
  if (!whole) pass->failed = true;
  return RENGA_SUCCESS;
}

/* Fails only where messages are left under way. */
RengaErrorCode RengaChunkEndBucket_Private(Chunk *chunk, Pass *pass, int number)
{
  GradientBucket *bucket = &chunk->gradients.bucket[number];
  char what[160];
  if (chunk->replicas == 1 || bucket->count == 0) return RENGA_SUCCESS;
  DescribeReduction(chunk, sizeof what, what);
  if (RengaSettingsIsOrdered_Private(chunk->outline->settings))
    RengaCall(EndOrdered(chunk, pass, bucket, what));
  else
    RengaCall(RengaCommSumUnordered(chunk->group, bucket->count,
                                    chunk->gradients.sum + bucket->first, what));
  return RENGA_SUCCESS;
}
