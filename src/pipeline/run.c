/* The loop over the actions of a rank: what a schedule says is what is run, all of it. */
#include "exchange.h"
#include "pipelineimpl.h"
#include "renga/private/device.h"
#include "renga/private/fault.h"
#include "renga/private/log.h"
#include <string.h>

RengaKernelContext RengaChunkContext_Private(const Chunk *chunk, const Pass *pass, int64_t number)
{
  return (RengaKernelContext){.seed = (uint64_t)chunk->outline->settings->seed,
                              .step = chunk->pipeline->step,
                              .sample =
                                  RengaPassTurn_Private(pass, number) * chunk->outline->microbatch,
                              .samples = RengaPassSamples_Private(chunk->pipeline, pass, number),
                              .training = pass->training};
}

/* Where parameters are still on their way: those that the instruction reads are awaited. */
static RengaErrorCode RunInstruction(Chunk *chunk, const Instruction *row,
                                     const RengaKernelContext *context)
{
  if (chunk->gradients.n_gathering > 0) RengaCall(RengaChunkAwaitOperands_Private(chunk, row));
  RengaCall(RengaChunkRunInstruction_Private(chunk, row, context));
  RengaCall(RengaCommProgress(chunk->pipeline->rank.all));
  return RENGA_SUCCESS;
}

