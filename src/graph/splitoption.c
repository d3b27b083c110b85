/* -graph_split: which nodes are to be in lanes, and how, by patterns of their names. Columns:
   what lanes make are parts (columns, heads); rows: it is added up. */
#include "lanes.h"
#include "renga/private/pattern.h"
#include <string.h>

static const char *const hows[] = {
    [RENGA_LANE_FREE] = NULL,         [RENGA_LANE_WHOLE] = "whole", [RENGA_LANE_ANYHOW] = "lanes",
    [RENGA_LANE_COLUMNS] = "columns", [RENGA_LANE_ROWS] = "rows",
};
enum { HOWS = sizeof hows / sizeof hows[0], LONGEST = 512 };

static RengaErrorCode ReadHow(RengaGraph graph, char pattern[], RengaLaneWish *wish)
{
  char *how = strrchr(pattern, ':');
  *wish = RENGA_LANE_FREE;
  for (int h = RENGA_LANE_WHOLE; how && h < HOWS; h++)
    if (strcmp(how + 1, hows[h]) == 0) *wish = (RengaLaneWish)h;
  RengaCheck(*wish != RENGA_LANE_FREE && how != pattern, graph->hdr.comm, RENGA_ERR_OPTION,
             "-graph_split: \"%s\" is no PATTERN:HOW, where HOW is whole, lanes, columns or "
             "rows",
             pattern);
  *how = '\0';
  return RENGA_SUCCESS;
}

/* The first pattern that fits a node decides. */
RengaErrorCode RengaGraphReadLaneWishes(RengaGraph graph)
{
  const char *list = graph->options.split;
  char pattern[RENGA_GRAPH_PATTERN];
  RengaCheck(!list || strlen(list) < LONGEST, graph->hdr.comm, RENGA_ERR_OPTION,
             "-graph_split: %zu characters are more than %d: name several nodes by one pattern",
             list ? strlen(list) : 0, LONGEST - 1);
  while (list && RengaGraphNextPattern(&list, pattern)) {
    RengaLaneWish wish;
    bool fits = false;
    RengaCall(ReadHow(graph, pattern, &wish));
    for (int i = 0; i < graph->n_nodes; i++) {
      if (!RengaIsMatch(pattern, RengaGraphEntryNode(graph, i)->name)) continue;
      fits = true;
      if (graph->entry[i]->wish == RENGA_LANE_FREE) graph->entry[i]->wish = wish;
    }
    RengaCheck(fits, graph->hdr.comm, RENGA_ERR_OPTION,
               "-graph_split: \"%s\" fits no node of the network", pattern);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphTakeLaneWishes(RengaLanes *pass)
{
  RengaCall(RengaGraphScratch(pass->graph, pass->n_nodes, &pass->wish));
  RengaCall(RengaGraphScratch(pass->graph, pass->n_nodes, &pass->few));
  for (int i = 0; i < pass->n_nodes; i++)
    pass->wish[i] = (RengaLaneWish)pass->graph->entry[i]->wish;
  return RENGA_SUCCESS;
}

bool RengaLaneAllows(RengaLaneWish wish, bool sums)
{
  return wish == RENGA_LANE_FREE || wish == RENGA_LANE_ANYHOW ||
         wish == (sums ? RENGA_LANE_ROWS : RENGA_LANE_COLUMNS);
}

/* What was asked for has come about. */
RengaErrorCode RengaGraphCheckLaneWishes(const RengaLanes *pass)
{
  for (int i = 0; i < pass->n_nodes; i++) {
    const RengaLaneWish wish = pass->wish[i];
    const RengaGraphNode *node = RengaGraphEntryNode(pass->graph, i);
    if (wish == RENGA_LANE_FREE || wish == RENGA_LANE_WHOLE) continue;
    if (pass->node[i].chosen || pass->node[i].loss) continue;
    RengaCheck(pass->lanes > 1, pass->graph->hdr.comm, RENGA_ERR_OPTION,
               "-graph_split: node \"%s\" is to be computed in lanes (%s), but the network has "
               "one: give -graph_lanes 2 or more",
               node->name, hows[wish]);
    RengaCheck(pass->few[i] == 0, pass->graph->hdr.comm, RENGA_ERR_OPTION,
               "-graph_split: node \"%s\" (%s) cannot be computed in lanes (%s): its chain has "
               "%lld heads, columns or experts, fewer than %d lanes: give fewer -graph_lanes",
               node->name, node->op->name, hows[wish], (long long)pass->few[i], pass->lanes);
    RengaCheck(false, pass->graph->hdr.comm, RENGA_ERR_OPTION,
               "-graph_split: node \"%s\" (%s) cannot be computed in lanes so (%s): no chain "
               "that leads from columns or heads to rows has it so",
               node->name, node->op->name, hows[wish]);
  }
  return RENGA_SUCCESS;
}
