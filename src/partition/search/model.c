/* The model: sums in front of each place of the chain, and the cost of an interval from them. */
#include "kinds.h"
#include "renga/private/schedule.h"
#include "search.h"
#include "rengaschedule.h"
#include <math.h>
#include <string.h>

static int LevelsOfCount(int count)
{
  int levels = 1;
  while (1 << levels <= count) levels++;
  return levels;
}

enum { SUMS = 19 + SEARCH_CLASSES };

/* The arrays of count + 1 places. */
static void ListModelSums(SearchModel *model, double **sums[SUMS])
{
  double **const all[SUMS] = {
      &model->forward,      &model->backward,    &model->elements,   &model->states,
      &model->saved,        &model->inputs,      &model->cut,        &model->unsaved,
      &model->paths.lead,   &model->paths.tail,  &model->read,       &model->fields,
      &model->received,     &model->sent,        &model->weight,     &model->listing.rates.across,
      &model->halves.early, &model->halves.lead, &model->halves.tail};
  memcpy(sums, all, sizeof all);
  for (int k = 0; k < SEARCH_CLASSES; k++) sums[SUMS - 1 - k] = &model->listing.rates.bytes[k];
}

SearchModel RengaSearchModelSettings_Private(const SearchModel *model)
{
  SearchModel settings = *model;
  double **sums[SUMS];
  ListModelSums(&settings, sums);
  for (int i = 0; i < SUMS; i++) *sums[i] = NULL;
  settings.node = settings.level = NULL;
  settings.temporary = NULL;
  settings.tie = NULL;
  settings.candidate = NULL;
  settings.kinds = NULL;
  settings.count = settings.n_ties = settings.n_candidates = 0;
  settings.paths.longest = settings.halves.longest = 0;
  settings.lent = false;
  return settings;
}

RengaErrorCode RengaSearchModelAllocate_Private(int count, SearchModel *model)
{
  double **sums[SUMS];
  ListModelSums(model, sums);
  model->count = count;
  for (int i = 0; i < SUMS; i++) RengaCall(RengaMalloc(count + 1, sums[i]));
  RengaCall(RengaMalloc((int64_t)LevelsOfCount(count) * count + 1, &model->temporary));
  RengaCall(RengaMalloc(count + 2, &model->level));
  for (int c = 2; c <= count; c++) model->level[c] = model->level[c / 2] + 1;
  return RENGA_SUCCESS;
}

static void FreeKinds(SearchModel *model)
{
  for (int k = 0; model->kinds && model->kinds->model && k < model->kinds->of->count; k++)
    RengaSearchModelFree_Private(&model->kinds->model[k]);
  if (model->kinds) RengaFree(&model->kinds->model);
  RengaFree(&model->kinds);
}

void RengaSearchModelFree_Private(SearchModel *model)
{
  FreeKinds(model);
  double **sums[SUMS];
  ListModelSums(model, sums);
  RengaFree(&model->candidate);
  if (model->lent) return;
  for (int i = 0; i < SUMS; i++) RengaFree(sums[i]);
  RengaFree(&model->temporary);
  RengaFree(&model->level);
}

void RengaSearchModelFinish_Private(SearchModel *model)
{
  const int count = model->count;
  for (int level = 1; 1 << level <= count; level++) {
    const double *below = model->temporary + (int64_t)(level - 1) * count;
    double *row = model->temporary + (int64_t)level * count;
    for (int c = 0; c + (1 << level) <= count; c++)
      row[c] = fmax(below[c], below[c + (1 << (level - 1))]);
  }
}

/* fmin and fmax are calls; nothing here is not a number. */
static double SmallerOf(double a, double b)
{
  return a < b ? a : b;
}

static double LargerOf(double a, double b)
{
  return a > b ? a : b;
}

static double LargestTemporary(const SearchModel *model, int begin, int end)
{
  const int level = model->level[end - begin];
  const double *row = model->temporary + (int64_t)level * model->count;
  return LargerOf(row[begin], row[end - (1 << level)]);
}

double RengaSearchHeld_Private(const SearchModel *model, int begin, int end)
{
  double held = model->elements[end] - model->elements[begin];
  for (int t = 0; t < model->n_ties; t++)
    if (model->tie[t].before >= begin && model->tie[t].after < end) held -= model->tie[t].elements;
  return held;
}

