/* What lanes have made, put together again. */
#include "lanes.h"

int RengaGraphLaneOfMaker(RengaGraph graph, RengaValue value)
{
  const int maker = graph->value[value]->producer;
  return maker < 0 ? 0 : RengaGraphEntryNode(graph, maker)->lane;
}

/* What lanes have made, as the value that the node has made. */
RengaErrorCode RengaGraphJoinParts(RengaLanes *pass, const RengaGraphNode *node, int o,
                                   const RengaValue part[])
{
  RengaGraph graph = pass->graph;
  RengaAttributes attributes = {0};
  RengaValue whole = node->out[o];
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "axis", pass->state[whole].dim);
  if (!code)
    code = RengaGraphInsertNode(graph, "Concat", node->name, &attributes, pass->lanes, part, 1,
                                NULL, &whole);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = node->wide;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = node->lane;
  return RENGA_SUCCESS;
}

/* What lanes have of the scores, or of another output of the network, is put together for whoever
   wants it: outputs, losses of samples, an accuracy. Else this node never runs. */
RengaErrorCode RengaGraphJoinOutput(RengaLanes *pass, int at, const RengaValue part[])
{
  RengaGraph graph = pass->graph;
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  bool wanted = pass->node[at].joined;
  for (int o = 0; o < graph->n_outputs; o++) wanted = wanted || graph->output[o] == node->out[0];
  if (wanted) RengaCall(RengaGraphJoinParts(pass, node, 0, part));
  return RENGA_SUCCESS;
}
