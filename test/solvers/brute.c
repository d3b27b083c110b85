/* TEST ranks: 1 timeout: 300 */
/* The exact cuts of random graphs against every chain of ideals there is, tried one by one. */
#include "cutstest.h"
#include <stdlib.h>

enum { GRAPHS = 10000, ITEMS = 10, DEVICES = 5, HOSTS = 2, MESSAGES = 14, SETS = 1 << ITEMS };

typedef struct {
  RengaCutsProblem problem;
  RengaCutsItem item[ITEMS];
  int edge[2 * ITEMS * ITEMS], first[MESSAGES + 1], pin[MESSAGES * ITEMS];
  double cost[MESSAGES], resynchronise[DEVICES + 1];
} Graph;

/* Numbers for one graph, from a counter. */
typedef struct {
  uint64_t graph, next;
} Numbers;

static double Uniform(Numbers *numbers)
{
  float number;
  RengaRandomUniform(numbers->graph, 7, numbers->next++, 1, &number);
  return (double)number;
}

static int Below(Numbers *numbers, int limit)
{
  int number = (int)(Uniform(numbers) * limit);
  return number < limit ? number : limit - 1;
}

static bool Chance(Numbers *numbers, double chance)
{
  return Uniform(numbers) < chance;
}

static void MakeItems(Numbers *numbers, Graph *graph)
{
  double many = Uniform(numbers);
  bool hosts_only = Chance(numbers, 0.2), light = Chance(numbers, 0.5);
  for (int v = 0; v < graph->problem.items; v++)
    graph->item[v] = (RengaCutsItem){.work = light && Chance(numbers, 0.4) ? 0 : Below(numbers, 20),
                                     .host_work = Chance(numbers, 0.2) ? 0 : Below(numbers, 60),
                                     .memory = Chance(numbers, 0.3) ? 0 : Below(numbers, 10),
                                     .weight = Chance(numbers, 0.3) ? 0 : Below(numbers, 10),
                                     .host_only = hosts_only && Chance(numbers, 0.1)};
  for (int v = 0; v < graph->problem.items; v++)
    for (int w = v + 1; w < graph->problem.items; w++) {
      /* not in the order of the numbers */
      int from = (3 * v + 1) % graph->problem.items, to = (3 * w + 1) % graph->problem.items;
      if (graph->problem.items % 3 == 0) from = v, to = w;
      if (!Chance(numbers, many * 0.6)) continue;
      graph->edge[2 * graph->problem.edges] = from;
      graph->edge[2 * graph->problem.edges++ + 1] = to;
    }
}

static void AddPin(Graph *graph, int message, int item)
{
  graph->pin[graph->first[message + 1]++] = item;
}

/* Along edges, and some between any items, as messages of a backward pass are. */
static void MakeMessages(Numbers *numbers, Graph *graph)
{
  int items = graph->problem.items, count = Below(numbers, MESSAGES + 1);
  for (int m = 0; m < count; m++) {
    int edges = graph->problem.edges, pins = 1 + Below(numbers, 3),
        producer = Below(numbers, items);
    graph->cost[m] = Chance(numbers, 0.1) ? 0 : Below(numbers, 12);
    graph->first[m + 1] = graph->first[m];
    if (edges > 0 && Chance(numbers, 0.6)) {
      int edge = Below(numbers, edges);
      AddPin(graph, m, graph->edge[2 * edge]);
      AddPin(graph, m, graph->edge[2 * edge + 1]);
    } else {
      AddPin(graph, m, producer);
      for (int p = 0; p < pins; p++) AddPin(graph, m, Below(numbers, items));
    }
  }
  graph->problem.messages = count;
}

