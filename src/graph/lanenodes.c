/* The nodes of lanes. Parameters stay whole: what lanes have of one are the outputs of a Split, so
   that its gradient is one Concat, and initial values, checkpoints and norms know of no lanes. */
#include "lanes.h"
#include "renga/private/op.h"
#include <string.h>

enum { LANE_NAME = 512 };

typedef struct {
  RengaLanes *pass;
  RengaValue **part; /* by value: those of its lanes, where they were made */
  RengaSplit *cut;   /* by value, of tokens: how it was cut into its parts; repeat 0: it was not */
  RengaValue **view; /* by value: what lanes read in its place, or NULL */
  int *reads;        /* by value: how many nodes in lanes read it whole */
  bool low;          /* values have 16 bits */
  bool wide;         /* -precision_keep names the node whose lanes are made */
  int other;         /* its lane of the other kind */
} LaneMaker;

/* 16 bits are for what products read; biases stay in 32. */
static RengaErrorCode KeepWide(RengaGraph graph)
{
  RengaPrecision precision;
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  if (RengaPrecisionIsNarrow_Private(precision))
    RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = true;
  return RENGA_SUCCESS;
}

/* A parameter, or what is cut out of one and put together. */
bool RengaGraphIsOfParameters(RengaGraph graph, RengaValue value)
{
  const int maker = graph->value[value]->producer;
  if (maker < 0) return graph->value[value]->kind == RENGA_VALUE_PARAMETER;
  const RengaGraphNode *node = RengaGraphEntryNode(graph, maker);
  bool all = strcmp(node->op->name, "Split") == 0 || strcmp(node->op->name, "Concat") == 0;
  for (int i = 0; i < node->n_in && all; i++)
    all = node->in[i] >= 0 && RengaGraphIsOfParameters(graph, node->in[i]);
  return all;
}

/* As each reader has a use of a parameter, its lane has what it cuts. */
static int LaneOfCut(const LaneMaker *maker, RengaValue value)
{
  RengaGraph graph = maker->pass->graph;
  return RengaGraphIsOfParameters(graph, value) ? maker->other
                                                : RengaGraphLaneOfMaker(graph, value);
}

/* Pieces of a value, `repeat` times one for each lane: piece[r * lanes + l]. */
static RengaErrorCode InsertSplit(LaneMaker *maker, const char *wanted, RengaValue value,
                                  const RengaSplit *split, RengaValue piece[])
{
  const int lanes = maker->pass->lanes, count = (int)split->repeat * lanes;
  RengaGraph graph = maker->pass->graph;
  const int64_t units = RengaSplitUnits(RengaGraphSpec(graph, value), split);
  RengaAttributes attributes = {0};
  int64_t *extent, first;
  char name[LANE_NAME];
  RengaCall(RengaGraphScratch(graph, count, &extent));
  for (int p = 0; p < count; p++) {
    RengaLaneUnits(units, p % lanes, lanes, &first, &extent[p]);
    extent[p] *= split->unit;
    piece[p] = RENGA_VALUE_NONE;
  }
  RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "axis", split->dim);
  if (!code) code = RengaAttributesSetInts(&attributes, "split", count, extent);
  if (!code)
    code = RengaGraphInsertNode(graph, "Split", name, &attributes, 1, &value, count, NULL, piece);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = maker->wide;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = LaneOfCut(maker, value);
  return RENGA_SUCCESS;
}

/* A lane puts its pieces of the value together. */
static RengaErrorCode JoinPieces(LaneMaker *maker, const char *wanted, RengaValue value,
                                 const RengaSplit *split, int lane, const RengaValue piece[],
                                 RengaValue *part)
{
  const int lanes = maker->pass->lanes, count = (int)split->repeat;
  RengaGraph graph = maker->pass->graph;
  RengaAttributes attributes = {0};
  RengaValue *in;
  char name[LANE_NAME];
  RengaCall(RengaGraphScratch(graph, count, &in));
  for (int r = 0; r < count; r++) in[r] = piece[r * lanes + lane];
  RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "axis", split->dim);
  *part = RENGA_VALUE_NONE;
  if (!code)
    code = RengaGraphInsertNode(graph, "Concat", name, &attributes, count, in, 1, NULL, part);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = maker->wide;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane =
      RengaGraphInLane(maker->pass, LaneOfCut(maker, value), lane);
  return RENGA_SUCCESS;
}

