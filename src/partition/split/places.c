/* Places, states and arcs: what live values there are, in which states they may be, and where each
   way of the next node leads. */
#include "widthimpl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MADE_BITS = 8, NO_STATE = -1 };

/* A live value: in which state it was made, and as bits the states that it was converted into. */
static uint32_t Had(int made, uint32_t converted)
{
  return (uint32_t)made | converted << MADE_BITS;
}

/* States of one place, found again by what their live values are. */
typedef struct {
  int live, count, room, table_size;
  uint32_t *key; /* [count][live] */
  int *table;    /* open addresses; NO_STATE: free */
} StateSet;

/* To sort by. */
typedef struct {
  int state;
  double gone;
} Reached;

typedef struct {
  WidthSearch *search;
  const RengaWidthProblem *problem;
  int *last;       /* [values] the last node that needs it; NO_STATE: none */
  uint32_t *later; /* [values] states that nodes after the present one may need */
  uint32_t *after; /* [inputs of all nodes] the same behind each input's node */
  int *live, n_live;
  StateSet now, next;
  uint32_t *have; /* [values] of the state that is gone on from */
  uint32_t *work; /* [values] a key */
  double *gone;   /* [states of the next place] least seconds to reach it */
  int *kept;      /* [states of the next place] its new number; NO_STATE: it is left out */
  Reached *reached;
} PlaceSearch;

static RengaErrorCode ClearSet(StateSet *set, int live)
{
  set->live = live;
  set->count = 0;
  for (int i = 0; i < set->table_size; i++) set->table[i] = NO_STATE;
  if (set->table_size == 0) {
    set->table_size = 64;
    RengaCall(RengaMalloc(set->table_size, &set->table));
    RengaCall(ClearSet(set, live));
  }
  return RENGA_SUCCESS;
}

/* The address of a key in the table: its own, or where it would stand. */
static int AddressOf(const StateSet *set, const uint32_t key[])
{
  const size_t size = (size_t)set->live * sizeof *key;
  int at = (int)(RengaHash(key, size, 3) % (uint64_t)set->table_size);
  while (set->table[at] != NO_STATE &&
         memcmp(set->key + (size_t)set->table[at] * (size_t)set->live, key, size) != 0)
    at = (at + 1) % set->table_size;
  return at;
}

