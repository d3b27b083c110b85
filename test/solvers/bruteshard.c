/* TEST ranks: 1 timeout: 300 */
/* Stages with tensor degrees, replicas and options of random graphs against all that there are. */
#include "cutstest.h"

enum {
  GRAPHS = 1500,
  ITEMS = 6,
  SETS = 1 << ITEMS,
  DEVICES = 8,
  BATCH = 8,
  DEGREES = 2,
  OPTIONS = 2
};

typedef struct {
  RengaCutsShardProblem problem;
  int edge[2 * ITEMS * ITEMS], degree[DEGREES];
  double edge_bytes[ITEMS * ITEMS], weight[ITEMS * DEGREES];
  double receive[ITEMS * ITEMS * DEGREES], send[ITEMS * ITEMS * DEGREES];
  bool offered[ITEMS * DEGREES];
  RengaCutsOption option[ITEMS * DEGREES * OPTIONS];
} Graph;

typedef struct {
  uint64_t graph, next;
} Numbers;

static int Below(Numbers *numbers, int limit)
{
  float number;
  RengaRandomUniform(numbers->graph, 9, numbers->next++, 1, &number);
  int whole = (int)(number * (float)limit);
  return whole < limit ? whole : limit - 1;
}

static void MakeItem(Numbers *numbers, Graph *graph, int v)
{
  for (int t = 0; t < DEGREES; t++) {
    int row = v * DEGREES + t;
    graph->offered[row] = t == 0 || Below(numbers, 8) > 0;
    graph->weight[row] = Below(numbers, 10);
    int each = Below(numbers, 10), once = Below(numbers, 6), seconds = Below(numbers, 30);
    graph->option[row * OPTIONS] = (RengaCutsOption){seconds, each, once};
    graph->option[row * OPTIONS + 1] =
        (RengaCutsOption){seconds + Below(numbers, 10) - 1, each - Below(numbers, each + 1),
                          once + Below(numbers, 4) - 1};
    if (graph->option[row * OPTIONS + 1].seconds < 0) graph->option[row * OPTIONS + 1].seconds = 0;
  }
}

static void MakeGraph(uint64_t number, Graph *graph)
{
  Numbers numbers = {number, 0};
  RengaCutsShardProblem *problem = &graph->problem;
  memset(graph, 0, sizeof *graph);
  *problem = (RengaCutsShardProblem){.items = 1 + Below(&numbers, ITEMS),
                                     .degrees = DEGREES,
                                     .options = OPTIONS,
                                     .edge = graph->edge,
                                     .edge_bytes = graph->edge_bytes,
                                     .degree = graph->degree,
                                     .offered = graph->offered,
                                     .weight = graph->weight,
                                     .option = graph->option,
                                     .receive_bytes = graph->receive,
                                     .send_bytes = graph->send,
                                     .devices = 1 + Below(&numbers, DEVICES),
                                     .batch = 1 + Below(&numbers, BATCH),
                                     .bandwidth = 1 + Below(&numbers, 4)};
  problem->capacity = Below(&numbers, 3) == 0 ? HUGE_VAL : 5 + Below(&numbers, 60);
  for (int t = 0; t < DEGREES; t++) graph->degree[t] = t + 1;
  for (int v = 0; v < problem->items; v++) MakeItem(&numbers, graph, v);
  for (int v = 0; v < problem->items; v++)
    for (int w = v + 1; w < problem->items; w++) {
      if (Below(&numbers, 10) > 3) continue;
      int e = problem->edges++;
      graph->edge[2 * e] = v;
      graph->edge[2 * e + 1] = w;
      graph->edge_bytes[e] = Below(&numbers, 6);
      for (int t = 0; t < DEGREES; t++) {
        graph->receive[e * DEGREES + t] = Below(&numbers, 3);
        graph->send[e * DEGREES + t] = Below(&numbers, 3);
      }
    }
}

