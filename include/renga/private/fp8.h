/* Floating numbers of 8 bits, as the factors of products are rounded to them: e4m3 (4 bits of
   exponent, 3 of fraction, up to 448) and e5m2 (up to 57344). A tensor x is multiplied by a power
   of two, its scale, so that its largest finite number is near the largest of the format; each
   number is rounded to nearest, ties to even, and divided by the scale again. That is exact, also
   in bfloat16. What is not finite becomes a NaN. For C and kernels of CUDA; without branches.

   Source: P. Micikevicius and others, FP8 formats for deep learning, arXiv:2209.05433, 2022. */
#pragma once
#include "renga/private/low.h"

typedef enum { RENGA_FP8_E4M3, RENGA_FP8_E5M2 } RengaFp8;

/* The bits of |x| where it is finite, else 0: the largest of them is that of a tensor. */
RENGA_LOW uint32_t RengaFp8Size(float x)
{
  const uint32_t size = RengaLowToBits(x) & 0x7fffffff;
  return size < 0x7f800000 ? size : 0;
}

/* The scale of a tensor is 2 to this power, up to 100; most: the largest size. Of the largest
   floats there is nothing above the format's largest number, so that none becomes infinite. */
RENGA_LOW int RengaFp8Exponent(RengaFp8 format, uint32_t most)
{
  const int top = format == RENGA_FP8_E4M3 ? 8 : 15; /* of 1.75 * 2^top */
  const int exponent = top + 127 - (int)(most >> 23) - ((most & 0x7fffff) > 0x600000);
  const int least = top - 127, high = exponent < 100 ? exponent : 100;
  return most == 0 ? 0 : high > least ? high : least;
}

RENGA_LOW float RengaFp8Power(int exponent)
{
  return RengaLowFromBits((uint32_t)(exponent + 127) << 23);
}

/* The number of the format that is nearest, the largest in place of larger ones. What is subnormal
   there is rounded by adding a number whose last place is its unit. */
RENGA_LOW float RengaFp8Round(RengaFp8 format, float x)
{
  const uint32_t dropped = format == RENGA_FP8_E4M3 ? 20 : 21;
  const uint32_t normal = (format == RENGA_FP8_E4M3 ? 121u : 113u) << 23;
  const uint32_t largest = (format == RENGA_FP8_E4M3 ? 135u : 142u) << 23 | 0x600000;
  const float unit = RengaLowFromBits(normal + (dropped << 23)); /* has it as its last place */
  const uint32_t bits = RengaLowToBits(x), size = bits & 0x7fffffff, one = 1;
  const uint32_t small = RengaLowToBits(RengaLowFromBits(size) + unit - unit);
  const uint32_t even = size + (one << (dropped - 1)) - 1 + (size >> dropped & 1);
  const uint32_t large = even >> dropped << dropped;
  const uint32_t most = large < largest ? large : largest;
  const uint32_t rounded = size < normal ? small : most;
  return RengaLowFromBits((bits & 0x80000000) | (size < 0x7f800000 ? rounded : 0x7fc00000));
}

/* The byte of a number of the format. */
RENGA_LOW uint8_t RengaFp8Byte(RengaFp8 format, float x)
{
  const uint32_t dropped = format == RENGA_FP8_E4M3 ? 20 : 21;
  const uint32_t normal = (format == RENGA_FP8_E4M3 ? 121u : 113u) << 23;
  const uint32_t bits = RengaLowToBits(x), size = bits & 0x7fffffff, one = 1;
  const float per_unit = format == RENGA_FP8_E4M3 ? 512 : 65536;
  const uint32_t small = (uint32_t)(RengaLowFromBits(size < normal ? size : 0) * per_unit);
  const uint32_t large = (size - normal + (one << 23)) >> dropped;
  const uint32_t byte = size < normal ? small : size < 0x7f800000 ? large : 0x7f;
  return (uint8_t)((bits >> 24 & 0x80) | byte);
}

/* A number of a tensor whose scale is given, as bfloat16. */
RENGA_LOW uint16_t RengaFp8ToBrain(RengaFp8 format, float scale, float unscale, float x)
{
  return (uint16_t)(RengaLowToBits(unscale * RengaFp8Round(format, scale * x)) >> 16);
}
