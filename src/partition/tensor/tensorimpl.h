/* What the files that predict layouts with tensor ranks share. */
#pragma once
#include "renga/private/split.h"
#include "renga/private/width.h"
#include "rengapartition.h"

enum {
  TENSOR_SPLITS = RENGA_WIDTH_STATES - 1, /* of a value; then comes "whole, its gradient a sum" */
  TENSOR_TEXT = 1024,
  TENSOR_ARITY = 16 /* inputs and outputs of a node; what has more is computed whole */
};

/* Nodes [first, first + period * count) are count layers that are alike. */
typedef struct {
  int first, period, count; /* count 0: no layers */
} TensorRepeat;
RengaErrorCode RengaTensorFindRepeat_Private(RengaGraph graph, TensorRepeat *repeat);

/* saved.c: saved[v]: backward reads v, or what shows its memory. */
RengaErrorCode RengaTensorFindSaved_Private(RengaGraph graph, bool saved[]);

/* What is asked of a stage. */
typedef struct {
  RengaGraph graph;
  RengaProfile profile;
  RengaMachine machine;
  TensorRepeat repeat;
  const bool *saved;            /* [values] */
  const RengaValue *map;        /* [values] what stands for it; filled where choices are made */
  const RengaProfileCost *cost; /* [nodes] of the micro-batch, on one device */
  int ranks, layers;            /* tensor ranks; layers of the stage */
  int64_t samples, rounds;      /* of a micro-batch; micro-batches of a step on a replica */
  double flight;                /* micro-batches that are kept at a time */
  int64_t resident, bound;      /* bytes of an element of a parameter; of the stage */
  RengaRecompute recompute;
  RengaTensorSplit split;
} TensorStage;

/* What stands before the layers, a layer, and what stands behind: all in the first part where
   there are no layers. */
typedef enum { TENSOR_BEFORE, TENSOR_LAYER, TENSOR_BEHIND, TENSOR_PARTS } TensorPartKind;
/* Of one micro-batch on one rank. */
typedef struct {
  double forward, backward, again; /* seconds; again: of what is recomputed, within backward */
  double exchange;                 /* seconds of collectives, within both */
  int64_t elements;                /* of parameters */
  int64_t saved, held, working; /* bytes kept for backward; that it reads, made again or not; of the
                                   largest node, with gradients */
  int64_t sent;                 /* bytes of what the next part reads, on this rank */
  int64_t whole_sent;           /* of all ranks */
} TensorPart;
typedef struct {
  TensorPart part[TENSOR_PARTS];
  int64_t least;            /* bytes: where none is within the bound, the least that were found */
  int64_t tied;             /* elements in both of the outer parts */
  bool proved;              /* no choice takes less */
  char chosen[TENSOR_TEXT]; /* how factors of products are had: of a layer, and beside the layers */
} TensorCosts;
/* problem.c: the choice of least seconds within the bound, and what it costs. fits false: no
   choice is within it. */
RengaErrorCode RengaTensorChoose_Private(const TensorStage *stage, bool *fits, TensorCosts *costs);

/* ways.c: how values may be had, and nodes be computed. */
typedef struct {
  int count;
  RengaSplit split[TENSOR_SPLITS];
} TensorStates;
typedef struct {
  RengaOpCall call;
  RengaTensorSpec spec[TENSOR_ARITY];
  const RengaGraphNode *node;
} TensorCall;
typedef struct {
  const TensorStage *stage;
  TensorStates *state; /* [values] */
} TensorTable;
typedef RengaErrorCode (*TensorVisitor)(void *user, const TensorCall *made,
                                        const RengaSplitWay *way);
bool RengaTensorMakeCall_Private(const TensorStage *stage, int node, TensorCall *made);
/* RENGA_VALUE_NONE where absent. */
int RengaTensorValueAt_Private(const TensorStage *stage, const RengaGraphNode *node, int tensor);
int RengaTensorFindSplit_Private(const TensorStates *states, const RengaSplit *split);
RengaErrorCode RengaTensorVisitWays_Private(const TensorTable *table, int node, TensorVisitor visit,
                                            void *user);
/* All states that the nodes' ways have, until there are no more. */
RengaErrorCode RengaTensorCloseStates_Private(const TensorTable *table, int count,
                                              const int nodes[]);

/* price.c */
typedef struct {
  double forward, backward, again;
} TensorSeconds;
/* way NULL: each rank computes the whole. */
RengaErrorCode RengaTensorPriceWay_Private(const TensorStage *stage, const TensorCall *made,
                                           const RengaSplitWay *way, TensorSeconds *seconds);
/* From a split to another, forward and for the gradient; to NULL: whole, and its gradient is a sum
   over ranks. Negative forward: impossible. */
TensorSeconds RengaTensorPriceConversion_Private(const TensorStage *stage, RengaValue value,
                                                 const RengaSplit *from, const RengaSplit *to);
int64_t RengaTensorBytesOf_Private(const TensorStage *stage, RengaValue value,
                                   const RengaSplit *split);
/* Seconds in which each of so many ranks, stride apart, gives its part of so many bytes to all. */
double RengaTensorGatherSeconds_Private(RengaMachine machine, int64_t stride, int64_t ranks,
                                        double bytes);

/* build.c: the problem of src/partition/split. A node of it is a node of the network, or brings in
   a value that none makes. */
typedef struct {
  int node, source; /* one of them is -1 */
  TensorPartKind part;
  double weight; /* layers for which it stands */
  int layer;     /* of part TENSOR_LAYER */
} TensorItem;
typedef struct {
  TensorSeconds seconds;         /* of one layer */
  int64_t elements, saved, held; /* of parameters; bytes of a micro-batch, as of a part */
  int64_t working;               /* bytes of what it reads and makes */
} TensorRow;
typedef struct {
  TensorTable table;
  int values, n_items, n_rows, n_needs, inputs, outputs;
  TensorItem *item;
  TensorRow *row;
  int *states, *first_in, *in, *first_out, *out, *first_way, *first_need, *need, *first_convert;
  double *seconds, *convert;
  int64_t *bytes;
  double *weight; /* [values] of its maker */
  bool *factor;   /* [values] a product reads it */
} TensorProblem;
/* shown: layers that are in it; what lies between the first and the last stands for the others. */
RengaErrorCode RengaTensorBuild_Private(const TensorStage *stage, int shown,
                                        TensorProblem *problem);
void RengaTensorFreeProblem_Private(TensorProblem *problem);
