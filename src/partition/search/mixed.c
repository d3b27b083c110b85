/* Stages that recompute, and keep what there is room for: beside what the runtime says that they
   take when they recompute all, a stage keeps what spares most seconds of the bytes that are left.

   A stage that does not fit even so keeps what crosses narrow places, first one, then as many as
   cut it into twice the parts, and so on: of what is made again there is one part at a time. It
   keeps as few as let it fit, and then whatever else there is room for.

   What a stage takes for what it keeps is known to the bytes of what is there at once, which
   shrinks with it; where that is too much, it keeps less, and where bytes are left, more. */
#include "search.h"
#include <math.h>

enum { MIXED_ROUNDS = 4, MIXED_PARTS = 64 };

typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  const SearchModel *model;
  SearchLayout *layout;
  int64_t *slots;          /* [stages] micro-batches in flight */
  double *room;            /* [stages] bytes for what is kept */
  double *least;           /* [stages] bytes that it takes with what it must keep, */
  SearchKept *base, *good; /* [stages] this; the most that is known to fit */
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
                                              &mixing->base[s], &layout->stage[s]));
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

static bool IsOver(const Mixing *mixing, int s)
{
  return Mixes(&mixing->layout->stage[s]) && mixing->least[s] > mixing->task->memory;
}

/* *over: some stage does not fit; *hopeless: nor would it without saved and temporary tensors. */
static void LookForOver(const Mixing *mixing, const RengaForecastMemory memory[], bool *over,
                        bool *hopeless)
{
  *over = *hopeless = false;
  for (int s = 0; s < mixing->layout->count; s++) {
    const int64_t rest = memory[s].total - memory[s].saved - memory[s].temporary;
    *over = *over || IsOver(mixing, s);
    *hopeless =
        *hopeless || (double)rest > mixing->task->memory ||
        (!Mixes(&mixing->layout->stage[s]) && (double)memory[s].total > mixing->task->memory);
  }
}

/* Stages that do not fit in so many parts. */
static RengaErrorCode CutOver(const Mixing *mixing, int parts, RengaPlan *plan,
                              RengaForecastMemory memory[], double *most)
{
  const int row = RengaSearchRowOf_Private(mixing->task, mixing->layout);
  for (int s = 0; s < mixing->layout->count; s++)
    if (IsOver(mixing, s))
      RengaCall(RengaSearchCutKept_Private(mixing->chain, mixing->task->costs[row], mixing->model,
                                           parts, &mixing->layout->stage[s]));
  RengaCall(PlanAgain(mixing, plan, memory, most));
  for (int s = 0; s < mixing->layout->count; s++) {
    SearchStage *stage = &mixing->layout->stage[s];
    if (IsOver(mixing, s) && (double)memory[s].total < mixing->least[s]) {
      mixing->least[s] = (double)memory[s].total;
      mixing->base[s] = stage->kept;
    }
    stage->kept = mixing->base[s];
  }
  return RENGA_SUCCESS;
}

/* Bytes that are left, or too many, change the room. *settled: all fit, and choose as before. */
static void TakeRoom(const Mixing *mixing, const RengaForecastMemory memory[], bool *settled)
{
  *settled = true;
  for (int s = 0; s < mixing->layout->count; s++) {
    const SearchStage *stage = &mixing->layout->stage[s];
    const double left = mixing->task->memory - (double)memory[s].total;
    if (!Mixes(stage)) continue;
    *settled = *settled && left >= 0 && mixing->good[s].set == stage->kept.set;
    if (left >= 0) mixing->good[s] = stage->kept;
    mixing->room[s] = fmax(0, mixing->room[s] + left);
  }
}

/* What is known to fit is what is planned. */
static RengaErrorCode PlanGood(const Mixing *mixing, RengaPlan *plan, RengaForecastMemory memory[],
                               double *most)
{
  for (int s = 0; s < mixing->layout->count; s++)
    if (Mixes(&mixing->layout->stage[s])) mixing->layout->stage[s].kept = mixing->good[s];
  RengaCall(PlanAgain(mixing, plan, memory, most));
  return RENGA_SUCCESS;
}

