/* The loop over the actions of a rank: what a schedule says is what is run, all of it. */
#include "updates.h"
#include "window.h"
#include "entry/entry.h"
#include "renga/private/fault.h"
#include <string.h>

/* Bases of the micro-batch in place i. */
void RengaChunkSetBases_Private(Chunk *chunk, bool training, int64_t i)
{
  char **base = chunk->at->region;
  const int64_t slot = i % chunk->memory->slots, saved = chunk->sizes->slot_bytes[training];
  const int64_t sent = chunk->sizes->sent_bytes[training];
  const int64_t own = sent + chunk->sizes->kept_bytes[training];
  base[REGION_PERSISTENT] = chunk->at->persistent;
  base[REGION_FOLDED] = chunk->at->folded;
  base[REGION_WINDOW] = chunk->at->window;
  base[REGION_SENT] = chunk->at->saved + slot * own;
  base[REGION_KEPT] = base[REGION_SENT] + sent;
  base[REGION_SAVED] =
      chunk->at->saved + (chunk->recompute ? chunk->memory->slots * own : slot * saved);
  base[REGION_TEMPORARY] = chunk->at->saved + RengaChunkKeptBytes_Private(chunk, training);
  base[REGION_INPUTS] = chunk->at->inputs + slot * chunk->sizes->input_bytes;
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    const Link *link = &chunk->link[m];
    base[REGION_MESSAGE + m] = link->base ? link->base + i % link->ring * link->bytes : NULL;
  }
}

/* Of all stages of the rank, as soon as the ranks agree. */
static RengaErrorCode PostAll(RengaPipeline pipeline, Pass *pass)
{
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, false));
  if (!pass->settled || pass->refused) return RENGA_SUCCESS;
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaCall(RengaChunkPostReceives_Private(&pipeline->rank->chunk[c], pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode FinishLinks(RengaPipeline pipeline, Pass *pass)
{
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaCall(RengaChunkFinishLinks_Private(&pipeline->rank->chunk[c], pass));
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaCall(RengaChunkEndFetches_Private(&pipeline->rank->chunk[c], pass));
  return RENGA_SUCCESS;
}

/* Actions that are parts of a micro-batch's program, the first to the last; NULL: none. */
typedef struct {
  RunOfMicrobatch run;
  ProgramPart first, last;
} PartsRule;

static const PartsRule *FindPartsOfAction(const RengaAction *action)
{
  static const PartsRule rules[RENGA_ACTION_KINDS] = {
      [RENGA_ACTION_FORWARD] = {RengaChunkForward_Private, PART_FORWARD, PART_FORWARD},
      [RENGA_ACTION_RECOMPUTE] = {RengaChunkRecompute_Private, PART_AGAIN, PART_AGAIN},
      [RENGA_ACTION_BACKWARD] = {RengaChunkBackward_Private, PART_BACKWARD, PART_WEIGHT},
      [RENGA_ACTION_BACKWARD_INPUT] = {RengaChunkBackwardInput_Private, PART_BACKWARD,
                                       PART_BACKWARD},
      [RENGA_ACTION_BACKWARD_WEIGHT] = {RengaChunkBackward_Private, PART_WEIGHT, PART_WEIGHT}};
  return rules[action->kind].run ? &rules[action->kind] : NULL;
}

static RengaErrorCode GetProgram(Chunk *chunk, const Pass *pass, int64_t number, Program **program)
{
  const int64_t samples = RengaPassSamples_Private(chunk->pipeline, pass, number);
  RengaCall(
      RengaChunkGetProgram_Private(chunk, pass->kind, samples, chunk->portion->target, program));
  return RENGA_SUCCESS;
}

/* Of a micro-batch that only other replicas have, which all have the program of the first one. */
static RengaErrorCode RunEmpty(Chunk *chunk, Pass *pass, const PartsRule *rule)
{
  Program *program;
  RengaCall(GetProgram(chunk, pass, 0, &program));
  if (rule->first == PART_AGAIN && RengaChunkKeepsAway_Private(chunk)) return RENGA_SUCCESS;
  for (ProgramPart part = rule->first; part <= rule->last; part++)
    if (part != PART_WEIGHT || chunk->memory->lag > 0)
      RengaCall(RengaChunkRunPart_Private(chunk, pass, program, part, NULL));
  if (rule->last == PART_WEIGHT && RengaChunkShardsGradients_Private(chunk))
    RengaCall(RengaChunkEndRound_Private(chunk, pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunParts(Chunk *chunk, Pass *pass, const PartsRule *rule,
                               const RengaAction *action, int64_t i)
{
  Program *program;
  RengaCall(GetProgram(chunk, pass, action->microbatch, &program));
  RengaChunkSetBases_Private(chunk, pass->training, i);
  RengaCall(rule->run(chunk, pass, program, action, i));
  RengaCall(PostAll(chunk->pipeline, pass));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunMicrobatch(Chunk *chunk, Pass *pass, const RengaAction *action)
{
  const Portion *portion = chunk->portion;
  const PartsRule *rule = FindPartsOfAction(action);
  const bool message = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  RengaCheck(rule || message, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "the pipeline has no action %s",
             RengaActionName(action->kind));
  if (RengaActionIsEmpty_Private(portion, action))
    return rule ? RunEmpty(chunk, pass, rule) : RENGA_SUCCESS;
  const int64_t i = portion->place[action->microbatch - portion->first];
  if (rule) return RunParts(chunk, pass, rule, action, i);
  if (action->kind == RENGA_ACTION_RECEIVE)
    return RengaChunkReceive_Private(chunk, pass, action->message, i);
  RengaChunkSetBases_Private(chunk, pass->training, i);
  return RengaChunkSend_Private(chunk, pass, action->message, i);
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
  RengaPipelineNameAction_Private(action, sizeof name, name);
  const size_t length = strlen(name);
  if (message)
    snprintf(name + length, sizeof name - length, " %s",
             pipeline->outline->message[action->message].value);
  RengaLogTrace(message ? "communication" : RengaPipelineTrack_Private(pipeline), name, begin,
                MPI_Wtime());
}

/* Before an action that sends, or waits for what others send; the last backward may begin sums. */
static RengaErrorCode SettleBefore(RengaPipeline pipeline, Pass *pass, const RengaAction *action)
{
  const bool message = action->kind == RENGA_ACTION_SEND || action->kind == RENGA_ACTION_RECEIVE;
  const Chunk *chunk = RengaPipelineFindChunk_Private(pipeline, action->stage);
  if (!message && action->microbatch >= 0 && !RengaChunkBeginsSums_Private(chunk, action) &&
      !chunk->window->bucket)
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
    const bool empty = chunk && RengaActionIsEmpty_Private(chunk->portion, action);
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
