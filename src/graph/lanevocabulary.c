/* Vocabularies in lanes: an output layer by its columns, the classes, and the cross-entropy that
   reads its scores. A lane makes the log-sum-exp of its own scores and, where it has the class of a
   label, that label's score; CrossEntropyJoin makes the loss of these. So ranks that share out
   lanes exchange two numbers for each label and lane, instead of all scores (Shoeybi and others,
   Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism, 2019).

   It pays where scores are wider than what they are made of, whose gradient lanes add up: from
   twice as many classes as columns on. Scores are put together for outputs of the network; where
   a node reads them otherwise all is whole. */
#include "lanes.h"
#include "renga/private/op.h"
#include <string.h>

enum { CLASSES_FOR_COLUMN = 2, LOSS_NAME = 512 };

/* Scores on their way to one loss. */
typedef struct {
  RengaLanes *pass;
  const int *readers; /* [n_values] inputs of nodes */
  int n_nodes, *node; /* that are chosen, from the last to the product */
  bool found;
} LaneScores;

/* Parts are dealt out by classes as they stand, and the batch is not. */
static bool DealsOut(RengaGraph graph, const RengaGraphNode *node, const RengaSplitWay *way)
{
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] >= 0 && way->in[i].kind == RENGA_SPLIT_ALONG &&
        RengaGraphSpec(graph, node->in[i])->dim[way->in[i].dim] < 0)
      return false;
  return way->need == RENGA_LANE_ALONE;
}

/* The way in which the node's only output is split as wanted; in NULL: there is none. */
static RengaErrorCode TakeScoresWay(RengaGraph graph, const RengaGraphNode *node,
                                    const RengaSplit *wanted, RengaSplitWay *taken)
{
  RengaSplitWays ways = {0};
  RengaOpCall call;
  RengaErrorCode code = RengaGraphMakeCall(graph, node, RENGA_OP_SOME_BATCH, &call);
  if (!code) code = RengaSplitWaysGet(&call, &ways);
  *taken = (RengaSplitWay){.units = 0};
  for (int w = 0; w < ways.count && !taken->in; w++) {
    RengaSplitWay *way = &ways.way[w];
    if (!RengaSplitEqual(&way->out[0], wanted) || !DealsOut(graph, node, way)) continue;
    *taken = *way;
    way->in = NULL;
  }
  RengaSplitWaysFree(&ways);
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A product of whatever is whole and columns of a parameter, which are wide enough. */
static bool IsOutputLayer(const RengaGraphNode *node, const RengaSplitWay *way, RengaGraph graph,
                          int64_t classes)
{
  const RengaTensorSpec *x = RengaGraphSpec(graph, node->in[0]);
  return strcmp(node->op->name, "Linear") == 0 && way->in[0].kind == RENGA_SPLIT_WHOLE &&
         way->in[1].kind == RENGA_SPLIT_ALONG &&
         graph->value[node->in[1]]->kind == RENGA_VALUE_PARAMETER &&
         classes >= CLASSES_FOR_COLUMN * x->dim[x->ndim - 1];
}

/* From a value of which lanes want their classes towards the product that makes it. */
static RengaErrorCode FollowScores(LaneScores *scores, RengaValue value, const RengaSplit *wanted)
{
  RengaLanes *pass = scores->pass;
  RengaGraph graph = pass->graph;
  const int at = graph->value[value]->producer;
  const int64_t classes = RengaGraphSpec(graph, value)->dim[wanted->dim];
  RengaSplitWay way;
  if (at < 0 || scores->readers[value] != 1 || pass->node[at].chosen) return RENGA_SUCCESS;
  if (!RengaLaneAllows(pass->wish[at], false)) return RENGA_SUCCESS;
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  if (node->n_out != 1) return RENGA_SUCCESS;
  RengaCall(TakeScoresWay(graph, node, wanted, &way));
  if (!way.in) return RENGA_SUCCESS;
  pass->node[at] = (RengaLaneNode){.way = way, .chosen = true};
  pass->state[value] = way.out[0];
  scores->node[scores->n_nodes++] = at;
  scores->found = IsOutputLayer(node, &way, graph, classes);
  if (!scores->found && way.in[0].kind == RENGA_SPLIT_ALONG)
    RengaCall(FollowScores(scores, node->in[0], &way.in[0]));
  return RENGA_SUCCESS;
}

static void LeaveScores(LaneScores *scores)
{
  RengaLanes *pass = scores->pass;
  for (int i = 0; i < scores->n_nodes; i++) {
    const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, scores->node[i]);
    RengaFree(&pass->node[scores->node[i]].way.in);
    pass->node[scores->node[i]] = (RengaLaneNode){.chosen = false};
    pass->state[node->out[0]] = (RengaSplit){RENGA_SPLIT_WHOLE, 0, 1, 1};
  }
}

