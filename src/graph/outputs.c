/* Where a network ends: its outputs and its loss. */
#include "graphimpl.h"
#include <string.h>

bool RengaGraphIsOutput(RengaGraph graph, RengaValue value)
{
  for (int i = 0; i < graph->n_outputs; i++)
    if (graph->output[i] == value) return true;
  return graph->loss == value;
}

/*@
   RengaGraphAddOutput - keep a value, so that it may be read after a forward

   Input:
   . value - any value

   Errors: RENGA_ERR_ARGUMENT for a value that there is not.

   See also: RengaGraphKeepOutputs(), RengaGraphGetOutputs()
@*/
RengaErrorCode RengaGraphAddOutput(RengaGraph graph, RengaValue value)
{
  RengaCheckPointer(graph);
  RengaCall(RengaGraphCheckValue(graph, value));
  for (int i = 0; i < graph->n_outputs; i++)
    if (graph->output[i] == value) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(graph->n_outputs + 1, &graph->output));
  graph->output[graph->n_outputs++] = value;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetLoss - the value that is to become small

   Input:
   . value - one floating number: in a micro-batch its share, so that the shares of a batch add up

   Errors: RENGA_ERR_ARGUMENT for a value that there is not; RENGA_ERR_SHAPE where it is not one
   floating number.

   See also: RengaGraphGetLoss(), RengaGraphAddCrossEntropy()
@*/
RengaErrorCode RengaGraphSetLoss(RengaGraph graph, RengaValue value)
{
  char text[160];
  RengaCheckPointer(graph);
  RengaCall(RengaGraphCheckValue(graph, value));
  const RengaTensorSpec *spec = RengaGraphSpec(graph, value);
  RengaTensorSpecFormat(spec, sizeof text, text);
  bool scalar = RengaGraphBatchDimension(spec) < 0 && RengaTensorSpecCount(spec) == 1;
  RengaCheck(scalar && RengaDataTypeIsFloating(spec->type), MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "the loss \"%s\" is %s, must be one floating number", graph->value[value]->name, text);
  graph->loss = value;
  return RENGA_SUCCESS;
}

/* "; its outputs are a, b": as many as there is room for. */
static void NameOutputs(RengaGraph graph, size_t size, char text[])
{
  int count = 0;
  text[0] = '\0';
  for (int o = 0; o < graph->n_outputs; o++) {
    const size_t used = strlen(text);
    if (graph->output[o] == graph->loss) continue;
    snprintf(text + used, size - used, "%s%s", count++ ? ", " : "; its outputs are ",
             graph->value[graph->output[o]]->name);
  }
}

static RengaErrorCode FindNamedValue(RengaGraph graph, const char *name, RengaValue *value)
{
  const char **names, *closest;
  char outputs[256];
  *value = RengaGraphFindValue(graph, name);
  if (*value != RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(graph->n_values + 1, &names));
  for (int v = 0; v < graph->n_values; v++) names[v] = graph->value[v]->name;
  closest = RengaClosestName(name, graph->n_values, names);
  RengaFree(&names);
  NameOutputs(graph, sizeof outputs, outputs);
  RengaRaise(graph->hdr.comm, RENGA_ERR_ARGUMENT, "the network has no value %s%s%s%s%s", name,
             closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "", outputs);
}

/* The values named, each once; without names the outputs that the graph has, but the loss. */
static RengaErrorCode FindEnds(RengaGraph graph, int count, const char *const names[], int *n_ends,
                               RengaValue ends[])
{
  const int n = count > 0 ? count : graph->n_outputs;
  *n_ends = 0;
  for (int i = 0; i < n; i++) {
    bool twice = count == 0 && graph->output[i] == graph->loss;
    RengaValue end = count == 0 ? graph->output[i] : RENGA_VALUE_NONE;
    if (count > 0) RengaCall(FindNamedValue(graph, names[i], &end));
    for (int k = 0; k < *n_ends; k++) twice = twice || ends[k] == end;
    if (!twice) ends[(*n_ends)++] = end;
  }
  RengaCheck(*n_ends > 0, graph->hdr.comm, RENGA_ERR_GRAPH,
             "the network has no output besides its loss: name values that it is to end at (renga "
             "predict -output NAME,...)");
  return RENGA_SUCCESS;
}

/*@
   RengaGraphKeepOutputs - let a network end at some values, without its loss

   Collective

   Input:
   . graph - not set up
   . count - number of names; 0: the outputs that it has
   . names - the names of any values

   Errors: a value that is not there; no output besides the loss. After an error the graph is as
   before.

   Notes: RengaGraphSetUp then removes what these do not need: the loss, the labels that it compares
   with, parameters of other ends. For networks that are run forward alone.

   See also: RengaGraphAddOutput(), RengaPipelineForwardTo()
@*/
RengaErrorCode RengaGraphKeepOutputs(RengaGraph graph, int count, const char *const names[])
{
  RengaValue *ends = NULL;
  int n_ends;
  RengaCheckPointer(graph);
  RengaCheck(graph->hdr.state < RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphKeepOutputs: call it before RengaGraphSetUp");
  RengaCheck(count >= 0 && (names || count == 0), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "RengaGraphKeepOutputs: %d names%s", count, names ? "" : " at NULL");
  RengaCall(RengaMalloc(count + graph->n_outputs + 1, &ends));
  const RengaErrorCode code = FindEnds(graph, count, names, &n_ends, ends);
  if (code) RengaFree(&ends);
  RengaCall(code);
  RengaFree(&graph->output);
  graph->output = ends;
  graph->n_outputs = n_ends;
  graph->loss = RENGA_VALUE_NONE;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetOutputs - the values that may be read after a forward

   Output:
   . count - the number of outputs, at least 0
   . values - the outputs, lent by the graph until it changes; the loss is not among them unless it
     was added

   See also: RengaGraphAddOutput(), RengaGraphKeepOutputs()
@*/
RengaErrorCode RengaGraphGetOutputs(RengaGraph graph, int *count, const RengaValue **values)
{
  RengaCheckPointer(graph);
  *count = graph->n_outputs;
  *values = graph->output;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetLoss - the value that is to become small

   Output:
   . value - RENGA_VALUE_NONE where there is none
@*/
RengaErrorCode RengaGraphGetLoss(RengaGraph graph, RengaValue *value)
{
  RengaCheckPointer(graph);
  *value = graph->loss;
  return RENGA_SUCCESS;
}
