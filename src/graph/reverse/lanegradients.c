/* The gradient of what several lanes read (lanesums.c): terms, in the order in which they come,
   added up in pieces, so that ranks scatter the terms and gather the sum. Of a view that lanes read
   (lanenodes.c) terms have 32 bits, and their sum those of what it is a view of. */
#include "walk.h"

/* Of a view that lanes read the sum is as wide as the gradient of the value, unless it is sent. */
RengaDataType RengaReverseTypeOfSum(const ReverseWalk *walk, RengaValue value)
{
  return walk->sent[value] ? RengaGraphTypeOfGradient_Private(walk->graph, value)
                           : RengaGraphTypeOfLaneSum(walk->graph, value);
}

static void AddTerm(LaneGradients *of, RengaValue term, int lane, int id)
{
  of->term[of->count] = term;
  of->lane[of->count] = lane;
  of->id[of->count++] = id;
}

/* On top of what there is of it already. */
RengaErrorCode RengaReverseKeepTerm(ReverseWalk *walk, const RengaGraphNode *node, int input,
                                    RengaValue term)
{
  const RengaValue value = node->in[input];
  LaneGradients *of = &walk->lanes[value];
  if (walk->gradient[value] >= 0) AddTerm(of, walk->gradient[value], of->maker, node->id);
  walk->gradient[value] = RENGA_VALUE_NONE;
  AddTerm(of, term, node->lane, node->id);
  return RENGA_SUCCESS;
}

/* The work of a lane belongs to a node of the lane. */
static int IdInLane(const LaneGradients *of, int count, int lane, int id)
{
  for (int t = 0; t < count; t++)
    if (of->lane[t] == lane) return of->id[t];
  return id;
}

/* piece: [terms][lanes]; the first become the sums. */
static RengaErrorCode AddTermPieces(ReverseWalk *walk, const LaneGradients *of, int count,
                                    RengaDataType type, RengaValue piece[])
{
  RengaGraph graph = walk->graph;
  const int id = graph->id;
  for (int t = 1; t < count; t++)
    for (int p = 0; p < of->lanes; p++) {
      const RengaValue pair[2] = {piece[p], piece[t * of->lanes + p]};
      piece[p] = RENGA_VALUE_NONE;
      const int lane = of->maker | RengaLaneMake(of->kind, p);
      graph->id = IdInLane(of, count, lane, id);
      RengaCall(RengaReverseInsertLike(graph, "Add", lane, 2, pair, &piece[p]));
      if (t == count - 1) graph->value[piece[p]]->stored = type;
    }
  graph->id = id;
  return RENGA_SUCCESS;
}

/* piece: [terms][lanes] */
static RengaErrorCode CutTerms(ReverseWalk *walk, const LaneGradients *of, int count,
                               RengaValue piece[])
{
  RengaGraph graph = walk->graph;
  const int id = graph->id;
  for (int t = 0; t < count; t++, piece += of->lanes) {
    graph->id = of->id[t];
    RengaCall(RengaGraphCutPieces(graph, NULL, of->term[t], of->dim, of->lanes, piece));
    RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = of->lane[t];
    for (int p = 0; p < of->lanes; p++)
      graph->value[piece[p]]->stored = graph->value[of->term[t]]->stored;
  }
  graph->id = id;
  return RENGA_SUCCESS;
}

/* All terms of the value's gradient are there. */
RengaErrorCode RengaReverseFinish(ReverseWalk *walk, RengaValue value)
{
  LaneGradients *of = &walk->lanes[value];
  RengaGraph graph = walk->graph;
  const RengaDataType type = RengaReverseTypeOfSum(walk, value);
  RengaValue *piece, whole = RENGA_VALUE_NONE;
  const int count = of->count;
  of->count = 0;
  if (count == 1) walk->gradient[value] = of->term[0];
  if (count < 2) return RENGA_SUCCESS;
  RengaCall(RengaGraphScratch(graph, (int64_t)count * of->lanes, &piece));
  RengaCall(CutTerms(walk, of, count, piece));
  RengaCall(AddTermPieces(walk, of, count, type, piece));
  RengaCall(RengaGraphJoinPieces(graph, NULL, of->dim, of->lanes, piece, &whole));
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = of->maker;
  graph->value[whole]->stored = type;
  walk->gradient[value] = whole;
  return RENGA_SUCCESS;
}
