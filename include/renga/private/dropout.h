/* The random numbers of Dropout and of the dropout of Attention. Every device draws them here.

   Element e of sample s gets lane e % 4 of Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel
   random numbers: as easy as 1, 2, 3; SC 2011) at counter {e / 4 low, e / 4 high, s low, step
   low}, under a key mixed from the seed and the node's attribute key. The batch dimension
   (attribute batch_dim) is batch_factor times the samples: place b along it belongs to sample b
   / batch_factor, and e is the element's place in a tensor whose batch dimension is just
   batch_factor. An element is kept where its number is not below the ratio, and is then divided
   by 1 - ratio. */
#pragma once
#include <stdint.h>

typedef struct {
  uint32_t key[2], step;
} RengaDropout;

static inline RengaDropout RengaDropoutStart(uint64_t seed, int64_t step, int64_t key)
{
  uint64_t mix = seed + 0x9e3779b97f4a7c15u * ((uint64_t)key + 1); /* splitmix64 */
  mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9u;
  mix = (mix ^ mix >> 27) * 0x94d049bb133111ebu;
  mix ^= mix >> 31;
  return (RengaDropout){{(uint32_t)mix, (uint32_t)(mix >> 32)}, (uint32_t)step};
}

/* Numbers in [0,1) of elements 4 * block ... 4 * block + 3. Without branches, so that loops over
   blocks are vectorised. */
static inline void RengaDropoutDraw(const RengaDropout *dropout, int64_t sample, int64_t block,
                                    float uniform[4])
{
  uint32_t c0 = (uint32_t)block, c1 = (uint32_t)((uint64_t)block >> 32);
  uint32_t c2 = (uint32_t)sample, c3 = dropout->step;
  uint32_t k0 = dropout->key[0], k1 = dropout->key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  uniform[0] = (float)(c0 >> 8) * 0x1p-24f;
  uniform[1] = (float)(c1 >> 8) * 0x1p-24f;
  uniform[2] = (float)(c2 >> 8) * 0x1p-24f;
  uniform[3] = (float)(c3 >> 8) * 0x1p-24f;
}

/* The number of one element; four neighbours are cheaper by RengaDropoutDraw. */
static inline float RengaDropoutUniform(const RengaDropout *dropout, int64_t sample,
                                        int64_t element)
{
  float uniform[4];
  RengaDropoutDraw(dropout, sample, element / 4, uniform);
  return uniform[element % 4];
}
