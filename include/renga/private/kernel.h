/* What the rooms that compute on a device ask of it: memory, streams, kernels, flat vectors. */
#pragma once
#include "renga/private/factors.h"
#include "rengadevice.h"

RengaErrorCode RengaDeviceMalloc(RengaDevice device, size_t bytes, void *pointer_to_pointer);
RengaErrorCode RengaDeviceFree(RengaDevice device, void *pointer_to_pointer);
RengaErrorCode RengaDeviceHostMalloc(RengaDevice device, size_t bytes, void *pointer_to_pointer);
RengaErrorCode RengaDeviceHostFree(RengaDevice device, void *pointer_to_pointer);
/* The host's side of a copy is the device's until the stream has passed it. */
RengaErrorCode RengaDeviceCopy(RengaDevice device, RengaStream stream, RengaCopyKind kind, void *to,
                               const void *from, size_t bytes);
RengaErrorCode RengaDeviceSetBytes(RengaDevice device, RengaStream stream, void *to, int byte,
                                   size_t bytes);
/* Work is queued on streams; stream NULL is the default one. On a host device all work is done when
   the call returns. */
RengaErrorCode RengaStreamCreate(RengaDevice device, RengaStream *stream);
RengaErrorCode RengaStreamSynchronize(RengaDevice device, RengaStream stream);
RengaErrorCode RengaStreamDestroy(RengaDevice device, RengaStream *stream);
RengaErrorCode RengaEventCreate(RengaDevice device, RengaEvent *event);
RengaErrorCode RengaEventRecord(RengaDevice device, RengaEvent event, RengaStream stream);
RengaErrorCode RengaEventWait(RengaDevice device, RengaEvent event, RengaStream stream);
RengaErrorCode RengaEventSynchronize(RengaDevice device, RengaEvent event);
RengaErrorCode RengaEventQuery(RengaDevice device, RengaEvent event, bool *done);
RengaErrorCode RengaEventDestroy(RengaDevice device, RengaEvent *event);

RengaErrorCode RengaKernelCreate(RengaDevice device, const RengaOpCall *call, RengaKernel *kernel);
size_t RengaKernelGetWorkspace(RengaKernel kernel); /* bytes, 64-byte aligned when run */
bool RengaKernelIsFallback(RengaKernel kernel);     /* another device type's kernel does the work */
bool RengaKernelMayAlias(RengaKernel kernel, int output, int input); /* run in place */
RengaErrorCode RengaKernelRun(RengaKernel kernel, RengaStream stream,
                              const RengaKernelContext *context, const void *const in[],
                              void *const out[], void *workspace);
RengaErrorCode RengaKernelDestroy(RengaKernel *kernel);

/* The numbers of one step of stochastic gradient descent. */
typedef struct {
  double learning_rate, momentum, dampening; /* of this step */
  bool nesterov, first;                      /* first: momentum = gradient */
} RengaSgdStep;
/* The numbers of one step of Adam or AdamW. */
typedef struct {
  double learning_rate, beta1, beta2, epsilon; /* of this step */
  bool decoupled;                              /* adamw */
  int64_t step;                                /* 1, 2, … for the bias corrections */
} RengaAdamStep;
/* Vectors: types but float32 are refused, but for values beside parameters and conversions. Work is
   queued; tables are copied. A result depends neither on the number of threads nor on what else
   comes in the same call. */
RengaErrorCode RengaDeviceConvert(RengaDevice device, RengaStream stream, int64_t count,
                                  RengaDataType from, const void *x, RengaDataType to, void *y);
RengaErrorCode RengaDeviceAdd(RengaDevice device, RengaStream stream, RengaDataType type,
                              int64_t count, void *y, const void *x); /* y += x */
RengaErrorCode RengaDeviceSumsOfSquares(RengaDevice device, RengaStream stream, int count,
                                        const RengaVector x[], double squares[]);
/* In the default stream. The gate is copied; its memory, RengaDeviceHostMalloc's but for the
   values, is read once the stream comes to it. First the values of this rank are written, to be
   added to those of others. Then updates that are queued behind it change something if the gate
   finds that they may, and take its factor in place of their scale; gate NULL: no longer. */
/* values: of the device, room for so many, lent until it is asked for more. */
RengaErrorCode RengaDeviceReserveGate_Private(RengaDevice device, int64_t count, double **values);
RengaErrorCode RengaDeviceShareGate_Private(RengaDevice device, const RengaGate *gate);
RengaErrorCode RengaDeviceSetGate_Private(RengaDevice device, const RengaGate *gate);
/* It can judge steps. */
bool RengaDeviceHasGate_Private(RengaDevice device);
RengaErrorCode RengaDeviceUpdateSgd(RengaDevice device, RengaStream stream,
                                    const RengaSgdStep *step, double scale, int count,
                                    const RengaParameterUpdate updates[]);
RengaErrorCode RengaDeviceUpdateAdam(RengaDevice device, RengaStream stream,
                                     const RengaAdamStep *step, double scale, int count,
                                     const RengaParameterUpdate updates[]);
RengaErrorCode RengaDeviceDuplicate(RengaDevice device, RengaDevice *copy);
