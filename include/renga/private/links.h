/* What planners ask of a machine's links beside their public functions. */
#pragma once
#include "rengamachine.h"

/* The node of a device; local: NULL, or its number there. */
int64_t RengaMachineNodeOf_Private(RengaMachine machine, int64_t device, int64_t *local);
/* Seconds in which a device of a group of `ranks`, the first of each `each` that lie side by side,
   whose widest level is `level`, gives the others so many bytes, to all of them together; without
   latencies. */
double RengaMachineExchangeSeconds_Private(RengaMachine machine, int level, int64_t ranks,
                                           int64_t each, double bytes);
/* How many vectors a device gives the others of its node, and a node each other one: partial sums
   that are no node of the tree together; means of all. */
typedef struct {
  double rank, node;
} RengaSumPieces;
/* RengaMachineReduceSeconds of replicas of `each` devices side by side, one of which sums. */
double RengaMachineSumSeconds_Private(RengaMachine machine, int level, int64_t replicas,
                                      int64_t each, double bytes, const RengaSumPieces *pieces);
/* Of the same, in one piece each: bytes that a device gives those of other nodes, over each level
   up to the widest; between[0] is 0. */
void RengaMachineSumBytes_Private(RengaMachine machine, int level, int64_t replicas, int64_t each,
                                  double bytes, double between[]);
/* Those of them that share a node. */
int64_t RengaMachineNodeReplicas_Private(RengaMachine machine, int level, int64_t replicas,
                                         int64_t each);
/* A machine whose devices are all of one kind of another's, with its links. */
RengaErrorCode RengaMachineCreateOfKind_Private(RengaMachine machine, int kind, RengaMachine *one);
