/* Exact cuts of others' graphs: value beside the reference, size of the search, time and memory.
   With an argument: only workloads whose name has it; chain: long chains of layers. */
#include "../solvers/graphs.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COLOURED "dnn-partitioning/throughput/"

static double Milliseconds(void)
{
  return 1e3 * (double)clock() / CLOCKS_PER_SEC;
}

static double PeakMegabytes(void)
{
  size_t bytes, peak;
  int64_t blocks;
  RengaMemoryGetUsage(&bytes, &peak, &blocks);
  return (double)peak / 1e6;
}

/* What the reader of the graph freed is put together when much is asked for: before time runs. */
static RengaErrorCode SettleMemory(void)
{
  char *block = NULL;
  RengaCall(RengaMalloc(1 << 20, &block));
  RengaFree(&block);
  return RENGA_SUCCESS;
}

static void PrintRow(const char *name, const GraphsReference *row, const RengaCutsResult *result,
                     double milliseconds)
{
  printf("| %s | %s | %d | %.4g | %.10g | %.10g | %s | %d | %lld | %lld | %d | %.1f | %.0f |\n",
         name, row->devices, row->hosts, row->memory / 1e9, result->load, row->value,
         RengaCutsProofName(result->proof), result->items, (long long)result->ideals,
         (long long)result->pairs, result->probes, milliseconds, PeakMegabytes());
  fflush(stdout);
}

static RengaErrorCode RunColoured(const GraphsReference *row)
{
  RengaCutsColoured coloured;
  RengaCutsResult result;
  const char *name = row->workload + strlen(COLOURED);
  RengaCall(GraphsReadColoured(name, &coloured));
  coloured.problem.devices = atoi(row->devices);
  coloured.problem.hosts = row->hosts;
  coloured.problem.capacity = row->memory;
  RengaCall(SettleMemory());
  double begin = Milliseconds();
  RengaCall(RengaCutsSolve(&coloured.problem, &result));
  PrintRow(name, row, &result, Milliseconds() - begin);
  RengaCutsFreeResult(&result);
  RengaCutsFreeColoured(&coloured);
  return RENGA_SUCCESS;
}

