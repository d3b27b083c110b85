/* A network as a table, as a drawing (dot), as JSON. */
#include "graphimpl.h"
#include <stdlib.h>
#include <string.h>

/* One line of the table of operators. */
typedef struct {
  const char *op;
  int count;
  double flops, bytes; /* of outputs */
} PrintLine;

static int CompareLines(const void *a, const void *b)
{
  const PrintLine *x = a, *y = b;
  if (x->flops != y->flops) return x->flops > y->flops ? -1 : 1;
  if (x->count != y->count) return y->count - x->count;
  return strcmp(x->op, y->op);
}

static RengaErrorCode AddToLines(RengaGraph graph, int at, int *count, PrintLine line[])
{
  const RengaGraphNode *node = &graph->entry[at]->node;
  int i = 0;
  double flops;
  while (i < *count && strcmp(line[i].op, node->op->name) != 0) i++;
  if (i == *count) line[(*count)++] = (PrintLine){.op = node->op->name};
  RengaCall(RengaGraphGetNodeFlops(graph, at, 1, &flops));
  line[i].count++;
  line[i].flops += flops;
  for (int j = 0; j < node->n_out; j++) {
    RengaTensorSpec spec = RengaGraphStoredAt(graph->value[node->out[j]], 1);
    line[i].bytes += (double)RengaTensorSpecBytes(&spec);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewOperators(RengaGraph graph, RengaViewer viewer)
{
  PrintLine *line;
  int count = 0;
  double flops = 0;
  RengaCall(RengaGraphScratch(graph, RengaOperatorCount() + 1, &line));
  for (int i = 0; i < graph->n_nodes; i++) RengaCall(AddToLines(graph, i, &count, line));
  qsort(line, (size_t)count, sizeof *line, CompareLines);
  for (int i = 0; i < count; i++) flops += line[i].flops;
  RengaCall(RengaViewerPrintf(viewer, "  %-24s %7s %12s %7s %12s\n", "operator", "nodes", "FLOPs",
                              "share", "output"));
  for (int i = 0; i < count; i++) {
    char cost[32], bytes[32];
    RengaFormatCount(line[i].flops, sizeof cost, cost);
    RengaFormatBytes(line[i].bytes, sizeof bytes, bytes);
    RengaCall(RengaViewerPrintf(viewer, "  %-24s %7d %12s %6.1f%% %12s\n", line[i].op,
                                line[i].count, cost, flops > 0 ? 100 * line[i].flops / flops : 0.0,
                                bytes));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewValueLine(RengaGraph graph, RengaViewer viewer, const char *what,
                                    RengaValue value)
{
  char spec[160];
  RengaTensorSpecFormat(RengaGraphSpec(graph, value), sizeof spec, spec);
  RengaCall(RengaViewerPrintf(viewer, "  %-6s  %-40s %s\n", what, graph->value[value]->name, spec));
  return RENGA_SUCCESS;
}

/* Which nodes: by the names NODE.lane0, NODE.lane1, … of drawings and lists. */
static RengaErrorCode ViewLanes(RengaGraph graph, RengaViewer viewer)
{
  for (int k = 0; k < RENGA_LANE_KINDS; k++) {
    int lanes, nodes;
    RengaGraphCountLanes_Private(graph, (RengaLaneKind)k, &lanes, &nodes);
    if (lanes == 1) continue;
    RengaCall(RengaViewerPrintf(viewer,
                                "  lanes%s        %d, of %d nodes of the network, %d of "
                                "them summed\n",
                                k == RENGA_LANES_OF_TOKENS ? " of tokens" : "          ", lanes,
                                nodes, graph->lane_sums[k]));
  }
  if (graph->fewest.chains > 0)
    RengaCall(RengaViewerPrintf(viewer,
                                "  lanes that auto chose  no more, as \"%s\" has %lld units: "
                                "-graph_lanes takes another number\n",
                                graph->fewest.name, (long long)graph->fewest.units));
  if (graph->few.chains > 0)
    RengaCall(RengaViewerPrintf(viewer,
                                "  fewer units than lanes %d of the sums stay whole: \"%s\" has "
                                "%lld\n",
                                graph->few.chains, graph->few.name, (long long)graph->few.units));
  if (graph->whole.share > RENGA_GRAPH_MUCH_WHOLE)
    RengaCall(RengaViewerPrintf(viewer,
                                "  products in no lane    %.1f%% of the FLOPs of products, first "
                                "behind \"%s\"\n",
                                100 * graph->whole.share, graph->whole.name));
  return RENGA_SUCCESS;
}

/* How a batch is cut decides the results of such a network. */
static RengaErrorCode ViewStatistics(RengaGraph graph, RengaViewer viewer)
{
  int count, node;
  int64_t values;
  RengaCall(RengaGraphGetBatchStatistics(graph, &count, &node, &values));
  if (count)
    RengaCall(RengaViewerPrintf(viewer,
                                "  statistics in training of micro-batches, by %d "
                                "BatchNormalization%s; of the fewest values (%lld per sample and "
                                "channel) in \"%s\"\n",
                                count, count == 1 ? "" : "s", (long long)values,
                                graph->entry[node]->node.name));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewAscii(RengaGraph graph, RengaViewer viewer)
{
  RengaGraphTotals totals;
  char parameters[32], flops[32], bytes[32], memory[32];
  RengaCall(RengaGraphGetTotals(graph, &totals));
  RengaFormatCount((double)totals.parameters, sizeof parameters, parameters);
  RengaFormatBytes(4.0 * (double)totals.parameters, sizeof memory, memory);
  RengaFormatCount(totals.forward_flops, sizeof flops, flops);
  RengaFormatBytes(totals.activation_bytes, sizeof bytes, bytes);
  RengaCall(
      RengaViewerPrintf(viewer, "Graph: %d nodes, %d values\n", graph->n_nodes, graph->n_values));
  RengaCall(RengaViewerPrintf(viewer, "  parameters             %s (%lld, %s)\n", parameters,
                              (long long)totals.parameters, memory));
  RengaCall(RengaViewerPrintf(viewer, "  forward, per sample    %s FLOPs\n", flops));
  RengaCall(RengaViewerPrintf(viewer, "  activations, per sample %s\n", bytes));
  if (graph->file_batch > 0)
    RengaCall(
        RengaViewerPrintf(viewer, "  batch of the file      %lld\n", (long long)graph->file_batch));
  if (graph->options.whole_batch > 0)
    RengaCall(RengaViewerPrintf(viewer, "  batch, never cut       %lld\n",
                                (long long)graph->options.whole_batch));
  RengaCall(ViewStatistics(graph, viewer));
  if (graph->options.lanes > 1 || graph->options.token_lanes > 1)
    RengaCall(ViewLanes(graph, viewer));
  for (int i = 0; i < graph->n_values; i++)
    if (graph->value[i]->kind == RENGA_VALUE_INPUT)
      RengaCall(ViewValueLine(graph, viewer, "input", i));
  for (int i = 0; i < graph->n_outputs; i++)
    RengaCall(ViewValueLine(graph, viewer, "output", graph->output[i]));
  if (graph->loss >= 0) RengaCall(ViewValueLine(graph, viewer, "loss", graph->loss));
  RengaCall(ViewOperators(graph, viewer));
  return RENGA_SUCCESS;
}

/* Quotes, backslashes and control characters as in C. */
static RengaErrorCode PrintQuoted(RengaViewer viewer, const char *text)
{
  char quoted[2048];
  size_t at = 0;
  quoted[at++] = '"';
  for (; *text && at + 8 < sizeof quoted; text++) {
    if (*text == '"' || *text == '\\') quoted[at++] = '\\';
    quoted[at++] = (unsigned char)*text < 32 ? ' ' : *text;
  }
  quoted[at++] = '"';
  quoted[at] = '\0';
  RengaCall(RengaViewerPrintf(viewer, "%s", quoted));
  return RENGA_SUCCESS;
}

static const char *const value_kinds[] = {"input", "parameter", "state", "constant", "activation"};
static const char *const phases[] = {"forward", "backward input", "backward weight"};
static const char *const phase_colors[] = {"white", "lightblue", "lightyellow"};

static RengaErrorCode ViewDotNode(RengaGraph graph, RengaViewer viewer, int at)
{
  const RengaGraphNode *node = &graph->entry[at]->node;
  char label[600], spec[160];
  snprintf(label, sizeof label, "%s: %s", node->op->name, node->name);
  RengaCall(RengaViewerPrintf(viewer, "  n%d [style=filled, fillcolor=%s, label=", at,
                              phase_colors[node->phase]));
  RengaCall(PrintQuoted(viewer, label));
  RengaCall(RengaViewerPrintf(viewer, "];\n"));
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] < 0) continue;
    int producer = graph->value[node->in[i]]->producer;
    RengaTensorSpecFormat(RengaGraphSpec(graph, node->in[i]), sizeof spec, spec);
    if (producer >= 0)
      RengaCall(RengaViewerPrintf(viewer, "  n%d -> n%d [label=", producer, at));
    else
      RengaCall(RengaViewerPrintf(viewer, "  v%d -> n%d [label=", node->in[i], at));
    RengaCall(PrintQuoted(viewer, spec));
    RengaCall(RengaViewerPrintf(viewer, "];\n"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewDot(RengaGraph graph, RengaViewer viewer)
{
  RengaCall(RengaViewerPrintf(viewer, "digraph network {\n  node [shape=box];\n"));
  for (int i = 0; i < graph->n_values; i++) {
    if (graph->value[i]->kind == RENGA_VALUE_ACTIVATION) continue;
    RengaCall(RengaViewerPrintf(viewer, "  v%d [shape=ellipse, label=", i));
    RengaCall(PrintQuoted(viewer, graph->value[i]->name));
    RengaCall(RengaViewerPrintf(viewer, "];\n"));
  }
  for (int i = 0; i < graph->n_nodes; i++) RengaCall(ViewDotNode(graph, viewer, i));
  RengaCall(RengaViewerPrintf(viewer, "}\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewJsonValue(RengaGraph graph, RengaViewer viewer, RengaValue at)
{
  const RengaGraphValue *value = graph->value[at];
  RengaCall(RengaViewerPrintf(viewer, "%s\n  {\"name\": ", at ? "," : ""));
  RengaCall(PrintQuoted(viewer, value->name));
  RengaCall(RengaViewerPrintf(viewer, ", \"kind\": \"%s\", \"type\": \"%s\", \"shape\": [",
                              value_kinds[value->kind], RengaDataTypeName(value->spec.type)));
  for (int d = 0; d < value->spec.ndim; d++)
    RengaCall(RengaViewerPrintf(viewer, "%s%lld", d ? ", " : "", (long long)value->spec.dim[d]));
  RengaCall(RengaViewerPrintf(viewer, "], \"prepared\": %s, \"differentiable\": %s}",
                              value->prepared ? "true" : "false",
                              value->differentiable ? "true" : "false"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewJsonList(RengaViewer viewer, const char *name, int count,
                                   const RengaValue values[])
{
  RengaCall(RengaViewerPrintf(viewer, ", \"%s\": [", name));
  for (int i = 0; i < count; i++) {
    if (values[i] >= 0)
      RengaCall(RengaViewerPrintf(viewer, "%s%d", i ? ", " : "", values[i]));
    else
      RengaCall(RengaViewerPrintf(viewer, "%snull", i ? ", " : ""));
  }
  RengaCall(RengaViewerPrintf(viewer, "]"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewJson(RengaGraph graph, RengaViewer viewer)
{
  RengaCall(RengaViewerPrintf(viewer, "{\"values\": ["));
  for (int i = 0; i < graph->n_values; i++) RengaCall(ViewJsonValue(graph, viewer, i));
  RengaCall(RengaViewerPrintf(viewer, "],\n\"nodes\": ["));
  for (int i = 0; i < graph->n_nodes; i++) {
    const RengaGraphNode *node = &graph->entry[i]->node;
    double flops;
    RengaCall(RengaGraphGetNodeFlops(graph, i, 1, &flops));
    RengaCall(RengaViewerPrintf(viewer, "%s\n  {\"name\": ", i ? "," : ""));
    RengaCall(PrintQuoted(viewer, node->name));
    RengaCall(RengaViewerPrintf(viewer, ", \"id\": %d, \"operator\": \"%s\", \"phase\": \"%s\"",
                                node->id, node->op->name, phases[node->phase]));
    RengaCall(RengaViewerPrintf(viewer, ", \"flops\": %.17g", flops));
    RengaCall(ViewJsonList(viewer, "in", node->n_in, node->in));
    RengaCall(ViewJsonList(viewer, "out", node->n_out, node->out));
    RengaCall(RengaViewerPrintf(viewer, "}"));
  }
  RengaCall(RengaViewerPrintf(viewer, "]"));
  RengaCall(ViewJsonList(viewer, "outputs", graph->n_outputs, graph->output));
  RengaCall(ViewJsonList(viewer, "loss", 1, &graph->loss));
  RengaCall(RengaViewerPrintf(viewer, "}\n"));
  return RENGA_SUCCESS;
}

static const struct {
  const char *kind;
  RengaErrorCode (*view)(RengaGraph graph, RengaViewer viewer);
} views[] = {{"ascii", ViewAscii}, {"dot", ViewDot}, {"json", ViewJson}};

/*@
   RengaGraphView - show a network

   Collective

   Input:
   . viewer - ascii: totals, inputs, outputs and a table of operators; dot: a drawing; json: all
     of it

   Errors: RENGA_ERR_SUPPORT for a viewer that is not ascii, dot or json; RENGA_ERR_FILE_WRITE
   where the file does not take it.

   See also: RengaGraphGetTotals(), RengaViewerCreate()
@*/
RengaErrorCode RengaGraphView(RengaGraph graph, RengaViewer viewer)
{
  RengaCheckPointers(graph, viewer);
  const char *kind = RengaViewerGetKind(viewer);
  for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
    if (strcmp(kind, views[i].kind) != 0) continue;
    RengaErrorCode code = views[i].view(graph, viewer);
    RengaGraphFreeScratch(graph);
    RengaCall(code);
    return RENGA_SUCCESS;
  }
  RengaRaise(graph->hdr.comm, RENGA_ERR_SUPPORT,
             "a graph is shown as ascii, dot or json, not as %s", kind);
}
