/* Is there a plan within a bound? States are ideals with the number of hosts used; each keeps the
   least number of accelerators with which it is reached, and is continued once, by every set of
   items within the bound that can follow. What is left out can be left out without loss:
   - sets whose work, with the messages that come into them, is over the bound: all larger sets too;
   - ideals whose rest is more work than the devices that are left can do;
   - an ideal to which an item may be added that works at least as long as its messages take, where
     the same stage holds it too: the item can leave any later stage without raising its load. (A
     set of which only the whole works that long cannot: later stages may hold parts of it.) */
#include "exactimpl.h"
#include <string.h>

enum {
  PAIRS_PER_LOOK = 16384, /* how often the clock is looked at */
  WORDS_PER_IDEAL = 16,   /* on average, at most */
  WORTH_A_LOOK = 8,       /* share of the bound from which an item may be critical */
  MOST_LISTED = 32768     /* ideals with which a critical item is tried */
};

typedef struct {
  int devices; /* plus 1; 0: not reached */
  int from;    /* ideal before the last stage */
  int kind;    /* replicas of the last stage; 0: a host */
} State;

typedef struct {
  int ideal, arc, item;
  double load, committed, memory, weight;
} Frame;

typedef struct {
  int count, room, *ideal;
} Bucket;

/* What a search knows of an ideal. */
typedef struct {
  int search; /* that saw it last */
  int need;   /* accelerators of the stage that ends there, 0: too few */
} Mark;

typedef struct {
  double cost;
  int pins, inside; /* of all its pins, those in the stage */
  int search;       /* that the next two are of */
  double entering;  /* its cost where it has pins before the stage, 0 else */
} Message;

struct _Probe {
  const Instance *instance;
  Lattice lattice;
  int64_t ideal_limit, pairs;
  double deadline; /* of MPI_Wtime; 0: none */
  double bound;
  int rows;                   /* hosts + 1 */
  int64_t room;               /* of what follows, in ideals */
  Mark *mark;                 /* [room] */
  State *state;               /* [room][rows] */
  Bucket *bucket;             /* [rows][devices + 1] */
  int search;                 /* number of the one that goes on */
  Frame *frame;               /* [items + 1] */
  Message *message;           /* [messages] */
  bool *heavy;                /* [items] works at least as long as its messages take */
  int end, end_row, end_kind; /* found: the last stage begins at ideal end */
  bool found, open;
};

/* The stage that is being grown. */
typedef struct {
  int source, row, devices; /* the state that it continues */
  bool host;
  int most;     /* accelerators that it may take */
  double limit; /* of their work together */
} Search;

static RengaErrorCode FollowLattice(Probe probe)
{
  if (probe->room == probe->lattice.room) return RENGA_SUCCESS;
  probe->room = probe->lattice.room;
  RengaCall(RengaRealloc(probe->room, &probe->mark));
  RengaCall(RengaRealloc(probe->room * probe->rows, &probe->state));
  return RENGA_SUCCESS;
}

static RengaErrorCode Push(Bucket *bucket, int ideal)
{
  if (bucket->count == bucket->room) {
    bucket->room = bucket->room ? 2 * bucket->room : 16;
    RengaCall(RengaRealloc(bucket->room, &bucket->ideal));
  }
  bucket->ideal[bucket->count++] = ideal;
  return RENGA_SUCCESS;
}

static void Find(Probe probe, int ideal, int row, int kind)
{
  probe->found = true;
  probe->end = ideal;
  probe->end_row = row;
  probe->end_kind = kind;
}

/* The accelerators that all the rest needs as one stage; 0: it is none. */
static int NeedOfRest(const Probe probe, const Ideal *ideal)
{
  const Instance *instance = probe->instance;
  if (instance->host_only > ideal->host_only) return 0;
  if (instance->memory - ideal->memory > instance->capacity) return 0;
  return InstanceReplicas(instance, instance->work - ideal->work + ideal->cut,
                          instance->weight - ideal->weight, probe->bound);
}

static bool IsHopeless(const Probe probe, const Ideal *ideal, int devices, int row)
{
  const Instance *instance = probe->instance;
  int hosts = instance->hosts - row;
  if (devices == instance->devices)
    return hosts == 0 || instance->host_work - ideal->host_work >
                             hosts * probe->bound * (1 + RENGA_CUTS_TOLERANCE);
  double able = (instance->devices - devices) * probe->bound;
  if (hosts > 0) able += hosts * instance->exchange * probe->bound;
  return instance->work - ideal->work > able * (1 + RENGA_CUTS_TOLERANCE);
}

