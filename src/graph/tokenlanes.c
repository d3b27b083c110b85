/* Which nodes are computed in lanes of tokens (-graph_token_lanes): each lane has consecutive
   tokens of a sequence, or rows of an image, from the inputs to the terms of the loss.

   A dimension of an input is followed through the split rules: what is made along it, each lane
   makes for its own tokens. Where a node needs all tokens, as an attention needs all keys, what
   lanes have is put together; what has no way along tokens stays whole. Values that only depend
   on inputs, and rows that are looked up in a table, are made whole and cut: the first are small,
   and a table gets one gradient. The dimension is that along which most products are. */
#include "lanes.h"
#include "renga/private/op.h"
#include <string.h>

typedef struct {
  RengaLanes *pass;
  RengaSplit *seed; /* [n_values] of inputs: their tokens */
  bool *uncut;      /* [n_values] lanes want it along their tokens, but it is made whole */
  int products;     /* that lanes compute along tokens */
} TokenWalk;

static bool IsAlongLanes(const RengaSplit *split)
{
  return split->kind == RENGA_SPLIT_ALONG;
}

/* A dimension with the batch is not dealt out, nor is a state, which one node writes. Lanes have
   consecutive tokens: what comes of several sequences in one dimension stays whole. */
static bool MayCutTokens(RengaGraph graph, RengaValue value, const RengaSplit *split)
{
  if (graph->value[value]->kind == RENGA_VALUE_STATE || split->repeat > 1) return false;
  return RengaGraphSpec(graph, value)->dim[split->dim] > 0;
}

/* Units as those in which lanes have the first of its inputs that they have parts of. */
static RengaErrorCode RefineToTokens(const TokenWalk *walk, const RengaGraphNode *node,
                                     const RengaOpCall *call, RengaSplitWay *way, bool *fits)
{
  *fits = way->need == RENGA_LANE_WINDOW && way->units >= walk->pass->lanes;
  for (int i = 0; i < node->n_in && way->need != RENGA_LANE_WINDOW; i++) {
    const RengaSplit *own = &way->in[i];
    const RengaSplit *state = node->in[i] < 0 ? NULL : &walk->pass->state[node->in[i]];
    if (!state || !IsAlongLanes(own) || !IsAlongLanes(state) || own->dim != state->dim) continue;
    if (state->repeat % own->repeat || state->unit % own->unit) continue;
    const int64_t repeat = state->repeat / own->repeat, unit = state->unit / own->unit;
    if (way->units % (repeat * unit) || (repeat > 1 && way->shifted)) continue;
    RengaCall(RengaSplitWayRefine(way, call, repeat, unit));
    *fits = way->units >= walk->pass->lanes;
    return RENGA_SUCCESS;
  }
  return RENGA_SUCCESS;
}

static bool OutputsFitTokens(RengaGraph graph, const RengaGraphNode *node, const RengaSplitWay *way)
{
  for (int o = 0; o < node->n_out; o++)
    if (IsAlongLanes(&way->out[o]) && !MayCutTokens(graph, node->out[o], &way->out[o]))
      return false;
  return true;
}

/* Inputs that lanes have parts of as the way wants them; 0: it does not fit. */
static int CountTokenInputs(const TokenWalk *walk, const RengaGraphNode *node,
                            const RengaSplitWay *way)
{
  RengaGraph graph = walk->pass->graph;
  int count = 0;
  if (way->need == RENGA_LANE_INDICES || !OutputsFitTokens(graph, node, way)) return 0;
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] < 0) continue;
    const RengaSplit *state = &walk->pass->state[node->in[i]];
    if (way->in[i].kind == RENGA_SPLIT_SUM && i != 2) return 0; /* but a bias */
    if (!IsAlongLanes(&way->in[i])) continue;
    if (!MayCutTokens(graph, node->in[i], &way->in[i])) return 0;
    if (RengaSplitEqual(state, &way->in[i]) || RengaGraphHasRows(way, i, state))
      count++;
    else if (IsAlongLanes(state) && !walk->uncut[node->in[i]])
      return 0;
  }
  return count;
}

