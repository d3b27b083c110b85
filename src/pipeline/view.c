/* What a pipeline is: stages, ranks and memory as a table. */
#include "pipelineimpl.h"

typedef struct {
  int stage, replica, kernels, slots;
  RengaPipelineMemory memory;
} PipelineRow;

static RengaErrorCode PrintViewRow(RengaViewer viewer, int rank, const PipelineRow *row)
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
static void FormatReplicaRange(RengaPlan plan, size_t size, char text[])
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

/* rows: [ranks][each] */
static RengaErrorCode PrintAll(RengaPipeline pipeline, RengaViewer viewer, int each,
                               const PipelineRow rows[])
{
  char replicas[64];
  FormatReplicaRange(pipeline->plan, sizeof replicas, replicas);
  RengaCall(RengaViewerPrintf(
      viewer, "Pipeline: %d stages x %s replicas, %s reduction, seed %lld\n",
      pipeline->outline->stages, replicas, RengaReductionName(pipeline->settings->reduction),
      (long long)pipeline->settings->seed));
  RengaCall(RengaViewerPrintf(
      viewer, "  rank  stage replica kernels flight parameters  gradients  optimizer      "
              "saved  temporary   messages     inputs        all\n"));
  for (int r = 0; r < RengaCommGetSize(pipeline->rank->all); r++)
    for (int c = 0; c < each; c++)
      if (c == 0 || rows[r * each + c].stage >= 0)
        RengaCall(PrintViewRow(viewer, r, &rows[r * each + c]));
  return RENGA_SUCCESS;
}

/* Of this rank's stages; an idle rank has one row that says so. */
static void FillViewRows(RengaPipeline pipeline, int each, PipelineRow rows[])
{
  for (int c = 0; c < each; c++) {
    const Chunk *chunk = &pipeline->rank->chunk[c];
    rows[c] = (PipelineRow){.stage = -1};
    if (c >= pipeline->rank->n_chunks) continue;
    rows[c] = (PipelineRow){.stage = chunk->stage,
                            .replica = chunk->replica,
                            .kernels = chunk->programs->kernels.count,
                            .slots = chunk->memory->slots,
                            .memory = chunk->memory->bytes};
  }
}

/*@
   RengaPipelineView - stages, ranks and their memory

   Collective

   Input:
   . pipeline - the pipeline, set up
   . viewer - the viewer that it is shown by; rank 0 writes

   Errors: RENGA_ERR_ORDER before set-up; RENGA_ERR_TIMEOUT where a rank does not come;
   RENGA_ERR_FILE_WRITE where the file does not take it.

   See also: RengaPipelineGetMemory(), RengaPlanView(), RengaViewerCreate()
@*/
RengaErrorCode RengaPipelineView(RengaPipeline pipeline, RengaViewer viewer)
{
  RengaCheckPointer(pipeline);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  const int each = RengaPlanGetStage(pipeline->plan, 0)->shape.chunks;
  PipelineRow *mine = NULL, *rows = NULL;
  RengaErrorCode code = RengaMalloc(each, &mine);
  if (!code) code = RengaMalloc(each * RengaCommGetSize(pipeline->rank->all), &rows);
  code = RengaErrorAgree(pipeline->hdr.comm, code);
  if (!code) FillViewRows(pipeline, each, mine);
  if (!code)
    code = RengaCommGather(pipeline->rank->all, mine, (size_t)each * sizeof *mine, rows, 0,
                           "all ranks to show the pipeline");
  if (!code) code = PrintAll(pipeline, viewer, each, rows);
  RengaFree(&mine);
  RengaFree(&rows);
  RengaCall(code);
  return RENGA_SUCCESS;
}
