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

static uint32_t LargestOfRun(int64_t count, const float *x)
{
  uint32_t most = 0;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < count; i++) {
    const uint32_t size = RengaFp8Size(x[i]);
    most = size > most ? size : most;
  }
  return most;
}

#define ROUND_RUN(name, format)                                                                    \
  static void name(int64_t count, float scale, float unscale, const float *restrict x,             \
                   uint16_t *restrict y)                                                           \
  {                                                                                                \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) y[i] =                                 \
        RengaFp8ToBrain(format, scale, unscale, x[i]);                                             \
  }
ROUND_RUN(RoundRunE4M3, RENGA_FP8_E4M3)
ROUND_RUN(RoundRunE5M2, RENGA_FP8_E5M2)

/* The largest number does not depend on the order in which threads look. */
void RENGA_ISA_NAME(RengaCpuRound)(int threads, const RengaRounding *r)
{
  const int64_t runs = RengaCpuPieces(r->count, RENGA_CPU_RUN);
  uint32_t most = 0;
#pragma omp parallel for reduction(max                                                             \
                                   : most) schedule(static)                                        \
    num_threads(RengaCpuThreads(threads, RengaCpuPieces(r->count, RENGA_CPU_PIECE)))
  for (int64_t run = 0; run < runs; run++) {
    float buffer[RENGA_CPU_RUN];
    const int64_t first = run * RENGA_CPU_RUN;
    const int64_t here = RengaCpuSmaller(r->count - first, RENGA_CPU_RUN);
    const uint32_t found = LargestOfRun(here, RengaCpuRead(r->from, r->x, first, here, buffer));
    most = found > most ? found : most;
  }
  const int exponent = RengaFp8Exponent(r->format, most);
  const float scale = RengaFp8Power(exponent), unscale = RengaFp8Power(-exponent);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(threads, RengaCpuPieces(r->count, RENGA_CPU_PIECE)))
  for (int64_t run = 0; run < runs; run++) {
    float buffer[RENGA_CPU_RUN];
    const int64_t first = run * RENGA_CPU_RUN;
    const int64_t here = RengaCpuSmaller(r->count - first, RENGA_CPU_RUN);
    const float *x = RengaCpuRead(r->from, r->x, first, here, buffer);
    (r->format == RENGA_FP8_E4M3 ? RoundRunE4M3 : RoundRunE5M2)(here, scale, unscale, x,
                                                                r->y + first);
  }
}
