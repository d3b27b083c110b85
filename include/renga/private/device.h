/* What the types of devices share: the object, the table of a type, and a kernel. */
#pragma once
#include "renga/private/fabric.h"
#include "renga/private/object.h"
#include "rengadevice.h"

typedef RengaErrorCode (*RengaKernelRunFunction)(RengaKernel kernel, RengaStream stream,
                                                 const RengaKernelContext *context,
                                                 const void *const in[], void *const out[],
                                                 void *workspace);

/* One operator of a device type. create looks at kernel->call and fills run, workspace, alias, data
   and destroy; it may leave run NULL, and the ref kernel is taken instead, or for a call with
   16-bit floats the kernel for float32 between conversions. Each floating tensor of a call may have
   a type of its own. */
typedef struct {
  const char *name; /* of the operator; NULL ends a table */
  RengaErrorCode (*create)(RengaKernel kernel);
} RengaKernelRow;

struct _RengaKernel {
  RengaDevice device;
  RengaOpCall call; /* a copy: attributes, in and out are the kernel's own */
  RengaKernelRunFunction run;
  RengaErrorCode (*destroy)(RengaKernel kernel); /* frees data; NULL: there is nothing to free */
  size_t workspace;                              /* bytes */
  uint64_t alias; /* bit 8 * output + input: output may be that input */
  bool fallback;
  RengaKernel wide; /* for float32, between conversions, and freed with this one; NULL: none */
  void *data;
};
#define RENGA_KERNEL_ALIAS(output, input) ((uint64_t)1 << (8 * (output) + (input)))

/* What a device whose memory is not the host's keeps for kernels that compute on the host. */
typedef struct {
  char *memory;
  size_t bytes;
  RengaEvent free; /* recorded behind the copies that read the memory last */
} RengaDeviceStaging;

struct _RengaDeviceOps {
  /* what the type keeps beside RengaDeviceOptions; may be NULL */
  RengaErrorCode (*setfromoptions)(RengaDevice device);
  RengaErrorCode (*duplicate)(RengaDevice device, RengaDevice copy);
  RengaErrorCode (*setup)(RengaDevice device);
  RengaErrorCode (*view)(RengaDevice device, RengaViewer viewer);
  RengaErrorCode (*describe)(RengaDevice device, size_t size, char text[]); /* may be NULL */
  RengaErrorCode (*destroy)(RengaDevice device);
  RengaErrorCode (*findkernel)(RengaDevice device, const char *name, const RengaKernelRow **row);
  RengaErrorCode (*malloc)(RengaDevice device, size_t bytes, void **pointer);
  RengaErrorCode (*free)(RengaDevice device, size_t bytes, void **pointer);
  /* Memory of the host that copies are fast from and to; NULL: any is */
  RengaErrorCode (*hostmalloc)(RengaDevice device, size_t bytes, void **pointer);
  RengaErrorCode (*hostfree)(RengaDevice device, void **pointer);
  RengaErrorCode (*capacity)(RengaDevice device, size_t *bytes);
  RengaErrorCode (*copy)(RengaDevice device, RengaStream stream, RengaCopyKind kind, void *to,
                         const void *from, size_t bytes);
  RengaErrorCode (*setbytes)(RengaDevice device, RengaStream stream, void *to, int byte,
                             size_t bytes);
  RengaErrorCode (*streamcreate)(RengaDevice device, RengaStream *stream);
  RengaErrorCode (*streamsynchronize)(RengaDevice device, RengaStream stream);
  RengaErrorCode (*streamdestroy)(RengaDevice device, RengaStream *stream);
  RengaErrorCode (*eventcreate)(RengaDevice device, RengaEvent *event);
  RengaErrorCode (*eventrecord)(RengaDevice device, RengaEvent event, RengaStream stream);
  RengaErrorCode (*eventwait)(RengaDevice device, RengaEvent event, RengaStream stream);
  RengaErrorCode (*eventsynchronize)(RengaDevice device, RengaEvent event);
  RengaErrorCode (*eventquery)(RengaDevice device, RengaEvent event, bool *done);
  RengaErrorCode (*eventdestroy)(RengaDevice device, RengaEvent *event);
  /* One of the types is float32, the other one has 16 bits. */
  RengaErrorCode (*convert)(RengaDevice device, RengaStream stream, int64_t count,
                            RengaDataType from, const void *x, RengaDataType to, void *y);
  /* Vectors are float32, but for values beside the parameters. */
  RengaErrorCode (*add)(RengaDevice device, RengaStream stream, int64_t count, float y[],
                        const float x[]);
  RengaErrorCode (*sumsofsquares)(RengaDevice device, RengaStream stream, int count,
                                  const RengaVector x[], double sums[]);
  RengaErrorCode (*updatesgd)(RengaDevice device, RengaStream stream, const RengaSgdStep *step,
                              double scale, int count, const RengaParameterUpdate updates[]);
  RengaErrorCode (*updateadam)(RengaDevice device, RengaStream stream, const RengaAdamStep *step,
                               double scale, int count, const RengaParameterUpdate updates[]);
  const RengaFabric *fabric; /* NULL: none */
};

