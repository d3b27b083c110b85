/* All stages with the same number of replicas: every pair of replicas and stages that may beat the
   best so far, most promising first. The stages of a pair are filled greedily from the last one,
   which has the fewest micro-batches in flight, under a bisected bound. */
#include "search.h"
#include <math.h>
#include <stdlib.h>

enum { PROBES = 30 };
static const double work_most = 1e7, work_quick = 2e6; /* intervals looked at, over all pairs */

typedef struct {
  const SearchCandidate *candidate;
  int stages;
  double fill;  /* seconds of it, with the cheapest messages */
  double bound; /* no layout of this pair is faster */
} CutPair;

typedef struct {
  const SearchModel *model;
  double work_left;
  double tied; /* elements of parameters that may be held once */
  int *cut;    /* [stages] first places, from the last stage on */
} EqualSearch;

static bool FitsEqual(EqualSearch *equal, const SearchCandidate *candidate, int begin, int end,
                      int depth, double share)
{
  SearchCost cost;
  equal->work_left--;
  if (RengaSearchLeastShare_Private(equal->model, candidate, begin, end) > share) return false;
  return RengaSearchStageCost_Private(equal->model, candidate, begin, end, depth, &cost) &&
         cost.rounds + cost.reduce + cost.update <= share;
}

/* The first place of the longest stage that ends there; end where none fits. Most stages are about
   as long as the one after them: from there on steps double until the answer is between two. */
