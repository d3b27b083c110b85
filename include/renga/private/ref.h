/* The plain kernels of the ref device: no state, no workspace, any type and shape. */
#pragma once
#include "rengadevice.h"

typedef RengaErrorCode (*RengaRefKernel)(const RengaOpCall *call, const RengaKernelContext *context,
                                         const void *const in[], void *const out[]);
RengaRefKernel RengaRefFind(const char *name); /* NULL where there is none */
