/* Sums of gradients that begin while a backward goes on, each bucket's as soon as the last
   kernel that writes gradients of it has run: in the last backward of a replica, where the
   buffers of the tree that become one after it do so bucket by bucket before; or in all, where
   replicas fold their gradients (reducescatter.c). All replicas begin the sums in one order,
   that of a program which all of them have. */
#include "entry.h"
#include "renga/private/transport.h"

/* Once the buckets are there. Which rows stand beside exchanges follows from memory, which ranks
   with other numbers of threads lay out otherwise: their order is that of layers in backward. */
RengaErrorCode RengaChunkOrderBuckets_Private(Chunk *chunk)
{
  GradientVector *gradients = chunk->gradients;
  Program *program = RengaProgramsFirst_Private(chunk->programs);
  const bool fixed = chunk->tensor.group.size > 1 && !RengaChunkShardsGradients_Private(chunk);
  RengaCall(RengaMalloc(chunk->memory->n_buckets, &gradients->sequence));
  const ProgramPart part = RengaChunkGradientPart_Private(chunk);
  if (program) RengaCall(RengaChunkFindTouched_Private(chunk, program, part));
  const BucketRows *writes = program ? program->part[part].writes : NULL;
  const int shared =
      chunk->memory->n_shared > 0 ? chunk->memory->n_shared : chunk->memory->n_buckets;
  for (int b = 0; b < shared && fixed; b++) gradients->sequence[b] = shared - 1 - b;
  for (int b = shared; b < chunk->memory->n_buckets && fixed; b++) gradients->sequence[b] = b;
  for (int b = 0; b < chunk->memory->n_buckets && !fixed; b++) {
    int at = b;
    for (; writes && at > 0 && writes[gradients->sequence[at - 1]].end > writes[b].end; at--)
      gradients->sequence[at] = gradients->sequence[at - 1];
    gradients->sequence[at] = b;
  }
  return RENGA_SUCCESS;
}

/* Sums may start in backwards, if the list of a pass does not say otherwise: MPI's own would hold
   them up. */
static bool MayStartEarly(const Chunk *chunk)
{
  return RengaChunkShardsGradients_Private(chunk) ||
         (chunk->replicas > 1 && chunk->outline->settings->overlap &&
          (RengaChunkIsOrdered_Private(chunk) ||
           RengaTransportQueuesSums_Private(chunk->pipeline->rank->transport)));
}

/* Whether the last backward begins the sums of the pass: the same on all replicas. Where the list
   gathers buckets by themselves it says the order of all. */
bool RengaChunkIsEarly_Private(const Chunk *chunk)
{
  bool early = MayStartEarly(chunk) && !RengaChunkShardsGradients_Private(chunk);
  for (int b = 0; b < chunk->memory->n_buckets; b++)
    early = early && !chunk->gradients->bucket[b].apart;
  return early;
}

/* The action begins sums: what others hear of it they must have agreed to. */
bool RengaChunkBeginsSums_Private(const Chunk *chunk, const RengaAction *action)
{
  const Portion *portion = chunk->portion;
  const bool last = portion->backward_done == portion->last - portion->first - 1;
  return (action->kind == RENGA_ACTION_BACKWARD || action->kind == RENGA_ACTION_BACKWARD_WEIGHT) &&
         (RengaChunkShardsGradients_Private(chunk) || (last && RengaChunkIsEarly_Private(chunk)));
}

static RengaErrorCode MergeBucket(Chunk *chunk, const GradientBucket *bucket)
{
  const GradientVector *gradients = chunk->gradients;
  const int64_t begin = RengaGradientBytes_Private(chunk, bucket->first);
  for (int m = 0; m < gradients->n_merges; m++)
    RengaCall(RengaChunkAdd_Private(chunk, chunk->storage.gradient, bucket->count,
                                    gradients->merge[m].y + begin, gradients->merge[m].x + begin));
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginInTurn(Chunk *chunk, Pass *pass)
{
  GradientVector *gradients = chunk->gradients;
  const int b = gradients->sequence[gradients->n_begun++];
  if (!pass->failed)
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass,
                                        MergeBucket(chunk, &gradients->bucket[b])));
  RengaCall(RengaChunkBeginBucket_Private(chunk, pass, b));
  return RENGA_SUCCESS;
}

/* The first action of a sum: what backward did not begin. Fails only where messages are left under
   way. */
RengaErrorCode RengaChunkBeginRest_Private(Chunk *chunk, Pass *pass)
{
  while (chunk->gradients->n_begun < chunk->memory->n_buckets) RengaCall(BeginInTurn(chunk, pass));
  return RENGA_SUCCESS;
}

/* Each starts behind its last row, and where those before it have; it ends before its gradients are
   written again. */
static RengaErrorCode ListSumEntries(const Chunk *chunk, const Program *program, ProgramPart part,
                                     EntryList *list)
{
  const GradientVector *gradients = chunk->gradients;
  const BucketRows *writes = program->part[part].writes;
  int row = 0;
  if (!writes || !MayStartEarly(chunk)) return RENGA_SUCCESS;
  for (int k = 0; k < chunk->memory->n_buckets; k++) {
    const int b = gradients->sequence[k];
    if (writes[b].end > row) row = writes[b].end;
    const Entry starts = {.kind = ENTRY_SUM, .first = row, .bucket = b};
    RengaCall(RengaEntryAdd_Private(list, starts));
  }
  for (int b = 0; b < chunk->memory->n_buckets && RengaChunkShardsGradients_Private(chunk); b++) {
    const Entry ends = {.kind = ENTRY_SUM, .ends = true, .first = writes[b].first, .bucket = b};
    if (writes[b].first >= 0) RengaCall(RengaEntryAdd_Private(list, ends));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode StartSumEntry(const EntryTask *task, Entry *entry)
{
  if (RengaChunkShardsGradients_Private(task->chunk))
    RengaCall(RengaChunkStartRoundSum_Private(task->chunk, task->pass, entry->bucket));
  else if (task->chunk->gradients->early)
    RengaCall(BeginInTurn(task->chunk, task->pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndSumEntry(const EntryTask *task, Entry *entry)
{
  RengaCall(RengaChunkClearRoundSum_Private(task->chunk, task->pass, entry->bucket));
  return RENGA_SUCCESS;
}

const EntryRule RengaSumEntry_Private = {
    .name = "sum", .list = ListSumEntries, .start = StartSumEntry, .end = EndSumEntry};
