/* Block level: items are paired level by level, their boundaries refined on the way back, and small
   blocks merged until few enough are left. A block is an interval of the chain, so that blocks
   never depend on each other in a circle, whichever pairs are merged at once. */
#include "rannc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS_MOST = 64, MANY = 200 };

/* A way to cut the chain: begin[0] = 0, begin[count] = items. */
typedef struct {
  int count, *begin;
} Level;

static double SpanOf(const double sums[], int begin, int end)
{
  return sums[end] - sums[begin];
}

static double Weight(const RanncChain *chain, const Level *level, int b)
{
  return SpanOf(chain->seconds, level->begin[b], level->begin[b + 1]);
}

static bool FitsBlock(const RanncChain *chain, int begin, int end)
{
  return chain->memory <= 0 || SpanOf(chain->bytes, begin, end) <= chain->memory;
}

/* Mean and twice the deviation above it: no block is to be heavier. */
static double HeaviestAllowed(const RanncChain *chain, const Level *level)
{
  double sum = 0, squares = 0;
  for (int b = 0; b < level->count; b++) {
    const double weight = Weight(chain, level, b);
    sum += weight;
    squares += weight * weight;
  }
  const double mean = sum / level->count, variance = squares / level->count - mean * mean;
  return mean + 2 * sqrt(fmax(0, variance));
}

typedef struct {
  double weight;
  int block;
} BlockRow;

static int CompareBlockRows(const void *one, const void *other)
{
  const BlockRow *a = one, *b = other;
  return a->weight != b->weight ? (a->weight > b->weight) - (a->weight < b->weight)
                                : a->block - b->block;
}

/* Of many blocks only those that are heavy themselves are left alone: a limit on pairs would stop
   where all are alike. */
static bool MayPair(const RanncChain *chain, const Level *level, double heaviest, int b)
{
  const double one = Weight(chain, level, b), other = Weight(chain, level, b + 1);
  const bool light =
      level->count > MANY ? one <= heaviest && other <= heaviest : one + other <= heaviest;
  return light && FitsBlock(chain, level->begin[b], level->begin[b + 2]);
}

/* The neighbour over whose cut most would be sent; of two alike, the lighter. -1: none. */
static int ChoosePartner(const RanncChain *chain, const Level *level, double heaviest,
                         const bool paired[], int v)
{
  const bool left = v > 0 && !paired[v - 1] && MayPair(chain, level, heaviest, v - 1);
  const bool right = v + 1 < level->count && !paired[v + 1] && MayPair(chain, level, heaviest, v);
  if (!left || !right) return left ? v - 1 : right ? v + 1 : -1;
  const double before = chain->cut[level->begin[v]], after = chain->cut[level->begin[v + 1]];
  if (before != after) return before > after ? v - 1 : v + 1;
  return Weight(chain, level, v - 1) < Weight(chain, level, v + 1) ? v - 1 : v + 1;
}

/* joined[b]: blocks b and b + 1 become one. Pairs are looked for from the lightest block on. */
static RengaErrorCode FindPairs(const RanncChain *chain, const Level *level, int most,
                                bool joined[], int *pairs)
{
  const double heaviest = HeaviestAllowed(chain, level);
  BlockRow *rows = NULL;
  bool *paired = NULL;
  RengaErrorCode code = RengaMalloc(level->count, &rows);
  if (!code) code = RengaMalloc(level->count, &paired);
  if (code) RengaFree(&rows);
  RengaCall(code);
  for (int b = 0; b < level->count; b++) rows[b] = (BlockRow){Weight(chain, level, b), b};
  qsort(rows, (size_t)level->count, sizeof *rows, CompareBlockRows);
  *pairs = 0;
  for (int i = 0; i < level->count && level->count - *pairs > most; i++) {
    const int v = rows[i].block;
    const int w = paired[v] ? -1 : ChoosePartner(chain, level, heaviest, paired, v);
    if (w < 0) continue;
    joined[v < w ? v : w] = paired[v] = paired[w] = true;
    ++*pairs;
  }
  RengaFree(&paired);
  RengaFree(&rows);
  return RENGA_SUCCESS;
}

