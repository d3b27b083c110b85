/* TEST ranks: 1 */
/* The search finds what trying every layout finds, and its bound is below what layouts that fit
   take when they are simulated with their schedule's lists; random models with and without memory
   bounds, messages, reductions, recomputation, tied parameters. */
#include "../../../src/partition/search/search.h"
#include "../../plan/plantest.h"
#include "rengaschedule.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>

enum {
  CASES = 2000,
  PLACES_MOST = 8,
  DEVICES_MOST = 4,
  SIMULATED = 60,
  SIMULATED_STEP = 7,
  WIDE_EVERY = 5
};

/* Each array of the model is a sum in front of each place. */
static void FillSums(double sums[], int count, double most, double zeros)
{
  sums[0] = 0;
  for (int c = 0; c < count; c++) sums[c + 1] = sums[c] + (Random() < zeros ? 0 : most * Random());
}

static void SetLinks(SearchModel *model, double slow)
{
  for (int o = 0; o < model->n_candidates; o++) {
    SearchCandidate *candidate = &model->candidate[o];
    const double share = (candidate->shape.replicas - 1.0) / candidate->shape.replicas;
    candidate->message_latency = 0.01 * slow;
    candidate->message_rate = 0.002 * slow * (1 + 0.1 * candidate->shape.replicas);
    candidate->reduce_latency = 0.02 * slow * (candidate->shape.replicas - 1);
    candidate->reduce_rate = 0.004 * slow * 2 * share;
  }
}

static void FillModel(SearchModel *model, SearchTie *tie)
{
  const int count = 1 + RandomBelow(PLACES_MOST);
  *model =
      (SearchModel){.microbatches = 1 + RandomBelow(9), .devices = 1 + RandomBelow(DEVICES_MOST)};
  model->leaf = 1 + RandomBelow(4) * RandomBelow(2);
  RengaCallAbort(RengaSearchModelAllocate_Private(count, model));
  FillSums(model->forward, count, 1, 0.2);
  FillSums(model->backward, count, 2, 0.2);
  FillSums(model->elements, count, 50, 0.5);
  FillSums(model->states, count, 5, 0.8);
  FillSums(model->saved, count, 200, 0.1);
  FillSums(model->inputs, count, 50, 0.8);
  for (int c = 1; c < count; c++) {
    model->cut[c] = 200 * Random();
    model->unsaved[c] = Random() < 0.7 ? 0 : model->cut[c] * Random();
  }
  for (int c = 0; c < count; c++) model->temporary[c] = 300 * Random();
  RengaSearchModelFinish_Private(model);
  for (int c = 0; c < count; c++) model->paths.lead[c] = model->forward[c] + model->backward[c];
  for (int c = 0; c <= count; c++) {
    model->paths.tail[c] =
        model->forward[count] + model->backward[count] - model->forward[c] - model->backward[c];
    model->read[c] = model->saved[c];
    model->fields[c] = model->inputs[c];
  }
  for (int c = 1; c < count; c++) model->received[c] = 0.5 * model->cut[c];
  model->paths.longest = model->forward[count] + model->backward[count];
  if (count > 2 && Random() < 0.3) {
    const int before = RandomBelow(count - 1), after = before + 1 + RandomBelow(count - before - 1);
    *tie = (SearchTie){before, after,
                       fmin(model->elements[before + 1] - model->elements[before],
                            model->elements[after + 1] - model->elements[after])};
    model->n_ties = 1;
    model->tie = tie;
  }
  model->schedule.gpipe = Random() < 0.2;
  model->unequal = Random() < 0.7;
  RengaSearchSetPolicies_Private(Random() < 0.5, model);
  model->moments = RandomBelow(3);
  model->update_rate = Random() < 0.5 ? 0 : 0.003 * Random();
  model->accumulate_rate = Random() < 0.5 ? 0 : 0.003 * Random();
  if (Random() < 0.15) model->stages = 1 + RandomBelow(3);
  if (Random() < 0.15) model->replicas = 1 + RandomBelow(2);
}

