/* Nodes with unequal numbers of devices. */
#include "machineimpl.h"
#include "renga/private/links.h"
#include <stdlib.h>

/*@
   RengaMachineSetIslands - describe nodes that have unequal numbers of devices

   Input:
   . machine - the machine, of two levels: nodes, and all of them
   . count - the number of nodes, at least 1; 0: nodes have as many devices as level 0
   . begin - [count + 1] the first device of each node, ascending from 0, then all; copied

   Errors: RENGA_ERR_ORDER where the machine is not described yet; RENGA_ERR_ARGUMENT for nodes
   without devices, for machines of other levels, and where the largest node is not level 0.

   Notes: the highest level has all devices then. Planners put what talks most into a node.

   See also: RengaMachineGetIslands(), RengaMachineSetLevels(), RengaMachineLevelOf()
@*/
RengaErrorCode RengaMachineSetIslands(RengaMachine machine, int count, const int64_t begin[])
{
  int64_t most = 0, *copy = NULL;
  RengaCheckPointer(machine);
  RengaCheckState(machine, RENGA_STATE_SETUP, "RengaMachineLoad or give -machine_file");
  RengaCheck(count == 0 || (count > 0 && machine->n_levels == 2 && begin && begin[0] == 0),
             machine->hdr.comm, RENGA_ERR_ARGUMENT,
             "%d unequal nodes of a machine of %d levels, not of 2", count, machine->n_levels);
  for (int n = 0; n < count; n++) {
    const int64_t devices = begin[n + 1] - begin[n];
    RengaCheck(devices >= 1, machine->hdr.comm, RENGA_ERR_ARGUMENT, "node %d has %lld devices", n,
               (long long)devices);
    if (devices > most) most = devices;
  }
  RengaCheck(count == 0 || most == machine->level[0].devices, machine->hdr.comm, RENGA_ERR_ARGUMENT,
             "-islands: the largest node has %lld devices, and -devices says %lld: they must be "
             "one number",
             (long long)most, (long long)machine->level[0].devices);
  if (count > 0) RengaCall(RengaMalloc(count + 1, &copy));
  for (int n = 0; n <= count && copy; n++) copy[n] = begin[n];
  RengaFree(&machine->island);
  machine->island = copy;
  machine->n_islands = count;
  if (count > 0) machine->level[1].devices = begin[count];
  return RENGA_SUCCESS;
}

/*@
   RengaMachineGetIslands - where nodes with unequal numbers of devices begin

   Output:
   . count - the number of nodes; 0: they have as many devices as level 0
   . begin - [count + 1] the first device of each node, from 0, lent by the machine; NULL: equal
@*/
RengaErrorCode RengaMachineGetIslands(RengaMachine machine, int *count, const int64_t **begin)
{
  RengaCheckPointers(machine, count, begin);
  *count = machine->n_islands;
  *begin = machine->island;
  return RENGA_SUCCESS;
}

int64_t RengaMachineNodeOf_Private(RengaMachine machine, int64_t device, int64_t *local)
{
  const int64_t each = machine->level[0].devices;
  int64_t node = device / each, first = node * each;
  if (machine->n_islands > 0) {
    for (node = 0; node + 1 < machine->n_islands && machine->island[node + 1] <= device;) node++;
    first = machine->island[node];
  }
  if (local) *local = device - first;
  return node;
}

/* "4,2,2", of a machine file. */
RengaErrorCode RengaMachineReadIslands_Private(RengaMachine machine, const char *text)
{
  enum { ISLANDS_MOST = 4096, DEVICES_MOST = 1000000 };
  int64_t begin[ISLANDS_MOST + 1] = {0};
  int count = 0;
  if (!text || !text[0] || machine->nodes > 0 || machine->devices > 0) return RENGA_SUCCESS;
  for (const char *at = text; *at;) {
    char *end;
    const long long number = strtoll(at, &end, 10);
    RengaCheck(end != at && count < ISLANDS_MOST && number > 0 && number <= DEVICES_MOST &&
                   (*end == ',' || !*end),
               machine->hdr.comm, RENGA_ERR_FILE_FORMAT,
               "-islands %s: numbers of devices are expected, as 4,2,2", text);
    begin[count + 1] = begin[count] + number;
    count++;
    at = end + (*end == ',');
  }
  RengaCheck(count == machine->file->nodes, machine->hdr.comm, RENGA_ERR_FILE_FORMAT,
             "-islands %s are %d nodes, and -nodes says %lld", text, count,
             (long long)machine->file->nodes);
  if (count > 1) RengaCall(RengaMachineSetIslands(machine, count, begin));
  return RENGA_SUCCESS;
}
