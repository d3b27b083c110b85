/* Pad, its gradient, and Tile: each element of y comes from a place of x that its index gives. */
#include "ref.h"
#include <string.h>

typedef int64_t Fold(int64_t i, int64_t extent); /* a place outside 0 ... extent-1 to one inside */

static int64_t PadRemainder_Ref(int64_t i, int64_t period)
{
  int64_t rest = i % period;
  return rest < 0 ? rest + period : rest;
}

static int64_t ReflectAt_Ref(int64_t i, int64_t extent)
{
  if (extent == 1) return 0;
  int64_t rest = PadRemainder_Ref(i, 2 * (extent - 1));
  return rest < extent ? rest : 2 * (extent - 1) - rest;
}

static int64_t Edge(int64_t i, int64_t extent)
{
  return i < 0 ? 0 : i >= extent ? extent - 1 : i;
}

static int64_t OutsideAt_Ref(int64_t i, int64_t extent)
{
  return i < 0 || i >= extent ? -1 : i;
}

static Fold *FoldOf(const RengaOpCall *call)
{
  const char *mode = RengaOpCallString(call, "mode");
  return strcmp(mode, "reflect") == 0 ? ReflectAt_Ref
         : strcmp(mode, "edge") == 0  ? Edge
         : strcmp(mode, "wrap") == 0  ? PadRemainder_Ref
                                      : OutsideAt_Ref;
}

/* Place in x of the element of y that the walk is at; -1 where it is padding. */
static int64_t PadSource_Ref(const RengaTensorSpec *x, const int64_t index[],
                             const int64_t before[], Fold *fold)
{
  int64_t place = 0;
  for (int d = 0; d < x->ndim; d++) {
    int64_t i = fold(index[d] - before[d], x->dim[d]);
    if (i < 0) return -1;
    place = place * x->dim[d] + i;
  }
  return place;
}

static RengaErrorCode Pad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                              const void *const in[], void *const out[])
{
  const RengaTensorSpec *x = &call->in[0];
  RefOut y = RefOutput(call, out, 0);
  RengaOpPad pad;
  RengaCall(RengaOpGetPad(call, x->ndim, &pad));
  double value = RengaOpCallReal(call, "value");
  size_t size = RengaDataTypeSize(x->type);
  RefWalk walk;
  RefWalkStart(&walk, x->ndim, call->out[0].dim);
  int64_t count = RefWalkCount(&walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&walk)) {
    int64_t from = PadSource_Ref(x, walk.index, pad.before, FoldOf(call));
    if (from < 0)
      RefSet(y, i, value);
    else
      RefCopy(out[0], i, in[0], from, 1, size);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PadGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[])
{
  RefIn dy = RefInput(call, in, 0);
  RefOut dx = RefOutput(call, out, 0);
  RengaOpPad pad;
  RengaCall(RengaOpGetPad(call, call->out[0].ndim, &pad));
  RefZero(dx, RengaTensorSpecCount(&call->out[0]));
  RefWalk walk;
  RefWalkStart(&walk, call->in[0].ndim, call->in[0].dim);
  int64_t count = RefWalkCount(&walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&walk)) {
    int64_t to = PadSource_Ref(&call->out[0], walk.index, pad.before, FoldOf(call));
    if (to >= 0) RefAdd(dx, to, RefGet(dy, i));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Tile_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                               const void *const in[], void *const out[])
{
  static const int64_t none[RENGA_MAX_DIM] = {0};
  size_t size = RengaDataTypeSize(call->in[0].type);
  RefWalk walk;
  RefWalkStart(&walk, call->out[0].ndim, call->out[0].dim);
  int64_t count = RefWalkCount(&walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&walk))
    RefCopy(out[0], i, in[0], PadSource_Ref(&call->in[0], walk.index, none, PadRemainder_Ref), 1,
            size);
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindPad(const char *name)
{
  static const RefRow rows[] = {
      {"Pad", Pad_Ref}, {"PadGrad", PadGrad_Ref}, {"Tile", Tile_Ref}, {NULL, NULL}};
  return RefFindRow(rows, name);
}
