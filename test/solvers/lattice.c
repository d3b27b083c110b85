/* The ideals of an instance: bit sets in a hash table, each made when it is first reached. An arc
   leads from an ideal to the one with one item more. */
#include "exactimpl.h"
#include <string.h>

enum { FIRST_ROOM = 1024 };

static uint64_t WordOf(const Lattice *lattice, int ideal, int word)
{
  const Ideal *mine = &lattice->ideal[ideal];
  if (word < mine->base) return ~UINT64_C(0);
  return word < mine->base + mine->words ? lattice->bits[mine->bits + word - mine->base] : 0;
}

bool LatticeHas(const Lattice *lattice, int ideal, int item)
{
  int place = lattice->place[item];
  return WordOf(lattice, ideal, place / 64) >> (place % 64) & 1;
}

bool LatticeIsWithin(const Lattice *lattice, int inner, int outer)
{
  const Ideal *mine = &lattice->ideal[inner];
  for (int w = 0; w < mine->base + mine->words; w++)
    if (WordOf(lattice, inner, w) & ~WordOf(lattice, outer, w)) return false;
  return true;
}

/* The slot that holds the ideal with these words, or a free one. */
static int64_t FindIdealSlot(const Lattice *lattice, int base, int words, const uint64_t word[])
{
  size_t bytes = sizeof *word * (size_t)words;
  int64_t s = (int64_t)(RengaHash(word, bytes, (uint64_t)base) & (uint64_t)(lattice->slots - 1));
  for (; lattice->slot[s]; s = (s + 1) & (lattice->slots - 1)) {
    const Ideal *ideal = &lattice->ideal[lattice->slot[s] - 1];
    if (ideal->base == base && ideal->words == words &&
        memcmp(lattice->bits + ideal->bits, word, bytes) == 0)
      return s;
  }
  return s;
}

static RengaErrorCode GrowIdealSlots(Lattice *lattice)
{
  RengaFree(&lattice->slot);
  lattice->slots = 2 * lattice->room;
  RengaCall(RengaMalloc(lattice->slots, &lattice->slot));
  for (int64_t i = 0; i < lattice->count; i++) {
    const Ideal *ideal = &lattice->ideal[i];
    int64_t s = FindIdealSlot(lattice, ideal->base, ideal->words, lattice->bits + ideal->bits);
    lattice->slot[s] = (int)i + 1;
  }
  return RENGA_SUCCESS;
}

/* Room for one more ideal, its words and its arcs. */
static RengaErrorCode GrowLattice(Lattice *lattice)
{
  int items = lattice->instance->items;
  if (lattice->count + 1 >= lattice->room) {
    lattice->room *= 2;
    RengaCall(RengaRealloc(lattice->room, &lattice->ideal));
    RengaCall(GrowIdealSlots(lattice));
  }
  if (lattice->used + items / 64 + 1 >= lattice->bit_room) {
    lattice->bit_room = 2 * lattice->bit_room + items / 64 + FIRST_ROOM;
    RengaCall(RengaRealloc(lattice->bit_room, &lattice->bits));
  }
  if (lattice->arcs + items >= lattice->arc_room) {
    lattice->arc_room = 2 * (lattice->arc_room + items);
    RengaCall(RengaRealloc(lattice->arc_room, &lattice->arc_item));
    RengaCall(RengaRealloc(lattice->arc_room, &lattice->arc_to));
  }
  return RENGA_SUCCESS;
}

static void AddLatticeArc(Lattice *lattice, Ideal *ideal, int item)
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
    if (lattice->arc_item[a] != item) AddLatticeArc(lattice, ideal, lattice->arc_item[a]);
  for (int e = instance->successor_first[item]; e < instance->successor_first[item + 1]; e++)
    if (IsReady(lattice, number, instance->successor[e]))
      AddLatticeArc(lattice, ideal, instance->successor[e]);
}

/* The ideal's words with one more bit, to the scratch; only those that must be kept. */
static void AddBit(Lattice *lattice, int from, int place, int *base, int *words)
{
  const Ideal *old = &lattice->ideal[from];
  int end = old->base + old->words, begin = old->base;
  if (place / 64 >= end) end = place / 64 + 1;
  for (int w = begin; w < end; w++) lattice->scratch[w - begin] = WordOf(lattice, from, w);
  lattice->scratch[place / 64 - begin] |= UINT64_C(1) << (place % 64);
  int full = 0;
  while (begin + full < end && lattice->scratch[full] == ~UINT64_C(0)) full++;
  *base = begin + full;
  *words = end - *base;
  memmove(lattice->scratch, lattice->scratch + full, sizeof *lattice->scratch * (size_t)*words);
}

