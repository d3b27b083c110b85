/* TEST ranks: 1 */
/* The tree: for every m <= 20 and every split into up to 6 ranges, empty ones included, ranges
   that are accumulated apart and then merged give the bits of one rank that has all leaves. */
#include "commtest.h"
#include <string.h>

enum { LEAVES = 20, RANKS = 6 };

static float Leaf(int64_t i)
{
  return 1.0f / (float)(i + 3) * (i % 3 == 0 ? 1e3f : 1.0f);
}

/* The definition, word for word. */
static float NodeSum(int64_t n, int level, int64_t k)
{
  int64_t size = (int64_t)1 << level, first = k * size;
  if (level == 0) return Leaf(k);
  if (first + size / 2 >= n) return NodeSum(n, level - 1, 2 * k);
  return NodeSum(n, level - 1, 2 * k) + NodeSum(n, level - 1, 2 * k + 1);
}

static float TreeSum(int64_t n)
{
  int level = 0;
  while (((int64_t)1 << level) < n) level++;
  return NodeSum(n, level, 0);
}

static RengaErrorCode Add(void *user, float *y, const float *x)
{
  ++*(int *)user;
  *y += *x;
  return RENGA_SUCCESS;
}

/* Leaves first … last-1 as a binary counter; pieces keep their own buffers, as a rank would. */
static int Accumulate(int64_t n, int64_t first, int64_t last, float values[],
                      RengaPartialSum pieces[])
{
  int buffers = RengaCommTreeBuffers(n, first, last), count = 0, added = 0;
  for (int i = 0; i < buffers; i++) pieces[i] = (RengaPartialSum){.data = &values[i]};
  for (int64_t leaf = first; leaf < last; leaf++) {
    TestTrue(count < buffers);
    pieces[count].first = leaf;
    pieces[count].count = 1;
    *pieces[count++].data = Leaf(leaf);
    RengaCallAbort(RengaCommTreeMerge(n, &count, pieces, Add, &added));
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
  int count = 0, added = 0;
  for (int r = 0; r < RANKS; r++) {
    int held = Accumulate(n, bounds[r], bounds[r + 1], values[r], pieces);
    for (int i = 0; i < held; i++) all[count++] = pieces[i];
  }
  RengaCallAbort(RengaCommTreeMerge(n, &count, all, Add, &added));
  float sum = TreeSum(n);
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

/* Leaves in any order end in the same sum, and take as many buffers as is said. */
static void CheckAnyOrder(int64_t n)
{
  RengaPartialSum pieces[LEAVES];
  float values[LEAVES];
  int64_t order[LEAVES];
  int count = 0, added = 0, most = 0, buffers;
  for (int i = 0; i < n; i++) pieces[i] = (RengaPartialSum){.data = &values[i]};
  for (int64_t i = 0; i < n; i++) {
    int64_t leaf = (i * 7 + 3) % n;
    if (n % 7 == 0) leaf = n - 1 - i;
    order[i] = leaf;
    int at = count++;
    if (count > most) most = count;
    float *data = pieces[at].data;
    for (; at > 0 && pieces[at - 1].first > leaf; at--) pieces[at] = pieces[at - 1];
    pieces[at] = (RengaPartialSum){.first = leaf, .count = 1, .data = data};
    *data = Leaf(leaf);
    RengaCallAbort(RengaCommTreeMerge(n, &count, pieces, Add, &added));
  }
  float sum = TreeSum(n);
  TestTrue(count == 1 && memcmp(pieces[0].data, &sum, sizeof sum) == 0);
  RengaCallAbort(RengaCommTreeBuffersInOrder(n, n, order, &buffers));
  TestTrue(buffers == most);
  for (int64_t i = 0; i < n; i++) order[i] = i;
  RengaCallAbort(RengaCommTreeBuffersInOrder(n, n - n / 3, order + n / 3, &buffers));
  TestTrue(buffers == RengaCommTreeBuffers(n, n / 3, n));
}

int main(int argc, char **argv)
{
  int64_t bounds[RANKS + 1];
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  for (int64_t n = 1; n <= LEAVES; n++) {
    bounds[0] = 0;
    bounds[RANKS] = n;
    CheckSplits(n, 1, bounds);
    CheckAnyOrder(n);
  }
  TestTrue(RengaCommTreeBuffers(1000000, 0, 1000000) == 20);
  TestTrue(RengaCommTreeBuffers(8, 0, 8) == 4 && RengaCommTreeBuffers(8, 3, 3) == 0);
  RengaCallAbort(RengaFinalize());
  return 0;
}
