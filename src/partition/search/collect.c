/* From a partition to the search's task and from its answer to a plan, on all ranks: costs are
   found together, rank 0 plans, all get the answer. */
#include "../partitionimpl.h"
#include "renga/private/cost.h"
#include "renga/private/optimizer.h"
#include "renga/private/plan.h"
#include "renga/private/settings.h"
#include "rengacomm.h"
#include "rengaschedule.h"
#include "kept.h"
#include "kinds.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
  SIZES_MOST = 64,
  ROWS_MOST = 512,
  LEAF_MOST = 64,
  MICROBATCHES_PER_DEVICE = 4, /* where sizes are not searched */
  NODES_OF_ONE_SIZE = 100000   /* times devices, with more of which they are not at first */
};
static const int64_t larger_leaves[] = {4, 16, 64};

/* Everything that is found together. */
typedef struct {
  PartitionCosts from;
  int n_rows, n_first; /* sizes of micro-batches, each with a leaf */
  int64_t size[ROWS_MOST], leaf[ROWS_MOST];
  RengaProfileCost *costs[ROWS_MOST]; /* rows of the same size have the same */
  int64_t *short_batch;
  struct SearchKinds *kinds;
} Collected;

/* Numbers without repetition. */
typedef struct {
  int count;
  int64_t row[SIZES_MOST];
} SizeList;

static void AddSize(SizeList *numbers, int64_t number)
{
  for (int i = 0; i < numbers->count; i++)
    if (numbers->row[i] == number) return;
  if (numbers->count < SIZES_MOST) numbers->row[numbers->count++] = number;
}

static RengaErrorCode ReadSizeList(RengaPartition partition, const char *option, const char *text,
                                   int64_t most, const char *what, SizeList *numbers)
{
  for (const char *at = text; *at;) {
    char *end;
    const long long number = strtoll(at, &end, 10);
    RengaCheck(end != at && (*end == ',' || !*end) && number >= 1 && number <= most,
               partition->hdr.comm, RENGA_ERR_OPTION, "-%s %s: write %s, from 1 to %lld: 1,2,4",
               option, text, what, (long long)most);
    AddSize(numbers, number);
    at = end + (*end == ',');
  }
  RengaCheck(numbers->count > 0, partition->hdr.comm, RENGA_ERR_OPTION, "-%s is empty", option);
  return RENGA_SUCCESS;
}

/* What the sizes are chosen for. */
typedef struct {
  int64_t batch, microbatch; /* usual, if nobody says another */
  bool large, measured;
  int ranks;    /* or groups of tensor ranks */
  bool several; /* devices */
  double saved; /* bytes that a sample leaves for backward, about */
  double memory;
  int64_t values; /* of a sample, in a statistic over the micro-batch; 0: results depend on none */
} Choice;

/* Costs of each size would be measured: of a few alone. One of them has a micro-batch for each of
   several devices, or groups of them, if every one has a replica: fewer are no faster with one
   stage. It may be large, and is measured on one device as all are: not where its saved tensors
   have no room there. */
static void ListMeasured(const Choice *choice, SizeList *first)
{
  const int64_t each = (choice->batch + choice->ranks - 1) / choice->ranks;
  const bool fits = choice->memory <= 0 || choice->saved * (double)each <= choice->memory;
  if (choice->several && each > choice->microbatch && fits) AddSize(first, each);
  for (int parts = 1; parts <= 4; parts *= 2)
    AddSize(first, (choice->microbatch + parts - 1) / parts);
}

/* Each statistic is of two values or more. */
static bool HasStatistics(const Choice *choice, int64_t size)
{
  const int64_t rest = choice->batch % size ? choice->batch % size : size;
  return !choice->values || rest * choice->values > 1;
}

