/* A bound from single items: the least load of any set of items, convex or not, that holds a given
   one. That is a smallest cut of a network: each item drains its work, each message joins its pins
   by a gate as wide as its cost, so that a set pays for the messages that leave it. Any flow from
   the item is a bound, so the search may stop early.
   (Flow by shortest augmenting paths, Edmonds and Karp, JACM 1972.) */
#include "exactimpl.h"
#include <string.h>

static const int64_t most_steps = 3000000;

/* Vertices: items, then an entry and an exit per message, then the drain. The reverse of arc a is
   a^1. */
typedef struct {
  int vertices, drain, arcs;
  int *first, *next, *head;
  double *left; /* what an arc still takes */
  int *through, *queue;
  int64_t steps;
} Network;

static void AddAloneArc(Network *network, int from, int to, double room)
{
  const int end[2] = {from, to};
  for (int side = 0; side < 2; side++) {
    int arc = network->arcs++;
    network->head[arc] = end[1 - side];
    network->left[arc] = side == 0 ? room : 0;
    network->next[arc] = network->first[end[side]];
    network->first[end[side]] = arc;
  }
}

static void FillNetwork(const Instance *instance, Network *network)
{
  network->arcs = 0;
  for (int v = 0; v < network->vertices; v++) network->first[v] = -1;
  for (int v = 0; v < instance->items; v++)
    AddAloneArc(network, v, network->drain, instance->item[v].work);
  for (int m = 0; m < instance->messages; m++) {
    int entry = instance->items + 2 * m, exit = entry + 1;
    AddAloneArc(network, entry, exit, instance->cost[m]);
    for (int p = instance->pin_first[m]; p < instance->pin_first[m + 1]; p++) {
      AddAloneArc(network, instance->pin[p], entry, HUGE_VAL);
      AddAloneArc(network, exit, instance->pin[p], HUGE_VAL);
    }
  }
}

/* Shortest way from the item to the drain; false: none. through[v] is the arc that leads to v. */
static bool FindWay(Network *network, int item)
{
  int head = 0, tail = 0;
  for (int v = 0; v < network->vertices; v++) network->through[v] = -1;
  network->queue[tail++] = item;
  while (head < tail && network->through[network->drain] < 0) {
    int v = network->queue[head++];
    for (int a = network->first[v]; a >= 0; a = network->next[a]) {
      int w = network->head[a];
      network->steps++;
      if (network->left[a] <= 0 || network->through[w] >= 0 || w == item) continue;
      network->through[w] = a;
      network->queue[tail++] = w;
    }
  }
  return network->through[network->drain] >= 0;
}

static double Augment(Network *network, int item)
{
  double room = HUGE_VAL;
  for (int v = network->drain; v != item; v = network->head[network->through[v] ^ 1])
    if (network->left[network->through[v]] < room) room = network->left[network->through[v]];
  for (int v = network->drain; v != item; v = network->head[network->through[v] ^ 1]) {
    network->left[network->through[v]] -= room;
    network->left[network->through[v] ^ 1] += room;
  }
  return room;
}

static double LeastWith(const Instance *instance, Network *network, int item)
{
  double flow = 0;
  FillNetwork(instance, network);
  while (network->steps < most_steps && FindWay(network, item)) flow += Augment(network, item);
  return flow;
}

static int NextCandidate(const Instance *instance, const bool tried[])
{
  int best = -1;
  double largest = 0;
  for (int v = 0; v < instance->items; v++) {
    double load = instance->item[v].work + instance->touched[v];
    if (tried[v] || instance->item[v].host_only || load <= largest) continue;
    largest = load;
    best = v;
  }
  return best;
}

static void TryItems(const Instance *instance, int most, Network *network, bool tried[],
                     double *bound)
{
  for (int t = 0; t < most && network->steps < most_steps; t++) {
    int v = NextCandidate(instance, tried);
    if (v < 0 || instance->item[v].work + instance->touched[v] <= *bound) return;
    tried[v] = true;
    if (instance->hosts > 0 && instance->item[v].host_work <= *bound) continue;
    double least = LeastWith(instance, network, v);
    if (instance->hosts > 0 && instance->item[v].host_work < least)
      least = instance->item[v].host_work;
    if (least > *bound) *bound = least;
  }
}

RengaErrorCode RaiseBound(const Instance *instance, int most, double *bound)
{
  int pins = instance->pin_first[instance->messages];
  int arcs = 2 * (instance->items + instance->messages + 2 * pins);
  Network network = {.vertices = instance->items + 2 * instance->messages + 1};
  bool *tried = NULL;
  if (instance->replicas > 1 || instance->devices == 0) return RENGA_SUCCESS;
  network.drain = network.vertices - 1;
  RengaErrorCode code = RengaMalloc(network.vertices, &network.first);
  if (!code) code = RengaMalloc(arcs + 1, &network.next);
  if (!code) code = RengaMalloc(arcs + 1, &network.head);
  if (!code) code = RengaMalloc(arcs + 1, &network.left);
  if (!code) code = RengaMalloc(network.vertices, &network.through);
  if (!code) code = RengaMalloc(network.vertices, &network.queue);
  if (!code) code = RengaMalloc(instance->items + 1, &tried);
  if (!code) TryItems(instance, most, &network, tried, bound);
  RengaFree(&network.first);
  RengaFree(&network.next);
  RengaFree(&network.head);
  RengaFree(&network.left);
  RengaFree(&network.through);
  RengaFree(&network.queue);
  RengaFree(&tried);
  RengaCall(code);
  return RENGA_SUCCESS;
}
