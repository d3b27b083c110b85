/* The window: where values of sharded parameters lie while kernels read them, with
   RENGA_SHARD_PARAMETERS.

   A bucket of parameters has its place in the window from the moment its gather begins
   (entry/gather.c) until the last instruction of the part that reads it. That is when the one
   before it in the part is read first, so that it comes meanwhile. Two buckets lie in different
   places if some part of some program needs both at once. Programs are compiled as if all values
   were there, and their places are moved once it is known where each bucket goes. */
#include "gradients.h"
#include "window.h"

/* Bytes behind the first sharded parameter. */
static void RangeInWindow(const Chunk *chunk, int b, int64_t *begin, int64_t *bytes)
{
  int64_t first, count;
  RengaChunkRangeOfBucket_Private(chunk, b, &first, &count);
  *begin = RengaValueBytes_Private(chunk, first - chunk->sizes->whole_gradient);
  *bytes = RengaValueBytes_Private(chunk, count);
}

static RengaErrorCode FindAllReads(const Chunk *chunk, Program *program)
{
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++)
    RengaCall(RengaChunkFindTouched_Private(chunk, program, part));
  return RENGA_SUCCESS;
}

static bool NeedsBoth(const Sequence *sequence, int a, int b)
{
  const BucketRows *x = &sequence->reads[a], *y = &sequence->reads[b];
  return x->begin >= 0 && y->begin >= 0 && x->begin < y->end && y->begin < x->end;
}

static bool AreNeededBoth(const Program *program, int a, int b)
{
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++)
    if (program->part[part].reads && NeedsBoth(&program->part[part], a, b)) return true;
  return false;
}

/* Some program that is there has a part that does. */
static bool SomeNeedsBoth(const Chunk *chunk, int a, int b)
{
  for (int p = 0; p < chunk->programs->count; p++)
    if (AreNeededBoth(chunk->programs->row[p], a, b)) return true;
  return false;
}

static bool Collide(const Chunk *chunk, int a, int b)
{
  int64_t begin, x, y;
  const int64_t *place = chunk->window->place;
  RangeInWindow(chunk, a, &begin, &x);
  RangeInWindow(chunk, b, &begin, &y);
  return place[a] < place[b] + y && place[b] < place[a] + x;
}

/* Of a program that is compiled: to where the buckets are. Before that is known it stays as it is.
   */
RengaErrorCode RengaChunkMoveWindow_Private(Chunk *chunk, Program *program)
{
  const int buckets = RengaChunkBuckets_Private(chunk).shared;
  if (!chunk->window->place) return RENGA_SUCCESS;
  RengaCall(FindAllReads(chunk, program));
  for (int a = 0; a < buckets; a++)
    for (int b = 0; b < a; b++)
      RengaCheck(!AreNeededBoth(program, a, b) || !Collide(chunk, a, b), MPI_COMM_SELF,
                 RENGA_ERR_MEMORY,
                 "stage %d: micro-batches of this size read the parameters of buckets %d and %d at "
                 "once, for which no memory was taken at set-up: announce the size with "
                 "RengaPipelineSetDataShortBatch before RengaPipelineSetUp",
                 chunk->stage, a, b);
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++)
    for (int i = 0; i < program->part[part].count; i++) {
      const Instruction *row = &program->part[part].row[i];
      for (int p = 0; p < row->n_in + row->n_out; p++) {
        int64_t begin;
        if (row->place[p].region != REGION_WINDOW) continue;
        const int b = RengaChunkBucketAt_Private(chunk, ROLE_VALUE, row->place[p].offset, &begin);
        row->place[p].offset += chunk->window->place[b] - begin;
      }
    }
  return RENGA_SUCCESS;
}

/* Behind one that is placed, is needed with it and lies where it would: the next place to try; -1:
   nothing is in the way. */
