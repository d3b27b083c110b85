/* The problem laid out for the search: lists in compressed rows, edges without those that follow
   from others, messages with equal pins added up. */
#include "exactimpl.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_REDUCED = 8192 }; /* items up to which the transitive reduction is made */

int InstanceNumber(int items, int map[])
{
  int count = 0; /* of roots: those that map to themselves */
  for (int v = 0; v < items; v++)
    if (map[v] == v) map[v] = -1 - count++;
  for (int v = 0; v < items; v++)
    if (map[v] >= 0) {
      int root = map[v];
      while (map[root] >= 0) root = map[root];
      map[v] = map[root];
    }
  for (int v = 0; v < items; v++) map[v] = -1 - map[v];
  return count;
}

static void SumInstanceItems(const RengaCutsProblem *problem, const int map[], Instance *instance)
{
  for (int v = 0; v < problem->items; v++) {
    RengaCutsItem *item = &instance->item[map[v]];
    item->work += problem->item[v].work;
    item->host_work += problem->item[v].host_work;
    item->memory += problem->item[v].memory;
    item->weight += problem->item[v].weight;
    item->host_only = item->host_only || problem->item[v].host_only;
    instance->work += problem->item[v].work;
    instance->host_work += problem->item[v].host_work;
    instance->weight += problem->item[v].weight;
    instance->memory += problem->item[v].memory;
  }
  for (int v = 0; v < instance->items; v++) instance->host_only += instance->item[v].host_only;
}

/* Rows of pairs (row[e], column[e]): first[0 … rows], and the columns. */
static RengaErrorCode FillInstanceRows(int rows, int count, const int row[], const int column[],
                                       int first[], int columns[])
{
  int *next = NULL;
  RengaCall(RengaMalloc(rows + 1, &next));
  memset(first, 0, sizeof *first * (size_t)(rows + 1));
  for (int e = 0; e < count; e++) first[row[e] + 1]++;
  for (int r = 0; r < rows; r++) first[r + 1] += first[r];
  memcpy(next, first, sizeof *next * (size_t)rows);
  for (int e = 0; e < count; e++) columns[next[row[e]]++] = column[e];
  RengaFree(&next);
  return RENGA_SUCCESS;
}

/* Each row's columns once, and none that is the row itself. Gives the new number of columns. */
static RengaErrorCode UniqueRows(int rows, int first[], int columns[], int *count)
{
  int *seen = NULL, kept = 0, begin = 0;
  RengaCall(RengaMalloc(rows + 1, &seen));
  for (int r = 0; r < rows; r++) {
    int end = first[r + 1];
    first[r] = kept;
    for (int e = begin; e < end; e++)
      if (columns[e] != r && seen[columns[e]] != r + 1) {
        seen[columns[e]] = r + 1;
        columns[kept++] = columns[e];
      }
    begin = end;
  }
  first[rows] = kept;
  *count = kept;
  RengaFree(&seen);
  return RENGA_SUCCESS;
}

/* A topological order by counting down predecessors. */
static RengaErrorCode OrderInstanceItems(const Instance *instance, int order[])
{
  int items = instance->items, done = 0, *waits = NULL;
  RengaCall(RengaMalloc(items + 1, &waits));
  for (int v = 0; v < items; v++) {
    waits[v] = instance->predecessor_first[v + 1] - instance->predecessor_first[v];
    if (waits[v] == 0) order[done++] = v;
  }
  for (int i = 0; i < done; i++)
    for (int e = instance->successor_first[order[i]]; e < instance->successor_first[order[i] + 1];
         e++)
      if (--waits[instance->successor[e]] == 0) order[done++] = instance->successor[e];
  RengaFree(&waits);
  RengaCheck(done == items, MPI_COMM_SELF, RENGA_ERR_GRAPH,
             "the items to be cut depend on each other in a circle: only %d of %d can be ordered",
             done, items);
  return RENGA_SUCCESS;
}

