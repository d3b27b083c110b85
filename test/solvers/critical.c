/* Where one item alone decides: can any stage hold the critical one? That is asked before whole
   plans are sought. */
#include "probe.h"

enum {
  WORTH_A_LOOK = 8,   /* share of the bound from which an item may be critical */
  MOST_LISTED = 32768 /* ideals with which a critical item is tried */
};

/* The item and all before it. stack: room for the items. */
static void MarkBefore(const Instance *instance, int item, bool before[], int stack[])
{
  int depth = 0;
  before[item] = true;
  stack[depth++] = item;
  while (depth > 0) {
    int v = stack[--depth];
    for (int e = instance->predecessor_first[v]; e < instance->predecessor_first[v + 1]; e++) {
      int u = instance->predecessor[e];
      if (before[u]) continue;
      before[u] = true;
      stack[depth++] = u;
    }
  }
}

/* All ideals without the item; *count -1: too many. */
static RengaErrorCode ListWithout(Probe probe, int item, int list[], int *count)
{
  Lattice *lattice = &probe->lattice;
  int listed = 1;
  list[0] = 0;
  probe->search++;
  for (int i = 0; i < listed; i++)
    for (int a = 0; a < lattice->ideal[list[i]].count; a++) {
      int arc = lattice->ideal[list[i]].first + a, to = lattice->arc_to[arc];
      if (lattice->arc_item[arc] == item) continue;
      if (to < 0) RengaCall(LatticeStep(lattice, arc, list[i], &to));
      RengaCall(ProbeFollowLattice(probe));
      if (probe->mark[to].search == probe->search) continue;
      probe->mark[to].search = probe->search;
      if (listed == MOST_LISTED) {
        *count = -1;
        return RENGA_SUCCESS;
      }
      list[listed++] = to;
    }
  *count = listed;
  return RENGA_SUCCESS;
}

/* Put on frames all items that must come with the item; *depth 0: they are over the bound. */
static RengaErrorCode EnterAll(Probe probe, const Search *search, const bool before[], int *depth)
{
  Lattice *lattice = &probe->lattice;
  bool entered = true;
  for (*depth = 0; entered;) {
    Frame *frame = &probe->frame[*depth];
    int arc = lattice->ideal[frame->ideal].first;
    int end = arc + lattice->ideal[frame->ideal].count;
    while (arc < end && !before[lattice->arc_item[arc]]) arc++;
    if (arc == end) return RENGA_SUCCESS;
    RengaCall(StageEnter(probe, search, frame, arc, &entered));
    *depth = entered ? *depth + 1 : 0;
  }
  return RENGA_SUCCESS;
}

/* Is any stage that follows the ideal and holds the item within the bound? */
static RengaErrorCode CanFollow(Probe probe, const Search *search, const bool before[], bool *can)
{
  int first, depth;
  bool entered;
  probe->search++;
  probe->frame[0] = (Frame){.ideal = search->source};
  RengaCall(EnterAll(probe, search, before, &first));
  depth = first;
  *can = first > 0 && probe->mark[probe->frame[first].ideal].need > 0;
  while (first > 0 && depth >= first && !*can && !probe->open) {
    Frame *frame = &probe->frame[depth];
    if (frame->arc < probe->lattice.ideal[frame->ideal].count) {
      int arc = probe->lattice.ideal[frame->ideal].first + frame->arc++;
      RengaCall(StageEnter(probe, search, frame, arc, &entered));
      depth += entered;
      *can = entered && probe->mark[probe->frame[depth].ideal].need > 0;
    } else {
      StageRemove(probe, frame->item);
      depth--;
    }
  }
  return RENGA_SUCCESS;
}

/* The item with most work of those that no host can take; -1: none has a share of the bound that
   matters. */
static int FindCritical(const Probe probe)
{
  const Instance *instance = probe->instance;
  double most = probe->bound / WORTH_A_LOOK;
  int critical = -1;
  for (int v = 0; v < instance->items; v++) {
    const RengaCutsItem *item = &instance->item[v];
    if (item->work <= most || (instance->hosts > 0 && item->host_work <= probe->bound)) continue;
    most = item->work;
    critical = v;
  }
  return critical;
}

/* A stage that begins at the ideal may begin at a larger one, which is in the list too. */
static bool MayBeginLater(const Lattice *lattice, const Ideal *ideal, int item)
{
  for (int a = ideal->first; a < ideal->first + ideal->count; a++)
    if (lattice->arc_item[a] != item && LatticeIsNoWorse(lattice, ideal, a)) return true;
  return false;
}

static RengaErrorCode CanPlace(Probe probe, int item, bool *can)
{
  const Instance *instance = probe->instance;
  Search search = {.most = instance->replicas, .limit = instance->replicas * probe->bound};
  bool *before = NULL;
  int *list = NULL, count = 0;
  RengaErrorCode code = RengaMalloc(instance->items + 1, &before);
  if (!code) code = RengaMalloc(MOST_LISTED + instance->items, &list);
  if (!code) MarkBefore(instance, item, before, list);
  if (!code) code = ListWithout(probe, item, list, &count);
  *can = count < 0;
  /* from the largest, which have most of what comes before the item */
  for (int i = count - 1; i >= 0 && !*can && !probe->open && code == RENGA_SUCCESS; i--) {
    search.source = list[i];
    if (MayBeginLater(&probe->lattice, &probe->lattice.ideal[list[i]], item)) continue;
    code = CanFollow(probe, &search, before, can);
  }
  if (probe->open) *can = true;
  RengaFree(&before);
  RengaFree(&list);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode ProbePlaceCritical(Probe probe, bool *can)
{
  int critical = FindCritical(probe);
  *can = true;
  if (critical >= 0) RengaCall(CanPlace(probe, critical, can));
  return RENGA_SUCCESS;
}
