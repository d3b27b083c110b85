/* Nodes, and shapes while the batch is not known. */
#include "graphimpl.h"
#include "renga/private/op.h"
#include "renga/private/quiet.h"
#include <string.h>

enum { NAME_SIZE = 512 };

void RengaGraphFreeEntry(RengaGraphEntry **entry)
{
  if (*entry == NULL) return;
  RengaAttributesFree(&(*entry)->node.attributes);
  RengaFree(entry);
}

void RengaGraphFreeCall(RengaOpCall *call)
{
  RengaTensorSpec *in;
  memcpy(&in, &call->in, sizeof in);
  RengaFree(&in);
  RengaFree(&call->out);
  call->in = NULL;
}

static RengaErrorCode AllocateCall(RengaOpCall *call)
{
  RengaTensorSpec *in = NULL;
  RengaCall(RengaMalloc(call->n_in + 1, &in));
  call->in = in;
  RengaCall(RengaMalloc(call->n_out + 1, &call->out));
  return RENGA_SUCCESS;
}

static void SetCallAt(RengaGraph graph, const RengaValue in[], const RengaTensorSpec given[],
                      int64_t batch, RengaOpCall *call)
{
  static const RengaTensorSpec absent = {.ndim = -1};
  RengaTensorSpec *specs;
  memcpy(&specs, &call->in, sizeof specs);
  for (int i = 0; i < call->n_in; i++)
    specs[i] = in[i] < 0 ? absent : RengaTensorSpecAt(RengaGraphSpec(graph, in[i]), batch);
  for (int i = 0; i < call->n_out; i++)
    call->out[i] = given ? RengaTensorSpecAt(&given[i], batch) : absent;
}

/* One shape from those at two batch sizes: equal is constant, proportional is c times the batch. */
static const int64_t probe[2] = {RENGA_OP_SOME_BATCH, RENGA_OP_OTHER_BATCH};

