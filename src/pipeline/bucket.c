/* Buckets: ranges of the gradient vector, of whole parameters, that are summed over the replicas of
   the stage each by itself: an action of the list begins each of them, comm moves them while the
   rank goes on, the update waits for all. Within a bucket each replica adds up a block, of whole
   pieces of the parameters' norms, and gets the others', at once or by an action of its own. Which
   bucket an element is in changes nothing of its sum. */
#include "gradients.h"
#include "rows.h"
#include "renga/private/fault.h"

enum {
  UNORDERED_MOST = 4 * 1024 * 1024, /* bytes of an unordered sum that are copied at a time */
  SHARED_LEAST = 64 * 1024          /* of a gradient vector that replicas of a node share */
};
static const char reduces[] = "adds up gradients with the other replicas in";

/* The adder of the chunk's vectors (rengacomm.h). */
RengaErrorCode RengaChunkAdd_Private(void *user, RengaDataType type, int64_t count, void *y,
                                     const void *x)
{
  Chunk *chunk = user;
  RengaCall(RengaDeviceAdd(chunk->device, NULL, type, count, y, x));
  RengaCall(RengaCommProgress(chunk->pipeline->rank->all));
  return RENGA_SUCCESS;
}

/* Work memory of one bucket, the same for all; of those that are folded two have some at a time. */
size_t RengaChunkWorkOfBucket_Private(const Chunk *chunk)
{
  return chunk->memory->work_bytes /
         (size_t)(RengaChunkShardsGradients_Private(chunk) ? 2 : chunk->memory->n_buckets);
}

/* The next parameter whose gradients begin at `wanted` or behind it. */
static int FindParameterAt(Chunk *chunk, int64_t wanted)
{
  int p = 0;
  while (p < chunk->n_parameters && chunk->parameter[p].gradient < wanted) p++;
  return p;
}

/* Of a stage that shards nothing. begin: [n_parameters + 1] room for where the parts of the bucket
   begin, counted from its own begin. */
static RengaErrorCode SetUpPlainBucket(Chunk *chunk, int b, int64_t begin[])
{
  GradientBucket *bucket = &chunk->gradients->bucket[b];
  const int64_t count = chunk->sizes->gradient_count, buckets = chunk->memory->n_buckets;
  const int first = FindParameterAt(chunk, count * b / buckets);
  const int last = FindParameterAt(chunk, count * (b + 1) / buckets);
  int64_t parts = 0;
  bucket->first = first < chunk->n_parameters ? chunk->parameter[first].gradient : count;
  const int64_t end = last < chunk->n_parameters ? chunk->parameter[last].gradient : count;
  bucket->count = end - bucket->first;
  for (int p = first; p < last; p++)
    if (chunk->parameter[p].trained && !chunk->parameter[p].sparse)
      begin[parts++] = chunk->parameter[p].gradient - bucket->first;
  if (parts == 0) begin[parts++] = 0;
  begin[parts] = bucket->count;
  RengaCall(RengaBlocksCreate(chunk->replicas, parts, begin, &bucket->blocks));
  return RENGA_SUCCESS;
}

/* Where others are sharded: parameters that are not, and further uses. All replicas get all of
   it. */
