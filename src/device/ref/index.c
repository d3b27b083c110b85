/* Gathers and scatters. An index may be negative (counted from the end); one outside is an
   error. */
#include "ref.h"
#include <math.h>
#include <string.h>

static RengaErrorCode ReadIndex_Ref(const RengaOpCall *call, RefIn indices, int64_t i,
                                    int64_t extent, int64_t *index)
{
  int64_t value = RefGetInt(indices, i);
  RengaOpCheckValue(value >= -extent && value < extent, call,
                    "index %lld at place %lld is outside a dimension of %lld", (long long)value,
                    (long long)i, (long long)extent);
  *index = value < 0 ? value + extent : value;
  return RENGA_SUCCESS;
}

/* Among the rows of the data; others, of another lane, are below 0 or behind its last. */
static RengaErrorCode ReadRow_Ref(const RengaOpCall *call, RefIn indices, int64_t i, int64_t extent,
                                  int64_t *row)
{
  const int64_t rows = RengaOpCallInt(call, "rows");
  RengaCall(ReadIndex_Ref(call, indices, i, rows ? rows : extent, row));
  *row -= RengaOpCallInt(call, "first");
  return RENGA_SUCCESS;
}

/* y[o][i][…] = x[o][indices[i]][…] */
static RengaErrorCode Gather_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                 const void *const in[], void *const out[])
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &dimension));
  RefAxis x = RefAxisOf(&call->in[0], dimension);
  RefIn indices = RefInput(call, in, 1);
  int64_t n = RengaTensorSpecCount(&call->in[1]), from;
  size_t size = RengaDataTypeSize(call->in[0].type);
  for (int64_t o = 0; o < x.outer; o++)
    for (int64_t i = 0; i < n; i++) {
      const int64_t at = (o * n + i) * x.inner;
      RengaCall(ReadRow_Ref(call, indices, i, x.extent, &from));
      if (from < 0 || from >= x.extent)
        memset((char *)out[0] + (size_t)at * size, 0, (size_t)x.inner * size);
      else
        RefCopy(out[0], at, in[0], (o * x.extent + from) * x.inner, x.inner, size);
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                     const void *const in[], void *const out[])
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->out[0].ndim, &dimension));
  RefAxis x = RefAxisOf(&call->out[0], dimension);
  RefIn dy = RefInput(call, in, 0), indices = RefInput(call, in, 1);
  RefOut dx = RefOutput(call, out, 0);
  int64_t n = RengaTensorSpecCount(&call->in[1]), to;
  const int64_t padding = RengaOpCallInt(call, "padding"), first = RengaOpCallInt(call, "first");
  RefZero(dx, RengaTensorSpecCount(&call->out[0]));
  for (int64_t o = 0; o < x.outer; o++)
    for (int64_t i = 0; i < n; i++) {
      RengaCall(ReadRow_Ref(call, indices, i, x.extent, &to));
      if (to < 0 || to >= x.extent || to + first == padding) continue;
      for (int64_t k = 0; k < x.inner; k++)
        RefAdd(dx, (o * x.extent + to) * x.inner + k, RefGet(dy, (o * n + i) * x.inner + k));
    }
  return RENGA_SUCCESS;
}

/* Walks the indices; at[0] is the place in x with index 0 on the axis, to which index * stride
   is added. */
