/* The least largest load, proved. A first plan comes from topological orders; probes then ask for a
   plan that is strictly better, until one says that there is none. Each answer moves a bound: yes
   the upper one, to the plan that was found, no the lower one. */
#include "exactimpl.h"
#include <string.h>

enum { MOST_TRIED = 8 };                            /* items for a first bound */
static const int64_t default_ideal_limit = 1500000; /* about a GiB */

typedef struct {
  const RengaCutsProblem *problem;
  int *map; /* [items of the problem] */
  Instance instance;
  Probe probe;
  Chain best;   /* of the problem's items */
  Chain next;   /* of the instance's */
  double bound; /* no plan is better than this */
  double upper; /* more than any plan's load */
  bool open;    /* a limit ended the search */
  int probes;
} Solver;

const char *RengaCutsProofName(RengaCutsProof proof)
{
  static const char *const names[] = {"optimal", "infeasible", "bounded"};
  return names[proof];
}

static RengaErrorCode CheckItems(const RengaCutsProblem *problem)
{
  for (int v = 0; v < problem->items; v++) {
    const RengaCutsItem *item = &problem->item[v];
    RengaCheck(item->work >= 0 && item->work < HUGE_VAL && item->host_work >= 0 &&
                   item->memory >= 0 && item->memory < HUGE_VAL && item->weight >= 0 &&
                   item->weight < HUGE_VAL,
               MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "item %d to be cut has work %g, host work %g, memory %g, weight %g", v, item->work,
               item->host_work, item->memory, item->weight);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLists(const RengaCutsProblem *problem)
{
  for (int e = 0; e < 2 * problem->edges; e++)
    RengaCheck(problem->edge[e] >= 0 && problem->edge[e] < problem->items, MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "edge %d names item %d of %d", e / 2, problem->edge[e],
               problem->items);
  for (int m = 0; m < problem->messages; m++) {
    RengaCheck(problem->message_cost[m] >= 0 && problem->message_cost[m] < HUGE_VAL, MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "message %d costs %g", m, problem->message_cost[m]);
    for (int p = problem->message_first[m]; p < problem->message_first[m + 1]; p++)
      RengaCheck(problem->message_pin[p] >= 0 && problem->message_pin[p] < problem->items,
                 MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "message %d names item %d of %d", m,
                 problem->message_pin[p], problem->items);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckProblem(const RengaCutsProblem *problem)
{
  RengaCheck(problem->items > 0 && problem->devices >= 0 && problem->hosts >= 0 &&
                 problem->devices + problem->hosts > 0,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d items to be cut for %d accelerators and %d hosts", problem->items,
             problem->devices, problem->hosts);
  RengaCheck(problem->capacity >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "an accelerator of %g bytes", problem->capacity);
  RengaCall(CheckItems(problem));
  RengaCall(CheckLists(problem));
  return RENGA_SUCCESS;
}

/* More than any stage with a finite load can have. */
static double FirstUpper(const Instance *instance)
{
  double upper = instance->work, host = 0, each = 0;
  for (int m = 0; m < instance->messages; m++) upper += 2 * instance->cost[m];
  for (int v = 0; v < instance->items; v++)
    if (instance->item[v].host_work < HUGE_VAL) host += instance->item[v].host_work;
  for (int d = 1; d <= instance->replicas; d++)
    if (instance->resynchronise[d] < HUGE_VAL && instance->resynchronise[d] > each)
      each = instance->resynchronise[d];
  return 1 + upper + host + instance->weight * each;
}

/* Make the plan that was found the best one, with its loads from the definition. */
static RengaErrorCode TakeBetter(Solver *solver)
{
  const RengaCutsProblem *problem = solver->problem;
  Chain *best = &solver->best;
  best->count = solver->next.count;
  for (int v = 0; v < problem->items; v++)
    best->stage_of[v] = solver->next.stage_of[solver->map[v]];
  memcpy(best->stage, solver->next.stage, sizeof *best->stage * (size_t)best->count);
  RengaCall(RengaCutsEvaluate(problem, best->stage_of, best->count, best->stage));
  best->load = 0;
  for (int s = 0; s < best->count; s++)
    if (best->stage[s].load > best->load) best->load = best->stage[s].load;
  return RENGA_SUCCESS;
}

static RengaErrorCode Try(Solver *solver, double bound, ProbeAnswer *answer)
{
  RengaCall(ProbeRun(solver->probe, bound, answer, &solver->next));
  solver->probes++;
  solver->open = *answer == PROBE_OPEN;
  if (*answer == PROBE_NO) solver->bound = bound;
  if (*answer != PROBE_YES) return RENGA_SUCCESS;
  RengaCall(TakeBetter(solver));
  RengaCheck(solver->best.load <= bound * (1 + RENGA_CUTS_TOLERANCE), MPI_COMM_SELF,
             RENGA_ERR_INTERNAL, "a plan within %.17g was found, but its load is %.17g", bound,
             solver->best.load);
  return RENGA_SUCCESS;
}

static double JustBelow(double load)
{
  return load * (1 - RENGA_CUTS_TOLERANCE);
}

static bool IsClosed(const Solver *solver)
{
  return solver->open || solver->bound >= JustBelow(solver->best.load);
}

/* Half way, on a scale of ratios where the ends are far apart. */
static double Between(double low, double high)
{
  return low > 0 && high > 4 * low ? sqrt(low * high) : low + (high - low) / 2;
}

/* The first question, for anything better than the plan at hand, is mostly the last one. After a
   yes the next bound is lower by four times what was gained, but at most halfway. */
static RengaErrorCode Close(Solver *solver)
{
  ProbeAnswer answer;
  bool strictly = true;
  double before = solver->best.load, gain = 0;
  while (!IsClosed(solver)) {
    double best = solver->best.load, bound = JustBelow(best);
    if (!strictly) {
      bound = fmax(best - 4 * gain, Between(solver->bound, best));
      if (bound > JustBelow(best)) bound = JustBelow(best);
    }
    RengaCall(Try(solver, bound, &answer));
    strictly = answer == PROBE_NO;
    gain = before - solver->best.load;
    before = solver->best.load;
  }
  return RENGA_SUCCESS;
}

/* Merge what may be merged, knowing a plan of this load, and lay out the rest. */
static RengaErrorCode ReduceInstance(Solver *solver, double upper)
{
  InstanceFree(&solver->instance);
  solver->instance = (Instance){0};
  RengaCall(ReduceItems(solver->problem, upper, solver->map));
  RengaCall(InstanceCreate(solver->problem, solver->map, &solver->instance));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindFirstPlan(Solver *solver)
{
  const RengaCutsProblem *problem = solver->problem;
  RengaCall(RengaMalloc(problem->items + 1, &solver->map));
  for (int v = 0; v < problem->items; v++) solver->map[v] = v;
  RengaCall(ChainCreate(problem->items, &solver->best));
  RengaCall(ChainCreate(problem->items, &solver->next));
  RengaCall(ReduceInstance(solver, solver->best.load));
  solver->next.load = JustBelow(solver->best.load);
  RengaCall(FindLinear(&solver->instance, &solver->next));
  if (solver->next.count > 0) RengaCall(TakeBetter(solver));
  if (problem->hosts > 0 && solver->best.load < HUGE_VAL)
    RengaCall(ReduceInstance(solver, solver->best.load));
  return RENGA_SUCCESS;
}

static RengaErrorCode SearchPlans(Solver *solver)
{
  const RengaCutsProblem *problem = solver->problem;
  RengaCall(FindFirstPlan(solver));
  int64_t ideals = problem->ideal_limit > 0 ? problem->ideal_limit : default_ideal_limit;
  RengaCall(ProbeCreate(&solver->instance, ideals, &solver->probe));
  solver->bound = FirstBound(&solver->instance);
  if (!IsClosed(solver)) RengaCall(RaiseBound(&solver->instance, MOST_TRIED, &solver->bound));
  if (solver->best.load == HUGE_VAL && solver->bound < HUGE_VAL) {
    ProbeAnswer answer;
    RengaCall(Try(solver, FirstUpper(&solver->instance), &answer));
    if (answer == PROBE_NO) solver->bound = HUGE_VAL;
    if (answer == PROBE_OPEN) return RENGA_SUCCESS;
  }
  RengaCall(Close(solver));
  return RENGA_SUCCESS;
}

static RengaErrorCode GivePlan(const Solver *solver, RengaCutsResult *result)
{
  int items = solver->problem->items;
  RengaCall(RengaMalloc(items + 1, &result->stage_of));
  RengaCall(RengaMalloc(solver->best.count + 1, &result->stage));
  result->load = solver->best.load;
  result->bound = solver->bound;
  result->count = solver->best.count;
  memcpy(result->stage_of, solver->best.stage_of, sizeof *result->stage_of * (size_t)items);
  memcpy(result->stage, solver->best.stage, sizeof *result->stage * (size_t)result->count);
  result->proof = solver->open               ? RENGA_CUTS_BOUNDED
                  : result->load == HUGE_VAL ? RENGA_CUTS_INFEASIBLE
                                             : RENGA_CUTS_OPTIMAL;
  if (result->proof == RENGA_CUTS_OPTIMAL) result->bound = result->load;
  result->items = solver->instance.items;
  ProbeCount(solver->probe, &result->ideals, &result->pairs);
  result->probes = solver->probes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCutsSolve(const RengaCutsProblem *problem, RengaCutsResult *result)
{
  Solver solver = {.problem = problem};
  memset(result, 0, sizeof *result);
  RengaCall(CheckProblem(problem));
  RengaErrorCode code = SearchPlans(&solver);
  if (code == RENGA_SUCCESS) code = GivePlan(&solver, result);
  ProbeDestroy(&solver.probe);
  ChainFree(&solver.best);
  ChainFree(&solver.next);
  InstanceFree(&solver.instance);
  RengaFree(&solver.map);
  if (code != RENGA_SUCCESS) RengaCutsFreeResult(result);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaCutsFreeResult(RengaCutsResult *result)
{
  RengaFree(&result->stage);
  RengaFree(&result->stage_of);
}