static int ReachEqual(EqualSearch *equal, const SearchCandidate *candidate, int end, int after,
                      int depth, double share)
{
  int low = 0, high = end;
  int at = end > after ? end - after : 0;
  const bool longer = !after || FitsEqual(equal, candidate, at, end, depth, share);
  if (longer)
    high = at;
  else
    low = at + 1;
  for (int step = 1; low < high; step *= 2) {
    at = longer ? high - step : low + step - 1;
    if (at < low) at = low;
    if (at >= high) break;
    const bool fits = FitsEqual(equal, candidate, at, end, depth, share);
    if (fits)
      high = at;
    else
      low = at + 1;
    if (fits != longer) break;
  }
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (FitsEqual(equal, candidate, middle, end, depth, share))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

/* Whether so many stages have room for the places before this one, by their work and parameters. */
static bool MayHold(const EqualSearch *equal, const SearchCandidate *candidate, int stages, int end,
                    double share)
{
  const SearchModel *model = equal->model;
  const double elements = model->elements[end];
  const double work =
      model->forward[end] + model->backward[end] + model->accumulate_rate * elements;
  const double bytes =
      candidate->sums * elements + candidate->bytes.parameter * (elements - equal->tied);
  if ((double)(candidate->rounds - 1) * work > 1.0000001 * stages * share) return false;
  return model->memory <= 0 || bytes <= stages * model->memory;
}

/* No stage may leave too few places for those before it. */
static bool FillEqual(EqualSearch *equal, const CutPair *pair, double share)
{
  int end = equal->model->count, after = 0;
  if (!MayHold(equal, pair->candidate, pair->stages, end, share)) return false;
  for (int k = 1; k <= pair->stages; k++) {
    int begin = ReachEqual(equal, pair->candidate, end, after, k, share);
    if (begin < pair->stages - k) begin = pair->stages - k;
    if (begin >= end) return false;
    if (!MayHold(equal, pair->candidate, pair->stages - k, begin, share)) return false;
    after = end - begin;
    equal->cut[pair->stages - k] = end = begin;
  }
  return end == 0;
}

static RengaErrorCode TakeEqual(EqualSearch *equal, const CutPair *pair, SearchLayout *best)
{
  SearchLayout layout = {.count = pair->stages};
  RengaCall(RengaMalloc(pair->stages, &layout.stage));
  for (int s = 0; s < pair->stages; s++)
    layout.stage[s] =
        (SearchStage){.begin = equal->cut[s],
                      .end = s + 1 < pair->stages ? equal->cut[s + 1] : equal->model->count,
                      .shape = pair->candidate->shape};
  RengaCall(RengaSearchTake_Private(equal->model, &layout, best));
  return RENGA_SUCCESS;
}

/* Seconds that a layout is to take less than. */
static double StepToBeat(const SearchModel *model, const SearchLayout *best)
{
  const double beat = model->beat > 0 ? model->beat : HUGE_VAL;
  return best->count ? fmin(best->step, beat) : beat;
}

static RengaErrorCode SolvePair(EqualSearch *equal, const CutPair *pair, SearchLayout *best)
{
  double low = fmax(0, pair->bound - pair->fill);
  double high = StepToBeat(equal->model, best) - pair->fill;
  if (!FillEqual(equal, pair, high)) return RENGA_SUCCESS;
  if (isinf(high))
    for (high = fmax(low, 1e-12); !FillEqual(equal, pair, high); high *= 4) low = high;
  for (int probe = 0; probe < PROBES && high - low > 1e-6 * high; probe++) {
    const double middle = low + (high - low) / 2;
    if (FillEqual(equal, pair, middle))
      high = middle;
    else
      low = middle;
  }
  FillEqual(equal, pair, high);
  RengaCall(TakeEqual(equal, pair, best));
  return RENGA_SUCCESS;
}

static int ComparePairs(const void *a, const void *b)
{
  const CutPair *x = a, *y = b;
  if (x->bound != y->bound) return x->bound > y->bound ? 1 : -1;
  if (x->stages != y->stages) return x->stages > y->stages ? 1 : -1;
  return (x->candidate > y->candidate) - (x->candidate < y->candidate);
}

static int CompareCutBytes(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The largest work of one place, and the bytes over the so many cheapest cuts: [count]. */
static RengaErrorCode FindExtremes(const SearchModel *model, double *work, double **bytes)
{
  *work = 0;
  RengaCall(RengaMalloc(model->count + 1, bytes));
  for (int c = 0; c < model->count; c++) {
    *work = fmax(*work, model->forward[c + 1] - model->forward[c] + model->backward[c + 1] -
                            model->backward[c]);
    (*bytes)[c] = c ? model->cut[c] : 0;
  }
  if (model->count > 1)
    qsort(*bytes + 1, (size_t)model->count - 1, sizeof **bytes, CompareCutBytes);
  for (int c = 1; c < model->count; c++) (*bytes)[c] += (*bytes)[c - 1];
  return RENGA_SUCCESS;
}

static CutPair MakePair(const SearchModel *model, const SearchCandidate *row, int stages,
                        double largest, const double bytes[])
{
  const double work = RengaSearchWork_Private(model);
  CutPair pair = {.candidate = row, .stages = stages, .fill = work};
  pair.fill += 2 * ((stages - 1) * row->message_latency + row->message_rate * bytes[stages - 1]);
  pair.bound = pair.fill + (double)(row->rounds - 1) * fmax(largest, work / stages);
  if (stages == 1 && row->shape.replicas > 1)
    pair.bound += row->reduce_latency +
                  row->reduce_rate * row->bytes.gradient * model->elements[model->count];
  return pair;
}

static RengaErrorCode ListPairs(const SearchModel *model, int *count, CutPair **pairs)
{
  int most = 0, n = 0;
  double largest, *bytes = NULL;
  RengaCall(FindExtremes(model, &largest, &bytes));
  for (int o = 0; o < model->n_candidates; o++)
    most += model->devices / model->candidate[o].devices;
  const RengaErrorCode code = RengaMalloc(most + 1, pairs);
  for (int o = 0; o < model->n_candidates && !code; o++)
    for (int p = 1; p <= model->count && p * model->candidate[o].devices <= model->devices; p++) {
      if (model->stages && p != model->stages) continue;
      (*pairs)[n++] = MakePair(model, &model->candidate[o], p, largest, bytes);
    }
  RengaFree(&bytes);
  RengaCall(code);
  if (n) qsort(*pairs, (size_t)n, sizeof **pairs, ComparePairs);
  *count = n;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchEqual_Private(const SearchModel *model, SearchLayout *best)
{
  EqualSearch equal = {.model = model, .work_left = model->quick ? work_quick : work_most};
  CutPair *pairs = NULL;
  int count = 0;
  for (int t = 0; t < model->n_ties; t++) equal.tied += model->tie[t].elements;
  RengaCall(ListPairs(model, &count, &pairs));
  RengaErrorCode code = RengaMalloc(model->count + 1, &equal.cut);
  for (int i = 0; i < count && !code && equal.work_left > 0; i++) {
    if (pairs[i].bound >= StepToBeat(model, best)) break;
    code = SolvePair(&equal, &pairs[i], best);
  }
  RengaFree(&equal.cut);
  RengaFree(&pairs);
  RengaCall(code);
  return RENGA_SUCCESS;
}
