/* What set-up makes for this rank, and how it is forgotten. */
#include "pipelineimpl.h"

static RengaErrorCode FreeComms(Rank *rank)
{
  RengaCall(RengaTransportDestroy_Private(&rank->transport));
  if (rank->together.side) RengaCall(RengaCommDestroy(&rank->together.side));
  if (rank->all) RengaCall(RengaCommDestroy(&rank->all));
  return RENGA_SUCCESS;
}

static void FreeTables(Rank *rank)
{
  for (int t = 0; t < rank->persistents.count; t++) {
    char *name = (char *)(uintptr_t)rank->persistents.row[t].name;
    RengaFree(&name);
  }
  RengaFree(&rank->persistents.row);
  RengaFree(&rank->together.standing);
  RengaFree(&rank->together.heard);
  RengaFree(&rank->together.notice);
  RengaFree(&rank->listed);
  RengaFree(&rank->sample_losses.values);
  RengaFree(&rank->chunk);
}

/* All that set-up made, also where it ended half way. */
RengaErrorCode RengaPipelineForget_Private(RengaPipeline pipeline)
{
  Rank *rank = &pipeline->rank;
  RengaErrorCode code = RENGA_SUCCESS;
  if (rank->arena) RengaPipelineEndWork_Private(pipeline);
  for (int c = 0; c < rank->n_chunks; c++) {
    const RengaErrorCode mine = RengaChunkFree_Private(&rank->chunk[c]);
    if (!code) code = mine;
  }
  if (!code && rank->updated) code = RengaEventDestroy(pipeline->device, &rank->updated);
  if (!code && rank->copies) code = RengaStreamDestroy(pipeline->device, &rank->copies);
  if (!code && rank->arena) code = RengaDeviceFree(pipeline->device, &rank->arena);
  if (!code) code = FreeComms(rank);
  FreeTables(rank);
  *rank = (Rank){0};
  const RengaErrorCode outline = RengaOutlineFree_Private(&pipeline->outline);
  if (!code) code = outline;
  RengaCall(code);
  return RENGA_SUCCESS;
}
