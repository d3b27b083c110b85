/* A program while it is laid out: which nodes run where, and which values share memory. */
#pragma once
#include "exchange.h"
#include "pipelineimpl.h"

/* A copy, or a sum, in the part that fills the place: right after the value is made if that is
   there, else at its end; a value that must also lie at a place of its own. */
typedef struct {
  RengaValue value; /* NONE: zeros */
  Place to;
  int64_t bytes;
} Move;

/* Values that share memory form a storage, known by one of them: its root. */
typedef struct {
  Place claim; /* where it must lie; region ABSENT: anywhere */
  bool saved;  /* needed after its part: by a later one, or by a send */
  bool own;    /* must not be a view of what the program does not make */
  bool kept;   /* a stage that recomputes does not make it again */
  bool again;  /* it is what such a stage makes again: a claim would come too late */
  ProgramPart home;
  int first, last; /* positions in the home part */
  int later;       /* of what a later part uses: position of the last use there, see LaterAt */
  int64_t bytes;
} Storage;

/* A node that is run, in order. What a stage makes again is a node's second step. */
typedef struct {
  int node;
  bool again;
  bool resent;      /* it is not run: others of the tensor group get again what its lane keeps */
  ProgramPart part; /* in which its outputs live; it has a position there */
  ProgramPart runs; /* that part, or before it AGAIN */
  int position;
  int ready;     /* of an exchange: position behind which it may start, with what it takes */
  bool view;     /* a reshape whose output is its input's memory */
  bool exchange; /* the node has run, here or on another rank of the tensor group: the group gets
                    what others need of it; those of one exchange have one position */
  Place workspace;
} Step;

typedef struct {
  Chunk *chunk;
  Program *program;
  bool beside;            /* backward does what it can beside exchanges of a tensor group */
  ProgramShapes *shapes;  /* lent by the chunk */
  int n_nodes, n_values;  /* that the program knows */
  int n_storages;         /* values, and where it trains their copies */
  bool *needed;           /* [values] */
  ProgramPart *part;      /* [nodes] */
  int length[PART_COUNT]; /* steps of each part */
  bool *again;            /* [nodes] of forward: run again for backward */
  bool *copied;           /* [values] of forward: backward reads the copy that is made again, */
  bool *resent;           /* [values] or sent again by the rank whose lane has kept it */
  int *receiver;          /* [storages] made by a lane: the ranks of the group that
                             need it beside the lane's own, or RENGA_TENSOR_NONE */
  int n_steps;
  Step *step;         /* each twice, and the exchanges of these */
  RengaValue *parent; /* [storages] towards the root */
  Storage *storage;   /* [storages] of roots */
  int n_moves;
  Move *move;
} Layout;

static inline const RengaGraphRow *LayoutNode(const Layout *layout, int node)
{
  return &layout->shapes->rows->node[node];
}
/* Of a value, or of the copy of one. */
static inline RengaValue LayoutOriginal(const Layout *layout, RengaValue value)
{
  return value < layout->n_values ? value : value - layout->n_values;
}
static inline int64_t LayoutBytes(const Layout *layout, RengaValue value)
{
  return layout->shapes->bytes[LayoutOriginal(layout, value)];
}
static inline RengaValue LayoutRoot(const Layout *layout, RengaValue value)
{
  while (layout->parent[value] != value) value = layout->parent[value];
  return value;
}
/* Not made by the program. */
static inline bool LayoutIsGiven(const Layout *layout, RengaValue value)
{
  return value < layout->n_values && layout->chunk->value_place[value].region != REGION_ABSENT;
}
/* What a part reads as the value: behind forward that may be a copy. */
static inline RengaValue LayoutRead(const Layout *layout, ProgramPart part, RengaValue value)
{
  const bool copy = part > PART_FORWARD && value != RENGA_VALUE_NONE &&
                    (layout->copied[value] || layout->resent[value]);
  return copy ? value + layout->n_values : value;
}
static inline RengaValue LayoutIn(const Layout *layout, const Step *step, int i)
{
  return LayoutRead(layout, step->part, LayoutNode(layout, step->node)->in[i]);
}
static inline RengaValue LayoutOut(const Layout *layout, const Step *step, int o)
{
  const RengaValue value = LayoutNode(layout, step->node)->out[o];
  return step->again && value != RENGA_VALUE_NONE ? value + layout->n_values : value;
}
static inline int LayoutMaker(const Layout *layout, RengaValue value)
{
  return layout->shapes->rows->source[LayoutOriginal(layout, value)].producer;
}
/* The part that makes a value; NONE for what is given, and for no value. */
static inline ProgramPart LayoutPartOf(const Layout *layout, RengaValue value)
{
  if (value == RENGA_VALUE_NONE) return PART_NONE;
  const int producer = LayoutMaker(layout, value);
  return producer < 0 || LayoutIsGiven(layout, value) ? PART_NONE : layout->part[producer];
}
/* The part that fills a place outside with the value: gradients of parameters come last. A gradient
   of rows is there as soon as it is made, so that its part fills the slot. */
static inline ProgramPart LayoutFills(const Layout *layout, RengaValue value, Place to)
{
  const bool last = to.region == REGION_GRADIENTS ||
                    (to.region == REGION_ROWS && LayoutPartOf(layout, value) == PART_WEIGHT);
  return last && layout->chunk->memory->lag > 0 ? PART_WEIGHT : PART_BACKWARD;
}
/* The values that the program must make, each once or more; count is set, values may be NULL. */
RengaErrorCode RengaLayoutWanted_Private(const Layout *layout, int *count, RengaValue values[]);
RengaErrorCode RengaLayoutChoose_Private(Layout *layout); /* needed, part, and kernels of nodes */
RengaErrorCode RengaLayoutPlace_Private(Layout *layout);  /* steps, program->place, sizes, moves */
/* savedactivations.c: what is kept of forward; once it is known where forward's values lie, what
   is made again. */
RengaErrorCode RengaLayoutMarkKept_Private(Layout *layout);
RengaErrorCode RengaLayoutChooseRecomputed_Private(Layout *layout);
/* recompute.c */
RengaErrorCode RengaLayoutListForward_Private(Layout *layout);
RengaErrorCode RengaLayoutListBackward_Private(Layout *layout);
RengaErrorCode RengaLayoutEmit_Private(Layout *layout); /* the instructions */
/* tensor.c: of a stage that several tensor ranks compute. */
static inline bool LayoutIsExchanged(const Layout *layout, RengaValue value)
{
  return value != RENGA_VALUE_NONE && layout->receiver[value] != RENGA_TENSOR_NONE;
}
/* This rank needs what another one makes. */
static inline bool LayoutReceives(const Layout *layout, RengaValue value)
{
  return LayoutIsExchanged(layout, value) &&
         RengaLaneCovers(layout->receiver[value], RengaChunkAlone_Private(layout->chunk));
}
/* The ranks of the group that run a node. What is worked out once, or for the prologue, all do. */
static inline int LayoutOwner(const Layout *layout, int node)
{
  if (layout->shapes->constant[node] || layout->program->kind == PROGRAM_PROLOGUE)
    return RENGA_TENSOR_ALL;
  return layout->shapes->owner[node];
}
static inline bool LayoutIsElsewhere(const Layout *layout, int node)
{
  return !RengaLaneCovers(LayoutOwner(layout, node), RengaChunkAlone_Private(layout->chunk));
}
RengaErrorCode RengaLayoutFindExchanged_Private(Layout *layout);         /* again, receiver */
RengaErrorCode RengaLayoutShareSteps_Private(Layout *layout, int first); /* those from it on */