/* Virtual stages, beside others' local search. */
static RengaErrorCode RunSpread(const GraphsReference *row)
{
  RengaCutsColoured coloured;
  RengaCutsResult stages;
  RengaCutsSpreadResult spread;
  const char *name = row->workload + strlen(COLOURED);
  RengaCall(GraphsReadColoured(name, &coloured));
  RengaCall(RengaCutsSolve(&coloured.problem, &stages));
  double begin = Milliseconds();
  RengaCall(RengaCutsSpread(&coloured.problem, &stages, 0, &spread));
  printf("| %s | %.10g | %.10g | %.10g | %.10g | %.1f %% | %.0f |\n", name, stages.load,
         spread.load, row->value, spread.bound, 100 * (spread.load / spread.bound - 1),
         Milliseconds() - begin);
  RengaCutsFreeSpreadResult(&spread);
  RengaCutsFreeResult(&stages);
  RengaCutsFreeColoured(&coloured);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunShards(const GraphsReference *row)
{
  GraphsShards shards;
  RengaCutsShardResult result;
  RengaCall(GraphsReadShards("bert32a100", &shards));
  shards.problem.devices = atoi(row->devices);
  shards.problem.batch = 1920;
  shards.problem.bandwidth = 25.0 * (1 << 30);
  shards.problem.capacity = row->memory;
  double begin = Milliseconds();
  RengaCall(RengaCutsSolveShards(&shards.problem, &result));
  RengaCutsResult same = {.proof = result.proof,
                          .load = result.seconds,
                          .items = shards.problem.items,
                          .ideals = result.ideals,
                          .pairs = result.pairs,
                          .probes = result.probes};
  PrintRow("piper/bert32", row, &same, Milliseconds() - begin);
  RengaCutsFreeShardResult(&result);
  GraphsFreeShards(&shards);
  return RENGA_SUCCESS;
}

/* Seconds per byte of weight, and per replica, as PipeDream's optimizer has them. */
static void FillTable(int devices, double bandwidth, double divide, double table[])
{
  for (int d = 1; d <= devices; d++) table[d] = 4.0 * (d - 1) / d / d / bandwidth / divide;
}

/* Devices "16", or "4x4"; the note begins with the bandwidth of each level. */
static RengaErrorCode SolveProfile(const GraphsReference *row, RengaCutsProblem *problem,
                                   RengaCutsResult *result)
{
  double bandwidth[2] = {0}, table[2][64], first[64];
  int devices[2];
  sscanf(row->note, "bw=%lf %lf", &bandwidth[0], &bandwidth[1]);
  int levels = sscanf(row->devices, "%dx%d", &devices[0], &devices[1]);
  FillTable(devices[0], bandwidth[0], 1, table[0]);
  if (levels == 1) {
    problem->devices = problem->replicas = devices[0];
    problem->resynchronise = table[0];
    RengaCall(RengaCutsSolve(problem, result));
    return RENGA_SUCCESS;
  }
  FillTable(devices[1], bandwidth[1], 1, table[1]);
  FillTable(devices[1], bandwidth[1], devices[0], first);
  const RengaCutsLevel level[] = {{devices[0], table[0], NULL}, {devices[1], table[1], first}};
  RengaCall(RengaCutsSolveLevels(problem, levels, level, result));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunProfile(const GraphsReference *row)
{
  GraphsProfile profile;
  RengaCutsResult result;
  RengaCall(GraphsReadProfile(strchr(row->workload, '/') + 1, &profile));
  double begin = Milliseconds();
  RengaCall(SolveProfile(row, &profile.problem, &result));
  PrintRow(row->workload, row, &result, Milliseconds() - begin);
  RengaCutsFreeResult(&result);
  GraphsFreeProfile(&profile);
  return RENGA_SUCCESS;
}

/* A layer of a transformer: its twelve items, whom each sends to, counted from its layer's first
   item, and what that takes. */
enum { LAYER = 12, MOST_SENT = 3 };
static const double layer_work[LAYER] = {.02, 1, 1, 1, .4, 1, .02, .02, 4, .1, 4, .02};
static const double layer_cost[LAYER] = {.1, .1, .1, .1, .1, .1, .1, .1, .4, .4, .1, .1};
static const int layer_to[LAYER][MOST_SENT] = {{1, 2, 3}, {4}, {4}, {4},  {5},  {6},
                                               {7, 11},   {8}, {9}, {10}, {11}, {12, 18}};

static RengaErrorCode SolveChain(int layers, int devices, RengaCutsResult *result)
{
  int items = LAYER * layers, edges = 0, pins = 0, *edge, *first, *pin;
  double *cost;
  RengaCutsItem *item;
  RengaCall(RengaMalloc(items, &item));
  RengaCall(RengaMalloc(items, &cost));
  RengaCall(RengaMalloc(2 * MOST_SENT * items, &edge));
  RengaCall(RengaMalloc(items + 1, &first));
  RengaCall(RengaMalloc((1 + MOST_SENT) * items, &pin));
  for (int v = 0; v < items; v++) {
    item[v].work = layer_work[v % LAYER] * (1 + 0.001 * ((v * 7919LL) % 13));
    cost[v] = layer_cost[v % LAYER] / 20;
    pin[pins++] = v;
    for (int s = 0; s < MOST_SENT; s++) {
      int to = v - v % LAYER + layer_to[v % LAYER][s];
      if (layer_to[v % LAYER][s] == 0 || to >= items) continue;
      edge[2 * edges] = v;
      edge[2 * edges++ + 1] = pin[pins++] = to;
    }
    first[v + 1] = pins;
  }
  RengaCutsProblem problem = {.items = items,
                              .edges = edges,
                              .messages = items,
                              .item = item,
                              .edge = edge,
                              .message_cost = cost,
                              .message_first = first,
                              .message_pin = pin,
                              .devices = devices,
                              .capacity = HUGE_VAL};
  RengaCall(RengaCutsSolve(&problem, result));
  RengaFree(&item);
  RengaFree(&cost);
  RengaFree(&edge);
  RengaFree(&first);
  RengaFree(&pin);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunChains(void)
{
  static const int sizes[][2] = {{96, 64}, {1600, 256}, {8334, 1024}, {8334, 16384}};
  printf("| layers | devices | load | bound | proof | ideals | pairs | ms | peak MB |\n"
         "|---|---|---|---|---|---|---|---|---|\n");
  for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++) {
    RengaCutsResult result;
    double begin = Milliseconds();
    RengaCall(SolveChain(sizes[i][0], sizes[i][1], &result));
    printf("| %d | %d | %.8g | %.8g | %s | %lld | %lld | %.0f | %.0f |\n", sizes[i][0], sizes[i][1],
           result.load, result.bound, RengaCutsProofName(result.proof), (long long)result.ideals,
           (long long)result.pairs, Milliseconds() - begin, PeakMegabytes());
    RengaCutsFreeResult(&result);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(const char *only)
{
  int count = 0;
  GraphsReference *row = NULL;
  RengaCheck(GraphsFolder(), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "no ../shared/graphs: set RENGA_GRAPHS");
  RengaCall(GraphsReadReferences(&count, &row));
  printf("| graph | devices | hosts | GB | load | reference | proof | items | ideals | pairs | "
         "probes | ms | peak MB |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (int r = 0; r < count; r++) {
    if (only && !strstr(row[r].workload, only)) continue;
    if (!strcmp(row[r].method, "prunedDP_opt")) RengaCall(RunColoured(&row[r]));
    if (!strcmp(row[r].method, "piper_Piper")) RengaCall(RunShards(&row[r]));
    if (!strcmp(row[r].method, "pipedream_opt_replicated")) RengaCall(RunProfile(&row[r]));
  }
  printf("| graph | convex | virtual | local search of others | bound | gap | ms |\n"
         "|---|---|---|---|---|---|---|\n");
  for (int r = 0; r < count; r++) {
    if (only && !strstr(row[r].workload, only)) continue;
    if (strstr(row[r].method, "localsearch")) RengaCall(RunSpread(&row[r]));
  }
  RengaFree(&row);
  if (!only || !strcmp(only, "chain")) RengaCall(RunChains());
  return RENGA_SUCCESS;
}

static RengaErrorCode Main(int argc, char **argv)
{
  const char *only = argc > 1 ? argv[1] : NULL;
  RengaCall(RengaInitialize(&argc, &argv, NULL));
  RengaCall(Run(only));
  RengaCall(RengaFinalize());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(Main(argc, argv));
  return 0;
}
