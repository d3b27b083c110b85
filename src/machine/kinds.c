/* Devices of several kinds: of each the nodes that follow each other, over one network. */
#include "machineimpl.h"
#include "renga/private/links.h"
#include <string.h>

void RengaMachineFreeKinds_Private(RengaMachine machine)
{
  RengaFree(&machine->kind);
  for (int k = 0; k < RENGA_MACHINE_KINDS_MOST; k++) RengaFree(&machine->kind_name[k]);
  machine->n_kinds = 0;
}

RengaErrorCode RengaMachineCheckDevice_Private(RengaMachine machine,
                                               const RengaMachineDevice *device)
{
  RengaCheck(device->matrix_rate > 0 && device->vector_rate > 0 && device->memory_bandwidth > 0 &&
                 device->matrix_efficiency > 0 && device->vector_efficiency > 0 &&
                 device->bandwidth_efficiency > 0 && device->launch >= 0 && device->memory > 0 &&
                 device->matrix_rate_float64 >= 0 && device->matrix_rate_bfloat16 >= 0 &&
                 device->matrix_rate_float16 >= 0 && device->matrix_rate_tf32 >= 0 &&
                 device->matrix_rate_fp8 >= 0 && device->host >= 0 &&
                 device->attention_efficiency >= 0 && device->attention_passes >= 0 &&
                 device->spread >= 0 && device->unaligned_efficiency >= 0 &&
                 device->half_depth >= 0 && device->scatter_efficiency >= 0 &&
                 device->all_reduce >= 0 && device->processors >= 0,
             machine->hdr.comm, RENGA_ERR_ARGUMENT,
             "a device's memory, rates and efficiencies must be positive");
  return RENGA_SUCCESS;
}

/* What a file says of the devices of one kind. */
RengaMachineDevice RengaMachineDeviceOf_Private(RengaMachine machine, const MachineFile *file)
{
  return (RengaMachineDevice){.memory = machine->memory ? machine->memory : file->memory,
                              .matrix_rate = file->matrix_rate,
                              .matrix_rate_float64 = file->matrix_rate_float64,
                              .matrix_rate_bfloat16 = file->matrix_rate_bfloat16,
                              .matrix_rate_float16 = file->matrix_rate_float16,
                              .matrix_rate_tf32 = file->matrix_rate_tf32,
                              .matrix_rate_fp8 = file->matrix_rate_fp8,
                              .vector_rate = file->vector_rate,
                              .memory_bandwidth = file->memory_bandwidth,
                              .matrix_efficiency = file->matrix_efficiency,
                              .vector_efficiency = file->vector_efficiency,
                              .bandwidth_efficiency = file->bandwidth_efficiency,
                              .launch = file->launch,
                              .host = file->host,
                              .attention_efficiency = file->attention_efficiency,
                              .attention_passes = file->attention_passes,
                              .spread = file->spread,
                              .unaligned_efficiency = file->unaligned_efficiency,
                              .all_reduce = file->all_reduce,
                              .half_depth = file->half_depth,
                              .scatter_efficiency = file->scatter_efficiency,
                              .processors = file->processors,
                              .accumulates = file->accumulates};
}

/* Sections of a file; 0: there are none. */
static int CountSections(const MachineFile file[])
{
  int kinds = 0;
  while (kinds < RENGA_MACHINE_KINDS_MOST && file[kinds + 1].kind) kinds++;
  return kinds;
}

