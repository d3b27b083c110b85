/* The device object: its type, options, threads. What a type does is in ref.c and cpu/. */
#include "renga/private/device.h"
#include "renga/private/open.h"
#include "renga/private/packages.h"
#include <stddef.h>
#include <string.h>

#define ROW(name) offsetof(RengaDeviceOptions, name)
static const RengaOptionRow options[] = {
    {"device_type", RENGA_OPTION_STRING, RENGA_DEVICE_CPU, ROW(type), "ref|cpu|cuda|far", 0, 0,
     "what computes: cpu, a GPU (cuda), plain loops (ref), or far for tests"},
    {"device_threads", RENGA_OPTION_INT, "0", ROW(threads), NULL, 0, 4096,
     "threads of this rank; 0: OMP_NUM_THREADS, else its share of the cores"},
    {"device_poison", RENGA_OPTION_BOOL, "false", ROW(poison), NULL, 0, 0,
     "fill fresh and freed memory with NaN"},
    {"device_isa", RENGA_OPTION_STRING, "auto", ROW(isa), "auto|base|avx2|avx512", 0, 0,
     "instruction set of the cpu kernels"},
    {"device_view", RENGA_OPTION_STRING, NULL, ROW(view), NULL, 0, 0,
     "show the device once it is set up, with what it computes itself: ascii[:FILE]"},
};
#undef ROW
enum { N_OPTIONS = sizeof options / sizeof *options };

static const RengaTypeRow types[] = {
    {RENGA_DEVICE_REF, RengaDeviceCreate_Ref, NULL},
    {RENGA_DEVICE_CPU, RengaDeviceCreate_Cpu, NULL},
    {RENGA_DEVICE_CUDA, RengaDeviceCreate_Cuda, NULL},
    {RENGA_DEVICE_FAR, RengaDeviceCreate_Far, NULL},
    {NULL, NULL, NULL},
};

static const RengaDeviceTypeOptions *const types_options[] = {&RengaDeviceOptions_Cuda,
                                                              &RengaDeviceOptions_Far};
enum { N_TYPES_WITH_OPTIONS = sizeof types_options / sizeof *types_options };

RengaErrorCode RengaDeviceRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Device", N_OPTIONS, options));
  for (int t = 0; t < N_TYPES_WITH_OPTIONS; t++)
    RengaCall(RengaOptionsRegister("Device", types_options[t]->count, types_options[t]->row));
  return RENGA_SUCCESS;
}

static RengaErrorCode ResetDevice(void *object)
{
  RengaDevice device = object;
  RengaErrorCode code = RengaDeviceFreeStaging_Private(device);
  if (device->reached) RengaKeepFirst_Private(&code, RengaEventDestroy(device, &device->reached));
  RengaKeepFirst_Private(&code, RengaDeviceFreeSpans_Private(device));
  if (device->ops->destroy) RengaKeepFirst_Private(&code, device->ops->destroy(device));
  memset(device->ops, 0, sizeof *device->ops);
  device->data = NULL;
  device->choices = NULL;
  RengaCall(code);
  return RENGA_SUCCESS;
}

static const RengaClass devices = {"RengaDevice", "device_type", types, ResetDevice,
                                   RengaDeviceAdopt_Private};

