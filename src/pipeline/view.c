/* What a pipeline is: stages, ranks and memory as a table. */
#include "pipelineimpl.h"

typedef struct {
  int stage, replica, kernels, slots;
  RengaPipelineMemory memory;
} Row;

static RengaErrorCode PrintRow(RengaViewer viewer, int rank, const Row *row)
{
  char text[8][24];
  const RengaPipelineMemory *m = &row->memory;
  const int64_t bytes[8] = {m->parameters, m->gradients, m->optimizer, m->saved,
                            m->temporary,  m->messages,  m->inputs,    m->forecast};
  if (row->stage < 0) {
    RengaCall(RengaViewerPrintf(viewer, "  %4d   idle\n", rank));
    return RENGA_SUCCESS;
  }
  for (int i = 0; i < 8; i++) RengaFormatBytes((double)bytes[i], sizeof text[i], text[i]);
  RengaCall(RengaViewerPrintf(viewer,
                              "  %4d  %5d %7d %7d %6d %10s %10s %10s %10s %10s %10s %10s %10s\n",
                              rank, row->stage, row->replica, row->kernels, row->slots, text[0],
                              text[1], text[2], text[3], text[4], text[5], text[6], text[7]));
  return RENGA_SUCCESS;
}

/* "2", or "1 to 4" where stages differ. */
static void FormatReplicas(RengaPlan plan, size_t size, char text[])
{
  int least = RengaPlanGetStage(plan, 0)->shape.replicas, most = least;
  for (int s = 1; s < RengaPlanGetStageCount(plan); s++) {
    const int replicas = RengaPlanGetStage(plan, s)->shape.replicas;
    if (replicas < least) least = replicas;
    if (replicas > most) most = replicas;
  }
  if (least == most)
    snprintf(text, size, "%d", least);
  else
    snprintf(text, size, "%d to %d", least, most);
}

static RengaErrorCode PrintAll(RengaPipeline pipeline, RengaViewer viewer, const Row rows[])
{
  char replicas[64];
  FormatReplicas(pipeline->plan, sizeof replicas, replicas);
  RengaCall(RengaViewerPrintf(viewer,
                              "Pipeline: %d stages x %s replicas, %s reduction, seed %lld\n",
                              pipeline->outline.stages, replicas, pipeline->settings->reduction,
                              (long long)pipeline->settings->seed));
  RengaCall(RengaViewerPrintf(
      viewer, "  rank  stage replica kernels flight parameters  gradients  optimizer      "
              "saved  temporary   messages     inputs        all\n"));
  for (int r = 0; r < RengaCommGetSize(pipeline->rank.all); r++)
    RengaCall(PrintRow(viewer, r, &rows[r]));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineView - stages, ranks and their memory

   Collective

   Input:
   . pipeline - the pipeline, set up
   . viewer - where to; rank 0 writes
@*/
RengaErrorCode RengaPipelineView(RengaPipeline pipeline, RengaViewer viewer)
{
  RengaCheckPointer(pipeline);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  const Chunk *chunk = pipeline->rank.n_chunks > 0 ? pipeline->rank.chunk : NULL;
  Row mine = {.stage = -1, .memory = pipeline->rank.memory};
  if (chunk) {
    mine.stage = chunk->stage;
    mine.replica = chunk->replica;
    mine.kernels = chunk->kernels.count;
    mine.slots = chunk->slots;
  }
  Row *rows = NULL;
  RengaErrorCode code =
      RengaErrorAgree(pipeline->hdr.comm, RengaMalloc(RengaCommGetSize(pipeline->rank.all), &rows));
  if (!code)
    code = RengaCommGather(pipeline->rank.all, &mine, sizeof mine, rows, 0,
                           "all ranks to show the pipeline");
  if (code == RENGA_SUCCESS) code = PrintAll(pipeline, viewer, rows);
  RengaFree(&rows);
  RengaCall(code);
  return RENGA_SUCCESS;
}
