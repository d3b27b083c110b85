/* Growing a stage along the arcs of the lattice: its load, and whether all larger ones are over the
   bound. */
#include "probe.h"

enum {
  WORDS_PER_IDEAL = 16 /* on average, at most */
};

RengaErrorCode ProbeFollowLattice(Probe probe)
{
  if (probe->room == probe->lattice.room) return RENGA_SUCCESS;
  probe->room = probe->lattice.room;
  RengaCall(RengaRealloc(probe->room, &probe->mark));
  RengaCall(RengaRealloc(probe->room * probe->rows, &probe->state));
  return RENGA_SUCCESS;
}

void StageRemove(Probe probe, int item)
{
  const Instance *instance = probe->instance;
  for (int e = instance->message_first[item]; e < instance->message_first[item + 1]; e++)
    probe->message[instance->message[e]].inside--;
}

/* A search sees the message for the first time. */
static void BeginMessage(const Probe probe, int source, int number, Message *message)
{
  const Instance *instance = probe->instance;
  bool enters = false;
  for (int p = instance->pin_first[number]; p < instance->pin_first[number + 1] && !enters; p++)
    enters = LatticeHas(&probe->lattice, source, instance->pin[p]);
  message->search = probe->search;
  message->inside = 0;
  message->entering = enters ? message->cost : 0;
}

/* The stage with one item more; false: it and all larger ones are over the bound. */
static bool AddToSet(Probe probe, const Search *search, const Frame *frame, int item, Frame *next)
{
  const Instance *instance = probe->instance;
  const RengaCutsItem *added = &instance->item[item];
  next->item = item;
  next->weight = frame->weight + added->weight;
  next->memory = frame->memory + added->memory;
  if (search->host) {
    next->work = frame->work + added->host_work;
    return next->work <= probe->bound;
  }
  if (added->host_only || next->memory > instance->capacity) return false;
  double messages = frame->messages, entering = frame->entering;
  const int *own = instance->message + instance->message_first[item];
  int count = instance->message_first[item + 1] - instance->message_first[item];
  for (int e = 0; e < count; e++) {
    Message *message = &probe->message[own[e]];
    if (message->search != probe->search) BeginMessage(probe, search->source, own[e], message);
    int inside = ++message->inside;
    if (inside == 1) {
      messages += message->cost;
      entering += message->entering;
    }
    if (inside == message->pins) messages -= message->cost;
  }
  next->work = frame->work + added->work;
  next->messages = messages;
  next->entering = entering;
  if (next->work + entering <= search->limit) return true;
  StageRemove(probe, item);
  return false;
}

static int NeedOf(const Probe probe, const Search *search, const Frame *frame)
{
  if (search->host) return 1;
  const Instance *instance = probe->instance;
  double load = frame->work + frame->messages;
  if (instance->replicas == 1) return load <= probe->bound;
  int need = InstanceReplicas(instance, load, frame->weight, probe->bound);
  return need <= search->most ? need : 0;
}

static void LookAtLimits(Probe probe)
{
  const Lattice *lattice = &probe->lattice;
  if (lattice->count > probe->ideal_limit || lattice->used > WORDS_PER_IDEAL * probe->ideal_limit)
    probe->open = true;
}

RengaErrorCode StageEnter(Probe probe, const Search *search, Frame *frame, int arc, bool *entered)
{
  Lattice *lattice = &probe->lattice;
  int to = lattice->arc_to[arc];
  *entered = false;
  if (to < 0) {
    RengaCall(LatticeStep(lattice, arc, frame->ideal, &to));
    RengaCall(ProbeFollowLattice(probe));
  }
  Mark *mark = &probe->mark[to];
  if (mark->search == probe->search) return RENGA_SUCCESS;
  mark->search = probe->search;
  mark->need = 0;
  probe->pairs++;
  LookAtLimits(probe);
  frame[1].ideal = to;
  frame[1].arc = 0;
  if (!AddToSet(probe, search, frame, lattice->arc_item[arc], &frame[1])) return RENGA_SUCCESS;
  mark->need = NeedOf(probe, search, &frame[1]);
  *entered = true;
  return RENGA_SUCCESS;
}
