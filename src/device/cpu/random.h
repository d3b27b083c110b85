/* Random numbers, and factors of dropout (0 or 1 / (1 - ratio)), for runs of elements of one
   sample. */
#pragma once
#include "renga/private/dropout.h"

enum { RENGA_CPU_DRAW = 64, RENGA_CPU_DRAWN = 4 * RENGA_CPU_DRAW + 4 }; /* blocks of four numbers */

/* Numbers of elements first, first + 1 ...: at most limit, and as many as are drawn at a time. They
   begin at *uniform of drawn. */
static inline int64_t RengaCpuDraw(const RengaDropout *dropout, int64_t sample, int64_t first,
                                   int64_t limit, float drawn[RENGA_CPU_DRAWN],
                                   const float **uniform)
{
  int64_t block = first / 4, skip = first % 4;
  int64_t here = 4 * RENGA_CPU_DRAW - skip < limit ? 4 * RENGA_CPU_DRAW - skip : limit;
  int blocks = (int)((skip + here + 3) / 4);
#pragma omp simd
  for (int b = 0; b < blocks; b++) RengaDropoutDraw(dropout, sample, block + b, drawn + 4 * b);
  *uniform = drawn + skip;
  return here;
}

/* x[i] is multiplied by the factor of element first + i, i < count, into y; y may be x. */
static inline void RengaCpuDropoutRun(const RengaDropout *dropout, float ratio, int64_t sample,
                                      int64_t first, int64_t count, const float *x, float *y)
{
  float drawn[RENGA_CPU_DRAWN], factor = 1 / (1 - ratio);
  const float *u;
  for (int64_t done = 0; done < count;) {
    int64_t here = RengaCpuDraw(dropout, sample, first + done, count - done, drawn, &u);
    const float *from = x + done;
    float *to = y + done;
#pragma omp simd
    for (int64_t i = 0; i < here; i++) to[i] = u[i] < ratio ? 0 : from[i] * factor;
    done += here;
  }
}

/* The numbers themselves. */
static inline void RengaCpuUniformRun(const RengaDropout *dropout, int64_t sample, int64_t first,
                                      int64_t count, float *y)
{
  float drawn[RENGA_CPU_DRAWN];
  const float *u;
  for (int64_t done = 0; done < count;) {
    int64_t here = RengaCpuDraw(dropout, sample, first + done, count - done, drawn, &u);
    for (int64_t i = 0; i < here; i++) y[done + i] = u[i];
    done += here;
  }
}
