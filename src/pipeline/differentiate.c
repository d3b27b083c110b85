/* Graphs of stages: nodes of the network and, behind them, reverse mode. The messages of a stage
   say where gradients come in and where they are wanted.

   Nothing changes such a graph once it is made. So forecasts, which compile the same nodes for all
   tensor ranks, and for whatever a stage may recompute or share, keep the graphs that were used
   last. */
#include "forecasts.h"
#include "renga/private/device.h"
#include "renga/private/graph.h"
#include <string.h>

enum { GRAPH_NODES_KEPT = 1 << 16 };

static void FreeStageGraph(StageGraph *row)
{
  RengaFree(&row->value);
  if (row->graph) RengaGraphDestroy(&row->graph);
}

static bool SeedsStage(const Outline *outline, int m, int stage)
{
  return outline->message[m].backward && outline->message[m].to == stage;
}

static bool WantsOfStage(const Outline *outline, int m, int stage)
{
  return outline->message[m].backward && outline->message[m].from == stage;
}

static RengaValue *GradientsOf(const StageGraph *row)
{
  return row->value + 2 * (row->n_seeds + row->n_wanted);
}

/* All but the graph. */
static RengaErrorCode DescribeStageGraph(const Outline *outline, int stage, StageGraph *row)
{
  const RengaPlanStage *planned = RengaPlanGetStage(outline->plan, stage);
  *row = (StageGraph){.first = planned->first, .last = planned->last};
  for (int m = 0; outline->has_loss && m < outline->n_messages; m++) {
    row->n_seeds += SeedsStage(outline, m, stage);
    row->n_wanted += WantsOfStage(outline, m, stage);
  }
  RengaCall(RengaMalloc(3 * (row->n_seeds + row->n_wanted) + 1, &row->value));
  RengaValue *seed = row->value, *wanted = row->value + row->n_seeds;
  for (int m = 0; outline->has_loss && m < outline->n_messages; m++) {
    const bool seeds = SeedsStage(outline, m, stage), wants = WantsOfStage(outline, m, stage);
    if (!seeds && !wants) continue;
    const RengaValue v = RengaGraphFindValue(outline->graph, outline->message[m].value);
    if (seeds) *seed++ = v;
    if (wants) *wanted++ = v;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeStageGraph(const Outline *outline, int stage, StageGraph *row)
{
  const int count = row->n_seeds + row->n_wanted;
  RengaValue *here = row->value + count, *gradient = GradientsOf(row);
  const RengaDevice device = outline->settings->device;
  RengaPrecision precision;
  unsigned forms = 0;
  RengaCall(RengaGraphGetPrecision(outline->graph, &precision));
  if (RengaDeviceHasKernel_Private(device, "PackedAttention")) forms |= RENGA_FORM_PACKED;
  if (RengaDeviceHasKernel_Private(device, "BatchNormalizationRelu")) forms |= RENGA_FORM_RELU;
  if (device && device->last_in >> precision & 1) forms |= RENGA_FORM_LAST;
  RengaCall(RengaGraphGetStage_Private(outline->graph, row->first, row->last, forms, &row->graph));
  for (int i = 0; i < count; i++) {
    const char *name = RengaGraphGetValue(outline->graph, row->value[i])->name;
    here[i] = RengaGraphFindValue(row->graph, name);
    RengaCheck(here[i] != RENGA_VALUE_NONE, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "stage %d has a message of %s but no such value", stage, name);
  }
  if (outline->has_loss)
    RengaCall(RengaGraphDifferentiate(row->graph, row->n_seeds, here, gradient, row->n_wanted,
                                      here + row->n_seeds, gradient + row->n_seeds));
  return RENGA_SUCCESS;
}

/* Number of the graph that is kept, or -1. */
static int FindStageGraph(const StageGraphs *graphs, const StageGraph *like)
{
  const size_t bytes = (size_t)(like->n_seeds + like->n_wanted) * sizeof *like->value;
  for (int g = graphs->count; g-- > 0;) {
    const StageGraph *row = &graphs->row[g];
    if (row->first == like->first && row->last == like->last && row->n_seeds == like->n_seeds &&
        row->n_wanted == like->n_wanted && memcmp(row->value, like->value, bytes) == 0)
      return g;
  }
  return -1;
}

static void DropFirst(StageGraphs *graphs)
{
  graphs->nodes -= RengaGraphGetNodeCount(graphs->row[0].graph);
  FreeStageGraph(&graphs->row[0]);
  memmove(graphs->row, graphs->row + 1, (size_t)--graphs->count * sizeof *graphs->row);
}

/* row: described; it becomes one that is kept, which was used last. */
static RengaErrorCode KeepStageGraph(const Outline *outline, int stage, StageGraphs *graphs,
                                     StageGraph *row)
{
  const int known = FindStageGraph(graphs, row);
  if (known >= 0) {
    const StageGraph found = graphs->row[known];
    FreeStageGraph(row);
    memmove(graphs->row + known, graphs->row + known + 1,
            (size_t)(graphs->count - known - 1) * sizeof *graphs->row);
    *row = graphs->row[graphs->count - 1] = found;
    return RENGA_SUCCESS;
  }
  if (!(graphs->count & (graphs->count - 1)))
    RengaCall(RengaRealloc(2 * graphs->count + 1, &graphs->row));
  RengaCall(MakeStageGraph(outline, stage, row));
  graphs->nodes += RengaGraphGetNodeCount(row->graph);
  graphs->row[graphs->count++] = *row;
  while (graphs->count > 1 && graphs->nodes > GRAPH_NODES_KEPT) DropFirst(graphs);
  return RENGA_SUCCESS;
}

void RengaFreeStageGraphs_Private(StageGraphs *graphs)
{
  while (graphs->count > 0) FreeStageGraph(&graphs->row[--graphs->count]);
  graphs->nodes = 0;
  RengaFree(&graphs->row);
}

static void LinkGradients(const Outline *outline, int stage, const StageGraph *row, Link link[])
{
  const RengaValue *seed = GradientsOf(row), *wanted = seed + row->n_seeds;
  for (int m = 0; outline->has_loss && m < outline->n_messages; m++) {
    if (SeedsStage(outline, m, stage)) link[m].value = *seed++;
    if (WantsOfStage(outline, m, stage)) link[m].value = *wanted++;
  }
}

/* The graph of a stage, differentiated where the network has a loss; to be destroyed. Gradients
   that come in are seeds, gradients that go out are wanted. link, or NULL, gets them. */
RengaErrorCode RengaOutlineMakeStage_Private(const Outline *outline, int stage, RengaGraph *sub,
                                             Link link[])
{
  StageGraph row;
  RengaErrorCode code = DescribeStageGraph(outline, stage, &row);
  if (!code && outline->graphs)
    code = KeepStageGraph(outline, stage, outline->graphs, &row);
  else if (!code)
    code = MakeStageGraph(outline, stage, &row);
  if (code) FreeStageGraph(&row);
  RengaCall(code);
  if (outline->graphs) RengaCall(RengaHeaderReference(row.graph));
  if (link) LinkGradients(outline, stage, &row, link);
  if (!outline->graphs) RengaFree(&row.value);
  *sub = row.graph;
  return RENGA_SUCCESS;
}
