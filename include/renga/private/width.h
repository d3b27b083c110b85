/* In which way each node of a stage is computed by the ranks that share its width, with a proof of
   how good the choice is.

   Nodes are run in order. A node makes and needs its values in certain states (whole, split in some
   manner, a sum over ranks), which ones its way says; a way has a price in seconds and bytes. A
   value that is needed in another state than the one in which it was made is converted, once for
   each such state, which takes seconds. What is sought is the least sum of seconds with bytes
   within a bound. Nothing here knows networks: src/op/split says what ways an operator has. */
#pragma once
#include "rengasys.h"

enum { RENGA_WIDTH_STATES = 24 }; /* the most of a value */

typedef struct {
  int nodes, values;
  const int *states;     /* [values] in which it may be; 1 … RENGA_WIDTH_STATES */
  const int *first_in;   /* [nodes + 1] where a node's inputs begin in in */
  const int *in;         /* values, each made by an earlier node */
  const int *first_out;  /* [nodes + 1] where a node's outputs begin in out */
  const int *out;        /* values, each made once */
  const int *first_way;  /* [nodes + 1] where a node's ways begin; each node has one or more */
  const double *seconds; /* [ways] at least 0 */
  const int64_t *bytes;  /* [ways] at least 0 */
  const int *first_need; /* [ways] where its states begin in need: of its inputs, then outputs */
  const int *need;
  const int *first_convert; /* [values] where the table of a value begins in convert */
  const double *convert;    /* seconds from a state to another, row by row; negative: impossible */
  int64_t bound;            /* on the sum of bytes */
  int64_t point_limit;      /* choices in part to remember; 0: four million */
  int state_limit;          /* states of a place to go on with; 0: 65,536 */
} RengaWidthProblem;

typedef struct {
  bool feasible;          /* some choice was found; without, nothing below counts but bytes */
  bool optimal;           /* no choice takes less, to rounding */
  double seconds, bound;  /* no choice takes less than the bound */
  int64_t bytes;          /* where none is feasible: the least that were found */
  int *way;               /* [nodes] number among the node's own ways */
  int64_t states, points; /* looked at */
} RengaWidthResult;

/* An error for a problem that makes no sense. Free the result. */
RengaErrorCode RengaWidthSolve(const RengaWidthProblem *problem, RengaWidthResult *result);
void RengaWidthFreeResult(RengaWidthResult *result);
/* Of a given choice, straight from the definition; seconds negative: it cannot be. */
RengaErrorCode RengaWidthEvaluate(const RengaWidthProblem *problem, const int way[],
                                  double *seconds, int64_t *bytes);
