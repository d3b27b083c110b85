/* The far device, for tests: it computes as cpu does, but its memory is closed to the host, and its
   work is done late and out of order. What holds on it holds on devices with memory and time of
   their own. */
#include "far.h"
#include <stddef.h>
#include <string.h>

#define ROW(name) offsetof(FarOptions, name)
static const RengaOptionRow options[] = {
    {"device_far_seed", RENGA_OPTION_INT64, "1", ROW(seed), NULL, 0, 1e18,
     "far: seed of the order in which queued work is done"},
    {"device_far_kernels", RENGA_OPTION_STRING, RENGA_DEVICE_CPU, ROW(kernels), "cpu|ref", 0, 0,
     "far: kernels of the cpu device, or the ref ones"},
};
#undef ROW
enum { N_OPTIONS = sizeof options / sizeof *options };

const RengaDeviceTypeOptions RengaDeviceOptions_Far = {RENGA_DEVICE_FAR, N_OPTIONS, options};

static RengaErrorCode SetFromOptions_Far(RengaDevice device)
{
  FarDevice *far = device->data;
  RengaCall(RengaOptionsSetFromDatabase(device->hdr.prefix, N_OPTIONS, options, &far->options));
  return RENGA_SUCCESS;
}

static RengaErrorCode Duplicate_Far(RengaDevice device, RengaDevice copy)
{
  const FarDevice *from = device->data;
  FarDevice *to = copy->data;
  to->options.seed = from->options.seed;
  RengaFree(&to->options.kernels);
  RengaCall(RengaStringCopy(from->options.kernels, &to->options.kernels));
  return RENGA_SUCCESS;
}

/* The inner device is that of this one: its memory, threads and instruction set are. */
static RengaErrorCode SetUpInner(RengaDevice device)
{
  FarDevice *far = device->data;
  struct _p_RengaDevice *inner = &far->inner;
  memset(inner, 0, sizeof *inner);
  RengaCall(RengaDeviceCreate_Cpu(inner));
  inner->hdr.class_name = device->hdr.class_name;
  inner->hdr.comm = device->hdr.comm;
  inner->hdr.type_name = device->hdr.type_name;
  inner->hdr.state = RENGA_STATE_SETUP;
  inner->options.isa = device->options.isa;
  inner->threads = device->threads;
  RengaCall(inner->ops->setup(inner));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUp_Far(RengaDevice device)
{
  FarDevice *far = device->data;
  RengaCall(SetUpInner(device));
  snprintf(far->kernels, sizeof far->kernels, "%s, vectors %s", far->options.kernels,
           far->inner.kernels);
  device->kernels = far->kernels;
  if (!far->space) RengaCall(RengaClosedCreate_Private(RENGA_DEVICE_FAR, &far->space));
  if (!far->compute) RengaCall(RengaFarBegin_Private(device));
  return RENGA_SUCCESS;
}

static RengaErrorCode View_Far(RengaDevice device, RengaViewer viewer)
{
  FarDevice *far = device->data;
  RengaCall(RengaViewerPrintf(viewer, "  kernels %s, seed of the order of work %lld\n",
                              far->options.kernels, (long long)far->options.seed));
  return RENGA_SUCCESS;
}

static RengaErrorCode Describe_Far(RengaDevice device, size_t size, char text[])
{
  FarDevice *far = device->data;
  const int used = snprintf(text, size, "kernels of %s, ", far->options.kernels);
  RengaCall(far->inner.ops->describe(&far->inner, size - (size_t)used, text + used));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindKernel_Far(RengaDevice device, const char *name,
                                     const RengaKernelRow **row)
{
  FarDevice *far = device->data;
  const RengaKernelRow *own = NULL;
  if (strcmp(far->options.kernels, RENGA_DEVICE_CPU) == 0)
    RengaCall(far->inner.ops->findkernel(&far->inner, name, &own));
  *row = own ? &RengaFarKernelRow : NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode Destroy_Far(RengaDevice device)
{
  FarDevice *far = device->data;
  const RengaErrorCode code = RengaFarEnd_Private(device);
  RengaClosedDestroy_Private(&far->space);
  RengaCall(RengaOptionsFreeStrings(N_OPTIONS, options, &far->options));
  RengaFree(&device->data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceCreate_Far(void *object)
{
  RengaDevice device = object;
  FarDevice *far;
  RengaCall(RengaMalloc(1, &far));
  const RengaErrorCode code = RengaOptionsSetDefaults(N_OPTIONS, options, &far->options);
  if (code) RengaFree(&far);
  RengaCall(code);
  device->data = far;
  device->host = false;
  device->precisions = 1U << RENGA_PRECISION_FP8;
  device->ops->setfromoptions = SetFromOptions_Far;
  device->ops->duplicate = Duplicate_Far;
  device->ops->setup = SetUp_Far;
  device->ops->view = View_Far;
  device->ops->describe = Describe_Far;
  device->ops->findkernel = FindKernel_Far;
  device->ops->destroy = Destroy_Far;
  RengaFarSetWork_Private(device);
  RengaFarSetVectors_Private(device);
  RengaFarSetQueue_Private(device);
  return RENGA_SUCCESS;
}
