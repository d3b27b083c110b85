/* A pass from its preparation to its last sum. */
#include "pipelineimpl.h"

/* The actions of this rank's list, after what has to be known before them. */
static RengaErrorCode RunChunks(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = &pipeline->rank;
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkRunPrologue_Private(&rank->chunk[c], pass));
  if (rank->n_chunks > 0) RengaCall(RengaPipelineRunPass_Private(pipeline, pass));
  return RENGA_SUCCESS;
}

/* Gradients and statistics of the whole batch, and their norms. */
static RengaErrorCode SumUp(RengaPipeline pipeline, Pass *pass)
{
  Rank *rank = &pipeline->rank;
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkReduceGradients_Private(&rank->chunk[c], pass));
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkExchangeTied_Private(&rank->chunk[c], pass));
  RengaCall(
      RengaPipelineNote_Private(pipeline, pass, RengaPipelineFindNorms_Private(pipeline, pass)));
  for (int c = 0; c < rank->n_chunks; c++)
    RengaCall(RengaChunkSumStatistics_Private(&rank->chunk[c], pass));
  return RENGA_SUCCESS;
}

/* Between the agreement and the last sum. Fails only where messages are left under way. */
static RengaErrorCode Work(RengaPipeline pipeline, Pass *pass)
{
  if (pass->prepared) RengaCall(RunChunks(pipeline, pass));
  RengaCall(RengaPipelineSettle_Private(pipeline, pass, true));
  if (!pass->refused && pass->training) RengaCall(SumUp(pipeline, pass));
  return RENGA_SUCCESS;
}

/* Collective. pass->code is what this rank has found wrong so far. On success pass->values are
   those of all ranks. */
RengaErrorCode RengaPipelineRunTogether_Private(RengaPipeline pipeline, Pass *pass)
{
  if (!pass->code) pass->code = RengaPipelinePrepare_Private(pipeline, pass);
  RengaErrorCode code = RengaPipelineAskAll_Private(pipeline, pass);
  if (!code) code = Work(pipeline, pass);
  if (!code && !pass->refused) code = RengaPipelineSumValues_Private(pipeline, pass);
  if (code) RengaPipelineBreak_Private(pipeline, code);
  RengaCall(code);
  if (pass->refused || pass->values[pass->n_values - 1] > 0)
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
    RengaFree(&portion->scratch);
    *portion = (Portion){.target = RENGA_VALUE_NONE};
  }
}
