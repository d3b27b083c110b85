/* Elementary functions without branches, for loops over vectors: exp, log, tanh, erf within a few
   units of the last place. Polynomials: Cephes (Moshier); erf: Juffa, "Efficient approximation of
   erff", 2018. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float RengaFloatOfBits(int32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline int32_t RengaBitsOfFloat(float value)
{
  int32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2; results below 2^-125 are 0. Adding 1.5 * 2^23 rounds to
 * integers. */
static inline float RengaExp(float x)
{
  const float shift = 12582912.0f;
  float low = x < -86.6f ? -86.6f : x;
  float y = low > 88.8f ? 88.8f : low;
  float shifted = y * 1.44269504088896341f + shift;
  float n = shifted - shift;
  float r = y - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  int32_t exponent = RengaBitsOfFloat(shifted) - RengaBitsOfFloat(shift);
  float result = p * RengaFloatOfBits((int32_t)((uint32_t)(exponent + 126) << 23)) * 2.0f;
  return x < -86.6f ? 0.0f : x > 88.72284f ? INFINITY : result;
}

static inline float RengaLog(float x)
{
  float y = x < 1.17549435e-38f ? x * 8388608.0f : x;
  float base = x < 1.17549435e-38f ? -23.0f : 0.0f;
  int32_t bits = RengaBitsOfFloat(y);
  int32_t exponent = (bits - 0x3f3504f3) >> 23; /* mantissa in [sqrt(1/2), sqrt(2)) */
  float m = RengaFloatOfBits((int32_t)((uint32_t)bits - ((uint32_t)exponent << 23))) - 1.0f;
  float e = base + (float)exponent;
  float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  p = p * m * z - e * 2.12194440e-4f - 0.5f * z;
  float result = m + p + e * 0.693359375f;
  float special = x == 0.0f ? -INFINITY : x > 0.0f ? x : NAN;
  return x > 0.0f && x < INFINITY ? result : special;
}

static inline float RengaTanh(float x)
{
  float a = fabsf(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  float near = p * z * x + x;
  float far = 1.0f - 2.0f / (RengaExp(2.0f * a) + 1.0f);
  return a < 0.625f ? near : copysignf(far, x);
}

static inline float RengaErf(float x)
{
  float t = fabsf(x), s = x * x;
  float r = -1.72853470e-5f * t + 3.83197126e-4f;
  float u = -3.88396438e-3f * t + 2.42546219e-2f;
  r = r * s + u;
  r = r * t - 1.06777877e-1f;
  r = r * t - 6.34846687e-1f;
  r = r * t - 1.28717512e-1f;
  r = r * t - t;
  float far = copysignf(1.0f - RengaExp(r), x);
  float p = -5.96761703e-4f;
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  float near = p * x + x;
  return t > 0.927734375f ? (t > 4.0f ? copysignf(1.0f, x) : far) : near;
}

static inline float RengaSigmoid(float x)
{
  return 1.0f / (1.0f + RengaExp(-x));
}
