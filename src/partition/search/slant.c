/* Stages of equal replicas that get smaller from the first to the last.

   The first stage may begin at once and has its last gradient at the end of the step; each later
   one waits for the stages before it, at the beginning and at the end. So with enough micro-batches
   in flight an earlier stage has time for more work: a stage's rounds, and a share of the work of
   the stages before it, are brought under one bound. The share 1 is best where messages take no
   time and any number may be in flight (it is what RengaSearchBound_Private proves to be the
   least), 0 makes all stages alike; the simulation says which share is best. */
#include "search.h"
#include <math.h>

enum { PROBES = 30 };
static const double precision = 1e-5;

typedef struct {
  const SearchModel *model;
  const SearchCandidate *candidate;
  double share;
  int window; /* places looked at for a cut that fewer bytes cross */
  int stages, count;
  int *first; /* [stages] first places, from the last stage on */
} Slant;

static bool FitsSlant(const Slant *slant, int begin, int end, double bound)
{
  const SearchModel *model = slant->model;
  const SearchCandidate *candidate = slant->candidate;
  SearchCost cost;
  if (slant->share * RengaSearchWorkBefore_Private(model, begin) +
          (double)candidate->rounds * (RengaSearchWorkBefore_Private(model, end) -
                                       RengaSearchWorkBefore_Private(model, begin)) >
      bound)
    return false;
  if (!RengaSearchStageCost_Private(model, candidate, begin, end, slant->count + 1, &cost))
    return false;
  return slant->share * RengaSearchWorkBefore_Private(model, begin) +
             (double)candidate->rounds * (cost.forward + cost.backward) + cost.reduce +
             cost.update <=
         bound;
}

static int ReachSlanted(const Slant *slant, int end, double bound)
{
  int low = 0, high = end;
  for (int step = 1; high > 0; step *= 2) {
    const int at = high > step ? high - step : 0;
    if (!FitsSlant(slant, at, end, bound)) {
      low = at + 1;
      break;
    }
    high = at;
  }
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (FitsSlant(slant, middle, end, bound))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

static int CheapestCut(const Slant *slant, int begin, int end)
{
  const double *cut = slant->model->cut;
  int best = begin;
  for (int at = begin; at < end && at <= begin + slant->window && begin > 0; at++)
    if (cut[at] < cut[best]) best = at;
  return best;
}

static bool CoverSlanted(Slant *slant, double bound)
{
  int end = slant->model->count;
  for (slant->count = 0; slant->count < slant->stages && end > 0; slant->count++) {
    const int begin = CheapestCut(slant, ReachSlanted(slant, end, bound), end);
    if (begin >= end) return false;
    slant->first[slant->count] = end = begin;
  }
  return end == 0;
}

static RengaErrorCode TakeSlanted(const Slant *slant, SearchLayout *best)
{
  SearchLayout layout = {.count = slant->count};
  RengaCall(RengaMalloc(slant->count, &layout.stage));
  for (int s = 0; s < slant->count; s++) {
    const int place = slant->count - 1 - s;
    layout.stage[s] =
        (SearchStage){.begin = slant->first[place],
                      .end = place > 0 ? slant->first[place - 1] : slant->model->count,
                      .shape = slant->candidate->shape};
  }
  RengaSearchLayoutKeep_Private(slant->model, &layout, best);
  return RENGA_SUCCESS;
}

static RengaErrorCode SlantSearch(Slant *slant, SearchLayout *best)
{
  const double work = RengaSearchWork_Private(slant->model);
  double low = 0, high = fmax(work, 1e-12);
  if (!CoverSlanted(slant, HUGE_VAL)) return RENGA_SUCCESS;
  while (!CoverSlanted(slant, high)) low = high, high *= 2;
  for (int probe = 0; probe < PROBES && high - low > precision * high; probe++) {
    const double middle = low + (high - low) / 2;
    if (CoverSlanted(slant, middle))
      high = middle;
    else
      low = middle;
  }
  CoverSlanted(slant, high);
  RengaCall(TakeSlanted(slant, best));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchSlant_Private(const void *context, const SearchTask *task,
                                        const SearchModel *model, SearchLayout *best)
{
  const SearchSlant *how = context;
  Slant slant = {.model = model, .share = how->share, .window = how->window, .stages = how->stages};
  (void)task;
  if (!model->replicas) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(slant.stages, &slant.first);
  for (int o = 0; o < model->n_candidates && !code; o++) {
    slant.candidate = &model->candidate[o];
    slant.count = 0;
    code = SlantSearch(&slant, best);
  }
  RengaFree(&slant.first);
  RengaCall(code);
  return RENGA_SUCCESS;
}

bool RengaSearchSlantTry_Private(int number, bool few, const SearchSlant *best, SearchSlant *how)
{
  enum { BEST = -1 };
  static const SearchSlant tries[] = {{.share = 0.5, .eager = 0.5},
                                      {.share = 0.5, .eager = 1},
                                      {.share = 0.5, .eager = 0},
                                      {.share = 0.5, .eager = 2},
                                      {.share = 0.3, .eager = BEST},
                                      {.share = 0.75, .eager = BEST},
                                      {.share = 1, .eager = BEST},
                                      {.share = BEST, .eager = BEST, .window = 3},
                                      {.share = BEST, .eager = BEST, .window = 8}};
  enum { TRIES = sizeof tries / sizeof tries[0], TRIES_FEW = 2 };
  if (number >= (few ? TRIES_FEW : TRIES)) return false;
  *how = tries[number];
  if (how->share < 0) how->share = best->share;
  if (how->eager < 0) how->eager = best->eager;
  return true;
}
