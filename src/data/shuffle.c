/* Data: a permutation of the samples for each epoch that needs no table.

   A Feistel network of eight rounds permutes the numbers of 2h bits, where 4^h is the smallest
   power of four that is not smaller than the number of samples; its round function is Philox
   4x32-10 under a key made of seed and epoch. Numbers that are no samples are permuted again until
   one is ("cycle walking", Black and Rogaway, Ciphers with arbitrary finite domains, 2002): at most
   four times on average.
   */
#include "dataimpl.h"

enum { FEISTEL_ROUNDS = 8 };

static uint32_t RoundFunction(const uint32_t key[2], uint32_t half, uint32_t round)
{
  uint32_t counter[4] = {half, round, 0, 0}, out[4];
  RengaPhilox(counter, key, out);
  return out[0];
}

static uint64_t Feistel(const uint32_t key[2], int half_bits, uint64_t number)
{
  uint32_t mask = (uint32_t)(((uint64_t)1 << half_bits) - 1);
  uint32_t left = (uint32_t)(number >> half_bits), right = (uint32_t)number & mask;
  for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
    uint32_t next = left ^ (RoundFunction(key, right, round) & mask);
    left = right;
    right = next;
  }
  return (uint64_t)left << half_bits | right;
}

/* The sample that stands at a position of an epoch's order. */
int64_t RengaDataShuffle(uint64_t seed, int64_t epoch, int64_t samples, int64_t position)
{
  uint64_t words[2] = {seed, (uint64_t)epoch}, hash = RengaHash(words, sizeof words, 0x5eed);
  uint32_t key[2] = {(uint32_t)hash, (uint32_t)(hash >> 32)};
  int half_bits = 1;
  while (half_bits < 31 && (uint64_t)samples > (uint64_t)1 << (2 * half_bits)) half_bits++;
  uint64_t number = (uint64_t)position;
  do number = Feistel(key, half_bits, number);
  while (number >= (uint64_t)samples);
  return (int64_t)number;
}