static RengaErrorCode DestroyDevice(void *object)
{
  RengaDevice device = object;
  RengaCheck(device->n_blocks == 0, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "%d blocks (%zu bytes) of the device are not freed", device->n_blocks, device->used);
  const RengaErrorCode code = ResetDevice(device);
  RengaFree(&device->blocks);
  RengaCall(RengaOptionsFreeStrings(N_OPTIONS, options, &device->options));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceRegister - add a type of device from outside

   Input:
   . rule - kept, not copied, until the program ends: its name, its memory, and what it has of
     streams, events and kernels

   Errors: a name that another type has, or a part of functions that belong together.

   Notes: before RengaInitialize, so that -device_type may choose it. Operators that the rule does
   not know, updates and sums are computed on the host, from copies where host is false.

   See also: RengaKernelRegister(), RengaDeviceSetType()
@*/
RengaErrorCode RengaDeviceRegister(const RengaDeviceRule *rule)
{
  RengaCheckPointer(rule);
  RengaCall(RengaDeviceCheckRule_Private(rule));
  RengaCall(RengaClassRegisterType_Private(&devices, rule->name, rule));
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceCreate - what computes: memory, kernels and updates of one rank

   Collective

   Input:
   . comm - ranks that create one device each

   Output:
   . device - RengaDeviceDestroy frees it

   See also: RengaDeviceSetType(), RengaDeviceSetUp(), RengaDeviceDestroy()
@*/
RengaErrorCode RengaDeviceCreate(RengaComm comm, RengaDevice *device)
{
  RengaCheckPointer(device);
  RengaDevice made = NULL;
  RengaCall(RengaHeaderCreate(comm, "RengaDevice", sizeof *made, DestroyDevice, &made));
  RengaErrorCode code = RengaOptionsSetDefaults(N_OPTIONS, options, &made->options);
  if (code == RENGA_SUCCESS) code = RengaDeviceSetType(made, made->options.type);
  if (code != RENGA_SUCCESS) RengaHeaderDestroy(&made);
  RengaCall(code);
  *device = made;
  return RENGA_SUCCESS;
}

/* Another device of the same type and options, with memory of its own. Collective. copy: not set
   up; RengaDeviceDestroy frees it. */
RengaErrorCode RengaDeviceDuplicate(RengaDevice device, RengaDevice *copy)
{
  RengaDevice made = NULL;
  RengaCheckPointers(device, copy);
  RengaCall(RengaDeviceCreate(device->hdr.owner, &made));
  made->options.threads = device->options.threads;
  made->options.poison = device->options.poison;
  RengaFree(&made->options.isa);
  RengaErrorCode code = RengaStringCopy(device->options.isa, &made->options.isa);
  if (!code) code = RengaDeviceSetType(made, device->hdr.type_name);
  if (!code && made->ops->duplicate) code = made->ops->duplicate(device, made);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *copy = made;
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceSetType - choose what computes

   Collective

   Input:
   . device - the device, without memory in use
   . type - RENGA_DEVICE_REF, RENGA_DEVICE_CPU, RENGA_DEVICE_CUDA, RENGA_DEVICE_FAR or one
     of RengaDeviceRegister

   Options:
   . -device_type - the same

   Errors: RENGA_ERR_SUPPORT for a type that there is not, or was not built in; RENGA_ERR_ORDER
   while memory of the device is in use.

   See also: RengaDeviceGetType(), RengaDeviceRegister()
@*/
RengaErrorCode RengaDeviceSetType(RengaDevice device, const char *type)
{
  RengaCheckPointers(device, type);
  RengaCheck(device->n_blocks == 0, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "the type cannot change: %d blocks of the device are in use", device->n_blocks);
  RengaCall(RengaClassSetType_Private(&devices, device, type, __func__));
  if (strcmp(device->options.type, device->hdr.type_name) != 0) {
    RengaFree(&device->options.type);
    RengaCall(RengaStringCopy(device->hdr.type_name, &device->options.type));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDeviceGetType(RengaDevice device, const char **type)
{
  RengaCheckPointers(device, type);
  *type = device->hdr.type_name;
  return RENGA_SUCCESS;
}

const char *RengaDeviceGetKernelSet_Private(RengaDevice device)
{
  return device->kernels ? device->kernels : "";
}

/*@
   RengaDeviceSetThreads - threads that kernels use

   Input:
   . threads - the number of threads, at least 1; 0: the environment's OMP_NUM_THREADS, else this
     rank's share of the cores

   Options:
   . -device_threads - the same

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   Notes: no result depends on it.
@*/
RengaErrorCode RengaDeviceSetThreads(RengaDevice device, int threads)
{
  RengaCheckPointer(device);
  RengaCheck(threads >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "threads is %d: give 0 or more",
             threads);
  device->options.threads = threads;
  device->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceGetThreads - threads in use

   Input:
   . device - the device, set up

   Output:
   . threads - the number of threads, at least 1

   Errors: RENGA_ERR_ORDER before RengaDeviceSetUp.
@*/
RengaErrorCode RengaDeviceGetThreads(RengaDevice device, int *threads)
{
  RengaCheckPointers(device, threads);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  *threads = device->threads;
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceSetPoison - fill fresh and freed memory with NaN, to find what is read unset

   Input:
   . poison - whether to

   Options:
   . -device_poison - the same
@*/
RengaErrorCode RengaDeviceSetPoison(RengaDevice device, bool poison)
{
  RengaCheckPointer(device);
  device->options.poison = poison;
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceGetPoison - is fresh and freed memory filled with NaN?

   Notes: who manages a part of the device's memory does the same with it.
@*/
bool RengaDeviceGetPoison(RengaDevice device)
{
  RengaCheckHandle(device, false);
  return device->options.poison;
}

/* None of a type's options was given to a device of another type. */
static RengaErrorCode RefuseOptionsOf(const RengaDeviceTypeOptions *options_of, RengaDevice device)
{
  if (strcmp(device->hdr.type_name, options_of->type) == 0) return RENGA_SUCCESS;
  for (int i = 0; i < options_of->count; i++) {
    const char *value;
    bool given = false;
    RengaCall(RengaOptionsGetString(options_of->row[i].name, &value, &given));
    RengaCheck(!given, device->hdr.comm, RENGA_ERR_OPTION,
               "-%s is for -device_type %s, but the type is %s", options_of->row[i].name,
               options_of->type, device->hdr.type_name);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceSetFromOptions - read the options of a device

   Collective

   Options:
   . -device_type - ref, cpu, cuda or far
   . -device_threads - threads of this rank
   . -device_poison - fill fresh and freed memory with NaN, to find what is read unset
   . -device_isa - auto, base, avx2 or avx512: instruction set of the cpu kernels
   . -device_number, -device_cuda_module, -device_cuda_workspace - of type cuda: which GPU, the
     module that drives it, and the memory that its products may work in
   . -device_graphs - of type cuda: launch the kernels of a part of a program by one call
   . -device_view - show the device once it is set up
   . -device_far_seed, -device_far_kernels - of type far: order of its work, and what computes

   Errors: RENGA_ERR_OPTION for a bad value, or an option of type cuda or far for another type;
   RENGA_ERR_SUPPORT for a type that was not built in; RENGA_ERR_ORDER while memory of the device
   is in use.

   See also: RengaDeviceSetType(), RengaDeviceSetThreads()
@*/
RengaErrorCode RengaDeviceSetFromOptions(RengaDevice device)
{
  RengaCheckPointer(device);
  RengaCall(RengaOptionsSetFromDatabase(device->hdr.prefix, N_OPTIONS, options, &device->options));
  if (strcmp(device->options.type, device->hdr.type_name) != 0)
    RengaCall(RengaDeviceSetType(device, device->options.type));
  for (int t = 0; t < N_TYPES_WITH_OPTIONS; t++)
    RengaCall(RefuseOptionsOf(types_options[t], device));
  if (device->ops->setfromoptions) RengaCall(device->ops->setfromoptions(device));
  device->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/* -device_view */
static RengaErrorCode ShowDevice(RengaDevice device)
{
  RengaViewer viewer;
  if (!device->options.view) return RENGA_SUCCESS;
  RengaCall(RengaViewerCreate(device->hdr.owner, device->options.view, &viewer));
  const RengaErrorCode code = RengaDeviceView(device, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A file is written anew, with all that is in it. */
RengaErrorCode RengaDeviceShowChoices_Private(RengaDevice device)
{
  RengaViewer viewer;
  if (!device->options.view || !device->choices) return RENGA_SUCCESS;
  RengaCall(RengaViewerCreate(device->hdr.owner, device->options.view, &viewer));
  const RengaErrorCode code = strchr(device->options.view, ':')
                                  ? RengaDeviceView(device, viewer)
                                  : device->choices->view(device, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode NameKernels(RengaDevice device)
{
  char more[RENGA_KERNELS_TEXT / 2] = "";
  if (device->ops->describe) RengaCall(device->ops->describe(device, sizeof more, more));
  snprintf(device->computed_by, sizeof device->computed_by, "%s, renga " RENGA_VERSION "%s%s",
           device->hdr.type_name, more[0] ? ", " : "", more);
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceSetUp - find the cores, choose the kernels

   Collective

   Input:
   . device - the device; after this call it has memory, streams and kernels

   Options:
   . -device_view KIND:FILE - show it

   Errors: RENGA_ERR_LIBRARY where the machine's cores cannot be read; RENGA_ERR_TIMEOUT where a
   rank does not come.

   See also: RengaDeviceCreate()
@*/
RengaErrorCode RengaDeviceSetUp(RengaDevice device)
{
  RengaCheckPointer(device);
  if (device->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  device->threads = device->options.threads;
  if (device->threads == 0) RengaCall(RengaDeviceCountThreads(device->hdr.comm, &device->threads));
  RengaCall(device->ops->setup(device));
  RengaCall(NameKernels(device));
  device->hdr.state = RENGA_STATE_SETUP;
  RengaCall(ShowDevice(device));
  return RENGA_SUCCESS;
}

/* The processor's name as the system knows it; empty where it does not. */
static void ReadProcessor(size_t size, char text[])
{
  char line[512];
  FILE *file = RengaFileOpen_Private("/proc/cpuinfo", "r");
  text[0] = '\0';
  while (file && text[0] == '\0' && fgets(line, sizeof line, file)) {
    const char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
    if (colon) snprintf(text, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
  }
  if (file) fclose(file);
}

/*@
   RengaDeviceGetKernels - what the bits that a device computes depend on, in words

   Not collective

   Input:
   . device - the device, set up

   Output:
   . text - type, version of Renga, then of cpu: instruction set, oneDNN with its version and
     instruction set, the BLAS with version and processor as it says them; of cuda: GPU, driver,
     versions of CUDA, cuBLAS, and cuDNN where it is used. Lent by the device

   Errors: RENGA_ERR_ORDER before RengaDeviceSetUp.

   Notes: the same text means the same bits, on any number of threads and ranks. Where ranks have
   unequal ones RengaPipelineSetUp warns, and the text is that of rank 0 and of the first other.
   Checkpoints have it as their attribute `kernels`.

   See also: RengaDeviceDescribe(), RengaCheckpointResume()
@*/
RengaErrorCode RengaDeviceGetKernels(RengaDevice device, const char **text)
{
  RengaCheckPointers(device, text);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  *text = device->computed_by;
  return RENGA_SUCCESS;
}

RengaKernelsDifference RengaDeviceFindDifference_Private(const char *one, const char *other)
{
  const int length[2] = {(int)strlen(one), (int)strlen(other)};
  const int least = length[0] < length[1] ? length[0] : length[1];
  int first = 0, last = 0; /* characters that both begin and end with, after and before a comma */
  for (int i = 0; i < least && one[i] == other[i]; i++)
    if (i > 0 && one[i] == ' ' && one[i - 1] == ',') first = i + 1;
  for (int i = 1; i <= least - first && one[length[0] - i] == other[length[1] - i]; i++)
    if (one[length[0] - i] == ',') last = i;
  return (RengaKernelsDifference){{one + first, other + first},
                                  {length[0] - first - last, length[1] - first - last}};
}

/*@
   RengaDeviceDescribe - what the speed of a device depends on, in words

   Input:
   . device - the device, set up
   . size - bytes of text, at least 1

   Output:
   . text - type, instruction set, versions of libraries, threads, processor; the same text means
     the same speed

   Errors: RENGA_ERR_ORDER before RengaDeviceSetUp.

   See also: RengaDeviceGetKernels(), RengaDeviceView()
@*/
RengaErrorCode RengaDeviceDescribe(RengaDevice device, size_t size, char text[])
{
  char processor[256];
  RengaCheckPointers(device, text);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  ReadProcessor(sizeof processor, processor);
  snprintf(text, size, "%s, %d threads, %s", device->computed_by, device->threads,
           processor[0] ? processor : "unknown processor");
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceView - type, memory, kernels and processor of rank 0's device

   Collective

   Input:
   . viewer - the viewer that it is shown by

   Errors: RENGA_ERR_ORDER before RengaDeviceSetUp; RENGA_ERR_FILE_WRITE where the file does not
   take it.

   See also: RengaDeviceDescribe(), RengaViewerCreate()
@*/
RengaErrorCode RengaDeviceView(RengaDevice device, RengaViewer viewer)
{
  RengaCheckPointer(device);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  size_t capacity = 0, used = 0, peak = 0;
  RengaCall(RengaDeviceGetMemory(device, &capacity, &used, &peak));
  char text[3][32], about[RENGA_KERNELS_TEXT + 256];
  RengaCall(RengaDeviceDescribe(device, sizeof about, about));
  RengaFormatBytes((double)capacity, sizeof text[0], text[0]);
  RengaFormatBytes((double)used, sizeof text[1], text[1]);
  RengaFormatBytes((double)peak, sizeof text[2], text[2]);
  RengaCall(RengaViewerPrintf(viewer,
                              "device %s: %d threads, %s of memory, %s in use, %s at most\n",
                              device->hdr.type_name, device->threads, text[0], text[1], text[2]));
  RengaCall(RengaViewerPrintf(viewer, "  %s\n", about));
  if (device->ops->view) RengaCall(device->ops->view(device, viewer));
  return RENGA_SUCCESS;
}

/*@
   RengaDeviceDestroy - give the device back

   Collective

   Input:
   . device - set to NULL; its memory, streams, events and kernels must be gone
@*/
RengaErrorCode RengaDeviceDestroy(RengaDevice *device)
{
  RengaCheckPointer(device);
  RengaCall(RengaHeaderDestroy(device));
  return RENGA_SUCCESS;
}
