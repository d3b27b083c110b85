/* What network and plan say of a run, the same on all ranks: nothing of it needs a rank. */
#include "pipelineimpl.h"

/* The plan's batch, then those that were announced. */
static RengaErrorCode ListBatches(RengaPipeline pipeline, Outline *outline)
{
  RengaCall(RengaMalloc(1 + pipeline->n_short, &outline->batch));
  RengaCall(RengaPlanGetBatch(pipeline->plan, &outline->batch[0], &outline->microbatch));
  for (int i = 0; i < pipeline->n_short; i++) outline->batch[1 + i] = pipeline->short_batch[i];
  outline->n_batches = 1 + pipeline->n_short;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadOutline(RengaPipeline pipeline, Outline *outline)
{
  RengaValue loss;
  outline->stages = RengaPlanGetStageCount(pipeline->plan);
  outline->leaf = RengaPlanGetLeaf(pipeline->plan);
  RengaCall(ListBatches(pipeline, outline));
  RengaCall(RengaGraphGetLoss(pipeline->graph, &loss));
  outline->has_loss = loss != RENGA_VALUE_NONE;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(pipeline->graph); v++)
    outline->n_parameters += RengaGraphGetValue(pipeline->graph, v)->kind == RENGA_VALUE_PARAMETER;
  RengaCall(RengaPlanGetMessages(pipeline->plan, pipeline->graph, &outline->n_messages,
                                 &outline->message));
  return RENGA_SUCCESS;
}

/* Of the pipeline's network, plan and settings, which it lends. */
RengaErrorCode RengaOutlineRead_Private(RengaPipeline pipeline, Outline *outline)
{
  Outline made = {.owner = pipeline->hdr.owner,
                  .graph = pipeline->graph,
                  .plan = pipeline->plan,
                  .settings = pipeline->settings,
                  .saved = pipeline->saved};
  const RengaErrorCode code = ReadOutline(pipeline, &made);
  if (code) RengaOutlineFree_Private(&made);
  RengaCall(code);
  *outline = made;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOutlineFree_Private(Outline *outline)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int s = 0; s < outline->n_schedules; s++)
    RengaKeepFirst_Private(&code, RengaScheduleDestroy(&outline->schedule[s].schedule));
  RengaFree(&outline->schedule);
  RengaFree(&outline->message);
  RengaFree(&outline->batch);
  *outline = (Outline){0};
  RengaCall(code);
  return RENGA_SUCCESS;
}
