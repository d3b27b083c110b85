/* A first plan: the best stages that are intervals of one topological order, by dynamic programming
   over the places of the order, for a few orders. Most graphs' best plan is among them. */
#include "exactimpl.h"
#include <string.h>

enum { ORDERS = 3, GUESSES = 3, GENEROUS = 4 };
#define MOST_STEPS 2e7 /* beyond this no first plan is made */

/* value[place][state]: least largest load of what is before the place; a state is how many hosts
   and accelerators it takes: host * (devices + 1) + device. */
typedef struct {
  const Instance *instance;
  int devices, states;
  const int *order;
  double bound; /* loads from here on are of no use */
  double *value;
  int *from, *kind; /* where the last stage begins; its replicas, 0: a host */
  int *count;       /* [messages] pins in the interval */
} LinearTable;

typedef struct {
  double work, messages, host_work, memory, weight;
  bool host_only;
} Interval;

/* A topological order: of those ready, the last one made ready, the first one, or the one with the
   smallest number. */
static void MakeLinearOrder(const Instance *instance, int rule, int ready[], int waits[],
                            int order[])
{
  int count = 0, head = 0;
  for (int v = 0; v < instance->items; v++) {
    waits[v] = instance->predecessor_first[v + 1] - instance->predecessor_first[v];
    if (waits[v] == 0) ready[count++] = v;
  }
  for (int place = 0; place < instance->items; place++) {
    int chosen = rule == 1 ? head : count - 1;
    for (int r = 0; rule == 2 && r < count; r++)
      if (ready[r] < ready[chosen]) chosen = r;
    int v = ready[chosen];
    if (rule == 1)
      head++;
    else
      ready[chosen] = ready[--count];
    order[place] = v;
    for (int e = instance->successor_first[v]; e < instance->successor_first[v + 1]; e++)
      if (--waits[instance->successor[e]] == 0) ready[count++] = instance->successor[e];
  }
}

static void ExtendLinear(LinearTable *table, int item, Interval *interval)
{
  const Instance *instance = table->instance;
  interval->work += instance->item[item].work;
  interval->host_work += instance->item[item].host_work;
  interval->memory += instance->item[item].memory;
  interval->weight += instance->item[item].weight;
  interval->host_only = interval->host_only || instance->item[item].host_only;
  for (int e = instance->message_first[item]; e < instance->message_first[item + 1]; e++) {
    int m = instance->message[e];
    if (table->count[m]++ == 0) interval->messages += instance->cost[m];
    if (table->count[m] == instance->pin_first[m + 1] - instance->pin_first[m])
      interval->messages -= instance->cost[m];
  }
}

/* One more stage of this load and kind, which takes so many accelerators and hosts. */
static void Relax(LinearTable *table, int begin, int end, double load, int kind)
{
  const double *old = table->value + (int64_t)begin * table->states;
  double *new = table->value + (int64_t)end * table->states;
  int row = table->devices + 1, hosts = kind == 0;
  for (int h = 0; h + hosts < table->states / row; h++)
    for (int d = 0; d + kind < row; d++) {
      int to = (h + hosts) * row + d + kind;
      double largest = old[h * row + d] > load ? old[h * row + d] : load;
      if (largest >= new[to]) continue;
      new[to] = largest;
      table->from[(int64_t)end * table->states + to] = begin;
      table->kind[(int64_t)end * table->states + to] = kind;
    }
}

static void RelaxAll(LinearTable *table, int begin, int end, const Interval *interval)
{
  const Instance *instance = table->instance;
  bool fits = !interval->host_only && interval->memory <= instance->capacity;
  double seconds = interval->work + interval->messages;
  for (int d = 1; fits && d <= instance->replicas; d++) {
    double load = InstanceLoad(instance, seconds, interval->weight, d);
    if (load < table->bound) Relax(table, begin, end, load, d);
  }
  if (instance->hosts > 0 && interval->host_work < table->bound)
    Relax(table, begin, end, interval->host_work, 0);
}

