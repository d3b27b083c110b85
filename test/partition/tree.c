/* TEST ranks: 1 2 */
/* Stages along the tree of names: cuts lie between subtrees as long as there are enough of them,
   and in proportion to what they cost. */
#include "../check.h"
#include "renga.h"

enum { STAGES_MOST = 64 };

/* Linears of given widths, all with the paths that are given. */
static RengaErrorCode MakeChain(RengaComm comm, int count, const char *const names[],
                                const int widths[], RengaGraph *graph)
{
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, widths[0]}};
  RengaValue x;
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphAddInput(*graph, "x", &spec, &x));
  for (int i = 0; i < count; i++)
    RengaCall(RengaGraphAddLinear(*graph, names[i], x, widths[i + 1], false, 0.1, &x));
  RengaCall(RengaGraphAddOutput(*graph, x));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Solve(RengaComm comm, RengaGraph graph, int stages, double weight,
                            RengaPlan *plan)
{
  RengaPartition partition;
  double got = 0;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_TREE));
  RengaCall(RengaPartitionTreeSetMemoryWeight(partition, weight));
  RengaCall(RengaPartitionTreeGetMemoryWeight(partition, &got));
  Expect(got == weight);
  RengaCall(RengaPartitionSetRanks(partition, STAGES_MOST));
  RengaCall(RengaPartitionSetStages(partition, stages));
  const RengaErrorCode code = RengaPartitionSolve(partition, plan);
  RengaCall(RengaPartitionDestroy(&partition));
  return code;
}

/* The stages begin at these nodes. */
static RengaErrorCode CheckCuts(RengaComm comm, RengaGraph graph, int stages, double weight,
                                const char *const wanted[])
{
  RengaPlan plan;
  RengaCall(Solve(comm, graph, stages, weight, &plan));
  Expect(RengaPlanGetStageCount(plan) == stages);
  for (int s = 1; s < stages; s++) {
    const char *name = RengaGraphGetNode(graph, RengaPlanGetStage(plan, s)->first)->name;
    if (strcmp(name, wanted[s - 1]))
      printf("stage %d begins at %s, not at %s\n", s, name, wanted[s - 1]);
    Expect(!strcmp(name, wanted[s - 1]));
  }
  RengaCall(RengaPlanDestroy(&plan));
  return RENGA_SUCCESS;
}

/* The encoder costs four times the decoder: of five stages it gets four, of two and three all, and
   the decoder goes with its last. The head never gets one of its own. */
static RengaErrorCode CheckSubtrees(RengaComm comm)
{
  static const char *const names[] = {"encoder.0.a", "stray",       "encoder.1.a", "encoder.1.b",
                                      "encoder.2.a", "encoder.2.b", "encoder.3.a", "encoder.3.b",
                                      "decoder/0/a", "decoder/0/b", "head"};
  static const int widths[] = {32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 1};
  static const char *const two[] = {"encoder.2.a"};
  static const char *const three[] = {"encoder.2.a", "encoder.3.a"};
  static const char *const five[] = {"encoder.1.a", "encoder.2.a", "encoder.3.a", "decoder/0/a"};
  RengaGraph graph;
  RengaCall(MakeChain(comm, 11, names, widths, &graph));
  for (int w = 0; w <= 10; w += 5) {
    RengaCall(CheckCuts(comm, graph, 2, w / 10.0, two));
    RengaCall(CheckCuts(comm, graph, 3, w / 10.0, three));
    RengaCall(CheckCuts(comm, graph, 5, w / 10.0, five));
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* One child costs nearly all, and the others nothing that counts: cuts are within it. */
static RengaErrorCode CheckHeavy(RengaComm comm)
{
  static const char *const names[] = {"light", "heavy.a", "heavy.b", "heavy.c", "tail"};
  static const int widths[] = {1, 64, 64, 64, 64, 1};
  static const char *const two[] = {"heavy.b"}, *const three[] = {"heavy.b", "heavy.c"};
  RengaGraph graph;
  RengaPlan plan;
  RengaCall(MakeChain(comm, 5, names, widths, &graph));
  RengaCall(Solve(comm, graph, 2, 0, &plan));
  const char *name = RengaGraphGetNode(graph, RengaPlanGetStage(plan, 1)->first)->name;
  Expect(!strcmp(name, two[0]) || !strcmp(name, "heavy.c"));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(CheckCuts(comm, graph, 3, 0, three));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Any number of stages up to that of the nodes, on a network with all that networks have. */
static RengaErrorCode CheckAllNumbers(RengaComm comm)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "gpt:layers=3,hidden=16,heads=2,sequence=8,vocabulary=17"));
  RengaCall(RengaGraphSetUp(graph));
  int stages = 1;
  for (; stages < 50; stages++) {
    RengaCall(Solve(comm, graph, stages, 0.2, &plan));
    Expect(RengaPlanGetStageCount(plan) == stages);
    if (stages == 3) {
      const char *name = RengaGraphGetNode(graph, RengaPlanGetStage(plan, 2)->first)->name;
      Expect(!strncmp(name, "blocks.2.", 9));
    }
    RengaCall(RengaPlanDestroy(&plan));
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckErrors(RengaComm comm)
{
  static const char *const names[] = {"a.b", "a.c"};
  static const int widths[] = {4, 4, 4};
  const int rank = RengaCommGetRank(comm);
  RengaGraph graph;
  RengaPlan plan;
  RengaPartition partition;
  RengaCall(MakeChain(comm, 2, names, widths, &graph));
  ExpectError(Solve(comm, graph, 3, 0.2, &plan), RENGA_ERR_PLAN, rank ? "" : "only 2 nodes");
  RengaCall(RengaPartitionCreate(comm, &partition));
  ExpectError(RengaPartitionTreeSetMemoryWeight(partition, 0.5), RENGA_ERR_ORDER,
              rank ? "" : "for a partition of type tree");
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_TREE));
  ExpectError(RengaPartitionTreeSetMemoryWeight(partition, 1.5), RENGA_ERR_ARGUMENT,
              rank ? "" : "within 0 and 1");
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckSubtrees(comm));
  RengaCall(CheckHeavy(comm));
  RengaCall(CheckAllNumbers(comm));
  RengaCall(CheckErrors(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
