/* Rounds: with RENGA_SHARD_GRADIENTS no replica has all gradients of a step, not even for a while.

   After the backward of each micro-batch every replica sends each block of its gradients to who
   answers for it, bucket by bucket, as soon as backward is done with the bucket. Who answers adds
   the micro-batches of all replicas by the tree, in the order of the batch, as one rank does that
   has all of them: replicas work on neighbours (microbatchorder.c), a *round* is what they work on
   at the same time. Those of another node come added up, where leaves are of one micro-batch. So
   what lasts through the step is, of each replica, its share of one rank's buffers, and beside it
   the gradients of the running micro-batch that have not left yet (gradientplaces.c).

   All replicas begin the sums of a round in the order in which one program ends its buckets. Two
   are under way at once; who is ahead waits where it would write over what has not left. A replica
   with fewer micro-batches than others takes part in their rounds all the same (prepare.c). What is
   not sharded is given to all in the end.

   Groups of replicas, as those of a node, may add up by themselves first (-layout_zero_groups):
   each has a part of the batch, which its rounds are of, and its replicas keep its partial sums in
   blocks of their own. Behind the last round those who have the same block in all groups add these
   up, once a step, and each gets its part of the block. So what goes between groups does not grow
   with the rounds.

   With P bytes of gradients in B equal buckets and r replicas a replica takes n P/r + 3 P/B and
   the work memory of two sums; of G groups n P G/r + P/r in the place of n P/r. There n partial
   sums at most are left between rounds: 1 of one round, else the logarithm of their number where r
   is a power of 2 and leaves are single micro-batches (RengaChunkCountPartialSums_Private counts
   any). */
#include "entry/entry.h"
#include "renga/private/fault.h"

/* Micro-batches of a replica; first: its first number. */
static int64_t CountOfReplica(const Chunk *chunk, int64_t microbatches, int replica, int64_t *first)
{
  const int64_t leaf = chunk->outline->leaf;
  *first = RengaPlanLeafBound(microbatches, leaf, chunk->replicas, replica);
  return RengaPlanLeafBound(microbatches, leaf, chunk->replicas, replica + 1) - *first;
}

/* Where the micro-batches of a round of a group stand in the batch: its replica r has [bounds[r],
   bounds[r + 1]). bounds: [replicas of the group + 1] */
static void BoundRound(const Chunk *chunk, int group, int64_t microbatches, int64_t round,
                       int64_t bounds[])
{
  const int each = RengaChunkEach_Private(chunk);
  CountOfReplica(chunk, microbatches, group * each, &bounds[0]);
  for (int r = 0; r < each; r++) {
    int64_t first;
    const int64_t count = CountOfReplica(chunk, microbatches, group * each + r, &first);
    bounds[0] += count < round ? count : round;
    bounds[r + 1] = count > round;
  }
  for (int r = 0; r < each; r++) bounds[r + 1] += bounds[r];
}

/* The additions of a step as they are found. What a partial sum lies in is a number: a buffer, or
   below 0 the gradients of a micro-batch of the round, -1 the first. */
typedef struct {
  int group;
  FoldStep *step; /* NULL: they are only counted */
  int64_t n_steps;
  int n_buffers; /* the most at once */
  bool taken[RENGA_COMM_TREE_PIECES];
  int n_pieces;
  RengaPartialSum *piece; /* [replicas of a group + RENGA_COMM_TREE_PIECES] */
  RengaPartialSum *given; /* [replicas of a group] of a round */
  int64_t *bounds;        /* [replicas of a group + 1] */
} RoundAdditions;

static void *PointerOf(int number)
{
  return (void *)((intptr_t)number * 2 + 1);
}

static int NumberOf(const void *pointer)
{
  return (int)(((intptr_t)pointer - 1) / 2);
}

static void ListStep(RoundAdditions *additions, int y, int x, bool adds)
{
  if (additions->step)
    additions->step[additions->n_steps] = (FoldStep){.y = y, .x = x, .adds = adds};
  additions->n_steps++;
}

