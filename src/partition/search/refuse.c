/* Nothing fits: with how much memory, or on how many devices, it would. */
#include "search.h"
#include <math.h>

/* Stages that hold the chain, each as long as memory allows, from the last to the first; 0: a
   single node does not fit. */
static int StagesNeeded(const SearchModel *model, const SearchOption *option)
{
  int stages = 0;
  for (int end = model->count; end > 0;) {
    int low = 0, high = end;
    SearchCost cost;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (RengaSearchStageCost_Private(model, option, middle, end, stages + 1, &cost))
        high = middle;
      else
        low = middle + 1;
    }
    if (high >= end) return 0;
    end = high;
    stages++;
  }
  return stages;
}

int RengaSearchDevicesNeeded_Private(const SearchModel *model)
{
  int fewest = 0;
  for (int o = 0; o < model->n_options; o++) {
    const int stages = StagesNeeded(model, &model->option[o]);
    const int devices = stages * model->option[o].replicas;
    if (!stages || (model->stages && stages > model->stages)) continue;
    if (!fewest || devices < fewest) fewest = devices;
  }
  return fewest;
}

/* Bytes per device with which the devices that there are do. */
static double MemoryNeeded(SearchModel *model)
{
  double low = model->memory, high = 2 * model->memory;
  for (int fits = 0; fits == 0 || fits > model->devices;) {
    model->memory = high;
    fits = RengaSearchDevicesNeeded_Private(model);
    if (fits == 0 || fits > model->devices) low = high, high *= 2;
  }
  for (int probe = 0; probe < 40 && high - low > 1e-4 * high; probe++) {
    model->memory = low + (high - low) / 2;
    const int fits = RengaSearchDevicesNeeded_Private(model);
    if (fits && fits <= model->devices)
      high = model->memory;
    else
      low = model->memory;
  }
  return high;
}

RengaErrorCode RengaSearchRefuse_Private(const SearchTask *task, const SearchChain *chain,
                                         double ratio)
{
  SearchModel model = {0};
  char bound[32], memory[32], devices[96];
  const int last = task->n_sizes - 1;
  if (task->memory <= 0)
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_PLAN,
               "no layout of %d stages and %d replicas (0: any) on %d ranks has work for each: the "
               "network has %d nodes that depend on parameters, the step %lld micro-batches",
               task->stages, task->replicas, task->ranks, chain->count,
               (long long)((task->batch + task->size[0] - 1) / task->size[0]));
  RengaCall(RengaSearchModelOf_Private(task, chain, last, false, &model));
  const double more = ratio > 1 ? ratio : 1;
  model.memory /= more;
  const int needed = RengaSearchDevicesNeeded_Private(&model);
  const double bytes = model.n_options ? more * MemoryNeeded(&model) : 0;
  RengaSearchModelFree_Private(&model);
  RengaFormatBytes(task->memory, sizeof bound, bound);
  RengaFormatBytes(bytes, sizeof memory, memory);
  snprintf(devices, sizeof devices, "no number of devices with this memory would do");
  if (needed > task->ranks)
    snprintf(devices, sizeof devices, "%d devices with this memory would do", needed);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "the network does not fit on %d devices of %s each in micro-batches of %lld samples: "
             "%s per device would do (estimated), and %s",
             task->ranks, bound, (long long)task->size[last], memory, devices);
}