static RengaErrorCode SetUpWholeBucket(Chunk *chunk)
{
  GradientBucket *bucket = &chunk->gradients->bucket[chunk->memory->n_shared];
  const int64_t begin[2] = {0, chunk->sizes->whole_gradient};
  bucket->count = begin[1];
  bucket->own = chunk->memory->own;
  RengaCall(RengaBlocksCreate(chunk->replicas, 1, begin, &bucket->blocks));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpBlocks(Chunk *chunk, int b, int64_t begin[])
{
  const int shared = chunk->memory->n_shared;
  BucketKind *kind = &chunk->gradients->bucket[b].kind;
  if (b < shared)
    *kind = BUCKET_SHARED;
  else
    *kind = shared > 0 ? BUCKET_WHOLE : BUCKET_PLAIN;
  if (*kind == BUCKET_PLAIN) RengaCall(SetUpPlainBucket(chunk, b, begin));
  if (*kind == BUCKET_WHOLE) RengaCall(SetUpWholeBucket(chunk));
  if (*kind == BUCKET_SHARED) RengaCall(RengaChunkMakeShares_Private(chunk, b));
  return RENGA_SUCCESS;
}

/* Messages of a sum of so many micro-batches, and bytes of the longest. */
static int CountMessages(Chunk *chunk, int64_t microbatches, size_t *bytes)
{
  const int each = RengaChunkEach_Private(chunk); /* all, or that add up by themselves first */
  const bool folds = RengaChunkShardsGradients_Private(chunk); /* a piece of each replica */
  const int64_t leaves = folds ? each : RengaOutlineLeaves_Private(chunk->outline, microbatches);
  int64_t *bounds = chunk->gradients->leaf_bounds;
  for (int r = 0; r <= each; r++) bounds[r] = RengaPlanBound(leaves, each, r);
  return RengaCommTreePlaces(RengaChunkInner_Private(chunk), leaves, bounds,
                             RengaChunkWorkOfBucket_Private(chunk), bytes);
}

/* Of a sum of what groups have. */
static int CountMessagesAcross(Chunk *chunk, int64_t microbatches, size_t *bytes)
{
  int64_t *bounds = chunk->gradients->leaf_bounds;
  RengaChunkBoundGroups_Private(chunk, microbatches, bounds);
  return RengaCommTreePlaces(chunk->gradients->fold.across,
                             RengaOutlineLeaves_Private(chunk->outline, microbatches), bounds,
                             RengaChunkWorkOfBucket_Private(chunk), bytes);
}

/* The most messages of a sum, no fewer than were there, and bytes of the longest, of all
   batches. */
static int CountMostMessages(Chunk *chunk, bool across, int most, size_t *room)
{
  const Outline *outline = chunk->outline;
  for (int i = 0; i < outline->n_batches; i++) {
    const int64_t microbatches = RengaPlanMicrobatches(outline->plan, outline->batch[i]);
    size_t bytes;
    const int count = across ? CountMessagesAcross(chunk, microbatches, &bytes)
                             : CountMessages(chunk, microbatches, &bytes);
    if (count > most) most = count;
    if (bytes > *room) *room = bytes;
  }
  return most;
}

/* Blocks of a vector that begin there. */
static RengaErrorCode MakeBlocks(int count, const int64_t bounds[], RengaBlocks *blocks)
{
  RengaCall(RengaBlocksCreate(count, count, bounds, blocks));
  RengaCall(RengaBlocksSetBounds(*blocks, bounds));
  return RENGA_SUCCESS;
}

/* Within a group its replicas have blocks that consist of those of all replicas that are alike in
   their groups; these are parts of it. */
static RengaErrorCode MakeGroupBlocks(Chunk *chunk, GradientBucket *bucket)
{
  const int groups = RengaChunkGroups_Private(chunk), each = RengaChunkEach_Private(chunk);
  const int own = chunk->replica % each * groups;
  int64_t *bounds, last;
  RengaCall(RengaMalloc(each + groups + 2, &bounds));
  int64_t *part = bounds + each + 1;
  for (int r = 0; r < each; r++) RengaBlocksGetRange(bucket->blocks, r * groups, &bounds[r], &last);
  bounds[each] = bucket->count;
  for (int g = 0; g < groups; g++)
    RengaBlocksGetRange(bucket->blocks, own + g, &part[g], &part[g + 1]);
  for (int g = groups; g >= 0; g--) part[g] -= part[0];
  RengaErrorCode code = MakeBlocks(each, bounds, &bucket->share);
  if (!code) code = MakeBlocks(groups, part, &bucket->parts);
  bucket->own_share = bucket->own;
  if (bucket > chunk->gradients->bucket) {
    int64_t begin, end;
    RengaBlocksGetRange(bucket[-1].share, chunk->replica % each, &begin, &end);
    bucket->own_share = bucket[-1].own_share + end - begin;
  }
  RengaFree(&bounds);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of groups that add up by themselves first. */
static RengaErrorCode SetUpGroupSums(Chunk *chunk, GradientBucket *bucket)
{
  RengaTransport transport = chunk->pipeline->rank->transport;
  const GradientFold *fold = &chunk->gradients->fold;
  size_t room = 0;
  if (!fold->inner) return RENGA_SUCCESS;
  RengaCall(MakeGroupBlocks(chunk, bucket));
  if (bucket->count == 0) return RENGA_SUCCESS;
  int places = CountMostMessages(chunk, false, 1, &room);
  RengaCall(RengaConvoyCreate_Private(transport, fold->inner, places, room, &bucket->inner));
  room = 0;
  places = CountMostMessages(chunk, true, 1, &room);
  RengaCall(RengaConvoyCreate_Private(transport, fold->across, places, room, &bucket->across));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeConvoy(Chunk *chunk, GradientBucket *bucket)
{
  const bool ordered = RengaChunkIsOrdered_Private(chunk);
  size_t room = (size_t)RengaGradientBytes_Private(chunk, bucket->count);
  int places = 1;
  if (chunk->replicas == 1 || bucket->count == 0) return RENGA_SUCCESS;
  if (!ordered && room > UNORDERED_MOST) room = UNORDERED_MOST;
  if (!ordered && bucket->kind == BUCKET_SHARED)
    places = RengaCommGatherPlaces(chunk->group, bucket->blocks, chunk->storage.value, &room);
  if (ordered) {
    const int gathers = RengaCommGatherPlaces(RengaChunkOwners_Private(chunk), bucket->blocks,
                                              chunk->storage.gradient, &room);
    places =
        chunk->gradients->fold.inner ? gathers : CountMostMessages(chunk, false, gathers, &room);
  }
  RengaCall(RengaConvoyCreate_Private(chunk->pipeline->rank->transport,
                                      RengaChunkOwners_Private(chunk), places, room,
                                      &bucket->convoy));
  bucket->places = places;
  bucket->room = room;
  return RENGA_SUCCESS;
}

/* Whether the messages of one bucket's sum find work memory, and room where they are carried. */
static bool BucketFits(Chunk *chunk, const GradientBucket *bucket, int64_t microbatches)
{
  size_t bytes, largest;
  const int count = CountMessages(chunk, microbatches, &bytes);
  RengaCommGatherPlaces(chunk->group, bucket->blocks, chunk->storage.gradient, &largest);
  if (bytes > largest) bytes = largest;
  const bool carried = RengaConvoyGetCarrier_Private(bucket->convoy).reserve != NULL;
  return bytes > 0 &&
         (!carried || (count <= bucket->places &&
                       (size_t)count * bytes <= (size_t)bucket->places * bucket->room));
}

/* Whether the sums of a step of another size are possible: replicas with fewer micro-batches may
   have more pieces to add. */
bool RengaChunkSumsFit_Private(Chunk *chunk, int64_t microbatches)
{
  const bool ordered = RengaChunkIsOrdered_Private(chunk);
  for (int b = 0;
       ordered && !RengaChunkShardsGradients_Private(chunk) && b < chunk->memory->n_buckets; b++) {
    const GradientBucket *bucket = &chunk->gradients->bucket[b];
    if (bucket->convoy && !BucketFits(chunk, bucket, microbatches)) return false;
  }
  return true;
}

static RengaErrorCode SetUpBucket(Chunk *chunk, int b, int64_t begin[])
{
  GradientBucket *bucket = &chunk->gradients->bucket[b];
  bucket->chunk = chunk;
  if (RengaChunkShardsGradients_Private(chunk)) bucket->local = chunk->gradients->fold.place[b];
  RengaCall(SetUpBlocks(chunk, b, begin));
  RengaCall(MakeConvoy(chunk, bucket));
  RengaCall(SetUpGroupSums(chunk, bucket));
  return RENGA_SUCCESS;
}

/* After the work memory is there. The same on all replicas. */
RengaErrorCode RengaChunkSetUpBuckets_Private(Chunk *chunk)
{
  int64_t *begin;
  RengaCall(RengaMalloc(chunk->memory->n_buckets, &chunk->gradients->bucket));
  RengaCall(RengaMalloc(chunk->memory->n_buffers, &chunk->gradients->piece));
  RengaCall(RengaMalloc(chunk->replicas + 1, &chunk->gradients->leaf_bounds));
  RengaCall(RengaMalloc(chunk->n_parameters + 2, &begin));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int b = 0; b < chunk->memory->n_buckets && !code; b++) code = SetUpBucket(chunk, b, begin);
  RengaFree(&begin);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkShareGradients_Private(Chunk *chunk)
{
  const int64_t vector = RengaGradientBytes_Private(chunk, chunk->sizes->gradient_count);
  if (chunk->replicas == 1 || vector < SHARED_LEAST || !RengaDeviceIsHost(chunk->device) ||
      !RengaChunkIsOrdered_Private(chunk) || RengaChunkShardsGradients_Private(chunk))
    return RENGA_SUCCESS;
  RengaCall(RengaCommShare(chunk->group, chunk->at->gradients,
                           (size_t)(chunk->memory->n_buffers * vector), &chunk->gradients->shared));
  return RENGA_SUCCESS;
}

/* Where a pass has ended in the middle of its messages they are given up. */
RengaErrorCode RengaChunkFreeBuckets_Private(Chunk *chunk)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int b = 0; chunk->gradients->bucket && b < chunk->memory->n_buckets; b++) {
    GradientBucket *bucket = &chunk->gradients->bucket[b];
    RengaCommSumCancel(&bucket->sum, "ranks to give up the sum of their gradients");
    RengaCommSumCancel(&bucket->prepared, "ranks to give up a gather");
    RengaCommSumCancel(&bucket->gather, "ranks to give up the gather of their parameters");
    RengaConvoy *convoy[] = {&bucket->convoy, &bucket->inner, &bucket->across};
    RengaBlocks *blocks[] = {&bucket->blocks, &bucket->share, &bucket->parts};
    for (int i = 0; i < 3; i++) {
      RengaKeepFirst_Private(&code, RengaConvoyDestroy_Private(convoy[i]));
      RengaKeepFirst_Private(&code, RengaBlocksDestroy(blocks[i]));
    }
  }
  RengaKeepFirst_Private(&code, RengaCommUnshare(&chunk->gradients->shared));
  RengaFree(&chunk->gradients->bucket);
  RengaFree(&chunk->gradients->sequence);
  RengaFree(&chunk->gradients->piece);
  RengaFree(&chunk->gradients->leaf_bounds);
  RengaFree(&chunk->gradients->fold.place);
  RengaFree(&chunk->gradients->fold.step);
  RengaFree(&chunk->gradients->fold.first);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Which buckets the list gathers by themselves: their sums are halves. MPI's own sum is whole. */
void RengaPipelineMarkGathers_Private(RengaPipeline pipeline, const Pass *pass)
{
  for (int c = 0; c < pipeline->rank->n_chunks; c++) {
    const Chunk *chunk = &pipeline->rank->chunk[c];
    for (int b = 0; b < chunk->memory->n_buckets; b++) chunk->gradients->bucket[b].apart = false;
  }
  for (int64_t a = 0; a < pass->n_actions; a++) {
    const RengaAction *action = &pass->action[a];
    if (action->kind != RENGA_ACTION_GATHER) continue;
    const Chunk *chunk = RengaPipelineFindChunk_Private(pipeline, action->stage);
    GradientBucket *bucket = &chunk->gradients->bucket[action->bucket];
    bucket->apart = RengaSettingsIsOrdered_Private(pipeline->settings) &&
                    bucket->kind != BUCKET_SHARED && !RengaChunkShardsGradients_Private(chunk);
  }
}

/* Replicas have something to give each other. */
static bool IsSummed(const Chunk *chunk, const GradientBucket *bucket)
{
  return chunk->replicas > 1 && bucket->count > 0;
}

RengaErrorCode RengaChunkStartTask_Private(Chunk *chunk, Pass *pass, GradientBucket *bucket,
                                           RengaComm comm, const RengaCommSumTask *task,
                                           SumStart start)
{
  bucket->began = MPI_Wtime();
  RengaCall(RengaChunkStartSum_Private(chunk, pass, comm, task, start, &bucket->sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode StartSum(Chunk *chunk, Pass *pass, GradientBucket *bucket, SumStart start)
{
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  const int64_t begin = RengaGradientBytes_Private(chunk, bucket->first);
  for (int p = 0; p < chunk->gradients->n_pieces; p++) {
    piece[p] = chunk->gradients->piece[p];
    piece[p].data = (char *)piece[p].data + begin;
  }
  const RengaCommSumTask task = {
      .blocks = bucket->blocks,
      .type = chunk->storage.gradient,
      .n_leaves = RengaOutlineLeaves_Private(chunk->outline, pass->microbatches),
      .leaves = chunk->gradients->leaf_bounds,
      .pieces = piece,
      .result = chunk->gradients->sum + begin,
      .work = chunk->at->work +
              (size_t)(bucket - chunk->gradients->bucket) * RengaChunkWorkOfBucket_Private(chunk),
      .work_bytes = RengaChunkWorkOfBucket_Private(chunk),
      .adder = RengaConvoyGetAdder_Private(bucket->convoy),
      .carrier = RengaConvoyGetCarrier_Private(bucket->convoy),
      .shared = chunk->gradients->shared};
  RengaCall(RengaChunkStartTask_Private(chunk, pass, bucket, chunk->group, &task, start));
  return RENGA_SUCCESS;
}

/* "reduce", "gather of bucket 2": from its begin to now. */
static void TraceBucket(const Chunk *chunk, int number, const char *kind)
{
  char name[64];
  if (!RengaLogTraceIsOn()) return;
  if (chunk->memory->n_buckets > 1)
    snprintf(name, sizeof name, "%s of bucket %d", kind, number);
  else
    snprintf(name, sizeof name, "%s", kind);
  RengaLogTrace("communication", name, chunk->gradients->bucket[number].began, MPI_Wtime());
}

static RengaErrorCode EndQueued(const Chunk *chunk, GradientBucket *bucket, int number)
{
  bucket->queued = false;
  RengaCall(RengaConvoyEndUnordered_Private(bucket->convoy));
  TraceBucket(chunk, number, RengaActionName(RENGA_ACTION_REDUCE));
  return RENGA_SUCCESS;
}

/* It ends later where the transport only queues it. */
static RengaErrorCode AddUnordered(Chunk *chunk, GradientBucket *bucket, int number)
{
  char what[160];
  bucket->began = MPI_Wtime();
  bucket->queued = true;
  RengaChunkDescribe_Private(chunk, reduces, sizeof what, what);
  RengaCall(RengaConvoySumUnordered_Private(
      bucket->convoy, chunk->storage.gradient, bucket->count,
      chunk->gradients->sum + RengaGradientBytes_Private(chunk, bucket->first), what));
  if (!RengaTransportQueuesSums_Private(chunk->pipeline->rank->transport))
    RengaCall(EndQueued(chunk, bucket, number));
  return RENGA_SUCCESS;
}

/* Collective over the replicas, before the first step: what unordered sums wait for the first
   time. Gradients are 0. */
RengaErrorCode RengaChunkJoinSums_Private(Chunk *chunk)
{
  if (RengaChunkIsOrdered_Private(chunk)) return RENGA_SUCCESS;
  for (int b = 0; b < chunk->memory->n_buckets; b++) {
    const GradientBucket *bucket = &chunk->gradients->bucket[b];
    if (bucket->convoy)
      RengaCall(RengaConvoyJoin_Private(bucket->convoy, chunk->storage.gradient, bucket->count,
                                        chunk->at->gradients +
                                            RengaGradientBytes_Private(chunk, bucket->first)));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginReduce(Chunk *chunk, Pass *pass, GradientBucket *bucket, int number)
{
  if (!RengaChunkIsOrdered_Private(chunk))
    RengaCall(AddUnordered(chunk, bucket, number));
  else
    RengaCall(StartSum(chunk, pass, bucket,
                       bucket->apart || bucket->kind == BUCKET_SHARED ? RengaCommReduceScatterBegin
                                                                      : RengaCommSumBegin));
  return RENGA_SUCCESS;
}

/* The pieces are there. Where the list gathers the bucket by itself, each replica gets its block
   only. MPI's own sum is done at once, and NCCL's is queued. Fails only where messages are left
   under way. */
RengaErrorCode RengaChunkBeginBucket_Private(Chunk *chunk, Pass *pass, int number)
{
  GradientBucket *bucket = &chunk->gradients->bucket[number];
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_REDUCE);
  if (!IsSummed(chunk, bucket)) return RENGA_SUCCESS;
  RengaFaultMeetAction("sum", chunk->stage, -1);
  RengaLogEventBegin(event);
  const RengaErrorCode code = BeginReduce(chunk, pass, bucket, number);
  RengaLogEventEnd(event, 0, 1, RengaGradientBytes_Private(chunk, bucket->count));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherBlocks(Chunk *chunk, Pass *pass, int number)
{
  GradientBucket *bucket = &chunk->gradients->bucket[number];
  RengaCall(RengaChunkEndSum_Private(chunk, pass, reduces, &bucket->sum));
  TraceBucket(chunk, number, RengaActionName(RENGA_ACTION_REDUCE));
  RengaCall(StartSum(chunk, pass, bucket, RengaCommAllGatherBegin));
  return RENGA_SUCCESS;
}

/* All replicas get the blocks of the others. Fails only where messages are left under way. */
RengaErrorCode RengaChunkGatherBucket_Private(Chunk *chunk, Pass *pass, int number)
{
  GradientBucket *bucket = &chunk->gradients->bucket[number];
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_GATHER);
  if (!IsSummed(chunk, bucket) || !bucket->sum) return RENGA_SUCCESS; /* it is whole */
  if (bucket->kind == BUCKET_SHARED || RengaChunkShardsGradients_Private(chunk))
    return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  const RengaErrorCode code = GatherBlocks(chunk, pass, number);
  RengaLogEventEnd(event, 0, 1, RengaGradientBytes_Private(chunk, bucket->count));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The update comes, or there is no overlap. */
RengaErrorCode RengaChunkEndBucket_Private(Chunk *chunk, Pass *pass, int number)
{
  GradientBucket *bucket = &chunk->gradients->bucket[number];
  const RengaLogEvent event =
      RengaPipelineEvent_Private(bucket->apart ? EVENT_GATHER : EVENT_REDUCE);
  if (bucket->queued) RengaCall(EndQueued(chunk, bucket, number));
  if (!bucket->sum) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  const RengaErrorCode code = RengaChunkEndSum_Private(chunk, pass, reduces, &bucket->sum);
  RengaLogEventEnd(event, 0, 0, 0);
  RengaCall(code);
  TraceBucket(chunk, number,
              RengaActionName(bucket->apart ? RENGA_ACTION_GATHER : RENGA_ACTION_REDUCE));
  return RENGA_SUCCESS;
}

/* Before the update: all that was begun is there. Fails only where messages are left under way. */
RengaErrorCode RengaChunkEndBuckets_Private(Chunk *chunk, Pass *pass)
{
  for (int b = 0; b < chunk->memory->n_buckets; b++)
    if (IsSummed(chunk, &chunk->gradients->bucket[b]))
      RengaCall(RengaChunkEndBucket_Private(chunk, pass, b));
  RengaCall(RengaChunkEndRows_Private(chunk, pass));
  return RENGA_SUCCESS;
}