static RengaErrorCode GrowTable(StateSet *set)
{
  set->table_size *= 2;
  RengaCall(RengaRealloc(set->table_size, &set->table));
  for (int i = 0; i < set->table_size; i++) set->table[i] = NO_STATE;
  for (int s = 0; s < set->count; s++)
    set->table[AddressOf(set, set->key + (size_t)s * (size_t)set->live)] = s;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindOrAdd(StateSet *set, const uint32_t key[], int *state)
{
  if (2 * set->count >= set->table_size) RengaCall(GrowTable(set));
  const int at = AddressOf(set, key);
  if (set->table[at] == NO_STATE) {
    const int words = (set->count + 1) * (set->live ? set->live : 1);
    if (words > set->room) {
      set->room = 2 * words + 64;
      RengaCall(RengaRealloc(set->room, &set->key));
    }
    memcpy(set->key + (size_t)set->count * (size_t)set->live, key, (size_t)set->live * sizeof *key);
    set->table[at] = set->count++;
  }
  *state = set->table[at];
  return RENGA_SUCCESS;
}

/* Which states of each value later nodes may need, from the last node to the first. */
static void FindLater(PlaceSearch *places)
{
  const RengaWidthProblem *p = places->problem;
  for (int v = 0; v < p->values; v++) places->last[v] = NO_STATE;
  for (int n = p->nodes - 1; n >= 0; n--) {
    for (int i = p->first_in[n]; i < p->first_in[n + 1]; i++) {
      places->after[i] = places->later[p->in[i]];
      if (places->last[p->in[i]] == NO_STATE) places->last[p->in[i]] = n;
    }
    for (int i = p->first_in[n]; i < p->first_in[n + 1]; i++)
      for (int w = p->first_way[n]; w < p->first_way[n + 1]; w++)
        places->later[p->in[i]] |= 1u << p->need[p->first_need[w] + i - p->first_in[n]];
  }
}

/* Seconds of a way from the state in have, which is changed to what then is there; negative: it
   cannot be. */
static double TakeWay(PlaceSearch *places, int node, int way)
{
  const RengaWidthProblem *p = places->problem;
  const int *need = p->need + p->first_need[way];
  double seconds = p->seconds[way];
  for (int i = p->first_in[node]; i < p->first_in[node + 1]; i++, need++) {
    const int value = p->in[i], made = (int)(places->have[value] & 0xff);
    if (made == *need || places->have[value] >> MADE_BITS >> *need & 1) continue;
    const double cost = p->convert[p->first_convert[value] + made * p->states[value] + *need];
    if (cost < 0) return -1;
    seconds += cost;
    places->have[value] |= Had(0, 1u << *need);
  }
  for (int o = p->first_out[node]; o < p->first_out[node + 1]; o++, need++)
    places->have[p->out[o]] = Had(*need, 0);
  return seconds;
}

/* What of a value's states still matters: those that were made of it for nobody later do not. */
static void FillKey(PlaceSearch *places, const int live[], int n_live)
{
  for (int k = 0; k < n_live; k++)
    places->work[k] = places->have[live[k]] & Had(0xff, places->later[live[k]]);
}

static RengaErrorCode AddArc(WidthSearch *search, WidthArc arc)
{
  const int64_t n = search->n_arcs;
  if ((n & (n - 1)) == 0) RengaCall(RengaRealloc(2 * n + 1, &search->arc));
  search->arc[search->n_arcs++] = arc;
  return RENGA_SUCCESS;
}

/* All ways of a node from one state. */
static RengaErrorCode LeaveState(PlaceSearch *places, int node, int state, const int live[],
                                 int n_live)
{
  const RengaWidthProblem *p = places->problem;
  const int base = places->search->first_state[node];
  for (int w = p->first_way[node]; w < p->first_way[node + 1]; w++) {
    for (int k = 0; k < places->n_live; k++)
      places->have[places->live[k]] =
          places->now.key[(size_t)state * (size_t)places->n_live + (size_t)k];
    const double seconds = TakeWay(places, node, w);
    int to;
    if (seconds < 0) continue;
    FillKey(places, live, n_live);
    RengaCall(FindOrAdd(&places->next, places->work, &to));
    RengaCall(AddArc(places->search, (WidthArc){base + state, to, w, seconds}));
  }
  return RENGA_SUCCESS;
}

static int CompareReached(const void *a, const void *b)
{
  const Reached *x = a, *y = b;
  if (x->gone != y->gone) return x->gone < y->gone ? -1 : 1;
  return (x->state > y->state) - (x->state < y->state);
}

/* Of too many states those that are reached in the fewest seconds stay. */
static RengaErrorCode DropFarStates(PlaceSearch *places, int limit)
{
  int *kept = places->kept;
  StateSet *set = &places->next;
  const int count = set->count, live = set->live;
  for (int s = 0; s < count; s++) kept[s] = count <= limit ? s : NO_STATE;
  if (count <= limit) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(count, &places->reached));
  Reached *reached = places->reached;
  for (int s = 0; s < count; s++) reached[s] = (Reached){s, places->gone[s]};
  qsort(reached, (size_t)count, sizeof *reached, CompareReached);
  for (int s = 0; s < limit; s++) kept[reached[s].state] = 0;
  set->count = 0;
  for (int s = 0; s < count; s++) {
    if (kept[s] == NO_STATE) continue;
    kept[s] = set->count;
    if (live)
      memmove(set->key + (size_t)set->count * (size_t)live, set->key + (size_t)s * (size_t)live,
              (size_t)live * sizeof *set->key);
    set->count++;
  }
  places->search->cut = true;
  return RENGA_SUCCESS;
}

/* The arcs of a node lead to states that are numbered through; those to what was left out go. */
static RengaErrorCode NumberStates(PlaceSearch *places, int node, int limit)
{
  WidthSearch *search = places->search;
  const int base = search->first_state[node + 1], count = places->next.count;
  RengaCall(RengaRealloc(count + 1, &places->gone));
  RengaCall(RengaRealloc(count + 1, &places->kept));
  double *gone = places->gone;
  const int *kept = places->kept;
  for (int s = 0; s < count; s++) gone[s] = HUGE_VAL;
  for (int64_t a = search->first_arc[node]; a < search->n_arcs; a++) {
    const WidthArc *arc = &search->arc[a];
    gone[arc->to] = fmin(gone[arc->to], search->gone[arc->from] + arc->seconds);
  }
  RengaCall(DropFarStates(places, limit));
  int64_t end = search->first_arc[node];
  for (int64_t a = end; a < search->n_arcs; a++) {
    WidthArc arc = search->arc[a];
    if (kept[arc.to] == NO_STATE) continue;
    arc.to = base + kept[arc.to];
    search->arc[end++] = arc;
  }
  search->n_arcs = end;
  search->n_states = base + places->next.count;
  RengaCall(RengaRealloc(search->n_states, &search->gone));
  for (int s = 0; s < count; s++)
    if (kept[s] != NO_STATE) search->gone[base + kept[s]] = gone[s];
  return RENGA_SUCCESS;
}