static RengaErrorCode ListAddition(void *user, RengaDataType type, int64_t count, void *y,
                                   const void *x)
{
  RoundAdditions *additions = user;
  (void)type, (void)count;
  ListStep(additions, NumberOf(y), NumberOf(x), true);
  if (NumberOf(x) >= 0) additions->taken[NumberOf(x)] = false;
  return RENGA_SUCCESS;
}

/* The gradients of the micro-batch that stands at `at` in the batch, number `own` of its round. */
static RengaErrorCode ListMicrobatch(const Chunk *chunk, int64_t microbatches, int64_t at, int own,
                                     RoundAdditions *additions)
{
  const int64_t leaf = chunk->outline->leaf;
  const int64_t leaves = RengaOutlineLeaves_Private(chunk->outline, microbatches);
  const bool ends = (at + 1) % leaf == 0 || at + 1 == microbatches;
  const RengaCommAdder list = {.begin = ListAddition, .user = additions};
  RengaPartialSum *piece = additions->piece;
  bool adds;
  int place;
  piece[additions->n_pieces].data = PointerOf(-1 - own);
  RengaCall(RengaCommTreeTake(leaves, at / leaf, ends && at % leaf == 0, &additions->n_pieces,
                              piece, &place, &adds));
  if (adds) ListStep(additions, NumberOf(piece[place].data), -1 - own, true);
  if (ends)
    RengaCall(
        RengaCommTreeClose(leaves, place, &additions->n_pieces, piece, RENGA_FLOAT32, 1, &list));
  return RENGA_SUCCESS;
}

/* Number `own` of a round: a micro-batch, or several that another node has added up. */
static RengaErrorCode ListPiece(const Chunk *chunk, int64_t microbatches, int own,
                                RoundAdditions *additions)
{
  const RengaPartialSum *given = &additions->given[own];
  const RengaCommAdder list = {.begin = ListAddition, .user = additions};
  if (given->count == 1)
    RengaCall(ListMicrobatch(chunk, microbatches, given->first, own, additions));
  if (given->count == 1) return RENGA_SUCCESS;
  additions->piece[additions->n_pieces] = *given;
  additions->piece[additions->n_pieces++].data = PointerOf(-1 - own);
  RengaCall(RengaCommTreeMerge(microbatches, &additions->n_pieces, additions->piece, RENGA_FLOAT32,
                               1, &list));
  return RENGA_SUCCESS;
}

/* What is left of a round goes to buffers that are free. */
static void KeepPieces(RoundAdditions *additions)
{
  for (int p = 0; p < additions->n_pieces; p++) {
    const int number = NumberOf(additions->piece[p].data);
    int buffer = 0;
    if (number >= 0) continue;
    while (additions->taken[buffer]) buffer++;
    additions->taken[buffer] = true;
    if (buffer + 1 > additions->n_buffers) additions->n_buffers = buffer + 1;
    additions->piece[p].data = PointerOf(buffer);
    ListStep(additions, buffer, number, false);
  }
}

/* The pieces of a round, on this rank or, where they are only counted, on any. */
static RengaErrorCode ListGiven(const Chunk *chunk, int64_t microbatches,
                                const RoundAdditions *additions, int *n)
{
  const int64_t *bounds = additions->bounds;
  if (additions->step) {
    RengaCall(RengaCommFoldPieces(RengaChunkInner_Private(chunk), microbatches, bounds,
                                  chunk->outline->leaf == 1, additions->given, n));
    return RENGA_SUCCESS;
  }
  *n = (int)(bounds[RengaChunkEach_Private(chunk)] - bounds[0]);
  for (int i = 0; i < *n; i++)
    additions->given[i] = (RengaPartialSum){.first = bounds[0] + i, .count = 1};
  return RENGA_SUCCESS;
}

