/* The model: sums in front of each place of the chain, and the cost of an interval from them. */
#include "search.h"
#include "rengaschedule.h"
#include <math.h>
#include <string.h>

enum { ELEMENT = sizeof(float) };

static int LevelsOfCount(int count)
{
  int levels = 1;
  while (1 << levels <= count) levels++;
  return levels;
}

enum { SUMS = 14 };

/* The arrays of count + 1 places. */
static void ListModelSums(SearchModel *model, double **sums[SUMS])
{
  double **const all[SUMS] = {&model->forward,  &model->backward, &model->elements, &model->states,
                              &model->saved,    &model->inputs,   &model->cut,      &model->unsaved,
                              &model->lead,     &model->tail,     &model->read,     &model->fields,
                              &model->received, &model->sent};
  memcpy(sums, all, sizeof all);
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
  settings.option = NULL;
  settings.count = settings.n_ties = settings.n_options = 0;
  settings.longest = 0;
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

void RengaSearchModelFree_Private(SearchModel *model)
{
  double **sums[SUMS];
  ListModelSums(model, sums);
  RengaFree(&model->option);
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
static double ReduceWork(const SearchOption *option, double bytes)
{
  const double most = 64 << 20, chunk = SmallerOf(1 << 20, bytes / option->shape.replicas);
  return option->shape.replicas == 1 ? 0
                                     : SmallerOf(most, 2.0 * (option->shape.replicas - 1) * chunk);
}

double RengaSearchLeastBytes_Private(const SearchModel *model, const SearchOption *option,
                                     int begin, int end)
{
  const double gradient = ELEMENT * (model->elements[end] - model->elements[begin]);
  const double held = ELEMENT * RengaSearchHeld_Private(model, begin, end);
  return held * (1 + model->moments) + ELEMENT * (model->states[end] - model->states[begin]) +
         gradient * option->buffers + ReduceWork(option, gradient) + model->saved[end] -
         model->saved[begin] + model->inputs[end] - model->inputs[begin] +
         LargestTemporary(model, begin, end);
}

/* Micro-batches that a stage with so many stages from it to the last holds. */
static double Slots(const SearchModel *model, const SearchOption *option, int depth)
{
  const double rounds = (double)option->rounds;
  const int64_t early = model->eager > 0 ? RengaScheduleEarly(model->eager, depth - 1) : 0;
  return model->gpipe ? rounds : SmallerOf(rounds, (double)(depth + early));
}

/* A stage that does not recompute keeps what backward needs of each of them. */
static double SavedBytes(const SearchModel *model, int begin, int end, double slots)
{
  return (slots - 1) * (model->saved[end] - model->saved[begin]);
}

static double RecomputingBytes(const SearchModel *model, const SearchOption *option, int begin,
                               int end, double slots)
{
  const double rounds = (double)option->rounds;
  const double in = model->cut[begin], out = model->cut[end];
  return RengaSearchLeastBytes_Private(model, option, begin, end) +
         (slots - 1) * (model->inputs[end] - model->inputs[begin]) + slots * model->unsaved[end] +
         SmallerOf(slots + 1, rounds) * in + SmallerOf(2, rounds) * (in + out);
}

double RengaSearchStageBytes_Private(const SearchModel *model, const SearchOption *option,
                                     int begin, int end, int depth, bool recompute)
{
  const double slots = Slots(model, option, depth);
  return RecomputingBytes(model, option, begin, end, slots) +
         (recompute ? 0 : SavedBytes(model, begin, end, slots));
}

double RengaSearchLeastShare_Private(const SearchModel *model, const SearchOption *option,
                                     int begin, int end)
{
  const double elements = model->elements[end] - model->elements[begin];
  const double work = model->forward[end] - model->forward[begin] + model->backward[end] -
                      model->backward[begin] + model->accumulate_rate * elements;
  double reduce =
      option->reduce_latency + option->reduce_rate * ELEMENT * elements - model->backward[begin];
  if (option->shape.replicas == 1 || reduce < 0) reduce = 0;
  return (double)(option->rounds - 1) * work + reduce +
         model->update_rate * RengaSearchHeld_Private(model, begin, end);
}

bool RengaSearchStageCost_Private(const SearchModel *model, const SearchOption *option, int begin,
                                  int end, int depth, SearchCost *cost)
{
  const double elements = model->elements[end] - model->elements[begin];
  const double message = end < model->count ? model->cut[end] : 0;
  cost->forward = model->forward[end] - model->forward[begin];
  cost->backward =
      model->backward[end] - model->backward[begin] + model->accumulate_rate * elements;
  const double slots = Slots(model, option, depth);
  const double least = RecomputingBytes(model, option, begin, end, slots);
  if (model->memory > 0 && least > model->memory) return false;
  cost->memory = least + SavedBytes(model, begin, end, slots);
  cost->recompute = model->memory > 0 && cost->memory > model->memory;
  if (cost->recompute && !model->recompute) return false;
  cost->extra = cost->recompute ? cost->forward : 0;
  if (cost->recompute) cost->memory = least;
  cost->backward += cost->extra;
  cost->delay = end < model->count ? option->message_latency + option->message_rate * message : 0;
  cost->rounds =
      (double)(option->rounds - 1) * LargerOf(cost->forward + cost->backward, cost->delay);
  cost->reduce =
      option->reduce_latency + option->reduce_rate * ELEMENT * elements - model->backward[begin];
  if (option->shape.replicas == 1 || cost->reduce < 0) cost->reduce = 0;
  cost->update = model->update_rate * RengaSearchHeld_Private(model, begin, end);
  return true;
}

bool RengaSearchCostOf_Private(const SearchModel *model, const SearchStage *stage, int depth,
                               SearchCost *cost)
{
  const SearchOption option = RengaSearchOptionOf_Private(model, &stage->shape);
  return RengaSearchStageCost_Private(model, &option, stage->begin, stage->end, depth, cost);
}

double RengaSearchBytesOf_Private(const SearchModel *model, const SearchStage *stage, int depth)
{
  const SearchOption option = RengaSearchOptionOf_Private(model, &stage->shape);
  return RengaSearchStageBytes_Private(model, &option, stage->begin, stage->end, depth,
                                       RengaSearchRecomputes_Private(stage));
}

int RengaSearchAcross_Private(const SearchLayout *layout)
{
  return layout->chunks > 1 ? layout->count / layout->chunks : layout->count;
}

int RengaSearchDevices_Private(const SearchLayout *layout)
{
  int devices = 0;
  for (int s = 0; s < RengaSearchAcross_Private(layout); s++)
    devices += layout->stage[s].shape.replicas;
  return devices;
}

/* Of all stages of the ranks that have stage `first`; adds what fills the pipeline. */
static bool SumRank(const SearchModel *model, SearchLayout *layout, int first, SearchCost *sum)
{
  *sum = (SearchCost){0};
  for (int s = first; s < layout->count; s += RengaSearchAcross_Private(layout)) {
    SearchStage *stage = &layout->stage[s];
    SearchCost cost;
    if (!RengaSearchCostOf_Private(model, stage, layout->count - s, &cost)) return false;
    RengaSearchSetRecompute_Private(stage, cost.recompute);
    layout->fill += cost.forward + cost.backward + 2 * cost.delay;
    sum->rounds += cost.rounds;
    sum->reduce += cost.reduce;
    sum->update += cost.update;
  }
  return true;
}

bool RengaSearchEvaluate_Private(const SearchModel *model, SearchLayout *layout)
{
  layout->fill = layout->rounds = layout->reduce = layout->update = 0;
  for (int s = 0; s < RengaSearchAcross_Private(layout); s++) {
    SearchCost cost;
    if (!SumRank(model, layout, s, &cost)) return false;
    layout->rounds = fmax(layout->rounds, cost.rounds);
    layout->reduce = fmax(layout->reduce, cost.reduce);
    layout->update = fmax(layout->update, cost.update);
  }
  layout->step = layout->fill + layout->rounds + layout->reduce + layout->update;
  return RengaSearchDevices_Private(layout) <= model->devices;
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
