/* Reductions over dimensions, running sums, and choices of the largest. */
#include "renga/private/op.h"

static RengaErrorCode ShapeReduce(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaTensorSpec *y = &call->out[0];
  bool chosen[RENGA_MAX_DIM], keep = RengaOpCallInt(call, "keepdims") != 0;
  RengaCall(RengaOpAxes(call, x->ndim, chosen));
  y->ndim = 0;
  for (int d = 0; d < x->ndim; d++) {
    if (!chosen[d])
      y->dim[y->ndim++] = x->dim[d];
    else if (keep)
      y->dim[y->ndim++] = 1;
  }
  return RENGA_SUCCESS;
}

/* The extreme of nothing is no number of the type. */
static RengaErrorCode ShapeArgExtreme(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaTensorSpec *y = &call->out[0];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  bool keep = RengaOpCallInt(call, "keepdims") != 0;
  RengaOpCheck(x->dim[axis] > 0, call, "axis %d has no elements to choose from", axis);
  y->ndim = 0;
  for (int d = 0; d < x->ndim; d++)
    if (d != axis || keep) y->dim[y->ndim++] = d == axis ? 1 : x->dim[d];
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeAlongAxis(RengaOpCall *call)
{
  int axis;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &axis));
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeTopK(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  int64_t k = RengaOpCallInt(call, "k");
  RengaOpCheck(k >= 0 && k <= x->dim[axis], call, "k is %lld of %lld elements", (long long)k,
               (long long)x->dim[axis]);
  for (int i = 0; i < call->n_out; i++) {
    RengaOpCopyShape(&call->out[i], x);
    call->out[i].dim[axis] = k;
  }
  return RENGA_SUCCESS;
}

/* dx of a product of all elements along the axes, from dy (shaped with keepdims) and x. */
static RengaErrorCode ReduceProdGrad(RengaOpCall *call)
{
  const RengaTensorSpec *dy = &call->in[0], *x = &call->in[1];
  bool chosen[RENGA_MAX_DIM];
  RengaCall(RengaOpAxes(call, x->ndim, chosen));
  RengaOpCheck(dy->ndim == x->ndim, call, "the gradient must keep the reduced dimensions");
  for (int d = 0; d < x->ndim; d++)
    RengaOpCheck(dy->dim[d] == (chosen[d] ? 1 : x->dim[d]), call,
                 "dimension %d of the gradient is %lld", d, (long long)dy->dim[d]);
  RengaOpCopyShape(&call->out[0], x);
  return RENGA_SUCCESS;
}

static double InputFlops(const RengaOpCall *call)
{
  return (double)RengaTensorSpecCount(&call->in[0]);
}

static double EightInputFlops(const RengaOpCall *call)
{
  return 8.0 * (double)RengaTensorSpecCount(&call->in[0]);
}

#define AXES "axes:ints keepdims:int=1 noop_with_empty_axes:int=0"
#define ARG "axis:int=0 keepdims:int=1 select_last_index:int=0"
#define REDUCE(name, flops, types)                                                                 \
  {                                                                                                \
    name, 1, 1, 1, 1, 0, ShapeReduce, flops, AXES, types, NULL                                     \
  }

/* first: of equal ones the first gets the gradient; otherwise they share it. */
#define EXTREME(name)                                                                              \
  {                                                                                                \
    name, 1, 1, 1, 1, 0, ShapeReduce, InputFlops, AXES " first:int=0", "T>T", NULL                 \
  }

const RengaOperator RengaOperatorsReduce[] = {
    REDUCE("ReduceSum", InputFlops, "N>N"),
    REDUCE("ReduceMean", InputFlops, "N>N"),
    EXTREME("ReduceMax"),
    EXTREME("ReduceMin"),
    REDUCE("ReduceProd", InputFlops, "N>N"),
    REDUCE("ReduceL1", InputFlops, "N>N"),
    REDUCE("ReduceL2", InputFlops, "N>N"),
    REDUCE("ReduceSumSquare", InputFlops, "N>N"),
    REDUCE("ReduceLogSum", InputFlops, "N>N"),
    REDUCE("ReduceLogSumExp", EightInputFlops, "N>N"),
    {"ReduceProdGrad", 2, 2, 1, 1, RENGA_OP_INTERNAL, ReduceProdGrad, InputFlops,
     "axes:ints noop_with_empty_axes:int=0", "FF>F", NULL},
    {"ArgMax", 1, 1, 1, 1, 0, ShapeArgExtreme, InputFlops, ARG, "N>L", NULL},
    {"ArgMin", 1, 1, 1, 1, 0, ShapeArgExtreme, InputFlops, ARG, "N>L", NULL},
    {"CumSum", 1, 1, 1, 1, 0, ShapeAlongAxis, NULL, "axis:int=0 exclusive:int=0 reverse:int=0",
     "N>N", NULL},
    {"CumProd", 1, 1, 1, 1, 0, ShapeAlongAxis, NULL, "axis:int=0 exclusive:int=0 reverse:int=0",
     "N>N", NULL},
    {"TopK", 1, 1, 1, 2, 0, ShapeTopK, InputFlops, "k:int=1 axis:int=-1 largest:int=1 sorted:int=1",
     "N>NL", NULL},
    {"Hardmax", 1, 1, 1, 1, 0, ShapeAlongAxis, NULL, "axis:int=-1", "F>F", NULL},
    {0},
};
