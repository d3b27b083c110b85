/* Stages that recompute, and keep what there is room for: beside what the runtime says that they
   take when they recompute all, a stage keeps what spares most seconds of the bytes that are left.

   Of what is made again there is one part at a time: the more of what crosses narrow places is
   kept in any case, the smaller are the parts. Those are taken, of one part, two, four and so on,
   with which the room that they leave spares most. What one part takes is known; the runtime is
   asked of what promises most by that, until nothing promises more.

   What a stage takes for what it keeps is known to the bytes of what is there at once, which
   shrinks with it; where that is too much, it keeps less, and where bytes are left, more. */
#include "kept.h"
#include <math.h>

enum { MIXED_ROUNDS = 4, MIXED_WAYS = 7, MIXED_TURNS = 3 }; /* ways: up to 64 parts */

/* Of the memory, where one tensor rank is asked for a group: others may need so little more. */
static const double mixed_spare = 0.002;
static const double mixed_left = 0.003; /* of the memory, that is not worth another look */

/* A stage in 1, 2, 4 and more parts. */
typedef struct {
  int count, best; /* best: that promises most; -1: none is left */
  int parts[MIXED_WAYS];
  SearchKept base[MIXED_WAYS];  /* what is kept in any case */
  bool asked[MIXED_WAYS];       /* the runtime, which says: */
  double bytes[MIXED_WAYS];     /* that it takes then, */
  double temporary[MIXED_WAYS]; /* of these those of what is there at once */
  double again[MIXED_WAYS];     /* seconds with what there is room for; HUGE_VAL: it does not fit */
} Ways;

typedef struct {
  const SearchTask *task;
  const SearchChain *chain;
  const SearchModel *model;
  SearchLayout *layout;
  const RengaProfileCost *costs;
  double memory, spare;    /* bytes of a device; of these not to be filled */
  int64_t *slots;          /* [stages] micro-batches in flight */
  double *room;            /* [stages] bytes for what is kept */
  SearchKept *base, *good; /* [stages] what it keeps in any case; the best that fits */
  Ways *ways;              /* [stages] */
} Mixing;

static bool Mixes(const SearchStage *stage)
{
  return stage->shape.saved == RENGA_SAVED_RECOMPUTE;
}

