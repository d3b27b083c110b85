/* What a plan is made from beside the network: settings, machine and costs. They are the program's
   where it gave them, else those of the options, else the usual ones. */
#include "partitionimpl.h"
#include "renga/private/cost.h"
#include "rengacomm.h"
#include "search/search.h"
#include <string.h>

RengaErrorCode RengaPartitionFreeGiven_Private(RengaPartition partition)
{
  PartitionOwn *own = &partition->own;
  if (own->profile) RengaCall(RengaProfileDestroy(&own->profile));
  if (own->machine) RengaCall(RengaMachineDestroy(&own->machine));
  if (own->settings) RengaCall(RengaSettingsDestroy(&own->settings));
  own->type_given = false;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetSettings - say what the run that is planned goes by

   Collective

   Input:
   . settings - such as those of RengaPipelineGetSettings(); the partition keeps a reference;
     NULL: those of the options

   Notes: a plan is made for their optimizer, reduction, schedule, device and memory bound.
   RengaPartitionSetFromOptions() does not change what is set here.
@*/
RengaErrorCode RengaPartitionSetSettings(RengaPartition partition, RengaSettings settings)
{
  RengaCheckPointer(partition);
  RengaCall(RengaHeaderReplace(&partition->settings, settings));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetSettings - what the run that is planned goes by, lent

   Collective the first time where none were set, else not

   Output:
   . settings - those that were set; else the partition's own

   Errors: of settings that are made here: RENGA_ERR_OPTION for a bad value.
@*/
RengaErrorCode RengaPartitionGetSettings(RengaPartition partition, RengaSettings *settings)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(settings);
  if (!partition->settings && !partition->own.settings)
    RengaCall(RengaSettingsCreate(partition->hdr.owner, &partition->own.settings));
  *settings = partition->settings ? partition->settings : partition->own.settings;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetMachine - say for which machine to plan

   Collective

   Input:
   . machine - the machine whose links count, and whose memory where no bound is set; the partition
     keeps a reference. NULL: that of -machine_file

   See also: RengaPartitionGetMachine(), RengaPartitionSetProfile()
@*/
RengaErrorCode RengaPartitionSetMachine(RengaPartition partition, RengaMachine machine)
{
  RengaCheckPointer(partition);
  RengaCall(RengaHeaderReplace(&partition->machine, machine));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetMachine - for which machine plans are made, lent

   Output:
   . machine - the one that was set, or that of -machine_file; NULL: none
@*/
RengaErrorCode RengaPartitionGetMachine(RengaPartition partition, RengaMachine *machine)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(machine);
  *machine = partition->machine ? partition->machine : partition->own.machine;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetProfile - say what nodes and messages cost

   Collective

   Input:
   . profile - the costs of nodes, with the machine whose links and memory go with them. Its graph
     is set, and its settings where it has none; the partition keeps a reference. NULL: one is made
     from the options

   Notes: for types that weigh by time.

   See also: RengaPartitionGetProfile(), RengaPartitionSetMachine()
@*/
RengaErrorCode RengaPartitionSetProfile(RengaPartition partition, RengaProfile profile)
{
  RengaCheckPointer(partition);
  RengaCall(RengaHeaderReplace(&partition->profile, profile));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionGetProfile - what nodes and messages cost, lent

   Output:
   . profile - the one that was set; NULL: none
@*/
RengaErrorCode RengaPartitionGetProfile(RengaPartition partition, RengaProfile *profile)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(profile);
  *profile = partition->profile;
  return RENGA_SUCCESS;
}

/* The one place where the options of settings, machine and profile are read for a plan. */
RengaErrorCode RengaPartitionTakeGiven_Private(RengaPartition partition)
{
  PartitionOwn *own = &partition->own;
  RengaComm comm = partition->hdr.owner;
  RengaMachine machine;
  RengaSettings settings;
  const char *text;
  bool given = false;
  RengaCall(RengaPartitionFreeGiven_Private(partition));
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  if (!partition->settings) RengaCall(RengaSettingsSetFromOptions(settings));
  RengaCall(RengaOptionsGetString("machine_file", &text, &given));
  if (given && !partition->machine) {
    RengaCall(RengaMachineCreate(comm, &own->machine));
    RengaCall(RengaMachineSetFromOptions(own->machine));
  }
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  RengaCall(RengaOptionsGetString("profile_type", &text, &own->type_given));
  RengaCall(RengaProfileCreate(comm, &own->profile));
  RengaCall(RengaProfileSetSettings(own->profile, settings));
  RengaCall(RengaProfileSetMachine(own->profile, machine));
  RengaCall(RengaProfileSetFromOptions(own->profile));
  return RENGA_SUCCESS;
}

/* A rank of a plain computer with nothing else known: only what is compared counts. */
static RengaErrorCode DescribePlain(RengaMachine machine, int ranks, bool any_type)
{
  RengaMachineDevice device = {.name = "plain rank",
                               .memory = (int64_t)1 << 50,
                               .matrix_rate = 64e9,
                               .vector_rate = 8e9,
                               .memory_bandwidth = 10e9,
                               .matrix_efficiency = 0.8,
                               .vector_efficiency = 0.5,
                               .bandwidth_efficiency = 0.8,
                               .launch = 1e-6};
  const RengaMachineLevel level = {
      .name = "node", .devices = ranks, .latency = 2e-6, .bandwidth = 4e9};
  if (any_type)
    device.matrix_rate_float64 = device.matrix_rate_bfloat16 = device.matrix_rate_float16 =
        device.matrix_rate_tf32 = device.matrix_rate_fp8 = device.matrix_rate;
  RengaCall(RengaMachineSetDevice(machine, &device));
  RengaCall(RengaMachineSetLevels(machine, 1, &level));
  return RENGA_SUCCESS;
}

/* Costs of ranks that are here are measured, on them and their links; others are modelled, on plain
   ranks where no machine is known. */
static RengaErrorCode ChooseProfile(RengaPartition partition, int ranks, PartitionCosts *costs)
{
  const char *type = RENGA_PROFILE_MEASURED;
  RengaProfile own = partition->own.profile;
  RengaMachine machine;
  const bool here = !partition->own.plain && ranks <= RengaCommGetSize(partition->hdr.owner);
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (own) RengaCall(RengaProfileGetType(own, &type));
  const bool model = !machine && !here && (partition->own.plain || !partition->own.type_given);
  if (!machine && (!here || strcmp(type, RENGA_PROFILE_MEASURED) != 0)) {
    RengaCall(RengaMachineCreate(partition->hdr.owner, &costs->plain));
    RengaCall(DescribePlain(costs->plain, ranks, partition->own.plain));
    machine = costs->plain;
  }
  costs->profile = own;
  if (model || !own) {
    RengaCall(RengaProfileCreate(partition->hdr.owner, &costs->made));
    costs->profile = costs->made;
    if (machine) RengaCall(RengaProfileSetType(costs->made, RENGA_PROFILE_ANALYTIC));
  }
  RengaCall(RengaProfileSetMachine(costs->profile, machine));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionFindCosts_Private(RengaPartition partition, int ranks,
                                               PartitionCosts *costs)
{
  RengaSettings settings, other = NULL;
  *costs = (PartitionCosts){.profile = partition->profile};
  if (!costs->profile) RengaCall(ChooseProfile(partition, ranks, costs));
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaCall(RengaProfileGetSettings(costs->profile, &other));
  if (!partition->profile || !other) RengaCall(RengaProfileSetSettings(costs->profile, settings));
  RengaCall(RengaProfileSetGraph(costs->profile, partition->graph));
  RengaProfileSetDevices_Private(costs->profile, ranks);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionFreeCosts_Private(RengaPartition partition, PartitionCosts *costs)
{
  if (costs->profile) RengaProfileSetDevices_Private(costs->profile, 0);
  if (costs->made) RengaCall(RengaProfileDestroy(&costs->made));
  if (costs->plain && partition->own.profile)
    RengaCall(RengaProfileSetMachine(partition->own.profile, NULL));
  if (costs->plain) RengaCall(RengaMachineDestroy(&costs->plain));
  return RENGA_SUCCESS;
}

/* The bound that was set, or that of the kind of devices of the machine that was named. */
RengaErrorCode RengaPartitionMemoryOfKind_Private(RengaPartition partition, int kind,
                                                  double *memory)
{
  const RengaMachineDevice *device;
  const int64_t *begin;
  RengaMachine machine;
  RengaSettings settings;
  int64_t bound = partition->memory;
  int kinds;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  if (!bound) RengaCall(RengaSettingsGetMemoryBound(settings, &bound));
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (!bound && machine) {
    RengaCall(RengaMachineGetKinds(machine, &kinds, &device, &begin));
    bound = device[kind < kinds ? kind : kinds - 1].memory;
  }
  *memory = (double)bound;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionMemoryBound_Private(RengaPartition partition, double *memory)
{
  *memory = 0;
  for (int k = 0; k < RENGA_MACHINE_KINDS_MOST; k++) {
    double own = 0;
    RengaCall(RengaPartitionMemoryOfKind_Private(partition, k, &own));
    if (own > *memory) *memory = own;
  }
  return RENGA_SUCCESS;
}

/* Bytes that each device of the stage may use; 0: no bound. */
static RengaErrorCode MemoryOfStage(RengaPartition partition, RengaPlan plan, int s, double *memory)
{
  const RengaStageShape *shape = &RengaPlanGetStage(plan, s)->shape;
  const int each = RengaShapeGroup_Private(shape);
  const RengaMachineDevice *device;
  const int64_t *begin;
  RengaMachine machine;
  int kinds = 1;
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (machine) RengaCall(RengaMachineGetKinds(machine, &kinds, &device, &begin));
  RengaCall(RengaPartitionMemoryOfKind_Private(partition, 0, memory));
  for (int n = 0; kinds > 1 && n < shape->replicas * each; n++) {
    const RengaPlanPlace place = RengaPlanPlaceOf_Private(plan, s, n / each, n % each);
    const int rank = RengaPlanGetRankAt(plan, &place);
    double own = 0;
    int k = 0;
    while (k + 1 < kinds && begin[k + 1] <= rank) k++;
    RengaCall(RengaPartitionMemoryOfKind_Private(partition, k, &own));
    if (n == 0 || own < *memory) *memory = own;
  }
  return RENGA_SUCCESS;
}

/* The memory of the fullest rank of a plan that was forecast. Of one whose device has less than
   others it is taken to have that much more. */
RengaErrorCode RengaPartitionMostOfRank_Private(RengaPartition partition, RengaPlan plan,
                                                double *most)
{
  double bound = 0;
  *most = 0;
  RengaCall(RengaPartitionMemoryBound_Private(partition, &bound));
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++) {
    int64_t bytes = 0;
    double own = 0;
    RengaCall(RengaPlanGetDeviceMemory(plan, s, &bytes));
    RengaCall(MemoryOfStage(partition, plan, s, &own));
    if ((double)bytes + bound - own > *most) *most = (double)bytes + bound - own;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCheckMemory_Private(RengaPartition partition, const char *what,
                                                 const char *advice, RengaPlan plan)
{
  const bool several = RengaPlanGetStage(plan, 0)->shape.chunks > 1;
  double memory = 0;
  char needed[32], allowed[32];
  RengaCall(RengaPartitionMemoryBound_Private(partition, &memory));
  for (int s = 0; memory > 0 && s < RengaPlanGetStageCount(plan); s++) {
    int64_t bytes = 0;
    RengaCall(MemoryOfStage(partition, plan, s, &memory));
    RengaCall(RengaPlanGetDeviceMemory(plan, s, &bytes));
    RengaFormatBytes((double)bytes, sizeof needed, needed);
    RengaFormatBytes(memory, sizeof allowed, allowed);
    RengaCheck((double)bytes <= memory, partition->hdr.comm, RENGA_ERR_PLAN,
               "%s: stage %d%s needs %s, but a device may use %s: %s", what, s,
               several ? ", with the other stages of its ranks," : "", needed, allowed, advice);
  }
  return RENGA_SUCCESS;
}