/* The way in which most inputs are used as lanes have them; units 0: there is none. */
static RengaErrorCode TakeTokenWay(const TokenWalk *walk, int at, RengaSplitWay *taken)
{
  RengaGraph graph = walk->pass->graph;
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  RengaSplitWays ways = {0};
  RengaOpCall call;
  int most = 0, best = -1;
  RengaErrorCode code = RengaGraphMakeCall(graph, node, RENGA_OP_SOME_BATCH, &call);
  if (!code) code = RengaSplitWaysGet(&call, &ways);
  for (int w = 0; w < ways.count && !code; w++) {
    bool fits;
    code = RefineToTokens(walk, node, &call, &ways.way[w], &fits);
    const int count = fits ? CountTokenInputs(walk, node, &ways.way[w]) : 0;
    if (count > most) best = w;
    if (count > most) most = count;
  }
  *taken = (RengaSplitWay){.units = 0};
  if (best >= 0) *taken = ways.way[best];
  if (best >= 0) ways.way[best].in = NULL;
  RengaSplitWaysFree(&ways);
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Values without parameters are made by each stage that needs them; a table has one reader. */
static bool IsMadeWhole(RengaGraph graph, const RengaGraphNode *node)
{
  if (graph->value[node->out[0]]->prepared) return true;
  return strcmp(node->op->name, "Gather") == 0 && RengaGraphIsOfParameters(graph, node->in[0]);
}

static bool MakesSums(const RengaGraphNode *node, const RengaSplitWay *way)
{
  for (int o = 0; o < node->n_out; o++)
    if (way->out[o].kind == RENGA_SPLIT_SUM) return true;
  return false;
}

/* A normalisation of images that needs all rows has them: what it makes is cut again. */
static void ResumeRows(TokenWalk *walk, const RengaGraphNode *node)
{
  const bool images = strcmp(node->op->name, "InstanceNormalization") == 0 ||
                      strcmp(node->op->name, "GroupNormalization") == 0;
  if (!images || node->n_in < 1 || node->in[0] < 0) return;
  const RengaSplit *state = &walk->pass->state[node->in[0]];
  if (!IsAlongLanes(state) || state->dim < 2) return;
  walk->pass->state[node->out[0]] = *state;
  walk->uncut[node->out[0]] = true;
}

/* The node is computed in lanes, or its outputs are cut for those that are. */
static RengaErrorCode FollowTokensAt(TokenWalk *walk, int at)
{
  RengaLanes *pass = walk->pass;
  const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, at);
  RengaSplitWay way;
  bool any = false;
  for (int i = 0; i < node->n_in; i++)
    any = any || (node->in[i] >= 0 && IsAlongLanes(&pass->state[node->in[i]]));
  if (!any) return RENGA_SUCCESS;
  RengaCall(RengaGraphTakeResize(pass, at, &way));
  if (!way.in) RengaCall(TakeTokenWay(walk, at, &way));
  if (!way.in) ResumeRows(walk, node);
  if (!way.in) return RENGA_SUCCESS;
  const bool sums = MakesSums(node, &way), whole = IsMadeWhole(pass->graph, node);
  for (int o = 0; o < node->n_out && !(whole && sums); o++) {
    if (IsAlongLanes(&way.out[o])) pass->state[node->out[o]] = way.out[o];
    walk->uncut[node->out[o]] = whole;
  }
  if (whole) {
    RengaFree(&way.in);
    return RENGA_SUCCESS;
  }
  pass->node[at] = (RengaLaneNode){.way = way, .chosen = true, .sums = sums};
  walk->products += (node->op->flags & RENGA_OP_PRODUCT) && !sums && IsAlongLanes(&way.in[0]);
  return RENGA_SUCCESS;
}

