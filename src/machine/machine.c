/* The machine: life, options, what it consists of. */
#include "machineimpl.h"
#include "renga/private/links.h"
#include "renga/private/packages.h"
#include <stdlib.h>
#include <string.h>

static const RengaOptionRow rows[] = {
    {"machine_file", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "machine to plan for: a name of share/renga/machines, or FILE.opts"},
    {"machine_nodes", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "nodes of the machine: a number, or several to compare: 4,8,16"},
    {"machine_devices", RENGA_OPTION_INT64, NULL, RENGA_OPTION_NO_OFFSET, NULL, 1, 1e5,
     "devices per node to plan for; without it those of the file"},
    {"machine_memory", RENGA_OPTION_BYTES, "0", RENGA_OPTION_NO_OFFSET, NULL, 0, 1e18,
     "memory of each device of the machine; 0: the file's"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

RengaErrorCode RengaMachineRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Machine", N_ROWS, rows));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyMachine(void *object)
{
  RengaMachine machine = object;
  if (machine->file) RengaCall(RengaMachineFreeFile_Private(machine));
  RengaFree(&machine->file);
  RengaFree(&machine->device_name);
  RengaFree(&machine->island);
  RengaMachineFreeKinds_Private(machine);
  for (int l = 0; l < MACHINE_LEVELS; l++) RengaFree(&machine->name[l]);
  return RENGA_SUCCESS;
}

/*@
   RengaMachineCreate - a machine that is not described yet

   Collective

   Input:
   . comm - the processes that plan

   Output:
   . machine - the new machine; RengaMachineDestroy() frees it

   Notes: describe it with RengaMachineLoad() or -machine_file, or with RengaMachineSetDevice() and
   RengaMachineSetLevels(). Nothing but loading is collective.

   See also: RengaMachineLoad(), RengaMachineDestroy()
@*/
RengaErrorCode RengaMachineCreate(RengaComm comm, RengaMachine *machine)
{
  RengaCheckPointers(comm, machine);
  RengaMachine made;
  RengaCall(RengaHeaderCreate(comm, "RengaMachine", sizeof *made, DestroyMachine, &made));
  const RengaErrorCode code = RengaMalloc(1 + RENGA_MACHINE_KINDS_MOST, &made->file);
  if (code) RengaMachineDestroy(&made);
  RengaCall(code);
  *machine = made;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineSetNodes - plan for another number of nodes than the file has

   Input:
   . nodes - 1 or more; 0: the file's

   Options:
   . -machine_nodes - the number

   Errors: RENGA_ERR_ARGUMENT for a negative number; RENGA_ERR_ORDER where the levels were not
   read from a file.

   See also: RengaMachineGetNodes(), RengaMachineLoad()
@*/
RengaErrorCode RengaMachineSetNodes(RengaMachine machine, int64_t nodes)
{
  RengaCheckPointer(machine);
  RengaCheck(nodes >= 0 && nodes <= 100000000, machine->hdr.comm, RENGA_ERR_ARGUMENT,
             "a machine of %lld nodes", (long long)nodes);
  RengaCheck(machine->hdr.state < RENGA_STATE_SETUP || machine->file->name, machine->hdr.comm,
             RENGA_ERR_ORDER,
             "this machine's nodes were not read from a file: its levels say "
             "how many there are");
  if (machine->file->name)
    RengaCall(RengaMachineCheckWishes_Private(machine, machine->file, nodes, machine->devices));
  machine->nodes = nodes;
  if (machine->file->name) RengaCall(RengaMachineBuild_Private(machine));
  return RENGA_SUCCESS;
}

/*@
   RengaMachineSetDevicesPerNode - plan for nodes with fewer devices than the file has

   Input:
   . devices - devices of each node, at least 1; 0: the file's

   Options:
   . -machine_devices - the number, 1 or more

   Errors: RENGA_ERR_ARGUMENT for a negative number, and for more than the file has, which
   RengaMachineLoad() says where it is called later; RENGA_ERR_ORDER where the levels were not read
   from a file.

   Notes: latencies and bandwidths are of a device and stay the file's, those between nodes too: no
   device gets the part of an adapter that those left out would have used.

   See also: RengaMachineGetDevicesPerNode(), RengaMachineSetNodes()
@*/
RengaErrorCode RengaMachineSetDevicesPerNode(RengaMachine machine, int64_t devices)
{
  RengaCheckPointer(machine);
  RengaCheck(devices >= 0, machine->hdr.comm, RENGA_ERR_ARGUMENT, "nodes of %lld devices",
             (long long)devices);
  RengaCheck(machine->hdr.state < RENGA_STATE_SETUP || machine->file->name, machine->hdr.comm,
             RENGA_ERR_ORDER,
             "this machine's nodes were not read from a file: its levels say "
             "how many devices they have");
  if (machine->file->name)
    RengaCall(RengaMachineCheckWishes_Private(machine, machine->file, machine->nodes, devices));
  machine->devices = devices;
  if (machine->file->name) RengaCall(RengaMachineBuild_Private(machine));
  return RENGA_SUCCESS;
}

/*@
   RengaMachineSetMemory - plan for another memory than the file has

   Input:
   . bytes - bytes of each device, at least 1; 0: the file's

   Options:
   . -machine_memory - the same

   Errors: RENGA_ERR_ARGUMENT for a negative number.
@*/
RengaErrorCode RengaMachineSetMemory(RengaMachine machine, int64_t bytes)
{
  RengaCheckPointer(machine);
  RengaCheck(bytes >= 0, machine->hdr.comm, RENGA_ERR_ARGUMENT, "devices with %lld bytes of memory",
             (long long)bytes);
  machine->memory = bytes;
  if (machine->file->name)
    RengaCall(RengaMachineBuild_Private(machine));
  else if (bytes > 0)
    machine->device.memory = bytes;
  for (int k = 0; k < machine->n_kinds && bytes > 0; k++) machine->kind[k].memory = bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMachineGetMemory(RengaMachine machine, int64_t *bytes)
{
  RengaCheckPointers(machine, bytes);
  *bytes = machine->memory;
  return RENGA_SUCCESS;
}

/* "4,8,16" */
static RengaErrorCode ReadCounts(RengaMachine machine, const char *text)
{
  machine->n_counts = 0;
  for (const char *at = text; *at;) {
    char *end;
    long long nodes = strtoll(at, &end, 10);
    RengaCheck(end != at && (*end == ',' || *end == 0) && nodes > 0 && nodes <= 100000000,
               machine->hdr.comm, RENGA_ERR_OPTION,
               "-machine_nodes %s: write a number of nodes, or several: 4,8,16", text);
    RengaCheck(machine->n_counts < MACHINE_NODE_COUNTS, machine->hdr.comm, RENGA_ERR_OPTION,
               "-machine_nodes %s: more than %d numbers", text, MACHINE_NODE_COUNTS);
    machine->counts[machine->n_counts++] = nodes;
    at = end + (*end == ',');
  }
  RengaCheck(machine->n_counts > 0, machine->hdr.comm, RENGA_ERR_OPTION,
             "-machine_nodes is empty: write a number of nodes");
  RengaCall(RengaMachineSetNodes(machine, machine->counts[0]));
  return RENGA_SUCCESS;
}

/*@
   RengaMachineSetFromOptions - take the options

   Collective

   Options:
   . -machine_file NAME - a machine file to load
   . -machine_nodes N - nodes to plan for; of several, N,M,…, the first is taken here
   . -machine_devices N - of each node
   . -machine_memory BYTES - of each device

   Errors: RENGA_ERR_OPTION for a bad value; of -machine_file, what RengaMachineLoad says.

   See also: RengaMachineLoad(), RengaMachineGetNodeCounts()
@*/
RengaErrorCode RengaMachineSetFromOptions(RengaMachine machine)
{
  const char *text;
  int64_t memory, devices;
  bool given = false;
  RengaCheckPointer(machine);
  RengaCall(RengaOptionsGetInt64("machine_memory", &memory, &given));
  if (given) RengaCall(RengaMachineSetMemory(machine, memory));
  RengaCall(RengaOptionsGetInt64("machine_devices", &devices, &given));
  if (given) RengaCall(RengaMachineSetDevicesPerNode(machine, devices));
  RengaCall(RengaOptionsGetString("machine_nodes", &text, &given));
  if (given) RengaCall(ReadCounts(machine, text));
  RengaCall(RengaOptionsGetString("machine_file", &text, &given));
  if (given) RengaCall(RengaMachineLoad(machine, text));
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetNodeCounts - the numbers of nodes that -machine_nodes compares

   Input:
   . machine - after RengaMachineSetFromOptions()

   Output:
   . count - 0 where the option was not given
   . nodes - the numbers of nodes, each at least 1, lent by the machine

   See also: RengaMachineSetFromOptions(), RengaMachineSetNodes()
@*/
RengaErrorCode RengaMachineGetNodeCounts(RengaMachine machine, int *count, const int64_t **nodes)
{
  RengaCheckPointers(machine, count, nodes);
  *count = machine->n_counts;
  *nodes = machine->counts;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineSetDevice - describe the device in the program instead of a file

   Input:
   . device - copied, its name too

   Errors: RENGA_ERR_ARGUMENT for memory, rates or efficiencies that are not positive.

   See also: RengaMachineGetDevice(), RengaMachineSetLevels()
@*/
RengaErrorCode RengaMachineSetDevice(RengaMachine machine, const RengaMachineDevice *device)
{
  char *name = NULL;
  RengaCheckPointers(machine, device);
  RengaCall(RengaMachineCheckDevice_Private(machine, device));
  RengaCall(RengaStringCopy(device->name ? device->name : "device", &name));
  RengaCall(RengaMachineFreeFile_Private(machine));
  RengaMachineFreeKinds_Private(machine);
  RengaFree(&machine->device_name);
  machine->device = *device;
  machine->device.name = machine->device_name = name;
  if (machine->memory > 0) machine->device.memory = machine->memory;
  if (machine->n_levels > 0) machine->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineSetLevels - describe the links in the program instead of a file

   Input:
   . count - the number of levels, 1 … 3
   . levels - [count], the lowest first: a node, then groups of nodes. Each is a multiple of the one
     below; only the last may end with a part of a group. Copied

   Errors: RENGA_ERR_ARGUMENT for no level or too many, or a level that is not made of groups of
   the one below.

   See also: RengaMachineGetLevels(), RengaMachineSetDevice()
@*/
RengaErrorCode RengaMachineSetLevels(RengaMachine machine, int count,
                                     const RengaMachineLevel levels[])
{
  RengaCheckPointers(machine, levels);
  RengaCheck(count >= 1 && count <= MACHINE_LEVELS, machine->hdr.comm, RENGA_ERR_ARGUMENT,
             "%d levels of a machine: 1 to %d", count, MACHINE_LEVELS);
  for (int l = 0; l < count; l++) {
    const int64_t below = l ? levels[l - 1].devices : 1;
    const int64_t whole = l + 1 < count ? below : l ? levels[0].devices : 1;
    RengaCheck(levels[l].devices >= below && levels[l].devices % whole == 0 &&
                   levels[l].latency >= 0 && levels[l].bandwidth > 0 &&
                   levels[l].reduce_hidden >= 0 && levels[l].reduce_hidden <= 1 &&
                   levels[l].exchange_hidden >= 0 && levels[l].exchange_hidden <= 1,
               machine->hdr.comm, RENGA_ERR_ARGUMENT,
               "level %d: %lld devices over groups of %lld, latency %g s, bandwidth %g bytes/s", l,
               (long long)levels[l].devices, (long long)below, levels[l].latency,
               levels[l].bandwidth);
  }
  for (int l = 0; l < MACHINE_LEVELS; l++) RengaFree(&machine->name[l]);
  for (int l = 0; l < count; l++) {
    RengaCall(RengaStringCopy(levels[l].name ? levels[l].name : "level", &machine->name[l]));
    machine->level[l] = levels[l];
    machine->level[l].name = machine->name[l];
  }
  RengaFree(&machine->island);
  machine->n_islands = 0;
  RengaMachineFreeKinds_Private(machine);
  machine->n_levels = count;
  if (machine->device.name) machine->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineSetNetwork - describe what messages between nodes share

   Input:
   . network - copied

   Errors: RENGA_ERR_ARGUMENT for cards without a bandwidth, for uplinks without cards or switches,
   and for numbers below 0.

   Notes: plans are chosen by levels alone; RengaScheduleSimulateNetwork() goes by the network.

   See also: RengaMachineGetNetwork(), RengaMachineSetLevels()
@*/
RengaErrorCode RengaMachineSetNetwork(RengaMachine machine, const RengaMachineNetwork *network)
{
  RengaCheckPointers(machine, network);
  const bool cards = network->cards == 0 || (network->cards > 0 && network->card_bandwidth > 0);
  const bool uplinks =
      network->uplink_bandwidth == 0 ||
      (network->uplink_bandwidth > 0 && network->cards > 0 && network->switch_nodes > 0);
  RengaCheck(cards && uplinks && network->switch_nodes >= 0, machine->hdr.comm, RENGA_ERR_ARGUMENT,
             "a network of %lld cards of %g bytes/s a node, %lld nodes a switch with %g bytes/s",
             (long long)network->cards, network->card_bandwidth, (long long)network->switch_nodes,
             network->uplink_bandwidth);
  machine->network = *network;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetNetwork - what messages between nodes share

   Input:
   . machine - the machine, described

   Output:
   . network - the network, lent by the machine

   Errors: RENGA_ERR_ORDER where the machine is not described yet.
@*/
RengaErrorCode RengaMachineGetNetwork(RengaMachine machine, const RengaMachineNetwork **network)
{
  RengaCheckPointers(machine, network);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  *network = &machine->network;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetName - what the machine is called

   Input:
   . machine - the machine, described

   Output:
   . name - the name, lent by the machine

   Errors: RENGA_ERR_ORDER where the machine is not described yet.

   See also: RengaMachineLoad()
@*/
RengaErrorCode RengaMachineGetName(RengaMachine machine, const char **name)
{
  RengaCheckPointers(machine, name);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  *name = machine->device_name;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetDeviceCount - devices of all nodes

   Input:
   . machine - the machine, described

   Output:
   . devices - the number of devices, at least 1

   Errors: RENGA_ERR_ORDER where the machine is not described yet.

   See also: RengaMachineGetDevicesPerNode(), RengaMachineGetNodes()
@*/
RengaErrorCode RengaMachineGetDeviceCount(RengaMachine machine, int64_t *devices)
{
  RengaCheckPointers(machine, devices);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  *devices = machine->level[machine->n_levels - 1].devices;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetDevicesPerNode - devices of one node, of the largest where they are unequal

   Input:
   . machine - the machine, described

   Output:
   . devices - the number of devices of a node, at least 1

   Errors: RENGA_ERR_ORDER where the machine is not described yet.

   See also: RengaMachineSetDevicesPerNode(), RengaMachineGetDeviceCount(), RengaMachineGetNodes()
@*/
RengaErrorCode RengaMachineGetDevicesPerNode(RengaMachine machine, int64_t *devices)
{
  RengaCheckPointers(machine, devices);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  *devices = machine->level[0].devices;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetNodes - number of nodes

   Input:
   . machine - the machine, described

   Output:
   . nodes - the number of nodes, at least 1

   Errors: RENGA_ERR_ORDER where the machine is not described yet.
@*/
RengaErrorCode RengaMachineGetNodes(RengaMachine machine, int64_t *nodes)
{
  RengaCheckPointers(machine, nodes);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  *nodes = machine->level[machine->n_levels - 1].devices / machine->level[0].devices;
  if (machine->n_islands > 0) *nodes = machine->n_islands;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetDevice - what one device can do, of the first kind where there are several

   Input:
   . machine - the machine, described

   Output:
   . device - the device, lent by the machine

   Errors: RENGA_ERR_ORDER where the machine is not described yet.

   See also: RengaMachineGetKinds()
@*/
RengaErrorCode RengaMachineGetDevice(RengaMachine machine, const RengaMachineDevice **device)
{
  RengaCheckPointers(machine, device);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  *device = &machine->device;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetLevels - the links, lowest level first

   Input:
   . machine - the machine, described

   Output:
   . count - the number of levels, from 1 to 3
   . levels - [count], the levels, lent by the machine

   Errors: RENGA_ERR_ORDER where the machine is not described yet.

   See also: RengaMachineSetLevels(), RengaMachineLevelOf()
@*/
RengaErrorCode RengaMachineGetLevels(RengaMachine machine, int *count,
                                     const RengaMachineLevel **levels)
{
  RengaCheckPointers(machine, count, levels);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  *count = machine->n_levels;
  *levels = machine->level;
  return RENGA_SUCCESS;
}

/*@
   RengaMachineDestroy - free a machine

   Collective

   Input:
   . machine - set to NULL
@*/
RengaErrorCode RengaMachineDestroy(RengaMachine *machine)
{
  RengaCheckPointer(machine);
  RengaCall(RengaHeaderDestroy(machine));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMachineCreateOfKind_Private(RengaMachine machine, int kind, RengaMachine *one)
{
  RengaMachine made = NULL;
  RengaCall(RengaMachineCreate(machine->hdr.owner, &made));
  RengaMachineLevel level[MACHINE_LEVELS];
  memcpy(level, machine->level, sizeof level);
  if (machine->n_islands > 0) level[1].devices = machine->n_islands * level[0].devices;
  RengaErrorCode code = RengaMachineSetDevice(made, &machine->kind[kind]);
  if (!code) code = RengaMachineSetLevels(made, machine->n_levels, level);
  if (!code && machine->n_islands > 0)
    code = RengaMachineSetIslands(made, machine->n_islands, machine->island);
  made->network = machine->network;
  if (code) RengaMachineDestroy(&made);
  RengaCall(code);
  *one = made;
  return RENGA_SUCCESS;
}
