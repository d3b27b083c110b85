/* TEST ranks: 1 */
/* The tree: for every m <= 20 and every split into up to 6 ranges, empty ones included, ranges
   that are accumulated apart and then merged give the bits of one rank that has all leaves. Leaves
   of several summands, in any order, give the sum that is defined. */
#include "commtest.h"
#include "renga/private/sums.h"
#include <string.h>

enum { LEAVES = 20, RANKS = 6 };

static float Leaf(int64_t i)
{
  return 1.0f / (float)(i + 3) * (i % 3 == 0 ? 1e3f : 1.0f);
}

/* Summands of a leaf, one after the other. */
static float ChainSum(int64_t n, int64_t leaf, int64_t k)
{
  float sum = Leaf(k * leaf);
  for (int64_t i = k * leaf + 1; i < (k + 1) * leaf && i < n; i++) sum += Leaf(i);
  return sum;
}

/* The definition, word for word, of n summands in leaves. */
static float NodeSum(int64_t n, int64_t leaf, int level, int64_t k)
{
  int64_t size = (int64_t)1 << level, first = k * size;
  if (level == 0) return ChainSum(n, leaf, k);
  if ((first + size / 2) * leaf >= n) return NodeSum(n, leaf, level - 1, 2 * k);
  return NodeSum(n, leaf, level - 1, 2 * k) + NodeSum(n, leaf, level - 1, 2 * k + 1);
}

static float TreeSum(int64_t n, int64_t leaf)
{
  int level = 0;
  while (((int64_t)1 << level) * leaf < n) level++;
  return NodeSum(n, leaf, level, 0);
}

static RengaErrorCode Add(void *user, RengaDataType type, int64_t count, void *y, const void *x)
{
  TestTrue(type == RENGA_FLOAT32 && count == 1);
  ++*(int *)user;
  *(float *)y += *(const float *)x;
  return RENGA_SUCCESS;
}

static int added;
static const RengaCommAdder adder = {.begin = Add, .user = &added};

/* Leaves first … last-1 as a binary counter; pieces keep their own buffers, as a rank would. */
static int Accumulate(int64_t n, int64_t first, int64_t last, float values[],
                      RengaPartialSum pieces[])
{
  int buffers = RengaCommTreeBuffers(n, true, first, last), count = 0;
  added = 0;
  for (int i = 0; i < buffers; i++) pieces[i] = (RengaPartialSum){.data = &values[i]};
  for (int64_t leaf = first; leaf < last; leaf++) {
    TestTrue(count < buffers);
    pieces[count].first = leaf;
    pieces[count].count = 1;
    *(float *)pieces[count++].data = Leaf(leaf);
    RengaCallAbort(RengaCommTreeMerge(n, &count, pieces, RENGA_FLOAT32, 1, &adder));
    for (int i = 0; i < buffers; i++) /* no buffer is lost or doubled */
      for (int j = 0; j < i; j++) TestTrue(pieces[i].data != pieces[j].data);
  }
  TestTrue(added == last - first - count);
  RengaPartialSum expected[RENGA_COMM_TREE_PIECES];
  TestTrue(RengaCommTreePieces(n, first, last, expected) == count);
  for (int i = 0; i < count; i++)
    TestTrue(expected[i].first == pieces[i].first && expected[i].count == pieces[i].count);
  return count;
}

static void CheckSplit(int64_t n, const int64_t bounds[])
{
  RengaPartialSum all[RANKS * 12], pieces[16];
  float values[RANKS][16];
  int count = 0;
  for (int r = 0; r < RANKS; r++) {
    int held = Accumulate(n, bounds[r], bounds[r + 1], values[r], pieces);
    for (int i = 0; i < held; i++) all[count++] = pieces[i];
  }
  RengaCallAbort(RengaCommTreeMerge(n, &count, all, RENGA_FLOAT32, 1, &adder));
  float sum = TreeSum(n, 1);
  TestTrue(count == 1 && all[0].first == 0 && all[0].count == n);
  TestTrue(memcmp(all[0].data, &sum, sizeof sum) == 0);
}

/* All bounds[rank] … bounds[RANKS-1] that ascend from the one before. */
static void CheckSplits(int64_t n, int rank, int64_t bounds[])
{
  if (rank == RANKS) {
    CheckSplit(n, bounds);
    return;
  }
  for (int64_t b = bounds[rank - 1]; b <= n; b++) {
    bounds[rank] = b;
    CheckSplits(n, rank + 1, bounds);
  }
}

