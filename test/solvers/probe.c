/* Is there a plan within a bound? States are ideals with the number of hosts used; each keeps the
   least number of accelerators with which it is reached, and is continued once, by every set of
   items within the bound that can follow. What is left out can be left out without loss:
   - sets whose work, with the messages that come into them, is over the bound: all larger sets too;
   - ideals whose rest is more work than the devices that are left can do;
   - an ideal that is behind another: an arc leads to one that is reached no later, or by the same
     stage, and no stages that follow are worse for it (LatticeIsNoWorse). */
#include "probe.h"
#include <string.h>

static RengaErrorCode PushIdeal(Bucket *bucket, int ideal)
{
  if (bucket->count == bucket->room) {
    bucket->room = bucket->room ? 2 * bucket->room : 16;
    RengaCall(RengaRealloc(bucket->room, &bucket->ideal));
  }
  bucket->ideal[bucket->count++] = ideal;
  return RENGA_SUCCESS;
}

static void FindIdeal(Probe probe, int ideal, int row, int kind)
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
  double load = instance->work - ideal->work + ideal->cut;
  return InstanceReplicas(instance, load, instance->weight - ideal->weight, probe->bound);
}

static bool IsProbeHopeless(const Probe probe, const Ideal *ideal, int devices, int row)
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
static RengaErrorCode RecordIdeal(Probe probe, const Search *search, int to, int kind)
{
  const Instance *instance = probe->instance;
  const Ideal *ideal = &probe->lattice.ideal[to];
  int devices = search->devices + kind, row = search->row + (kind == 0);
  if (ideal->size == instance->items) {
    FindIdeal(probe, search->source, search->row, kind);
    return RENGA_SUCCESS;
  }
  if (IsProbeHopeless(probe, ideal, devices, row) || IsReached(probe, to, row, devices))
    return RENGA_SUCCESS;
  int rest = devices < instance->devices ? NeedOfRest(probe, ideal) : 0;
  bool ends = rest > 0 && rest <= instance->devices - devices;
  if (!ends && row == instance->hosts && devices + 1 >= instance->devices) return RENGA_SUCCESS;
  probe->state[(int64_t)to * probe->rows + row] =
      (State){.devices = devices + 1, .from = search->source, .kind = kind};
  if (ends)
    FindIdeal(probe, to, row, rest);
  else
    RengaCall(PushIdeal(&probe->bucket[row * (instance->devices + 1) + devices], to));
  return RENGA_SUCCESS;
}

/* Does an arc lead to an ideal that is no worse and reached with as little? */
static bool IsArcDominated(const Probe probe, int number, int row, int devices)
{
  const Lattice *lattice = &probe->lattice;
  const Ideal *ideal = &lattice->ideal[number];
  for (int a = ideal->first; a < ideal->first + ideal->count; a++) {
    int to = lattice->arc_to[a];
    if (to < 0 || !LatticeIsNoWorse(lattice, ideal, a)) continue;
    if (IsReached(probe, to, row, devices)) return true;
  }
  return false;
}

/* The same for a stage that is being grown: can it take one item more? */
static bool IsBehindInSearch(const Probe probe, const Ideal *ideal, int need)
{
  const Lattice *lattice = &probe->lattice;
  for (int a = ideal->first; a < ideal->first + ideal->count; a++) {
    int to = lattice->arc_to[a];
    if (to < 0 || !LatticeIsNoWorse(lattice, ideal, a)) continue;
    const Mark *mark = &probe->mark[to];
    if (mark->search == probe->search && mark->need && mark->need <= need) return true;
  }
  return false;
}

/* All larger stages have been seen: is this one of use? */
static RengaErrorCode LeaveItem(Probe probe, const Search *search, const Frame *frame)
{
  int need = probe->mark[frame->ideal].need;
  if (!search->host) StageRemove(probe, frame->item);
  if (need == 0 || IsBehindInSearch(probe, &probe->lattice.ideal[frame->ideal], need))
    return RENGA_SUCCESS;
  RengaCall(RecordIdeal(probe, search, frame->ideal, search->host ? 0 : need));
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
      RengaCall(StageEnter(probe, search, frame, arc, &entered));
      depth += entered;
    } else {
      if (depth > 0) RengaCall(LeaveItem(probe, search, frame));
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
    if (least < devices || better || IsArcDominated(probe, search.source, row, devices)) continue;
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

static void TakeProbePlan(const Probe probe, Chain *chain)
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
  RengaCall(ProbePlaceCritical(probe, &can));
  Reset(probe, bound);
  probe->state[0].devices = 1;
  if (can && !IsProbeHopeless(probe, &probe->lattice.ideal[0], 0, 0)) {
    int all = probe->instance->devices > 0 ? NeedOfRest(probe, &probe->lattice.ideal[0]) : 0;
    if (all > 0) FindIdeal(probe, 0, 0, all);
    RengaCall(PushIdeal(&probe->bucket[0], 0));
    RengaCall(ContinueAll(probe));
  }
  *answer = probe->found ? PROBE_YES : probe->open ? PROBE_OPEN : PROBE_NO;
  if (probe->found) TakeProbePlan(probe, chain);
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateProbe(Probe probe)
{
  const Instance *instance = probe->instance;
  RengaCall(LatticeCreate(instance, &probe->lattice));
  RengaCall(ProbeFollowLattice(probe));
  RengaCall(RengaMalloc(probe->rows * (int64_t)(instance->devices + 1), &probe->bucket));
  RengaCall(RengaMalloc(instance->items + 2, &probe->frame));
  RengaCall(RengaMalloc(instance->messages + 1, &probe->message));
  for (int m = 0; m < instance->messages; m++)
    probe->message[m] = (Message){.cost = instance->cost[m],
                                  .pins = instance->pin_first[m + 1] - instance->pin_first[m]};
  return RENGA_SUCCESS;
}

RengaErrorCode ProbeCreate(const Instance *instance, int64_t ideal_limit, Probe *probe)
{
  RengaCall(RengaMalloc(1, probe));
  (*probe)->instance = instance;
  (*probe)->ideal_limit = ideal_limit;
  (*probe)->rows = instance->hosts + 1;
  RengaErrorCode code = AllocateProbe(*probe);
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
  RengaFree(probe);
}