/* A step of the layout by the lists of its schedule, with messages between neighbours. */
static double Simulate(RengaSchedule schedule, const SearchModel *model, const SearchLayout *layout)
{
  RengaMessage message[2 * DEVICES_MOST];
  double forward[DEVICES_MOST], backward[DEVICES_MOST], seconds[2 * DEVICES_MOST], pipeline, bubble;
  int replicas[DEVICES_MOST], n = 0;
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    const SearchCost cost = RengaSearchCostOf_Private(model, stage, layout->count - s);
    forward[s] = cost.forward;
    backward[s] = cost.backward - cost.again;
    replicas[s] = stage->shape.replicas;
    for (int back = 0; back < 2 && s + 1 < layout->count; back++, n++) {
      message[n] = (RengaMessage){
          .value = "x", .from = s + back, .to = s + !back, .backward = back, .bytes = 1};
      seconds[n] = cost.delay;
    }
  }
  RengaCallAbort(RengaScheduleSetType(schedule, model->schedule.gpipe ? RENGA_SCHEDULE_GPIPE
                                                                      : RENGA_SCHEDULE_1F1B));
  RengaCallAbort(RengaScheduleSetShape(schedule, layout->count, replicas, model->microbatches, n,
                                       message, false));
  for (int s = 0; s < layout->count; s++)
    RengaCallAbort(RengaScheduleSetRecompute(
        schedule, s, layout->stage[s].shape.saved == RENGA_SAVED_RECOMPUTE));
  RengaCallAbort(RengaScheduleSetLeaf(schedule, model->leaf));
  RengaCallAbort(RengaScheduleSetUp(schedule));
  RengaCallAbort(RengaScheduleSimulate(schedule, forward, backward, seconds, &pipeline, &bubble));
  return pipeline + layout->reduce + layout->update;
}

/* Some of the layouts are simulated: at most so many of a case, far apart. */
typedef struct {
  RengaSchedule schedule;
  int tried, simulated, faster; /* than the model says */
  double least;
} Simulated;

/* With as many micro-batches in flight as the schedule has at the least: as stages behind, more
   where those have more replicas. */
static bool FitsInFlight(const SearchModel *model, const SearchLayout *layout)
{
  int behind = 0;
  for (int s = layout->count - 1; s >= 0 && model->memory > 0; s--) {
    const SearchStage *stage = &layout->stage[s];
    const int depth = 1 + (behind + stage->shape.replicas - 1) / stage->shape.replicas;
    if (RengaSearchCostOf_Private(model, stage, depth).memory > model->memory) return false;
    behind += stage->shape.replicas;
  }
  return true;
}

static void TrySimulation(const SearchModel *model, const SearchLayout *layout,
                          Simulated *simulated)
{
  if (!FitsInFlight(model, layout)) return;
  if (simulated->tried++ % SIMULATED_STEP || simulated->simulated == SIMULATED) return;
  const double step = Simulate(simulated->schedule, model, layout);
  simulated->simulated++;
  simulated->faster += step < layout->step * (1 - 1e-9);
  simulated->least = fmin(simulated->least, step);
}

/* All layouts that begin with those stages. */
static void TryAll(const SearchModel *model, SearchLayout *layout, Simulated *simulated,
                   double *least)
{
  const int begin = layout->count ? layout->stage[layout->count - 1].end : 0;
  if (begin == model->count) {
    if (model->stages && layout->count != model->stages) return;
    if (!RengaSearchEvaluate_Private(model, layout)) return;
    *least = fmin(*least, layout->step);
    TrySimulation(model, layout, simulated);
    return;
  }
  if (layout->count == DEVICES_MOST) return;
  const int left = model->devices - RengaSearchDevices_Private(layout);
  for (int end = begin + 1; end <= model->count; end++)
    for (int o = 0; o < model->n_candidates && model->candidate[o].devices <= left; o++) {
      if (!model->unequal && layout->count &&
          model->candidate[o].shape.replicas != layout->stage[0].shape.replicas)
        continue;
      layout->stage[layout->count++] =
          (SearchStage){.begin = begin, .end = end, .shape = model->candidate[o].shape};
      TryAll(model, layout, simulated, least);
      layout->count--;
    }
}

/* The model's own list, or in some cases more shapes: two tensor ranks, which only take devices,
   and bf16. */