/* first: [micro-batches + 1] of each round its first step, or NULL. */
static RengaErrorCode ListRounds(const Chunk *chunk, int64_t microbatches,
                                 RoundAdditions *additions, int64_t first[])
{
  const int each = RengaChunkEach_Private(chunk);
  const int64_t end = RengaPlanLeafBound(microbatches, chunk->outline->leaf, chunk->replicas,
                                         (additions->group + 1) * each);
  RengaCall(RengaMalloc(each + RENGA_COMM_TREE_PIECES, &additions->piece));
  RengaCall(RengaMalloc(each, &additions->given));
  RengaCall(RengaMalloc(each + 1, &additions->bounds));
  for (int64_t round = 0; round == 0 || additions->bounds[each] < end; round++) {
    BoundRound(chunk, additions->group, microbatches, round, additions->bounds);
    int n;
    RengaCall(ListGiven(chunk, microbatches, additions, &n));
    if (first) first[round] = additions->n_steps;
    for (int own = 0; own < n; own++) RengaCall(ListPiece(chunk, microbatches, own, additions));
    KeepPieces(additions);
    if (first) first[round + 1] = additions->n_steps;
  }
  return RENGA_SUCCESS;
}

/* left: [RENGA_COMM_TREE_PIECES] the partial sums behind the last round: of one group the sum. */
static RengaErrorCode ListBatch(const Chunk *chunk, int64_t microbatches, RoundAdditions *additions,
                                int64_t first[], RengaPartialSum left[])
{
  const RengaErrorCode code = ListRounds(chunk, microbatches, additions, first);
  const bool one = RengaChunkGroups_Private(chunk) == 1;
  for (int p = 0; p < additions->n_pieces && p < RENGA_COMM_TREE_PIECES && !code; p++)
    left[p] = additions->piece[p];
  RengaFree(&additions->piece);
  RengaFree(&additions->given);
  RengaFree(&additions->bounds);
  RengaCall(code);
  RengaCheck(!one || (additions->n_pieces == 1 && NumberOf(left[0].data) == 0), MPI_COMM_SELF,
             RENGA_ERR_INTERNAL, "%d sums of gradients are left of one", additions->n_pieces);
  return RENGA_SUCCESS;
}

/* Partial sums that a replica of any group keeps between rounds: the most of a step. */
RengaErrorCode RengaChunkCountPartialSums_Private(const Chunk *chunk, int64_t microbatches,
                                                  int *buffers)
{
  *buffers = 1;
  for (int g = 0; g < RengaChunkGroups_Private(chunk); g++) {
    RengaPartialSum left[RENGA_COMM_TREE_PIECES] = {{0}};
    RoundAdditions additions = {.group = g};
    RengaCall(ListBatch(chunk, microbatches, &additions, NULL, left));
    if (additions.n_buffers > *buffers) *buffers = additions.n_buffers;
  }
  return RENGA_SUCCESS;
}

/* Before a step: the same on all replicas. */
RengaErrorCode RengaChunkPrepareRounds_Private(Chunk *chunk, const Pass *pass)
{
  GradientFold *fold = &chunk->gradients->fold;
  if (!RengaChunkShardsGradients_Private(chunk)) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(3 * pass->microbatches + 1, &fold->step)); /* taken, merged, kept */
  RengaCall(RengaRealloc(pass->microbatches + 1, &fold->first));
  RoundAdditions additions = {.group = chunk->replica / RengaChunkEach_Private(chunk),
                              .step = fold->step};
  RengaCall(ListBatch(chunk, pass->microbatches, &additions, fold->first, fold->left));
  fold->n_left = additions.n_pieces;
  fold->round = fold->n_started = 0;
  for (int w = 0; w < RENGA_SUMS_AT_ONCE; w++) fold->user[w] = -1;
  return RENGA_SUCCESS;
}

/* One that is left between rounds. */
static char *PartialSumAt(const GradientBucket *bucket, int number, int64_t place)
{
  const Chunk *chunk = bucket->chunk;
  return chunk->at->partial +
         RengaGradientBytes_Private(chunk, number * chunk->memory->folded + place);
}

/* Or, below 0, a piece of the round. */
static char *TermAt(const GradientBucket *bucket, int number, int64_t place, void *const piece[])
{
  return number < 0 ? piece[-1 - number] : PartialSumAt(bucket, number, place);
}

