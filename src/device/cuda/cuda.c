/* The cuda device: its options, and the module, which is opened when the device is set up. Nothing
   here needs CUDA to be compiled or linked. */
#include "cuda.h"
#include "renga/private/wait.h"
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define ROW(name) offsetof(CudaOptions, name)
static const RengaOptionRow options[] = {
    {"device_number", RENGA_OPTION_INT, "-1", ROW(number), NULL, -1, 1024,
     "cuda: which GPU of the node; -1: by the rank within the node"},
    {"device_cuda_workspace", RENGA_OPTION_INT, "32", ROW(workspace), NULL, 0, 4096,
     "cuda: MiB of workspace for matrix products; decides bits"},
    {"device_graphs", RENGA_OPTION_BOOL, "on", ROW(graphs), NULL, 0, 0,
     "cuda: record kernels as CUDA graphs and launch each by one call"},
    {"device_cudnn", RENGA_OPTION_BOOL, "on", ROW(cudnn), NULL, 0, 0,
     "cuda: attention and convolutions by cuDNN where it is there and fits"},
    {"device_cudnn_workspace", RENGA_OPTION_INT, "1024", ROW(cudnn_workspace), NULL, 0, 65536,
     "cuda: MiB that a kernel of cuDNN may work in; else own kernels"},
    {"device_images", RENGA_OPTION_ENUM, "auto", ROW(images), "auto|channels_first|channels_last",
     0, 0, "cuda: order of images in memory; auto: channels last for cuDNN"},
    {"device_cuda_module", RENGA_OPTION_STRING, "", ROW(module), NULL, 0, 0,
     "cuda: file of the module; empty: renga/renga_cuda.so beside the library"},
};
#undef ROW
enum { N_OPTIONS = sizeof options / sizeof *options };

const RengaDeviceTypeOptions RengaDeviceOptions_Cuda = {RENGA_DEVICE_CUDA, N_OPTIONS, options};

static RengaErrorCode SetFromOptions_Cuda(RengaDevice device)
{
  CudaDevice *cuda = device->data;
  RengaCall(RengaOptionsSetFromDatabase(device->hdr.prefix, N_OPTIONS, options, &cuda->options));
  return RENGA_SUCCESS;
}

static RengaErrorCode Duplicate_Cuda(RengaDevice device, RengaDevice copy)
{
  const CudaDevice *from = device->data;
  CudaDevice *to = copy->data;
  to->options.number = from->compute ? from->number : from->options.number;
  to->options.workspace = from->options.workspace;
  to->options.graphs = from->options.graphs;
  to->options.cudnn = from->options.cudnn;
  to->options.images = from->options.images;
  to->options.cudnn_workspace = from->options.cudnn_workspace;
  RengaFree(&to->options.module);
  RengaCall(RengaStringCopy(from->options.module, &to->options.module));
  return RENGA_SUCCESS;
}

/* The module's file: that of the option, or the one beside the library (or a program with it). */
static void NameModule(const CudaDevice *cuda, size_t size, char name[])
{
  Dl_info info = {0};
  snprintf(name, size, "%s", cuda->options.module);
  if (name[0]) return;
  if (!dladdr((const void *)options, &info)) info.dli_fname = NULL;
  const char *slash = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
  snprintf(name, size, "%.*s/renga/renga_cuda.so", slash ? (int)(slash - info.dli_fname) : 1,
           slash ? info.dli_fname : ".");
}

RengaErrorCode RengaCudaFail_Private(RengaDevice device, const char *function, const char *file,
                                     int line)
{
  CudaDevice *cuda = device->data;
  char text[256];
  size_t bytes;
  if (cuda->lost) return RENGA_ERR_LIBRARY;
  snprintf(text, sizeof text, "%s", cuda->module->error());
  if (cuda->records) {
    RengaCudaRefuseToRecord_Private(cuda);
    return RENGA_ERR_LIBRARY;
  }
  cuda->lost = cuda->module->memory(&bytes) != 0; /* a fault spoils what is right, too */
  return RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_LIBRARY, function, file, line,
                         cuda->lost ? "GPU %d failed and answers no more: %s"
                                    : "CUDA failed on GPU %d: %s",
                         cuda->number, text);
}