typedef struct {
  void *pointer;
  size_t bytes;
} RengaDeviceBlock;

typedef struct {
  char *type, *isa, *view;
  int threads; /* 0: choose */
  bool poison;
} RengaDeviceOptions;

struct _p_RengaDevice {
  RENGAHEADER(struct _RengaDeviceOps);
  RengaDeviceOptions options;
  int threads; /* in use, known after RengaDeviceSetUp */
  bool host;
  const char *kernels; /* which of the type's sets of kernels compute: others make other bits; NULL:
                          it has one; known after RengaDeviceSetUp */
  size_t used, peak;
  int n_blocks, size_blocks;
  RengaDeviceBlock *blocks; /* what is allocated on the device */
  RengaDeviceStaging staging;
  void *data; /* of the type */
};

/* Cores of this rank: those its binding allows, each shared with the ranks of this node that may
   use it too. Collective on comm. */
RengaErrorCode RengaDeviceCountThreads(MPI_Comm comm, int *threads);

/* The set of kernels that computes, "" where the type has one: the same set and libraries, the same
   bits. Lent. */
const char *RengaDeviceGetKernelSet_Private(RengaDevice device);

/* Signals of this thread wait between these two, which nest; RengaKernelRun does both, and who runs
   many kernels does it once around them. */
void RengaDeviceHoldSignals_Private(void);
void RengaDeviceReleaseSignals_Private(void);
void RengaDeviceRefuseSignals_Private(void); /* for ever: a thread of a team */

/* Devices whose memory is the host's: fills memory, copies, streams and events of the table. */
RengaErrorCode RengaDeviceSetHost_Private(RengaDevice device);
RengaErrorCode RengaDeviceCreate_Ref(void *device);
RengaErrorCode RengaDeviceCreate_Cpu(void *device);
RengaErrorCode RengaDeviceCreate_Far(void *device);
int64_t RengaFarGetIdle_Private(RengaDevice device);
RengaErrorCode RengaDeviceCreate_Cuda(void *device);
/* Options that one type has; to a device of another type they are an error. */
typedef struct {
  const char *type;
  int count;
  const RengaOptionRow *row; /* [count] */
} RengaDeviceTypeOptions;
extern const RengaDeviceTypeOptions RengaDeviceOptions_Far, RengaDeviceOptions_Cuda;
/* Has a call a tensor of 16-bit floats? */
static inline bool RengaDeviceIsLow(RengaDataType type)
{
  return type == RENGA_BFLOAT16 || type == RENGA_FLOAT16;
}
bool RengaOpCallIsLow_Private(const RengaOpCall *call);
/* Inputs and outputs of a call, with float32 in place of 16-bit floats. */
void RengaOpCallWiden_Private(const RengaOpCall *call, RengaTensorSpec in[], RengaTensorSpec out[]);
/* The kernel's own wide one, between conversions. */
RengaErrorCode RengaKernelWiden_Private(RengaKernel kernel);
/* A kernel that computes on the host: its inputs are copied there, its outputs back. */
RengaErrorCode RengaKernelStage_Private(RengaKernel kernel);
RengaErrorCode RengaDeviceNeedStaging_Private(RengaDevice device, size_t bytes);
RengaErrorCode RengaDeviceFreeStaging_Private(RengaDevice device);
/* Vectors by the formulas of the ref device, on the host. */
RengaErrorCode RengaDeviceSetStagedVectors_Private(RengaDevice device);
/* A type from outside. */
RengaErrorCode RengaDeviceCheckRule_Private(const RengaDeviceRule *rule);
RengaErrorCode RengaDeviceAdopt_Private(void *device, const void *rule);
/* The ref kernel of an operator; row NULL where there is none. */
RengaErrorCode RengaKernelCreate_Ref(RengaKernel kernel, bool *found);
