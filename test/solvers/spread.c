/* Virtual stages: items on devices in any way. Simulated annealing from the best convex stages, in
   a few rounds that each begin with the best so far: an item moves to another device, or two change
   places. What falls is the sum of a high power of the loads, so that a move on a device that is
   not the fullest counts too. Random numbers are counted, not drawn, so the result is always the
   same. Merges that lose nothing for convex stages lose nothing here: their argument moves one
   item. */
#include "exactimpl.h"
#include <string.h>

enum { ROUNDS = 8 };
static const int64_t default_steps = 4000000;
static const double hot = 3e-2, cold = 1e-4; /* temperatures, as shares of the load */

typedef struct {
  Instance instance;
  int devices; /* accelerators and hosts */
  int *device_of, *best_of;
  int *inside;                   /* [messages][devices] pins */
  double *load, *memory, *power; /* [devices] */
  double scale, sum, best;
  uint64_t drawn;
  uint32_t number[4];
} SpreadState;

/* What moving an item would make of the loads of two devices. */
typedef struct {
  int item, from, to;
  double load_from, load_to;
} SpreadMove;

static uint32_t DrawMove(SpreadState *spread)
{
  const uint32_t key[2] = {2020, 11}; /* any */
  uint32_t counter[4] = {(uint32_t)(spread->drawn / 4), (uint32_t)(spread->drawn >> 34), 0, 0};
  if (spread->drawn % 4 == 0) RengaPhilox(counter, key, spread->number);
  return spread->number[spread->drawn++ % 4];
}

static int DrawBelow(SpreadState *spread, int limit)
{
  return (int)(((uint64_t)DrawMove(spread) * (uint64_t)limit) >> 32);
}

/* The 16th power of the load, as a share of the scale. */
static double RaiseToPower(const SpreadState *spread, double load)
{
  double x = load / spread->scale;
  x *= x;
  x *= x;
  x *= x;
  return x * x;
}

static bool IsHost(const SpreadState *spread, int device)
{
  return device >= spread->instance.devices;
}

static bool FitsSpread(const SpreadState *spread, int item, int device, double leaves)
{
  const RengaCutsItem *added = &spread->instance.item[item];
  if (IsHost(spread, device)) return added->host_work < HUGE_VAL;
  return !added->host_only &&
         spread->memory[device] - leaves + added->memory <= spread->instance.capacity;
}

static SpreadMove Weigh(const SpreadState *spread, int item, int to)
{
  const Instance *instance = &spread->instance;
  const RengaCutsItem *moved = &instance->item[item];
  int from = spread->device_of[item];
  bool host_from = IsHost(spread, from), host_to = IsHost(spread, to);
  SpreadMove move = {item, from, to,
                     spread->load[from] - (host_from ? moved->host_work : moved->work),
                     spread->load[to] + (host_to ? moved->host_work : moved->work)};
  for (int e = instance->message_first[item]; e < instance->message_first[item + 1]; e++) {
    int m = instance->message[e], pins = instance->pin_first[m + 1] - instance->pin_first[m];
    const int *inside = spread->inside + (int64_t)m * spread->devices;
    if (!host_from)
      move.load_from += inside[from] == 1      ? -instance->cost[m]
                        : inside[from] == pins ? instance->cost[m]
                                               : 0;
    if (!host_to)
      move.load_to +=
          (inside[to] == 0) * instance->cost[m] - (inside[to] + 1 == pins) * instance->cost[m];
  }
  return move;
}

static void SetLoad(SpreadState *spread, int device, double load)
{
  spread->sum -= spread->power[device];
  spread->load[device] = load;
  spread->power[device] = RaiseToPower(spread, load);
  spread->sum += spread->power[device];
}

static void Do(SpreadState *spread, const SpreadMove *move)
{
  const Instance *instance = &spread->instance;
  for (int e = instance->message_first[move->item]; e < instance->message_first[move->item + 1];
       e++) {
    int *inside = spread->inside + (int64_t)instance->message[e] * spread->devices;
    inside[move->from]--;
    inside[move->to]++;
  }
  spread->device_of[move->item] = move->to;
  spread->memory[move->from] -= instance->item[move->item].memory;
  spread->memory[move->to] += instance->item[move->item].memory;
  SetLoad(spread, move->from, move->load_from);
  SetLoad(spread, move->to, move->load_to);
}

