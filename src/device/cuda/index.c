/* Gather of the cuda device and its gradient: the embedding of tokens. */
#include "cuda.h"
#include "renga/private/op.h"

static RengaErrorCode CreateGather_Cuda(RengaKernel kernel, const RengaTensorSpec *data,
                                        bool gradient)
{
  const RengaCudaFamilies *families = &RengaCudaModuleOf_Private(kernel)->run;
  const RengaOpCall *call = &kernel->call;
  const RengaTensorSpec *indices = &call->in[1];
  int axis = 0;
  if (!RengaCudaIsIndex_Private(indices)) return RENGA_SUCCESS;
  RengaCall(RengaOpAxis(call, "axis", data->ndim, &axis));
  const int64_t rows = RengaOpCallInt(call, "rows"), first = RengaOpCallInt(call, "first");
  const RengaCudaGather s = {.outer = RengaOpProduct(data, 0, axis),
                             .length = data->dim[axis],
                             .inner = RengaOpProduct(data, axis + 1, data->ndim),
                             .count = RengaTensorSpecCount(indices),
                             .runs = RengaCudaRunsOf(RengaTensorSpecCount(indices)),
                             .rows = rows ? rows : data->dim[axis],
                             .first = first,
                             .padding = RengaOpCallInt(call, "padding") - first,
                             .size = (int)RengaDataTypeSize(data->type),
                             .wide = indices->type == RENGA_INT64};
  RengaCall(RengaCudaCreateShaped_Private(
      kernel, gradient ? families->gathergrad : families->gather, sizeof s, &s));
  RengaCudaCheckInput_Private(kernel, 1, gradient ? "GatherGrad: index" : "Gather: index", -s.rows,
                              s.rows, 0);
  if (gradient)
    kernel->workspace =
        (size_t)(RengaCudaRunTables(&s) + s.outer * s.runs * s.inner * (int64_t)sizeof(float));
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherCreate_Cuda(RengaKernel kernel)
{
  if (kernel->call.in[0].type == kernel->call.out[0].type)
    RengaCall(CreateGather_Cuda(kernel, &kernel->call.in[0], false));
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherGradCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  int axis = 0;
  if (!RengaCudaIsFloat_Private(&call->in[0])) return RENGA_SUCCESS;
  RengaCall(RengaOpAxis(call, "axis", call->out[0].ndim, &axis));
  if (RengaOpProduct(&call->out[0], 0, axis) * RengaTensorSpecCount(&call->in[1]) >
      RENGA_CUDA_PLACES)
    return RENGA_SUCCESS;
  RengaCall(CreateGather_Cuda(kernel, &call->out[0], true));
  return RENGA_SUCCESS;
}

const RengaKernelRow RengaCudaIndexRows[] = {
    {"Gather", GatherCreate_Cuda},
    {"GatherGrad", GatherGradCreate_Cuda},
    {NULL, NULL},
};
