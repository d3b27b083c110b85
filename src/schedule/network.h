/* A machine's network as links of flows, and what a plan sends over it. */
#pragma once
#include "renga/private/flows.h"
#include "rengamachine.h"
#include "scheduleimpl.h"

enum { MESSAGE_HOPS = 4 }; /* a card, the uplinks of two switches, a card */

/* A message under way. */
typedef struct {
  RengaFlow flow;
  RengaFlowHop hop[MESSAGE_HOPS];
  int64_t place; /* [message][micro-batch] */
} NetworkMessage;

/* The sum of a bucket of a stage: the devices of all replicas at once. */
enum { SUM_FLOWS = 2 }; /* under the switch, and to others */
typedef struct {
  RengaFlow flow[SUM_FLOWS]; /* one bucket at a time */
  double bytes[SUM_FLOWS];   /* that a device gives those of other nodes, of a bucket */
  double within;             /* seconds of a bucket in nodes: exchanges, additions, latencies */
  int buckets, under_way;    /* how many there are; flows of one that are not there yet */
  bool early;                /* buckets begin within the last backward */
} StageSum;

/* What a replica of a stage gives the others within actions, for each second of it that the plan
   says. */
typedef struct {
  RengaFlow flow[SUM_FLOWS];
  double bytes[SUM_FLOWS], within; /* of a device to those of other nodes; seconds in nodes */
  int under_way;
} SeatExchange;

typedef struct {
  RengaPlan plan;
  RengaMachine machine;
  const RengaMachineNetwork *network;
  const RengaScheduleDisturbance *disturbance;
  int64_t devices, nodes; /* of a node; nodes that the plan uses */
  RengaFlows flows;
} StepNetwork;

/* What can be simulated so. */
RengaErrorCode RengaStepNetworkCheck_Private(RengaSchedule schedule, RengaPlan plan);
RengaErrorCode RengaStepNetworkCreate_Private(RengaPlan plan, RengaMachine machine,
                                              const RengaScheduleDisturbance *disturbance,
                                              StepNetwork *network);
void RengaStepNetworkDestroy_Private(StepNetwork *network);
/* Of number n of those that compute a replica together. */
int64_t RengaStepNetworkDevice_Private(const StepNetwork *network, int stage, int replica, int n);
/* From a device to another, whose bytes are filled in; latency: seconds until it leaves. */
void RengaStepNetworkRoute_Private(StepNetwork *network, int64_t from, int64_t to,
                                   NetworkMessage *transfer, double *latency);
/* Of the stage's sums, which the plan says the seconds of; and gives what it holds back. */
RengaErrorCode RengaStepNetworkSum_Private(StepNetwork *network, int stage, StageSum *sum);
void RengaStepNetworkFreeSum_Private(StageSum *sum);
/* Of a replica of a stage; and gives what it holds back. */
RengaErrorCode RengaStepNetworkExchange_Private(StepNetwork *network, int stage, int replica,
                                                SeatExchange *exchange);
void RengaStepNetworkFreeExchange_Private(SeatExchange *exchange);
/* How many times as long a rank of this seat takes. */
double RengaStepNetworkPace_Private(const StepNetwork *network, int stage, int replica);
