/* Runs of 16-bit numbers, to float32 and back. */
#include "low.h"
#include "renga/private/low.h"

#define WIDEN(name, function)                                                                      \
  static void name(int64_t count, const uint16_t *restrict x, float *restrict y)                   \
  {                                                                                                \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) y[i] = function(x[i]);                 \
  }
WIDEN(WidenBrain, RengaLowFromBrain)
WIDEN(WidenHalf, RengaLowFromHalf)

#define NARROW(name, function)                                                                     \
  static void name(int64_t count, const float *restrict x, uint16_t *restrict y)                   \
  {                                                                                                \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) y[i] = function(x[i]);                 \
  }
NARROW(NarrowBrain, RengaLowToBrain)
NARROW(NarrowHalf, RengaLowToHalf)

void RengaCpuWiden(RengaDataType type, int64_t count, const void *x, float *y)
{
  (type == RENGA_BFLOAT16 ? WidenBrain : WidenHalf)(count, x, y);
}

void RengaCpuNarrow(RengaDataType type, int64_t count, const float *x, void *y)
{
  (type == RENGA_BFLOAT16 ? NarrowBrain : NarrowHalf)(count, x, y);
}

void RENGA_ISA_NAME(RengaCpuConvert)(int threads, int64_t count, RengaDataType from, const void *x,
                                     RengaDataType to, void *y)
{
  const int64_t pieces = RengaCpuPieces(count, RENGA_CPU_PIECE);
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    const int64_t first = piece * RENGA_CPU_PIECE;
    const int64_t here = RengaCpuSmaller(count - first, RENGA_CPU_PIECE);
    if (from == RENGA_FLOAT32)
      RengaCpuNarrow(to, here, (const float *)x + first, (uint16_t *)y + first);
    else
      RengaCpuWiden(from, here, (const uint16_t *)x + first, (float *)y + first);
  }
}