static RengaErrorCode Coarsen(const RanncChain *chain, const Level *level, int most, Level *next)
{
  bool *joined = NULL;
  int pairs = 0;
  RengaCall(RengaMalloc(level->count, &joined));
  RengaErrorCode code = FindPairs(chain, level, most, joined, &pairs);
  if (!code) code = RengaMalloc(level->count - pairs + 1, &next->begin);
  next->count = 0;
  for (int b = 0; b < level->count && !code; b++)
    if (b == 0 || !joined[b - 1]) next->begin[next->count++] = level->begin[b];
  if (!code) next->begin[next->count] = level->begin[level->count];
  RengaFree(&joined);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The number of the finer level's block that begins at this place. */
static int FindBlockOf(const Level *level, int place)
{
  int low = 0, high = level->count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (level->begin[middle] < place)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* A boundary goes where less is sent, if no block becomes heavier than allowed or than the heavier
   of the two was, and both fit. */
static bool MayMove(const RanncChain *chain, double heaviest, int begin, int old, int place,
                    int end)
{
  if (place <= begin || place >= end || chain->cut[place] >= chain->cut[old]) return false;
  const double before = fmax(SpanOf(chain->seconds, begin, old), SpanOf(chain->seconds, old, end));
  const double after =
      fmax(SpanOf(chain->seconds, begin, place), SpanOf(chain->seconds, place, end));
  return after <= fmax(heaviest, before) && FitsBlock(chain, begin, place) &&
         FitsBlock(chain, place, end);
}

/* Each boundary of the blocks may move by one block of the finer level. */
static void RefineBlocks(const RanncChain *chain, const Level *finer, Level *blocks)
{
  const double heaviest = HeaviestAllowed(chain, blocks);
  for (int b = 1; b < blocks->count; b++) {
    const int begin = blocks->begin[b - 1], old = blocks->begin[b], end = blocks->begin[b + 1];
    const int at = FindBlockOf(finer, old);
    int best = old;
    for (int side = -1; side <= 1; side += 2) {
      const int place = finer->begin[at + side];
      if (MayMove(chain, heaviest, begin, best, place, end)) best = place;
    }
    blocks->begin[b] = best;
  }
}

/* The neighbour with which this block becomes lightest and still fits; -1: with none it fits. */
static int CompactPartner(const RanncChain *chain, const Level *level, int b)
{
  const bool left = b > 0 && FitsBlock(chain, level->begin[b - 1], level->begin[b + 1]);
  const bool right = b + 1 < level->count && FitsBlock(chain, level->begin[b], level->begin[b + 2]);
  if (!left || !right) return left ? b - 1 : right ? b + 1 : -1;
  return Weight(chain, level, b - 1) <= Weight(chain, level, b + 1) ? b - 1 : b + 1;
}

/* The lightest block that fits with a neighbour; -1: none. */
static int Lightest(const RanncChain *chain, const Level *level, int *partner)
{
  int lightest = -1;
  for (int b = 0; b < level->count; b++) {
    if (lightest >= 0 && Weight(chain, level, b) >= Weight(chain, level, lightest)) continue;
    const int other = CompactPartner(chain, level, b);
    if (other < 0) continue;
    lightest = b;
    *partner = other;
  }
  return lightest;
}

RengaErrorCode RengaRanncCompact_Private(const RanncChain *chain, int most, int *count, int begin[])
{
  Level level = {*count, begin};
  while (level.count > most) {
    int partner = 0;
    const int b = Lightest(chain, &level, &partner);
    if (b < 0) break;
    const int gone = b > partner ? b : partner; /* the boundary between the two */
    memmove(begin + gone, begin + gone + 1, (size_t)(level.count - gone) * sizeof *begin);
    level.count--;
  }
  *count = level.count;
  return RENGA_SUCCESS;
}

static RengaErrorCode CoarsenAll(const RanncChain *chain, int most, Level levels[], int *n)
{
  *n = 1;
  levels[0].count = chain->count;
  RengaCall(RengaMalloc(chain->count + 1, &levels[0].begin));
  for (int i = 0; i <= chain->count; i++) levels[0].begin[i] = i;
  while (*n < LEVELS_MOST && levels[*n - 1].count > most) {
    RengaCall(Coarsen(chain, &levels[*n - 1], most, &levels[*n]));
    ++*n;
    if (levels[*n - 1].count == levels[*n - 2].count) break;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaRanncBlocks_Private(const RanncChain *chain, int most, int *count, int **begin)
{
  Level levels[LEVELS_MOST + 1] = {{0}};
  int n = 0;
  RengaErrorCode code = CoarsenAll(chain, most, levels, &n);
  if (!code) {
    Level *blocks = &levels[n - 1];
    for (int l = n - 2; l >= 0; l--) RefineBlocks(chain, &levels[l], blocks);
    code = RengaRanncCompact_Private(chain, most, &blocks->count, blocks->begin);
    *count = blocks->count;
    *begin = blocks->begin;
    blocks->begin = NULL;
  }
  for (int l = 0; l <= n; l++) RengaFree(&levels[l].begin);
  RengaCall(code);
  return RENGA_SUCCESS;
}