static RengaErrorCode OpenModule(CudaDevice *cuda)
{
  char name[4096];
  RengaCudaOpen get;
  NameModule(cuda, sizeof name, name);
  cuda->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  RengaCheck(cuda->library, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "-device_type cuda: this build has no CUDA (%s); use -device_type cpu", dlerror());
  void *symbol = dlsym(cuda->library, RENGA_CUDA_OPEN);
  memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from an object to a function */
  cuda->module = symbol ? get() : NULL;
  RengaCheck(cuda->module && cuda->module->version == RENGA_CUDA_VERSION, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT, "%s is not the cuda module of this version of Renga", name);
  return RENGA_SUCCESS;
}

/* This rank's place among those of its node. Collective. */
static RengaErrorCode FindLocalRank(MPI_Comm comm, int *rank)
{
  MPI_Comm node = MPI_COMM_NULL;
  RengaCall(RengaSplitByNode_Private(comm, &node));
  const int failed = MPI_Comm_rank(node, rank);
  RengaCallMPI(MPI_Comm_free(&node));
  RengaCallMPI(failed);
  return RENGA_SUCCESS;
}

static RengaErrorCode ChooseDevice(RengaDevice device, int local_rank)
{
  CudaDevice *cuda = device->data;
  const RengaCudaModule *module = cuda->module;
  int count = 0, number = cuda->options.number;
  RengaCheck(module->count(&count) == 0 && count > 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "no usable GPU: %s; use -device_type cpu", count ? "none" : module->error());
  if (number < 0) number = local_rank % count;
  RengaCheck(number < count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "-device_number %d: this node has %d GPUs, the first one is 0", number, count);
  RengaCheck(module->open(number, sizeof cuda->about, cuda->about) == 0, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT, "no usable GPU: %s; use -device_type cpu", module->error());
  cuda->number = number;
  RengaCudnnOpen_Private(cuda);
  RENGA_CALL_CUDA(device, module->memory(&cuda->free));
  device->records = cuda->options.graphs;
  void *moment = NULL;
  if (device->records) RENGA_CALL_CUDA(device, module->reserve(sizeof *cuda->moment, &moment));
  cuda->moment = moment;
  RENGA_CALL_CUDA(device, module->streamcreate(0, &cuda->compute));
  RENGA_CALL_CUDA(device, module->eventcreate(&cuda->parts_free));
  void *fault = NULL;
  RENGA_CALL_CUDA(device, module->hostreserve(sizeof *cuda->fault, &fault));
  cuda->fault = fault;
  *cuda->fault = (RengaCudaFault){.found = 0};
  return RENGA_SUCCESS;
}

/* Plans take all for alike. Of bits, which follow from it too, pipelines warn. */
static RengaErrorCode CompareGpus(RengaDevice device)
{
  static const char what[] = "all ranks to compare their GPUs";
  const CudaDevice *cuda = device->data;
  char first[sizeof cuda->about];
  int rank = 0;
  RengaCallMPI(MPI_Comm_rank(device->hdr.comm, &rank));
  snprintf(first, sizeof first, "%s", cuda->about);
  RengaCall(RengaBroadcast_Private(device->hdr.comm, first, sizeof first, what));
  int64_t other = strcmp(first, cuda->about) == 0 ? 0 : rank;
  RengaCall(RengaReduceInt64_Private(device->hdr.comm, MPI_MAX, &other, what));
  if (other > 0)
    RengaWarning(
        device->hdr.comm,
        "the GPUs are not equal: rank %lld has another than rank 0's (%s), so plans depend "
        "on what rank 0 has",
        (long long)other, first);
  return RENGA_SUCCESS;
}

