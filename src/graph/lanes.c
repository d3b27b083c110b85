/* Which nodes are computed in lanes: chains from products that are split by columns, through what
   keeps their columns or heads apart, to a product that is split by rows, whose terms are added up.

   A chain is found from its end. What the last product reads is wanted in units of its inner
   dimension, the finest that the nodes before it can be dealt out in: columns of a hidden layer,
   heads of an attention, or those that share keys and values. Where the rules of a node have no
   such way, and in front of parameters, a value is whole and is cut. A value of a chain that is
   read elsewhere too is whole. Chains without a product by columns would only cut and add, and
   stay whole. */
#include "lanes.h"
#include "renga/private/op.h"
#include <string.h>

/* A value, and how lanes want it. */
typedef struct {
  RengaValue value;
  RengaSplit split;
} WantedParts;

/* What is found of one chain before it is taken. */
typedef struct {
  RengaLanes *pass;
  int last, dim;    /* node that ends it, and the dimension that this adds up */
  const int *first; /* [n_values + 1] where the readers of a value begin in reader */
  const int *reader;
  bool *kept;           /* by value: it is read as a whole, by the caller or elsewhere */
  int n_nodes, *node;   /* of the chain */
  int n_values, *value; /* that lanes have parts of */
  int n_whole, *whole;  /* that this chain has found to be read elsewhere */
  int n_wanted;         /* of which the nodes have not joined yet: a stack */
  WantedParts *wanted;  /* each node that joins puts its inputs there once */
  bool experts;         /* some product has a parameter of several matrices */
} LaneChain;

static bool IsAlong(const RengaSplit *split)
{
  return split->kind == RENGA_SPLIT_ALONG;
}

/* Parts of a state are states of their own, of the one node that reads it. */
static bool MayCutState(const LaneChain *chain, RengaValue state, const RengaSplit *split)
{
  const RengaGraphValue *value = chain->pass->graph->value[state];
  const bool vector = value->spec.ndim == 1 || (value->cache && split->dim == 0);
  return vector && split->repeat == 1 && chain->first[state + 1] - chain->first[state] == 1 &&
         (value->init.kind == RENGA_INIT_CONSTANT || value->init.kind == RENGA_INIT_FILE);
}

/* No batch is dealt out. */
static bool MayCut(const LaneChain *chain, RengaValue value, const RengaSplit *split)
{
  RengaGraph graph = chain->pass->graph;
  if (graph->value[value]->kind == RENGA_VALUE_STATE && !MayCutState(chain, value, split))
    return false;
  return RengaGraphSpec(graph, value)->dim[split->dim] > 0;
}

static bool WayFits(const LaneChain *chain, const RengaGraphNode *node, const RengaSplitWay *way,
                    bool sums)
{
  if (way->need != RENGA_LANE_ALONE) return false;
  for (int o = 0; o < node->n_out; o++) {
    if (way->out[o].kind != (sums ? RENGA_SPLIT_SUM : RENGA_SPLIT_ALONG)) return false;
    if (!sums && !MayCut(chain, node->out[o], &way->out[o])) return false;
  }
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] < 0) continue;
    if (way->in[i].kind == RENGA_SPLIT_SUM && !(sums && i == 2)) return false;
    if (IsAlong(&way->in[i]) && !MayCut(chain, node->in[i], &way->in[i])) return false;
  }
  return true;
}

/* The way in which the tensor (inputs first, then outputs) is split as wanted; units 0: none. */
static RengaErrorCode TakeLaneWay(const LaneChain *chain, int at, int tensor,
                                  const RengaSplit *wanted, bool sums, RengaSplitWay *taken)
{
  const RengaGraphNode *node = RengaGraphEntryNode(chain->pass->graph, at);
  RengaSplitWays ways = {0};
  RengaOpCall call;
  *taken = (RengaSplitWay){.units = 0};
  if (!RengaLaneAllows(chain->pass->wish[at], sums)) return RENGA_SUCCESS;
  RengaErrorCode code = RengaGraphMakeCall(chain->pass->graph, node, RENGA_OP_SOME_BATCH, &call);
  if (!code) code = RengaSplitWaysGet(&call, &ways);
  for (int w = 0; w < ways.count && !code && !taken->in; w++) {
    RengaSplitWay *way = &ways.way[w];
    const RengaSplit *own = &way->in[tensor];
    if (!IsAlong(own) || own->dim != wanted->dim || !WayFits(chain, node, way, sums)) continue;
    if (wanted->repeat % own->repeat || wanted->unit % own->unit) continue;
    const int64_t repeat = wanted->repeat / own->repeat, unit = wanted->unit / own->unit;
    if (way->units % (repeat * unit) || (repeat > 1 && way->shifted)) continue;
    code = RengaSplitWayRefine(way, &call, repeat, unit);
    *taken = *way;
    way->in = NULL;
  }
  RengaSplitWaysFree(&ways);
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void ReadWhole(LaneChain *chain, RengaValue value)
{
  if (chain->kept[value]) return;
  chain->kept[value] = true;
  chain->whole[chain->n_whole++] = value;
}

/* The first of its inputs is the next to be looked at. */
static void WantInputs(LaneChain *chain, const RengaGraphNode *node, int count,
                       const RengaSplitWay *way)
{
  for (int i = count; i-- > 0;)
    if (node->in[i] >= 0 && IsAlong(&way->in[i]))
      chain->wanted[chain->n_wanted++] = (WantedParts){node->in[i], way->in[i]};
}

/* Some output of the node is read as a whole. */
static bool IsKept(const LaneChain *chain, const RengaGraphNode *node)
{
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0 && chain->kept[node->out[o]]) return true;
  return false;
}

