/* What the files of the exact solver share. */
#pragma once
#include "cuts.h"
#include <math.h>

/* Plans whose loads differ by less than this share count as equally good. */
#define RENGA_CUTS_TOLERANCE 1e-10

/* A problem laid out for the search. Lists of item v: name[name_first[v] … name_first[v + 1] - 1];
   predecessors and successors are direct ones, without those that follow from others. */
typedef struct {
  int items, messages;
  RengaCutsItem *item;
  int *predecessor_first, *predecessor, *successor_first, *successor;
  double *cost; /* [messages] */
  int *pin_first, *pin, *message_first, *message;
  double *touched; /* [items] cost of all messages of an item */
  int devices, hosts, replicas;
  double *resynchronise; /* [replicas + 1] */
  double capacity;
  double work, host_work, weight, memory; /* of all items */
  int host_only;
  double exchange; /* accelerator work that a host does in a unit of its own */
} Instance;

/* Items of the problem with the same map[] are one item of the instance. */
RengaErrorCode InstanceCreate(const RengaCutsProblem *problem, const int map[], Instance *instance);
void InstanceFree(Instance *instance);
/* Number items so that map[] has no gaps. */
int InstanceNumber(int items, int map[]);
/* The least number of replicas with which a stage is within the bound, 0: none. */
int InstanceReplicas(const Instance *instance, double load, double weight, double bound);
double InstanceLoad(const Instance *instance, double load, double weight, int replicas);

/* Merges items further where that can make no plan worse, of those with loads below upper. */
RengaErrorCode ReduceItems(const RengaCutsProblem *problem, double upper, int map[]);

/* Ideals by number; 0 is the empty one. Those next to an ideal are made when they are asked for.
   Bits are in a topological order, of which an ideal is a prefix and a little more: only the words
   at its end are kept. */
typedef struct {
  int base, words;  /* its bits: words before base are all in, those from base + words on are out */
  int64_t bits;     /* where the words between begin */
  int first, count; /* of its arcs: items that may be added */
  double work, host_work, weight, memory; /* of its items */
  double cut;                             /* cost of the messages that cross its border */
  int size, host_only;                    /* its items, and those that no accelerator can run */
} Ideal;

typedef struct {
  const Instance *instance;
  int *place;          /* [items] in a topological order: its bit */
  int *item_at;        /* [items] by place */
  int64_t count, room; /* ideals */
  Ideal *ideal;        /* [room] */
  int64_t used, bit_room;
  uint64_t *bits;    /* [bit_room] words of all ideals */
  uint64_t *scratch; /* [words of all items + 1] */
  int64_t arcs, arc_room;
  int *arc_item, *arc_to; /* [arc_room]; arc_to -1: not made yet */
  int64_t slots;          /* of the hash table, a power of two */
  int *slot;              /* ideal's number + 1; 0: empty */
} Lattice;

RengaErrorCode LatticeCreate(const Instance *instance, Lattice *lattice);
RengaErrorCode LatticeStep(Lattice *lattice, int64_t arc, int from, int *to);
/* Stages that follow the ideal are no worse where they follow the one that this arc, which is made,
   leads to: its item works at least as long as the cut grows. Any such stages may do without the
   item. The one that has it is rid of its work; it pays more for messages that the item has and no
   item of the ideal, and no more for those that have both, nor at all where the item is the last:
   together at most what the cut grows by. Others pay what they did. (So one by one for items of a
   path. A set that works longer than the cut grows is not enough: later stages may hold parts.) */
bool LatticeIsNoWorse(const Lattice *lattice, const Ideal *ideal, int64_t arc);
bool LatticeHas(const Lattice *lattice, int ideal, int item);
bool LatticeIsWithin(const Lattice *lattice, int inner, int outer);
void LatticeFree(Lattice *lattice);

/* One way to cut: ideals after each stage. */
typedef struct {
  int count;
  int *stage_of; /* [items] */
  RengaCutsStage *stage;
  double load;
} Chain;

RengaErrorCode ChainCreate(int items, Chain *chain);
void ChainFree(Chain *chain);

/* The best stages that are intervals of a few topological orders; load HUGE_VAL: none. */
RengaErrorCode FindLinear(const Instance *instance, Chain *chain);

/* A bound from all work on all devices, and from each item alone on its best one. */
double FirstBound(const Instance *instance);
/* Raises the bound to the least load of a set that holds the item for which that is most, of so
   many at most that are tried. */
RengaErrorCode RaiseBound(const Instance *instance, int most, double *bound);

/* Raises the bound, of plans with loads below upper, to what work alone needs. */
RengaErrorCode RaiseBoundByPacking(const Instance *instance, double upper, double *bound);

typedef enum { PROBE_NO, PROBE_YES, PROBE_OPEN } ProbeAnswer;
typedef struct _Probe *Probe;
RengaErrorCode ProbeCreate(const Instance *instance, int64_t ideal_limit, Probe *probe);
/* Is there a plan with no load over the bound? YES: it is in chain. OPEN: a limit ended the
   search. */
RengaErrorCode ProbeRun(Probe probe, double bound, ProbeAnswer *answer, Chain *chain);
void ProbeCount(Probe probe, int64_t *ideals, int64_t *pairs);
void ProbeDestroy(Probe *probe);
