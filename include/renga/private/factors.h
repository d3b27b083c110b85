/* What is the same for all elements of a parameter in an update: what kernels get of an optimizer's
   step. */
#pragma once
#include <stdint.h>

/* Sums of squares of pieces of a gradient, which one rank has. */
typedef struct {
  const double *square; /* [pieces] */
  int64_t pieces;
  int64_t place; /* among the values of a gate: of the first of them, or of their sum: */
  int32_t whole; /* they are all of the gradient's */
} RengaSquares;
/* A gradient of which several ranks have pieces. */
typedef struct {
  int64_t first, pieces; /* place among the values of a gate, and how many */
  int64_t place;         /* of their sum */
} RengaSplitSquares;
/* What is found: whether loss and norm are finite and nothing was found wrong, and the factor of
   gradients then. */
typedef struct {
  int32_t go;
  float scale;
} RengaGateFound;
/* How devices themselves judge a step, as hosts do that add up in order: the loss is the sum of
   those of micro-batches; the norm is the root of the sum over gradients, each of which is that of
   its pieces, divided by the loss's scale. A norm above clip, which is above 0, is brought down to
   it. Values, one after the other: whether a rank has found something wrong, the squares of
   gradients, pieces of those that are split, losses. Each rank writes its own, and 0 in place of
   the others'; then they are added up. All memory but theirs is pinned. */
typedef struct {
  double *values; /* [1 + gradients + pieces + losses, or more] of the device */
  int64_t n_values, gradients, pieces, losses;
  int64_t splits;
  const RengaSplitSquares *split; /* [splits] */
  int64_t rows;                   /* of this rank, as are losses */
  const RengaSquares *row;        /* [rows] */
  int64_t own;
  const float *loss;   /* [own] */
  const int64_t *turn; /* [own] which of the losses each is */
  int32_t failed;      /* this rank has found something wrong, and has no squares */
  double clip, loss_scale;
  RengaGateFound *found; /* for the host */
} RengaGate;

/* v = keep v + take g; p -= rate (a g + b v), with g = scale g + decay p; without v p -= rate g */
typedef struct {
  float rate, decay, scale, keep, take, a, b;
} RengaSgdFactors;
/* m = keep1 m + take1 g; v = keep2 v + take2 g²; p = shrink p - rate m / (root √v + epsilon) */
typedef struct {
  float shrink, decay, scale, keep1, take1, keep2, take2, rate, root, epsilon;
} RengaAdamFactors;
