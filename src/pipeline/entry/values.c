/* Values of a sharded stage's parameters, as they go from the replica that has updated them to the
   others: an action of the list begins the gather of a bucket behind the update, comm moves it
   while ranks go on to the next step, and an entry before the first row of a part that reads a
   bucket ends it.
   What a gather allocates is prepared before the step, so that none fails where the others begin
   it; a rank whose update failed sends empty messages, and the others learn of it. */
#include "entry.h"

enum { TRIES = 3 }; /* to begin a gather, or to end it: others wait for it */

static RengaErrorCode PrepareGather(Chunk *chunk, GradientBucket *bucket)
{
  const int64_t place = bucket->first - chunk->sizes->whole_gradient + chunk->sizes->whole_count;
  const RengaCommSumTask task = {.blocks = bucket->blocks,
                                 .type = chunk->storage.value,
                                 .result = RengaChunkValuesAt_Private(chunk, place),
                                 .adder = RengaConvoyGetAdder_Private(bucket->convoy),
                                 .carrier = RengaConvoyGetCarrier_Private(bucket->convoy)};
  RengaCall(RengaCommAllGatherPrepare(RengaChunkOwners_Private(chunk), &task, &bucket->prepared));
  return RENGA_SUCCESS;
}

/* Replicas have something to give each other. */
static bool IsGathered(const GradientBucket *bucket)
{
  return bucket->kind == BUCKET_SHARED && bucket->convoy &&
         !RengaChunkFetches_Private(bucket->chunk);
}

/* Room before the step. One from the step before may be under way still. */
RengaErrorCode RengaChunkPrepareGathers_Private(Chunk *chunk)
{
  for (int b = 0; b < chunk->memory->n_shared; b++) {
    GradientBucket *bucket = &chunk->gradients->bucket[b];
    if (IsGathered(bucket) && !bucket->prepared) RengaCall(PrepareGather(chunk, bucket));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode StartValues(Chunk *chunk, GradientBucket *bucket)
{
  RengaErrorCode code = RENGA_ERR_INTERNAL;
  for (int t = 0; t < TRIES && code; t++) code = RengaCommSumStart(bucket->prepared);
  RengaCall(code);
  bucket->gather = bucket->prepared;
  bucket->prepared = NULL;
  bucket->gathering = MPI_Wtime();
  chunk->gradients->n_gathering++;
  return RENGA_SUCCESS;
}

static void TraceGather(const Chunk *chunk, int number)
{
  char name[64];
  if (!RengaLogTraceIsOn()) return;
  snprintf(name, sizeof name, "all-gather of parameters");
  if (chunk->memory->n_shared > 1)
    snprintf(name, sizeof name, "all-gather of parameters of bucket %d", number);
  RengaLogTrace("communication", name, chunk->gradients->bucket[number].gathering, MPI_Wtime());
}

static RengaErrorCode WaitForGather(Chunk *chunk, GradientBucket *bucket)
{
  char what[160];
  bool whole = false;
  RengaErrorCode code = RENGA_ERR_INTERNAL;
  RengaChunkDescribe_Private(chunk, "gathers updated parameters of the other replicas before",
                             sizeof what, what);
  for (int t = 0; t < TRIES && code && code != RENGA_ERR_TIMEOUT; t++)
    if (t == 0 || bucket->gather) code = RengaCommSumEnd(&bucket->gather, what, &whole);
  RengaCall(code);
  RengaCheck(whole, MPI_COMM_SELF, RENGA_ERR_LIBRARY,
             "another replica of stage %d did not give its share of the parameters", chunk->stage);
  return RENGA_SUCCESS;
}

/* An error leaves messages under way, or shares that are not the others'. */
static RengaErrorCode EndGather(Chunk *chunk, int number)
{
  GradientBucket *bucket = &chunk->gradients->bucket[number];
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_GATHER);
  if (!bucket->gather) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  const RengaErrorCode code = WaitForGather(chunk, bucket);
  RengaLogEventEnd(event, 0, 1, RengaValueBytes_Private(chunk, bucket->count));
  if (!bucket->gather) chunk->gradients->n_gathering--;
  if (code) chunk->pipeline->rank->torn = true;
  RengaCall(code);
  TraceGather(chunk, number);
  return RENGA_SUCCESS;
}

/* Without overlap. What fails is known in the next pass, to all ranks. */
static RengaErrorCode EndInPlace(Chunk *chunk, int number)
{
  const RengaErrorCode code = EndGather(chunk, number);
  return code == RENGA_ERR_TIMEOUT ? code : RENGA_SUCCESS;
}

/* The action. Where the update has failed on this rank the others hear of it. */
RengaErrorCode RengaChunkBeginGather_Private(Chunk *chunk, const Pass *pass, int number)
{
  GradientBucket *bucket = &chunk->gradients->bucket[number];
  if (!IsGathered(bucket)) return RENGA_SUCCESS;
  RengaCall(StartValues(chunk, bucket));
  if (!pass->verdict && chunk->outline->settings->overlap) return RENGA_SUCCESS;
  if (!pass->verdict) return EndInPlace(chunk, number);
  chunk->gradients->n_gathering--;
  RengaCall(RengaCommSumCancel(&bucket->gather, "ranks to give up the all-gather of parameters"));
  return RENGA_SUCCESS;
}

/* Before anything else that reads parameters: all are there. After an error, but that of the time
   limit, the other buckets are taken too: replicas wait for what they get of this one. */
RengaErrorCode RengaChunkAwaitValues_Private(Chunk *chunk)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int b = 0; chunk->gradients->n_gathering > 0 && b < chunk->memory->n_shared; b++)
    if (code != RENGA_ERR_TIMEOUT) RengaKeepFirst_Private(&code, EndGather(chunk, b));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Before a sum of a bucket, whose messages they have: gathers of the step before, where this
   replica has read no parameter since. */
