/* Values and their names. */
#include "graphimpl.h"
#include <string.h>

enum { NAME_SIZE = 512 };

/* It follows the value in its block, or has one of its own. */
static void FreeValueName(RengaGraphValue *value)
{
  if (value->name == (char *)(value + 1))
    value->name = NULL;
  else
    RengaFree(&value->name);
}

void RengaGraphFreeValue(RengaGraphValue **value)
{
  if (*value == NULL) return;
  FreeValueName(*value);
  RengaFree(&(*value)->init.file);
  RengaFree(&(*value)->data);
  RengaFree(value);
}

RengaErrorCode RengaGraphCopyContents(const RengaGraphValue *from, RengaGraphValue *to)
{
  const size_t bytes = from->data ? RengaTensorSpecBytes(&from->spec) : 0;
  char *data = NULL;
  to->data = NULL;
  to->init = from->init;
  to->init.file = NULL;
  if (from->init.file) RengaCall(RengaStringCopy(from->init.file, &to->init.file));
  if (!from->data) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(bytes > 0 ? bytes : 1, &data));
  memcpy(data, from->data, bytes);
  to->data = data;
  return RENGA_SUCCESS;
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

   Input:
   . name - the value's name

   Notes: RENGA_VALUE_NONE where there is none.

   See also: RengaGraphGetValue()
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
  FreeValueName(graph->value[value]);
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

