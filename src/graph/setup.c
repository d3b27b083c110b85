/* Canonical form: the order of the steps that make it. */
#include "graphimpl.h"

/* Outputs and the loss are made by nodes, so that each belongs to a stage. */
static RengaErrorCode SeparateOutputs(RengaGraph graph)
{
  for (int i = 0; i < graph->n_outputs; i++) {
    RengaValue out = RENGA_VALUE_NONE, *place = &graph->output[i];
    const RengaGraphValue *value = graph->value[*place];
    if (value->kind == RENGA_VALUE_ACTIVATION) continue;
    RengaCall(RengaGraphInsertNode(graph, "Identity", NULL, NULL, 1, place, 1, NULL, &out));
    *place = out;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNotEmpty(RengaGraph graph)
{
  RengaCheck(graph->n_outputs > 0 || graph->loss >= 0, MPI_COMM_SELF, RENGA_ERR_GRAPH,
             "the graph has neither an output nor a loss: call RengaGraphSetLoss or "
             "RengaGraphAddOutput");
  RengaCheck(graph->loss < 0 || graph->value[graph->loss]->producer >= 0, MPI_COMM_SELF,
             RENGA_ERR_GRAPH, "the loss \"%s\" is made by no node",
             graph->value[graph->loss]->name);
  return RENGA_SUCCESS;
}

/* Sorting after each step that removes or adds nodes keeps the order topological. */
static RengaErrorCode (*const steps[])(RengaGraph graph) = {
    CheckNotEmpty,         SeparateOutputs,         RengaGraphRemoveDead, RengaGraphSortNodes,
    RengaGraphSimplify,    RengaGraphSortNodes,     RengaGraphFuse,       RengaGraphSortNodes,
    RengaGraphSimplify,    RengaGraphRemoveDead,    RengaGraphSortNodes,  RengaGraphRewriteMeans,
    RengaGraphSortNodes,   RengaGraphSimplify,      RengaGraphSortNodes,  RengaGraphAddAdapters,
    RengaGraphSortNodes,   RengaGraphChooseTrained, RengaGraphMarkValues, RengaGraphCheckSamples,
    RengaGraphCheckShares, RengaGraphKeepUnsplit,
};
enum { N_STEPS = sizeof steps / sizeof steps[0] };

static RengaErrorCode ViewFromOptions(RengaGraph graph)
{
  RengaViewer viewer;
  if (graph->options.view == NULL) return RENGA_SUCCESS;
  RengaCall(RengaViewerCreate(graph->hdr.owner, graph->options.view, &viewer));
  RengaErrorCode code = RengaGraphView(graph, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetUp - bring a network into canonical form, check and mark it

   Collective

   Input:
   . graph - the graph; afterwards it is read-only

   Options:
   . -graph_view KIND:FILE - show the result
   . -graph_frozen PATTERNS - parameters that are not trained
   . -graph_lora RANK, -graph_lora_targets PATTERNS - adapters of products are trained, and all else
     is frozen
   . -graph_lanes L|auto - the network is computed in L lanes, the same on any layout
   . -graph_token_lanes L - the same, in lanes of the tokens of a sequence or the rows of an image
   . -graph_split PATTERN:HOW,... - nodes that lanes have in a certain manner: whole, lanes (in
     some manner), columns, rows
   . -graph_trained PATTERNS - parameters that are, whatever the file or -graph_frozen says
   . -precision fp32|bf16|fp16|tf32|fp8 - the types that tensors are kept in
   . -precision_keep PATTERNS - nodes whose tensors and parameters stay float32

   Errors: RENGA_ERR_GRAPH where there is neither an output nor a loss, no node makes the loss,
   or a node mixes the samples of the batch; RENGA_ERR_SUPPORT for losses of samples that the
   network does not have; RENGA_ERR_OPTION for a pattern that fits nothing, or nodes that lanes
   cannot have as asked; RENGA_ERR_FILE_OPEN where -graph_view names a file that cannot be written.

   Notes: nodes and values that neither the loss nor an output needs are removed, duplicates are
   made one, patterns are fused, means over the batch become sums divided by a BatchSum. Values are
   renumbered: find them by name. Instead of a node that is computed in lanes there are NODE.lane0,
   NODE.lane1, …, and where these are added up NODE is their sum. Refused are networks that would
   mix the samples of a batch, and those whose loss in a micro-batch is not a share of the loss of
   the batch.

   See also: RengaGraphLoad(), RengaGraphAddNode(), RengaGraphDifferentiate()
@*/
RengaErrorCode RengaGraphSetUp(RengaGraph graph)
{
  RengaCheckPointer(graph);
  if (graph->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  RengaCall(RengaGraphTakeSteps(graph, N_STEPS, steps));
  RengaCall(RengaGraphSplit(graph));
  RengaCall(ViewFromOptions(graph));
  return RENGA_SUCCESS;
}
