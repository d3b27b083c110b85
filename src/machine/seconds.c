/* What messages and sums cost on a machine. */
#include "machineimpl.h"
#include "renga/private/links.h"
#include <math.h>

/*@
   RengaMachineLevelOf - the lowest level whose group holds both ranks

   Input:
   . machine - the machine, described
   . rank, other - ranks from 0, numbered node after node

   Notes: 0 where they share a node; the highest level where no group holds both.

   See also: RengaMachineMessageSeconds(), RengaMachineGetLevels()
@*/
int RengaMachineLevelOf(RengaMachine machine, int64_t rank, int64_t other)
{
  RengaCheckHandle(machine, -1);
  int level = 0;
  if (RengaMachineNodeOf_Private(machine, rank, NULL) ==
      RengaMachineNodeOf_Private(machine, other, NULL))
    return 0;
  if (machine->n_levels > 1) level = 1;
  while (level < machine->n_levels - 1 &&
         rank / machine->level[level].devices != other / machine->level[level].devices)
    level++;
  return level;
}

/*@
   RengaMachineMessageSeconds - seconds of one message

   Input:
   . machine - the machine, described
   . level - the number of the link's level, from 0, the lowest
   . bytes - bytes of the message, at least 0

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

/* By the fastest kind of devices: a sum takes no less. */
static double AddSeconds(RengaMachine machine, double bytes)
{
  double rate = machine->device.memory_bandwidth * machine->device.bandwidth_efficiency;
  for (int k = 0; k < machine->n_kinds; k++)
    rate = fmax(rate, machine->kind[k].memory_bandwidth * machine->kind[k].bandwidth_efficiency);
  return 3 * bytes / rate;
}

/* Half of a sum: each device of a node gives the others of the node a part of its vector, then one
   of each other node a part of what the node has. */
static double HalfSeconds(RengaMachine machine, int level, const Spaced *spaced, double bytes,
                          const RengaSumPieces *pieces)
{
  const double own = (double)InGroup(machine, 0, level, spaced);
  const double nodes = ceil((double)spaced->replicas / own);
  double seconds = 0, before = 1;
  for (int l = 0; l <= level; l++) {
    const RengaMachineLevel *link = &machine->level[l];
    const double bandwidth = link->reduce_bandwidth > 0 ? link->reduce_bandwidth : link->bandwidth;
    const double now = ceil((double)InGroup(machine, l, level, spaced) / own);
    const double peers = l == 0 ? own - 1 : now - before;
    const double part = l == 0 ? pieces->rank * bytes / own : pieces->node * bytes / own / nodes;
    seconds += peers * (link->latency + part / bandwidth);
    before = now;
  }
  return seconds;
}

/*@
   RengaMachineReduceSeconds - seconds to sum a vector over replicas

   Input:
   . machine - the machine, described
   . level - the number of the widest level whose links are needed, from 0
   . replicas - the number of devices that hold a part of the sum, at least 1
   . bytes - bytes of the vector, at least 0

   Notes: a reduce-scatter and an all-gather, within nodes first, then of each device with one of
   each other node. Of what the level says is hidden nothing is
   counted. Replicas are taken to fill groups of the lower levels evenly. The additions are a matter
   of memory bandwidth.

   See also: RengaMachineMessageSeconds(), RengaMachineLevelOf()
@*/
double RengaMachineReduceSeconds(RengaMachine machine, int level, int64_t replicas, double bytes)
{
  const RengaSumPieces one = {1, 1};
  RengaCheckHandle(machine, 0);
  return RengaMachineSumSeconds_Private(machine, level, replicas, 1, bytes, &one);
}

double RengaMachineSumSeconds_Private(RengaMachine machine, int level, int64_t replicas,
                                      int64_t each, double bytes, const RengaSumPieces *pieces)
{
  static const RengaSumPieces one = {1, 1}; /* of the sum, on the way back */
  const Spaced spaced = {replicas, each};
  if (replicas <= 1) return 0;
  const double own = (double)InGroup(machine, 0, level, &spaced), all = (double)replicas;
  const double added =
      pieces->rank * bytes * (1 - 1 / own) + pieces->node * bytes * (1 / own - 1 / all);
  return (1 - machine->level[level].reduce_hidden) *
         (HalfSeconds(machine, level, &spaced, bytes, pieces) +
          HalfSeconds(machine, level, &spaced, bytes, &one) + AddSeconds(machine, added));
}

void RengaMachineSumBytes_Private(RengaMachine machine, int level, int64_t replicas, int64_t each,
                                  double bytes, double between[])
{
  const Spaced spaced = {replicas, each};
  const double own = (double)InGroup(machine, 0, level, &spaced);
  const double nodes = ceil((double)replicas / own);
  double before = 1;
  between[0] = 0;
  for (int l = 1; l <= level; l++) {
    const double now = ceil((double)InGroup(machine, l, level, &spaced) / own);
    between[l] =
        (1 - machine->level[level].reduce_hidden) * 2 * (now - before) * bytes / own / nodes;
    before = now;
  }
}

int64_t RengaMachineNodeReplicas_Private(RengaMachine machine, int level, int64_t replicas,
                                         int64_t each)
{
  const Spaced spaced = {replicas, each};
  return InGroup(machine, 0, level, &spaced);
}