static RengaErrorCode CombineSpecs(const RengaOpCall *call, int output, const RengaTensorSpec at[2],
                                   RengaTensorSpec *spec)
{
  *spec = at[0];
  RengaOpCheck(at[0].ndim == at[1].ndim, call,
               "the number of dimensions of output %d depends on the batch N", output);
  for (int d = 0; d < at[0].ndim; d++) {
    int64_t a = at[0].dim[d], b = at[1].dim[d];
    bool proportional = a % probe[0] == 0 && b == a / probe[0] * probe[1];
    RengaOpCheck(a == b || proportional, call,
                 "dimension %d of output %d is neither constant nor a multiple of the batch N", d,
                 output);
    if (a != b) spec->dim[d] = -(a / probe[0]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode InferAtBoth(RengaGraph graph, RengaOpCall *call, const RengaValue in[],
                                  const RengaTensorSpec given[], RengaTensorSpec first[],
                                  RengaTensorSpec out[])
{
  for (int round = 0; round < 2; round++) {
    SetCallAt(graph, in, given, probe[round], call);
    RengaCall(RengaOperatorInfer(call));
    if (round == 0) memcpy(first, call->out, (size_t)call->n_out * sizeof *first);
  }
  for (int i = 0; i < call->n_out; i++)
    RengaCall(CombineSpecs(call, i, (const RengaTensorSpec[2]){first[i], call->out[i]}, &out[i]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Infer(RengaGraph graph, const RengaOperator *op,
                            const RengaAttributes *attributes, int n_in, const RengaValue in[],
                            int n_out, const RengaTensorSpec given[], RengaTensorSpec out[])
{
  RengaOpCall call = {.op = op, .attributes = attributes, .n_in = n_in, .n_out = n_out};
  RengaTensorSpec *first = NULL;
  RengaErrorCode code = AllocateCall(&call);
  if (code == RENGA_SUCCESS) code = RengaMalloc(n_out + 1, &first);
  if (code == RENGA_SUCCESS) code = InferAtBoth(graph, &call, in, given, first, out);
  RengaFree(&first);
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphMakeCall(RengaGraph graph, const RengaGraphNode *node, int64_t batch,
                                  RengaOpCall *call)
{
  *call = (RengaOpCall){
      .op = node->op, .attributes = &node->attributes, .n_in = node->n_in, .n_out = node->n_out};
  const RengaErrorCode code = AllocateCall(call);
  if (code) RengaGraphFreeCall(call);
  RengaCall(code);
  SetCallAt(graph, node->in, NULL, batch, call);
  for (int i = 0; i < node->n_out; i++)
    call->out[i] = RengaGraphStoredAt(graph->value[node->out[i]], batch);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindOperator(const char *name, const char *node, const RengaOperator **op)
{
  *op = RengaOperatorFind(name);
  if (*op) return RENGA_SUCCESS;
  const char *names[512];
  int count = RengaOperatorCount();
  if (count > 512) count = 512;
  for (int i = 0; i < count; i++) names[i] = RengaOperatorAt(i)->name;
  const char *closest = RengaClosestName(name, count, names);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT, "node \"%s\": there is no operator %s%s%s%s",
             node ? node : "(unnamed)", name, closest ? "; did you mean " : "",
             closest ? closest : "", closest ? "?" : "");
}

/* Outputs that exist must fit; the others are made: NAME, NAME:1, NAME:2, … */
static RengaErrorCode MakeOutputs(RengaGraph graph, const char *name, int n_out,
                                  const RengaTensorSpec specs[], RengaValue out[])
{
  for (int i = 0; i < n_out; i++) {
    char text[NAME_SIZE + 16], a[160], b[160];
    if (out[i] != RENGA_VALUE_NONE) {
      RengaTensorSpecFormat(&specs[i], sizeof a, a);
      RengaTensorSpecFormat(RengaGraphSpec(graph, out[i]), sizeof b, b);
      RengaCheck(RengaTensorSpecEqual(&specs[i], RengaGraphSpec(graph, out[i])), MPI_COMM_SELF,
                 RENGA_ERR_INTERNAL, "node \"%s\" makes %s where value \"%s\" is %s", name, a,
                 graph->value[out[i]]->name, b);
      continue;
    }
    if (i == 0)
      snprintf(text, sizeof text, "%s", name);
    else
      snprintf(text, sizeof text, "%s:%d", name, i);
    RengaCall(RengaGraphNewValue(graph, text, RENGA_VALUE_ACTIVATION, &specs[i], &out[i]));
  }
  return RENGA_SUCCESS;
}

/* One block, in which numbers of values and the name follow the entry: a network has many. */
static RengaErrorCode CreateEntry(const char *name, const RengaAttributes *attributes, int n_in,
                                  const RengaValue in[], int n_out, const RengaValue out[],
                                  RengaGraphEntry **entry)
{
  const size_t values = (size_t)(n_in + n_out) * sizeof *in, text = strlen(name) + 1;
  char *memory = NULL;
  RengaCall(RengaMalloc(sizeof **entry + values + text, &memory));
  RengaGraphEntry *made = (void *)memory;
  RengaGraphNode *node = &made->node;
  node->n_in = n_in;
  node->n_out = n_out;
  node->in = (RengaValue *)(made + 1);
  node->out = node->in + n_in;
  node->name = (char *)(node->out + n_out);
  for (int i = 0; i < n_in; i++) node->in[i] = in[i];
  for (int i = 0; i < n_out; i++) node->out[i] = out[i];
  memcpy(node->name, name, text);
  const RengaErrorCode code =
      attributes ? RengaAttributesCopy(attributes, &node->attributes) : RENGA_SUCCESS;
  if (code) RengaFree(&memory);
  RengaCall(code);
  *entry = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeRoomForEntry(RengaGraph graph)
{
  if (graph->n_nodes < graph->size_nodes) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(2 * graph->size_nodes + 64, &graph->entry));
  graph->size_nodes = 2 * graph->size_nodes + 64;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphCopyEntry(const RengaGraphEntry *from, RengaGraph to)
{
  const RengaGraphNode *node = &from->node;
  RengaGraphEntry *made = NULL;
  RengaCall(MakeRoomForEntry(to));
  RengaCall(CreateEntry(node->name, &node->attributes, node->n_in, node->in, node->n_out, node->out,
                        &made));
  const RengaGraphNode own = made->node;
  *made = *from;
  made->node.name = own.name;
  made->node.attributes = own.attributes;
  made->node.in = own.in;
  made->node.out = own.out;
  to->entry[to->n_nodes++] = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode AppendNode(RengaGraph graph, const RengaOperator *op, const char *name,
                                 const RengaAttributes *attributes, int n_in, const RengaValue in[],
                                 int n_out, const RengaValue out[])
{
  int at = graph->n_nodes;
  RengaCall(MakeRoomForEntry(graph));
  RengaCall(CreateEntry(name, attributes, n_in, in, n_out, out, &graph->entry[at]));
  graph->n_nodes++;
  RengaGraphForget(graph);
  graph->entry[at]->place = graph->place >= 0 ? graph->place : at;
  RengaGraphNode *node = &graph->entry[at]->node;
  node->op = op;
  node->phase = graph->phase;
  node->id = graph->id >= 0 ? graph->id : at;
  for (int i = 0; i < n_in && graph->readers; i++)
    if (in[i] >= 0) graph->readers[in[i]]++;
  for (int i = 0; i < n_out; i++) {
    graph->value[out[i]]->producer = at;
    graph->value[out[i]]->output = i;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphInsertNode(RengaGraph graph, const char *op_name, const char *name,
                                    const RengaAttributes *attributes, int n_in,
                                    const RengaValue in[], int n_out, const RengaTensorSpec given[],
                                    RengaValue out[])
{
  const RengaOperator *op;
  char unique[NAME_SIZE];
  RengaCall(FindOperator(op_name, name, &op));
  while (n_in > 0 && in[n_in - 1] == RENGA_VALUE_NONE) n_in--;
  for (int i = 0; i < n_in; i++)
    if (in[i] != RENGA_VALUE_NONE) RengaCall(RengaGraphCheckValue(graph, in[i]));
  if (name == NULL) RengaCall(RengaGraphUniqueName(graph, op_name, sizeof unique, unique));
  RengaTensorSpec *specs = NULL;
  RengaCall(RengaMalloc(n_out + 1, &specs));
  RengaQuiet quiet; /* an error is told once, with the node */
  RengaQuietBegin_Private(&quiet);
  RengaErrorCode code = Infer(graph, op, attributes, n_in, in, n_out, given, specs);
  RengaQuietEnd_Private(&quiet);
  if (code != RENGA_SUCCESS)
    code = RengaErrorRaise(MPI_COMM_SELF, code, __func__, __FILE__, __LINE__, "node \"%s\": %s",
                           name ? name : unique, RengaErrorGetMessage());
  if (code == RENGA_SUCCESS) code = MakeOutputs(graph, name ? name : unique, n_out, specs, out);
  RengaFree(&specs);
  RengaCall(code);
  RengaCall(AppendNode(graph, op, name ? name : unique, attributes, n_in, in, n_out, out));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphAddNode - one use of an operator

   Input:
   . graph - the graph, before RengaGraphSetUp
   . op - operator of the table
   . name - unique; NULL: made from the operator
   . attributes - copied; NULL: none
   . n_in, in - inputs, RENGA_VALUE_NONE where an optional one is absent
   . n_out - the number of outputs, at least 1
   . given - their shapes where the operator takes them from the node (Reshape, Expand, …), else
     NULL

   Output:
   . out - the new values: NAME, NAME:1, …

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_SUPPORT for an operator that there is
   not; RENGA_ERR_GRAPH where a name is taken; RENGA_ERR_SHAPE or RENGA_ERR_ARGUMENT where the
   operator does not take the inputs or attributes.

   Notes: inputs are values that exist, so the nodes cannot form a cycle. Wrong shapes are an error
   that shows the call; N is the batch.

   See also: RengaGraphAddInput(), RengaOperatorFind(), RengaGraphSetUp()
@*/
RengaErrorCode RengaGraphAddNode(RengaGraph graph, const char *op, const char *name,
                                 const RengaAttributes *attributes, int n_in, const RengaValue in[],
                                 int n_out, const RengaTensorSpec given[], RengaValue out[])
{
  char part[NAME_SIZE];
  RengaCheckPointers(graph, op, out);
  RengaCheck(n_in == 0 || in, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "in: null pointer");
  RengaCall(RengaGraphNameOfPart(graph, &name, sizeof part, part));
  RengaCheck(graph->hdr.state == RENGA_STATE_NEW, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the graph is set up: nothing can be added to it");
  RengaCheck(name == NULL || RengaGraphFindValue(graph, name) == RENGA_VALUE_NONE, MPI_COMM_SELF,
             RENGA_ERR_GRAPH, "there are two values named \"%s\"", name);
  RengaCheck(n_out >= 0 && n_out <= 4096, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a node with %d outputs", n_out);
  for (int i = 0; i < n_out; i++) out[i] = RENGA_VALUE_NONE;
  RengaCall(RengaGraphInsertNode(graph, op, name, attributes, n_in, in, n_out, given, out));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetNode - look at a node

   Input:
   . node - 0 … RengaGraphGetNodeCount() - 1

   Notes: lent by the graph until it changes; NULL where there is no such node.

   See also: RengaGraphGetNodeCount(), RengaGraphGetValue()
@*/
const RengaGraphNode *RengaGraphGetNode(RengaGraph graph, int node)
{
  RengaCheckHandle(graph, NULL);
  return graph && node >= 0 && node < graph->n_nodes ? &graph->entry[node]->node : NULL;
}

/*@
   RengaGraphGetNodeCount - number of nodes

   See also: RengaGraphGetNode()
@*/
int RengaGraphGetNodeCount(RengaGraph graph)
{
  RengaCheckHandle(graph, 0);
  return graph ? graph->n_nodes : 0;
}
