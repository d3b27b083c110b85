/* Which values of different tensor ranks are the same but for the lane. What a stage keeps is
   chosen by the costs of one of its ranks, in which nodes of other ranks' lanes cost nothing: of
   these is kept what is kept of the same node in a lane of that rank, so that all ranks make as
   much again. Where ranks have different numbers of lanes, those that one has more go by the
   other's last. */
#include "renga/private/graph.h"
#include "renga/private/plan.h"
#include "search.h"
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 640 };

/* The lane of rank `own` that has the same number among its lanes, from 0 on. */
static int LaneBeside(int lanes, int tensor, int own, int lane)
{
  const int rank = RengaPlanTensorRankOfLane_Private(lanes, tensor, lane);
  const int first = (int)((int64_t)own * lanes / tensor);
  const int end = (int)((int64_t)(own + 1) * lanes / tensor);
  const int beside = first + lane - (int)((int64_t)rank * lanes / tensor);
  return beside < end ? beside : end - 1;
}

/* By its name, in which the last word of a lane is another's. */
static RengaValue ValueInLane(RengaGraph graph, RengaValue value, int from, int to)
{
  const char *name = RengaGraphGetValue(graph, value)->name, *at = NULL;
  char word[32], other[NAME_MOST];
  const int length = snprintf(word, sizeof word, ".lane%d", from);
  for (const char *next = strstr(name, word); next; next = strstr(next + 1, word))
    if (next[length] < '0' || next[length] > '9') at = next;
  if (!at) return RENGA_VALUE_NONE;
  snprintf(other, sizeof other, "%.*s.lane%d%s", (int)(at - name), name, to, at + length);
  return RengaGraphFindValue(graph, other);
}

RengaErrorCode RengaSearchPairLanes_Private(SearchChain *chain, int tensor, const int own[])
{
  RengaGraph graph = chain->graph;
  const int n_values = RengaGraphGetValueCount(graph);
  int lanes;
  RengaCall(RengaGraphGetLanes(graph, &lanes, NULL));
  if (!chain->twin) RengaCall(RengaMalloc(n_values + 1, &chain->twin));
  for (RengaValue v = 0; v < n_values; v++) chain->twin[v] = v;
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, chain->node[c]);
    const int lane = node->lane - 1;
    if (lane < 0 || RengaPlanTensorRankOfLane_Private(lanes, tensor, lane) == own[c]) continue;
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] >= 0)
        chain->twin[node->out[o]] =
            ValueInLane(graph, node->out[o], lane, LaneBeside(lanes, tensor, own[c], lane));
  }
  return RENGA_SUCCESS;
}
