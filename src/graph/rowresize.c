/* Rows that images are resized to, in lanes: rows that are gathered by constant numbers (nearest),
   or a product with a constant matrix [rows, rows of the image] of which few elements are not 0
   (linear, cubic). A lane reads a window of the image, and has its own part of the constant. */
#include "lanes.h"
#include "renga/private/op.h"
#include <string.h>

/* A node that makes rows of rows of an image. */
typedef struct {
  int x, map; /* inputs: the image, and the constant */
  int axis;
  int64_t in, out; /* rows of the image, and of what the node makes */
} RowResize;

static const RengaGraphValue *MapOf(RengaGraph graph, const RengaGraphNode *node,
                                    const RowResize *r)
{
  const RengaGraphValue *value = node->in[r->map] < 0 ? NULL : graph->value[node->in[r->map]];
  const bool gathers = r->map == 1;
  if (!value || value->kind != RENGA_VALUE_CONSTANT || !value->data) return NULL;
  return value->spec.ndim == (gathers ? 1 : 2) &&
                 value->spec.type == (gathers ? RENGA_INT64 : RENGA_FLOAT32)
             ? value
             : NULL;
}

/* A number that is none of a row is refused where the whole is gathered. */
static bool NamesRows(const RengaGraphValue *map, const RowResize *r)
{
  for (int64_t o = 0; r->map == 1 && o < r->out; o++) {
    const int64_t row = ((const int64_t *)map->data)[o];
    if (row < -r->in || row >= r->in) return false;
  }
  return true;
}

/* Whether the node resizes rows; of any dimension. */
static bool ReadResizedRows(RengaGraph graph, const RengaGraphNode *node, RowResize *r)
{
  const bool gathers = strcmp(node->op->name, "Gather") == 0;
  if (!gathers && strcmp(node->op->name, "MatMul") != 0) return false;
  *r = (RowResize){.x = !gathers, .map = gathers};
  const RengaTensorSpec *x = RengaGraphSpec(graph, node->in[r->x]);
  const RengaGraphValue *map = MapOf(graph, node, r);
  const int64_t axis = RengaAttributesInt(&node->attributes, "axis", 0);
  if (!map || x->ndim < 3 || RengaAttributesInt(&node->attributes, "rows", 0) != 0) return false;
  if (RengaAttributesInt(&node->attributes, "transA", 0) != 0) return false;
  if (RengaAttributesInt(&node->attributes, "transB", 0) != 0) return false;
  r->axis = !gathers ? x->ndim - 2 : (int)(axis < 0 ? axis + x->ndim : axis);
  r->in = x->dim[r->axis];
  r->out = map->spec.dim[0];
  return r->in > 0 && (gathers || map->spec.dim[1] == r->in) && NamesRows(map, r);
}

/* Row o of what the node makes is of rows [first, last) of the image. */
static void ReachOfRow(const RengaGraphValue *map, const RowResize *r, int64_t o, int64_t *first,
                       int64_t *last)
{
  *first = *last = 0;
  if (r->map == 1) {
    const int64_t row = ((const int64_t *)map->data)[o];
    *first = row < 0 ? row + r->in : row;
    *last = *first + 1;
    return;
  }
  const float *weight = (const float *)map->data + o * r->in;
  while (*first < r->in - 1 && weight[*first] == 0) ++*first;
  for (int64_t i = *first; i < r->in; i++)
    if (weight[i] != 0 || i == *first) *last = i + 1;
}

static void ReachOfLane(const RengaGraphValue *map, const RowResize *r, int lane, int lanes,
                        int64_t *first, int64_t *count)
{
  int64_t begin, rows, from, to, last = 0;
  RengaLaneUnits(r->out, lane, lanes, &begin, &rows);
  *first = r->in;
  for (int64_t o = begin; o < begin + rows; o++) {
    ReachOfRow(map, r, o, &from, &to);
    if (from < *first) *first = from;
    if (to > last) last = to;
  }
  *count = last - *first;
}

/* A matrix that mixes all rows resizes nothing. Rows that are gathered in any order are copies of
   rows, which go to the lanes that read them, and what is behind them stays in lanes. */