/* Summand by summand, `leaf` of which are a leaf, as they come in order: the sum by definition, and
   as many buffers as is said. */
static void CheckOrder(int64_t n, int64_t leaf, const int64_t order[])
{
  const int64_t n_leaves = (n + leaf - 1) / leaf;
  RengaPartialSum pieces[LEAVES];
  float values[LEAVES];
  int count = 0, most = 0, buffers, at;
  bool adds;
  for (int i = 0; i < n; i++) pieces[i] = (RengaPartialSum){.data = &values[i]};
  for (int64_t i = 0; i < n; i++) {
    const int64_t l = order[i] / leaf, end = l * leaf + leaf < n ? l * leaf + leaf : n;
    RengaCallAbort(RengaCommTreeTake(n_leaves, l, end == l * leaf + 1, &count, pieces, &at, &adds));
    if (count > most) most = count;
    float *data = pieces[at].data;
    *data = adds ? *data + Leaf(order[i]) : Leaf(order[i]);
    if (order[i] + 1 == end)
      RengaCallAbort(RengaCommTreeClose(n_leaves, at, &count, pieces, RENGA_FLOAT32, 1, &adder));
  }
  const float sum = TreeSum(n, leaf);
  TestTrue(count == 1 && memcmp(pieces[0].data, &sum, sizeof sum) == 0);
  RengaCallAbort(RengaCommTreeBuffersInOrder(n, leaf, n, order, &buffers));
  TestTrue(buffers == most);
}

/* Leaves that come in any order, two of them in turn where they are chains. */
static void CheckAnyOrder(int64_t n, int64_t leaf)
{
  const int64_t n_leaves = (n + leaf - 1) / leaf, last = n - (n_leaves - 1) * leaf;
  int64_t order[LEAVES], count = 0;
  for (int64_t i = 0; i < n_leaves; i++) {
    const int64_t l = n_leaves % 7 == 0 ? n_leaves - 1 - i : (i * 7 + 3) % n_leaves;
    for (int64_t k = 0; k < (l == n_leaves - 1 ? last : leaf); k++) order[count++] = l * leaf + k;
  }
  CheckOrder(n, leaf, order);
  for (int64_t k = 0, i = 0; k < 2 * leaf; k++) /* even leaves, then odd ones, each in turn */
    for (int64_t l = k / leaf; l < n_leaves; l += 2)
      if (l * leaf + k % leaf < n) order[i++] = l * leaf + k % leaf;
  CheckOrder(n, leaf, order);
}

/* As the planner counts and as a rank does: ascending, from a leaf on. */
static void CheckAscending(int64_t n, int64_t leaf)
{
  const int64_t n_leaves = (n + leaf - 1) / leaf;
  int64_t order[LEAVES];
  int buffers;
  for (int64_t i = 0; i < n; i++) order[i] = i;
  CheckOrder(n, leaf, order);
  for (int64_t first = 0; first < n_leaves; first++) {
    const int64_t begin = first * leaf;
    RengaCallAbort(RengaCommTreeBuffersInOrder(n, leaf, n - begin, order + begin, &buffers));
    const int counted = RengaCommTreeBuffers(n_leaves, leaf > 1, first, n_leaves);
    TestTrue(buffers == counted || (leaf > 1 && n % leaf == 1 && buffers + 1 == counted));
  }
}

int main(int argc, char **argv)
{
  int64_t bounds[RANKS + 1];
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  for (int64_t n = 1; n <= LEAVES; n++) {
    bounds[0] = 0;
    bounds[RANKS] = n;
    CheckSplits(n, 1, bounds);
    for (int64_t leaf = 1; leaf <= 7; leaf++) CheckAnyOrder(n, leaf), CheckAscending(n, leaf);
  }
  TestTrue(RengaCommTreeBuffers(1000000, true, 0, 1000000) == 20);
  TestTrue(RengaCommTreeBuffers(1000000, false, 0, 1000000) == 19);
  TestTrue(RengaCommTreeBuffers(8, true, 0, 8) == 4 && RengaCommTreeBuffers(8, false, 0, 8) == 3);
  TestTrue(RengaCommTreeBuffers(8, true, 3, 3) == 0);
  RengaCallAbort(RengaFinalize());
  return 0;
}
