/* Forward of a micro-batch, and recomputation of what backward needs of it. Where the pass has
   failed only what others wait for is done. */
#include "../updates.h"
#include "entry.h"

/* Before kernels run. What depends on constants only is worked out when another program ran before;
   nobody else has to do with that. */
static RengaErrorCode FoldConstants(Chunk *chunk, Pass *pass, Program *program,
                                    const RengaAction *action)
{
  const RengaKernelContext context = RengaChunkContext_Private(chunk, pass, action->microbatch);
  if (chunk->programs->folded == program || program->part[PART_CONSTANT].count == 0)
    return RENGA_SUCCESS;
  chunk->programs->folded = NULL;
  RengaCall(RengaChunkRunPart_Private(chunk, pass, program, PART_CONSTANT, &context));
  if (!pass->failed) chunk->programs->folded = program;
  return RENGA_SUCCESS;
}

static RengaErrorCode Fill(Chunk *chunk, int region, int64_t bytes)
{
  if (bytes > 0)
    RengaCall(
        RengaDeviceSetBytes(chunk->device, NULL, chunk->at->region[region], 0xff, (size_t)bytes));
  return RENGA_SUCCESS;
}

/* With -device_poison: what an action must set before it reads it. adds: gradients of parameters
   are not among it. A recomputation leaves temporary tensors to the backward that follows it. */
static RengaErrorCode Poison(Chunk *chunk, bool training, bool adds, const RengaAction *action)
{
  const ChunkSizes *sizes = chunk->sizes;
  const bool forward = action->kind == RENGA_ACTION_FORWARD;
  const bool makes = forward || action->kind == RENGA_ACTION_RECOMPUTE;
  if (!RengaDeviceGetPoison(chunk->device)) return RENGA_SUCCESS;
  if (makes || !chunk->recompute || RengaChunkKeepsAway_Private(chunk))
    RengaCall(Fill(chunk, REGION_TEMPORARY, sizes->temporary_bytes[training]));
  if (makes) RengaCall(Fill(chunk, REGION_SAVED, sizes->slot_bytes[training]));
  if (forward) {
    RengaCall(Fill(chunk, REGION_SENT, sizes->sent_bytes[training]));
    RengaCall(Fill(chunk, REGION_KEPT, sizes->kept_bytes[training]));
  }
  if (forward && !chunk->inputs->host) RengaCall(Fill(chunk, REGION_INPUTS, sizes->input_bytes));
  if (!makes && !adds && !RengaChunkShardsGradients_Private(chunk)) /* bucket by bucket there */
    RengaCall(
        Fill(chunk, REGION_GRADIENTS, RengaGradientBytes_Private(chunk, sizes->gradient_count)));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkBeginAction_Private(Chunk *chunk, Pass *pass, Program *program, bool adds,
                                             const RengaAction *action)
{
  RengaCall(Poison(chunk, pass->training, adds, action));
  RengaCall(FoldConstants(chunk, pass, program, action));
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginForward(Chunk *chunk, Pass *pass, Program *program,
                                   const RengaAction *action, int64_t i)
{
  RengaCall(RengaChunkBeginAction_Private(chunk, pass, program, false, action));
  RengaCall(RengaChunkReadFields_Private(chunk, pass, program, i, action->microbatch));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndForward(Chunk *chunk, Pass *pass, const Program *program, int64_t i)
{
  if (pass->failed) return RENGA_SUCCESS;
  if (pass->training && RengaChunkKeepsAway_Private(chunk))
    RengaCall(RengaChunkSendAway_Private(chunk, i));
  RengaCall(RengaChunkQueueResults_Private(chunk, pass, program, i));
  if (!pass->training) RengaCall(RengaChunkReleaseInputs_Private(chunk, i));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkForward_Private(Chunk *chunk, Pass *pass, Program *program,
                                         const RengaAction *action, int64_t i)
{
  RengaCall(RengaChunkWaitSends_Private(chunk, pass, i, false));
  if (!RengaPipelineHears_Private(chunk->pipeline, pass, true))
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass,
                                        BeginForward(chunk, pass, program, action, i)));
  RengaCall(RengaChunkRunTimed_Private(chunk, pass, program, PART_FORWARD, EVENT_FORWARD, action));
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, EndForward(chunk, pass, program, i)));
  chunk->portion->forward_done++;
  return RENGA_SUCCESS;
}

/* What backward needs first is made again where that backward has it: whether gradients will be
   added decides places there. */
static RengaErrorCode BeginRecompute(Chunk *chunk, Pass *pass, Program **program,
                                     const RengaAction *action)
{
  bool adds;
  RengaCall(RengaChunkWillAdd_Private(chunk, pass, action->microbatch, &adds));
  RengaCall(RengaChunkBeginAction_Private(chunk, pass, *program, false, action));
  if (adds) RengaCall(RengaChunkGetAdding_Private(chunk, (*program)->samples, program));
  return RENGA_SUCCESS;
}

/* Where what forward has saved comes back from the host no kernel runs. */
RengaErrorCode RengaChunkRecompute_Private(Chunk *chunk, Pass *pass, Program *program,
                                           const RengaAction *action, int64_t i)
{
  const bool away = RengaChunkKeepsAway_Private(chunk);
  if (!pass->failed)
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass,
                                        away ? RengaChunkFetch_Private(chunk, i)
                                             : BeginRecompute(chunk, pass, &program, action)));
  if (!away)
    RengaCall(
        RengaChunkRunTimed_Private(chunk, pass, program, PART_AGAIN, EVENT_RECOMPUTE, action));
  return RENGA_SUCCESS;
}
