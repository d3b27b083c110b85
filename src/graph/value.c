/* Values and their names. */
#include "graphimpl.h"
#include <string.h>

enum { NAME_SIZE = 512 };

void RengaGraphFreeValue(RengaGraphValue **value)
{
  if (*value == NULL) return;
  RengaFree(&(*value)->name);
  RengaFree(&(*value)->init.file);
  RengaFree(&(*value)->data);
  RengaFree(value);
}

int RengaGraphBatchDimension(const RengaTensorSpec *spec)
{
  for (int d = 0; d < spec->ndim; d++)
    if (spec->dim[d] < 0) return d;
  return -1;
}

bool RengaGraphHasBatch(RengaGraph graph, RengaValue value)
{
  return value >= 0 && RengaGraphBatchDimension(RengaGraphSpec(graph, value)) >= 0;
}

/* The place of the name in the table, or the free one where it belongs. */
static int *FindNameSlot(RengaGraph graph, const char *name)
{
  uint64_t at = RengaHash(name, strlen(name), 0);
  for (;; at++) {
    int *slot = &graph->slot[at % (uint64_t)graph->n_slots];
    if (*slot == 0 || strcmp(graph->value[*slot - 1]->name, name) == 0) return slot;
  }
}

RengaErrorCode RengaGraphRebuildNames(RengaGraph graph)
{
  RengaFree(&graph->slot);
  graph->n_slots = 4 * graph->n_values + 64;
  RengaCall(RengaMalloc(graph->n_slots, &graph->slot));
  for (int i = 0; i < graph->n_values; i++) *FindNameSlot(graph, graph->value[i]->name) = i + 1;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphFindValue - a value by its name

   Not collective

   Input:
   . graph - the graph
   . name - of the value

   Notes: RENGA_VALUE_NONE where there is none.
@*/
RengaValue RengaGraphFindValue(RengaGraph graph, const char *name)
{
  RengaCheckHandle(graph, RENGA_VALUE_NONE);
  if (!graph || !name || graph->n_slots == 0) return RENGA_VALUE_NONE;
  return *FindNameSlot(graph, name) - 1;
}

RengaErrorCode RengaGraphCheckValue(RengaGraph graph, RengaValue value)
{
  RengaCheck(value >= 0 && value < graph->n_values, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "there is no value %d, the graph has %d", value, graph->n_values);
  return RENGA_SUCCESS;
}

/* wanted, or where that is taken wanted_1, wanted_2, … */
RengaErrorCode RengaGraphUniqueName(RengaGraph graph, const char *wanted, size_t size, char name[])
{
  int length = snprintf(name, size, "%s", wanted);
  RengaCheck(length >= 0 && (size_t)length + 12 < size, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "name \"%.60s…\" has %d characters, at most %zu are supported", wanted, length,
             size - 13);
  int first = graph->n_nodes < 1 ? 1 : graph->n_nodes;
  for (int i = first; RengaGraphFindValue(graph, name) != RENGA_VALUE_NONE; i++)
    snprintf(name, size, "%s_%d", wanted, i);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphRenameValue_Private(RengaGraph graph, RengaValue value, const char *name)
{
  char *copy = NULL;
  RengaCall(RengaGraphCheckValue(graph, value));
  RengaCheck(RengaGraphFindValue(graph, name) == RENGA_VALUE_NONE, MPI_COMM_SELF, RENGA_ERR_GRAPH,
             "there are two values named \"%s\"", name);
  RengaCall(RengaStringCopy(name, &copy));
  RengaFree(&graph->value[value]->name);
  graph->value[value]->name = copy;
  RengaCall(RengaGraphRebuildNames(graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckValueSpec(RengaGraph graph, const char *name,
                                     const RengaTensorSpec *spec)
{
  int batches = 0;
  char why[640];
  RengaCheck(spec->ndim >= 0 && spec->ndim <= RENGA_MAX_DIM, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "value \"%s\" has %d dimensions, 0 to %d are allowed", name, spec->ndim,
             RENGA_MAX_DIM);
  RengaCheck((int)spec->type >= 0 && spec->type < RENGA_TYPE_COUNT, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "value \"%s\": %d is no data type", name, (int)spec->type);
  for (int d = 0; d < spec->ndim; d++) batches += spec->dim[d] < 0;
  if (batches <= 1) return RENGA_SUCCESS;
  snprintf(why, sizeof why,
           "value \"%s\" has %d dimensions that depend on the batch, at most one may", name,
           batches);
  return RengaGraphRaiseMixed_Private(graph, RENGA_ERR_SHAPE, __func__, __FILE__, __LINE__, why);
}

RengaErrorCode RengaGraphNewValue(RengaGraph graph, const char *name, RengaValueKind kind,
                                  const RengaTensorSpec *spec, RengaValue *value)
{
  RengaCheck(RengaGraphFindValue(graph, name) == RENGA_VALUE_NONE, MPI_COMM_SELF, RENGA_ERR_GRAPH,
             "there are two values named \"%s\"", name);
  RengaCall(CheckValueSpec(graph, name, spec));
  if (graph->n_values == graph->size_values) {
    RengaCall(RengaRealloc(2 * graph->size_values + 64, &graph->value));
    graph->size_values = 2 * graph->size_values + 64;
    if (graph->readers) RengaCall(RengaRealloc(graph->size_values + 1, &graph->readers));
  }
  RengaGraphValue *made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->kind = kind;
  made->spec = *spec;
  made->producer = -1;
  RengaErrorCode code = RengaStringCopy(name, &made->name);
  if (code != RENGA_SUCCESS) RengaFree(&made);
  RengaCall(code);
  graph->value[graph->n_values++] = made;
  graph->digest = 0;
  if (2 * graph->n_values > graph->n_slots) RengaCall(RengaGraphRebuildNames(graph));
  *FindNameSlot(graph, name) = graph->n_values;
  *value = graph->n_values - 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddLeaf(RengaGraph graph, const char *name, const char *otherwise,
                              RengaValueKind kind, const RengaTensorSpec *spec, RengaValue *value)
{
  char unique[NAME_SIZE];
  RengaCheckPointer(graph);
  RengaCheckPointer(spec);
  RengaCheckPointer(value);
  RengaCheck(graph->hdr.state == RENGA_STATE_NEW, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the graph is set up: nothing can be added to it");
  if (name == NULL) {
    RengaCall(RengaGraphUniqueName(graph, otherwise, sizeof unique, unique));
    name = unique;
  }
  RengaCheck(name[0], MPI_COMM_SELF, RENGA_ERR_GRAPH, "the name of a value is empty");
  RengaCall(RengaGraphNewValue(graph, name, kind, spec, value));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddInput - a value that comes from the data set

   Not collective

   Input:
   . graph - the graph
   . name - unique; NULL: "input", "input_1", …
   . spec - type and shape; dimension -1 is the batch

   Output:
   . value - the new value
@*/
RengaErrorCode RengaGraphAddInput(RengaGraph graph, const char *name, const RengaTensorSpec *spec,
                                  RengaValue *value)
{
  RengaCheckPointer(value);
  RengaCall(AddLeaf(graph, name, "input", RENGA_VALUE_INPUT, spec, value));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTrained(RengaGraph graph, const char *name, const char *otherwise,
                                 RengaValueKind kind, const RengaTensorSpec *spec,
                                 const RengaInit *init, RengaValue *value)
{
  RengaValue made;
  RengaCheckPointer(spec);
  RengaCheckPointer(value);
  RengaCheck(RengaDataTypeIsFloating(spec->type), MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "parameter or state \"%s\" is %s, must be floating", name ? name : otherwise,
             RengaDataTypeName(spec->type));
  RengaCheck(RengaGraphBatchDimension(spec) < 0, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "the shape of parameter or state \"%s\" depends on the batch",
             name ? name : otherwise);
  RengaCall(AddLeaf(graph, name, otherwise, kind, spec, &made));
  RengaGraphValue *at = graph->value[made];
  if (init) {
    at->init = *init;
    at->init.file = NULL;
    if (init->file) RengaCall(RengaStringCopy(init->file, &at->init.file));
  }
  *value = made;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddParameter - a value that is trained

   Not collective

   Input:
   . graph - the graph
   . name - unique; NULL: "parameter", "parameter_1", …
   . spec - float32 and a concrete shape (float64 for tests of gradients)
   . init - first values, copied; NULL: zero

   Output:
   . value - the new value
@*/
RengaErrorCode RengaGraphAddParameter(RengaGraph graph, const char *name,
                                      const RengaTensorSpec *spec, const RengaInit *init,
                                      RengaValue *value)
{
  RengaCheckPointer(graph);
  RengaCall(AddTrained(graph, name, "parameter", RENGA_VALUE_PARAMETER, spec, init, value));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddState - a value that is kept across steps but not trained: a running statistic

   Not collective

   Input:
   . graph - the graph
   . name - unique; NULL: "state", "state_1", …
   . spec - float32 and a concrete shape
   . init - first values, copied; NULL: zero

   Output:
   . value - the new value
@*/
RengaErrorCode RengaGraphAddState(RengaGraph graph, const char *name, const RengaTensorSpec *spec,
                                  const RengaInit *init, RengaValue *value)
{
  RengaCheckPointer(graph);
  RengaCall(AddTrained(graph, name, "state", RENGA_VALUE_STATE, spec, init, value));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddConstant - data in the graph

   Not collective

   Input:
   . graph - the graph
   . name - unique; NULL: "constant", "constant_1", …
   . spec - type and concrete shape
   . data - copied

   Output:
   . value - the new value
@*/
RengaErrorCode RengaGraphAddConstant(RengaGraph graph, const char *name,
                                     const RengaTensorSpec *spec, const void *data,
                                     RengaValue *value)
{
  RengaValue made;
  char *copy = NULL;
  RengaCheckPointer(spec);
  RengaCheckPointer(data);
  RengaCheckPointer(value);
  RengaCheck(RengaGraphBatchDimension(spec) < 0, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "the shape of constant \"%s\" depends on the batch", name ? name : "constant");
  RengaCall(AddLeaf(graph, name, "constant", RENGA_VALUE_CONSTANT, spec, &made));
  size_t bytes = RengaTensorSpecBytes(spec);
  RengaCall(RengaMalloc(bytes > 0 ? bytes : 1, &copy));
  memcpy(copy, data, bytes);
  graph->value[made]->data = copy;
  *value = made;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddOutput - keep a value, so that it may be read after a forward

   Not collective

   Input:
   . graph - the graph
   . value - any value
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

   Not collective

   Input:
   . graph - the graph
   . value - one floating number: in a micro-batch its share, so that the shares of a batch add up
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

static RengaErrorCode FindNamedValue(RengaGraph graph, const char *name, RengaValue *value)
{
  const char **names, *closest;
  *value = RengaGraphFindValue(graph, name);
  if (*value != RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(graph->n_values + 1, &names));
  for (int v = 0; v < graph->n_values; v++) names[v] = graph->value[v]->name;
  closest = RengaClosestName(name, graph->n_values, names);
  RengaFree(&names);
  RengaRaise(graph->hdr.comm, RENGA_ERR_ARGUMENT, "the network has no value %s%s%s%s", name,
             closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "");
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
   . names - of any values

   Notes: RengaGraphSetUp then removes what these do not need: the loss, the labels that it compares
   with, parameters of other ends. For networks that are run forward alone.

   Errors: a value that is not there; no output besides the loss. After an error the graph is as
   before.
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
   RengaGraphGetValue - look at a value

   Not collective

   Input:
   . graph - the graph
   . value - 0 … RengaGraphGetValueCount() - 1

   Notes: lent by the graph until it changes; NULL where there is no such value.
@*/
const RengaGraphValue *RengaGraphGetValue(RengaGraph graph, RengaValue value)
{
  RengaCheckHandle(graph, NULL);
  return graph && value >= 0 && value < graph->n_values ? graph->value[value] : NULL;
}

/*@
   RengaGraphGetValueCount - number of values

   Not collective

   Input:
   . graph - the graph
@*/
int RengaGraphGetValueCount(RengaGraph graph)
{
  RengaCheckHandle(graph, 0);
  return graph ? graph->n_values : 0;
}

/*@
   RengaGraphGetOutputs - the values that may be read after a forward

   Not collective

   Input:
   . graph - the graph

   Output:
   . count - how many
   . values - lent by the graph until it changes; the loss is not among them unless it was added
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

   Not collective

   Input:
   . graph - the graph

   Output:
   . value - RENGA_VALUE_NONE where there is none
@*/
RengaErrorCode RengaGraphGetLoss(RengaGraph graph, RengaValue *value)
{
  RengaCheckPointer(graph);
  *value = graph->loss;
  return RENGA_SUCCESS;
}
