/* TEST ranks: 1 */
/* Split rules and the choice together, on a built GPT: where each device has room for its share of
   the parameters alone, the choice is Megatron's: columns, heads, rows. With room for all of them
   it is sequences, which takes fewer seconds. */
#include "../check.h"
#include "renga/private/split.h"
#include "renga/private/width.h"
#include "rengacomm.h"
#include "rengagraph.h"
#include <math.h>

enum { RANKS = 8, MOST = RENGA_WIDTH_STATES, SAMPLES = 1 };

typedef struct {
  int count;
  RengaSplit split[MOST];
} States;

/* A way; source: the value that it brings in, which no node of the network makes. */
typedef struct {
  int source;
  RengaSplit split[16]; /* inputs, then outputs */
  double seconds;
  int64_t bytes;
} Row;

typedef struct {
  RengaGraph graph;
  int values, n_rows;
  States *state; /* [values] */
  Row *row;      /* by node of the problem */
  int nodes, *first_in, *in, *first_out, *out, *first_way, *first_need, *need, *first_convert;
  int needs, inputs, outputs;
  double *seconds, *convert;
  int64_t *bytes;
} Network;

static RengaTensorSpec SpecOf(const Network *net, int value)
{
  if (value == RENGA_VALUE_NONE) return (RengaTensorSpec){.ndim = -1};
  return RengaTensorSpecAt(&RengaGraphGetValue(net->graph, value)->spec, SAMPLES);
}

static int FindSplit(const States *states, const RengaSplit *split)
{
  for (int s = 0; s < states->count; s++)
    if (RengaSplitEqual(&states->split[s], split)) return s;
  return -1;
}

static RengaErrorCode AddSplit(States *states, const RengaSplit *split, bool *changed)
{
  if (FindSplit(states, split) >= 0) return RENGA_SUCCESS;
  Expect(states->count < MOST);
  states->split[states->count++] = *split;
  *changed = true;
  return RENGA_SUCCESS;
}

typedef struct {
  RengaOpCall call;
  RengaTensorSpec in[8], out[8];
  const RengaGraphNode *node;
} NodeCall;

static void MakeNodeCall(const Network *net, int n, NodeCall *made)
{
  const RengaGraphNode *node = RengaGraphGetNode(net->graph, n);
  made->node = node;
  for (int i = 0; i < node->n_in; i++) made->in[i] = SpecOf(net, node->in[i]);
  for (int o = 0; o < node->n_out; o++) made->out[o] = SpecOf(net, node->out[o]);
  made->call =
      (RengaOpCall){node->op, &node->attributes, node->n_in, node->n_out, made->in, made->out};
}

static int ValueAt(const RengaGraphNode *node, int tensor)
{
  return tensor < node->n_in ? node->in[tensor] : node->out[tensor - node->n_in];
}

/* Not along samples, which are replicas' affair, and at least a unit for each rank. */
static bool MayUse(const Network *net, const RengaGraphNode *node, const RengaSplitWay *way)
{
  if (way->units > 0 && way->units < RANKS) return false;
  for (int t = 0; t < node->n_in + node->n_out; t++) {
    const RengaSplit *split = &way->in[t];
    if (split->kind != RENGA_SPLIT_ALONG) continue;
    if (RengaGraphGetValue(net->graph, ValueAt(node, t))->spec.dim[split->dim] < 0) return false;
  }
  return true;
}

/* The way in other units, so that a tensor is had as given; false where that cannot be. */
static bool RefineTo(const NodeCall *made, RengaSplitWay *way, int tensor, const RengaSplit *wanted)
{
  const RengaSplit *split = &way->in[tensor];
  if (split->kind != RENGA_SPLIT_ALONG || wanted->kind != split->kind ||
      wanted->dim != split->dim || wanted->repeat % split->repeat || wanted->unit % split->unit)
    return false;
  const int64_t repeat = wanted->repeat / split->repeat, unit = wanted->unit / split->unit;
  if (way->units % (repeat * unit)) return false;
  return RengaSplitWayRefine(way, &made->call, repeat, unit) == RENGA_SUCCESS;
}

typedef RengaErrorCode (*WayVisitor)(Network *net, const NodeCall *made, const RengaSplitWay *way,
                                     bool *changed);

