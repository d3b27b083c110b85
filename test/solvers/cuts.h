/* Cuts of an abstract directed acyclic graph into stages, with a proof of how good they are.

   Items do work and send messages. A stage is convex: the difference of two ideals (sets that hold
   every predecessor of their items). It runs on accelerators or on a host. On d accelerators its
   load is
       (work of its items + cost of each message with pins both in and out of it) / d
       + weight of its items * resynchronise[d],
   so that who sends and who receives both pay, once for each message whatever the number of
   receivers; where a sender pays for each receiver, the bound holds still, for it pays at least
   this. A host pays work only and has no bound on memory. What is sought is the least
   possible largest load of a stage.
   (Cost model: Tarnawski et al., "Efficient algorithms for device placement of DNN graph
   operators", NeurIPS 2020; replicas as in PipeDream, SOSP 2019.) */
#pragma once
#include "rengasys.h"

typedef struct {
  double work;      /* seconds on an accelerator */
  double host_work; /* seconds on a host */
  double memory;    /* bytes on an accelerator */
  double weight;    /* bytes that the replicas of a stage add up */
  bool host_only;   /* no accelerator can run it */
} RengaCutsItem;

typedef struct {
  int items, edges, messages;
  const RengaCutsItem *item;   /* [items] */
  const int *edge;             /* [edges][2]: from, to */
  const double *message_cost;  /* [messages] seconds */
  const int *message_first;    /* [messages + 1] where a message's pins begin */
  const int *message_pin;      /* its producer and consumers, in any order */
  int devices, hosts;          /* accelerators, and hosts, that may be used */
  double capacity;             /* bytes of an accelerator; HUGE_VAL: no bound */
  int replicas;                /* most accelerators of one stage; 0: 1 */
  const double *resynchronise; /* [replicas + 1] seconds per byte of weight; NULL: 0; HUGE_VAL: not
                                  that many replicas */
  int64_t ideal_limit;         /* ideals to remember; 0: 1.5 million, about a GiB */
} RengaCutsProblem;

typedef enum { RENGA_CUTS_OPTIMAL, RENGA_CUTS_INFEASIBLE, RENGA_CUTS_BOUNDED } RengaCutsProof;

typedef struct {
  bool host;
  int replicas;
  double load, memory; /* of one replica */
} RengaCutsStage;

typedef struct {
  RengaCutsProof proof;
  double load;  /* the largest; HUGE_VAL: no plan was found */
  double bound; /* no plan has a smaller one; HUGE_VAL: proved that there is none */
  int count;    /* of stages, in the order of the graph */
  RengaCutsStage *stage;
  int *stage_of;         /* [items] */
  int items;             /* left after merging what can be merged without loss */
  int64_t ideals, pairs; /* remembered; looked at as begin and end of a stage */
  int probes;            /* how often a bound was tried */
} RengaCutsResult;

RengaErrorCode RengaCutsSolve(const RengaCutsProblem *problem, RengaCutsResult *result);
void RengaCutsFreeResult(RengaCutsResult *result);
const char *RengaCutsProofName(RengaCutsProof proof);
/* Loads and memories of given stages, straight from the definition; those of stages that are not
   convex too. */
RengaErrorCode RengaCutsEvaluate(const RengaCutsProblem *problem, const int stage_of[], int count,
                                 RengaCutsStage stage[]);

/* Virtual stages: a device may hold any items, not only those of one convex stage. */
typedef struct {
  double load, bound; /* the largest; no assignment has a smaller one than the bound */
  int count;          /* of devices: first accelerators, then hosts */
  RengaCutsStage *device;
  int *device_of; /* [items] */
} RengaCutsSpreadResult;
/* Searches from the stages of a result, by seeded annealing that is the same on every run; steps:
   how many moves are tried, 0: 4 million. Never worse than the stages. Replicas are not
   supported. */
RengaErrorCode RengaCutsSpread(const RengaCutsProblem *problem, const RengaCutsResult *stages,
                               int64_t steps, RengaCutsSpreadResult *result);
void RengaCutsFreeSpreadResult(RengaCutsSpreadResult *result);

/* Machines in machines: a unit of level 0 is an accelerator, one of the next level is all those
   that the level below may use together, and runs a whole pipeline of its own. */
typedef struct {
  int devices;                 /* units that a pipeline of this level may use */
  const double *resynchronise; /* [devices + 1] as in the problem */
  const double *first;         /* the same for the first stage of a pipeline; NULL: no other */
} RengaCutsLevel;
/* Innermost level first. No messages, hosts or capacity; devices, replicas and resynchronise of the
   problem are not looked at. The result has the stages of the outermost level. Every pair of ideals
   is tried, so it is for graphs with few of them. */
RengaErrorCode RengaCutsSolveLevels(const RengaCutsProblem *problem, int levels,
                                    const RengaCutsLevel level[], RengaCutsResult *result);

/* A network with nodes forward and backward, of which those of one colour stay together. */
typedef struct {
  RengaCutsItem item;
  double message; /* seconds to send its result */
  int colour;
  bool backward;
} RengaCutsNode;

typedef struct {
  RengaCutsProblem problem; /* points into what follows */
  int *item_of;             /* [nodes] */
  RengaCutsItem *item;
  int *edge, *message_first, *message_pin;
  double *message_cost;
} RengaCutsColoured;

/* Makes items of colours: the order is that of the forward nodes, backward nodes follow the forward
   ones of their colour. Freed by RengaCutsFreeColoured. */
RengaErrorCode RengaCutsCreateColoured(int nodes, const RengaCutsNode node[], int edges,
                                       const int edge[], RengaCutsColoured *coloured);
void RengaCutsFreeColoured(RengaCutsColoured *coloured);

/* Stages with tensor parallelism and recomputation, in the model of Piper (Tarnawski et al.,
   NeurIPS 2021). A stage has a tensor degree t, which its items must all offer, and d replicas;
   each item runs as one of its options there. With y = ceil(sum of d of this and later stages / d)
       time = (seconds of its options + 2 * bytes over its border / bandwidth) / d
              + 4 * (d - 1) * weight / (d * batch * bandwidth)
       memory = sum of memory_each * y + memory_once <= capacity,
   d divides the batch, the sum over all stages of d is at most the batch, that of t * d at most the
   devices. What is sought is the least largest time per micro-batch of the whole batch. */
typedef struct {
  double seconds, memory_each, memory_once;
} RengaCutsOption;

typedef struct {
  int items, edges, degrees, options;
  const int *edge;               /* [edges][2] */
  const double *edge_bytes;      /* [edges] */
  const int *degree;             /* [degrees] ascending */
  const bool *offered;           /* [items][degrees] */
  const double *weight;          /* [items][degrees] bytes that replicas add up */
  const RengaCutsOption *option; /* [items][degrees][options]; 1 or 2 options */
  const double *receive_bytes;   /* [edges][degrees] more to the edge's end within its stage */
  const double *send_bytes;      /* [edges][degrees] more from the edge's begin */
  int devices, batch;
  double bandwidth, capacity;
} RengaCutsShardProblem;

typedef struct {
  int degree, replicas; /* t and d */
  double seconds, memory;
} RengaCutsShardStage;

typedef struct {
  RengaCutsProof proof;
  double seconds, bound;
  int count;
  RengaCutsShardStage *stage;
  int *stage_of, *option_of; /* [items] */
  int64_t ideals, pairs;
  int probes;
} RengaCutsShardResult;

RengaErrorCode RengaCutsSolveShards(const RengaCutsShardProblem *problem,
                                    RengaCutsShardResult *result);
void RengaCutsFreeShardResult(RengaCutsShardResult *result);