static RengaErrorCode MixAll(const Mixing *mixing, RengaPlan *plan, RengaForecastMemory memory[],
                             double *most)
{
  const int count = mixing->layout->count;
  bool over, hopeless, settled = false;
  for (int s = 0; s < count; s++) mixing->least[s] = (double)memory[s].total;
  LookForOver(mixing, memory, &over, &hopeless);
  if (hopeless) return RENGA_SUCCESS;
  for (int parts = 2; parts <= MIXED_PARTS && over; parts *= 2) {
    RengaCall(CutOver(mixing, parts, plan, memory, most));
    LookForOver(mixing, memory, &over, &hopeless);
  }
  for (int s = 0; s < count; s++) {
    mixing->good[s] = mixing->base[s];
    mixing->room[s] = mixing->task->memory - mixing->least[s];
  }
  if (!over)
    RengaCall(RengaSearchFindSlots_Private(mixing->task, mixing->model, mixing->layout, *plan,
                                           mixing->slots));
  for (int round = 0; round < MIXED_ROUNDS && !over && !settled; round++) {
    RengaCall(ChooseAll(mixing));
    RengaCall(PlanAgain(mixing, plan, memory, most));
    TakeRoom(mixing, memory, &settled);
  }
  if (!settled) RengaCall(PlanGood(mixing, plan, memory, most));
  return RENGA_SUCCESS;
}

/* All bytes that are not of stages' saved and temporary tensors, and those of what recomputes saves
   in any case, are as they are: at best all else holds what is kept, beside temporary tensors that
   a stage has in any case. */
static RengaErrorCode FindRoomAtBest(const Mixing *mixing, RengaPlan plan,
                                     const RengaForecastMemory memory[], const double temporary[])
{
  RengaCall(RengaSearchFindSlots_Private(mixing->task, mixing->model, mixing->layout, plan,
                                         mixing->slots));
  for (int s = 0; s < mixing->layout->count; s++)
    mixing->room[s] = mixing->task->memory - (double)(memory[s].total - memory[s].temporary) -
                      (temporary ? temporary[s] : 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateMixing(int count, Mixing *mixing)
{
  RengaCall(RengaMalloc(count, &mixing->slots));
  RengaCall(RengaMalloc(count, &mixing->room));
  RengaCall(RengaMalloc(count, &mixing->least));
  RengaCall(RengaMalloc(count, &mixing->base));
  RengaCall(RengaMalloc(count, &mixing->good));
  return RENGA_SUCCESS;
}

static void FreeMixing(Mixing *mixing)
{
  RengaFree(&mixing->slots);
  RengaFree(&mixing->room);
  RengaFree(&mixing->least);
  RengaFree(&mixing->base);
  RengaFree(&mixing->good);
}

static bool MayMix(const SearchTask *task, const SearchModel *model, const SearchLayout *layout)
{
  bool mixes = false;
  for (int s = 0; s < layout->count; s++) mixes = mixes || Mixes(&layout->stage[s]);
  return mixes && model->policies.mixed && task->memory > 0 && layout->chunks <= 1;
}

RengaErrorCode RengaSearchMixAtBest_Private(const SearchTask *task, const SearchChain *chain,
                                            const SearchModel *model, SearchLayout *layout,
                                            RengaPlan plan, const RengaForecastMemory memory[],
                                            const double temporary[])
{
  Mixing mixing = {.task = task, .chain = chain, .model = model, .layout = layout};
  if (!MayMix(task, model, layout)) return RENGA_SUCCESS;
  RengaErrorCode code = AllocateMixing(layout->count, &mixing);
  if (!code) code = FindRoomAtBest(&mixing, plan, memory, temporary);
  if (!code) code = ChooseAll(&mixing);
  FreeMixing(&mixing);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchMix_Private(const SearchTask *task, const SearchChain *chain,
                                      const SearchModel *model, SearchLayout *layout,
                                      RengaPlan *plan, RengaForecastMemory memory[], double *most)
{
  Mixing mixing = {.task = task, .chain = chain, .model = model, .layout = layout};
  if (RengaSearchSegments_Private(task)) {
    RengaCall(RengaSearchSegment_Private(task, chain, model, layout, *plan, memory, most));
    return RENGA_SUCCESS;
  }
  if (!MayMix(task, model, layout)) return RENGA_SUCCESS;
  RengaErrorCode code = AllocateMixing(layout->count, &mixing);
  if (!code) code = MixAll(&mixing, plan, memory, most);
  FreeMixing(&mixing);
  RengaCall(code);
  return RENGA_SUCCESS;
}