/* Each way of a node, in each of the units in which one of its tensors may be had. */
static RengaErrorCode VisitWays(Network *net, int n, WayVisitor visit, bool *changed)
{
  NodeCall made;
  RengaSplitWays ways = {0};
  MakeNodeCall(net, n, &made);
  const int tensors = made.node->n_in + made.node->n_out;
  RengaCall(RengaSplitWaysGet(&made.call, &ways));
  for (int w = 0; w < ways.count; w++) {
    RengaSplit kept[16], *own = ways.way[w].in;
    memcpy(kept, own, (size_t)tensors * sizeof *kept);
    const int64_t units = ways.way[w].units;
    if (ways.way[w].need == RENGA_LANE_PLACE) continue;
    if (MayUse(net, made.node, &ways.way[w])) RengaCall(visit(net, &made, &ways.way[w], changed));
    for (int t = 0; t < tensors; t++) {
      const int value = ValueAt(made.node, t);
      for (int s = 0; value >= 0 && s < net->state[value].count; s++) {
        memcpy(own, kept, (size_t)tensors * sizeof *kept);
        ways.way[w].units = units;
        if (RengaSplitEqual(&own[t], &net->state[value].split[s])) continue;
        if (RefineTo(&made, &ways.way[w], t, &net->state[value].split[s]) &&
            MayUse(net, made.node, &ways.way[w]))
          RengaCall(visit(net, &made, &ways.way[w], changed));
      }
    }
  }
  RengaSplitWaysFree(&ways);
  return RENGA_SUCCESS;
}

static RengaErrorCode NoteStates(Network *net, const NodeCall *made, const RengaSplitWay *way,
                                 bool *changed)
{
  for (int t = 0; t < made->node->n_in + made->node->n_out; t++) {
    const int value = ValueAt(made->node, t);
    if (value >= 0) RengaCall(AddSplit(&net->state[value], &way->in[t], changed));
  }
  return RENGA_SUCCESS;
}

/* About an H100: 400 Tflop/s, 2.5 TB/s. */
static double SecondsOf(const RengaOpCall *call)
{
  if (call->op->flags & RENGA_OP_RESHAPE) return 0;
  return RengaOperatorFlops(call) / 400e12 + RengaOperatorBytes(call) / 2.5e12;
}

static RengaErrorCode AddRow(Network *net, const Row *row, int tensors, const int value[])
{
  net->row[net->n_rows] = *row;
  net->seconds[net->n_rows] = row->seconds;
  net->bytes[net->n_rows] = row->bytes;
  net->first_need[net->n_rows++] = net->needs;
  for (int t = 0; t < tensors; t++)
    if (value[t] >= 0) net->need[net->needs++] = FindSplit(&net->state[value[t]], &row->split[t]);
  return RENGA_SUCCESS;
}

static RengaErrorCode NoteWay(Network *net, const NodeCall *made, const RengaSplitWay *way,
                              bool *changed)
{
  (void)changed;
  RengaTensorSpec in[8], out[8];
  RengaAttributes attributes = {0};
  RengaOpCall lane;
  int value[16];
  const int tensors = made->node->n_in + made->node->n_out;
  Row row = {.source = -1};
  memcpy(row.split, way->in, (size_t)tensors * sizeof *row.split);
  for (int t = 0; t < tensors; t++) value[t] = ValueAt(made->node, t);
  RengaCall(RengaSplitCall(&made->call, way, RANKS - 1, RANKS, in, out, &attributes, &lane));
  row.seconds = SecondsOf(&lane);
  RengaCall(RengaAttributesFree(&attributes));
  return AddRow(net, &row, tensors, value);
}

static RengaErrorCode NoteWhole(Network *net, int n)
{
  NodeCall made;
  int value[16];
  MakeNodeCall(net, n, &made);
  const int tensors = made.node->n_in + made.node->n_out;
  Row row = {.source = -1, .seconds = SecondsOf(&made.call)};
  for (int t = 0; t < tensors; t++) {
    row.split[t] = (RengaSplit){RENGA_SPLIT_WHOLE, 0, 1, 1};
    value[t] = ValueAt(made.node, t);
  }
  return AddRow(net, &row, tensors, value);
}

static void BeginNode(Network *net)
{
  net->first_in[net->nodes] = net->inputs;
  net->first_out[net->nodes] = net->outputs;
  net->first_way[net->nodes] = net->n_rows;
}

/* What no node makes is there in any state; parameters take 16 bytes for each element that a rank
   has, with gradient and moments. */