/* As the sum of the tree over replicas takes it: two rounds of chunks from all others. */
static double ReduceWork(const SearchCandidate *candidate, double bytes)
{
  const int replicas = candidate->shape.replicas;
  const double most = 64 << 20, chunk = SmallerOf(1 << 20, bytes / replicas);
  return replicas == 1 ? 0 : SmallerOf(most, 2.0 * (replicas - 1) * chunk);
}

/* The most parts of which a stage that recomputes is taken to have one at a time. */
enum { PARTS_MOST = 16 };

static double AllSaved(const SearchModel *model, const SearchCandidate *candidate, int begin,
                       int end)
{
  return candidate->bytes.saved * (model->saved[end] - model->saved[begin]);
}

/* Of what backward needs, what all stages have at least once. */
static double SavedOnce(const SearchModel *model, const SearchCandidate *candidate, int begin,
                        int end)
{
  return AllSaved(model, candidate, begin, end) / (model->policies.mixed ? PARTS_MOST : 1);
}

double RengaSearchLeastBytes_Private(const SearchModel *model, const SearchCandidate *candidate,
                                     int begin, int end)
{
  const SearchBytes *bytes = &candidate->bytes;
  const double gradient = bytes->gradient * (model->elements[end] - model->elements[begin]);
  return bytes->parameter * RengaSearchHeld_Private(model, begin, end) +
         bytes->state * (model->states[end] - model->states[begin]) +
         candidate->sums * (model->elements[end] - model->elements[begin]) +
         ReduceWork(candidate, gradient) + SavedOnce(model, candidate, begin, end) +
         model->inputs[end] - model->inputs[begin] + LargestTemporary(model, begin, end);
}

/* Micro-batches that a stage with so many stages from it to the last holds. */
double RengaSearchSlots_Private(const SearchModel *model, const SearchCandidate *candidate,
                                int depth)
{
  const double rounds = (double)candidate->rounds;
  const int64_t early =
      model->schedule.eager > 0 ? RengaScheduleEarly(model->schedule.eager, depth - 1) : 0;
  return model->schedule.gpipe ? rounds : SmallerOf(rounds, (double)(depth + early));
}

/* What backward needs, beyond what all stages have. One that recomputes keeps, of each micro-batch,
   what lies between its parts, taken to be as wide as the stage's ends, and has one part at a
   time. */
static double SavedBytes(const SearchModel *model, const SearchCandidate *candidate,
                         RengaSaved saved, int begin, int end, double slots)
{
  const double all = AllSaved(model, candidate, begin, end);
  const double narrow = candidate->bytes.saved * LargerOf(model->cut[begin], model->cut[end]);
  double least = saved == RENGA_SAVED_KEEP ? slots * all : all;
  for (int parts = 2; parts <= PARTS_MOST && saved != RENGA_SAVED_KEEP && model->policies.mixed;
       parts *= 2)
    least = SmallerOf(least, all / parts + slots * (parts - 1) * narrow);
  return least - SavedOnce(model, candidate, begin, end);
}

/* Whatever becomes of saved tensors. */
static double UnsavedBytes(const SearchModel *model, const SearchCandidate *candidate, int begin,
                           int end, double slots)
{
  const double rounds = (double)candidate->rounds, share = candidate->bytes.message;
  const double in = share * model->cut[begin], out = share * model->cut[end];
  return RengaSearchLeastBytes_Private(model, candidate, begin, end) +
         (slots - 1) * (model->inputs[end] - model->inputs[begin]) +
         slots * (share * model->unsaved[end]) + SmallerOf(slots + 1, rounds) * in +
         SmallerOf(2, rounds) * (in + out);
}

double RengaSearchStageBytes_Private(const SearchModel *model, const SearchCandidate *candidate,
                                     RengaSaved saved, int begin, int end, int depth)
{
  const double slots = RengaSearchSlots_Private(model, candidate, depth);
  return UnsavedBytes(model, candidate, begin, end, slots) +
         SavedBytes(model, candidate, saved, begin, end, slots);
}