/* Those of all replicas, where there are no groups. */
static RengaBlocks BlocksOfRound(const GradientBucket *bucket)
{
  return bucket->share ? bucket->share : bucket->blocks;
}

static RengaConvoy ConvoyOfRound(const GradientBucket *bucket)
{
  return bucket->inner ? bucket->inner : bucket->convoy;
}

static int64_t PlaceOfRound(const GradientBucket *bucket)
{
  return bucket->share ? bucket->own_share : bucket->own;
}

/* Elements of a bucket, which this replica answers for, of all pieces of a round. */
static RengaErrorCode TakeGradients(void *user, int64_t at, int64_t count, void *const piece[])
{
  const GradientBucket *bucket = user;
  const Chunk *chunk = bucket->chunk;
  const GradientFold *fold = &chunk->gradients->fold;
  int64_t begin, end;
  RengaBlocksGetRange(BlocksOfRound(bucket), chunk->replica % RengaChunkEach_Private(chunk), &begin,
                      &end);
  const int64_t place = PlaceOfRound(bucket) + at - begin;
  const RengaStream stream = RengaConvoyGetStream_Private(ConvoyOfRound(bucket));
  for (int64_t s = fold->first[bucket->round]; s < fold->first[bucket->round + 1]; s++) {
    const FoldStep *step = &fold->step[s];
    char *y = TermAt(bucket, step->y, place, piece);
    const char *x = TermAt(bucket, step->x, place, piece);
    if (step->adds)
      RengaCall(RengaDeviceAdd(chunk->device, stream, chunk->storage.gradient, count, y, x));
    else
      RengaCall(RengaDeviceCopy(chunk->device, stream, RENGA_DEVICE_TO_DEVICE, y, x,
                                (size_t)RengaGradientBytes_Private(chunk, count)));
  }
  return RENGA_SUCCESS;
}

/* Of the round that is there: who has a micro-batch gives its gradients of the bucket. */
static RengaErrorCode StartRoundSum(Chunk *chunk, Pass *pass, GradientBucket *bucket)
{
  GradientVector *gradients = chunk->gradients;
  int64_t *leaves = gradients->leaf_bounds;
  const int each = RengaChunkEach_Private(chunk);
  const RengaPartialSum piece = {.count = 1, .data = chunk->at->gradients + bucket->local};
  BoundRound(chunk, chunk->replica / each, pass->microbatches, gradients->fold.round, leaves);
  if (leaves[0] == leaves[each]) return RENGA_SUCCESS; /* other groups have more rounds */
  bucket->round = gradients->fold.round;
  const RengaCommSumTask task = {
      .blocks = BlocksOfRound(bucket),
      .type = chunk->storage.gradient,
      .n_leaves = pass->microbatches,
      .leaves = leaves,
      .pieces = &piece,
      .work = chunk->at->work + (size_t)(gradients->fold.n_started % RENGA_SUMS_AT_ONCE) *
                                    RengaChunkWorkOfBucket_Private(chunk),
      .work_bytes = RengaChunkWorkOfBucket_Private(chunk),
      .adder = RengaConvoyGetAdder_Private(ConvoyOfRound(bucket)),
      .carrier = RengaConvoyGetCarrier_Private(ConvoyOfRound(bucket)),
      .folder = {.take = TakeGradients, .user = bucket, .merges = chunk->outline->leaf == 1}};
  RengaCall(RengaChunkStartTask_Private(chunk, pass, bucket, RengaChunkInner_Private(chunk), &task,
                                        RengaCommReduceScatterBegin));
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginRoundSum(Chunk *chunk, Pass *pass, GradientBucket *bucket)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_REDUCE);
  if (bucket->count == 0) return RENGA_SUCCESS;
  RengaFaultMeetAction("sum", chunk->stage, -1);
  RengaLogEventBegin(event);
  const RengaErrorCode code = StartRoundSum(chunk, pass, bucket);
  RengaLogEventEnd(event, 0, 1, RengaGradientBytes_Private(chunk, bucket->count));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A sum of the round, with the work memory of the last but one. */