static RengaErrorCode CheckSections(RengaMachine machine, const char *path, int kinds,
                                    const MachineFile file[])
{
  bool alike = true;
  for (int k = 1; k <= kinds; k++) {
    alike = alike && file[k].devices == file[1].devices;
    for (int other = 1; other < k; other++)
      RengaCheck(strcmp(file[k].kind, file[other].kind) != 0, machine->hdr.comm,
                 RENGA_ERR_FILE_FORMAT, "%s: -kind %s is there twice", path, file[k].kind);
  }
  RengaCheck(kinds == 0 || !file->islands || !file->islands[0], machine->hdr.comm,
             RENGA_ERR_FILE_FORMAT,
             "%s: -islands %s beside -kind: give each kind its -nodes and -devices instead", path,
             file->islands);
  RengaCheck(alike || file->network.switch_nodes == 0, machine->hdr.comm, RENGA_ERR_FILE_FORMAT,
             "%s: kinds whose nodes have %lld and other numbers of -devices cannot lie under "
             "switches: leave -switch_nodes out",
             path, (long long)file[1].devices);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMachineCountKinds_Private(RengaMachine machine, const char *path, int kinds,
                                              MachineFile file[])
{
  int64_t nodes = 0, devices = 0;
  RengaCall(CheckSections(machine, path, kinds, file));
  for (int k = 1; k <= kinds; k++) {
    nodes += file[k].nodes;
    if (file[k].devices > devices) devices = file[k].devices;
  }
  RengaCheck(kinds == 0 || file->nodes == 0 || file->nodes == nodes, machine->hdr.comm,
             RENGA_ERR_FILE_FORMAT,
             "%s: the nodes of its %d kinds are %lld, and -nodes before them says %lld", path,
             kinds, (long long)nodes, (long long)file->nodes);
  if (kinds == 0) RengaFree(&file[0].kind);
  if (kinds == 0) return RENGA_SUCCESS;
  file->nodes = nodes;
  file->devices = devices;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMachineCheckWishes_Private(RengaMachine machine, const MachineFile file[],
                                               int64_t nodes, int64_t devices)
{
  const int kinds = CountSections(file);
  RengaCheck(kinds == 0 || nodes == 0 || nodes == file->nodes, machine->hdr.comm,
             RENGA_ERR_ARGUMENT,
             "-machine_nodes %lld: %s has %lld nodes of %d kinds: say in its file how many there "
             "are of each",
             (long long)nodes, file->name, (long long)file->nodes, kinds);
  for (int k = kinds ? 1 : 0; k <= kinds; k++)
    RengaCheck(devices <= file[k].devices, machine->hdr.comm, RENGA_ERR_ARGUMENT,
               "-machine_devices %lld: a node of %s%s%s has %lld", (long long)devices, file->name,
               kinds ? ", kind " : "", kinds ? file[k].kind : "", (long long)file[k].devices);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckKinds(RengaMachine machine, int count,
                                 const RengaMachineDevice devices[], const int64_t begin[])
{
  const int64_t all = machine->level[machine->n_levels - 1].devices;
  RengaCheck(count >= 1 && count <= RENGA_MACHINE_KINDS_MOST, machine->hdr.comm, RENGA_ERR_ARGUMENT,
             "%d kinds of devices: 1 to %d", count, RENGA_MACHINE_KINDS_MOST);
  RengaCheck(begin[0] == 0 && begin[count] == all, machine->hdr.comm, RENGA_ERR_ARGUMENT,
             "kinds are of devices %lld to before %lld, and the machine has %lld",
             (long long)begin[0], (long long)begin[count], (long long)all);
  for (int k = 0; k < count; k++) {
    int64_t local = 0;
    RengaCall(RengaMachineCheckDevice_Private(machine, &devices[k]));
    if (k) RengaMachineNodeOf_Private(machine, begin[k], &local);
    RengaCheck(begin[k + 1] > begin[k] && local == 0, machine->hdr.comm, RENGA_ERR_ARGUMENT,
               "kind %d begins with device %lld and ends before %lld: kinds have whole nodes", k,
               (long long)begin[k], (long long)begin[k + 1]);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaMachineSetKinds - describe devices of several kinds, instead of one

   Input:
   . machine - the machine, described, with its levels and islands
   . count - the number of kinds, from 1 to RENGA_MACHINE_KINDS_MOST
   . devices - [count], copied, their names too
   . begin - [count + 1] the first device of each kind, ascending from 0, then all: whole nodes

   Errors: RENGA_ERR_ORDER where the machine is not described yet; RENGA_ERR_ARGUMENT for kinds that
   have no whole nodes, do not end with the last device, or whose rates are not positive.

   Notes: messages and sums go over the links of all. After RengaMachineSetDevice() or
   RengaMachineSetLevels() all devices are alike.

   See also: RengaMachineGetKinds(), RengaMachineSetDevice()
@*/
RengaErrorCode RengaMachineSetKinds(RengaMachine machine, int count,
                                    const RengaMachineDevice devices[], const int64_t begin[])
{
  char *names[RENGA_MACHINE_KINDS_MOST] = {NULL};
  RengaMachineDevice *kinds = NULL;
  RengaCheckPointers(machine, devices, begin);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  RengaCall(CheckKinds(machine, count, devices, begin));
  RengaErrorCode code = RengaMalloc(count, &kinds);
  for (int k = 0; k < count && !code; k++) {
    code = RengaStringCopy(devices[k].name ? devices[k].name : "device", &names[k]);
    kinds[k] = devices[k];
    kinds[k].name = names[k];
    if (machine->memory > 0) kinds[k].memory = machine->memory;
  }
  for (int k = 0; k < count && code; k++) RengaFree(&names[k]);
  if (code) RengaFree(&kinds);
  RengaCall(code);
  RengaMachineFreeKinds_Private(machine);
  machine->n_kinds = count;
  machine->kind = kinds;
  memcpy(machine->kind_name, names, sizeof names);
  memmove(machine->kind_begin, begin, (size_t)(count + 1) * sizeof *begin); /* may be lent */
  machine->device = kinds[0];
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetKinds - which devices are of which kind

   Input:
   . machine - the machine, described

   Output:
   . count - the number of kinds, at least 1
   . devices - [count], what a device of each can do
   . begin - [count + 1] the first device of each kind, then all; lent by the machine, as devices

   Errors: RENGA_ERR_ORDER where the machine is not described yet.

   See also: RengaMachineSetKinds(), RengaMachineGetDevice()
@*/
RengaErrorCode RengaMachineGetKinds(RengaMachine machine, int *count,
                                    const RengaMachineDevice **devices, const int64_t **begin)
{
  RengaCheckPointers(machine, count, devices, begin);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  const bool several = machine->n_kinds > 0;
  if (!several) machine->kind_begin[1] = machine->level[machine->n_levels - 1].devices;
  *count = several ? machine->n_kinds : 1;
  *devices = several ? machine->kind : &machine->device;
  *begin = machine->kind_begin;
  return RENGA_SUCCESS;
}

/* Devices of a node of the kind. */
static int64_t DevicesOfNode(RengaMachine machine, int kind)
{
  return machine->devices > 0 ? machine->devices : machine->file[kind + 1].devices;
}

/* Nodes of unequal numbers of devices, where kinds have such. */
static RengaErrorCode BuildNodes(RengaMachine machine, int kinds)
{
  const int64_t nodes = machine->file->nodes;
  int64_t *begin = NULL;
  bool alike = true;
  for (int k = 1; k < kinds; k++)
    alike = alike && DevicesOfNode(machine, k) == DevicesOfNode(machine, 0);
  if (alike || nodes < 2) return RENGA_SUCCESS;
  RengaCheck(nodes < INT32_MAX, machine->hdr.comm, RENGA_ERR_SUPPORT,
             "%lld nodes with unequal numbers of devices", (long long)nodes);
  RengaCall(RengaMalloc(nodes + 1, &begin));
  for (int64_t k = 0, n = 0; k < kinds; k++)
    for (int64_t i = 0; i < machine->file[k + 1].nodes; i++, n++)
      begin[n + 1] = begin[n] + DevicesOfNode(machine, (int)k);
  const RengaErrorCode code = RengaMachineSetIslands(machine, (int)nodes, begin);
  RengaFree(&begin);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMachineBuildKinds_Private(RengaMachine machine)
{
  const int kinds = CountSections(machine->file);
  RengaMachineDevice devices[RENGA_MACHINE_KINDS_MOST];
  int64_t begin[RENGA_MACHINE_KINDS_MOST + 1] = {0};
  RengaMachineFreeKinds_Private(machine);
  if (kinds == 0) return RENGA_SUCCESS;
  RengaCall(BuildNodes(machine, kinds));
  for (int k = 0; k < kinds; k++) {
    const MachineFile *file = &machine->file[k + 1];
    devices[k] = RengaMachineDeviceOf_Private(machine, file);
    devices[k].name = file->kind;
    begin[k + 1] = begin[k] + file->nodes * DevicesOfNode(machine, k);
  }
  RengaCall(RengaMachineSetKinds(machine, kinds, devices, begin));
  return RENGA_SUCCESS;
}
