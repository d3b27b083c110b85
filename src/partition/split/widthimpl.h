/* What the files of this room share: the places of a problem, their states, and arcs between them.

   After a node some values are live: made, and needed by a later node. How each was made and into
   which states it was converted, as far as later nodes may need them, is a state of the place. A
   way of the next node is an arc to a state of the next place. Every choice is a path, and every
   path a choice, unless states were left out. */
#pragma once
#include "renga/private/width.h"

typedef struct {
  int from, to, way; /* states, numbered through all places; way: number through all nodes */
  double seconds;    /* of the way and of the conversions before it */
} WidthArc;

typedef struct {
  const RengaWidthProblem *problem;
  bool cut;           /* states were left out */
  int n_states;       /* of all places; state 0 is the first, alone in its place */
  int64_t n_arcs;     /* in order of places */
  int64_t *first_arc; /* [nodes + 1] arcs of each node */
  int *first_state;   /* [nodes + 2] states of each place */
  WidthArc *arc;
  double *gone;   /* [states] least seconds from the first state, as they are found */
  double price;   /* seconds for a byte */
  double *rest;   /* [states] least seconds and priced bytes to the end */
  int64_t *least; /* [states] least bytes to the end */
  double bound;   /* proved */
  double seconds; /* of the best choice so far */
  int *way;       /* [nodes] it, numbered through all nodes */
} WidthSearch;

/* Seconds that are the same but for rounding. */
static const double width_precision = 1e-12;

/* ---- places.c ---- */
RengaErrorCode RengaWidthFindPlaces_Private(WidthSearch *search, int state_limit);
/* ---- price.c ---- */
/* The price that gives the best bound, with first choices; *least: the fewest bytes of a path. */
RengaErrorCode RengaWidthFindPrice_Private(WidthSearch *search, int64_t *least);
/* ---- front.c ---- */
RengaErrorCode RengaWidthLookAtAll_Private(WidthSearch *search, int64_t limit, int64_t *points,
                                           bool *all);