RengaErrorCode RengaChunkStartRoundSum_Private(Chunk *chunk, Pass *pass, int b)
{
  GradientVector *gradients = chunk->gradients;
  GradientFold *fold = &gradients->fold;
  const int part = (int)(fold->n_started % RENGA_SUMS_AT_ONCE);
  RengaCall(RengaChunkEndOldGathers_Private(chunk, pass));
  if (fold->user[part] >= 0) RengaCall(RengaChunkEndBucket_Private(chunk, pass, fold->user[part]));
  RengaCall(RengaChunkEndBucket_Private(chunk, pass, b));
  RengaCall(BeginRoundSum(chunk, pass, &gradients->bucket[b]));
  fold->user[part] = b;
  fold->n_started++;
  return RENGA_SUCCESS;
}

static bool LieTogether(const Chunk *chunk, const GradientBucket *a, const GradientBucket *b)
{
  return a->local < b->local + RengaGradientBytes_Private(chunk, b->count) &&
         b->local < a->local + RengaGradientBytes_Private(chunk, a->count);
}

static RengaErrorCode PoisonBucket(Chunk *chunk, const GradientBucket *bucket)
{
  if (RengaDeviceGetPoison(chunk->device) && bucket->count > 0)
    RengaCall(RengaDeviceSetBytes(chunk->device, NULL, chunk->at->gradients + bucket->local, 0xff,
                                  (size_t)RengaGradientBytes_Private(chunk, bucket->count)));
  return RENGA_SUCCESS;
}

/* Before backward writes gradients of a bucket: what lay there has left. */
RengaErrorCode RengaChunkClearRoundSum_Private(Chunk *chunk, Pass *pass, int number)
{
  const GradientVector *gradients = chunk->gradients;
  const GradientBucket *bucket = &gradients->bucket[number];
  for (int b = 0; b < chunk->memory->n_buckets; b++)
    if (LieTogether(chunk, bucket, &gradients->bucket[b]))
      RengaCall(RengaChunkEndBucket_Private(chunk, pass, b));
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, PoisonBucket(chunk, bucket)));
  return RENGA_SUCCESS;
}

/* Behind the backward of a micro-batch: all sums of its round have begun. Fails only where messages
   are left under way. */
RengaErrorCode RengaChunkEndRound_Private(Chunk *chunk, Pass *pass)
{
  chunk->gradients->fold.round++;
  for (int b = 0; b < chunk->memory->n_buckets && !chunk->outline->settings->overlap; b++)
    RengaCall(RengaChunkEndBucket_Private(chunk, pass, b));
  return RENGA_SUCCESS;
}

/* This replica's block of the sum to where the others' are awaited. */
static RengaErrorCode PlaceWholeBlock(Chunk *chunk, const GradientBucket *bucket)
{
  const GradientVector *gradients = chunk->gradients;
  int64_t begin, end;
  RengaBlocksGetRange(bucket->blocks, RengaChunkPlace_Private(chunk, chunk->replica), &begin, &end);
  if (begin == end) return RENGA_SUCCESS;
  RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_DEVICE,
                            gradients->sum + RengaGradientBytes_Private(chunk, begin),
                            chunk->at->scattered + RengaGradientBytes_Private(chunk, bucket->own),
                            (size_t)RengaGradientBytes_Private(chunk, end - begin)));
  return RENGA_SUCCESS;
}

