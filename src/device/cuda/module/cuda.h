/* What the files of the module share. */
#pragma once
#include "../module.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
const char *RengaCudaError(void);
int RengaCudaSay(const char *what, int code, const char *text); /* for error(); returns code */
static inline int RengaCudaSayError(const char *what, cudaError_t code)
{
  return code ? RengaCudaSay(what, (int)code, cudaGetErrorString(code)) : 0;
}

int RengaCudaConvert(void *stream, int64_t count, RengaCudaType from, const void *x,
                     RengaCudaType to, void *y);
int RengaCudaAdd(void *stream, int64_t count, float *y, const float *x);
int RengaCudaNorms(void *stream, int count, const RengaCudaNorm rows[], int64_t pieces,
                   double *parts, double *sums);
int RengaCudaUpdateSgd(void *stream, int count, const RengaCudaSgd rows[]);
int RengaCudaUpdateAdam(void *stream, int count, const RengaCudaAdam rows[]);
int RengaCudaFindUnary(const char *name);
int RengaCudaFindBinary(const char *name);
int RengaCudaUnary(void *stream, int function, int64_t count, const float *dy, const float *x,
                   float *y, float a, float b);
int RengaCudaBinary(void *stream, int function, const RengaCudaBroadcast *shape, const float *a,
                    const float *b, float *y);
extern const size_t RengaCudaProductBytes;
int RengaCudaProductOpen(void); /* once, after a device is chosen */
int RengaCudaProductCreate(const RengaCudaProduct *product, void *plan);
int RengaCudaProductRun(void *stream, void *plan, const float *a, const float *b, const float *bias,
                        float *c);
int RengaCudaProductDestroy(void *plan);
#ifdef __cplusplus
}
#endif