static RengaErrorCode StartElements(const RengaOpCall *call, const RengaTensorSpec *x,
                                    RefWalk *walk, int *axis, int64_t *stride)
{
  int64_t step[RENGA_MAX_DIM];
  RengaCall(RengaOpAxis(call, "axis", x->ndim, axis));
  RefStrides(x, step);
  *stride = step[*axis];
  step[*axis] = 0;
  RefWalkStart(walk, x->ndim, call->in[1].dim);
  RefWalkAdd(walk, 0, step);
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherElements_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                         const void *const in[], void *const out[])
{
  RefWalk walk;
  int axis;
  int64_t stride, index;
  RengaCall(StartElements(call, &call->in[0], &walk, &axis, &stride));
  size_t size = RengaDataTypeSize(call->in[0].type);
  int64_t count = RefWalkCount(&walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&walk)) {
    RengaCall(ReadIndex_Ref(call, RefInput(call, in, 1), i, call->in[0].dim[axis], &index));
    RefCopy(out[0], i, in[0], walk.at[0] + index * stride, 1, size);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherElementsGrad_Ref(const RengaOpCall *call,
                                             const RengaKernelContext *context,
                                             const void *const in[], void *const out[])
{
  RefIn dy = RefInput(call, in, 0);
  RefOut dx = RefOutput(call, out, 0);
  RefWalk walk;
  int axis;
  int64_t stride, index;
  RengaCall(StartElements(call, &call->out[0], &walk, &axis, &stride));
  RefZero(dx, RengaTensorSpecCount(&call->out[0]));
  int64_t count = RefWalkCount(&walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&walk)) {
    RengaCall(ReadIndex_Ref(call, RefInput(call, in, 1), i, call->out[0].dim[axis], &index));
    RefAdd(dx, walk.at[0] + index * stride, RefGet(dy, i));
  }
  return RENGA_SUCCESS;
}

/* Indices [batch…, places…, depth]: tuple i names a block of x of the dimensions that are left. */
typedef struct {
  int batch, depth;      /* dimensions */
  int64_t tuples, block; /* number of tuples; elements of a block */
  int64_t per_batch;     /* tuples for each batch element */
} Blocks;

static Blocks BlocksOf(const RengaOpCall *call, const RengaTensorSpec *x)
{
  const RengaTensorSpec *indices = &call->in[1];
  bool batched = strncmp(call->op->name, "GatherND", 8) == 0;
  Blocks blocks = {.batch = batched ? (int)RengaOpCallInt(call, "batch_dims") : 0};
  blocks.depth = (int)indices->dim[indices->ndim - 1];
  blocks.tuples = RengaOpProduct(indices, 0, indices->ndim - 1);
  blocks.per_batch = RengaOpProduct(indices, blocks.batch, indices->ndim - 1);
  blocks.block = RengaOpProduct(x, blocks.batch + blocks.depth, x->ndim);
  return blocks;
}

/* First element of x in the block that tuple i names. */
static RengaErrorCode FindBlock_Ref(const RengaOpCall *call, RefIn indices,
                                    const RengaTensorSpec *x, const Blocks *blocks, int64_t i,
                                    int64_t *place)
{
  int64_t at = blocks->batch ? i / blocks->per_batch : 0;
  for (int d = 0; d < blocks->depth; d++) {
    int64_t index, extent = x->dim[blocks->batch + d];
    RengaCall(ReadIndex_Ref(call, indices, i * blocks->depth + d, extent, &index));
    at = at * extent + index;
  }
  *place = at * blocks->block;
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherND_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                   const void *const in[], void *const out[])
{
  const RengaTensorSpec *x = &call->in[0];
  Blocks blocks = BlocksOf(call, x);
  size_t size = RengaDataTypeSize(x->type);
  for (int64_t i = 0; i < blocks.tuples; i++) {
    int64_t from;
    RengaCall(FindBlock_Ref(call, RefInput(call, in, 1), x, &blocks, i, &from));
    RefCopy(out[0], i * blocks.block, in[0], from, blocks.block, size);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherNDGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                       const void *const in[], void *const out[])
{
  RefIn dy = RefInput(call, in, 0);
  RefOut dx = RefOutput(call, out, 0);
  Blocks blocks = BlocksOf(call, &call->out[0]);
  RefZero(dx, RengaTensorSpecCount(&call->out[0]));
  for (int64_t i = 0; i < blocks.tuples; i++) {
    int64_t to;
    RengaCall(FindBlock_Ref(call, RefInput(call, in, 1), &call->out[0], &blocks, i, &to));
    for (int64_t k = 0; k < blocks.block; k++) RefAdd(dx, to + k, RefGet(dy, i * blocks.block + k));
  }
  return RENGA_SUCCESS;
}

typedef double Combine(double old, double update);

static double AddAt_Ref(double old, double update)
{
  return old + update;
}

static double MulAt_Ref(double old, double update)
{
  return old * update;
}

static double MinAt_Ref(double old, double update)
{
  return update < old ? update : old;
}

static double MaxAt_Ref(double old, double update)
{
  return update > old ? update : old;
}

/* NULL: the update replaces the old value. */
static Combine *CombineOf(const RengaOpCall *call)
{
  static const struct {
    const char *name;
    Combine *combine;
  } rows[] = {{"add", AddAt_Ref}, {"mul", MulAt_Ref}, {"min", MinAt_Ref}, {"max", MaxAt_Ref}};
  const char *reduction = RengaOpCallString(call, "reduction");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(reduction, rows[i].name) == 0) return rows[i].combine;
  return NULL;
}

