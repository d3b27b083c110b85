/* Gradients of parameters. All uses of a stage lie one after the other in a flat vector. A leaf of
   the fixed tree (rengacomm.h) is the sum of a few micro-batches: the first one's vector is written
   straight into a free buffer, the others' are added to it, each use right after its kernel. Leaves
   that are whole are added up in pairs. A leaf of one micro-batch is added to its left neighbour's
   buffer at once. In the unordered mode there is one buffer, to which all are added. */
#include "gradients.h"
#include "rows.h"

static int64_t BufferBytes(const Chunk *chunk)
{
  return RengaGradientBytes_Private(chunk, chunk->sizes->gradient_count);
}

static char *BufferOfLevel(Chunk *chunk, int number)
{
  return chunk->at->gradients + number * BufferBytes(chunk);
}

/* Before the first backward of a step. */
RengaErrorCode RengaChunkBeginGradients_Private(Chunk *chunk)
{
  chunk->gradients->valid = chunk->gradients->settled = chunk->gradients->early = false;
  chunk->gradients->n_pieces = chunk->gradients->n_begun = chunk->gradients->n_merges = 0;
  for (int b = 0; b < chunk->memory->n_buffers && !RengaChunkShardsGradients_Private(chunk); b++)
    chunk->gradients->piece[b] = (RengaPartialSum){.data = BufferOfLevel(chunk, b)};
  chunk->gradients->sum = BufferOfLevel(chunk, 0);
  if (!RengaChunkIsOrdered_Private(chunk))
    RengaCall(RengaDeviceSetBytes(chunk->device, NULL, chunk->gradients->sum, 0,
                                  (size_t)BufferBytes(chunk)));
  return RENGA_SUCCESS;
}

/* Micro-batch number is the last of its leaf. */
static bool EndsLeaf(const Chunk *chunk, const Pass *pass, int64_t number)
{
  return (number + 1) % chunk->outline->leaf == 0 || number + 1 == pass->microbatches;
}

/* Before the backward of micro-batch number: where its gradients go, and whether they are added
   there. */
RengaErrorCode RengaChunkTakeGradients_Private(Chunk *chunk, const Pass *pass, int64_t number,
                                               bool *adds)
{
  char *gradients = chunk->gradients->sum;
  *adds = !RengaChunkShardsGradients_Private(chunk);
  if (*adds && RengaChunkIsOrdered_Private(chunk)) {
    const bool alone = number % chunk->outline->leaf == 0 && EndsLeaf(chunk, pass, number);
    RengaCall(RengaCommTreeTake(RengaOutlineLeaves_Private(chunk->outline, pass->microbatches),
                                number / chunk->outline->leaf, alone, &chunk->gradients->n_pieces,
                                chunk->gradients->piece, &chunk->gradients->taken, adds));
    gradients = chunk->gradients->piece[chunk->gradients->taken].data;
  }
  chunk->at->region[REGION_GRADIENTS] = gradients;
  return RENGA_SUCCESS;
}

/* Whether the backward of micro-batch number, the next of the stage, will add its gradients: what
   is made again for it is made before it takes them. */
RengaErrorCode RengaChunkWillAdd_Private(const Chunk *chunk, const Pass *pass, int64_t number,
                                         bool *adds)
{
  const GradientVector *gradients = chunk->gradients;
  const int64_t leaves = RengaOutlineLeaves_Private(chunk->outline, pass->microbatches);
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES + 1];
  int count = gradients->n_pieces, at;
  *adds = !RengaChunkShardsGradients_Private(chunk);
  if (!*adds || !RengaChunkIsOrdered_Private(chunk)) return RENGA_SUCCESS;
  for (int p = 0; p <= count && p < chunk->memory->n_buffers; p++) piece[p] = gradients->piece[p];
  const bool alone = number % chunk->outline->leaf == 0 && EndsLeaf(chunk, pass, number);
  RengaCall(
      RengaCommTreeTake(leaves, number / chunk->outline->leaf, alone, &count, piece, &at, adds));
  return RENGA_SUCCESS;
}

/* After the backward of micro-batch number. */
RengaErrorCode RengaChunkCloseGradients_Private(Chunk *chunk, const Pass *pass, int64_t number)
{
  if (chunk->gradients->early || RengaChunkShardsGradients_Private(chunk))
    return RENGA_SUCCESS; /* bucket by bucket, before */
  if (!RengaChunkIsOrdered_Private(chunk) || !EndsLeaf(chunk, pass, number)) return RENGA_SUCCESS;
  RengaSpan span;
  const RengaCommAdder adder = {.begin = RengaChunkAdd_Private, .user = chunk};
  RengaCall(RengaPipelineBeginTimed_Private(chunk->pipeline, EVENT_ACCUMULATE, &span));
  const RengaErrorCode code = RengaCommTreeClose(
      RengaOutlineLeaves_Private(chunk->outline, pass->microbatches), chunk->gradients->taken,
      &chunk->gradients->n_pieces, chunk->gradients->piece, chunk->storage.gradient,
      chunk->sizes->gradient_count, &adder);
  RengaCall(RengaPipelineEndTimed_Private(chunk->pipeline, EVENT_ACCUMULATE, span, 0, "accumulate",
                                          code));
  return RENGA_SUCCESS;
}

