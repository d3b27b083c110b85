/* TEST ranks: 1 */
/* Even is as good as trying all cuts; manual cuts where it is told; errors have numbers. */
#include "network.h"
#include <math.h>

enum { MOST_NODES = 256 };

typedef struct {
  int count; /* nodes that are not prepared */
  int node[MOST_NODES];
  double before[MOST_NODES + 1];
} Chain;

static bool IsSent(RengaGraph graph, int v, int before)
{
  const RengaGraphValue *value = v >= 0 ? RengaGraphGetValue(graph, v) : NULL;
  return value && value->kind == RENGA_VALUE_ACTIVATION && !value->prepared &&
         value->producer >= 0 && value->producer < before;
}

/* Bytes per sample of values that are made before a stage's first place and read in it, once each:
   by where it begins and ends. */
static double received[MOST_NODES + 1][MOST_NODES + 1];

static void FillReceived(RengaGraph graph, const Chain *chain, int begin)
{
  bool *seen;
  RengaCallAbort(RengaMalloc(RengaGraphGetValueCount(graph) + 1, &seen));
  received[begin][begin] = 0;
  for (int c = begin; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, chain->node[c]);
    received[begin][c + 1] = received[begin][c];
    for (int i = 0; i < node->n_in; i++) {
      const int v = node->in[i];
      if (!IsSent(graph, v, chain->node[begin]) || seen[v]) continue;
      const RengaTensorSpec spec = RengaTensorSpecAt(&RengaGraphGetValue(graph, v)->spec, 1);
      received[begin][c + 1] += (double)RengaTensorSpecBytes(&spec);
      seen[v] = true;
    }
  }
  RengaFree(&seen);
}

static void FillChain(RengaGraph graph, Chain *chain)
{
  chain->count = 0;
  chain->before[0] = 0;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    double flops;
    if (TestPrepared(graph, n)) continue;
    TestTrue(chain->count < MOST_NODES);
    RengaCallAbort(RengaGraphGetNodeFlops(graph, n, 1, &flops));
    chain->node[chain->count] = n;
    chain->before[chain->count + 1] = chain->before[chain->count] + flops;
    chain->count++;
  }
  for (int c = 0; c < chain->count; c++) FillReceived(graph, chain, c);
}

/* Least largest load, by the plain dynamic program; then the least bytes under that load. */
static void Best(const Chain *chain, int stages, double slack, double *load, double *bytes)
{
  static double least[MOST_NODES + 1][33], fewest[MOST_NODES + 1][33];
  for (int pass = 0; pass < 2; pass++)
    for (int end = 0; end <= chain->count; end++)
      for (int s = 0; s <= stages; s++) {
        double *best = pass ? &fewest[end][s] : &least[end][s];
        *best = end == 0 && s == 0 ? 0 : HUGE_VAL;
        for (int begin = 0; s && begin < end; begin++) {
          double own = chain->before[end] - chain->before[begin], total;
          if (pass == 0)
            total = fmax(least[begin][s - 1], own);
          else
            total = own <= *load ? fewest[begin][s - 1] + received[begin][end] : HUGE_VAL;
          if (total < *best) *best = total;
        }
        if (pass == 0 && end == chain->count && s == stages) *load = *best * (1 + slack);
      }
  *bytes = fewest[chain->count][stages];
}

static int PlaceOf(const Chain *chain, int node)
{
  int place = 0;
  while (place < chain->count && chain->node[place] < node) place++;
  return place;
}

static void CheckEven(RengaComm comm, const char *network, double slack)
{
  RengaGraph graph;
  Chain chain;
  RengaCallAbort(RengaGraphCreate(comm, &graph));
  RengaCallAbort(RengaGraphLoad(graph, network));
  RengaCallAbort(RengaGraphSetUp(graph));
  FillChain(graph, &chain);
  for (int stages = 1; stages <= chain.count && stages <= 32; stages += stages < 9 ? 1 : 7) {
    RengaPartition partition;
    RengaPlan plan;
    double load = 0, bytes = 0, own_load = 0, own_bytes = 0;
    RengaCallAbort(RengaPartitionCreate(comm, &partition));
    RengaCallAbort(RengaPartitionSetGraph(partition, graph));
    RengaCallAbort(RengaPartitionSetStages(partition, stages));
    RengaCallAbort(RengaPartitionSetRanks(partition, 40));
    RengaCallAbort(RengaPartitionSetBatch(partition, 40, 1)); /* each replica has work */
    RengaCallAbort(RengaPartitionEvenSetSlack(partition, slack));
    RengaCallAbort(RengaPartitionSolve(partition, &plan));
    TestTrue(RengaPlanGetStageCount(plan) == stages);
    TestTrue(RengaPlanGetStage(plan, 0)->shape.replicas == 40 / stages);
    for (int s = 0; s < stages; s++) {
      const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
      int begin = s ? PlaceOf(&chain, stage->first) : 0, end = PlaceOf(&chain, stage->last);
      own_load = fmax(own_load, chain.before[end] - chain.before[begin]);
      own_bytes += received[begin][end];
    }
    Best(&chain, stages, slack, &load, &bytes);
    TestTrue(slack > 0 ? own_load <= load : own_load == load);
    TestTrue(own_bytes == bytes);
    RengaCallAbort(RengaPlanDestroy(&plan));
    RengaCallAbort(RengaPartitionDestroy(&partition));
  }
  RengaCallAbort(RengaGraphDestroy(&graph));
}