/* The least seconds of a set at a degree on d replicas with y stored; HUGE_VAL: it does not fit. */
static double WeighSet(const RengaCutsShardProblem *problem, int set, int t, int d, int y)
{
  double least = HUGE_VAL, bytes = 0, weight = 0;
  for (int v = 0; v < problem->items; v++) {
    if (!(set >> v & 1)) continue;
    if (!problem->offered[v * DEGREES + t]) return HUGE_VAL;
    weight += problem->weight[v * DEGREES + t];
  }
  for (int e = 0; e < problem->edges; e++) {
    bool from = set >> problem->edge[2 * e] & 1, to = set >> problem->edge[2 * e + 1] & 1;
    if (from && !to) bytes += problem->edge_bytes[e] + problem->send_bytes[e * DEGREES + t];
    if (to && !from) bytes += problem->edge_bytes[e] + problem->receive_bytes[e * DEGREES + t];
  }
  for (int slow = set;; slow = (slow - 1) & set) {
    double seconds = 0, memory = 0;
    for (int v = 0; v < problem->items; v++) {
      if (!(set >> v & 1)) continue;
      const RengaCutsOption *option =
          &problem->option[(v * DEGREES + t) * OPTIONS + (slow >> v & 1)];
      seconds += option->seconds;
      memory += option->memory_each * y + option->memory_once;
    }
    if (memory <= problem->capacity && seconds < least) least = seconds;
    if (slow == 0) break;
  }
  return least / d + 2 * bytes / d / problem->bandwidth +
         4.0 * (d - 1) / d * weight / problem->batch / problem->bandwidth;
}

static bool IsSuffix(const RengaCutsShardProblem *problem, int set)
{
  for (int e = 0; e < problem->edges; e++)
    if ((set >> problem->edge[2 * e] & 1) && !(set >> problem->edge[2 * e + 1] & 1)) return false;
  return true;
}

typedef struct {
  double best[SETS][BATCH + 1][DEVICES + 1]; /* by suffix, sum of replicas, devices */
} Table;

/* Put one more stage before a suffix, in every way. */
static void Extend(const RengaCutsShardProblem *problem, int suffix, int stage, Table *table)
{
  for (int t = 0; t < DEGREES; t++)
    for (int d = 1; d <= problem->batch; d++)
      for (int sum = 0; problem->batch % d == 0 && sum + d <= problem->batch; sum++) {
        int used = d * problem->degree[t], y = (sum + d + d - 1) / d;
        double seconds = used <= problem->devices ? WeighSet(problem, stage, t, d, y) : HUGE_VAL;
        for (int k = 0; seconds < HUGE_VAL && k + used <= problem->devices; k++) {
          double largest = fmax(table->best[suffix][sum][k], seconds);
          double *best = &table->best[suffix | stage][sum + d][k + used];
          if (largest < *best) *best = largest;
        }
      }
}

static double Brute(const RengaCutsShardProblem *problem)
{
  static Table table;
  int all = (1 << problem->items) - 1;
  double least = HUGE_VAL;
  for (int set = 0; set <= all; set++)
    for (int s = 0; s <= BATCH; s++)
      for (int k = 0; k <= DEVICES; k++) table.best[set][s][k] = HUGE_VAL;
  table.best[0][0][0] = 0;
  for (int set = 0; set < all; set++) {
    int rest = all & ~set;
    if (!IsSuffix(problem, set)) continue;
    for (int stage = rest; stage > 0; stage = (stage - 1) & rest)
      if (IsSuffix(problem, set | stage)) Extend(problem, set, stage, &table);
  }
  for (int s = 0; s <= BATCH; s++)
    for (int k = 0; k <= DEVICES; k++) least = fmin(least, table.best[all][s][k]);
  return least;
}

static RengaErrorCode CheckGraph(uint64_t number)
{
  Graph graph;
  RengaCutsShardResult result;
  MakeGraph(number, &graph);
  double least = Brute(&graph.problem);
  RengaCall(RengaCutsSolveShards(&graph.problem, &result));
  RengaCheck(least == HUGE_VAL ? result.seconds == HUGE_VAL
                               : fabs(result.seconds - least) <= 1e-9 * least + 1e-12,
             MPI_COMM_SELF, RENGA_ERR_INTERNAL, "graph %d: %s %.15g, but all plans have %.15g",
             (int)number, RengaCutsProofName(result.proof), result.seconds, least);
  RengaCutsFreeShardResult(&result);
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  for (int g = 0; g < GRAPHS; g++) RengaCall(CheckGraph((uint64_t)g));
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