/* Drop each edge whose end is reached through another predecessor of that end. */
static RengaErrorCode ReduceEdges(Instance *instance, const int order[], int row[], int column[],
                                  int *count)
{
  int items = instance->items, words = (items + 63) / 64;
  uint64_t *above = NULL;
  RengaCall(RengaMalloc((int64_t)items * words + 1, &above));
  *count = 0;
  for (int i = 0; i < items; i++) {
    int v = order[i];
    uint64_t *mine = above + (int64_t)v * words;
    int begin = instance->predecessor_first[v], end = instance->predecessor_first[v + 1];
    for (int e = begin; e < end; e++) {
      const uint64_t *other = above + (int64_t)instance->predecessor[e] * words;
      for (int w = 0; w < words; w++) mine[w] |= other[w];
    }
    for (int e = begin; e < end; e++) {
      int u = instance->predecessor[e];
      if (mine[u / 64] >> (u % 64) & 1) continue;
      row[*count] = u;
      column[(*count)++] = v;
    }
    for (int e = begin; e < end; e++)
      mine[instance->predecessor[e] / 64] |= UINT64_C(1) << (instance->predecessor[e] % 64);
  }
  RengaFree(&above);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillEdges(Instance *instance, int count, const int row[], const int column[])
{
  RengaCall(FillInstanceRows(instance->items, count, row, column, instance->successor_first,
                             instance->successor));
  RengaCall(FillInstanceRows(instance->items, count, column, row, instance->predecessor_first,
                             instance->predecessor));
  RengaCall(UniqueRows(instance->items, instance->successor_first, instance->successor, &count));
  RengaCall(
      UniqueRows(instance->items, instance->predecessor_first, instance->predecessor, &count));
  return RENGA_SUCCESS;
}

static RengaErrorCode MapEdges(const RengaCutsProblem *problem, const int map[], Instance *instance)
{
  int count = problem->edges, *row = NULL, *column = NULL, *order = NULL;
  RengaErrorCode code = RengaMalloc(count + 1, &row);
  if (!code) code = RengaMalloc(count + 1, &column);
  if (!code) code = RengaMalloc(instance->items + 1, &order);
  for (int e = 0; e < count && !code; e++) {
    row[e] = map[problem->edge[2 * e]];
    column[e] = map[problem->edge[2 * e + 1]];
  }
  if (!code) code = FillEdges(instance, count, row, column);
  if (code == RENGA_SUCCESS) code = OrderInstanceItems(instance, order);
  if (code == RENGA_SUCCESS && instance->items <= MOST_REDUCED) {
    code = ReduceEdges(instance, order, row, column, &count);
    if (code == RENGA_SUCCESS) code = FillEdges(instance, count, row, column);
  }
  RengaFree(&row);
  RengaFree(&column);
  RengaFree(&order);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static int CompareInts(const void *left, const void *right)
{
  return *(const int *)left - *(const int *)right;
}

/* Distinct items of a message's pins, ascending, to pin[]; gives their number. */
static int MapPins(const RengaCutsProblem *problem, const int map[], int message, int pin[])
{
  int begin = problem->message_first[message], count = 0;
  int pins = problem->message_first[message + 1] - begin;
  for (int p = 0; p < pins; p++) pin[p] = map[problem->message_pin[begin + p]];
  qsort(pin, (size_t)pins, sizeof *pin, CompareInts);
  for (int p = 0; p < pins; p++)
    if (p == 0 || pin[p] != pin[p - 1]) pin[count++] = pin[p];
  return count;
}

/* The slot of a hash table that holds the message with these pins, or a free one. */
static int64_t FindMessageSlot(const Instance *instance, const int slot[], int64_t slots,
                               const int pin[], int pins)
{
  int64_t s = (int64_t)(RengaHash(pin, sizeof *pin * (size_t)pins, 0) & (uint64_t)(slots - 1));
  for (; slot[s]; s = (s + 1) & (slots - 1)) {
    int m = slot[s] - 1, begin = instance->pin_first[m];
    if (instance->pin_first[m + 1] - begin == pins &&
        memcmp(instance->pin + begin, pin, sizeof *pin * (size_t)pins) == 0)
      return s;
  }
  return s;
}

static RengaErrorCode MapMessages(const RengaCutsProblem *problem, const int map[],
                                  Instance *instance)
{
  int64_t slots = 4;
  int *slot = NULL, made = 0;
  while (slots < 2 * (int64_t)problem->messages) slots *= 2;
  RengaCall(RengaMalloc(slots, &slot));
  for (int m = 0; m < problem->messages; m++) {
    int *pin = instance->pin + instance->pin_first[made];
    int pins = problem->message_cost[m] > 0 ? MapPins(problem, map, m, pin) : 0;
    if (pins < 2) continue;
    int64_t s = FindMessageSlot(instance, slot, slots, pin, pins);
    if (!slot[s]) {
      instance->pin_first[made + 1] = instance->pin_first[made] + pins;
      slot[s] = ++made;
    }
    instance->cost[slot[s] - 1] += problem->message_cost[m];
  }
  instance->messages = made;
  RengaFree(&slot);
  return RENGA_SUCCESS;
}

static RengaErrorCode ListMessages(Instance *instance)
{
  int pins = instance->pin_first[instance->messages], *row = NULL;
  RengaCall(RengaMalloc(pins + 1, &row));
  for (int m = 0; m < instance->messages; m++)
    for (int p = instance->pin_first[m]; p < instance->pin_first[m + 1]; p++) {
      row[p] = m;
      instance->touched[instance->pin[p]] += instance->cost[m];
    }
  RengaErrorCode code = FillInstanceRows(instance->items, pins, instance->pin, row,
                                         instance->message_first, instance->message);
  RengaFree(&row);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetReplicas(const RengaCutsProblem *problem, Instance *instance)
{
  int most = problem->replicas > 1 ? problem->replicas : 1;
  if (most > problem->devices) most = problem->devices;
  instance->replicas = most;
  RengaCall(RengaMalloc(most + 1, &instance->resynchronise));
  for (int d = 1; d <= most && problem->resynchronise; d++)
    instance->resynchronise[d] = problem->resynchronise[d];
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateInstance(const RengaCutsProblem *problem, Instance *instance)
{
  int items = instance->items, pins = problem->message_first[problem->messages];
  RengaCall(RengaMalloc(items + 1, &instance->item));
  RengaCall(RengaMalloc(items + 2, &instance->predecessor_first));
  RengaCall(RengaMalloc(problem->edges + 1, &instance->predecessor));
  RengaCall(RengaMalloc(items + 2, &instance->successor_first));
  RengaCall(RengaMalloc(problem->edges + 1, &instance->successor));
  RengaCall(RengaMalloc(problem->messages + 1, &instance->cost));
  RengaCall(RengaMalloc(problem->messages + 2, &instance->pin_first));
  RengaCall(RengaMalloc(pins + 1, &instance->pin));
  RengaCall(RengaMalloc(items + 2, &instance->message_first));
  RengaCall(RengaMalloc(pins + 1, &instance->message));
  RengaCall(RengaMalloc(items + 1, &instance->touched));
  return RENGA_SUCCESS;
}

static double ExchangeSeconds(const Instance *instance)
{
  double most = 0;
  for (int v = 0; v < instance->items && instance->hosts > 0; v++) {
    const RengaCutsItem *item = &instance->item[v];
    if (item->work > most * item->host_work) most = item->work / item->host_work;
  }
  return most;
}

RengaErrorCode InstanceCreate(const RengaCutsProblem *problem, const int map[], Instance *instance)
{
  instance->items = 0;
  for (int v = 0; v < problem->items; v++)
    if (map[v] >= instance->items) instance->items = map[v] + 1;
  instance->devices = problem->devices;
  instance->hosts = problem->hosts;
  RengaCall(AllocateInstance(problem, instance));
  SumInstanceItems(problem, map, instance);
  RengaCall(MapEdges(problem, map, instance));
  RengaCall(MapMessages(problem, map, instance));
  RengaCall(ListMessages(instance));
  RengaCall(SetReplicas(problem, instance));
  instance->capacity = instance->memory <= problem->capacity ? HUGE_VAL : problem->capacity;
  instance->exchange = ExchangeSeconds(instance);
  return RENGA_SUCCESS;
}

void InstanceFree(Instance *instance)
{
  RengaFree(&instance->item);
  RengaFree(&instance->predecessor_first);
  RengaFree(&instance->predecessor);
  RengaFree(&instance->successor_first);
  RengaFree(&instance->successor);
  RengaFree(&instance->cost);
  RengaFree(&instance->pin_first);
  RengaFree(&instance->pin);
  RengaFree(&instance->message_first);
  RengaFree(&instance->message);
  RengaFree(&instance->touched);
  RengaFree(&instance->resynchronise);
}

double InstanceLoad(const Instance *instance, double load, double weight, int replicas)
{
  double each = instance->resynchronise[replicas];
  return each == HUGE_VAL ? HUGE_VAL : load / replicas + weight * each;
}

int InstanceReplicas(const Instance *instance, double load, double weight, double bound)
{
  for (int d = 1; d <= instance->replicas; d++)
    if (load <= bound * d && InstanceLoad(instance, load, weight, d) <= bound) return d;
  return 0;
}

/* The least load of a stage that holds the item. */
static double LeastLoad(const Instance *instance, const RengaCutsItem *item)
{
  double least = instance->hosts > 0 ? item->host_work : HUGE_VAL;
  bool fits = !item->host_only && item->memory <= instance->capacity && instance->devices > 0;
  for (int d = 1; fits && d <= instance->replicas; d++) {
    double load = InstanceLoad(instance, item->work, item->weight, d);
    if (load < least) least = load;
  }
  return least;
}

double FirstBound(const Instance *instance)
{
  double able = instance->devices;
  if (instance->hosts > 0) able += instance->hosts * instance->exchange;
  double bound = able > 0 ? instance->work / able : 0;
  for (int v = 0; v < instance->items; v++) {
    double least = LeastLoad(instance, &instance->item[v]);
    if (least > bound) bound = least;
  }
  return bound;
}