static bool IsReached(const Probe probe, int ideal, int row, int devices)
{
  const State *state = probe->state + (int64_t)ideal * probe->rows;
  for (int r = 0; r <= row; r++)
    if (state[r].devices && state[r].devices <= devices + 1) return true;
  return false;
}

/* A stage from the search's source to this ideal is possible. */
static RengaErrorCode Record(Probe probe, const Search *search, int to, int kind)
{
  const Instance *instance = probe->instance;
  const Ideal *ideal = &probe->lattice.ideal[to];
  int devices = search->devices + kind, row = search->row + (kind == 0);
  if (ideal->size == instance->items) {
    Find(probe, search->source, search->row, kind);
    return RENGA_SUCCESS;
  }
  if (IsHopeless(probe, ideal, devices, row) || IsReached(probe, to, row, devices))
    return RENGA_SUCCESS;
  int rest = devices < instance->devices ? NeedOfRest(probe, ideal) : 0;
  bool ends = rest > 0 && rest <= instance->devices - devices;
  if (!ends && row == instance->hosts && devices + 1 >= instance->devices) return RENGA_SUCCESS;
  probe->state[(int64_t)to * probe->rows + row] =
      (State){.devices = devices + 1, .from = search->source, .kind = kind};
  if (ends)
    Find(probe, to, row, rest);
  else
    RengaCall(Push(&probe->bucket[row * (instance->devices + 1) + devices], to));
  return RENGA_SUCCESS;
}

static void Remove(Probe probe, int item)
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
static bool Add(Probe probe, const Search *search, const Frame *frame, int item, Frame *next)
{
  const Instance *instance = probe->instance;
  const RengaCutsItem *added = &instance->item[item];
  next->item = item;
  next->weight = frame->weight + added->weight;
  next->memory = frame->memory + added->memory;
  if (search->host) {
    next->load = next->committed = frame->load + added->host_work;
    return next->load <= probe->bound;
  }
  if (added->host_only || next->memory > instance->capacity) return false;
  double load = frame->load + added->work, committed = frame->committed + added->work;
  const int *own = instance->message + instance->message_first[item];
  int count = instance->message_first[item + 1] - instance->message_first[item];
  for (int e = 0; e < count; e++) {
    Message *message = &probe->message[own[e]];
    if (message->search != probe->search) BeginMessage(probe, search->source, own[e], message);
    int inside = ++message->inside;
    if (inside == 1) {
      load += message->cost;
      committed += message->entering;
    }
    if (inside == message->pins) load -= message->cost;
  }
  next->load = load;
  next->committed = committed;
  if (committed <= search->limit) return true;
  Remove(probe, item);
  return false;
}

/* Can the stage take one item more that is better placed there? */
static bool IsDominated(const Probe probe, const Ideal *ideal, int need)
{
  const Lattice *lattice = &probe->lattice;
  for (int a = ideal->first; a < ideal->first + ideal->count; a++) {
    int to = lattice->arc_to[a];
    if (to < 0 || !probe->heavy[lattice->arc_item[a]]) continue;
    const Mark *mark = &probe->mark[to];
    if (mark->search == probe->search && mark->need && mark->need <= need) return true;
  }
  return false;
}

static int NeedOf(const Probe probe, const Search *search, const Frame *frame)
{
  if (search->host) return 1;
  if (probe->instance->replicas == 1) return frame->load <= probe->bound;
  int need = InstanceReplicas(probe->instance, frame->load, frame->weight, probe->bound);
  return need <= search->most ? need : 0;
}

/* All larger stages have been seen: is this one of use? */
static RengaErrorCode Leave(Probe probe, const Search *search, const Frame *frame)
{
  int need = probe->mark[frame->ideal].need;
  if (!search->host) Remove(probe, frame->item);
  if (need == 0 || IsDominated(probe, &probe->lattice.ideal[frame->ideal], need))
    return RENGA_SUCCESS;
  RengaCall(Record(probe, search, frame->ideal, search->host ? 0 : need));
  return RENGA_SUCCESS;
}

static void LookAtLimits(Probe probe)
{
  const Lattice *lattice = &probe->lattice;
  if (lattice->count > probe->ideal_limit || lattice->used > WORDS_PER_IDEAL * probe->ideal_limit)
    probe->open = true;
  if (probe->deadline > 0 && probe->pairs % PAIRS_PER_LOOK == 0 && MPI_Wtime() > probe->deadline)
    probe->open = true;
}