/* Seconds of a micro-batch that are run again, where what there is room for is kept. */
static double MixedAgain(const SearchModel *model, const SearchCandidate *candidate, int begin,
                         int end, double slots, double unsaved)
{
  const double all = AllSaved(model, candidate, begin, end);
  const double kept = unsaved - SavedOnce(model, candidate, begin, end) + slots * all;
  return RengaSearchAgainAtLeast_Private(model, candidate, begin, end,
                                         SmallerOf(all, (kept - model->memory) / slots));
}

/* Of the sum of gradients, what is left when the stages before are done with their backwards. */
static double ReduceSeconds(const SearchModel *model, const SearchCandidate *candidate, double rate,
                            int begin, double elements)
{
  const double reduce = candidate->reduce_latency + rate * candidate->bytes.gradient * elements -
                        model->backward[begin];
  return candidate->shape.replicas == 1 || reduce < 0 ? 0 : reduce;
}

/* Of the values that replicas updated a share of each, what is left when the first micro-batch of
   the next step has come through the stages before. */
static double GatherSeconds(const SearchModel *model, const SearchCandidate *candidate, int begin,
                            double elements)
{
  return LargerOf(0, candidate->gather_latency +
                         candidate->gather_rate * candidate->bytes.value * elements -
                         model->forward[begin]);
}

static double UpdateSeconds(const SearchModel *model, const SearchCandidate *candidate, int begin,
                            int end)
{
  const double held = RengaSearchHeld_Private(model, begin, end);
  const double update = model->update_rate * held / candidate->updaters;
  return candidate->updaters == 1 ? update : update + GatherSeconds(model, candidate, begin, held);
}

double RengaSearchLeastEnd_Private(const SearchModel *model, const SearchCandidate *candidate,
                                   int begin, int end)
{
  const double elements = model->elements[end] - model->elements[begin];
  return ReduceSeconds(model, candidate, candidate->reduce_rate, begin, elements) +
         UpdateSeconds(model, candidate, begin, end);
}

double RengaSearchLeastShare_Private(const SearchModel *model, const SearchCandidate *candidate,
                                     int begin, int end)
{
  const double elements = model->elements[end] - model->elements[begin];
  const double work = model->forward[end] - model->forward[begin] + model->backward[end] -
                      model->backward[begin] + model->accumulate_rate * elements;
  return (double)(candidate->rounds - 1) * work +
         ReduceSeconds(model, candidate, candidate->reduce_rate, begin, elements) +
         UpdateSeconds(model, candidate, begin, end);
}

/* The first policy that fits; false: none does. */
static bool ChoosePolicy(const SearchModel *model, const SearchCandidate *candidate, int begin,
                         int end, double slots, double unsaved, SearchCost *cost)
{
  if (model->memory > 0 && unsaved > model->memory) return false;
  for (int p = 0; p < model->policies.count; p++) {
    cost->saved = model->policies.saved[p];
    cost->memory = unsaved + SavedBytes(model, candidate, cost->saved, begin, end, slots);
    if (model->memory <= 0 || cost->memory <= model->memory) return true;
  }
  return false;
}

/* Of what replicas give each other with each micro-batch, what their work does not hide: with the
   rounds it grows with the interval, as they do. */
static double UnhiddenExchange(const SearchModel *model, const SearchCandidate *candidate,
                               const SearchCost *cost, double elements)
{
  const double each = candidate->exchange_latency + candidate->exchange_rate * elements;
  const double hidden = model->listing.by_ranks ? 0 : cost->forward + cost->backward;
  return each > hidden ? (double)(candidate->rounds - 1) * (each - hidden) : 0;
}

/* Seconds, with what the cost says of those that are run again. */
static void FillSeconds(const SearchModel *model, const SearchCandidate *candidate, int begin,
                        int end, SearchCost *cost)
{
  const double elements = model->elements[end] - model->elements[begin];
  cost->forward = model->forward[end] - model->forward[begin];
  cost->backward = model->backward[end] - model->backward[begin] +
                   model->accumulate_rate * elements + cost->again;
  cost->weight = model->weight[end] - model->weight[begin] + model->accumulate_rate * elements;
  cost->delay = end < model->count
                    ? candidate->message_latency +
                          candidate->message_rate * (candidate->bytes.message * model->cut[end])
                    : 0;
  cost->rounds =
      (double)(candidate->rounds - 1) * LargerOf(cost->forward + cost->backward, cost->delay);
  cost->reduce = ReduceSeconds(model, candidate, candidate->reduce_rate + candidate->pieces_rate,
                               begin, elements);
  if (candidate->exchange_rate > 0)
    cost->reduce += UnhiddenExchange(model, candidate, cost, elements);
  cost->update = UpdateSeconds(model, candidate, begin, end);
}