static bool ReadsAllRows(RengaGraph graph, const RengaGraphNode *node, const RowResize *r,
                         int lanes)
{
  int64_t first, count = 0;
  for (int l = 0; l < lanes && count < r->in; l++)
    ReachOfLane(MapOf(graph, node, r), r, l, lanes, &first, &count);
  return count >= r->in;
}

/* False: the node resizes no rows. */
bool RengaGraphResizeWindow(RengaLanes *pass, const RengaGraphNode *node, int lane, int64_t *first,
                            int64_t *count)
{
  RowResize r;
  if (!ReadResizedRows(pass->graph, node, &r)) return false;
  ReachOfLane(MapOf(pass->graph, node, &r), &r, lane, pass->lanes, first, count);
  return true;
}

/* A way of the node, where it resizes rows of which lanes have parts; in NULL: there is none. */
RengaErrorCode RengaGraphTakeResize(RengaLanes *pass, int at, RengaSplitWay *way)
{
  const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, at);
  RengaSplit *split = NULL;
  RowResize r;
  *way = (RengaSplitWay){.units = 0};
  if (!ReadResizedRows(pass->graph, node, &r) || r.out < pass->lanes) return RENGA_SUCCESS;
  const RengaSplit *state = &pass->state[node->in[r.x]];
  if (state->kind != RENGA_SPLIT_ALONG || state->dim != r.axis || state->repeat != 1)
    return RENGA_SUCCESS;
  if (r.map == 0 && ReadsAllRows(pass->graph, node, &r, pass->lanes)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(node->n_in + node->n_out, &split));
  for (int i = 0; i < node->n_in; i++) split[i] = (RengaSplit){RENGA_SPLIT_WHOLE, 0, 1, 1};
  split[r.x] = split[node->n_in] = (RengaSplit){RENGA_SPLIT_ALONG, r.axis, 1, 1};
  *way = (RengaSplitWay){
      .units = r.out, .need = RENGA_LANE_WINDOW, .in = split, .out = split + node->n_in};
  return RENGA_SUCCESS;
}

/* The lane's rows of the constant, for its window. */
static RengaErrorCode CutMap(RengaLanes *pass, const RengaGraphNode *node, const RowResize *r,
                             const RengaSplitWay *way, int lane, RengaValue *part)
{
  RengaGraph graph = pass->graph;
  const RengaGraphValue *map = MapOf(graph, node, r);
  int64_t begin, rows, first, count;
  char wanted[512], name[512], *data = NULL;
  RengaLaneUnits(way->units, lane, pass->lanes, &begin, &rows);
  ReachOfLane(map, r, lane, pass->lanes, &first, &count);
  RengaTensorSpec spec = map->spec;
  spec.dim[0] = rows;
  if (r->map == 0) spec.dim[1] = count;
  snprintf(wanted, sizeof wanted, "%.400s.map%d", node->name, lane);
  RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
  RengaCall(RengaGraphNewValue(graph, name, RENGA_VALUE_CONSTANT, &spec, part));
  RengaCall(RengaMalloc((int64_t)RengaTensorSpecBytes(&spec), &data));
  for (int64_t o = 0; o < rows; o++)
    if (r->map == 1) {
      const int64_t row = ((const int64_t *)map->data)[begin + o];
      ((int64_t *)(void *)data)[o] = (row < 0 ? row + r->in : row) - first;
    } else
      memcpy(data + o * count * (int64_t)sizeof(float),
             (const float *)map->data + (begin + o) * r->in + first, (size_t)count * sizeof(float));
  graph->value[*part]->data = data;
  graph->value[*part]->prepared = true;
  return RENGA_SUCCESS;
}

/* in[l * n_in + i] of the constant becomes what lane l has of it. */
RengaErrorCode RengaGraphCutResize(RengaLanes *pass, const RengaGraphNode *node,
                                   const RengaSplitWay *way, RengaValue in[])
{
  RowResize r;
  if (!ReadResizedRows(pass->graph, node, &r)) return RENGA_SUCCESS;
  for (int l = 0; l < pass->lanes; l++)
    RengaCall(CutMap(pass, node, &r, way, l, &in[l * node->n_in + r.map]));
  return RENGA_SUCCESS;
}