/* Signals come through while others are waited for. */
static RengaErrorCode RunExchange(Chunk *chunk, Pass *pass, const Instruction *row)
{
  RengaDeviceReleaseSignals_Private();
  const RengaErrorCode code = RengaChunkExchange_Private(chunk, pass, row);
  RengaDeviceHoldSignals_Private();
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool PassGoesOn(Chunk *chunk, Pass *pass)
{
  return !pass->refused && !RengaPipelineHears_Private(chunk->pipeline, pass, false);
}

static RengaErrorCode RunSegment(Chunk *chunk, Pass *pass, const Sequence *sequence,
                                 Segment *segment, const RengaKernelContext *context)
{
  bool done = false;
  if (sequence->row[segment->first].kind == INSTRUCTION_EXCHANGE) {
    RengaCall(RunExchange(chunk, pass, &sequence->row[segment->first]));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaChunkReplay_Private(chunk, sequence, segment, context, &done));
  if (done) RengaCall(RengaCommProgress(chunk->pipeline->rank.all));
  for (int i = segment->first; i < segment->end && !done && PassGoesOn(chunk, pass); i++)
    RengaCall(RunInstruction(chunk, &sequence->row[i], context));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSequence(Chunk *chunk, Pass *pass, const Sequence *sequence,
                                  const RengaKernelContext *context)
{
  RengaCheck(sequence->count == 0 || sequence->segment, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "a part of %d rows was not cut before it is run", sequence->count);
  if (RengaDeviceRecords_Private(chunk->device)) RengaCall(RengaChunkAwaitValues_Private(chunk));
  RengaCall(RengaChunkPassRows_Private(chunk, pass, sequence, 0));
  for (int s = 0; s < sequence->n_segments && PassGoesOn(chunk, pass); s++) {
    Segment *segment = &sequence->segment[s];
    chunk->walk.segments++;
    chunk->walk.lost = RengaChunkFetchRows_Private(chunk, pass, sequence, segment->first);
    RengaCall(chunk->walk.lost);
    RengaCall(RunSegment(chunk, pass, sequence, segment, context));
    if (PassGoesOn(chunk, pass))
      RengaCall(RengaChunkPassRows_Private(chunk, pass, sequence, segment->end));
  }
  return RENGA_SUCCESS;
}

/* A device that works later and does not say when: the log's times are those of the work because
   the host waits for it. */
static RengaErrorCode AwaitForLog(RengaPipeline pipeline)
{
  if (RengaLogIsWanted_Private() && !RengaDeviceHasSpans_Private(pipeline->device))
    RengaCall(RengaPipelineAwaitDevice_Private(pipeline));
  return RENGA_SUCCESS;
}

/* Run one part of a program; the bases are set. Messages move between the kernels, signals wait.
   Ends early when another rank has failed. */
RengaErrorCode RengaChunkRunPart_Private(Chunk *chunk, Pass *pass, Program *program,
                                         ProgramPart part, const RengaKernelContext *context)
{
  RengaDeviceHoldSignals_Private();
  RengaErrorCode code = RunSequence(chunk, pass, &program->part[part], context);
  RengaDeviceReleaseSignals_Private();
  if (!code) code = AwaitForLog(chunk->pipeline);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* "forward 3" */
static void NameAction(const RengaAction *action, size_t size, char name[])
{
  snprintf(name, size, "%s %lld", RengaActionName(action->kind), (long long)action->microbatch);
}

/* The same for the log. */
static RengaErrorCode RunTimedPart(Chunk *chunk, Pass *pass, Program *program, ProgramPart part,
                                   PipelineEvent event, const RengaAction *action)
{
  const RengaKernelContext context = RengaChunkContext_Private(chunk, pass, action->microbatch);
  char name[48];
  RengaSpan span;
  NameAction(action, sizeof name, name);
  RengaCall(RengaPipelineBeginTimed_Private(chunk->pipeline, event, &span));
  const RengaErrorCode code = RengaChunkRunPart_Private(chunk, pass, program, part, &context);
  RengaCall(RengaPipelineEndTimed_Private(chunk->pipeline, event, span, program->part[part].flops,
                                          name, code));
  return RENGA_SUCCESS;
}

/* Bases of the micro-batch in place i. */
void RengaChunkSetBases_Private(Chunk *chunk, bool training, int64_t i)
{
  char **base = chunk->base;
  const int64_t slot = i % chunk->slots, saved = chunk->sizes.slot_bytes[training];
  const int64_t sent = chunk->sizes.sent_bytes[training];
  const int64_t own = sent + chunk->sizes.kept_bytes[training];
  base[REGION_PERSISTENT] = chunk->at.persistent;
  base[REGION_FOLDED] = chunk->at.folded;
  base[REGION_WINDOW] = chunk->at.window;
  base[REGION_SENT] = chunk->at.saved + slot * own;
  base[REGION_KEPT] = base[REGION_SENT] + sent;
  base[REGION_SAVED] = chunk->at.saved + (chunk->recompute ? chunk->slots * own : slot * saved);
  base[REGION_TEMPORARY] = chunk->at.saved + RengaChunkKeptBytes_Private(chunk, training);
  base[REGION_INPUTS] = chunk->at.inputs + slot * chunk->sizes.input_bytes;
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    const Link *link = &chunk->link[m];
    base[REGION_MESSAGE + m] = link->base ? link->base + i % link->ring * link->bytes : NULL;
  }
}

/* The program of micro-batch number; what it folds is worked out when another program ran
   before. */
static RengaErrorCode TakeProgram(Chunk *chunk, Pass *pass, int64_t number, Program **program)
{
  const RengaKernelContext context = RengaChunkContext_Private(chunk, pass, number);
  RengaCall(RengaChunkGetProgram_Private(chunk, pass->kind, context.samples, chunk->portion.target,
                                         program));
  if (chunk->programs.folded == *program || (*program)->part[PART_CONSTANT].count == 0)
    return RENGA_SUCCESS;
  chunk->programs.folded = NULL;
  const RengaErrorCode code =
      RengaChunkRunPart_Private(chunk, pass, *program, PART_CONSTANT, &context);
  chunk->walk = (Walk){0}; /* all others have nothing to do with it */
  RengaCall(code);
  if (!pass->failed) chunk->programs.folded = *program;
  return RENGA_SUCCESS;
}

static RengaErrorCode Fill(Chunk *chunk, char *base, int64_t bytes)
{
  if (bytes > 0) RengaCall(RengaDeviceSetBytes(chunk->device, NULL, base, 0xff, (size_t)bytes));
  return RENGA_SUCCESS;
}

/* A recomputation leaves temporary tensors to the backward that follows it. */
static bool MakesAgain(const Chunk *chunk)
{
  return chunk->recompute && !RengaChunkKeepsAway_Private(chunk);
}

/* With -device_poison: what an action must set before it reads it. adds: gradients of parameters
   are not among it. */
static RengaErrorCode Poison(Chunk *chunk, bool training, bool adds, const RengaAction *action)
{
  const bool makes = action->kind == RENGA_ACTION_FORWARD || action->kind == RENGA_ACTION_RECOMPUTE;
  if (!RengaDeviceGetPoison(chunk->device)) return RENGA_SUCCESS;
  if (makes || !MakesAgain(chunk))
    RengaCall(Fill(chunk, chunk->base[REGION_TEMPORARY], chunk->sizes.temporary_bytes[training]));
  if (makes) {
    RengaCall(Fill(chunk, chunk->base[REGION_SAVED], chunk->sizes.slot_bytes[training]));
  }
  if (action->kind == RENGA_ACTION_FORWARD) {
    RengaCall(Fill(chunk, chunk->base[REGION_SENT], chunk->sizes.sent_bytes[training]));
    RengaCall(Fill(chunk, chunk->base[REGION_KEPT], chunk->sizes.kept_bytes[training]));
  }
  if (action->kind == RENGA_ACTION_FORWARD && !chunk->inputs.host)
    RengaCall(Fill(chunk, chunk->base[REGION_INPUTS], chunk->sizes.input_bytes));
  if (!makes && !adds && !chunk->gradients.fold.on) /* bucket by bucket there */
    RengaCall(Fill(chunk, chunk->base[REGION_GRADIENTS],
                   RengaChunkRoleBytes_Private(chunk, ROLE_GRADIENT, chunk->sizes.gradient_count)));
  return RENGA_SUCCESS;
}

static RengaErrorCode Forward(Chunk *chunk, Pass *pass, const RengaAction *action, int64_t i)
{
  Program *program;
  const int64_t number = action->microbatch;
  RengaCall(Poison(chunk, pass->training, false, action));
  RengaCall(TakeProgram(chunk, pass, number, &program));
  RengaCall(RengaChunkReadFields_Private(chunk, pass, program, i, number));
  RengaCall(RunTimedPart(chunk, pass, program, PART_FORWARD, EVENT_FORWARD, action));
  if (pass->training && RengaChunkKeepsAway_Private(chunk))
    RengaCall(RengaChunkSendAway_Private(chunk, i));
  RengaCall(RengaChunkQueueResults_Private(chunk, pass, program, i));
  if (!pass->training) RengaCall(RengaChunkReleaseInputs_Private(chunk, i));
  return RENGA_SUCCESS;
}

/* What backward needs first is made again, where that backward has it: whether gradients will be
   added decides places there. */
static RengaErrorCode Recompute(Chunk *chunk, Pass *pass, const RengaAction *action, int64_t i)
{
  Program *program;
  bool adds;
  if (RengaChunkKeepsAway_Private(chunk)) {
    RengaCall(RengaChunkFetch_Private(chunk, i));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaChunkWillAdd_Private(chunk, pass, action->microbatch, &adds));
  RengaCall(Poison(chunk, true, false, action));
  RengaCall(TakeProgram(chunk, pass, action->microbatch, &program));
  if (adds) RengaCall(RengaChunkGetAdding_Private(chunk, program->samples, &program));
  RengaCall(RunTimedPart(chunk, pass, program, PART_AGAIN, EVENT_RECOMPUTE, action));
  return RENGA_SUCCESS;
}

/* Gradients of what the stage received, where those of parameters come later: their place is not
   known yet. */
static RengaErrorCode BackwardInput(Chunk *chunk, Pass *pass, const RengaAction *action)
{
  Program *program;
  RengaCall(RengaChunkTakeRows_Private(chunk, action));
  RengaCall(Poison(chunk, pass->training, true, action));
  RengaCall(TakeProgram(chunk, pass, action->microbatch, &program));
  RengaCall(RunTimedPart(chunk, pass, program, PART_BACKWARD, EVENT_BACKWARD, action));
  return RENGA_SUCCESS;
}

/* Gradients of parameters, and before them the others where the backward is whole. */
static RengaErrorCode Backward(Chunk *chunk, Pass *pass, const RengaAction *action, int64_t i)
{
  Program *program;
  bool adds;
  const int64_t number = action->microbatch;
  RengaCall(RengaChunkTakeGradients_Private(chunk, pass, number, &adds));
  RengaCall(RengaChunkTakeRows_Private(chunk, action));
  RengaCall(Poison(chunk, pass->training, adds, action));
  RengaCall(TakeProgram(chunk, pass, number, &program));
  if (adds) RengaCall(RengaChunkGetAdding_Private(chunk, program->samples, &program));
  if (!chunk->gradients.fold.on && RengaChunkBeginsSums_Private(chunk, action))
    RengaCall(RengaChunkCloseEarly_Private(chunk, pass));
  if (action->kind == RENGA_ACTION_BACKWARD)
    RengaCall(RunTimedPart(chunk, pass, program, PART_BACKWARD, EVENT_BACKWARD, action));
  if (chunk->lag > 0)
    RengaCall(RunTimedPart(chunk, pass, program, PART_WEIGHT, EVENT_BACKWARD, action));
  RengaCall(RengaChunkReleaseInputs_Private(chunk, i));
  if (!pass->failed) RengaCall(RengaChunkCloseGradients_Private(chunk, pass, number));
  return RENGA_SUCCESS;
}

/* Of all stages of the rank, as soon as the ranks agree. */
static RengaErrorCode PostAll(RengaPipeline pipeline, Pass *pass)
{
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, false));
  if (!pass->settled || pass->refused) return RENGA_SUCCESS;
  for (int c = 0; c < pipeline->rank.n_chunks; c++)
    RengaCall(RengaChunkPostReceives_Private(&pipeline->rank.chunk[c], pass));
  return RENGA_SUCCESS;
}

