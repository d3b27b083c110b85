/* Nothing fits: with how much memory, or on how many devices, it would. Both are of plans that were
   made, with what the runtime says that they need. */
#include "kinds.h"
#include "parts.h"
#include "solution.h"
#include <math.h>

/* Bytes of a device of the plan that needs the least; 0: there is none. */
static RengaErrorCode FindNeed(const SearchTask *task, const SearchChain *chain, int devices,
                               double *need)
{
  SearchTask tight = *task;
  SearchLayout layout;
  SearchModel model = {0};
  RengaPlan plan = NULL;
  RengaForecastMemory *memory = NULL;
  *need = 0;
  tight.ranks = devices;
  tight.run.fullest = false;
  RengaCall(RengaSearchSqueeze_Private(task, chain, devices, &layout, &tight.memory));
  if (!layout.count) return RENGA_SUCCESS;
  RengaErrorCode code = RengaSearchModelFor_Private(&tight, chain, &layout, &model);
  if (!code) code = RengaSearchPlan_Private(&tight, chain, &layout, &plan);
  if (!code) code = RengaMalloc(layout.count, &memory);
  if (!code) code = RengaSearchMemory_Private(&tight, &model, &layout, plan, memory, need);
  RengaFree(&memory);
  if (plan) RengaPlanDestroy(&plan);
  RengaSearchModelFree_Private(&model);
  RengaSearchLayoutFree_Private(&layout);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Bytes of a device of what a type that only cuts makes, where memory does not matter. */
static RengaErrorCode FindOwnNeed(const SearchTask *task, const SearchChain *chain, double *need)
{
  SearchTask free = *task;
  Solution own = {.task = &free, .chain = chain};
  free.memory = 0;
  free.run.fullest = false;
  free.n_sizes = free.n_first;
  *need = 0;
  RengaErrorCode code = RengaSearchBest_Private(&free, chain, &own.layout, &own.proved);
  if (!code && own.layout.count) {
    code = RengaSolutionWeigh_Private(&free, &own);
    *need = own.most;
  }
  RengaSolutionFree_Private(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Where to begin: the fewest by estimate. */
static RengaErrorCode EstimateDevices(const SearchTask *task, const SearchChain *chain,
                                      int *devices)
{
  SearchModel model = {0};
  RengaCall(
      RengaSearchModelOf_Private(task, chain, RengaSearchSmallestRow_Private(task), false, &model));
  *devices = RengaSearchDevicesNeeded_Private(&model);
  if (*devices <= task->ranks) *devices = task->ranks + 1;
  RengaSearchModelFree_Private(&model);
  return RENGA_SUCCESS;
}

/* About the fewest devices that a plan fits on, a sixteenth more at the most; 0: none was found, or
   they are groups, of which it is not asked. More than nodes are of no use to one replica of each
   stage, and more replicas take no less. */
static RengaErrorCode FindDevices(const SearchTask *task, const SearchChain *chain, int *devices)
{
  const int most = chain->count > 2 * task->ranks ? chain->count : 2 * task->ranks;
  int low = task->ranks, high = 0;
  bool fits = false;
  *devices = 0;
  if (task->unit > 1) return RENGA_SUCCESS;
  RengaCall(EstimateDevices(task, chain, &high));
  for (; !fits && low < most; high *= fits ? 1 : 2) {
    double need = 0;
    if (high > most) high = most;
    RengaCall(FindNeed(task, chain, high, &need));
    fits = need > 0 && need <= task->memory;
    if (!fits) low = high;
  }
  if (!fits) return RENGA_SUCCESS;
  while (high - low > 1 + low / 16) {
    const int middle = low + (high - low) / 2;
    double need = 0;
    RengaCall(FindNeed(task, chain, middle, &need));
    if (need > 0 && need <= task->memory)
      high = middle;
    else
      low = middle;
  }
  *devices = high;
  return RENGA_SUCCESS;
}

/* As text that is rounded to three digits, but never down. */
static void NameEnough(double enough, size_t size, char text[])
{
  char bytes[32];
  RengaFormatBytes(1.005 * enough, sizeof bytes, bytes);
  if (enough > 0)
    snprintf(text, size, "%s per device would do", bytes);
  else
    snprintf(text, size, "no plan was found for devices of any memory");
}

/* A type that only cuts: what its own cuts need, and whether others would fit. */
static RengaErrorCode RefuseCuts(const SearchTask *task, const SearchChain *chain)
{
  char bound[32], memory[96], other[32];
  double own = 0, least = 0;
  RengaCall(FindOwnNeed(task, chain, &own));
  RengaCall(FindNeed(task, chain, task->ranks, &least));
  RengaFormatBytes(task->memory, sizeof bound, bound);
  NameEnough(own, sizeof memory, memory);
  RengaFormatBytes(1.005 * least, sizeof other, other);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "as this type cuts it the network does not fit on %d device%s of %s each in "
             "micro-batches of %lld sample%s: %s; type auto needs %s",
             task->ranks, task->ranks == 1 ? "" : "s", bound, (long long)task->size[0],
             task->size[0] == 1 ? "" : "s", memory, least > 0 ? other : "more too");
}

static RengaErrorCode RefuseLayout(const SearchTask *task, const SearchChain *chain)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_PLAN,
             "no layout of %d stages and %d replicas (0: any) on %d %sranks has work for each: the "
             "network has %d nodes that depend on parameters, the step %lld micro-batches",
             task->wanted.stages, task->wanted.replicas, task->ranks,
             task->unit > 1 ? "groups of " : "", chain->count,
             (long long)((task->batch + task->size[0] - 1) / task->size[0]));
}

