/* A pass from its preparation to its last sum. */
#include "pipelineimpl.h"

/* What the device must have besides inputs: parameters rounded from masters, where these may have
   been written by others than updates, and the scale of the loss. */
static RengaErrorCode GiveNumbers(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = &pipeline->rank;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int c = 0; c < rank->n_chunks && rank->rewritten && !code; c++)
    code = RengaChunkRoundValues_Private(&rank->chunk[c]);
  if (!code) rank->rewritten = false;
  for (int c = 0; c < rank->n_chunks && pass->training && !code; c++)
    code = RengaChunkQueueSeed_Private(&rank->chunk[c]);
  RengaCall(RengaPipelineNote_Private(pipeline, pass, code));
  return RENGA_SUCCESS;
}

/* The actions of this rank's list, after what has to be known before them. Fails only where
   messages are left under way. */
static RengaErrorCode WorkThroughList(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = &pipeline->rank;
  if (pass->prepared) RengaCall(GiveNumbers(pipeline, pass));
  for (int c = 0; c < rank->n_chunks && pass->prepared; c++)
    RengaCall(RengaChunkRunPrologue_Private(&rank->chunk[c], pass));
  if (pass->prepared) RengaCall(RengaPipelineRunPass_Private(pipeline, pass));
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
  for (int c = 0; c < pipeline->rank.n_chunks; c++) {
    Portion *portion = &pipeline->rank.chunk[c].portion;
    RengaFree(&portion->place);
    RengaFree(&portion->share);
    RengaFree(&portion->statistics);
    *portion = (Portion){.target = RENGA_VALUE_NONE, .results = portion->results};
  }
}