/* Where the pass has failed only what messages need of it is done. */
static RengaErrorCode RunForward(Chunk *chunk, Pass *pass, const RengaAction *action, int64_t i)
{
  RengaCall(RengaChunkWaitSends_Private(chunk, pass, i, false));
  RengaChunkSetBases_Private(chunk, pass->training, i);
  if (!RengaPipelineHears_Private(chunk->pipeline, pass, true))
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, Forward(chunk, pass, action, i)));
  RengaCall(RengaChunkEndWalk_Private(chunk, pass, PART_FORWARD, PART_FORWARD, action->microbatch));
  chunk->portion.forward_done++;
  RengaCall(PostAll(chunk->pipeline, pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunRecompute(Chunk *chunk, Pass *pass, const RengaAction *action, int64_t i)
{
  RengaChunkSetBases_Private(chunk, true, i);
  if (!pass->failed)
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass, Recompute(chunk, pass, action, i)));
  RengaCall(RengaChunkEndWalk_Private(chunk, pass, PART_AGAIN, PART_AGAIN, action->microbatch));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunBackward(Chunk *chunk, Pass *pass, const RengaAction *action, int64_t i)
{
  const bool input = action->kind == RENGA_ACTION_BACKWARD_INPUT;
  const bool weight = action->kind == RENGA_ACTION_BACKWARD_WEIGHT;
  if (!weight) RengaCall(RengaChunkWaitSends_Private(chunk, pass, i, true));
  RengaChunkSetBases_Private(chunk, true, i);
  if (!RengaPipelineHears_Private(chunk->pipeline, pass, true))
    RengaCall(RengaPipelineNote_Private(chunk->pipeline, pass,
                                        input ? BackwardInput(chunk, pass, action)
                                              : Backward(chunk, pass, action, i)));
  RengaCall(RengaChunkEndWalk_Private(chunk, pass, weight ? PART_WEIGHT : PART_BACKWARD,
                                      input ? PART_BACKWARD : PART_WEIGHT, action->microbatch));
  if (input) return RENGA_SUCCESS; /* what it read is wanted again */
  if (chunk->gradients.fold.on) RengaCall(RengaChunkEndRound_Private(chunk, pass));
  chunk->portion.backward_done++;
  RengaCall(PostAll(chunk->pipeline, pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode Send(Chunk *chunk, Pass *pass, int row, int64_t i)
{
  RengaChunkSetBases_Private(chunk, pass->training, i);
  RengaCall(RengaChunkSend_Private(chunk, pass, row, i));
  return RENGA_SUCCESS;
}

static RengaErrorCode FinishLinks(RengaPipeline pipeline, Pass *pass)
{
  for (int c = 0; c < pipeline->rank.n_chunks; c++)
    RengaCall(RengaChunkFinishLinks_Private(&pipeline->rank.chunk[c], pass));
  for (int c = 0; c < pipeline->rank.n_chunks; c++)
    RengaCall(RengaChunkEndFetches_Private(&pipeline->rank.chunk[c], pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunMicrobatch(Chunk *chunk, Pass *pass, const RengaAction *action)
{
  const Portion *portion = &chunk->portion;
  chunk->walk = (Walk){0};
  if (RengaActionIsEmpty_Private(portion, action))
    return RengaChunkWalkEmpty_Private(chunk, pass, action);
  const int64_t i = portion->place[action->microbatch - portion->first];
  switch (action->kind) {
  case RENGA_ACTION_FORWARD:
    return RunForward(chunk, pass, action, i);
  case RENGA_ACTION_RECOMPUTE:
    return RunRecompute(chunk, pass, action, i);
  case RENGA_ACTION_BACKWARD:
  case RENGA_ACTION_BACKWARD_INPUT:
  case RENGA_ACTION_BACKWARD_WEIGHT:
    return RunBackward(chunk, pass, action, i);
  case RENGA_ACTION_SEND:
    return Send(chunk, pass, action->message, i);
  case RENGA_ACTION_RECEIVE:
    return RengaChunkReceive_Private(chunk, pass, action->message, i);
  default:
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_INTERNAL, "the pipeline has no action %s",
               RengaActionName(action->kind));
  }
}

/* Behind the update, where it was made. An error is one of the update. */
static RengaErrorCode GatherParameters(Chunk *chunk, Pass *pass, int bucket)
{
  if (!pass->changes) return RENGA_SUCCESS;
  const RengaErrorCode code = RengaChunkBeginGather_Private(chunk, pass, bucket);
  if (code == RENGA_ERR_TIMEOUT) RengaCall(code);
  if (code && !pass->verdict) pass->verdict = code;
  if (code) RengaPipelineSpoil_Private(chunk->pipeline, code);
  return RENGA_SUCCESS;
}

/* Fails only where messages are left under way; other errors are noted in the pass. */
static RengaErrorCode RunAction(RengaPipeline pipeline, Pass *pass, const RengaAction *action)
{
  Chunk *chunk = RengaPipelineFindChunk_Private(pipeline, action->stage);
  switch (action->kind) {
  case RENGA_ACTION_UPDATE:
    RengaCall(FinishLinks(pipeline, pass));
    return RengaPipelineRunUpdate_Private(pipeline, pass);
  case RENGA_ACTION_GATHER_PARAMETERS:
    return GatherParameters(chunk, pass, action->bucket);
  case RENGA_ACTION_REDUCE:
    return RengaChunkReduceGradients_Private(chunk, pass, action->bucket);
  case RENGA_ACTION_GATHER:
    return RengaChunkGatherBucket_Private(chunk, pass, action->bucket);
  default:
    return RunMicrobatch(chunk, pass, action);
  }
}

static void Trace(RengaPipeline pipeline, const RengaAction *action, double begin)
{
  char name[160];
  const bool message = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  if (!RengaLogTraceIsOn() || action->microbatch < 0) return;
  NameAction(action, sizeof name, name);
  const size_t length = strlen(name);
  if (message)
    snprintf(name + length, sizeof name - length, " %s",
             pipeline->outline.message[action->message].value);
  RengaLogTrace(message ? "communication" : RengaPipelineTrack_Private(pipeline), name, begin,
                MPI_Wtime());
}

/* Before an action that sends, or waits for what others send; the last backward may begin sums. */
static RengaErrorCode SettleBefore(RengaPipeline pipeline, Pass *pass, const RengaAction *action)
{
  const bool message = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  const Chunk *chunk = RengaPipelineFindChunk_Private(pipeline, action->stage);
  if (!message && action->microbatch >= 0 && !RengaChunkBeginsSums_Private(chunk, action) &&
      !chunk->window.fetch)
    return RENGA_SUCCESS;
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, true));
  RengaCall(PostAll(pipeline, pass));
  return RENGA_SUCCESS;
}

/* One pass over this rank's list. Fails only where messages are left under way. */
RengaErrorCode RengaPipelineRunPass_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaCall(PostAll(pipeline, pass));
  for (int64_t a = 0; a < pass->n_actions && !pass->refused; a++) {
    const RengaAction *action = &pass->action[a];
    const double begin = MPI_Wtime();
    if (!pass->settled) RengaCall(SettleBefore(pipeline, pass, action));
    if (pass->refused) break;
    const Chunk *chunk = RengaPipelineFindChunk_Private(pipeline, action->stage);
    const bool empty = chunk && RengaActionIsEmpty_Private(&chunk->portion, action);
    if (!empty)
      RengaFaultMeetAction(RengaActionName(action->kind), action->stage, action->microbatch);
    RengaCall(RunAction(pipeline, pass, action));
    if (!empty) Trace(pipeline, action, begin);
  }
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, true));
  if (pass->refused || pass->training) return RENGA_SUCCESS;
  RengaCall(FinishLinks(pipeline, pass));
  RengaCall(RengaPipelineEndGathers_Private(pipeline, pass));
  return RENGA_SUCCESS;
}