static void ListCandidates(bool wide, SearchModel *model)
{
  RengaCallAbort(RengaSearchModelCandidates_Private(NULL, false, model));
  if (!wide) return;
  const int64_t leaves = (model->microbatches + model->leaf - 1) / model->leaf;
  model->n_candidates = 0;
  for (int devices = 1; devices <= model->devices; devices++)
    for (int kind = 0; kind < 4; kind++) {
      const int tensor = 1 + kind / 2;
      RengaStageShape shape = RengaStageShapePlain(devices / tensor);
      shape.tensor = tensor;
      shape.precision = kind % 2 ? RENGA_PRECISION_BF16 : RENGA_PRECISION_FP32;
      if (devices % tensor || shape.replicas > leaves) continue;
      if (!model->replicas || model->replicas == shape.replicas)
        RengaCallAbort(RengaSearchAddCandidate_Private(model, &shape));
    }
}

/* Every shape, also those that others dominate. */
static void AllCandidates(const SearchModel *model, bool wide, SearchModel *all)
{
  *all = *model;
  all->candidate = NULL;
  all->listing.every = true;
  ListCandidates(wide, all);
}

static double LeastBytes(const SearchModel *model)
{
  return RengaSearchStageBytes_Private(model, &model->candidate[0], RENGA_SAVED_KEEP, 0,
                                       model->count, 1);
}

static void CheckCase(int number, RengaSchedule schedule, int *found, int *refused, int *faster)
{
  SearchModel model, all;
  SearchTie tie;
  SearchStage stages[DEVICES_MOST];
  SearchLayout any = {.stage = stages}, best = {0}, quick = {0};
  double least = HUGE_VAL, one = HUGE_VAL, more = HUGE_VAL;
  Simulated simulated = {.schedule = schedule, .least = HUGE_VAL};
  bool proved = false;
  const double slow = Random() < 0.3 ? 0 : 10 * Random();
  FillModel(&model, &tie);
  const bool wide = number % WIDE_EVERY == 0;
  ListCandidates(wide, &model);
  SetLinks(&model, slow);
  if (model.n_candidates && Random() < 0.6)
    model.memory = LeastBytes(&model) * (0.3 + 0.9 * Random());
  AllCandidates(&model, wide, &all);
  SetLinks(&all, slow);
  TryAll(&all, &any, &simulated, &least);
  if (model.n_candidates) {
    RengaCallAbort(RengaSearchEqual_Private(&model, &quick));
    if (model.unequal) RengaCallAbort(RengaSearchCover_Private(&model, &quick));
    RengaCallAbort(RengaSearchLabels_Private(&model, 0, 0, &best, &proved));
    one = more = HUGE_VAL;
    RengaCallAbort(RengaSearchBound_Private(&model, 1, &one));
    RengaCallAbort(RengaSearchBound_Private(&model, 2, &more));
    TestTrue(proved);
  }
  const double step = best.count ? best.step : HUGE_VAL;
  if (!(step == least || fabs(step - least) <= 1e-9 * least) || one > more ||
      one > simulated.least * (1 + 1e-9) || (quick.count && quick.step < least * (1 - 1e-9))) {
    fprintf(stderr, "case %d: all %.17g simulated %g labels %.17g quick %.17g bounds %g %g\n",
            number, least, simulated.least, step, quick.count ? quick.step : HUGE_VAL, one, more);
    TestTrue(false);
  }
  *found += best.count > 0 && quick.count > 0 && quick.step <= least * (1 + 1e-9);
  *refused += best.count == 0;
  *faster += simulated.faster;
  RengaSearchLayoutFree_Private(&best);
  RengaSearchLayoutFree_Private(&quick);
  RengaFree(&all.candidate);
  RengaSearchModelFree_Private(&model);
}

int main(int argc, char **argv)
{
  int found = 0, refused = 0, faster = 0;
  RengaComm comm;
  RengaSchedule schedule;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_SELF, &comm));
  RengaCallAbort(RengaScheduleCreate(comm, &schedule));
  for (int i = 0; i < CASES; i++) CheckCase(i, schedule, &found, &refused, &faster);
  RengaCallAbort(RengaScheduleDestroy(&schedule));
  RengaCallAbort(RengaCommDestroy(&comm));
  if (getenv("TEST_VERBOSE"))
    printf("%d quick, %d refused of %d; %d simulated faster\n", found, refused, CASES, faster);
  TestTrue(found > CASES / 2);
  TestTrue(refused > CASES / 100);
  TestTrue(faster > 0); /* so that the bound of the simulation is one of its own */
  RengaCallAbort(RengaFinalize());
  return 0;
}
