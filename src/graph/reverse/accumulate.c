/* Gradients of values, of which each node that reads one makes a term. */
#include "walk.h"
#include <string.h>

static RengaErrorCode AddParameterUse(ReverseWalk *walk, const RengaGraphNode *node, int input,
                                      RengaValue gradient)
{
  RengaGraph graph = walk->graph;
  int producer = graph->value[gradient]->producer;
  bool fresh = producer >= walk->n_forward && graph->entry[producer]->node.id == node->id;
  for (int i = graph->n_uses; i-- > 0 && fresh && graph->use[i].node_id == node->id;)
    fresh = graph->use[i].gradient != gradient; /* uses of a node follow each other */
  if (!fresh) {                                 /* each use has a tensor of its own */
    RengaValue copy = RENGA_VALUE_NONE;
    RengaCall(RengaReverseInsertLike(graph, "Identity", node->lane, 1, &gradient, &copy));
    gradient = copy;
  }
  if ((graph->n_uses & (graph->n_uses - 1)) == 0) /* room for twice as many */
    RengaCall(RengaRealloc(graph->n_uses ? 2 * graph->n_uses : 1, &graph->use));
  graph->use[graph->n_uses++] = (RengaParameterUse){node->in[input], gradient, node->id, input};
  return RENGA_SUCCESS;
}

static int JoinedDimension(RengaGraph graph, const RengaGraphNode *join)
{
  const int64_t axis = RengaAttributesInt(&join->attributes, "axis", 0);
  return (int)(axis < 0 ? axis + RengaGraphSpec(graph, join->in[0])->ndim : axis);
}

/* What lanes have made, put together by a node in none of their kind, and all of it has gradients.
 */
bool RengaReverseIsJoinOfLanes(const ReverseWalk *walk, RengaValue value)
{
  RengaGraph graph = walk->graph;
  const int at = graph->value[value]->producer;
  if (at < 0 || at >= walk->n_forward || walk->sent[value]) return false;
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  const RengaDataType type = RengaGraphTypeOfGradient_Private(graph, value);
  if (strcmp(node->op->name, "Concat") != 0 || graph->entry[at]->pieces) return false;
  if (RengaGraphSpec(graph, value)->dim[JoinedDimension(graph, node)] < 0) return false;
  for (int i = 0; i < node->n_in; i++) {
    const int lane = RengaGraphLaneOfMaker(graph, node->in[i]);
    if (lane == node->lane || !RengaLaneCovers(node->lane, lane) || !walk->needs[node->in[i]] ||
        RengaGraphTypeOfGradient_Private(graph, node->in[i]) != type)
      return false;
  }
  return true;
}

/* Its parts of a term of the gradient of what the node puts together. */
static RengaErrorCode CutTerm(ReverseWalk *walk, const RengaGraphNode *join, int lane,
                              RengaValue term, RengaValue piece[])
{
  RengaGraph graph = walk->graph;
  const int first = graph->n_nodes;
  const int64_t axis = JoinedDimension(graph, join);
  RengaAttributes attributes = {0};
  int64_t *extent;
  RengaCall(RengaGraphScratch(graph, join->n_in, &extent));
  for (int i = 0; i < join->n_in; i++) {
    extent[i] = RengaGraphSpec(graph, join->in[i])->dim[axis];
    piece[i] = RENGA_VALUE_NONE;
  }
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "axis", axis);
  if (!code) code = RengaAttributesSetInts(&attributes, "split", join->n_in, extent);
  if (!code)
    code =
        RengaGraphInsertNode(graph, "Split", NULL, &attributes, 1, &term, join->n_in, NULL, piece);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(RengaGraphStoreGradients(graph, join, first, piece));
  for (int n = first; n < graph->n_nodes; n++) RengaGraphEntryNode(graph, n)->lane = lane;
  return RENGA_SUCCESS;
}

/* Lanes cut the terms that they make, and each adds up what is of its part: the sums of the whole,
   which no lane needs. */
static RengaErrorCode AddTermToParts(ReverseWalk *walk, RengaValue value, int lane, RengaValue term)
{
  RengaGraph graph = walk->graph;
  const RengaGraphNode *join = RengaGraphEntryNode(graph, graph->value[value]->producer);
  const RengaValue *sum = walk->piece[value];
  RengaValue *piece;
  RengaCall(RengaGraphScratch(graph, join->n_in, &piece));
  RengaCall(CutTerm(walk, join, lane, term, piece));
  for (int i = 0; sum && i < join->n_in; i++) {
    const RengaValue pair[2] = {sum[i], piece[i]};
    piece[i] = RENGA_VALUE_NONE;
    RengaCall(RengaReverseInsertLike(graph, "Add", RengaGraphLaneOfMaker(graph, join->in[i]), 2,
                                     pair, &piece[i]));
  }
  walk->piece[value] = piece;
  return RENGA_SUCCESS;
}

/* A term that a lane makes of the gradient of what lanes have made; what there is of it already is
   cut, too. */
static RengaErrorCode AccumulateInParts(ReverseWalk *walk, RengaValue value, int lane,
                                        RengaValue term)
{
  const RengaValue whole = walk->gradient[value];
  const int all = RengaGraphLaneOfMaker(walk->graph, value);
  walk->gradient[value] = RENGA_VALUE_NONE;
  if (whole >= 0) RengaCall(AddTermToParts(walk, value, all, whole));
  RengaCall(AddTermToParts(walk, value, lane, term));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseAccumulate(ReverseWalk *walk, const RengaGraphNode *node, int input,
                                      RengaValue dx)
{
  RengaGraph graph = walk->graph;
  RengaValue value = node->in[input], sum = RENGA_VALUE_NONE;
  if (!RengaTensorSpecEqual(RengaGraphSpec(graph, dx), RengaGraphSpec(graph, value)))
    RengaGraphRefuse(node, RENGA_ERR_INTERNAL, "the gradient of input %d has another shape", input);
  if (graph->value[value]->kind == RENGA_VALUE_PARAMETER) {
    RengaCall(AddParameterUse(walk, node, input, dx));
    return RENGA_SUCCESS;
  }
  const int maker = RengaGraphLaneOfMaker(graph, value);
  const bool within = node->lane != maker && RengaLaneCovers(maker, node->lane);
  if (walk->piece[value] || (within && RengaReverseIsJoinOfLanes(walk, value))) {
    RengaCall(AccumulateInParts(walk, value, node->lane, dx));
    return RENGA_SUCCESS;
  }
  if (walk->lanes[value].lanes) {
    RengaCall(RengaReverseKeepTerm(walk, node, input, dx));
    return RENGA_SUCCESS;
  }
  if (walk->gradient[value] < 0) {
    walk->gradient[value] = dx;
    return RENGA_SUCCESS;
  }
  RengaValue in[2] = {walk->gradient[value], dx};
  RengaCall(RengaReverseInsertLike(graph, "Add", maker, 2, in, &sum));
  walk->gradient[value] = sum;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseGiveCut(ReverseWalk *walk, const RengaGraphNode *node)
{
  const RengaValue *piece = walk->piece[node->out[0]];
  walk->graph->id = node->id;
  for (int i = 0; i < node->n_in; i++) RengaCall(RengaReverseAccumulate(walk, node, i, piece[i]));
  return RENGA_SUCCESS;
}
