/* Stages with tensor degrees, replicas and options, exactly. Ideals are those of the graph turned
   round, so that a plan grows from its last stage: what a stage stores depends on the replicas
   after it. For a bound on the time a probe finds, for each ideal and each sum of replicas, the
   least number of devices; bisection on the bound ends when nothing better is possible. */
#include "shard.h"
#include <limits.h>
#include <string.h>

enum { MOST_STAGES = 4000000, MOST_IDEALS = 100000 };

typedef struct {
  int stage, replicas; /* of the first stage of what the ideal holds */
} Parent;

typedef struct {
  const RengaCutsShardProblem *problem;
  int *turned; /* [edges][2] */
  Instance instance;
  Lattice lattice;
  ShardChoice choice;
  int *item; /* [items] of a stage */
  int64_t stages, stage_room, steps, step_room;
  ShardStage *stage;
  ShardStep *step;
  int sum;                /* of replicas, at most */
  int divisors, *divisor; /* of the batch */
  int *least;             /* [ideals][sum + 1] devices; INT_MAX: not possible */
  Parent *parent;         /* [ideals][sum + 1] */
  int *drop;              /* [sum + 1] sums at which least falls */
  int64_t pairs;
  int probes;
} Shards;

static RengaErrorCode TurnGraph(Shards *shards)
{
  const RengaCutsShardProblem *problem = shards->problem;
  RengaCutsItem *item = NULL;
  int *map = NULL;
  const int first[] = {0};
  RengaCall(RengaMalloc(2 * problem->edges + 1, &shards->turned));
  for (int e = 0; e < 2 * problem->edges; e++) shards->turned[e] = problem->edge[e ^ 1];
  RengaErrorCode code = RengaMalloc(problem->items + 1, &item);
  if (!code) code = RengaMalloc(problem->items + 1, &map);
  for (int v = 0; v < problem->items && !code; v++) map[v] = v;
  RengaCutsProblem graph = {.items = problem->items,
                            .edges = problem->edges,
                            .item = item,
                            .edge = shards->turned,
                            .message_first = first,
                            .devices = 1,
                            .capacity = HUGE_VAL};
  if (!code) code = InstanceCreate(&graph, map, &shards->instance);
  RengaFree(&item);
  RengaFree(&map);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeShardIdeals(Shards *shards)
{
  Lattice *lattice = &shards->lattice;
  RengaCall(LatticeCreate(&shards->instance, lattice));
  for (int i = 0; i < lattice->count; i++) {
    RengaCheck(lattice->count <= MOST_IDEALS, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "the graph has more than %d ideals: collapse it first", MOST_IDEALS);
    for (int a = 0; a < lattice->ideal[i].count; a++) {
      int to;
      RengaCall(LatticeStep(lattice, lattice->ideal[i].first + a, i, &to));
    }
  }
  return RENGA_SUCCESS;
}

/* Sums of a stage at a degree; false: an item does not offer it. */
static bool SumShardItems(const Shards *shards, int count, ShardStage *stage)
{
  const RengaCutsShardProblem *problem = shards->problem;
  stage->seconds = stage->bytes = stage->weight = 0;
  for (int i = 0; i < count; i++) {
    int64_t row = (int64_t)shards->item[i] * problem->degrees + stage->degree;
    const RengaCutsOption *option = problem->option + row * problem->options;
    if (!problem->offered[row]) return false;
    stage->weight += problem->weight[row];
    stage->seconds += fmin(option[0].seconds, option[problem->options - 1].seconds);
  }
  return true;
}

static void SumBorder(const Shards *shards, ShardStage *stage)
{
  const RengaCutsShardProblem *problem = shards->problem;
  const Lattice *lattice = &shards->lattice;
  for (int e = 0; e < problem->edges; e++) {
    bool in[2];
    for (int side = 0; side < 2; side++)
      in[side] = LatticeHas(lattice, stage->to, problem->edge[2 * e + side]) &&
                 !LatticeHas(lattice, stage->from, problem->edge[2 * e + side]);
    if (in[0] == in[1]) continue;
    const double *more = in[0] ? problem->send_bytes : problem->receive_bytes;
    stage->bytes += 2 * (problem->edge_bytes[e] + more[e * problem->degrees + stage->degree]);
  }
}

/* The largest y up to which the seconds stay the same as at y. */
static int FindEnd(const Shards *shards, int y, double extra)
{
  int low = y, high = shards->sum;
  while (low < high) {
    int middle = low + (high - low + 1) / 2;
    if (ShardChoiceSolve(&shards->choice, shards->problem->capacity, middle, NULL) <= extra)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static RengaErrorCode MakeSteps(Shards *shards, ShardStage *stage)
{
  double capacity = shards->problem->capacity;
  stage->steps = 0;
  for (int y = 1; y <= shards->sum; y++) {
    double extra = ShardChoiceSolve(&shards->choice, capacity, y, NULL);
    if (extra == HUGE_VAL) break;
    y = FindEnd(shards, y, extra);
    if (shards->steps == shards->step_room) {
      shards->step_room = 2 * shards->step_room + 1024;
      RengaCall(RengaRealloc(shards->step_room, &shards->step));
    }
    shards->step[shards->steps++] = (ShardStep){y, extra};
    stage->steps++;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeStage(Shards *shards, int from, int to)
{
  const RengaCutsShardProblem *problem = shards->problem;
  int count = 0;
  shards->pairs++;
  for (int v = 0; v < problem->items; v++)
    if (LatticeHas(&shards->lattice, to, v) && !LatticeHas(&shards->lattice, from, v))
      shards->item[count++] = v;
  for (int t = 0; t < problem->degrees; t++) {
    ShardStage stage = {.from = from, .to = to, .degree = t};
    if (!SumShardItems(shards, count, &stage)) continue;
    SumBorder(shards, &stage);
    RengaCall(ShardChoiceFill(problem, t, count, shards->item, &shards->choice));
    RengaCall(MakeSteps(shards, &stage));
    if (stage.steps == 0) continue;
    if (shards->stages == shards->stage_room) {
      shards->stage_room = 2 * shards->stage_room + 1024;
      RengaCall(RengaRealloc(shards->stage_room, &shards->stage));
    }
    shards->stage[shards->stages++] = stage;
    RengaCheck(shards->stages <= MOST_STAGES, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "more than %d stages are possible: collapse the graph first", MOST_STAGES);
  }
  return RENGA_SUCCESS;
}

/* All stages that begin at an ideal: the ideals above it, each once. */
static RengaErrorCode MakeStagesFrom(Shards *shards, int from, int seen[], int stack[])
{
  const Lattice *lattice = &shards->lattice;
  int depth = 0;
  stack[depth++] = from;
  seen[from] = from + 1;
  while (depth > 0) {
    int ideal = stack[--depth], first = lattice->ideal[ideal].first;
    if (ideal != from) RengaCall(MakeStage(shards, from, ideal));
    for (int a = first; a < first + lattice->ideal[ideal].count; a++) {
      int to = lattice->arc_to[a];
      if (seen[to] == from + 1) continue;
      seen[to] = from + 1;
      stack[depth++] = to;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeStages(Shards *shards)
{
  int ideals = (int)shards->lattice.count, *seen = NULL, *stack = NULL;
  RengaErrorCode code = RengaMalloc(ideals + 1, &seen);
  if (!code) code = RengaMalloc(ideals + 1, &stack);
  for (int i = 0; i < ideals && code == RENGA_SUCCESS; i++)
    code = MakeStagesFrom(shards, i, seen, stack);
  RengaFree(&seen);
  RengaFree(&stack);
  RengaCall(code);
  int64_t steps = 0;
  for (int64_t s = 0; s < shards->stages; s++) {
    shards->stage[s].step = shards->step + steps;
    steps += shards->stage[s].steps;
  }
  return RENGA_SUCCESS;
}

/* Seconds with the fastest options. */
static double BaseSeconds(const Shards *shards, const ShardStage *stage, int d)
{
  const RengaCutsShardProblem *problem = shards->problem;
  double bytes = stage->bytes / d + 4.0 * (d - 1) * stage->weight / d / problem->batch;
  return stage->seconds / d + bytes / problem->bandwidth;
}

/* The largest y with which the stage on d replicas is within the bound; 0: none. */
static int MostStored(const Shards *shards, const ShardStage *stage, int d, double bound)
{
  double extra = (bound - BaseSeconds(shards, stage, d)) * d;
  int low = 0, high = stage->steps; /* steps with no more than extra */
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (stage->step[middle].extra <= extra)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 ? stage->step[low - 1].y : 0;
}

/* Put the stage on d replicas before what its first ideal holds, for every sum that it can
   store. */
static void AppendShard(Shards *shards, int64_t number, int d, int64_t limit, int drops)
{
  const ShardStage *stage = &shards->stage[number];
  int row = shards->sum + 1, devices = d * shards->problem->degree[stage->degree];
  const int *old = shards->least + (int64_t)stage->from * row;
  int *new = shards->least + (int64_t)stage->to *row;
  for (int i = 0; i < drops && shards->drop[i] + d <= limit; i++) {
    int s = shards->drop[i], used = old[s] + devices;
    if (used > shards->problem->devices || used >= new[s + d]) continue;
    new[s + d] = used;
    shards->parent[(int64_t)stage->to * row + s + d] = (Parent){(int)number, d};
  }
}

static void AppendAll(Shards *shards, int64_t number, double bound, int drops)
{
  const ShardStage *stage = &shards->stage[number];
  int degree = shards->problem->degree[stage->degree];
  for (int i = 0; i < shards->divisors; i++) {
    int d = shards->divisor[i];
    if ((int64_t)d * degree > shards->problem->devices || d > shards->sum) return;
    int64_t limit = (int64_t)d * MostStored(shards, stage, d, bound);
    bool all = limit >= shards->sum;
    AppendShard(shards, number, d, all ? shards->sum : limit, drops);
    if (all) return; /* more replicas take more devices and store no more */
  }
}

static int FindDrops(Shards *shards, int ideal)
{
  const int *least = shards->least + (int64_t)ideal * (shards->sum + 1);
  int drops = 0, lowest = INT_MAX;
  for (int s = 0; s <= shards->sum; s++)
    if (least[s] < lowest) {
      lowest = least[s];
      shards->drop[drops++] = s;
    }
  return drops;
}

/* Gives the sum of replicas of a plan within the bound; -1: there is none. */
static int RunProbe(Shards *shards, double bound)
{
  int64_t ideals = shards->lattice.count, row = shards->sum + 1;
  int from = -1, drops = 0, full = 0;
  shards->probes++;
  for (int64_t i = 0; i < ideals * row; i++) shards->least[i] = INT_MAX;
  shards->least[0] = 0;
  for (int64_t n = 0; n < shards->stages; n++) {
    if (shards->stage[n].from != from) drops = FindDrops(shards, from = shards->stage[n].from);
    if (drops > 0) AppendAll(shards, n, bound, drops);
  }
  while (shards->lattice.ideal[full].size < shards->problem->items) full++;
  for (int s = 0; s <= shards->sum; s++)
    if (shards->least[full * row + s] < INT_MAX) return s;
  return -1;
}

static void TakeOptions(Shards *shards, const ShardStage *stage, int count, const int taken[],
                        RengaCutsShardResult *result)
{
  const RengaCutsShardProblem *problem = shards->problem;
  for (int i = 0; i < count; i++) {
    int64_t row = (int64_t)shards->item[i] * problem->degrees + stage->degree;
    const RengaCutsOption *option = problem->option + row * problem->options;
    result->option_of[shards->item[i]] =
        problem->options > 1 && option[1].seconds < option[0].seconds;
  }
  for (int c = 0; c < shards->choice.count; c++)
    for (int i = 0; i < taken[c]; i++) {
      int v = shards->choice.list[c].item[i];
      result->option_of[v] = 1 - result->option_of[v];
    }
}

static double MemoryOf(const Shards *shards, int degree, int count, int y,
                       const RengaCutsShardResult *result)
{
  const RengaCutsShardProblem *problem = shards->problem;
  double memory = 0;
  for (int i = 0; i < count; i++) {
    int64_t row = (int64_t)shards->item[i] * problem->degrees + degree;
    const RengaCutsOption *option =
        problem->option + row * problem->options + result->option_of[shards->item[i]];
    memory += option->memory_each * y + option->memory_once;
  }
  return memory;
}

/* The stage that leads to an ideal with this sum of replicas, as stage number `place`. */
static RengaErrorCode TakeStage(Shards *shards, Parent parent, int sum, int place, int taken[],
                                RengaCutsShardResult *result)
{
  const ShardStage *stage = &shards->stage[parent.stage];
  int count = 0, d = parent.replicas, y = (sum + d - 1) / d;
  for (int v = 0; v < shards->problem->items; v++)
    if (LatticeHas(&shards->lattice, stage->to, v) &&
        !LatticeHas(&shards->lattice, stage->from, v)) {
      shards->item[count++] = v;
      result->stage_of[v] = place;
    }
  RengaCall(ShardChoiceFill(shards->problem, stage->degree, count, shards->item, &shards->choice));
  double extra = ShardChoiceSolve(&shards->choice, shards->problem->capacity, y, taken);
  TakeOptions(shards, stage, count, taken, result);
  result->stage[place] =
      (RengaCutsShardStage){.degree = shards->problem->degree[stage->degree],
                            .replicas = d,
                            .seconds = BaseSeconds(shards, stage, d) + extra / d,
                            .memory = MemoryOf(shards, stage->degree, count, y, result)};
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeShardPlan(Shards *shards, int sum, RengaCutsShardResult *result)
{
  int ideal = 0, row = shards->sum + 1, *taken = NULL;
  RengaCall(RengaMalloc(2 * shards->problem->items + 1, &taken));
  while (shards->lattice.ideal[ideal].size < shards->problem->items) ideal++;
  RengaErrorCode code = RENGA_SUCCESS;
  result->count = 0;
  result->seconds = 0;
  while (ideal > 0 && !code) {
    Parent parent = shards->parent[(int64_t)ideal * row + sum];
    int place = result->count++;
    code = TakeStage(shards, parent, sum, place, taken, result);
    if (result->stage[place].seconds > result->seconds)
      result->seconds = result->stage[place].seconds;
    ideal = shards->stage[parent.stage].from;
    sum -= parent.replicas;
  }
  RengaFree(&taken);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode BisectShards(Shards *shards, RengaCutsShardResult *result)
{
  double bound = 1e300;
  result->seconds = HUGE_VAL;
  while (result->seconds == HUGE_VAL ||
         result->bound < result->seconds * (1 - RENGA_CUTS_TOLERANCE)) {
    int sum = RunProbe(shards, bound);
    if (sum >= 0)
      RengaCall(TakeShardPlan(shards, sum, result));
    else
      result->bound = bound;
    if (sum < 0 && result->seconds == HUGE_VAL) break;
    double strictly = result->seconds * (1 - RENGA_CUTS_TOLERANCE);
    bound = result->bound + (result->seconds - result->bound) / 2;
    bool near = result->seconds - result->bound < 1e-4 * result->seconds;
    if (bound > strictly || (near && sum < 0)) bound = strictly;
  }
  result->proof = result->seconds < HUGE_VAL ? RENGA_CUTS_OPTIMAL : RENGA_CUTS_INFEASIBLE;
  result->bound = result->seconds;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckShards(const RengaCutsShardProblem *problem)
{
  RengaCheck(problem->items > 0 && problem->devices > 0 && problem->batch > 0 &&
                 problem->bandwidth > 0 && problem->degrees > 0,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d items with %d degrees for %d devices, a batch of %d, %g bytes/s", problem->items,
             problem->degrees, problem->devices, problem->batch, problem->bandwidth);
  RengaCheck(problem->options == 1 || problem->options == 2, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%d options of an item: 1 or 2 are supported", problem->options);
  for (int e = 0; e < 2 * problem->edges; e++)
    RengaCheck(problem->edge[e] >= 0 && problem->edge[e] < problem->items, MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "edge %d names item %d of %d", e / 2, problem->edge[e],
               problem->items);
  return RENGA_SUCCESS;
}

static RengaErrorCode PrepareShards(Shards *shards)
{
  const RengaCutsShardProblem *problem = shards->problem;
  shards->sum = problem->batch < problem->devices ? problem->batch : problem->devices;
  RengaCall(RengaMalloc(shards->sum + 1, &shards->divisor));
  for (int d = 1; d <= shards->sum; d++)
    if (problem->batch % d == 0) shards->divisor[shards->divisors++] = d;
  RengaCall(TurnGraph(shards));
  RengaCall(MakeShardIdeals(shards));
  RengaCall(ShardChoiceAllocate(problem->items, &shards->choice));
  RengaCall(RengaMalloc(problem->items + 1, &shards->item));
  RengaCall(MakeStages(shards));
  int64_t cells = shards->lattice.count * (shards->sum + 1);
  RengaCall(RengaMalloc(cells, &shards->least));
  RengaCall(RengaMalloc(cells, &shards->parent));
  RengaCall(RengaMalloc(shards->sum + 1, &shards->drop));
  return RENGA_SUCCESS;
}

static void FreeShards(Shards *shards)
{
  RengaFree(&shards->turned);
  InstanceFree(&shards->instance);
  LatticeFree(&shards->lattice);
  ShardChoiceFree(shards->problem->items, &shards->choice);
  RengaFree(&shards->item);
  RengaFree(&shards->stage);
  RengaFree(&shards->step);
  RengaFree(&shards->divisor);
  RengaFree(&shards->least);
  RengaFree(&shards->parent);
  RengaFree(&shards->drop);
}

RengaErrorCode RengaCutsSolveShards(const RengaCutsShardProblem *problem,
                                    RengaCutsShardResult *result)
{
  Shards shards = {.problem = problem};
  memset(result, 0, sizeof *result);
  RengaCall(CheckShards(problem));
  RengaErrorCode code = RengaMalloc(problem->items + 1, &result->stage_of);
  if (!code) code = RengaMalloc(problem->items + 1, &result->option_of);
  if (!code) code = RengaMalloc(problem->items + 1, &result->stage);
  if (!code) code = PrepareShards(&shards);
  if (code == RENGA_SUCCESS) code = BisectShards(&shards, result);
  result->ideals = shards.lattice.count;
  result->pairs = shards.pairs;
  result->probes = shards.probes;
  FreeShards(&shards);
  if (code != RENGA_SUCCESS) RengaCutsFreeShardResult(result);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaCutsFreeShardResult(RengaCutsShardResult *result)
{
  RengaFree(&result->stage);
  RengaFree(&result->stage_of);
  RengaFree(&result->option_of);
}
