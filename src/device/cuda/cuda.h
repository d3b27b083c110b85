/* What the library's files of the cuda device share. The module (module.h) has all of CUDA. */
#pragma once
#include "module.h"
#include "renga/private/device.h"
#include "renga/private/fabric.h"
#include "renga/private/op.h"

typedef enum { CUDA_IMAGES_AUTO, CUDA_IMAGES_FIRST, CUDA_IMAGES_LAST } CudaImages;
typedef struct {
  int number;    /* -1: local rank modulo devices */
  int workspace; /* MiB */
  bool graphs, cudnn;
  int images; /* CudaImages */
  int cudnn_workspace; /* MiB */
  char *module;
} CudaOptions;

typedef struct CudaEngine CudaEngine;     /* of cuDNN, for one task */
typedef struct CudaReplaced CudaReplaced; /* a kernel that has one */

typedef struct {
  char *at;
  size_t bytes;
} CudaPinned;

typedef struct {
  CudaOptions options;
  void *library; /* of dlopen */
  const RengaCudaModule *module;
  int number;    /* the GPU in use */
  bool lost;     /* after a fault: each call fails */
  void *compute; /* the stream that NULL stands for */
  size_t free;   /* bytes that were, when it was opened: others and CUDA have the rest */
  char about[256];
  double *parts; /* of the device: sums of squares of pieces */
  size_t parts_bytes;
  void *parts_free; /* event behind what used them last */
  int n_pinned;
  CudaPinned *pinned;     /* [n_pinned] memory of the host that copies do not wait with */
  RengaCudaFault *fault;  /* pinned: what a kernel found wrong */
  void *workspace;        /* of products, from the first one on; options.workspace */
  void *workspace_stream; /* used it last */
  void *workspace_free;   /* event */
  RengaGateFound *gate;   /* of the device, once there was one */
  double *values;         /* of the device: of gates */
  int64_t n_values;
  bool gated;              /* updates ask it */
  RengaCudaMoment *moment; /* of the device: of the running recording; NULL: it records none */
  bool records;            /* what is queued now is recorded */
  char refusal[256];       /* of the first call that failed meanwhile; empty: none did */
  char cudnn[32];          /* its version, where it is in use; else empty, and why: */
  char no_cudnn[192];
  CudaEngine *engines;    /* all that were asked for */
  CudaReplaced *replaced; /* all kernels that are there */
  int dropped;            /* engines that were tried and are not used */
  bool agreed;            /* ranks compare engines: no rank tries one by itself any more */
  bool told_late;         /* of a kernel that is made later */
} CudaDevice;

/* call: of the module, which says what is wrong. */
#define RENGA_CALL_CUDA(device, call)                                                              \
  do {                                                                                             \
    const RengaCudaModule *module_ = RengaCudaOf_Private(device)->module;                          \
    (void)module_;                                                                                 \
    if ((call) != 0) return RengaCudaFail_Private(device, __func__, __FILE__, __LINE__);           \
  } while (0)
/* Says what is wrong, but once of a GPU that answers no more. */
RengaErrorCode RengaCudaFail_Private(RengaDevice device, const char *function, const char *file,
                                     int line);

static inline CudaDevice *RengaCudaOf_Private(RengaDevice device)
{
  return device->data;
}

static inline const RengaCudaModule *RengaCudaModuleOf_Private(RengaKernel kernel)
{
  return RengaCudaOf_Private(kernel->device)->module;
}

/* The module's stream. */
static inline void *RengaCudaStream_Private(RengaDevice device, RengaStream stream)
{
  return stream ? (void *)stream : RengaCudaOf_Private(device)->compute;
}

/* Bytes of the workspace of products. */
static inline size_t RengaCudaWorkspace_Private(RengaDevice device)
{
  return (size_t)RengaCudaOf_Private(device)->options.workspace << 20;
}

