/* What others wait for of an action, whatever happens: gathers of parameters, exchanges of lanes
   and sums of gradients. A rank whose pass has failed makes those that its kernels did not come to,
   and a replica that does not have the micro-batch makes its gathers and sums: in the order in
   which they stand between the segments of the parts that the action runs, as all the others do.
   What they bring is not looked at. */
#include "exchange.h"

static RengaErrorCode WalkSegment(Chunk *chunk, Pass *pass, const Sequence *sequence,
                                  const Segment *segment, bool gathered, bool exchanged)
{
  const Instruction *row = &sequence->row[segment->first];
  if (!gathered) RengaCall(RengaChunkFetchRows_Private(chunk, pass, sequence, segment->first));
  if (!exchanged && row->kind == INSTRUCTION_EXCHANGE)
    RengaCall(RengaChunkExchange_Private(chunk, pass, row));
  RengaCall(RengaChunkPassRows_Private(chunk, pass, sequence, segment->end));
  return RENGA_SUCCESS;
}

/* From where the walk has come to. exchanges: the other ranks of the tensor group have the
   micro-batch, too. */
static RengaErrorCode WalkOn(Chunk *chunk, Pass *pass, const Program *program, ProgramPart first,
                             ProgramPart last, bool exchanges)
{
  const Walk done = chunk->walk;
  Walk at = {0};
  for (ProgramPart part = first; part <= last; part++) {
    const Sequence *sequence = &program->part[part];
    if (sequence->count > 0) RengaCall(RengaChunkPassRows_Private(chunk, pass, sequence, 0));
    for (int s = 0; s < sequence->n_segments; s++) {
      const Segment *segment = &sequence->segment[s];
      const bool gathered = at.segments++ < done.segments;
      bool exchanged = !exchanges;
      if (sequence->row[segment->first].kind == INSTRUCTION_EXCHANGE)
        exchanged = exchanged || at.exchanges++ < done.exchanges;
      RengaCall(WalkSegment(chunk, pass, sequence, segment, gathered, exchanged));
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode GetProgram(Chunk *chunk, const Pass *pass, int64_t number, Program **program)
{
  const int64_t samples = RengaPassSamples_Private(chunk->pipeline, pass, number);
  RengaCall(
      RengaChunkGetProgram_Private(chunk, pass->kind, samples, chunk->portion.target, program));
  return RENGA_SUCCESS;
}

/* Behind an action that runs these parts of the program of micro-batch number. Fails only where
   messages are left under way. */
RengaErrorCode RengaChunkEndWalk_Private(Chunk *chunk, Pass *pass, ProgramPart first,
                                         ProgramPart last, int64_t number)
{
  Program *program;
  RengaCall(chunk->walk.lost);
  if (!pass->failed || pass->refused) return RENGA_SUCCESS;
  if (chunk->tensor.size == 1 && !chunk->window.fetch) return RENGA_SUCCESS;
  chunk->base[REGION_GRADIENTS] = chunk->gradients.sum; /* none may have been taken */
  RengaCall(GetProgram(chunk, pass, number, &program));
  RengaCall(WalkOn(chunk, pass, program, first, last, true));
  return RENGA_SUCCESS;
}

/* Of a micro-batch that only other replicas have; all have the program of the first one. */
RengaErrorCode RengaChunkWalkEmpty_Private(Chunk *chunk, Pass *pass, const RengaAction *action)
{
  const bool input = action->kind == RENGA_ACTION_BACKWARD_INPUT;
  const bool weight = action->kind == RENGA_ACTION_BACKWARD_WEIGHT;
  Program *program;
  RengaCall(GetProgram(chunk, pass, 0, &program));
  if (action->kind == RENGA_ACTION_FORWARD) {
    RengaCall(WalkOn(chunk, pass, program, PART_FORWARD, PART_FORWARD, false));
  } else if (action->kind == RENGA_ACTION_RECOMPUTE) {
    if (!RengaChunkKeepsAway_Private(chunk))
      RengaCall(WalkOn(chunk, pass, program, PART_AGAIN, PART_AGAIN, false));
  } else if (input || weight || action->kind == RENGA_ACTION_BACKWARD) {
    RengaCall(WalkOn(chunk, pass, program, weight ? PART_WEIGHT : PART_BACKWARD,
                     input ? PART_BACKWARD : PART_WEIGHT, false));
    if (!input && chunk->gradients.fold.on) RengaCall(RengaChunkEndRound_Private(chunk, pass));
  }
  return RENGA_SUCCESS;
}
