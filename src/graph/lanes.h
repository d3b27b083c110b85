/* Lanes: which nodes are computed in lanes (lanes.c: chains, lanevocabulary.c: output layers and
   losses, lanetables.c: tables of embeddings, tokenlanes.c: tokens), by wish (splitoption.c)
   too, and the nodes that do so (lanenodes.c). */
#pragma once
#include "graphimpl.h"
#include "renga/private/split.h"

typedef struct {
  RengaSplitWay way; /* its splits are owned */
  bool chosen, sums; /* sums: some of what lanes make is added up */
  bool exact;        /* all but one of the terms that are added are zeros */
  bool loss;         /* a cross-entropy whose scores are in lanes by their classes */
  bool joined;       /* its output is put together, too: nobody may read that */
} RengaLaneNode;

/* What -graph_split says of a node: not in lanes, in lanes, as a product by columns or rows. */
typedef enum {
  RENGA_LANE_FREE,
  RENGA_LANE_WHOLE,
  RENGA_LANE_ANYHOW,
  RENGA_LANE_COLUMNS,
  RENGA_LANE_ROWS
} RengaLaneWish;

typedef struct {
  RengaGraph graph;
  const char *word;             /* in names of nodes, before the lane's number */
  int lanes, n_nodes, n_values; /* as they were before lanes */
  RengaLaneNode *node;          /* [n_nodes] */
  RengaLaneWish *wish;          /* [n_nodes] */
  int64_t *few;                 /* [n_nodes] units of its chain, left as they are fewer; else 0 */
  RengaSplit *state;            /* [n_values] how lanes have it */
  bool tokens;                  /* lanes are of tokens: all read whole parameters */
  bool *joined;                 /* tokens: [n_values] it is read as a whole, too */
} RengaLanes;

static inline RengaLaneKind RengaGraphLaneKind(const RengaLanes *pass)
{
  return pass->tokens ? RENGA_LANES_OF_TOKENS : RENGA_LANES_OF_HEADS;
}
/* A lane of the pass, of what is in this one of the other kind already, or in none. */
static inline int RengaGraphInLane(const RengaLanes *pass, int other, int lane)
{
  return other | RengaLaneMake(RengaGraphLaneKind(pass), lane);
}
RengaErrorCode RengaGraphMergeSlices(RengaGraph graph);
RengaErrorCode RengaGraphFindVocabulary(RengaLanes *pass);
RengaErrorCode RengaGraphFindTables(RengaLanes *pass);
RengaErrorCode RengaGraphJoinOutput(RengaLanes *pass, int at, const RengaValue part[]);
/* Output o of the node, of what lanes have made of it. */
RengaErrorCode RengaGraphJoinParts(RengaLanes *pass, const RengaGraphNode *node, int o,
                                   const RengaValue part[]);
/* rowlanes.c: whether input i of the way is read in windows, along rows that lanes have as the
   state says; and what each lane reads in its window. part: what they have; NULL: it is whole. */
bool RengaGraphHasRows(const RengaSplitWay *way, int i, const RengaSplit *state);
RengaErrorCode RengaGraphTakeWindows(RengaLanes *pass, const RengaGraphNode *node,
                                     const RengaSplitWay *way, int i, const RengaSplit *state,
                                     const RengaValue part[], RengaValue in[]);
/* rowresize.c: gathers and products with constants that resize images. Which way lanes have of the
   node, in NULL: none; false: it is no such node; lanes' own parts of the constant. */
RengaErrorCode RengaGraphTakeResize(RengaLanes *pass, int at, RengaSplitWay *way);
bool RengaGraphResizeWindow(RengaLanes *pass, const RengaGraphNode *node, int lane, int64_t *first,
                            int64_t *count);
RengaErrorCode RengaGraphCutResize(RengaLanes *pass, const RengaGraphNode *node,
                                   const RengaSplitWay *way, RengaValue in[]);
/* rownorm.c: in[l * 5 + 3] and on become the mean and the variance of the batch, of what lanes have
   of theirs. */
RengaErrorCode RengaGraphLeaveStatisticsOut(RengaGraph graph);
RengaErrorCode RengaGraphJoinStatistics(RengaLanes *pass, const RengaGraphNode *node,
                                        const RengaSplitWay *way, RengaValue in[]);
RengaErrorCode RengaGraphReplaceLoss(RengaLanes *pass, int at, const RengaValue part[]);
RengaErrorCode RengaGraphMakeLanes(RengaLanes *pass);
bool RengaGraphIsOfParameters(RengaGraph graph, RengaValue value);
/* lanesums.c: out becomes the sum of term[lanes], which lanes make of the node; exact: all but one
   of these are zeros. */
RengaErrorCode RengaGraphSumLanes(RengaLanes *pass, const RengaGraphNode *node, bool exact,
                                  const RengaValue term[], RengaValue out);
RengaErrorCode RengaGraphReadLaneWishes(RengaGraph graph);
RengaErrorCode RengaGraphTakeLaneWishes(RengaLanes *pass);
RengaErrorCode RengaGraphCheckLaneWishes(const RengaLanes *pass);
bool RengaLaneAllows(RengaLaneWish wish, bool sums);