/* All powers of two, and halves between, that the batch has. */
static void ListAllSizes(const Choice *choice, SizeList *first)
{
  AddSize(first, choice->microbatch);
  for (int64_t size = 1; size <= choice->batch; size *= 2) {
    if ((choice->batch + size - 1) / size > RENGA_MICROBATCHES_MANY || !HasStatistics(choice, size))
      continue;
    AddSize(first, size);
    if (size + size / 2 <= choice->batch) AddSize(first, size + size / 2);
  }
}

/* One size: the usual, or a smaller one that keeps all devices busy. */
static void ListForMany(const Choice *choice, SizeList *first, SizeList *more)
{
  int64_t size = choice->batch / ((int64_t)MICROBATCHES_PER_DEVICE * choice->ranks);
  if (size > choice->microbatch) size = choice->microbatch;
  if (size < 1) size = 1;
  AddSize(first, size);
  while (size > 1) AddSize(more, size = (size + 1) / 2);
}

/* The whole batch, or what a replica has of it; less only where that does not fit. */
static void ListForStatistics(const Choice *choice, SizeList *first, SizeList *more)
{
  int64_t size = choice->microbatch;
  const bool bounded = choice->measured && choice->memory > 0;
  while (bounded && size > 1 && choice->saved * (double)size > choice->memory)
    size = (size + 1) / 2;
  AddSize(first, size);
  if (bounded && 2 * choice->saved * (double)size <= choice->memory) return;
  for (; size > 1; AddSize(more, size)) {
    size = (size + 1) / 2;
    if (!HasStatistics(choice, size)) return;
  }
}

/* The size decides the bits of the results: the plan says what fixes it. */
static RengaErrorCode ListMicrobatchSizes(RengaPartition partition, const char *sizes,
                                          const Choice *choice, SizeList *first, SizeList *more)
{
  const bool all = sizes && !strcmp(sizes, "auto");
  if (partition->microbatch) {
    AddSize(first, choice->microbatch);
  } else if (sizes && !strcmp(sizes, "default")) {
    AddSize(first, choice->microbatch);
    for (int64_t size = choice->microbatch; size > 1;) AddSize(more, size = (size + 1) / 2);
  } else if (sizes && !all) {
    RengaCall(ReadSizeList(partition, "partition_microbatch_sizes", sizes, choice->batch,
                           "default, auto, or samples of a micro-batch", first));
  } else if (choice->values && !all) {
    ListForStatistics(choice, first, more);
  } else if (choice->large && !all) {
    ListForMany(choice, first, more);
  } else if (choice->measured && !all) {
    ListMeasured(choice, first);
    for (int64_t size = first->row[first->count - 1]; size > 1;)
      AddSize(more, size = (size + 1) / 2);
  } else {
    ListAllSizes(choice, first);
  }
  return RENGA_SUCCESS;
}

/* So does the leaf. */
static RengaErrorCode ListLeaves(RengaPartition partition, int64_t microbatches, bool large,
                                 SizeList *first, SizeList *more)
{
  const char *leaves = partition->leaves;
  const bool all = leaves && !strcmp(leaves, "auto");
  if (partition->leaf) {
    AddSize(first, partition->leaf);
  } else if (leaves && !all) {
    RengaCall(ReadSizeList(partition, "partition_leaf", leaves, microbatches,
                           "auto, or numbers of micro-batches", first));
  } else if (large && !all) {
    AddSize(first, 1);
    for (size_t i = 0; i < sizeof larger_leaves / sizeof larger_leaves[0]; i++)
      if (larger_leaves[i] <= microbatches) AddSize(more, larger_leaves[i]);
  } else {
    AddSize(first, 1);
    for (int64_t leaf = 4; leaf <= LEAF_MOST && leaf <= microbatches; leaf *= 2) {
      AddSize(first, leaf);
      if (leaf + leaf / 2 <= microbatches) AddSize(first, leaf + leaf / 2);
    }
  }
  return RENGA_SUCCESS;
}