/* No larger interval is of use either. */
static bool IsLinearOver(const LinearTable *table, const Interval *interval)
{
  const Instance *instance = table->instance;
  if (instance->hosts > 0 && interval->host_work < table->bound) return false;
  return interval->host_only || interval->memory > instance->capacity ||
         interval->work >= instance->replicas * table->bound;
}

static void FillLinear(LinearTable *table)
{
  int items = table->instance->items;
  for (int64_t i = 0; i < (int64_t)(items + 1) * table->states; i++) table->value[i] = HUGE_VAL;
  table->value[0] = 0;
  for (int begin = 0; begin < items; begin++) {
    Interval interval = {0};
    memset(table->count, 0, sizeof *table->count * (size_t)table->instance->messages);
    for (int end = begin + 1; end <= items; end++) {
      ExtendLinear(table, table->order[end - 1], &interval);
      if (IsLinearOver(table, &interval)) break;
      RelaxAll(table, begin, end, &interval);
    }
  }
}

static void TakeBestLinear(const LinearTable *table, Chain *chain)
{
  int items = table->instance->items, best = 0, stages = 0;
  const double *value = table->value + (int64_t)items * table->states;
  for (int s = 1; s < table->states; s++)
    if (value[s] < value[best]) best = s;
  if (value[best] >= chain->load) return;
  chain->load = value[best];
  for (int end = items, state = best; end > 0; stages++) {
    int64_t at = (int64_t)end * table->states + state;
    int kind = table->kind[at];
    for (int p = table->from[at]; p < end; p++) chain->stage_of[table->order[p]] = stages;
    chain->stage[stages] = (RengaCutsStage){.host = kind == 0, .replicas = kind == 0 ? 1 : kind};
    end = table->from[at];
    state -= kind == 0 ? table->devices + 1 : kind;
  }
  chain->count = stages;
  for (int v = 0; v < items; v++) chain->stage_of[v] = stages - 1 - chain->stage_of[v];
  for (int s = 0; s < stages / 2; s++) {
    RengaCutsStage stage = chain->stage[s];
    chain->stage[s] = chain->stage[stages - 1 - s];
    chain->stage[stages - 1 - s] = stage;
  }
}

/* Mostly there is a plan within a few times the bound on all, and long intervals need not be looked
   at then. */
static void TryOrders(LinearTable *table, int work[], int order[], Chain *chain)
{
  double guess = FirstBound(table->instance);
  table->order = order;
  for (int rule = 0; rule < ORDERS; rule++) {
    double before = chain->load;
    MakeLinearOrder(table->instance, rule, work, work + table->instance->items, order);
    for (int g = rule == 0 ? 0 : GUESSES; g <= GUESSES && chain->load == before; g++) {
      table->bound = g < GUESSES ? fmin(before, guess *= GENEROUS) : before;
      FillLinear(table);
      TakeBestLinear(table, chain);
    }
  }
}

RengaErrorCode FindLinear(const Instance *instance, Chain *chain)
{
  int items = instance->items, devices = instance->devices, *work = NULL, *order = NULL;
  if (instance->replicas == 1 && devices > items) devices = items;
  int hosts = instance->hosts < items ? instance->hosts : items;
  LinearTable table = {
      .instance = instance, .devices = devices, .states = (devices + 1) * (hosts + 1)};
  double cells = (double)(items + 1) * table.states;
  if (cells * items * instance->replicas > MOST_STEPS) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(cells, &table.value);
  if (!code) code = RengaMalloc(cells, &table.from);
  if (!code) code = RengaMalloc(cells, &table.kind);
  if (!code) code = RengaMalloc(instance->messages + 1, &table.count);
  if (!code) code = RengaMalloc(2 * items + 1, &work);
  if (!code) code = RengaMalloc(items + 1, &order);
  if (!code) TryOrders(&table, work, order, chain);
  RengaFree(&table.value);
  RengaFree(&table.from);
  RengaFree(&table.kind);
  RengaFree(&table.count);
  RengaFree(&work);
  RengaFree(&order);
  RengaCall(code);
  return RENGA_SUCCESS;
}
