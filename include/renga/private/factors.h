/* What is the same for all elements of a parameter in an update: what kernels get of an optimizer's
   step. */
#pragma once

/* v = keep v + take g; p -= rate (a g + b v), with g = scale g + decay p; without v p -= rate g */
typedef struct {
  float rate, decay, scale, keep, take, a, b;
} RengaSgdFactors;
/* m = keep1 m + take1 g; v = keep2 v + take2 g²; p = shrink p - rate m / (root √v + epsilon) */
typedef struct {
  float shrink, decay, scale, keep1, take1, keep2, take2, rate, root, epsilon;
} RengaAdamFactors;
