/* From a partition to the search's task and from its answer to a plan, on all ranks: costs are
   found together, rank 0 plans, all get the answer. */
#include "../partitionimpl.h"
#include "rengacomm.h"
#include "rengaoptimizer.h"
#include "rengaschedule.h"
#include "search.h"
#include <stdlib.h>
#include <string.h>

enum { SIZES_MOST = 64 };

/* Everything that is found together. */
typedef struct {
  RengaMachine machine;
  RengaProfile profile; /* lent, or own */
  bool own;
  int n_sizes, n_first;
  int64_t size[SIZES_MOST];
  RengaProfileCost *costs[SIZES_MOST];
} Collected;

/* A rank of a plain computer with nothing else known: only what is compared counts. */
static RengaErrorCode DescribePlain(RengaMachine machine, int ranks)
{
  const RengaMachineDevice device = {.name = (char *)"plain rank",
                                     .memory = (int64_t)1 << 50,
                                     .matrix_rate = 64e9,
                                     .vector_rate = 8e9,
                                     .memory_bandwidth = 10e9,
                                     .matrix_efficiency = 0.8,
                                     .vector_efficiency = 0.5,
                                     .bandwidth_efficiency = 0.8,
                                     .launch = 1e-6};
  const RengaMachineLevel level = {
      .name = (char *)"node", .devices = ranks, .latency = 2e-6, .bandwidth = 4e9};
  RengaCall(RengaMachineSetDevice(machine, &device));
  RengaCall(RengaMachineSetLevels(machine, 1, &level));
  return RENGA_SUCCESS;
}

/* Costs of ranks that are here are measured, on them and their links; others are modelled. */
static RengaErrorCode IsModelled(RengaPartition partition, int ranks, bool *modelled)
{
  const char *type;
  bool given = false;
  RengaCall(RengaOptionsGetString("profile_type", &type, &given));
  *modelled = ranks > RengaCommGetSize(partition->hdr.owner) ||
              (given && strcmp(type, RENGA_PROFILE_MEASURED) != 0);
  return RENGA_SUCCESS;
}

/* The profile that was set, or one of the options; its machine is that of -machine_file. */
static RengaErrorCode FindProfile(RengaPartition partition, int ranks, Collected *collected)
{
  const char *file;
  bool given = false, modelled = false;
  collected->profile = partition->profile;
  if (!collected->profile) {
    collected->own = true;
    RengaCall(IsModelled(partition, ranks, &modelled));
    RengaCall(RengaMachineCreate(partition->hdr.owner, &collected->machine));
    RengaCall(RengaMachineSetFromOptions(collected->machine));
    RengaCall(RengaOptionsGetString("machine_file", &file, &given));
    if (!given && modelled) RengaCall(DescribePlain(collected->machine, ranks));
    RengaCall(RengaProfileCreate(partition->hdr.owner, &collected->profile));
    if (given || modelled)
      RengaCall(RengaProfileSetMachine(collected->profile, collected->machine));
    RengaCall(RengaProfileSetFromOptions(collected->profile));
  }
  RengaCall(RengaProfileSetGraph(collected->profile, partition->graph));
  return RENGA_SUCCESS;
}

static void AddSize(Collected *collected, int64_t size)
{
  for (int i = 0; i < collected->n_sizes; i++)
    if (collected->size[i] == size) return;
  if (collected->n_sizes < SIZES_MOST) collected->size[collected->n_sizes++] = size;
}

