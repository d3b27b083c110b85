/* Gathers: with RENGA_SHARD_PARAMETERS a replica has the values of its share of the parameters, and
   of the others while kernels read them.

   A bucket is gathered by all replicas together, by levels as sums are, so that a node gets each
   block once, before the part of a program that reads it comes to the first row that does. All
   replicas go through the same list, where one that has no micro-batch gathers all the same
   (prepare.c), and all programs read the buckets in one order (list.c): so gathers follow each
   other in one order everywhere, and need neither a question nor a number. Shares do not change
   during a pass. */
#include "../window.h"
#include "entry.h"
#include "renga/private/fault.h"
#include "renga/private/line.h"

/* A bucket's block, in bytes of the bucket. */
static void BlockOfOwner(const Chunk *chunk, int b, int owner, int64_t *begin, int64_t *bytes)
{
  int64_t first, last;
  RengaBlocksGetRange(chunk->gradients->bucket[b].blocks, owner, &first, &last);
  *begin = RengaValueBytes_Private(chunk, first);
  *bytes = RengaValueBytes_Private(chunk, last - first);
}

/* This replica's block of a bucket, among its shares. */
static char *OwnBlock(const Chunk *chunk, int b)
{
  return chunk->at->shares + RengaValueBytes_Private(chunk, chunk->gradients->bucket[b].own);
}

static RengaErrorCode MakeFetchConvoy(Chunk *chunk, int b)
{
  const GradientBucket *bucket = &chunk->gradients->bucket[b];
  ParameterWindow *window = chunk->window;
  size_t room;
  if (bucket->count == 0) return RENGA_SUCCESS;
  const int places =
      RengaCommGatherPlaces(window->comm, bucket->blocks, chunk->storage.value, &room);
  RengaCall(RengaConvoyCreate_Private(chunk->pipeline->rank->transport, window->comm, places, room,
                                      &window->bucket[b].convoy));
  return RENGA_SUCCESS;
}

/* After the buckets. */
RengaErrorCode RengaChunkSetUpFetches_Private(Chunk *chunk)
{
  const int buckets = RengaChunkBuckets_Private(chunk).shared;
  if (!RengaChunkFetches_Private(chunk)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(buckets + 1, &chunk->window->bucket));
  for (int b = 0; b < buckets; b++) RengaCall(MakeFetchConvoy(chunk, b));
  return RENGA_SUCCESS;
}

/* However far it came. */
RengaErrorCode RengaChunkFreeFetches_Private(Chunk *chunk)
{
  ParameterWindow *window = chunk->window;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int b = 0; window->bucket && b < RengaChunkBuckets_Private(chunk).shared; b++) {
    RengaCommSumCancel(&window->bucket[b].gather, "ranks to give up the all-gather of parameters");
    RengaKeepFirst_Private(&code, RengaConvoyDestroy_Private(&window->bucket[b].convoy));
  }
  RengaFree(&window->place);
  RengaFree(&window->bucket);
  if (window->comm) RengaKeepFirst_Private(&code, RengaCommDestroy(&window->comm));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Before a pass: no bucket is there. */
void RengaChunkBeginFetches_Private(Chunk *chunk)
{
  for (int b = 0; chunk->window->bucket && b < RengaChunkBuckets_Private(chunk).shared; b++)
    chunk->window->bucket[b].state = BUCKET_AWAY;
}

/* It is there, for this replica and for those that it passes blocks on to. */
static RengaErrorCode EndFetch(Chunk *chunk, Pass *pass, int b)
{
  RengaCommSum *gather = &chunk->window->bucket[b].gather;
  if (!*gather) return RENGA_SUCCESS;
  RengaCall(RengaChunkEndSum_Private(chunk, pass, "gathers parameters with the other replicas in",
                                     gather));
  return RENGA_SUCCESS;
}

static bool ShareWindow(const Chunk *chunk, int a, int b)
{
  const int64_t *place = chunk->window->place;
  const GradientBucket *bucket = chunk->gradients->bucket;
  const int64_t x = RengaValueBytes_Private(chunk, bucket[a].count);
  const int64_t y = RengaValueBytes_Private(chunk, bucket[b].count);
  return place[a] < place[b] + y && place[b] < place[a] + x;
}

/* What lies where a bucket comes is read no more. */
static RengaErrorCode ClearPlace(Chunk *chunk, Pass *pass, int b)
{
  ParameterWindow *window = chunk->window;
  for (int other = 0; other < RengaChunkBuckets_Private(chunk).shared; other++) {
    if (other == b || window->bucket[other].state == BUCKET_AWAY || !ShareWindow(chunk, b, other))
      continue;
    RengaCall(EndFetch(chunk, pass, other));
    window->bucket[other].state = BUCKET_AWAY;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PlaceOwnBlock(Chunk *chunk, int b)
{
  char *window = chunk->at->window + chunk->window->place[b];
  const int64_t count = chunk->gradients->bucket[b].count;
  int64_t begin, bytes;
  if (RengaDeviceGetPoison(chunk->device))
    RengaCall(RengaDeviceSetBytes(chunk->device, NULL, window, 0xff,
                                  (size_t)RengaValueBytes_Private(chunk, count)));
  BlockOfOwner(chunk, b, RengaChunkPlace_Private(chunk, chunk->replica), &begin, &bytes);
  if (bytes > 0)
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_DEVICE, window + begin,
                              OwnBlock(chunk, b), (size_t)bytes));
  return RENGA_SUCCESS;
}