bool RengaSearchStageCost_Private(const SearchModel *model, const SearchCandidate *candidate,
                                  int begin, int end, int depth, SearchCost *cost)
{
  const double slots = RengaSearchSlots_Private(model, candidate, depth);
  const double unsaved = UnsavedBytes(model, candidate, begin, end, slots);
  if (!ChoosePolicy(model, candidate, begin, end, slots, unsaved, cost)) return false;
  cost->again = RengaSearchAgain_Private(cost->saved, model->forward[end] - model->forward[begin]);
  if (model->policies.mixed && cost->saved == RENGA_SAVED_RECOMPUTE && model->memory > 0)
    cost->again = SmallerOf(cost->again, MixedAgain(model, candidate, begin, end, slots, unsaved));
  FillSeconds(model, candidate, begin, end, cost);
  return true;
}

/* Of several kinds the slowest: all wait for it. */
static SearchCost CostOnKinds(const SearchModel *model, const SearchStage *stage, int depth)
{
  SearchCost cost = {0};
  for (int k = 0; stage->kinds >> k; k++) {
    if (!(stage->kinds >> k & 1)) continue;
    const SearchModel kind = RengaSearchModelOfKind_Private(model, k);
    SearchStage own = *stage;
    const double base = model->forward[stage->end] - model->forward[stage->begin];
    own.kinds = 0;
    if (base > 0) own.kept.again *= (kind.forward[own.end] - kind.forward[own.begin]) / base;
    const SearchCost one = RengaSearchCostOf_Private(&kind, &own, depth);
    const double update = LargerOf(cost.update, one.update),
                 reduce = LargerOf(cost.reduce, one.reduce);
    if (one.forward + one.backward >= cost.forward + cost.backward) cost = one;
    cost.update = update;
    cost.reduce = reduce;
  }
  return cost;
}

/* The same, of the first policy that fits on all of them. */
bool RengaSearchStageOn_Private(const SearchModel *model, const SearchStage *stage,
                                const SearchCandidate *candidate, int depth, SearchCost *cost)
{
  double hidden = -1;
  RengaSaved saved = RENGA_SAVED_KEEP;
  if (!model->kinds || !stage->kinds)
    return RengaSearchStageCost_Private(model, candidate, stage->begin, stage->end, depth, cost);
  *cost = (SearchCost){0};
  for (int k = 0; stage->kinds >> k; k++) {
    if (!(stage->kinds >> k & 1)) continue;
    const SearchModel kind = RengaSearchModelOfKind_Private(model, k);
    SearchCost one;
    if (!RengaSearchStageCost_Private(&kind, candidate, stage->begin, stage->end, depth, &one))
      return false;
    const double update = LargerOf(cost->update, one.update),
                 reduce = LargerOf(cost->reduce, one.reduce);
    if (RengaSearchHidden_Private(model->kinds, 1u << k) > hidden) saved = one.saved;
    hidden = LargerOf(hidden, RengaSearchHidden_Private(model->kinds, 1u << k));
    if (one.forward + one.backward >= cost->forward + cost->backward) *cost = one;
    cost->update = update;
    cost->reduce = reduce;
  }
  cost->saved = saved;
  return true;
}

SearchCost RengaSearchCostOf_Private(const SearchModel *model, const SearchStage *stage, int depth)
{
  if (model->kinds && stage->kinds) return CostOnKinds(model, stage, depth);
  const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &stage->shape);
  SearchCost cost = {.saved = stage->shape.saved};
  cost.memory = RengaSearchStageBytes_Private(model, &candidate, cost.saved, stage->begin,
                                              stage->end, depth) +
                (RengaSearchSlots_Private(model, &candidate, depth) - 1) * stage->kept.bytes;
  cost.again = stage->kept.set
                   ? stage->kept.again
                   : RengaSearchAgain_Private(cost.saved, model->forward[stage->end] -
                                                              model->forward[stage->begin]);
  FillSeconds(model, &candidate, stage->begin, stage->end, &cost);
  return cost;
}

