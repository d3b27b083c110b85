/* TEST ranks: 1 */
/* Example 2: build a graph and differentiate it.

   A graph is a list of nodes in one order. Its batch is open: a dimension -1 is "the batch", -c
   is c times the batch, and all shapes become numbers only when a stage is compiled for a micro-
   batch size. Reverse mode appends nodes to the graph: you can look at them like at any other.

     ./ex2
*/
#include <renga.h>

static const char help[] = "Builds a two-layer network with a tied table and differentiates it.\n";

enum { vocabulary = 50, width = 16, sequence = 8 };

/* tokens -> table -> linear -> gelu -> the same table as output layer -> cross-entropy */
static RengaErrorCode Build(RengaGraph graph)
{
  const RengaTensorSpec tokens_spec = {.type = RENGA_INT64, .ndim = 2, .dim = {-1, sequence}};
  const RengaTensorSpec table_spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {vocabulary, width}};
  const RengaInit init = {.kind = RENGA_INIT_NORMAL, .a = 0, .b = 0.02};
  RengaValue tokens, labels, table;
  RengaCall(RengaGraphAddInput(graph, "tokens", &tokens_spec, &tokens));
  RengaCall(RengaGraphAddInput(graph, "labels", &tokens_spec, &labels));
  RengaCall(RengaGraphAddParameter(graph, "table", &table_spec, &init, &table));

  RengaValue x, hidden, active, scores, loss;
  RengaCall(RengaGraphAddEmbedding(graph, table, tokens, &x)); /* [batch, sequence, width] */
  RengaCall(RengaGraphAddLinear(graph, "hidden", x, width, true, 0.02, &hidden));
  RengaCall(RengaGraphAddUnary(graph, "Gelu", hidden, &active));

  /* Any operator of the table can be added by name; here the table is used a second time,
     transposed. */
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "transB", 1));
  RengaCall(RengaGraphAddNode(graph, "Linear", "scores", &attributes, 2,
                              (const RengaValue[]){active, table}, 1, NULL, &scores));
  RengaCall(RengaAttributesFree(&attributes));

  /* The mean over all labels of the batch, however it will be cut into micro-batches. */
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(Build(graph));
  RengaCall(RengaGraphSetUp(graph)); /* canonical form and checks; from here on it is read-only */

  RengaGraphTotals totals;
  RengaCall(RengaGraphGetTotals(graph, &totals));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "%lld parameters, %g FLOPs per sample forward\n",
                        (long long)totals.parameters, totals.forward_flops));

  /* Differentiate a copy that may grow: the whole network taken as one stage. */
  RengaGraph stage;
  RengaCall(RengaGraphGetSubgraph(graph, 0, RengaGraphGetNodeCount(graph), &stage));
  const int forward_nodes = RengaGraphGetNodeCount(stage);
  RengaCall(RengaGraphDifferentiate(stage, 0, NULL, NULL, 0, NULL, NULL));

  /* The backward nodes come in two kinds: those that a gradient of an activation waits for, and
     those
     that only a parameter's gradient does. Schedules may run the second kind later. */
  int waited_for = 0, deferrable = 0;
  for (int i = forward_nodes; i < RengaGraphGetNodeCount(stage); i++)
    RengaGraphGetNode(stage, i)->phase == RENGA_PHASE_BACKWARD_INPUT ? waited_for++ : deferrable++;
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "%d forward nodes, %d + %d backward nodes\n", forward_nodes,
                        waited_for, deferrable));

  /* The table is used twice, so it has two gradients; the runtime adds them in a fixed order. */
  int uses, table_uses = 0;
  const RengaParameterUse *use;
  RengaCall(RengaGraphGetParameterUses(stage, &uses, &use));
  for (int i = 0; i < uses; i++)
    if (use[i].parameter == RengaGraphFindValue(stage, "table")) table_uses++;
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "%d uses of parameters, %d of them of the table\n", uses,
                        table_uses));
  RengaCheck(table_uses == 2, MPI_COMM_SELF, RENGA_ERR_GRAPH, "the table has %d uses, not 2",
             table_uses);

  RengaCall(RengaGraphDestroy(&stage));
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