/* A partition of the small network for 4 ranks. */
static RengaPartition New(RengaComm comm, RengaGraph graph, const char *type, int stages,
                          int replicas)
{
  RengaPartition partition;
  RengaCallAbort(RengaPartitionCreate(comm, &partition));
  RengaCallAbort(RengaPartitionSetType(partition, type));
  RengaCallAbort(RengaPartitionSetGraph(partition, graph));
  RengaCallAbort(RengaPartitionSetRanks(partition, 4));
  RengaCallAbort(RengaPartitionSetStages(partition, stages));
  RengaCallAbort(RengaPartitionSetReplicas(partition, replicas));
  return partition;
}

static void CheckLayout(RengaComm comm, RengaGraph graph, int stages, int replicas, int want_stages,
                        int want_replicas)
{
  RengaPlan plan;
  RengaPartition partition = New(comm, graph, RENGA_PARTITION_EVEN, stages, replicas);
  RengaCallAbort(RengaPartitionSolve(partition, &plan));
  TestTrue(RengaPlanGetStageCount(plan) == want_stages);
  TestTrue(RengaPlanGetStage(plan, 0)->shape.replicas == want_replicas);
  RengaCallAbort(RengaPlanDestroy(&plan));
  RengaCallAbort(RengaPartitionDestroy(&partition));
}

static void CheckLayoutError(RengaComm comm, RengaGraph graph, int stages, int replicas,
                             const char *text)
{
  RengaPlan plan = NULL;
  RengaPartition partition = New(comm, graph, RENGA_PARTITION_EVEN, stages, replicas);
  TestError(RengaPartitionSolve(partition, &plan), RENGA_ERR_PLAN, text);
  TestTrue(plan == NULL);
  RengaCallAbort(RengaPartitionDestroy(&partition));
}

static void CheckCuts(RengaComm comm, RengaGraph graph, const char *cuts, int first, int second)
{
  RengaPlan plan;
  RengaPartition partition = New(comm, graph, RENGA_PARTITION_MANUAL, 0, 1);
  RengaCallAbort(RengaPartitionManualSetCuts(partition, cuts));
  RengaCallAbort(RengaPartitionSolve(partition, &plan));
  TestTrue(RengaPlanGetStageCount(plan) == 3);
  TestTrue(RengaPlanGetStage(plan, 1)->first == first);
  TestTrue(RengaPlanGetStage(plan, 2)->first == second);
  RengaCallAbort(RengaPlanDestroy(&plan));
  RengaCallAbort(RengaPartitionDestroy(&partition));
}

static void CheckCutsError(RengaComm comm, RengaGraph graph, int stages, const char *cuts,
                           const char *text)
{
  RengaPlan plan = NULL;
  RengaPartition partition = New(comm, graph, RENGA_PARTITION_MANUAL, stages, 1);
  if (cuts) RengaCallAbort(RengaPartitionManualSetCuts(partition, cuts));
  TestError(RengaPartitionSolve(partition, &plan), RENGA_ERR_PLAN, text);
  RengaCallAbort(RengaPartitionDestroy(&partition));
}

static void CheckManual(RengaComm comm, RengaGraph graph)
{
  char cuts[256];
  int first = TestFind(graph, "Linear", 1), second = TestFind(graph, "Add", 0);
  int n_nodes = RengaGraphGetNodeCount(graph);
  const RengaGraphNode *one = RengaGraphGetNode(graph, first),
                       *two = RengaGraphGetNode(graph, second);
  snprintf(cuts, sizeof cuts, "%s, %s", one->name, two->name);
  CheckCuts(comm, graph, cuts, first, second);
  snprintf(cuts, sizeof cuts, "%s,%s", RengaGraphGetValue(graph, one->out[0])->name, two->name);
  CheckCuts(comm, graph, cuts, first, second);
  snprintf(cuts, sizeof cuts, "%d,%d,%d", first, second - first, n_nodes - second);
  CheckCuts(comm, graph, cuts, first, second);
  snprintf(cuts, sizeof cuts, "%s,%s", two->name, one->name);
  CheckCutsError(comm, graph, 0, cuts, "name the cuts in the order of the network");
  CheckCutsError(comm, graph, 0, "1,2", "the stages have 3 nodes together");
  CheckCutsError(comm, graph, 0, "0,2", "stage 0 has 0 of the network's");
  CheckCutsError(comm, graph, 0, "nosuchnode", "cut \"nosuchnode\": the network has no node");
  CheckCutsError(comm, graph, 0, "x", "no node makes this value");
  CheckCutsError(comm, graph, 3, one->name, "the cuts make 2 stages, but 3 stages are asked for");
}

