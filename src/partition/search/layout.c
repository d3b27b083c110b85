/* Layouts: copies, the better of two, cuts moved to where fewer bytes cross. */
#include "search.h"
#include <math.h>
#include <string.h>

enum { WINDOW = 256, WINDOW_LEAST = 20, WINDOWS_ALL = 40000, PASSES = 3, STAGES_MANY = 500 };

RengaErrorCode RengaSearchLayoutCopy_Private(const SearchLayout *from, SearchLayout *to)
{
  SearchStage *stage = NULL;
  int *rank = NULL;
  RengaErrorCode code = RengaMalloc(from->count + 1, &stage);
  if (!code && from->rank) code = RengaMalloc(from->n_ranks, &rank);
  if (code) RengaFree(&stage);
  RengaCall(code);
  memcpy(stage, from->stage, (size_t)from->count * sizeof *stage);
  if (rank) memcpy(rank, from->rank, (size_t)from->n_ranks * sizeof *rank);
  RengaSearchLayoutFree_Private(to);
  *to = *from;
  to->stage = stage;
  to->rank = rank;
  return RENGA_SUCCESS;
}

void RengaSearchLayoutFree_Private(SearchLayout *layout)
{
  RengaFree(&layout->stage);
  RengaFree(&layout->rank);
  *layout = (SearchLayout){0};
}

bool RengaSearchIsEqual_Private(const SearchLayout *layout)
{
  for (int s = 1; s < layout->count; s++)
    if (layout->stage[s].shape.replicas != layout->stage[0].shape.replicas) return false;
  return true;
}

void RengaSearchSetSaved_Private(RengaSaved saved, SearchLayout *layout)
{
  for (int s = 0; s < layout->count; s++) {
    layout->stage[s].shape.saved = saved;
    layout->stage[s].kept = (SearchKept){0};
  }
}

void RengaSearchTakeFirstPolicy_Private(const SearchModel *model, SearchLayout *layout)
{
  RengaSearchSetSaved_Private(model->policies.saved[0], layout);
}

static bool IsWanted(const SearchModel *model, const SearchLayout *layout)
{
  if (model->stages && layout->count != model->stages) return false;
  return model->unequal || RengaSearchIsEqual_Private(layout);
}

void RengaSearchLayoutKeep_Private(const SearchModel *model, SearchLayout *layout,
                                   SearchLayout *best)
{
  if (!IsWanted(model, layout) || !RengaSearchEvaluate_Private(model, layout) ||
      (best->count && layout->step >= best->step)) {
    RengaSearchLayoutFree_Private(layout);
    return;
  }
  RengaSearchLayoutFree_Private(best);
  *best = *layout;
  *layout = (SearchLayout){0};
}

/* What two neighbours cost if they meet at a place: messages and recomputation; HUGE_VAL where one
   of them is over a maximum. */
static double PairCost(const SearchModel *model, const SearchLayout *most,
                       const SearchLayout *layout, int s, const SearchCandidate candidate[2],
                       int place)
{
  SearchCost cost[2];
  if (!RengaSearchStageCost_Private(model, &candidate[0], layout->stage[s].begin, place,
                                    layout->count - s, &cost[0]) ||
      !RengaSearchStageCost_Private(model, &candidate[1], place, layout->stage[s + 1].end,
                                    layout->count - s - 1, &cost[1]))
    return HUGE_VAL;
  for (int i = 0; i < 2; i++)
    if (cost[i].rounds > most->rounds || cost[i].reduce > most->reduce ||
        cost[i].update > most->update)
      return HUGE_VAL;
  return 2 * cost[0].delay + cost[0].again + cost[1].again;
}

/* Of its work alone a stage is over the most: more quickly said than what it costs. */
static bool HasTooLongRounds(const SearchModel *model, const SearchLayout *most,
                             const SearchCandidate *candidate, int begin, int end)
{
  const double forward = model->forward[end] - model->forward[begin];
  const double backward = model->backward[end] - model->backward[begin] +
                          model->accumulate_rate * (model->elements[end] - model->elements[begin]);
  return (double)(candidate->rounds - 1) * (forward + backward) > most->rounds;
}

