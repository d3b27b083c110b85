/* Which gradients lanes add up in pieces, and that of a sum that they have made so (lanesums.c): it
   is the gradient of each term, and pieces of it are not made. */
#include "walk.h"
#include <string.h>

/* Of a reader in a lane within that of the maker: count becomes 1 + the last one's, and lanes 1
   where there are several. lanes -1: they differ in more than lanes of one kind. */
static void NoteReader(LaneGradients *of, int lane)
{
  const RengaLaneKind kind = RengaLaneOfKind(lane, RENGA_LANES_OF_HEADS) ==
                                     RengaLaneOfKind(of->maker, RENGA_LANES_OF_HEADS)
                                 ? RENGA_LANES_OF_TOKENS
                                 : RENGA_LANES_OF_HEADS;
  const int number = 1 + RengaLaneNumber(lane, kind), named = RengaLaneOfKind(lane, kind);
  if (lane == of->maker || of->lanes < 0) return;
  if (lane - named != of->maker || (of->count && of->kind != kind)) {
    of->lanes = -1;
    return;
  }
  of->kind = kind;
  if (of->count && number != of->count) of->lanes = 1;
  if (number > of->count) of->count = number;
}

/* lanes: up to the last one that reads the value; 0: fewer than two do. room: how often all do */
static void CountLaneReaders(const ReverseWalk *walk, LaneGradients gradients[])
{
  RengaGraph graph = walk->graph;
  for (int n = 0; n < walk->n_forward; n++) {
    const RengaGraphNode *node = RengaGraphEntryNode(graph, n);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] < 0) continue;
      LaneGradients *of = &gradients[node->in[i]];
      of->room++;
      of->maker = RengaGraphLaneOfMaker(graph, node->in[i]);
      NoteReader(of, node->lane);
    }
  }
  for (int v = 0; v < walk->n_values; v++) {
    gradients[v].lanes = gradients[v].lanes > 0 ? gradients[v].count : 0;
    gradients[v].count = 0;
  }
}

/* Which gradients are added up in pieces. */
RengaErrorCode RengaReverseFindLaneReaders(ReverseWalk *walk)
{
  RengaCall(RengaGraphScratch(walk->graph, walk->n_values, &walk->lanes));
  CountLaneReaders(walk, walk->lanes);
  for (RengaValue v = 0; v < walk->n_values; v++) {
    LaneGradients *of = &walk->lanes[v];
    if (of->lanes == 0) continue;
    const RengaDataType type = RengaGraphTypeOfGradient_Private(walk->graph, v);
    const bool whole = walk->graph->value[v]->kind == RENGA_VALUE_PARAMETER || !walk->needs[v] ||
                       RengaReverseIsJoinOfLanes(walk, v);
    of->dim =
        RengaGraphPieceDimension(RengaGraphSpec(walk->graph, v), of->lanes, RengaDataTypeSize(type),
                                 RengaDataTypeSize(RengaReverseTypeOfSum(walk, v)));
    if (whole || of->dim < 0) of->lanes = 0;
    if (of->lanes == 0) continue;
    RengaCall(RengaGraphScratch(walk->graph, of->room + 1, &of->term));
    RengaCall(RengaGraphScratch(walk->graph, of->room + 1, &of->lane));
    RengaCall(RengaGraphScratch(walk->graph, of->room + 1, &of->id));
  }
  return RENGA_SUCCESS;
}

/* The nodes that cut the terms of which the piece is made: by position in the graph. false: not all
   of them are here. */
static bool FindTermCuts(const ReverseWalk *walk, RengaValue piece, int *count, int cut[])
{
  const int maker = walk->graph->value[piece]->producer;
  if (maker < 0 || !walk->graph->entry[maker]->pieces) return false;
  const RengaGraphNode *node = RengaGraphEntryNode(walk->graph, maker);
  if (node->n_in == 1) {
    cut[(*count)++] = maker;
    return true;
  }
  return FindTermCuts(walk, node->in[0], count, cut) && FindTermCuts(walk, node->in[1], count, cut);
}

/* The gradient of what the node puts together of pieces goes to the terms: *given. */
RengaErrorCode RengaReverseGiveToTerms(ReverseWalk *walk, const RengaGraphNode *node, bool *given)
{
  RengaGraph graph = walk->graph;
  const RengaValue gradient = walk->gradient[node->out[0]];
  const int maker = graph->value[node->out[0]]->producer;
  int *cut, count = 0;
  *given = false;
  if (!graph->entry[maker]->pieces || strcmp(node->op->name, "Concat") != 0 || gradient < 0)
    return RENGA_SUCCESS;
  RengaCall(RengaGraphScratch(graph, node->n_in, &cut));
  if (!FindTermCuts(walk, node->in[0], &count, cut)) return RENGA_SUCCESS;
  for (int c = 0; c < count; c++) {
    const RengaGraphNode *cuts = RengaGraphEntryNode(graph, cut[c]);
    if (RengaGraphTypeOfGradient_Private(graph, cuts->in[0]) != graph->value[gradient]->stored)
      return RENGA_SUCCESS;
  }
  for (int c = 0; c < count; c++) {
    const RengaGraphNode *cuts = RengaGraphEntryNode(graph, cut[c]);
    if (walk->needs[cuts->in[0]]) RengaCall(RengaReverseAccumulate(walk, cuts, 0, gradient));
  }
  *given = true;
  return RENGA_SUCCESS;
}
