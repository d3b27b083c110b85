/* Rows of scores: the parts that Softmax, CrossEntropy and Attention have in common. */
#pragma once
#include "math.h"

static inline float RengaRowMax(int64_t n, const float *x)
{
  float most = -INFINITY;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
  return most;
}

/* y = exp(x - shift), y may be x; returns the sum. */
static inline float RengaRowExp(int64_t n, const float *x, float shift, float *y)
{
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) {
    float e = RengaExp(x[i] - shift);
    y[i] = e;
    sum += e;
  }
  return sum;
}

static inline float RengaRowSumExp(int64_t n, const float *x, float shift)
{
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += RengaExp(x[i] - shift);
  return sum;
}

static inline float RengaRowDot(int64_t n, const float *x, const float *y)
{
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

static inline float RengaRowSum(int64_t n, const float *x)
{
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum;
}

static inline void RengaRowScale(int64_t n, float factor, float *x)
{
#pragma omp simd
  for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

/* What may be subtracted from a row whose largest value is most: finite, or 0. */
static inline float RengaRowShift(float most)
{
  return most > -INFINITY && most < INFINITY ? most : 0;
}
