/* TEST ranks: 1 6 timeout: 600 */
/* Gradients added up in leaves of several micro-batches: the same bits on any layout, where leaves
   do not divide the step, the last micro-batch is short, replicas have no leaf, and stages have
   different numbers of replicas. Leaves of one and of two are the same sum; leaves take fewer
   buffers. */
#include "run.h"

static const int64_t samples[] = {13, 13, 5, 1};
static const Run networks[] = {
    {.graph = "skip", .classes = 4},
    {.graph = "gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1", .classes = 11},
    {.graph = "resnet:depth=18,width=0.0625,image=33,classes=5", .classes = 5, .optimizer = "sgd"},
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0], LARGEST_LEAF = 3 };

static const struct {
  int stages, replicas[4];
  unsigned recompute;
  const char *schedule;
} layouts[] = {
    {1, {1}, 1, "1f1b"},       {1, {2}, 0, "gpipe"},         {1, {3}, 0, "1f1b"},
    {2, {1, 1}, 1, "gpipe"},   {2, {2, 2}, 0, "1f1b"},       {2, {2, 2}, 2, "gpipe"},
    {3, {1, 1, 1}, 0, "1f1b"}, {2, {3, 3}, 0, "1f1b"},       {2, {1, 2}, 0, "1f1b"},
    {2, {3, 1}, 1, "1f1b"},    {3, {3, 1, 2}, 5, "1f1b"},    {2, {2, 3}, 3, "gpipe"},
    {2, {1, 3}, 0, "1f1b"},    {4, {1, 2, 1, 2}, 4, "1f1b"},
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static int CountRanks(int l)
{
  int ranks = 0;
  for (int s = 0; s < layouts[l].stages; s++) ranks += layouts[l].replicas[s];
  return ranks;
}

static RengaErrorCode CheckLayouts(RengaComm comm, Run run, const Result *expected)
{
  for (int l = 0; l < N_LAYOUTS; l++) {
    Result result;
    run.stages = layouts[l].stages;
    run.unequal = layouts[l].replicas;
    run.recompute = layouts[l].recompute;
    run.schedule = layouts[l].schedule;
    run.poison = l % 2 == 0;
    if (CountRanks(l) > RengaCommGetSize(comm)) continue;
    RengaCall(RunAll(comm, &run, &result));
    RengaCall(RunCompare(&run, expected, &result));
  }
  return RENGA_SUCCESS;
}

/* Seven micro-batches: leaves of 2, 2, 2, 1, and of 3, 3, 1. */
static RengaErrorCode CheckNetwork(RengaComm self, RengaComm comm, Run run)
{
  Result expected[LARGEST_LEAF + 1];
  run.device = "cpu";
  run.batch = 13;
  run.microbatch = 2;
  run.steps = sizeof samples / sizeof samples[0];
  run.samples = samples;
  run.clip_norm = 0.5;
  run.stages = run.replicas = 1;
  run.schedule = "1f1b";
  for (run.leaf = 1; run.leaf <= LARGEST_LEAF; run.leaf++) {
    RengaCall(RunAll(self, &run, &expected[run.leaf]));
    for (int i = 0; i < run.steps; i++) Expect(expected[run.leaf].norm[i] > 0);
    if (run.leaf > 1) RengaCall(CheckLayouts(comm, run, &expected[run.leaf]));
  }
  Expect(expected[2].digest == expected[1].digest);
  Expect(expected[3].digest != expected[1].digest);
  return RENGA_SUCCESS;
}

/* Sixteen micro-batches: 4 levels of pairs, whose leaves need no buffer of their own; 4 leaves of 4
   have 2 levels and a leaf in the making; one leaf of all has itself. */
static RengaErrorCode CheckMemory(RengaComm self)
{
  static const int64_t whole[] = {16};
  static const struct {
    int64_t leaf;
    int buffers;
  } rows[] = {{1, 4}, {2, 4}, {4, 3}, {8, 2}, {16, 1}, {100, 1}};
  Run run = {.graph = "mlp:sizes=6-16-12-8-5",
             .device = "cpu",
             .stages = 1,
             .replicas = 1,
             .classes = 5,
             .batch = 16,
             .microbatch = 1,
             .steps = 1,
             .samples = whole};
  int64_t buffer = 0;
  for (size_t i = sizeof rows / sizeof rows[0]; i-- > 0;) {
    Result result;
    run.leaf = rows[i].leaf;
    RengaCall(RunAll(self, &run, &result));
    if (!buffer) buffer = result.memory.gradients;
    Expect(result.memory.gradients == rows[i].buffers * buffer);
    Expect(result.memory.forecast == result.memory.measured);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefusal(RengaComm comm)
{
  Run run = {.graph = "mlp:sizes=6-16-12-8-5", .stages = 1, .replicas = 6, .batch = 13};
  RengaGraph graph;
  RengaPlan plan;
  run.microbatch = 2;
  run.leaf = 3;
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  ExpectError(RengaPlanCheck(plan, graph, 0), RENGA_ERR_PLAN,
              RengaCommGetRank(comm) ? ""
                                     : "stage 0 has 6 replicas, but the 7 micro-batches of a step "
                                       "make only 3 leaves of 3");
  ExpectError(RengaPlanSetLeaf(plan, 0), RENGA_ERR_ARGUMENT,
              RengaCommGetRank(comm) ? "" : "a leaf of 0 micro-batches");
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm, self;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  for (int n = 0; n < UnlessSlow(N_NETWORKS, 2); n++)
    RengaCall(CheckNetwork(self, comm, networks[n]));
  RengaCall(CheckMemory(self));
  RengaCall(CheckRefusal(comm));
  RengaCall(RengaCommDestroy(&self));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
