/* Random numbers by counter: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers:
   as easy as 1, 2, 3", SC 2011). Element i of a stream is lane i mod 4 of block i div 4. */
#include "sys.h"
#include <math.h>

#define MULTIPLIER_0 UINT32_C(0xD2511F53)
#define MULTIPLIER_1 UINT32_C(0xCD9E8D57)
#define WEYL_0 UINT32_C(0x9E3779B9)
#define WEYL_1 UINT32_C(0xBB67AE85)

/*@
   RengaPhilox - one block of the generator

   Input:
   . counter - [4], any numbers: the block of random words
   . key - [2], any numbers: the generator

   Output:
   . out - [4], random words; may not be counter

   See also: RengaRandomUniform(), RengaRandomNormal()
@*/
void RengaPhilox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++, k0 += WEYL_0, k1 += WEYL_1) {
    uint64_t p0 = (uint64_t)MULTIPLIER_0 * c0, p1 = (uint64_t)MULTIPLIER_1 * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static void PhiloxBlock(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4])
{
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                               (uint32_t)(stream >> 32)};
  RengaPhilox(counter, key, out);
}

/* Four float32 in [0, 1), multiples of 2^-24. */
static void UniformBlock(const uint32_t bits[4], float out[4])
{
  for (int lane = 0; lane < 4; lane++) out[lane] = (float)(bits[lane] >> 8) * 0x1p-24f;
}

/* Box and Muller 1958: two pairs. In double, rounded at the end, so that the last bit of a
   mathematical library does not show. */
static void NormalBlock(const uint32_t bits[4], float out[4])
{
  const double turn = 6.283185307179586476925286766559;
  for (int lane = 0; lane < 4; lane += 2) {
    double radius = sqrt(-2.0 * log((bits[lane] + 1.0) * 0x1p-32));
    double angle = turn * (bits[lane + 1] * 0x1p-32);
    out[lane] = (float)(radius * cos(angle));
    out[lane + 1] = (float)(radius * sin(angle));
  }
}

static void FillConverted(void (*convert)(const uint32_t[4], float[4]), uint64_t seed,
                          uint64_t stream, uint64_t first, int64_t count, float out[])
{
  uint32_t bits[4];
  float four[4];
  for (int64_t i = 0; i < count;) {
    uint64_t element = first + (uint64_t)i;
    PhiloxBlock(seed, stream, element / 4, bits);
    convert(bits, four);
    for (int lane = (int)(element % 4); lane < 4 && i < count; lane++) out[i++] = four[lane];
  }
}

/*@
   RengaRandomUniform - float32 numbers in [0, 1)

   Input:
   . seed, stream - any numbers: they name the sequence
   . first, count - the first element of it, from 0, and the number of elements, at least 0

   Output:
   . out - [count]; element i of a stream is the same whatever first is

   See also: RengaRandomNormal(), RengaPhilox()
@*/
void RengaRandomUniform(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, float out[])
{
  FillConverted(UniformBlock, seed, stream, first, count, out);
}

/*@
   RengaRandomNormal - float32 numbers of mean 0 and deviation 1

   Input:
   . seed, stream - any numbers: they name the sequence
   . first, count - the first element of it, from 0, and the number of elements, at least 0

   Output:
   . out - [count]; element i of a stream is the same whatever first is

   See also: RengaRandomUniform(), RengaPhilox()
@*/
void RengaRandomNormal(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, float out[])
{
  FillConverted(NormalBlock, seed, stream, first, count, out);
}