/* Engines of cuDNN for [N,C,H,W] copy images to [N,H,W,C] and back; those of fp32 do not. */
static void ChooseImages(RengaDevice device)
{
  static const char *const said[] = {"", ", images channels first", ", images channels last"};
  CudaDevice *cuda = device->data;
  const unsigned all = (1U << RENGA_PRECISION_COUNT) - 1;
  const size_t length = strlen(cuda->about);
  snprintf(cuda->about + length, sizeof cuda->about - length, "%s", said[cuda->options.images]);
  if (cuda->options.images == CUDA_IMAGES_LAST) device->last_in = all;
  if (cuda->options.images == CUDA_IMAGES_AUTO && cuda->cudnn[0])
    device->last_in = all & ~(1U << RENGA_PRECISION_FP32);
}

/* All ranks have one, or none. */
static RengaErrorCode SetUp_Cuda(RengaDevice device)
{
  CudaDevice *cuda = device->data;
  int local_rank = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!cuda->module) code = OpenModule(cuda);
  RengaCall(RengaErrorAgree(device->hdr.comm, code));
  if (cuda->compute) return RENGA_SUCCESS;
  if (cuda->options.number < 0) RengaCall(FindLocalRank(device->hdr.comm, &local_rank));
  code = ChooseDevice(device, local_rank);
  RengaCall(RengaErrorAgree(device->hdr.comm, code));
  RengaCall(RengaCudnnCompare_Private(device));
  const size_t length = strlen(cuda->about);
  snprintf(cuda->about + length, sizeof cuda->about - length, "%s%s", cuda->cudnn[0] ? ", " : "",
           cuda->cudnn);
  ChooseImages(device);
  RengaCall(CompareGpus(device));
  return RENGA_SUCCESS;
}

