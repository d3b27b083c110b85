/* Which rows of a part touch what buckets hold: gradients that it writes, values that it reads and
   that come from other replicas. */
#include "gradients.h"

/* The bucket that a row touches at the place; -1: none. */
typedef int (*BucketAt)(const Chunk *chunk, const Place *place);

/* moved: elements by which values lie behind gradients. */
static int FindInTable(const Chunk *chunk, int buckets, ParameterRole role, int64_t moved,
                       int64_t offset)
{
  const GradientBucket *bucket = chunk->gradients->bucket;
  for (int b = 0; bucket && b < buckets; b++) {
    const int64_t begin = RengaChunkRoleBytes_Private(chunk, role, bucket[b].first + moved);
    const int64_t bytes = RengaChunkRoleBytes_Private(chunk, role, bucket[b].count);
    if (offset >= begin && offset < begin + bytes) return b;
  }
  return -1;
}

/* Folded ones are asked for before the table is made, and before they are moved
   (gradientplaces.c). */
static int GradientsAt(const Chunk *chunk, const Place *place)
{
  int64_t begin;
  if (place->region != REGION_GRADIENTS) return -1;
  return RengaChunkShardsGradients_Private(chunk)
             ? RengaChunkBucketAt_Private(chunk, ROLE_GRADIENT, place->offset, &begin)
             : FindInTable(chunk, chunk->memory->n_buckets, ROLE_GRADIENT, 0, place->offset);
}

/* Those in the window likewise (window.c). */
static int ValuesAt(const Chunk *chunk, const Place *place)
{
  const int64_t moved = chunk->sizes->whole_count - chunk->sizes->whole_gradient;
  int64_t begin;
  if (place->region == REGION_WINDOW)
    return RengaChunkBucketAt_Private(chunk, ROLE_VALUE, place->offset, &begin);
  if (place->region != REGION_PERSISTENT || RengaChunkFetches_Private(chunk)) return -1;
  return FindInTable(chunk, chunk->memory->n_shared, ROLE_VALUE, moved, place->offset);
}

static void FindTouchingRows(const Chunk *chunk, const Sequence *sequence, bool inputs, BucketAt at,
                             BucketRows rows[])
{
  for (int i = 0; i < sequence->count; i++) {
    const Instruction *row = &sequence->row[i];
    for (int p = 0; p < row->n_in + (inputs ? 0 : row->n_out); p++) {
      const int b = at(chunk, &row->place[p]);
      if (b < 0) continue;
      if (rows[b].first < 0) rows[b].begin = rows[b].first = i;
      rows[b].end = i + 1;
    }
  }
}

/* The gather of a bucket begins where the one before it is read first. */
static void FindBegins(int buckets, BucketRows rows[])
{
  for (int b = 0; b < buckets; b++)
    for (int other = 0, before = -1; other < buckets; other++) {
      const int first = rows[other].first;
      if (other == b || first < 0 || first >= rows[b].first || first <= before) continue;
      rows[b].begin = before = first;
    }
}

static RengaErrorCode MakeRows(int buckets, BucketRows **rows)
{
  RengaCall(RengaMalloc(buckets + 1, rows));
  for (int b = 0; b < buckets; b++) (*rows)[b] = (BucketRows){.begin = -1, .first = -1};
  return RENGA_SUCCESS;
}

/* Of one part, once it is known what lies in which bucket: before a step, as it allocates. */
RengaErrorCode RengaChunkFindTouched_Private(const Chunk *chunk, Program *program, ProgramPart part)
{
  const BucketCounts counts = RengaChunkBuckets_Private(chunk);
  const bool makes =
      program->kind == PROGRAM_TRAINING && part == RengaChunkGradientPart_Private(chunk);
  Sequence *sequence = &program->part[part];
  if (makes && !sequence->writes) {
    RengaCall(MakeRows(counts.all, &sequence->writes));
    FindTouchingRows(chunk, sequence, false, GradientsAt, sequence->writes);
  }
  if (counts.shared > 0 && !sequence->reads &&
      (RengaChunkFetches_Private(chunk) || chunk->gradients->bucket)) {
    RengaCall(MakeRows(counts.shared, &sequence->reads));
    FindTouchingRows(chunk, sequence, true, ValuesAt, sequence->reads);
    FindBegins(counts.shared, sequence->reads);
  }
  return RENGA_SUCCESS;
}
