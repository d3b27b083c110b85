/* Kernels of the cuda device that the module has by the shape of an operator. */
#include "cuda.h"
#include "renga/private/low.h"
#include <string.h>

/* What a kernel by shape keeps: the shape stands behind. */
typedef struct {
  RengaCudaRun run;
  int input
      [RENGA_CUDA_ARGUMENTS]; /* of the kernel, for each of the module's; the same of outputs */
  int output[RENGA_CUDA_ARGUMENTS];
  int checked; /* input whose numbers are looked at first; -1: none */
  RengaCudaIndices indices;
  _Alignas(16) char shape[];
} CudaShaped;

RengaCudaType RengaCudaTypeOf_Private(RengaDataType type)
{
  static const struct {
    RengaDataType type;
    RengaCudaType known;
  } types[] = {{RENGA_FLOAT32, RENGA_CUDA_FLOAT32}, {RENGA_BFLOAT16, RENGA_CUDA_BFLOAT16},
               {RENGA_FLOAT16, RENGA_CUDA_FLOAT16}, {RENGA_INT64, RENGA_CUDA_INT64},
               {RENGA_INT32, RENGA_CUDA_INT32},     {RENGA_BOOL, RENGA_CUDA_BOOL}};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    if (types[t].type == type) return types[t].known;
  return RENGA_CUDA_NO_TYPE;
}

uint64_t RengaCudaBits_Private(RengaDataType type, double value)
{
  uint64_t bits = 0;
  const float real = (float)value;
  const int64_t integer = (int64_t)value;
  const int32_t narrow = (int32_t)integer;
  const bool truth = value != 0;
  if (type == RENGA_FLOAT32) memcpy(&bits, &real, sizeof real);
  if (type == RENGA_BFLOAT16) bits = RengaLowToBrain(real);
  if (type == RENGA_FLOAT16) bits = RengaLowToHalf(real);
  if (type == RENGA_INT64) memcpy(&bits, &integer, sizeof integer);
  if (type == RENGA_INT32) memcpy(&bits, &narrow, sizeof narrow);
  if (type == RENGA_BOOL) memcpy(&bits, &truth, sizeof truth);
  return bits;
}

bool RengaCudaAllFloats_Private(const RengaOpCall *call)
{
  bool all = true;
  for (int i = 0; i < call->n_in; i++) all = all && RengaCudaIsFloat_Private(&call->in[i]);
  for (int o = 0; o < call->n_out; o++) all = all && RengaCudaIsFloat_Private(&call->out[o]);
  return all;
}

void RengaCudaAllowOver_Private(RengaKernel kernel, int input)
{
  if (kernel->call.in[input].type == kernel->call.out[0].type)
    kernel->alias |= RENGA_KERNEL_ALIAS(0, input);
}

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
  const RengaCudaContext now = RengaCudaContextOf_Private(device, context);
  RengaCudaOperand inputs[RENGA_CUDA_ARGUMENTS] = {{NULL, RENGA_CUDA_FLOAT32}};
  RengaCudaOperand outputs[RENGA_CUDA_ARGUMENTS] = {{NULL, RENGA_CUDA_FLOAT32}};
  for (int i = 0; i < RENGA_CUDA_ARGUMENTS; i++)
    if (s->input[i] < call->n_in)
      inputs[i] = RengaCudaOperand_Private(&call->in[s->input[i]], in[s->input[i]]);
  for (int o = 0; o < RENGA_CUDA_ARGUMENTS; o++)
    if (s->output[o] < call->n_out)
      outputs[o] = RengaCudaOperand_Private(&call->out[s->output[o]], out[s->output[o]]);
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
  for (int i = 0; i < RENGA_CUDA_ARGUMENTS; i++) s->input[i] = s->output[i] = i;
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

void RengaCudaMapOutput_Private(RengaKernel kernel, int to, int from)
{
  CudaShaped *s = kernel->data;
  s->output[to] = from;
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
