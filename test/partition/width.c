/* In which ways nodes are computed, against all choices of small random graphs; layers that repeat;
   what is not looked at to the end keeps a true bound; what cannot be is said. */
#include "../check.h"
#include "renga/private/fault.h"
#include "renga/private/width.h"
#include <math.h>

enum { NODES = 8, VALUES = 16, WAYS = 3, STATES = 3, INPUTS = 3, GRAPHS = 1000, LAYERS = 96 };

typedef struct {
  RengaWidthProblem problem;
  int states[VALUES], first_in[NODES + 1], in[NODES * INPUTS], first_out[NODES + 1], out[VALUES];
  int first_way[NODES + 1], first_need[NODES * WAYS], need[NODES * WAYS * (INPUTS + 2)];
  double seconds[NODES * WAYS], convert[VALUES * STATES * STATES];
  int64_t bytes[NODES * WAYS];
  int first_convert[VALUES];
} Small;

static uint64_t drawn;

static int Sides(int count)
{
  float share;
  RengaRandomUniform(11, 0, drawn++, 1, &share);
  return (int)(share * (float)count);
}

/* Whole numbers tie; some conversions are free, some impossible. */
static void MakeValue(Small *graph, int value)
{
  const int states = 1 + Sides(STATES);
  graph->states[value] = states;
  graph->first_convert[value] = value * STATES * STATES;
  double *convert = graph->convert + value * STATES * STATES;
  for (int i = 0; i < states * states; i++)
    convert[i] = i / states == i % states ? 0 : Sides(8) ? Sides(6) : -1;
}

static void MakeWays(Small *graph, int node, int *ways, int *needs)
{
  const int n_in = graph->first_in[node + 1] - graph->first_in[node];
  const int n_out = graph->first_out[node + 1] - graph->first_out[node];
  graph->first_way[node] = *ways;
  for (int w = 1 + Sides(WAYS); w > 0; w--, ++*ways) {
    graph->seconds[*ways] = Sides(3) ? Sides(10) : Sides(1000) / 117.0;
    graph->bytes[*ways] = Sides(3) ? Sides(5) : Sides(50);
    graph->first_need[*ways] = *needs;
    for (int i = 0; i < n_in; i++)
      graph->need[(*needs)++] = Sides(graph->states[graph->in[graph->first_in[node] + i]]);
    for (int o = 0; o < n_out; o++)
      graph->need[(*needs)++] = Sides(graph->states[graph->out[graph->first_out[node] + o]]);
  }
  graph->first_way[node + 1] = *ways;
}

static void MakeSmall(Small *graph)
{
  int values = 0, inputs = 0, ways = 0, needs = 0;
  const int nodes = 1 + Sides(NODES);
  *graph = (Small){.problem = {.nodes = nodes}};
  for (int n = 0; n < nodes; n++) {
    graph->first_in[n] = inputs;
    for (int i = Sides(INPUTS + 1); i > 0 && values > 0; i--) graph->in[inputs++] = Sides(values);
    graph->first_in[n + 1] = inputs;
    graph->first_out[n] = values;
    for (int o = 1 + Sides(2); o > 0; o--, values++) {
      graph->out[values] = values;
      MakeValue(graph, values);
    }
    graph->first_out[n + 1] = values;
    MakeWays(graph, n, &ways, &needs);
  }
  graph->problem = (RengaWidthProblem){.nodes = nodes,
                                       .values = values,
                                       .states = graph->states,
                                       .first_in = graph->first_in,
                                       .in = graph->in,
                                       .first_out = graph->first_out,
                                       .out = graph->out,
                                       .first_way = graph->first_way,
                                       .seconds = graph->seconds,
                                       .bytes = graph->bytes,
                                       .first_need = graph->first_need,
                                       .need = graph->need,
                                       .first_convert = graph->first_convert,
                                       .convert = graph->convert,
                                       .bound = Sides(nodes * 15 + 1)};
}

/* Straight from what the problem says: all pairs of a value and a state in which it is needed. */
static double SecondsOfAll(const Small *g, const int way[], int64_t *bytes)
{
  bool had[VALUES][STATES] = {{false}};
  int made[VALUES] = {0};
  double seconds = 0;
  *bytes = 0;
  for (int n = 0; n < g->problem.nodes; n++) {
    const int w = g->first_way[n] + way[n], n_in = g->first_in[n + 1] - g->first_in[n];
    for (int i = 0; i < n_in; i++) {
      const int v = g->in[g->first_in[n] + i], need = g->need[g->first_need[w] + i];
      const double cost = g->convert[g->first_convert[v] + made[v] * g->states[v] + need];
      if (had[v][need]) continue;
      if (cost < 0) return HUGE_VAL;
      had[v][need] = true;
      seconds += cost;
    }
    for (int o = g->first_out[n]; o < g->first_out[n + 1]; o++) {
      made[o] = g->need[g->first_need[w] + n_in + o - g->first_out[n]];
      had[o][made[o]] = true;
    }
    seconds += g->seconds[w];
    *bytes += g->bytes[w];
  }
  return seconds;
}

static double TryAllWays(const Small *graph)
{
  int way[NODES] = {0};
  double best = HUGE_VAL;
  for (;;) {
    int64_t bytes;
    const double seconds = SecondsOfAll(graph, way, &bytes);
    if (bytes <= graph->problem.bound) best = fmin(best, seconds);
    int n = 0;
    while (n < graph->problem.nodes && ++way[n] == graph->first_way[n + 1] - graph->first_way[n])
      way[n++] = 0;
    if (n == graph->problem.nodes) return best;
  }
}

