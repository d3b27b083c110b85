/* TEST ranks: 1 */
/* Each allocation of the exact solvers fails, in its turn: they end with an error and leave no
   memory behind. */
#include "../check.h"
#include "renga/private/cuts.h"
#include "renga/private/fault.h"
#include <math.h>

/* A ladder: item i goes to i + 1 and i + 2, and sends one message to both. */
enum { ITEMS = 14, EDGES = 2 * ITEMS - 3, DEVICES = 3, REPLICAS = 2, DEGREES = 2 };
static RengaCutsItem items[ITEMS];
static int edges[2 * EDGES], first[ITEMS + 1], pins[3 * ITEMS];
static double costs[ITEMS], resynchronise[REPLICAS + 1];

static RengaCutsProblem MakeLadder(void)
{
  int n_edges = 0, n_pins = 0;
  for (int i = 0; i < ITEMS; i++) {
    items[i] =
        (RengaCutsItem){.work = 3 + i * 7 % 5, .host_work = 40, .memory = 1, .weight = i % 3};
    costs[i] = 0.5 + i % 2;
    first[i] = n_pins;
    for (int to = i; to < ITEMS && to <= i + 2; to++) pins[n_pins++] = to;
    for (int to = i + 1; to < ITEMS && to <= i + 2; to++) {
      edges[2 * n_edges] = i;
      edges[2 * n_edges++ + 1] = to;
    }
  }
  first[ITEMS] = n_pins;
  resynchronise[REPLICAS] = 0.25;
  return (RengaCutsProblem){.items = ITEMS,
                            .edges = n_edges,
                            .messages = ITEMS,
                            .item = items,
                            .edge = edges,
                            .message_cost = costs,
                            .message_first = first,
                            .message_pin = pins,
                            .devices = DEVICES,
                            .capacity = HUGE_VAL};
}

static RengaErrorCode CallSolve(const RengaCutsProblem *problem)
{
  RengaCutsResult result;
  RengaCall(RengaCutsSolve(problem, &result));
  RengaCutsFreeResult(&result);
  return RENGA_SUCCESS;
}