/* The parts of a whole value; of interleaved units a lane has several pieces. */
static RengaErrorCode Cut(LaneMaker *maker, RengaValue value, const RengaSplit *split,
                          RengaValue part[])
{
  RengaGraph graph = maker->pass->graph;
  const int lanes = maker->pass->lanes;
  const bool bias =
      graph->value[value]->kind == RENGA_VALUE_PARAMETER && RengaGraphSpec(graph, value)->ndim < 2;
  RengaValue *piece;
  char wanted[LANE_NAME];
  snprintf(wanted, sizeof wanted, "%.400s.lanes", graph->value[value]->name);
  RengaCall(RengaGraphScratch(graph, split->repeat * lanes, &piece));
  RengaCall(InsertSplit(maker, wanted, value, split, piece));
  if (bias) RengaCall(KeepWide(graph));
  for (int l = 0; l < lanes; l++) {
    part[l] = piece[l];
    if (split->repeat == 1) continue;
    RengaCall(JoinPieces(maker, wanted, value, split, l, piece, &part[l]));
    if (bias) RengaCall(KeepWide(graph));
  }
  return RENGA_SUCCESS;
}

/* Parts of a state, which lanes write, are states. */
static RengaErrorCode CutState(LaneMaker *maker, RengaValue value, const RengaSplit *split,
                               RengaValue part[])
{
  RengaGraph graph = maker->pass->graph;
  const int lanes = maker->pass->lanes;
  const int64_t units = RengaSplitUnits(RengaGraphSpec(graph, value), split);
  char wanted[LANE_NAME], name[LANE_NAME];
  for (int l = 0; l < lanes; l++) {
    int64_t first, count;
    RengaLaneUnits(units, l, lanes, &first, &count);
    snprintf(wanted, sizeof wanted, "%.400s.lane%d", graph->value[value]->name, l);
    RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
    RengaCall(RengaGraphAddStatePart(graph, name, value, first * split->unit, count * split->unit,
                                     &part[l]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CutValue(LaneMaker *maker, RengaValue value, const RengaSplit *split,
                               RengaValue part[])
{
  if (maker->pass->graph->value[value]->kind == RENGA_VALUE_STATE)
    RengaCall(CutState(maker, value, split, part));
  else
    RengaCall(Cut(maker, value, split, part));
  return RENGA_SUCCESS;
}

/* What one reader has cut, others of tokens have too. Of parameters each reader has a use. */
static RengaErrorCode CutOnce(LaneMaker *maker, RengaValue value, const RengaSplit *split,
                              RengaValue part[])
{
  RengaLanes *pass = maker->pass;
  const bool shared = pass->tokens && !RengaGraphIsOfParameters(pass->graph, value);
  RengaValue *kept = maker->part[value];
  if (shared && kept && RengaSplitEqual(&maker->cut[value], split)) {
    memcpy(part, kept, (size_t)pass->lanes * sizeof *part);
    return RENGA_SUCCESS;
  }
  RengaCall(CutValue(maker, value, split, part));
  if (!shared || kept) return RENGA_SUCCESS;
  RengaCall(RengaGraphScratch(pass->graph, pass->lanes, &kept));
  memcpy(kept, part, (size_t)pass->lanes * sizeof *part);
  maker->part[value] = kept;
  maker->cut[value] = *split;
  return RENGA_SUCCESS;
}

/* All lanes of tokens read the parameter, by one view of it, whose gradient is their sum. */
static RengaErrorCode ShareParameter(LaneMaker *maker, const RengaGraphNode *node,
                                     RengaValue *value)
{
  RengaGraph graph = maker->pass->graph;
  const RengaValue whole = *value;
  char wanted[LANE_NAME], name[LANE_NAME];
  if (!maker->pass->tokens || whole < 0 || !RengaGraphIsOfParameters(graph, whole))
    return RENGA_SUCCESS;
  snprintf(wanted, sizeof wanted, "%.200s.%.200s.shared", node->name, graph->value[whole]->name);
  RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
  *value = RENGA_VALUE_NONE;
  RengaCall(RengaGraphInsertNode(graph, "Identity", name, NULL, 1, &whole, 1, NULL, value));
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = maker->wide;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = maker->other;
  return RENGA_SUCCESS;
}

static RengaErrorCode InsertView(LaneMaker *maker, RengaValue value, int lane, RengaValue *view)
{
  RengaGraph graph = maker->pass->graph;
  char wanted[LANE_NAME], name[LANE_NAME];
  if (lane)
    snprintf(wanted, sizeof wanted, "%.400s.lane%d", graph->value[value]->name, lane - 1);
  else
    snprintf(wanted, sizeof wanted, "%.400s.shared", graph->value[value]->name);
  RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
  *view = RENGA_VALUE_NONE;
  RengaCall(RengaGraphInsertNode(graph, "Identity", name, NULL, 1, &value, 1, NULL, view));
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = lane;
  graph->entry[graph->n_nodes - 1]->term = true;
  return RENGA_SUCCESS;
}

/* In 16 bits all lanes read the value by one view of it, whose gradient, a sum of terms, has 32; a
   lane that has several readers adds up theirs by a view of its own. view: NULL, or [lanes] */
static RengaErrorCode ViewInLanes(LaneMaker *maker, RengaValue value, const RengaValue **view)
{
  RengaLanes *pass = maker->pass;
  const RengaGraphValue *whole = pass->graph->value[value];
  RengaValue shared, *made;
  *view = maker->view[value];
  if (*view || !maker->low || pass->tokens || whole->kind != RENGA_VALUE_ACTIVATION ||
      !whole->differentiable)
    return RENGA_SUCCESS;
  RengaCall(RengaGraphScratch(pass->graph, pass->lanes, &made));
  RengaCall(InsertView(maker, value, 0, &shared));
  for (int l = 0; l < pass->lanes; l++) {
    made[l] = shared;
    if (maker->reads[value] > 1) RengaCall(InsertView(maker, shared, 1 + l, &made[l]));
  }
  *view = maker->view[value] = made;
  return RENGA_SUCCESS;
}

/* *part: what lanes have made of the value, or what of the whole is cut for them. A window is cut
   out of a value that nothing is trained behind as it is: part NULL. */
static RengaErrorCode FindParts(LaneMaker *maker, RengaValue value, const RengaSplitWay *way, int i,
                                RengaValue cut[], const RengaValue **part)
{
  const bool made = maker->part[value] && maker->cut[value].repeat == 0;
  const bool windows = way->need == RENGA_LANE_WINDOW;
  *part = made ? maker->part[value] : cut;
  if (made) return RENGA_SUCCESS;
  if (windows && !maker->pass->graph->value[value]->differentiable)
    *part = NULL;
  else
    RengaCall(CutOnce(maker, value, &way->in[i], cut));
  return RENGA_SUCCESS;
}

/* The rows of input i that lanes read. */
static RengaErrorCode FindWindows(LaneMaker *maker, const RengaGraphNode *node,
                                  const RengaSplitWay *way, int i, const RengaValue part[],
                                  RengaValue in[])
{
  const bool made = part && part == maker->part[node->in[i]];
  const RengaSplit *state = made ? &maker->pass->state[node->in[i]] : &way->in[i];
  RengaCall(RengaGraphTakeWindows(maker->pass, node, way, i, state, part, in));
  return RENGA_SUCCESS;
}

/* in[l * n_in + i]: input i of lane l */
static RengaErrorCode FindInputs(LaneMaker *maker, const RengaGraphNode *node,
                                 const RengaSplitWay *way, RengaValue in[])
{
  RengaLanes *pass = maker->pass;
  const int lanes = pass->lanes;
  RengaValue *cut;
  RengaCall(RengaGraphScratch(pass->graph, lanes, &cut));
  for (int i = 0; i < node->n_in; i++) {
    RengaValue value = node->in[i];
    const RengaSplitKind kind = value < 0 ? RENGA_SPLIT_WHOLE : way->in[i].kind;
    const RengaValue *part = NULL;
    if (kind == RENGA_SPLIT_ALONG) RengaCall(FindParts(maker, value, way, i, cut, &part));
    if (kind == RENGA_SPLIT_ALONG && way->need == RENGA_LANE_WINDOW) {
      RengaCall(FindWindows(maker, node, way, i, part, cut));
      part = cut;
    }
    if (kind == RENGA_SPLIT_WHOLE && value >= 0) RengaCall(ViewInLanes(maker, value, &part));
    if (kind == RENGA_SPLIT_WHOLE) RengaCall(ShareParameter(maker, node, &value));
    const bool has = kind == RENGA_SPLIT_ALONG || part;
    for (int l = 0; l < lanes; l++)
      in[l * node->n_in + i] = has                                ? part[l]
                               : kind == RENGA_SPLIT_SUM && l > 0 ? RENGA_VALUE_NONE
                                                                  : value;
  }
  return RENGA_SUCCESS;
}

/* The same numbers on any layout, and others in each lane of tokens. */
static RengaErrorCode KeyOfLane(const LaneMaker *maker, const RengaGraphNode *node, int lane,
                                RengaAttributes *attributes)
{
  if (!maker->pass->tokens || !(node->op->flags & RENGA_OP_RANDOM)) return RENGA_SUCCESS;
  const int64_t key = RengaAttributesInt(attributes, "key", 0);
  RengaCall(RengaAttributesSetInt(attributes, "key", key + ((int64_t)lane << 32)));
  return RENGA_SUCCESS;
}

static RengaErrorCode InsertLane(LaneMaker *maker, const RengaGraphNode *node,
                                 const RengaSplitWay *way, int lane, const RengaValue in[],
                                 RengaValue out[])
{
  RengaGraph graph = maker->pass->graph;
  RengaTensorSpec *in_spec, *out_spec;
  RengaAttributes attributes = {0};
  RengaOpCall whole, call;
  char wanted[LANE_NAME], name[LANE_NAME];
  RengaCall(RengaGraphScratch(graph, node->n_in + 1, &in_spec));
  RengaCall(RengaGraphScratch(graph, node->n_out + 1, &out_spec));
  snprintf(wanted, sizeof wanted, "%.400s.%s%d", node->name, maker->pass->word, lane);
  RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
  RengaCall(RengaGraphMakeCall(graph, node, RENGA_OP_SOME_BATCH, &whole));
  RengaErrorCode code =
      RengaSplitCall(&whole, way, lane, maker->pass->lanes, in_spec, out_spec, &attributes, &call);
  for (int o = 0; o < node->n_out; o++) {
    out_spec[o] =
        RengaSplitSpec(RengaGraphSpec(graph, node->out[o]), &way->out[o], lane, maker->pass->lanes);
    out[o] = RENGA_VALUE_NONE;
  }
  if (!code) code = KeyOfLane(maker, node, lane, &attributes);
  if (!code)
    code = RengaGraphInsertNode(graph, node->op->name, name, &attributes, node->n_in, in,
                                node->n_out, out_spec, out);
  RengaAttributesFree(&attributes);
  RengaGraphFreeCall(&whole);
  RengaCall(code);
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = maker->wide;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane =
      RengaGraphInLane(maker->pass, node->lane, lane);
  return RENGA_SUCCESS;
}

/* Output o of all lanes is added up, or had in parts. out: [lanes][n_out] */
static RengaErrorCode GiveOutput(LaneMaker *maker, int at, int o, const RengaValue out[])
{
  RengaLanes *pass = maker->pass;
  const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, at);
  RengaValue *part;
  RengaCall(RengaGraphScratch(pass->graph, pass->lanes, &part));
  for (int l = 0; l < pass->lanes; l++) part[l] = out[l * node->n_out + o];
  if (pass->node[at].way.out[o].kind == RENGA_SPLIT_SUM) {
    RengaCall(RengaGraphSumLanes(pass, node, pass->node[at].exact, part, node->out[o]));
    return RENGA_SUCCESS;
  }
  maker->part[node->out[o]] = part;
  if (!pass->tokens)
    RengaCall(RengaGraphJoinOutput(pass, at, part));
  else if (pass->joined[node->out[o]])
    RengaCall(RengaGraphJoinParts(pass, node, o, part));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReplaceNode(LaneMaker *maker, int at)
{
  RengaLanes *pass = maker->pass;
  RengaGraph graph = pass->graph;
  const int lanes = pass->lanes;
  const RengaLaneNode *lane = &pass->node[at];
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  RengaValue *in, *out;
  RengaCall(RengaGraphScratch(graph, lanes * node->n_in + 1, &in));
  RengaCall(RengaGraphScratch(graph, lanes * node->n_out + 1, &out));
  graph->place = graph->entry[at]->place;
  maker->wide = node->wide;
  maker->other = node->lane;
  RengaCall(FindInputs(maker, node, &lane->way, in));
  if (lane->way.need == RENGA_LANE_STATISTICS)
    RengaCall(RengaGraphJoinStatistics(pass, node, &lane->way, in));
  if (lane->way.need == RENGA_LANE_WINDOW)
    RengaCall(RengaGraphCutResize(pass, node, &lane->way, in));
  for (int l = 0; l < lanes; l++) {
    RengaCall(InsertLane(maker, node, &lane->way, l, in + l * node->n_in, out + l * node->n_out));
    graph->entry[graph->n_nodes - 1]->term = graph->entry[at]->term || (lane->sums && !lane->exact);
    graph->entry[graph->n_nodes - 1]->pieces = graph->entry[at]->pieces;
  }
  for (int o = 0; o < node->n_out; o++) RengaCall(GiveOutput(maker, at, o, out));
  graph->in_lanes[RengaGraphLaneKind(pass)]++;
  graph->lane_sums[RengaGraphLaneKind(pass)] += lane->sums;
  graph->entry[at]->dead = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareViews(LaneMaker *maker)
{
  RengaLanes *pass = maker->pass;
  RengaPrecision precision;
  RengaCall(RengaGraphGetPrecision(pass->graph, &precision));
  maker->low = RengaPrecisionIsNarrow_Private(precision);
  RengaCall(RengaGraphScratch(pass->graph, pass->n_values, &maker->view));
  RengaCall(RengaGraphScratch(pass->graph, pass->n_values, &maker->reads));
  for (int n = 0; n < pass->n_nodes; n++) {
    const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, n);
    for (int i = 0; i < node->n_in && pass->node[n].chosen; i++)
      if (node->in[i] >= 0 && pass->node[n].way.in[i].kind == RENGA_SPLIT_WHOLE)
        maker->reads[node->in[i]]++;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphMakeLanes(RengaLanes *pass)
{
  LaneMaker maker = {.pass = pass};
  RengaCall(PrepareViews(&maker));
  RengaCall(RengaGraphScratch(pass->graph, pass->n_values, &maker.part));
  RengaCall(RengaGraphScratch(pass->graph, pass->n_values, &maker.cut));
  for (int i = 0; i < pass->n_nodes; i++)
    if (pass->node[i].chosen)
      RengaCall(ReplaceNode(&maker, i));
    else if (pass->node[i].loss)
      RengaCall(
          RengaGraphReplaceLoss(pass, i, maker.part[RengaGraphEntryNode(pass->graph, i)->in[0]]));
  pass->graph->place = -1;
  return RENGA_SUCCESS;
}