/* Element to of y and update number i become one. */
static void PutAt_Ref(RefOut y, int64_t to, RefIn updates, int64_t i, Combine *combine)
{
  if (combine)
    RefSet(y, to, combine(RefGet((RefIn){y.data, y.type}, to), RefGet(updates, i)));
  else
    RefCopy(y.data, to, updates.data, i, 1, RengaDataTypeSize(y.type));
}

static void CopyData(const RengaOpCall *call, const void *const in[], void *const out[])
{
  RefCopy(out[0], 0, in[0], 0, RengaTensorSpecCount(&call->in[0]),
          RengaDataTypeSize(call->in[0].type));
}

static RengaErrorCode ScatterElements_Ref(const RengaOpCall *call,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[])
{
  RefWalk walk;
  int axis;
  int64_t stride, index;
  RengaCall(StartElements(call, &call->in[0], &walk, &axis, &stride));
  CopyData(call, in, out);
  int64_t count = RefWalkCount(&walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&walk)) {
    RengaCall(ReadIndex_Ref(call, RefInput(call, in, 1), i, call->in[0].dim[axis], &index));
    PutAt_Ref(RefOutput(call, out, 0), walk.at[0] + index * stride, RefInput(call, in, 2), i,
              CombineOf(call));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ScatterND_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                    const void *const in[], void *const out[])
{
  Blocks blocks = BlocksOf(call, &call->in[0]);
  CopyData(call, in, out);
  for (int64_t i = 0; i < blocks.tuples; i++) {
    int64_t to;
    RengaCall(FindBlock_Ref(call, RefInput(call, in, 1), &call->in[0], &blocks, i, &to));
    for (int64_t k = 0; k < blocks.block; k++)
      PutAt_Ref(RefOutput(call, out, 0), to + k, RefInput(call, in, 2), i * blocks.block + k,
                CombineOf(call));
  }
  return RENGA_SUCCESS;
}

/* An index outside -depth ... depth-1 makes a line of off values, as ONNX says. */
static RengaErrorCode OneHot_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                 const void *const in[], void *const out[])
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->out[0].ndim, &dimension));
  RefAxis y = RefAxisOf(&call->out[0], dimension);
  size_t size = RengaDataTypeSize(call->in[1].type);
  for (int64_t o = 0; o < y.outer; o++)
    for (int64_t i = 0; i < y.inner; i++) {
      double index = floor(RefGet(RefInput(call, in, 0), o * y.inner + i));
      if (index < 0) index += (double)y.extent;
      for (int64_t k = 0; k < y.extent; k++)
        RefCopy(out[0], (o * y.extent + k) * y.inner + i, in[1], (double)k == index, 1, size);
    }
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindIndex(const char *name)
{
  static const RefRow rows[] = {
      {"Gather", Gather_Ref},
      {"GatherGrad", GatherGrad_Ref},
      {"GatherElements", GatherElements_Ref},
      {"GatherElementsGrad", GatherElementsGrad_Ref},
      {"GatherND", GatherND_Ref},
      {"GatherNDGrad", GatherNDGrad_Ref},
      {"ScatterElements", ScatterElements_Ref},
      {"ScatterND", ScatterND_Ref},
      {"OneHot", OneHot_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
