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

/* All numbers go through a round together: the processor works on several at a time. */
static void Feistel(const uint32_t key[2], int half_bits, int count, uint64_t number[])
{
  const uint32_t mask = (uint32_t)(((uint64_t)1 << half_bits) - 1);
  for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++)
    for (int i = 0; i < count; i++) {
      const uint32_t left = (uint32_t)(number[i] >> half_bits), right = (uint32_t)number[i] & mask;
      const uint32_t next = left ^ (RoundFunction(key, right, round) & mask);
      number[i] = (uint64_t)right << half_bits | next;
    }
}

/* The samples that stand at positions of an epoch's order, from the first one on. */
void RengaDataShuffle(uint64_t seed, int64_t epoch, int64_t samples, int64_t first, int64_t count,
                      int64_t sample[])
{
  enum { TOGETHER = 32 };
  const uint64_t words[2] = {seed, (uint64_t)epoch}, hash = RengaHash(words, sizeof words, 0x5eed);
  const uint32_t key[2] = {(uint32_t)hash, (uint32_t)(hash >> 32)};
  int half_bits = 1;
  while (half_bits < 31 && (uint64_t)samples > (uint64_t)1 << (2 * half_bits)) half_bits++;
  for (int64_t at = 0; at < count; at += TOGETHER) {
    uint64_t number[TOGETHER];
    int64_t place[TOGETHER];
    int walking = (int)(count - at < TOGETHER ? count - at : TOGETHER);
    for (int i = 0; i < walking; i++) {
      place[i] = at + i;
      number[i] = (uint64_t)(first + at + i);
    }
    while (walking > 0) {
      int left = 0;
      Feistel(key, half_bits, walking, number);
      for (int i = 0; i < walking; i++) {
        sample[place[i]] = (int64_t)number[i];
        place[left] = place[i];
        number[left] = number[i];
        left += number[i] >= (uint64_t)samples;
      }
      walking = left;
    }
  }
}

int64_t RengaDataShuffleOne(uint64_t seed, int64_t epoch, int64_t samples, int64_t position)
{
  int64_t sample;
  RengaDataShuffle(seed, epoch, samples, position, 1, &sample);
  return sample;
}