/* Lanes want their parts of a value: its node joins the chain, and what this reads is wanted. */
static RengaErrorCode JoinLaneChain(LaneChain *chain, RengaValue value, const RengaSplit *wanted)
{
  RengaLanes *pass = chain->pass;
  const int at = pass->graph->value[value]->producer;
  RengaSplitWay way;
  if (IsAlong(&pass->state[value])) {
    if (!RengaSplitEqual(&pass->state[value], wanted)) ReadWhole(chain, value);
    return RENGA_SUCCESS;
  }
  const RengaGraphNode *node = at < 0 ? NULL : RengaGraphEntryNode(pass->graph, at);
  if (!node || IsKept(chain, node) || pass->node[at].chosen) return RENGA_SUCCESS;
  RengaCall(
      TakeLaneWay(chain, at, node->n_in + pass->graph->value[value]->output, wanted, false, &way));
  if (!way.in) return RENGA_SUCCESS;
  pass->node[at] = (RengaLaneNode){.way = way, .chosen = true};
  chain->node[chain->n_nodes++] = at;
  for (int o = 0; o < node->n_out; o++) {
    pass->state[node->out[o]] = way.out[o];
    chain->value[chain->n_values++] = node->out[o];
  }
  WantInputs(chain, node, node->n_in, &way);
  return RENGA_SUCCESS;
}

static void LeaveChain(LaneChain *chain)
{
  RengaLanes *pass = chain->pass;
  for (int i = 0; i < chain->n_nodes; i++) {
    RengaFree(&pass->node[chain->node[i]].way.in);
    pass->node[chain->node[i]] = (RengaLaneNode){.chosen = false};
  }
  for (int i = 0; i < chain->n_values; i++)
    pass->state[chain->value[i]] = (RengaSplit){RENGA_SPLIT_WHOLE, 0, 1, 1};
  chain->n_nodes = chain->n_values = 0;
}

/* All readers of a value have the same parts of it. */
static bool IsReadInParts(const LaneChain *chain, RengaValue value)
{
  RengaLanes *pass = chain->pass;
  for (int r = chain->first[value]; r < chain->first[value + 1]; r++) {
    const RengaLaneNode *lane = &pass->node[chain->reader[r]];
    const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, chain->reader[r]);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] == value &&
          (!lane->chosen || !RengaSplitEqual(&lane->way.in[i], &pass->state[value])))
        return false;
  }
  return true;
}

/* Layers: products with a parameter that have columns and add up rows. */
static bool IsLayer(const RengaGraphNode *node)
{
  return strcmp(node->op->name, "Linear") == 0 || strncmp(node->op->name, "Conv", 4) == 0;
}

/* What else adds up dimensions of its input. It ends chains of experts alone. */
static bool AddsExperts(const RengaGraphNode *node)
{
  return strcmp(node->op->name, "ReduceSum") == 0 || strcmp(node->op->name, "MatMul") == 0;
}

