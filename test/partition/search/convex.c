/* TEST ranks: 1 */
/* Convex stages beside those of a layout, on random small networks with random costs: what is found
   and proved is what trying every assignment of nodes to stages finds. */
#include "../../../src/partition/search/search.h"
#include "../../check.h"
#include "rengacomm.h"
#include "rengagraph.h"
#include <math.h>

enum { GRAPHS = 600, NODES = 8, STAGES = 3, WIDTH = 16, WEIGHTS = 3, BUFFERS_MOST = 3 };

typedef struct {
  uint64_t graph, next;
} Numbers;

static int Below(Numbers *numbers, int limit)
{
  float number;
  RengaRandomUniform(numbers->graph, 11, numbers->next++, 1, &number);
  const int below = (int)((double)number * limit);
  return below < limit ? below : limit - 1;
}

/* Sums of earlier values and parameters, which nodes may share. */
static RengaErrorCode MakeGraph(Numbers *numbers, RengaComm comm, RengaGraph *graph)
{
  const RengaTensorSpec batch = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, WIDTH}};
  const RengaTensorSpec one = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {WIDTH}};
  const RengaInit zero = {.kind = RENGA_INIT_CONSTANT};
  const int n_nodes = 1 + Below(numbers, NODES);
  RengaValue made[NODES + 1], weight[WEIGHTS];
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphAddInput(*graph, "x", &batch, &made[0]));
  for (int w = 0; w < WEIGHTS; w++) {
    char name[16];
    snprintf(name, sizeof name, "w%d", w);
    RengaCall(RengaGraphAddParameter(*graph, name, &one, &zero, &weight[w]));
  }
  for (int n = 0; n < n_nodes; n++) {
    const RengaValue left = made[Below(numbers, n + 1)];
    const bool weighted = n == 0 || Below(numbers, 2);
    const RengaValue right =
        weighted ? weight[Below(numbers, WEIGHTS)] : made[1 + Below(numbers, n)];
    RengaCall(RengaGraphAddAdd(*graph, left, right, &made[n + 1]));
    RengaCall(RengaGraphAddOutput(*graph, made[n + 1]));
  }
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

typedef struct {
  RengaGraph graph;
  SearchTask task;
  SearchChain chain;
  SearchModel model;
  SearchLayout layout;
  RengaProfileCost cost[NODES], *costs[1];
  SearchStage stage[STAGES];
  int64_t size, leaf;
} Case;

static RengaErrorCode FillCase(Numbers *numbers, Case *test)
{
  test->size = 1 + Below(numbers, 3);
  test->leaf = 1;
  for (int n = 0; n < NODES; n++)
    test->cost[n] = (RengaProfileCost){Below(numbers, 8), Below(numbers, 8)};
  test->costs[0] = test->cost;
  test->task = (SearchTask){.graph = test->graph,
                            .ranks = STAGES,
                            .wanted.replicas = 1,
                            .moments = Below(numbers, 3),
                            .batch = 4 * test->size,
                            .memory = Below(numbers, 2) ? 0 : 4 * WIDTH * (3 + Below(numbers, 12)),
                            .exact = Below(numbers, 2),
                            .accumulate_rate = Below(numbers, 2) ? 1.0 / WIDTH : 0,
                            .n_sizes = 1,
                            .size = &test->size,
                            .leaf = &test->leaf,
                            .costs = test->costs,
                            .n_first = 1};
  RengaCall(RengaSearchChainCreate_Private(test->graph, NULL, &test->chain));
  RengaCall(RengaSearchModelOf_Private(&test->task, &test->chain, 0, false, &test->model));
  test->model.candidate[0].message_latency = Below(numbers, 4);
  test->model.candidate[0].message_rate = Below(numbers, 4) / (4.0 * WIDTH);
  test->model.candidate[0].least_buffers = 1 + Below(numbers, BUFFERS_MOST);
  return RENGA_SUCCESS;
}

/* Stages of about as many places. */
static void FillLayout(int stages, Case *test)
{
  const int count = test->model.count;
  test->layout = (SearchLayout){
      .microbatch = test->size, .leaf = test->leaf, .count = stages, .stage = test->stage};
  for (int s = 0; s < stages; s++)
    test->stage[s] = (SearchStage){.begin = s * count / stages,
                                   .end = (s + 1) * count / stages,
                                   .shape = RengaStageShapePlain(1)};
}

static bool Crosses(RengaGraph graph, RengaValue v)
{
  return v >= 0 && RengaGraphGetValue(graph, v)->producer >= 0;
}

static int StageOf(const Case *test, const int stage_of[], int node)
{
  for (int c = 0; c < test->model.count; c++)
    if (test->chain.node[c] == node) return stage_of[c];
  return -1;
}