int RengaSearchAcross_Private(const SearchLayout *layout)
{
  return layout->chunks > 1 ? layout->count / layout->chunks : layout->count;
}

int RengaSearchStageOf_Private(const SearchLayout *layout, int first, int chunk)
{
  const int across = RengaSearchAcross_Private(layout);
  const bool back = layout->wave && chunk % 2;
  return chunk * across + (back ? across - 1 - first : first);
}

int RengaSearchDevices_Private(const SearchLayout *layout)
{
  int devices = 0;
  for (int s = 0; s < RengaSearchAcross_Private(layout); s++)
    devices += RengaSearchShapeDevices_Private(&layout->stage[s].shape);
  return devices;
}

/* Of all stages of the ranks that have stage `first`; adds what fills the pipeline. */
static bool SumRank(const SearchModel *model, SearchLayout *layout, int first, SearchCost *sum)
{
  *sum = (SearchCost){0};
  for (int c = 0; c == 0 || c < layout->chunks; c++) {
    const int s = RengaSearchStageOf_Private(layout, first, c);
    SearchStage *stage = &layout->stage[s];
    const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &stage->shape);
    SearchCost cost;
    if (!RengaSearchStageOn_Private(model, stage, &candidate, layout->count - s, &cost))
      return false;
    stage->shape.saved = cost.saved;
    stage->kept = (SearchKept){0};
    layout->fill += cost.forward + cost.backward + 2 * cost.delay;
    sum->rounds += cost.rounds;
    sum->reduce += cost.reduce;
    sum->update += cost.update;
  }
  return true;
}

bool RengaSearchEvaluate_Private(const SearchModel *model, SearchLayout *layout)
{
  layout->microbatch = model->microbatch;
  layout->leaf = model->leaf;
  layout->spread = model->listing.spread;
  layout->schedule = model->schedule;
  layout->fill = layout->rounds = layout->reduce = layout->update = 0;
  RengaSearchFindKinds_Private(model, layout);
  for (int s = 0; s < RengaSearchAcross_Private(layout); s++) {
    SearchCost cost;
    if (!SumRank(model, layout, s, &cost)) return false;
    layout->rounds = fmax(layout->rounds, cost.rounds);
    layout->reduce = fmax(layout->reduce, cost.reduce);
    layout->update = fmax(layout->update, cost.update);
  }
  layout->step = layout->fill + layout->rounds + layout->reduce + layout->update;
  return RengaSearchDevices_Private(layout) <= model->devices * RengaSearchUnit_Private(model);
}

void RengaSearchSumStages_Private(const SearchModel *model, SearchLayout *layout)
{
  const int across = RengaSearchAcross_Private(layout);
  layout->fill = layout->rounds = layout->reduce = layout->update = 0;
  for (int first = 0; first < across; first++) {
    SearchCost sum = {0};
    for (int c = 0; c == 0 || c < layout->chunks; c++) {
      const int s = RengaSearchStageOf_Private(layout, first, c);
      const SearchCost cost =
          RengaSearchCostOf_Private(model, &layout->stage[s], layout->count - s);
      layout->fill += cost.forward + cost.backward + 2 * cost.delay;
      sum.rounds += cost.rounds;
      sum.reduce += cost.reduce;
      sum.update += cost.update;
    }
    layout->rounds = fmax(layout->rounds, sum.rounds);
    layout->reduce = fmax(layout->reduce, sum.reduce);
    layout->update = fmax(layout->update, sum.update);
  }
  layout->step = layout->fill + layout->rounds + layout->reduce + layout->update;
}

double RengaSearchWorkBefore_Private(const SearchModel *model, int place)
{
  return model->forward[place] + model->backward[place] +
         model->accumulate_rate * model->elements[place];
}

double RengaSearchWork_Private(const SearchModel *model)
{
  return RengaSearchWorkBefore_Private(model, model->count);
}