static void MakeGraph(uint64_t number, Graph *graph)
{
  Numbers numbers = {number, 0};
  RengaCutsProblem *problem = &graph->problem;
  memset(graph, 0, sizeof *graph);
  *problem = (RengaCutsProblem){.items = 1 + Below(&numbers, ITEMS),
                                .item = graph->item,
                                .edge = graph->edge,
                                .message_cost = graph->cost,
                                .message_first = graph->first,
                                .message_pin = graph->pin};
  problem->devices = Below(&numbers, DEVICES + 1);
  problem->hosts = Chance(&numbers, 0.5) ? 0 : 1 + Below(&numbers, HOSTS);
  if (problem->devices + problem->hosts == 0) problem->devices = 1;
  MakeItems(&numbers, graph);
  if (Chance(&numbers, 0.8)) MakeMessages(&numbers, graph);
  problem->capacity = Chance(&numbers, 0.5) ? HUGE_VAL : 1 + Below(&numbers, 30);
  if (Chance(&numbers, 0.6)) return;
  problem->replicas = 1 + Below(&numbers, DEVICES);
  if (Chance(&numbers, 0.2)) return;
  for (int d = 2; d <= problem->replicas; d++)
    graph->resynchronise[d] = Chance(&numbers, 0.1) ? HUGE_VAL : Uniform(&numbers) * (d - 1) / d;
  problem->resynchronise = graph->resynchronise;
}

/* Loads of a set of items on a host, [0], and on 1 … replicas accelerators; HUGE_VAL: not there. */
static void WeighSet(const RengaCutsProblem *problem, int set, double load[])
{
  double work = 0, messages = 0, host = 0, memory = 0, weight = 0;
  bool host_only = false;
  for (int v = 0; v < problem->items; v++) {
    if (!(set >> v & 1)) continue;
    work += problem->item[v].work;
    host += problem->item[v].host_work;
    memory += problem->item[v].memory;
    weight += problem->item[v].weight;
    if (problem->item[v].host_only) host_only = true;
  }
  for (int m = 0; m < problem->messages; m++) {
    int pins = 0;
    for (int p = problem->message_first[m]; p < problem->message_first[m + 1]; p++)
      pins |= 1 << problem->message_pin[p];
    if ((pins & set) && (pins & ~set)) messages += problem->message_cost[m];
  }
  double seconds = work + messages;
  load[0] = host;
  for (int d = 1; d <= DEVICES; d++) {
    bool allowed = d == 1 || d <= problem->replicas;
    double each = problem->resynchronise && allowed ? problem->resynchronise[d] : 0;
    load[d] = seconds / d + (each == HUGE_VAL ? HUGE_VAL : each * weight);
    if (!allowed || host_only || memory > problem->capacity) load[d] = HUGE_VAL;
  }
}

static bool IsIdeal(const RengaCutsProblem *problem, int set)
{
  for (int e = 0; e < problem->edges; e++)
    if ((set >> problem->edge[2 * e + 1] & 1) && !(set >> problem->edge[2 * e] & 1)) return false;
  return true;
}

typedef double Table[DEVICES + 1][HOSTS + 1];

/* Put the set after what `from` has done, on d accelerators, or on a host where d is 0. */
static void Append(const RengaCutsProblem *problem, Table from, double load, int d, Table to)
{
  for (int used = 0; used + d <= problem->devices; used++)
    for (int hosts = 0; hosts + (d == 0) <= problem->hosts; hosts++) {
      double largest = fmax(from[used][hosts], load);
      double *best = &to[used + d][hosts + (d == 0)];
      if (largest < *best) *best = largest;
    }
}

