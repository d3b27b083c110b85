/* Batch normalisation of rows in lanes: each lane makes the mean and the variance of its own rows,
   of which those of the batch are put together, and normalises its rows by these, as a network does
   that is not trained. So lanes exchange a few numbers for each channel. */
#include "lanes.h"
#include "renga/private/op.h"
#include <string.h>

enum { NORM_NAME = 512, NORM_INPUTS = 5 };

/* Statistics are float32 with any precision. */
static RengaErrorCode InsertStatistics(RengaGraph graph, const RengaGraphNode *node, const char *op,
                                       const char *what, int lane, RengaAttributes *attributes,
                                       int n_in, const RengaValue in[], RengaValue out[2])
{
  char wanted[NORM_NAME], name[NORM_NAME];
  RengaPrecision precision;
  snprintf(wanted, sizeof wanted, "%.400s.%s", node->name, what);
  out[0] = out[1] = RENGA_VALUE_NONE;
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
  RengaCall(RengaGraphInsertNode(graph, op, name, attributes, n_in, in, 2, NULL, out));
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = lane;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide =
      node->wide || RengaPrecisionIsNarrow_Private(precision);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetRowsOfLanes(const RengaLanes *pass, const RengaGraphNode *node,
                                     const RengaSplitWay *way, RengaAttributes *attributes)
{
  int64_t *rows, first;
  RengaCall(RengaGraphScratch(pass->graph, pass->lanes, &rows));
  for (int l = 0; l < pass->lanes; l++) {
    RengaLaneUnits(way->units, l, pass->lanes, &first, &rows[l]);
    rows[l] *= way->in[0].repeat * way->in[0].unit;
  }
  RengaCall(RengaAttributesSetInts(attributes, "lane_rows", pass->lanes, rows));
  int64_t all = 0, values = 1;
  const RengaTensorSpec *x = RengaGraphSpec(pass->graph, node->in[0]);
  for (int l = 0; l < pass->lanes; l++) all += rows[l];
  for (int d = 2; d < x->ndim; d++) values *= x->dim[d];
  RengaCheck(all > 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "statistics of lanes without rows");
  RengaCall(RengaAttributesSetInt(attributes, "row_values", values / all));
  RengaCall(RengaAttributesSetReal(attributes, "momentum",
                                   RengaAttributesReal(&node->attributes, "momentum", 0.9)));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphJoinStatistics(RengaLanes *pass, const RengaGraphNode *node,
                                        const RengaSplitWay *way, RengaValue in[])
{
  RengaGraph graph = pass->graph;
  const int lanes = pass->lanes;
  RengaAttributes attributes = {0};
  RengaValue *own, out[2];
  char what[32];
  RengaCall(RengaGraphScratch(graph, 2 + 2 * lanes, &own));
  own[0] = node->in[3];
  own[1] = node->in[4];
  for (int l = 0; l < lanes; l++) {
    snprintf(what, sizeof what, "rows%d", l);
    RengaCall(InsertStatistics(graph, node, "BatchNormalizationLane", what,
                               RengaGraphInLane(pass, node->lane, l), NULL, 1, &in[l * NORM_INPUTS],
                               out));
    own[2 + l] = out[0];
    own[2 + lanes + l] = out[1];
  }
  RengaErrorCode code = SetRowsOfLanes(pass, node, way, &attributes);
  if (!code)
    code = InsertStatistics(graph, node, "BatchNormalizationJoin", "batch", node->lane, &attributes,
                            2 + 2 * lanes, own, out);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  for (int l = 0; l < lanes; l++)
    for (int i = 0; i < 2; i++) in[l * NORM_INPUTS + 3 + i] = out[i];
  return RENGA_SUCCESS;
}

/* Files name the statistics of a batch, and nobody reads them: normalisations that stay whole get
   them again with the outputs that gradients need (RengaGraphCompleteOutputs). */
RengaErrorCode RengaGraphLeaveStatisticsOut(RengaGraph graph)
{
  RengaCall(RengaGraphCountReaders(graph));
  for (int n = 0; n < graph->n_nodes; n++) {
    RengaGraphNode *node = RengaGraphEntryNode(graph, n);
    bool read = false;
    if (strcmp(node->op->name, "BatchNormalization") != 0) continue;
    for (int o = 1; o < node->n_out; o++)
      read = read || (node->out[o] >= 0 && graph->readers[node->out[o]] > 0);
    for (int o = 1; o < node->n_out && !read; o++)
      if (node->out[o] >= 0) graph->value[node->out[o]]->producer = -1;
    if (!read) node->n_out = 1;
  }
  RengaCall(RengaGraphCompactValues(graph)); /* their names are free */
  return RENGA_SUCCESS;
}
