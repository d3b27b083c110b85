/* Operators that choose elements by index: gathers, scatters, one-hot. */
#include "renga/private/op.h"
#include <string.h>

/* to = from with dimensions [first, last) replaced by those of middle. */
static RengaErrorCode ReplaceAxis(const RengaOpCall *call, const RengaTensorSpec *from, int first,
                                  int last, const RengaTensorSpec *middle, RengaTensorSpec *to)
{
  int ndim = from->ndim - (last - first) + middle->ndim;
  RengaOpCheck(ndim <= RENGA_MAX_DIM, call, "the result has %d dimensions, at most %d are allowed",
               ndim, RENGA_MAX_DIM);
  int at = 0;
  for (int d = 0; d < first; d++) to->dim[at++] = from->dim[d];
  for (int d = 0; d < middle->ndim; d++) to->dim[at++] = middle->dim[d];
  for (int d = last; d < from->ndim; d++) to->dim[at++] = from->dim[d];
  to->ndim = ndim;
  return RENGA_SUCCESS;
}

/* A lane has rows first, first + 1, … of so many. */
static RengaErrorCode CheckLaneRows(const RengaOpCall *call, const RengaTensorSpec *x, int axis)
{
  const int64_t rows = RengaOpCallInt(call, "rows"), first = RengaOpCallInt(call, "first");
  RengaOpCheckValue(rows == 0 ? first == 0 : first >= 0 && first + x->dim[axis] <= rows, call,
                    "%lld rows from row %lld on are not those of a lane of %lld rows",
                    (long long)x->dim[axis], (long long)first, (long long)rows);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeGather(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  RengaCall(CheckLaneRows(call, x, axis));
  RengaCall(ReplaceAxis(call, x, axis, axis + 1, &call->in[1], &call->out[0]));
  return RENGA_SUCCESS;
}

/* dy has the shape that gathering from dx gives. */
static RengaErrorCode GatherGrad(RengaOpCall *call)
{
  const RengaTensorSpec *dx = &call->out[0];
  RengaTensorSpec y = {0};
  int axis;
  RengaCall(RengaOpAxis(call, "axis", dx->ndim, &axis));
  RengaCall(CheckLaneRows(call, dx, axis));
  RengaCall(ReplaceAxis(call, dx, axis, axis + 1, &call->in[1], &y));
  RengaOpCheck(RengaOpSameShape(&y, &call->in[0]), call,
               "the gradient does not fit the shape given");
  return RENGA_SUCCESS;
}

/* Elsewhere than on the axis, the indices stay inside x. */
static RengaErrorCode CheckElements(const RengaOpCall *call, const RengaTensorSpec *x,
                                    const RengaTensorSpec *indices)
{
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  RengaOpCheck(indices->ndim == x->ndim, call, "the indices have %d dimensions, the data %d",
               indices->ndim, x->ndim);
  for (int d = 0; d < x->ndim; d++)
    RengaOpCheck(d == axis || indices->dim[d] <= x->dim[d], call,
                 "the indices are wider than the data in dimension %d", d);
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherElements(RengaOpCall *call)
{
  RengaCall(CheckElements(call, &call->in[0], &call->in[1]));
  RengaOpCopyShape(&call->out[0], &call->in[1]);
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherElementsGrad(RengaOpCall *call)
{
  RengaCall(CheckElements(call, &call->out[0], &call->in[1]));
  RengaOpCheck(RengaOpSameShape(&call->in[0], &call->in[1]), call,
               "gradient and indices differ in shape");
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckReduction(const RengaOpCall *call)
{
  static const char *const known[] = {"", "none", "add", "mul", "min", "max"};
  const char *reduction = RengaOpCallString(call, "reduction");
  bool found = false;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(reduction, known[i]) == 0) found = true;
  RengaOpCheckValue(found, call, "reduction is %s, must be none, add, mul, min or max", reduction);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeScatterElements(RengaOpCall *call)
{
  RengaCall(CheckReduction(call));
  RengaCall(CheckElements(call, &call->in[0], &call->in[1]));
  RengaOpCheck(RengaOpSameShape(&call->in[1], &call->in[2]), call,
               "indices and updates differ in shape");
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

/* The shape of x gathered by indices [batch..., places..., depth]. */
static RengaErrorCode GatheredShape(const RengaOpCall *call, const RengaTensorSpec *x,
                                    const RengaTensorSpec *indices, RengaTensorSpec *y)
{
  int64_t batch = call->op->attributes ? RengaOpCallInt(call, "batch_dims") : 0;
  RengaOpCheck(indices->ndim >= 1 && x->ndim >= 1, call, "a scalar has nothing to index");
  RengaOpCheck(batch >= 0 && batch < indices->ndim && batch < x->ndim, call, "batch_dims is %lld",
               (long long)batch);
  for (int d = 0; d < batch; d++)
    RengaOpCheck(indices->dim[d] == x->dim[d], call, "batch dimension %d differs", d);
  int64_t depth = indices->dim[indices->ndim - 1];
  RengaOpCheck(depth >= 0 && depth <= x->ndim - batch, call, "%lld indices into %d dimensions",
               (long long)depth, (int)(x->ndim - batch));
  RengaTensorSpec places = {.ndim = indices->ndim - 1};
  for (int d = 0; d < places.ndim; d++) places.dim[d] = indices->dim[d];
  RengaCall(ReplaceAxis(call, x, 0, (int)(batch + depth), &places, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherND(RengaOpCall *call)
{
  RengaCall(GatheredShape(call, &call->in[0], &call->in[1], &call->out[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherNDGrad(RengaOpCall *call)
{
  RengaTensorSpec y = {0};
  RengaCall(GatheredShape(call, &call->out[0], &call->in[1], &y));
  RengaOpCheck(RengaOpSameShape(&y, &call->in[0]), call,
               "the gradient does not fit the shape given");
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeScatterND(RengaOpCall *call)
{
  RengaTensorSpec updates = {0};
  RengaCall(CheckReduction(call));
  RengaCall(GatheredShape(call, &call->in[0], &call->in[1], &updates));
  RengaOpCheck(RengaOpSameShape(&updates, &call->in[2]), call,
               "the updates do not fit the indices");
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode OneHot(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0], *values = &call->in[1];
  int64_t depth = RengaOpCallInt(call, "depth");
  int axis;
  RengaOpCheck(depth >= 0, call, "depth is %lld", (long long)depth);
  RengaOpCheck(values->ndim == 1 && values->dim[0] == 2, call, "needs an off and an on value");
  RengaCall(RengaOpAxis(call, "axis", x->ndim + 1, &axis));
  RengaTensorSpec classes = {.ndim = 1, .dim = {depth}};
  RengaCall(ReplaceAxis(call, x, axis, axis, &classes, &call->out[0]));
  return RENGA_SUCCESS;
}

static double NoIndexFlops(const RengaOpCall *call)
{
  (void)call;
  return 0;
}

static double GatherGradientFlops(const RengaOpCall *call)
{
  return (double)RengaTensorSpecCount(&call->in[0]);
}

#define OWN (RENGA_OP_OUTPUT_GIVEN | RENGA_OP_INTERNAL)
#define GRADIENT(name, shape, attributes)                                                          \
  {                                                                                                \
    name, 2, 2, 1, 1, OWN, shape, GatherGradientFlops, attributes, "FI>F", NULL                    \
  }

/* padding: this row gets no gradient. rows: data has those from first on of so many, and others
   read as zeros, and get nothing; 0: it has all. */
#define GATHER "axis:int=0 padding:int=-1 first:int=0 rows:int=0"

const RengaOperator RengaOperatorsIndex[] = {
    {"Gather", 2, 2, 1, 1, 0, ShapeGather, NoIndexFlops, GATHER, "TI>T", NULL},
    {"GatherElements", 2, 2, 1, 1, 0, GatherElements, NoIndexFlops, "axis:int=0", "TI>T", NULL},
    {"GatherND", 2, 2, 1, 1, 0, GatherND, NoIndexFlops, "batch_dims:int=0", "TI>T", NULL},
    GRADIENT("GatherGrad", GatherGrad, GATHER),
    GRADIENT("GatherElementsGrad", GatherElementsGrad, "axis:int=0"),
    GRADIENT("GatherNDGrad", GatherNDGrad, "batch_dims:int=0"),
    {"ScatterElements", 3, 3, 1, 1, 0, ShapeScatterElements, NoIndexFlops,
     "axis:int=0 reduction:string=none", "TIT>T", NULL},
    {"ScatterND", 3, 3, 1, 1, 0, ShapeScatterND, NoIndexFlops, "reduction:string=none", "TIT>T",
     NULL},
    {"OneHot", 2, 2, 1, 1, 0, OneHot, NoIndexFlops, "depth:int=0 axis:int=-1", "NT>T", NULL},
    {0},
};
