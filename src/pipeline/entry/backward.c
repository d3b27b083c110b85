/* Backward of a micro-batch: whole, or in two parts, of inputs and of weights. Where the pass has
   failed only what others wait for is done. */
#include "../rows.h"
#include "entry.h"

static RengaErrorCode BeginInput(Chunk *chunk, Pass *pass, Program *program,
                                 const RengaAction *action)
{
  RengaCall(RengaChunkTakeRows_Private(chunk, action));
  RengaCall(RengaChunkBeginAction_Private(chunk, pass, program, true, action));
  return RENGA_SUCCESS;
}

/* Gradients of what the stage received, where those of parameters come later: their place is not
   known yet. */
RengaErrorCode RengaChunkBackwardInput_Private(Chunk *chunk, Pass *pass, Program *program,
                                               const RengaAction *action, int64_t i)
{
  RengaCall(RengaChunkWaitSends_Private(chunk, pass, i, true));
  if (!RengaPipelineHears_Private(chunk->pipeline, pass, true))
    RengaCall(
        RengaPipelineNote_Private(chunk->pipeline, pass, BeginInput(chunk, pass, program, action)));
  RengaCall(
      RengaChunkRunTimed_Private(chunk, pass, program, PART_BACKWARD, EVENT_BACKWARD, action));
  return RENGA_SUCCESS;
}

/* Where gradients go, and whether they are added there. The sums that this backward starts are
   those of pieces that are whole behind it. */
static RengaErrorCode BeginBackward(Chunk *chunk, Pass *pass, Program **program,
                                    const RengaAction *action)
{
  bool adds;
  RengaCall(RengaChunkTakeGradients_Private(chunk, pass, action->microbatch, &adds));
  RengaCall(RengaChunkTakeRows_Private(chunk, action));
  RengaCall(RengaChunkBeginAction_Private(chunk, pass, *program, adds, action));
  if (adds) RengaCall(RengaChunkGetAdding_Private(chunk, (*program)->samples, program));
  if (!RengaChunkShardsGradients_Private(chunk) && RengaChunkBeginsSums_Private(chunk, action))
    RengaCall(RengaChunkCloseEarly_Private(chunk, pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode EndBackward(Chunk *chunk, Pass *pass, const RengaAction *action, int64_t i)
{
  if (pass->failed) return RENGA_SUCCESS;
  RengaCall(RengaChunkReleaseInputs_Private(chunk, i));
  RengaCall(RengaChunkCloseGradients_Private(chunk, pass, action->microbatch));
  return RENGA_SUCCESS;
}

/* Gradients of parameters, and before them the others where the backward is whole. */
RengaErrorCode RengaChunkBackward_Private(Chunk *chunk, Pass *pass, Program *program,
                                          const RengaAction *action, int64_t i)
{
  const bool whole = action->kind == RENGA_ACTION_BACKWARD;
  chunk->at->region[REGION_GRADIENTS] =
      chunk->gradients->sum; /* a pass that has failed takes no other */
  if (whole) RengaCall(RengaChunkWaitSends_Private(chunk, pass, i, true));
  if (!RengaPipelineHears_Private(chunk->pipeline, pass, true))
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass,
                                        BeginBackward(chunk, pass, &program, action)));
  if (whole)
    RengaCall(
        RengaChunkRunTimed_Private(chunk, pass, program, PART_BACKWARD, EVENT_BACKWARD, action));
  if (chunk->memory->lag > 0)
    RengaCall(
        RengaChunkRunTimed_Private(chunk, pass, program, PART_WEIGHT, EVENT_BACKWARD, action));
  RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, EndBackward(chunk, pass, action, i)));
  if (RengaChunkShardsGradients_Private(chunk)) RengaCall(RengaChunkEndRound_Private(chunk, pass));
  chunk->portion->backward_done++;
  return RENGA_SUCCESS;
}
