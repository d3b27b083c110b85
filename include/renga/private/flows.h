/* Transfers that share links, each at a fair rate. */
#pragma once
#include "rengasys.h"

/* Where a flow goes over a link: load is the bytes on it for each byte of one of its senders. */
typedef struct RengaFlowHop {
  int link;
  double load;
  struct RengaFlow *flow;               /* whose it is */
  struct RengaFlowHop *next, *previous; /* others on the link */
} RengaFlowHop;

/* A message, or all messages of a sum, whose senders go at one rate. */
typedef struct RengaFlow {
  double left, rate, since; /* bytes of a sender; bytes/s; time at which so much was left */
  double most;              /* bytes/s of a sender that has all links to itself */
  double weight;            /* messages of a sender at a time: links are shared by messages */
  int n_hops;
  RengaFlowHop *hop; /* [n_hops] */
  int64_t number;    /* the caller's */
  int64_t version;   /* of its rate */
  int mark;          /* of the last look for neighbours */
} RengaFlow;

/* Links and who is on them. */
typedef struct {
  int n_links;
  double *capacity;     /* [n_links] bytes/s */
  double *room, *share; /* [n_links] while rates are found */
  RengaFlowHop **first; /* [n_links] */
  int *seen;            /* [n_links] */
  int mark, n_near, n_reached;
  int64_t most_near;
  RengaFlow **near; /* [most_near] flows whose rates may change */
  int *reached;     /* [n_links] links of these */
} RengaFlows;

/* All links without a flow; capacities are set by who creates them. */
RengaErrorCode RengaFlowsCreate_Private(int n_links, RengaFlows *flows);
void RengaFlowsDestroy_Private(RengaFlows *flows);
/* A flow begins, or ends, at a time; near[0 … n_near) are then the flows whose rates are new. */
RengaErrorCode RengaFlowsBegin_Private(RengaFlows *flows, RengaFlow *flow, double now);
RengaErrorCode RengaFlowsEnd_Private(RengaFlows *flows, RengaFlow *flow, double now);
