/* The ideals of an instance: bit sets in a hash table, each made when it is first reached. An arc
   leads from an ideal to the one with one item more. */
#include "exactimpl.h"
#include <string.h>

enum { FIRST_ROOM = 1024 };

bool LatticeHas(const Lattice *lattice, int ideal, int item)
{
  return lattice->bits[(int64_t)ideal * lattice->words + item / 64] >> (item % 64) & 1;
}

static RengaErrorCode GrowSlots(Lattice *lattice)
{
  size_t bytes = sizeof *lattice->bits * (size_t)lattice->words;
  RengaFree(&lattice->slot);
  lattice->slots = 2 * lattice->room;
  RengaCall(RengaMalloc(lattice->slots, &lattice->slot));
  for (int64_t i = 0; i < lattice->count; i++) {
    uint64_t hash = RengaHash(lattice->bits + i * lattice->words, bytes, 0);
    int64_t s = (int64_t)(hash & (uint64_t)(lattice->slots - 1));
    while (lattice->slot[s]) s = (s + 1) & (lattice->slots - 1);
    lattice->slot[s] = (int)i + 1;
  }
  return RENGA_SUCCESS;
}

/* Room for one more ideal, and for the arcs of it. */
static RengaErrorCode Grow(Lattice *lattice)
{
  if (lattice->count + 1 >= lattice->room) {
    lattice->room *= 2;
    RengaCall(RengaRealloc(lattice->room, &lattice->ideal));
    RengaCall(RengaRealloc(lattice->room * lattice->words, &lattice->bits));
    RengaCall(GrowSlots(lattice));
  }
  if (lattice->arcs + lattice->instance->items >= lattice->arc_room) {
    lattice->arc_room = 2 * (lattice->arc_room + lattice->instance->items);
    RengaCall(RengaRealloc(lattice->arc_room, &lattice->arc_item));
    RengaCall(RengaRealloc(lattice->arc_room, &lattice->arc_to));
  }
  return RENGA_SUCCESS;
}

static void AddArc(Lattice *lattice, Ideal *ideal, int item)
{
  lattice->arc_item[lattice->arcs] = item;
  lattice->arc_to[lattice->arcs++] = -1;
  ideal->count++;
}

static bool IsReady(const Lattice *lattice, int ideal, int item)
{
  const Instance *instance = lattice->instance;
  for (int e = instance->predecessor_first[item]; e < instance->predecessor_first[item + 1]; e++)
    if (!LatticeHas(lattice, ideal, instance->predecessor[e])) return false;
  return true;
}

/* How the cost over the border changes with the item, which is in the ideal's bits already. */
static double CutChange(const Lattice *lattice, int ideal, int item)
{
  const Instance *instance = lattice->instance;
  double change = 0;
  for (int e = instance->message_first[item]; e < instance->message_first[item + 1]; e++) {
    int m = instance->message[e], inside = 0;
    int pins = instance->pin_first[m + 1] - instance->pin_first[m];
    for (int p = instance->pin_first[m]; p < instance->pin_first[m + 1]; p++)
      inside += LatticeHas(lattice, ideal, instance->pin[p]);
    if (inside == 1) change += instance->cost[m];
    if (inside == pins) change -= instance->cost[m];
  }
  return change;
}

static void MakeIdeal(Lattice *lattice, int from, int item, int number)
{
  const Instance *instance = lattice->instance;
  const Ideal *old = &lattice->ideal[from];
  Ideal *ideal = &lattice->ideal[number];
  ideal->work = old->work + instance->item[item].work;
  ideal->weight = old->weight + instance->item[item].weight;
  ideal->host_work = old->host_work + instance->item[item].host_work;
  ideal->memory = old->memory + instance->item[item].memory;
  ideal->host_only = old->host_only + instance->item[item].host_only;
  ideal->size = old->size + 1;
  ideal->cut = old->cut + CutChange(lattice, number, item);
  ideal->first = (int)lattice->arcs;
  for (int a = old->first; a < old->first + old->count; a++)
    if (lattice->arc_item[a] != item) AddArc(lattice, ideal, lattice->arc_item[a]);
  for (int e = instance->successor_first[item]; e < instance->successor_first[item + 1]; e++)
    if (IsReady(lattice, number, instance->successor[e]))
      AddArc(lattice, ideal, instance->successor[e]);
}

RengaErrorCode LatticeStep(Lattice *lattice, int64_t arc, int from, int *to)
{
  int item = lattice->arc_item[arc], words = lattice->words;
  size_t bytes = sizeof *lattice->bits * (size_t)words;
  RengaCall(Grow(lattice));
  uint64_t *bits = lattice->bits + lattice->count * words;
  memcpy(bits, lattice->bits + (int64_t)from * words, bytes);
  bits[item / 64] |= UINT64_C(1) << (item % 64);
  int64_t s = (int64_t)(RengaHash(bits, bytes, 0) & (uint64_t)(lattice->slots - 1));
  while (lattice->slot[s] &&
         memcmp(lattice->bits + (int64_t)(lattice->slot[s] - 1) * words, bits, bytes) != 0)
    s = (s + 1) & (lattice->slots - 1);
  if (!lattice->slot[s]) {
    lattice->slot[s] = (int)lattice->count + 1;
    MakeIdeal(lattice, from, item, (int)lattice->count);
    lattice->count++;
  }
  *to = lattice->arc_to[arc] = lattice->slot[s] - 1;
  return RENGA_SUCCESS;
}

RengaErrorCode LatticeCreate(const Instance *instance, Lattice *lattice)
{
  lattice->instance = instance;
  lattice->words = (instance->items + 63) / 64;
  lattice->room = FIRST_ROOM;
  RengaCall(RengaMalloc(lattice->room, &lattice->ideal));
  RengaCall(RengaMalloc(lattice->room * lattice->words, &lattice->bits));
  RengaCall(Grow(lattice));
  for (int v = 0; v < instance->items; v++)
    if (instance->predecessor_first[v + 1] == instance->predecessor_first[v])
      AddArc(lattice, &lattice->ideal[0], v);
  lattice->count = 1;
  RengaCall(GrowSlots(lattice));
  return RENGA_SUCCESS;
}

void LatticeFree(Lattice *lattice)
{
  RengaFree(&lattice->ideal);
  RengaFree(&lattice->bits);
  RengaFree(&lattice->arc_item);
  RengaFree(&lattice->arc_to);
  RengaFree(&lattice->slot);
}
