/* Operators that move whole blocks: reshape, transpose, slice, concatenate, pad, tile. */
#include "renga/private/op.h"
#include <string.h>

static RengaErrorCode ShapeReshape(RengaOpCall *call)
{
  int64_t from = RengaTensorSpecCount(&call->in[0]), to = RengaTensorSpecCount(&call->out[0]);
  RengaOpCheck(from == to, call, "%lld elements cannot become %lld", (long long)from,
               (long long)to);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeExpand(RengaOpCall *call)
{
  RengaTensorSpec y = call->out[0];
  RengaCall(RengaOpBroadcast(call, &call->in[0], &y));
  RengaOpCheck(RengaOpSameShape(&y, &call->out[0]), call, "does not fit the shape given");
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeTranspose(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaTensorSpec *y = &call->out[0];
  int count;
  const int64_t *perm = RengaOpCallInts(call, "perm", &count);
  RengaOpCheck(count == x->ndim || count == 0, call, "perm has %d values", count);
  bool used[RENGA_MAX_DIM] = {false};
  y->ndim = x->ndim;
  for (int d = 0; d < x->ndim; d++) {
    int64_t from = count ? perm[d] : x->ndim - 1 - d;
    RengaOpCheck(from >= 0 && from < x->ndim && !used[from], call,
                 "perm[%d] is %lld: not a permutation", d, (long long)from);
    used[from] = true;
    y->dim[d] = x->dim[from];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeSlice(RengaOpCall *call)
{
  RengaOpSlice slice;
  RengaCall(RengaOpGetSlice(call, &call->in[0], &slice));
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  for (int d = 0; d < call->in[0].ndim; d++) call->out[0].dim[d] = slice.count[d];
  return RENGA_SUCCESS;
}

static RengaErrorCode SliceGrad(RengaOpCall *call)
{
  const RengaTensorSpec *dy = &call->in[0], *dx = &call->out[0];
  RengaOpSlice slice;
  RengaCall(RengaOpGetSlice(call, dx, &slice));
  RengaOpCheck(dy->ndim == dx->ndim, call, "the gradient has %d dimensions, the input %d", dy->ndim,
               dx->ndim);
  for (int d = 0; d < dx->ndim; d++)
    RengaOpCheck(dy->dim[d] == slice.count[d], call, "the slice has %lld elements in dimension %d",
                 (long long)slice.count[d], d);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeConcat(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaTensorSpec *y = &call->out[0];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  RengaOpCopyShape(y, x);
  for (int i = 1; i < call->n_in; i++) {
    const RengaTensorSpec *next = &call->in[i];
    RengaOpCheck(next->ndim == x->ndim, call, "input %d has another number of dimensions", i);
    for (int d = 0; d < x->ndim; d++)
      RengaOpCheck(d == axis || next->dim[d] == x->dim[d], call,
                   "input %d differs in dimension %d, only axis %d may differ", i, d, axis);
    y->dim[axis] += next->dim[axis];
  }
  return RENGA_SUCCESS;
}

/* Without split the parts are equal; the last is smaller where they cannot be. */
static RengaErrorCode ShapeSplit(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  int axis, count;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  const int64_t *split = RengaOpCallInts(call, "split", &count);
  RengaOpCheck(count == 0 || count == call->n_out, call, "%d parts for %d outputs", count,
               call->n_out);
  int64_t left = x->dim[axis], part = (left + call->n_out - 1) / call->n_out;
  for (int i = 0; i < call->n_out; i++) {
    int64_t size = count ? split[i] : left < part ? left : part;
    RengaOpCheck(size >= 0 && size <= left, call, "part %d has %lld of %lld elements left", i,
                 (long long)size, (long long)left);
    RengaOpCopyShape(&call->out[i], x);
    call->out[i].dim[axis] = size;
    left -= size;
  }
  RengaOpCheck(left == 0, call, "%lld elements of axis %d are in no part", (long long)left, axis);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPadMode(const RengaOpCall *call, const RengaTensorSpec *x,
                                   const RengaOpPad *pad)
{
  const char *mode = RengaOpCallString(call, "mode");
  bool reflect = strcmp(mode, "reflect") == 0, edge = strcmp(mode, "edge") == 0;
  bool wrap = strcmp(mode, "wrap") == 0;
  RengaOpCheckValue(mode[0] == '\0' || strcmp(mode, "constant") == 0 || reflect || edge || wrap,
                    call, "mode is %s, must be constant, reflect, edge or wrap", mode);
  for (int d = 0; d < x->ndim && (reflect || edge || wrap); d++) {
    int64_t most = pad->before[d] > pad->after[d] ? pad->before[d] : pad->after[d];
    RengaOpCheck(most <= 0 || x->dim[d] > 0, call, "dimension %d is empty", d);
    RengaOpCheck(!reflect || most <= 0 || x->dim[d] > 1, call,
                 "dimension %d has no second element to reflect", d);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapePad(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaTensorSpec *y = &call->out[0];
  RengaOpPad pad;
  RengaCall(RengaOpGetPad(call, x->ndim, &pad));
  RengaCall(CheckPadMode(call, x, &pad));
  RengaOpCopyShape(y, x);
  for (int d = 0; d < x->ndim; d++) {
    y->dim[d] += pad.before[d] + pad.after[d];
    RengaOpCheck(y->dim[d] >= 0, call, "dimension %d would have %lld elements", d,
                 (long long)y->dim[d]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PadGrad(RengaOpCall *call)
{
  const RengaTensorSpec *dy = &call->in[0], *dx = &call->out[0];
  RengaOpPad pad;
  RengaCall(RengaOpGetPad(call, dx->ndim, &pad));
  RengaCall(CheckPadMode(call, dx, &pad));
  RengaOpCheck(dy->ndim == dx->ndim, call, "the gradient has %d dimensions, the input %d", dy->ndim,
               dx->ndim);
  for (int d = 0; d < dx->ndim; d++)
    RengaOpCheck(dy->dim[d] == dx->dim[d] + pad.before[d] + pad.after[d], call,
                 "dimension %d of the gradient does not fit the pads", d);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeTile(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaTensorSpec *y = &call->out[0];
  int count;
  const int64_t *repeats = RengaOpCallInts(call, "repeats", &count);
  RengaOpCheck(count == x->ndim, call, "%d repeats for %d dimensions", count, x->ndim);
  RengaOpCopyShape(y, x);
  for (int d = 0; d < x->ndim; d++) {
    RengaOpCheck(repeats[d] >= 0 && repeats[d] <= INT32_MAX, call, "repeats[%d] is %lld", d,
                 (long long)repeats[d]);
    y->dim[d] *= repeats[d];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Given(RengaOpCall *call)
{
  (void)call;
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeRange(RengaOpCall *call)
{
  RengaOpCheck(call->out[0].ndim == 1, call, "makes one dimension, %d are given",
               call->out[0].ndim);
  return RENGA_SUCCESS;
}

static RengaErrorCode EyeLike(RengaOpCall *call)
{
  RengaOpCheck(call->out[0].ndim == 2, call, "makes a matrix, %d dimensions are given",
               call->out[0].ndim);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeTrilu(RengaOpCall *call)
{
  RengaOpCheck(call->in[0].ndim >= 2, call, "needs at least two dimensions");
  RengaOpCopyShape(&call->out[0], &call->in[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBlocks(const RengaOpCall *call, int64_t *size)
{
  *size = RengaOpCallInt(call, "blocksize");
  const char *mode = RengaOpCallString(call, "mode");
  RengaOpCheck(call->in[0].ndim == 4, call, "needs 4 dimensions");
  RengaOpCheckValue(*size > 0 && *size <= INT32_MAX, call, "blocksize is %lld", (long long)*size);
  RengaOpCheckValue(mode[0] == '\0' || strcmp(mode, "DCR") == 0 || strcmp(mode, "CRD") == 0, call,
                    "mode is %s, must be DCR or CRD", mode);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeDepthToSpace(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaTensorSpec *y = &call->out[0];
  int64_t size;
  RengaCall(CheckBlocks(call, &size));
  RengaOpCheck(x->dim[1] % (size * size) == 0, call,
               "%lld channels are no multiple of %lld squared", (long long)x->dim[1],
               (long long)size);
  RengaOpCopyShape(y, x);
  y->dim[1] = x->dim[1] / (size * size);
  y->dim[2] = x->dim[2] * size;
  y->dim[3] = x->dim[3] * size;
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapeSpaceToDepth(RengaOpCall *call)
{
  const RengaTensorSpec *x = &call->in[0];
  RengaTensorSpec *y = &call->out[0];
  int64_t size;
  RengaCall(CheckBlocks(call, &size));
  RengaOpCheck(x->dim[2] % size == 0 && x->dim[3] % size == 0, call,
               "the plane is no multiple of blocksize %lld", (long long)size);
  RengaOpCopyShape(y, x);
  y->dim[1] = x->dim[1] * size * size;
  y->dim[2] = x->dim[2] / size;
  y->dim[3] = x->dim[3] / size;
  return RENGA_SUCCESS;
}

static double NoMoveFlops(const RengaOpCall *call)
{
  (void)call;
  return 0;
}

#define GIVEN RENGA_OP_OUTPUT_GIVEN
#define OWN (RENGA_OP_OUTPUT_GIVEN | RENGA_OP_INTERNAL)
#define SLICE "starts:ints ends:ints axes:ints steps:ints"
#define PAD "pads:ints axes:ints mode:string=constant"

const RengaOperator RengaOperatorsMove[] = {
    {"Reshape", 1, 1, 1, 1, GIVEN | RENGA_OP_RESHAPE, ShapeReshape, NoMoveFlops, NULL, "T>T", NULL},
    {"Expand", 1, 1, 1, 1, GIVEN, ShapeExpand, NoMoveFlops, NULL, "T>T", NULL},
    {"Transpose", 1, 1, 1, 1, 0, ShapeTranspose, NoMoveFlops, "perm:ints", "T>T", NULL},
    {"Slice", 1, 1, 1, 1, 0, ShapeSlice, NoMoveFlops, SLICE, "T>T", NULL},
    {"SliceGrad", 1, 1, 1, 1, OWN, SliceGrad, NoMoveFlops, SLICE, "T>T", NULL},
    {"Concat", 1, -1, 1, 1, 0, ShapeConcat, NoMoveFlops, "axis:int=0", "T>T", NULL},
    {"Split", 1, 1, 1, -1, 0, ShapeSplit, NoMoveFlops, "axis:int=0 split:ints num_outputs:int=0",
     "T>T", NULL},
    {"Pad", 1, 1, 1, 1, 0, ShapePad, NoMoveFlops, PAD " value:real=0", "T>T", NULL},
    {"PadGrad", 1, 1, 1, 1, OWN, PadGrad, NULL, PAD, "F>F", NULL},
    {"Tile", 1, 1, 1, 1, 0, ShapeTile, NoMoveFlops, "repeats:ints", "T>T", NULL},
    {"ConstantOfShape", 0, 0, 1, 1, GIVEN, Given, NoMoveFlops, "value:real=0 to:int=0", "T>?",
     NULL},
    {"WholeBatch", 1, 1, 1, 1, OWN, Given, NoMoveFlops, NULL, "T>T", NULL},
    {"Range", 0, 0, 1, 1, GIVEN, ShapeRange, NoMoveFlops, "start:real=0 delta:real=1 to:int=0",
     "T>?", NULL},
    {"EyeLike", 0, 0, 1, 1, GIVEN, EyeLike, NoMoveFlops, "k:int=0 to:int=0", "T>?", NULL},
    {"Trilu", 1, 1, 1, 1, 0, ShapeTrilu, NoMoveFlops, "upper:int=1 k:int=0", "T>T", NULL},
    {"DepthToSpace", 1, 1, 1, 1, 0, ShapeDepthToSpace, NoMoveFlops,
     "blocksize:int=1 mode:string=DCR", "T>T", NULL},
    {"SpaceToDepth", 1, 1, 1, 1, 0, ShapeSpaceToDepth, NoMoveFlops,
     "blocksize:int=1 mode:string=DCR", "T>T", NULL},
    {0},
};
