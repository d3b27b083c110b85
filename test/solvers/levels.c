/* Pipelines of pipelines, exactly: for each level, the best pipeline between every two ideals, by
   dynamic programming over the ideals between them. */
#include "exactimpl.h"
#include <string.h>

enum { MOST_IDEALS = 2048 };

typedef struct {
  int items, *map; /* of the problem: each one's item of the instance */
  Instance instance;
  Lattice lattice;
  int ideals;
  double *unit, *next; /* [ideals][ideals] load of what is between on one unit; HUGE_VAL: not in */
  int room;            /* of best: devices + 1 of the largest level */
  double *best;        /* [room][ideals] with so many units */
  int *from, *kind;    /* [room][ideals] where the last stage begins, and its replicas */
} LevelsProblem;

static RengaErrorCode MakeLevelIdeals(LevelsProblem *levels)
{
  Lattice *lattice = &levels->lattice;
  RengaCall(LatticeCreate(&levels->instance, lattice));
  for (int i = 0; i < lattice->count; i++)
    for (int a = 0; a < lattice->ideal[i].count; a++) {
      int to;
      RengaCall(LatticeStep(lattice, lattice->ideal[i].first + a, i, &to));
      RengaCheck(lattice->count <= MOST_IDEALS, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
                 "the graph has more than %d ideals: collapse it first", MOST_IDEALS);
    }
  levels->ideals = (int)lattice->count;
  return RENGA_SUCCESS;
}

static void FillUnits(LevelsProblem *levels)
{
  const Lattice *lattice = &levels->lattice;
  for (int i = 0; i < levels->ideals; i++)
    for (int j = 0; j < levels->ideals; j++)
      levels->unit[(int64_t)i * levels->ideals + j] =
          LatticeIsWithin(lattice, i, j) ? lattice->ideal[j].work - lattice->ideal[i].work
                                         : HUGE_VAL;
}

/* All pipelines from an ideal; ideals are in order of their size. */
static void FillFrom(LevelsProblem *levels, const RengaCutsLevel *level, int begin)
{
  int n = levels->ideals;
  for (int i = 0; i < levels->room * n; i++) levels->best[i] = HUGE_VAL;
  for (int c = 0; c <= level->devices; c++) levels->best[c * n + begin] = 0;
  for (int k = begin; k < n; k++) {
    const double *unit = levels->unit + (int64_t)k * n;
    const double *table = k == begin && level->first ? level->first : level->resynchronise;
    if (levels->best[level->devices * n + k] == HUGE_VAL) continue;
    for (int j = k + 1; j < n; j++) {
      double weight = levels->lattice.ideal[j].weight - levels->lattice.ideal[k].weight;
      if (unit[j] == HUGE_VAL) continue;
      for (int d = 1; d <= level->devices; d++) {
        double load = unit[j] / d + weight * table[d];
        for (int c = d; c <= level->devices; c++) {
          double largest = fmax(levels->best[(c - d) * n + k], load);
          if (largest >= levels->best[c * n + j]) continue;
          levels->best[c * n + j] = largest;
          levels->from[c * n + j] = k;
          levels->kind[c * n + j] = d;
        }
      }
    }
  }
}

/* The best pipelines of a level become the units of the next. */
static void RiseLevels(LevelsProblem *levels, const RengaCutsLevel *level)
{
  int n = levels->ideals;
  for (int i = 0; i < n; i++) {
    FillFrom(levels, level, i);
    memcpy(levels->next + (int64_t)i * n, levels->best + (int64_t)level->devices * n,
           sizeof *levels->next * (size_t)n);
  }
  double *units = levels->unit;
  levels->unit = levels->next;
  levels->next = units;
}

