/* Kernels of the far device: one of the inner device, run with copies of its arguments. */
#include "far.h"
#include <string.h>

typedef struct {
  RengaKernel kernel; /* the inner one */
  RengaKernelContext context;
  void *workspace;
  void *pointer[]; /* inputs, outputs */
} FarRun;

static RengaErrorCode RunInner(RengaDevice device, void *argument)
{
  FarRun *task = argument;
  const RengaOpCall *call = &task->kernel->call;
  const void **in = (const void **)task->pointer;
  for (int p = 0; p < call->n_in + call->n_out; p++) {
    const RengaTensorSpec *spec = p < call->n_in ? &call->in[p] : &call->out[p - call->n_in];
    if (task->pointer[p])
      RengaCall(RengaFarOpen_Private(device, task->pointer[p], RengaTensorSpecBytes(spec)));
  }
  RengaCall(RengaFarOpen_Private(device, task->workspace, task->kernel->workspace));
  if (task->workspace) memset(task->workspace, 0xff, task->kernel->workspace);
  RengaCall(RengaKernelRun(task->kernel, NULL, &task->context, in, task->pointer + call->n_in,
                           task->workspace));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckArguments(RengaKernel kernel, const void *const in[], void *const out[],
                                     const void *workspace)
{
  const RengaOpCall *call = &kernel->call;
  const char *name = call->op->name;
  for (int i = 0; i < call->n_in; i++)
    if (in[i])
      RengaCall(RengaFarCheckRange_Private(kernel->device, in[i],
                                           RengaTensorSpecBytes(&call->in[i]), name));
  for (int o = 0; o < call->n_out; o++)
    if (out[o])
      RengaCall(RengaFarCheckRange_Private(kernel->device, out[o],
                                           RengaTensorSpecBytes(&call->out[o]), name));
  if (workspace)
    RengaCall(RengaFarCheckRange_Private(kernel->device, workspace, kernel->workspace, name));
  return RENGA_SUCCESS;
}

static RengaErrorCode KernelRun_Far(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const int n_in = kernel->call.n_in, n_out = kernel->call.n_out;
  FarRun *task;
  RengaCall(CheckArguments(kernel, in, out, workspace));
  RengaCall(RengaFarQueue_Private(kernel->device, stream, kernel->call.op->name, RunInner,
                                  sizeof *task + (size_t)(n_in + n_out) * sizeof(void *), &task));
  *task = (FarRun){.kernel = kernel->data, .context = *context, .workspace = workspace};
  memcpy(task->pointer, in, (size_t)n_in * sizeof(void *));
  memcpy(task->pointer + n_in, out, (size_t)n_out * sizeof(void *));
  return RENGA_SUCCESS;
}

static RengaErrorCode KernelDestroy_Far(RengaKernel kernel)
{
  RengaKernel inner = kernel->data;
  const RengaErrorCode code = RengaFarWaitAll_Private(kernel->device);
  RengaCall(RengaKernelDestroy(&inner));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode KernelCreate_Far(RengaKernel kernel)
{
  FarDevice *far = kernel->device->data;
  RengaKernel inner;
  RengaCall(RengaKernelCreate(&far->inner, &kernel->call, &inner));
  kernel->workspace = inner->workspace;
  kernel->alias = inner->alias;
  kernel->fallback = inner->fallback;
  kernel->data = inner;
  kernel->run = KernelRun_Far;
  kernel->destroy = KernelDestroy_Far;
  return RENGA_SUCCESS;
}

const RengaKernelRow RengaFarKernelRow = {"any operator", KernelCreate_Far};