RengaErrorCode RengaChunkEndOldGathers_Private(Chunk *chunk, Pass *pass)
{
  const RengaErrorCode code = RengaChunkAwaitValues_Private(chunk);
  if (code == RENGA_ERR_TIMEOUT) RengaCall(code);
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, code));
  return RENGA_SUCCESS;
}

static RengaErrorCode ListValuesEntries(const Chunk *chunk, const Program *program,
                                        ProgramPart part, EntryList *list)
{
  const BucketRows *reads = program->part[part].reads;
  const bool late = reads && !RengaChunkFetches_Private(chunk) && chunk->outline->settings->overlap;
  const int buckets = late ? chunk->memory->n_shared : 0;
  for (int b = 0; b < buckets; b++) {
    const Entry entry = {.kind = ENTRY_VALUES, .ends = true, .first = reads[b].first, .bucket = b};
    if (reads[b].first >= 0) RengaCall(RengaEntryAdd_Private(list, entry));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode EndValuesEntry(const EntryTask *task, Entry *entry)
{
  const RengaErrorCode code = EndGather(task->chunk, entry->bucket);
  if (code == RENGA_ERR_TIMEOUT) RengaCall(code);
  RengaCall(RengaPipelineNote_Private(task->chunk->pipeline, task->pass, code));
  return RENGA_SUCCESS;
}

const EntryRule RengaValuesEntry_Private = {
    .name = "values", .own = true, .list = ListValuesEntries, .end = EndValuesEntry};

/* Collective on the replicas of a stage: all get the values that each has. */
RengaErrorCode RengaChunkGatherValues_Private(Chunk *chunk)
{
  RengaCall(RengaChunkPrepareGathers_Private(chunk));
  for (int b = 0; b < chunk->memory->n_shared; b++)
    if (IsGathered(&chunk->gradients->bucket[b]))
      RengaCall(StartValues(chunk, &chunk->gradients->bucket[b]));
  RengaCall(RengaChunkAwaitValues_Private(chunk));
  return RENGA_SUCCESS;
}

/* What others have updated is here, and what they get of this rank has left. */
RengaErrorCode RengaPipelineAwaitShares_Private(RengaPipeline pipeline)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int c = 0; c < pipeline->rank->n_chunks && code != RENGA_ERR_TIMEOUT; c++)
    RengaKeepFirst_Private(&code, RengaChunkAwaitValues_Private(&pipeline->rank->chunk[c]));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The same outside of passes, where nobody else asks for gathers that failed in the step. */
static RengaErrorCode AwaitWholeValues(RengaPipeline pipeline)
{
  RengaCall(RengaPipelineAwaitShares_Private(pipeline));
  RengaCheck(!pipeline->rank->torn, MPI_COMM_SELF, RENGA_ERR_LIBRARY,
             "rank %d did not get all parameters that other replicas updated before step %lld: the "
             "pipeline cannot go on, destroy it",
             RengaCommGetRank(pipeline->rank->all), (long long)pipeline->step);
  return RENGA_SUCCESS;
}

/* Parameters are not those of one step. Messages are under way where a gather still is. */
static void GiveUpValues(RengaPipeline pipeline, RengaErrorCode code)
{
  bool left = code == RENGA_ERR_TIMEOUT;
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    left = left || pipeline->rank->chunk[c].gradients->n_gathering > 0;
  if (left)
    RengaPipelineBreak_Private(pipeline, code);
  else
    RengaPipelineSpoil_Private(pipeline, code);
}

/* Not collective, outside of passes: what AwaitValues says of this rank alone. */
RengaErrorCode RengaPipelineEndShares_Private(RengaPipeline pipeline)
{
  const RengaErrorCode code = AwaitWholeValues(pipeline);
  if (code) GiveUpValues(pipeline, code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Collective, outside of passes: parameters are those of the last step on all ranks, or all
   fail. */
RengaErrorCode RengaPipelineAwaitValues_Private(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  if (!rank->gathering) return RENGA_SUCCESS;
  rank->gathering = false;
  RengaErrorCode code = AwaitWholeValues(pipeline);
  if (code != RENGA_ERR_TIMEOUT) code = RengaErrorAgree(pipeline->hdr.comm, code);
  if (code) GiveUpValues(pipeline, code);
  RengaCall(code);
  return RENGA_SUCCESS;
}