static double MessagesOf(const Case *test, const int stage_of[], int stage)
{
  const SearchCandidate *candidate = &test->model.candidate[0];
  const double each =
      candidate->message_latency + candidate->message_rate * 4.0 * WIDTH * (double)test->size;
  double sum = 0;
  for (int v = 0; v < RengaGraphGetValueCount(test->graph); v++) {
    bool here = false, there = false;
    if (!Crosses(test->graph, v)) continue;
    const int from = StageOf(test, stage_of, RengaGraphGetValue(test->graph, v)->producer);
    if (from == stage) here = true;
    if (from != stage) there = true;
    for (int c = 0; c < test->model.count; c++) {
      const RengaGraphNode *node = RengaGraphGetNode(test->graph, test->chain.node[c]);
      for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] == v && stage_of[c] == stage) here = true;
        if (node->in[i] == v && stage_of[c] != stage) there = true;
      }
    }
    if (here && there) sum += each;
  }
  return sum;
}

/* Of a stage: seconds, and the bytes that it holds for sure. */
static double WeighStage(const Case *test, const int stage_of[], int stage, double *bytes)
{
  bool used[64] = {false}; /* values */
  double work = 0;
  *bytes = 0;
  for (int c = 0; c < test->model.count; c++) {
    const int n = test->chain.node[c];
    const RengaGraphNode *node = RengaGraphGetNode(test->graph, n);
    if (stage_of[c] == stage) work += test->cost[n].forward + test->cost[n].backward;
    for (int i = 0; i < node->n_in; i++) {
      const RengaGraphValue *value = RengaGraphGetValue(test->graph, node->in[i]);
      if (value->kind != RENGA_VALUE_PARAMETER) continue;
      const int copies =
          test->model.candidate[0].least_buffers + (used[node->in[i]] ? 0 : 1 + test->task.moments);
      used[node->in[i]] = true;
      if (stage_of[c] != stage) continue;
      work += test->task.accumulate_rate * WIDTH;
      *bytes += 4.0 * WIDTH * copies;
    }
  }
  return fmax(work, MessagesOf(test, stage_of, stage));
}

static bool IsConvex(const Case *test, const int stage_of[])
{
  for (int c = 0; c < test->model.count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(test->graph, test->chain.node[c]);
    for (int i = 0; i < node->n_in; i++)
      if (Crosses(test->graph, node->in[i]) &&
          StageOf(test, stage_of, RengaGraphGetValue(test->graph, node->in[i])->producer) >
              stage_of[c])
        return false;
  }
  return true;
}

/* HUGE_VAL: over the memory. */
static double Bottleneck(const Case *test, const int stage_of[], bool bounded)
{
  double longest = 0, bytes;
  for (int s = 0; s < test->layout.count; s++) {
    longest = fmax(longest, WeighStage(test, stage_of, s, &bytes));
    if (bounded && test->task.memory > 0 && bytes > test->task.memory) return HUGE_VAL;
  }
  return longest;
}

static double Least(const Case *test)
{
  const int count = test->model.count, stages = test->layout.count;
  int stage_of[NODES] = {0}, c = 0;
  double least = HUGE_VAL;
  while (c < count) {
    if (IsConvex(test, stage_of)) least = fmin(least, Bottleneck(test, stage_of, true));
    for (c = 0; c < count && ++stage_of[c] == stages; c++) stage_of[c] = 0;
  }
  return least;
}

static double Own(const Case *test)
{
  int stage_of[NODES] = {0};
  for (int s = 0; s < test->layout.count; s++)
    for (int c = test->stage[s].begin; c < test->stage[s].end; c++) stage_of[c] = s;
  return Bottleneck(test, stage_of, false);
}

static RengaErrorCode CheckCase(const Case *test, int *better)
{
  SearchConvex convex;
  const double own = Own(test), least = Least(test);
  RengaCall(
      RengaSearchConvex_Private(&test->task, &test->chain, &test->model, &test->layout, &convex));
  Expect(convex.compared == (test->layout.count > 1 && own > 0));
  if (!convex.compared) return RENGA_SUCCESS;
  Expect(convex.proved && fabs(convex.own - own) <= 1e-9 * own);
  const bool wins = least < own * (1 - 1e-9);
  Expect((convex.stages > 0) == wins);
  Expect(fabs(convex.least - (wins ? least : own)) <= 1e-9 * own);
  Expect(convex.bound == convex.least);
  *better += wins && !convex.intervals;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckGraph(RengaComm comm, uint64_t number, int *better)
{
  Numbers numbers = {number, 0};
  Case test = {.graph = NULL};
  RengaCall(MakeGraph(&numbers, comm, &test.graph));
  RengaCall(FillCase(&numbers, &test));
  for (int stages = 1; stages <= STAGES && stages <= test.model.count; stages++) {
    FillLayout(stages, &test);
    RengaCall(CheckCase(&test, better));
  }
  RengaSearchModelFree_Private(&test.model);
  RengaSearchChainFree_Private(&test.chain);
  RengaCall(RengaGraphDestroy(&test.graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  int better = 0;
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &comm));
  for (int g = 0; g < GRAPHS; g++) RengaCall(CheckGraph(comm, (uint64_t)g, &better));
  Expect(better > 0);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