static RengaErrorCode CheckSmall(int *feasible, int *fronts)
{
  Small graph;
  RengaWidthResult result;
  double seconds;
  int64_t bytes;
  MakeSmall(&graph);
  const double best = TryAllWays(&graph);
  RengaCall(RengaWidthSolve(&graph.problem, &result));
  Expect(result.feasible == isfinite(best));
  if (result.feasible) {
    Expect(result.optimal && fabs(result.seconds - best) < 1e-9 && result.bound == result.seconds);
    RengaCall(RengaWidthEvaluate(&graph.problem, result.way, &seconds, &bytes));
    Expect(seconds == result.seconds && bytes == result.bytes && bytes <= graph.problem.bound);
    ++*feasible;
    *fronts += result.points > 0;
  }
  RengaWidthFreeResult(&result);
  for (int limit = 1; limit < 40; limit *= 3) {
    graph.problem.point_limit = graph.problem.state_limit = limit;
    RengaCall(RengaWidthSolve(&graph.problem, &result));
    if (result.feasible) {
      Expect(result.seconds >= best - 1e-9 && result.bound <= best + 1e-9);
      Expect(!result.optimal || result.seconds <= best + 1e-9);
    }
    RengaWidthFreeResult(&result);
  }
  return RENGA_SUCCESS;
}

/* Columns, then rows, with an all-reduce: Megatron's layer, LAYERS times. Values are whole (0),
   split (1), or a sum (2); to stay whole takes twice as long, and weights twice as many bytes. */
static RengaErrorCode CheckLayers(void)
{
  enum { N = 2 * LAYERS + 1 };
  static int states[N], first_in[N + 1], in[N], first_out[N + 1], out[N], first_way[N + 1];
  static int first_need[2 * N], need[4 * N], first_convert[N];
  static double seconds[2 * N];
  static int64_t bytes[2 * N];
  static const double convert[9] = {0, 0, 0, 1, 0, -1, 1, 0.6, 0};
  int ways = 0, needs = 0;
  for (int n = 0; n < N; n++) {
    states[n] = 3;
    out[n] = first_out[n] = n;
    first_in[n] = n > 0 ? n - 1 : 0;
    if (n > 0) in[n - 1] = n - 1;
    first_way[n] = ways;
    for (int split = 0; split < (n ? 2 : 1); split++, ways++) {
      first_need[ways] = needs;
      if (n) need[needs++] = split && n % 2 == 0; /* rows take a split input, columns a whole one */
      need[needs++] = !split ? 0 : n % 2 ? 1 : 2;
      seconds[ways] = n ? 10 - 5 * split : 0;
      bytes[ways] = n ? 2 - split : 0;
    }
  }
  first_in[N] = N - 1;
  first_out[N] = N;
  first_way[N] = ways;
  RengaWidthProblem problem = {
      N,     N,          states, first_in,      in,      first_out,  out, first_way, seconds,
      bytes, first_need, need,   first_convert, convert, 3 * LAYERS, 0,   0};
  RengaWidthResult result;
  RengaCall(RengaWidthSolve(&problem, &result));
  /* all split; an all-reduce between layers, none behind the last */
  Expect(result.optimal && result.seconds == 10 * LAYERS + LAYERS - 1);
  RengaWidthFreeResult(&result);
  problem.bound = 2 * LAYERS - 1;
  RengaCall(RengaWidthSolve(&problem, &result));
  Expect(!result.feasible && result.bytes == 2 * LAYERS);
  RengaWidthFreeResult(&result);
  first_way[N] = first_way[N - 1];
  ExpectError(RengaWidthSolve(&problem, &result), RENGA_ERR_ARGUMENT, "has no way");
  return RENGA_SUCCESS;
}

/* Each allocation fails, in its turn: an error, and nothing is left. */
static RengaErrorCode CheckFaults(void)
{
  Small graph;
  RengaWidthResult result;
  size_t bytes, peak;
  int64_t before, after;
  do {
    MakeSmall(&graph);
    RengaCall(RengaWidthSolve(&graph.problem, &result));
    RengaWidthFreeResult(&result);
  } while (result.points < 20);
  RengaMemoryGetUsage(&bytes, &peak, &before);
  for (int limit = 2; limit < 1000; limit += 900) {
    graph.problem.state_limit = limit;
    int64_t n = 0;
    RengaErrorCode code;
    do {
      FILE *file;
      const int saved = BeginErrors(&file);
      RengaFaultSet(RENGA_FAULT_ALLOCATION, ++n);
      code = RengaWidthSolve(&graph.problem, &result);
      RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
      EndErrors(file, saved);
      if (code == RENGA_SUCCESS) RengaWidthFreeResult(&result);
      RengaMemoryGetUsage(&bytes, &peak, &after);
      Expect(after == before);
    } while (code != RENGA_SUCCESS);
    Expect(n > 20);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  int feasible = 0, fronts = 0;
  for (int g = 0; g < UnlessSlow(GRAPHS, GRAPHS / 10); g++)
    RengaCall(CheckSmall(&feasible, &fronts));
  Expect(feasible > UnlessSlow(400, 40) && fronts > UnlessSlow(50, 5));
  RengaCall(CheckLayers());
  RengaCall(CheckFaults());
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