static RengaErrorCode StartFetch(Chunk *chunk, Pass *pass, int b)
{
  WindowBucket *bucket = &chunk->window->bucket[b];
  if (!bucket->convoy) return RENGA_SUCCESS;
  const RengaCommSumTask task = {.blocks = chunk->gradients->bucket[b].blocks,
                                 .type = chunk->storage.value,
                                 .result = chunk->at->window + chunk->window->place[b],
                                 .adder = RengaConvoyGetAdder_Private(bucket->convoy),
                                 .carrier = RengaConvoyGetCarrier_Private(bucket->convoy)};
  RengaCall(RengaChunkStartSum_Private(chunk, pass, chunk->window->comm, &task,
                                       RengaCommAllGatherBegin, &bucket->gather));
  return RENGA_SUCCESS;
}

/* Of a bucket that is not there, nor on its way. */
static RengaErrorCode BeginGather(Chunk *chunk, Pass *pass, int b)
{
  RengaCall(ClearPlace(chunk, pass, b));
  RengaFaultMeetAction("gather", chunk->stage, -1);
  chunk->window->bucket[b].state = BUCKET_COMES;
  chunk->window->bucket[b].began = MPI_Wtime();
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, PlaceOwnBlock(chunk, b)));
  RengaCall(StartFetch(chunk, pass, b));
  return RENGA_SUCCESS;
}

/* From its begin to now. */
static void TraceFetch(const Chunk *chunk, int b)
{
  char name[64];
  if (!RengaLogTraceIsOn()) return;
  snprintf(name, sizeof name, "all-gather of parameters, bucket %d", b);
  RengaLogTrace("communication", name, chunk->window->bucket[b].began, MPI_Wtime());
}

static RengaErrorCode AwaitGather(Chunk *chunk, Pass *pass, int b)
{
  ParameterWindow *window = chunk->window;
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_GATHER);
  if (window->bucket[b].state == BUCKET_AWAY) RengaCall(BeginGather(chunk, pass, b));
  if (window->bucket[b].state == BUCKET_HERE) return RENGA_SUCCESS;
  RengaLogEventBegin(event);
  const RengaErrorCode code = EndFetch(chunk, pass, b);
  RengaLogEventEnd(event, 0, 1, RengaValueBytes_Private(chunk, chunk->gradients->bucket[b].count));
  RengaCall(code);
  window->bucket[b].state = BUCKET_HERE;
  TraceFetch(chunk, b);
  return RENGA_SUCCESS;
}

/* What comes next is on its way meanwhile. */
static RengaErrorCode ListGatherEntries(const Chunk *chunk, const Program *program,
                                        ProgramPart part, EntryList *list)
{
  const BucketRows *reads = program->part[part].reads;
  const int buckets =
      RengaChunkFetches_Private(chunk) && reads ? RengaChunkBuckets_Private(chunk).shared : 0;
  for (int ends = 1; ends >= 0; ends--)
    for (int b = 0; b < buckets; b++) {
      const Entry entry = {.kind = ENTRY_GATHER,
                           .ends = ends,
                           .first = ends ? reads[b].first : reads[b].begin,
                           .bucket = b};
      if (reads[b].first >= 0 && (ends || chunk->outline->settings->overlap))
        RengaCall(RengaEntryAdd_Private(list, entry));
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode StartGatherEntry(const EntryTask *task, Entry *entry)
{
  if (task->chunk->window->bucket[entry->bucket].state == BUCKET_AWAY)
    RengaCall(BeginGather(task->chunk, task->pass, entry->bucket));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndGatherEntry(const EntryTask *task, Entry *entry)
{
  RengaCall(AwaitGather(task->chunk, task->pass, entry->bucket));
  return RENGA_SUCCESS;
}

const EntryRule RengaGatherEntry_Private = {
    .name = "gather", .list = ListGatherEntries, .start = StartGatherEntry, .end = EndGatherEntry};

/* This rank's list is done: shares may change once the others have got them. Fails only where
   messages are left under way. */
RengaErrorCode RengaChunkEndFetches_Private(Chunk *chunk, Pass *pass)
{
  for (int b = 0; chunk->window->bucket && b < RengaChunkBuckets_Private(chunk).shared; b++)
    RengaCall(EndFetch(chunk, pass, b));
  return RENGA_SUCCESS;
}
