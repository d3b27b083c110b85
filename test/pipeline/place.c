/* TEST ranks: 1 */
/* Offsets by lifetime: what lives at the same time never overlaps, and little is wasted. */
#include "../../src/pipeline/pipelineimpl.h"
#include "../check.h"

enum { COUNT = 200, POSITIONS = 60 };

static void Draw(uint64_t seed, Lifetime row[])
{
  float x[3];
  for (int i = 0; i < COUNT; i++) {
    RengaRandomUniform(seed, 0, (uint64_t)(3 * i), 3, x);
    row[i].bytes = 64 * (1 + (int64_t)(x[0] * 20));
    row[i].first = (int)(x[1] * POSITIONS);
    row[i].last = row[i].first + (int)(x[2] * 6);
  }
}

static int64_t MostAtOnce(const Lifetime row[])
{
  int64_t most = 0;
  for (int p = 0; p < POSITIONS + 6; p++) {
    int64_t bytes = 0;
    for (int i = 0; i < COUNT; i++)
      if (row[i].first <= p && row[i].last >= p) bytes += row[i].bytes;
    if (bytes > most) most = bytes;
  }
  return most;
}

static bool Overlap(const Lifetime *a, const Lifetime *b)
{
  return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

static RengaErrorCode RunTest(void)
{
  static Lifetime row[COUNT];
  int64_t bytes;
  for (uint64_t seed = 0; seed < 10; seed++) {
    Draw(seed, row);
    RengaCall(RengaPlaceLifetimes_Private(COUNT, row, &bytes));
    for (int i = 0; i < COUNT; i++) {
      Expect(row[i].offset >= 0 && row[i].offset % 64 == 0 &&
             row[i].offset + row[i].bytes <= bytes);
      for (int k = 0; k < i; k++) Expect(!Overlap(&row[i], &row[k]));
    }
    Expect(bytes >= MostAtOnce(row) && (double)bytes <= 1.35 * (double)MostAtOnce(row));
  }
  RengaCall(RengaPlaceLifetimes_Private(0, row, &bytes));
  Expect(bytes == 0);
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
