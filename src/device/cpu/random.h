/* Factors of dropout (0 or 1 / (1 - ratio)) for runs of elements of one sample. */
#pragma once
#include "renga/private/dropout.h"

enum { RENGA_CPU_DRAW = 64 }; /* blocks of four numbers at a time */

/* x[i] is multiplied by the factor of element first + i, i < count, into y; y may be x. */
static inline void RengaCpuDropoutRun(const RengaDropout *dropout, float ratio, int64_t sample,
                                      int64_t first, int64_t count, const float *x, float *y)
{
  float uniform[4 * RENGA_CPU_DRAW], factor = 1 / (1 - ratio);
  for (int64_t done = 0; done < count;) {
    int64_t block = (first + done) / 4, skip = (first + done) % 4;
    int64_t here =
        4 * RENGA_CPU_DRAW - skip < count - done ? 4 * RENGA_CPU_DRAW - skip : count - done;
    int blocks = (int)((skip + here + 3) / 4);
#pragma omp simd
    for (int b = 0; b < blocks; b++) RengaDropoutDraw(dropout, sample, block + b, uniform + 4 * b);
    const float *u = uniform + skip, *from = x + done;
    float *to = y + done;
#pragma omp simd
    for (int64_t i = 0; i < here; i++) to[i] = u[i] < ratio ? 0 : from[i] * factor;
    done += here;
  }
}