void RengaCudaSetQueue_Private(RengaDevice device); /* memory, streams, events */
/* A wait has reached its limit: CUDA gives nothing back before work is done that may never be. */
bool RengaCudaIsGivenUp_Private(RengaDevice device);
void RengaCudaSetVectors_Private(RengaDevice device);
void RengaCudaSetRecordings_Private(RengaDevice device);
/* What the module says is why nothing is recorded; the end of the recording tells it. */
void RengaCudaRefuseToRecord_Private(CudaDevice *cuda);
/* For kernels that are queued, or recorded, now. */
static inline RengaCudaContext RengaCudaContextOf_Private(RengaDevice device,
                                                          const RengaKernelContext *context)
{
  const CudaDevice *cuda = device->data;
  RengaCudaContext now = {.seed = context->seed, .training = context->training};
  if (cuda->records) {
    now.moment = cuda->moment;
  } else {
    now.step = context->step;
    now.sample = context->sample;
  }
  return now;
}
/* cudnn.c. Where cuDNN finds an operand of its task: in an input or output of the kernel, or in the
   workspace, after what the plan itself needs; offset: bytes. */
typedef enum {
  CUDA_OPERAND_NONE,
  CUDA_OPERAND_INPUT,
  CUDA_OPERAND_OUTPUT,
  CUDA_OPERAND_WORKSPACE
} CudaOperandFrom;
typedef struct {
  CudaOperandFrom from;
  int tensor;
  size_t offset;
} CudaOperandPlace;
typedef struct {
  CudaOperandPlace place[RENGA_CUDNN_OPERANDS];
  size_t workspace; /* bytes of the operands in it */
  /* What is done before cuDNN, and behind it, on operands in the workspace; NULL: nothing. */
  RengaErrorCode (*before)(RengaKernel kernel, RengaStream stream, const void *const in[],
                           void *workspace, void *const out[]);
  RengaErrorCode (*after)(RengaKernel kernel, RengaStream stream, const void *const in[],
                          void *workspace, void *const out[]);
} CudaOperands;
void RengaCudnnOpen_Private(CudaDevice *cuda);
/* Collective: it is in use where all ranks have the same one. */
RengaErrorCode RengaCudnnCompare_Private(RengaDevice device);
/* The kernel, which is made, is computed by cuDNN where that has the task. */
RengaErrorCode RengaCudnnOffer_Private(RengaKernel kernel, const RengaCudnnTask *task,
                                       const CudaOperands *operands);
RengaErrorCode RengaCudnnView_Private(RengaDevice device, RengaViewer viewer);
RengaErrorCode RengaCudnnForget_Private(RengaDevice device);
extern const RengaDeviceChoices RengaCudnnChoices_Private;
/* Products of the module's stream have the workspace from now on. */
RengaErrorCode RengaCudaTakeWorkspace_Private(RengaDevice device, void *queue);

/* Kernels by operator, each table of a family of operators; the last row's name is NULL. A row
   leaves an operator of types or shapes that it does not take to the host. */
extern const RengaKernelRow RengaCudaElementwiseRows[];
extern const RengaKernelRow RengaCudaProductRows[];
extern const RengaKernelRow RengaCudaMoveRows[];
extern const RengaKernelRow RengaCudaLineRows[];
extern const RengaKernelRow RengaCudaIndexRows[];
extern const RengaKernelRow RengaCudaReduceRows[];
extern const RengaKernelRow RengaCudaAttentionRows[];
extern const RengaKernelRow RengaCudaWindowRows[];
extern const RengaKernelRow RengaCudaConvolutionRows[];
extern const RengaFabric RengaCudaFabric_Private;
RengaErrorCode RengaCudaFindKernel_Private(RengaDevice device, const char *name,
                                           const RengaKernelRow **row);
RengaErrorCode RengaCudaFreeData_Private(RengaKernel kernel);

/* A kernel of the module that is told its shape; copied. */
RengaErrorCode RengaCudaCreateShaped_Private(RengaKernel kernel, RengaCudaRun run, size_t bytes,
                                             const void *shape);
/* Input `from` of the kernel is input `to` of the module's; where they are not told they are the
   same. */
void RengaCudaMapInput_Private(RengaKernel kernel, int to, int from);
void RengaCudaMapOutput_Private(RengaKernel kernel, int to, int from);
/* An integer input whose numbers must be in [low, high), or ignore; what: "label". */
void RengaCudaCheckInput_Private(RengaKernel kernel, int input, const char *what, int64_t low,
                                 int64_t high, int64_t ignore);

