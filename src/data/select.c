/* Data: the smallest of many keys, without sorting them: a histogram of the upper halves finds the
   bucket in which the last of them lies, one of the lower halves of that bucket's keys finds its
   key exactly. */
#include "dataimpl.h"
#include <math.h>
#include <string.h>

enum { KEY_BUCKETS = 1 << 16 };

/* Numbers in their order; none of them has the key RENGA_KEY_NONE, which stands for those that are
   not finite. */
uint32_t RengaDataKey_Private(float value)
{
  uint32_t bits;
  if (!isfinite(value)) return RENGA_KEY_NONE;
  memcpy(&bits, &value, sizeof bits);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The bucket of the last wanted one; *wanted: how many are wanted of that bucket. */
static uint32_t FindBucket(const int64_t histogram[], int64_t *wanted)
{
  uint32_t bucket = 0;
  while (*wanted > histogram[bucket]) *wanted -= histogram[bucket++];
  return bucket;
}

/* Marks the wanted smallest of count keys, of equal ones those that come first. histogram:
   [KEY_BUCKETS] zeros. */
static void MarkSmallest(int64_t count, const uint32_t key[], int64_t wanted, int64_t histogram[],
                         bool marked[])
{
  for (int64_t i = 0; i < count; i++) histogram[key[i] >> 16]++;
  const uint32_t upper = FindBucket(histogram, &wanted);
  memset(histogram, 0, KEY_BUCKETS * sizeof *histogram);
  for (int64_t i = 0; i < count; i++)
    if (key[i] >> 16 == upper) histogram[key[i] & 0xffff]++;
  const uint32_t last = upper << 16 | FindBucket(histogram, &wanted);
  for (int64_t i = 0; i < count; i++) marked[i] = key[i] < last || (key[i] == last && wanted-- > 0);
}

/* marked: [count]; 0 <= wanted <= count. */
RengaErrorCode RengaDataSelect_Private(int64_t count, const uint32_t key[], int64_t wanted,
                                       bool marked[])
{
  int64_t *histogram;
  memset(marked, 0, (size_t)count * sizeof *marked);
  if (wanted == 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(KEY_BUCKETS, &histogram));
  MarkSmallest(count, key, wanted, histogram, marked);
  RengaFree(&histogram);
  return RENGA_SUCCESS;
}