/* A leaf has no more micro-batches than there are, unless there is no other. */
static void AddSizeRows(int64_t batch, const SizeList *sizes, const SizeList *leaves,
                        Collected *collected)
{
  for (int s = 0; s < sizes->count; s++)
    for (int l = 0; l < leaves->count && collected->n_rows < ROWS_MOST; l++) {
      if (l > 0 && leaves->row[l] > (batch + sizes->row[s] - 1) / sizes->row[s]) continue;
      collected->size[collected->n_rows] = sizes->row[s];
      collected->leaf[collected->n_rows++] = leaves->row[l];
    }
}

static RengaErrorCode CheckMicrobatchSizes(RengaPartition partition, int64_t batch,
                                           const SizeList *sizes)
{
  for (int s = 0; s < sizes->count; s++) {
    const int64_t count = (batch + sizes->row[s] - 1) / sizes->row[s];
    RengaCheck(count <= RENGA_PLAN_MICROBATCHES_MOST, partition->hdr.comm, RENGA_ERR_OPTION,
               "a step of %lld samples in micro-batches of %lld has %lld of them, but at most %d "
               "can be planned: give a larger -microbatch_size or a smaller -batch_size",
               (long long)batch, (long long)sizes->row[s], (long long)count,
               (int)RENGA_PLAN_MICROBATCHES_MOST);
  }
  return RENGA_SUCCESS;
}

static bool IsMeasured(RengaProfile profile)
{
  const char *type = NULL;
  return !RengaProfileGetType(profile, &type) && !strcmp(type, RENGA_PROFILE_MEASURED);
}

/* Rows after the first ones are needed only under a bound on memory: larger leaves cost no time,
   so that they come before smaller micro-batches. */
static RengaErrorCode ListRows(RengaPartition partition, const char *sizes, int ranks,
                               int64_t batch, int64_t microbatch, Collected *collected,
                               SearchTask *task)
{
  SizeList size = {0}, other_size = {0}, leaf = {0}, other_leaf = {0};
  const RengaMachineDevice *device = NULL;
  RengaGraphTotals totals;
  int statistics, node;
  int64_t values;
  RengaCall(RengaGraphGetBatchStatistics(partition->graph, &statistics, &node, &values));
  if (task->machine) RengaCall(RengaMachineGetDevice(task->machine, &device));
  RengaCall(RengaGraphGetTotals(partition->graph, &totals));
  const Choice choice = {
      .batch = batch,
      .microbatch = microbatch,
      .large = (int64_t)ranks * RengaGraphGetNodeCount(partition->graph) > NODES_OF_ONE_SIZE,
      .measured = IsMeasured(collected->from.profile),
      .ranks = ranks,
      .several = ranks * (task->unit > 1 ? task->unit : 1) > 1,
      .saved = totals.activation_bytes,
      .values = statistics ? values : 0,
      .memory = task->memory > 0 || !device ? task->memory : (double)device->memory};
  RengaCall(ListMicrobatchSizes(partition, sizes, &choice, &size, &other_size));
  RengaCall(CheckMicrobatchSizes(partition, batch, &size));
  int64_t smallest = batch;
  for (int i = 0; i < size.count; i++) smallest = size.row[i] < smallest ? size.row[i] : smallest;
  RengaCall(
      ListLeaves(partition, (batch + smallest - 1) / smallest, choice.large, &leaf, &other_leaf));
  partition->one_size = choice.large && !partition->microbatch && !sizes && !choice.values;
  task->chooses_size = size.count + other_size.count > 1 || partition->one_size;
  task->chooses_leaf = leaf.count + other_leaf.count > 1;
  AddSizeRows(batch, &size, &leaf, collected);
  collected->n_first = collected->n_rows;
  if (task->memory <= 0) return RENGA_SUCCESS;
  AddSizeRows(batch, &size, &other_leaf, collected);
  AddSizeRows(batch, &other_size, &leaf, collected);
  AddSizeRows(batch, &other_size, &other_leaf, collected);
  return RENGA_SUCCESS;
}