/* The first dimension of its first input that the node adds up in lanes; -1: there is none. */
static RengaErrorCode FindInnerDimension(RengaGraph graph, const RengaGraphNode *node, int *dim)
{
  RengaSplitWays ways = {0};
  RengaOpCall call;
  *dim = -1;
  RengaCall(RengaGraphMakeCall(graph, node, RENGA_OP_SOME_BATCH, &call));
  const RengaErrorCode code = RengaSplitWaysGet(&call, &ways);
  for (int w = 0; w < ways.count && !code && *dim < 0; w++)
    if (IsAlong(&ways.way[w].in[0]) && ways.way[w].out[0].kind == RENGA_SPLIT_SUM)
      *dim = ways.way[w].in[0].dim;
  RengaSplitWaysFree(&ways);
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A factor of an adapter ends no chain of its own: it is narrow, and its sum would be wide. */
static bool IsOfAdapter(RengaGraph graph, const RengaGraphNode *node)
{
  return IsLayer(node) && graph->value[node->in[1]]->adapter != RENGA_ADAPTER_NONE;
}

/* The first factor of an adapter reads what its product reads: where this ends a chain it adds up
   the same units, in lanes too. */
static RengaErrorCode JoinAdapters(LaneChain *chain, RengaValue x, const RengaSplit *wanted)
{
  RengaLanes *pass = chain->pass;
  for (int r = chain->first[x]; r < chain->first[x + 1]; r++) {
    const int at = chain->reader[r];
    const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, at);
    RengaSplitWay way;
    if (pass->node[at].chosen || !IsOfAdapter(pass->graph, node) || node->in[0] != x) continue;
    RengaCall(TakeLaneWay(chain, at, 0, wanted, true, &way));
    if (!way.in) continue;
    pass->node[at] = (RengaLaneNode){.way = way, .chosen = true, .sums = true};
    chain->node[chain->n_nodes++] = at;
  }
  return RENGA_SUCCESS;
}

/* The chain whose last product has its input in units of so many elements. */
static RengaErrorCode FollowLaneChain(LaneChain *chain, int64_t unit)
{
  RengaLanes *pass = chain->pass;
  const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, chain->last);
  int found;
  do {
    RengaSplitWay way;
    found = chain->n_whole;
    LeaveChain(chain);
    RengaCall(TakeLaneWay(chain, chain->last, 0,
                          &(RengaSplit){RENGA_SPLIT_ALONG, chain->dim, 1, unit}, true, &way));
    if (!way.in) return RENGA_SUCCESS;
    pass->node[chain->last] = (RengaLaneNode){.way = way, .chosen = true, .sums = true};
    chain->node[chain->n_nodes++] = chain->last;
    if (IsLayer(node)) RengaCall(JoinAdapters(chain, node->in[0], &way.in[0]));
    WantInputs(chain, node, node->n_in < 2 ? node->n_in : 2, &way);
    while (chain->n_wanted > 0) {
      const WantedParts next = chain->wanted[--chain->n_wanted];
      RengaCall(JoinLaneChain(chain, next.value, &next.split));
    }
    for (int i = 0; i < chain->n_values; i++)
      if (!IsReadInParts(chain, chain->value[i])) ReadWhole(chain, chain->value[i]);
  } while (chain->n_whole > found);
  return RENGA_SUCCESS;
}

/* A product of experts, of which the parameter has one after the other. */
static bool IsByExperts(RengaGraph graph, const RengaGraphNode *node, const RengaSplitWay *way)
{
  if (strcmp(node->op->name, "MatMul") != 0) return false;
  for (int i = 0; i < 2; i++)
    if (graph->value[node->in[i]]->kind == RENGA_VALUE_PARAMETER && IsAlong(&way->in[i]) &&
        way->in[i].dim < RengaGraphSpec(graph, node->in[i])->ndim - 2)
      return true;
  return false;
}

/* Products of a whole input with columns of a parameter; or those of experts. */
static int CountColumns(const LaneChain *chain)
{
  RengaGraph graph = chain->pass->graph;
  int count = 0;
  const bool experts = AddsExperts(RengaGraphEntryNode(graph, chain->last));
  for (int i = 1; i < chain->n_nodes; i++) {
    const RengaGraphNode *node = RengaGraphEntryNode(graph, chain->node[i]);
    const RengaSplitWay *way = &chain->pass->node[chain->node[i]].way;
    count += experts ? IsByExperts(graph, node, way)
                     : IsLayer(node) && !IsAlong(&way->in[0]) && IsAlong(&way->in[1]) &&
                           graph->value[node->in[1]]->kind == RENGA_VALUE_PARAMETER;
  }
  return count;
}

/* A chain of fewer heads or columns than lanes stays whole. */
static void LeaveFew(LaneChain *chain)
{
  RengaGraph graph = chain->pass->graph;
  const char *name = RengaGraphEntryNode(graph, chain->last)->name;
  if (graph->few.chains++ == 0) {
    graph->few.units = chain->pass->node[chain->last].way.units;
    snprintf(graph->few.name, sizeof graph->few.name, "%s", name);
  }
  for (int i = 0; i < chain->n_nodes; i++)
    chain->pass->few[chain->node[i]] = chain->pass->node[chain->last].way.units;
  LeaveChain(chain);
}

