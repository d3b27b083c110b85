/* Rows of images in lanes of tokens: what the windows of convolutions and pooling read. A lane has
   rows of its own, and of the lanes above and below it those that its windows reach (halos). So
   what a lane has made is cut, by the lane, where the window of some lane begins or ends; each lane
   puts together the pieces in its window. Pieces of others are small, and all that lanes exchange.
   As they do not overlap, the gradient of what was cut is one Concat. */
#include "lanes.h"
#include "renga/private/op.h"
#include <stdlib.h>

enum { ROW_NAME = 512 };

typedef struct {
  RengaLanes *pass;
  const RengaGraphNode *node; /* that reads windows of the value */
  RengaValue value;
  int dim, n_bounds;
  int64_t *bound;         /* where pieces begin, ascending; the last one is where the last ends */
  int64_t *first, *last;  /* [lanes] rows that lanes read */
  int64_t *begin;         /* [lanes + 1] rows that lanes have */
  const RengaValue *part; /* [lanes] what they have; NULL: the value is whole */
  RengaValue *piece;      /* [n_bounds - 1] */
} RowWindows;

bool RengaGraphHasRows(const RengaSplitWay *way, int i, const RengaSplit *state)
{
  return way->need == RENGA_LANE_WINDOW && way->in[i].kind == RENGA_SPLIT_ALONG &&
         state->kind == RENGA_SPLIT_ALONG && state->dim == way->in[i].dim && state->repeat == 1;
}

