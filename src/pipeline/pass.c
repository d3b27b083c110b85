/* A pass from its preparation to its last sum. */
#include "gradients.h"
#include "renga/private/signs.h"
#include "updates.h"

/* Parameters rounded from masters, which may have been written by others than updates. The pass may
   still be refused: what all ranks know alike stays. Fails only where messages are left under
   way. */
static RengaErrorCode RoundParameters(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = pipeline->rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaPipelineEndOwnGathers_Private(pipeline, pass));
  for (int c = 0; c < rank->n_chunks && !code; c++)
    code = RengaChunkRoundValues_Private(&rank->chunk[c]);
  if (!code) rank->rewritten = false;
  for (int c = 0; c < rank->n_chunks; c++)
    if (RengaChunkSharesMasters_Private(&rank->chunk[c]))
      RengaCall(RengaChunkGatherValues_Private(&rank->chunk[c]));
  for (int c = 0; c < rank->n_chunks && !code; c++) /* of the step itself */
    code = RengaChunkPrepareGathers_Private(&rank->chunk[c]);
  RengaCall(RengaPipelineNote_Private(pipeline, pass, code));
  return RENGA_SUCCESS;
}

/* Where replicas share masters all of them round, if one has to: whether one has, the agreement
   says. */
static RengaErrorCode AskWhoWrote(RengaPipeline pipeline, Pass *pass, bool *written)
{
  const Rank *rank = pipeline->rank;
  bool shared = false;
  for (int c = 0; c < rank->n_chunks; c++)
    shared = shared || RengaChunkSharesMasters_Private(&rank->chunk[c]);
  *written = rank->rewritten;
  if (!shared) return RENGA_SUCCESS;
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, true));
  *written = !pass->refused && rank->together.agree[3] > 0;
  return RENGA_SUCCESS;
}

/* What the device must have besides inputs: parameters, and the scale of the loss. */
static RengaErrorCode GiveNumbers(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = pipeline->rank;
  RengaErrorCode code = RENGA_SUCCESS;
  bool written;
  RengaCall(AskWhoWrote(pipeline, pass, &written));
  if (written) RengaCall(RoundParameters(pipeline, pass));
  for (int c = 0; c < rank->n_chunks && pass->training && !code; c++)
    code = RengaChunkQueueSeed_Private(&rank->chunk[c]);
  RengaCall(RengaPipelineNote_Private(pipeline, pass, code));
  return RENGA_SUCCESS;
}

/* The actions of this rank's list, after what has to be known before them. Fails only where
   messages are left under way. */
static RengaErrorCode WorkThroughList(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = pipeline->rank;
  if (pass->prepared) RengaCall(GiveNumbers(pipeline, pass));
  for (int c = 0; c < rank->n_chunks && pass->prepared; c++)
    RengaCall(RengaChunkRunPrologue_Private(&rank->chunk[c], pass));
  if (pass->call == CALL_COUNT && pass->prepared) RengaPipelineCompareSums_Private(pipeline, pass);
  if (pass->call != CALL_COUNT && pass->prepared)
    RengaCall(RengaPipelineRunPass_Private(pipeline, pass));
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, true));
  if (pass->refused || pass->training) return RENGA_SUCCESS;
  RengaCall(RengaPipelineAwaitUpdate_Private(pipeline));
  RengaCall(RengaPipelineTakeResults_Private(pipeline, pass));
  RengaCall(RengaPipelineSumValues_Private(pipeline, pass));
  return RENGA_SUCCESS;
}

/* Before what the pass had on the host is freed. The update of a step that was made is left to go
   on. */
static RengaErrorCode EndPass(RengaPipeline pipeline, const Pass *pass)
{
  if (pass->taken && !pass->failed) return RENGA_SUCCESS;
  const RengaErrorCode code = RengaPipelineAwaitUpdate_Private(pipeline);
  RengaPipelineEndWork_Private(pipeline);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Collective. pass->code is what this rank has found wrong so far. On success pass->values are
   those of all ranks. */
RengaErrorCode RengaPipelineRunTogether_Private(RengaPipeline pipeline, Pass *pass)
{
  if (pass->call != CALL_STEP) RengaSignWork_Private();
  if (!pass->code) pass->code = RengaPipelinePrepare_Private(pipeline, pass);
  RengaErrorCode code = RengaPipelineAskAll_Private(pipeline, pass);
  if (!code) code = WorkThroughList(pipeline, pass);
  if (code) RengaPipelineBreak_Private(pipeline, code); /* the device ends, too */
  const RengaErrorCode end = EndPass(pipeline, pass);
  if (!code && end) RengaPipelineBreak_Private(pipeline, end);
  RengaKeepFirst_Private(&code, end);
  RengaCall(code);
  if (pass->refused || RengaPassHasFailed_Private(pass))
    RengaCall(RengaPipelineFailTogether_Private(pipeline, pass));
  return RENGA_SUCCESS;
}

/* The chunks' portions too. */
void RengaPipelineFreePass_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaFree(&pass->values);
  RengaFree(&pass->own);
  for (int c = 0; c < pipeline->rank->n_chunks; c++) {
    Portion *portion = pipeline->rank->chunk[c].portion;
    RengaFree(&portion->place);
    RengaFree(&portion->share);
    RengaFree(&portion->statistics);
    *portion = (Portion){.target = RENGA_VALUE_NONE, .results = portion->results};
  }
}
