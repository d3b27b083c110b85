/* Covering the chain under a bound of what each stage may cost: layouts with any numbers of
   replicas. */
#include "search.h"
#include <math.h>
#include <string.h>

enum { CHAIN_LONG = 20000, STEPS_BACK = 20, FRONT_MOST = 6 };

/* A way to cover the places from one on: devices ascend and stages descend along a front, since
   with more stages behind it a stage holds more micro-batches. */
typedef struct {
  int devices, stages, end;
  int next; /* number in the front of end */
  const SearchCandidate *candidate;
} CoverSuffix;

typedef struct {
  const SearchModel *model;
  int n_candidates;
  const SearchCandidate **candidate; /* [n_candidates] of the model, that are tried */
  int *count;                        /* [places + 1] of the front */
  CoverSuffix *suffix;               /* [places + 1][FRONT_MOST] */
  int *pointer;                      /* [n_candidates] */
  double *capacity;                  /* [devices + 1] work of a micro-batch under a bound of one */
  int spare;                         /* devices that the places before this one take at the least */
} GreedyCover;

static bool FitsAtLeast(const SearchModel *model, const SearchCandidate *candidate, int begin,
                        int end, double bound)
{
  if (RengaSearchLeastShare_Private(model, candidate, begin, end) > bound) return false;
  return model->memory <= 0 ||
         RengaSearchLeastBytes_Private(model, candidate, begin, end) <= model->memory;
}

static bool FitsCover(const SearchModel *model, const SearchCandidate *candidate, int begin,
                      int end, int depth, double bound)
{
  SearchCost cost;
  return RengaSearchStageCost_Private(model, candidate, begin, end, depth, &cost) &&
         cost.rounds + cost.reduce + cost.update <= bound;
}

/* Behind those with fewer devices; those that are no better than it go, the last where it is
   full. */
static void InsertFront(GreedyCover *cover, int begin, const CoverSuffix *suffix)
{
  CoverSuffix *front = cover->suffix + (int64_t)begin * FRONT_MOST;
  int at = 0, left = 0, count = cover->count[begin];
  while (at < count && front[at].devices < suffix->devices) at++;
  for (int i = left = at; i < count; i++)
    if (front[i].stages < suffix->stages) front[left++] = front[i];
  count = left < FRONT_MOST ? left : FRONT_MOST - 1;
  memmove(front + at + 1, front + at, (size_t)(count - at) * sizeof *front);
  front[at] = *suffix;
  cover->count[begin] = count + 1;
}

/* A stage before each way to go on from its end, of the first so many; the fewest devices come
   first in both fronts, so that they are gone through side by side. Returns the number of the one
   for which the stage was taken, or else how many there were. */
static int TryEnd(GreedyCover *cover, const SearchCandidate *candidate, int begin, int end,
                  int waiting, double bound)
{
  const CoverSuffix *next = cover->suffix + (int64_t)end * FRONT_MOST;
  const CoverSuffix *front = cover->suffix + (int64_t)begin * FRONT_MOST;
  const int most = cover->model->devices - cover->spare - candidate->devices;
  int own = 0; /* of the front have no more devices, the last of them the fewest stages */
  for (int i = 0; i < cover->count[end] && i < waiting && next[i].devices <= most; i++) {
    const CoverSuffix made = {next[i].devices + candidate->devices, next[i].stages + 1, end, i,
                              candidate};
    while (own < cover->count[begin] && front[own].devices <= made.devices) own++;
    if (own == FRONT_MOST) break;
    if (own > 0 && front[own - 1].stages <= made.stages) continue;
    if (!FitsCover(cover->model, candidate, begin, end, made.stages, bound)) continue;
    InsertFront(cover, begin, &made);
    return i;
  }
  return waiting;
}

/* The longest stage from begin on, or one a little shorter where the cut is dear, before each way
   to go on. */
static void TryCandidate(GreedyCover *cover, int number, int begin, double bound)
{
  const SearchCandidate *candidate = cover->candidate[number];
  int *last = &cover->pointer[number];
  int waiting = FRONT_MOST; /* numbers of the fronts for which no end is found yet */
  while (*last > begin && !FitsAtLeast(cover->model, candidate, begin, *last, bound)) --*last;
  for (int end = *last, step = 0; end > begin && step < STEPS_BACK && waiting; end--, step++)
    waiting = TryEnd(cover, candidate, begin, end, waiting, bound);
}

/* So many devices may do the work before a place; what sums of many places are off is allowed. */
static bool MayDoBefore(const GreedyCover *cover, int place, int devices, double bound)
{
  const SearchModel *model = cover->model;
  const double work =
      RengaSearchWorkBefore_Private(model, place) - 1e-9 * RengaSearchWork_Private(model);
  const double capacity = cover->capacity[devices];
  return work <= 0 || isinf(capacity) || work <= bound * capacity;
}