/* Are all inputs from the given one on, and all outputs, absent or of this type? */
static inline bool RengaCudaAllOf_Private(const RengaOpCall *call, int first, RengaDataType type)
{
  for (int i = first; i < call->n_in; i++)
    if (call->in[i].ndim >= 0 && call->in[i].type != type) return false;
  for (int o = 0; o < call->n_out; o++)
    if (call->out[o].ndim >= 0 && call->out[o].type != type) return false;
  return true;
}

/* Is a tensor absent, or of floats that kernels of the module take? */
static inline bool RengaCudaIsFloat_Private(const RengaTensorSpec *spec)
{
  return spec->ndim < 0 || spec->type == RENGA_FLOAT32 || RengaDeviceIsLow(spec->type);
}

bool RengaCudaAllFloats_Private(const RengaOpCall *call);
RengaCudaType RengaCudaTypeOf_Private(RengaDataType type);
/* The first bytes of a number of a type that the module knows. */
uint64_t RengaCudaBits_Private(RengaDataType type, double value);
/* An input or output as the module is told of it. */
static inline RengaCudaOperand RengaCudaOperand_Private(const RengaTensorSpec *spec,
                                                        const void *data)
{
  return (RengaCudaOperand){(void *)(uintptr_t)data, RengaCudaTypeOf_Private(spec->type)};
}
/* Output 0 may be written over this input, where both are of one type. */
void RengaCudaAllowOver_Private(RengaKernel kernel, int input);

/* Are all inputs and outputs absent, or of the first input's type? */
static inline bool RengaCudaOneType_Private(const RengaOpCall *call)
{
  return RengaCudaAllOf_Private(call, 0, call->in[0].type);
}

static inline bool RengaCudaIsIndex_Private(const RengaTensorSpec *spec)
{
  return spec->type == RENGA_INT64 || spec->type == RENGA_INT32;
}

static inline int64_t RengaCudaPieces_Private(int64_t count, int64_t piece)
{
  return (count + piece - 1) / piece;
}

/* Over one or two dimensions; sets all but the planes. */
void RengaCudaSetWindow_Private(const RengaOpWindow *from, const RengaTensorSpec *x,
                                const RengaTensorSpec *y, RengaCudaWindow *window);

/* A product by cuBLASLt: its plan takes so many bytes, 64-byte aligned. */
size_t RengaCudaPlanBytes_Private(RengaDevice device);
RengaErrorCode RengaCudaPlanCreate_Private(RengaDevice device, const RengaCudaProduct *product,
                                           void *plan);
/* found: the GPU and cuBLASLt have it */
RengaErrorCode RengaCudaPlanTry_Private(RengaDevice device, const RengaCudaProduct *product,
                                        void *plan, bool *found);
RengaErrorCode RengaCudaPlanRun_Private(RengaDevice device, RengaStream stream, void *plan,
                                        const void *a, const void *b, const void *bias, void *c);
RengaErrorCode RengaCudaPlanDestroy_Private(RengaDevice device, void *plan);
/* plan.c: into how many parts the terms of a product are cut, and the product of them all, one
   after the other; then their sum. */
int64_t RengaCudaFindParts_Private(const RengaCudaProduct *p, int64_t size);
void RengaCudaCutTerms_Private(RengaCudaProduct *p, int64_t parts);
RengaErrorCode RengaCudaAddParts_Private(RengaKernel kernel, RengaStream stream, int64_t terms,
                                         void *parts, const RengaTensorSpec *y, void *out);
/* c[m,n] = a b without gaps, of float32. */
RengaCudaProduct RengaCudaProductOf_Private(int64_t m, int64_t n, int64_t k, bool trans_a,
                                            bool trans_b);
/* eights.c: one whose factors are rounded to 8 bits; leaves it where there is none. */
RengaErrorCode RengaCudaCreateEights_Private(RengaKernel kernel, RengaCudaProduct p, int a, int b);
/* Does cuBLASLt have products of tensors of these types? */
bool RengaCudaHasProduct_Private(const RengaTensorSpec *a, const RengaTensorSpec *b,
                                 const RengaTensorSpec *y);
/* y = x + bias, the input 2 and the output 0 of the kernel. */
RengaErrorCode RengaCudaAddBias_Private(RengaKernel kernel, RengaStream stream, RengaCudaBias shape,
                                        const void *bias, RengaCudaOperand x, void *y);
