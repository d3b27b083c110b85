/* Cuts for ranks that have several stages each: all ranks get about as much work, by shares that
   are levelled again and again, and stages end where few bytes cross. */
#include "search.h"
#include <math.h>

enum { DEAL_ROUNDS = 10 };
static const double deal_windows[] = {0, 0.1, 0.25, 0.5}; /* of a stage, that a cut may move */

/* The place from first to last before which there is the work; of those that are so near, in
   seconds, the one over which the fewest bytes go. */
static int PlaceOfWork(const SearchModel *model, double work, double near, int first, int last)
{
  int low = first, high = last;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (RengaSearchWorkBefore_Private(model, middle) < work)
      low = middle + 1;
    else
      high = middle;
  }
  if (low > first && work - RengaSearchWorkBefore_Private(model, low - 1) <
                         RengaSearchWorkBefore_Private(model, low) - work)
    low--;
  int best = low;
  for (int c = low - 1; c >= first && work - RengaSearchWorkBefore_Private(model, c) <= near; c--)
    if (model->cut[c] < model->cut[best]) best = c;
  for (int c = low + 1; c <= last && RengaSearchWorkBefore_Private(model, c) - work <= near; c++)
    if (model->cut[c] < model->cut[best]) best = c;
  return best;
}

/* Stages with these shares of the work, about: each has a place, and ends where the fewest bytes
   cross of those that are so near, in stages. */
static void CutByShares(const SearchModel *model, const double share[], double window,
                        SearchLayout *layout)
{
  const double all = RengaSearchWork_Private(model);
  double before = 0;
  for (int s = 0, begin = 0; s < layout->count; s++) {
    const int behind = layout->count - 1 - s;
    before += share[s] * all;
    const int end = behind ? PlaceOfWork(model, before, window * share[s] * all, begin + 1,
                                         model->count - behind)
                           : model->count;
    layout->stage[s].begin = begin;
    layout->stage[s].end = begin = end;
  }
}

static double WorkDealt(const SearchModel *model, const SearchStage *stage)
{
  return RengaSearchWorkBefore_Private(model, stage->end) -
         RengaSearchWorkBefore_Private(model, stage->begin);
}

static double WorkOfRank(const SearchModel *model, const SearchLayout *layout, int first)
{
  double work = 0;
  for (int c = 0; c < layout->chunks; c++)
    work += WorkDealt(model, &layout->stage[RengaSearchStageOf_Private(layout, first, c)]);
  return work;
}

SearchDealt RengaSearchDealt_Private(const SearchModel *model, const SearchLayout *layout)
{
  SearchDealt pace = {0};
  for (int first = 0; first < RengaSearchAcross_Private(layout); first++)
    pace.busiest = fmax(pace.busiest, WorkOfRank(model, layout, first));
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    pace.longest = fmax(pace.longest, WorkDealt(model, stage));
    pace.forward = fmax(pace.forward, model->forward[stage->end] - model->forward[stage->begin]);
  }
  return pace;
}

/* Seconds by which cuts are compared: the busiest rank, the longest stage while the pipeline fills,
   and messages. */
static double JudgeCuts(const SearchModel *model, const SearchCandidate *candidate,
                        const SearchLayout *layout)
{
  const SearchDealt pace = RengaSearchDealt_Private(model, layout);
  const double rate = candidate->message_rate * candidate->bytes.message;
  double messages = 0;
  for (int s = 0; s + 1 < layout->count; s++)
    messages += 2 * (candidate->message_latency + rate * model->cut[layout->stage[s].end]);
  return (double)candidate->rounds * pace.busiest +
         RengaSearchAcross_Private(layout) * pace.longest + messages;
}

/* Stages of ranks that have more to do than others get less. */
static void LevelShares(const SearchModel *model, const SearchLayout *layout, double share[])
{
  const int across = RengaSearchAcross_Private(layout);
  const double all = RengaSearchWork_Private(model);
  double sum = 0;
  if (all <= 0) return;
  for (int first = 0; first < across; first++) {
    const double factor = fmin(2, sqrt(all / across / WorkOfRank(model, layout, first)));
    for (int c = 0; c < layout->chunks; c++) {
      const int s = RengaSearchStageOf_Private(layout, first, c);
      share[s] = (share[s] + WorkDealt(model, &layout->stage[s]) / all) / 2 * factor;
    }
  }
  for (int s = 0; s < layout->count; s++) sum += share[s];
  for (int s = 0; s < layout->count; s++) share[s] /= sum;
}

/* The cuts that are judged best, with shares levelled again and again. */
RengaErrorCode RengaSearchDeal_Private(const SearchModel *model, SearchLayout *layout)
{
  const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &layout->stage[0].shape);
  double *share = NULL, least = HUGE_VAL;
  SearchLayout best = {0};
  RengaCall(RengaMalloc(layout->count, &share));
  RengaErrorCode code = RENGA_SUCCESS;
  for (size_t w = 0; w < sizeof deal_windows / sizeof deal_windows[0]; w++) {
    for (int s = 0; s < layout->count; s++) share[s] = 1.0 / layout->count;
    for (int round = 0; round < DEAL_ROUNDS && !code; round++) {
      CutByShares(model, share, deal_windows[w], layout);
      const double judged = JudgeCuts(model, &candidate, layout);
      if (judged < least) code = RengaSearchLayoutCopy_Private(layout, &best);
      least = fmin(least, judged);
      LevelShares(model, layout, share);
    }
  }
  RengaFree(&share);
  for (int s = 0; s < best.count; s++) layout->stage[s] = best.stage[s];
  RengaSearchLayoutFree_Private(&best);
  RengaCall(code);
  return RENGA_SUCCESS;
}
