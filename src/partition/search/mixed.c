/* Stages that recompute, and keep what there is room for: beside what the runtime says that they
   take when they recompute all, a stage keeps what spares most seconds of the bytes that are left.

   What a stage takes for what it keeps is known to a few temporary bytes, of tensors that no longer
   lie in the place of others; where that is too much, it keeps less. */
#include "search.h"
#include <math.h>

enum { MIXED_ROUNDS = 4 };

typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  const SearchModel *model;
  SearchLayout *layout;
  int64_t *slots; /* [stages] micro-batches in flight */
  double *room;   /* [stages] bytes for what is kept */
} Mixing;

static bool Mixes(const SearchStage *stage)
{
  return stage->shape.saved == RENGA_SAVED_RECOMPUTE;
}

static RengaErrorCode ChooseAll(const Mixing *mixing)
{
  const SearchLayout *layout = mixing->layout;
  const int row = RengaSearchRowOf_Private(mixing->task, layout);
  for (int s = 0; s < layout->count; s++)
    if (Mixes(&layout->stage[s]))
      RengaCall(RengaSearchChooseKept_Private(mixing->chain, mixing->task->costs[row],
                                              mixing->model, mixing->slots[s], mixing->room[s],
                                              &layout->stage[s]));
  return RENGA_SUCCESS;
}

static RengaErrorCode PlanAgain(const Mixing *mixing, RengaPlan *plan, RengaForecastMemory memory[],
                                double *most)
{
  RengaPlan made = NULL;
  RengaCall(RengaSearchPlan_Private(mixing->task, mixing->chain, mixing->layout, &made));
  RengaCall(RengaPlanDestroy(plan));
  *plan = made;
  RengaCall(
      RengaSearchMemory_Private(mixing->task, mixing->model, mixing->layout, made, memory, most));
  return RENGA_SUCCESS;
}

/* Stages that take too much have less room; last: they keep nothing. *over: there are some. */
static void TakeRoom(const Mixing *mixing, const RengaForecastMemory memory[], bool last,
                     bool *over)
{
  *over = false;
  for (int s = 0; s < mixing->layout->count; s++) {
    SearchStage *stage = &mixing->layout->stage[s];
    const double excess = (double)memory[s].total - mixing->task->memory;
    if (!Mixes(stage) || excess <= 0) continue;
    *over = true;
    mixing->room[s] = fmax(0, mixing->room[s] - excess);
    if (last) stage->kept = (SearchKept){0};
  }
}

static RengaErrorCode Mix(const Mixing *mixing, RengaPlan *plan, RengaForecastMemory memory[],
                          double *most)
{
  bool over = true;
  RengaCall(RengaSearchFindSlots_Private(mixing->task, mixing->model, mixing->layout, *plan,
                                         mixing->slots));
  for (int s = 0; s < mixing->layout->count; s++)
    mixing->room[s] = mixing->task->memory - (double)memory[s].total;
  for (int round = 0; round < MIXED_ROUNDS && over; round++) {
    RengaCall(ChooseAll(mixing));
    RengaCall(PlanAgain(mixing, plan, memory, most));
    TakeRoom(mixing, memory, round + 1 == MIXED_ROUNDS, &over);
  }
  if (over) RengaCall(PlanAgain(mixing, plan, memory, most));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchMix_Private(const SearchTask *task, const SearchChain *chain,
                                      const SearchModel *model, SearchLayout *layout,
                                      RengaPlan *plan, RengaForecastMemory memory[], double *most)
{
  Mixing mixing = {.task = task, .chain = chain, .model = model, .layout = layout};
  bool mixes = false;
  for (int s = 0; s < layout->count; s++) mixes = mixes || Mixes(&layout->stage[s]);
  if (!mixes || !model->policies.mixed || task->memory <= 0 || layout->chunks > 1)
    return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(layout->count, &mixing.slots);
  if (!code) code = RengaMalloc(layout->count, &mixing.room);
  if (!code) code = Mix(&mixing, plan, memory, most);
  RengaFree(&mixing.slots);
  RengaFree(&mixing.room);
  RengaCall(code);
  return RENGA_SUCCESS;
}