/* Operators that it computes itself, at least for float32 and shapes that are not empty. */
static RengaErrorCode ViewKernels(RengaDevice device, RengaViewer viewer, bool own)
{
  int column = 0, count = 0;
  for (int i = 0; i < RengaOperatorCount(); i++) {
    const RengaKernelRow *row = NULL;
    RengaCall(RengaCudaFindKernel_Private(device, RengaOperatorAt(i)->name, &row));
    if ((row != NULL) != own) continue;
    const char *name = RengaOperatorAt(i)->name;
    const bool full = column + (int)strlen(name) > 90;
    if (count++ == 0)
      RengaCall(RengaViewerPrintf(viewer, "  operators computed on the %s:\n   ",
                                  own ? "GPU" : "host, from copies"));
    if (full) RengaCall(RengaViewerPrintf(viewer, "\n   "));
    RengaCall(RengaViewerPrintf(viewer, " %s", name));
    column = (full ? 0 : column) + (int)strlen(name) + 1;
  }
  if (count > 0) RengaCall(RengaViewerPrintf(viewer, "\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode View_Cuda(RengaDevice device, RengaViewer viewer)
{
  RengaCall(RengaViewerPrintf(viewer, "  CUDA graphs: %s\n", device->records ? "on" : "off"));
  RengaCall(RengaViewerPrintf(
      viewer, "  products of 8 bits (-precision fp8): %s\n",
      RengaCudaOf_Private(device)->module->tell(RENGA_CUDA_HAS_EIGHTS)
          ? "yes"
          : "no, of bfloat16 in their place: GPUs have them from compute capability 8.9 on"));
  RengaCall(RengaCudnnView_Private(device, viewer));
  RengaCall(RengaViewerPrintf(viewer, "  images: channels %s\n",
                              device->last_in >> RENGA_PRECISION_FP32 & 1 ? "last"
                              : device->last_in ? "last, but in fp32 first"
                                                : "first"));
  RengaCall(ViewKernels(device, viewer, true));
  RengaCall(ViewKernels(device, viewer, false));
  RengaCall(RengaViewerPrintf(viewer, "  16-bit floats between conversions: products of factors of "
                                      "two types, moves from one type to another\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode Describe_Cuda(RengaDevice device, size_t size, char text[])
{
  snprintf(text, size, "%s", RengaCudaOf_Private(device)->about);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReturnHeld(RengaDevice device, int (*release)(void *), void *held)
{
  if (held) RENGA_CALL_CUDA(device, release(held));
  return RENGA_SUCCESS;
}

/* All of it, after an error too; work is done. */
static RengaErrorCode CloseDevice(RengaDevice device)
{
  const CudaDevice *cuda = device->data;
  const RengaCudaModule *module = cuda->module;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!module) return RENGA_SUCCESS;
  RengaKeepFirst_Private(&code, RengaEventDestroy(device, &device->reached));
  RengaKeepFirst_Private(&code, RengaCudnnForget_Private(device));
  RengaKeepFirst_Private(&code, ReturnHeld(device, module->release, cuda->workspace));
  RengaKeepFirst_Private(&code, ReturnHeld(device, module->eventdestroy, cuda->workspace_free));
  RengaKeepFirst_Private(&code, ReturnHeld(device, module->release, cuda->moment));
  RengaKeepFirst_Private(&code, ReturnHeld(device, module->release, cuda->gate));
  RengaKeepFirst_Private(&code, ReturnHeld(device, module->release, cuda->values));
  RengaKeepFirst_Private(&code, ReturnHeld(device, module->hostrelease, cuda->fault));
  RengaKeepFirst_Private(&code, ReturnHeld(device, module->release, cuda->parts));
  RengaKeepFirst_Private(&code, ReturnHeld(device, module->eventdestroy, cuda->parts_free));
  RengaKeepFirst_Private(&code, ReturnHeld(device, module->streamdestroy, cuda->compute));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A wait that reaches its limit here leaves all as it is, too. */
static RengaErrorCode Destroy_Cuda(RengaDevice device)
{
  CudaDevice *cuda = device->data;
  RengaErrorCode code = RENGA_SUCCESS;
  if (cuda->compute && !RengaCudaIsGivenUp_Private(device))
    code = RengaStreamSynchronize(device, NULL);
  const bool given_up = RengaCudaIsGivenUp_Private(device);
  if (!given_up) RengaKeepFirst_Private(&code, CloseDevice(device));
  RengaFree(&cuda->pinned);
  if (cuda->library && !given_up) dlclose(cuda->library);
  RengaCall(RengaOptionsFreeStrings(N_OPTIONS, options, &cuda->options));
  RengaFree(&device->data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceCreate_Cuda(void *object)
{
  RengaDevice device = object;
  CudaDevice *cuda;
  RengaCall(RengaMalloc(1, &cuda));
  const RengaErrorCode code = RengaOptionsSetDefaults(N_OPTIONS, options, &cuda->options);
  if (code) RengaFree(&cuda);
  RengaCall(code);
  device->data = cuda;
  device->host = false;
  device->alone = true;
  device->precisions = 1U << RENGA_PRECISION_TF32 | 1U << RENGA_PRECISION_FP8;
  device->eights = true;
  device->ops->setfromoptions = SetFromOptions_Cuda;
  device->ops->duplicate = Duplicate_Cuda;
  device->ops->setup = SetUp_Cuda;
  device->ops->view = View_Cuda;
  device->ops->describe = Describe_Cuda;
  device->ops->findkernel = RengaCudaFindKernel_Private;
  device->ops->destroy = Destroy_Cuda;
  device->choices = &RengaCudnnChoices_Private;
  device->ops->fabric = &RengaCudaFabric_Private;
  RengaCudaSetQueue_Private(device);
  RengaCudaSetVectors_Private(device);
  RengaCudaSetRecordings_Private(device);
  return RENGA_SUCCESS;
}