/* Of rows that are there. Ranks go on together to what they do together. */
static RengaErrorCode FillCosts(RengaPartition partition, Collected *collected)
{
  RengaProfile profile = collected->from.profile;
  for (int i = 0; i < collected->n_rows; i++) {
    int same = 0;
    while (collected->size[same] != collected->size[i]) same++;
    if (same < i) continue;
    RengaCall(RengaErrorAgree(partition->hdr.comm, RengaProfileGetCosts(profile, collected->size[i],
                                                                        collected->costs[i])));
    RengaCall(
        RengaSearchAddReading_Private(partition, profile, collected->size[i], collected->costs[i]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindCosts(RengaPartition partition, Collected *collected)
{
  const int n_nodes = RengaGraphGetNodeCount(partition->graph);
  RengaErrorCode code = RENGA_SUCCESS;
  for (int i = 0; i < collected->n_rows; i++) {
    int same = 0;
    while (collected->size[same] != collected->size[i]) same++;
    if (same == i && !code) code = RengaMalloc(n_nodes + 1, &collected->costs[i]);
    collected->costs[i] = collected->costs[same];
  }
  RengaCall(RengaErrorAgree(partition->hdr.comm, code));
  RengaCall(FillCosts(partition, collected));
  return RENGA_SUCCESS;
}

static void FreeCosts(Collected *collected)
{
  for (int i = collected->n_rows - 1; i >= 0; i--) {
    int same = 0;
    while (collected->size[same] != collected->size[i]) same++;
    if (same == i) RengaFree(&collected->costs[i]);
  }
}

static RengaErrorCode FindTaskRates(RengaPartition partition, Collected *collected,
                                    SearchTask *task)
{
  RengaGraphTotals totals;
  RengaCall(RengaGraphGetTotals(partition->graph, &totals));
  const int64_t elements = totals.parameters > 0 ? totals.parameters : 1;
  RengaCall(RengaProfileGetUpdateSeconds(collected->from.profile, elements, &task->update_rate));
  RengaCall(
      RengaProfileGetAccumulateSeconds(collected->from.profile, elements, &task->accumulate_rate));
  task->update_rate /= (double)elements;
  task->accumulate_rate /= (double)elements;
  return RENGA_SUCCESS;
}

/* By all ranks, which agree: the forecast that rank 0 asks for needs its threads. */
static RengaErrorCode SetUpDevice(RengaPartition partition)
{
  RengaSettings settings;
  RengaDevice device;
  RengaErrorCode code = RengaPartitionGetSettings(partition, &settings);
  if (!code) code = RengaSettingsGetDevice(settings, &device);
  RengaCall(RengaErrorAgree(partition->hdr.comm, code));
  RengaCall(RengaErrorAgree(partition->hdr.comm, RengaDeviceSetUp(device)));
  return RENGA_SUCCESS;
}

/* Where nobody fixed the level all are open, unless the optimizer is not ours. */
static void TakeShards(RengaSettings settings, bool outside, SearchShards *shards)
{
  RengaShard wanted = RENGA_SHARD_NOTHING;
  const bool fixed = RengaSettingsFindShard_Private(settings, &wanted);
  const bool open = !fixed && !outside;
  *shards = (SearchShards){.least = wanted, .most = open ? RENGA_SHARD_OPTIMIZER : wanted};
}

/* Of the settings all that decides memory and time. */
/* What a step must be less for several stages for each rank; of measured costs, with which
   predictions are a few percent off, differently for different kinds of plans. */
static const double chunk_gain = 0.01, chunk_gain_measured = 0.05;

static RengaErrorCode TakeTaskSettings(RengaPartition partition, SearchTask *task)
{
  RengaOptimizer optimizer;
  const char *const *names;
  const char *schedule;
  double eager;
  int chunks;
  RengaSettings settings;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaCall(RengaSettingsGetOptimizer(settings, &optimizer));
  RengaCall(RengaOptimizerGetMoments(optimizer, &task->moments, &names));
  if (RengaSettingsOffloadsMoments_Private(settings)) task->moments = 0; /* of the device */
  task->run.settings = settings;
  TakeShards(settings, RengaOptimizerIsOutside_Private(optimizer), &task->shards);
  task->fixes_saved = RengaSettingsFindSaved_Private(settings, &task->saved);
  task->unordered = !RengaSettingsIsOrdered_Private(settings);
  RengaCall(RengaSettingsGetSchedule(settings, &schedule));
  RengaCall(RengaSettingsGetEager(settings, &eager));
  RengaCall(RengaSearchCheckSchedule_Private(schedule));
  task->schedule = RengaSearchScheduleNamed_Private(schedule, eager);
  task->any_schedule = !schedule;
  RengaCall(RengaSettingsGetChunks(settings, &chunks));
  task->chunk_gain = chunks ? 0 : chunk_gain;
  RengaCall(RengaSearchMayFold_Private(task, settings, &task->folds));
  return RENGA_SUCCESS;
}

/* Where costs are of ranks whose device is the host: messages move while a rank looks at them. */
static RengaErrorCode FindWhoMoves(RengaPartition partition, RengaProfile profile, SearchTask *task)
{
  const char *type;
  RengaSettings settings;
  RengaDevice device;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaCall(RengaSettingsGetDevice(settings, &device));
  RengaCall(RengaProfileGetType(profile, &type));
  task->by_ranks = !strcmp(type, RENGA_PROFILE_MEASURED) && RengaDeviceIsHost(device);
  return RENGA_SUCCESS;
}

/* Those that stages of the plan have. */
static SearchShards ShardsOf(RengaPlan plan)
{
  SearchShards shards = {.least = RENGA_SHARD_PARAMETERS, .most = RENGA_SHARD_NOTHING};
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++) {
    const RengaShard own = RengaPlanGetStage(plan, s)->shape.shard;
    if (own < shards.least) shards.least = own;
    if (own > shards.most) shards.most = own;
  }
  return shards;
}

/* Of given plans the stages say how many tensor ranks there are. */
bool RengaSearchSeeksTensor_Private(RengaPartition partition, const RengaSearchWish *wish)
{
  return RengaPartitionGroupRanks_Private(partition) > 1 && !wish->given && !wish->finder.find;
}

/* Which layouts are wanted, and who looks for them. */
static void TakeWish(RengaPartition partition, const RengaSearchWish *wish, SearchTask *task)
{
  task->given = wish->given;
  task->searched = wish->searched;
  task->session = wish->session;
  task->compares = partition->compares;
  task->spares = wish->spares;
  task->beat = wish->given || wish->finder.find || wish->exact ? 0 : partition->beat;
  task->known = wish->given || wish->finder.find || wish->exact ? 0 : partition->beat;
  task->wanted.stages = wish->given ? 0 : partition->stages;
  task->wanted.replicas = wish->given ? 0 : partition->replicas;
  task->exact = wish->exact;
  task->time_limit = wish->time_limit;
  task->finder = wish->finder;
  if (wish->finder.find) task->shards.most = task->shards.least;
  if (wish->finder.find || task->ranks == 1 || task->wanted.replicas == 1) task->folds = false;
  if (wish->given) task->shards = ShardsOf(wish->given);
  task->wanted.equal = task->shards.least >= RENGA_SHARD_GRADIENTS;
}

/* The same numbers, whatever their names. */
static bool AreDevicesAlike(const RengaMachineDevice *a, const RengaMachineDevice *b)
{
  RengaMachineDevice one = *a, other = *b;
  one.name = other.name = NULL;
  return memcmp(&one, &other, offsetof(RengaMachineDevice, accumulates)) == 0 &&
         one.accumulates == other.accumulates;
}

/* Kinds that so many of the machine's first devices are of; 1: they are all alike. */
static RengaErrorCode CountKinds(RengaMachine machine, int devices, int *count, int end[])
{
  const RengaMachineDevice *device;
  const int64_t *begin;
  bool alike = true;
  int all = 1;
  RengaCall(RengaMachineGetKinds(machine, &all, &device, &begin));
  for (*count = 0; *count < all && begin[*count] < devices; ++*count) {
    alike = alike && AreDevicesAlike(&device[0], &device[*count]);
    end[*count] = (int)(begin[*count + 1] < devices ? begin[*count + 1] : devices);
  }
  end[*count - 1] = devices; /* as many ranks as there are, on a machine of fewer devices too */
  if (alike) *count = 1;
  return RENGA_SUCCESS;
}

/* Before costs, which may take long to find. */
static RengaErrorCode CheckKindsOfCosts(RengaPartition partition, RengaProfile profile,
                                        RengaMachine machine, int devices, bool finds)
{
  int count = 1, end[SEARCH_KINDS_MOST];
  const char *type;
  if (machine) RengaCall(CountKinds(machine, devices, &count, end));
  RengaCall(RengaProfileGetType(profile, &type));
  RengaCheck(count == 1 || !strcmp(type, RENGA_PROFILE_ANALYTIC), partition->hdr.comm,
             RENGA_ERR_SUPPORT,
             "the machine has devices of %d kinds, whose costs -profile_type %s does not tell "
             "apart: give -profile_type analytic, or a machine file of one kind",
             count, type);
  type = partition->hdr.type_name;
  RengaCheck(count == 1 || !finds, partition->hdr.comm, RENGA_ERR_SUPPORT,
             "the machine has devices of %d kinds, which -partition_type %s does not tell apart: "
             "give -partition_type auto, or a machine file of one kind",
             count, type);
  return RENGA_SUCCESS;
}

/* By the profile, as of a machine that has no other devices. */
static RengaErrorCode FindCostsOfKind(RengaPartition partition, const Collected *collected,
                                      const SearchTask *task, int kind, SearchKinds *kinds)
{
  const RengaMachineDevice *device;
  const int64_t *begin;
  int count;
  double bound = 0;
  RengaMachine one = NULL;
  Collected own = *collected;
  SearchTask rates = *task;
  RengaCall(RengaMachineGetKinds(task->machine, &count, &device, &begin));
  snprintf(kinds->name[kind], sizeof kinds->name[kind], "%s", device[kind].name);
  RengaCall(RengaPartitionMemoryOfKind_Private(partition, kind, &bound));
  kinds->hidden[kind] = task->memory - bound;
  kinds->memory[kind] = bound;
  for (int row = 0; row < collected->n_rows; row++) own.costs[row] = kinds->costs[kind][row];
  RengaErrorCode code = RengaMachineCreateOfKind_Private(task->machine, kind, &one);
  if (!code) code = RengaProfileSetMachine(own.from.profile, one);
  code = RengaErrorAgree(partition->hdr.comm, code);
  if (!code) code = FillCosts(partition, &own);
  if (!code) code = RengaErrorAgree(partition->hdr.comm, FindTaskRates(partition, &own, &rates));
  kinds->update_rate[kind] = rates.update_rate;
  kinds->accumulate_rate[kind] = rates.accumulate_rate;
  const RengaErrorCode restored = RengaProfileSetMachine(own.from.profile, task->machine);
  if (one) RengaMachineDestroy(&one);
  RengaCall(code ? code : RengaErrorAgree(partition->hdr.comm, restored));
  return RENGA_SUCCESS;
}

/* The task's own costs become the least of all kinds, its memory the most. */
static RengaErrorCode FindKinds(RengaPartition partition, Collected *collected, SearchTask *task)
{
  int count = 1, begin[SEARCH_KINDS_MOST + 1] = {0};
  if (!task->machine) return RENGA_SUCCESS;
  RengaCall(CountKinds(task->machine, task->ranks * (task->unit > 1 ? task->unit : 1), &count,
                       begin + 1));
  task->memory = 0;
  for (int k = 0; k < count; k++) {
    double bound = 0;
    RengaCall(RengaPartitionMemoryOfKind_Private(partition, k, &bound));
    if (bound > task->memory) task->memory = bound;
  }
  if (count == 1) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(partition->hdr.comm,
                            RengaSearchKindsCreate_Private(task, count, begin, &collected->kinds)));
  for (int k = 0; k < count; k++) {
    RengaCall(FindCostsOfKind(partition, collected, task, k, collected->kinds));
    if (k == 0) task->update_rate = collected->kinds->update_rate[0];
    if (k == 0) task->accumulate_rate = collected->kinds->accumulate_rate[0];
    if (collected->kinds->update_rate[k] < task->update_rate)
      task->update_rate = collected->kinds->update_rate[k];
    if (collected->kinds->accumulate_rate[k] < task->accumulate_rate)
      task->accumulate_rate = collected->kinds->accumulate_rate[k];
  }
  RengaSearchKindsLeast_Private(task, collected->kinds);
  task->kinds = collected->kinds;
  return RENGA_SUCCESS;
}

static RengaErrorCode FillTask(RengaPartition partition, const RengaSearchWish *wish, int all,
                               int64_t batch, int64_t microbatch, Collected *collected,
                               SearchTask *task)
{
  int ranks = all;
  RengaCall(RengaPartitionFindCosts_Private(partition, all, &collected->from));
  if (RengaSearchSeeksTensor_Private(partition, wish)) {
    task->unit = RengaPartitionGroupRanks_Private(partition);
    task->context = RengaPartitionContextRanks_Private(partition);
    RengaCall(RengaPartitionFindGroups_Private(partition, all, &ranks));
  }
  RengaCall(RengaPartitionMemoryBound_Private(partition, &task->memory));
  RengaCall(RengaProfileGetMachine(collected->from.profile, &task->machine));
  RengaCall(
      CheckKindsOfCosts(partition, collected->from.profile, task->machine, all, wish->finder.find));
  if (wish->given) {
    collected->size[0] = microbatch;
    collected->leaf[0] = RengaPlanGetLeaf(wish->given);
    collected->n_rows = collected->n_first = 1;
  } else {
    RengaCall(ListRows(partition, wish->sizes, ranks, batch, microbatch, collected, task));
  }
  RengaCall(FindCosts(partition, collected));
  RengaCall(FindTaskRates(partition, collected, task));
  RengaCall(TakeTaskSettings(partition, task));
  if (task->chunk_gain > 0 && IsMeasured(collected->from.profile))
    task->chunk_gain = chunk_gain_measured;
  RengaCall(FindWhoMoves(partition, collected->from.profile, task));
  RengaCall(RengaPartitionListShort_Private(partition, batch, &task->run.n_short,
                                            &collected->short_batch));
  task->run.short_batch = collected->short_batch;
  task->run.fullest = task->unit > 1;
  task->graph = partition->graph;
  task->all = RengaProfileGetWhole_Private(collected->from.profile, task->graph);
  task->ranks = ranks;
  TakeWish(partition, wish, task);
  task->quick = partition->quick && collected->n_first > 1;
  task->n_sizes = collected->n_rows;
  task->n_first = collected->n_first;
  task->size = collected->size;
  task->leaf = collected->leaf;
  task->costs = collected->costs;
  task->batch = batch;
  RengaCall(FindKinds(partition, collected, task));
  if (task->given) RengaCall(RengaSearchTakeSchedule_Private(task->given, task));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeCollected(RengaPartition partition, Collected *collected)
{
  RengaSearchKindsFree_Private(&collected->kinds);
  FreeCosts(collected);
  RengaFree(&collected->short_batch);
  RengaCall(RengaPartitionFreeCosts_Private(partition, &collected->from));
  return RENGA_SUCCESS;
}

static RengaErrorCode FillPlanFromAnswer(RengaPartition partition, int64_t batch,
                                         const SearchAnswer *answer, RengaPlan plan)
{
  RengaCall(RengaPlanSetStages(plan, partition->graph, answer->n_stages, answer->stage));
  for (int s = 0; s < answer->n_stages; s++)
    RengaCall(RengaSearchSetKept_Private(partition->graph, plan, s,
                                         answer->kept_first[s + 1] - answer->kept_first[s],
                                         answer->kept + answer->kept_first[s]));
  RengaCall(RengaPlanSetRanks(plan, answer->rank));
  RengaCall(RengaPlanSetBatch(plan, batch, answer->microbatch));
  RengaCall(RengaPlanSetLeaf(plan, answer->leaf));
  RengaCall(RengaSearchSetSchedule_Private(&answer->schedule, plan));
  RengaCall(RengaPlanSetPrediction(plan, &answer->prediction));
  RengaCall(RengaPlanSetMessageSeconds_Private(plan, answer->n_messages, answer->message));
  for (int r = 0; r < answer->n_reasons; r++)
    RengaCall(RengaPlanAddReason(plan, answer->reason[r].topic, answer->reason[r].sentence));
  return RENGA_SUCCESS;
}

/* Measured costs are of the device that they were measured on. */
static RengaErrorCode NameOrigin(RengaProfile profile, RengaPlan plan)
{
  RengaMachine machine;
  const RengaMachineDevice *device;
  const char *costs, *name;
  const int64_t *begin;
  int64_t memory = 0; /* the most of any kind */
  int kinds;
  RengaCall(RengaProfileGetType(profile, &costs));
  RengaCall(RengaProfileGetMachine(profile, &machine));
  if (!machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetName(machine, &name));
  RengaCall(RengaMachineGetKinds(machine, &kinds, &device, &begin));
  for (int k = 0; k < kinds; k++)
    if (device[k].memory > memory) memory = device[k].memory;
  RengaCall(RengaPlanSetOrigin(plan, name, costs, memory));
  return RENGA_SUCCESS;
}

static RengaErrorCode SolveOnFirst(RengaComm comm, RengaProfile profile, SearchTask *task,
                                   SearchAnswer *answer)
{
  RengaPartition cutters[SEARCH_CUTTERS] = {NULL};
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaCommGetRank(comm) != 0) return RENGA_SUCCESS;
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &task->self));
  const bool alone = task->finder.find || task->given || task->known > 0;
  if (!alone) code = RengaSearchRivals_Private(profile, task, cutters);
  if (!code) code = RengaSearchSolve_Private(task, answer);
  for (int c = 0; c < SEARCH_CUTTERS; c++)
    if (cutters[c]) RengaPartitionDestroy(&cutters[c]);
  RengaCommDestroy(&task->self);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchPlanOnce_Private(RengaPartition partition, const RengaSearchWish *wish,
                                           int ranks, int64_t batch, int64_t microbatch,
                                           RengaPlan plan)
{
  RengaComm comm = partition->hdr.owner;
  Collected collected = {0};
  SearchTask task = {0};
  SearchAnswer answer = {0};
  RengaErrorCode code = SetUpDevice(partition);
  if (!code)
    code = RengaErrorAgree(partition->hdr.comm,
                           FillTask(partition, wish, ranks, batch, microbatch, &collected, &task));
  if (!code)
    code = RengaErrorAgree(partition->hdr.comm,
                           SolveOnFirst(comm, collected.from.profile, &task, &answer));
  if (!code) code = RengaSearchShareAnswer_Private(comm, &answer);
  if (answer.schedule.type) /* this rank's own */
    answer.schedule.type = answer.type[0] ? answer.type : task.schedule.type;
  partition->beaten = !code && answer.beaten;
  if (!wish->given) partition->first = answer.first;
  if (!wish->given) partition->work = answer.work;
  if (!code && !answer.beaten) code = FillPlanFromAnswer(partition, batch, &answer, plan);
  if (!code && !answer.beaten) code = NameOrigin(collected.from.profile, plan);
  RengaSearchAnswerFree_Private(&answer);
  FreeCollected(partition, &collected);
  RengaCall(code);
  return RENGA_SUCCESS;
}