static void ForgetTokens(TokenWalk *walk)
{
  RengaLanes *pass = walk->pass;
  for (int n = 0; n < pass->n_nodes; n++) {
    RengaFree(&pass->node[n].way.in);
    pass->node[n] = (RengaLaneNode){.chosen = false};
  }
  for (int v = 0; v < pass->n_values; v++) {
    pass->state[v] = walk->seed[v];
    walk->uncut[v] = IsAlongLanes(&walk->seed[v]);
  }
  walk->products = 0;
}

static RengaErrorCode FollowTokens(TokenWalk *walk)
{
  ForgetTokens(walk);
  for (int n = 0; n < walk->pass->n_nodes; n++) RengaCall(FollowTokensAt(walk, n));
  return RENGA_SUCCESS;
}

/* Of each input the dimension, if any, with which more products are along tokens. */
static RengaErrorCode FindTokenDimensions(TokenWalk *walk)
{
  RengaLanes *pass = walk->pass;
  int64_t longest = 0;
  int most = 0;
  for (RengaValue v = 0; v < pass->n_values; v++) {
    const RengaTensorSpec *spec = RengaGraphSpec(pass->graph, v);
    if (pass->graph->value[v]->kind != RENGA_VALUE_INPUT) continue;
    RengaSplit best = walk->seed[v];
    for (int d = 0; d < spec->ndim; d++) {
      if (spec->dim[d] > longest) longest = spec->dim[d];
      if (spec->dim[d] < pass->lanes) continue;
      walk->seed[v] = (RengaSplit){RENGA_SPLIT_ALONG, d, 1, 1};
      RengaCall(FollowTokens(walk));
      if (walk->products > most) best = walk->seed[v];
      if (walk->products > most) most = walk->products;
    }
    walk->seed[v] = best;
  }
  RengaCall(FollowTokens(walk));
  RengaCheck(most > 0, pass->graph->hdr.comm, RENGA_ERR_OPTION,
             "-graph_token_lanes %d: the network has no product along the tokens of a sequence, or "
             "rows of an image, of which each lane is to have at least one (its inputs have %lld "
             "at most): leave it out, or give fewer lanes",
             pass->lanes, (long long)longest);
  return RENGA_SUCCESS;
}

/* Values that lanes make, and others, or a lane that needs all tokens, read. */
static void MarkJoined(const TokenWalk *walk)
{
  RengaLanes *pass = walk->pass;
  RengaGraph graph = pass->graph;
  for (int n = 0; n < pass->n_nodes; n++) {
    const RengaGraphNode *node = RengaGraphEntryNode(graph, n);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] >= 0 && !(pass->node[n].chosen && IsAlongLanes(&pass->node[n].way.in[i])))
        pass->joined[node->in[i]] = true;
  }
  for (int o = 0; o < graph->n_outputs; o++) pass->joined[graph->output[o]] = true;
  if (graph->loss >= 0) pass->joined[graph->loss] = true;
}

/* 1 + the node at which what the node reads has last been in lanes, if it is whole: this one, or
   one before it; 0: none. behind: the same of values. */
static int FindTokensEnd(const TokenWalk *walk, int at, const int behind[])
{
  const RengaLanes *pass = walk->pass;
  const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, at);
  int end = 0;
  bool ends = false;
  if (pass->node[at].chosen || IsMadeWhole(pass->graph, node)) return 0;
  for (int i = 0; i < node->n_in; i++) {
    const RengaValue value = node->in[i];
    if (value < 0) continue;
    if (behind[value] && (!end || behind[value] < end)) end = behind[value];
    ends = ends || (IsAlongLanes(&pass->state[value]) && !walk->uncut[value]);
  }
  return end == 0 && ends ? 1 + at : end;
}

