/* All ranks are given the same to plan: else they would measure, or search, each for itself. */
#include "partitionimpl.h"
#include "renga/private/graph.h"
#include "renga/private/settings.h"
#include "rengacomm.h"
#include <string.h>

static void AddWishes(RengaPartition partition, RengaSettingList *list)
{
  RengaSettingAddText_Private(list, "-partition_type", partition->hdr.type_name);
  RengaSettingAddText_Private(list, "plan (-plan_load)", partition->load);
  RengaSettingAddInt64_Private(list, "-layout_pipeline", partition->stages);
  RengaSettingAddInt64_Private(list, "-layout_data", partition->replicas);
  RengaSettingAddInt64_Private(list, "-layout_tensor", partition->tensor);
  RengaSettingAddText_Private(list, "-layout_tensor", partition->tensor_text);
  RengaSettingAddInt64_Private(list, "-layout_context", partition->sequence);
  RengaSettingAddText_Private(list, "-layout_context", partition->sequence_text);
  RengaSettingAddInt64_Private(list, "-partition_ranks", partition->ranks);
  RengaSettingAddInt64_Private(list, "-partition_memory", partition->memory);
  RengaSettingAddInt64_Private(list, "-batch_size", partition->batch);
  RengaSettingAddInt64_Private(list, "-microbatch_size", partition->microbatch);
  RengaSettingAddInt64_Private(list, "-partition_leaf", partition->leaf);
  RengaSettingAddText_Private(list, "-partition_leaf", partition->leaves);
  if (partition->ops->list) partition->ops->list(partition, list);
}

/* Passes over data, and the inputs whose reading was timed: the seconds are rank 0's. */
static void AddData(RengaPartition partition, RengaSettingList *list)
{
  uint64_t hash = 0;
  for (int r = 0; r < partition->n_readings; r++)
    hash = RengaHash(partition->reading[r].input, strlen(partition->reading[r].input), hash);
  RengaSettingAddInt64_Private(list, "inputs that are read", (int64_t)hash);
  RengaSettingAdd_Private(list, "passes over data", partition->pass,
                          (size_t)partition->n_passes * sizeof *partition->pass);
}

static RengaErrorCode AddNetwork(RengaPartition partition, RengaSettingList *list)
{
  RengaPrecision precision;
  RengaCall(RengaGraphGetPrecision(partition->graph, &precision));
  RengaSettingAddInt64_Private(list, "network", (int64_t)RengaGraphGetDigest(partition->graph));
  RengaSettingAddInt64_Private(list, "precision (-precision)", precision);
  RengaSettingAddInt64_Private(list, "choice of lanes (-graph_lanes)",
                               RengaGraphLanesAreOpen_Private(partition->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddMachine(RengaPartition partition, RengaSettingList *list)
{
  const RengaMachineDevice *device;
  const RengaMachineLevel *level;
  const int64_t *begin;
  RengaMachineDevice numbers[RENGA_MACHINE_KINDS_MOST] = {0};
  char names[RENGA_MACHINE_KINDS_MOST * 64] = "";
  RengaMachine machine;
  int64_t nodes;
  int count, kinds, used = 0;
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  RengaSettingAddInt64_Private(list, "machine (-machine_file)", machine != NULL);
  if (!machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetNodes(machine, &nodes));
  RengaCall(RengaMachineGetLevels(machine, &count, &level));
  RengaCall(RengaMachineGetKinds(machine, &kinds, &device, &begin));
  RengaSettingAddInt64_Private(list, "machine (-machine_nodes)", nodes);
  for (int k = 0; k < kinds; k++) {
    numbers[k] = device[k];
    numbers[k].name = NULL;
    used += snprintf(names + used, sizeof names - (size_t)used, "%.63s,", device[k].name);
  }
  RengaSettingAddText_Private(list, "machine (-machine_file)", names);
  RengaSettingAdd_Private(list, "machine (its devices)", numbers, (size_t)kinds * sizeof *numbers);
  RengaSettingAdd_Private(list, "machine (its kinds)", begin, (size_t)(kinds + 1) * sizeof *begin);
  for (int l = 0; l < count; l++) {
    RengaMachineLevel links = level[l];
    links.name = NULL;
    RengaSettingAdd_Private(list, "machine (its links)", &links, sizeof links);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddCosts(RengaPartition partition, RengaSettingList *list)
{
  RengaProfile profile = partition->profile ? partition->profile : partition->own.profile;
  const char *type = NULL;
  if (profile) RengaCall(RengaProfileGetType(profile, &type));
  RengaSettingAddText_Private(list, "costs (-profile_type)", type);
  RengaSettingAddInt64_Private(list, "costs (-profile_type)", partition->own.type_given);
  return RENGA_SUCCESS;
}

static RengaErrorCode ListAll(RengaPartition partition, RengaSettingList *list)
{
  RengaSettings settings = partition->settings ? partition->settings : partition->own.settings;
  RengaCall(AddNetwork(partition, list));
  AddWishes(partition, list);
  AddData(partition, list);
  RengaSettingAddInt64_Private(list, "settings (RengaPartitionSetSettings)", settings != NULL);
  if (settings) RengaSettingsList_Private(settings, list);
  RengaCall(AddCosts(partition, list));
  RengaCall(AddMachine(partition, list));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCheckAgreement_Private(RengaPartition partition)
{
  RengaSettingList list = {0};
  RengaCall(RengaErrorAgree(partition->hdr.comm, ListAll(partition, &list)));
  RengaCall(RengaCommCheckSame_Private(partition->hdr.owner, RENGA_ERR_PLAN,
                                       "all ranks to make a plan", &list));
  return RENGA_SUCCESS;
}
