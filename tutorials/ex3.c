/* TEST ranks: 1 4 */
/* Example 3: plan by hand.

   Partition turns a graph into a Plan: which nodes form which pipeline stage, how many replicas,
   which ranks. A plan is made without running anything, on one process, for any number of ranks;
   it can be looked at, saved, edited, loaded and checked.

     ./ex3 -graph gpt:layers=4,hidden=64,heads=4,sequence=32,vocabulary=256
*/
#include <renga.h>
#include <stdlib.h>

static const char help[] =
    "Cuts a network into two stages by the name of a node, for four ranks.\n";

static RengaErrorCode Plan(RengaGraph graph, RengaComm comm, const char *type, RengaPlan *plan)
{
  RengaPartition partition;
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetType(partition, type));
  RengaCall(
      RengaPartitionSetRanks(partition, 4)); /* those it is to run on, not those we have now */
  RengaCall(RengaPartitionSetStages(partition, 2));
  RengaCall(RengaPartitionSetReplicas(partition, 2));
  RengaCall(RengaPartitionSetBatch(partition, 32, 4));
  if (type[0] == 'm') { /* manual: stage 1 begins at the node in the middle of the order */
    const RengaGraphNode *middle = RengaGraphGetNode(graph, RengaGraphGetNodeCount(graph) / 2);
    RengaCall(RengaPartitionManualSetCuts(partition, middle->name));
  }
  RengaCall(RengaPartitionSolve(partition, plan));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaViewer viewer;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "gpt:layers=4,hidden=64,heads=4,sequence=32,vocabulary=256"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaViewerCreate(comm, "ascii", &viewer));

  /* even: stages of about equal work. */
  RengaPlan even, manual;
  RengaCall(Plan(graph, comm, RENGA_PARTITION_EVEN, &even));
  RengaCall(RengaPlanView(even, viewer));

  /* manual: we know better, or think so. */
  RengaCall(Plan(graph, comm, RENGA_PARTITION_MANUAL, &manual));
  RengaCall(RengaPlanView(manual, viewer));

  /* Who is where? */
  for (int rank = 0; rank < RengaPlanGetRankCount(manual); rank++) {
    int stage, replica;
    RengaCall(RengaPlanFindRank(manual, rank, &stage, &replica));
    RengaCall(RengaPrintf(MPI_COMM_WORLD, "rank %d: stage %d, replica %d\n", rank, stage, replica));
  }

  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(RengaPlanDestroy(&manual));
  RengaCall(RengaPlanDestroy(&even));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  bool answered;
  RengaCallAbort(RengaInitialize(&argc, &argv, help));
  RengaCallAbort(RengaAnswerHelp(&answered)); /* -help, -version */
  if (!answered) RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