/* *best, with *most products by columns, becomes the unit where it has more. */
static RengaErrorCode TryLaneUnit(LaneChain *chain, int64_t inner, int64_t unit, int *most,
                                  int64_t *best)
{
  if (inner % unit || (*most > 0 && inner / unit % chain->pass->lanes)) return RENGA_SUCCESS;
  RengaCall(FollowLaneChain(chain, unit));
  const int columns = CountColumns(chain);
  if (columns > *most) *best = unit;
  if (columns > *most) *most = columns;
  LeaveChain(chain);
  while (chain->n_whole > 0) chain->kept[chain->whole[--chain->n_whole]] = false;
  return RENGA_SUCCESS;
}

/* Units in which the product ends a chain, 0: there is none. The finest, unless coarser ones, as
   many for each lane, have more products by columns: groups of heads that share their keys. They
   are the divisors, in their order, of which there are two for each up to the square root. */
static RengaErrorCode FindLaneUnit(LaneChain *chain, int64_t inner, int64_t *best)
{
  int most = 0;
  int64_t d = 1;
  *best = 0;
  for (; inner > 1 && d <= inner / d; d++) RengaCall(TryLaneUnit(chain, inner, d, &most, best));
  for (d--; d > 1; d--)
    if (inner % d == 0 && inner / d != d)
      RengaCall(TryLaneUnit(chain, inner, inner / d, &most, best));
  return RENGA_SUCCESS;
}

/* Ends a chain at the product, where there is one. */
static RengaErrorCode TryLast(LaneChain *chain, int at)
{
  RengaGraph graph = chain->pass->graph;
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  const RengaTensorSpec *x = RengaGraphSpec(graph, node->in[0]);
  int64_t unit;
  if (chain->pass->node[at].chosen || !(IsLayer(node) || AddsExperts(node))) return RENGA_SUCCESS;
  if ((!IsLayer(node) && !chain->experts) || IsOfAdapter(graph, node)) return RENGA_SUCCESS;
  if (IsLayer(node) && graph->value[node->in[1]]->kind != RENGA_VALUE_PARAMETER)
    return RENGA_SUCCESS;
  chain->last = at;
  RengaCall(FindInnerDimension(graph, node, &chain->dim));
  if (chain->dim < 0) return RENGA_SUCCESS;
  RengaCall(FindLaneUnit(chain, x->dim[chain->dim], &unit));
  if (!unit) return RENGA_SUCCESS;
  RengaCall(FollowLaneChain(chain, unit));
  while (chain->n_whole > 0) chain->kept[chain->whole[--chain->n_whole]] = false;
  if (chain->pass->node[at].way.units < chain->pass->lanes) LeaveFew(chain);
  chain->n_nodes = chain->n_values = 0;
  return RENGA_SUCCESS;
}

/* Without it no chain that sums or products end has what IsByExperts() finds. */
static bool HasExperts(RengaGraph graph)
{
  for (int n = 0; n < graph->n_nodes; n++) {
    const RengaGraphNode *node = RengaGraphEntryNode(graph, n);
    for (int i = 0; i < 2 && strcmp(node->op->name, "MatMul") == 0; i++)
      if (graph->value[node->in[i]]->kind == RENGA_VALUE_PARAMETER &&
          RengaGraphSpec(graph, node->in[i])->ndim > 2)
        return true;
  }
  return false;
}