static RengaErrorCode ReadSizes(RengaPartition partition, const char *text, int64_t batch,
                                Collected *collected)
{
  for (const char *at = text; *at;) {
    char *end;
    const long long size = strtoll(at, &end, 10);
    RengaCheck(
        end != at && (*end == ',' || !*end) && size >= 1 && size <= batch, partition->hdr.comm,
        RENGA_ERR_OPTION,
        "-partition_microbatch_sizes %s: write default, auto, or numbers from 1 to the batch "
        "of %lld samples: 1,2,4",
        text, (long long)batch);
    AddSize(collected, size);
    at = end + (*end == ',');
  }
  RengaCheck(collected->n_sizes > 0, partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_microbatch_sizes is empty");
  return RENGA_SUCCESS;
}

/* The size decides the bits of the results: others than the usual one only where it is asked for,
   or where that one does not fit. */
static RengaErrorCode ListSizes(RengaPartition partition, const char *sizes, int64_t batch,
                                int64_t microbatch, Collected *collected)
{
  if (partition->microbatch || !sizes || !strcmp(sizes, "default")) {
    AddSize(collected, microbatch);
  } else if (!strcmp(sizes, "auto")) {
    AddSize(collected, microbatch);
    for (int64_t size = 1; size <= batch; size *= 2) {
      AddSize(collected, size);
      if (size + size / 2 <= batch) AddSize(collected, size + size / 2);
    }
  } else {
    RengaCall(ReadSizes(partition, sizes, batch, collected));
  }
  collected->n_first = collected->n_sizes;
  if (!partition->microbatch && (!sizes || !strcmp(sizes, "default")))
    for (int64_t size = microbatch; size > 1;) AddSize(collected, size = (size + 1) / 2);
  return RENGA_SUCCESS;
}

/* Sizes after the first ones are needed only under a bound on memory. */
static RengaErrorCode FindCosts(RengaPartition partition, bool bounded, Collected *collected)
{
  const int n_nodes = RengaGraphGetNodeCount(partition->graph);
  if (!bounded) collected->n_sizes = collected->n_first;
  for (int i = 0; i < collected->n_sizes; i++) {
    RengaCall(RengaMalloc(n_nodes + 1, &collected->costs[i]));
    RengaCall(RengaProfileGetCosts(collected->profile, collected->size[i], collected->costs[i]));
    RengaCall(RengaSearchAddReading_Private(partition, collected->size[i], collected->costs[i]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindRates(RengaPartition partition, Collected *collected, SearchTask *task)
{
  RengaGraphTotals totals;
  RengaOptimizer optimizer = NULL;
  const char *const *names;
  RengaCall(RengaGraphGetTotals(partition->graph, &totals));
  const int64_t elements = totals.parameters > 0 ? totals.parameters : 1;
  RengaCall(RengaProfileGetUpdateSeconds(collected->profile, elements, &task->update_rate));
  RengaCall(RengaProfileGetAccumulateSeconds(collected->profile, elements, &task->accumulate_rate));
  task->update_rate /= (double)elements;
  task->accumulate_rate /= (double)elements;
  RengaCall(RengaOptimizerCreate(partition->hdr.owner, &optimizer));
  RengaErrorCode code = RengaOptimizerSetFromOptions(optimizer);
  if (!code) code = RengaOptimizerSetUp(optimizer);
  if (!code) code = RengaOptimizerGetMoments(optimizer, &task->moments, &names);
  RengaOptimizerDestroy(&optimizer);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The bound that the user gave, or that of the machine that the user named. */
RengaErrorCode RengaSearchMemoryBound_Private(RengaPartition partition, double *memory)
{
  const RengaMachineDevice *device;
  RengaMachine machine = NULL;
  const char *file;
  bool given = false;
  *memory = (double)partition->memory;
  RengaCall(RengaOptionsGetString("machine_file", &file, &given));
  if (partition->memory || !given) return RENGA_SUCCESS;
  RengaCall(RengaMachineCreate(partition->hdr.owner, &machine));
  RengaErrorCode code = RengaMachineSetFromOptions(machine);
  if (!code) code = RengaMachineGetDevice(machine, &device);
  if (!code) *memory = (double)device->memory;
  RengaMachineDestroy(&machine);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What the user says stays. */
static RengaErrorCode FindSchedule(SearchTask *task)
{
  const char *schedule;
  bool given = false, eager_given = false;
  RengaCall(RengaOptionsGetString("pipeline_schedule", &schedule, &given));
  RengaCall(RengaOptionsGetReal("pipeline_eager", &task->eager, &eager_given));
  task->gpipe = schedule && !strcmp(schedule, RENGA_SCHEDULE_GPIPE);
  task->any_schedule = !given && !eager_given;
  return RENGA_SUCCESS;
}

static RengaErrorCode FillTask(RengaPartition partition, const RengaSearchWish *wish, int ranks,
                               int64_t batch, int64_t microbatch, Collected *collected,
                               SearchTask *task)
{
  RengaCall(FindProfile(partition, ranks, collected));
  RengaCall(ListSizes(partition, wish->sizes, batch, microbatch, collected));
  RengaCall(RengaSearchMemoryBound_Private(partition, &task->memory));
  RengaCall(FindCosts(partition, task->memory > 0, collected));
  RengaCall(FindRates(partition, collected, task));
  RengaCall(RengaProfileGetMachine(collected->profile, &task->machine));
  RengaCall(FindSchedule(task));
  task->graph = partition->graph;
  task->ranks = ranks;
  task->stages = partition->stages;
  task->replicas = partition->replicas;
  task->batch = batch;
  task->exact = wish->exact;
  task->time_limit = wish->time_limit;
  task->find = wish->find;
  task->context = wish->context;
  task->n_sizes = collected->n_sizes;
  task->n_first = collected->n_first;
  task->size = collected->size;
  task->costs = collected->costs;
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeCollected(Collected *collected)
{
  for (int i = 0; i < SIZES_MOST; i++) RengaFree(&collected->costs[i]);
  if (!collected->own) return RENGA_SUCCESS;
  if (collected->profile) RengaCall(RengaProfileDestroy(&collected->profile));
  if (collected->machine) RengaCall(RengaMachineDestroy(&collected->machine));
  return RENGA_SUCCESS;
}

static RengaErrorCode Share(RengaComm comm, SearchAnswer *answer)
{
  static const char what[] = "the plan of rank 0";
  SearchAnswer mine = *answer;
  RengaCall(RengaCommBroadcast(comm, answer, sizeof *answer, 0, what));
  if (RengaCommGetRank(comm) == 0) {
    *answer = mine;
  } else {
    answer->stage = NULL;
    answer->rank = NULL;
    answer->reason = NULL;
    RengaCall(RengaMalloc(answer->n_stages, &answer->stage));
    RengaCall(RengaMalloc(answer->n_ranks, &answer->rank));
    RengaCall(RengaMalloc(answer->n_reasons, &answer->reason));
  }
  RengaCall(RengaCommBroadcast(comm, answer->stage,
                               (size_t)answer->n_stages * sizeof *answer->stage, 0, what));
  RengaCall(RengaCommBroadcast(comm, answer->rank, (size_t)answer->n_ranks * sizeof *answer->rank,
                               0, what));
  RengaCall(RengaCommBroadcast(comm, answer->reason,
                               (size_t)answer->n_reasons * sizeof *answer->reason, 0, what));
  return RENGA_SUCCESS;
}

static RengaErrorCode FillPlan(RengaPartition partition, int64_t batch, const SearchAnswer *answer,
                               RengaPlan plan)
{
  RengaCall(RengaPlanSetStages(plan, partition->graph, answer->n_stages, answer->stage));
  RengaCall(RengaPlanSetRanks(plan, answer->rank));
  RengaCall(RengaPlanSetBatch(plan, batch, answer->microbatch));
  RengaCall(RengaPlanSetSchedule(plan, answer->gpipe ? RENGA_SCHEDULE_GPIPE : RENGA_SCHEDULE_1F1B));
  RengaCall(RengaPlanSetEager(plan, answer->eager));
  RengaCall(RengaPlanSetPrediction(plan, &answer->prediction));
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
  RengaCall(RengaProfileGetType(profile, &costs));
  RengaCall(RengaProfileGetMachine(profile, &machine));
  if (!machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetName(machine, &name));
  RengaCall(RengaMachineGetDevice(machine, &device));
  RengaCall(RengaPlanSetOrigin(plan, name, costs, device->memory));
  return RENGA_SUCCESS;
}

static RengaErrorCode SolveOnFirst(RengaComm comm, RengaProfile profile, SearchTask *task,
                                   SearchAnswer *answer)
{
  RengaPartition rivals[SEARCH_RIVALS_MOST] = {NULL};
  RengaErrorCode code = RENGA_SUCCESS;
  if (RengaCommGetRank(comm) != 0) return RENGA_SUCCESS;
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &task->self));
  if (!task->find) code = RengaSearchRivals_Private(profile, task, rivals);
  if (!code) code = RengaSearchSolve_Private(task, answer);
  for (int r = 0; r < SEARCH_RIVALS_MOST; r++)
    if (rivals[r]) RengaPartitionDestroy(&rivals[r]);
  RengaCommDestroy(&task->self);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchPartition_Private(RengaPartition partition, const RengaSearchWish *wish,
                                            int ranks, int64_t batch, int64_t microbatch,
                                            RengaPlan plan)
{
  RengaComm comm = partition->hdr.owner;
  Collected collected = {0};
  SearchTask task = {0};
  SearchAnswer answer = {0};
  RengaErrorCode code = FillTask(partition, wish, ranks, batch, microbatch, &collected, &task);
  if (!code)
    code =
        RengaErrorAgree(partition->hdr.comm, SolveOnFirst(comm, collected.profile, &task, &answer));
  if (!code) code = Share(comm, &answer);
  if (!code) code = FillPlan(partition, batch, &answer, plan);
  if (!code) code = NameOrigin(collected.profile, plan);
  RengaSearchAnswerFree_Private(&answer);
  FreeCollected(&collected);
  RengaCall(code);
  return RENGA_SUCCESS;
}