/* Values that are live behind a node: those of before and its own, if somebody later needs them. */
static int FindLive(const PlaceSearch *places, int node, int live[])
{
  const RengaWidthProblem *p = places->problem;
  int count = 0;
  for (int k = 0; k < places->n_live; k++)
    if (places->last[places->live[k]] > node) live[count++] = places->live[k];
  for (int o = p->first_out[node]; o < p->first_out[node + 1]; o++)
    if (places->last[p->out[o]] > node) live[count++] = p->out[o];
  return count;
}

static RengaErrorCode PassNode(PlaceSearch *places, int node, int limit, int live[])
{
  const RengaWidthProblem *p = places->problem;
  WidthSearch *search = places->search;
  const int n_live = FindLive(places, node, live);
  for (int i = p->first_in[node]; i < p->first_in[node + 1]; i++)
    places->later[p->in[i]] = places->after[i];
  RengaCall(ClearSet(&places->next, n_live));
  search->first_arc[node] = search->n_arcs;
  for (int s = 0; s < places->now.count; s++) RengaCall(LeaveState(places, node, s, live, n_live));
  search->first_state[node + 1] = search->n_states;
  RengaCall(NumberStates(places, node, limit));
  const StateSet swap = places->now;
  places->now = places->next;
  places->next = swap;
  memcpy(places->live, live, (size_t)n_live * sizeof *live);
  places->n_live = n_live;
  return RENGA_SUCCESS;
}

static RengaErrorCode PassNodes(PlaceSearch *places, int limit, int live[])
{
  WidthSearch *search = places->search;
  const int nodes = places->problem->nodes;
  int first;
  FindLater(places);
  RengaCall(ClearSet(&places->now, 0));
  RengaCall(FindOrAdd(&places->now, places->work, &first));
  search->n_states = 1;
  search->gone[0] = 0;
  for (int n = 0; n < nodes; n++) RengaCall(PassNode(places, n, limit, live));
  search->first_arc[nodes] = search->n_arcs;
  search->first_state[nodes + 1] = search->n_states;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWidthFindPlaces_Private(WidthSearch *search, int state_limit)
{
  const RengaWidthProblem *p = search->problem;
  PlaceSearch places = {.search = search, .problem = p};
  int *live = NULL;
  RengaErrorCode code = RengaMalloc(p->values + 1, &places.last);
  if (!code) code = RengaMalloc(p->values + 1, &places.later);
  if (!code) code = RengaMalloc(p->first_in[p->nodes] + 1, &places.after);
  if (!code) code = RengaMalloc(p->values + 1, &places.live);
  if (!code) code = RengaMalloc(p->values + 1, &places.have);
  if (!code) code = RengaMalloc(p->values + 1, &places.work);
  if (!code) code = RengaMalloc(p->values + 1, &live);
  if (!code) code = RengaMalloc(p->nodes + 2, &search->first_arc);
  if (!code) code = RengaMalloc(p->nodes + 2, &search->first_state);
  if (!code) code = RengaMalloc(1, &search->gone);
  if (!code) code = PassNodes(&places, state_limit, live);
  RengaFree(&places.last);
  RengaFree(&places.later);
  RengaFree(&places.after);
  RengaFree(&places.live);
  RengaFree(&places.have);
  RengaFree(&places.work);
  RengaFree(&places.gone);
  RengaFree(&places.kept);
  RengaFree(&places.reached);
  RengaFree(&places.now.key);
  RengaFree(&places.now.table);
  RengaFree(&places.next.key);
  RengaFree(&places.next.table);
  RengaFree(&live);
  RengaCall(code);
  return RENGA_SUCCESS;
}
