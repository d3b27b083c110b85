/* Sums of gradients that begin while the last backward of a replica goes on: each bucket's as soon
   as the last kernel that writes gradients of it has run. The buffers of the tree that become one
   after that backward do so bucket by bucket before. All replicas begin the sums in one order, that
   of a program which all of them have. */
#include "pipelineimpl.h"

/* The bucket whose gradients are at so many bytes of a gradient buffer. */
static int FindBucketAt(const Chunk *chunk, int64_t offset)
{
  const GradientVector *gradients = &chunk->gradients;
  int b = 0;
  for (; b < gradients->n_buckets; b++) {
    const GradientBucket *bucket = &gradients->bucket[b];
    const int64_t first = RengaChunkRoleBytes_Private(chunk, ROLE_GRADIENT, bucket->first);
    const int64_t bytes = RengaChunkRoleBytes_Private(chunk, ROLE_GRADIENT, bucket->count);
    if (offset >= first && offset < first + bytes) break;
  }
  return b;
}

/* The part of a training program that makes the gradients of parameters. */
Sequence *RengaChunkGradientPart_Private(const Chunk *chunk, Program *program)
{
  return &program->part[chunk->lag > 0 ? PART_WEIGHT : PART_BACKWARD];
}

/* Where the part is done with each bucket: before a step, as it allocates. */
RengaErrorCode RengaChunkFindEnds_Private(const Chunk *chunk, Program *program)
{
  Sequence *sequence = RengaChunkGradientPart_Private(chunk, program);
  if (sequence->ends) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(chunk->gradients.n_buckets + 1, &sequence->ends));
  for (int i = 0; i < sequence->count; i++) {
    const Instruction *row = &sequence->row[i];
    for (int p = 0; p < row->n_in + row->n_out; p++)
      if (row->place[p].region == REGION_GRADIENTS)
        sequence->ends[FindBucketAt(chunk, row->place[p].offset)] = i + 1;
  }
  return RENGA_SUCCESS;
}

/* The first training program: all replicas compile the same ones at set-up. NULL: none. */
static Program *FirstProgram(const Chunk *chunk)
{
  for (int p = 0; p < chunk->programs.count; p++)
    if (chunk->programs.row[p]->kind == PROGRAM_TRAINING) return chunk->programs.row[p];
  return NULL;
}

/* Once the buckets are there. */
RengaErrorCode RengaChunkOrderBuckets_Private(Chunk *chunk)
{
  GradientVector *gradients = &chunk->gradients;
  Program *program = FirstProgram(chunk);
  RengaCall(RengaMalloc(gradients->n_buckets, &gradients->sequence));
  if (program) RengaCall(RengaChunkFindEnds_Private(chunk, program));
  const int *ends = program ? RengaChunkGradientPart_Private(chunk, program)->ends : NULL;
  for (int b = 0; b < gradients->n_buckets; b++) {
    int at = b;
    for (; ends && at > 0 && ends[gradients->sequence[at - 1]] > ends[b]; at--)
      gradients->sequence[at] = gradients->sequence[at - 1];
    gradients->sequence[at] = b;
  }
  return RENGA_SUCCESS;
}

/* Whether backward begins the sums of the pass: the same on all replicas. Where the list gathers
   buckets by themselves it says the order of all. */
bool RengaChunkIsEarly_Private(const Chunk *chunk)
{
  bool early = chunk->replicas > 1 && chunk->outline->settings->overlap &&
               RengaSettingsIsOrdered_Private(chunk->outline->settings) &&
               !chunk->gradients.fold.on;
  for (int b = 0; b < chunk->gradients.n_buckets; b++)
    early = early && !chunk->gradients.bucket[b].apart;
  return early;
}

/* The action begins sums: what others hear of it they must have agreed to. */
bool RengaChunkBeginsSums_Private(const Chunk *chunk, const RengaAction *action)
{
  const Portion *portion = &chunk->portion;
  const bool last = portion->backward_done == portion->last - portion->first - 1;
  return (action->kind == RENGA_ACTION_BACKWARD || action->kind == RENGA_ACTION_BACKWARD_WEIGHT) &&
         (chunk->gradients.fold.on || (last && RengaChunkIsEarly_Private(chunk)));
}

static RengaErrorCode MergeBucket(Chunk *chunk, const GradientBucket *bucket)
{
  const GradientVector *gradients = &chunk->gradients;
  const int64_t begin = RengaChunkRoleBytes_Private(chunk, ROLE_GRADIENT, bucket->first);
  for (int m = 0; m < gradients->n_merges; m++)
    RengaCall(RengaChunkAdd_Private(chunk, chunk->storage.gradient, bucket->count,
                                    gradients->merge[m].y + begin, gradients->merge[m].x + begin));
  return RENGA_SUCCESS;
}

/* Fails where a sum could not be begun: it is begun once more at the end. */
static RengaErrorCode BeginInTurn(Chunk *chunk, Pass *pass)
{
  GradientVector *gradients = &chunk->gradients;
  const int b = gradients->sequence[gradients->n_begun];
  if (!pass->failed) RengaCall(MergeBucket(chunk, &gradients->bucket[b]));
  RengaCall(RengaChunkBeginBucket_Private(chunk, pass, b));
  gradients->n_begun++;
  return RENGA_SUCCESS;
}

/* While the last backward runs: so many rows of its part are done. */
RengaErrorCode RengaChunkPassRows_Private(Chunk *chunk, Pass *pass, const Sequence *sequence,
                                          int rows)
{
  GradientVector *gradients = &chunk->gradients;
  if (gradients->fold.on) RengaCall(RengaChunkFoldRows_Private(chunk, pass, sequence, rows));
  if (!gradients->early || !sequence->ends) return RENGA_SUCCESS;
  while (gradients->n_begun < gradients->n_buckets &&
         sequence->ends[gradients->sequence[gradients->n_begun]] <= rows)
    RengaCall(BeginInTurn(chunk, pass));
  return RENGA_SUCCESS;
}

/* The first action of a sum: what backward did not begin. Fails only where messages are left under
   way. */
RengaErrorCode RengaChunkBeginRest_Private(Chunk *chunk, Pass *pass)
{
  while (chunk->gradients.n_begun < chunk->gradients.n_buckets) RengaCall(BeginInTurn(chunk, pass));
  return RENGA_SUCCESS;
}
