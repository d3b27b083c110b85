/* Merges that can make no plan worse.

   Let u be the only direct predecessor (or successor) of v. In any plan with the two in different
   stages, v can move into u's stage: all stages stay convex. The stage of u gets v's work and the
   messages of v to others, and is rid of the messages between u and v alone; the stage of v loses
   the former's work and at worst gets as many messages. So where
       work of v + messages of v to others <= messages between u and v alone
   and v brings no memory, no weight and no work for a host that count, neither stage's load rises:
   some best plan has both in one stage. Work for a host does not count where u is too much for a
   host: a plan that has it there is not better than the one at hand. */
#include "exactimpl.h"
#include <string.h>

static bool IsMergeFree(const Instance *instance, double upper, int v, int u)
{
  const RengaCutsItem *item = &instance->item[v];
  if (item->host_only && !instance->item[u].host_only) return false;
  if (instance->hosts > 0 && item->host_work > 0 && instance->item[u].host_work < upper)
    return false;
  if (instance->capacity < HUGE_VAL && item->memory > 0) return false;
  return instance->replicas == 1 || item->weight <= 0;
}

static bool HasPin(const Instance *instance, int message, int item)
{
  for (int p = instance->pin_first[message]; p < instance->pin_first[message + 1]; p++)
    if (instance->pin[p] == item) return true;
  return false;
}

static bool MayMerge(const Instance *instance, double upper, int v, int u)
{
  double gain = -instance->item[v].work;
  if (!IsMergeFree(instance, upper, v, u)) return false;
  for (int e = instance->message_first[v]; e < instance->message_first[v + 1]; e++) {
    int m = instance->message[e];
    if (!HasPin(instance, m, u))
      gain -= instance->cost[m];
    else if (instance->pin_first[m + 1] - instance->pin_first[m] == 2)
      gain += instance->cost[m];
  }
  return gain >= 0;
}

static void TouchRow(const int first[], const int row[], int item, bool touched[])
{
  for (int e = first[item]; e < first[item + 1]; e++) touched[row[e]] = true;
}

/* All that the rule was tested with: neighbours and those in messages of the item. */
static void TouchItem(const Instance *instance, int item, bool touched[])
{
  touched[item] = true;
  TouchRow(instance->predecessor_first, instance->predecessor, item, touched);
  TouchRow(instance->successor_first, instance->successor, item, touched);
  for (int e = instance->message_first[item]; e < instance->message_first[item + 1]; e++)
    TouchRow(instance->pin_first, instance->pin, instance->message[e], touched);
}

/* One sweep of merges that do not see each other; gives how many. */
static int SweepItems(const Instance *instance, double upper, bool touched[], int into[])
{
  int merged = 0;
  for (int v = 0; v < instance->items; v++) {
    int before = instance->predecessor_first[v], after = instance->successor_first[v], u = -1;
    if (touched[v]) continue;
    if (instance->predecessor_first[v + 1] - before == 1 &&
        MayMerge(instance, upper, v, instance->predecessor[before]))
      u = instance->predecessor[before];
    else if (instance->successor_first[v + 1] - after == 1 &&
             MayMerge(instance, upper, v, instance->successor[after]))
      u = instance->successor[after];
    if (u < 0 || touched[u]) continue;
    into[v] = u;
    merged++;
    TouchItem(instance, v, touched);
    TouchItem(instance, u, touched);
  }
  return merged;
}

static RengaErrorCode SweepOnce(const RengaCutsProblem *problem, double upper, int map[],
                                Instance *instance, int *merged)
{
  bool *touched = NULL;
  int *into = NULL;
  RengaCall(InstanceCreate(problem, map, instance));
  RengaErrorCode code = RengaMalloc(instance->items + 1, &touched);
  if (!code) code = RengaMalloc(instance->items + 1, &into);
  if (!code) {
    for (int v = 0; v < instance->items; v++) into[v] = v;
    *merged = SweepItems(instance, upper, touched, into);
    InstanceNumber(instance->items, into);
    for (int v = 0; v < problem->items; v++) map[v] = into[map[v]];
  }
  RengaFree(&touched);
  RengaFree(&into);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode ReduceItems(const RengaCutsProblem *problem, double upper, int map[])
{
  int merged = 1;
  while (merged > 0) {
    Instance instance = {0};
    RengaErrorCode code = SweepOnce(problem, upper, map, &instance, &merged);
    InstanceFree(&instance);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}
