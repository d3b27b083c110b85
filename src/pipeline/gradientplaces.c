/* Where the gradients of a micro-batch lie until they have left, where replicas fold them
   (reducescatter.c).

   A bucket needs memory from the first instruction that touches its gradients until the replicas
   that answer for its blocks have them. So buckets share the memory of a micro-batch: places follow
   from lifetimes, which last until backward is done with the next bucket, so that messages have
   that time. Programs are compiled as if the whole vector were there, and their places are moved
   once the lifetimes are known. Backward waits where a bucket before has not left yet.

       further uses, and what is not sharded | shared buckets, by lifetime */
#include "gradients.h"
#include <limits.h>

static void MovePlaces(const Chunk *chunk, Sequence *sequence)
{
  for (int i = 0; i < sequence->count; i++) {
    const Instruction *row = &sequence->row[i];
    for (int p = 0; p < row->n_in + row->n_out; p++) {
      Place *place = &row->place[p];
      int64_t begin = 0;
      if (place->region != REGION_GRADIENTS) continue;
      const int b = RengaChunkBucketAt_Private(chunk, ROLE_GRADIENT, place->offset, &begin);
      place->offset += chunk->gradients->fold.place[b] - begin;
    }
  }
}

static int64_t BytesOfBucket(const Chunk *chunk, int b)
{
  int64_t first, count;
  RengaChunkRangeOfBucket_Private(chunk, b, &first, &count);
  return RengaGradientBytes_Private(chunk, count);
}

/* Where the first program that trains touches the buckets; NULL: there is none. */
static const BucketRows *FirstWrites(const Chunk *chunk)
{
  const Program *program = RengaProgramsFirst_Private(chunk->programs);
  return program ? program->part[RengaChunkGradientPart_Private(chunk)].writes : NULL;
}

/* Two buckets that a program touches at the same time lie in different places, and buckets leave
   in the order of the first program: in another one, a third bucket might hold back one whose
   memory is written again. */
static RengaErrorCode CheckApart(Chunk *chunk, const Sequence *sequence, int a, int b)
{
  const int64_t *place = chunk->gradients->fold.place;
  const BucketRows *first = FirstWrites(chunk), *rows = sequence->writes;
  const bool turned = first && (first[a].end < first[b].end) != (rows[a].end < rows[b].end);
  const bool meet = rows[a].first >= 0 && rows[b].first >= 0 && rows[a].first < rows[b].end &&
                    rows[b].first < rows[a].end;
  const bool overlap = place[a] < place[b] + BytesOfBucket(chunk, b) &&
                       place[b] < place[a] + BytesOfBucket(chunk, a);
  RengaCheck(
      !turned && (!meet || !overlap), MPI_COMM_SELF, RENGA_ERR_MEMORY,
      "stage %d: backward of micro-batches of this size makes the gradients of buckets %d and "
      "%d at once or in another order, for which no memory was taken at set-up: announce the "
      "size with RengaPipelineSetDataShortBatch before RengaPipelineSetUp",
      chunk->stage, a, b);
  return RENGA_SUCCESS;
}

/* Of a program whose places are those of the whole vector. Before the memory is laid out it stays
   as it is. */
RengaErrorCode RengaChunkMoveLocal_Private(Chunk *chunk, Program *program)
{
  const int buckets = RengaChunkBuckets_Private(chunk).all;
  const ProgramPart part = RengaChunkGradientPart_Private(chunk);
  Sequence *sequence = &program->part[part];
  if (program->kind != PROGRAM_TRAINING || !chunk->gradients->fold.place) return RENGA_SUCCESS;
  RengaCall(RengaChunkFindTouched_Private(chunk, program, part));
  for (int a = 0; a < buckets && sequence->writes; a++)
    for (int b = 0; b < a; b++) RengaCall(CheckApart(chunk, sequence, a, b));
  MovePlaces(chunk, sequence);
  return RENGA_SUCCESS;
}

/* The rows of all training programs that touch each bucket: from the first, to the last. */
static RengaErrorCode FindLifetimes(Chunk *chunk, int buckets, Lifetime row[])
{
  for (int b = 0; b < buckets; b++) row[b] = (Lifetime){BytesOfBucket(chunk, b), 0, INT_MAX, -1};
  for (int p = 0; p < chunk->programs->count; p++) {
    Program *program = chunk->programs->row[p];
    const ProgramPart part = RengaChunkGradientPart_Private(chunk);
    if (program->kind != PROGRAM_TRAINING) continue;
    RengaCall(RengaChunkFindTouched_Private(chunk, program, part));
    for (int b = 0; b < buckets; b++) {
      const BucketRows *writes = &program->part[part].writes[b];
      if (writes->first < 0) continue;
      if (writes->first < row[b].first) row[b].first = writes->first;
      if (writes->end - 1 > row[b].last) row[b].last = writes->end - 1;
    }
  }
  return RENGA_SUCCESS;
}

/* While messages of a bucket leave backward makes the next one. */
static void LastUntilNext(int buckets, Lifetime row[], const int last[])
{
  for (int b = 0; b < buckets; b++) {
    int next = INT_MAX;
    for (int other = 0; other < buckets; other++)
      if (last[other] > last[b] && last[other] < next) next = last[other];
    if (row[b].last < 0) row[b].first = row[b].last = 0;
    if (next != INT_MAX && last[b] >= 0) row[b].last = next;
  }
}

static RengaErrorCode PlaceShared(Chunk *chunk, int shared, Lifetime row[], int last[])
{
  const int64_t whole = BytesOfBucket(chunk, shared);
  int64_t bytes = 0;
  RengaCall(FindLifetimes(chunk, shared + 1, row));
  for (int b = 0; b <= shared; b++) last[b] = row[b].last;
  LastUntilNext(shared, row, last);
  RengaCall(RengaPlaceLifetimes_Private(shared, row, &bytes));
  RengaCall(RengaMalloc(shared + 1, &chunk->gradients->fold.place));
  for (int b = 0; b < shared; b++) chunk->gradients->fold.place[b] = whole + row[b].offset;
  chunk->sizes->local_bytes = whole + bytes;
  return RENGA_SUCCESS;
}

/* Once all programs of set-up are compiled. */
RengaErrorCode RengaChunkPlaceLocal_Private(Chunk *chunk)
{
  const int buckets = RengaChunkBuckets_Private(chunk).all;
  Lifetime *row = NULL;
  int *last = NULL;
  if (!RengaChunkShardsGradients_Private(chunk)) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(buckets + 1, &row);
  if (!code) code = RengaMalloc(buckets + 1, &last);
  if (!code) code = PlaceShared(chunk, buckets - 1, row, last);
  RengaFree(&row);
  RengaFree(&last);
  RengaCall(code);
  for (int p = 0; p < chunk->programs->count; p++)
    RengaCall(RengaChunkMoveLocal_Private(chunk, chunk->programs->row[p]));
  return RENGA_SUCCESS;
}
