/* What the files of the module share. */
#pragma once
#include "../module.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
const char *RengaCudaError(void);
int RengaCudaSay(const char *what, int code, const char *text); /* for error(); returns code */
/* A function of a library that was opened; old: what is said where it lacks it. */
static inline int RengaCudaTake(void *library, const char *file, const char *old, const char *name,
                                void *function)
{
  void *symbol = dlsym(library, name);
  if (!symbol) return RengaCudaSay(file, 1, old);
  memcpy(function, &symbol, sizeof symbol); /* ISO C has no cast from an object to a function */
  return 0;
}
static inline int RengaCudaSayError(const char *what, cudaError_t code)
{
  return code ? RengaCudaSay(what, (int)code, cudaGetErrorString(code)) : 0;
}

extern int RengaCudaCapability; /* of the GPU that is open, as 90 of sm_90; 0: none is */
int RengaCudaConvert(void *stream, int64_t count, RengaCudaOperand x, RengaCudaOperand y);
int RengaCudaRoundFactor(void *stream, const RengaCudaRounding *rounding);
int RengaCudaAdd(void *stream, int64_t count, float *y, const float *x);
int RengaCudaNorms(void *stream, int count, const RengaCudaNorm rows[], int64_t pieces,
                   double *parts);
int RengaCudaShareGate(void *stream, const RengaGate *gate, const RengaCudaFault *fault);
int RengaCudaJudge(void *stream, const RengaGate *gate, RengaGateFound *place);
int RengaCudaUpdateSgd(void *stream, const RengaGateFound *gate, int count,
                       const RengaCudaSgd rows[]);
int RengaCudaUpdateAdam(void *stream, const RengaGateFound *gate, int count,
                        const RengaCudaAdam rows[]);
extern const RengaCudaElementwise RengaCudaEach;

#define RENGA_CUDA_RUN(name)                                                                       \
  int name(void *stream, const void *shape, const RengaCudaContext *context,                       \
           const RengaCudaOperand in[], const RengaCudaOperand out[], void *workspace)
RENGA_CUDA_RUN(RengaCudaSoftmax);
RENGA_CUDA_RUN(RengaCudaNormalization);
RENGA_CUDA_RUN(RengaCudaNormalizationGrad);
RENGA_CUDA_RUN(RengaCudaCrossEntropy);
RENGA_CUDA_RUN(RengaCudaCrossEntropyGrad);
RENGA_CUDA_RUN(RengaCudaCountLabels);
RENGA_CUDA_RUN(RengaCudaJoinLanes);
RENGA_CUDA_RUN(RengaCudaJoinLanesGrad);
RENGA_CUDA_RUN(RengaCudaTakeRows);
RENGA_CUDA_RUN(RengaCudaTakeRowsGrad);
RENGA_CUDA_RUN(RengaCudaReduction);
RENGA_CUDA_RUN(RengaCudaDropout);
RENGA_CUDA_RUN(RengaCudaAttend);
RENGA_CUDA_RUN(RengaCudaAttendGrad);
RENGA_CUDA_RUN(RengaCudaPrepareMask);
RENGA_CUDA_RUN(RengaCudaFinishMasked);
RENGA_CUDA_RUN(RengaCudaPrepareSums);
RENGA_CUDA_RUN(RengaCudaBatchNormalization);
RENGA_CUDA_RUN(RengaCudaBatchNormalizationGrad);
RENGA_CUDA_RUN(RengaCudaMakeColumns);
RENGA_CUDA_RUN(RengaCudaAddColumns);
RENGA_CUDA_RUN(RengaCudaAddBias);
RENGA_CUDA_RUN(RengaCudaMaxPool);
RENGA_CUDA_RUN(RengaCudaMaxPoolGrad);
RENGA_CUDA_RUN(RengaCudaAveragePool);
RENGA_CUDA_RUN(RengaCudaAveragePoolGrad);
int RengaCudaCheckIndices(void *stream, const RengaCudaIndices *indices, const void *values,
                          RengaCudaFault *fault);
int RengaCudaMoveElements(void *stream, const RengaCudaMove *shape, const void *from, void *to);
int RengaCudaSetMoment(void *stream, const RengaCudaMoment *moment, RengaCudaMoment *place);
int RengaCudaFill(void *stream, int size, uint64_t bits, int64_t count, void *to);
extern const size_t RengaCudaProductBytes;
size_t RengaCudaProductVersion(void); /* of cuBLASLt */
int RengaCudaProductOpen(void);       /* once, after a device is chosen */
int RengaCudaHasEights(void);
int RengaCudaProductCreate(const RengaCudaProduct *product, size_t workspace_bytes, void *plan);
int RengaCudaProductRun(void *stream, void *plan, const void *a, const void *b, const void *bias,
                        void *c, void *workspace);
int RengaCudaProductDestroy(void *plan);
extern const RengaCudaNccl RengaCudaNcclTable;
#ifdef __cplusplus
}
#endif
