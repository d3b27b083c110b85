/* Kernels that copy elements from place to place, whatever their type. */
#include "ref.h"
#include <string.h>

static RengaErrorCode Copy_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                               const void *const in[], void *const out[])
{
  size_t size = RengaDataTypeSize(call->in[0].type);
  RefCopy(out[0], 0, in[0], 0, RengaTensorSpecCount(&call->in[0]), size);
  return RENGA_SUCCESS;
}

/* y[i] = x[walk.at[0]] for all i. */
static void CopyWalk(RefWalk *walk, const void *x, void *y, RengaDataType type)
{
  size_t size = RengaDataTypeSize(type);
  int64_t count = RefWalkCount(walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(walk)) RefCopy(y, i, x, walk->at[0], 1, size);
}

static RengaErrorCode Expand_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                 const void *const in[], void *const out[])
{
  RefWalk walk;
  RefWalkStart(&walk, call->out[0].ndim, call->out[0].dim);
  RefWalkAddBroadcast(&walk, &call->in[0]);
  CopyWalk(&walk, in[0], out[0], call->in[0].type);
  return RENGA_SUCCESS;
}

static RengaErrorCode Transpose_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                    const void *const in[], void *const out[])
{
  int count, ndim = call->in[0].ndim;
  const int64_t *perm = RengaOpCallInts(call, "perm", &count);
  int64_t stride[RENGA_MAX_DIM], step[RENGA_MAX_DIM];
  RefStrides(&call->in[0], stride);
  for (int d = 0; d < ndim; d++) step[d] = stride[count ? perm[d] : ndim - 1 - d];
  RefWalk walk;
  RefWalkStart(&walk, ndim, call->out[0].dim);
  RefWalkAdd(&walk, 0, step);
  CopyWalk(&walk, in[0], out[0], call->in[0].type);
  return RENGA_SUCCESS;
}

/* A walk over the slice with the places of its elements in the whole. */
static RengaErrorCode StartSlice(const RengaOpCall *call, const RengaTensorSpec *whole,
                                 RefWalk *walk)
{
  RengaOpSlice slice;
  int64_t stride[RENGA_MAX_DIM], step[RENGA_MAX_DIM], at = 0;
  RengaCall(RengaOpGetSlice(call, whole, &slice));
  RefStrides(whole, stride);
  for (int d = 0; d < whole->ndim; d++) {
    at += slice.begin[d] * stride[d];
    step[d] = slice.step[d] * stride[d];
  }
  RefWalkStart(walk, whole->ndim, slice.count);
  RefWalkAdd(walk, at, step);
  return RENGA_SUCCESS;
}

static RengaErrorCode Slice_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                const void *const in[], void *const out[])
{
  RefWalk walk;
  RengaCall(StartSlice(call, &call->in[0], &walk));
  CopyWalk(&walk, in[0], out[0], call->in[0].type);
  return RENGA_SUCCESS;
}

static RengaErrorCode SliceGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                    const void *const in[], void *const out[])
{
  RefWalk walk;
  size_t size = RengaDataTypeSize(call->in[0].type);
  RengaCall(StartSlice(call, &call->out[0], &walk));
  RefZero(RefOutput(call, out, 0), RengaTensorSpecCount(&call->out[0]));
  int64_t count = RefWalkCount(&walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&walk))
    RefCopy(out[0], walk.at[0], in[0], i, 1, size);
  return RENGA_SUCCESS;
}

static RengaErrorCode Concat_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                 const void *const in[], void *const out[])
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->out[0].ndim, &dimension));
  RefAxis y = RefAxisOf(&call->out[0], dimension);
  size_t size = RengaDataTypeSize(call->out[0].type);
  int64_t first = 0; /* of this input's elements along the axis */
  for (int k = 0; k < call->n_in; k++) {
    int64_t extent = call->in[k].dim[dimension];
    for (int64_t o = 0; o < y.outer; o++)
      RefCopy(out[0], (o * y.extent + first) * y.inner, in[k], o * extent * y.inner,
              extent * y.inner, size);
    first += extent;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Split_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                const void *const in[], void *const out[])
{
  int dimension;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &dimension));
  RefAxis x = RefAxisOf(&call->in[0], dimension);
  size_t size = RengaDataTypeSize(call->in[0].type);
  int64_t first = 0;
  for (int k = 0; k < call->n_out; k++) {
    int64_t extent = call->out[k].dim[dimension];
    for (int64_t o = 0; o < x.outer; o++)
      RefCopy(out[k], o * extent * x.inner, in[0], (o * x.extent + first) * x.inner,
              extent * x.inner, size);
    first += extent;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ConstantOfShape_Ref(const RengaOpCall *call,
                                          const RengaKernelContext *context, const void *const in[],
                                          void *const out[])
{
  RefOut y = RefOutput(call, out, 0);
  double value = RengaOpCallReal(call, "value");
  int64_t count = RengaTensorSpecCount(&call->out[0]);
  for (int64_t i = 0; i < count; i++) RefSet(y, i, value);
  return RENGA_SUCCESS;
}

static RengaErrorCode Range_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                const void *const in[], void *const out[])
{
  RefOut y = RefOutput(call, out, 0);
  double start = RengaOpCallReal(call, "start"), delta = RengaOpCallReal(call, "delta");
  int64_t count = RengaTensorSpecCount(&call->out[0]);
  for (int64_t i = 0; i < count; i++) RefSet(y, i, start + (double)i * delta);
  return RENGA_SUCCESS;
}