static RengaErrorCode CreateValue(const char *name, RengaGraphValue **value)
{
  const size_t text = strlen(name) + 1;
  char *memory = NULL;
  RengaCall(RengaMalloc(sizeof **value + text, &memory));
  *value = (void *)memory;
  (*value)->name = memcpy(*value + 1, name, text);
  return RENGA_SUCCESS;
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
  RengaCall(CreateValue(name, &made));
  made->kind = kind;
  made->spec = *spec;
  made->stored = made->stored_gradient = spec->type;
  made->producer = -1;
  made->whole = RENGA_VALUE_NONE;
  graph->value[graph->n_values++] = made;
  RengaGraphForget(graph);
  if (2 * graph->n_values > graph->n_slots) RengaCall(RengaGraphRebuildNames(graph));
  *FindNameSlot(graph, name) = graph->n_values;
  *value = graph->n_values - 1;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphAddStatePart(RengaGraph graph, const char *name, RengaValue whole,
                                      int64_t first, int64_t count, RengaValue *part)
{
  RengaTensorSpec spec = *RengaGraphSpec(graph, whole);
  spec.dim[0] = count;
  RengaCall(RengaGraphNewValue(graph, name, RENGA_VALUE_STATE, &spec, part));
  const RengaInit *init = &graph->value[whole]->init;
  RengaGraphValue *made = graph->value[*part];
  made->whole = whole;
  made->first = first;
  made->cache = graph->value[whole]->cache;
  made->init = *init;
  made->init.file = NULL;
  made->init.bytes = 0;
  if (init->kind != RENGA_INIT_FILE) return RENGA_SUCCESS;
  made->init.offset += first * (int64_t)RengaDataTypeSize(init->type);
  RengaCall(RengaStringCopy(init->file, &made->init.file));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddLeaf(RengaGraph graph, const char *name, const char *otherwise,
                              RengaValueKind kind, const RengaTensorSpec *spec, RengaValue *value,
                              const char *function)
{
  char unique[NAME_SIZE], part[NAME_SIZE];
  RengaCheckPointerOf(function, graph);
  RengaCheckPointerOf(function, spec);
  RengaCheckPointerOf(function, value);
  RengaCheck(graph->hdr.state == RENGA_STATE_NEW, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the graph is set up: nothing can be added to it");
  if (kind != RENGA_VALUE_INPUT) RengaCall(RengaGraphNameOfPart(graph, &name, sizeof part, part));
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

   Input:
   . name - unique; NULL: "input", "input_1", …
   . spec - type and shape; dimension -1 is the batch

   Output:
   . value - the new value

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_GRAPH for a name that is empty or
   taken.

   See also: RengaGraphAddNode(), RengaGraphAddConstant()
@*/
RengaErrorCode RengaGraphAddInput(RengaGraph graph, const char *name, const RengaTensorSpec *spec,
                                  RengaValue *value)
{
  RengaCheckPointers(graph, value);
  *value = name && RengaGraphIsPart(graph) ? RengaGraphFindValue(graph, name) : RENGA_VALUE_NONE;
  if (*value != RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaCall(AddLeaf(graph, name, "input", RENGA_VALUE_INPUT, spec, value, __func__));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTrained(RengaGraph graph, const char *name, const char *otherwise,
                                 RengaValueKind kind, const RengaTensorSpec *spec,
                                 const RengaInit *init, RengaValue *value, const char *function)
{
  RengaValue made;
  RengaCheckPointerOf(function, spec);
  RengaCheckPointerOf(function, value);
  RengaCheck(RengaDataTypeIsFloating(spec->type), MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "parameter or state \"%s\" is %s, must be floating", name ? name : otherwise,
             RengaDataTypeName(spec->type));
  RengaCheck(RengaGraphBatchDimension(spec) < 0, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "the shape of parameter or state \"%s\" depends on the batch",
             name ? name : otherwise);
  RengaCall(AddLeaf(graph, name, otherwise, kind, spec, &made, function));
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

   Input:
   . name - unique; NULL: "parameter", "parameter_1", …
   . spec - float32 and a concrete shape (float64 for tests of gradients)
   . init - first values, copied; NULL: zero

   Output:
   . value - the new value

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_GRAPH for a name that is empty or
   taken; RENGA_ERR_SHAPE for one that is not floating, or whose shape depends on the batch.

   See also: RengaGraphAddState(), RengaGraphInitializeValue()
@*/
RengaErrorCode RengaGraphAddParameter(RengaGraph graph, const char *name,
                                      const RengaTensorSpec *spec, const RengaInit *init,
                                      RengaValue *value)
{
  RengaCheckPointer(graph);
  RengaCall(
      AddTrained(graph, name, "parameter", RENGA_VALUE_PARAMETER, spec, init, value, __func__));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddState - a value that is kept across steps but not trained: a running statistic

   Input:
   . name - unique; NULL: "state", "state_1", …
   . spec - float32 and a concrete shape
   . init - first values, copied; NULL: zero

   Output:
   . value - the new value

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_GRAPH for a name that is empty or
   taken; RENGA_ERR_SHAPE for one that is not floating, or whose shape depends on the batch.

   See also: RengaGraphAddParameter()
@*/
RengaErrorCode RengaGraphAddState(RengaGraph graph, const char *name, const RengaTensorSpec *spec,
                                  const RengaInit *init, RengaValue *value)
{
  RengaCheckPointer(graph);
  RengaCall(AddTrained(graph, name, "state", RENGA_VALUE_STATE, spec, init, value, __func__));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddCache - a state that is written before it is read

   Input:
   . name - unique; NULL: "state", "state_1", …
   . spec - float32 and a concrete shape

   Output:
   . value - the new value

   Errors: as of RengaGraphAddState().

   Notes: it has no first values, checkpoints do not hold it, and it is not among what
   RengaPipelineListParameters and RengaPipelineGetPersistents name. A forecast of memory counts it
   with the parameters.

   See also: RengaGraphAddState(), RengaGraphMakeDecoder()
@*/
RengaErrorCode RengaGraphAddCache(RengaGraph graph, const char *name, const RengaTensorSpec *spec,
                                  RengaValue *value)
{
  RengaCheckPointer(graph);
  RengaCall(AddTrained(graph, name, "state", RENGA_VALUE_STATE, spec, NULL, value, __func__));
  graph->value[*value]->cache = true;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddConstant - data in the graph

   Input:
   . name - unique; NULL: "constant", "constant_1", …
   . spec - type and concrete shape
   . data - copied

   Output:
   . value - the new value

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_GRAPH for a name that is empty or
   taken; RENGA_ERR_SHAPE where its shape depends on the batch.

   See also: RengaGraphAddInput()
@*/
RengaErrorCode RengaGraphAddConstant(RengaGraph graph, const char *name,
                                     const RengaTensorSpec *spec, const void *data,
                                     RengaValue *value)
{
  RengaValue made;
  char *copy = NULL;
  RengaCheckPointers(spec, data, value);
  RengaCheck(RengaGraphBatchDimension(spec) < 0, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "the shape of constant \"%s\" depends on the batch", name ? name : "constant");
  RengaCall(AddLeaf(graph, name, "constant", RENGA_VALUE_CONSTANT, spec, &made, __func__));
  size_t bytes = RengaTensorSpecBytes(spec);
  RengaCall(RengaMalloc(bytes > 0 ? bytes : 1, &copy));
  memcpy(copy, data, bytes);
  graph->value[made]->data = copy;
  *value = made;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetValue - look at a value

   Input:
   . value - 0 … RengaGraphGetValueCount() - 1

   Notes: lent by the graph until it changes; NULL where there is no such value.

   See also: RengaGraphFindValue(), RengaGraphGetValueCount()
@*/
const RengaGraphValue *RengaGraphGetValue(RengaGraph graph, RengaValue value)
{
  RengaCheckHandle(graph, NULL);
  return graph && value >= 0 && value < graph->n_values ? graph->value[value] : NULL;
}

/*@
   RengaGraphGetValueCount - number of values

   See also: RengaGraphGetValue()
@*/
int RengaGraphGetValueCount(RengaGraph graph)
{
  RengaCheckHandle(graph, 0);
  return graph ? graph->n_values : 0;
}

/*@
   RengaGraphStoredAt - a value as it is kept while the network runs

   Input:
   . value - a value of a graph that is set up
   . samples - samples of the micro-batch, at least 1

   Notes: returned is the shape that it has with so many samples, and its stored type

   See also: RengaGraphSetPrecision(), RengaTensorSpecAt()
@*/
RengaTensorSpec RengaGraphStoredAt(const RengaGraphValue *value, int64_t samples)
{
  RengaTensorSpec spec = RengaTensorSpecAt(&value->spec, samples);
  spec.type = value->stored;
  return spec;
}

bool RengaGraphNodeIsPrepared_Private(RengaGraph graph, const RengaGraphNode *node)
{
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0) return RengaGraphGetValue(graph, node->out[o])->prepared;
  return false;
}
