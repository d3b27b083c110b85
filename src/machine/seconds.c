/* What messages and sums cost on a machine. */
#include "machineimpl.h"
#include "renga/private/links.h"
#include <math.h>

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

/* Devices of a sum: the first of each replica, of `each` devices, that lie side by side. */
typedef struct {
  int64_t replicas, each;
} Spaced;

/* How many of them share a group of `level`. The widest level is needed, so that no group below it
   holds all of them. */
static int64_t InGroup(RengaMachine machine, int level, int widest, const Spaced *spaced)
{
  const int64_t replicas = spaced->replicas;
  if (level >= widest) return replicas;
  if (level < 0) return 1;
  const int64_t group = (machine->level[level].devices + spaced->each - 1) / spaced->each;
  int64_t groups = (replicas + group - 1) / group;
  if (groups < 2) groups = 2;
  return (replicas + groups - 1) / groups;
}

/* Of the pieces for the others those for peers within a level go over its links; nested, one piece
   for each other group, which its devices pass on. */
double RengaMachineExchangeSeconds_Private(RengaMachine machine, int level, int64_t ranks,
                                           int64_t each, double bytes)
{
  double seconds = 0;
  const Spaced group = {ranks, each};
  for (int l = 0; l <= level && ranks > 1; l++) {
    const double own = (double)InGroup(machine, l, level, &group);
    const double below = (double)InGroup(machine, l - 1, level, &group);
    const double nested = (double)ranks / own * (own / below - 1);
    const double pieces = machine->level[level].nested ? nested : own - below;
    seconds += bytes * pieces / (double)(ranks - 1) / machine->level[l].bandwidth;
  }
  return (1 - machine->level[level].exchange_hidden) * seconds;
}

static double AddSeconds(const RengaMachineDevice *device, double bytes)
{
  return 3 * bytes / (device->memory_bandwidth * device->bandwidth_efficiency);
}

/* Each level sums what the one below has left: a device of n in a group sends each other one a
   piece, and goes on with the sum of its own, so that a node sends a sum once, by all its devices.
   On the way back the sums are gathered. */
static double NestedSum(RengaMachine machine, int level, const Spaced *spaced, double bytes)
{
  double seconds = 0;
  for (int l = 0; l <= level; l++) {
    const RengaMachineLevel *link = &machine->level[l];
    const double bandwidth = link->reduce_bandwidth > 0 ? link->reduce_bandwidth : link->bandwidth;
    const double below = (double)InGroup(machine, l - 1, level, spaced);
    const double groups = ceil((double)InGroup(machine, l, level, spaced) / below);
    const double sent = bytes * (groups - 1) / groups;
    if (groups > 1)
      seconds += 2 * (link->latency * (groups - 1) + sent / bandwidth) +
                 AddSeconds(&machine->device, sent);
    bytes /= groups;
  }
  return seconds;
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
   that of RengaCommSumBegin(); or, where the level is nested, within each group of the
   level below first, as libraries of the vendors do. Of what the level says is hidden nothing is
   counted. Replicas are taken to fill groups of the lower levels evenly. The additions are a matter
   of memory bandwidth.

   See also: RengaMachineMessageSeconds(), RengaMachineLevelOf()
@*/
double RengaMachineReduceSeconds(RengaMachine machine, int level, int64_t replicas, double bytes)
{
  RengaCheckHandle(machine, 0);
  return RengaMachineSumSeconds_Private(machine, level, replicas, 1, bytes);
}

double RengaMachineSumSeconds_Private(RengaMachine machine, int level, int64_t replicas,
                                      int64_t each, double bytes)
{
  if (replicas <= 1) return 0;
  const Spaced all = {replicas, each}, *spaced = &all;
  const RengaMachineLevel *widest = &machine->level[level];
  const double shown = 1 - widest->reduce_hidden;
  if (widest->nested && level > 0) return shown * NestedSum(machine, level, spaced, bytes);
  const double piece = bytes / (double)replicas;
  double exchange = 0;
  for (int l = 0; l <= level; l++) {
    const double peers =
        (double)(InGroup(machine, l, level, spaced) - InGroup(machine, l - 1, level, spaced));
    const RengaMachineLevel *link = &machine->level[l];
    const double bandwidth = link->reduce_bandwidth > 0 ? link->reduce_bandwidth : link->bandwidth;
    exchange += peers * (link->latency + piece / bandwidth);
  }
  const double add = AddSeconds(&machine->device, piece * (double)(replicas - 1));
  return shown * (2 * exchange + add);
}
