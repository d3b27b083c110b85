/* What the patterns of the canonical form share. A pattern is found at its last node, the root. */
#pragma once
#include "graphimpl.h"

typedef struct {
  const char *root; /* operator of the last node */
  RengaErrorCode (*fuse)(RengaGraph graph, int root, bool *done);
} RengaFuseRow;
extern const RengaFuseRow RengaFuseLinear[], RengaFuseNormalize[], RengaFuseGelu[],
    RengaFuseAttention[], RengaFuseLoss[], RengaFuseFlat[];

/* The node that makes value if it is of that operator, else NULL. */
const RengaGraphNode *RengaFuseProducer(RengaGraph graph, RengaValue value, const char *op);
/* The same, but only where a single node reads value: it disappears in the pattern. */
const RengaGraphNode *RengaFuseInner(RengaGraph graph, RengaValue value, const char *op);
/* Is value a constant of one floating or integer element? */
bool RengaFuseScalar(RengaGraph graph, RengaValue value, double *number);
/* A node with a scalar constant on one side that does not widen the other. */
bool RengaFuseWithScalar(RengaGraph graph, const RengaGraphNode *node, bool commutes,
                         double *number, RengaValue *other);
/* The same, or a constant whose elements are all that number, or such a one that is expanded. */
bool RengaFuseRepeated(RengaGraph graph, RengaValue value, double *number);
/* p where the root is Where(IsNaN(p), 0, p); else NONE. */
RengaValue RengaFuseDefined(RengaGraph graph, int root);
bool RengaFuseNear(double a, double b); /* within the rounding of float32 constants */
bool RengaFuseIsTail(const RengaTensorSpec *part, const RengaTensorSpec *whole, int axis);
/* Take op instead of the root: out[0] of the root is made by the new node, and the root dies. */
RengaErrorCode RengaFuseReplace(RengaGraph graph, int root, const char *op,
                                const RengaAttributes *attributes, int n_in, const RengaValue in[]);
/* A node in front of the root. */
RengaErrorCode RengaFuseBefore(RengaGraph graph, int root, const char *op,
                               const RengaAttributes *attributes, int n_in, const RengaValue in[],
                               RengaValue *y);