/* Of what the groups have of a bucket: this replica gets its block. */
static RengaErrorCode StartSumAcross(Chunk *chunk, Pass *pass, GradientBucket *bucket, int part)
{
  GradientVector *gradients = chunk->gradients;
  const GradientFold *fold = &gradients->fold;
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  int64_t begin, end;
  RengaBlocksGetRange(bucket->parts, chunk->replica / RengaChunkEach_Private(chunk), &begin, &end);
  for (int p = 0; p < fold->n_left; p++) {
    piece[p] = fold->left[p];
    piece[p].data = PartialSumAt(bucket, NumberOf(fold->left[p].data), bucket->own_share);
  }
  RengaChunkBoundGroups_Private(chunk, pass->microbatches, gradients->leaf_bounds);
  const RengaCommSumTask task = {
      .blocks = bucket->parts,
      .type = chunk->storage.gradient,
      .n_leaves = RengaOutlineLeaves_Private(chunk->outline, pass->microbatches),
      .leaves = gradients->leaf_bounds,
      .pieces = piece,
      .result = chunk->at->scattered + RengaGradientBytes_Private(chunk, bucket->own - begin),
      .work = chunk->at->work + (size_t)part * RengaChunkWorkOfBucket_Private(chunk),
      .work_bytes = RengaChunkWorkOfBucket_Private(chunk),
      .adder = RengaConvoyGetAdder_Private(bucket->across),
      .carrier = RengaConvoyGetCarrier_Private(bucket->across)};
  RengaCall(RengaChunkStartTask_Private(chunk, pass, bucket, fold->across, &task,
                                        RengaCommReduceScatterBegin));
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginSumAcross(Chunk *chunk, Pass *pass, GradientBucket *bucket, int part)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_REDUCE);
  int64_t first, last;
  RengaBlocksGetRange(bucket->share, chunk->replica % RengaChunkEach_Private(chunk), &first, &last);
  RengaFaultMeetAction("sum", chunk->stage, -1);
  RengaLogEventBegin(event);
  const RengaErrorCode code = StartSumAcross(chunk, pass, bucket, part);
  RengaLogEventEnd(event, 0, 1, RengaGradientBytes_Private(chunk, last - first));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Two buckets at a time, each with its part of the work memory. */
static RengaErrorCode SumGroups(Chunk *chunk, Pass *pass)
{
  if (!chunk->gradients->fold.across) return RENGA_SUCCESS;
  for (int b = 0; b < chunk->memory->n_buckets; b++) {
    GradientBucket *bucket = &chunk->gradients->bucket[b];
    if (b >= RENGA_SUMS_AT_ONCE)
      RengaCall(RengaChunkEndBucket_Private(chunk, pass, b - RENGA_SUMS_AT_ONCE));
    if (bucket->count > 0) RengaCall(BeginSumAcross(chunk, pass, bucket, b % RENGA_SUMS_AT_ONCE));
  }
  for (int b = 0; b < chunk->memory->n_buckets; b++)
    RengaCall(RengaChunkEndBucket_Private(chunk, pass, b));
  return RENGA_SUCCESS;
}

/* All replicas get what is not sharded. */
static RengaErrorCode GatherUnsharded(Chunk *chunk, Pass *pass)
{
  GradientVector *gradients = chunk->gradients;
  GradientBucket *bucket = &gradients->bucket[chunk->memory->n_shared];
  if (!RengaChunkShardsGradients_Private(chunk) || bucket->count == 0) return RENGA_SUCCESS;
  const RengaCommSumTask task = {.blocks = bucket->blocks,
                                 .type = chunk->storage.gradient,
                                 .result = gradients->sum,
                                 .adder = RengaConvoyGetAdder_Private(bucket->convoy),
                                 .carrier = RengaConvoyGetCarrier_Private(bucket->convoy)};
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, PlaceWholeBlock(chunk, bucket)));
  RengaCall(RengaChunkStartTask_Private(chunk, pass, bucket, RengaChunkOwners_Private(chunk), &task,
                                        RengaCommAllGatherBegin));
  RengaCall(RengaChunkEndBucket_Private(chunk, pass, chunk->memory->n_shared));
  return RENGA_SUCCESS;
}

/* Before the update, once the sums of all rounds have ended. Fails only where messages are left
   under way. */
RengaErrorCode RengaChunkEndRounds_Private(Chunk *chunk, Pass *pass)
{
  RengaCall(SumGroups(chunk, pass));
  RengaCall(GatherUnsharded(chunk, pass));
  return RENGA_SUCCESS;
}