static RengaErrorCode ListReaders(LaneChain *chain)
{
  RengaGraph graph = chain->pass->graph;
  int *first, *reader, inputs = 0;
  for (int i = 0; i < graph->n_nodes; i++) inputs += graph->entry[i]->node.n_in;
  RengaCall(RengaGraphScratch(graph, graph->n_values + 2, &first));
  RengaCall(RengaGraphScratch(graph, inputs + 1, &reader));
  RengaCall(RengaGraphScratch(graph, inputs + 1, &chain->wanted));
  for (int i = 0; i < graph->n_nodes; i++)
    for (int j = 0; j < graph->entry[i]->node.n_in; j++)
      if (graph->entry[i]->node.in[j] >= 0) first[graph->entry[i]->node.in[j] + 2]++;
  for (int v = 0; v < graph->n_values; v++) first[v + 2] += first[v + 1];
  for (int i = 0; i < graph->n_nodes; i++)
    for (int j = 0; j < graph->entry[i]->node.n_in; j++)
      if (graph->entry[i]->node.in[j] >= 0) reader[first[graph->entry[i]->node.in[j] + 1]++] = i;
  chain->first = first;
  chain->reader = reader;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindChains(RengaLanes *pass)
{
  RengaGraph graph = pass->graph;
  LaneChain chain = {.pass = pass};
  RengaCall(RengaGraphFindVocabulary(pass));
  RengaCall(RengaGraphFindTables(pass));
  RengaCall(ListReaders(&chain));
  chain.experts = HasExperts(graph);
  RengaCall(RengaGraphScratch(graph, graph->n_values, &chain.kept));
  RengaCall(RengaGraphScratch(graph, graph->n_values, &chain.value));
  RengaCall(RengaGraphScratch(graph, graph->n_values, &chain.whole));
  RengaCall(RengaGraphScratch(graph, graph->n_nodes, &chain.node));
  for (int o = 0; o < graph->n_outputs; o++) chain.kept[graph->output[o]] = true;
  if (graph->loss >= 0) chain.kept[graph->loss] = true;
  for (int i = 0; i < graph->n_nodes; i++) RengaCall(TryLast(&chain, i));
  return RENGA_SUCCESS;
}

static void ForgetChains(RengaLanes *pass)
{
  for (int i = 0; i < pass->n_nodes; i++) {
    RengaFree(&pass->node[i].way.in);
    pass->node[i] = (RengaLaneNode){.chosen = false};
    pass->few[i] = 0;
  }
  for (int v = 0; v < pass->n_values; v++)
    pass->state[v] = (RengaSplit){RENGA_SPLIT_WHOLE, 0, 1, 1};
  memset(&pass->graph->few, 0, sizeof pass->graph->few);
}

/* Where the number of lanes is to be chosen, half of them while a chain has fewer heads. */
static RengaErrorCode FindFittingChains(RengaLanes *pass)
{
  RengaGraph graph = pass->graph;
  RengaCall(FindChains(pass));
  while (graph->options.lanes_at_most && graph->few.chains > 0 && pass->lanes > 2) {
    graph->fewest = graph->few;
    ForgetChains(pass);
    graph->options.lanes = pass->lanes /= 2;
    RengaCall(FindChains(pass));
  }
  return RENGA_SUCCESS;
}

static void WarnOfWhole(RengaGraph graph)
{
  const int lanes = (int)graph->options.lanes, chains = graph->few.chains;
  if (graph->options.lanes_open) return; /* nobody asked for them */
  if (chains > 0)
    RengaWarning(graph->hdr.comm,
                 "-graph_lanes %d: %d %s with what leads to %s, for fewer heads, columns "
                 "or experts than lanes: node \"%s\" adds up %lld",
                 lanes, chains, chains == 1 ? "product stays whole" : "products stay whole",
                 chains == 1 ? "it" : "them", graph->few.name, (long long)graph->few.units);
  if (graph->in_lanes[RENGA_LANES_OF_HEADS] == 0)
    RengaWarning(graph->hdr.comm,
                 "-graph_lanes %d: the network has no %sheads, hidden columns or experts "
                 "between two products, so that nothing of it is computed in lanes",
                 lanes, chains > 0 ? "more " : "");
}

/* -graph_lanes: nodes that are computed in lanes are replaced by those of the lanes. */
RengaErrorCode RengaGraphSplitLanes(RengaGraph graph)
{
  RengaLanes pass = {.graph = graph, .word = "lane", .lanes = (int)graph->options.lanes};
  if (pass.lanes < 2 && !graph->options.split) return RENGA_SUCCESS;
  RengaCall(RengaGraphSortNodes(graph));
  RengaCall(RengaGraphMarkWide(graph));
  RengaCall(RengaGraphReadLaneWishes(graph));
  if (pass.lanes > 1) RengaCall(RengaGraphMergeSlices(graph));
  RengaCall(RengaGraphSetKeys(graph)); /* the lanes of a node have its own */
  pass.n_nodes = graph->n_nodes;
  pass.n_values = graph->n_values;
  RengaCall(RengaGraphScratch(graph, pass.n_nodes, &pass.node));
  RengaCall(RengaGraphScratch(graph, pass.n_values, &pass.state));
  RengaCall(RengaGraphTakeLaneWishes(&pass));
  ForgetChains(&pass);
  if (pass.lanes < 2) return RengaGraphCheckLaneWishes(&pass);
  RengaErrorCode code = FindFittingChains(&pass);
  if (!code) code = RengaGraphCheckLaneWishes(&pass);
  if (!code) code = RengaGraphMakeLanes(&pass);
  for (int i = 0; i < pass.n_nodes; i++) RengaFree(&pass.node[i].way.in);
  RengaCall(code);
  WarnOfWhole(graph);
  RengaCall(RengaGraphSortNodes(graph));
  RengaCall(RengaGraphMarkValues(graph));
  return RENGA_SUCCESS;
}
