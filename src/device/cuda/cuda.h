/* What the library's files of the cuda device share. The module (module.h) has all of CUDA. */
#pragma once
#include "module.h"
#include "renga/private/device.h"

typedef struct {
  int number; /* -1: rank modulo devices */
  char *module;
} CudaOptions;

typedef struct {
  CudaOptions options;
  void *library; /* of dlopen */
  const RengaCudaModule *module;
  void *compute; /* the stream that NULL stands for */
  char about[256];
  double *parts; /* of the device: partial sums of squares, then the sums of a table */
  size_t parts_bytes;
  void *parts_free; /* event behind what used them last */
} CudaDevice;

/* call: of the module, which says what is wrong. */
#define RENGA_CALL_CUDA(device, call)                                                              \
  do {                                                                                             \
    const RengaCudaModule *module_ = RengaCudaOf_Private(device)->module;                          \
    RengaCheck((call) == 0, MPI_COMM_SELF, RENGA_ERR_LIBRARY, "CUDA failed: %s",                   \
               module_->error());                                                                  \
  } while (0)

static inline CudaDevice *RengaCudaOf_Private(RengaDevice device)
{
  return device->data;
}

/* The module's stream. */
static inline void *RengaCudaStream_Private(RengaDevice device, RengaStream stream)
{
  return stream ? (void *)stream : RengaCudaOf_Private(device)->compute;
}

void RengaCudaSetQueue_Private(RengaDevice device); /* memory, streams, events */
void RengaCudaSetVectors_Private(RengaDevice device);
RengaErrorCode RengaCudaFindKernel_Private(RengaDevice device, const char *name,
                                           const RengaKernelRow **row);