static int64_t FindBehind(const Chunk *chunk, const bool placed[], int b)
{
  int64_t end = -1, begin, bytes;
  for (int other = 0; other < RengaChunkBuckets_Private(chunk).shared; other++) {
    if (!placed[other] || !SomeNeedsBoth(chunk, b, other) || !Collide(chunk, b, other)) continue;
    RangeInWindow(chunk, other, &begin, &bytes);
    if (end < 0 || chunk->window->place[other] + bytes < end)
      end = chunk->window->place[other] + bytes;
  }
  return end;
}

/* The largest first, each as far in front as may be. */
static void PlaceBuckets(Chunk *chunk, bool placed[])
{
  const int buckets = RengaChunkBuckets_Private(chunk).shared;
  for (int n = 0; n < buckets; n++) {
    int64_t begin, bytes, most = -1, behind;
    int largest = -1;
    for (int b = 0; b < buckets; b++) {
      RangeInWindow(chunk, b, &begin, &bytes);
      if (placed[b] || bytes <= most) continue;
      most = bytes;
      largest = b;
    }
    chunk->window->place[largest] = 0;
    while ((behind = FindBehind(chunk, placed, largest)) >= 0)
      chunk->window->place[largest] = behind;
    placed[largest] = true;
    if (chunk->window->place[largest] + most > chunk->sizes->window_bytes)
      chunk->sizes->window_bytes = chunk->window->place[largest] + most;
  }
}

/* As a part gathers buckets, one after the other: what lies where they come is there no more. */
static int64_t CountFetchesOfPart(const Chunk *chunk, const Sequence *sequence, bool here[])
{
  int64_t all = 0, begin, bytes;
  for (int row = 0; sequence->reads && row < sequence->count; row++)
    for (int b = 0; b < RengaChunkBuckets_Private(chunk).shared; b++) {
      if (here[b] || (sequence->reads[b].begin != row && sequence->reads[b].first != row)) continue;
      for (int other = 0; other < RengaChunkBuckets_Private(chunk).shared; other++)
        here[other] = here[other] && !Collide(chunk, b, other);
      RangeInWindow(chunk, b, &begin, &bytes);
      here[b] = true;
      all += bytes;
    }
  return all;
}

/* Of the first forward of a step, and of a whole micro-batch behind others: parts follow each other
   in the order of their numbers. */
static void CountFetches(Chunk *chunk, bool here[])
{
  const Program *program = RengaProgramsFirst_Private(chunk->programs);
  for (int b = 0; b < RengaChunkBuckets_Private(chunk).shared; b++) here[b] = false;
  for (int turn = 0; program && turn < 2; turn++)
    for (ProgramPart part = PART_FORWARD; part < PART_COUNT; part++) {
      chunk->sizes->fetched_bytes[part] = CountFetchesOfPart(chunk, &program->part[part], here);
      if (turn + part == PART_FORWARD)
        chunk->sizes->first_bytes = chunk->sizes->fetched_bytes[part];
    }
}

/* Once all programs of set-up are compiled. */
RengaErrorCode RengaChunkPlaceWindow_Private(Chunk *chunk)
{
  bool *placed = NULL;
  if (!RengaChunkFetches_Private(chunk)) return RENGA_SUCCESS;
  for (int p = 0; p < chunk->programs->count; p++)
    RengaCall(FindAllReads(chunk, chunk->programs->row[p]));
  RengaCall(RengaMalloc(RengaChunkBuckets_Private(chunk).shared + 1, &placed));
  const RengaErrorCode code =
      RengaMalloc(RengaChunkBuckets_Private(chunk).shared + 1, &chunk->window->place);
  if (!code) PlaceBuckets(chunk, placed);
  if (!code) CountFetches(chunk, placed);
  RengaFree(&placed);
  RengaCall(code);
  for (int p = 0; p < chunk->programs->count; p++)
    RengaCall(RengaChunkMoveWindow_Private(chunk, chunk->programs->row[p]));
  return RENGA_SUCCESS;
}
