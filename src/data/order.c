/* Data: which sample stands at a place of an epoch, and which places a step has. Samples that the
   epoch hides stand behind the others: in whole batches, in the order of their numbers. They are
   bits; a count in front of each block of them finds the n-th one. */
#include "dataimpl.h"
#include <string.h>

enum { BLOCK_WORDS = 8, BLOCK_BITS = 64 * BLOCK_WORDS };

static int64_t CountBits(uint64_t word)
{
  word = word - (word >> 1 & UINT64_C(0x5555555555555555));
  word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
  word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
  return (int64_t)(word * UINT64_C(0x0101010101010101) >> 56);
}

/* Of the samples that are marked; what was there is forgotten. On an error nothing is hidden. */
RengaErrorCode RengaHiddenSet_Private(RengaHidden *set, int64_t samples, const bool marked[])
{
  const int64_t blocks = samples / BLOCK_BITS + 1;
  RengaHiddenFree_Private(set);
  RengaCall(RengaMalloc(blocks * BLOCK_WORDS, &set->word));
  RengaErrorCode code = RengaMalloc(blocks + 1, &set->before);
  if (code) RengaHiddenFree_Private(set);
  RengaCall(code);
  for (int64_t i = 0; i < samples; i++) set->word[i / 64] |= (uint64_t)marked[i] << (i % 64);
  for (int64_t b = 0; b < blocks; b++) {
    set->before[b] = set->count;
    for (int w = 0; w < BLOCK_WORDS; w++) set->count += CountBits(set->word[b * BLOCK_WORDS + w]);
  }
  set->before[blocks] = set->count;
  set->samples = samples;
  return RENGA_SUCCESS;
}

void RengaHiddenFree_Private(RengaHidden *set)
{
  RengaFree(&set->word);
  RengaFree(&set->before);
  *set = (RengaHidden){0};
}

/* How many samples in front of a block are hidden, or are not. */
static int64_t CountBeforeBlock(const RengaHidden *set, bool hidden, int64_t block)
{
  return hidden ? set->before[block] : block * BLOCK_BITS - set->before[block];
}

/* The number of the n-th sample, from 0, of those that are hidden, or are not. */
static int64_t FindNthSample(const RengaHidden *set, bool hidden, int64_t n)
{
  int64_t low = 0, high = set->samples / BLOCK_BITS;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (CountBeforeBlock(set, hidden, middle) <= n)
      low = middle;
    else
      high = middle - 1;
  }
  n -= CountBeforeBlock(set, hidden, low);
  for (int64_t w = low * BLOCK_WORDS;; w++) {
    uint64_t word = hidden ? set->word[w] : ~set->word[w];
    const int64_t here = CountBits(word);
    if (n >= here) {
      n -= here;
      continue;
    }
    for (; n > 0; n--) word &= word - 1;
    return 64 * w + CountBits((word & -word) - 1);
  }
}

/* Hidden samples of an epoch; NULL: there are none. */
static const RengaHidden *HiddenOf(const struct _p_RengaData *data, int64_t epoch)
{
  const RengaDataHiding *hiding = &data->hiding;
  return hiding->epoch == epoch && hiding->hidden.count > 0 ? &hiding->hidden : NULL;
}

static void ShuffleOnce(const struct _p_RengaData *data, int64_t epoch, int64_t samples,
                        int64_t first, int64_t count, int64_t sample[])
{
  RengaDataShuffled *kept = data->shuffled;
  const size_t bytes = (size_t)count * sizeof *sample;
  if (kept->seed == data->seed && kept->epoch == epoch && kept->samples == samples &&
      kept->first == first && kept->count == count) {
    memcpy(sample, kept->sample, bytes);
    return;
  }
  RengaDataShuffle(data->seed, epoch, samples, first, count, sample);
  if (bytes > sizeof kept->sample) return;
  kept->seed = data->seed;
  kept->epoch = epoch;
  kept->samples = samples;
  kept->first = first;
  kept->count = count;
  memcpy(kept->sample, sample, bytes);
}

/* The training samples at places of an epoch, from the first one on. */
void RengaDataAt_Private(const struct _p_RengaData *data, int64_t epoch, int64_t first,
                         int64_t count, int64_t sample[])
{
  const RengaHidden *hidden = HiddenOf(data, epoch);
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count;
  const int64_t seen = samples - (hidden ? hidden->count : 0);
  const bool owned = data->owners.count > 0;
  const int64_t shown = owned || first >= seen ? 0 : count < seen - first ? count : seen - first;
  for (int64_t i = 0; i < shown; i++) sample[i] = first + i;
  if (data->shuffle) ShuffleOnce(data, epoch, seen, first, shown, sample);
  for (int64_t i = 0; i < shown && hidden; i++) sample[i] = FindNthSample(hidden, false, sample[i]);
  for (int64_t i = shown; i < count; i++) {
    int64_t owner;
    sample[i] = owned ? RengaDataOfOwners_Private(data, epoch, first + i, &owner)
                      : FindNthSample(hidden, true, first + i - seen);
  }
}

/* Step `step` of an epoch: its places. Steps of hidden samples are whole batches behind the
   others. */
void RengaDataPlaces_Private(const struct _p_RengaData *data, int64_t epoch, int64_t batch,
                             int64_t step, int64_t *first, int64_t *count)
{
  const RengaHidden *hidden = HiddenOf(data, epoch);
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count;
  const int64_t seen = samples - (hidden ? hidden->count : 0);
  const int64_t steps = seen / batch + (seen % batch > 0);
  *first = step < steps ? step * batch : seen + (step - steps) * batch;
  const int64_t left = (step < steps ? seen : samples) - *first;
  *count = left < batch ? left : batch;
}