static RengaErrorCode CallHosts(const RengaCutsProblem *problem)
{
  RengaCutsProblem hosts = *problem;
  hosts.hosts = 1;
  hosts.capacity = 6;
  RengaCall(CallSolve(&hosts));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallReplicas(const RengaCutsProblem *problem)
{
  RengaCutsProblem several = *problem;
  several.replicas = REPLICAS;
  several.resynchronise = resynchronise;
  RengaCall(CallSolve(&several));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallSpread(const RengaCutsProblem *problem)
{
  RengaCutsResult result;
  RengaCutsSpreadResult spread;
  RengaCall(RengaCutsSolve(problem, &result));
  const RengaErrorCode code = RengaCutsSpread(problem, &result, 1000, &spread);
  RengaCutsFreeResult(&result);
  RengaCall(code);
  RengaCutsFreeSpreadResult(&spread);
  return RENGA_SUCCESS;
}

static RengaErrorCode CallEvaluate(const RengaCutsProblem *problem)
{
  int stage_of[ITEMS];
  RengaCutsStage stages[2] = {{.replicas = 1}, {.replicas = 1}};
  for (int i = 0; i < ITEMS; i++) stage_of[i] = i >= ITEMS / 2;
  RengaCall(RengaCutsEvaluate(problem, stage_of, 2, stages));
  return RENGA_SUCCESS;
}

static RengaErrorCode CallLevels(const RengaCutsProblem *problem)
{
  const RengaCutsLevel levels[] = {{.devices = REPLICAS, .resynchronise = resynchronise},
                                   {.devices = REPLICAS, .resynchronise = resynchronise}};
  RengaCutsProblem silent = *problem;
  RengaCutsResult result;
  silent.messages = 0;
  RengaCall(RengaCutsSolveLevels(&silent, 2, levels, &result));
  RengaCutsFreeResult(&result);
  return RENGA_SUCCESS;
}

static RengaErrorCode CallColoured(const RengaCutsProblem *problem)
{
  RengaCutsNode nodes[ITEMS];
  RengaCutsColoured coloured;
  for (int i = 0; i < ITEMS; i++)
    nodes[i] = (RengaCutsNode){.item = problem->item[i],
                               .message = 1,
                               .colour = i < ITEMS / 2 ? i : ITEMS - 1 - i,
                               .backward = i >= ITEMS / 2};
  RengaCall(RengaCutsCreateColoured(ITEMS, nodes, problem->edges, problem->edge, &coloured));
  RengaCutsFreeColoured(&coloured);
  return RENGA_SUCCESS;
}

static RengaErrorCode CallShards(const RengaCutsProblem *problem)
{
  static const int degree[DEGREES] = {1, 2};
  static double bytes[EDGES], weight[ITEMS * DEGREES], more[EDGES * DEGREES];
  static bool offered[ITEMS * DEGREES];
  static RengaCutsOption option[ITEMS * DEGREES];
  RengaCutsShardResult result;
  for (int i = 0; i < ITEMS * DEGREES; i++) {
    offered[i] = true;
    option[i] = (RengaCutsOption){10 - 4 * (i % DEGREES), 1, 1};
  }
  const RengaCutsShardProblem shards = {.items = ITEMS,
                                        .edges = problem->edges,
                                        .degrees = DEGREES,
                                        .options = 1,
                                        .edge = problem->edge,
                                        .edge_bytes = bytes,
                                        .degree = degree,
                                        .offered = offered,
                                        .weight = weight,
                                        .option = option,
                                        .receive_bytes = more,
                                        .send_bytes = more,
                                        .devices = 4,
                                        .batch = 4,
                                        .bandwidth = 1,
                                        .capacity = HUGE_VAL};
  RengaCall(RengaCutsSolveShards(&shards, &result));
  RengaCutsFreeShardResult(&result);
  return RENGA_SUCCESS;
}

static const struct {
  const char *name;
  RengaErrorCode (*call)(const RengaCutsProblem *problem);
} calls[] = {
    {"solve", CallSolve},       {"hosts", CallHosts},   {"replicas", CallReplicas},
    {"spread", CallSpread},     {"levels", CallLevels}, {"evaluate", CallEvaluate},
    {"coloured", CallColoured}, {"shards", CallShards},
};

static RengaErrorCode TryCall(int c, const RengaCutsProblem *problem, int64_t n, int64_t *left)
{
  char text[2000] = "";
  FILE *file;
  const unsigned mark = RengaMemoryGetMark();
  const int saved = BeginErrors(&file);
  RengaFaultSet(RENGA_FAULT_ALLOCATION, n);
  const RengaErrorCode code = calls[c].call(problem);
  RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
  const char *errors = EndErrors(file, saved);
  const int64_t blocks = RengaMemoryListSince(mark, sizeof text, text);
  if (blocks) printf("%s: allocation %lld leaves%s\n", calls[c].name, (long long)n, text);
  *left += blocks;
  Expect(code == RENGA_ERR_MEMORY && strstr(errors, "error"));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  const RengaCutsProblem problem = MakeLadder();
  int64_t left = 0;
  for (int c = 0; c < (int)(sizeof calls / sizeof calls[0]); c++) {
    RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
    RengaCall(calls[c].call(&problem));
    const int64_t count = RengaFaultGetCount(RENGA_FAULT_ALLOCATION);
    const int64_t stride = count > 400 ? count / 400 : 1;
    Expect(count > 0);
    printf("%s: %lld allocations\n", calls[c].name, (long long)count);
    for (int64_t n = 1; n <= count; n += stride) RengaCall(TryCall(c, &problem, n, &left));
  }
  Expect(left == 0);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