static bool CoverUnder(GreedyCover *cover, double bound)
{
  cover->spare = cover->model->devices + 1;
  const int n = cover->model->count;
  for (int o = 0; o < cover->n_candidates; o++) cover->pointer[o] = n;
  cover->suffix[(int64_t)n * FRONT_MOST] = (CoverSuffix){.end = n};
  cover->count[n] = 1;
  for (int begin = n - 1; begin >= 0; begin--) {
    cover->count[begin] = 0;
    while (cover->spare > 0 && MayDoBefore(cover, begin, cover->spare - 1, bound)) cover->spare--;
    for (int o = 0; o < cover->n_candidates; o++) TryCandidate(cover, o, begin, bound);
  }
  return cover->count[0] > 0;
}

static RengaErrorCode TakeLayout(const GreedyCover *cover, int first, SearchLayout *best)
{
  const CoverSuffix *suffix = cover->suffix + first;
  SearchLayout layout = {.count = suffix->stages};
  RengaCall(RengaMalloc(layout.count, &layout.stage));
  for (int s = 0, begin = 0; s < layout.count; s++) {
    layout.stage[s] =
        (SearchStage){.begin = begin, .end = suffix->end, .shape = suffix->candidate->shape};
    begin = suffix->end;
    suffix = cover->suffix + (int64_t)begin * FRONT_MOST + suffix->next;
  }
  RengaCall(RengaSearchTake_Private(cover->model, &layout, best));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeFront(const GreedyCover *cover, SearchLayout *best)
{
  for (int i = 0; i < cover->count[0]; i++) RengaCall(TakeLayout(cover, i, best));
  return RENGA_SUCCESS;
}

static RengaErrorCode SearchCovers(GreedyCover *cover, SearchLayout *best)
{
  static const double looser[] = {1, 1.02, 1.05, 1.1, 1.25, 1.6};
  const double work = RengaSearchWork_Private(cover->model);
  double low = 0, high = best->count ? best->step - work : work;
  const int probes =
      cover->model->quick || (int64_t)cover->model->count * cover->n_candidates > 40000 ? 8 : 24;
  if (!CoverUnder(cover, high)) {
    high = HUGE_VAL;
    if (best->count || !CoverUnder(cover, high)) return RENGA_SUCCESS;
    for (high = fmax(work, 1e-12); !CoverUnder(cover, high); high *= 4) continue;
  }
  for (int probe = 0; probe < probes; probe++) {
    const double middle = low + (high - low) / 2;
    if (CoverUnder(cover, middle))
      high = middle;
    else
      low = middle;
  }
  const size_t n_looser = cover->model->count > CHAIN_LONG ? 1 : sizeof looser / sizeof looser[0];
  for (size_t i = 0; i < n_looser; i++)
    if (CoverUnder(cover, high * looser[i])) RengaCall(TakeFront(cover, best));
  return RENGA_SUCCESS;
}

/* All small numbers of devices, then steps of a quarter; fewer of them in a long chain. */
static RengaErrorCode ChooseCandidates(GreedyCover *cover)
{
  const SearchModel *model = cover->model;
  const bool few = model->count > CHAIN_LONG;
  const int all_up_to = few ? 1 : 8;
  RengaCall(RengaMalloc(model->n_candidates + 1, &cover->candidate));
  for (int o = 0, last = 0; o < model->n_candidates; o++) {
    const int devices = model->candidate[o].devices;
    if (o + 1 < model->n_candidates && devices > all_up_to && devices != last &&
        (few ? devices < 3 * last : 4 * devices < 5 * last))
      continue;
    cover->candidate[cover->n_candidates++] = &model->candidate[o];
    last = devices;
  }
  return RENGA_SUCCESS;
}

/* Of the work of rounds alone: on so many devices the most that any of the candidates have. */
static RengaErrorCode FindCoverCapacity(GreedyCover *cover)
{
  RengaCall(RengaMalloc(cover->model->devices + 1, &cover->capacity));
  for (int d = 1; d <= cover->model->devices; d++) {
    double most = cover->capacity[d - 1];
    for (int o = 0; o < cover->n_candidates && cover->candidate[o]->devices <= d; o++) {
      const double rounds = (double)cover->candidate[o]->rounds - 1;
      const double rest = cover->capacity[d - cover->candidate[o]->devices];
      most = fmax(most, rounds > 0 ? rest + 1 / rounds : HUGE_VAL);
    }
    cover->capacity[d] = most;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchCover_Private(const SearchModel *model, SearchLayout *best)
{
  GreedyCover cover = {.model = model};
  RengaErrorCode code = ChooseCandidates(&cover);
  if (!code) code = FindCoverCapacity(&cover);
  if (!code) code = RengaMalloc((int64_t)(model->count + 1) * FRONT_MOST, &cover.suffix);
  if (!code) code = RengaMalloc(model->count + 1, &cover.count);
  if (!code) code = RengaMalloc(cover.n_candidates + 1, &cover.pointer);
  if (!code) code = SearchCovers(&cover, best);
  RengaFree(&cover.candidate);
  RengaFree(&cover.suffix);
  RengaFree(&cover.count);
  RengaFree(&cover.pointer);
  RengaFree(&cover.capacity);
  RengaCall(code);
  return RENGA_SUCCESS;
}
