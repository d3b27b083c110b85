/* What is known while nodes are walked backwards. */
#pragma once
#include "../reverse.h"

/* Terms of the gradient of a value that several lanes read. */
typedef struct {
  int dim,
      lanes; /* it is added up in pieces along dim, one for each lane; lanes 0: as terms come */
  RengaLaneKind kind; /* of these lanes, */
  int maker;          /* and that of the node which makes the value, in none of the kind */
  int count, room;
  RengaValue *term; /* [room] in the order in which they are added */
  int *lane, *id;   /* [room] of the nodes that read the value */
} LaneGradients;

typedef struct {
  RengaGraph graph;
  int n_forward, n_values; /* of the graph before the first gradient */
  bool *needs;             /* by value: a parameter or wanted value is behind it */
  bool *waited;            /* by value: its gradient is one that other stages or layers wait for */
  RengaValue *gradient;    /* by value: the sum so far */
  RengaValue **piece;      /* by value that lanes have made: the sums for their parts, or NULL */
  LaneGradients *lanes;    /* by value */
  bool *sent;              /* by value: its gradient is wanted as a whole */
  bool open;               /* the graph has a batch */
} ReverseWalk;

/* ---- accumulate.c ---- */
/* dx: a term of the gradient of the node's input. */
RengaErrorCode RengaReverseAccumulate(ReverseWalk *walk, const RengaGraphNode *node, int input,
                                      RengaValue dx);
/* The gradient of what the node puts together has been cut. */
RengaErrorCode RengaReverseGiveCut(ReverseWalk *walk, const RengaGraphNode *node);
bool RengaReverseIsJoinOfLanes(const ReverseWalk *walk, RengaValue value);
/* ---- lanegradients.c ---- */
RengaDataType RengaReverseTypeOfSum(const ReverseWalk *walk, RengaValue value);
RengaErrorCode RengaReverseKeepTerm(ReverseWalk *walk, const RengaGraphNode *node, int input,
                                    RengaValue term);
RengaErrorCode RengaReverseFinish(ReverseWalk *walk, RengaValue value);
/* ---- lanereaders.c ---- */
RengaErrorCode RengaReverseFindLaneReaders(ReverseWalk *walk);
RengaErrorCode RengaReverseGiveToTerms(ReverseWalk *walk, const RengaGraphNode *node, bool *given);
