/* The cpu device's kernels. The files of this folder but device.c are compiled once for each
   instruction set: RENGA_ISA is base, avx2 or avx512, and all their external names end with it.

   A kernel cuts its work into pieces by shape alone, computes each piece in one thread and adds
   partial results in a fixed order: its result does not depend on the number of threads. */
#pragma once
#include "renga/private/device.h"
#ifdef _OPENMP
#include <omp.h>
#endif

/* A kernel has the parameters of all kernels, and uses those that it needs. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#ifndef RENGA_ISA
#define RENGA_ISA base
#endif
#define RENGA_ISA_PASTE(name, isa) name##_##isa
#define RENGA_ISA_JOIN(name, isa) RENGA_ISA_PASTE(name, isa)
#define RENGA_ISA_NAME(name) RENGA_ISA_JOIN(name, RENGA_ISA)

/* One table of kernels per file, in the order of lookup. */
#define RENGA_CPU_TABLES(X)                                                                        \
  X(RengaCpuLinear)                                                                                \
  X(RengaCpuUnary)                                                                                 \
  X(RengaCpuBinary)                                                                                \
  X(RengaCpuMove)                                                                                  \
  X(RengaCpuIndex)                                                                                 \
  X(RengaCpuReduce)                                                                                \
  X(RengaCpuSoftmax)                                                                               \
  X(RengaCpuLoss)                                                                                  \
  X(RengaCpuBatchJoin)                                                                             \
  X(RengaCpuJoin)                                                                                  \
  X(RengaCpuLayerNorm)                                                                             \
  X(RengaCpuAttention)                                                                             \
  X(RengaCpuCached)                                                                                \
  X(RengaCpuDropout)                                                                               \
  X(RengaCpuConvolution)                                                                           \
  X(RengaCpuBatchNorm)                                                                             \
  X(RengaCpuPool)

/* All of one instruction set. Sums are over pieces of fixed size, in order. */
typedef struct {
  const char *name;
  const RengaKernelRow *(*find)(const char *name);
  void (*convert)(int threads, int64_t count, RengaDataType from, const void *x, RengaDataType to,
                  void *y);
  void (*round)(int threads, const RengaRounding *rounding);
  void (*add)(int threads, int64_t count, float y[], const float x[]);
  void (*sumsofsquares)(int threads, int count, const RengaVector x[], double squares[]);
  void (*updatesgd)(int threads, const RengaSgdStep *step, double scale, int count,
                    const RengaParameterUpdate updates[]);
  void (*updateadam)(int threads, const RengaAdamStep *step, double scale, int count,
                     const RengaParameterUpdate updates[]);
  void (*sumrows)(int threads, const RengaRowsTask *sum, double *square);
} RengaCpuSet;
extern const RengaCpuSet RengaCpuSet_base;
extern const RengaCpuSet RengaCpuSet_avx2;
extern const RengaCpuSet RengaCpuSet_avx512;
#define RENGA_CPU_EXTERN(table) extern const RengaKernelRow RENGA_ISA_NAME(table)[];
RENGA_CPU_TABLES(RENGA_CPU_EXTERN)
#undef RENGA_CPU_EXTERN
void RENGA_ISA_NAME(RengaCpuConvert)(int threads, int64_t count, RengaDataType from, const void *x,
                                     RengaDataType to, void *y);
void RENGA_ISA_NAME(RengaCpuRound)(int threads, const RengaRounding *rounding);
void RENGA_ISA_NAME(RengaCpuAdd)(int threads, int64_t count, float y[], const float x[]);
void RENGA_ISA_NAME(RengaCpuSumsOfSquares)(int threads, int count, const RengaVector x[],
                                           double squares[]);
void RENGA_ISA_NAME(RengaCpuUpdateSgd)(int threads, const RengaSgdStep *step, double scale,
                                       int count, const RengaParameterUpdate updates[]);
void RENGA_ISA_NAME(RengaCpuUpdateAdam)(int threads, const RengaAdamStep *step, double scale,
                                        int count, const RengaParameterUpdate updates[]);

void RENGA_ISA_NAME(RengaCpuSumRows)(int threads, const RengaRowsTask *sum, double *square);

/* The destroy function of kernels whose data is one block. */
RengaErrorCode RENGA_ISA_NAME(RengaCpuFreeData)(RengaKernel kernel);
#define RengaCpuFreeData RENGA_ISA_NAME(RengaCpuFreeData)

/* Are all inputs from the given one on, and all outputs, absent or of this type? */
static inline bool RengaCpuAllOf(const RengaOpCall *call, int first, RengaDataType type)
{
  for (int i = first; i < call->n_in; i++)
    if (call->in[i].ndim >= 0 && call->in[i].type != type) return false;
  for (int i = 0; i < call->n_out; i++)
    if (call->out[i].ndim >= 0 && call->out[i].type != type) return false;
  return true;
}

/* Are all inputs and outputs absent, or of the first input's type? */
static inline bool RengaCpuOneType(const RengaOpCall *call)
{
  return RengaCpuAllOf(call, 0, call->in[0].type);
}

/* Elements per piece of elementwise work. */
enum { RENGA_CPU_PIECE = 16384 };

/* Number of the calling thread, for scratch memory of its own. */
static inline int RengaCpuThread(void)
{
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

static inline int64_t RengaCpuPieces(int64_t count, int64_t piece)
{
  return (count + piece - 1) / piece;
}

static inline int64_t RengaCpuSmaller(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Threads worth waking for so many pieces; has no influence on results. */
static inline int RengaCpuThreads(int threads, int64_t pieces)
{
  return pieces < threads ? (pieces > 1 ? (int)pieces : 1) : threads;
}