static RengaErrorCode TryLoss(LaneScores *scores, int at)
{
  RengaLanes *pass = scores->pass;
  const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, at);
  const RengaTensorSpec *x = RengaGraphSpec(pass->graph, node->in[0]);
  RengaOpCall call = {.op = node->op, .attributes = &node->attributes};
  RengaSplit classes = {RENGA_SPLIT_ALONG, 0, 1, 1};
  RengaCall(RengaOpAxis(&call, "axis", x->ndim, &classes.dim));
  if (x->dim[classes.dim] < pass->lanes || !RengaLaneAllows(pass->wish[at], false))
    return RENGA_SUCCESS;
  scores->n_nodes = 0;
  scores->found = false;
  RengaCall(FollowScores(scores, node->in[0], &classes));
  if (scores->found) {
    pass->node[at] = (RengaLaneNode){.loss = true};
    pass->node[scores->node[0]].joined = true;
  } else {
    LeaveScores(scores);
  }
  return RENGA_SUCCESS;
}

/* Marks the nodes, before chains are looked for. */
RengaErrorCode RengaGraphFindVocabulary(RengaLanes *pass)
{
  RengaGraph graph = pass->graph;
  LaneScores scores = {.pass = pass};
  int *readers;
  RengaCall(RengaGraphScratch(graph, pass->n_values + 1, &readers));
  RengaCall(RengaGraphScratch(graph, pass->n_nodes + 1, &scores.node));
  for (int n = 0; n < pass->n_nodes; n++)
    for (int i = 0; i < RengaGraphEntryNode(graph, n)->n_in; i++)
      if (RengaGraphEntryNode(graph, n)->in[i] >= 0)
        readers[RengaGraphEntryNode(graph, n)->in[i]]++;
  scores.readers = readers;
  for (int n = 0; n < pass->n_nodes; n++)
    if (strcmp(RengaGraphEntryNode(graph, n)->op->name, "CrossEntropy") == 0)
      RengaCall(TryLoss(&scores, n));
  return RENGA_SUCCESS;
}

static RengaErrorCode InsertLossLane(RengaLanes *pass, const RengaGraphNode *node, int lane,
                                     RengaValue scores, RengaValue out[2])
{
  RengaGraph graph = pass->graph;
  const int64_t classes = RengaGraphSpec(graph, node->in[0])->dim[pass->state[node->in[0]].dim];
  RengaAttributes attributes = {0};
  char wanted[LOSS_NAME], name[LOSS_NAME];
  int64_t first, count;
  RengaLaneUnits(classes, lane, pass->lanes, &first, &count);
  snprintf(wanted, sizeof wanted, "%.400s.lane%d", node->name, lane);
  RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
  out[0] = out[1] = RENGA_VALUE_NONE;
  RengaErrorCode code = RengaAttributesCopy(&node->attributes, &attributes);
  if (!code) code = RengaAttributesSetInt(&attributes, "first", first);
  if (!code) code = RengaAttributesSetInt(&attributes, "classes", classes);
  if (!code)
    code = RengaGraphInsertNode(graph, "CrossEntropyLane", name, &attributes, 2,
                                (const RengaValue[]){scores, node->in[1]}, 2, NULL, out);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = RengaGraphInLane(pass, 0, lane);
  return RENGA_SUCCESS;
}

/* The loss of what lanes have made of their scores, part. */
RengaErrorCode RengaGraphReplaceLoss(RengaLanes *pass, int at, const RengaValue part[])
{
  RengaGraph graph = pass->graph;
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  const int lanes = pass->lanes;
  RengaAttributes attributes = {0};
  RengaValue *in, lane[2], out[2] = {node->out[0], RENGA_VALUE_NONE};
  if (node->n_out > 1) out[1] = node->out[1];
  RengaCall(RengaGraphScratch(graph, 2 + 2 * lanes, &in));
  in[0] = node->in[1];
  in[1] = node->n_in > 2 ? node->in[2] : RENGA_VALUE_NONE;
  graph->place = graph->entry[at]->place;
  for (int l = 0; l < lanes; l++) {
    RengaCall(InsertLossLane(pass, node, l, part[l], lane));
    in[2 + l] = lane[0];
    in[2 + lanes + l] = lane[1];
  }
  const int64_t ignore = RengaAttributesInt(&node->attributes, "ignore_index", INT64_MIN);
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "ignore_index", ignore);
  if (!code)
    code = RengaGraphInsertNode(graph, "CrossEntropyJoin", node->name, &attributes, 2 + 2 * lanes,
                                in, node->n_out, NULL, out);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  graph->in_lanes[RENGA_LANES_OF_HEADS]++;
  graph->entry[at]->dead = true;
  return RENGA_SUCCESS;
}
