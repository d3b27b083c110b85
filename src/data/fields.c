/* What a data set must hold for a network: a field per input, without the batch; and for integer
   inputs, how many classes there are. These follow from where the values go: the rows of a table
   that Gather reads, the classes of the scores that a cross-entropy compares. */
#include "renga/private/object.h"
#include "rengadata.h"
#include <string.h>

/* Operators whose output holds values of their first input, and nothing else. */
static const char *const passing[] = {"Reshape", "Cast",   "Identity", "Transpose",
                                      "Slice",   "Expand", "Split",    "Gather"};

static bool Passes(const RengaGraphNode *node)
{
  for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++)
    if (!strcmp(node->op->name, passing[i])) return true;
  return false;
}

/* Dimension of a value at the axis that the node names. */
static int64_t DimensionAt(RengaGraph graph, const RengaGraphNode *node, RengaValue value,
                           int64_t axis_default)
{
  const RengaTensorSpec *spec = &RengaGraphGetValue(graph, value)->spec;
  int64_t axis = RengaAttributesInt(&node->attributes, "axis", axis_default);
  if (axis < 0) axis += spec->ndim;
  return axis >= 0 && axis < spec->ndim && spec->dim[axis] > 0 ? spec->dim[axis] : 0;
}

typedef struct {
  RengaGraph graph;
  int64_t *bound;  /* [value] exclusive; 0: not known */
  bool *table;     /* [value] the bound is that of a table */
  int64_t ignored; /* label that the loss leaves out */
} Bounds;

static void Lower(Bounds *bounds, RengaValue value, int64_t bound, bool table)
{
  if (value < 0 || bound <= 0) return;
  if (bounds->bound[value] == 0 || bound < bounds->bound[value]) {
    bounds->bound[value] = bound;
    bounds->table[value] = table;
  }
}

/* Rows of the table that the node looks up, or has those of a lane of. */
static int64_t TableRows(RengaGraph graph, const RengaGraphNode *node)
{
  const int64_t rows = RengaAttributesInt(&node->attributes, "rows", 0);
  return rows ? rows : DimensionAt(graph, node, node->in[0], 0);
}

/* From the last node to the first: what a value is used for is known before its producer. */
static void FindBounds(Bounds *bounds)
{
  for (int n = RengaGraphGetNodeCount(bounds->graph) - 1; n >= 0; n--) {
    const RengaGraphNode *node = RengaGraphGetNode(bounds->graph, n);
    if (!strcmp(node->op->name, "Gather"))
      Lower(bounds, node->in[1], TableRows(bounds->graph, node), true);
    if (!strcmp(node->op->name, "CrossEntropy") || !strcmp(node->op->name, "LogLikelihood")) {
      Lower(bounds, node->in[1], DimensionAt(bounds->graph, node, node->in[0], -1), false);
      bounds->ignored = RengaAttributesInt(&node->attributes, "ignore_index", bounds->ignored);
    }
    if (!strcmp(node->op->name, "CrossEntropyLane")) {
      Lower(bounds, node->in[1], RengaAttributesInt(&node->attributes, "classes", 0), false);
      bounds->ignored = RengaAttributesInt(&node->attributes, "ignore_index", bounds->ignored);
    }
    for (int o = 0; Passes(node) && o < node->n_out; o++)
      if (node->out[o] >= 0)
        Lower(bounds, node->in[0], bounds->bound[node->out[o]], bounds->table[node->out[o]]);
  }
}

