/* Tables of embeddings in lanes, by their rows. A lane looks up those that it has, and has zeros
   for all others; what lanes have is added up by their fixed tree, which is the row itself, as all
   other terms are zeros (but -0 becomes 0, on any layout). So a rank has its lanes' rows alone,
   with their gradients and moments, and gives the others what it has looked up, which is as wide
   as any sum of lanes (Shoeybi and others,
   Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism, 2019).

   It pays where there are many rows: twice as many as columns, as for output layers
   (lanevocabulary.c), and no fewer than a sample looks up. A table that is read elsewhere too is
   in lanes where all that read it have the same rows of it: such an output layer, or further
   look-ups. */
#include "lanes.h"
#include "renga/private/op.h"
#include <string.h>

enum { ROWS_FOR_COLUMN = 2 };

typedef struct {
  RengaLanes *pass;
  bool *wanted; /* [nodes] a table is looked up that is large enough, or -graph_split asks */
  bool *apart;  /* [values] a reader has not its rows in lanes */
} LaneTables;

static const RengaSplit by_rows = {RENGA_SPLIT_ALONG, 0, 1, 1};

static bool LooksUpTable(RengaGraph graph, const RengaGraphNode *node)
{
  if (strcmp(node->op->name, "Gather") != 0) return false;
  const RengaGraphValue *table = graph->value[node->in[0]];
  if (table->kind != RENGA_VALUE_PARAMETER) return false;
  const int64_t axis = RengaAttributesInt(&node->attributes, "axis", 0);
  return axis == 0 || axis + table->spec.ndim == 0;
}

static bool IsAskedFor(RengaLaneWish wish)
{
  return wish == RENGA_LANE_ANYHOW || wish == RENGA_LANE_ROWS;
}

/* Indices of one sample. */
static int64_t CountLookUps(const RengaTensorSpec *indices)
{
  int64_t count = 1;
  for (int d = 0; d < indices->ndim; d++)
    if (indices->dim[d] >= 0) count *= indices->dim[d];
  return count;
}

static bool WantsRows(const RengaLanes *pass, int at)
{
  RengaGraph graph = pass->graph;
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  if (!LooksUpTable(graph, node) || !RengaLaneAllows(pass->wish[at], true)) return false;
  const RengaTensorSpec *table = RengaGraphSpec(graph, node->in[0]);
  const int64_t rows = table->dim[0];
  if (rows < pass->lanes) {
    if (IsAskedFor(pass->wish[at])) pass->few[at] = rows;
    return false;
  }
  return IsAskedFor(pass->wish[at]) ||
         (rows >= ROWS_FOR_COLUMN * (RengaTensorSpecCount(table) / rows) &&
          rows >= CountLookUps(RengaGraphSpec(graph, node->in[1])));
}

/* Input i of the node is read by rows in lanes. */
static bool ReadsRows(const LaneTables *tables, int at, int i)
{
  const RengaLaneNode *lane = &tables->pass->node[at];
  if (tables->wanted[at]) return i == 0;
  return lane->chosen && RengaSplitEqual(&lane->way.in[i], &by_rows);
}

static void MarkApart(const LaneTables *tables)
{
  const RengaLanes *pass = tables->pass;
  for (int n = 0; n < pass->n_nodes; n++) tables->wanted[n] = WantsRows(pass, n);
  for (int n = 0; n < pass->n_nodes; n++) {
    const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, n);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] >= 0 && !ReadsRows(tables, n, i)) tables->apart[node->in[i]] = true;
  }
}

/* The way in which lanes have rows of the first input. */
static RengaErrorCode TakeRows(RengaLanes *pass, int at)
{
  const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, at);
  RengaSplitWays ways = {0};
  RengaOpCall call;
  RengaErrorCode code = RengaGraphMakeCall(pass->graph, node, RENGA_OP_SOME_BATCH, &call);
  if (!code) code = RengaSplitWaysGet(&call, &ways);
  for (int w = 0; w < ways.count && !pass->node[at].chosen; w++) {
    RengaSplitWay *way = &ways.way[w];
    if (way->need != RENGA_LANE_INDICES || !RengaSplitEqual(&way->in[0], &by_rows)) continue;
    pass->node[at] = (RengaLaneNode){.way = *way, .chosen = true, .sums = true, .exact = true};
    way->in = NULL;
  }
  RengaSplitWaysFree(&ways);
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Marks the nodes, after output layers and before chains are looked for. */
RengaErrorCode RengaGraphFindTables(RengaLanes *pass)
{
  LaneTables tables = {.pass = pass};
  RengaCall(RengaGraphScratch(pass->graph, pass->n_nodes + 1, &tables.wanted));
  RengaCall(RengaGraphScratch(pass->graph, pass->n_values + 1, &tables.apart));
  MarkApart(&tables);
  for (int n = 0; n < pass->n_nodes; n++) {
    if (!tables.wanted[n]) continue;
    const RengaValue table = RengaGraphEntryNode(pass->graph, n)->in[0];
    if (!tables.apart[table] || IsAskedFor(pass->wish[n])) RengaCall(TakeRows(pass, n));
  }
  return RENGA_SUCCESS;
}