static double Brute(const RengaCutsProblem *problem)
{
  static double load[SETS][DEVICES + 1];
  static Table best[SETS];
  static bool ideal[SETS];
  int sets = 1 << problem->items;
  double least = HUGE_VAL;
  for (int set = 0; set < sets; set++) {
    ideal[set] = IsIdeal(problem, set);
    WeighSet(problem, set, load[set]);
    for (int d = 0; d <= DEVICES; d++)
      for (int h = 0; h <= HOSTS; h++) best[set][d][h] = set == 0 ? 0 : HUGE_VAL;
  }
  for (int set = 1; set < sets; set++)
    for (int stage = set; ideal[set] && stage > 0; stage = (stage - 1) & set)
      for (int d = 0; ideal[set & ~stage] && d <= DEVICES; d++)
        if (load[stage][d] < HUGE_VAL)
          Append(problem, best[set & ~stage], load[stage][d], d, best[set]);
  for (int d = 0; d <= problem->devices; d++)
    for (int h = 0; h <= problem->hosts; h++) least = fmin(least, best[sets - 1][d][h]);
  return least;
}

static RengaErrorCode CheckGraph(uint64_t number)
{
  Graph graph;
  RengaCutsResult result;
  MakeGraph(number, &graph);
  double least = Brute(&graph.problem);
  RengaCall(RengaCutsSolve(&graph.problem, &result));
  RengaCheck(least == HUGE_VAL ? result.load == HUGE_VAL
                               : fabs(result.load - least) <= 1e-9 * least,
             MPI_COMM_SELF, RENGA_ERR_INTERNAL, "graph %d: %s %.15g, but all chains have %.15g",
             (int)number, RengaCutsProofName(result.proof), result.load, least);
  Expect(result.bound == result.load);
  Expect(result.proof == (least == HUGE_VAL ? RENGA_CUTS_INFEASIBLE : RENGA_CUTS_OPTIMAL));
  if (least < HUGE_VAL) RengaCall(CheckStages(&graph.problem, &result));
  RengaCutsFreeResult(&result);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckMistakes(void)
{
  const int circle[] = {0, 1, 1, 0}, outside[] = {0, 2}, first[] = {0};
  RengaCutsItem item[2] = {{.work = 1}, {.work = 2}};
  RengaCutsResult result;
  RengaCutsProblem problem = {.items = 2,
                              .item = item,
                              .edges = 2,
                              .edge = circle,
                              .devices = 2,
                              .capacity = HUGE_VAL,
                              .message_first = first};
  ExpectError(RengaCutsSolve(&problem, &result), RENGA_ERR_GRAPH, "circle");
  problem.edge = outside;
  problem.edges = 1;
  ExpectError(RengaCutsSolve(&problem, &result), RENGA_ERR_ARGUMENT, "item 2 of 2");
  problem.edges = 0;
  item[1].work = -2;
  ExpectError(RengaCutsSolve(&problem, &result), RENGA_ERR_ARGUMENT, "work -2");
  item[1].work = 2;
  problem.devices = 0;
  ExpectError(RengaCutsSolve(&problem, &result), RENGA_ERR_ARGUMENT, "0 accelerators");
  return RENGA_SUCCESS;
}

/* What a limit ends early is a plan and a bound below it. */
static RengaErrorCode CheckBounded(const RengaCutsProblem *problem)
{
  RengaCutsResult result;
  RengaCall(RengaCutsSolve(problem, &result));
  Expect(result.proof == RENGA_CUTS_BOUNDED);
  Expect(result.bound > 0 && result.bound < result.load && result.load < HUGE_VAL);
  RengaCall(CheckStages(problem, &result));
  RengaCutsFreeResult(&result);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLimits(void)
{
  enum { WIDE = 24 };
  RengaCutsItem item[WIDE];
  const int first[] = {0};
  for (int v = 0; v < WIDE; v++) item[v] = (RengaCutsItem){.work = 100 + (37 * v) % 23};
  RengaCutsProblem problem = {.items = WIDE,
                              .item = item,
                              .devices = 5,
                              .capacity = HUGE_VAL,
                              .message_first = first,
                              .ideal_limit = 2000};
  RengaCall(CheckBounded(&problem));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  for (int g = 0; g < GRAPHS; g++) RengaCall(CheckGraph((uint64_t)g));
  RengaCall(CheckMistakes());
  RengaCall(CheckLimits());
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