static RengaErrorCode AddField(const Bounds *bounds, RengaValue v, RengaDataFields *fields)
{
  const RengaGraphValue *value = RengaGraphGetValue(bounds->graph, v);
  MPI_Comm printer;
  char text[128];
  int f = fields->count++;
  RengaCall(RengaObjectGetComm(bounds->graph, &printer));
  RengaTensorSpecFormat(&value->spec, sizeof text, text);
  RengaCheck(value->spec.ndim >= 1 && value->spec.dim[0] == -1, printer, RENGA_ERR_GRAPH,
             "input %s is %s: its first dimension must be the batch", value->name, text);
  fields->names[f] = value->name;
  fields->specs[f] = value->spec;
  fields->specs[f].ndim--;
  for (int d = 0; d < fields->specs[f].ndim; d++) fields->specs[f].dim[d] = value->spec.dim[d + 1];
  bool integer = value->spec.type != RENGA_FLOAT32 && value->spec.type != RENGA_FLOAT64;
  fields->classes[f] = integer ? bounds->bound[v] : 0;
  fields->is_table_index[f] = integer && bounds->table[v];
  return RENGA_SUCCESS;
}

static RengaErrorCode FillFields(Bounds *bounds, RengaDataFields *fields)
{
  int n_values = RengaGraphGetValueCount(bounds->graph), inputs = 0;
  RengaCall(RengaMalloc(n_values + 1, &bounds->bound));
  RengaCall(RengaMalloc(n_values + 1, &bounds->table));
  FindBounds(bounds);
  fields->ignored = bounds->ignored;
  for (int v = 0; v < n_values; v++)
    inputs += RengaGraphGetValue(bounds->graph, v)->kind == RENGA_VALUE_INPUT;
  RengaCall(RengaMalloc(inputs + 1, &fields->names));
  RengaCall(RengaMalloc(inputs + 1, &fields->specs));
  RengaCall(RengaMalloc(inputs + 1, &fields->classes));
  RengaCall(RengaMalloc(inputs + 1, &fields->is_table_index));
  for (int v = 0; v < n_values; v++)
    if (RengaGraphGetValue(bounds->graph, v)->kind == RENGA_VALUE_INPUT)
      RengaCall(AddField(bounds, v, fields));
  return RENGA_SUCCESS;
}

/*@
   RengaDataFreeFields - free what RengaDataFindFields() found

   Input:
   . fields - the fields, empty afterwards

   See also: RengaDataFindFields()
@*/
void RengaDataFreeFields(RengaDataFields *fields)
{
  RengaFree(&fields->names);
  RengaFree(&fields->specs);
  RengaFree(&fields->classes);
  RengaFree(&fields->is_table_index);
  fields->count = 0;
}

/*@
   RengaDataFindFields - what a data set must hold for a network

   Not collective (the same on all ranks)

   Input:
   . graph - the network, set up

   Output:
   . fields - a field for each input; RengaDataFreeFields() frees them

   Errors: RENGA_ERR_GRAPH for an input that does not begin with the batch.

   See also: RengaDataSetGraph(), RengaDataSetFields()
@*/
RengaErrorCode RengaDataFindFields(RengaGraph graph, RengaDataFields *fields)
{
  Bounds bounds = {.graph = graph, .ignored = -100};
  RengaCheckPointers(graph, fields);
  *fields = (RengaDataFields){0};
  RengaErrorCode code = FillFields(&bounds, fields);
  RengaFree(&bounds.bound);
  RengaFree(&bounds.table);
  if (code) RengaDataFreeFields(fields);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetGraph - the network whose inputs the samples are

   Not collective (the same on all ranks)

   Input:
   . graph - the network, set up; it is not kept

   Errors: RENGA_ERR_GRAPH for an input that does not begin with the batch.

   Notes: RengaDataSetFields() and RengaDataSetIgnored() with what RengaDataFindFields() finds.

   See also: RengaDataSetFields(), RengaDataSetUp()
@*/
RengaErrorCode RengaDataSetGraph(RengaData data, RengaGraph graph)
{
  RengaDataFields fields;
  RengaCheckPointer(data);
  RengaCall(RengaDataFindFields(graph, &fields));
  RengaErrorCode code =
      RengaDataSetFields(data, fields.count, fields.names, fields.specs, fields.classes);
  if (!code) code = RengaDataSetIgnored(data, fields.ignored);
  RengaDataFreeFields(&fields);
  RengaCall(code);
  return RENGA_SUCCESS;
}
