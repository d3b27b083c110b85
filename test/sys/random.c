/* TEST ranks: 1 */
/* Random numbers: known answers, independence of the cut, moments. */
#include "../check.h"
#include <math.h>
#include <string.h>

/* Random123, kat_vectors, philox4x32 10 rounds. */
static const struct {
  uint32_t counter[4], key[2], out[4];
} answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static RengaErrorCode TestKnownAnswers(void)
{
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    uint32_t out[4];
    RengaPhilox(answers[i].counter, answers[i].key, out);
    Expect(memcmp(out, answers[i].out, sizeof out) == 0);
  }
  Expect(RengaHash("", 0, 0) == UINT64_C(0xef46db3751d8e999));
  Expect(RengaHash("abc", 3, 0) == UINT64_C(0x44bc2cf5ad770999));
  return RENGA_SUCCESS;
}

typedef void (*Generator)(uint64_t, uint64_t, uint64_t, int64_t, float[]);

/* Any cut of a stream gives the same numbers, also past element 2^34. */
static RengaErrorCode TestCuts(Generator generate)
{
  enum { COUNT = 101 };
  float whole[COUNT], part[COUNT];
  const uint64_t firsts[] = {0, 3, (UINT64_C(1) << 34) - 7};
  for (int f = 0; f < 3; f++) {
    generate(42, 7, firsts[f], COUNT, whole);
    for (int cut = 0; cut <= COUNT; cut++) {
      generate(42, 7, firsts[f], cut, part);
      generate(42, 7, firsts[f] + (uint64_t)cut, COUNT - cut, part + cut);
      Expect(memcmp(whole, part, sizeof whole) == 0);
    }
  }
  generate(42, 8, 0, COUNT, part);
  Expect(memcmp(whole, part, sizeof whole) != 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestMoments(Generator generate, double mean, double variance, double fourth)
{
  enum { COUNT = 1 << 18 };
  float *x;
  double sums[3] = {0, 0, 0};
  RengaCall(RengaMalloc(COUNT, &x));
  generate(1, 1, 0, COUNT, x);
  for (int i = 0; i < COUNT; i++) {
    double d = x[i] - mean;
    sums[0] += d;
    sums[1] += d * d;
    sums[2] += d * d * d * d;
  }
  RengaFree(&x);
  Expect(fabs(sums[0] / COUNT) < 0.01);
  Expect(fabs(sums[1] / COUNT - variance) < 0.01 * variance + 0.001);
  Expect(fabs(sums[2] / COUNT - fourth) < 0.03 * fourth);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRandom(void)
{
  RengaCall(TestKnownAnswers());
  RengaCall(TestCuts(RengaRandomUniform));
  RengaCall(TestCuts(RengaRandomNormal));
  RengaCall(TestMoments(RengaRandomUniform, 0.5, 1.0 / 12, 1.0 / 80));
  RengaCall(TestMoments(RengaRandomNormal, 0, 1, 3));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestRandom)
