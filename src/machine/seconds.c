/* What messages and sums cost on a machine. */
#include "machineimpl.h"

/*@
   RengaMachineLevelOf - the lowest level whose group holds both ranks

   Not collective

   Input:
   . machine - the machine, described
   . rank, other - numbered node after node

   Errors: a null handle, which the error handler is told.

   Notes: 0 where they share a node; the highest level where no group holds both.

   See also: RengaMachineMessageSeconds(), RengaMachineGetLevels()
@*/
int RengaMachineLevelOf(RengaMachine machine, int64_t rank, int64_t other)
{
  RengaCheckHandle(machine, -1);
  int level = 0;
  while (level < machine->n_levels - 1 &&
         rank / machine->level[level].devices != other / machine->level[level].devices)
    level++;
  return level;
}

/*@
   RengaMachineMessageSeconds - seconds of one message

   Not collective

   Input:
   . machine - the machine, described
   . level - of the link
   . bytes - of the message

   Errors: a null handle, which the error handler is told.

   See also: RengaMachineReduceSeconds(), RengaMachineLevelOf()
@*/
double RengaMachineMessageSeconds(RengaMachine machine, int level, double bytes)
{
  RengaCheckHandle(machine, 0);
  const RengaMachineLevel *link = &machine->level[level];
  return link->latency + bytes / link->bandwidth;
}

/* Of `replicas` devices placed side by side, how many share a group of `level`. The widest level
   is needed, so that no group below it holds all of them. */
static int64_t InGroup(RengaMachine machine, int level, int widest, int64_t replicas)
{
  if (level >= widest) return replicas;
  if (level < 0) return 1;
  const int64_t group = machine->level[level].devices;
  int64_t groups = (replicas + group - 1) / group;
  if (groups < 2) groups = 2;
  return (replicas + groups - 1) / groups;
}

/*@
   RengaMachineReduceSeconds - seconds to sum a vector over replicas

   Not collective

   Input:
   . machine - the machine, described
   . level - the widest whose links are needed
   . replicas - devices that hold a part of the sum
   . bytes - of the vector

   Errors: a null handle, which the error handler is told.

   Notes: a reduce-scatter and an all-gather, each device exchanging one piece with each other one:
   that of RengaCommSumBegin(). Replicas are taken to fill groups of the lower levels evenly. The
   additions are a matter of memory bandwidth.

   See also: RengaMachineMessageSeconds(), RengaMachineLevelOf()
@*/
double RengaMachineReduceSeconds(RengaMachine machine, int level, int64_t replicas, double bytes)
{
  RengaCheckHandle(machine, 0);
  if (replicas <= 1) return 0;
  const double piece = bytes / (double)replicas;
  const RengaMachineDevice *device = &machine->device;
  double exchange = 0;
  for (int l = 0; l <= level; l++) {
    const double peers =
        (double)(InGroup(machine, l, level, replicas) - InGroup(machine, l - 1, level, replicas));
    const RengaMachineLevel *link = &machine->level[l];
    const double bandwidth = link->reduce_bandwidth > 0 ? link->reduce_bandwidth : link->bandwidth;
    exchange += peers * (link->latency + piece / bandwidth);
  }
  const double add = 3 * piece * (double)(replicas - 1) /
                     (device->memory_bandwidth * device->bandwidth_efficiency);
  return 2 * exchange + add;
}