/* Where the pass has failed the sum is made of whatever lies in the buffers. */
static void InventPieces(Chunk *chunk, int64_t leaves)
{
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  const int64_t *bounds = chunk->gradients->leaf_bounds;
  chunk->gradients->n_pieces =
      RengaCommTreePieces(leaves, bounds[chunk->replica], bounds[chunk->replica + 1], piece);
  for (int p = 0; p < chunk->gradients->n_pieces; p++) {
    chunk->gradients->piece[p] = piece[p];
    chunk->gradients->piece[p].data = BufferOfLevel(chunk, p);
  }
}

/* After the last backward: the pieces that this replica gives to the sum, and where that will
   be. */
static RengaErrorCode SettlePieces(Chunk *chunk, const Pass *pass)
{
  GradientVector *gradients = chunk->gradients;
  const int64_t leaves = RengaOutlineLeaves_Private(chunk->outline, pass->microbatches);
  if (!RengaChunkIsOrdered_Private(chunk)) return RENGA_SUCCESS;
  for (int r = 0; r <= chunk->replicas; r++)
    gradients->leaf_bounds[r] = RengaPlanBound(leaves, chunk->replicas, r);
  if (pass->failed) InventPieces(chunk, leaves);
  if (gradients->n_pieces > 0) gradients->sum = gradients->piece[0].data;
  RengaCheck(chunk->replicas > 1 || gradients->n_pieces <= 1, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%d sums of gradients are left of one", gradients->n_pieces);
  return RENGA_SUCCESS;
}

/* The adder that remembers what would be added. */
static RengaErrorCode RememberMerge(void *user, RengaDataType type, int64_t count, void *y,
                                    const void *x)
{
  GradientVector *gradients = user;
  (void)type, (void)count;
  gradients->merge[gradients->n_merges++] = (GradientMerge){y, x};
  return RENGA_SUCCESS;
}

/* Before the last backward where that begins the sums: the pieces are what they will be after it,
   and what has to be added for that is done bucket by bucket. */
RengaErrorCode RengaChunkCloseEarly_Private(Chunk *chunk, const Pass *pass)
{
  GradientVector *gradients = chunk->gradients;
  const RengaCommAdder adder = {.begin = RememberMerge, .user = gradients};
  RengaCall(RengaChunkAwaitValues_Private(chunk));
  if (RengaChunkIsOrdered_Private(chunk))
    RengaCall(RengaCommTreeClose(RengaOutlineLeaves_Private(chunk->outline, pass->microbatches),
                                 gradients->taken, &gradients->n_pieces, gradients->piece,
                                 chunk->storage.gradient, chunk->sizes->gradient_count, &adder));
  RengaCall(SettlePieces(chunk, pass));
  gradients->settled = gradients->early = true;
  return RENGA_SUCCESS;
}

/* Rows of tables come after what backward may have begun, in the order of all replicas. */
static RengaErrorCode BeginBucketSum(Chunk *chunk, Pass *pass, int bucket)
{
  const bool early = RengaChunkIsEarly_Private(chunk);
  if (early) RengaCall(RengaChunkBeginRest_Private(chunk, pass));
  RengaCall(RengaChunkBeginRows_Private(chunk, pass));
  if (!early) RengaCall(RengaChunkBeginBucket_Private(chunk, pass, bucket));
  return RENGA_SUCCESS;
}

/* After the last backward, bucket by bucket: what is begun becomes the whole batch's, use by use.
   Without overlap it ends here, but for one that is gathered by itself. Fails only where messages
   are left under way. */
RengaErrorCode RengaChunkReduceGradients_Private(Chunk *chunk, Pass *pass, int bucket)
{
  const bool ends = !chunk->outline->settings->overlap;
  RengaCall(RengaChunkEndOldGathers_Private(chunk, pass));
  if (RengaChunkShardsGradients_Private(chunk)) return RENGA_SUCCESS; /* round by round */
  if (!chunk->gradients->settled) RengaCall(SettlePieces(chunk, pass));
  chunk->gradients->settled = true;
  chunk->gradients->early = false;
  RengaCall(BeginBucketSum(chunk, pass, bucket));
  if (ends && !chunk->gradients->bucket[bucket].apart)
    RengaCall(RengaChunkEndBucket_Private(chunk, pass, bucket));
  return RENGA_SUCCESS;
}
