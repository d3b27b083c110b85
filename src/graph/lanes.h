/* Lanes: which nodes are computed in lanes (lanes.c), and the nodes that do so (lanenodes.c). */
#pragma once
#include "graphimpl.h"
#include "renga/private/split.h"

typedef struct {
  RengaSplitWay way; /* its splits are owned */
  bool chosen, sums; /* sums: what lanes make is added up */
} RengaLaneNode;

typedef struct {
  RengaGraph graph;
  int lanes, n_nodes, n_values; /* as they were before lanes */
  RengaLaneNode *node;          /* [n_nodes] */
  RengaSplit *state;            /* [n_values] how lanes have it */
} RengaLanes;

RengaErrorCode RengaGraphMakeLanes(RengaLanes *pass);