static RengaErrorCode AddSource(Network *net, int value)
{
  const RengaTensorSpec spec = SpecOf(net, value);
  const bool parameter = RengaGraphGetValue(net->graph, value)->kind == RENGA_VALUE_PARAMETER;
  BeginNode(net);
  net->out[net->outputs++] = value;
  for (int s = 0; s < net->state[value].count; s++) {
    const RengaSplit *split = &net->state[value].split[s];
    if (split->kind == RENGA_SPLIT_SUM) continue;
    const RengaTensorSpec part = RengaSplitSpec(&spec, split, RANKS - 1, RANKS);
    Row row = {.source = value, .split = {*split}};
    row.bytes = parameter ? 16 * RengaTensorSpecCount(&part) : 0;
    RengaCall(AddRow(net, &row, 1, &value));
  }
  net->nodes++;
  return RENGA_SUCCESS;
}

/* Sources stand right before the node that first needs them, so that few values are live. */
static RengaErrorCode AddNetNode(Network *net, int n, bool brought[])
{
  const RengaGraphNode *node = RengaGraphGetNode(net->graph, n);
  for (int i = 0; i < node->n_in; i++) {
    const int value = node->in[i];
    if (value < 0 || brought[value] || RengaGraphGetValue(net->graph, value)->producer >= 0)
      continue;
    brought[value] = true;
    RengaCall(AddSource(net, value));
  }
  BeginNode(net);
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] >= 0) net->in[net->inputs++] = node->in[i];
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0) net->out[net->outputs++] = node->out[o];
  RengaCall(NoteWhole(net, n));
  bool changed = false;
  RengaCall(VisitWays(net, n, NoteWay, &changed));
  net->nodes++;
  return RENGA_SUCCESS;
}

/* 10 microseconds, and 300 GB/s for what a rank gives away. */
static double SecondsToConvert(const RengaSplit *from, const RengaSplit *to, double bytes)
{
  const double wire = bytes * (RANKS - 1) / RANKS / 300e9;
  const bool to_whole = to->kind == RENGA_SPLIT_WHOLE;
  if (RengaSplitEqual(from, to) || from->kind == RENGA_SPLIT_WHOLE) return 0;
  if (to->kind == RENGA_SPLIT_SUM) return -1;
  if (from->kind == RENGA_SPLIT_SUM) return (to_whole ? 2 : 1) * (1e-5 + wire);
  return 1e-5 + (to_whole ? wire : wire / RANKS);
}

static void FillConversions(Network *net)
{
  for (int v = 0; v < net->values; v++) {
    const States *states = &net->state[v];
    const RengaTensorSpec spec = SpecOf(net, v);
    double *table = net->convert + v * MOST * MOST;
    net->first_convert[v] = v * MOST * MOST;
    for (int a = 0; a < states->count; a++)
      for (int b = 0; b < states->count; b++)
        table[a * states->count + b] = SecondsToConvert(&states->split[a], &states->split[b],
                                                        (double)RengaTensorSpecBytes(&spec));
  }
}

static RengaErrorCode AllocateNetwork(Network *net)
{
  const int nodes = RengaGraphGetNodeCount(net->graph), most = 64 * (nodes + net->values) + 64;
  RengaCall(RengaMalloc(net->values, &net->state));
  RengaCall(RengaMalloc(most, &net->row));
  RengaCall(RengaMalloc(most, &net->seconds));
  RengaCall(RengaMalloc(most, &net->bytes));
  RengaCall(RengaMalloc(most, &net->first_need));
  RengaCall(RengaMalloc(16 * most, &net->need));
  RengaCall(RengaMalloc(most, &net->first_in));
  RengaCall(RengaMalloc(most, &net->in));
  RengaCall(RengaMalloc(most, &net->first_out));
  RengaCall(RengaMalloc(most, &net->out));
  RengaCall(RengaMalloc(most, &net->first_way));
  RengaCall(RengaMalloc(net->values, &net->first_convert));
  RengaCall(RengaMalloc(net->values * MOST * MOST, &net->convert));
  return RENGA_SUCCESS;
}

static void FreeNetwork(Network *net)
{
  RengaFree(&net->state);
  RengaFree(&net->row);
  RengaFree(&net->seconds);
  RengaFree(&net->bytes);
  RengaFree(&net->first_need);
  RengaFree(&net->need);
  RengaFree(&net->first_in);
  RengaFree(&net->in);
  RengaFree(&net->first_out);
  RengaFree(&net->out);
  RengaFree(&net->first_way);
  RengaFree(&net->first_convert);
  RengaFree(&net->convert);
}