/* Rounding errors of many moves leave here. */
static void WeighAll(SpreadState *spread)
{
  const Instance *instance = &spread->instance;
  memset(spread->inside, 0,
         sizeof *spread->inside * (size_t)instance->messages * (size_t)spread->devices);
  for (int d = 0; d < spread->devices; d++) spread->load[d] = spread->memory[d] = 0;
  for (int v = 0; v < instance->items; v++) {
    int d = spread->device_of[v];
    spread->load[d] += IsHost(spread, d) ? instance->item[v].host_work : instance->item[v].work;
    spread->memory[d] += instance->item[v].memory;
    for (int e = instance->message_first[v]; e < instance->message_first[v + 1]; e++)
      spread->inside[(int64_t)instance->message[e] * spread->devices + d]++;
  }
  spread->sum = 0;
  for (int m = 0; m < instance->messages; m++)
    for (int d = 0; d < instance->devices; d++) {
      int pins = instance->pin_first[m + 1] - instance->pin_first[m];
      int inside = spread->inside[(int64_t)m * spread->devices + d];
      if (inside > 0 && inside < pins) spread->load[d] += instance->cost[m];
    }
  for (int d = 0; d < spread->devices; d++) {
    spread->power[d] = RaiseToPower(spread, spread->load[d]);
    spread->sum += spread->power[d];
  }
}

static double Largest(const SpreadState *spread)
{
  double largest = 0;
  for (int d = 0; d < spread->devices; d++)
    if (spread->load[d] > largest) largest = spread->load[d];
  return largest;
}

static void KeepBestSpread(SpreadState *spread)
{
  double largest = Largest(spread);
  if (largest >= spread->best) return;
  spread->best = largest;
  memcpy(spread->best_of, spread->device_of,
         sizeof *spread->best_of * (size_t)spread->instance.items);
}

/* Is what the sum of powers would become accepted at this temperature? */
static bool IsAccepted(SpreadState *spread, double before, double after, double temperature)
{
  if (after <= before) return true;
  double chance = ((double)DrawMove(spread) + 0.5) / 4294967296.0;
  return log(after / before) < -16 * temperature * log(chance);
}

static void TryMove(SpreadState *spread, int item, int to, double temperature)
{
  if (!FitsSpread(spread, item, to, 0)) return;
  SpreadMove move = Weigh(spread, item, to);
  double after = spread->sum - spread->power[move.from] - spread->power[to] +
                 RaiseToPower(spread, move.load_from) + RaiseToPower(spread, move.load_to);
  if (!IsAccepted(spread, spread->sum, after, temperature)) return;
  Do(spread, &move);
  KeepBestSpread(spread);
}

/* Two items change places: two moves, and back where that is not accepted. */
static void TrySwap(SpreadState *spread, int left, int right, double temperature)
{
  const RengaCutsItem *item = spread->instance.item;
  int a = spread->device_of[left], b = spread->device_of[right];
  double before = spread->sum;
  if (!FitsSpread(spread, left, b, item[right].memory) ||
      !FitsSpread(spread, right, a, item[left].memory))
    return;
  SpreadMove move = Weigh(spread, left, b);
  Do(spread, &move);
  move = Weigh(spread, right, a);
  Do(spread, &move);
  if (IsAccepted(spread, before, spread->sum, temperature)) {
    KeepBestSpread(spread);
    return;
  }
  move = Weigh(spread, right, b);
  Do(spread, &move);
  move = Weigh(spread, left, a);
  Do(spread, &move);
}

static void Anneal(SpreadState *spread, int64_t steps)
{
  enum { STEPS_PER_DEGREE = 256, STEPS_PER_WEIGHING = 65536 };
  int items = spread->instance.items;
  double temperature = hot;
  for (int64_t s = 0; s < steps; s++) {
    int item = DrawBelow(spread, items), other = DrawBelow(spread, items);
    if (s % STEPS_PER_DEGREE == 0) temperature = hot * pow(cold / hot, (double)s / (double)steps);
    if (s % STEPS_PER_WEIGHING == 0) WeighAll(spread);
    if (s % 4 == 0) {
      if (spread->device_of[item] != spread->device_of[other])
        TrySwap(spread, item, other, temperature);
      continue;
    }
    int to = DrawBelow(spread, spread->devices);
    if (s % 2 == 0) to = spread->device_of[other]; /* more likely near */
    if (to != spread->device_of[item]) TryMove(spread, item, to, temperature);
  }
}

static void SearchSpread(SpreadState *spread, int64_t steps)
{
  int64_t each = (steps > 0 ? steps : default_steps) / ROUNDS;
  for (int round = 0; round < ROUNDS; round++) {
    memcpy(spread->device_of, spread->best_of,
           sizeof *spread->device_of * (size_t)spread->instance.items);
    if (spread->best > 0) spread->scale = spread->best;
    Anneal(spread, each);
  }
}

