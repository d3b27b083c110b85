/* TEST ranks: 1 */
/* Virtual stages of small random graphs beside every assignment of items to devices: none is below
   the bound, none is better by memory or messages than what a result says of itself. */
#include "cutstest.h"

enum { GRAPHS = 500, ITEMS = 7, DEVICES = 3, MESSAGES = 6, STEPS = 2000 };

typedef struct {
  uint64_t graph, next;
} Numbers;

static int Below(Numbers *numbers, int limit)
{
  float number;
  RengaRandomUniform(numbers->graph, 13, numbers->next++, 1, &number);
  const int below = (int)((double)number * limit);
  return below < limit ? below : limit - 1;
}

typedef struct {
  RengaCutsProblem problem;
  RengaCutsItem item[ITEMS];
  int edge[2 * ITEMS], first[MESSAGES + 1], pin[2 * MESSAGES];
  double cost[MESSAGES];
} Graph;

/* Half of the graphs have items that are nearly alike, as layers of a network are. */
static void MakeGraph(uint64_t number, Graph *graph)
{
  Numbers numbers = {number, 0};
  const int items = 1 + Below(&numbers, ITEMS), alike = Below(&numbers, 2) ? 20 : 0;
  const int messages = items > 1 ? Below(&numbers, MESSAGES + 1) : 0,
            dear = 1 + Below(&numbers, 12);
  memset(graph, 0, sizeof *graph);
  for (int v = 0; v < items; v++)
    graph->item[v] = (RengaCutsItem){.work = alike + Below(&numbers, alike ? 3 : 20),
                                     .host_work = 10 * Below(&numbers, 12),
                                     .memory = Below(&numbers, 10)};
  for (int m = 0; m < messages; m++) {
    const int to = 1 + Below(&numbers, items - 1), from = Below(&numbers, to);
    graph->edge[2 * m] = graph->pin[2 * m] = from;
    graph->edge[2 * m + 1] = graph->pin[2 * m + 1] = to;
    graph->cost[m] = Below(&numbers, dear);
    graph->first[m + 1] = 2 * (m + 1);
  }
  graph->problem = (RengaCutsProblem){.items = items,
                                      .edges = messages,
                                      .messages = messages,
                                      .item = graph->item,
                                      .edge = graph->edge,
                                      .message_cost = graph->cost,
                                      .message_first = graph->first,
                                      .message_pin = graph->pin,
                                      .devices = 1 + Below(&numbers, DEVICES),
                                      .hosts = Below(&numbers, 2),
                                      .capacity = Below(&numbers, 2) ? HUGE_VAL : 30};
}

static double Largest(const RengaCutsProblem *problem, const RengaCutsStage device[], int count)
{
  double largest = 0;
  for (int d = 0; d < count; d++) {
    largest = fmax(largest, device[d].load);
    if (device[d].memory > problem->capacity) return HUGE_VAL;
  }
  return largest;
}

static RengaErrorCode Least(const RengaCutsProblem *problem, double *least)
{
  const int devices = problem->devices + problem->hosts;
  int device_of[ITEMS] = {0};
  RengaCutsStage device[DEVICES + 1] = {{0}};
  *least = HUGE_VAL;
  for (int d = 0; d < devices; d++)
    device[d] = (RengaCutsStage){.host = d >= problem->devices, .replicas = 1};
  for (int v = 0; v < problem->items;) {
    RengaCall(RengaCutsEvaluate(problem, device_of, devices, device));
    *least = fmin(*least, Largest(problem, device, devices));
    for (v = 0; v < problem->items && ++device_of[v] == devices; v++) device_of[v] = 0;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckGraph(uint64_t number, int *closed)
{
  Graph graph;
  RengaCutsResult stages;
  RengaCutsSpreadResult spread;
  double least;
  MakeGraph(number, &graph);
  RengaCall(RengaCutsSolve(&graph.problem, &stages));
  if (stages.count > 0) {
    RengaCall(RengaCutsSpread(&graph.problem, &stages, STEPS, &spread));
    RengaCall(Least(&graph.problem, &least));
    RengaCheck(spread.bound <= least * (1 + 1e-9) && spread.load >= least * (1 - 1e-9),
               MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "graph %d: %.15g found, bound %.15g, but all assignments have %.15g", (int)number,
               spread.load, spread.bound, least);
    Expect(spread.load <= stages.load);
    Expect(Largest(&graph.problem, spread.device, spread.count) == spread.load);
    *closed += spread.bound >= least * (1 - 1e-9);
    RengaCutsFreeSpreadResult(&spread);
  }
  RengaCutsFreeResult(&stages);
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  int closed = 0;
  for (int g = 0; g < GRAPHS; g++) RengaCall(CheckGraph((uint64_t)g, &closed));
  Expect(closed > GRAPHS / 4);
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