static void TakeLevelsPlan(const LevelsProblem *levels, const RengaCutsLevel *level,
                           RengaCutsResult *result)
{
  int n = levels->ideals, units = level->devices, ideal = n - 1, count = 0;
  result->load = result->bound = levels->best[units * n + ideal];
  result->proof = RENGA_CUTS_OPTIMAL;
  for (int at = ideal, c = units; at > 0; count++) {
    int cell = c * n + at;
    at = levels->from[cell];
    c -= levels->kind[cell];
  }
  result->count = count;
  for (int s = count - 1; s >= 0; s--) {
    int cell = units * n + ideal, from = levels->from[cell], d = levels->kind[cell];
    const double *table = from == 0 && level->first ? level->first : level->resynchronise;
    const Ideal *end = &levels->lattice.ideal[ideal], *begin = &levels->lattice.ideal[from];
    result->stage[s] = (RengaCutsStage){.replicas = d,
                                        .load = levels->unit[(int64_t)from * n + ideal] / d +
                                                (end->weight - begin->weight) * table[d],
                                        .memory = end->memory - begin->memory};
    for (int v = 0; v < levels->items; v++)
      if (LatticeHas(&levels->lattice, ideal, levels->map[v]) &&
          !LatticeHas(&levels->lattice, from, levels->map[v]))
        result->stage_of[v] = s;
    ideal = from;
    units -= d;
  }
}

static RengaErrorCode PrepareLevels(const RengaCutsProblem *problem, int count,
                                    const RengaCutsLevel level[], LevelsProblem *levels)
{
  RengaCutsProblem graph = *problem;
  graph.devices = graph.replicas = 2; /* what adds up no weight may be merged */
  graph.resynchronise = NULL;
  RengaCall(RengaMalloc(problem->items + 1, &levels->map));
  for (int v = 0; v < problem->items; v++) levels->map[v] = v;
  RengaCall(ReduceItems(&graph, HUGE_VAL, levels->map));
  RengaCall(InstanceCreate(&graph, levels->map, &levels->instance));
  RengaCall(MakeLevelIdeals(levels));
  for (int l = 0; l < count; l++)
    if (level[l].devices >= levels->room) levels->room = level[l].devices + 1;
  int64_t n = levels->ideals;
  RengaCall(RengaMalloc(n * n, &levels->unit));
  RengaCall(RengaMalloc(n * n, &levels->next));
  RengaCall(RengaMalloc(n * levels->room, &levels->best));
  RengaCall(RengaMalloc(n * levels->room, &levels->from));
  RengaCall(RengaMalloc(n * levels->room, &levels->kind));
  return RENGA_SUCCESS;
}

static RengaErrorCode SolveLevels(const RengaCutsProblem *problem, int count,
                                  const RengaCutsLevel level[], LevelsProblem *levels,
                                  RengaCutsResult *result)
{
  RengaCall(PrepareLevels(problem, count, level, levels));
  FillUnits(levels);
  for (int l = 0; l + 1 < count; l++) RiseLevels(levels, &level[l]);
  FillFrom(levels, &level[count - 1], 0);
  RengaCall(RengaMalloc(problem->items + 1, &result->stage_of));
  RengaCall(RengaMalloc(problem->items + 1, &result->stage));
  TakeLevelsPlan(levels, &level[count - 1], result);
  result->items = levels->instance.items;
  result->ideals = levels->ideals;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCutsSolveLevels(const RengaCutsProblem *problem, int levels,
                                    const RengaCutsLevel level[], RengaCutsResult *result)
{
  LevelsProblem all = {.items = problem->items};
  memset(result, 0, sizeof *result);
  RengaCheck(levels > 0 && problem->items > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d items on %d levels of machines", problem->items, levels);
  RengaCheck(problem->messages == 0 && problem->hosts == 0 && problem->capacity == HUGE_VAL,
             MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "levels of machines with messages, hosts or a capacity");
  for (int l = 0; l < levels; l++)
    RengaCheck(level[l].devices > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%d devices of level %d",
               level[l].devices, l);
  RengaErrorCode code = SolveLevels(problem, levels, level, &all, result);
  RengaFree(&all.map);
  InstanceFree(&all.instance);
  LatticeFree(&all.lattice);
  RengaFree(&all.unit);
  RengaFree(&all.next);
  RengaFree(&all.best);
  RengaFree(&all.from);
  RengaFree(&all.kind);
  if (code != RENGA_SUCCESS) RengaCutsFreeResult(result);
  RengaCall(code);
  return RENGA_SUCCESS;
}