/* Stages to devices: accelerators in order, then hosts. device: room for each stage's. */
static void BeginSpread(SpreadState *spread, const RengaCutsProblem *problem,
                        const RengaCutsResult *stages, const int map[], int device[])
{
  int used[2] = {0, 0};
  for (int s = 0; s < stages->count; s++)
    device[s] = stages->stage[s].host ? spread->instance.devices + used[1]++ : used[0]++;
  for (int v = 0; v < problem->items; v++) spread->device_of[map[v]] = device[stages->stage_of[v]];
  spread->scale = stages->load > 0 ? stages->load : 1;
  WeighAll(spread);
  spread->best = Largest(spread);
  memcpy(spread->best_of, spread->device_of,
         sizeof *spread->best_of * (size_t)spread->instance.items);
}

static RengaErrorCode AllocateSpread(const RengaCutsProblem *problem, SpreadState *spread)
{
  int items = problem->items;
  spread->devices = problem->devices + problem->hosts;
  RengaCall(RengaMalloc(items + 1, &spread->device_of));
  RengaCall(RengaMalloc(items + 1, &spread->best_of));
  RengaCall(RengaMalloc((int64_t)spread->instance.messages * spread->devices + 1, &spread->inside));
  RengaCall(RengaMalloc(spread->devices, &spread->load));
  RengaCall(RengaMalloc(spread->devices, &spread->memory));
  RengaCall(RengaMalloc(spread->devices, &spread->power));
  return RENGA_SUCCESS;
}

static RengaErrorCode GiveItem(const SpreadState *spread, const RengaCutsProblem *problem,
                               const int map[], RengaCutsSpreadResult *result)
{
  result->count = spread->devices;
  RengaCall(RengaMalloc(problem->items + 1, &result->device_of));
  RengaCall(RengaMalloc(spread->devices, &result->device));
  for (int v = 0; v < problem->items; v++) result->device_of[v] = spread->best_of[map[v]];
  for (int d = 0; d < spread->devices; d++)
    result->device[d] = (RengaCutsStage){.host = IsHost(spread, d), .replicas = 1};
  RengaCall(RengaCutsEvaluate(problem, result->device_of, result->count, result->device));
  result->load = 0;
  for (int d = 0; d < spread->devices; d++)
    if (result->device[d].load > result->load) result->load = result->device[d].load;
  result->bound = FirstBound(&spread->instance);
  RengaCall(RaiseBound(&spread->instance, spread->instance.items, &result->bound));
  RengaCall(RaiseBoundByPacking(&spread->instance, result->load, &result->bound));
  if (result->bound > result->load) result->bound = result->load; /* by rounding */
  return RENGA_SUCCESS;
}

static RengaErrorCode SolveSpread(SpreadState *spread, const RengaCutsProblem *problem,
                                  const RengaCutsResult *stages, int64_t steps, int map[],
                                  RengaCutsSpreadResult *result)
{
  for (int v = 0; v < problem->items; v++) map[v] = v;
  RengaCall(ReduceItems(problem, HUGE_VAL, map));
  RengaCall(InstanceCreate(problem, map, &spread->instance));
  RengaCall(AllocateSpread(problem, spread));
  BeginSpread(spread, problem, stages, map, spread->best_of);
  if (spread->devices > 1) SearchSpread(spread, steps);
  RengaCall(GiveItem(spread, problem, map, result));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCutsSpread(const RengaCutsProblem *problem, const RengaCutsResult *stages,
                               int64_t steps, RengaCutsSpreadResult *result)
{
  SpreadState spread = {.drawn = 0};
  int *map = NULL;
  memset(result, 0, sizeof *result);
  RengaCheck(stages->count > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "no stages to begin with");
  RengaCheck(problem->replicas <= 1, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "virtual stages with %d replicas", problem->replicas);
  RengaCall(RengaMalloc(problem->items + 1, &map));
  RengaErrorCode code = SolveSpread(&spread, problem, stages, steps, map, result);
  RengaFree(&map);
  InstanceFree(&spread.instance);
  RengaFree(&spread.device_of);
  RengaFree(&spread.best_of);
  RengaFree(&spread.inside);
  RengaFree(&spread.load);
  RengaFree(&spread.memory);
  RengaFree(&spread.power);
  if (code != RENGA_SUCCESS) RengaCutsFreeSpreadResult(result);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaCutsFreeSpreadResult(RengaCutsSpreadResult *result)
{
  RengaFree(&result->device);
  RengaFree(&result->device_of);
}