/* Along an arc of the frame on top; *entered: a frame was put on it. */
static RengaErrorCode Enter(Probe probe, const Search *search, Frame *frame, int arc, bool *entered)
{
  Lattice *lattice = &probe->lattice;
  int to = lattice->arc_to[arc];
  *entered = false;
  if (to < 0) {
    RengaCall(LatticeStep(lattice, arc, frame->ideal, &to));
    RengaCall(FollowLattice(probe));
  }
  Mark *mark = &probe->mark[to];
  if (mark->search == probe->search) return RENGA_SUCCESS;
  mark->search = probe->search;
  mark->need = 0;
  probe->pairs++;
  LookAtLimits(probe);
  frame[1].ideal = to;
  frame[1].arc = 0;
  if (!Add(probe, search, frame, lattice->arc_item[arc], &frame[1])) return RENGA_SUCCESS;
  mark->need = NeedOf(probe, search, &frame[1]);
  *entered = true;
  return RENGA_SUCCESS;
}

/* Every stage that can follow the state, depth first. */
static RengaErrorCode Continue(Probe probe, const Search *search)
{
  int depth = 0;
  bool entered;
  probe->search++;
  probe->frame[0] = (Frame){.ideal = search->source};
  while (depth >= 0 && !probe->found && !probe->open) {
    Frame *frame = &probe->frame[depth];
    if (frame->arc < probe->lattice.ideal[frame->ideal].count) {
      int arc = probe->lattice.ideal[frame->ideal].first + frame->arc++;
      RengaCall(Enter(probe, search, frame, arc, &entered));
      depth += entered;
    } else {
      if (depth > 0) RengaCall(Leave(probe, search, frame));
      depth--;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ContinueBucket(Probe probe, int row, int devices, bool host)
{
  const Instance *instance = probe->instance;
  Bucket *bucket = &probe->bucket[row * (instance->devices + 1) + devices];
  for (int b = 0; b < bucket->count && !probe->found && !probe->open; b++) {
    Search search = {bucket->ideal[b], row, devices, host, instance->devices - devices, 0};
    if (search.most > instance->replicas) search.most = instance->replicas;
    search.limit = search.most * probe->bound;
    int least = probe->state[(int64_t)search.source * probe->rows + row].devices - 1;
    bool better = row > 0 && IsReached(probe, search.source, row - 1, devices);
    if (least < devices || better) continue;
    RengaCall(Continue(probe, &search));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ContinueAll(Probe probe)
{
  const Instance *instance = probe->instance;
  for (int row = 0; row <= instance->hosts; row++) {
    for (int d = 0; d < instance->devices; d++) RengaCall(ContinueBucket(probe, row, d, false));
    for (int d = 0; row < instance->hosts && d <= instance->devices; d++)
      RengaCall(ContinueBucket(probe, row, d, true));
  }
  return RENGA_SUCCESS;
}

/* to -1: all items. Only words where the two ideals may differ are looked at. */
static void MarkStage(const Probe probe, int from, int to, int stage, Chain *chain)
{
  const Lattice *lattice = &probe->lattice;
  int end = probe->instance->items, last = end;
  if (to >= 0) last = 64 * (lattice->ideal[to].base + lattice->ideal[to].words);
  for (int place = 64 * lattice->ideal[from].base; place < last && place < end; place++) {
    int v = lattice->item_at[place];
    if ((to < 0 || LatticeHas(lattice, to, v)) && !LatticeHas(lattice, from, v))
      chain->stage_of[v] = stage;
  }
}

static void TakePlan(const Probe probe, Chain *chain)
{
  int count = 1, to = -1, from = probe->end, row = probe->end_row, kind = probe->end_kind;
  for (int ideal = from, r = row; ideal > 0; count++) {
    const State *state = &probe->state[(int64_t)ideal * probe->rows + r];
    r -= state->kind == 0;
    ideal = state->from;
  }
  chain->count = count;
  for (int s = count - 1; s >= 0; s--) {
    MarkStage(probe, from, to, s, chain);
    chain->stage[s] = (RengaCutsStage){.host = kind == 0, .replicas = kind == 0 ? 1 : kind};
    const State *state = &probe->state[(int64_t)from * probe->rows + row];
    to = from;
    kind = state->kind;
    from = state->from;
    row -= kind == 0 && s > 0;
  }
}

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
      RengaCall(FollowLattice(probe));
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
    RengaCall(Enter(probe, search, frame, arc, &entered));
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
      RengaCall(Enter(probe, search, frame, arc, &entered));
      depth += entered;
      *can = entered && probe->mark[probe->frame[depth].ideal].need > 0;
    } else {
      Remove(probe, frame->item);
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

/* Where one item alone decides: can any stage hold the critical one? */
static RengaErrorCode CanPlace(Probe probe, int item, bool *can)
{
  const Instance *instance = probe->instance;
  Search search = {.most = instance->replicas, .limit = instance->replicas * probe->bound};
  bool *before = NULL;
  int *list = NULL, count = 0;
  RengaCall(RengaMalloc(instance->items + 1, &before));
  RengaCall(RengaMalloc(MOST_LISTED + instance->items, &list));
  MarkBefore(instance, item, before, list);
  RengaErrorCode code = ListWithout(probe, item, list, &count);
  *can = count < 0;
  /* from the largest, which have most of what comes before the item */
  for (int i = count - 1; i >= 0 && !*can && !probe->open && code == RENGA_SUCCESS; i--) {
    search.source = list[i];
    code = CanFollow(probe, &search, before, can);
  }
  if (probe->open) *can = true;
  RengaFree(&before);
  RengaFree(&list);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void Reset(Probe probe, double bound)
{
  const Instance *instance = probe->instance;
  probe->bound = bound;
  probe->found = probe->open = false;
  memset(probe->state, 0, sizeof *probe->state * (size_t)(probe->room * probe->rows));
  for (int b = 0; b < probe->rows * (instance->devices + 1); b++) probe->bucket[b].count = 0;
}

RengaErrorCode ProbeRun(Probe probe, double bound, ProbeAnswer *answer, Chain *chain)
{
  bool can = true;
  Reset(probe, bound);
  int critical = FindCritical(probe);
  if (critical >= 0) RengaCall(CanPlace(probe, critical, &can));
  Reset(probe, bound);
  probe->state[0].devices = 1;
  if (can && !IsHopeless(probe, &probe->lattice.ideal[0], 0, 0)) {
    int all = probe->instance->devices > 0 ? NeedOfRest(probe, &probe->lattice.ideal[0]) : 0;
    if (all > 0) Find(probe, 0, 0, all);
    RengaCall(Push(&probe->bucket[0], 0));
    RengaCall(ContinueAll(probe));
  }
  *answer = probe->found ? PROBE_YES : probe->open ? PROBE_OPEN : PROBE_NO;
  if (probe->found) TakePlan(probe, chain);
  return RENGA_SUCCESS;
}

static RengaErrorCode Allocate(Probe probe)
{
  const Instance *instance = probe->instance;
  RengaCall(LatticeCreate(instance, &probe->lattice));
  RengaCall(FollowLattice(probe));
  RengaCall(RengaMalloc(probe->rows * (int64_t)(instance->devices + 1), &probe->bucket));
  RengaCall(RengaMalloc(instance->items + 2, &probe->frame));
  RengaCall(RengaMalloc(instance->messages + 1, &probe->message));
  RengaCall(RengaMalloc(instance->items + 1, &probe->heavy));
  for (int m = 0; m < instance->messages; m++)
    probe->message[m] = (Message){.cost = instance->cost[m],
                                  .pins = instance->pin_first[m + 1] - instance->pin_first[m]};
  for (int v = 0; v < instance->items; v++)
    probe->heavy[v] = instance->item[v].work >= instance->touched[v];
  return RENGA_SUCCESS;
}

RengaErrorCode ProbeCreate(const Instance *instance, int64_t ideal_limit, double deadline,
                           Probe *probe)
{
  RengaCall(RengaMalloc(1, probe));
  (*probe)->instance = instance;
  (*probe)->ideal_limit = ideal_limit;
  (*probe)->deadline = deadline;
  (*probe)->rows = instance->hosts + 1;
  RengaErrorCode code = Allocate(*probe);
  if (code != RENGA_SUCCESS) ProbeDestroy(probe);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void ProbeCount(Probe probe, int64_t *ideals, int64_t *pairs)
{
  *ideals = probe->lattice.count;
  *pairs = probe->pairs;
}

void ProbeDestroy(Probe *probe)
{
  if (*probe == NULL) return;
  for (int b = 0; (*probe)->bucket && b < (*probe)->rows * ((*probe)->instance->devices + 1); b++)
    RengaFree(&(*probe)->bucket[b].ideal);
  LatticeFree(&(*probe)->lattice);
  RengaFree(&(*probe)->mark);
  RengaFree(&(*probe)->state);
  RengaFree(&(*probe)->bucket);
  RengaFree(&(*probe)->frame);
  RengaFree(&(*probe)->message);
  RengaFree(&(*probe)->heavy);
  RengaFree(probe);
}
