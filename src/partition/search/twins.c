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

/* Of a kind, the lane of rank `own` that has the same number among its lanes, from 0 on. */
static int LaneBeside(int lanes, int ranks, int own, int lane)
{
  const int rank = RengaPlanRankOfLane_Private(lanes, ranks, lane);
  const int first = (int)((int64_t)own * lanes / ranks);
  const int end = (int)((int64_t)(own + 1) * lanes / ranks);
  const int beside = first + lane - (int)((int64_t)rank * lanes / ranks);
  return beside < end ? beside : end - 1;
}

/* By its name, in which the last word of a lane is another's. */
static RengaValue ValueInLane(RengaGraph graph, RengaValue value, const char *kind, int from,
                              int to)
{
  const char *name = RengaGraphGetValue(graph, value)->name, *at = NULL;
  char word[32], other[NAME_MOST];
  const int length = snprintf(word, sizeof word, ".%s%d", kind, from);
  for (const char *next = strstr(name, word); next; next = strstr(next + 1, word))
    if (next[length] < '0' || next[length] > '9') at = next;
  if (!at) return RENGA_VALUE_NONE;
  snprintf(other, sizeof other, "%.*s.%s%d%s", (int)(at - name), name, kind, to, at + length);
  return RengaGraphFindValue(graph, other);
}

/* The value in the lanes of rank `own` of the group. */
static RengaValue ValueOfRank(RengaGraph graph, RengaValue value, const RengaLaneGroup *group,
                              int own, int lane)
{
  const bool both =
      group->lanes[RENGA_LANES_OF_HEADS] > 1 && group->lanes[RENGA_LANES_OF_TOKENS] > 1;
  const int rank = RengaLaneGroupRank_Private(group, own);
  for (int k = RENGA_LANE_KINDS - 1; k >= 0 && value >= 0; k--) {
    const int from = RengaLaneNumber(lane, (RengaLaneKind)k);
    const int wanted = RengaLaneNumber(rank, (RengaLaneKind)k);
    if (from < 0 || wanted < 0) continue;
    const int to = LaneBeside(group->lanes[k], group->ranks[k], wanted, from);
    if (to != from)
      value = ValueInLane(graph, value, both && k == RENGA_LANES_OF_TOKENS ? "tokens" : "lane",
                          from, to);
  }
  return value;
}

RengaErrorCode RengaSearchPairLanes_Private(SearchChain *chain, const RengaLaneGroup *group,
                                            const int own[])
{
  RengaGraph graph = chain->graph;
  const int n_values = RengaGraphGetValueCount(graph);
  if (!chain->twin) RengaCall(RengaMalloc(n_values + 1, &chain->twin));
  for (RengaValue v = 0; v < n_values; v++) chain->twin[v] = v;
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, chain->node[c]);
    if (RengaLaneCovers(RengaLaneGroupHas_Private(group, node->lane),
                        RengaLaneGroupRank_Private(group, own[c])))
      continue;
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] >= 0)
        chain->twin[node->out[o]] = ValueOfRank(graph, node->out[o], group, own[c], node->lane);
  }
  return RENGA_SUCCESS;
}