RengaErrorCode LatticeStep(Lattice *lattice, int64_t arc, int from, int *to)
{
  int item = lattice->arc_item[arc], base, words;
  RengaCall(GrowLattice(lattice));
  AddBit(lattice, from, lattice->place[item], &base, &words);
  int64_t s = FindIdealSlot(lattice, base, words, lattice->scratch);
  if (!lattice->slot[s]) {
    int number = (int)lattice->count++;
    lattice->slot[s] = number + 1;
    lattice->ideal[number] = (Ideal){.base = base, .words = words, .bits = lattice->used};
    memcpy(lattice->bits + lattice->used, lattice->scratch, sizeof *lattice->bits * (size_t)words);
    lattice->used += words;
    MakeIdeal(lattice, from, item, number);
  }
  *to = lattice->arc_to[arc] = lattice->slot[s] - 1;
  return RENGA_SUCCESS;
}

bool LatticeIsNoWorse(const Lattice *lattice, const Ideal *ideal, int64_t arc)
{
  const Ideal *to = &lattice->ideal[lattice->arc_to[arc]];
  return to->work - ideal->work >= to->cut - ideal->cut;
}

/* A topological order in which an item comes right before the first that needs it: depth first from
   the items that nothing follows. next: [items] edges done. */
static void MakeTopologicalOrder(const Instance *instance, int stack[], int next[], int place[])
{
  int placed = 0;
  for (int v = 0; v < instance->items; v++) {
    place[v] = -1;
    next[v] = instance->predecessor_first[v];
  }
  for (int v = 0; v < instance->items; v++) {
    int depth = 0;
    if (instance->successor_first[v + 1] > instance->successor_first[v]) continue;
    stack[depth++] = v;
    while (depth > 0) {
      int top = stack[depth - 1];
      if (next[top] == instance->predecessor_first[top + 1]) {
        place[top] = placed++;
        depth--;
      } else {
        int before = instance->predecessor[next[top]++];
        if (place[before] < 0) stack[depth++] = before;
      }
    }
  }
}

static RengaErrorCode OrderLatticeItems(const Instance *instance, int place[])
{
  int *stack = NULL, *next = NULL;
  RengaErrorCode code = RengaMalloc(instance->items + 1, &stack);
  if (!code) code = RengaMalloc(instance->items + 1, &next);
  if (!code) MakeTopologicalOrder(instance, stack, next, place);
  RengaFree(&stack);
  RengaFree(&next);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode LatticeCreate(const Instance *instance, Lattice *lattice)
{
  lattice->instance = instance;
  lattice->room = FIRST_ROOM;
  RengaCall(RengaMalloc(instance->items + 1, &lattice->place));
  RengaCall(RengaMalloc(instance->items + 1, &lattice->item_at));
  RengaCall(OrderLatticeItems(instance, lattice->place));
  for (int v = 0; v < instance->items; v++) lattice->item_at[lattice->place[v]] = v;
  RengaCall(RengaMalloc(instance->items / 64 + 2, &lattice->scratch));
  RengaCall(RengaMalloc(lattice->room, &lattice->ideal));
  RengaCall(GrowLattice(lattice));
  for (int v = 0; v < instance->items; v++)
    if (instance->predecessor_first[v + 1] == instance->predecessor_first[v])
      AddLatticeArc(lattice, &lattice->ideal[0], v);
  lattice->count = 1;
  RengaCall(GrowIdealSlots(lattice));
  return RENGA_SUCCESS;
}

void LatticeFree(Lattice *lattice)
{
  RengaFree(&lattice->place);
  RengaFree(&lattice->item_at);
  RengaFree(&lattice->scratch);
  RengaFree(&lattice->ideal);
  RengaFree(&lattice->bits);
  RengaFree(&lattice->arc_item);
  RengaFree(&lattice->arc_to);
  RengaFree(&lattice->slot);
}