static RengaErrorCode MakeNetwork(Network *net)
{
  const int nodes = RengaGraphGetNodeCount(net->graph);
  const RengaSplit whole = {RENGA_SPLIT_WHOLE, 0, 1, 1};
  bool changed = true, *brought = NULL;
  net->values = RengaGraphGetValueCount(net->graph);
  RengaCall(AllocateNetwork(net));
  for (int v = 0; v < net->values; v++) RengaCall(AddSplit(&net->state[v], &whole, &changed));
  while (changed) {
    changed = false;
    for (int n = 0; n < nodes; n++) RengaCall(VisitWays(net, n, NoteStates, &changed));
  }
  RengaCall(RengaMalloc(net->values, &brought));
  for (int n = 0; n < nodes; n++) RengaCall(AddNetNode(net, n, brought));
  BeginNode(net);
  FillConversions(net);
  RengaFree(&brought);
  return RENGA_SUCCESS;
}

static RengaErrorCode SolveNetwork(const Network *net, int64_t bound, RengaWidthResult *result)
{
  int *states = NULL;
  RengaCall(RengaMalloc(net->values, &states));
  for (int v = 0; v < net->values; v++) states[v] = net->state[v].count;
  const RengaWidthProblem problem = {.nodes = net->nodes,
                                     .values = net->values,
                                     .states = states,
                                     .first_in = net->first_in,
                                     .in = net->in,
                                     .first_out = net->first_out,
                                     .out = net->out,
                                     .first_way = net->first_way,
                                     .seconds = net->seconds,
                                     .bytes = net->bytes,
                                     .first_need = net->first_need,
                                     .need = net->need,
                                     .first_convert = net->first_convert,
                                     .convert = net->convert,
                                     .bound = bound};
  RengaCall(RengaWidthSolve(&problem, result));
  RengaFree(&states);
  return RENGA_SUCCESS;
}

/* How a value that no node makes is had in the choice. */
static const RengaSplit *ChosenSplit(const Network *net, const RengaWidthResult *result,
                                     const char *name)
{
  const int value = RengaGraphFindValue(net->graph, name);
  for (int n = 0; n < net->nodes; n++) {
    const Row *row = &net->row[net->first_way[n] + result->way[n]];
    if (row->source == value) return &row->split[0];
  }
  return NULL;
}

/* Weights are [outputs, inputs]: columns are dimension 0, rows dimension 1. */
static RengaErrorCode ExpectSplit(const Network *net, const RengaWidthResult *result, int layer,
                                  const char *part, int dim)
{
  char name[64];
  snprintf(name, sizeof name, "blocks.%d.%s.weight", layer, part);
  const RengaSplit *split = ChosenSplit(net, result, name);
  RengaCheck(split && split->kind == RENGA_SPLIT_ALONG && split->dim == dim, MPI_COMM_SELF,
             RENGA_ERR_INTERNAL, "%s is not split along dimension %d, but %d, %d", name, dim,
             split ? (int)split->kind : -1, split ? split->dim : -1);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  enum { LAYERS = 3 };
  RengaComm comm = NULL;
  Network net = {.graph = NULL};
  RengaGraphTotals totals;
  RengaWidthResult narrow, wide;
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &comm));
  RengaCall(RengaGraphCreate(comm, &net.graph));
  RengaCall(RengaGraphLoad(net.graph, "gpt:layers=3,hidden=4096,heads=32,sequence=2048,"
                                      "vocabulary=50264"));
  RengaCall(RengaGraphSetUp(net.graph));
  RengaCall(RengaGraphGetTotals(net.graph, &totals));
  RengaCall(MakeNetwork(&net));
  RengaCall(SolveNetwork(&net, totals.parameters * 16 / RANKS * 102 / 100, &narrow));
  Expect(narrow.feasible && narrow.optimal);
  for (int l = 0; l < LAYERS; l++) {
    RengaCall(ExpectSplit(&net, &narrow, l, "qkv", 0));
    RengaCall(ExpectSplit(&net, &narrow, l, "proj", 1));
    RengaCall(ExpectSplit(&net, &narrow, l, "fc", 0));
    RengaCall(ExpectSplit(&net, &narrow, l, "out", 1));
  }
  const RengaSplit *heads = ChosenSplit(&net, &narrow, "blocks.0.qkv.weight");
  Expect(heads->repeat == 3 && heads->unit == 4096 / 32);
  RengaCall(SolveNetwork(&net, INT64_MAX / 2, &wide));
  Expect(wide.optimal && wide.seconds < narrow.seconds);
  Expect(ChosenSplit(&net, &wide, "blocks.0.qkv.weight")->kind == RENGA_SPLIT_WHOLE);
  RengaWidthFreeResult(&narrow);
  RengaWidthFreeResult(&wide);
  FreeNetwork(&net);
  RengaCall(RengaGraphDestroy(&net.graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
