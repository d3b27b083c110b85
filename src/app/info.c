/* renga info: what a network or a checkpoint holds, and what computes. */
#include "app.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *name;
  int count;
  double flops;
} OperatorUse;

static int CompareOperatorUses(const void *a, const void *b)
{
  const OperatorUse *x = a, *y = b;
  if (x->flops != y->flops) return x->flops < y->flops ? 1 : -1;
  return strcmp(x->name, y->name);
}

/* Nodes by operator, the costliest first; uses[] has a place for each operator there is. */
static RengaErrorCode CountOperatorUses(RengaGraph graph, int64_t batch, int *count,
                                        OperatorUse uses[])
{
  *count = 0;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    const char *name = RengaGraphGetNode(graph, n)->op->name;
    double flops = 0;
    int u = 0;
    RengaCall(RengaGraphGetNodeFlops(graph, n, batch, &flops));
    while (u < *count && strcmp(uses[u].name, name)) u++;
    if (u == *count) uses[(*count)++] = (OperatorUse){name, 0, 0};
    uses[u].count++;
    uses[u].flops += flops;
  }
  qsort(uses, (size_t)*count, sizeof uses[0], CompareOperatorUses);
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintUses(MPI_Comm printer, int count, const OperatorUse uses[])
{
  double total = 0;
  char text[32];
  for (int u = 0; u < count; u++) total += uses[u].flops;
  RengaCall(RengaPrintf(printer, "\n  %-24s %8s %14s %8s\n", "operator", "nodes", "forward FLOPs",
                        "share"));
  for (int u = 0; u < count; u++) {
    RengaFormatCount(uses[u].flops, sizeof text, text);
    RengaCall(RengaPrintf(printer, "  %-24s %8d %14s %6.1f %%\n", uses[u].name, uses[u].count, text,
                          total > 0 ? 100 * uses[u].flops / total : 0));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintOperators(MPI_Comm printer, RengaGraph graph, int64_t batch)
{
  OperatorUse *uses = NULL;
  int count = 0;
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph) + 1, &uses));
  RengaErrorCode code = CountOperatorUses(graph, batch, &count, uses);
  if (!code) code = PrintUses(printer, count, uses);
  RengaFree(&uses);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintValue(MPI_Comm printer, RengaGraph graph, RengaValue v, const char *what)
{
  const RengaGraphValue *value = RengaGraphGetValue(graph, v);
  char text[128];
  RengaTensorSpecFormat(&value->spec, sizeof text, text);
  RengaCall(RengaPrintf(printer, "  %-8s %-32s %s\n", what, value->name, text));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintEnds(MPI_Comm printer, RengaGraph graph)
{
  int count = 0;
  const RengaValue *outputs = NULL;
  RengaValue loss = RENGA_VALUE_NONE;
  RengaCall(RengaPrintf(printer, "\n"));
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++)
    if (RengaGraphGetValue(graph, v)->kind == RENGA_VALUE_INPUT)
      RengaCall(PrintValue(printer, graph, v, "input"));
  RengaCall(RengaGraphGetOutputs(graph, &count, &outputs));
  RengaCall(RengaGraphGetLoss(graph, &loss));
  for (int o = 0; o < count; o++)
    if (outputs[o] != loss) RengaCall(PrintValue(printer, graph, outputs[o], "output"));
  if (loss >= 0) RengaCall(PrintValue(printer, graph, loss, "loss"));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintNetworkTotals(MPI_Comm printer, RengaGraph graph, int64_t batch)
{
  RengaGraphTotals totals;
  char parameters[32], bytes[32], flops[32], activations[32];
  int tensors = 0;
  RengaCall(RengaGraphGetTotals(graph, &totals));
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++)
    tensors += RengaGraphGetValue(graph, v)->kind == RENGA_VALUE_PARAMETER;
  RengaFormatCount((double)totals.parameters, sizeof parameters, parameters);
  RengaFormatBytes(4.0 * (double)totals.parameters, sizeof bytes, bytes);
  RengaFormatCount(totals.forward_flops * (double)batch, sizeof flops, flops);
  RengaFormatBytes(totals.activation_bytes * (double)batch, sizeof activations, activations);
  RengaCall(RengaPrintf(printer,
                        "  nodes          %d\n"
                        "  parameters     %s (%lld) in %d tensors, %s\n"
                        "  batch          %lld\n"
                        "  forward FLOPs  %s\n"
                        "  activations    %s\n",
                        RengaGraphGetNodeCount(graph), parameters, (long long)totals.parameters,
                        tensors, bytes, (long long)batch, flops, activations));
  return RENGA_SUCCESS;
}

/* How a batch is cut decides the results of training such a network. */
static RengaErrorCode PrintStatistics(MPI_Comm printer, RengaGraph graph)
{
  int count, node;
  int64_t values;
  RengaCall(RengaGraphGetBatchStatistics(graph, &count, &node, &values));
  if (count)
    RengaCall(RengaPrintf(
        printer,
        "  statistics     of micro-batches in training, by %d "
        "BatchNormalization%s; the fewest values are %lld per sample and channel, "
        "of \"%s\"\n",
        count, count == 1 ? "" : "s", (long long)values, RengaGraphGetNode(graph, node)->name));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintInfo(MPI_Comm printer, RengaGraph graph)
{
  const char *name;
  int64_t batch = 0;
  RengaCall(RengaOptionsGetString("graph", &name, NULL));
  RengaCall(RengaOptionsGetInt64("batch_size", &batch, NULL));
  if (!batch) RengaCall(RengaGraphGetFileBatch(graph, &batch));
  if (!batch) batch = 1;
  RengaCall(RengaPrintf(printer, "%s\n", name));
  RengaCall(PrintNetworkTotals(printer, graph, batch));
  RengaCall(PrintStatistics(printer, graph));
  RengaCall(PrintEnds(printer, graph));
  RengaCall(PrintOperators(printer, graph, batch));
  RengaCall(AppPrintParameters(printer, graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode InfoOfGraph(const App *app, MPI_Comm printer)
{
  RengaGraph graph = NULL;
  RengaCall(AppLoadGraph(app->comm, NULL, &graph));
  const RengaErrorCode code = PrintInfo(printer, graph);
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode InfoOfCheckpoint(const App *app, const char *file)
{
  RengaViewer viewer = NULL;
  RengaCall(RengaViewerCreate(app->comm, "ascii", &viewer));
  const RengaErrorCode code = RengaCheckpointView(app->comm, file, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode AppInfo(const App *app)
{
  const char *graph, *checkpoint;
  bool graph_given = false, checkpoint_given = false, devices = false;
  const MPI_Comm printer = AppPrinter(app->comm);
  RengaCall(RengaOptionsGetString("graph", &graph, &graph_given));
  RengaCall(RengaOptionsGetString("checkpoint", &checkpoint, &checkpoint_given));
  RengaCall(RengaOptionsGetBool("device", &devices, NULL));
  RengaCheck(graph_given || checkpoint_given || devices, printer, RENGA_ERR_OPTION,
             "renga info: of what? say -graph NETWORK, -checkpoint FILE or -device");
  if (devices) RengaCall(AppPrintDevices(app));
  if (checkpoint_given) RengaCall(InfoOfCheckpoint(app, checkpoint));
  if (graph_given) RengaCall(InfoOfGraph(app, printer));
  return RENGA_SUCCESS;
}
