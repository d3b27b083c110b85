/*
   Reverse mode: nodes of the backward phases, from the last forward node to the first. The rules of
   the operators are in tables by family.
*/
#include "reverse/walk.h"
#include <stdlib.h>
#include <string.h>

static const RengaReverseRow *const families[] = {
    RengaReverseUnary, RengaReverseBinary,    RengaReverseReduce,   RengaReverseMove,
    RengaReverseIndex, RengaReverseMatrix,    RengaReverseConvolve, RengaReverseNormalize,
    RengaReverseLoss,  RengaReverseRecurrent,
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

static const RengaReverseRow *FindReverseRow(const char *op)
{
  static const RengaReverseRow outside = {"", RengaReverseOutside, NULL};
  for (int f = 0; f < N_FAMILIES; f++)
    for (const RengaReverseRow *row = families[f]; row->op; row++)
      if (strcmp(row->op, op) == 0) return row;
  return RengaReverseIsOutside(op) ? &outside : NULL;
}

RengaGradientKind RengaGraphGetGradientKind(const RengaOperator *op)
{
  const RengaReverseRow *row = FindReverseRow(op->name);
  if (row == NULL) return RENGA_GRADIENT_NONE;
  return row->rule ? RENGA_GRADIENT_RULE : RENGA_GRADIENT_ZERO;
}

static void FindGradientNeeds(ReverseWalk *walk, int n_wanted, const RengaValue wanted[])
{
  RengaGraph graph = walk->graph;
  for (int i = 0; i < walk->n_values; i++) {
    const RengaGraphValue *value = graph->value[i];
    walk->open = walk->open || RengaGraphHasBatch(graph, i);
    walk->needs[i] = value->kind == RENGA_VALUE_PARAMETER && value->differentiable;
  }
  for (int i = 0; i < n_wanted; i++) walk->needs[wanted[i]] = walk->waited[wanted[i]] = true;
  for (int i = 0; i < walk->n_forward; i++) {
    const RengaGraphNode *node = &graph->entry[i]->node;
    bool needs = false;
    if (RengaGraphGetGradientKind(node->op) == RENGA_GRADIENT_ZERO) continue;
    for (int j = 0; j < node->n_in; j++)
      needs = needs || (node->in[j] >= 0 && walk->needs[node->in[j]]);
    for (int j = 0; j < node->n_out; j++)
      walk->needs[node->out[j]] =
          needs && RengaDataTypeIsFloating(RengaGraphSpec(graph, node->out[j])->type);
  }
  for (int i = 0; i < walk->n_values; i++)
    if (!walk->open || RengaGraphHasBatch(graph, i)) walk->waited[i] = true;
}

static RengaErrorCode NewGradientValue(RengaGraph graph, RengaValue of, RengaValueKind kind,
                                       RengaValue *value)
{
  char *name = NULL;
  size_t length = strlen(graph->value[of]->name) + sizeof "gradient:";
  RengaCall(RengaMalloc(length, &name));
  snprintf(name, length, "gradient:%s", graph->value[of]->name);
  RengaErrorCode code = RengaGraphNewValue(graph, name, kind, RengaGraphSpec(graph, of), value);
  RengaFree(&name);
  RengaCall(code);
  graph->value[*value]->stored = RengaGraphTypeOfGradient_Private(graph, of);
  return RENGA_SUCCESS;
}

static RengaErrorCode SeedWithOne(ReverseWalk *walk)
{
  RengaGraph graph = walk->graph;
  RengaValue one;
  RengaCall(NewGradientValue(graph, graph->loss, RENGA_VALUE_CONSTANT, &one));
  RengaGraphValue *value = graph->value[one];
  char *data = NULL;
  RengaCall(RengaMalloc(sizeof(double), &data));
  value->data = data;
  value->prepared = true;
  bool wide = value->spec.type == RENGA_FLOAT64;
  RengaCheck(wide || value->spec.type == RENGA_FLOAT32, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "the loss is %s, must be float32", RengaDataTypeName(value->spec.type));
  if (wide)
    memcpy(data, &(double){1}, sizeof(double));
  else
    memcpy(data, &(float){1}, sizeof(float));
  walk->gradient[graph->loss] = one;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddSeeds(ReverseWalk *walk, int n_seeds, const RengaValue seeds[],
                               RengaValue seed_gradients[])
{
  RengaGraph graph = walk->graph;
  RengaPrecision precision;
  for (int i = 0; i < n_seeds; i++) {
    RengaCheck(walk->gradient[seeds[i]] < 0 && seeds[i] != graph->loss, MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "\"%s\" is seeded twice", graph->value[seeds[i]]->name);
    RengaCall(NewGradientValue(graph, seeds[i], RENGA_VALUE_INPUT, &seed_gradients[i]));
    walk->gradient[seeds[i]] = seed_gradients[i];
  }
  if (graph->loss < 0) return RENGA_SUCCESS;
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  if (precision != RENGA_PRECISION_FP16) {
    RengaCall(SeedWithOne(walk));
    return RENGA_SUCCESS;
  }
  RengaCall(NewGradientValue(graph, graph->loss, RENGA_VALUE_INPUT, &graph->seed));
  walk->gradient[graph->loss] = graph->seed;
  return RENGA_SUCCESS;
}

/* The device has a kernel of the node's gradient that adds to another one. */
static bool HasAddingKernel(RengaGraph graph, const RengaGraphNode *node)
{
  if (strcmp(node->op->name, "Conv") != 0) return graph->flags & RENGA_GRAPH_PACKS;
  return graph->flags & RENGA_GRAPH_RELUS && graph->options.precision == RENGA_PRECISION_FP32;
}

/* The gradient of input 0 so far, where what the node adds is added to it by itself. */
static RengaValue GradientSoFar(const ReverseWalk *walk, const RengaGraphNode *node)
{
  RengaGraph graph = walk->graph;
  const RengaValue value = node->n_in > 0 ? node->in[0] : RENGA_VALUE_NONE;
  if (!HasAddingKernel(graph, node) || value < 0 || !walk->needs[value]) return RENGA_VALUE_NONE;
  const RengaValue before = walk->gradient[value];
  const bool plain = graph->value[value]->kind != RENGA_VALUE_PARAMETER && !walk->piece[value] &&
                     walk->lanes[value].lanes == 0 &&
                     node->lane == RengaGraphLaneOfMaker(graph, value) && before >= 0 &&
                     graph->value[before]->stored == RengaGraphTypeOfGradient_Private(graph, value);
  return plain ? before : RENGA_VALUE_NONE;
}

static RengaErrorCode VisitReverseNode(ReverseWalk *walk, int at)
{
  RengaGraph graph = walk->graph;
  const RengaGraphNode *node = &graph->entry[at]->node;
  bool given, arrives = false, asked = false, *wanted;
  RengaValue *dy, *dx;
  if (walk->piece[node->out[0]]) return RengaReverseGiveCut(walk, node);
  graph->id = node->id;
  for (int i = 0; i < node->n_out; i++) RengaCall(RengaReverseFinish(walk, node->out[i]));
  RengaCall(RengaReverseGiveToTerms(walk, node, &given));
  if (given) return RENGA_SUCCESS;
  RengaCall(RengaGraphScratch(graph, node->n_out, &dy));
  RengaCall(RengaGraphScratch(graph, node->n_in, &dx));
  RengaCall(RengaGraphScratch(graph, node->n_in, &wanted));
  for (int i = 0; i < node->n_out; i++) {
    dy[i] = walk->needs[node->out[i]] ? walk->gradient[node->out[i]] : RENGA_VALUE_NONE;
    arrives = arrives || dy[i] >= 0;
  }
  for (int i = 0; i < node->n_in; i++) {
    dx[i] = RENGA_VALUE_NONE;
    wanted[i] = node->in[i] >= 0 && walk->needs[node->in[i]];
    asked = asked || wanted[i];
  }
  const RengaReverseRow *row = FindReverseRow(node->op->name);
  if (!arrives || !asked) return RENGA_SUCCESS;
  RengaReverse reverse = {
      graph, node, dy, wanted, dx, GradientSoFar(walk, node), false, row ? row->with : NULL};
  if (row == NULL) RengaReverseRefuse(&reverse, "this operator has no rule of reverse mode");
  const int first = graph->n_nodes;
  RengaCall(row->rule(&reverse));
  RengaCall(RengaGraphStoreGradients(graph, node, first, dx));
  for (int i = first; i < graph->n_nodes; i++) RengaGraphEntryNode(graph, i)->lane = node->lane;
  for (int i = 0; i < node->n_in; i++) {
    if (!wanted[i]) continue;
    if (dx[i] < 0)
      RengaReverseRefuse(&reverse,
                         "input %d (\"%s\") depends on parameters, but there is no rule for it", i,
                         graph->value[node->in[i]]->name);
    if (i == 0 && reverse.added)
      walk->gradient[node->in[0]] = dx[0];
    else
      RengaCall(RengaReverseAccumulate(walk, node, i, dx[i]));
  }
  return RENGA_SUCCESS;
}

/* The gradients of some outputs come from the first only, as others are of no use to a loss. */
static void MarkWaited(ReverseWalk *walk, bool waited[])
{
  RengaGraph graph = walk->graph;
  for (int i = graph->n_nodes; i-- > walk->n_forward;) {
    RengaGraphNode *node = RengaGraphEntryNode(graph, i);
    bool input = false;
    for (int j = 0; j < node->n_out; j++) input = input || waited[node->out[j]];
    node->phase = input ? RENGA_PHASE_BACKWARD_INPUT : RENGA_PHASE_BACKWARD_WEIGHT;
    for (int j = 0; j < node->n_in && input; j++)
      if (node->in[j] >= 0) waited[node->in[j]] = true;
  }
}

/* Backward-input nodes are those whose result a gradient that is waited for needs. */
static RengaErrorCode SetPhases(ReverseWalk *walk)
{
  bool *waited;
  RengaGraphForget(walk->graph);
  RengaCall(RengaGraphScratch(walk->graph, walk->graph->n_values, &waited));
  for (int i = 0; i < walk->n_values; i++)
    if (walk->waited[i] && walk->gradient[i] >= 0) waited[walk->gradient[i]] = true;
  MarkWaited(walk, waited);
  return RENGA_SUCCESS;
}

static int CompareParameterUses(const void *a, const void *b)
{
  const RengaParameterUse *x = a, *y = b;
  return x->node_id != y->node_id ? x->node_id - y->node_id : x->input - y->input;
}

/* Gradients that are sent are made by nodes here. */
static RengaErrorCode ReturnWanted(ReverseWalk *walk, int n_wanted, const RengaValue wanted[],
                                   RengaValue wanted_gradients[])
{
  RengaGraph graph = walk->graph;
  for (int i = 0; i < n_wanted; i++) {
    RengaValue *gradient = &walk->gradient[wanted[i]], copy = RENGA_VALUE_NONE;
    RengaCall(RengaReverseFinish(walk, wanted[i]));
    if (*gradient >= 0 && graph->value[*gradient]->producer < 0) {
      RengaCall(RengaReverseInsertLike(graph, "Identity", 0, 1, gradient, &copy));
      *gradient = copy;
    }
    wanted_gradients[i] = *gradient;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WalkBack(ReverseWalk *walk, int n_seeds, const RengaValue seeds[],
                               RengaValue seed_gradients[], int n_wanted, const RengaValue wanted[],
                               RengaValue wanted_gradients[])
{
  RengaGraph graph = walk->graph;
  RengaCall(RengaGraphScratch(graph, walk->n_values, &walk->needs));
  RengaCall(RengaGraphScratch(graph, walk->n_values, &walk->waited));
  RengaCall(RengaGraphScratch(graph, walk->n_values, &walk->gradient));
  RengaCall(RengaGraphScratch(graph, walk->n_values, &walk->piece));
  RengaCall(RengaGraphScratch(graph, walk->n_values, &walk->sent));
  for (int i = 0; i < n_wanted; i++) walk->sent[wanted[i]] = true;
  for (int i = 0; i < walk->n_values; i++) walk->gradient[i] = RENGA_VALUE_NONE;
  FindGradientNeeds(walk, n_wanted, wanted);
  RengaCall(RengaReverseFindLaneReaders(walk));
  RengaCall(AddSeeds(walk, n_seeds, seeds, seed_gradients));
  graph->phase = RENGA_PHASE_BACKWARD_INPUT;
  for (int i = walk->n_forward; i-- > 0;) RengaCall(VisitReverseNode(walk, i));
  RengaCall(ReturnWanted(walk, n_wanted, wanted, wanted_gradients));
  RengaCall(SetPhases(walk));
  if (graph->n_uses > 0)
    qsort(graph->use, (size_t)graph->n_uses, sizeof *graph->use, CompareParameterUses);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFloatingGradient(RengaGraph graph, int count, const RengaValue values[])
{
  for (int i = 0; i < count; i++) {
    RengaCall(RengaGraphCheckValue(graph, values[i]));
    const RengaGraphValue *value = graph->value[values[i]];
    RengaCheck(RengaDataTypeIsFloating(value->spec.type), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "\"%s\" is %s and has no gradient", value->name,
               RengaDataTypeName(value->spec.type));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaGraphDifferentiate - append the nodes that find gradients

   Input:
   . graph - a graph that is set up, or a subgraph; once only
   . n_seeds, seeds - values of which part of the gradient comes from outside
   . n_wanted, wanted - values whose gradient is to be found

   Output:
   . seed_gradients - new inputs "gradient:NAME"
   . wanted_gradients - RENGA_VALUE_NONE where nothing depends on the value

   Errors: RENGA_ERR_ORDER before RengaGraphSetUp, or the second time; RENGA_ERR_ARGUMENT for a
   seed that has no gradient or is there twice; RENGA_ERR_SUPPORT for a loss that is not float32,
   or an operator without a gradient.

   Notes: the loss, where the graph has it, is seeded with 1. Contributions to a value are added in
   descending order of the ids of the nodes that read it, on top of the seed; so a sum that a later
   stage begins goes on here exactly as in one stage. Each use of a parameter has a gradient of its
   own: RengaGraphGetParameterUses. Frozen parameters have none.

   See also: RengaGraphGetParameterUses(), RengaGradientRegister()
@*/
RengaErrorCode RengaGraphDifferentiate(RengaGraph graph, int n_seeds, const RengaValue seeds[],
                                       RengaValue seed_gradients[], int n_wanted,
                                       const RengaValue wanted[], RengaValue wanted_gradients[])
{
  RengaCheckPointer(graph);
  RengaCheckState(graph, RENGA_STATE_SETUP, "RengaGraphSetUp");
  RengaCheck(graph->hdr.state == RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the graph is differentiated already");
  RengaCall(CheckFloatingGradient(graph, n_seeds, seeds));
  RengaCall(CheckFloatingGradient(graph, n_wanted, wanted));
  ReverseWalk walk = {.graph = graph, .n_forward = graph->n_nodes, .n_values = graph->n_values};
  RengaErrorCode code =
      WalkBack(&walk, n_seeds, seeds, seed_gradients, n_wanted, wanted, wanted_gradients);
  RengaGraphFreeScratch(graph);
  graph->id = -1;
  graph->phase = RENGA_PHASE_FORWARD;
  graph->hdr.state = RENGA_STATE_SOLVED;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What reverse mode begins with where it is not 1. seed: the input that is the gradient of the loss
   by itself, a scalar: the scale of the loss. A graph of RENGA_PRECISION_FP16 that is
   differentiated and has the loss has one; else it is RENGA_VALUE_NONE. */
RengaErrorCode RengaGraphGetSeed(RengaGraph graph, RengaValue *seed)
{
  RengaCheckPointers(graph, seed);
  *seed = graph->seed;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetParameterUses - the gradients of parameters, one for each node that reads one

   Input:
   . graph - a graph that is differentiated

   Output:
   . count - the number of uses, at least 0
   . uses - the uses, lent by the graph, by node id, then input number: the order in which they are
     added

   Errors: RENGA_ERR_ORDER before RengaGraphDifferentiate.

   See also: RengaGraphDifferentiate()
@*/
RengaErrorCode RengaGraphGetParameterUses(RengaGraph graph, int *count,
                                          const RengaParameterUse **uses)
{
  RengaCheckPointer(graph);
  RengaCheckState(graph, RENGA_STATE_SOLVED, "RengaGraphDifferentiate");
  *count = graph->n_uses;
  *uses = graph->use;
  return RENGA_SUCCESS;
}
