/* Kernels that compute on the host, for devices whose memory is not the host's: inputs are copied
   down, outputs up. All such kernels of a device share one piece of the host's memory, as one is
   done before the next one begins. */
#include "renga/private/device.h"

typedef struct {
  RengaKernelRunFunction run; /* of the kernel on the host, its data, and what frees that */
  RengaErrorCode (*destroy)(RengaKernel kernel);
  void *data;
  size_t *offset; /* [n_in + n_out] in the staging memory */
  void **pointer; /* [n_in + n_out] room for the arguments of a run */
} StagedKernel;

/* The staging memory has at least so many bytes, and no copy reads it any more. */
RengaErrorCode RengaDeviceNeedStaging_Private(RengaDevice device, size_t bytes)
{
  RengaDeviceStaging *staging = &device->staging;
  if (!staging->free) RengaCall(RengaEventCreate(device, &staging->free));
  RengaCall(RengaEventSynchronize(device, staging->free));
  if (bytes <= staging->bytes) return RENGA_SUCCESS;
  RengaCall(RengaDeviceHostFree(device, &staging->memory));
  staging->bytes = 0;
  RengaCall(RengaDeviceHostMalloc(device, bytes, &staging->memory));
  staging->bytes = bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceFreeStaging_Private(RengaDevice device)
{
  RengaDeviceStaging *staging = &device->staging;
  RengaErrorCode code = RENGA_SUCCESS;
  if (staging->free) code = RengaEventSynchronize(device, staging->free);
  if (staging->free) RengaKeepFirst_Private(&code, RengaEventDestroy(device, &staging->free));
  RengaKeepFirst_Private(&code, RengaDeviceHostFree(device, &staging->memory));
  staging->bytes = 0;
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyArguments(RengaKernel kernel, RengaStream stream, const void *const in[],
                                    void *const out[], bool down)
{
  const StagedKernel *staged = kernel->data;
  const RengaOpCall *call = &kernel->call;
  RengaDevice device = kernel->device;
  for (int i = 0; i < call->n_in && down; i++)
    if (in[i])
      RengaCall(RengaDeviceCopy(device, stream, RENGA_DEVICE_TO_HOST, staged->pointer[i], in[i],
                                RengaTensorSpecBytes(&call->in[i])));
  for (int o = 0; o < call->n_out && !down; o++)
    if (out[o])
      RengaCall(RengaDeviceCopy(device, stream, RENGA_HOST_TO_DEVICE, out[o],
                                staged->pointer[call->n_in + o],
                                RengaTensorSpecBytes(&call->out[o])));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunOnHost(RengaKernel kernel, const RengaKernelContext *context)
{
  StagedKernel *staged = kernel->data;
  const void **in = (const void **)staged->pointer;
  kernel->data = staged->data;
  const RengaErrorCode code =
      staged->run(kernel, NULL, context, in, staged->pointer + kernel->call.n_in, NULL);
  kernel->data = staged;
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunStaged(RengaKernel kernel, RengaStream stream,
                                const RengaKernelContext *context, const void *const in[],
                                void *const out[], void *workspace)
{
  StagedKernel *staged = kernel->data;
  const RengaOpCall *call = &kernel->call;
  RengaDevice device = kernel->device;
  (void)workspace;
  RengaCall(RengaEventSynchronize(device, device->staging.free));
  for (int p = 0; p < call->n_in + call->n_out; p++) {
    const void *given = p < call->n_in ? in[p] : out[p - call->n_in];
    staged->pointer[p] = given ? device->staging.memory + staged->offset[p] : NULL;
  }
  RengaCall(CopyArguments(kernel, stream, in, out, true));
  RengaCall(RengaStreamSynchronize(device, stream));
  RengaCall(RunOnHost(kernel, context));
  RengaCall(CopyArguments(kernel, stream, in, out, false));
  RengaCall(RengaEventRecord(device, device->staging.free, stream));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyStaged(RengaKernel kernel)
{
  StagedKernel *staged = kernel->data;
  kernel->data = staged->data;
  if (staged->destroy) RengaCall(staged->destroy(kernel));
  RengaFree(&staged->offset);
  RengaFree(&staged->pointer);
  RengaFree(&staged);
  return RENGA_SUCCESS;
}

static RengaErrorCode PlaceArguments(RengaKernel kernel, StagedKernel *staged)
{
  const RengaOpCall *call = &kernel->call;
  const int count = call->n_in + call->n_out;
  size_t bytes = 0;
  RengaCall(RengaMalloc(count + 1, &staged->offset));
  RengaCall(RengaMalloc(count + 1, &staged->pointer));
  for (int p = 0; p < count; p++) {
    const RengaTensorSpec *spec = p < call->n_in ? &call->in[p] : &call->out[p - call->n_in];
    staged->offset[p] = bytes;
    if (spec->ndim >= 0) bytes += (RengaTensorSpecBytes(spec) + 63) / 64 * 64;
  }
  RengaCall(RengaDeviceNeedStaging_Private(kernel->device, bytes));
  return RENGA_SUCCESS;
}

/* kernel: made for the host. Where this fails it is still what it was. */
RengaErrorCode RengaKernelStage_Private(RengaKernel kernel)
{
  StagedKernel *staged;
  RengaCall(RengaMalloc(1, &staged));
  const RengaErrorCode code = PlaceArguments(kernel, staged);
  if (code) {
    RengaFree(&staged->offset);
    RengaFree(&staged->pointer);
    RengaFree(&staged);
  }
  RengaCall(code);
  staged->run = kernel->run;
  staged->destroy = kernel->destroy;
  staged->data = kernel->data;
  kernel->data = staged;
  kernel->run = RunStaged;
  kernel->destroy = DestroyStaged;
  kernel->waits = true;
  kernel->workspace = 0;
  kernel->alias = 0;
  return RENGA_SUCCESS;
}
