/* Floating numbers of 16 bits, as bits: widened exactly; rounded to nearest, ties to even, where a
   NaN stays one. For C, C++ and kernels of CUDA; without branches, so that loops are vectors. */
#pragma once
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define RENGA_LOW static inline __host__ __device__
#else
#define RENGA_LOW static inline
#endif

RENGA_LOW float RengaLowFromBits(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

RENGA_LOW uint32_t RengaLowToBits(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* bfloat16: the upper half of a float. */
RENGA_LOW float RengaLowFromBrain(uint16_t x)
{
  return RengaLowFromBits((uint32_t)x << 16);
}

RENGA_LOW uint16_t RengaLowToBrain(float x)
{
  const uint32_t bits = RengaLowToBits(x);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const uint32_t nan = bits >> 16 | 0x40;
  return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* float16: 5 bits of exponent, whose bias is 15, and 10 of fraction. A subnormal one is read as
   2^-14 (1 + fraction), less 2^-14. */
RENGA_LOW float RengaLowFromHalf(uint16_t x)
{
  const uint32_t sign = (uint32_t)(x & 0x8000) << 16, size = (uint32_t)(x & 0x7fff) << 13;
  const uint32_t bias = 112u << 23, least = 113u << 23;
  const float small = RengaLowFromBits(size + least) - RengaLowFromBits(least);
  const uint32_t large = size + (size >= 31u << 23 ? 2 * bias : bias);
  return RengaLowFromBits(sign | (size < 1u << 23 ? RengaLowToBits(small) : large));
}

/* What is subnormal there is rounded by adding 1/2, whose last place is its unit, 2^-24. */
RENGA_LOW uint16_t RengaLowToHalf(float x)
{
  const uint32_t bits = RengaLowToBits(x), size = bits & 0x7fffffff;
  const uint32_t one_half = 126u << 23, infinite = 143u << 23, normal = 113u << 23;
  const uint32_t small =
      RengaLowToBits(RengaLowFromBits(size) + RengaLowFromBits(one_half)) - one_half;
  const uint32_t large = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
  const uint32_t special = size > 255u << 23 ? 0x7e00 : 0x7c00;
  const uint32_t rounded = size >= infinite ? special : size < normal ? small : large;
  return (uint16_t)((bits >> 16 & 0x8000) | rounded);
}
