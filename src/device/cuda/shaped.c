/* Kernels of the cuda device that the module has by the shape of an operator. */
#include "cuda.h"
#include <string.h>

/* What a kernel by shape keeps: the shape stands behind. */
typedef struct {
  RengaCudaRun run;
  int input[RENGA_CUDA_ARGUMENTS]; /* of the kernel, for each of the module's */
  int checked;                     /* input whose numbers are looked at first; -1: none */
  RengaCudaIndices indices;
  _Alignas(16) char shape[];
} CudaShaped;

RengaErrorCode RengaCudaFreeData_Private(RengaKernel kernel)
{
  RengaFree(&kernel->data);
  return RENGA_SUCCESS;
}

static RengaErrorCode ShapedRun_Cuda(RengaKernel kernel, RengaStream stream,
                                     const RengaKernelContext *context, const void *const in[],
                                     void *const out[], void *workspace)
{
  const CudaShaped *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  RengaDevice device = kernel->device;
  void *queue = RengaCudaStream_Private(device, stream);
  const RengaCudaContext now = {context->seed, context->step, context->sample, context->training};
  const void *inputs[RENGA_CUDA_ARGUMENTS] = {NULL};
  void *outputs[RENGA_CUDA_ARGUMENTS] = {NULL};
  for (int i = 0; i < RENGA_CUDA_ARGUMENTS; i++)
    if (s->input[i] < call->n_in) inputs[i] = in[s->input[i]];
  for (int o = 0; o < RENGA_CUDA_ARGUMENTS && o < call->n_out; o++) outputs[o] = out[o];
  if (s->checked >= 0)
    RENGA_CALL_CUDA(device, module_->each.check(queue, &s->indices, in[s->checked],
                                                RengaCudaOf_Private(device)->fault));
  RENGA_CALL_CUDA(device, s->run(queue, s->shape, &now, inputs, outputs, workspace));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCudaCreateShaped_Private(RengaKernel kernel, RengaCudaRun run, size_t bytes,
                                             const void *shape)
{
  char *memory = NULL;
  RengaCall(RengaMalloc(sizeof(CudaShaped) + bytes, &memory));
  CudaShaped *s = (CudaShaped *)(void *)memory;
  s->run = run;
  s->checked = -1;
  for (int i = 0; i < RENGA_CUDA_ARGUMENTS; i++) s->input[i] = i;
  memcpy(s->shape, shape, bytes);
  kernel->data = s;
  kernel->run = ShapedRun_Cuda;
  kernel->destroy = RengaCudaFreeData_Private;
  return RENGA_SUCCESS;
}

void RengaCudaMapInput_Private(RengaKernel kernel, int to, int from)
{
  CudaShaped *s = kernel->data;
  s->input[to] = from;
}

void RengaCudaCheckInput_Private(RengaKernel kernel, int input, const char *what, int64_t low,
                                 int64_t high, int64_t ignore)
{
  CudaShaped *s = kernel->data;
  const RengaTensorSpec *spec = &kernel->call.in[input];
  s->checked = input;
  s->indices = (RengaCudaIndices){.count = RengaTensorSpecCount(spec),
                                  .low = low,
                                  .high = high,
                                  .ignore = ignore,
                                  .wide = spec->type == RENGA_INT64,
                                  .what = what};
}
