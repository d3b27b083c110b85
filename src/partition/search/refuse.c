/* Nothing fits: with how much memory it would, or by estimate on how many devices. */
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

/* As text that is rounded to three digits, but never down. */
static void NameEnough(double enough, size_t size, char text[])
{
  char bytes[32];
  RengaFormatBytes(1.005 * enough, sizeof bytes, bytes);
  if (enough > 0)
    snprintf(text, size, "%s per device would do for a plan that was found", bytes);
  else
    snprintf(text, size, "no plan was found for devices of any memory");
}

RengaErrorCode RengaSearchRefuse_Private(const SearchTask *task, const SearchChain *chain,
                                         double ratio, double enough)
{
  SearchModel model = {0};
  char bound[32], memory[96], devices[96];
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
  RengaSearchModelFree_Private(&model);
  RengaFormatBytes(task->memory, sizeof bound, bound);
  NameEnough(enough, sizeof memory, memory);
  if (needed > task->ranks)
    snprintf(devices, sizeof devices, "%d devices with this memory would do (estimated)", needed);
  else
    snprintf(devices, sizeof devices, "%s",
             needed ? "more devices with this memory may do"
                    : "no number of devices with this memory would do (estimated)");
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "the network does not fit on %d devices of %s each in micro-batches of %lld samples: "
             "%s, and %s",
             task->ranks, bound, (long long)task->size[last], memory, devices);
}
