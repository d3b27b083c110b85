/* What set-up makes for this rank, and how it is forgotten. */
#include "renga/private/wait.h"
#include "updates.h"

static RengaErrorCode FreeComms(Rank *rank)
{
  RengaErrorCode code = RengaTransportDestroy_Private(&rank->transport);
  if (rank->together.side) RengaKeepFirst_Private(&code, RengaCommDestroy(&rank->together.side));
  if (rank->all) RengaKeepFirst_Private(&code, RengaCommDestroy(&rank->all));
  RengaCall(code);
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

/* The times of the last update come after the wait for it. Where work may go on for ever nobody
   looks. */
static RengaErrorCode EndAllWork(RengaPipeline pipeline)
{
  const bool whole = !RengaWatchIsBroken_Private(pipeline->hdr.comm);
  RengaErrorCode code = whole ? RengaSpansMark_Private(pipeline->device) : RENGA_SUCCESS;
  RengaPipelineEndWork_Private(pipeline);
  if (whole && !code) code = RengaSpansTake_Private(pipeline->device);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* All that set-up made, also where it ended half way. Memory that MPI may still write is kept, also
   where a new time limit has begun since. */
RengaErrorCode RengaPipelineForget_Private(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  RengaErrorCode code = RENGA_SUCCESS;
  if (rank->together.left) RengaWatchBreak_Private(pipeline->hdr.comm);
  if (rank->arena) RengaKeepFirst_Private(&code, EndAllWork(pipeline));
  for (int c = 0; c < rank->n_chunks; c++)
    RengaKeepFirst_Private(&code, RengaChunkFree_Private(&rank->chunk[c]));
  RengaKeepFirst_Private(&code, RengaPipelineFreeGate_Private(pipeline));
  if (rank->updated)
    RengaKeepFirst_Private(&code, RengaEventDestroy(pipeline->device, &rank->updated));
  if (rank->copies)
    RengaKeepFirst_Private(&code, RengaStreamDestroy(pipeline->device, &rank->copies));
  if (rank->arena) RengaKeepFirst_Private(&code, RengaDeviceFree(pipeline->device, &rank->arena));
  RengaKeepFirst_Private(&code, FreeComms(rank));
  FreeTables(rank);
  *rank = (Rank){0};
  RengaKeepFirst_Private(&code, RengaOutlineFree_Private(pipeline->outline));
  RengaCall(code);
  return RENGA_SUCCESS;
}
