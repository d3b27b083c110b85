/* What is the same for all elements of a parameter in an update: what kernels get of an optimizer's
   step. */
#pragma once
#include <stdint.h>

/* Sums of squares of the pieces of a gradient. */
typedef struct {
  const double *square; /* [pieces] */
  int64_t pieces;
} RengaSquares;
/* What is found: whether loss and norm are finite and nothing was found wrong, and the factor of
   gradients then. */
typedef struct {
  int32_t go;
  float scale;
} RengaGateFound;
/* How the device itself judges a step, as a host does that adds up in order: the loss is the sum of
   those of micro-batches; the norm is the root of the sum over gradients, each of which is that of
   its pieces, divided by the loss's scale. A norm above clip, which is above 0, is brought down to
   it. All memory is pinned. */
typedef struct {
  int32_t count;
  const RengaSquares *row; /* [count] */
  int64_t losses;
  const float *loss; /* [losses] */
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