/* Which products are in no lane, those that depend on inputs alone not counted. */
static RengaErrorCode MeasureWhole(const TokenWalk *walk)
{
  RengaLanes *pass = walk->pass;
  RengaGraph graph = pass->graph;
  double all = 0, whole = 0, flops;
  int *behind, first = -1;
  RengaCall(RengaGraphScratch(graph, pass->n_values + 1, &behind));
  for (int n = 0; n < pass->n_nodes; n++) {
    const RengaGraphNode *node = RengaGraphEntryNode(graph, n);
    const int end = FindTokensEnd(walk, n, behind);
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] >= 0) behind[node->out[o]] = end;
    if (!(node->op->flags & RENGA_OP_PRODUCT) || graph->value[node->out[0]]->prepared) continue;
    RengaCall(RengaGraphGetNodeFlops(graph, n, 1, &flops));
    all += flops;
    if (pass->node[n].chosen) continue;
    whole += flops;
    if (first < 0) first = end > 0 ? end - 1 : n;
  }
  graph->whole.share = all > 0 ? whole / all : 0;
  if (first >= 0)
    snprintf(graph->whole.name, sizeof graph->whole.name, "%s",
             RengaGraphEntryNode(graph, first)->name);
  return RENGA_SUCCESS;
}

static void WarnOfWholeTokens(RengaGraph graph)
{
  if (graph->whole.share > RENGA_GRAPH_MUCH_WHOLE)
    RengaWarning(graph->hdr.comm,
                 "-graph_token_lanes %d: %.0f%% of the FLOPs of products are in no lane, so that "
                 "each context-parallel rank computes them all, first behind node \"%s\": it mixes "
                 "tokens or rows, or has fewer than lanes",
                 (int)graph->options.token_lanes, 100 * graph->whole.share, graph->whole.name);
}

static RengaErrorCode CutTokens(RengaLanes *pass)
{
  TokenWalk walk = {.pass = pass};
  RengaGraph graph = pass->graph;
  RengaCall(RengaGraphScratch(graph, pass->n_nodes, &pass->node));
  RengaCall(RengaGraphScratch(graph, pass->n_values, &pass->state));
  RengaCall(RengaGraphScratch(graph, pass->n_values, &pass->joined));
  RengaCall(RengaGraphScratch(graph, pass->n_values, &walk.seed));
  RengaCall(RengaGraphScratch(graph, pass->n_values, &walk.uncut));
  for (int v = 0; v < pass->n_values; v++) walk.seed[v] = (RengaSplit){RENGA_SPLIT_WHOLE, 0, 1, 1};
  RengaErrorCode code = FindTokenDimensions(&walk);
  if (!code) code = MeasureWhole(&walk);
  if (!code) MarkJoined(&walk);
  if (!code) code = RengaGraphMakeLanes(pass);
  for (int n = 0; n < pass->n_nodes; n++) RengaFree(&pass->node[n].way.in);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* -graph_token_lanes: nodes that are computed in lanes are replaced by those of the lanes. */
RengaErrorCode RengaGraphSplitTokens(RengaGraph graph)
{
  RengaLanes pass = {.graph = graph,
                     .word = graph->options.lanes > 1 ? "tokens" : "lane",
                     .lanes = (int)graph->options.token_lanes,
                     .tokens = true};
  if (pass.lanes < 2) return RENGA_SUCCESS;
  RengaCall(RengaGraphLeaveStatisticsOut(graph));
  RengaCall(RengaGraphSortNodes(graph));
  RengaCall(RengaGraphSetKeys(graph));
  RengaCall(RengaGraphMarkWide(graph));
  pass.n_nodes = graph->n_nodes;
  pass.n_values = graph->n_values;
  RengaCall(CutTokens(&pass));
  WarnOfWholeTokens(graph);
  RengaCall(RengaGraphSortNodes(graph));
  RengaCall(RengaGraphMarkValues(graph));
  return RENGA_SUCCESS;
}