/* What is less than what is known; 0: there is none. */
static void TakeLess(double need, int devices, double *least, int *fewest)
{
  if (need > 0 && (*least <= 0 || need < *least)) *least = need;
  if (devices && (!*fewest || devices < *fewest)) *fewest = devices;
}

/* Of either task, with each level of the other, of which estimates do not say which needs less. */
static RengaErrorCode FindLeastNeed(const SearchTask *task, const SearchTask *other,
                                    const SearchChain *chain, double *least, int *fewest)
{
  RengaCall(FindNeed(task, chain, task->ranks, least));
  RengaCall(FindDevices(task, chain, fewest));
  for (int level = RENGA_SHARD_GRADIENTS; other && level <= RENGA_SHARD_PARAMETERS; level++) {
    SearchTask own = *other;
    double need = 0;
    int devices = 0;
    own.shards = (SearchShards){.least = (RengaShard)level, .most = (RengaShard)level};
    RengaCall(FindNeed(&own, chain, own.ranks, &need));
    RengaCall(FindDevices(&own, chain, &devices));
    TakeLess(need, devices, least, fewest);
  }
  return RENGA_SUCCESS;
}

/* Sizes of micro-batches that were squeezed. */
static void NameSizes(const SearchTask *task, const SearchChain *chain, size_t size, char text[])
{
  const int64_t least = task->size[RengaSearchSmallestRow_Private(task)];
  int64_t most = least;
  for (int r = 0; r < task->n_sizes && RengaSearchIsSmall_Private(task, chain); r++)
    if (task->size[r] > most) most = task->size[r];
  if (most > least)
    snprintf(text, size, "%lld to %lld samples", (long long)least, (long long)most);
  else
    snprintf(text, size, "%lld sample%s", (long long)least, least == 1 ? "" : "s");
}

/* Each kind has its own memory, of which the same is missing in all. */
static RengaErrorCode RefuseKinds(const SearchTask *task, double enough)
{
  char kinds[SEARCH_KINDS_MOST * 80], bytes[32];
  RengaSearchNameKinds_Private(task->kinds, ~0u, sizeof kinds, kinds);
  RengaFormatBytes(1.005 * enough - task->memory, sizeof bytes, bytes);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "the network does not fit on %d devices, of %s each: %s%s",
             task->ranks * (task->unit > 1 ? task->unit : 1), kinds,
             enough > task->memory ? bytes : "no plan was found for devices of any memory",
             enough > task->memory ? " more on each of them would do" : "");
}

RengaErrorCode RengaSearchRefuse_Private(const SearchTask *task, const SearchTask *other,
                                         const SearchChain *chain)
{
  char bound[32], memory[96], devices[96] = "", group[64] = "", sizes[64];
  const int unit = task->unit > 1 ? task->unit : 1, ranks = task->ranks * unit;
  double enough = 0;
  int needed = 0;
  if (unit > 1)
    snprintf(group, sizeof group, " with %d %s ranks for each replica", unit,
             RengaSearchKindOfRanks_Private(task));
  if (task->memory <= 0) RengaCall(RefuseLayout(task, chain));
  if (task->finder.find) RengaCall(RefuseCuts(task, chain));
  RengaCall(FindLeastNeed(task, other, chain, &enough, &needed));
  RengaFormatBytes(task->memory, sizeof bound, bound);
  NameEnough(enough, sizeof memory, memory);
  if (task->kinds) RengaCall(RefuseKinds(task, enough));
  NameSizes(task, chain, sizeof sizes, sizes);
  if (needed)
    snprintf(devices, sizeof devices, ", and %d devices with this memory would do", needed);
  else if (unit == 1)
    snprintf(devices, sizeof devices,
             ", and no number of devices with this memory was found to do");
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "the network does not fit on %d device%s of %s each%s in micro-batches of %s: %s%s",
             ranks, ranks == 1 ? "" : "s", bound, group, sizes, memory, devices);
}
