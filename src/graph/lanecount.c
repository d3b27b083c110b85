/* The same network in other numbers of lanes, for planners that choose one. Where the number is
   open the graph keeps a copy of itself as it was before it was split; steps from there on make a
   graph in any number of lanes of it, which is the one that would be made of the file. */
#include "graphimpl.h"
#include <string.h>

static RengaErrorCode CopyWholeValue(const RengaGraphValue *from, RengaGraph to)
{
  RengaValue number;
  RengaCall(RengaGraphNewValue(to, from->name, from->kind, &from->spec, &number));
  RengaGraphValue *made = to->value[number];
  char *name = made->name;
  *made = *from;
  made->name = name;
  RengaCall(RengaGraphCopyContents(from, made));
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyOutputList(RengaGraph from, RengaGraph to)
{
  RengaCall(RengaMalloc(from->n_outputs + 1, &to->output));
  for (int i = 0; i < from->n_outputs; i++) to->output[i] = from->output[i];
  to->n_outputs = from->n_outputs;
  return RENGA_SUCCESS;
}

/* All that the steps before lanes have made; to: an empty graph. */
static RengaErrorCode CopyUnsplit(RengaGraph from, RengaGraph to)
{
  for (int v = 0; v < from->n_values; v++) RengaCall(CopyWholeValue(from->value[v], to));
  for (int i = 0; i < from->n_nodes; i++) RengaCall(RengaGraphCopyEntry(from->entry[i], to));
  RengaCall(CopyOutputList(from, to));
  to->loss = from->loss;
  to->seed = from->seed;
  to->file_batch = from->file_batch;
  memcpy(to->fitted, from->fitted, sizeof to->fitted);
  to->flags = from->flags;
  RengaCall(RengaGraphCopyOptions(from, to));
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateUnsplit(RengaGraph from, RengaGraph *copy)
{
  RengaCall(RengaGraphCreate(from->hdr.owner, copy));
  const RengaErrorCode code = CopyUnsplit(from, *copy);
  if (code) RengaGraphDestroy(copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

bool RengaGraphLanesAreOpen_Private(RengaGraph graph)
{
  return graph->unsplit != NULL && graph->unsplit->options.lanes_open;
}

bool RengaGraphTokensAreOpen_Private(RengaGraph graph)
{
  const RengaGraphOptions *options = graph->unsplit ? &graph->unsplit->options : NULL;
  return options && options->token_lanes == 0 && !options->split;
}

RengaErrorCode RengaGraphKeepUnsplit(RengaGraph graph)
{
  const RengaGraphOptions *options = &graph->options;
  const bool open = options->lanes_open || (options->token_lanes == 0 && !options->split);
  if (!open || graph->unsplit) return RENGA_SUCCESS;
  RengaCall(CreateUnsplit(graph, &graph->unsplit));
  return RENGA_SUCCESS;
}

/* From here on the number of lanes matters. */
static RengaErrorCode (*const split_steps[])(RengaGraph graph) = {
    RengaGraphSplitLanes,   RengaGraphSplitTokens,     RengaGraphCompleteOutputs,
    RengaGraphSortNodes,    RengaGraphAddSampleLosses, RengaGraphCompactValues,
    RengaGraphMarkValues,   RengaGraphSetKeys,         RengaGraphFindUpdates,
    RengaGraphChooseStored, RengaGraphFindAllReaders,
};
enum { N_SPLIT_STEPS = sizeof split_steps / sizeof split_steps[0] };

RengaErrorCode RengaGraphTakeSteps(RengaGraph graph, int count,
                                   RengaErrorCode (*const step[])(RengaGraph graph))
{
  for (int i = 0; i < count; i++) {
    RengaCall(step[i](graph));
    graph->place = -1;
    RengaGraphFreeScratch(graph);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphSplit(RengaGraph graph)
{
  RengaCall(RengaGraphTakeSteps(graph, N_SPLIT_STEPS, split_steps));
  graph->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

static RengaErrorCode FillInLanes(RengaGraph graph, int lanes, int tokens, RengaGraph made)
{
  RengaCall(RengaHeaderReplace(&made->unsplit, graph->unsplit));
  if (lanes > 0) made->options.lanes = lanes;
  made->options.lanes_at_most = made->options.lanes_at_most || lanes > 0;
  if (tokens > 1) made->options.token_lanes = tokens;
  RengaCall(RengaGraphSplit(made));
  return RENGA_SUCCESS;
}

static bool IsOutputNamed(RengaGraph graph, const char *name)
{
  for (int o = 0; o < graph->n_outputs; o++)
    if (!strcmp(graph->value[graph->output[o]]->name, name)) return true;
  return false;
}

/* Those that were asked for once the graph was set up; *all: the other one makes them, too. */
static RengaErrorCode AddLaterOutputs(RengaGraph graph, RengaGraph made, bool *all)
{
  *all = true;
  for (int o = 0; o < graph->n_outputs; o++) {
    const char *name = graph->value[graph->output[o]]->name;
    if (IsOutputNamed(made, name)) continue;
    const RengaValue value = RengaGraphFindValue(made, name);
    *all = *all && value != RENGA_VALUE_NONE;
    if (value != RENGA_VALUE_NONE) RengaCall(RengaGraphAddOutput(made, value));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphInLanes_Private(RengaGraph graph, int lanes, int tokens, RengaGraph *made)
{
  bool all = true;
  *made = NULL;
  RengaCall(CreateUnsplit(graph->unsplit, made));
  RengaErrorCode code = FillInLanes(graph, lanes, tokens, *made);
  if (!code) code = AddLaterOutputs(graph, *made, &all);
  const bool fewer = !code && ((lanes > 1 && ((*made)->options.lanes < lanes ||
                                              (*made)->in_lanes[RENGA_LANES_OF_HEADS] == 0)) ||
                               (tokens > 1 && (*made)->in_lanes[RENGA_LANES_OF_TOKENS] == 0));
  if (code || fewer || !all) RengaGraphDestroy(made);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Each keeps its own header, so that handles stay what they are. */
void RengaGraphExchange_Private(RengaGraph one, RengaGraph other)
{
  const struct _p_RengaObject header = one->hdr, others = other->hdr;
  const struct _p_RengaGraph kept = *one;
  *one = *other;
  *other = kept;
  one->hdr = header;
  other->hdr = others;
}