static RengaErrorCode EyeLike_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                  const void *const in[], void *const out[])
{
  RefOut y = RefOutput(call, out, 0);
  int64_t rows = call->out[0].dim[0], columns = call->out[0].dim[1];
  int64_t k = RengaOpCallInt(call, "k");
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) RefSet(y, r * columns + c, c - r == k);
  return RENGA_SUCCESS;
}

/* Keeps the triangle on and above (below) diagonal k of each matrix; zeros elsewhere. */
static RengaErrorCode Trilu_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                const void *const in[], void *const out[])
{
  const RengaTensorSpec *x = &call->in[0];
  int64_t rows = x->dim[x->ndim - 2], columns = x->dim[x->ndim - 1];
  int64_t count = RengaTensorSpecCount(x), k = RengaOpCallInt(call, "k");
  bool upper = RengaOpCallInt(call, "upper");
  size_t size = RengaDataTypeSize(x->type);
  RefZero(RefOutput(call, out, 0), count);
  for (int64_t i = 0; i < count; i++) {
    int64_t diagonal = i % columns - i / columns % rows;
    if (upper ? diagonal >= k : diagonal <= k) RefCopy(out[0], i, in[0], i, 1, size);
  }
  return RENGA_SUCCESS;
}

/* Place in deep [N, C b b, H, W] of the element at (n, c, h, w) of wide [N, C, H b, W b]. */
static int64_t DeepPlace(const RengaTensorSpec *deep, int64_t block, bool by_column, int64_t n,
                         int64_t c, int64_t h, int64_t w)
{
  int64_t channels = deep->dim[1] / (block * block), rest = h % block * block + w % block;
  int64_t channel = by_column ? c * block * block + rest : rest * channels + c;
  return ((n * deep->dim[1] + channel) * deep->dim[2] + h / block) * deep->dim[3] + w / block;
}

static void MoveBlocks(const RengaOpCall *call, const RengaTensorSpec *deep,
                       const RengaTensorSpec *wide, const void *x, void *y)
{
  int64_t block = RengaOpCallInt(call, "blocksize"), i = 0;
  bool by_column = strcmp(RengaOpCallString(call, "mode"), "CRD") == 0;
  size_t size = RengaDataTypeSize(deep->type);
  for (int64_t n = 0; n < wide->dim[0]; n++)
    for (int64_t c = 0; c < wide->dim[1]; c++)
      for (int64_t h = 0; h < wide->dim[2]; h++)
        for (int64_t w = 0; w < wide->dim[3]; w++, i++) {
          int64_t place = DeepPlace(deep, block, by_column, n, c, h, w);
          if (deep == &call->in[0])
            RefCopy(y, i, x, place, 1, size);
          else
            RefCopy(y, place, x, i, 1, size);
        }
}

static RengaErrorCode DepthToSpace_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                       const void *const in[], void *const out[])
{
  MoveBlocks(call, &call->in[0], &call->out[0], in[0], out[0]);
  return RENGA_SUCCESS;
}

static RengaErrorCode SpaceToDepth_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                       const void *const in[], void *const out[])
{
  MoveBlocks(call, &call->out[0], &call->in[0], in[0], out[0]);
  return RENGA_SUCCESS;
}

/* All samples of the one micro-batch that a batch is. */
static RengaErrorCode WholeBatch_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                     const void *const in[], void *const out[])
{
  const int64_t n = RengaTensorSpecCount(&call->in[0]),
                wanted = RengaTensorSpecCount(&call->out[0]);
  RengaCheck(n == wanted, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "%lld elements of an input come to a network that is read for batches of %lld "
             "(-graph_whole_batch): each batch is one micro-batch of that size",
             (long long)n, (long long)wanted);
  RengaCall(Copy_Ref(call, context, in, out));
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindMove(const char *name)
{
  static const RefRow rows[] = {
      {"Identity", Copy_Ref},
      {"StopGradient", Copy_Ref},
      {"Reshape", Copy_Ref},
      {"BatchSum", Copy_Ref}, /* the sum over a batch of one micro-batch on one replica */
      {"WholeBatch", WholeBatch_Ref},
      {"Expand", Expand_Ref},
      {"Transpose", Transpose_Ref},
      {"Slice", Slice_Ref},
      {"SliceGrad", SliceGrad_Ref},
      {"Concat", Concat_Ref},
      {"Split", Split_Ref},
      {"ConstantOfShape", ConstantOfShape_Ref},
      {"Range", Range_Ref},
      {"EyeLike", EyeLike_Ref},
      {"Trilu", Trilu_Ref},
      {"DepthToSpace", DepthToSpace_Ref},
      {"SpaceToDepth", SpaceToDepth_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
