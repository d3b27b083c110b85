/* A program while it is laid out: which nodes run where, and which values share memory. */
#pragma once
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
  ProgramPart home;
  int first, last; /* positions in the home part */
  int later;       /* of what a later part uses: position of the last use there, see LaterAt */
  int64_t bytes;
} Storage;

typedef struct {
  Chunk *chunk;
  Program *program;
  int n_nodes, n_values;
  bool *constant;         /* [nodes] depends on constants only */
  bool *needed;           /* [values] */
  ProgramPart *part;      /* [nodes] */
  int *position;          /* [nodes] in its part */
  int length[PART_COUNT]; /* nodes of each part */
  int *kernel;            /* [nodes] number, -1: none */
  bool *view;             /* [nodes] a reshape whose output is its input's memory */
  bool *again;            /* [nodes] of forward: run again before backward */
  RengaValue *parent;     /* [values] towards the root */
  Storage *storage;       /* [values] of roots */
  Place *workspace;       /* [nodes] */
  int n_moves;
  Move *move;
} Layout;

static inline const RengaGraphNode *LayoutNode(const Layout *layout, int node)
{
  return RengaGraphGetNode(layout->chunk->sub, node);
}
static inline int64_t LayoutBytes(const Layout *layout, RengaValue value)
{
  return (int64_t)RengaTensorSpecBytes(&layout->program->spec[value]);
}
static inline RengaValue LayoutRoot(const Layout *layout, RengaValue value)
{
  while (layout->parent[value] != value) value = layout->parent[value];
  return value;
}
/* Not made by the program. */
static inline bool LayoutIsGiven(const Layout *layout, RengaValue value)
{
  return layout->chunk->value_place[value].region != REGION_ABSENT;
}
/* The part that makes a value; NONE for what is given, and for no value. */
static inline ProgramPart LayoutPartOf(const Layout *layout, RengaValue value)
{
  if (value == RENGA_VALUE_NONE) return PART_NONE;
  const int producer = RengaGraphGetValue(layout->chunk->sub, value)->producer;
  return producer < 0 || LayoutIsGiven(layout, value) ? PART_NONE : layout->part[producer];
}
/* The values that the program must make, each once or more; count is set, values may be NULL. */
RengaErrorCode RengaLayoutWanted_Private(const Layout *layout, int *count, RengaValue values[]);
RengaErrorCode RengaLayoutChoose_Private(Layout *layout); /* needed, part, position, kernel */
RengaErrorCode
RengaLayoutPlace_Private(Layout *layout); /* program->place, sizes, workspace, moves */
/* saved.c: what is kept of forward, before places are; what is made again, after them. */
RengaErrorCode RengaLayoutMarkKept_Private(Layout *layout);
RengaErrorCode RengaLayoutChooseAgain_Private(Layout *layout);
RengaErrorCode RengaLayoutEmit_Private(Layout *layout); /* the instructions */
/* The part that fills a place outside: gradients of parameters come last. */
ProgramPart RengaLayoutFills_Private(const Layout *layout, Place to);