/* Two of 4 ranks for each place: one of two stages, or of two replicas. */
static void CheckTensor(RengaComm comm, RengaGraph graph)
{
  RengaPlan plan = NULL;
  int tensor = 0;
  for (int stages = 1; stages <= 2; stages++) {
    RengaPartition partition = New(comm, graph, RENGA_PARTITION_EVEN, stages, 0);
    RengaCallAbort(RengaPartitionSetTensor(partition, 2));
    RengaCallAbort(RengaPartitionGetTensor(partition, &tensor));
    TestTrue(tensor == 2);
    RengaCallAbort(RengaPartitionSolve(partition, &plan));
    const RengaPlanPlace place = {.stage = stages - 1, .replica = 2 - stages, .tensor = 1};
    TestTrue(RengaPlanGetStage(plan, 0)->shape.tensor == 2 && RengaPlanGetRankCount(plan) == 4);
    TestTrue(RengaPlanGetRankAt(plan, &place) == 3);
    RengaCallAbort(RengaPlanDestroy(&plan));
    RengaCallAbort(RengaPartitionSetTensor(partition, 3));
    TestError(RengaPartitionSolve(partition, &plan), RENGA_ERR_PLAN, "but there are 4");
    TestError(RengaPartitionSetTensor(partition, -2), RENGA_ERR_ARGUMENT,
              "-2 tensor-parallel ranks");
    TestError(RengaPartitionSetSequence(partition, -2), RENGA_ERR_ARGUMENT,
              "-2 context-parallel ranks");
    RengaCallAbort(RengaPartitionSetSequence(partition, 3));
    RengaCallAbort(RengaPartitionGetSequence(partition, &tensor));
    TestTrue(tensor == 3);
    RengaCallAbort(RengaPartitionSetSequence(partition, 0));
    RengaCallAbort(RengaPartitionDestroy(&partition));
  }
}

static void CheckSetters(RengaComm comm, RengaGraph graph)
{
  const char *type;
  RengaPlan plan;
  int64_t batch, microbatch;
  RengaPartition partition = New(comm, graph, RENGA_PARTITION_EVEN, 1, 1);
  RengaCallAbort(RengaPartitionGetType(partition, &type));
  TestTrue(!strcmp(type, RENGA_PARTITION_EVEN));
  TestError(RengaPartitionManualSetCuts(partition, "a"), RENGA_ERR_ORDER, "type manual");
  TestError(RengaPartitionSetType(partition, "evne"), RENGA_ERR_ARGUMENT, "did you mean even");
  double slack;
  RengaCallAbort(RengaPartitionEvenGetSlack(partition, &slack));
  TestTrue(slack == 0.02);
  TestError(RengaPartitionEvenSetSlack(partition, -1), RENGA_ERR_ARGUMENT, "a slack of -1");
  TestError(RengaPartitionSetStages(partition, -1), RENGA_ERR_ARGUMENT, "-1 stages");
  RengaCallAbort(RengaPartitionSetMemory(partition, 1 << 20));
  RengaCallAbort(RengaPartitionSolve(partition, &plan));
  RengaCallAbort(RengaPlanGetBatch(plan, &batch, &microbatch));
  TestTrue(batch == 32 && microbatch == 4);
  RengaCallAbort(RengaPlanGetMemoryLimit(plan, &batch));
  TestTrue(batch == 1 << 20);
  RengaCallAbort(RengaPlanDestroy(&plan));
  RengaCallAbort(RengaPartitionDestroy(&partition));
  RengaCallAbort(RengaPartitionCreate(comm, &partition));
  TestError(RengaPartitionSolve(partition, &plan), RENGA_ERR_ORDER, "RengaPartitionSetGraph");
  RengaCallAbort(RengaPartitionDestroy(&partition));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaGraph graph = TestNetwork(comm);
  CheckLayout(comm, graph, 0, 0, 1, 4);
  CheckLayout(comm, graph, 2, 0, 2, 2);
  CheckLayout(comm, graph, 3, 0, 3, 1);
  CheckLayout(comm, graph, 0, 2, 2, 2);
  CheckLayout(comm, graph, 2, 1, 2, 1);
  CheckLayoutError(comm, graph, 3, 2, "3 stages x 2 replicas need 6 ranks, but there are 4");
  CheckLayoutError(comm, graph, 5, 0, "5 stages need at least 5 ranks, but there are 4");
  CheckLayoutError(comm, graph, 0, 5, "5 replicas need at least 5 ranks, but there are 4");
  CheckLayoutError(comm, graph, 500, 0, "500 stages, but the network has only");
  CheckManual(comm, graph);
  CheckTensor(comm, graph);
  CheckSetters(comm, graph);
  for (double slack = 0; slack < 0.2; slack += 0.05) {
    CheckEven(comm, "mlp:sizes=7-31-5-64-64-3-100-10", slack);
    CheckEven(comm, "gpt:layers=3,hidden=16,heads=2,sequence=8,vocabulary=32", slack);
    CheckEven(comm, "resnet:depth=18,image=32,classes=10", slack);
  }
  RengaCallAbort(RengaGraphDestroy(&graph));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
