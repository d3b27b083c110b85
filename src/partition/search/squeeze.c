/* The layout that needs the least memory: stages with equal replicas, filled from the last one
   under a bisected bound, recomputing where they must. What is refused is refused by it, so that
   the memory and the devices that a refusal names do. */
#include "search.h"
#include <math.h>

enum { PROBES = 24 };

/* The first place of the longest stage that ends there; end where not even one place fits. */
static int ReachSqueezed(const SearchModel *model, const SearchCandidate *candidate, int end,
                         int depth)
{
  int low = 0, high = end;
  SearchCost cost;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (RengaSearchStageCost_Private(model, candidate, middle, end, depth, &cost))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

/* As many stages as memory asks for, or as are wanted: then each leaves a place to those before it.
   0: a single place does not fit, or there are too few of them. first: [stages] of places, from the
   last stage on; NULL: not asked for. */
static int FillSqueezed(const SearchModel *model, const SearchCandidate *candidate, int most,
                        int first[])
{
  int stages = 0;
  for (int end = model->count; end > 0 && stages < most;) {
    int begin = ReachSqueezed(model, candidate, end, stages + 1);
    if (model->stages && begin < model->stages - stages - 1) begin = model->stages - stages - 1;
    if (begin >= end) return 0;
    if (first) first[stages] = begin;
    end = begin;
    stages++;
    if (end == 0) return model->stages && stages != model->stages ? 0 : stages;
  }
  return 0;
}

static int MostSqueezedStages(const SearchModel *model, const SearchCandidate *candidate,
                              int devices)
{
  const int most = devices / candidate->devices;
  if (model->stages) return model->stages <= most ? model->stages : 0;
  return most < model->count ? most : model->count;
}

int RengaSearchDevicesNeeded_Private(const SearchModel *model)
{
  int fewest = 0;
  for (int o = 0; o < model->n_candidates; o++) {
    const SearchCandidate *candidate = &model->candidate[o];
    const int most = model->stages ? model->stages : model->count;
    const int stages = FillSqueezed(model, candidate, most, NULL),
              devices = stages * candidate->devices;
    if (stages && (!fewest || devices < fewest)) fewest = devices;
  }
  return fewest;
}

/* Under all that it takes on one device, unless more replicas take less than *bound. */
static bool BisectMemory(SearchModel *model, const SearchCandidate *candidate, int most,
                         double *bound)
{
  double low = 0, high = *bound;
  model->memory = high * (1 - 1e-6);
  if (!most || !FillSqueezed(model, candidate, most, NULL)) return false;
  for (int probe = 0; probe < PROBES && high - low > 1e-4 * high; probe++) {
    model->memory = low + (high - low) / 2;
    if (FillSqueezed(model, candidate, most, NULL))
      high = model->memory;
    else
      low = model->memory;
  }
  *bound = high;
  return true;
}

/* Powers of two are enough, as more replicas take less only where they have fewer micro-batches;
   unless they share gradients. */
static bool IsLooked(const SearchModel *model, const SearchCandidate *candidate, int ranks)
{
  const int replicas = candidate->shape.replicas;
  const bool shares = candidate->shape.shard >= RENGA_SHARD_GRADIENTS;
  return model->replicas || !(replicas & (replicas - 1)) || (shares && ranks % replicas == 0);
}

static RengaErrorCode TakeSqueezed(SearchModel *model, const SearchCandidate *candidate, int most,
                                   double bound, SearchLayout *layout)
{
  int *first = NULL;
  RengaCall(RengaMalloc(most, &first));
  model->memory = bound;
  layout->count = FillSqueezed(model, candidate, most, first);
  RengaErrorCode code = RengaMalloc(layout->count, &layout->stage);
  for (int s = 0; s < layout->count && !code; s++) {
    const int back = layout->count - 1 - s;
    layout->stage[s] = (SearchStage){.begin = first[back],
                                     .end = back ? first[back - 1] : model->count,
                                     .shape = candidate->shape};
  }
  RengaFree(&first);
  RengaCall(code);
  SearchModel alike = *model; /* devices of all kinds, as where it was found */
  alike.kinds = NULL;
  if (!RengaSearchEvaluate_Private(&alike, layout)) RengaSearchLayoutFree_Private(layout);
  return RENGA_SUCCESS;
}

/* Of one micro-batch and leaf: *allowed and the layout change where that takes less. */
static RengaErrorCode SqueezeRow(const SearchTask *task, const SearchChain *chain, int row,
                                 SearchLayout *layout, double *allowed)
{
  SearchModel model = {0};
  const SearchCandidate *best = NULL;
  RengaCall(RengaSearchModelOf_Private(task, chain, row, false, &model));
  for (int o = 0; o < model.n_candidates && model.count; o++) {
    const SearchCandidate *candidate = &model.candidate[o];
    const int most = MostSqueezedStages(&model, candidate, task->ranks);
    if (!IsLooked(&model, candidate, task->ranks)) continue;
    if (isinf(*allowed))
      *allowed = 2 * RengaSearchStageBytes_Private(&model, candidate, RENGA_SAVED_KEEP, 0,
                                                   model.count, model.count);
    if (BisectMemory(&model, candidate, most, allowed)) best = candidate;
  }
  RengaErrorCode code = RENGA_SUCCESS;
  if (best) {
    RengaSearchLayoutFree_Private(layout);
    code =
        TakeSqueezed(&model, best, MostSqueezedStages(&model, best, task->ranks), *allowed, layout);
  }
  RengaSearchModelFree_Private(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

int RengaSearchSmallestRow_Private(const SearchTask *task)
{
  int smallest = 0;
  for (int row = 1; row < task->n_sizes; row++)
    if (task->size[row] < task->size[smallest] ||
        (task->size[row] == task->size[smallest] && task->leaf[row] > task->leaf[smallest]))
      smallest = row;
  return smallest;
}

RengaErrorCode RengaSearchSqueeze_Private(const SearchTask *task, const SearchChain *chain,
                                          int devices, SearchLayout *layout, double *allowed)
{
  SearchTask wide = *task;
  const int64_t smallest = task->size[RengaSearchSmallestRow_Private(task)];
  const bool all = RengaSearchIsSmall_Private(task, chain); /* one micro-batch has one sum alone */
  wide.ranks = devices;
  *layout = (SearchLayout){0};
  *allowed = HUGE_VAL;
  for (int row = 0; row < task->n_sizes; row++)
    if (all || task->size[row] == smallest)
      RengaCall(SqueezeRow(&wide, chain, row, layout, allowed));
  return RENGA_SUCCESS;
}