static RengaErrorCode ChooseAll(const Mixing *mixing)
{
  const SearchLayout *layout = mixing->layout;
  for (int s = 0; s < layout->count; s++)
    if (Mixes(&layout->stage[s]))
      RengaCall(RengaSearchChooseKept_Private(mixing->chain, mixing->costs, mixing->model,
                                              mixing->slots[s], mixing->room[s], &mixing->base[s],
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

/* Seconds of a micro-batch that the stage makes again. */
static double AgainOf(const Mixing *mixing, const SearchStage *stage)
{
  const double *forward = mixing->model->forward;
  return stage->kept.set ? stage->kept.again : forward[stage->end] - forward[stage->begin];
}

/* Some stage fits neither with parts nor without saved and temporary tensors. */
static bool IsHopeless(const Mixing *mixing, const RengaForecastMemory memory[])
{
  bool hopeless = false;
  for (int s = 0; s < mixing->layout->count; s++) {
    const int64_t rest = memory[s].total - memory[s].saved - memory[s].temporary;
    const bool mixes = Mixes(&mixing->layout->stage[s]);
    hopeless = hopeless || (double)(mixes ? rest : memory[s].total) > mixing->memory;
  }
  return hopeless;
}

/* All ways to cut the stage. */
static RengaErrorCode ListWays(const Mixing *mixing, int s, const RengaForecastMemory *memory)
{
  Ways *ways = &mixing->ways[s];
  SearchStage stage = mixing->layout->stage[s];
  *ways = (Ways){.count = 1, .best = -1, .parts = {1}, .asked = {true}};
  ways->bytes[0] = (double)memory->total;
  ways->temporary[0] = (double)memory->temporary;
  for (int w = 1; w < MIXED_WAYS; w++) {
    RengaCall(
        RengaSearchCutKept_Private(mixing->chain, mixing->costs, mixing->model, 1 << w, &stage));
    if (stage.kept.set == ways->base[ways->count - 1].set) continue; /* no narrow place */
    ways->parts[ways->count] = 1 << w;
    ways->base[ways->count++] = stage.kept;
  }
  return RENGA_SUCCESS;
}

/* Of a way that was not asked for: parts are alike, beside what they have in common by the finest
   that is known. */
static double BytesOfWay(const Mixing *mixing, int s, int w)
{
  const Ways *ways = &mixing->ways[s];
  int finest = 0;
  double common = 0;
  if (ways->asked[w]) return ways->bytes[w];
  for (int f = 1; f < ways->count; f++)
    if (ways->asked[f]) finest = f;
  if (finest) {
    const double parts = ways->parts[finest];
    common = fmax(0, (parts * ways->temporary[finest] - ways->temporary[0]) / (parts - 1));
  }
  return ways->bytes[0] - ways->temporary[0] + common +
         fmax(0, ways->temporary[0] - common) / ways->parts[w] +
         (double)mixing->slots[s] * ways->base[w].bytes;
}

/* The way that promises most; where none seems to fit, the one with the fewest bytes of those that
   were not asked for. -1: there is none. */
static RengaErrorCode FindWay(const Mixing *mixing, int s, int *best)
{
  Ways *ways = &mixing->ways[s];
  const SearchStage *stage = &mixing->layout->stage[s];
  double again = HUGE_VAL, least = HUGE_VAL;
  *best = -1;
  for (int w = 0; w < ways->count; w++) {
    const double bytes = BytesOfWay(mixing, s, w), left = mixing->memory - bytes;
    ways->again[w] = HUGE_VAL;
    if (left >= 0)
      RengaCall(RengaSearchAgainAbout_Private(mixing->chain, mixing->costs, mixing->model,
                                              mixing->slots[s], left, &ways->base[w], stage,
                                              &ways->again[w]));
    const bool fewer = isinf(again) && !ways->asked[w] && bytes < least;
    if (ways->again[w] < again || fewer) *best = w;
    again = fmin(again, ways->again[w]);
    if (fewer) least = bytes;
  }
  return RENGA_SUCCESS;
}

static bool HasFit(const Mixing *mixing, const Ways *ways)
{
  for (int w = 0; w < ways->count; w++)
    if (ways->asked[w] && ways->bytes[w] <= mixing->memory) return true;
  return false;
}

/* Ways that are to be asked for, late only of stages for which none fits. *any: there are some. */
static RengaErrorCode TakeWays(const Mixing *mixing, bool late, bool *any)
{
  *any = false;
  for (int s = 0; s < mixing->layout->count; s++) {
    Ways *ways = &mixing->ways[s];
    if (!Mixes(&mixing->layout->stage[s]) || (late && HasFit(mixing, ways))) continue;
    RengaCall(FindWay(mixing, s, &ways->best));
    *any = *any || (ways->best >= 0 && !ways->asked[ways->best]);
    mixing->layout->stage[s].kept = ways->base[ways->best >= 0 ? ways->best : 0];
  }
  return RENGA_SUCCESS;
}

static void HearOfWays(const Mixing *mixing, const RengaForecastMemory memory[])
{
  for (int s = 0; s < mixing->layout->count; s++) {
    Ways *ways = &mixing->ways[s];
    if (!Mixes(&mixing->layout->stage[s]) || ways->best < 0) continue;
    ways->asked[ways->best] = true;
    ways->bytes[ways->best] = (double)memory[s].total;
    ways->temporary[ways->best] = (double)memory[s].temporary;
  }
}

/* The best of those that were asked for; the one that takes least where none fits. */
static void SettleWay(const Mixing *mixing, int s, bool *over)
{
  const Ways *ways = &mixing->ways[s];
  int best = 0;
  for (int w = 1; w < ways->count; w++) {
    const bool fits = isfinite(ways->again[best]);
    if (ways->asked[w] &&
        (fits ? ways->again[w] < ways->again[best] : ways->bytes[w] < ways->bytes[best]))
      best = w;
  }
  mixing->base[s] = mixing->good[s] = ways->base[best];
  mixing->room[s] = fmax(0, mixing->memory - mixing->spare - ways->bytes[best]);
  *over = *over || ways->bytes[best] > mixing->memory;
}

/* The parts of each stage. *over: some stage does not fit in any. */
static RengaErrorCode FindPartsOfStages(const Mixing *mixing, RengaPlan *plan,
                                        RengaForecastMemory memory[], double *most, bool *over)
{
  bool any = true;
  for (int s = 0; s < mixing->layout->count; s++)
    if (Mixes(&mixing->layout->stage[s])) RengaCall(ListWays(mixing, s, &memory[s]));
  for (int turn = 0; turn < MIXED_WAYS; turn++) {
    RengaCall(TakeWays(mixing, turn >= MIXED_TURNS, &any));
    if (!any) break;
    RengaCall(PlanAgain(mixing, plan, memory, most));
    HearOfWays(mixing, memory);
  }
  RengaCall(TakeWays(mixing, false, &any)); /* what was heard last counts */
  *over = false;
  for (int s = 0; s < mixing->layout->count; s++)
    if (Mixes(&mixing->layout->stage[s])) SettleWay(mixing, s, over);
  return RENGA_SUCCESS;
}

/* Bytes that are left, or too many, change the room. *settled: all fit, and choose as before. */
static void TakeRoom(const Mixing *mixing, const RengaForecastMemory memory[], bool *settled)
{
  *settled = true;
  for (int s = 0; s < mixing->layout->count; s++) {
    const SearchStage *stage = &mixing->layout->stage[s];
    const SearchStage known = {.begin = stage->begin, .end = stage->end, .kept = mixing->good[s]};
    const double all = (double)memory[s].total, left = mixing->memory - mixing->spare - all;
    const bool full = left >= 0 && left <= mixed_left * mixing->memory;
    if (!Mixes(stage)) continue;
    const bool same = mixing->good[s].set == stage->kept.set;
    if (all <= mixing->memory && AgainOf(mixing, stage) < AgainOf(mixing, &known))
      mixing->good[s] = stage->kept;
    *settled = *settled && (same || full) && mixing->good[s].set == stage->kept.set;
    if (!full) mixing->room[s] = fmax(0, mixing->room[s] + left);
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
  bool over, settled = false;
  if (IsHopeless(mixing, memory)) return RENGA_SUCCESS;
  RengaCall(RengaSearchFindSlots_Private(mixing->task, mixing->model, mixing->layout, *plan,
                                         mixing->slots));
  RengaCall(FindPartsOfStages(mixing, plan, memory, most, &over));
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
    mixing->room[s] = mixing->memory - (double)(memory[s].total - memory[s].temporary) -
                      (temporary ? temporary[s] : 0);
  return RENGA_SUCCESS;
}

static Mixing MixingOf(const SearchTask *task, const SearchChain *chain, const SearchModel *model,
                       SearchLayout *layout)
{
  return (Mixing){.task = task,
                  .chain = chain,
                  .model = model,
                  .layout = layout,
                  .memory = task->memory,
                  .spare = task->run.fullest ? mixed_spare * task->memory : 0,
                  .costs = task->costs[RengaSearchRowOf_Private(task, layout)]};
}

static RengaErrorCode AllocateMixing(int count, Mixing *mixing)
{
  RengaCall(RengaMalloc(count, &mixing->slots));
  RengaCall(RengaMalloc(count, &mixing->room));
  RengaCall(RengaMalloc(count, &mixing->base));
  RengaCall(RengaMalloc(count, &mixing->good));
  RengaCall(RengaMalloc(count, &mixing->ways));
  return RENGA_SUCCESS;
}

static void FreeMixing(Mixing *mixing)
{
  RengaFree(&mixing->slots);
  RengaFree(&mixing->room);
  RengaFree(&mixing->base);
  RengaFree(&mixing->good);
  RengaFree(&mixing->ways);
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
  Mixing mixing = MixingOf(task, chain, model, layout);
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
  Mixing mixing = MixingOf(task, chain, model, layout);
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