static int CompareRows(const void *a, const void *b)
{
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static RengaErrorCode MeasureWindows(RowWindows *rows, const RengaSplitWay *way,
                                     const RengaSplit *state)
{
  RengaGraph graph = rows->pass->graph;
  const int lanes = rows->pass->lanes;
  const int64_t units = RengaSplitUnits(RengaGraphSpec(graph, rows->value), state);
  int64_t count;
  RengaOpCall call;
  RengaErrorCode code = RengaGraphMakeCall(graph, rows->node, RENGA_OP_SOME_BATCH, &call);
  for (int l = 0; l < lanes && !code; l++) {
    if (!RengaGraphResizeWindow(rows->pass, rows->node, l, &rows->first[l], &count))
      code = RengaSplitWindow(&call, way, l, lanes, &rows->first[l], &count);
    rows->last[l] = rows->first[l] + count;
    RengaLaneUnits(units, l, lanes, &rows->begin[l], &count);
    rows->begin[l] *= state->unit;
    rows->begin[l + 1] = rows->begin[l] + count * state->unit;
  }
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of all windows and parts, each once. */
static void ListBounds(RowWindows *rows)
{
  const int lanes = rows->pass->lanes;
  int n = 0, kept = 0;
  for (int l = 0; l < lanes; l++) {
    rows->bound[n++] = rows->first[l];
    rows->bound[n++] = rows->last[l];
    rows->bound[n++] = rows->begin[l];
  }
  rows->bound[n++] = rows->begin[lanes];
  qsort(rows->bound, (size_t)n, sizeof *rows->bound, CompareRows);
  for (int i = 0; i < n; i++)
    if (i == 0 || rows->bound[i] > rows->bound[kept - 1]) rows->bound[kept++] = rows->bound[i];
  rows->n_bounds = kept;
}

/* A node of the lane along the rows, with one more attribute. */
static RengaErrorCode InsertRows(const RowWindows *rows, const char *op, int lane,
                                 RengaAttributes *attributes, int n_in, const RengaValue in[],
                                 int n_out, RengaValue out[])
{
  RengaGraph graph = rows->pass->graph;
  char wanted[ROW_NAME], name[ROW_NAME];
  snprintf(wanted, sizeof wanted, "%.400s.rows%d", rows->node->name, lane);
  for (int o = 0; o < n_out; o++) out[o] = RENGA_VALUE_NONE;
  RengaErrorCode code = RengaGraphUniqueName(graph, wanted, sizeof name, name);
  if (!code) code = RengaGraphInsertNode(graph, op, name, attributes, n_in, in, n_out, NULL, out);
  RengaAttributesFree(attributes);
  RengaCall(code);
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = rows->node->wide;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane =
      RengaGraphInLane(rows->pass, rows->node->lane, lane);
  graph->entry[graph->n_nodes - 1]->rows = true;
  return RENGA_SUCCESS;
}

/* Pieces [from, to) are those of what the lane has. */
static RengaErrorCode CutPart(const RowWindows *rows, int lane, int from, int to)
{
  RengaAttributes attributes = {0};
  int64_t *extent;
  if (to - from == 1) rows->piece[from] = rows->part[lane];
  if (to - from == 1) return RENGA_SUCCESS;
  RengaCall(RengaGraphScratch(rows->pass->graph, to - from, &extent));
  for (int p = from; p < to; p++) extent[p - from] = rows->bound[p + 1] - rows->bound[p];
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "axis", rows->dim);
  if (!code) code = RengaAttributesSetInts(&attributes, "split", to - from, extent);
  if (code) RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(InsertRows(rows, "Split", lane, &attributes, 1, &rows->part[lane], to - from,
                       rows->piece + from));
  return RENGA_SUCCESS;
}

static int FindBound(const RowWindows *rows, int64_t row)
{
  int at = 0;
  while (rows->bound[at] < row) at++;
  return at;
}

/* The pieces in the lane's window, put together. */
static RengaErrorCode JoinWindow(const RowWindows *rows, int lane, RengaValue *in)
{
  const int from = FindBound(rows, rows->first[lane]), to = FindBound(rows, rows->last[lane]);
  RengaAttributes attributes = {0};
  bool have = from < to;
  for (int p = from; p < to; p++) have = have && rows->piece[p] >= 0;
  if (!have)
    RengaGraphRefuse(rows->node, RENGA_ERR_INTERNAL, "lane %d reads rows that no lane has", lane);
  *in = rows->piece[from];
  if (to - from == 1) return RENGA_SUCCESS;
  RengaCall(RengaAttributesSetInt(&attributes, "axis", rows->dim));
  RengaCall(InsertRows(rows, "Concat", lane, &attributes, to - from, rows->piece + from, 1, in));
  return RENGA_SUCCESS;
}

/* The lane cuts its window out of a value that each rank has. */
static RengaErrorCode CutWindow(const RowWindows *rows, int lane, RengaValue *in)
{
  const int64_t dim = rows->dim;
  const RengaValue whole = rows->value;
  RengaAttributes attributes = {0};
  RengaErrorCode code = RengaAttributesSetInts(&attributes, "starts", 1, &rows->first[lane]);
  if (!code) code = RengaAttributesSetInts(&attributes, "ends", 1, &rows->last[lane]);
  if (!code) code = RengaAttributesSetInts(&attributes, "axes", 1, &dim);
  if (code) RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(InsertRows(rows, "Slice", lane, &attributes, 1, &whole, 1, in));
  return RENGA_SUCCESS;
}

/* in[lane]: what the lane reads of input i of the node. */
RengaErrorCode RengaGraphTakeWindows(RengaLanes *pass, const RengaGraphNode *node,
                                     const RengaSplitWay *way, int i, const RengaSplit *state,
                                     const RengaValue part[], RengaValue in[])
{
  RengaGraph graph = pass->graph;
  const int lanes = pass->lanes;
  RowWindows rows = {.pass = pass, .node = node, .value = node->in[i], .dim = way->in[i].dim};
  RengaValue *had;
  RengaCall(RengaGraphScratch(graph, lanes, &rows.first));
  RengaCall(RengaGraphScratch(graph, lanes, &rows.last));
  RengaCall(RengaGraphScratch(graph, lanes + 1, &rows.begin));
  RengaCall(RengaGraphScratch(graph, 3 * lanes + 1, &rows.bound));
  RengaCall(RengaGraphScratch(graph, 3 * lanes + 1, &rows.piece));
  RengaCall(RengaGraphScratch(graph, lanes, &had));
  RengaCall(MeasureWindows(&rows, way, state));
  ListBounds(&rows);
  rows.part = had;
  for (int b = 0; b < 3 * lanes + 1; b++) rows.piece[b] = RENGA_VALUE_NONE;
  for (int l = 0; l < lanes && part; l++) had[l] = part[l]; /* in[] may be part[] */
  for (int l = 0; l < lanes && part; l++)
    RengaCall(
        CutPart(&rows, l, FindBound(&rows, rows.begin[l]), FindBound(&rows, rows.begin[l + 1])));
  for (int l = 0; l < lanes; l++)
    RengaCall(part ? JoinWindow(&rows, l, &in[l]) : CutWindow(&rows, l, &in[l]));
  return RENGA_SUCCESS;
}