static bool MoveCut(const SearchModel *model, const SearchLayout *most, SearchLayout *layout, int s)
{
  SearchStage *a = &layout->stage[s], *b = &layout->stage[s + 1];
  const SearchCandidate candidate[] = {RengaSearchCandidateOf_Private(model, &a->shape),
                                       RengaSearchCandidateOf_Private(model, &b->shape)};
  const int now = a->end;
  int window = WINDOWS_ALL / layout->count;
  if (window > WINDOW) window = WINDOW;
  if (window < WINDOW_LEAST) window = WINDOW_LEAST;
  int first = now - window, last = now + window, best = now;
  if (first <= a->begin) first = a->begin + 1;
  if (last >= b->end) last = b->end - 1;
  double least = PairCost(model, most, layout, s, candidate, now);
  for (int place = first; place <= last; place++) {
    if (model->cut[place] >= model->cut[now] ||
        HasTooLongRounds(model, most, &candidate[0], a->begin, place) ||
        HasTooLongRounds(model, most, &candidate[1], place, b->end))
      continue;
    const double cost = PairCost(model, most, layout, s, candidate, place);
    if (cost < least * (1 - 1e-12)) least = cost, best = place;
  }
  a->end = b->begin = best;
  return best != now;
}

void RengaSearchMoveCuts_Private(const SearchModel *model, double slack, SearchLayout *layout)
{
  const SearchLayout most = {.rounds = layout->rounds * (1 + slack),
                             .reduce = layout->reduce * (1 + slack) + slack * layout->rounds,
                             .update = layout->update * (1 + slack)};
  const int passes = layout->count > STAGES_MANY ? 1 : PASSES;
  bool moved = true;
  for (int pass = 0; pass < passes && moved; pass++) {
    moved = false;
    for (int s = 0; s + 1 < layout->count; s++) moved = MoveCut(model, &most, layout, s) || moved;
  }
}

RengaErrorCode RengaSearchPolish_Private(const SearchModel *model, SearchLayout *layout)
{
  static const double slacks[] = {0.03, 1e-9, 0.01, 0.1, 0.3};
  SearchLayout best = {0};
  if (!RengaSearchEvaluate_Private(model, layout)) return RENGA_SUCCESS;
  RengaCall(RengaSearchLayoutCopy_Private(layout, &best));
  const size_t n_slacks = layout->count > STAGES_MANY ? 2 : sizeof slacks / sizeof slacks[0];
  for (size_t i = 0; i < n_slacks; i++) {
    SearchLayout moved = {0};
    RengaErrorCode code = RengaSearchLayoutCopy_Private(layout, &moved);
    if (code) RengaSearchLayoutFree_Private(&best);
    RengaCall(code);
    RengaSearchMoveCuts_Private(model, slacks[i], &moved);
    RengaSearchLayoutKeep_Private(model, &moved, &best);
  }
  RengaSearchLayoutFree_Private(layout);
  *layout = best;
  return RENGA_SUCCESS;
}

/* Moved cuts win messages, and little else. */
static bool MayBecomeBest(const SearchModel *model, const SearchLayout *layout,
                          const SearchLayout *best)
{
  return !best->count ||
         RengaSearchWork_Private(model) + 0.9 * layout->rounds + 0.5 * layout->reduce < best->step;
}

RengaErrorCode RengaSearchTake_Private(const SearchModel *model, SearchLayout *layout,
                                       SearchLayout *best)
{
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaSearchEvaluate_Private(model, layout) && MayBecomeBest(model, layout, best))
    code = RengaSearchPolish_Private(model, layout);
  if (code) RengaSearchLayoutFree_Private(layout);
  RengaCall(code);
  RengaSearchLayoutKeep_Private(model, layout, best);
  return RENGA_SUCCESS;
}
