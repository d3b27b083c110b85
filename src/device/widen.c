/* Calls with floating numbers of 16 bits for which a device has no kernel of its own: its kernel
   for float32 computes on widened copies, and the outputs are rounded from such. */
#include "renga/private/device.h"

typedef struct {
  size_t bytes;   /* of the copies, in front of the wide kernel's workspace */
  size_t *offset; /* [n_in + n_out] of copies in the workspace */
  void **pointer; /* [n_in + n_out] room for the arguments of a run */
} WidenedKernel;

/* Of tensor p of inputs, then outputs. */
static const RengaTensorSpec *SpecOfTensor(const RengaOpCall *call, int p)
{
  return p < call->n_in ? &call->in[p] : &call->out[p - call->n_in];
}

static bool IsLowTensor(const RengaTensorSpec *spec)
{
  return spec->ndim >= 0 && RengaDeviceIsLow(spec->type);
}

bool RengaOpCallIsLow_Private(const RengaOpCall *call)
{
  for (int p = 0; p < call->n_in + call->n_out; p++)
    if (IsLowTensor(SpecOfTensor(call, p))) return true;
  return false;
}

RengaErrorCode RengaDeviceCheckPrecision_Private(RengaDevice device, RengaPrecision precision)
{
  const bool has = precision < RENGA_PRECISION_TF32 || device->precisions >> precision & 1;
  RengaCheck(has, device->hdr.comm, RENGA_ERR_SUPPORT,
             "-precision %s: the %s device has no such products; use -device_type cuda, or "
             "-precision fp32 or bf16",
             RengaPrecisionName(precision), device->hdr.type_name);
  return RENGA_SUCCESS;
}

void RengaOpCallWiden_Private(const RengaOpCall *call, RengaTensorSpec in[], RengaTensorSpec out[])
{
  for (int p = 0; p < call->n_in + call->n_out; p++) {
    RengaTensorSpec *spec = p < call->n_in ? &in[p] : &out[p - call->n_in];
    *spec = *SpecOfTensor(call, p);
    if (IsLowTensor(spec)) spec->type = RENGA_FLOAT32;
  }
}

static RengaErrorCode ConvertArguments(RengaKernel kernel, RengaStream stream,
                                       const void *const in[], void *const out[], bool before)
{
  const WidenedKernel *widened = kernel->data;
  const RengaOpCall *call = &kernel->call;
  RengaDevice device = kernel->device;
  for (int i = 0; i < call->n_in && before; i++)
    if (in[i] && IsLowTensor(&call->in[i]))
      RengaCall(RengaDeviceConvert(device, stream, RengaTensorSpecCount(&call->in[i]),
                                   call->in[i].type, in[i], RENGA_FLOAT32, widened->pointer[i]));
  for (int o = 0; o < call->n_out && !before; o++)
    if (out[o] && IsLowTensor(&call->out[o]))
      RengaCall(RengaDeviceConvert(device, stream, RengaTensorSpecCount(&call->out[o]),
                                   RENGA_FLOAT32, widened->pointer[call->n_in + o],
                                   call->out[o].type, out[o]));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunWidened(RengaKernel kernel, RengaStream stream,
                                 const RengaKernelContext *context, const void *const in[],
                                 void *const out[], void *workspace)
{
  WidenedKernel *widened = kernel->data;
  const RengaKernel wide = kernel->wide;
  const RengaOpCall *call = &kernel->call;
  for (int p = 0; p < call->n_in + call->n_out; p++) {
    void *given = p < call->n_in ? (void *)(uintptr_t)in[p] : out[p - call->n_in];
    const bool copy = given && IsLowTensor(SpecOfTensor(call, p));
    widened->pointer[p] = copy ? (char *)workspace + widened->offset[p] : given;
  }
  RengaCall(ConvertArguments(kernel, stream, in, out, true));
  RengaCall(wide->run(wide, stream, context, (const void **)widened->pointer,
                      widened->pointer + call->n_in, (char *)workspace + widened->bytes));
  RengaCall(ConvertArguments(kernel, stream, in, out, false));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyWidened(RengaKernel kernel)
{
  WidenedKernel *widened = kernel->data;
  RengaFree(&widened->offset);
  RengaFree(&widened->pointer);
  RengaFree(&kernel->data);
  return RENGA_SUCCESS;
}

/* Inputs are read before, and outputs rounded after the wide kernel runs: where one of a pair is a
   copy, the output may lie over the input. */
static void AllowOverCopies(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  kernel->alias = kernel->wide->alias;
  for (int o = 0; o < call->n_out && o < 8; o++)
    for (int i = 0; i < call->n_in && i < 8; i++)
      if (IsLowTensor(&call->out[o]) || IsLowTensor(&call->in[i]))
        kernel->alias |= RENGA_KERNEL_ALIAS(o, i);
}

static RengaErrorCode PlaceCopies(RengaKernel kernel, WidenedKernel *widened)
{
  const RengaOpCall *call = &kernel->call, *wide = &kernel->wide->call;
  const int count = call->n_in + call->n_out;
  RengaCall(RengaMalloc(count + 1, &widened->offset));
  RengaCall(RengaMalloc(count + 1, &widened->pointer));
  for (int p = 0; p < count; p++) {
    if (!IsLowTensor(SpecOfTensor(call, p))) continue;
    widened->offset[p] = widened->bytes;
    widened->bytes += (RengaTensorSpecBytes(SpecOfTensor(wide, p)) + 63) / 64 * 64;
  }
  return RENGA_SUCCESS;
}

/* Where this fails, who destroys the kernel frees what was made. */
RengaErrorCode RengaKernelWiden_Private(RengaKernel kernel)
{
  WidenedKernel *widened;
  RengaCall(RengaMalloc(1, &widened));
  kernel->data = widened;
  kernel->destroy = DestroyWidened;
  RengaCall(PlaceCopies(kernel, widened));
  kernel->workspace = widened->bytes + kernel->wide->workspace;
  kernel->fallback = kernel->wide->fallback;
  kernel->run = RunWidened;
  AllowOverCopies(kernel);
  return RENGA_SUCCESS;
}
